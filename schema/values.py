"""Values on their way in and out: what a filter may hold, and what a row shows.

On the wire integers beyond JavaScript's exact range are texts, decimals are plain texts at the
column's scale, times are ISO 8601 with zone (a time stored without one is UTC), and NUL is shown as
U+2400. What has no wire form, such as an infinity, is ``Unfit`` and shown as null with a note.
Source: design.md 4, values.
"""

import math
import re
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time, tzinfo
from decimal import Context, Decimal
from enum import Enum
from typing import Literal, TypeVar, cast
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.engine import Dialect

from schema.events import Json
from schema.sources import Column, ValueType, bare_type, choice, choices

TextLookup = Literal["contains", "icontains", "startswith", "endswith"]
Lookup = Literal["exact", "ne", "in", "gt", "gte", "lt", "lte", "isnull"] | TextLookup

_CHOICE: tuple[Lookup, ...] = ("ne", "in", "isnull")
_RANGE: tuple[Lookup, ...] = ("ne", "in", "gt", "gte", "lt", "lte", "isnull")
TEXT: tuple[TextLookup, ...] = ("contains", "icontains", "startswith", "endswith")
"""The lookups that look at parts of a text; all but icontains tell capitals from small letters."""
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

ESCAPE = "/"
"""The escape character for LIKE: unlike a backslash, it is one in every text of SQL."""

_T = TypeVar("_T")
Decode = Callable[[object], Json]
Coerce = Callable[[object], object]

_EXACT = 2**53 - 1
_INT64 = range(-(2**63), 2**63)
_INTEGER_TEXT = re.compile(r"[+-]?[0-9]{1,19}")
_NUMBER_TEXT = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?")
_MAX_TEXT = 10_000
_MAX_PART = 1_000
_MAX_EXPONENT = 330
_MAX_DEPTH = 100
"""Lists and objects of a stored JSON value within each other; clients give up soon after."""
_WIDE = Context(prec=1_000)
"""Room for the digits of any number that a database computes with."""


class Unfit(ValueError):
    """A stored value has no form on the wire."""


UNFIT = (ValueError, TypeError, ArithmeticError, LookupError, AttributeError, RecursionError)
"""What a column's own type raises, on the way in or out, about a value that it does not take."""


class Refused(ValueError):
    """A filter's value does not fit its column; the text says what would."""


# --- out ------------------------------------------------------------------------------------------


def decoder(column: Column, dialect: Dialect) -> Decode:
    """Make the function that turns the driver's value of ``column`` into its wire form."""
    stored = column.column.type
    process = _processor(column, dialect)
    show = _show_decimal(bare_type(stored)) if column.type == "decimal" else _SHOW[column.type]
    if process is None:
        return show
    # Both are bound here: the pair runs once for every cell of a page.
    read, write = process, show
    return lambda value: None if value is None else write(read(value))


def reader(column: Column, dialect: Dialect) -> Callable[[object], object]:
    """Make the function that turns the driver's value of ``column`` into what an ORM gives."""
    process = _processor(column, dialect)
    return lambda value: value if process is None or value is None else process(value)


def shower(kind: ValueType) -> Decode:
    """The function that gives the wire form of a Python value of a kind, decimals as they are."""
    return _show_decimal(sa.Numeric(scale=0)) if kind == "decimal" else _SHOW[kind]


def _processor(column: Column, dialect: Dialect) -> Callable[[object], object] | None:
    stored = column.column.type.dialect_impl(dialect)
    if dialect.name == "sqlite" and column.type == "decimal" and isinstance(stored, sa.Numeric):
        return _decimal_reader(stored.scale)
    if dialect.name == "postgresql" and isinstance(stored, sa.CHAR):
        return _unpadded
    return stored.result_processor(dialect, _OIDS.get(column.type))


def _unpadded(value: object) -> object:
    """PostgreSQL fills a CHAR with blanks, which mean nothing to it."""
    return value.rstrip(" ") if isinstance(value, str) else value


