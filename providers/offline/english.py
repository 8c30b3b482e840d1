"""The English that the offline provider knows: word forms and closed lists of words.

Nothing here knows any data. Lists hold function words, ways to compare, to ask for figures, and to
say where something comes from; what a content word stands for is decided by the schema alone.
"""

import re
from functools import lru_cache
from typing import Literal

Op = Literal["eq", "gt", "gte", "lt", "lte"]
OpName = Literal["count", "sum", "avg", "min", "max", "count_distinct"]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _by_word(texts: dict[str, str]) -> dict[str, frozenset[str]]:
    """Read a table of words with the words that each of them stands for."""
    return {word: _words(text) for words, text in texts.items() for word in words.split()}


def _phrases(text: str) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(phrase.split()) for phrase in text.split("|"))


STOP = _words(
    """a an the any some is are was were be been being am there here do does did can could will
    would shall should might must please me that what which who whom whose where when how also if
    got get s either i'd i'm let's"""
)
"""Function words: without content of their own, wherever they stand."""

PEOPLE = _words("us we you i our your")
"""Empty while a question opens ("do we have", "show us"), content elsewhere."""

LEAD = _words(
    """hi hello hey greetings ok okay well just and list show give find display fetch tell print
    name compare enumerate search look lookup retrieve see want need like know let count all every
    now then may"""
)
"""Words that ask, greet or lead in: empty at the start of a question, content elsewhere."""

LEAD_TIES = _by_word(
    {
        "to": "want need like",
        "for": "search look",
        "about": "tell know see me us",
        "up": "look",
        "out": "find",
        "of": "all every",
        "us": "show give tell let",
    }
)
"""Words that are empty behind certain words that lead in: "look for", "want to know"."""

COMPARING = _words("compare vs versus")
"""Words that ask to set values side by side."""

FILLER = _words("records record rows row entries entry data available exist exists existing ones")
"""Words for rows in general; they say nothing unless the schema has them as names."""

CHAT = FILLER | _words(
    """see know access ask answer help thing things anything something everything information info
    many much more tell work works good morning afternoon evening day thanks thank bye database
    contain contains whole stored list lists listed you i we us it your"""
)
"""Words of a question that is about the desk itself, when there are no others."""

CHANGES = _words(
    """delete remove drop set insert add create make update rename change edit modify replace
    increase decrease raise reduce book order buy purchase cancel close reopen approve reject assign
    mark send email mail move copy merge archive restore reset clear erase destroy wipe truncate
    alter grant revoke execute write save upload import export register schedule reserve pay ship
    transfer double fix stop start finish complete put ignore forget pretend disregard override"""
)
"""Verbs that ask to do something, where a sentence opens with them."""

TRADES = _words("order purchase book ship email mail start finish")
TRAITS = _words("price cost total value number status date time address title")
"""Verbs that are no request in front of what they may be said of: "purchase price"."""

POLITE = (
    STOP
    | PEOPLE
    | _words("want need like to let go ahead hi hello hey ok okay well and just try kindly have")
)
"""What may stand before such a verb."""

PRONOUNS = _phrases(
    "of them|of those|of these|of it|they|them|those|these|it|which ones|those ones|these ones"
)
"""Ways to speak of what an earlier question found."""

MORE = _phrases("show more|more please|next page|the rest|go on|continue")
"""Ways to ask for more rows of an earlier answer."""

OTHERS = _phrases("the others|the other ones|the first one|the last one")
"""Ways to lean on an earlier answer that can't be followed."""

CHANGING = _phrases("what about|how about|the same for|the same")
"""Ways to ask an earlier question with something else in it."""

LINKS = _words("and or but then plus only")
"""Words that open what is added to an earlier question."""

FOREIGN = _words(
    """wie viele viel gibt es welche welcher welches sind ist der die das und zeige zeig mir alle
    aus mit von ohne quels quelles quel quelle combien les des est sont avec sans y il montre liste
    cuantas cuantos cuántas cuántos hay que qué cual cuál cuales cuáles los las el con sin para son
    quanti quante quali sono della dei delle gli quantos quantas quais hoeveel zijn welke het een
    hur många finns vilka ile jest jakie"""
) - _words("die a")
"""Function words of some other languages."""

