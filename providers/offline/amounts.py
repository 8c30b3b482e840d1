"""Amounts in a question: numbers, dates and comparisons find their fields and become conditions.

A unit is converted where the field's description names its own; anything else is refused, since a
number in the wrong unit is a wrong answer.
"""

from dataclasses import replace
from itertools import pairwise
from math import ceil, floor

from providers.offline.columns import named_alike
from providers.offline.dates import any_of, conditions_of, span, years_of
from providers.offline.english import MOMENTS, UNITS, singular, split_name
from providers.offline.facts import Field, Manager
from providers.offline.frame import Frame, Stuck
from providers.offline.match import (
    NUMERIC,
    TEMPORAL,
    Condition,
    best_field,
    field_level,
    hint_score,
    is_amount,
    unit_of,
)
from providers.offline.parse import Compare, Cue, Moment, Number
from providers.offline.segment import Mention, Value
from schema.events import Json

_MAX_INTEGER = 2**63 - 1
_MAX_YEARS = 40
_BEFORE_YEARS = frozenset({"in", "from", "of", "on", "for"})

_Fields = tuple[tuple[str, ...], Field, *tuple[Field, ...]]
"""A path to a field, that field, and others which are meant as well as it."""


class Amounts:
    """Places every amount of a frame.

    ``rows`` is how many rows to show, if the question says so; ``texts`` are numbers that may stand
    in a field of texts, with the mention beside them.
    """

    def __init__(self, frame: Frame) -> None:
        self.frame = frame
        self.rows: int | None = None
        self.texts: list[tuple[int, Value, Mention | None]] = []

    def place_compared(self) -> None:
        """Place the amounts that are compared."""
        for index, segment in enumerate(self.frame.segments):
            if isinstance(segment, Compare) and index not in self.frame.used:
                self._compare(index, segment)

    def _compare(self, index: int, compare: Compare) -> None:
        operand = self.frame.at(index + 1)
        lookup = "" if compare.op == "eq" else compare.op
        start = self._start(index)
        self.frame.used |= {index, index + 1}
        if isinstance(operand, Number):
            self._number(operand, lookup, start, index + 1, compare)
        elif isinstance(operand, Moment):
            self._moment(operand, lookup, start)
        elif isinstance(operand, Value) and not lookup:
            self.frame.used.discard(index + 1)
        else:
            raise Stuck("unread", operand.said if isinstance(operand, Value) else compare.text)

    def _start(self, index: int) -> int:
        """Return where a range starts: its second half is about the same field as its first."""
        is_second = isinstance(self.frame.at(index - 1), (Number, Moment))
        return index - 2 if is_second and isinstance(self.frame.at(index - 2), Compare) else index

    def _moment(self, when: Moment, lookup: str, start: int) -> None:
        cues = self.frame.cues_before(start)
        mention = self._free_field(start - len(cues) - 1)
        named = mention.path[0] if mention else ""
        found = conditions_of(when, lookup, self.frame.manager, named)
        found = found or [self._every_year(when, lookup, named)]
        self.frame.explain(cues, found[0].path)
        self.frame.add(found)

    def _every_year(self, when: Moment, lookup: str, named: str) -> Condition:
        """Read "in July", of every year that there is, where no column holds months."""
        fields = self.frame.manager.fields
        [date] = [f for f in fields if f.type in TEMPORAL and named in {"", f.name}]
        if lookup or when.day:
            raise Stuck("date", when.text)
        page = self.frame.read(years_of(self.frame.manager.name, date))
        found = [row.get(f"{date.name}__year") for row in page.data]
        years = [year for year in found if isinstance(year, int)]
        if not years or len(years) < page.total_count or len(years) > _MAX_YEARS:
            raise Stuck("date", when.text)
        return any_of(
            (date.name,), date, [Moment("", year, when.month) for year in years], when.text
        )

    def _free_field(self, position: int) -> Mention | None:
        """Take the field of dates that stands at a place."""
        found = self.frame.at(position)
        if isinstance(found, Mention) and found.field and found.field.type in TEMPORAL:
            self.frame.use(position)
            return found
        return None

    def _number(
        self, number: Number, lookup: str, start: int, index: int, compare: Compare | None = None
    ) -> None:
        """Place a number by the field beside it, by its unit, or by the words before it."""
        before = self.frame.cues_before(start)
        unit = self.frame.at(index + 1)
        if isinstance(unit, Compare) and isinstance(self.frame.at(index + 2), Number):
            # "Between 100 and 120 miles": the unit stands behind the second number.
            unit = self.frame.at(index + 3)
        unit_word = unit.text if isinstance(unit, Cue) and unit.is_verb else ""
        hints = self.frame.hints(before) | (compare.hints if compare else frozenset[str]())
        again = compare is not None and start != index - 1
        mention = self._amount_beside(start - 1, index + 1, unless=hints, again=again)
        if unit_word and unit is self.frame.at(index + 1):
            self.frame.used.add(index + 1)
        if mention and mention.field:
            path, found, *rivals = self._named_fields(mention, mention.field, unit_word)
        else:
            is_year = number.is_year and self.frame.tie(start - 1) in _BEFORE_YEARS
            in_time = compare.in_time if compare else is_year
            path, found, *rivals = self._number_fields(
                number, hints, unit_word, start, in_time=in_time
            )
        if compare and compare.in_time:
            self._refuse_clock(number, path, found, named=mention is not None)
        self.frame.explain(before, path)
        condition = _amount(path, found, number, lookup, unit_word)
        self.frame.add([replace(condition, rivals=tuple(f.name for f in rivals))])

    def _named_fields(self, mention: Mention, field: Field, unit: str) -> _Fields:
        """Return the field that words name, and others that they name as well.

        A number means something else in each of them if their units differ: then it is asked for.
        """
        owner, _ = self.frame.places.along(mention.path[:-1])
        if owner is None or field.type not in NUMERIC:
            return mention.path, field
        found = named_alike(mention, [f for f in owner.fields if f.type in NUMERIC])
        found = [f for f in found if unit and _factor(unit, f) is not None] or found or [field]
        if len({unit_of(f) for f in found}) > 1:
            raise Stuck("which", " ".join(mention.words), [f.name for f in found])
        found.sort(key=lambda f: f.name != field.name)
        return (*mention.path[:-1], found[0].name), found[0], *found[1:]

    def _refuse_clock(
        self, number: Number, path: tuple[str, ...], field: Field, *, named: bool
    ) -> None:
        """Refuse "after 2000" where it may be a time of day, and "older than 20" for a year."""
        if "year" not in split_name(field.name):
            return
        if not number.is_year:
            raise Stuck("unclear", number.text)
        clocks = [
            f.name
            for f in self.frame.manager.fields
            if f.type == "integer" and "time" in split_name(f.name) and not named
        ]
        if clocks and len(path) == 1:
            raise Stuck("which", number.text, (field.name, *clocks))

    def _amount_beside(
        self, before: int, behind: int, *, unless: frozenset[str], again: bool
    ) -> Mention | None:
        """Find the field of amounts a number is about: before it, else behind it.

        What stands behind is only a unit when words before (``unless``) point to an amount, as in
        "delayed more than 60 minutes". ``again``: the first half of a range has it already.
        """
        while isinstance(self.frame.at(before), Cue):
            before -= 1
        behind += isinstance(self.frame.at(behind), Cue)
        pointed = any(
            is_amount(f) and hint_score(unless, f.name, f.description) >= 4.0
            for f in self.frame.manager.fields
        )
        for position in (before, before if pointed else behind):
            found = self.frame.at(position)
            if isinstance(found, Mention) and (
                position not in self.frame.used or (again and position == before)
            ):
                found = self._as_amount(found)
                if is_amount(found.field):
                    self.frame.use(position)
                    self.frame.used.update(
                        range(behind - 1, position) if position == behind else ()
                    )
                    return found
        return None

    def _as_amount(self, mention: Mention) -> Mention:
        """Prefer a field of numbers where words name one of texts as well: "time zone -5"."""
        owner = self.frame.places.along(mention.path[:-1])[0] if mention.field else None
        if owner is None or is_amount(mention.field):
            return mention
        other = best_field(mention.words, owner, 1, NUMERIC)
        path = (*mention.path[:-1], other.name) if other else mention.path
        return replace(mention, path=path, field=other) if other else mention

    def _number_fields(
        self, number: Number, hints: frozenset[str], unit: str, start: int, *, in_time: bool
    ) -> _Fields:
        """Return the field of a bare number, and others that the words before it speak of."""
        if in_time and not number.is_year:
            raise Stuck("unclear", number.text)
        before = self.frame.mention(start - 1)
        is_behind = number.joined and before is not None and before.is_subject
        noun = self.frame.own_words if is_behind else frozenset[str]()
        for path, manager in self._number_places(start):
            numbers = [f for f in manager.fields if f.type in NUMERIC] if unit else []
            fitting = [f for f in numbers if _factor(unit, f) is not None]
            usable = manager.model_copy(update={"fields": tuple(fitting)}) if fitting else manager
            told = hints - self.frame.own_words
            found = _numeric_fields(told, usable, in_time=in_time, noun=noun)
            if not found and len(fitting) > 1:
                names = [f.name for f in fitting]
                raise Stuck("which", f"{number.text} {unit}", names)
            if found := found or fitting:
                if path and isinstance(near := self.frame.at(start - 1), Mention):
                    self.frame.refuse_rivals(near)
                rivals = [] if in_time else found[1:]
                return (*path, found[0].name), found[0], *rivals
        raise Stuck("unclear", f"{number.text} {unit}".strip())

    def _number_places(self, at: int) -> list[tuple[tuple[str, ...], Manager]]:
        near = self.frame.at(at - 1)
        near = self.frame.at(at - 2) if isinstance(near, Cue) else near
        own: tuple[tuple[str, ...], Manager] = ((), self.frame.manager)
        if isinstance(near, Mention) and near.target in self.frame.facts.managers and near.path:
            return [(near.path, self.frame.facts.managers[near.target]), own]
        return [own]

    # --- numbers and dates without a comparison ---------------------------------------------------

    def place_plain(self) -> None:
        """Place the other numbers and dates."""
        for index, number in enumerate(self.frame.segments):
            if index in self.frame.used:
                continue
            if isinstance(number, Moment):
                self.frame.used.add(index)
                self._moment(number, "", index)
            elif isinstance(number, Number):
                self.frame.used.add(index)
                self._lone_number(index, number)

    def _lone_number(self, index: int, number: Number) -> None:
        if self._is_row_count(index, number):
            self.rows = max(1, int(number.value))
            return
        beside = self.frame.at(index - 1)
        if isinstance(beside, Mention) and beside.target and not beside.field:
            self.frame.use(index - 1)
            self._number_of(beside, number, index)
            return
        try:
            self._number(number, "", index, index)
        except Stuck as stuck:
            if stuck.problem.kind != "unclear" or number.more or not number.text.isdigit():
                raise
            self.texts.append((index, Value((number.text,), number.joined), None))

    def _is_row_count(self, index: int, number: Number) -> bool:
        """Tell "list 3 parts" from a number that is a value."""
        subject = self.frame.at(index + 1)
        is_first = index == 0 and number.value > 0 and not number.more
        return is_first and isinstance(subject, Mention) and subject.is_subject and subject.joined

    def _number_of(self, mention: Mention, number: Number, index: int) -> None:
        """Read "project 7" by the key of projects, and a number beside a text as text."""
        target = self.frame.places.known(mention.target) if mention.path else None
        keys = [f for f in target.fields if f.name in target.primary_key] if target else []
        if len(keys) == 1 and keys[0].type == "integer":
            self.frame.take(index - 1, mention)
            self.frame.add([_amount((*mention.path, keys[0].name), keys[0], number, "", "")])
        else:
            self.texts.append((index, Value((number.text,)), mention))


