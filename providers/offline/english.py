"""The English that the offline provider knows: word forms and closed lists of words.

Nothing here knows any data. Lists hold function words, ways to compare, and ways to say where
something comes from; what a content word stands for is decided by the schema alone.
"""

import re
from functools import lru_cache
from typing import Literal

Op = Literal["eq", "gt", "gte", "lt", "lte"]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _phrases(text: str) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(phrase.split()) for phrase in text.split("|"))


STOP = _words(
    """a an the all any every some is are was were be been being am there here do does did can
    could will would shall should may might must please me us we you i our my your it they them
    these those this that what which who whom whose where when how also just currently now then so
    if got get as such other both s"""
)
"""Words without content of their own, wherever they stand."""

LEAD = _words(
    """hi hello hey greetings ok okay well and also list show give find display fetch tell print
    name enumerate search look lookup return select retrieve see want need like know to for about
    let count up out"""
)
"""Words that ask, greet or lead in: empty at the start of a question, content elsewhere."""

FILLER = _words(
    """records record rows row entries entry data available exist exists existing based located
    placed made operated going see know access ask answer help thing things anything something
    everything information info many much more tell work works good morning afternoon evening day
    thanks thank bye database contain contains bound heading whole stored list lists listed"""
)
"""Words that say nothing unless the schema has them as names."""

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
    "do not have|does not have|not have|don't have|doesn't have|not having|have no|has no|"
    "having no|with no|with missing|with a missing|with empty|with an empty|with unknown|"
    "with an unknown|is not set|is not known|not set|not known|without any|without|missing|"
    "lacking|lacks|lack|no|empty|null|unset|blank|unknown"
)

_COMPARISONS: tuple[tuple[Op, str], ...] = (
    ("gt", "more than|greater than|bigger than|higher than|larger than|over|above|exceeding|>"),
    ("gte", "at least|no less than|not less than|no fewer than|not fewer than|>=|≥|minimum of"),
    ("lt", "less than|fewer than|lower than|smaller than|under|below|<"),
    ("lte", "at most|no more than|not more than|up to|<=|≤|maximum of"),
    ("eq", "exactly|equal to|equals|=|=="),
    ("gt", "after|later than|newer than|younger than"),
    ("gte", "since"),
    ("lt", "before|earlier than|prior to|older than"),
    ("lte", "until|till"),
)
COMPARISONS: dict[tuple[str, ...], Op] = {
    phrase: op for op, text in _COMPARISONS for phrase in _phrases(text)
}
"""Ways to compare that stand before a value."""

IN_TIME = _words("after later newer younger since before earlier prior older until till")
"""First words of comparisons that order moments, not amounts."""

TRAILING: dict[tuple[str, ...], Op] = {
    ("or", "more"): "gte",
    ("or", "higher"): "gte",
    ("or", "later"): "gte",
    ("or", "newer"): "gte",
    ("and", "above"): "gte",
    ("and", "up"): "gte",
    ("or", "less"): "lte",
    ("or", "fewer"): "lte",
    ("or", "lower"): "lte",
    ("or", "earlier"): "lte",
    ("or", "older"): "lte",
    ("and", "below"): "lte",
}
"""Ways to compare that stand behind a number."""

_LONG = _words("distance length duration")
_HIGH = _words("height altitude elevation")
COMPARATIVES: dict[str, tuple[Op, frozenset[str]]] = {
    "longer": ("gt", _LONG),
    "farther": ("gt", _LONG),
    "further": ("gt", _LONG),
    "shorter": ("lt", _LONG),
    "faster": ("gt", _words("speed velocity")),
    "slower": ("lt", _words("speed velocity")),
    "heavier": ("gt", _words("weight mass")),
    "lighter": ("lt", _words("weight mass")),
    "denser": ("gt", _words("density")),
    "taller": ("gt", _HIGH),
    "higher": ("gt", _HIGH),
    "lower": ("lt", _HIGH),
    "cheaper": ("lt", _words("price cost")),
    "costlier": ("gt", _words("price cost")),
    "wider": ("gt", _words("width")),
    "deeper": ("gt", _words("depth")),
    "hotter": ("gt", _words("temperature")),
    "warmer": ("gt", _words("temperature")),
    "colder": ("lt", _words("temperature")),
}
"""Comparatives before "than", with the words of the measure they speak of."""

