"""Questions to suggest: they concern what was asked for, and they can be answered."""

from collections.abc import Iterator
from itertools import islice

from providers.offline.english import plural
from providers.offline.facts import SUGGESTED, Facts, Field, Manager
from providers.offline.match import foreign_keys, is_quantity, manager_words, unit_of
from providers.offline.steps import Resolved

_SHOWN = 3


def examples(facts: Facts, resolved: Resolved | None = None) -> str:
    """Suggest up to three questions about the manager asked for, or about those on offer."""
    if resolved and resolved.subject.primary_key:
        asked = list(islice(_about(resolved.subject), _SHOWN))
    else:
        asked = _in_general(list(facts.managers.values()))
    return SUGGESTED + "\n- ".join(asked) if asked else ""


def noun_of(manager: Manager) -> str:
    """Return what the rows of a manager are called in plural: "parts", "weather records"."""
    return counted(" ".join(manager_words(manager)), 2)


def counted(noun: str, count: int) -> str:
    """Return a noun for a number of rows; "26,115 weather records"."""
    many = plural(noun)
    if many == noun and not noun.endswith("s"):
        noun, many = f"{noun} record", f"{noun} records"
    return noun if count == 1 else many


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
