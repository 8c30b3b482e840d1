"""What was read of a sentence becomes figures, ranked rows, or a change of earlier figures."""

from dataclasses import dataclass, field

from providers.offline.asked import Change, Figures, Group, Having, Measure, Rank, from_bad_end
from providers.offline.columns import own_field
from providers.offline.facts import Field
from providers.offline.figures import Best, Direction, Op
from providers.offline.frame import Frame, Stuck
from providers.offline.match import hint_score
from providers.offline.parse import Cue
from providers.offline.segment import Value
from providers.offline.terms import ENDS, OP_WORDS


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
    tie = frame.at(read.having_at - 1)
    if isinstance(tie, Cue) and tie.kind == "with" and not frame.question.asks_do:
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
    if way := read.direction:
        return Change(way.text, descending=way.descending, is_judged=way.is_judged)
    return None


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
