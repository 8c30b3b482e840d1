"""Names found in a question: which words mean managers, relations or fields, which are values."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from providers.offline.english import (
    CALCULATIONS,
    FILLER,
    GLUE,
    PARTS,
    RANKED,
    UNITS,
    VERBS,
    same,
    singular,
)
from providers.offline.facts import Facts, Field, Manager, Relation
from providers.offline.figures import Best, By, Figure, Op, Part, figure_at
from providers.offline.match import (
    absent_if,
    best_field,
    choice_of,
    hint_score,
    looks_like_code,
    manager_words,
    named_relation,
    names_manager,
)
from providers.offline.parse import (
    Compare,
    Cue,
    Mark,
    Moment,
    Number,
    Piece,
    Question,
    Word,
)
from providers.offline.subject import LONGEST_NAME, Subject, is_joined, plain_words


@dataclass(frozen=True, slots=True)
class Mention:
    """Words that name something: the subject, a field (its ``path`` ends with it), or related rows.

    ``target`` is the related manager's name; its ``path`` is empty while no way there is known, and
    ``rivals`` are other relations that lead there. ``is_loose``: a description gave the field.
    """

    start: int
    joined: bool
    words: tuple[str, ...] = ()
    path: tuple[str, ...] = ()
    field: Field | None = None
    target: str = ""
    rivals: tuple[str, ...] = ()
    is_loose: bool = False
    is_subject: bool = False


@dataclass(frozen=True, slots=True)
class Value:
    """Words that name nothing known. ``texts`` are alternatives, linked by "or" or by "and"."""

    texts: tuple[str, ...]
    joined: bool = False
    quoted: bool = False
    link: str = ""

    @property
    def said(self) -> str:
        """The value as the user put it."""
        return f" {self.link or 'or'} ".join(self.texts)


@dataclass(frozen=True, slots=True)
class Absent:
    """A word that says of rows which fields are not set, by the fields' own descriptions."""

    text: str
    fields: tuple[str, ...]


Segment = Mention | Value | Number | Moment | Compare | Cue | Mark | Figure | Part | Absent


def _is_value(piece: Piece | None) -> bool:
    """Tell whether a piece looks like a value: a number, or a quoted or capitalised word."""
    if isinstance(piece, Word):
        return piece.quoted or not piece.text.islower()
    return isinstance(piece, Number)


def read_segments(
    question: Question, subject: Subject, facts: Facts
) -> tuple[tuple[Segment, ...], str]:
    """Return the question in terms of the schema, and a word that asks for a calculation, or ""."""
    reader = _Reader(question, subject, facts)
    reader.read()
    return tuple(_with_lists(reader.found)), reader.calculation


