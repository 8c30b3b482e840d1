"""Stage one, parse: what the words of a question say before anything is known about the data.

A question becomes its intent and a flat sequence of pieces. Words that only hold the sentence
together are dropped; comparisons, gaps and ties are marked; every other word stays as it was typed,
because it may be a name of the schema or a value. Any text parses.
"""

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from providers.offline.english import (
    CALCULATIONS,
    COMPARATIVES,
    COMPARISONS,
    CUE_HINTS,
    CUES,
    EXCLUSIONS,
    FILLER,
    GREETINGS,
    IN_TIME,
    LEAD,
    MEASURES,
    MISSING,
    STOP,
    THANKS,
    TRAILING,
    Op,
)

Intent = Literal["list", "count", "exists", "greeting", "thanks", "help"]

_MAX_CHARS = 2000
_MAX_TOKENS = 200


@dataclass(frozen=True, slots=True)
class Word:
    """A content word as typed. ``joined``: nothing stood between it and the piece before."""

    text: str
    joined: bool = False
    quoted: bool = False

    @property
    def lower(self) -> str:
        """The word to compare names with."""
        return self.text.lower()


@dataclass(frozen=True, slots=True)
class Number:
    """A number; ``text`` is what was typed, for columns that hold text."""

    value: int | float
    text: str
    joined: bool = False


@dataclass(frozen=True, slots=True)
class Compare:
    """How the next value is compared. ``hints`` are words of the measure, if there are any."""

    op: Op
    in_time: bool = False
    hints: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Cue:
    """A preposition or verb that ties a value to what it belongs to."""

    kind: str

    @property
    def is_verb(self) -> bool:
        """False for the known ties; true for a verb or a unit taken from the question."""
        return self.kind not in _TIES

    @property
    def hints(self) -> frozenset[str]:
        """Words of names and descriptions it points to; a verb points to its own family."""
        if self.is_verb:
            return frozenset({self.kind}) | MEASURES.get(self.kind, frozenset())
        return CUE_HINTS.get(self.kind, frozenset())


@dataclass(frozen=True, slots=True)
class Mark:
    """``missing``: without; ``not``: exclusion; ``or``: a list goes on; ``their``: a column."""

    kind: Literal["missing", "not", "or", "their"]


Piece = Word | Number | Compare | Cue | Mark


@dataclass(frozen=True, slots=True)
class Question:
    """A question before the schema is known.

    ``counted`` is the index of what "how many" counts. ``asks_do``: the question has a "does", so
    its verb stands apart.
    """

    intent: Intent
    pieces: tuple[Piece, ...] = ()
    counted: int | None = None
    asks_do: bool = False

    @property
    def topic(self) -> str:
        """The words to search managers with; empty when there is nothing to go by."""
        words = [
            piece.text
            for piece in self.pieces
            if isinstance(piece, Word)
            and not piece.quoted
            and piece.lower not in FILLER
            and piece.lower not in CALCULATIONS
        ]
        return " ".join(words)[:200]


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    lower: str
    kind: Literal["word", "quoted", "number", "comma"]


_SCAN = re.compile(
    r"""
    "(?P<double>[^"]+)" | “(?P<curly>[^”]+)” | (?<!\w)'(?P<single>[^']+)'(?!\w)
    | (?P<number>[-+]?[$€£]?[0-9]{1,15}(?:,[0-9]{3}){0,4}(?:\.[0-9]{1,15})?%?)(?=[\s,;:?!.)\]]|$)
    | (?P<operator>>=|<=|==|[<>=≥≤])
    | (?P<comma>[,;])
    | (?P<word>[^\s,;"“”<>=≥≤]+)
    """,
    re.VERBOSE,
)
_TIES = frozenset(CUES.values())
_EDGES = "()[]{}?!.:*`'"

_Phrases = dict[tuple[str, ...], tuple[Piece, ...]]


def _phrases() -> _Phrases:
    found: _Phrases = {
        ("number", "of"): (),
        ("total", "number", "of"): (),
        ("in", "total"): (),
        ("and",): (Mark("or"),),
        ("or",): (Mark("or"),),
        ("&",): (Mark("or"),),
        ("their",): (Mark("their"),),
        ("its",): (Mark("their"),),
        ("more", "expensive", "than"): (Compare("gt", hints=frozenset({"price", "cost"})),),
    }
    found |= {
        (word, "than"): (Compare(op, hints=hints),) for word, (op, hints) in COMPARATIVES.items()
    }
    found |= {words: (Cue(kind),) for words, kind in CUES.items()}
    found |= {words: (Mark("not"),) for words in EXCLUSIONS}
    found |= {words: (Mark("missing"),) for words in MISSING}
    found |= {words: (Compare(op, words[0] in IN_TIME),) for words, op in COMPARISONS.items()}
    return found


_PHRASES = _phrases()
_LONGEST = max(map(len, _PHRASES))


