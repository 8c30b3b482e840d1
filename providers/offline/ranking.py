"""What was read of a sentence becomes figures, ranked rows, or a change of earlier figures."""

from dataclasses import dataclass, field

from providers.offline.asked import Change, Figures, Group, Having, Measure, Rank, from_bad_end
from providers.offline.columns import (
    agent_of,
    coarser,
    group_of,
    is_done_by,
    own_field,
    parts_of_date,
)
from providers.offline.english import AGENTS, ENDS, OP_WORDS, PARTS, singular
from providers.offline.facts import Field
from providers.offline.figures import Best, Direction, Op
from providers.offline.frame import Frame, Stuck
from providers.offline.match import hint_score
from providers.offline.parse import Cue, Number
from providers.offline.segment import Mention, Value

_TIES = frozenset({"of", "with", "by", "for", "in"})


@dataclass(slots=True)
class Top:
    """A superlative that was read: what it ranks by, and how many are asked for."""

    at: int
    best: Best
    measure: Measure | None = None
    count: int | None = None
    is_own: bool = False


@dataclass(slots=True)
class Read:
    """What the segments have given so far."""

    measures: list[Measure] = field(default_factory=list[Measure])
    groups: list[Group] = field(default_factory=list[Group])
    top: Top | None = None
    direction: Direction | None = None
    sort: Measure | None = None
    sorts_groups: bool = False
    present: list[tuple[str, ...]] = field(default_factory=list[tuple[str, ...]])
    having_at: int = 0
    is_headed: bool = False
    op: Op | None = None
    having: Having | None = None


class Heads:
    """Takes heads of one frame as the groups that are ``read``."""

    def __init__(self, frame: Frame, read: Read) -> None:
        self.frame = frame
        self.read = read

    def rank(self, top: Top, measure: Measure) -> None:
        """Find what is ranked by its rows: "which supplier", "who" or "which day"."""
        if self.before(top.at):
            self.take_before(top.at)
        elif measure.field is None and top.at == 1 and (verb := self._verb(top.at)):
            self.take_as(agent_of(self.frame, verb), 0)
        elif found := self._part_before(top.at):
            at, part = found
            self.frame.used.update(range(at, top.at))
            self._count(at)
            self.read.groups += parts_of_date(self.frame, part, "")
            self.read.is_headed = True
            self.read.present.append(self.read.groups[-1].path)

    def take(self, at: int) -> None:
        """Mark a mention as placed, with the plain ties before it and the relation it is of."""
        self.frame.used.add(at)
        mention = self.frame.mention(at)
        cues = self.frame.cues_before(at)
        self.frame.used |= {before for before, cue in cues if cue.kind in _TIES}
        relation = mention.path[:-1] if mention and mention.field else ()
        for index, other in enumerate(self.frame.segments[:at]):
            if relation and isinstance(other, Mention) and other.target and other.path == relation:
                self.frame.used.add(index)

    def before(self, index: int) -> Mention | None:
        """Return what stands before "with the most flights" or "by average delay", to be ranked."""
        at = index - 1 - (self._verb(index) is not None)
        while isinstance(tie := self.frame.at(at), (Cue, Number)) or at in self.frame.used:
            if isinstance(tie, Cue) and tie.kind not in _TIES:
                return None
            at -= 1
        found = self.frame.mention(at)
        return found if found and not found.is_subject and at not in self.frame.used else None

    def take_as(self, mention: Mention, at: int) -> None:
        """Take what is to be ranked as the group."""
        group = group_of(self.frame, mention)
        self.take(at)
        self.read.groups += [*coarser(self.frame, group), group]
        self.read.is_headed = True
        path = group.path if mention.path == group.path else group.path[:-1]
        if len(group.path) > 1 or group.field.nullable:
            # "The supplier with the most parts" is one, and not the lack of one.
            self.read.present.append(path)

    def take_before(self, index: int) -> None:
        """Take what stands before a place as the group. Raises: Stuck at a verb of another kind."""
        at, verb = index - 1, self._verb(index)
        if verb:
            self.frame.used.add(at)
            at -= 1
        while (mention := self.frame.mention(at)) is None:
            self.frame.used.add(at)
            at -= 1
        if verb and not is_done_by(self.frame, verb, mention.path):
            raise Stuck("unread", verb.text)
        self._count(at)
        self.take_as(mention, at)

    def _verb(self, index: int) -> Cue | None:
        """Return the verb in "supplier delivers the most parts", which stands before "most"."""
        found = self.frame.at(index - 1)
        if isinstance(found, Value) and found.said.isalpha() and found.said.islower():
            found = Cue(found.said, found.said)
        if isinstance(found, Mention) and found.field and found.words[0] in AGENTS:
            # "Placed" is what customers do, though a column placed_on has the word.
            found = Cue(found.words[0], found.words[0])
        is_verb = isinstance(found, Cue) and (found.is_verb or found.kind == "use")
        return found if isinstance(found, Cue) and is_verb else None

    def _part_before(self, index: int) -> tuple[int, str] | None:
        """Find "day" in "which day had the most orders", where no field is a day."""
        at = index - 1
        if isinstance(tie := self.frame.at(at), Cue) and not tie.is_verb:
            at -= 1
        found = self.frame.at(at)
        said = found.said if isinstance(found, Value) else ""
        # Behind a number it looks like a unit: "the two days".
        name = singular(found.kind if isinstance(found, Cue) else said)
        return (at, name) if name in PARTS else None

    def _count(self, at: int) -> None:
        """Take how many are asked for, where a number stands before what is ranked."""
        number = self.frame.at(at - 1)
        if isinstance(number, Number) and is_whole(number) and self.read.top:
            self.frame.used.add(at - 1)
            self.read.top.count = int(number.value)


