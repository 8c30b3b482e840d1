"""Stage four, word: the answer, made of what the tools returned and nothing else.

Values appear as they are in the data. Every answer repeats the filters it was read with, so that a
reader sees how the question was understood.
"""

from collections.abc import Iterable, Sequence
from itertools import islice

from providers.offline.english import NAME_LIKE, plural, singular
from providers.offline.facts import Facts, Manager, Page
from providers.offline.match import Condition, manager_words, name_field
from providers.offline.plan import (
    About,
    Found,
    LookedUp,
    Nothing,
    Outcome,
    Trouble,
    columns_of,
)
from providers.offline.resolve import SHOWN_ROWS, Resolved
from schema.events import Json, JsonObject

_MAX_VALUE = 300
_WHO = "I am Frontdesk's embedded offline assistant: I work without a language model or a network."
_CAN = "I understand simple questions in English that list, filter or count what is on record."

_COMPARED = {"gt": "over", "gte": "of at least", "lt": "under", "lte": "of at most"}
_IN_TIME = {"gt": "after", "gte": "from", "lt": "before", "lte": "up to"}


def word(outcome: Outcome, facts: Facts) -> str:
    """Put an outcome into words."""
    match outcome:
        case Found():
            return _found(outcome)
        case Nothing():
            return _nothing(outcome)
        case LookedUp():
            return _looked_up(outcome, facts)
        case Trouble():
            return _trouble(outcome, facts)
        case About(kind="thanks"):
            return "You're welcome."
        case About(kind=kind):
            opening = "Hello. " if kind == "greeting" else ""
            return f"{opening}{_WHO} {_CAN}{_examples(facts)}"


# --- rows ---------------------------------------------------------------------------------------


def _found(found: Found) -> str:
    resolved, conditions, total = found.resolved, found.reading.conditions, found.page.total_count
    said = _described(conditions, found.page.data)
    verb = "is" if total == 1 else "are"
    head = f"There {verb} {total:,} {_noun(resolved, total)}{said}"
    if resolved.intent == "exists":
        head = f"Yes, there {verb} {total:,} {_noun(resolved, total)}{said}"
    notes = _notes(found)
    if resolved.intent == "count":
        return f"{head}.{notes}"
    asked = {".".join(path) for path in (*resolved.shown, *(c.path for c in conditions))}
    lines = _lines(found.page, columns_of(resolved, conditions), asked, resolved.subject)
    return f"{head}:\n{lines}{notes}"


def _notes(found: Found) -> str:
    if not found.wider:
        return ""
    part = next(c for c in reversed(found.reading.conditions) if c.lookup in {"", "in"} and c.said)
    note = f'With "{part.said}" anywhere in {_label(part.path)} there are {found.wider:,}.'
    return (" " if found.resolved.intent == "count" else "\n") + note


def _lines(
    page: Page, columns: Sequence[tuple[str, ...]], asked: Iterable[str], manager: Manager
) -> str:
    asked = set(asked)
    lines = [_line(row, columns, asked, manager) for row in page.data[:SHOWN_ROWS]]
    if page.total_count > len(lines):
        lines.append(f"… and {page.total_count - len(lines):,} more.")
    return "\n".join(lines)


def _line(
    row: JsonObject, columns: Sequence[tuple[str, ...]], asked: set[str], manager: Manager
) -> str:
    cells: list[tuple[str, str]] = []
    for path in columns:
        value = _value_at(row, path)
        text = _text(value)
        if text or ".".join(path) in asked:
            cells.append((_label(path), text or "not set"))
    if not cells:
        return "- " + ", ".join(f"{k} {_text(v)}" for k, v in row.items())
    (label, head), rest = cells[0], cells[1:]
    named = name_field(manager)
    is_key = len(columns[0]) == 1 and not head.lstrip("-").isdigit()
    is_plain = is_key or (named is not None and columns[0] == (named.name,))
    details = ", ".join(f"{name} {text}" for name, text in rest)
    return f"- {head if is_plain else f'{label} {head}'}" + (f": {details}" if details else "")