GREETINGS = _words("hi hello hey greetings good morning afternoon evening day there")
THANKS = _words("thanks thank thx cheers")

CALCULATIONS = _words(
    """average avg mean median sum maximum minimum max min most least highest lowest longest
    shortest largest smallest biggest oldest newest latest earliest fastest slowest heaviest
    lightest cheapest dearest tallest densest top bottom per grouped group sorted sort ranked
    ranking percentage percent share ratio distinct unique each total order ordered"""
)
"""Words that ask for a calculation, a ranking or an order."""

EXCLUSIONS = _phrases(
    "other than|but not|no longer|not|isn't|aren't|wasn't|weren't|don't|doesn't|didn't|except|"
    "excluding|never"
)

MISSING = _phrases(
    "do not have|does not have|did not have|not have|don't have|doesn't have|didn't have|"
    "not having|have no|has no|had no|having no|with no|without any|without|lacking|lacks|lack|no"
)

UNSET = _phrases(
    "with missing|with a missing|with empty|with an empty|with unknown|with an unknown|is not set|"
    "is not known|not set|not known|missing|empty|null|unset|blank|unknown"
)
"""Ways to say that a value is not there, which a zero is not."""

_COMPARISONS: tuple[tuple[Op, str], ...] = (
    ("gt", "more than|greater than|bigger than|higher than|larger than|over|above|exceeding|>"),
    ("gte", "more than or equal to|greater than or equal to|at or above|at or over"),
    ("lte", "less than or equal to|fewer than or equal to|at or below|at or under"),
    ("gte", "at least|no less than|not less than|no fewer than|not fewer than|>=|≥|minimum of"),
    ("lt", "less than|fewer than|lower than|smaller than|under|below|<"),
    ("lte", "at most|no more than|not more than|up to|<=|≤|maximum of"),
    ("eq", "exactly|equal to|equals|=|=="),
    ("gt", "after|later than|newer than|younger than"),
    ("gte", "since|in or after|on or after|in or since|from or after"),
    ("lte", "in or before|on or before"),
    ("lt", "before|earlier than|prior to|older than"),
    ("lte", "until|till"),
)
COMPARISONS: dict[tuple[str, ...], Op] = {
    phrase: op for op, text in _COMPARISONS for phrase in _phrases(text)
}
"""Ways to compare that stand before a value."""

IN_TIME = _words("after later newer younger since before earlier prior older until till in on")
"""First words of comparisons that order moments, not amounts."""

TRAILING: dict[tuple[str, ...], Op] = {
    **dict.fromkeys(_phrases("or more|or higher|or later|or newer|and above|and up"), "gte"),
    **dict.fromkeys(_phrases("or less|or fewer|or lower|or earlier|or older|and below"), "lte"),
}
"""Ways to compare that stand behind a number."""

_SCALES = (
    ("longer farther further", "shorter", "longest farthest furthest", "shortest",
     "distance length duration"),
    ("faster", "slower", "fastest quickest", "slowest", "speed velocity"),
    ("heavier", "lighter", "heaviest", "lightest", "weight mass"),
    ("denser", "", "densest", "", "density"),
    ("taller higher", "lower", "tallest highest", "lowest", "height altitude elevation"),
    ("costlier", "cheaper", "costliest dearest priciest", "cheapest", "price cost"),
    ("wider", "", "widest broadest", "narrowest", "width"),
    ("deeper", "", "deepest", "shallowest", "depth"),
    ("hotter warmer", "colder", "hottest warmest", "coldest", "temperature"),
    ("", "", "largest biggest greatest", "smallest", "size area capacity population volume"),
)  # fmt: skip
"""Comparatives for more and less, superlatives for most and least, and words of the measure."""

