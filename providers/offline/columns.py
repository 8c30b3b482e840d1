"""Columns of figures: the field that a measure is of, or that rows are grouped by."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from providers.offline.asked import Group, is_moment
from providers.offline.english import AGENTS, split_name
from providers.offline.facts import Field, Manager
from providers.offline.figures import Best, Op
from providers.offline.frame import Frame, Stuck, only_one
from providers.offline.match import (
    NUMERIC,
    TEMPORAL,
    field_level,
    foreign_keys,
    hint_score,
    name_field,
)
from providers.offline.parse import Cue
from providers.offline.segment import Mention, Value

_COARSER: dict[str, tuple[str, ...]] = {"year": (), "hour": (), "day": ("year", "month")}
"""What the groups of a part of a date are told apart by, besides it; a year for all others."""

_NAMED, _IN_FULL = 2, 3
"""The levels at which words name a field, and not only its description, or its whole name."""


def own_field(frame: Frame, best: Best) -> tuple[tuple[str, ...], Field]:
    """Return the field that a superlative speaks of by itself: the oldest plane's year."""
    manager = frame.manager
    keys = {*manager.primary_key, *foreign_keys(manager)}
    if best.is_recent:
        found = [f for f in manager.fields if f.type in TEMPORAL]
        found = found or [
            f for f in manager.fields if f.type == "integer" and "year" in split_name(f.name)
        ]
    else:
        rated = [
            (hint_score(best.hints, f.name, f.description), f)
            for f in manager.fields
            if f.type in NUMERIC and f.name not in keys
        ]
        most = max((score for score, _ in rated), default=0.0)
        found = [f for score, f in rated if score == most >= 3.0]
    field = only_one(found, best.text, [f.name for f in found], none="measure")
    return (field.name,), field


def field_of(frame: Frame, mention: Mention, *, ordered: bool) -> tuple[tuple[str, ...], Field]:
    """Return the one field of numbers that words name; of moments too, if they are ordered."""
    said = " ".join(mention.words)
    owner, many = frame.places.along(mention.path[:-1])
    if owner is None or many or mention.field is None:
        raise Stuck("unmeasured", said)
    types = NUMERIC | (TEMPORAL if ordered else frozenset[str]())
    keys = {*owner.primary_key, *foreign_keys(owner)}
    found = named_alike(
        mention, [f for f in owner.fields if f.type in types and f.name not in keys]
    )
    field = only_one(found, said, [f.name for f in found], none="unmeasured")
    if not ordered and is_moment(field):
        raise Stuck("unmeasured", said)
    return (*mention.path[:-1], field.name), field


def named_alike(mention: Mention, fields: Iterable[Field]) -> list[Field]:
    """Return the fields that words name best, which are several if they name none in full."""
    rated = [(field_level(mention.words, f.name, f.description), f) for f in fields]
    most = max((level for level, _ in rated), default=0)
    found = [f for level, f in rated if level == most > 0]
    exact = [f for f in found if f == mention.field]
    return exact if exact and most == _IN_FULL else found


def field_of_related(frame: Frame, value: Value, op: Op) -> tuple[tuple[str, ...], Field]:
    """Find "the average density of parts" where parts lead to a material."""
    words = value.said.lower().split()
    found: list[tuple[tuple[str, ...], Field]] = []
    for relation in frame.manager.relations:
        target = None if relation.many else frame.places.known(relation.target)
        named = (
            [f for f in target.fields if field_level(words, f.name, f.description) >= _NAMED]
            if target
            else []
        )
        if named:
            frame.want(relation.target)
        found += [((relation.name, f.name), f) for f in named if f.type in NUMERIC]
    names = [".".join(path) for path, _ in found]
    only = only_one(found, value.said, names, none="unclear")
    if op.op == "count_distinct":
        raise Stuck("calculation", op.text)
    return only


def group_of(frame: Frame, mention: Mention) -> Group:
    """Return what to group by: a field, or related rows by their name."""
    said = " ".join(mention.words) or frame.manager.name
    if mention.is_subject:
        raise Stuck("ungrouped", said)
    if mention.field and field_level(mention.words, mention.field.name, "") < _IN_FULL:
        # "Supplier" means the rows, whatever is said of them in the column of their numbers.
        related = {f"{r.name}_id": r for r in frame.manager.relations}
        if relation := related.get(mention.field.name):
            path, target = (relation.name,), relation.target
            mention = replace(mention, path=path, field=None, target=target)
    if mention.field is None:
        frame.refuse_rivals(mention)
    path = mention.path[:-1] if mention.field else mention.path
    owner, many = frame.places.along(path)
    if owner is None and not mention.field:
        owner = frame.places.known(mention.target)
        many = (frame.manager.name, mention.target) in frame.facts.widening
        if owner is None:
            frame.want(mention.target)
    if many or owner is None:
        raise Stuck("many", said, (mention.target,))
    if mention.field:
        return Group(mention.path, mention.field)
    named = name_field(owner) or next(
        (f for f in owner.fields if f.name in owner.primary_key), None
    )
    if named is None:
        frame.want(owner.name)
        raise Stuck("ungrouped", said)
    return Group((*path, named.name), named)


def agent_of(frame: Frame, verb: Cue) -> Mention:
    """Return the related rows that the verb of "who delivers the most parts" speaks of."""
    hints = (verb.hints | AGENTS.get(verb.kind, frozenset())) - frame.own_words
    relations = [r for r in frame.manager.relations if not r.many]
    found = [r for r in relations if hint_score(hints, r.name, r.description) >= 3.0]
    agent = only_one(found, verb.text, [r.name for r in found], none="unread")
    return Mention(0, False, (agent.name,), (agent.name,), target=agent.target)


def is_done_by(frame: Frame, verb: Cue, path: Sequence[str]) -> bool:
    """Tell whether a verb says no more than that related rows have those that are counted."""
    agents = AGENTS.get(verb.kind, frozenset[str]())
    return frame.is_explained(verb, path) or frame.places.explains(path, agents)


def is_link(manager: Manager) -> bool:
    """Tell whether a row is known by the two rows it links, and by nothing else."""
    keys = {key for key in manager.primary_key if key in foreign_keys(manager)}
    return len(keys) == len(manager.primary_key) == 2


def coarser(frame: Frame, group: Group) -> list[Group]:
    """Add the month and year that a day is one of, where they are columns beside it."""
    if group.calendar != "day" or len(group.path) > 1:
        return []
    whole = {split_name(f.name)[-1:]: f for f in frame.manager.fields if f.type == "integer"}
    found = [f for part in ("year", "month") if (f := whole.get((part,)))]
    return [Group((f.name,), f) for f in found]


def parts_of_date(frame: Frame, part: str, named: str) -> list[Group]:
    """Group by a part of the date that is named, or the one there is: a month is one of a year."""
    dates = [f for f in frame.manager.fields if f.type in TEMPORAL and named in {"", f.name}]
    date = only_one(dates, part, [f"{part} of {f.name}" for f in dates], none="ungrouped")
    if part == "hour" and date.type == "date":
        raise Stuck("ungrouped", part)
    return [Group((date.name,), date, p) for p in (*_COARSER.get(part, ("year",)), part)]


def is_reckoned(frame: Frame, field: Field) -> bool:
    """Tell a field of numbers to add up, by which rows are rather sorted than grouped."""
    keys = {*frame.manager.primary_key, *foreign_keys(frame.manager)}
    return field.type in NUMERIC and field.name not in keys and not is_moment(field)
