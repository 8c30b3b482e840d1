"""Stage four, word: the answer, made of what the tools returned and nothing else.

Values appear as they are in the data. Every answer repeats the filters it was read with, so that a
reader sees how the question was understood.
"""

from collections.abc import Iterable

from providers.offline.asked import Figures, Rank
from providers.offline.english import plural, same, split_name
from providers.offline.facts import Facts
from providers.offline.frame import Problem
from providers.offline.match import best_field, is_code_field, manager_words, name_field
from providers.offline.phrases import (
    counted,
    described,
    examples,
    list_rows,
    listed,
    notes_on,
    noun_of,
    sentence,
    some,
)
from providers.offline.probe import Missed
from providers.offline.resolve import Resolved
from providers.offline.steps import (
    About,
    Found,
    LookedUp,
    NotThere,
    Outcome,
    Trouble,
    columns_of,
    label,
)
from providers.offline.sums import sums
from schema.events import JsonObject

_WHO = "I am Frontdesk's embedded offline assistant: I work without a language model or a network."
_CAN = (
    "I understand simple questions in English that list, filter, count, add up, average, compare, "
    "group or rank what is on record."
)

_ABOUT = {
    "greeting": f"Hello. {_WHO} {_CAN}",
    "change": "I only read what is on record: I can't change data or carry anything out.",
    "foreign": f"I understand English only. {_CAN}",
    "several": "I answer one question at a time. Please ask them one after the other.",
    "follow": "I see no earlier question that this leans on, so please ask the whole question.",
}


def word(outcome: Outcome, facts: Facts) -> str:
    """Put an outcome into words."""
    match outcome:
        case Found() if outcome.taken and outcome.is_nothing:
            return _found_by_part(outcome, facts)
        case Found(resolved=Resolved(asked=Figures() | Rank() as asked)):
            return sums(outcome, asked)
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
    said = described(found.conditions)
    noun = counted(resolved.noun, total)
    if not total:
        opening = "No, there are no" if resolved.intent == "exists" else "There are no"
        return f"{sentence(f'{opening} {noun}{said}')}{notes_on(found)}"
    opening = "Yes, there" if resolved.intent == "exists" else "There"
    head = f"{opening} {verb} {total:,} {noun}{said}"
    if resolved.skipped:
        head = f"{head}; these follow the first {resolved.skipped:,}"
    if resolved.intent == "count":
        return f"{sentence(head)}{notes_on(found)}"
    # What all rows have by the filter is said in the head.
    open_to = [c.path for c in found.conditions if c.lookup]
    asked = {".".join(path) for path in (*resolved.shown, *open_to)}
    columns = columns_of(resolved, found.conditions)
    lines = list_rows(found.page, columns, asked, resolved.subject, skipped=resolved.skipped)
    return f"{head}:\n{lines}" + (f"\n{notes.strip()}" if (notes := notes_on(found)) else "")


# --- no rows ------------------------------------------------------------------------------------


def _found_by_part(found: Found, facts: Facts) -> str:
    """Refuse where nothing fits values that only contain what was said: others may be meant."""
    none = sentence(f"That gives no {counted(found.resolved.noun, 2)}{described(found.conditions)}")
    codes = _codes((taken.owner for taken in found.taken), facts)
    way_out = (
        "What you mean may go by another name here, so I don't take that for an answer. "
        f"Please give {listed(['its full name', *codes], 'or')}."
    )
    return f"{notes_on(found).strip()} {none} {way_out}{examples(facts, found.resolved)}"


def _codes(owners: Iterable[str], facts: Facts) -> list[str]:
    """Name the codes by which the rows of managers may be known."""
    known = [m for name in dict.fromkeys(owners) if (m := facts.managers.get(name))]
    codes = [f"its {f.name}" for m in known for f in m.fields if is_code_field(f, m)]
    return list(dict.fromkeys(codes))


def _not_there(outcome: NotThere, facts: Facts) -> str:
    missed, resolved = outcome.missed, outcome.resolved
    named = {(f.name,) for f in [name_field(resolved.subject)] if f}
    places = [
        f"{resolved.noun} {label(p.path)}" if p.path in named else label(p.path)
        for p in missed.looked
    ]
    found = f'I found no "{missed.said}" in {listed([*dict.fromkeys(places)])}'
    said = f"No, {found}." if resolved.intent == "exists" else f"{found}, so I can't answer that."
    return f"{said}{_hint(missed, resolved, facts)}{examples(facts, resolved)}"