class _Reader:
    """Goes once over the pieces. ``scope`` is the related manager whose fields may follow."""

    def __init__(self, question: Question, subject: Subject, facts: Facts) -> None:
        self.pieces = question.pieces
        self.asks_do = question.asks_do
        self.subject = subject
        self.facts = facts
        self.found: list[Segment] = []
        self.scope: tuple[tuple[str, ...], str] | None = None
        self.calculation = ""

    def read(self) -> None:
        position = 0
        while position < len(self.pieces):
            position += self._step(position)

    def _step(self, position: int) -> int:
        piece = self.pieces[position]
        if position == self.subject.start:
            self.found.append(Mention(position, is_joined(piece), is_subject=True))
            return self.subject.length
        figure = figure_at(self.pieces, position)
        if figure and (figure[1] > 1 or not isinstance(piece, Word)):
            return self._figure(*figure)
        if not isinstance(piece, Word):
            if not (isinstance(piece, Mark) and piece.kind == "count") or self._is_ranked():
                self.found.append(piece)
            return 1
        is_amount = bool(self.found) and isinstance(self.found[-1], Number)
        if is_amount and singular(piece.lower) in UNITS and not self._is_ranked_unit():
            # "2 hours" is an amount, even where a column is called hour.
            self.found.append(Cue(piece.lower, piece.text))
            return 1
        if figure and self._is_of_field(position):
            return self._figure(*figure)
        for length in range(LONGEST_NAME, 0, -1):
            if self._name(position, length):
                return length
        if figure:
            return self._figure(*figure)
        self._word(position, piece)
        return 1

    def _is_ranked_unit(self) -> bool:
        """Tell "top 5 days by flights" and "three days with the most flights" from an amount."""
        figures = (figure_at(self.pieces, at) for at in range(len(self.pieces)))
        is_first = all(isinstance(s, (Best, Number)) for s in self.found)
        return is_first and any(found and isinstance(found[0], Best) for found in figures)

    def _is_of_field(self, position: int) -> bool:
        """Tell "total rank" from "total" alone, where both words are names of fields."""
        manager = self.subject.manager
        word, both = (plain_words(self.pieces, position, n) for n in (1, 2))
        is_next = bool(both) and best_field(both[1:], manager, 2) is not None
        return is_next and bool(word) and best_field(both, manager, 3) is None

    def _figure(self, figure: Figure, length: int) -> int:
        self.found.append(figure)
        self.scope = None
        return length

    def _is_ranked(self) -> bool:
        """Tell "by number of flights", where the number matters, from "with number of seats 4"."""
        before = self.found[-1] if self.found else None
        return self._is_grouping() or isinstance(before, (Best, Op))

    def _name(self, position: int, length: int) -> bool:
        """Take ``length`` words as a name of the schema, if they are one."""
        words = plain_words(self.pieces, position, length)
        if not words or any(
            self.subject.start <= at < self.subject.start + self.subject.length
            for at in range(position, position + length)
        ):
            return False
        mention = (
            self._compound(position, words)
            or self._field(position, words, 3)
            or self._related(position, words)
            or self._field(position, words, self._least(position, length))
        )
        if mention:
            self.found.append(mention)
            if mention.target:
                self.scope = (mention.path, mention.target)
        return mention is not None

    def _compound(self, position: int, words: list[str]) -> Mention | None:
        """Read "flight number" as a name that the noun is a part of."""
        subject = self.subject
        if position != subject.start + subject.length or not is_joined(self.pieces[position]):
            return None
        return self._field(position, [singular(word) for word in subject.words] + words, 2)

    def _least(self, position: int, length: int) -> int:
        """Say how loosely the words may name a field: values must not be taken for names."""
        words = [p for p in self.pieces[position : position + length] if isinstance(p, Word)]
        if any(looks_like_code(word.text) or not word.text.islower() for word in words):
            return 3
        if any(word.lower in RANKED for word in words):
            # A description with the word "average" does not make it a name.
            return 3
        if isinstance(self.found[-1] if self.found else None, Number):
            # What stands behind a number may be its unit.
            return 2
        if length > 1:
            return 1
        here = self.pieces[position]
        before = self.pieces[position - 1] if position and is_joined(here) else None
        behind = self.pieces[position + 1] if position + 1 < len(self.pieces) else None
        beside_value = _is_value(before) or (_is_value(behind) and is_joined(behind))
        return 1 if beside_value else 2

    def _field(self, position: int, words: list[str], least: int) -> Mention | None:
        places: list[tuple[tuple[str, ...], Manager]] = [((), self.subject.manager)]
        if self.scope and self.scope[1] in self.facts.managers:
            places.insert(0, (self.scope[0], self.facts.managers[self.scope[1]]))
        for path, manager in places:
            if path and least < 2:
                continue
            if found := best_field(words, manager, least):
                loose = best_field(words, manager, 2) is None
                joined = is_joined(self.pieces[position])
                whole = (*path, found.name)
                return Mention(position, joined, tuple(words), whole, found, is_loose=loose)
        return None

    def _related(self, position: int, words: list[str]) -> Mention | None:
        joined, said = is_joined(self.pieces[position]), tuple(words)
        own = self.subject.manager
        if relation := named_relation(words, own):
            return Mention(position, joined, said, (relation.name,), target=relation.target)
        for manager in self.facts.managers.values():
            if names_manager(words, manager) and manager.name != own.name:
                path = self._path(manager.name)
                first = own.relation(path[0]) if path else None
                rivals = tuple(
                    r.name
                    for r in own.relations
                    if first and r.target == first.target and r.name != first.name
                )
                return Mention(position, joined, said, path, None, manager.name, rivals)
        for relation in own.relations:
            if relation.target not in self.facts.managers and _target_words(relation, words):
                return Mention(position, joined, said, (relation.name,), target=relation.target)
        return None

    def _path(self, target: str) -> tuple[str, ...]:
        direct = next((r.name for r in self.subject.manager.relations if r.target == target), None)
        if direct:
            return (direct,)
        return self.facts.paths.get((self.subject.manager.name, target)) or ()

    def _word(self, position: int, word: Word) -> None:
        following = self.pieces[position + 1] if position + 1 < len(self.pieces) else None
        if word.quoted:
            self._value(word)
        elif word.lower in FILLER:
            return
        elif word.lower in CALCULATIONS and word.text.islower():
            self.calculation = self.calculation or word.lower
        elif self._is_grouping() and singular(word.lower) in PARTS:
            self.found.append(Part(singular(word.lower)))
        elif mention := self._field_beyond(position, word):
            self.found.append(mention)
        elif fields := absent_if(word.lower, self.subject.manager):
            self.found.append(Absent(word.text, fields))
        elif self._is_verb(word, following):
            self.found.append(Cue(word.lower, word.text))
        else:
            self._value(word)

    def _is_grouping(self) -> bool:
        """Tell whether a group is named here."""
        before = self.found[-1] if self.found else None
        return isinstance(before, By) or (isinstance(before, Cue) and before.text == "by")

    def _field_beyond(self, position: int, word: Word) -> Mention | None:
        """Read "orders by town", a field of the one related row that has it."""
        figure = figure_at(self.pieces, position + 2)
        is_ranked = not self.found and figure is not None and isinstance(figure[0], Best)
        if not word.text.islower() or not (is_ranked or self._is_grouping()):
            return None
        found = [
            ((relation.name, named.name), named)
            for relation in self.subject.manager.relations
            if not relation.many and relation.target in self.facts.managers
            if (named := best_field([word.lower], self.facts.managers[relation.target], 3))
        ]
        if len(found) != 1:
            return None
        return Mention(position, word.joined, (word.lower,), *found[0])

    def _is_verb(self, word: Word, following: Piece | None) -> bool:
        """Tell a verb or a unit, which only hints at a field, from a value."""
        if not word.text.islower():
            return False
        before = self.found[-1] if self.found else None
        if word.joined and isinstance(before, Number):
            return True
        if any(choice_of(word.lower, field) for field in self.subject.manager.fields):
            return False
        if isinstance(before, Mention) and before.is_subject and word.joined:
            # "Which suppliers deliver the Heat Sink": the word between noun and name.
            name = isinstance(following, Word)
            if name and not (following.joined and following.text.islower()):
                return True
            relations = self.subject.manager.relations
            if name and any(hint_score({word.lower}, "", r.description) for r in relations):
                return True
        if following is None and self.asks_do and word.joined and isinstance(before, Value):
            # "Which parts does Acme supply?"
            return True
        participle = word.lower.endswith(("ed", "ing")) or word.lower in GLUE | set(VERBS)
        return participle and isinstance(following, (Cue, Compare, Number))

    def _value(self, word: Word) -> None:
        before = self.found[-1] if self.found else None
        self.scope = None
        if word.joined and isinstance(before, Value) and not before.quoted and not word.quoted:
            self.found[-1] = Value((f"{before.texts[0]} {word.text}",), before.joined)
        else:
            self.found.append(Value((word.text,), word.joined, word.quoted))


