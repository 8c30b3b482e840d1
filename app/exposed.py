"""What is exposed, and what one actor sees of it, as tables for a terminal and as JSON."""

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from schema.events import Json, JsonObject
from schema.filters import LOOKUPS
from schema.index import SchemaIndex
from schema.joins import NEVER
from schema.managers import Manager
from schema.views import View


def exposed_table(index: SchemaIndex) -> Table:
    """Show all that is exposed to anybody, a line for each manager."""
    table = Table("Manager", "Fields", "Relations", "Limits", title="Exposed")
    for manager in index.managers.values():
        relations = [f"{name} -> {link.target}" for name, link in manager.links.items()]
        fields, limits = ", ".join(manager.fields), ", ".join(_limits(manager))
        table.add_row(manager.name, fields, ", ".join(relations), limits)
    return table


def exposed_json(index: SchemaIndex) -> list[Json]:
    """Give all that is exposed to anybody, each manager as tools describe it, with its limits."""
    return [
        {**_described(index, manager), "limits": [*_limits(manager)]}
        for manager in index.managers.values()
    ]


def seen_tables(view: View) -> RenderableType:
    """Show what an actor sees: a table for each manager."""
    actor = view.actor
    who = f"The {actor.kind} {actor.subject}" if actor.is_signed_in else "A visitor"
    head = Text(f"{who} sees managers: {len(view.managers)}.\n")
    return Group(head, *(_seen(manager, view) for manager in view.managers.values()))


def seen_json(view: View) -> list[Json]:
    """Give what an actor sees, each manager as tools describe it to a model.

    ``rows`` says which there may be: ``all``, ``some``, ``none``, or what its ``function`` gives.
    ``filter_count`` is the number of conditions on its own fields.
    """
    return [
        {
            **_described(view.index, manager),
            "filter_count": _filter_count(manager),
            "rows": _rows(manager, view),
        }
        for manager in view.managers.values()
    ]


def _described(index: SchemaIndex, manager: Manager) -> JsonObject:
    described = index.describe(manager.name)
    return {key: value for key, value in described.items() if key != "found"}


def _seen(manager: Manager, view: View) -> RenderableType:
    head = Text(manager.name, style="bold")
    if manager.description:
        head.append(f"  {manager.description}", style="not bold")
    table = Table("Field", "Type", "Description", caption_justify="left")
    table.caption = f"Rows: {_rows(manager, view)}. Filters: {_filter_count(manager)}."
    for name, column in manager.fields.items():
        kind = f"{column.type}: {', '.join(column.choices)}" if column.choices else column.type
        table.add_row(*map(Text, (name, kind, column.description)))
    for name, link in manager.links.items():
        many = " (many)" if link.relation.many else ""
        table.add_row(*map(Text, (name, f"-> {link.target}{many}", link.relation.description)))
    return Group(head, table, "")


def _rows(manager: Manager, view: View) -> str:
    limits = view.visible.get(manager.model.model, ())
    if NEVER in limits:
        return "none"
    if manager.resolver is not None:
        return "function"
    return "some" if limits else "all"


def _filter_count(manager: Manager) -> int:
    if manager.resolver is not None:
        return len(manager.resolver.offered(manager.columns))
    lookups = [LOOKUPS[column.type] for column in manager.columns.values()]
    # Equality is named by no lookup; JSON has none.
    return sum(len(names) + (names != LOOKUPS["json"]) for names in lookups)


def _limits(manager: Manager) -> Iterator[str]:
    """Say what keeps some actors from seeing all of a manager, and what nobody sees."""
    if manager.readers is not None:
        yield "readers"
    if manager.tenant:
        yield f"tenant {manager.tenant}"
    if manager.visible is not None:
        yield "visible"
    if manager.hides:
        yield f"hidden from some: {' '.join(manager.hides)}"
    if manager.left_out:
        yield f"left out, without a form in JSON: {' '.join(sorted(manager.left_out))}"
