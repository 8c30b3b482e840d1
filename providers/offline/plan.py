"""Stage three, plan: what to look up next, or what there is to say.

Everything follows from the question and the facts, so each completion finds its place again by
itself. Look-ups that don't depend on each other go out together; a call is never made twice.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from providers.offline.english import CALCULATIONS
from providers.offline.facts import (
    PATH,
    QUERY,
    SCHEMA,
    SEARCH,
    Facts,
    Manager,
    Page,
    Refused,
    call_key,
)
from providers.offline.match import Condition, name_field
from providers.offline.parse import Question, Word
from providers.offline.resolve import Reading, Resolved, resolve
from schema.events import Json, JsonObject

MAX_CALLS = 8
"""Reads of one answer; the default budget of a message allows as many."""

_COLUMNS = 7
_BATCH = 3
_CLOSE = 2.0
_CATALOGUE = "what data do you have"
_LOOKUPS = 4


@dataclass(frozen=True, slots=True)
class Call:
    """One tool call to make."""

    name: str
    args: JsonObject

    @property
    def key(self) -> str:
        """What tells this call from others."""
        return call_key(self.name, self.args)


@dataclass(frozen=True, slots=True)
class Found:
    """Rows for one reading. ``wider`` counts rows with the value as a part, if they are more."""

    resolved: Resolved
    reading: Reading
    page: Page
    wider: int = 0


@dataclass(frozen=True, slots=True)
class Nothing:
    """No row fits; ``readings`` are all that were tried, best first."""

    resolved: Resolved
    readings: tuple[Reading, ...]


@dataclass(frozen=True, slots=True)
class LookedUp:
    """Rows known by a name that the question has, where it names no manager."""

    text: str
    pages: tuple[tuple[Manager, Page], ...]


@dataclass(frozen=True, slots=True)
class Trouble:
    """A question that can't be answered: ``kind`` says why, ``word`` is the word at fault."""

    kind: Literal[
        "unclear",
        "unknown",
        "unrelated",
        "exclusion",
        "calculation",
        "refused",
        "unfinished",
        "lost",
    ]
    word: str = ""
    resolved: Resolved | None = None


@dataclass(frozen=True, slots=True)
class About:
    """A word about ourselves."""

    kind: Literal["greeting", "thanks", "help"]


Outcome = Found | Nothing | LookedUp | Trouble | About


@dataclass(slots=True)
class Plan:
    """Calls to make, or an outcome to put into words; with both, the outcome stands in for them."""

    calls: list[Call] = field(default_factory=list[Call])
    outcome: Outcome | None = None


def plan(question: Question, facts: Facts, offered: frozenset[str]) -> Plan:
    """Decide the next step. With nothing offered that would help, say what is known."""
    if question.intent == "thanks":
        return Plan(outcome=About("thanks"))
    step = _next(question, facts)
    calls = [c for c in step.calls if c.name in offered and c.key not in facts.done]
    calls = calls[: max(0, MAX_CALLS - facts.calls)]
    if calls:
        return Plan(calls)
    if step.outcome:
        return Plan(outcome=step.outcome)
    if question.intent in {"greeting", "help"}:
        return Plan(outcome=About("greeting" if question.intent == "greeting" else "help"))
    return Plan(outcome=Trouble("unfinished"))


def _next(question: Question, facts: Facts) -> Plan:
    search = Call(SEARCH, {"query": question.topic or _CATALOGUE})
    if search.key not in facts.done:
        return Plan([search])
    if not facts.managers:
        # Words that find nothing: see what there is.
        catalogue = Call(SEARCH, {"query": _CATALOGUE})
        if catalogue.key not in facts.done:
            return Plan([catalogue])
    if question.intent == "greeting" or question.intent == "help":
        return Plan(outcome=About(question.intent))
    best = next(iter(facts.managers.values()), None)
    if best is None:
        refusal = facts.refusals[0] if facts.refusals else ""
        return Plan(outcome=Trouble("refused", refusal) if refusal else Trouble("lost"))
    if best.reason == "alias" and best.name not in facts.detailed:
        return Plan([Call(SCHEMA, {"manager": best.name})])
    for depth in (1, 2):
        resolved = resolve(question, facts, depth=depth)
        if resolved is None:
            return _look_up(question, facts)
        step = _pursue(resolved, facts)
        if not isinstance(step.outcome, Nothing) or not resolved.is_open or depth == 2:
            return step
    return Plan(outcome=Trouble("unfinished"))