def _target_words(relation: Relation, words: list[str]) -> bool:
    """Tell whether words name the manager that a relation leads to, before it was looked at."""
    target = manager_words(Manager(manager=relation.target))
    return len(target) == len(words) and all(map(same, words, target))


def _with_lists(segments: list[Segment]) -> Iterator[Segment]:
    """Join values, numbers or dates that are linked by "or", "and" or commas."""
    kept: list[Segment] = []
    links: list[Mark] = []
    for segment in segments:
        if isinstance(segment, Mark) and segment.kind in {"or", "and"}:
            links.append(segment)
            continue
        joint = _joint(kept, segment, links) if links and kept else None
        if joint:
            kept[-1] = joint
        elif links and kept:
            kept += [_link(links), segment]
        else:
            kept.append(segment)
        links = []
    yield from kept


def _link(links: list[Mark]) -> Mark:
    """Return the telling one of neighbouring links: a comma says nothing beside an "or"."""
    return next((mark for mark in reversed(links) if mark.text != ","), links[-1])


def _joint(kept: list[Segment], segment: Segment, links: list[Mark]) -> Segment | None:
    before = kept[-1]
    alone = not isinstance(kept[-2] if len(kept) > 1 else None, Compare)
    match before, segment:
        case Value(), Value():
            link = _link(links)
            said = before.link if link.text == "," and before.link else link.text
            texts = (*before.texts, *segment.texts)
            return replace(before, texts=texts, link="or" if link.kind == "or" else said)
        case Number(), Number() if alone:
            text = f"{before.text} or {segment.text}"
            return replace(before, text=text, more=(*before.more, segment.value), unit=segment.unit)
        case Moment(), Moment() if alone:
            text = f"{before.text} or {segment.text}"
            return replace(before, text=text, more=(*before.more, segment))
        case _:
            return None
