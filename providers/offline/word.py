"""Stage four, word: the answer, made of what the tools returned and nothing else.

Values appear as they are in the data. Every answer repeats the filters it was read with, so that a
reader sees how the question was understood.
"""

from collections.abc import Iterable, Sequence

import orjson

from providers.offline.english import plural
from providers.offline.facts import Facts, Manager, Page
from providers.offline.frame import Problem
from providers.offline.match import Condition, manager_words, name_field
from providers.offline.probe import Missed
from providers.offline.resolve import SHOWN_ROWS, Resolved
from providers.offline.steps import (
    About,
    Found,
    LookedUp,
    NotThere,
    Outcome,
    Trouble,
    columns_of,
    hops,
    label,
)
from providers.offline.suggest import counted, examples, noun_of
from schema.events import Json, JsonObject

_MAX_VALUE = 300
_MAX_CELLS = 7
_MAX_OTHERS = 5
_WHO = "I am Frontdesk's embedded offline assistant: I work without a language model or a network."
_CAN = "I understand simple questions in English that list, filter or count what is on record."

_ABOUT = {
    "greeting": f"Hello. {_WHO} {_CAN}",
    "change": "I only read what is on record: I can't change data or carry anything out.",
    "foreign": f"I understand English only. {_CAN}",
    "follow": "I answer each question by itself, so please ask the whole question again.",
}

_COMPARED = {"gt": "over", "gte": "of at least", "lt": "under", "lte": "of at most"}
_IN_TIME = {"gt": "after", "gte": "from", "lt": "before", "lte": "up to"}


def word(outcome: Outcome, facts: Facts) -> str:
    """Put an outcome into words."""
    match outcome:
        case Found():
            return _found(outcome)
        case NotThere():
            return _not_there(outcome, facts)
        case LookedUp():
            return _looked_up(outcome, facts)
        case Trouble():
            return _trouble(outcome, facts)
        case About(kind="thanks"):
            return "You're welcome."
        case About(kind=kind):
            return f"{_ABOUT.get(kind, f'{_WHO} {_CAN}')}{examples(facts)}"


# --- rows ---------------------------------------------------------------------------------------


def _found(found: Found) -> str:
    resolved, total = found.resolved, found.page.total_count
    verb = "is" if total == 1 else "are"
    said = _described(found.conditions)
    noun = counted(resolved.noun, total)
    if not total:
        opening = "No, there are no" if resolved.intent == "exists" else "There are no"
        return f"{opening} {noun}{said}.{_taken(found)}{_notes(found)}"
    opening = "Yes, there" if resolved.intent == "exists" else "There"
    head = f"{opening} {verb} {total:,} {noun}{said}"
    if resolved.intent == "count":
        return f"{head.removesuffix('.')}.{_notes(found)}"
    asked = {".".join(path) for path in (*resolved.shown, *(c.path for c in found.conditions))}
    columns = columns_of(resolved, found.conditions)
    lines = _lines(found.page, columns, asked, resolved.subject)
    return f"{head}:\n{lines}" + (f"\n{notes.strip()}" if (notes := _notes(found)) else "")


def _taken(found: Found) -> str:
    """Tell which values a part of a name was taken for, since they may not be meant."""
    return "".join(f' I took "{text}" for {value}.' for text, value in found.taken)


def _notes(found: Found) -> str:
    """Tell of values that have the one asked for as a part, and were left out."""
    if not found.others:
        return ""
    places = dict.fromkeys(place for place, _ in found.others)
    values = [value for _, value in found.others]
    shown = [f'"{value}"' for value in values[:_MAX_OTHERS]]
    if len(values) > _MAX_OTHERS:
        shown.append(f"{len(values) - _MAX_OTHERS} more")
    return f" Not counted in, though alike in {_listed([*places])}: {_listed(shown)}."


def _lines(
    page: Page, columns: Sequence[tuple[str, ...]], asked: Iterable[str], manager: Manager
) -> str:
    asked = set(asked)
    rows = page.data[:SHOWN_ROWS]
    telling = [
        path
        for number, path in enumerate(columns)
        if number == 0 or ".".join(path) in asked or len(rows) < 2 or _varies(rows, path)
    ]
    telling = telling[: max(_MAX_CELLS, len(asked) + 1)]
    lines = [_line(row, telling, asked, manager) for row in rows]
    if page.total_count > len(lines):
        lines.append(f"… and {page.total_count - len(lines):,} more.")
    return "\n".join(lines)