def _hint(missed: Missed, resolved: Resolved, facts: Facts) -> str:
    """Say what was close, which words a field of choices knows, or what else to ask by."""
    if missed.similar:
        close = [f'"{value}"' for value in missed.similar]
        return f" Did you mean {listed(close, 'or')}?"
    choosy = next((f for f in resolved.subject.fields if f.choices), None)
    if choosy and missed.said.islower():
        return f" The {choosy.name} of {plural(resolved.noun)} is {listed(choosy.choices, 'or')}."
    # Only where rows of one kind were looked for by name: what is meant may be none of several.
    owners = {place.owner for place in missed.looked}
    is_name = all(place.is_name for place in missed.looked)
    codes = _codes(owners, facts) if is_name and len(owners) == 1 else []
    return f" If it goes by another name here, please give {listed(codes, 'or')}." if codes else ""


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
        blocks.append(f"{page.total_count:,} {noun}:\n{list_rows(page, paths, asked, manager)}")
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
        return f"{_lost(problem.word, facts)} {_offer(facts)} {_WHO}{examples(facts)}"
    is_of_field = problem.kind in {"unclear", "unrelated", "measure", "unmeasured", "ungrouped"}
    fields = _fields(resolved) if resolved and is_of_field else ""
    return f"{_why(problem, noun)}{fields}{examples(facts, resolved)}"


def _lost(said: str, facts: Facts) -> str:
    """Say that a word names no rows, and what has it in its name."""
    words = split_name(said)
    if not words:
        return "I did not understand the question."
    managers = facts.managers.values()
    kinds = [noun_of(m) for m in managers if same(words[-1], manager_words(m)[-1])]
    if kinds:
        return f'By "{said}" you may mean {some(kinds, "or")}. Please ask for them by that name.'
    held = [f"{noun_of(m)} have {f.name}" for m in managers if (f := best_field(words, m, 2))]
    if held:
        return f'I can\'t tell whose "{said}" you mean: {some(held)}. Please name those rows.'
    return f'I found no kind of record and no field called "{said}".'


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
        "exclusion": f'I can\'t leave out {noun} by a value ("{said}").',
        "calculation": (
            f'I can\'t work out "{said}" here, as it is put: I count, add up, average, rank, sort '
            "and group by what a field holds."
        ),
        "measure": f'I don\'t see which field "{said}" is about.',
        "unmeasured": f'I can\'t reckon with "{said}": I see no field of numbers there.',
        "ungrouped": f"I don't see what to group {noun} by"
        + (f': I know no "{said}".' if said else "."),
        "many": f'I can\'t group {noun} by "{said}": each may have several, or none that I see.',
        "rows": f'I can\'t tell which {noun} "{said}" are, so please ask the whole question.',
        "gone": "I can't tell what was asked before, so please ask the whole question.",
        "more": "That was all.",
        "compare": "I can compare by two or more values of one field only.",
        "unread": f'I did not understand "{said}" here, so I don\'t answer rather than guess.',
        "or": (
            f'I can\'t join conditions by "{said}": all conditions hold together, and only values '
            "of one field may be alternatives."
        ),
        "both": (
            f'I can\'t ask for several related rows at once ("{said}"): conditions on related '
            'rows hold for one and the same row. Ask for each by itself, or with "or".'
        ),
        "which": f'"{said}" may mean {listed(options, "or")}. Please say which.',
        "zero": f'"{said}" may mean that {"".join(options)} is 0 or that it is not set. '
        f'Please say "{"".join(options)} equal to 0" or "unknown {"".join(options)}".',
        "unit": f'I can\'t take "{said}" for {options[0] if options else "it"}'
        f"{f': {options[1]}' if options[1:] and options[1] else ', whose unit I do not know.'}",
        "unfit": f'"{said}" does not fit {options[0] if options else "the field"}'
        + (f", which is {listed(options[1:], 'or')}." if options[1:] else "."),
        "date": f'I see no way to look for "{said}" in {noun} as a date.',
        "unclear": f'I don\'t see which field "{said}" belongs to.',
        "unrelated": f"There is no relation from {noun} to {said}.",
    }
    return reasons[problem.kind]


def _fields(resolved: Resolved) -> str:
    manager = resolved.subject
    names = [f.name for f in manager.fields] + [r.name for r in manager.relations]
    return f" {counted(resolved.noun, 2).capitalize()} have {listed(names)}." if names else ""


def _offer(facts: Facts) -> str:
    names = [noun_of(m) for m in facts.managers.values()]
    return f"I can answer about {listed(names)}." if names else "No data is open to you here."