def _value_at(value: Json, path: Sequence[str]) -> Json:
    for depth, name in enumerate(path):
        if isinstance(value, list):
            return [_value_at(item, path[depth:]) for item in value]
        if not isinstance(value, dict):
            return None
        value = value.get(name)
    return value


def _text(value: Json) -> str:
    """Show a value as it is; only line breaks and great length would hurt the list it stands in."""
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case list():
            return " / ".join(text for item in value if (text := _text(item)))
        case dict():
            return ", ".join(text for item in value.values() if (text := _text(item)))
        case _:
            text = " ".join(str(value).splitlines())
            return text if len(text) <= _MAX_VALUE else text[:_MAX_VALUE] + "…"


# --- filters in words ---------------------------------------------------------------------------


def _described(conditions: Sequence[Condition], rows: Sequence[JsonObject] = ()) -> str:
    """Say the filters: " with origin JFK and dest LAX and without dep_time"."""
    parts: list[str] = []
    for condition in conditions:
        part = _phrase(condition, rows)
        if parts and part.startswith("with ") and parts[-1].startswith(("with ", "and ")):
            part = part.removeprefix("with ")
        parts.append(part if not parts else f"and {part}")
    return "".join(f" {part}" for part in parts)


def _phrase(condition: Condition, rows: Sequence[JsonObject]) -> str:
    hops = _hops(condition.path)
    label = _label(condition.path)
    said = _spelled(condition, rows)
    if condition.lookup == "isnull":
        return f"without {label}" if condition.value else f"with {label}"
    contains = condition.lookup == "icontains"
    if contains or condition.lookup in {"", "in"}:
        value = f'"{said}"' if contains else said
        if len(hops) > 1 and len(condition.path) > 2:
            verb = "contains" if contains else "is"
            return f"with {' whose '.join(hops)} {verb} {value}"
        return f"with {label} {'containing ' if contains else ''}{value}"
    words = _IN_TIME if condition.in_time else _COMPARED
    return f"with {label} {words[condition.lookup]} {said}"


def _spelled(condition: Condition, rows: Sequence[JsonObject]) -> str:
    """Return the value in the data's spelling where the rows show it, else in the user's."""
    said = condition.said or _text(condition.value)
    shown = {_text(_value_at(row, condition.path)) for row in rows}
    return shown.pop() if shown and {s.lower() for s in shown} == {said.lower()} else said


def _hops(path: Sequence[str]) -> list[str]:
    """Return the names of a path; the name of a related row goes without saying."""
    if len(path) > 1 and path[-1] in NAME_LIKE:
        return [*path[:-2], singular(path[-2])]
    return list(path)


def _label(path: Sequence[str]) -> str:
    """Name a path: "density", "plane seats"."""
    return " ".join(_hops(path))


def _noun(resolved: Resolved, count: int) -> str:
    return _counted(resolved.noun, count)


def _counted(noun: str, count: int) -> str:
    """Return a noun for a number of rows; "26,115 weather records"."""
    many = plural(noun)
    if many == noun and not noun.endswith("s"):
        noun, many = f"{noun} record", f"{noun} records"
    return noun if count == 1 else many


# --- no rows ------------------------------------------------------------------------------------


def _nothing(nothing: Nothing) -> str:
    resolved, best = nothing.resolved, nothing.readings[0]
    noun = _noun(resolved, 0)
    opening = "No, there are no" if resolved.intent == "exists" else "There are no"
    if not resolved.is_open:
        return f"{opening} {noun}{_described(best.conditions)}."
    common = [c for c in best.conditions if all(c in r.conditions for r in nothing.readings)]
    tried = [c for r in nothing.readings for c in r.conditions if c not in common]
    words = dict.fromkeys(f'"{c.said}"' for c in tried)
    places = dict.fromkeys(_label(c.path) for c in tried)
    return (
        f"I found no {noun}{_described(common)} for {_listed([*words])}. "
        f"I looked in {_listed([*places])}."
    )