def is_whole(number: Number) -> bool:
    """Tell whether a number may be how many are asked for."""
    return number.value > 0 and not number.more and not number.unit and number.text.isalnum()


def conclusion(frame: Frame, read: Read) -> Figures | Rank | None:
    """Return what is to be worked out; nothing that was read is left out. Raises: Stuck."""
    top = read.top
    _refuse_two_ways(read)
    if read.groups:
        return _grouped(frame, read)
    if top or read.sort or read.direction:
        return _ranked(frame, read)
    if not read.measures:
        return None
    if read.having:
        raise Stuck("unread", read.having.said)
    if frame.tie(read.having_at - 1) == "with" and not frame.question.asks_do:
        # "Parts with an average price" are some parts.
        raise Stuck("calculation", OP_WORDS[read.measures[0].op])
    single = read.measures[0]
    is_extreme = single.op in {"max", "min"} and len(read.measures) == 1
    if is_extreme and single.field and frame.question.intent != "count":
        said = "highest" if single.op == "max" else "lowest"
        return Rank(single.path, single.field, single.op == "max", said, 1)
    return Figures(tuple(dict.fromkeys(read.measures)))


def change_of(frame: Frame, read: Read) -> Change | None:
    """Read "top three?", "worst first" and "and the maximum?", of what was asked before."""
    top = read.top
    if read.groups or read.measures or read.sort or (top and top.measure):
        return None
    if read.op:
        return Change(read.op.text, op=read.op.op)
    if top:
        count = top.count or (None if top.best.text in ENDS else 1)
        way, said = top.best.descending, top.best.text
        return Change(said, None, count, way, top.best.is_judged, _rank_by_itself(frame, read, top))
    way = read.direction
    return way and Change(way.text, descending=way.descending, is_judged=way.is_judged)


def _rank_by_itself(frame: Frame, read: Read, top: Top) -> Rank | None:
    """Rank by what the superlative speaks of, if the rows have one such field."""
    try:
        path, found = own_field(frame, top.best)
    except Stuck:
        return None
    top.measure, top.is_own = Measure("max", path, found), True
    return _ranked(frame, read)


