"""Values, rows, filters and questions to ask in words: what answers of all kinds are made of."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import orjson

from providers.offline.english import plural
from providers.offline.facts import SUGGESTED, Facts, Field, Manager, Page
from providers.offline.match import (
    Condition,
    foreign_keys,
    is_quantity,
    manager_words,
    name_field,
    unit_of,
)
from providers.offline.resolve import SHOWN_ROWS, Resolved
from providers.offline.steps import Found, Taken, hops, label, value_of
from schema.events import Json, JsonObject

_MAX_VALUE = 300
_MAX_CELLS = 7
_MAX_OTHERS = 5
_EXAMPLES = 3

COMPARED = {"gt": "over", "gte": "of at least", "lt": "under", "lte": "of at most", "": "of"}
_IN_TIME = {"gt": "after", "gte": "from", "lt": "before", "lte": "up to"}


def described(conditions: Sequence[Condition]) -> str:
    """Say the filters: " with origin JFK and dest LAX and without dep_time"."""
    parts: list[str] = []
    is_with = False
    for condition in conditions:
        part = _phrase(condition)
        if part.startswith("with ") and is_with:
            parts.append(f"and {part.removeprefix('with ')}")
        else:
            parts.append(f"and {part}" if parts else part)
        is_with = part.startswith("with ")
    return "".join(f" {part}" for part in parts)


def _phrase(condition: Condition) -> str:
    names, named = hops(condition.path), label(condition.path)
    said = condition.said or text_of(condition.value)
    if condition.lookup == "isnull":
        return f"without {named}" if condition.value else f"with {named}"
    contains = condition.lookup == "icontains"
    if contains or condition.lookup in {"", "in"}:
        value = f'"{said}"' if contains else said
        contains = contains or said.startswith('"')
        value = value.replace(" in it", "") if contains else value
        if len(names) > 1 and len(condition.path) > 2:
            verb = "contains" if contains else "is"
            return f"with {names[0]} whose {' '.join(names[1:])} {verb} {value}"
        return f"with {named} {'containing ' if contains else ''}{value}"
    if condition.lookup == "any":
        return f"with {named} in {said}"
    words = _IN_TIME if condition.in_time else COMPARED
    return f"with {named} {words[condition.lookup]} {said}"


def sentence(text: str) -> str:
    """End a sentence, which may end with a name that has a full stop of its own."""
    return f"{text.removesuffix('.')}."


def listed(names: Sequence[str], link: str = "and") -> str:
    """Join names in a sentence."""
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} {link} {names[-1]}"


def noun_of(manager: Manager) -> str:
    """Return what the rows of a manager are called in plural: "parts", "weather records"."""
    return counted(" ".join(manager_words(manager)), 2)


def counted(noun: str, count: int) -> str:
    """Return a noun for a number of rows; "26,115 weather records"."""
    many = plural(noun)
    if many == noun and not noun.endswith("s"):
        noun, many = f"{noun} record", f"{noun} records"
    return noun if count == 1 else many


# --- notes on values ------------------------------------------------------------------------------


def notes_on(found: Found) -> str:
    """Tell what was taken for granted: conditions of before, fields, values and those left out."""
    notes = "".join(f" {_taken_for(taken, found.resolved)}" for taken in found.taken)
    for condition in found.conditions:
        if condition.rivals:
            others = listed(condition.rivals, "or")
            notes += f" I took this to be about {label(condition.path)}, not {others}."
    if found.resolved.kept:
        notes += f" {sentence(f'Kept from before:{described(found.resolved.kept)}')}"
    if not found.others:
        return notes
    places = dict.fromkeys(place for place, _ in found.others)
    left_out = some([f'"{value}"' for _, value in found.others])
    return f"{notes} Not counted in, though alike in {listed([*places])}: {left_out}."


def _taken_for(taken: Taken, resolved: Resolved) -> str:
    """Tell which values were taken, since others may be meant."""
    own = name_field(resolved.subject)
    what = resolved.noun if own and taken.path == (own.name,) else hops(taken.path)[-1]
    if not taken.values:
        return f'I took "{taken.said}" for every {what} that contains it.'
    none = f'No {what} is called just "{taken.said}"'
    return sentence(f"{none}, so I took it for {some(taken.values)}")


def some(names: Sequence[str], link: str = "and") -> str:
    """Join the first of many names in a sentence."""
    more = len(names) - _MAX_OTHERS
    return listed([*names[:_MAX_OTHERS], *([f"{more} more"] if more > 0 else [])], link)


# --- rows -----------------------------------------------------------------------------------------


def list_rows(
    page: Page,
    columns: Sequence[tuple[str, ...]],
    asked: Iterable[str],
    manager: Manager,
    *,
    skipped: int = 0,
) -> str:
    """List the rows of a page: the columns ``asked`` for, then those that tell rows apart."""
    asked = set(asked)
    rows = page.data[:SHOWN_ROWS]
    first = [p for n, p in enumerate(columns) if n == 0 or ".".join(p) in asked]
    rest = [path for path in columns if path not in first]
    ranked = first + sorted(
        rest, key=lambda path: len({text_of(value_of(row, path)) for row in rows}) < 2
    )
    kept = ranked[: max(_MAX_CELLS, len(first))]
    telling = [path for path in columns if path in kept]
    lines = [_line(row, telling, asked, manager) for row in rows]
    left = page.total_count - skipped - len(lines)
    if left > 0:
        lines.append(f"… and {left:,} more.")
    return "\n".join(lines)


def _line(
    row: JsonObject, columns: Sequence[tuple[str, ...]], asked: set[str], manager: Manager
) -> str:
    cells: list[tuple[str, str]] = []
    for path in columns:
        value = value_of(row, path)
        text = text_of(value)
        if text or ".".join(path) in asked:
            cells.append((label(path), text or "not set"))
    if not cells:
        return "- " + ", ".join(f"{k} {text_of(v)}" for k, v in row.items())
    (first, head), rest = cells[0], cells[1:]
    named = name_field(manager)
    is_key = len(columns[0]) == 1 and not head.lstrip("-").isdigit()
    is_plain = is_key or (named is not None and columns[0] == (named.name,))
    details = ", ".join(f"{name} {text}" for name, text in rest)
    return f"- {head if is_plain else f'{first} {head}'}" + (f": {details}" if details else "")


def text_of(value: Json) -> str:
    """Show a value as it is; only line breaks and great length would hurt the list it stands in."""
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case list():
            return " / ".join(text for item in value if (text := text_of(item)))
        case dict():
            return _cut(orjson.dumps(value).decode())
        case _:
            return _cut(" ".join(str(value).splitlines()))


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_VALUE else text[:_MAX_VALUE] + "…"


# --- questions to ask instead ---------------------------------------------------------------------


def examples(facts: Facts, resolved: Resolved | None = None) -> str:
    """Suggest up to three questions about the manager asked for, or about those on offer."""
    if resolved and resolved.subject.primary_key:
        asked = list(islice(_about(resolved.subject), _EXAMPLES))
    else:
        asked = _in_general(list(facts.managers.values()))
    return SUGGESTED + "\n- ".join(asked) if asked else ""


def _about(manager: Manager) -> Iterator[str]:
    """Make questions of what a manager has: choices, amounts, relations, gaps."""
    noun = noun_of(manager)
    if choosy := next((f for f in manager.fields if f.choices), None):
        yield f"How many {noun} have {_words(choosy.name)} {choosy.choices[0]}?"
    if amount := _amount(manager):
        yield f"What is the average {_words(amount.name)} of {noun}?"
    yield from _grouped(manager)
    if amount:
        yield f"{noun.capitalize()} with {_words(amount.name)} over 1"
    yield from _of_a_gap(manager)
    yield f"How many {noun} are there?"
    yield f"List all {noun}"


def _grouped(manager: Manager) -> Iterator[str]:
    """Ask for the number of rows for each related one."""
    if relation := next((r for r in manager.relations if not r.many), None):
        yield f"How many {noun_of(manager)} are there per {_words(relation.name)}?"


def _of_a_gap(manager: Manager) -> Iterator[str]:
    """Ask for the rows without a related one, where there may be any."""
    if relation := next((r for r in manager.relations if r.nullable or r.many), None):
        yield f"Which {noun_of(manager)} have no {_words(relation.name)}?"


def _words(name: str) -> str:
    return name.replace("_", " ")


def _amount(manager: Manager) -> Field | None:
    """Choose a field of amounts, rather one with a unit."""
    keys = {*manager.primary_key, *foreign_keys(manager)}
    amounts = [f for f in manager.fields if is_quantity(f) and f.name not in keys]
    return min(amounts, key=lambda f: not unit_of(f), default=None)


def _in_general(managers: list[Manager]) -> list[str]:
    forms = ("List all {0}", "How many {0} are there?", "Which {0} are there?")
    asked = [form.format(noun_of(m)) for form, m in zip(forms, managers, strict=False)]
    more = [question for make in (_grouped, _of_a_gap) for m in managers for question in make(m)]
    asked[2:] = more[:1] or asked[2:]
    return asked