def _looked_up(found: LookedUp, facts: Facts) -> str:
    if not found.pages:
        return f'I found nothing called "{found.text}". {_offer(facts)}{_examples(facts)}'
    blocks: list[str] = []
    for manager, page in found.pages:
        noun = " ".join(manager_words(manager))
        named = name_field(manager)
        key = named.name if named else ""
        exact = [row for row in page.data if _text(row.get(key)).lower() == found.text.lower()]
        rows = page if not exact else Page(data=exact, total_count=len(exact))
        count = rows.total_count
        paths = [path for row in rows.data[:1] for path in _paths(row)]
        lines = _lines(rows, paths, (), manager)
        blocks.append(f"{count:,} {_counted(noun, count)}:\n{lines}")
    return f'This is on record for "{found.text}".\n' + "\n".join(blocks)


def _paths(row: JsonObject) -> list[tuple[str, ...]]:
    return [
        (key, *inner)
        for key, value in row.items()
        for inner in (_paths(value) if isinstance(value, dict) else [()])
    ]


# --- what can't be answered ---------------------------------------------------------------------


def _trouble(trouble: Trouble, facts: Facts) -> str:
    resolved, said = trouble.resolved, trouble.word
    noun = plural(resolved.noun) if resolved else "records"
    match trouble.kind:
        case "refused":
            return f"The data could not be read: {said}"
        case "unfinished":
            return "I could not finish looking this up in the steps I have. Please ask for less."
        case "exclusion":
            return (
                f"I can't leave out {noun} by a value; I list, filter and count.{_examples(facts)}"
            )
        case "calculation":
            return (
                f"I can't work out \"{said}\": I list, filter and count, but I don't calculate, "
                f"rank or group.{_examples(facts)}"
            )
        case "unclear" | "unknown":
            opening = (
                f'I don\'t see which field "{said}" belongs to.'
                if said
                else "I don't see which field that is."
            )
            return f"{opening} {_fields(resolved)}"
        case "unrelated":
            return f"There is no relation from {noun} to {said}. {_fields(resolved)}"
        case "lost":
            opening = (
                f'There is nothing called "{said}" here.'
                if said
                else "I did not understand the question."
            )
            return f"{opening} {_offer(facts)} {_WHO}{_examples(facts)}"


def _fields(resolved: Resolved | None) -> str:
    if resolved is None:
        return ""
    manager = resolved.subject
    names = [f.name for f in manager.fields] + [r.name for r in manager.relations]
    return f"{plural(resolved.noun).capitalize()} have {_listed(names)}." if names else ""


def _offer(facts: Facts) -> str:
    names = [plural(" ".join(manager_words(m))) for m in facts.managers.values()]
    return f"I can answer about {_listed(names)}." if names else "No data is open to you here."


def _examples(facts: Facts) -> str:
    """Suggest up to three questions that the managers on offer can answer."""
    managers = list(islice(facts.managers.values(), 3))
    forms = ("List all {0}", "How many {0} are there?", "Which {0} are there?")
    asked = [
        form.format(plural(" ".join(manager_words(m))))
        for form, m in zip(forms, managers, strict=False)
    ]
    related = next(((m, r) for m in managers for r in m.relations), None)
    if related:
        noun = plural(" ".join(manager_words(related[0])))
        asked[2:] = [f"Which {noun} have no {' '.join(related[1].name.split('_'))}?"]
    return (
        "".join(["\nYou could ask:", *(f"\n- {question}" for question in asked)]) if asked else ""
    )


def _listed(names: Sequence[str]) -> str:
    if len(names) < 2:
        return "".join(names)
    return ", ".join(names[:-1]) + " and " + names[-1]
