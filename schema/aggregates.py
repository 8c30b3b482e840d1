"""What an ``aggregate`` asks for: groups, measures and order, checked against what a view offers.

All errors are ``ToolRetry``: they name the argument, and what is valid. Source: design.md 4.
"""

from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import tzinfo
from typing import get_args

from sqlalchemy.engine import Dialect
from typing_extensions import TypeIs

from schema.errors import ToolRetry
from schema.events import Json, JsonObject, is_object
from schema.exact import Part
from schema.filters import MAX_HOPS, Filter, parse
from schema.joins import Hops
from schema.managers import Manager
from schema.measures import Aggregation, Group, Measure, Op, is_reckoned
from schema.names import Names, echo, listed, nearest
from schema.sources import Column, Relation, ValueType
from schema.views import View

_MAX_GROUPS = 10
_MAX_MEASURES = 20
_MAX_KEY = 80

_OPS: tuple[Op, ...] = get_args(Op)
_DATE_PARTS: tuple[Part, ...] = ("year", "quarter", "month", "week", "day")
_PARTS: Mapping[ValueType, tuple[Part, ...]] = {
    "datetime": (*_DATE_PARTS, "hour"),
    "date": _DATE_PARTS,
    "time": ("hour",),
}
_NUMBERS: tuple[ValueType, ...] = ("integer", "number", "decimal")
_ORDERED: tuple[ValueType, ...] = (*_NUMBERS, "string", "date", "time", "datetime")
_MEASURED: Mapping[Op, tuple[ValueType, ...]] = {
    "count": get_args(ValueType),
    "sum": _NUMBERS,
    "avg": _NUMBERS,
    "min": _ORDERED,
    "max": _ORDERED,
    "count_distinct": tuple(kind for kind in get_args(ValueType) if kind != "json"),
}
"""The types of fields that each measure takes."""

_COMBINE = ("and", "or", "not")
_SHAPE = (
    'must be a list of objects, such as [{"op": "count"}, {"op": "avg", "field": "price"}], with'
    f" op ({', '.join(_OPS)}), field, and as for a key of your own."
)


@dataclass(frozen=True, slots=True)
class AggregateRequest:
    """Groups to read, as the ``aggregate`` tool asks for them; None means the default.

    ``group_by`` has paths to fields, with a part of a date or time after them; ``measures`` are
    like {"op": "avg", "field": "price", "as": "mean"}.
    """

    manager: str
    filters: Json = None
    group_by: list[Json] | None = None
    measures: list[Json] | None = None
    having: Json = None
    order_by: list[Json] | None = None
    limit: Json = None
    offset: Json = None


def check(
    request: AggregateRequest, manager: Manager, view: View, *, is_exact: bool
) -> Aggregation:
    """Check all of a request but its filters and numbers. Raises: ToolRetry."""
    paths = _Paths(manager, view)
    groups = _groups(request.group_by or [], paths)
    measures = _measures(request.measures or [{"op": "count"}], paths)
    keys = [item.key for item in (*groups, *measures)]
    for key in keys:
        if keys.count(key) > 1:
            raise ToolRetry(
                f"measures: the result has {echo(key)} twice; name the measure with as, another"
                " than group_by and the other measures."
            )
    order = _order(request.order_by or [], keys)
    return Aggregation(manager.model, groups, measures, order, is_exact)


def parse_having(having: JsonObject, asked: Aggregation, dialect: Dialect, zone: tzinfo) -> Filter:
    """Parse conditions on the measures, in the language of filters. Raises: ToolRetry."""
    columns = asked.columns(dialect)
    names = Names("the list of measures", {m.key: columns[m.key] for m in asked.measures}, {})
    with about_having():
        return parse(having, asked.model.model, {asked.model.model: names}, dialect, "h", zone)


@contextmanager
def about_having() -> Generator[None]:
    """Say of refusals of a filter that it is ``having``."""
    try:
        yield
    except ToolRetry as error:
        raise ToolRetry(f"having: {error}") from None


# --- groups ---------------------------------------------------------------------------------------


def _groups(asked: list[Json], paths: "_Paths") -> tuple[Group, ...]:
    if len(asked) > _MAX_GROUPS:
        raise ToolRetry(f"group_by: at most {_MAX_GROUPS} keys can be given.")
    groups: dict[str, Group] = {}
    for text in asked:
        if not isinstance(text, str):
            raise ToolRetry(
                'group_by: must be a list of fields, such as ["city", "material__name"] or'
                ' ["made_at__month"].'
            )
        if text in groups:
            raise ToolRetry(f"group_by: {echo(text)} is given twice.")
        groups[text] = _group(text, paths)
    return tuple(groups.values())


def _group(text: str, paths: "_Paths") -> Group:
    hops, column, rest = paths.find("group_by", text)
    if column.type == "json":
        raise ToolRetry(f"group_by: {column.name} holds json, which has no groups.")
    if not rest:
        return Group(text, hops, column)
    offered = _PARTS.get(column.type, ())
    for part in offered:
        if rest == [part]:
            return Group(text, hops, column, part)
    parts = ", ".join(f"{column.name}__{part}" for part in offered)
    raise ToolRetry(
        f"group_by: the {column.type} field {column.name} has no part {echo('__'.join(rest))}. "
        + (f"Its parts: {parts}." if parts else "Only dates and times have parts.")
    )