def _varies(rows: Sequence[JsonObject], path: Sequence[str]) -> bool:
    return len({_text(_value_at(row, path)) for row in rows}) > 1


def _line(
    row: JsonObject, columns: Sequence[tuple[str, ...]], asked: set[str], manager: Manager
) -> str:
    cells: list[tuple[str, str]] = []
    for path in columns:
        value = _value_at(row, path)
        text = _text(value)
        if text or ".".join(path) in asked:
            cells.append((label(path), text or "not set"))
    if not cells:
        return "- " + ", ".join(f"{k} {_text(v)}" for k, v in row.items())
    (first, head), rest = cells[0], cells[1:]
    named = name_field(manager)
    is_key = len(columns[0]) == 1 and not head.lstrip("-").isdigit()
    is_plain = is_key or (named is not None and columns[0] == (named.name,))
    details = ", ".join(f"{name} {text}" for name, text in rest)
    return f"- {head if is_plain else f'{first} {head}'}" + (f": {details}" if details else "")


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
            return _cut(orjson.dumps(value).decode())
        case _:
            return _cut(" ".join(str(value).splitlines()))


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_VALUE else text[:_MAX_VALUE] + "…"


# --- filters in words ---------------------------------------------------------------------------


def _described(conditions: Sequence[Condition]) -> str:
    """Say the filters: " with origin JFK and dest LAX and without dep_time"."""
    parts: list[str] = []
    for condition in conditions:
        part = _phrase(condition)
        if parts and part.startswith("with ") and parts[-1].startswith(("with ", "and ")):
            part = part.removeprefix("with ")
        parts.append(part if not parts else f"and {part}")
    return "".join(f" {part}" for part in parts)


def _phrase(condition: Condition) -> str:
    names, named = hops(condition.path), label(condition.path)
    said = condition.said or _text(condition.value)
    if condition.lookup == "isnull":
        return f"without {named}" if condition.value else f"with {named}"
    contains = condition.lookup == "icontains"
    if contains or condition.lookup in {"", "in"}:
        value = f'"{said}"' if contains else said
        contains = contains or said.startswith('"')
        value = value.removesuffix(" in it")
        if len(names) > 1 and len(condition.path) > 2:
            verb = "contains" if contains else "is"
            return f"with {names[0]} whose {' '.join(names[1:])} {verb} {value}"
        return f"with {named} {'containing ' if contains else ''}{value}"
    words = _IN_TIME if condition.in_time else _COMPARED
    return f"with {named} {words[condition.lookup]} {said}"


# --- no rows ------------------------------------------------------------------------------------


def _not_there(outcome: NotThere, facts: Facts) -> str:
    missed, resolved = outcome.missed, outcome.resolved
    named = {(f.name,) for f in [name_field(resolved.subject)] if f}
    places = [
        f"{resolved.noun} {label(p.path)}" if p.path in named else label(p.path)
        for p in missed.looked
    ]
    found = f'I found no "{missed.said}" in {_listed([*dict.fromkeys(places)])}'
    said = f"No, {found}." if resolved.intent == "exists" else f"{found}, so I can't answer that."
    return f"{said}{_hint(missed, resolved)}{examples(facts, resolved)}"


def _hint(missed: Missed, resolved: Resolved) -> str:
    """Say what was close, or which words a field of choices knows."""
    if missed.similar:
        close = [f'"{value}"' for value in missed.similar]
        return f" Did you mean {_listed(close, 'or')}?"
    choosy = next((f for f in resolved.subject.fields if f.choices), None)
    if choosy and missed.said.islower():
        return f" The {choosy.name} of {plural(resolved.noun)} is {_listed(choosy.choices, 'or')}."
    return ""


