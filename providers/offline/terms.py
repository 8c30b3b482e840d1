"""The English of figures: words that ask to count, sum, compare, group, rank or sort.

Like ``english``, it knows no data: a superlative has the words of the measures it usually speaks
of, and whether a schema has such a measure is decided there.
"""

from typing import Literal

OpName = Literal["count", "sum", "avg", "min", "max", "count_distinct"]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


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

_BESTS = (
    ("longest farthest furthest", "shortest", "distance length duration"),
    ("fastest quickest", "slowest", "speed velocity"),
    ("heaviest", "lightest", "weight mass"),
    ("densest", "", "density"),
    ("tallest highest", "lowest", "height altitude elevation"),
    ("costliest dearest priciest", "cheapest", "price cost"),
    ("widest broadest", "narrowest", "width"),
    ("deepest", "shallowest", "depth"),
    ("hottest warmest", "coldest", "temperature"),
    ("largest biggest greatest", "smallest", "size area capacity population volume"),
)
BESTS: dict[str, tuple[bool, frozenset[str]]] = {
    word: (word in more.split(), _words(measure))
    for more, less, measure in _BESTS
    for word in f"{more} {less}".split()
}
"""Superlatives: whether the highest value is meant, and the words of the measure."""

RECENT: dict[str, bool] = {
    **dict.fromkeys("newest latest youngest".split(), True),
    **dict.fromkeys("oldest earliest".split(), False),
}
"""Superlatives of time: whether the latest moment is meant."""

MOST: dict[str, bool] = {"most": True, "fewest": False, "least": False}
"""Words that rank by a number of things, or by what the adjective behind them speaks of."""

ADJECTIVES: dict[str, frozenset[str]] = {
    "expensive": _words("price cost"),
    "costly": _words("price cost"),
    "valuable": _words("value worth"),
    "delayed": _words("delay"),
    "dense": _words("density"),
    "populous": _words("population"),
}
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
