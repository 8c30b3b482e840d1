"""Which earlier question a message leans on, if it is no whole question by itself.

A fragment leans on the last question before it, and so on back to a whole one. Where that is no
longer among the messages, the oldest fragment that is stands for what it was answered by.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from providers.base import ToolCallEvent
from providers.offline.english import LEAD, PEOPLE, STOP
from providers.offline.parse import (
    Compare,
    Cue,
    Mark,
    Moment,
    Number,
    Piece,
    Question,
    Word,
    parse,
)
from providers.offline.terms import ADJECTIVES, DIRECTIONS, ENDS, RANKED, SORTING, WORST

_WORD = re.compile(r"\w+")
_MAX_EARLIER = 12
_MAX_PART = 8
"""The most pieces of a part of a question that stands alone."""
_OPENING = frozenset(
    {
        "per",
        *ENDS,
        *(words[0] for words in SORTING),
        "grouped",
        *(words[0] for words in (*WORST, *DIRECTIONS)),
    }
)
_RANKING = frozenset({*RANKED, *ADJECTIVES, "recent", "ones"})
_ASKING = frozenset({"list", "count", "exists"})


@dataclass(frozen=True, slots=True)
class Said:
    """An earlier message of the user, with the read that ``answered`` it.

    ``is_refused``: it got no answer but what to ask instead.
    """

    text: str
    is_refused: bool = False
    answered: ToolCallEvent | None = None


def read_question(text: str, earlier: Sequence[Said] = ()) -> Question:
    """Read a question that may lean on an earlier one.

    ``earlier`` are the messages before it, oldest first: it may lean on the last that asks. One
    that leaned itself, and could not be answered, is as if it had not been said.
    """
    before: Question | None = None
    for said in earlier[-_MAX_EARLIER:]:
        question = _read(said.text, before, None if said.is_refused else said.answered)
        if question.intent in _ASKING and not (question.leans and said.is_refused):
            before = question
    return _read(text, before, None)


def _read(text: str, earlier: Question | None, answered: ToolCallEvent | None) -> Question:
    question = parse(text)
    leans = question.leans
    if not leans and (earlier or answered) and _is_fragment(question, text):
        leans = "open"
    if not leans:
        return question
    if earlier and leans != "other":
        return replace(question, leans=leans, earlier=earlier)
    return Question("list", answered=answered) if answered else Question("follow")


def _is_fragment(question: Question, text: str) -> bool:
    """Tell "from LaGuardia?", "how many in July?" and "top three?" from a whole question."""
    pieces = question.pieces
    if question.intent == "count":
        return question.counted == 0 and _opens_inside(pieces)
    if question.intent != "list":
        return False
    if all(isinstance(p, Number) or (isinstance(p, Word) and p.lower in _RANKING) for p in pieces):
        # "The five cheapest?"
        return any(isinstance(p, Word) for p in pieces)
    opening = _WORD.search(text.lower())
    is_whole = opening is not None and opening[0] in LEAD | STOP | PEOPLE
    return not is_whole and _opens_inside(pieces)


def _opens_inside(pieces: Sequence[Piece]) -> bool:
    """Tell what opens like the end of a sentence."""
    first = pieces[0] if pieces and len(pieces) <= _MAX_PART else None
    if isinstance(first, Word) and first.lower in _OPENING:
        return first.lower not in _RANKING or not _names_more(pieces[1:])
    return isinstance(first, (Cue, Moment, Compare, Mark))


def _names_more(pieces: Sequence[Piece]) -> bool:
    """Tell "top 5 planes by seats", which says of what, from "top 5 by seats"."""
    said = (p for p in pieces if not isinstance(p, Number))
    following = next(said, None)
    return isinstance(following, Word) and following.lower not in {*_RANKING, "first", "last"}