def _looked_up(found: LookedUp, facts: Facts) -> str:
    if not found.pages:
        return (
            f'I found no row whose name has "{found.text}" in it. {_offer(facts)}{examples(facts)}'
        )
    blocks: list[str] = []
    for manager, page in found.pages:
        noun = counted(" ".join(manager_words(manager)), page.total_count)
        paths = [path for row in page.data[:1] for path in _paths(row)]
        asked = {".".join(path) for path in paths}
        blocks.append(f"{page.total_count:,} {noun}:\n{_lines(page, paths, asked, manager)}")
    opening = f'This is on record for "{found.text}".'
    if found.is_yes_or_no:
        opening = f"I don't judge by yes or no. {opening}"
    elif found.unread:
        opening = f'I did not understand "{found.unread}". {opening}'
    return f"{opening}\n" + "\n".join(blocks)


def _paths(row: JsonObject) -> list[tuple[str, ...]]:
    return [
        (key, *inner)
        for key, value in row.items()
        for inner in (_paths(value) if isinstance(value, dict) else [()])
    ]


# --- what can't be answered ---------------------------------------------------------------------


def _trouble(trouble: Trouble, facts: Facts) -> str:
    problem, resolved = trouble.problem, trouble.resolved
    noun = counted(resolved.noun, 2) if resolved else "records"
    if problem.kind == "lost":
        opening = (
            f'There is nothing called "{problem.word}" here.'
            if problem.word
            else "I did not understand the question."
        )
        return f"{opening} {_offer(facts)} {_WHO}{examples(facts)}"
    fields = _fields(resolved) if problem.kind in {"unclear", "unknown", "unrelated"} else ""
    return f"{_why(problem, noun)}{fields}{examples(facts, resolved)}"


def _why(problem: Problem, noun: str) -> str:
    """Say why a question can't be answered, with the word at fault."""
    said, options = problem.word, problem.options
    place = f', for I can\'t tell what "{said}" is' if said else ""
    reasons = {
        "refused": "The data could not be read just now.",
        "unfinished": (
            f"I could not finish looking this up{place}: it takes more look-ups than one answer "
            "may make. Please ask with fewer conditions, or say what a value is."
        ),
        "exclusion": f'I can\'t leave out {noun} by a value ("{said}"); I list, filter and count.',
        "calculation": (
            f"I can't work out \"{said}\": I list, filter and count, but I don't calculate, "
            "rank or group."
        ),
        "unread": f'I did not understand "{said}" here, so I don\'t answer rather than guess.',
        "or": (
            f'I can\'t join conditions by "{said}": all conditions hold together, and only values '
            "of one field may be alternatives."
        ),
        "both": (
            f'I can\'t ask for several related rows at once ("{said}"): conditions on related '
            'rows hold for one and the same row. Ask for each by itself, or with "or".'
        ),
        "which": f'"{said}" may mean {_listed(options, "or")}. Please say which.',
        "zero": f'"{said}" may mean that {"".join(options)} is 0 or that it is not set. '
        f'Please say "{"".join(options)} equal to 0" or "unknown {"".join(options)}".',
        "unit": f'I can\'t take "{said}" for {options[0] if options else "it"}'
        f"{f': {options[1]}' if options[1:] and options[1] else ', whose unit I do not know.'}",
        "unfit": f'"{said}" does not fit {options[0] if options else "the field"}'
        + (f", which is {_listed(options[1:], 'or')}." if options[1:] else "."),
        "date": f'I see no way to look for "{said}" in {noun} as a date.',
        "unclear": f'I don\'t see which field "{said}" belongs to.',
        "unknown": f'I don\'t see which field "{said}" belongs to.',
        "unrelated": f"There is no relation from {noun} to {said}.",
    }
    return reasons[problem.kind]


def _fields(resolved: Resolved | None) -> str:
    if resolved is None:
        return ""
    manager = resolved.subject
    names = [f.name for f in manager.fields] + [r.name for r in manager.relations]
    return f" {counted(resolved.noun, 2).capitalize()} have {_listed(names)}." if names else ""


def _offer(facts: Facts) -> str:
    names = [noun_of(m) for m in facts.managers.values()]
    return f"I can answer about {_listed(names)}." if names else "No data is open to you here."


def _listed(names: Sequence[str], link: str = "and") -> str:
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} {link} {names[-1]}"
