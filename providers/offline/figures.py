"""Words of a question that ask for a figure or an order, found among its pieces.

They are names of the schema first, if it has such names: a field called total, a manager Order.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from providers.offline.english import (
    ADJECTIVES,
    BESTS,
    DIRECTIONS,
    ENDS,
    FREQUENT,
    GROUPING,
    JUDGED,
    MOST,
    OPS,
    RECENT,
    SORTING,
    WORST,
    OpName,
)
from providers.offline.parse import Compare, Cue, Mark, Piece, Word

_LONGEST = 3


@dataclass(frozen=True, slots=True)
class Op:
    """A measure of many rows: "average"."""

    op: OpName
    text: str


@dataclass(frozen=True, slots=True)
class Best:
    """A superlative, or one end of a ranking.

    ``hints`` are words of the measure it speaks of by itself; ``is_recent``: it speaks of time;
    ``is_count``: of a number of things; ``is_frequent``: of how often a value comes;
    ``is_judged``: ``descending`` is true for the bad end. None of them: the measure stands
    elsewhere.
    """

    descending: bool
    text: str
    hints: frozenset[str] = frozenset()
    is_recent: bool = False
    is_count: bool = False
    is_frequent: bool = False
    is_judged: bool = False


@dataclass(frozen=True, slots=True)
class By:
    """What stands before a group, or before what to sort by."""

    text: str
    is_sort: bool = False


@dataclass(frozen=True, slots=True)
class Direction:
    """Which way to sort; ``is_judged``: by what is bad, and ``descending`` if much is bad."""

    descending: bool
    text: str
    is_judged: bool = False


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a date to group by, where no field has its name."""

    name: str


Figure = Op | Best | By | Direction


def figure_at(pieces: Sequence[Piece], position: int) -> tuple[Figure, int] | None:
    """Return what asks for a figure or an order at a place, with how many pieces it takes."""
    for length in range(_LONGEST, 0, -1):
        words = _words(pieces[position : position + length], is_first=position == 0)
        if len(words) == length and (found := _phrase(words) or _superlative(words)):
            return found, length
    return None


def skip_figures(pieces: Sequence[Piece], position: int = 0) -> int:
    """Return where the words begin that a leading "five", "average" or "longest" is about."""
    while found := figure_at(pieces, position):
        position += found[1]
    return position


def _words(pieces: Sequence[Piece], *, is_first: bool) -> tuple[str, ...]:
    """Return the plain words of pieces, fewer if one is a value: a name in capitals, a number."""
    words: list[str] = []
    for piece in pieces:
        if not isinstance(piece, (Word, Cue, Compare, Mark)) or not piece.text:
            break
        is_plain = piece.text.islower() or (is_first and not words and piece.text.istitle())
        if isinstance(piece, Word) and (piece.quoted or not is_plain):
            break
        words.append(piece.text.lower())
    return tuple(words)


def _phrase(words: tuple[str, ...]) -> Figure | None:
    text = " ".join(words)
    if words in DIRECTIONS:
        return Direction(DIRECTIONS[words], text)
    if words in WORST:
        return Direction(WORST[words], text, is_judged=True)
    if words in GROUPING:
        return By(text)
    if words in SORTING:
        return By(text, is_sort=True)
    return None


def _superlative(words: tuple[str, ...]) -> Figure | None:
    text = " ".join(words)
    if len(words) == 2 and words[0] in MOST:
        if words[1] == "recent":
            return Best(MOST[words[0]], text, is_recent=True)
        if words[1] in FREQUENT:
            return Best(MOST[words[0]], text, is_count=True, is_frequent=True)
        hints = ADJECTIVES.get(words[1])
        return Best(MOST[words[0]], text, hints) if hints else None
    if words == ("on", "average"):
        return Op("avg", text)
    return _single(words[0]) if len(words) == 1 else None


def _single(word: str) -> Figure | None:
    if word in OPS:
        return Op(OPS[word], word)
    if word in BESTS:
        descending, hints = BESTS[word]
        return Best(descending, word, hints)
    if word in RECENT:
        return Best(RECENT[word], word, is_recent=True)
    if word in MOST:
        return Best(MOST[word], word, is_count=True)
    if word in JUDGED:
        return Best(JUDGED[word], word, is_judged=True)
    return Best(ENDS[word], word) if word in ENDS else None