# --- measures -------------------------------------------------------------------------------------


def _measures(asked: list[Json], paths: "_Paths") -> tuple[Measure, ...]:
    if len(asked) > _MAX_MEASURES:
        raise ToolRetry(f"measures: at most {_MAX_MEASURES} measures can be given.")
    return tuple(_measure(item, paths) for item in asked)


def _measure(item: Json, paths: "_Paths") -> Measure:
    if not is_object(item):
        raise ToolRetry(f"measures: {_SHAPE}")
    for name in item:
        if name not in ("op", "field", "as"):
            raise ToolRetry(f"measures: {echo(name)} is unknown; it {_SHAPE}")
    op, field, key = item.get("op"), item.get("field"), item.get("as")
    if not _is_op(op):
        hint = nearest(op, _OPS) if isinstance(op, str) else ""
        raise ToolRetry(f"measures: op must be one of {', '.join(_OPS)}.{hint}")
    if key is not None:
        _check_key(key)
    if field is None and op == "count":
        return Measure(str(key or "count"), op)
    if not isinstance(field, str):
        raise ToolRetry(f"measures: {op} needs a field. {paths.suitable(_MEASURED[op])}")
    return Measure(str(key or f"{op}_{field}"), op, *_measured(op, field, paths))


def _measured(op: Op, field: str, paths: "_Paths") -> tuple[Hops, Column]:
    hops, column, rest = paths.find("measures", field)
    if rest:
        raise ToolRetry(
            f"measures: {echo(field)} goes on after the field {column.name}; parts of dates and"
            " times are for group_by, and conditions for filters and having."
        )
    if column.type not in _MEASURED[op]:
        raise ToolRetry(
            f"measures: {op} does not take the {column.type} field {column.name}."
            f" {paths.suitable(_MEASURED[op])}"
        )
    if op in ("sum", "avg") and not is_reckoned(column):
        raise ToolRetry(f"measures: {column.name} is stored in a form that has no {op}.")
    return hops, column


def _is_op(op: Json) -> TypeIs[Op]:
    return op in _OPS


def _check_key(key: Json) -> None:
    is_name = isinstance(key, str) and key.isidentifier() and "__" not in key
    if not is_name or len(str(key)) > _MAX_KEY or key in _COMBINE:
        raise ToolRetry(
            "measures: as must be a name of letters, digits and single underscores, such as"
            f" mean_price, and none of {', '.join(_COMBINE)}."
        )


def _order(asked: list[Json], keys: list[str]) -> tuple[tuple[str, bool], ...]:
    order: dict[str, bool] = {}
    for item in asked:
        if not isinstance(item, str):
            raise ToolRetry('order_by: must be a list of keys of the result, such as ["-count"].')
        key = item.removeprefix("-")
        if key not in keys:
            hint = nearest(key, keys)
            raise ToolRetry(
                f"order_by: the result has no {echo(key)}.{hint} Its keys: {listed(keys)}."
            )
        if key in order:
            raise ToolRetry(f"order_by: {key} is given twice.")
        order[key] = item.startswith("-")
    return tuple(order.items())


# --- paths ----------------------------------------------------------------------------------------


class _Paths:
    """Walks paths from one manager to fields, over relations to one row."""

    def __init__(self, manager: Manager, view: View) -> None:
        self._manager, self._view = manager, view

    def find(self, argument: str, text: str) -> tuple[Hops, Column, list[str]]:
        """The column that a path leads to, and what of the path comes after it."""
        names, hops = self._view.names[self._manager.model.model], list[Relation]()
        rest = text.split("__")
        while rest and rest[0] in names.relations:
            relation = names.relations[rest.pop(0)]
            names = self._view.names[relation.target]
            if relation.many:
                raise self._many(argument, text, relation, names)
            hops.append(relation)
            if len(hops) > MAX_HOPS:
                raise ToolRetry(f"{argument}: a path has at most {MAX_HOPS} relations.")
        if not rest:
            raise ToolRetry(
                f"{argument}: {echo(text)} is a relation; name a field of {names.title}, as in"
                f" {text}__{next(iter(names.columns))}. {names.listing()}"
            )
        column = names.columns.get(rest[0])
        if column is None:
            raise names.unknown(f"{argument} {echo(text)}", rest[0])
        return tuple(hops), column, rest[1:]

    def _many(self, argument: str, text: str, relation: Relation, names: Names) -> ToolRetry:
        back = [
            name
            for name, other in names.relations.items()
            if other.target is self._manager.model.model and not other.many
        ]
        way = f", and reach {self._manager.name} by {back[0]}" if back else ""
        return ToolRetry(
            f"{argument}: {echo(text)} leads over {relation.name}, a list of {names.title}."
            f" Aggregate {names.title} instead{way}."
        )

    def suitable(self, kinds: Iterable[ValueType]) -> str:
        """Name the manager's own fields of some types, in a sentence."""
        columns = self._view.names[self._manager.model.model].columns
        fields = [name for name, column in columns.items() if column.type in kinds]
        if not fields:
            return f"{self._manager.name} has no field for it."
        return f"Fields for it: {listed(fields)}."
