"""The filter language: ``{"price__gt": 3, "material__name__icontains": "alu"}``, all of it ANDed.

``and`` and ``or`` combine lists of filters, ``not`` turns one round; they nest.

``parse`` checks names and gives conditions for the compiler; the values are taken separately, each
as its column takes it, so that filters of one shape are parsed once. All errors are ``ToolRetry``
and name what is valid in the ``Names`` they were given, so a name outside of them is unknown,
whatever the database has.
Source: design.md 4, data tools.
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, tzinfo
from decimal import Decimal
from enum import Enum
from functools import partial
from typing import Literal, TypeVar
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.engine import Dialect

from schema.errors import ToolRetry
from schema.events import Json, JsonObject
from schema.joins import ESCAPE, TEXT, Clause, Comparison, Condition, Hops, Junction, TextLookup
from schema.names import Scope, echo
from schema.sources import Column, Relation, ValueType, bare_type, choice, choices
from schema.values import UNFIT

Lookup = Literal["exact", "ne", "in", "gt", "gte", "lt", "lte", "isnull"] | TextLookup

MAX_HOPS = 5
MAX_CONDITIONS = 50
MAX_LIST = 1_024
_MAX_VALUES = 2 * MAX_LIST
"""Parameters that the lists of one filter may take: up to two for each of their values."""
_MAX_DEPTH = 5

_CHOICE: tuple[Lookup, ...] = ("ne", "in", "isnull")
_RANGE: tuple[Lookup, ...] = ("ne", "in", "gt", "gte", "lt", "lte", "isnull")
LOOKUPS: Mapping[ValueType, tuple[Lookup, ...]] = {
    "string": (*_RANGE[:-1], *TEXT, "isnull"),
    "integer": _RANGE,
    "number": _RANGE,
    "decimal": _RANGE,
    "boolean": _CHOICE,
    "date": _RANGE,
    "time": _RANGE,
    "datetime": _RANGE,
    "uuid": _CHOICE,
    "enum": _CHOICE,
    "json": ("isnull",),
}
"""The lookups a field offers as ``field__lookup``; ``field`` alone is equality, save for json."""

_Coerce = Callable[[object], object]
_Path = tuple[str | int, ...]
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class _Take:
    """Where a value stands in a filter, and what becomes of it."""

    path: _Path
    coerce: _Coerce
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
    return _shape(filters, _MAX_DEPTH)


def _shape(filters: JsonObject, depth: int) -> tuple[object, ...]:
    if depth < 0:
        raise ToolRetry(f"filters: and, or and not can be nested {_MAX_DEPTH} deep.")
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
    parser = _Parser(model, scope, partial(_coercer, dialect=dialect, zone=zone), prefix)
    clauses = parser.clauses(filters, ())
    return Filter(clauses, tuple(parser.takes))


class _Parser:
    """Parses one filter and numbers its conditions."""

    def __init__(
        self, model: type, scope: Scope, coercer: Callable[[Column, Lookup], _Coerce], prefix: str
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
            field = next(iter(self._scope[hops[-1].target].columns))
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
    names, hops = scope[model], list[Relation]()
    parts = _parts(key, names.columns)
    for at, part in enumerate(parts):
        if part in names.relations:
            hops.append(names.relations[part])
            if len(hops) > MAX_HOPS:
                raise ToolRetry(f"Filter {echo(key)}: a path has at most {MAX_HOPS} relations.")
            names = scope[hops[-1].target]
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


# --- values ---------------------------------------------------------------------------------------

_INT64 = range(-(2**63), 2**63)
_INTEGER_TEXT = re.compile(r"[+-]?[0-9]{1,19}")
_NUMBER_TEXT = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?")
_MAX_TEXT = 10_000
_MAX_PART = 1_000
_MAX_EXPONENT = 330


class Refused(ValueError):
    """A filter's value does not fit its column; the text says what would."""


def _coercer(column: Column, lookup: Lookup, dialect: Dialect, zone: tzinfo) -> _Coerce:
    """Make the function that turns one filter value into the driver's value for ``column``.

    It raises ``Refused`` unless nothing is lost; ``in`` takes the values of its list one by one.
    Values come as JSON, or as Python has them when a project's code made the filter. A moment
    without a zone is in ``zone``.
    """
    if lookup == "icontains":
        # PostgreSQL takes the case out of both texts by itself.
        fold = str.casefold if dialect.name == "sqlite" else str
        return lambda value: f"%{_escape(fold(_take_text(value, _MAX_PART)))}%"
    if lookup in TEXT:
        return lambda value: _take_text(value, _MAX_PART)
    take = taker(column, zone)
    stored = column.column.type
    bind = stored.dialect_impl(dialect).bind_processor(dialect)
    drop_zone = column.type == "datetime" and not _keeps_zone(bare_type(stored))

    def coerce(value: object) -> object:
        taken = take(value)
        if drop_zone and isinstance(taken, datetime):
            taken = taken.replace(tzinfo=None)
        try:
            return taken if bind is None else bind(taken)
        except UNFIT:
            # The column's own type may take less than its kind of value; it says so by raising.
            raise Refused("does not fit the field") from None

    return coerce


