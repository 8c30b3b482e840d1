"""Stage two, resolve: what a question means in terms of the schema known so far.

The result is either what has to be looked up first, or the ways to read the question, best first. A
way is a set of filters; there are several when only the data can tell where a value belongs.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import islice, product

from providers.offline.english import MONTHS, singular, split_name
from providers.offline.facts import Facts, Field, Manager, Relation
from providers.offline.match import (
    NUMERIC,
    TEMPORAL,
    Bond,
    Candidate,
    Condition,
    Scope,
    candidates,
    contains,
    equal,
    hint_score,
    looks_like_date,
    manager_words,
    numeric_field,
)
from providers.offline.parse import Compare, Cue, Intent, Mark, Number, Question
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

_MAX_SCHEMAS = 3
_MAX_READINGS = 8
_LEFT_OUT = -50.0
_TELLING = 4


@dataclass(frozen=True, slots=True)
class Reading:
    """One way to read the question.

    ``exact`` are the same conditions with values as wholes instead of parts; they win if they find
    rows. ``left_out`` are words the reading does without.
    """

    conditions: tuple[Condition, ...]
    score: float = 0.0
    left_out: tuple[str, ...] = ()
    exact: tuple[Condition, ...] = ()


@dataclass(slots=True)
class Resolved:
    """What a question means.

    ``problem`` is a kind and a word, for a question we can't answer. ``is_open``: nothing but the
    data says where a value belongs, so it may also be found further away.
    """

    subject: Manager
    noun: str
    intent: Intent
    readings: list[Reading] = field(default_factory=list[Reading])
    shown: list[tuple[str, ...]] = field(default_factory=list[tuple[str, ...]])
    problem: tuple[str, str] | None = None
    is_open: bool = False
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
    is_bare = len(question.pieces) == subject.length and subject.start >= 0
    if is_bare:
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


@dataclass(frozen=True, slots=True)
class _Option:
    """One way to use a value; no condition means to do without it."""

    condition: Condition | None
    score: float
    exact: Condition | None = None


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
        self.depth = depth
        self.manager = subject.manager
        self.own_words = subject_words(subject)
        self.used: set[int] = set()
        self.fixed: list[Condition] = []
        self.open: list[list[_Option]] = []

    def run(self) -> None:
        for step in (self._comparisons, self._gaps, self._numbers, self._values, self._rest):
            step()
        self._judge()
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
            self._compare_date(operand, lookup, self._amount_beside(index - 1, index + 2))
        elif isinstance(operand, Number):
            self.used.add(index + 1)
            mention = self._amount_beside(index - 1, index + 2)
            if mention and mention.field:
                self._add_number(mention.path, mention.field.type, operand, lookup)
            else:
                hints = compare.hints | self._hints(index) | self._unit(index + 2)
                self._place_number(operand, lookup, hints, in_time=compare.in_time, at=index)

    def _amount_beside(self, before: int, behind: int) -> Mention | None:
        """Find the field of amounts a number is about: before it, else behind it."""
        while isinstance(self._at(before), Cue):
            before -= 1
        if isinstance(self._at(before), Number) and isinstance(self._at(before - 1), Compare):
            return self._amount_beside(before - 2, before)
        behind += isinstance(self._at(behind), Cue)
        for position in (before, behind):
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

    def _number_of(self, mention: Mention, number: Number, index: int) -> None:
        """Read "project 7" by the key of projects, and a number beside a text as text."""
        target = self._known(mention.target) if mention.target and mention.path else None
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
        return None

    def _hints(self, index: int) -> frozenset[str]:
        """Collect what the cues before a value point to, and a closing verb behind it."""
        found: frozenset[str] = frozenset()
        position = index - 1
        while isinstance(cue := self._at(position), Cue):
            found |= cue.hints
            position -= 1
        closing = self._at(index + 1)
        if (
            not found
            and isinstance(closing, Cue)
            and index + 2 == len(self.segments)
            and len(closing.hints) == 1
        ):
            found = closing.hints
        return found - self.own_words

    def _place_text(self, value: Value, index: int, mention: Mention | None = None) -> None:
        if mention and mention.field:
            if self._place_in_field(value, mention):
                return
            self.out.shown.append(mention.path)
            mention = None
        month = MONTHS.get(value.texts[0].lower())
        calendar = next(
            (f for f in self.manager.fields if split_name(f.name)[-1:] == ("month",)), None
        )
        if (
            month
            and calendar
            and calendar.type == "integer"
            and len(value.texts) == 1
            and not mention
        ):
            self.fixed.append(Condition((calendar.name,), "", month, value.texts[0]))
            return
        places = self._candidates(value, self._hints(index), mention, self._bond(index))
        self._offer(value, places)

    def _bond(self, index: int) -> Bond:
        """Say how a value is tied to the noun it belongs to."""
        before, after = self._at(index - 1), self._at(index + 1)
        if isinstance(after, Mention) and after.joined and not after.field:
            return "kind"
        cue = before if isinstance(before, Cue) else after
        if not isinstance(cue, Cue) or cue.kind in {"with", "named"} or cue.is_verb:
            return "loose"
        return "other" if cue.kind in {"of", "made", "use", "by"} else "place"

    def _place_in_field(self, value: Value, mention: Mention) -> bool:
        field = mention.field
        if field is None or field.type not in {"string", "enum", "uuid", ""}:
            return False
        if field.choices and not any(
            t.lower() in map(str.lower, field.choices) for t in value.texts
        ):
            return False
        self._offer(value, [Candidate(mention.path, field, 9.0, is_sure=True)], optional=False)
        return True

    def _candidates(
        self, value: Value, hints: frozenset[str], mention: Mention | None, bond: Bond
    ) -> list[Candidate]:
        if mention:
            scopes = self._mention_scopes(mention, bond)
        else:
            own = candidates(value.texts[0], hints, Scope((), self.manager), bond)
            if any(c.is_sure and c.score >= 4.0 for c in own):
                return [c for c in own if c.is_sure]
            scopes = [Scope((), self.manager), *self._near(hints)]
        found: list[Candidate] = []
        for scope in scopes:
            detailed = scope.manager.name in self.facts.detailed
            scope = replace(scope, detailed=detailed)
            rated = candidates(value.texts[0], hints, scope, bond)
            if mention and bond != "kind":
                # "Supplier X" gives a name or a code, not just any text of a supplier.
                rated = [c for c in rated if c.is_name or c.is_code or c.is_sure]
            found += rated
        sure = [c for c in found if c.is_sure]
        return sorted(sure or found, key=lambda c: -c.score)

    def _mention_scopes(self, mention: Mention, bond: Bond) -> list[Scope]:
        if not mention.path:
            self._fail("unrelated", mention.target)
            return []
        target = self._known(mention.target)
        if target is None:
            return []
        first = Scope(mention.path, target, 0)
        if bond != "kind":
            return [first, *self._same_target(mention, target)]
        kinds = [r for r in target.relations if not r.many]
        return [first, *self._hop(mention.path, kinds, 0)]

    def _same_target(self, mention: Mention, target: Manager) -> list[Scope]:
        """Return other relations to the same manager: an airport may be an origin or a goal."""
        if len(mention.path) != 1:
            return []
        return [
            Scope((r.name,), target, 0, r)
            for r in self.manager.relations
            if r.target == target.name
            and r.name != mention.path[0]
            and mention.path[0] not in mention.target
        ]

    def _near(self, hints: frozenset[str]) -> list[Scope]:
        """Return the managers one hop away, or those the hints point to; two hops at depth 2."""
        pointed = [
            r for r in self.manager.relations if hint_score(hints, r.name, r.description) >= 3.0
        ]
        first = self._hop((), pointed or list(self.manager.relations), 0)
        if self.depth < 2:
            return first
        seen = {self.manager.name} | {r.target for r in self.manager.relations}
        second = [
            scope
            for near in first
            for scope in self._hop(
                near.path, [r for r in near.manager.relations if r.target not in seen], near.hops
            )
        ]
        return first + second

    def _hop(self, path: tuple[str, ...], relations: list[Relation], hops: int) -> list[Scope]:
        found: list[Scope] = []
        for relation in relations:
            target = self._known(relation.target)
            if target is not None and relation.target != self.manager.name:
                distance = hops + (2 if relation.many else 1)
                found.append(Scope((*path, relation.name), target, distance, relation))
        return found

    def _known(self, name: str) -> Manager | None:
        """Return a manager, or ask for its schema if nothing is known of it."""
        known = self.facts.managers.get(name)
        asked = name in self.facts.detailed or name in self.out.schemas
        if known is None and not asked and len(self.out.schemas) < _MAX_SCHEMAS:
            self.out.schemas.append(name)
        return known

    def _offer(self, value: Value, places: list[Candidate], *, optional: bool = True) -> None:
        """Add the ways to filter by a value, field by field.

        A long value is looked for as a part first, which also finds it as a whole.
        """
        ways: list[_Option] = []
        for place in places:
            whole, part = equal(place, value.texts), contains(place, value.texts)
            if part is not None and len(value.texts[0]) >= _TELLING:
                ways.append(_Option(part, place.score, whole))
                continue
            ways.append(_Option(whole, place.score))
            if part is not None:
                ways.append(_Option(part, place.score - 3.0))
        ways = sorted(ways, key=lambda way: -way.score)[:_MAX_READINGS]
        if not ways and not self.out.needs_more:
            self._fail("unclear", value.texts[0])
        self.out.is_open = self.out.is_open or not any(c.is_sure for c in places)
        if optional and value.is_plain:
            ways.append(_Option(None, _LEFT_OUT))
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
            elif not counted or mention.field:
                self.out.shown.append(mention.path)

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
            islice(product(*self.open), 400), key=lambda options: -sum(o.score for o in options)
        )
        whole = [options for options in ranked if all(o.condition for o in options)]
        partial = [options for options in ranked if not all(o.condition for o in options)]
        for options in whole[:_MAX_READINGS] + partial[:1]:
            conditions = (*self.fixed, *(o.condition for o in options if o.condition))
            exact = (*self.fixed, *(o.exact or o.condition for o in options if o.condition))
            if len({c.key for c in conditions}) < len(conditions):
                continue
            yield Reading(
                conditions,
                sum(o.score for o in options),
                self._left_out(conditions) if options in partial else (),
                tuple(c for c in exact if c) if exact != conditions else (),
            )

    def _left_out(self, conditions: tuple[Condition, ...]) -> tuple[str, ...]:
        said = {c.said for c in conditions}
        words = [s.texts[0] for s in self.segments if isinstance(s, Value) and s.is_plain]
        return tuple(word for word in words if word not in said)


def _is_amount(field: Field | None) -> bool:
    return field is not None and field.type in NUMERIC | TEMPORAL