# --- the field of a bare number -------------------------------------------------------------------


def _numeric_fields(
    hints: frozenset[str],
    manager: Manager,
    *,
    in_time: bool,
    noun: frozenset[str],
) -> list[Field]:
    """Return the fields a bare number may belong to, or none when the question leaves that open.

    ``noun`` are words the number directly follows ("flight 1545").
    """
    keys = set(manager.primary_key)
    usable = [
        f for f in manager.fields if f.type in NUMERIC | (TEMPORAL if in_time else frozenset())
    ]
    scored: list[tuple[float, int]] = []
    for order, field in enumerate(usable):
        score = 0.0 if field.name in keys else hint_score(hints, field.name, field.description)
        if in_time:
            score += 5.0 if "year" in split_name(field.name) or field.type in TEMPORAL else -9.0
        if noun:
            named = any(field_level([word], field.name, "") == 3 for word in noun)
            score += 3.0 if named else 1.0 if field.name in keys else 0.0
        scored.append((-score, order))
    best = min((score for score, _ in scored), default=0.0)
    ties = [usable[order] for score, order in scored if score == best < 0]
    if in_time and len(ties) > 1 and all(f.type in TEMPORAL for f in ties):
        raise Stuck("which", "the year", [f"the year of {f.name}" for f in ties])
    return ties