def _grouped(frame: Frame, read: Read) -> Figures:
    top = read.top
    if read.sort and read.sort not in read.measures and not read.sorts_groups:
        raise Stuck("calculation", f"sorted by {read.sort.path[-1]}")
    first = read.measures[0] if read.measures else Measure("count")
    wanted = [read.having.measure] if read.having else list[Measure]()
    by = (top.measure or first) if top else (read.sort or (wanted or [first])[0])
    measures = tuple({m.key: m for m in (*read.measures, *wanted, by)}.values())
    said, limit = "", None
    if top:
        best = top.best
        count = "most" if best.descending else "fewest"
        end = "highest" if best.descending else "lowest"
        said = count if by.op == "count" else end if best.text in ENDS else best.text
        # "The longest distance per carrier" is asked of every carrier.
        limit = top.count or (1 if read.is_headed else None)
    is_ordered = top or read.direction or read.sort or not read.groups[-1].is_in_time
    descending = top.best.descending if top else _is_descending(read, by, default=True)
    order = (by.key, descending) if is_ordered else None
    _close(frame, read)
    groups = tuple({group.key: group for group in read.groups}.values())
    return Figures(measures, groups, order, limit, said, read.having, tuple(read.present))


def _close(frame: Frame, read: Read) -> None:
    """Take the verb that closes "how many parts does each supplier deliver"."""
    last = len(frame.segments) - 1
    verb = frame.segments[last]
    if last in frame.used or not frame.question.asks_do:
        return
    if isinstance(verb, Value) and verb.said.islower():
        verb = Cue(verb.said, verb.said)
    if isinstance(verb, Cue):
        is_had = verb.kind == "with"
        if is_had or frame.is_explained(verb, read.groups[-1].path):
            frame.used.add(last)


def _ranked(frame: Frame, read: Read) -> Rank:
    top = read.top
    measure = (top.measure if top else None) or read.sort
    text = top.best.text if top else read.direction.text if read.direction else ""
    if top and measure and measure.op == "count":
        raise Stuck("ungrouped")
    if measure is None or measure.field is None or frame.question.intent == "count":
        raise Stuck("measure" if measure is None else "calculation", text)
    if measure.op not in {"max", "min"}:
        # "The highest average price" is one of groups.
        raise Stuck("calculation", f"{text} {OP_WORDS[measure.op]}")
    is_sorted_else = read.sort is not None and read.sort.path != measure.path
    if is_sorted_else or any(other != measure for other in read.measures):
        raise Stuck("calculation", text)
    _say_again(frame, measure.field)
    if top is None:
        descending = _is_descending(read, measure, default=False)
        return Rank(measure.path, measure.field, descending, "")
    descending, said = top.best.descending, top.best.text
    if top.best.is_recent:
        said = "latest" if descending else "earliest"
    elif top.is_own or not top.best.hints:
        said = "highest" if descending else "lowest"
    return Rank(measure.path, measure.field, descending, said, top.count or 1)


def _refuse_two_ways(read: Read) -> None:
    """Refuse "the five longest, shortest first"."""
    way, top = read.direction, read.top
    if way and top and (way.is_judged or way.descending is not top.best.descending):
        raise Stuck("calculation", way.text)


def _is_descending(read: Read, measure: Measure, *, default: bool) -> bool:
    direction = read.direction
    if direction is None:
        return default
    if not direction.is_judged:
        return direction.descending
    descending = from_bad_end(measure.field, from_bad=direction.descending)
    if descending is None:
        raise Stuck("which", direction.text, ("highest first", "lowest first"))
    return descending


def _say_again(frame: Frame, found: Field) -> None:
    """Take words that say once more what a superlative speaks of: "the oldest plane built"."""
    for index, segment in enumerate(frame.segments):
        if index in frame.used or index + 1 < len(frame.segments):
            continue
        word = segment.said if isinstance(segment, Value) else ""
        if word.islower() and hint_score({word}, found.name, found.description) > 0:
            frame.used.add(index)