_CUES = {
    "from": "from|out of|leaving|departing from|departing|starting in|starting at|originating in",
    "to": "to|into|going to|bound for|arriving at|arriving in|arriving|landing in|landing at|"
    "towards|heading to|heading for",
    "in": "in|at|located in|located at|based in|based at|near|inside|within",
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
    "from": _words("origin source from start departure sender"),
    "to": _words("destination to target end arrival recipient"),
    "in": _words("city country location place town state region address"),
    "by": _words("by author owner creator manufacturer maker carrier supplier customer vendor"),
    "made": _words("material substance"),
    "named": _words("name title"),
    "on": _words("date day"),
}
"""Words of names and descriptions that a cue points to."""

VERBS = _words(
    """go goes went leave leaves left depart departs departed arrive arrives arrived fly flies flew
    land lands landed start starts end ends come comes came run runs belong belongs ship ships lie
    lies live lives sit sits built made sent flown bought sold held kept found given born written
    operate operates serve serves head heads"""
)
"""Verbs that may stand before a tie or a comparison."""

MEASURES: dict[str, frozenset[str]] = {
    "cost": _words("price cost amount"),
    "costs": _words("price cost amount"),
    "costing": _words("price cost amount"),
    "priced": _words("price cost amount"),
    "weigh": _words("weight mass"),
    "weighs": _words("weight mass"),
    "weighing": _words("weight mass"),
    "delayed": _words("delay"),
    "late": _words("delay"),
}
"""Words of a measure that need not be in its field's name."""

_MONTHS = """january february march april may june july august september october november
    december""".split()
MONTHS: dict[str, int] = {
    spelling: number
    for number, name in enumerate(_MONTHS, start=1)
    for spelling in (name, name[:3])
}

ABBREVIATIONS: dict[str, str] = {
    "addr": "address",
    "alt": "altitude",
    "arr": "arrival",
    "avg": "average",
    "dep": "departure",
    "dest": "destination",
    "dewp": "dewpoint",
    "dir": "direction",
    "dob": "birthday",
    "humid": "humidity",
    "lat": "latitude",
    "lng": "longitude",
    "lon": "longitude",
    "mfr": "manufacturer",
    "no": "number",
    "num": "number",
    "orig": "origin",
    "precip": "precipitation",
    "qty": "quantity",
    "sched": "scheduled",
    "tel": "telephone",
    "temp": "temperature",
    "visib": "visibility",
}
"""What parts of column names usually stand for."""

NAME_LIKE = ("name", "title", "label", "full_name", "display_name")
"""Names of the field that people know a row by, best first."""

CODE_WORDS = _words("code abbreviation identifier number sku serial isbn iata icao faa callsign")
"""Words of names and descriptions that tell a field of codes."""

_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_a-zA-Z]+")


@lru_cache(maxsize=4096)
def split_name(name: str) -> tuple[str, ...]:
    """Split ``dep_time``, ``ProjectPart`` or plain text into lower-case words."""
    return tuple(part.lower() for part in _PARTS.findall(name))


def forms(word: str) -> frozenset[str]:
    """Return a lower-case word with the simpler words it may be a plural of."""
    found = {word}
    if len(word) > 3 and word.endswith("ies"):
        found.add(word[:-3] + "y")
    if len(word) > 3 and word.endswith(("ses", "xes", "zes", "ches", "shes", "oes")):
        found.add(word[:-2])
    if len(word) > 2 and word.endswith("s") and not word.endswith("ss"):
        found.add(word[:-1])
    return frozenset(found)


def same(left: str, right: str) -> bool:
    """Tell whether two lower-case words are equal or singular and plural of each other."""
    return left in forms(right) or right in forms(left)


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
