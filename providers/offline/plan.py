"""Stage three, plan: what to look up next, or what there is to say.

Everything follows from the question and the facts, so each completion finds its place again by
itself. Look-ups that don't depend on each other go out together; a call is never made twice.
"""

from collections.abc import Sequence
from dataclasses import replace

from providers.offline.asked import Figures, Group, Measure, Rank
from providers.offline.english import split_name
from providers.offline.facts import AGGREGATE, PATH, QUERY, SCHEMA, SEARCH, Facts, Field, Page
from providers.offline.follow import understand
from providers.offline.frame import Problem
from providers.offline.lookup import look_up
from providers.offline.match import Condition, is_kin, key_columns
from providers.offline.parse import Question, Word
from providers.offline.places import Slot
from providers.offline.probe import Hit, Settled, is_run_together, settle
from providers.offline.resolve import Resolved
from providers.offline.steps import (
    About,
    Call,
    Found,
    NotThere,
    Step,
    Taken,
    Trouble,
    aggregate_args,
    label,
    query_args,
    value_of,
)
from providers.offline.subject import opens_with_rows
from schema.events import Json, JsonObject

_UNREAD = frozenset({"greeting", "help", "change", "follow", "foreign", "several"})
_NOTHING = Page(data=[], total_count=0)
_CATALOGUE = "what data do you have"


def plan(question: Question, facts: Facts, offered: frozenset[str]) -> Step:
    """Decide the next step. With nothing offered that would help, say what is known."""
    if question.intent == "thanks":
        return About("thanks")
    step = _next(question, facts)
    if not isinstance(step, list):
        return step
    calls = [c for c in step if c.name in offered and c.key not in facts.done][: facts.left]
    if calls:
        return calls
    return About(question.intent) if question.intent in _UNREAD else _trouble("unfinished")


def _trouble(kind: str, word: str = "", resolved: Resolved | None = None) -> Trouble:
    return Trouble(Problem(kind, word), resolved)


def _next(question: Question, facts: Facts) -> Step:
    topics = [question.topic or _CATALOGUE]
    last = question.pieces[-1] if question.pieces else None
    if question.leans == "change" and isinstance(last, Word) and last.text.endswith("s"):
        # "What about planes?" may name other rows.
        topics += [question.own_topic] if question.own_topic else []
    searches = [Call(SEARCH, {"query": topic}) for topic in dict.fromkeys(topics)]
    if waiting := [search for search in searches if search.key not in facts.done]:
        return waiting
    best = next(iter(facts.managers.values()), None)
    catalogue = Call(SEARCH, {"query": _CATALOGUE})
    if best is None and catalogue.key not in facts.done:
        # Words that find nothing: see what there is.
        return [catalogue]
    if question.intent == "change" and opens_with_rows(question.pieces, facts):
        question = replace(question, intent="list")
    if question.intent in _UNREAD:
        return About(question.intent)
    if best is None:
        return _trouble("refused" if facts.is_refused else "lost")
    if best.reason == "alias" and best.name not in facts.detailed:
        return [Call(SCHEMA, {"manager": best.name})]
    return _read(question, facts)


def _read(question: Question, facts: Facts) -> Step:
    """Read the question near by; where a value is not found, further away as well."""
    resolved = understand(question, facts)
    if resolved is None:
        return About("follow") if question.leans == "rows" else look_up(question, facts)
    near = _pursue(resolved, facts, respell=False)
    if not isinstance(near, NotThere):
        return near
    is_sure = all(place.is_sure for place in near.missed.looked)
    if near.missed.is_whole or (is_sure and is_run_together(near.missed.said)):
        # There is no doubt where "LaGuardia" would be, if it were written with a space.
        spelled = _pursue(resolved, facts, respell=True)
        if near.missed.is_whole or not isinstance(spelled, NotThere):
            return spelled
    far = understand(question, facts, depth=2)
    if far is None or far.problem or len(far.schemas) > facts.left:
        return _pursue(resolved, facts, respell=True)
    step = _pursue(far, facts, respell=True)
    is_vague = isinstance(step, Trouble) and step.problem.kind != "which"
    return near if is_vague else step