# --- units and conditions -------------------------------------------------------------------------


def _units_of(field: Field) -> frozenset[str]:
    """Return the units a description names: "in minutes", "pieces in stock"."""
    words = split_name(field.description)
    named = {unit for link, unit in pairwise(words) if link == "in"}
    first = set(words[:1]) - MOMENTS
    return frozenset(singular(word) for word in named | first)


def _factor(unit: str, field: Field) -> float | None:
    """Return what a number in a unit is multiplied by to be in the field's; None if unknown."""
    unit = singular(unit.lower())
    own = _units_of(field)
    if unit in own:
        return 1.0
    kind, size = UNITS.get(unit, ("", 1.0))
    sizes = [UNITS[o][1] for o in own if o in UNITS and UNITS[o][0] == kind]
    return size / sizes[0] if sizes else None


def _amount(
    path: tuple[str, ...], field: Field, number: Number, lookup: str, unit: str
) -> Condition:
    """Make the condition of a number on a field. Raises ``Stuck`` where it would not be right."""
    unit = unit or number.unit
    said = number.text
    if unit:
        factor = _factor(unit, field)
        if factor is None and not (unit in UNITS and not _names_unit(field, unit)):
            raise Stuck("unit", unit, (field.name, field.description))
        if factor is not None and factor != 1.0:
            value = round(number.value * factor, 6)
            value = int(value) if value == int(value) else value
            said = f"{value:,} ({number.text} {unit})"
            number = replace(number, value=value)
    if number.more:
        values: list[Json] = [
            _fitting(value, number, field) for value in (number.value, *number.more)
        ]
        return Condition(path, "in", values, said)
    if field.type in TEMPORAL:
        if not isinstance(number.value, int) or not number.is_year:
            raise Stuck("unclear", number.text)
        return span(path, field, Moment(number.text, number.value), lookup)
    value, in_time = number.value, "year" in split_name(path[-1])
    if field.type == "integer" and not float(value).is_integer():
        # Whole numbers over 5.5 are those over 5.
        down = lookup in {"gt", "lte"}
        value = floor(value) if down else ceil(value) if lookup in {"gte", "lt"} else value
    return Condition(path, lookup, _fitting(value, number, field), said, in_time)


def _names_unit(field: Field, unit: str) -> bool:
    """Tell whether a description names units at all: a sign of money needs no more than a price."""
    return unit not in {"$", "€", "£", "%"} or bool(_units_of(field) & set(UNITS))


def _fitting(value: int | float, number: Number, field: Field) -> int | float:
    if field.type == "integer":
        if value != int(value) or abs(value) > _MAX_INTEGER:
            raise Stuck("unfit", number.text, (field.name,))
        return int(value)
    return value
