"""Values, rows and filters in words: what answers of all kinds are made of."""

from collections.abc import Iterable, Sequence

import orjson

from providers.offline.facts import Manager, Page
from providers.offline.match import Condition, name_field
from providers.offline.resolve import SHOWN_ROWS, Resolved
from providers.offline.steps import Found, Taken, hops, label, value_of
from schema.events import Json, JsonObject

_MAX_VALUE = 300
_MAX_CELLS = 7
_MAX_OTHERS = 5

_COMPARED = {"gt": "over", "gte": "of at least", "lt": "under", "lte": "of at most"}
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
    words = _IN_TIME if condition.in_time else _COMPARED
    return f"with {named} {words[condition.lookup]} {said}"


def sentence(text: str) -> str:
    """End a sentence, which may end with a name that has a full stop of its own."""
    return f"{text.removesuffix('.')}."


def listed(names: Sequence[str], link: str = "and") -> str:
    """Join names in a sentence."""
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} {link} {names[-1]}"


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
    ranked = first + sorted(
        (path for path in columns if path not in first), key=lambda path: not _varies(rows, path)
    )
    kept = ranked[: max(_MAX_CELLS, len(first))]
    telling = [path for path in columns if path in kept]
    lines = [_line(row, telling, asked, manager) for row in rows]
    left = page.total_count - skipped - len(lines)
    if left > 0:
        lines.append(f"… and {left:,} more.")
    return "\n".join(lines)


def _varies(rows: Sequence[JsonObject], path: Sequence[str]) -> bool:
    return len({text_of(value_of(row, path)) for row in rows}) > 1


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