def _pursue(resolved: Resolved, facts: Facts, *, respell: bool) -> Step:
    if resolved.problem:
        return Trouble(resolved.problem, resolved)
    needed = [Call(SCHEMA, {"manager": name}) for name in resolved.schemas]
    needed += [Call(PATH, {"from_manager": a, "to_manager": b}) for a, b in resolved.paths]
    needed += [Call(AGGREGATE, args) for args in resolved.reads]
    needed = [call for call in needed if call.key not in facts.done]
    if needed:
        return needed
    own = resolved.own
    keys = key_columns(resolved.subject, facts.managers)
    conditions, hits, taken = list[Condition](), list[Hit](), list[tuple[str, ...]]()
    before = list[Condition]()
    for layer in (own, *reversed(resolved.layers)):
        # What is new comes first: it takes the place of what was said before of the same.
        slots = [s for s in layer.slots if not _is_replaced(s, taken, keys)]
        settled = settle(slots, facts, max(0, facts.left - 1), respell=respell)
        if step := _unsettled(settled, resolved):
            return step
        kept = [h for h in settled.hits if not any(is_kin(h.place.path, p, keys) for p in taken)]
        fixed = [c for c in layer.conditions if not _is_overruled(c, taken, keys)]
        conditions[:0], hits[:0] = fixed, kept
        if layer is not own:
            before[:0] = [*fixed, *(hit.condition for hit in kept)]
        if not layer.is_added:
            taken += [c.path for c in fixed] + [h.place.path for h in kept]
    return _ask(replace(resolved, kept=tuple(before)), conditions, hits, facts)


def _is_replaced(
    slot: Slot, taken: Sequence[tuple[str, ...]], keys: frozenset[tuple[str, str]]
) -> bool:
    """Tell that an earlier value need not be looked for: only what was said anew may hold it."""
    return bool(slot.places) and all(
        place.is_sure and any(is_kin(place.path, path, keys) for path in taken)
        for place in slot.places
    )


def _is_overruled(
    condition: Condition, taken: Sequence[tuple[str, ...]], keys: frozenset[tuple[str, str]]
) -> bool:
    """Tell that an earlier condition is of what was said anew; a new month has no old day."""
    is_day = split_name(condition.path[-1])[-1:] == ("day",)
    is_past = is_day and any(split_name(path[-1])[-1:] == ("month",) for path in taken)
    return is_past or any(is_kin(condition.path, path, keys) for path in taken)


def _unsettled(settled: Settled, resolved: Resolved) -> Step | None:
    """Return what is to be done, or said, before all values of a layer have their places."""
    if settled.missed and settled.is_refused:
        return _trouble("refused", resolved=resolved)
    if settled.missed:
        return NotThere(resolved, settled.missed)
    if settled.cut:
        kind = "unfinished" if settled.cut.is_tied else "unread"
        return _trouble(kind, settled.cut.said, resolved)
    if settled.probes:
        return [Call(QUERY, probe) for probe in settled.probes[: settled.left]]
    if settled.rivals:
        said, places = settled.rivals
        names = tuple(dict.fromkeys(label(place.path) for place in places))
        return Trouble(Problem("which", said, names), resolved)
    return None


def _ask(resolved: Resolved, fixed: Sequence[Condition], hits: Sequence[Hit], facts: Facts) -> Step:
    """Ask for the rows, once every value has its place."""
    conditions = (*fixed, *(hit.condition for hit in hits))
    keys = [condition.key for condition in conditions]
    if len(set(keys)) < len(keys):
        twice = next(c for c in reversed(conditions) if keys.count(c.key) > 1)
        return _trouble("both", twice.said or twice.path[-1], resolved)
    others = tuple((label(h.place.path), o) for h in hits for o in h.others)
    taken = tuple(Taken(h.place.path, h.place.owner, *part) for h in hits for part in h.parts)
    if resolved.compares:
        resolved = _side_by_side(resolved, conditions)
        if resolved.problem:
            return Trouble(resolved.problem, resolved)
    found = Found(resolved, conditions, _NOTHING, others, taken)
    if step := _alone(found, hits, facts):
        return step
    match resolved.asked:
        case Figures() as figures:
            args = aggregate_args(resolved, figures, conditions)
            return _with_page(found, AGGREGATE, args, facts)
        case Rank() as rank:
            return _ask_ranked(found, rank, facts)
        case None:
            return _ask_rows(found, facts)


