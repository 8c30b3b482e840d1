"""What a ``query`` asks for: its fields, order and numbers, checked against what a view offers.

All errors are ``ToolRetry``: they name the argument, and what is valid. Source: design.md 4.
"""

from dataclasses import dataclass

from schema.compile import Nested, Order, Selection
from schema.computed import Computed
from schema.errors import ToolRetry
from schema.events import Json, is_object
from schema.filters import MAX_HOPS
from schema.joins import Hops
from schema.managers import Link, Manager
from schema.names import echo, listed
from schema.sources import Column, Relation
from schema.views import View

NESTED_LIMIT = 20
"""Rows of a to-many list that does not say how many."""

MAX_NESTED = 200
_MAX_FIELDS = 200
_MAX_RELATIONS = 30
_MAX_ORDERS = 20
_MAX_DEPTH = 5
_MAX_WHOLE = 2**63 - 1


@dataclass(frozen=True, slots=True)
class QueryRequest:
    """One page to read, as the ``query`` tool and GraphQL ask for it; None means the default.

    ``fields`` mixes names with {"relation": [...]} or {"relation": {"fields": [...], "limit": 9}}.
    """

    manager: str
    fields: list[Json] | None = None
    filters: Json = None
    order_by: list[Json] | None = None
    limit: Json = None
    offset: Json = None


def whole(name: str, value: Json, least: int, default: int) -> int:
    """Check a number such as ``limit``; None gives ``default``."""
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= _MAX_WHOLE:
        raise ToolRetry(f"{name}: must be an integer of {least} or more.")
    return value


def sort(view: View, manager: Manager, order_by: list[Json] | None) -> tuple[Order, ...]:
    """Check ``order_by``: fields, also of to-one relations; ``-`` before a descending one."""
    orders: dict[str, Order] = {}
    for item in order_by or []:
        if not isinstance(item, str):
            raise ToolRetry('order_by: must be a list of field names, such as ["-price", "name"].')
        name = item.removeprefix("-")
        hops, column = _sort_column(view, manager, name)
        if column.type in ("json", "enum") or name in orders:
            why = f"holds {column.type}, which has no order"
            raise ToolRetry(f"order_by: {name} {'is given twice' if name in orders else why}.")
        orders[name] = Order(column, item.startswith("-"), hops)
    if len(orders) > _MAX_ORDERS:
        raise ToolRetry(f"order_by: at most {_MAX_ORDERS} fields can be given.")
    return tuple(orders.values())


def _sort_column(view: View, manager: Manager, name: str) -> tuple[Hops, Column]:
    """Walk a name such as ``material__name`` to its column."""
    hops: list[Relation] = []
    *path, last = name.split("__")
    for part in path:
        link = manager.links.get(part)
        if link is None:
            raise view.names[manager.model.model].unknown(f"order_by {echo(name)}", part)
        if link.relation.many:
            raise ToolRetry(f"order_by: {part} is a list, and has no one value to sort by.")
        hops.append(link.relation)
        if len(hops) > MAX_HOPS:
            raise ToolRetry(f"order_by: a path has at most {MAX_HOPS} relations.")
        manager = view.manager(link.target)
    column = manager.columns.get(last)
    if column is None:
        raise view.names[manager.model.model].unknown("order_by", last)
    return tuple(hops), column


def select(view: View, manager: Manager, fields: list[Json] | None) -> Selection:
    """Check ``fields``; None is every scalar field, and so is ``"*"`` at the top."""
    return _Selector(view).select(manager, fields, ())


