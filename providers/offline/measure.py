"""Amounts in a question: comparisons, numbers and dates find the fields they are about."""

from dataclasses import replace

from providers.offline.amounts import Stuck, amount, is_amount, is_year, moment, unit_fields
from providers.offline.english import split_name
from providers.offline.facts import Field, Manager
from providers.offline.frame import Frame
from providers.offline.match import NUMERIC, TEMPORAL, best_field, hint_score, numeric_field
from providers.offline.parse import Compare, Cue, Moment, Number
from providers.offline.segment import Mention, Value


class Measures:
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
            if isinstance(segment, Compare):
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
            said = operand.said if isinstance(operand, Value) else compare.text
            raise Stuck("unread", said or compare.text)

    def _start(self, index: int) -> int:
        """Return where a range starts: its second half is about the same field as its first."""
        is_second = isinstance(self.frame.at(index - 1), (Number, Moment))
        return index - 2 if is_second and isinstance(self.frame.at(index - 2), Compare) else index

    def _moment(self, when: Moment, lookup: str, start: int) -> None:
        cues = self.frame.cues_before(start)
        mention = self._free_field(start - len(cues) - 1)
        found = moment(when, lookup, self.frame.manager, mention.path[0] if mention else "")
        self.frame.explain(cues, found[0].path)
        self.frame.add(found)

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
            path, found = mention.path, mention.field
        else:
            in_time = compare.in_time if compare else self._is_year_like(number, start)
            path, found = self._number_field(number, hints, unit_word, start, in_time=in_time)
        if compare and compare.in_time:
            self._refuse_clock(number, path, found, named=mention is not None)
        self.frame.explain(before, path)
        self.frame.add([amount(path, found, number, lookup, unit_word)])

    def _refuse_clock(
        self, number: Number, path: tuple[str, ...], field: Field, *, named: bool
    ) -> None:
        """Refuse "after 2000" where it may be a time of day, and "older than 20" for a year."""
        if "year" not in split_name(field.name):
            return
        if not is_year(number.value):
            raise Stuck("unclear", number.text)
        clocks = [
            f.name
            for f in self.frame.manager.fields
            if f.type == "integer" and "time" in split_name(f.name) and not named
        ]
        if clocks and len(path) == 1:
            raise Stuck("which", number.text, (field.name, *clocks))

    def _is_year_like(self, number: Number, start: int) -> bool:
        before = self.frame.at(start - 1)
        moment = isinstance(before, Cue) and before.kind in {"in", "from", "of", "on", "for"}
        return moment and is_year(number.value)

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

    def _number_field(
        self, number: Number, hints: frozenset[str], unit: str, start: int, *, in_time: bool
    ) -> tuple[tuple[str, ...], Field]:
        if in_time and not is_year(number.value):
            raise Stuck("unclear", number.text)
        noun = self.frame.own_words if self._follows_subject(start, number) else frozenset[str]()
        for path, manager in self._number_places(start):
            fitting = unit_fields(unit, manager) if unit else []
            usable = manager.model_copy(update={"fields": tuple(fitting)}) if fitting else manager
            found = numeric_field(
                number.value, hints - self.frame.own_words, usable, in_time=in_time, noun=noun
            )
            if found is None and len(fitting) > 1:
                names = [f.name for f in fitting]
                raise Stuck("which", f"{number.text} {unit}", names)
            found = found or (fitting[0] if fitting else None)
            if found:
                if path and isinstance(near := self.frame.at(start - 1), Mention):
                    self.frame.refuse_rivals(near)
                return (*path, found.name), found
        raise Stuck("unclear", f"{number.text} {unit}".strip())

    def _number_places(self, at: int) -> list[tuple[tuple[str, ...], Manager]]:
        near = self.frame.at(at - 1)
        near = self.frame.at(at - 2) if isinstance(near, Cue) else near
        own: tuple[tuple[str, ...], Manager] = ((), self.frame.manager)
        if isinstance(near, Mention) and near.target in self.frame.facts.managers and near.path:
            return [(near.path, self.frame.facts.managers[near.target]), own]
        return [own]

    def _follows_subject(self, at: int, number: Number) -> bool:
        before = self.frame.at(at - 1)
        return number.joined and isinstance(before, Mention) and before.is_subject

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
            self.frame.add([amount((*mention.path, keys[0].name), keys[0], number, "", "")])
        else:
            self.texts.append((index, Value((number.text,)), mention))