COMPARATIVES: dict[str, tuple[Op, frozenset[str]]] = {
    word: ("gt" if word in more.split() else "lt", _words(measure))
    for more, less, *_, measure in _SCALES
    for word in f"{more} {less}".split()
}
"""Comparatives before "than", with the words of the measure they speak of."""

_OPS: tuple[tuple[OpName, str], ...] = (
    ("avg", "average avg mean"),
    ("sum", "total sum combined overall"),
    ("max", "maximum max"),
    ("min", "minimum min"),
    ("count_distinct", "distinct different unique"),
)
OPS: dict[str, OpName] = {word: op for op, words in _OPS for word in words.split()}
"""Words that name a measure of many rows."""

OP_WORDS: dict[str, str] = {
    "avg": "average",
    "sum": "total",
    "max": "highest",
    "min": "lowest",
    "count_distinct": "number of different",
}
"""What a measure is called in an answer."""

BESTS: dict[str, tuple[bool, frozenset[str]]] = {
    word: (is_most, _words(measure))
    for *_, most, least, measure in _SCALES
    for words, is_most in ((most, True), (least, False))
    for word in words.split()
}
"""Superlatives: whether the highest value is meant, and the words of the measure."""

RECENT: dict[str, bool] = {
    **dict.fromkeys("newest latest youngest".split(), True),
    **dict.fromkeys("oldest earliest".split(), False),
}
"""Superlatives of time: whether the latest moment is meant."""

MOST: dict[str, bool] = {"most": True, "fewest": False, "least": False}
"""Words that rank by a number of things, or by what the adjective behind them speaks of."""

ADJECTIVES = _by_word(
    {
        "expensive costly": "price cost",
        "valuable": "value worth",
        "delayed": "delay",
        "dense": "density",
        "populous": "population",
    }
)
"""Adjectives behind "most" and "least", with the words of the measure."""

FREQUENT = _words("common frequent")
"""Adjectives that speak of how often a value comes."""

ANY_MEASURE = _words("longest shortest highest lowest largest biggest greatest smallest")
"""Superlatives of any measure that is named behind them."""

ENDS: dict[str, bool] = {"top": True, "bottom": False}
"""Words for one end of a ranking, whose measure stands elsewhere."""

SORTING: frozenset[tuple[str, ...]] = frozenset(
    (verb, "by") for verb in "sorted sort ordered order ranked rank ranking".split()
)
"""Ways to ask for an order, in front of what to sort by."""

GROUPING: frozenset[tuple[str, ...]] = frozenset(
    {
        ("per",),
        ("each",),
        *((verb, "by") for verb in "grouped group split counted".split()),
        ("broken", "down", "by"),
        *(
            (tie, each)
            for tie in "for of by in at on from to".split()
            for each in ("each", "every")
        ),
    }
)
"""Ways to ask for one result for each, in front of what to group by."""

DIRECTIONS: dict[tuple[str, ...], bool] = {
    **{(*tie, word, *order): True for word in ("descending", "desc") for tie in ((), ("in",))
       for order in ((), ("order",))},
    **{(*tie, word, *order): False for word in ("ascending", "asc", "increasing")
       for tie in ((), ("in",)) for order in ((), ("order",))},
    **{(word, "first"): more for word, (more, _) in BESTS.items()},
    **{(word, "first"): more for word, more in (RECENT | MOST).items()},
}  # fmt: skip
"""Ways to say which way to sort."""

JUDGED: dict[str, bool] = {"worst": True, "best": False}
"""Superlatives that depend on whether much of the measure is good; true for the bad end."""

WORST: dict[tuple[str, ...], bool] = {("worst", "first"): True, ("best", "first"): False}
"""Ways to sort that depend on whether much of the measure is good; true for the bad end first."""

BAD = _words("delay error defect failure fault complaint loss damage accident cost price")
GOOD = _words("rating score grade quality revenue profit satisfaction")
"""Words of measures of which much is bad, or good."""

PARTS = ("year", "quarter", "month", "week", "day", "hour")
"""Parts of a date or time that rows may be grouped by, from coarse to fine."""

