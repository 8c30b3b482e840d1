"""The filter language: ``{"price__gt": 3, "material__name__icontains": "alu"}``, all of it ANDed.

``parse`` checks names and gives conditions for the compiler; the values are taken separately, so
that filters of one shape are parsed once. All errors are ``ToolRetry`` and name what is valid in
the ``Names`` they were given, so a name outside of them is unknown, whatever the database has.
Source: design.md 4, data tools.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from rapidfuzz import fuzz, process
from sqlalchemy.engine import Dialect

from schema.compile import Comparison, Condition, Hops
from schema.errors import ToolRetry
from schema.events import Json, JsonObject
from schema.sources import Column, Relation
from schema.values import LOOKUPS, Coerce, Lookup, Refused, coercer

MAX_HOPS = 5
MAX_CONDITIONS = 50
MAX_LIST = 1_024
_MAX_ECHO = 80
_MAX_NAMES = 60


@dataclass(frozen=True, slots=True)
class Names:
    """What may be named on one model. ``title`` is what errors call it."""

    title: str
    columns: Mapping[str, Column]
    relations: Mapping[str, Relation]

    def unknown(self, what: str, name: str) -> ToolRetry:
        """Refuse a name that is not here, with the nearest one that is."""
        hint = nearest(name, (*self.columns, *self.relations))
        return ToolRetry(f"{what}: {self.title} has no {echo(name)}.{hint} {self.listing()}")

    def listing(self) -> str:
        """What can be named, in words."""
        fields = f"Fields: {listed(self.columns)}."
        return f"{fields} Relations: {listed(self.relations)}." if self.relations else fields


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


@dataclass(frozen=True, slots=True)
class _Take:
    key: str
    coerce: Coerce
    parameters: tuple[str, ...]
    is_list: bool

    def values(self, value: Json) -> list[object]:
        if value is None:
            base = self.key.removesuffix("__in")
            raise ToolRetry(f"Filter {self.key}: null is asked for with {base}__isnull: true.")
        try:
            if not self.is_list:
                return [self.coerce(value)]
            items = value if isinstance(value, list) else []
            taken = [self.coerce(item) for item in items]
        except Refused as error:
            hint = " For one of several values use __in." if isinstance(value, list) else ""
            raise ToolRetry(f"Filter {self.key}: the value {error}.{hint}") from None
        return taken + taken[-1:] * (len(self.parameters) - len(taken))


@dataclass(frozen=True, slots=True)
class Filter:
    """A parsed filter: its conditions, and how values of the same shape become parameters."""

    conditions: tuple[Condition, ...]
    takes: tuple[_Take, ...]

    def values(self, filters: JsonObject) -> dict[str, object]:
        """Take the values of ``filters``, which have the parsed shape. Raises: ToolRetry."""
        return {
            name: value
            for take in self.takes
            for name, value in zip(take.parameters, take.values(filters[take.key]), strict=True)
        }


def shape(filters: JsonObject) -> tuple[object, ...]:
    """What of ``filters`` decides about the SQL; hashable."""
    return tuple([(key, _kind(key, value)) for key, value in filters.items()])


def _kind(key: str, value: Json) -> object:
    if isinstance(value, list):
        return _rounded(len(value))
    return value if isinstance(value, bool) and key.endswith("isnull") else None


def _rounded(count: int) -> int:
    """Lists are filled up to a power of two by repeating a value, so that few shapes exist."""
    return 1 << (count - 1).bit_length() if count else 0


def parse(
    filters: JsonObject, model: type, scope: Scope, dialect: Dialect, prefix: str = "f"
) -> Filter:
    """Parse a filter on ``model``; parameters are named with ``prefix``. Raises: ToolRetry."""
    if len(filters) > MAX_CONDITIONS:
        raise ToolRetry(f"filters: at most {MAX_CONDITIONS} conditions can be given.")
    conditions: list[Condition] = []
    takes: list[_Take] = []
    for number, (key, value) in enumerate(filters.items()):
        hops, column, lookup = _resolve(key, model, scope)
        if lookup == "isnull":
            conditions.append(Condition(hops, column, _presence(key, value)))
            continue
        if column is None:
            field = next(iter(scope(hops[-1].target).columns))
            raise ToolRetry(
                f"Filter {key}: a relation is compared by its fields, such as {key}__{field},"
                f" or with {key}__isnull."
            )
        count = _list_length(key, value) if lookup == "in" else 1
        parameters = tuple(f"{prefix}{number}_{at}" for at in range(count))
        comparison: Comparison = lookup
        conditions.append(Condition(hops, column, comparison, parameters))
        takes.append(_Take(key, coercer(column, lookup, dialect), parameters, lookup == "in"))
    return Filter(tuple(conditions), tuple(takes))


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


def _resolve(key: str, model: type, scope: Scope) -> tuple[Hops, Column | None, Lookup]:
    """Walk a key such as ``material__name__icontains`` to its column and lookup."""
    names, hops = scope(model), list[Relation]()
    parts = key.split("__")
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
