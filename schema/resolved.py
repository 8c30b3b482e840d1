"""Pages of the managers whose rows a project's own function gives: checked, asked for, and shown.

Source: design.md 4, data tools; design.md 5.
"""

from collections.abc import Mapping, Sequence
from datetime import tzinfo
from typing import cast

from schema.computed import NotComputed, note_null
from schema.errors import ToolRetry, guarded
from schema.events import Json, JsonObject
from schema.filters import MAX_LIST, Refused, taker
from schema.managers import Manager
from schema.names import echo, listed, nearest
from schema.request import QueryRequest, select, sort
from schema.resolver import Filter, Page, Resolver
from schema.rows import Rows
from schema.sources import Column
from schema.views import View


async def read_resolved(
    resolver: Resolver, request: QueryRequest, view: View, limit: int, offset: int
) -> Rows:
    """Read one page of the manager of a resolver. Raises: ToolError, and nothing else."""
    manager = view.manager(request.manager)
    asked = select(view, manager, request.fields).fields
    fields = [field.name for field in asked if isinstance(field, Column)]
    given: Mapping[str, object] = {
        "actor": view.actor,
        "limit": limit,
        "offset": offset,
        "order_by": _order(resolver, request, view, manager),
        "fields": fields,
    }
    filters = _filters(resolver, request.filters, manager, view.zone)
    arguments = {**filters, **{name: given[name] for name in resolver.takes}}
    with guarded(f"page of {manager.name}"):
        found = await resolver.page(**arguments)
        page = _page(found, resolver, manager, limit, offset)
    rows = Rows(total=page.total_count)
    for row in page.rows:
        rows.data.append(await _shown(row, resolver, fields, rows.notes))
    return rows


def refuse_sums(manager: Manager) -> None:
    """Refuse to aggregate what only gives pages. Raises: ToolRetry."""
    if manager.resolver is not None:
        raise ToolRetry(
            f"manager: {manager.name} gives rows and no aggregates. Read its rows with query; its"
            " total_count counts them."
        )


def _order(resolver: Resolver, request: QueryRequest, view: View, manager: Manager) -> list[str]:
    if request.order_by and not resolver.can_sort:
        raise ToolRetry(f"order_by: {manager.name} can't be sorted; leave order_by out.")
    orders = sort(view, manager, request.order_by)
    return [f"-{o.column.name}" if o.descending else o.column.name for o in orders]


# --- filters --------------------------------------------------------------------------------------


def _filters(
    resolver: Resolver, filters: Json, manager: Manager, zone: tzinfo
) -> Mapping[str, object]:
    """The values of filters that the actor may use, as Python has them."""
    if filters is None:
        return {}
    if not isinstance(filters, dict):
        raise ToolRetry("filters: must be an object.")
    offered = resolver.offered(manager.columns)
    values: dict[str, object] = {}
    for key, value in filters.items():
        known = offered.get(key)
        if known is None:
            raise _unknown(key, manager, offered)
        values[key] = _taken(key, value, known, zone)
    return values


def _unknown(key: str, manager: Manager, offered: Mapping[str, Filter]) -> ToolRetry:
    listing = f"Its filters: {listed(offered)}." if offered else "It takes no filters."
    if key in ("and", "or", "not"):
        return ToolRetry(
            f"Filter {key}: filters of {manager.name} can't be combined; all that are given must"
            f" hold. {listing}"
        )
    return ToolRetry(
        f"Unknown filter {echo(key)}: {manager.name} does not take it.{nearest(key, offered)}"
        f" {listing}"
    )


def _taken(key: str, value: Json, known: Filter, zone: tzinfo) -> object:
    if value is None:
        raise ToolRetry(f"Filter {key}: the value must not be null; leave the filter out.")
    if known.is_list and not isinstance(value, list):
        raise ToolRetry(f"Filter {key}: the value must be a list.")
    if isinstance(value, list) and len(value) > MAX_LIST:
        raise ToolRetry(f"Filter {key}: a list may hold at most {MAX_LIST} values.")
    take = taker(known.column, zone)
    try:
        if known.is_list and isinstance(value, list):
            return [take(item) for item in value]
        return take(value)
    except Refused as error:
        raise ToolRetry(f"Filter {key}: the value {error}.") from None


# --- rows -----------------------------------------------------------------------------------------


def _page(
    found: object, resolver: Resolver, manager: Manager, limit: int, offset: int
) -> Page[object]:
    """What a page function has given, cut to what was asked for. Raises: TypeError."""
    if isinstance(found, Page):
        if not resolver.takes >= {"limit", "offset"}:
            raise TypeError("a Page was given by a function that does not take limit and offset")
        # isinstance leaves the type of the rows unknown.
        page = cast("Page[object]", found)
        rows, total = page.rows[:limit], page.total_count
    elif isinstance(found, list):
        every = cast("list[object]", found)  # as above
        rows, total = every[offset : offset + limit], len(every)
    else:
        raise TypeError(f"a {type(found).__name__} was given, not a Page or a list")
    for row in rows:
        if not isinstance(row, manager.model.model | Mapping):
            raise TypeError(f"a row is a {type(row).__name__}, not a {manager.name} or a mapping")
    return Page(rows, total)


async def _shown(
    row: object, resolver: Resolver, fields: Sequence[str], notes: set[str]
) -> JsonObject:
    shown: JsonObject = {}
    for name in fields:
        try:
            shown[name] = await resolver.attributes[name].show(row)
        except NotComputed as error:
            shown[name] = None
            note_null(name, error, notes)
    return shown
