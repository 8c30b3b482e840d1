"""Stage one, parse: what the words of a question say before anything is known about the data.

A question becomes its intent and a flat sequence of pieces. Words that only hold the sentence
together are dropped; comparisons, gaps and ties are marked; every other word stays as it was typed,
because it may be a name of the schema or a value. Any text parses.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from providers.base import ToolCallEvent
from providers.offline.asks import Intent, Lean, asks_several, intent_of, lean_of, small_talk
from providers.offline.english import (
    CALCULATIONS,
    CHANGES,
    CHANGING,
    CHAT,
    COMPARATIVES,
    COMPARING,
    COMPARISONS,
    CUE_HINTS,
    CUES,
    EXCLUSIONS,
    IN_TIME,
    LEAD,
    LEAD_TIES,
    LINKS,
    MISSING,
    MONTHS,
    NUMBERS,
    PEOPLE,
    PRONOUNS,
    RANKED,
    STOP,
    TRAILING,
    UNSET,
    VERBS,
    Op,
    split_name,
)

_MAX_CHARS = 2000
_MAX_TOKENS = 200
_DO = frozenset({"do", "does", "did"})


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
    """A number; ``text`` is what was typed, for columns that hold text. ``more`` are alternatives.

    ``unit`` is a sign that stood with it: $ or %.
    """

    value: int | float
    text: str
    joined: bool = False
    unit: str = ""
    more: tuple[int | float, ...] = ()

    @property
    def is_year(self) -> bool:
        """Tell whether it looks like a year; nobody writes 2,005 for one."""
        return self.text.isdigit() and 1000 <= self.value <= 2999


@dataclass(frozen=True, slots=True)
class Moment:
    """A calendar date or a part of one, such as July, July 4 or July 2013."""

    text: str
    year: int | None = None
    month: int | None = None
    day: int | None = None
    more: tuple["Moment", ...] = ()


@dataclass(frozen=True, slots=True)
class Compare:
    """How the next value is compared. ``hints`` are words of the measure, if there are any."""

    op: Op
    in_time: bool = False
    hints: frozenset[str] = frozenset()
    text: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Cue:
    """A preposition or verb that ties a value to what it belongs to. ``text`` is as typed."""

    kind: str
    text: str = field(default="", compare=False)

    @property
    def is_verb(self) -> bool:
        """False for the known ties; true for a verb or a unit taken from the question."""
        return self.kind not in _TIES

    @property
    def hints(self) -> frozenset[str]:
        """Words of names and descriptions it points to; a verb points to its own family."""
        if self.is_verb:
            return frozenset({self.kind}) | VERBS.get(self.kind, frozenset())
        return CUE_HINTS.get(self.kind, frozenset())


@dataclass(frozen=True, slots=True)
class Mark:
    """A word of structure.

    ``missing`` and ``unset``: without; ``not``: exclusion; ``or``, ``and``: links; ``their``: a
    column; ``both``: more than one related row at once; ``count``: the number of rows;
    ``rows``: what an earlier question found.
    """

    kind: Literal["missing", "unset", "not", "or", "and", "their", "both", "count", "rows"]
    text: str = field(default="", compare=False)


Piece = Word | Number | Moment | Compare | Cue | Mark


@dataclass(frozen=True, slots=True)
class Question:
    """A question before the schema is known.

    ``counted`` is the index of what "how many" counts. ``asks_do``: the question has a "does", so
    its verb stands apart. ``compares``: values are to be set side by side. ``earlier`` is the
    question it ``leans`` on, if there is one. One whose words lean on what is gone has no pieces,
    but the read that ``answered`` it.
    """

    intent: Intent
    pieces: tuple[Piece, ...] = ()
    counted: int | None = None
    asks_do: bool = False
    compares: bool = False
    leans: Lean = ""
    earlier: "Question | None" = None
    answered: ToolCallEvent | None = None

    @property
    def topic(self) -> str:
        """The words to search managers with; empty when there is nothing to go by.

        A question that leans on an ``earlier`` one has the words of that.
        """
        if self.leans and self.earlier:
            return self.earlier.topic
        if self.answered:
            return " ".join(split_name(str(self.answered.args.get("manager"))))
        return self.own_topic

    @property
    def own_topic(self) -> str:
        """The words to search managers with, if the question stands by itself."""
        words = [
            piece
            for piece in self.pieces
            if isinstance(piece, Word)
            and not piece.quoted
            and piece.lower not in CHAT
            and not (self.intent == "change" and piece.lower in CHANGES)
        ]
        kept = [word for word in words if word.lower not in RANKED | CALCULATIONS]
        return " ".join(word.text for word in kept or words)[:200]


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    lower: str
    kind: Literal["word", "quoted", "number", "date", "comma"]


_SCAN = re.compile(
    r"""
    "(?P<double>[^"]+)" | “(?P<curly>[^”]+)” | (?<!\w)'(?P<single>[^']+)'(?!\w)
    | (?P<date>[0-9]{4}-[0-9]{2}-[0-9]{2})(?=[\s,;:?!.)\]]|$)
    | (?P<number>[-+]?[$€£]?[0-9]{1,15}(?:,[0-9]{3}){0,4}(?:\.[0-9]{1,15})?%?)(?=[\s,;:?!.)\]]|$)
    | (?P<operator>>=|<=|==|[<>=≥≤])
    | (?P<comma>[,;])
    | (?P<word>[^\s,;"“”<>=≥≤]+)
    """,
    re.VERBOSE,
)
_TIES = frozenset(CUES.values())
_MONTH = r"(?P<month>[A-Za-z]+)\.?"
_DAY = r"(?P<day>[12]?[0-9]|3[01])(?:st|nd|rd|th)?"
_YEAR = r"(?P<year>[12][0-9]{3})"
_DATES = [
    re.compile(pattern + r"(?= |$)")
    for pattern in (
        rf"{_MONTH} {_DAY}(?: ,)? {_YEAR}",
        rf"{_DAY}(?: of)? {_MONTH}(?: ,)? {_YEAR}",
        rf"{_MONTH} {_YEAR}",
        rf"{_MONTH} {_DAY}",
        rf"{_DAY}(?: of)? {_MONTH}",
        _MONTH,
    )
]
_BEFORE_MONTH = frozenset(
    "in of for during between and or since before after until from to".split()
)
_EDGES = "()[]{}?!.:*`'"

_Phrases = dict[tuple[str, ...], tuple[Piece, ...]]


def _phrases() -> _Phrases:
    found: _Phrases = {
        ("number", "of"): (Mark("count"),),
        ("total", "number", "of"): (Mark("count"),),
        **{("in", word): () for word in ("total", "all")},
        **{("on", word): () for word in ("record", "file")},
        ("how", "much"): (),
        **{(who, have): () for who in ("we", "you", "i") for have in ("have", "got")},
        **{(word,): (Mark("and"),) for word in ("and", "&")},
        **{(word,): (Mark("or"),) for word in ("or", "vs", "versus")},
        **{(word,): (Mark("their"),) for word in ("their", "its")},
        ("both",): (Mark("both"),),
        ("between",): (Cue("between"),),
        **{(w, "with"): (Cue("starts"),) for w in ("start", "starts", "begin", "begins")},
        **{(w, "with"): (Cue("ends"),) for w in ("end", "ends", "starting", "ending")},
        ("negative",): (Compare("lt"), Number(0, "0")),
        ("positive",): (Compare("gt"), Number(0, "0")),
        ("more", "expensive", "than"): (Compare("gt", hints=frozenset({"price", "cost"})),),
    }
    found |= {
        (word, "than"): (Compare(op, hints=hints),) for word, (op, hints) in COMPARATIVES.items()
    }
    found |= {words: (Cue(kind),) for words, kind in CUES.items()}
    found |= {words: (Mark("rows"),) for words in PRONOUNS}
    found |= {words: () for words in CHANGING}
    found |= {words: (Mark("not"),) for words in EXCLUSIONS}
    found |= {words: (Mark("missing"),) for words in MISSING}
    found |= {words: (Mark("unset"),) for words in UNSET}
    found |= {words: (Compare(op, words[0] in IN_TIME),) for words, op in COMPARISONS.items()}
    return found


_PHRASES = _phrases()
_LONGEST = max(map(len, _PHRASES))


def parse(text: str) -> Question:
    """Read a question by itself. Never fails; without content it is small talk, unless it leans."""
    if asks_several(text):
        return Question("several")
    tokens = _tokens(text)
    words = [token.text.lower() for token in tokens]
    intent, leans = intent_of(words), lean_of(words)
    pieces, counted = _Reader(tokens, is_part=bool(leans)).read()
    if not leans and _starts_with_owner(pieces):
        leans = "rows"
    if intent in {"change", "foreign"}:
        leans = ""
    asks_do, compares = (not known.isdisjoint(words) for known in (_DO, COMPARING))
    question = Question(intent, tuple(pieces), counted, asks_do, compares, leans)
    has_value = any(isinstance(p, (Number, Moment)) for p in pieces)
    has_value = has_value or any(isinstance(p, Word) and p.quoted for p in pieces)
    if leans or question.own_topic or has_value or intent in {"change", "foreign"}:
        return question
    return Question(small_talk(words))


def _starts_with_owner(pieces: Sequence[Piece]) -> bool:
    """Tell "what is their average price" from "parts and their material"."""
    for piece in pieces:
        if isinstance(piece, Mark) and piece.kind == "their":
            return True
        if isinstance(piece, (Word, Moment)):
            return False
    return False


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
        elif kind in {"number", "date"}:
            found.append(_Token(raw, "", "number" if kind == "number" else "date"))
        elif word := raw.strip(_EDGES).removesuffix("'s"):
            # In capitals inside normal text, US, OR and AS are codes; May is a month.
            code = len(word) > 1 and word.isupper() and not shouts
            code = code or (word == "May" and match.start() > 0)
            found.append(_Token(word, word if code else word.lower(), "word"))
    return [token for token in found if token.text][:_MAX_TOKENS]


class _Reader:
    """Goes once over the tokens; ``after`` is true right behind a content piece."""

    def __init__(self, tokens: list[_Token], *, is_part: bool) -> None:
        self.tokens = tokens
        self.is_part = is_part
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
            if self._starts(position, "how", "much"):
                position += 1
            elif asked := next((p for p in CHANGING if self._starts(position, *p)), None):
                position += len(asked) - 1
            elif token.kind != "comma" and not self._leads(position):
                break
            position += 1
        return position

    def _leads(self, position: int) -> bool:
        """Tell whether a word only leads in, given the one before it."""
        word = self.tokens[position].lower
        before = self.tokens[position - 1].lower if position else ""
        if word in LEAD_TIES:
            return before in LEAD_TIES[word]
        if word == "may":
            return self._has(position + 1) and self.tokens[position + 1].lower in PEOPLE
        return word in LEAD | STOP | PEOPLE or (self.is_part and word in LINKS)

    def _starts(self, position: int, *words: str) -> bool:
        return tuple(t.lower for t in self.tokens[position : position + len(words)]) == words

    def _step(self, position: int) -> int:
        token = self.tokens[position]
        if self._starts(position, "how", "many"):
            self.counted = len(self.pieces)
            return self._drop(2)
        if length := self._range(position) or self._moment(position) or self._phrase(position):
            return self._drop(length)
        if token.kind == "comma":
            self.pieces.append(Mark("and" if token.text == "," else "or", token.text))
            return self._drop(1)
        if token.kind == "word" and self._is_empty(position):
            return self._drop(1)
        if token.lower in NUMBERS:
            self.pieces.append(Number(NUMBERS[token.lower], token.text, self.after))
        elif token.kind == "number":
            self.pieces.append(_number(token.text, joined=self.after))
        else:
            self.pieces.append(Word(token.text, self.after, token.kind == "quoted"))
        self.after = True
        return 1

    def _is_empty(self, position: int) -> bool:
        """Tell a function word, or one that has no content where it stands."""
        word = self.tokens[position].lower
        follows = self.tokens[position + 1 : position + 2]
        if (
            word == "first"
            and follows
            and (follows[0].kind == "number" or follows[0].lower in NUMBERS)
        ):
            return not self.pieces
        if word in {"all", "every"}:
            return self._is_of_rows() or not any(isinstance(p, Word) for p in self.pieces)
        return word in STOP

    def _is_of_rows(self) -> bool:
        """Tell "the total price of all parts" from "parts of all projects"."""
        first = self.pieces[0] if self.pieces else None
        ties = [piece for piece in self.pieces if isinstance(piece, Cue)]
        is_figure = isinstance(first, Word) and first.lower in RANKED
        return is_figure and ties == self.pieces[-1:] and ties[0].kind == "of"

    def _drop(self, length: int) -> int:
        self.after = False
        return length

    def _range(self, position: int) -> int:
        """Read ``between 5 and 10``, ``from 5 to 10``, ``5 to 10`` and ``between May and July``."""
        opening = self.tokens[position].lower
        start = position + (opening in {"between", "from"})
        low = self._bound(start)
        link = self.tokens[start + low[1]].lower if low and self._has(start + low[1]) else ""
        links = {"between": {"and"}, "from": {"to", "through", "till", "until"}}
        if low is None or link not in links.get(opening, {"to", "through"}):
            return 0
        high = self._bound(start + low[1] + 1)
        if high is None or type(high[0]) is not type(low[0]):
            return 0
        years = all(isinstance(b, Number) and b.is_year for b in (low[0], high[0]))
        self.pieces += [Compare("gte", years), low[0], Compare("lte", years), high[0]]
        return start + low[1] + 1 + high[1] - position

    def _has(self, position: int) -> bool:
        return position < len(self.tokens)

    def _bound(self, position: int) -> tuple[Number | Moment, int] | None:
        """Read a number or a date, with how many tokens it takes."""
        if found := self._date(position):
            return found
        if self._has(position) and self.tokens[position].kind == "number":
            return _number(self.tokens[position].text), 1
        return None

    def _moment(self, position: int) -> int:
        found = self._date(position)
        if not found:
            return 0
        self.pieces.append(found[0])
        return found[1]

    def _date(self, position: int) -> tuple[Moment, int] | None:
        """Read a date, or a part of one, where the words leave no doubt that it is one."""
        window = self.tokens[position : position + 5]
        if window and window[0].kind == "date":
            year, month, day = (int(part) for part in window[0].text.split("-"))
            return Moment(window[0].text, year, month, day), 1
        text = " ".join("," if t.kind == "comma" else t.text for t in window)
        for pattern in _DATES:
            found = pattern.match(text)
            month = MONTHS.get(found["month"].lower()) if found else None
            if not found or not month or not self._is_calendar(position, found):
                continue
            day, year = found.groupdict().get("day"), found.groupdict().get("year")
            said = found[0].replace(" ,", ",")
            moment = Moment(said, int(year) if year else None, month, int(day) if day else None)
            return moment, len(found[0].split(" "))
        return None

    def _is_calendar(self, position: int, found: re.Match[str]) -> bool:
        """Tell a month from a word that looks like one: a bare "march" or "may" is none."""
        if " " in found[0]:
            return True
        before = self.tokens[position - 1].lower if position else ""
        named = found["month"][:1].isupper() or found["month"].lower() not in {"may", "march"}
        named = named or before == "in"
        return named and (before in _BEFORE_MONTH or len(found["month"]) > 3)

    def _phrase(self, position: int) -> int:
        for length in range(_LONGEST, 0, -1):
            window = self.tokens[position : position + length]
            words = tuple(t.lower for t in window if t.lower)
            if len(words) != length:
                continue
            if words in TRAILING and self.pieces and isinstance(self.pieces[-1], Number):
                self.pieces.insert(-1, Compare(TRAILING[words]))
                return length
            if words in _PHRASES and not self._is_measure(words, position + length):
                said = " ".join(t.text for t in window)
                self.pieces += [
                    replace(p, text=said) if isinstance(p, (Mark, Cue, Compare)) else p
                    for p in _PHRASES[words]
                ]
                return length
        return 0

    def _is_measure(self, words: tuple[str, ...], end: int) -> bool:
        """Tell "the maximum of the prices" from "with a maximum of 5"."""
        is_limit = self._has(end) and self.tokens[end].kind == "number"
        return words in {("maximum", "of"), ("minimum", "of")} and not is_limit


def _number(text: str, *, joined: bool = False) -> Number:
    plain = text.strip("%+").replace(",", "").translate({ord(sign): None for sign in "$€£"})
    unit = next((sign for sign in text if sign in "$€£%"), "")
    return Number(float(plain) if "." in plain else int(plain), text, joined, unit)