def _alone(found: Found, hits: Sequence[Hit], facts: Facts) -> Step | None:
    """Stop at one of several values that is only a part of others, if no rows are with those.

    The rows of the other values would hide that something else may be meant by it.
    """
    for hit in hits:
        for said, values in hit.parts:
            if [*values] == hit.condition.value or hit.condition.lookup != "in":
                continue
            value: list[Json] = [*values]
            named = values[0] if len(values) == 1 else f'"{said}" in it'
            alone = Condition(hit.place.path, "in", value, named)
            filters = tuple(alone if c is hit.condition else c for c in found.conditions)
            counted = replace(found.resolved, asked=None, intent="count")
            page = facts.page(args := query_args(counted, filters))
            if page is None:
                is_left = facts.left > 1
                return [Call(QUERY, args)] if is_left else _trouble("unfinished", said, counted)
            if isinstance(page, Page) and not page.total_count:
                taken = tuple(t for t in found.taken if t.said == said)
                return replace(found, conditions=filters, taken=taken)
    return None


def _side_by_side(resolved: Resolved, conditions: Sequence[Condition]) -> Resolved:
    """Group by the field whose values are compared: "compare UA and AA"."""
    several = [c for c in conditions if c.lookup == "in"]
    asked = resolved.asked or Figures((Measure("count"),))
    if len(several) != 1 or not isinstance(asked, Figures) or asked.groups:
        return replace(resolved, problem=Problem("compare"))
    path = several[0].path
    own = [f for f in resolved.subject.fields if path == (f.name,)]
    group = Group(path, own[0] if own else Field(name=path[-1]))
    return replace(resolved, asked=replace(asked, groups=(group,)))


def _ask_rows(found: Found, facts: Facts) -> Step:
    args = query_args(found.resolved, found.conditions)
    plain: JsonObject = {key: args[key] for key in ("manager", "filters") if key in args}
    step = _with_page(found, QUERY, args, facts)
    # Refused: ask once more in the plainest form, in case our choice of fields was at fault.
    return _with_page(found, QUERY, plain, facts) if isinstance(step, Trouble) else step


def _with_page(found: Found, tool: str, args: JsonObject, facts: Facts) -> Step:
    """Return what was found with its page, or the call that brings it."""
    page = facts.page(args, tool)
    if page is None:
        return [Call(tool, args)]
    if isinstance(page, Page):
        return replace(found, page=page)
    return _trouble("refused", resolved=found.resolved)


def _ask_ranked(found: Found, rank: Rank, facts: Facts) -> Step:
    """Ask for rows in order; those without a value have no place in a ranking."""
    present = Condition(rank.path, "isnull", False)
    needed = rank.top is not None and (rank.field.nullable or len(rank.path) > 1)
    is_there = any(c.path == rank.path and c.value is not None for c in found.conditions)
    filters = (*found.conditions, present) if needed and not is_there else found.conditions
    step = _with_page(found, QUERY, query_args(found.resolved, filters), facts)
    if not isinstance(step, Found):
        return step
    found, page = step, step.page
    best = value_of(page.data[0], rank.path) if page.data else None
    if rank.top != 1 or page.total_count <= len(page.data):
        return found
    if best != value_of(page.data[-1], rank.path):
        return found
    # All rows of the page share the value: count them.
    tied = query_args(
        replace(found.resolved, asked=None, intent="count"),
        (*found.conditions, Condition(rank.path, "", best)),
    )
    count = facts.page(tied)
    if count is None:
        return [Call(QUERY, tied)]
    return replace(found, tied=count.total_count) if isinstance(count, Page) else found