RANKED = frozenset({*OPS, *BESTS, *RECENT, *MOST, *ENDS, *JUDGED, "each", "per"})
"""Single words that ask for a figure wherever they are no name of the schema."""

_CUES = {
    "from": "from|out of|leaving|leaving from|departing from|departing|starting in|starting at|"
    "originating in|depart from|departs from|departed from|leave from|leaves from|left from|leave|"
    "leaves|left|depart|departs|take off from|took off from|taking off from",
    "to": "to|into|going to|go to|goes to|went to|bound for|arriving at|arriving in|arriving|"
    "arrive at|arrive in|arrived at|arrived in|arrives at|arrives in|landing in|landing at|land at|"
    "land in|lands at|lands in|landed at|landed in|towards|heading to|heading for",
    "in": "in|at|located in|located at|based in|based at|inside",
    "by": "by",
    "of": "of|belonging to",
    "made": "made of|made from|made out of|made with|consisting of",
    "with": "with|have|has|having|had",
    "named": "called|named|titled",
    "for": "for",
    "on": "on",
    "use": "use|uses|used in|used by|used for|used|using|contain|contains|containing|include|"
    "includes|including",
}
CUES: dict[tuple[str, ...], str] = {
    phrase: cue for cue, text in _CUES.items() for phrase in _phrases(text)
}
"""Words that tie the next value to what stands before them."""

CUE_HINTS: dict[str, frozenset[str]] = {
    "from": _words("origin source from start departure sender city country town"),
    "to": _words("destination to target end arrival recipient"),
    "in": _words("city country location place town state region address"),
    "by": _words(
        """by author owner creator manufacturer maker carrier airline operator supplier customer
        vendor"""
    ),
    "made": _words("material substance"),
    "named": _words("name title"),
    "on": _words("date day"),
}
"""Words of names and descriptions that a cue points to."""

GLUE = _words(
    """go goes going went come comes came belong belongs lie lies live lives sit sits stand stands
    located based situated placed held kept found"""
)
"""Verbs that say no more than the tie behind them."""

VERBS = _by_word(
    {
        "cost costs costing priced": "price cost amount",
        "weigh weighs weighing": "weight mass",
        "delayed late": "delay",
        "last lasts lasted lasting": "duration",
        "made built produced constructed": "manufacturer maker producer built",
        "fly flies flew flown flying serve serves served": "flight",
        "operate operates operated": "operator operates airline carrier",
        "sell sells sold provide provides provided": "supplier vendor supplies delivers",
    }
)
"""Verbs with the words of what they speak of, where a schema would not have the verb itself."""

AGENTS = _by_word(
    {
        "make makes made manufacture manufactures": "manufacturer maker producer supplier",
        "produce produces build builds": "manufacturer maker producer supplier",
        "deliver delivers delivered supply supplies supplied ship ships shipped": "supplier vendor",
        "run runs ran operate operates fly flies flew": "operator airline carrier",
        "own owns owned": "owner",
        "buy buys bought place places placed": "customer buyer client",
        "write writes wrote": "author writer",
    }
)
"""Verbs with words for those who do it, in a question for who does it most."""

_UNITS = {
    "time": {1: "second sec", 60: "minute min", 3600: "hour hr", 86400: "day", 604800: "week"},
    "length": {
        1: "metre meter",
        1000: "kilometre kilometer km",
        0.3048: "foot feet ft",
        1609.344: "mile mi",
    },
    "euro": {1: "euro eur €"},
    "dollar": {1: "dollar usd $"},
    "pound": {1: "pound gbp £"},
    "percent": {1: "percent %"},
}
UNITS: dict[str, tuple[str, float]] = {
    unit: (kind, size)
    for kind, sizes in _UNITS.items()
    for size, units in sizes.items()
    for unit in units.split()
}
"""Units: the dimension, and how many of its smallest unit."""

_SPELLINGS = """aluminium/aluminum fibre/fiber tyre/tire colour/color grey/gray centre/center
    metre/meter litre/liter aeroplane/airplane catalogue/catalog programme/program sulphur/sulfur
    plough/plow mould/mold cheque/check"""