def _pursue(resolved: Resolved, facts: Facts) -> Plan:
    if resolved.problem:
        kind, word = resolved.problem
        return Plan(outcome=_trouble(kind, word, resolved))
    needed = [Call(SCHEMA, {"manager": name}) for name in resolved.schemas]
    needed += [Call(PATH, {"from_manager": a, "to_manager": b}) for a, b in resolved.paths]
    needed = [call for call in needed if call.key not in facts.done]
    if needed:
        return Plan(needed)
    return _try_readings(resolved, facts)


def _trouble(kind: str, word: str, resolved: Resolved) -> Trouble:
    match kind:
        case "unclear" | "unknown" | "unrelated" | "exclusion" | "calculation":
            return Trouble(kind, word, resolved)
        case _:
            return Trouble("unfinished", word, resolved)


def _try_readings(resolved: Resolved, facts: Facts) -> Plan:
    """Ask the data which reading holds: the best one that finds rows."""
    untried: list[Reading] = []
    refused: list[Refused] = []
    for reading in resolved.readings:
        result = facts.page(query_args(resolved, reading.conditions))
        if isinstance(result, Page) and not untried and (step := _narrow(resolved, reading, facts)):
            return step
        if result is None:
            untried.append(reading)
        elif isinstance(result, Refused):
            refused.append(result)
    left = MAX_CALLS - facts.calls
    if untried and left > 0:
        batch = _batch(untried, left)
        wanted = [reading.conditions for reading in batch]
        if len(batch) == 1 and batch[0].exact and left > 1:
            wanted.append(batch[0].exact)
        return Plan([Call(QUERY, query_args(resolved, conditions)) for conditions in wanted])
    if refused and len(refused) == len(resolved.readings):
        return _repair(resolved, facts, refused[0])
    tried = tuple(
        r
        for r in resolved.readings
        if isinstance(facts.page(query_args(resolved, r.conditions)), Page)
    )
    return Plan(outcome=Nothing(resolved, tried) if tried else Trouble("unfinished"))


def _narrow(resolved: Resolved, reading: Reading, facts: Facts) -> Plan | None:
    """Take a reading that found rows, and prefer those that have the values as wholes."""
    page = facts.page(query_args(resolved, reading.conditions))
    found = Found(resolved, reading, page) if isinstance(page, Page) and page.total_count else None
    if not reading.exact:
        return Plan(outcome=found) if found else None
    args = query_args(resolved, reading.exact)
    whole = facts.page(args)
    if isinstance(whole, Page) and whole.total_count:
        parts = found.page.total_count if found else 0
        narrowed = replace(reading, conditions=reading.exact)
        wider = parts if parts > whole.total_count else 0
        return Plan(outcome=Found(resolved, narrowed, whole, wider))
    if found and whole is None and facts.calls < MAX_CALLS:
        return Plan([Call(QUERY, args)], found)
    return Plan(outcome=found) if found else None


def _batch(readings: list[Reading], left: int) -> list[Reading]:
    """Take the readings worth asking now: the best, and those close to it."""
    close = [r for r in readings if r.score >= readings[0].score - _CLOSE]
    return close[: min(_BATCH, left)]


def _repair(resolved: Resolved, facts: Facts, refused: Refused) -> Plan:
    """Ask once more in the plainest form, in case our choice of fields was the fault."""
    reading = resolved.readings[0]
    args: JsonObject = {"manager": resolved.subject.name}
    if reading.conditions:
        args["filters"] = {c.key: c.value for c in reading.conditions}
    again = Call(QUERY, args)
    if again.key not in facts.done and facts.calls < MAX_CALLS:
        return Plan([again])
    return Plan(outcome=Trouble("refused", refused.message, resolved))


# --- queries ------------------------------------------------------------------------------------


def query_args(resolved: Resolved, conditions: Sequence[Condition]) -> JsonObject:
    """Write a query: one row for a count, a screenful of chosen columns for a list."""
    args: JsonObject = {"manager": resolved.subject.name}
    if conditions:
        args["filters"] = {c.key: c.value for c in conditions}
    columns = columns_of(resolved, conditions)
    if resolved.intent == "count":
        args["limit"] = 1
        columns = columns[:1]
    else:
        args["limit"] = resolved.rows
    if columns:
        args["fields"] = _selection(columns)
    return args


