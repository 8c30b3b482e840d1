"""The filter language: ``{"price__gt": 3, "material__name__icontains": "alu"}``, all of it ANDed.

``and`` and ``or`` combine lists of filters, ``not`` turns one round; they nest.

``parse`` checks names and gives conditions for the compiler; the values are taken separately, so
that filters of one shape are parsed once. All errors are ``ToolRetry`` and name what is valid in
the ``Names`` they were given, so a name outside of them is unknown, whatever the database has.
Source: design.md 4, data tools.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, tzinfo
from functools import partial

from rapidfuzz import fuzz, process
from sqlalchemy.engine import Dialect

from schema.clauses import Clause, Comparison, Condition, Hops, Junction
from schema.errors import ToolRetry
from schema.events import Json, JsonObject
from schema.sources import Column, Relation
from schema.values import LOOKUPS, Coerce, Lookup, Refused, coercer

MAX_HOPS = 5
MAX_CONDITIONS = 50
MAX_LIST = 1_024
_MAX_VALUES = 2 * MAX_LIST
"""Parameters that the lists of one filter may take: up to two for each of their values."""
MAX_DEPTH = 5
_MAX_ECHO = 80
_MAX_NAMES = 60


@dataclass(frozen=True, slots=True)
class Names:
    """What may be named on one model. ``title`` is what errors call it.

    ``computed`` are names that can only be shown.
    """

    title: str
    columns: Mapping[str, Column]
    relations: Mapping[str, Relation]
    computed: Collection[str] = ()

    def unknown(self, what: str, name: str) -> ToolRetry:
        """Refuse a name that is not here, with the nearest one that is."""
        if name in self.computed:
            use = _USES.get(what.split()[0], "filtered by")
            return ToolRetry(f"{self.title}.{name} is computed: it can be shown, but not {use}.")
        hint = nearest(name, (*self.columns, *self.relations, *self.computed))
        return ToolRetry(f"{what}: {self.title} has no {echo(name)}.{hint} {self.listing()}")

    def listing(self) -> str:
        """What can be named, in words."""
        fields = f"Fields: {listed(self.columns)}."
        if self.computed:
            fields += f" Computed, only to be shown: {listed(self.computed)}."
        return f"{fields} Relations: {listed(self.relations)}." if self.relations else fields


_USES = {"order_by": "sorted by", "group_by": "grouped by", "measures": "aggregated"}
"""What is refused, by the argument that an error begins with."""

Scope = Callable[[type], Names]
"""Gives the names of any model that a path may reach."""


def echo(text: str) -> str:
    """Quote what was asked for, short and on one line."""
    cut = text if len(text) <= _MAX_ECHO else text[:_MAX_ECHO] + "…"
    return repr(cut)


def nearest(name: str, names: Iterable[str]) -> str:
    """A sentence that offers the closest of ``names``; "" when none is close."""
    near = process.extractOne(name, list(names), scorer=fuzz.ratio, score_cutoff=60)
    return f" Did you mean {near[0]}?" if near else ""


def listed(names: Iterable[str]) -> str:
    """Names in a sentence; a very long list is cut."""
    all_names = list(names)
    shown = ", ".join(all_names[:_MAX_NAMES])
    return (
        shown if len(all_names) <= _MAX_NAMES else f"{shown} and {len(all_names) - _MAX_NAMES} more"
    )


_Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class _Take:
    """Where a value stands in a filter, and what becomes of it."""

    path: _Path
    coerce: Coerce
    parameters: tuple[str, ...]
    lookup: Lookup

    def values(self, filters: JsonObject) -> list[object]:
        key, value = str(self.path[-1]), _at(filters, self.path)
        if value is None:
            base = key.removesuffix(f"__{self.lookup}")
            raise ToolRetry(f"Filter {key}: null is asked for with {base}__isnull: true.")
        try:
            if self.lookup != "in":
                return [self.coerce(value)]
            items = value if isinstance(value, list) else []
            taken = [self.coerce(item) for item in items]
        except Refused as error:
            hint = " For one of several values use __in." if isinstance(value, list) else ""
            raise ToolRetry(f"Filter {key}: the value {error}.{hint}") from None
        return taken + taken[-1:] * (len(self.parameters) - len(taken))


def _at(filters: Json, path: _Path) -> Json:
    for step in path:
        match filters, step:
            case dict(), str():
                filters = filters[step]
            case list(), int():
                filters = filters[step]
            case _:
                raise TypeError("The filter does not have the parsed shape.")
    return filters


@dataclass(frozen=True, slots=True)
class Filter:
    """A parsed filter: its conditions, and how values of the same shape become parameters."""

    conditions: tuple[Clause, ...]
    takes: tuple[_Take, ...]

    def values(self, filters: JsonObject) -> dict[str, object]:
        """Take the values of ``filters``, which have the parsed shape. Raises: ToolRetry."""
        return {
            name: value
            for take in self.takes
            for name, value in zip(take.parameters, take.values(filters), strict=True)
        }


def shape(filters: JsonObject) -> tuple[object, ...]:
    """What of ``filters`` decides about the SQL; hashable. Raises: ToolRetry when nested deeply."""
    return _shape(filters, MAX_DEPTH)


def _shape(filters: JsonObject, depth: int) -> tuple[object, ...]:
    if depth < 0:
        raise ToolRetry(f"filters: and, or and not can be nested {MAX_DEPTH} deep.")
    return tuple([(key, _kind(key, value, depth)) for key, value in filters.items()])


def _kind(key: str, value: Json, depth: int) -> object:
    match value:
        case list() if key in ("and", "or"):
            below = depth - 1
            return tuple([_shape(v, below) if isinstance(v, dict) else None for v in value])
        case dict() if key == "not":
            return _shape(value, depth - 1)
        case list():
            return _rounded(len(value))
        case bool() if key.endswith("isnull"):
            # As a text: True is equal to the length of a list of one.
            return str(value)
        case _:
            return None


def _rounded(count: int) -> int:
    """Lists are filled up to a power of two by repeating a value, so that few shapes exist."""
    return 1 << (count - 1).bit_length() if count else 0


def parse(
    filters: JsonObject,
    model: type,
    scope: Scope,
    dialect: Dialect,
    prefix: str = "f",
    zone: tzinfo = UTC,
) -> Filter:
    """Parse a filter on ``model``, of a known ``shape``; parameters are named with ``prefix``.

    Moments without a zone are in ``zone``. Raises: ToolRetry.
    """
    parser = _Parser(model, scope, partial(coercer, dialect=dialect, zone=zone), prefix)
    clauses = parser.clauses(filters, ())
    return Filter(clauses, tuple(parser.takes))


class _Parser:
    """Parses one filter and numbers its conditions."""

    def __init__(
        self, model: type, scope: Scope, coercer: Callable[[Column, Lookup], Coerce], prefix: str
    ) -> None:
        self._model, self._scope, self._coercer = model, scope, coercer
        self._prefix = prefix
        self._count = self._values = 0
        self.takes: list[_Take] = []

    def clauses(self, filters: JsonObject, path: _Path) -> tuple[Clause, ...]:
        """Parse the filter at ``path``: what must hold, all of it."""
        if len(filters) > MAX_CONDITIONS:
            raise _too_many()
        found: list[Clause] = []
        for key, value in filters.items():
            match key:
                case "and":
                    found += self._each(key, value, path)
                case "or":
                    found.append(Junction("any", tuple(self._each(key, value, path))))
                case "not":
                    if not isinstance(value, dict):
                        raise ToolRetry('Filter not: must be a filter, such as {"price__gt": 3}.')
                    found.append(Junction("not", self.clauses(value, (*path, key))))
                case _:
                    found.append(self._condition(key, value, path))
        return tuple(found)

    def _each(self, key: str, value: Json, path: _Path) -> list[Junction]:
        found: list[Junction] = []
        for at, item in enumerate(value if isinstance(value, list) else [value]):
            if not isinstance(value, list) or not isinstance(item, dict):
                raise ToolRetry(
                    f'Filter {key}: must be a list of filters, such as [{{"price__gt": 3}}].'
                )
            found.append(Junction("all", self.clauses(item, (*path, key, at))))
            self._add_one()
        return found

    def _add_one(self) -> int:
        self._count += 1
        if self._count > MAX_CONDITIONS:
            raise _too_many()
        return self._count - 1

    def _condition(self, key: str, value: Json, path: _Path) -> Condition:
        number = self._add_one()
        hops, column, lookup = resolve(key, self._model, self._scope)
        if lookup == "isnull":
            return Condition(hops, column, _presence(key, value))
        if column is None:
            field = next(iter(self._scope(hops[-1].target).columns))
            raise ToolRetry(
                f"Filter {key}: a relation is compared by its fields, such as {key}__{field},"
                f" or with {key}__isnull."
            )
        count = 1
        if lookup == "in":
            count = _list_length(key, value)
            self._values += count
            if self._values > _MAX_VALUES:
                raise ToolRetry(f"filters: the lists may hold {MAX_LIST} values in all.")
        parameters = tuple(f"{self._prefix}{number}_{at}" for at in range(count))
        coerce = self._coercer(column, lookup)
        self.takes.append(_Take((*path, key), coerce, parameters, lookup))
        return Condition(hops, column, lookup, parameters)


def _too_many() -> ToolRetry:
    return ToolRetry(f"filters: at most {MAX_CONDITIONS} conditions can be given.")


def _presence(key: str, value: Json) -> Comparison:
    if not isinstance(value, bool):
        raise ToolRetry(f"Filter {key}: the value must be true or false.")
    return "missing" if value else "present"


def _list_length(key: str, value: Json) -> int:
    if not isinstance(value, list):
        raise ToolRetry(f"Filter {key}: the value must be a list, such as [1, 2].")
    if len(value) > MAX_LIST:
        raise ToolRetry(f"Filter {key}: a list may hold at most {MAX_LIST} values.")
    return _rounded(len(value))


def resolve(key: str, model: type, scope: Scope) -> tuple[Hops, Column | None, Lookup]:
    """Walk a key such as ``material__name__icontains`` to its column and lookup.

    The column of a key that ends at a relation is None. Raises: ToolRetry.
    """
    names, hops = scope(model), list[Relation]()
    parts = _parts(key, names.columns)
    for at, part in enumerate(parts):
        if part in names.relations:
            hops.append(names.relations[part])
            if len(hops) > MAX_HOPS:
                raise ToolRetry(f"Filter {echo(key)}: a path has at most {MAX_HOPS} relations.")
            names = scope(hops[-1].target)
            continue
        if part in names.columns:
            column = names.columns[part]
            return tuple(hops), column, _lookup(key, column, parts[at + 1 :])
        if part == "isnull" and hops and at == len(parts) - 1:
            return tuple(hops), None, "isnull"
        raise names.unknown(f"Unknown filter {echo(key)}", part)
    return tuple(hops), None, "exact"


def _parts(key: str, columns: Iterable[str]) -> list[str]:
    """Split a key, but not the name of a column that has ``__`` in itself."""
    for name in columns:
        if "__" in name and f"{key}__".startswith(f"{name}__"):
            rest = key[len(name) + 2 :]
            return [name, *rest.split("__")] if rest else [name]
    return key.split("__")


def _lookup(key: str, column: Column, rest: list[str]) -> Lookup:
    offered = LOOKUPS[column.type]
    if not rest and column.type != "json":
        return "exact"
    for lookup in offered:
        if rest == [lookup]:
            return lookup
    asked = f"has no lookup {echo('__'.join(rest))}" if rest else "can't be compared"
    raise ToolRetry(
        f"Unknown filter {echo(key)}: the {column.type} field {column.name} {asked}."
        f" Its lookups: {', '.join(f'{column.name}__{name}' for name in offered)}."
    )
