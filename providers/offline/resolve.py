"""Stage two, resolve: what a question means in terms of the schema known so far.

The result is either what has to be looked up first, or the ways to read the question, best first. A
way is a set of filters; there are several when only the data can tell where a value belongs.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice, product

from providers.offline.english import MONTHS, singular, split_name
from providers.offline.facts import Facts, Field, Manager
from providers.offline.match import (
    NUMERIC,
    TEMPORAL,
    Bond,
    Candidate,
    Condition,
    hint_score,
    looks_like_date,
    manager_words,
    name_field,
    numeric_field,
)
from providers.offline.parse import Compare, Cue, Intent, Mark, Number, Question
from providers.offline.places import Option, Places, options, related_names
from providers.offline.segment import (
    Mention,
    Segment,
    Segmenter,
    Subject,
    Value,
    find_subject,
    mentioned_managers,
    subject_words,
)

SHOWN_ROWS = 20
_MAX_SCHEMAS = 3
_MAX_READINGS = 8
_MAX_COMBINED = 400


@dataclass(frozen=True, slots=True)
class Reading:
    """One way to read the question.

    ``exact`` are the same conditions with values as wholes instead of parts; they win if they find
    rows.
    """

    conditions: tuple[Condition, ...]
    score: float = 0.0
    exact: tuple[Condition, ...] = ()


@dataclass(slots=True)
class Resolved:
    """What a question means.

    ``problem`` is a kind and a word, for a question we can't answer. ``is_open``: nothing but the
    data says where a value belongs, so it may also be found further away. ``rows`` is how many to
    show. ``related`` are the names of related rows, for a manager whose rows have none themselves.
    """

    subject: Manager
    noun: str
    intent: Intent
    readings: list[Reading] = field(default_factory=list[Reading])
    shown: list[tuple[str, ...]] = field(default_factory=list[tuple[str, ...]])
    problem: tuple[str, str] | None = None
    is_open: bool = False
    rows: int = SHOWN_ROWS
    related: tuple[tuple[str, str], ...] = ()
    schemas: list[str] = field(default_factory=list[str])
    paths: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])

    @property
    def needs_more(self) -> bool:
        """Tell whether look-ups must come first."""
        return bool(self.schemas or self.paths)


def resolve(question: Question, facts: Facts, *, depth: int = 1) -> Resolved | None:
    """Read a question against the facts; None if no manager fits. ``depth``: hops to look at."""
    subject = find_subject(question, facts)
    if subject is None:
        return None
    noun = " ".join(subject.words or manager_words(subject.manager))
    resolved = Resolved(subject.manager, singular(noun), question.intent)
    resolved.related = tuple(related_names(subject.manager, facts))
    content = sum(not isinstance(piece, Cue) for piece in question.pieces)
    if content == subject.length and subject.start >= 0:
        resolved.readings = [Reading(())]
        return resolved
    _need_mentioned(question, facts, resolved)
    if not resolved.needs_more:
        _Resolver(question, subject, facts, resolved, depth).run()
    return resolved


def _need_mentioned(question: Question, facts: Facts, resolved: Resolved) -> None:
    """Ask for the schemas of all that is mentioned, and for the ways there."""
    own = resolved.subject
    for name in dict.fromkeys((own.name, *mentioned_managers(question, facts))):
        if name not in facts.detailed:
            resolved.schemas.append(name)
        near = any(r.target == name for r in own.relations) or name == own.name
        if not near and (own.name, name) not in facts.paths:
            resolved.paths.append((own.name, name))
    resolved.schemas = resolved.schemas[:_MAX_SCHEMAS]
    resolved.paths = resolved.paths[:1]


class _Resolver:
    """Folds the segments of one sentence into conditions; ``used`` are those that have a place."""

    def __init__(
        self, question: Question, subject: Subject, facts: Facts, resolved: Resolved, depth: int
    ) -> None:
        sentence = Segmenter(question, subject, facts).read()
        self.segments = sentence.segments
        self.calculation = sentence.calculation
        self.question = question
        self.facts = facts
        self.out = resolved
        self.manager = subject.manager
        self.places = Places(subject.manager, facts, depth)
        self.own_words = subject_words(subject)
        self.used: set[int] = set()
        self.fixed: list[Condition] = []
        self.open: list[list[Option]] = []

    def run(self) -> None:
        for step in (self._comparisons, self._gaps, self._numbers, self._values, self._rest):
            step()
        self._judge()
        self.out.schemas = self.places.wanted
        if not self.out.problem and not self.out.needs_more:
            self.out.readings = list(self._readings())

    def _at(self, index: int) -> Segment | None:
        return self.segments[index] if 0 <= index < len(self.segments) else None

    def _fail(self, kind: str, word: str = "") -> None:
        self.out.problem = self.out.problem or (kind, word)

    # --- comparisons and numbers ------------------------------------------------------------------

    def _comparisons(self) -> None:
        for index, segment in enumerate(self.segments):
            if isinstance(segment, Compare):
                self._compare(index, segment)

    def _compare(self, index: int, compare: Compare) -> None:
        operand = self._at(index + 1)
        self.used.add(index)
        lookup = "" if compare.op == "eq" else compare.op
        if isinstance(operand, Value) and lookup:
            self.used.add(index + 1)
            mention = self._amount_beside(self._start(index) - 1, index + 2)
            self._compare_date(operand, lookup, mention)
        elif isinstance(operand, Number):
            self.used.add(index + 1)
            start = self._start(index)
            verb = self._hints(start)
            mention = self._amount_beside(start - 1, index + 2, unless=verb)
            if mention and mention.field:
                self._add_number(mention.path, mention.field.type, operand, lookup)
            else:
                hints = verb | compare.hints | self._unit(index + 2)
                if verb and isinstance(self._at(index + 2), Mention):
                    self.used.add(index + 2)
                self._place_number(operand, lookup, hints, in_time=compare.in_time, at=start)

    def _start(self, index: int) -> int:
        """Return where a range starts: its second half is about the same field as its first."""
        is_second = isinstance(self._at(index - 1), Number)
        return index - 2 if is_second and isinstance(self._at(index - 2), Compare) else index

    def _amount_beside(
        self, before: int, behind: int, unless: frozenset[str] = frozenset()
    ) -> Mention | None:
        """Find the field of amounts a number is about: before it, else behind it.

        What stands behind is only a unit when words before (``unless``) point to an amount, as in
        "delayed more than 60 minutes".
        """
        while isinstance(self._at(before), Cue):
            before -= 1
        behind += isinstance(self._at(behind), Cue)
        pointed = any(
            _is_amount(f) and hint_score(unless, f.name, f.description) >= 4.0
            for f in self.manager.fields
        )
        for position in (before, before if pointed else behind):
            found = self._at(position)
            is_free = position not in self.used or position == before
            if isinstance(found, Mention) and is_free and _is_amount(found.field):
                self._use(position)
                return found
        return None

    def _use(self, position: int) -> None:
        """Mark a mention as placed, and with it the relation its path goes through."""
        self.used.add(position)
        mention = self._at(position)
        if isinstance(mention, Mention):
            for index, other in enumerate(self.segments[:position]):
                if isinstance(other, Mention) and other.target and mention.path[:-1] == other.path:
                    self.used.add(index)

    def _compare_date(self, value: Value, lookup: str, mention: Mention | None) -> None:
        text = value.texts[0]
        dates = [f for f in self.manager.fields if f.type in TEMPORAL]
        path = mention.path if mention else (dates[0].name,) if len(dates) == 1 else ()
        if path and looks_like_date(text):
            self.fixed.append(Condition(path, lookup, text, text, in_time=True))
        else:
            self._fail("unclear", text)

    def _add_number(self, path: tuple[str, ...], type_: str, number: Number, lookup: str) -> None:
        in_time = type_ in TEMPORAL or "year" in split_name(path[-1])
        dated = type_ in TEMPORAL
        value = (
            f"{number.value:04}-01-01" if dated and isinstance(number.value, int) else number.value
        )
        if dated and lookup in {"gt", "lte"} and isinstance(number.value, int):
            # "After 2005" starts when the year has ended.
            value, lookup = f"{number.value + 1:04}-01-01", "gte" if lookup == "gt" else "lt"
        self.fixed.append(Condition(path, lookup, value, number.text, in_time))

    def _place_number(
        self, number: Number, lookup: str, hints: frozenset[str], *, in_time: bool, at: int
    ) -> None:
        noun = self.own_words if self._follows_subject(at, number) else frozenset[str]()
        for path, manager in self._number_places(at):
            found = numeric_field(
                number.value, hints - self.own_words, manager, in_time=in_time, noun=noun
            )
            if found:
                self._add_number((*path, found.name), found.type, number, lookup)
                return
        if lookup:
            self._fail("unclear", number.text)
        else:
            self._place_text(Value((number.text,)), at)

    def _number_places(self, at: int) -> Iterator[tuple[tuple[str, ...], Manager]]:
        near = self._at(at - 1)
        near = self._at(at - 2) if isinstance(near, Cue) else near
        if isinstance(near, Mention) and near.target in self.facts.managers and near.path:
            yield near.path, self.facts.managers[near.target]
        yield (), self.manager

    def _follows_subject(self, at: int, number: Number) -> bool:
        before = self._at(at - 1)
        return number.joined and isinstance(before, Mention) and before.is_subject

    def _unit(self, index: int) -> frozenset[str]:
        unit = self._at(index)
        return unit.hints if isinstance(unit, Cue) else frozenset()

    def _numbers(self) -> None:
        for index, number in enumerate(self.segments):
            if not isinstance(number, Number) or index in self.used:
                continue
            self.used.add(index)
            if self._is_row_count(index, number):
                self.out.rows = max(1, min(SHOWN_ROWS, int(number.value)))
                continue
            mention = self._amount_beside(index - 1, index + 1)
            if mention and mention.field:
                self._add_number(mention.path, mention.field.type, number, "")
                continue
            value = Value((number.text,), number.joined)
            if attached := self._attached(index, value):
                self._number_of(attached, number, index)
                continue
            before = self._at(index - 1)
            moment = isinstance(before, Cue) and before.kind in {"in", "from", "of", "on", "for"}
            in_time = moment and isinstance(number.value, int) and 1000 <= number.value <= 2999
            hints = self._hints(index) | self._unit(index + 1)
            self._place_number(number, "", hints, in_time=in_time, at=index)

    def _is_row_count(self, index: int, number: Number) -> bool:
        """Tell "list 3 parts" from a number that is a value."""
        subject = self._at(index + 1)
        is_first = index == 0 and number.value > 0
        return is_first and isinstance(subject, Mention) and subject.is_subject and subject.joined

    def _number_of(self, mention: Mention, number: Number, index: int) -> None:
        """Read "project 7" by the key of projects, and a number beside a text as text."""
        target = self.places.known(mention.target) if mention.target and mention.path else None
        keys = [f for f in target.fields if f.name in target.primary_key] if target else []
        if len(keys) == 1 and keys[0].type == "integer":
            self._add_number((*mention.path, keys[0].name), "integer", number, "")
        else:
            self._place_text(Value((number.text,)), index, mention)

    # --- gaps -------------------------------------------------------------------------------------

    def _gaps(self) -> None:
        for index, mark in enumerate(self.segments):
            if not isinstance(mark, Mark) or mark.kind != "missing":
                continue
            self.used.add(index)
            for position in (index + 1, index - 1):
                found = self._at(position)
                if (
                    isinstance(found, Mention)
                    and not found.is_subject
                    and position not in self.used
                ):
                    self._use(position)
                    self._add_gap(found, is_missing=True)
                    break
            else:
                unknown = self._at(index + 1)
                self._fail("unknown", unknown.texts[0] if isinstance(unknown, Value) else "")

    def _add_gap(self, mention: Mention, *, is_missing: bool) -> None:
        if mention.path:
            self.fixed.append(Condition(mention.path, "isnull", is_missing))
        else:
            self._fail("unrelated", mention.target)

    # --- values -----------------------------------------------------------------------------------

    def _values(self) -> None:
        for index, value in enumerate(self.segments):
            if isinstance(value, Value) and index not in self.used:
                self.used.add(index)
                self._place_text(value, index, self._attached(index, value))

    def _attached(self, index: int, value: Value) -> Mention | None:
        """Find what a value stands next to: "supplier X", "aluminum parts", "X time zone"."""
        position = index - 1
        if isinstance(self._at(position), Compare):
            position -= 1
        before, after = self._at(position), self._at(index + 1)
        if isinstance(before, Mention) and not before.is_subject and position not in self.used:
            self._use(position)
            return before
        if isinstance(after, Mention) and after.joined and not after.is_subject:
            self._use(index + 1)
            return after
        return self._led_by(index)

    def _led_by(self, index: int) -> Mention | None:
        """Find related rows that the cues before a value speak of: "planes made by BOEING"."""
        position = index - 1
        while isinstance(self._at(position), Cue):
            position -= 1
        led = self._at(position)
        if not isinstance(led, Mention) or not led.path or position in self.used:
            return None
        hints, target = self._hints(index), self.facts.managers.get(led.target)
        if not self.places.speaks_of(hints, target) and (
            led.field or position == index - 1 or self.places.speaks_of(hints, self.manager)
        ):
            return None
        self._use(position)
        return led

    def _hints(self, index: int) -> frozenset[str]:
        """Collect what the cues before a value point to, and a closing verb behind it."""
        found: frozenset[str] = frozenset()
        position = index - 1
        while isinstance(cue := self._at(position), Cue):
            found |= cue.hints
            position -= 1
        closing = self._at(index + 1)
        is_last = index + 2 == len(self.segments)
        if not found and is_last and isinstance(closing, Cue) and closing.is_verb:
            found = closing.hints
        return found - self.own_words

    def _bond(self, index: int) -> Bond:
        """Say how a value is tied to the noun it belongs to."""
        before, after = self._at(index - 1), self._at(index + 1)
        if isinstance(after, Mention) and after.joined and not after.field:
            return "kind"
        if isinstance(after, Cue) and index + 2 == len(self.segments):
            before = after
        if not isinstance(before, Cue) or before.kind in {"with", "named"} or before.is_verb:
            return "loose"
        owner = self._at(index - 2)
        if before.kind == "of" and isinstance(owner, Mention) and owner.field:
            # "The price of the Bolt" is about the row called so.
            return "loose"
        return "other" if before.kind in {"of", "made", "use", "by"} else "place"

    def _place_text(self, value: Value, index: int, mention: Mention | None = None) -> None:
        if mention and mention.field:
            if places := self.places.in_field(value.texts, mention):
                self._offer(value, places)
                return
            self.out.shown.append(mention.path)
        elif mention and not mention.path:
            self._fail("unrelated", mention.target)
            return
        elif mention:
            bond = self._bond(index)
            self._offer(
                value, self.places.beside(value.texts[0], self._hints(index), mention, bond)
            )
            return
        if not self._place_month(value):
            hints, bond = self._hints(index), self._bond(index)
            self._offer(value, self.places.anywhere(value.texts[0], hints, bond))

    def _place_month(self, value: Value) -> bool:
        month = MONTHS.get(value.texts[0].lower())
        whole = (f.name for f in self.manager.fields if f.type == "integer")
        calendar = [name for name in whole if split_name(name)[-1:] == ("month",)]
        if not month or len(value.texts) != 1 or not calendar:
            return False
        self.fixed.append(Condition((calendar[0],), "", month, value.texts[0]))
        return True

    def _offer(self, value: Value, places: list[Candidate]) -> None:
        ways = options(value.texts, places)
        if not ways and not self.places.wanted:
            self._fail("unclear", value.texts[0])
        self.out.is_open = self.out.is_open or not any(c.is_sure for c in places)
        self.open.append(ways)

    # --- what is left -----------------------------------------------------------------------------

    def _rest(self) -> None:
        for index, mention in enumerate(self.segments):
            if not isinstance(mention, Mention) or mention.is_subject or index in self.used:
                continue
            before = self._at(index - 1)
            counted = self.question.counted == mention.start
            if counted:
                self.out.intent = "list"
            if mention.field and mention.field.type == "boolean":
                negated = isinstance(before, Mark) and before.kind == "not"
                self.used |= {index - 1} if negated else set()
                self.fixed.append(Condition(mention.path, "", not negated))
            elif self._is_required(mention, before):
                self._add_gap(mention, is_missing=False)
            elif mention.field:
                self.out.shown.append(mention.path)
            elif mention.path and not counted:
                self._show_name(mention)

    def _show_name(self, mention: Mention) -> None:
        """Show related rows by their name."""
        target = self.places.known(mention.target)
        named = name_field(target) if target else None
        if named:
            self.out.shown.append((*mention.path, named.name))

    def _is_required(self, mention: Mention, before: Segment | None) -> bool:
        """Tell "parts with a supplier", a condition, from "parts and their supplier", a column."""
        if not isinstance(before, Cue):
            return False
        if mention.field:
            return before.kind == "with" and mention.field.nullable
        return before.kind in {"with", "use", "in", "on", "for", "by", "of"}

    def _judge(self) -> None:
        """Refuse what filters can't say."""
        excluded = any(
            isinstance(s, Mark) and s.kind == "not" and i not in self.used
            for i, s in enumerate(self.segments)
        )
        if excluded:
            self.out.problem = ("exclusion", "")
        if self.calculation == "total" and not self.out.shown:
            self.out.intent = "count"
        elif self.calculation:
            self.out.problem = ("calculation", self.calculation)

    def _readings(self) -> Iterator[Reading]:
        ranked = sorted(
            islice(product(*self.open), _MAX_COMBINED), key=lambda ways: -sum(w.score for w in ways)
        )
        for ways in ranked[:_MAX_READINGS]:
            conditions = self._whole(way.condition for way in ways)
            exact = self._whole(way.exact or way.condition for way in ways)
            if len({c.key for c in conditions}) == len(conditions):
                score = sum(way.score for way in ways)
                yield Reading(conditions, score, exact if exact != conditions else ())

    def _whole(self, chosen: Iterable[Condition]) -> tuple[Condition, ...]:
        """Add what is fixed, save for "has any" of rows that another condition is about anyway."""
        found = tuple(chosen)
        paths = [c.path for c in (*self.fixed, *found)]
        return tuple(
            c
            for c in (*self.fixed, *found)
            if not (c.value is False and c.lookup == "isnull")
            or not any(len(p) > len(c.path) and p[: len(c.path)] == c.path for p in paths)
        )


def _is_amount(field: Field | None) -> bool:
    return field is not None and field.type in NUMERIC | TEMPORAL