def _decimal_reader(scale: int | None) -> Callable[[object], Decimal]:
    """Make the function that reads what SQLite has in place of a decimal, mostly a float.

    SQLAlchemy's own writes out all of the binary fraction, so that 0.1 is 0.100000000000000006.
    """
    last_place = None if scale is None else Decimal(1).scaleb(-scale)

    def read(value: object) -> Decimal:
        number = Decimal(str(value))
        return number if last_place is None else number.quantize(last_place, context=_WIDE)

    return read


_OIDS: Mapping[ValueType, int] = {"decimal": 1700, "number": 701}
"""The numbers of PostgreSQL for ``numeric`` and ``float8``: its types ask what the driver gives."""


def _show_text(value: object) -> Json:
    if value is None:
        return None
    if not isinstance(value, str):
        raise Unfit
    if not value.isascii():
        value.encode()  # JSON and types of the project's own may hold half of a surrogate pair.
    return value.replace("\0", "␀") if "\0" in value else value


def _show_integer(value: object) -> Json:
    if value is None:
        return None
    if not isinstance(value, int):
        raise Unfit
    return value if -_EXACT <= value <= _EXACT else str(value)


def _show_number(value: object) -> Json:
    if value is None:
        return None
    number = float(value) if isinstance(value, float | int | Decimal) else math.nan
    if not math.isfinite(number):
        raise Unfit
    return number


def _show_decimal(stored: object) -> Decode:
    scaled = isinstance(stored, sa.Numeric) and stored.scale is not None

    def show(value: object) -> Json:
        if value is None:
            return None
        number = value if isinstance(value, Decimal) else Decimal(str(value))
        if not number.is_finite():
            raise Unfit
        text = format(number, "f")
        # A column without a scale is read back with zeros that nobody stored.
        return text if scaled or "." not in text else text.rstrip("0").rstrip(".")

    return show


def _show_boolean(value: object) -> Json:
    return None if value is None else bool(value)


def _show_datetime(value: object) -> Json:
    if value is None:
        return None
    if not isinstance(value, datetime):
        raise Unfit
    return (value.replace(tzinfo=UTC) if value.tzinfo is None else value).isoformat()


def _show_day_or_time(value: object) -> Json:
    if value is None:
        return None
    if not isinstance(value, date | time):
        raise Unfit
    return value.isoformat()


def _show_choice(value: object) -> Json:
    return None if value is None else choice(value)


def _show_uuid(value: object) -> Json:
    return None if value is None else str(value)


def _show_json(value: object, depth: int = _MAX_DEPTH) -> Json:
    match value:
        case None | bool():
            return value
        case str():
            return _show_text(value)
        case int():
            return _show_integer(value)
        case float():
            return value if math.isfinite(value) else None
        case list() if depth:
            # isinstance leaves a container's type parameters unknown.
            return [_show_json(item, depth - 1) for item in cast("list[object]", value)]
        case dict() if depth:
            members = cast("dict[object, object]", value)  # as above
            return {str(_show_text(str(k))): _show_json(v, depth - 1) for k, v in members.items()}
        case _:
            raise Unfit


_SHOW: Mapping[ValueType, Decode] = {
    "string": _show_text,
    "integer": _show_integer,
    "number": _show_number,
    "boolean": _show_boolean,
    "date": _show_day_or_time,
    "time": _show_day_or_time,
    "datetime": _show_datetime,
    "uuid": _show_uuid,
    "enum": _show_choice,
    "json": _show_json,
}


# --- in -------------------------------------------------------------------------------------------


def coercer(column: Column, lookup: Lookup, dialect: Dialect, zone: tzinfo = UTC) -> Coerce:
    """Make the function that turns one filter value into the driver's value for ``column``.

    A moment without a zone is in ``zone``.

    It raises ``Refused`` unless nothing is lost; ``in`` takes the values of its list one by one.
    Values come as JSON, or as Python has them when a project's code made the filter.
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


def taker(column: Column, zone: tzinfo = UTC) -> Coerce:
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


def _take_choice(column: Column) -> Coerce:
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


_TAKE: Mapping[ValueType, Coerce] = {
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
