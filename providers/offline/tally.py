"""Figures of a sentence: which segments ask to measure, group, rank or sort, and by what.

What belongs to a figure is taken out of the sentence; the rest are conditions, as in a list.
"""

from collections.abc import Sequence
from dataclasses import replace

from providers.offline.asked import (
    Change,
    Figures,
    Group,
    Having,
    Measure,
    Rank,
    from_bad_end,
    is_moment,
)
from providers.offline.columns import (
    coarser,
    field_of,
    field_of_related,
    group_of,
    is_link,
    is_reckoned,
    own_field,
    parts_of_date,
)
from providers.offline.english import ANY_MEASURE, ENDS, VERBS, singular
from providers.offline.facts import Field
from providers.offline.figures import Best, By, Direction, Op, Part
from providers.offline.frame import Frame, Stuck
from providers.offline.match import NUMERIC, TEMPORAL, hint_score, unit_of
from providers.offline.parse import Compare, Cue, Mark, Number
from providers.offline.ranking import Heads, Read, Top, change_of, conclusion, is_whole
from providers.offline.segment import Absent, Mention, Value


class Tally:
    """Reads the figures of one frame."""

    def __init__(self, frame: Frame) -> None:
        self.frame = frame
        self.read_ = Read()
        self.heads = Heads(frame, self.read_)

    def read(self) -> Figures | Rank | Change | None:
        """Return what is to be worked out, None if nothing is. Raises: Stuck."""
        if not any(self._asks(i) for i in range(len(self.frame.segments))):
            return None
        self._directions()
        for index, segment in enumerate(self.frame.segments):
            if isinstance(segment, Best) and index not in self.frame.used:
                self._best(index, segment)
        for index, segment in enumerate(self.frame.segments):
            if isinstance(segment, Op) and index not in self.frame.used:
                self.read_.measures += self._measured(index, segment)
        for index in range(len(self.frame.segments)):
            if self._is_by(index) and index not in self.frame.used:
                self._by(index)
        self._count_of_groups()
        return self._together()

    def _asks(self, index: int) -> bool:
        is_figure = isinstance(self.frame.at(index), (Op, Best, By, Direction))
        return is_figure or self._is_by(index) or self._is_count_of_groups(index)

    def _is_by(self, index: int) -> bool:
        """Tell "by airline", a group, from "by airline B6", a condition."""
        here, following = self.frame.at(index), self.frame.at(index + 1)
        if isinstance(here, By):
            return True
        if not isinstance(here, Cue) or here.text.lower() != "by":
            return False
        if isinstance(following, (Part, Op)) or self.frame.mark(index + 1) == "count":
            return True
        behind = self.frame.at(index + 2)
        is_held = isinstance(behind, (Value, Number)) and behind.joined
        return isinstance(following, Mention) and not is_held and not isinstance(behind, Compare)

    def _directions(self) -> None:
        for index, segment in enumerate(self.frame.segments):
            if isinstance(segment, Direction):
                if self.read_.direction:
                    raise Stuck("calculation", segment.text)
                self.frame.used.add(index)
                self.read_.direction = segment

    # --- superlatives -----------------------------------------------------------------------------

    def _best(self, index: int, best: Best) -> None:
        if self.read_.top:
            raise Stuck("calculation", best.text)
        self.frame.used.add(index)
        self.read_.top = top = Top(index, best)
        before, behind = self.frame.at(index - 1), index + 1
        if isinstance(before, Number) and is_whole(before):
            self.frame.used.add(index - 1)
            top.count = int(before.value)
        elif isinstance(number := self.frame.at(behind), Number) and is_whole(number):
            self.frame.used.add(behind)
            top.count, behind = int(number.value), behind + 1
        is_count = best.is_count
        if self.frame.mark(behind) == "count":
            self.frame.used.add(behind)
            is_count, behind = True, behind + 1
        self._of_best(top, behind, is_count=is_count)
        if self.frame.tie(index - 1) == "with":
            self.frame.used.add(index - 1)

    def _of_best(self, top: Top, at: int, *, is_count: bool) -> None:
        """Find what a superlative ranks by, from what stands behind it."""
        target = self.frame.at(at)
        if isinstance(target, Op):
            measures = self._measured(at, target)
            if not measures:
                raise Stuck("calculation", top.best.text)
            top.measure = measures[0]
            self.read_.measures += measures
            self._judge(top, top.measure.field)
        elif is_count and self._leads_to_subject(at):
            top.measure = Measure("count")
        elif top.best.is_frequent and isinstance(target, Mention) and not target.is_subject:
            top.measure = Measure("count")
            self.heads.take_as(target, at)
        elif isinstance(target, Mention) and target.field and self._ranks_by(target, top.best):
            path, found = field_of(self.frame, target, ordered=True)
            if not _fits(top.best, found):
                raise Stuck("measure", top.best.text)
            self.heads.take(at)
            self._judge(top, found)
            top.measure = Measure("max" if top.best.descending else "min", path, found)
        elif is_count or top.best.is_judged:
            raise Stuck("calculation", top.best.text)
        elif target is not None or not self.frame.is_part:
            self._of_itself(top, at)

    def _of_itself(self, top: Top, at: int) -> None:
        """Rank by what a superlative speaks of by itself: the oldest plane by its year."""
        target = self.frame.at(at)
        if top.best.hints or top.best.is_recent:
            self._refuse_others(top.best, at)
            if isinstance(target, (Value, Cue)) and (hints := VERBS.get(_said(target))):
                # "The highest priced part" is not the tallest.
                self.frame.used.add(at)
                top.best = replace(top.best, hints=hints)
            path, found = own_field(self.frame, top.best)
            top.is_own = True
            top.measure = Measure("max" if top.best.descending else "min", path, found)

    def _refuse_others(self, best: Best, at: int) -> None:
        """Refuse "flights of the oldest plane": it is not the flights that are ranked."""
        found = self._noun_from(at)
        if found and not found.is_subject and found.joined:
            raise Stuck("calculation", f"{best.text} {' '.join(found.words)}")

    def _judge(self, top: Top, found: Field | None) -> None:
        """Tell which end "the worst delay" means."""
        if top.best.is_judged:
            descending = from_bad_end(found, from_bad=top.best.descending)
            if descending is None:
                raise Stuck("which", top.best.text, ("the highest", "the lowest"))
            top.best = replace(top.best, descending=descending)

    def _leads_to_subject(self, at: int) -> bool:
        """Tell "most flights" and "most cancelled flights"."""
        found = self._noun_from(at)
        return found is not None and found.is_subject

    def _noun_from(self, at: int) -> Mention | None:
        """Return what is mentioned at a place, or behind the words there that describe it."""
        while isinstance(self.frame.at(at), (Value, Absent)):
            at += 1
        return self.frame.mention(at)

    def _ranks_by(self, mention: Mention, best: Best) -> bool:
        """Tell "longest delay" from "top five manufacturers"."""
        if best.text in ENDS and self._is_by(self.frame.segments.index(mention) + 1):
            # "Top five days by number of flights" says by what.
            return False
        is_ordered = mention.field is not None and mention.field.type in NUMERIC | TEMPORAL
        return is_ordered or bool(best.hints or best.is_count)

    # --- measures ---------------------------------------------------------------------------------

    def _measured(self, index: int, op: Op) -> list[Measure]:
        """Read "average and maximum price", "total number of flights", "average price"."""
        ops, at = [op], index + 1
        if op.op == "count_distinct" and any(
            isinstance(s, (Mention, Value)) for s in self.frame.segments[:index]
        ):
            # "Parts with a different supplier" asks for no number.
            raise Stuck("calculation", op.text)
        self.read_.having_at = self.read_.having_at or index
        self.frame.used.add(index)
        while isinstance(self.frame.at(at), (Op, Mark)) or self.frame.tie(at) == "of":
            segment = self.frame.at(at)
            if isinstance(segment, Mark) and segment.kind not in {"and", "count"}:
                break
            if isinstance(segment, Op):
                ops.append(segment)
            self.frame.used.add(at)
            at += 1
        target = self.frame.at(at)
        if isinstance(target, Mention) and target.is_subject:
            return self._measured_rows(at, ops)
        if target is None and self.frame.is_part:
            self.read_.op = op
            return []
        if target is None:
            at = self._counted(index, ops)
        return self._measures_at(at, ops)

    def _counted(self, index: int, ops: Sequence[Op]) -> int:
        """Find the field in "how many seats do planes have on average"."""
        counted = self.frame.question.counted
        for at, found in enumerate(self.frame.segments):
            if isinstance(found, Mention) and found.start == counted and not found.is_subject:
                if self.frame.tie(index - 1) == "with":
                    self.frame.used.add(index - 1)
                return at
        raise Stuck("calculation", ops[0].text)

    def _measured_rows(self, at: int, ops: Sequence[Op]) -> list[Measure]:
        """Read "total flights", "different planes" and "average flight distance"."""
        only = ops[0].op if len(ops) == 1 else ""
        if only == "sum":
            return [Measure("count")]
        if only == "count_distinct":
            return []
        behind = self.frame.at(at + 1)
        if isinstance(behind, Mention) and behind.field and behind.joined:
            return self._measures_at(at + 1, ops)
        raise Stuck("calculation", ops[0].text)

    def _measures_at(self, at: int, ops: Sequence[Op]) -> list[Measure]:
        target = self.frame.at(at)
        if isinstance(target, Value):
            found = [field_of_related(self.frame, target, ops[0])]
            self.frame.used.add(at)
        elif isinstance(target, Mention):
            found = [self._measured_field(target, ops)]
            self.heads.take(at)
            self._take_end(at + 1)
        else:
            raise Stuck("calculation", ops[0].text)
        while isinstance(self.frame.at(at + 1), Mark):
            more = self.frame.at(at + 2)
            if not isinstance(more, Mention) or not more.field or more.field.type not in NUMERIC:
                break
            found.append(self._measured_field(more, ops))
            self.heads.take(at + 2)
            at += 2
        measures = [Measure(o.op, path, f) for path, f in found for o in ops]
        self._having(at + 1, measures[0])
        return measures

    def _take_end(self, at: int) -> None:
        """Take "of parts", where each row to measure is of one part in one project."""
        end = self.frame.mention(at + 1)
        is_end = end is not None and not end.field and len(end.path) == 1 and not end.rivals
        if is_end and self.frame.tie(at) == "of" and is_link(self.frame.manager):
            self.frame.used |= {at, at + 1}

    def _measured_field(self, mention: Mention, ops: Sequence[Op]) -> tuple[tuple[str, ...], Field]:
        if all(op.op == "count_distinct" for op in ops):
            group = group_of(self.frame, mention)
            return group.path, group.field
        return field_of(self.frame, mention, ordered=all(op.op in {"max", "min"} for op in ops))

    def _having(self, at: int, measure: Measure) -> None:
        """Read "with an average price over 5" as a condition on each group."""
        compare, number = self.frame.at(at), self.frame.at(at + 1)
        if not isinstance(compare, Compare):
            return
        if (
            not isinstance(number, Number)
            or number.more
            or isinstance(self.frame.at(at + 2), Compare)
        ):
            raise Stuck("unread", compare.text)
        unit = self.frame.at(at + 2)
        own = unit_of(measure.field) if measure.field else ""
        if number.unit:
            raise Stuck("unread", number.text)
        if isinstance(unit, Cue) and unit.is_verb:
            if singular(unit.kind) != singular(own):
                raise Stuck("unread", unit.text)
            self.frame.used.add(at + 2)
        self.frame.used |= {at, at + 1}
        lookup = "" if compare.op == "eq" else compare.op
        self.read_.having = Having(measure, lookup, number.value, number.text)

    def _is_count_of_groups(self, index: int) -> bool:
        """Tell "airlines with more than 50,000 flights" from a number of something else."""
        counted = self.frame.at(index + 2)
        is_subject = isinstance(counted, Mention) and counted.is_subject
        is_compared = isinstance(self.frame.at(index), Compare) and index not in self.frame.used
        return is_compared and is_subject and self.heads.before(index) is not None

    def _count_of_groups(self) -> None:
        index = next(
            (i for i in range(len(self.frame.segments)) if self._is_count_of_groups(i)), -1
        )
        if index >= 0:
            self.heads.take_before(index)
            self._having(index, Measure("count"))

    # --- groups -----------------------------------------------------------------------------------

    def _by(self, index: int) -> None:
        """Read what stands behind "by" or "per": groups, or what to sort by."""
        by = self.frame.segments[index]
        is_sort = isinstance(by, By) and by.is_sort
        self.frame.used.add(index)
        at = index + 1
        if self.frame.mark(at) == "count":
            self.frame.used.add(at)
            if not self._leads_to_subject(at + 1):
                raise Stuck("calculation", "number of")
            self._sort(index, Measure("count"))
            return
        counted = self.frame.mention(at)
        if counted and counted.is_subject and self.heads.before(index):
            self._sort(index, Measure("count"))
            return
        if isinstance(op := self.frame.at(at), Op):
            measures = self._measured(at, op)
            self.read_.measures += measures
            self._sort(index, measures[0] if measures else Measure("count"))
            return
        while True:
            self._by_one(at, is_sort=is_sort)
            self._explain_verbs(index)
            following = self.frame.at(at + 2)
            is_field = isinstance(following, (Mention, Part)) and not self._is_by(at + 1)
            if not isinstance(self.frame.at(at + 1), Mark) or not is_field:
                return
            self.frame.used.add(at + 1)
            at += 2

    def _explain_verbs(self, index: int) -> None:
        """Take the verb of "orders placed in each year", which the group says something of."""
        named = self.frame.mention(index - 1)
        if named and self.read_.groups and named.path == self.read_.groups[-1].path:
            self.frame.used.add(index - 1)
        for at, cue in self.frame.cues_before(index):
            if self.read_.groups and self.frame.is_explained(cue, self.read_.groups[-1].path):
                self.frame.used.add(at)

    def _by_one(self, at: int, *, is_sort: bool) -> None:
        target = self.frame.at(at)
        if isinstance(target, Part):
            self.frame.used.add(at)
            of, date = self.frame.tie(at + 1) == "of", self.frame.mention(at + 2)
            is_named = of and date and date.field and date.field.type in TEMPORAL
            self.frame.used |= {at + 1, at + 2} if is_named else set()
            named = date.path[-1] if is_named and date else ""
            self.read_.groups += parts_of_date(self.frame, target.name, named)
        elif isinstance(target, Mention) and target.field and is_reckoned(self.frame, target.field):
            path, found = field_of(self.frame, target, ordered=True)
            self.heads.take(at)
            self._by_amount(at, Measure("max", path, found), is_sort=is_sort)
        elif isinstance(target, Mention) and is_sort and target.field:
            self.heads.take(at)
            self.read_.sort = Measure("max", target.path, target.field)
        elif isinstance(target, Mention):
            group = group_of(self.frame, target)
            self.heads.take(at)
            self.read_.groups += [*coarser(self.frame, group), group]
        else:
            said = target.said if isinstance(target, Value) else ""
            raise Stuck("ungrouped", said)

    def _by_amount(self, at: int, measure: Measure, *, is_sort: bool) -> None:
        """Read "by price": an order if the question ranks or sorts, else it may be a group."""
        top = self.read_.top
        if top and top.measure is None:
            top.measure = replace(measure, op="max" if top.best.descending else "min")
        elif is_sort or self.read_.direction:
            self.read_.sort = measure
        elif isinstance(self.frame.at(at - 1), By) and measure.field:
            self.read_.groups.append(Group(measure.path, measure.field))
        else:
            name = measure.path[-1]
            options = (f"sorted by {name}", f"counted per {name}")
            raise Stuck("which", f"by {name}", options)

    def _sort(self, index: int, measure: Measure) -> None:
        """Take a measure of groups to sort by, and the groups that stand before it."""
        if not self.read_.groups and self.heads.before(index):
            self.heads.take_before(index)
        if top := self.read_.top:
            top.measure = top.measure or measure
        self.read_.sort, self.read_.sorts_groups = measure, True

    # --- together ---------------------------------------------------------------------------------

    def _together(self) -> Figures | Rank | Change | None:
        read, top = self.read_, self.read_.top
        if self.frame.is_part and (change := change_of(self.frame, read)):
            return change
        if top and top.measure and not read.groups and not top.is_own:
            self.heads.rank(top, top.measure)
        if read.having and not read.groups and self.heads.before(read.having_at):
            self.heads.take_before(read.having_at)
        return conclusion(self.frame, read)


def _fits(best: Best, found: Field) -> bool:
    """Tell "hottest temperature" from "hottest hour"; anything may be longest or highest."""
    if best.is_recent:
        return found.type in TEMPORAL or is_moment(found)
    if best.text in ANY_MEASURE or not best.hints:
        return True
    return hint_score(best.hints, found.name, found.description) > 0


def _said(segment: Value | Cue) -> str:
    return segment.said if isinstance(segment, Value) else segment.text.lower()