class _Selector:
    """Checks one request's fields and counts what it asks for."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._fields = 0
        self._relations = 0

    def select(
        self, manager: Manager, fields: list[Json] | None, path: tuple[str, ...]
    ) -> Selection:
        """Check one level of the selection; ``path`` names the relations above it."""
        chosen: dict[str, Column | Computed | Nested] = {}
        if fields is None:
            chosen |= {**manager.columns, **manager.computed}
        elif not fields:
            raise ToolRetry(f"{_where(path)}: must name at least one field.")
        # Repeated names count too: the shape of a request is kept, so it must be small.
        self._count(len(fields or ()))
        for item in fields or ():
            match item:
                case "*" if not path:
                    chosen = {**manager.columns, **manager.computed, **chosen}
                case "*":
                    raise ToolRetry(
                        f"{_where(path)}: * is for the top level; name the fields here."
                    )
                case str():
                    chosen[item] = self._field(manager, item, path)
                case dict() if len(item) == 1:
                    [(name, asked)] = item.items()
                    if name in chosen:
                        raise ToolRetry(f"{_where(path)}: {name} is given twice.")
                    chosen[name] = self._nested(manager, name, asked, path)
                case _:
                    raise ToolRetry(f"{_where(path)}: {_SHAPE}")
        self._count(max(0, len(chosen) - len(fields or ())))
        return Selection(manager.model, tuple(chosen.values()))

    def _count(self, more: int) -> None:
        self._fields += more
        if self._fields > _MAX_FIELDS:
            raise ToolRetry(f"fields: at most {_MAX_FIELDS} fields can be asked for.")

    def _field(self, manager: Manager, name: str, path: tuple[str, ...]) -> Column | Computed:
        field = manager.columns.get(name) or manager.computed.get(name)
        if field is not None:
            return field
        if name in manager.links:
            target = self._target(manager.links[name])
            example = f'{{"{name}": ["{next(iter(target.columns))}"]}}'
            raise ToolRetry(
                f"{_where(path)}: {name} is a relation; ask for its fields as {example}."
                f" Fields of {target.name}: {listed(target.columns)}."
            )
        first, _, rest = name.replace(".", "__").partition("__")
        if first in manager.links and rest:
            raise ToolRetry(
                f"{_where(path)}: {echo(name)} is written as a path; fields of a relation are"
                f' asked for as {{"{first}": [...]}}.'
            )
        raise self._view.names[manager.model.model].unknown(_where(path), name)

    def _nested(self, manager: Manager, name: str, asked: Json, path: tuple[str, ...]) -> Nested:
        link = manager.links.get(name)
        if name in manager.fields:
            raise ToolRetry(f"{_where(path)}: {name} is a field; ask for it by its name alone.")
        if link is None:
            raise self._view.names[manager.model.model].unknown(_where(path), name)
        here = (*path, name)
        self._relations += 1
        if len(here) > _MAX_DEPTH or self._relations > _MAX_RELATIONS:
            raise ToolRetry(
                f"fields: at most {_MAX_RELATIONS} relations can be asked for, {_MAX_DEPTH} deep."
            )
        below, limit = _nested_request(asked, here)
        if limit is not None and not link.relation.many:
            raise ToolRetry(f"{_where(here)}: a limit is for lists, and {name} is one row.")
        count = min(whole(f"{_where(here)}.limit", limit, 1, NESTED_LIMIT), MAX_NESTED)
        return Nested(link.relation, self.select(self._target(link), below, here), count)

    def _target(self, link: Link) -> Manager:
        return self._view.manager(link.target)


_SHAPE = (
    "must list field names and relations, such as"
    ' ["name", {"parts": ["id"]}] or [{"parts": {"fields": ["id"], "limit": 5}}].'
)


def _nested_request(asked: Json, path: tuple[str, ...]) -> tuple[list[Json] | None, Json]:
    """The fields and the limit for a relation, which come as a list or as an object."""
    limit: Json = None
    if is_object(asked) and asked.keys() <= {"fields", "limit"}:
        limit, asked = asked.get("limit"), asked.get("fields")
        if asked is None:
            return None, limit
    if is_object(asked):
        more = next(name for name in asked if name not in ("fields", "limit"))
        raise ToolRetry(
            f"{_where(path)}: a nested relation takes fields and limit, and no {echo(more)}. To"
            " filter or sort these rows, query their own manager."
        )
    if not isinstance(asked, list):
        raise ToolRetry(f"{_where(path)}: {_SHAPE}")
    return asked, limit


def _where(path: tuple[str, ...]) -> str:
    """The argument an error is about."""
    return ".".join(("fields", *path))