def parse(text: str) -> Question:
    """Read a question. Never fails; what has no content is a greeting, thanks or asks for help."""
    tokens = _tokens(text)
    lowers = [token.lower for token in tokens]
    pieces, counted = _Reader(tokens).read()
    asks_do = bool({"do", "does", "did"} & set(lowers))
    question = Question(_intent(lowers), tuple(pieces), counted, asks_do)
    if question.topic or any(
        isinstance(piece, Number) or (isinstance(piece, Word) and piece.quoted) for piece in pieces
    ):
        return question
    if THANKS & set(lowers):
        return Question("thanks")
    return Question("greeting" if lowers[:1] and lowers[0] in GREETINGS else "help")


def _intent(lowers: list[str]) -> Intent:
    pairs = set(pairwise(lowers))
    if ("how", "many") in pairs or ("number", "of") in pairs or lowers[:1] == ["count"]:
        return "count"
    if lowers[:1] and lowers[0] in {
        "is",
        "are",
        "do",
        "does",
        "did",
        "has",
        "have",
        "was",
        "were",
        "any",
    }:
        return "exists"
    return "list"


def _tokens(text: str) -> list[_Token]:
    text = text[:_MAX_CHARS].replace("’", "'").replace("\x00", " ")
    shouts = text.upper() == text
    found: list[_Token] = []
    for match in _SCAN.finditer(text):
        kind, raw = match.lastgroup or "word", match.group(match.lastgroup or 0)
        if kind in {"double", "curly", "single"}:
            found.append(_Token(raw.strip(), "", "quoted"))
        elif kind == "comma":
            found.append(_Token(raw, "", "comma"))
        elif kind == "number":
            found.append(_Token(raw, "", "number"))
        elif word := raw.strip(_EDGES).removesuffix("'s"):
            # In capitals inside normal text, US, OR and AS are codes; May is a month.
            code = len(word) > 1 and word.isupper() and not shouts
            code = code or (word == "May" and match.start() > 0)
            found.append(_Token(word, word if code else word.lower(), "word"))
    return [token for token in found if token.text][:_MAX_TOKENS]


class _Reader:
    """Goes once over the tokens; ``after`` is true right behind a content piece."""

    def __init__(self, tokens: list[_Token]) -> None:
        self.tokens = tokens
        self.pieces: list[Piece] = []
        self.counted: int | None = None
        self.after = False

    def read(self) -> tuple[list[Piece], int | None]:
        position = self._lead()
        while position < len(self.tokens):
            position += self._step(position)
        return self.pieces, self.counted

    def _lead(self) -> int:
        position = 0
        while position < len(self.tokens):
            token = self.tokens[position]
            if self._starts(position, "how", "many") or self._starts(position, "number", "of"):
                self.counted = 0
                return position + 2
            if token.kind != "comma" and token.lower not in LEAD and token.lower not in STOP:
                break
            position += 1
        return position

    def _starts(self, position: int, *words: str) -> bool:
        return tuple(t.lower for t in self.tokens[position : position + len(words)]) == words

    def _step(self, position: int) -> int:
        token = self.tokens[position]
        if self._starts(position, "how", "many"):
            self.counted = len(self.pieces)
            return self._drop(2)
        if length := self._range(position) or self._phrase(position):
            return self._drop(length)
        if token.kind == "comma":
            self.pieces.append(Mark("or"))
            return self._drop(1)
        if token.kind == "word" and token.lower in STOP:
            return self._drop(1)
        if token.kind == "number":
            self.pieces.append(_number(token.text, joined=self.after))
        else:
            self.pieces.append(Word(token.text, self.after, token.kind == "quoted"))
        self.after = True
        return 1

    def _drop(self, length: int) -> int:
        self.after = False
        return length

    def _range(self, position: int) -> int:
        """Read ``between 5 and 10`` and ``from 5 to 10``."""
        window = self.tokens[position : position + 4]
        if len(window) < 4 or [t.kind for t in window] != ["word", "number", "word", "number"]:
            return 0
        opening, low, link, high = window
        if (opening.lower, link.lower) not in {
            ("between", "and"),
            ("from", "to"),
            ("from", "through"),
        }:
            return 0
        least, most = _number(low.text), _number(high.text)
        years = all(isinstance(n.value, int) and 1000 <= n.value <= 2999 for n in (least, most))
        self.pieces += [Compare("gte", years), least, Compare("lte", years), most]
        return 4

    def _phrase(self, position: int) -> int:
        for length in range(_LONGEST, 0, -1):
            window = self.tokens[position : position + length]
            words = tuple(t.lower for t in window if t.lower)
            if len(words) != length:
                continue
            if words in TRAILING and self.pieces and isinstance(self.pieces[-1], Number):
                self.pieces.insert(-1, Compare(TRAILING[words]))
                return length
            if words in _PHRASES:
                self.pieces += _PHRASES[words]
                return length
        return 0


def _number(text: str, *, joined: bool = False) -> Number:
    plain = text.strip("%+").replace(",", "").translate({ord(sign): None for sign in "$€£"})
    return Number(float(plain) if "." in plain else int(plain), text, joined)
