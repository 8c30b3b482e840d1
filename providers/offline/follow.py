"""Questions that lean on an earlier one: which, and what that asked with something else in it.

A fragment leans on the last question before it, and so on back to a whole one. Where that is no
longer among the messages, the oldest fragment that is stands for what it was answered by.

What is new is read by itself, with the rows of the earlier question as its subject. A condition of
the same kind takes the place of the earlier one, a figure that of the earlier figure; conditions on
"them" come on top.
"""

import re
from collections.abc import Sequence
from dataclasses import replace

from providers.base import ToolCallEvent
from providers.offline.asked import Change, Figures, Measure, Rank, from_bad_end
from providers.offline.english import (
    ADJECTIVES,
    DIRECTIONS,
    ENDS,
    LEAD,
    PEOPLE,
    RANKED,
    SORTING,
    STOP,
    WORST,
)
from providers.offline.facts import Facts, Said
from providers.offline.frame import Problem
from providers.offline.parse import Compare, Cue, Mark, Moment, Number, Piece, Question, Word, parse
from providers.offline.recall import recall
from providers.offline.resolve import Resolved, resolve
from providers.offline.subject import Subject, named_again

_WORD = re.compile(r"\w+")
_MAX_EARLIER = 12
_MAX_PART = 8
"""The most pieces of a part of a question that stands alone."""
_OPENING = frozenset(
    {"per", "grouped", *ENDS, *(words[0] for words in (*SORTING, *WORST, *DIRECTIONS))}
)
_RANKING = frozenset({*RANKED, *ADJECTIVES, "recent", "ones"})
_ASKING = frozenset({"list", "count", "exists"})
_Asked = Figures | Rank | None


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


def understand(question: Question, facts: Facts, *, depth: int = 1) -> Resolved | None:
    """Read a question with those it leans on; None if no manager fits."""
    if question.answered:
        return recall(question.answered, facts)
    if not question.leans or question.earlier is None:
        return resolve(question, facts, depth=depth)
    base = understand(question.earlier, facts, depth=depth)
    if base is None or base.is_open:
        return base
    if question.leans == "more":
        return _more(base)
    named = named_again(question.pieces, facts, base.told)
    if named and (named.manager.name != base.told.manager.name or question.leans == "open"):
        return _another(question, base, facts, depth)
    part = resolve(question, facts, depth=depth, subject=_as_in(question, base, named))
    if part is None or part.is_open:
        return part
    return _joined(base, part, question)


def _as_in(question: Question, base: Resolved, named: Subject | None) -> Subject:
    """Return the earlier subject, with the place of its name in the new part, if it is there."""
    place = (named.start, named.length) if named else (-1, 0)
    return replace(base.told, start=place[0], length=place[1])


def _another(question: Question, base: Resolved, facts: Facts, depth: int) -> Resolved | None:
    """Read "and airlines?", which asks the same of other rows."""
    if question.leans == "rows":
        return replace(base, problem=Problem("rows", _said(question)))
    intent = base.intent if question.intent == "list" else question.intent
    whole = replace(question, leans="", earlier=None, intent=intent)
    return resolve(whole, facts, depth=depth)


def _said(question: Question) -> str:
    marks = [p for p in question.pieces if isinstance(p, Mark) and p.kind == "rows"]
    return marks[0].text if marks else ""


def _more(base: Resolved) -> Resolved:
    asked = base.asked
    has_end = isinstance(asked, Rank) and asked.top is not None
    has_end = has_end or (
        isinstance(asked, Figures) and (asked.top is not None or not asked.groups)
    )
    if has_end or base.intent == "count":
        return replace(base, problem=Problem("more"))
    return replace(base, skipped=base.skipped + base.rows)


