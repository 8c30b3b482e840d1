"""Whose rows a question asks for: the manager it names, or the one that has the field it names."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from providers.offline.english import ENDS, RANKED, split_name
from providers.offline.facts import Facts, Manager
from providers.offline.figures import Best, By, Op, figure_at, skip_figures
from providers.offline.match import best_field, best_level, named_relation, names_manager
from providers.offline.parse import Compare, Cue, Mark, Number, Piece, Question, Word

LONGEST_NAME = 4
"""Words that a name of the schema may have."""


@dataclass(frozen=True, slots=True)
class Subject:
    """The manager whose rows are asked for, and the words that say so, if any do."""

    manager: Manager
    start: int = -1
    length: int = 0
    words: tuple[str, ...] = ()

    @property
    def own_words(self) -> frozenset[str]:
        """What the rows go by: hints of these say nothing new."""
        return frozenset((*self.words, *split_name(self.manager.name)))


def find_subject(question: Question, facts: Facts) -> Subject | None:
    """Find whose rows are asked for.

    That is the first manager named, or the last noun of a compound. In a question for a figure it
    is the manager whose rows are counted or measured: flights, in "the airline with most flights".
    """
    pieces = question.pieces
    named = list(_named(pieces, facts))
    for subject in named:
        if _is_counted(pieces, subject.start) or _is_counted_by(pieces, named[0], subject):
            return subject
    first = next((s for s in named if not _is_grouped(pieces, s.start)), None)
    for measure in _measures(pieces):
        if owner := _owner(measure, first, facts):
            return next((s for s in named if s.manager.name == owner.name), Subject(owner))
    if first is None and named and not list(_measures(pieces)):
        return named[0]
    return first or _subject_by_field(question, facts)


def named_again(pieces: Sequence[Piece], facts: Facts, told: Subject) -> Subject | None:
    """Find the rows that a question names: those of an earlier one, or others by themselves.

    Others are not meant where their name stands behind a tie, a value or a number.
    """
    for subject in _named(pieces, facts):
        if subject.manager == told.manager and not _is_grouped(pieces, subject.start):
            return subject
        before = pieces[subject.start - 1] if subject.start else None
        is_held = isinstance(before, (Cue, Compare, Number))
        is_held = is_held or (isinstance(before, Word) and not before.text.islower())
        at = subject.start
        if not is_held and not _is_grouped(pieces, at) and not _is_counted(pieces, at):
            return subject
    return None


def opens_with_rows(pieces: Sequence[Piece], facts: Facts) -> bool:
    """Tell "purchase orders in July" and "order 3" from "order 3 bolts", a request."""
    named = _manager_at(pieces, 0, facts)
    if named is None or named.length > 1:
        return named is not None
    if len(pieces) > 2:
        return isinstance(pieces[1], Cue)
    return all(isinstance(piece, Number) for piece in pieces[1:])


def mentioned_managers(question: Question, facts: Facts) -> Iterator[str]:
    """Name every known manager the question mentions, in order."""
    for position in range(len(question.pieces)):
        if found := _manager_at(question.pieces, position, facts):
            yield found.manager.name


def plain_words(pieces: Sequence[Piece], position: int, length: int) -> list[str]:
    """Return ``length`` neighbouring words from a position, or nothing if there are fewer."""
    span = pieces[position : position + length]
    words = [p.lower for p in span if isinstance(p, Word) and not p.quoted]
    close = all(is_joined(piece) for piece in span[1:])
    return words if len(words) == length and close else []


def is_joined(piece: Piece | None) -> bool:
    """Tell whether nothing stood between a piece and the one before."""
    return isinstance(piece, (Word, Number)) and piece.joined


def _named(pieces: Sequence[Piece], facts: Facts) -> Iterator[Subject]:
    position = 0
    while position < len(pieces):
        found = _manager_at(pieces, position, facts)
        if not found:
            position += 1
            continue
        following = _manager_at(pieces, found.start + found.length, facts)
        while following and is_joined(pieces[following.start]):
            found = following
            following = _manager_at(pieces, found.start + found.length, facts)
        yield found
        position = found.start + found.length


def _manager_at(pieces: Sequence[Piece], position: int, facts: Facts) -> Subject | None:
    for length in range(LONGEST_NAME, 0, -1):
        words = plain_words(pieces, position, length)
        for manager in facts.managers.values() if words else ():
            if names_manager(words, manager):
                return Subject(manager, position, length, tuple(words))
    return None


def _is_counted(pieces: Sequence[Piece], at: int) -> bool:
    """Tell whether rows are counted to rank others: "with most flights", "over 50 flights"."""
    before = figure_at(pieces, at - 1) if at else None
    while not before and at > 1 and isinstance(pieces[at - 1], Word):
        # "The most aluminum parts"
        at -= 1
        before = figure_at(pieces, at - 1)
    if before and isinstance(before[0], Best):
        return before[0].is_count and at > 1
    if at > 2 and isinstance(pieces[at - 1], Number) and isinstance(pieces[at - 2], Compare):
        return isinstance(pieces[at - 3], Cue)
    mark = pieces[at - 1] if at > 1 else None
    return isinstance(mark, Mark) and mark.kind == "count"


def _is_counted_by(pieces: Sequence[Piece], head: Subject, by: Subject) -> bool:
    """Tell "top 3 suppliers by parts", which counts parts, from "top 3 flights by airline"."""
    best, tie = figure_at(pieces, 0), pieces[head.start + head.length : by.start]
    is_top = best is not None and isinstance(best[0], Best) and best[0].text in ENDS
    is_by = len(tie) == 1 and isinstance(tie[0], Cue) and tie[0].kind == "by"
    leads = any(r.target == by.manager.name and not r.many for r in head.manager.relations)
    return is_top and is_by and not leads


def _is_grouped(pieces: Sequence[Piece], at: int) -> bool:
    """Tell whether a name only says what to group by: "per airline", "by carrier and airline"."""
    if not at:
        return False
    before = pieces[at - 1]
    if isinstance(before, Cue) and before.kind == "by":
        return True
    starts = range(max(0, at - 3), at)
    return any(
        found and isinstance(found[0], By) and start + found[1] == at
        for start in starts
        for found in [figure_at(pieces, start)]
    )


def _measures(pieces: Sequence[Piece]) -> Iterator[list[list[str]]]:
    """Give the words behind "average" or "longest", in runs from long to short."""
    for position in range(len(pieces)):
        found = figure_at(pieces, position)
        if not found or not isinstance(found[0], (Op, Best)):
            continue
        start = skip_figures(pieces, position)
        while start < len(pieces) and _is_between(pieces[start]):
            start = skip_figures(pieces, start + 1)
        runs = (plain_words(pieces, start, length) for length in range(LONGEST_NAME, 0, -1))
        if kept := [run for run in runs if run]:
            yield kept


def _is_between(piece: Piece) -> bool:
    """Tell what may stand between "average" and its field: "and", "of", "five"."""
    is_tie = isinstance(piece, Cue) and piece.kind == "of"
    return is_tie or isinstance(piece, Number) or (isinstance(piece, Mark) and piece.kind == "and")


def _owner(runs: list[list[str]], subject: Subject | None, facts: Facts) -> Manager | None:
    """Return the manager that has a measured field, if the subject has none of that name.

    Rows that lead to the subject are meant, such as the flights of an airline, and not rows that
    the subject leads to.
    """
    for words in runs:
        if held := _held(words, subject, facts):
            return held
        if subject and named_relation(words, subject.manager):
            return None
        if subject and (
            best_field(words, subject.manager, 2) or names_manager(words, subject.manager)
        ):
            return None
        rated = [(best_level(words, m), m) for m in facts.managers.values()]
        best = max((level for level, _ in rated), default=0)
        found = [m for level, m in rated if level == best] if best > 1 else []
        if subject:
            found = [m for m in found if _leads(m, subject.manager)]
        if found:
            return found[0]
    return None


def _held(words: list[str], subject: Subject | None, facts: Facts) -> Manager | None:
    """Return the manager in "average part price", if its name and a field of it are given."""
    for manager in facts.managers.values():
        for length in range(1, len(words)):
            is_named = names_manager(words[:length], manager)
            if is_named and best_field(words[length:], manager, 2):
                is_other = subject is None or _leads(manager, subject.manager)
                return manager if is_other else None
    return None


def _leads(manager: Manager, to: Manager) -> bool:
    is_near = any(r.target == to.name and not r.many for r in manager.relations)
    return is_near and not any(r.target == manager.name and not r.many for r in to.relations)


def _subject_by_field(question: Question, facts: Facts) -> Subject | None:
    best = next(iter(facts.managers.values()), None)
    if best is None or best.reason != "field":
        return None
    start = skip_figures(question.pieces)
    for length in (2, 1):
        words = plain_words(question.pieces, start, length)
        if words and words[0] not in RANKED and best_field(words, best, least=2):
            return Subject(best)
    return None