def columns_of(resolved: Resolved, conditions: Iterable[Condition]) -> list[tuple[str, ...]]:
    """Choose columns: what a row is known by, what was asked, what was filtered, the rest."""
    manager = resolved.subject
    known_by = name_field(manager)
    keys = [(key,) for key in manager.primary_key]
    numbers = {f.name for f in manager.fields if f.type in {"integer", "uuid"}}
    chosen: list[tuple[str, ...]] = [(known_by.name,)] if known_by else []
    if not known_by:
        chosen += keys if len(keys) == 1 or not resolved.related else resolved.related
    chosen += [path for path in resolved.shown if path]
    chosen += [c.path for c in conditions if _is_column(c, manager)]
    hidden = {key for (key,) in keys if known_by and key in numbers}
    hidden |= {f"{r.name}_id" for r in manager.relations}
    rest = [
        (f.name,)
        for f in manager.fields
        if f.name not in hidden and not (known_by and f.name == "id")
    ]
    asked = list(dict.fromkeys((*chosen, *resolved.related)))
    return asked + [path for path in rest if path not in asked][: max(0, _COLUMNS - len(asked))]


def _is_column(condition: Condition, manager: Manager) -> bool:
    """Tell whether a filtered field is worth showing: own ones, and those of one related row."""
    if len(condition.path) == 1:
        return manager.relation(condition.path[0]) is None
    relation = manager.relation(condition.path[0])
    return len(condition.path) == 2 and relation is not None and not relation.many


def _selection(columns: Iterable[tuple[str, ...]]) -> list[Json]:
    """Write columns as the query tool wants them; a path becomes a nested selection."""
    flat: list[Json] = []
    nested: dict[str, list[tuple[str, ...]]] = {}
    for path in columns:
        if len(path) == 1:
            flat.append(path[0])
        else:
            nested.setdefault(path[0], []).append(path[1:])
    return flat + [{name: _selection(paths)} for name, paths in nested.items()]


# --- questions without a manager ----------------------------------------------------------------


def _look_up(question: Question, facts: Facts) -> Plan:
    """Search the names of rows for what the question has instead of a manager."""
    word = _first_word(question)
    if word.lower() in CALCULATIONS:
        return Plan(outcome=Trouble("calculation", word))
    text = "" if question.intent == "count" else _name_in(question)
    places = [(m, f) for m in facts.managers.values() if (f := name_field(m))][:_LOOKUPS]
    if not text or not places:
        return Plan(outcome=Trouble("lost", word))
    calls: list[tuple[Manager, Call]] = []
    for manager, named in places:
        fields: list[Json] = [named.name]
        hidden = {named.name, "id"} | {f"{r.name}_id" for r in manager.relations}
        fields += [f.name for f in manager.fields if f.name not in hidden][: _COLUMNS - 1]
        for relation in manager.relations:
            target = facts.managers.get(relation.target)
            target_name = name_field(target) if target else None
            if target_name and not relation.many:
                fields.append({relation.name: [target_name.name]})
        filters: JsonObject = {f"{named.name}__icontains": text}
        args: JsonObject = {
            "manager": manager.name,
            "filters": filters,
            "fields": fields,
            "limit": 5,
        }
        calls.append((manager, Call(QUERY, args)))
    waiting = [call for _, call in calls if call.key not in facts.done]
    if waiting:
        return Plan(waiting)
    pages = [(m, page) for m, call in calls if isinstance(page := facts.page(call.args), Page)]
    return Plan(outcome=LookedUp(text, tuple((m, p) for m, p in pages if p.total_count)))


def _name_in(question: Question) -> str:
    """Return the words that may be a row's name: quoted, capitalised, or the only word."""
    words = [piece for piece in question.pieces if isinstance(piece, Word)]
    follows = question.pieces[1] if len(question.pieces) > 1 else None
    # "Supplies the Bolt" is a verb before a name, "suppliers in Berlin" a noun.
    starts = isinstance(follows, Word) and not follows.text.islower()
    if words and _is_plural_noun(words[0]) and not starts:
        # The question starts with a noun in plural that no manager goes by.
        return ""
    quoted = next((w.text for w in words if w.quoted), "")
    shaped = [w for w in words if not w.text.islower()]
    if quoted or not shaped:
        return quoted or (words[0].text if len(words) == 1 else "")
    run = [shaped[0].text]
    start = words.index(shaped[0])
    for word in words[start + 1 :]:
        if not word.joined or word.text.islower():
            break
        run.append(word.text)
    return " ".join(run)


def _first_word(question: Question) -> str:
    return next((p.text for p in question.pieces if isinstance(p, Word)), "")


def _is_plural_noun(word: Word) -> bool:
    return not word.quoted and word.text.islower() and word.text.endswith("s")