def _joined(base: Resolved, part: Resolved, question: Question) -> Resolved:
    is_new = question.leans == "rows"
    found = replace(part, layers=(*base.layers, base.own), is_added=is_new, noun=base.noun)
    found.compares = base.compares or part.compares
    if is_new:
        if _is_cut(base.asked):
            return replace(found, problem=Problem("rows", _said(question)))
        return found
    found.shown = [*base.shown, *part.shown]
    if question.intent == "list":
        found.intent = base.intent
    if question.intent == "count" and not part.is_figure and not isinstance(base.asked, Rank):
        groups = base.asked.groups if isinstance(base.asked, Figures) else ()
        is_counted = Measure("count") in _measures(base.asked)
        counted = base.asked if is_counted else Figures((Measure("count"),), groups)
        found.asked = counted if groups else None
        return found
    change = part.change
    asked = _with_change(base.asked, change) if change else _replaced(base.asked, part.asked)
    if isinstance(asked, Problem):
        return replace(found, problem=asked)
    return replace(found, asked=asked)


def _is_cut(asked: _Asked) -> bool:
    """Tell whether an answer was not all rows: "them" would be more than it showed."""
    if isinstance(asked, Rank):
        return asked.top is not None
    return isinstance(asked, Figures) and bool(asked.groups)


def _replaced(earlier: _Asked, new: _Asked) -> _Asked:
    """Put a new figure, group or order in the place of the earlier one."""
    if new is None:
        return earlier
    measures = _measures(earlier)
    if isinstance(new, Figures) and new.groups and new.measures == (Measure("count"),) and measures:
        # "And by month?" asks for the earlier measure.
        order = new.order and (measures[0].key, new.order[1])
        top, said = (earlier.top, earlier.said) if isinstance(earlier, Figures) else (None, "")
        top, said = (new.top, new.said) if new.top else (top, said)
        return replace(new, measures=measures, order=order, top=top, said=said)
    if isinstance(earlier, Figures) and earlier.groups and isinstance(new, Figures):
        if not new.groups:
            order = earlier.order and (new.measures[0].key, earlier.order[1])
            return replace(earlier, measures=new.measures, order=order, having=None)
    if isinstance(earlier, Figures) and earlier.groups and isinstance(new, Rank):
        # "And the longest arrival delay?", of each group.
        measure = Measure("max" if new.descending else "min", new.path, new.field)
        return replace(earlier, measures=(measure,), order=(measure.key, new.descending))
    return new


def _measures(asked: _Asked) -> tuple[Measure, ...]:
    if isinstance(asked, Figures):
        return asked.measures
    if isinstance(asked, Rank):
        return (Measure("max" if asked.descending else "min", asked.path, asked.field),)
    return ()


def _with_change(earlier: _Asked, change: Change) -> Figures | Rank | Problem:
    """Change one thing of an earlier figure: how many, which way, or what is worked out."""
    if change.op and (measures := [m for m in _measures(earlier) if m.field]):
        changed = tuple({replace(m, op=change.op): None for m in measures})
        base = earlier if isinstance(earlier, Figures) else Figures(changed)
        order = base.order and (changed[0].key, base.order[1])
        return replace(base, measures=changed, order=order, having=None)
    if earlier is None and change.rank:
        return change.rank
    if change.op or not isinstance(earlier, (Figures, Rank)):
        return Problem("calculation", change.said)
    descending = change.descending
    if change.is_judged and descending is not None:
        measured = earlier.field if isinstance(earlier, Rank) else earlier.ranked.field
        descending = from_bad_end(measured, from_bad=descending)
        if descending is None:
            return Problem("which", change.said, ("highest first", "lowest first"))
    if isinstance(earlier, Rank):
        way = earlier.descending if descending is None else descending
        is_same = way == earlier.descending and earlier.said
        said = earlier.said if is_same else "highest" if way else "lowest"
        return replace(earlier, top=change.top or earlier.top, descending=way, said=said)
    if not earlier.groups:
        return Problem("calculation", change.said)
    key, before = earlier.order or (earlier.measures[0].key, True)
    way = before if descending is None else descending
    is_count = earlier.measures[0].op == "count"
    said = ("most" if way else "fewest") if is_count else ("highest" if way else "lowest")
    return replace(earlier, order=(key, way), top=change.top or earlier.top, said=said)