def taker(column: Column, zone: tzinfo) -> _Coerce:
    """The function that turns one filter value into a Python value. Raises: Refused, as it does."""
    match column.type:
        case "enum":
            return _take_choice(column)
        case "datetime":
            return lambda value: _take_datetime(value, zone)
        case _:
            return _TAKE[column.type]


def _keeps_zone(stored: object) -> bool:
    return isinstance(stored, sa.DateTime) and stored.timezone


def _escape(text: str) -> str:
    """Make ``%`` and ``_`` literal for LIKE."""
    for special in (ESCAPE, "%", "_"):
        text = text.replace(special, ESCAPE + special)
    return text


def _take_text(value: object, longest: int = _MAX_TEXT) -> str:
    if not isinstance(value, str):
        raise Refused("must be a text")
    if len(value) > longest:
        raise Refused(f"must be at most {longest} characters")
    if "\0" in value:
        raise Refused("must not hold NUL characters")
    if not value.isascii() and any("\ud800" <= c <= "\udfff" for c in value):
        raise Refused("must be valid Unicode")
    return value


def _take_integer(value: object) -> int:
    match value:
        case bool():
            raise Refused("must be an integer")
        case int():
            number = value
        case float() if value.is_integer():
            number = int(value)
        case str() if _INTEGER_TEXT.fullmatch(value):
            number = int(value)
        case _:
            raise Refused("must be an integer that fits in 64 bits")
    if number not in _INT64:
        raise Refused("must be an integer that fits in 64 bits")
    return number


def _take_decimal(value: object) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, int | float | str | Decimal):
        raise Refused("must be a number")
    if isinstance(value, str):
        if len(value) > _MAX_EXPONENT:
            raise Refused("must be a number of sensible length")
        # Decimal itself reads more: other scripts' digits, underscores, NaN.
        if not _NUMBER_TEXT.fullmatch(value.strip()):
            raise Refused("must be a number")
    number = Decimal(str(value) if isinstance(value, float) else value)
    if not number.is_finite():
        raise Refused("must be a finite number")
    if abs(number.adjusted()) > _MAX_EXPONENT:
        raise Refused("must be a number of sensible size")
    return number


def _take_number(value: object) -> float:
    number = float(_take_decimal(value))
    if not math.isfinite(number):
        raise Refused("must be a number of sensible size")
    return number


def _take_boolean(value: object) -> bool:
    match value:
        case bool():
            return value
        case "true" | "false":
            return value == "true"
        case _:
            raise Refused("must be true or false")


def _take_datetime(value: object, zone: tzinfo) -> datetime:
    moment = _parse(
        datetime, datetime.fromisoformat, value, "a date and time, 2024-05-31T14:00:00Z"
    )
    try:
        return (moment.replace(tzinfo=zone) if moment.tzinfo is None else moment).astimezone(UTC)
    except OverflowError:
        raise Refused("must be a date and time between the years 1 and 9999") from None


def _take_date(value: object) -> date:
    if isinstance(value, datetime):
        raise Refused("must be a date without time")
    return _parse(date, date.fromisoformat, value, "a date such as 2024-05-31")


def _take_time(value: object) -> time:
    moment = _parse(time, time.fromisoformat, value, "a time such as 14:00:00")
    if moment.tzinfo is not None:
        raise Refused("must be a time without zone")
    return moment


def _take_uuid(value: object) -> UUID:
    return _parse(UUID, UUID, value, "a UUID")


def _parse(kind: type[_T], read: Callable[[str], _T], value: object, what: str) -> _T:
    if isinstance(value, kind):
        return value
    try:
        if isinstance(value, str):
            return read(value)
    except ValueError:
        pass
    raise Refused(f"must be {what}")


def _take_choice(column: Column) -> _Coerce:
    stored = bare_type(column.column.type)
    members = choices(stored) if isinstance(stored, sa.Enum) else {}
    shown = ", ".join(column.choices[:20])

    def take(value: object) -> object:
        if isinstance(value, Enum):
            value = choice(value)
        if not isinstance(value, str) or value not in members:
            raise Refused(f"must be one of {shown}")
        return members[value]

    return take


_TAKE: Mapping[ValueType, _Coerce] = {
    "string": _take_text,
    "integer": _take_integer,
    "number": _take_number,
    "decimal": _take_decimal,
    "boolean": _take_boolean,
    "date": _take_date,
    "time": _take_time,
    "uuid": _take_uuid,
}
"""An enum is taken by its own members, a moment with a zone, and json is compared with nothing."""