SPELLINGS: dict[str, str] = {
    word: other
    for british, _, american in (pair.partition("/") for pair in _SPELLINGS.split())
    for word, other in ((british, american), (american, british))
}
"""Words that Britain and America spell apart, each with the other spelling."""

_MONTHS = """january february march april may june july august september october november
    december""".split()
MONTH_NAMES = tuple(month.capitalize() for month in _MONTHS)
MONTHS: dict[str, int] = {
    spelling: number
    for number, name in enumerate(_MONTHS, start=1)
    for spelling in (name, name[:3])
} | {"sept": 9}

_ABBREVIATIONS = """addr=address alt=altitude arr=arrival avg=average dep=departure
    dest=destination dewp=dewpoint dir=direction dob=birthday humid=humidity lat=latitude
    lng=longitude lon=longitude mfr=manufacturer no=number num=number orig=origin
    precip=precipitation qty=quantity sched=scheduled tel=telephone temp=temperature
    visib=visibility"""
ABBREVIATIONS: dict[str, str] = {
    short: word for short, _, word in (pair.partition("=") for pair in _ABBREVIATIONS.split())
}
"""What parts of column names usually stand for."""

MOMENTS = _words("time date year month day hour minute moment when")
"""Words of names that tell a moment from an amount."""

PLACES = CUE_HINTS["in"]
"""Words of names that tell a field of places, even where nothing else is known of it."""

NAME_LIKE = ("name", "title", "label", "full_name", "display_name")
"""Names of the field that people know a row by, best first."""

CODE_WORDS = _words("code abbreviation identifier number sku serial isbn iata icao faa callsign")
"""Words of names and descriptions that tell a field of codes."""

NUMBERS: dict[str, int] = {
    word: value
    for value, word in enumerate(
        "one two three four five six seven eight nine ten eleven twelve".split(), start=1
    )
}
"""Numbers in words."""

_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_a-zA-Z]+")


@lru_cache(maxsize=4096)
def split_name(name: str) -> tuple[str, ...]:
    """Split ``dep_time``, ``ProjectPart`` or plain text into lower-case words."""
    return tuple(part.lower() for part in _PARTS.findall(name))


@lru_cache(maxsize=4096)
def _forms(word: str) -> frozenset[str]:
    """Return a lower-case word with the simpler words it may be a plural of."""
    found = {word}
    if len(word) > 3 and word.endswith("ies"):
        found.add(word[:-3] + "y")
    if len(word) > 3 and word.endswith(("ses", "xes", "zes", "ches", "shes", "oes")):
        found.add(word[:-2])
    if len(word) > 2 and word.endswith("s") and not word.endswith("ss"):
        found.add(word[:-1])
    return frozenset(found)


@lru_cache(maxsize=16_384)
def same(left: str, right: str) -> bool:
    """Tell whether two lower-case words are equal or singular and plural of each other."""
    return left in _forms(right) or right in _forms(left)


@lru_cache(maxsize=16_384)
def related(left: str, right: str) -> bool:
    """Tell whether two lower-case words look like one family: supplied and supplier."""
    if same(left, right):
        return True
    shorter = min(len(left), len(right))
    need = max(5, (shorter * 6 + 9) // 10)
    return shorter >= need and left[:need] == right[:need]


_UNCHANGED = _words("series species news data weather equipment staff aircraft stock software")


def plural(word: str) -> str:
    """Return the usual plural of a singular word."""
    if word in _UNCHANGED:
        return word
    if word.endswith("y") and word[-2:-1] not in "aeiou":
        return word[:-1] + "ies"
    if word.endswith(("s", "x", "z", "ch", "sh")):
        return word + "es"
    return word + "s"


def singular(word: str) -> str:
    """Return the usual singular of a plural word; other words stay."""
    if word in _UNCHANGED:
        return word
    if len(word) > 3 and word.endswith("ies"):
        return word[:-3] + "y"
    if len(word) > 4 and word.endswith(("sses", "xes", "zes", "ches", "shes")):
        return word[:-2]
    if len(word) > 2 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    return word
