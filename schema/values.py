"""Values on their way out: what a row shows of what is stored.

On the wire integers beyond JavaScript's exact range are texts, decimals are plain texts at the
column's scale, times are ISO 8601 with zone (a time stored without one is UTC), and NUL is shown as
U+2400. What has no wire form, such as an infinity, is ``Unfit`` and shown as null with a note.
Source: design.md 4, values.
"""

import math
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import cast

import sqlalchemy as sa
from sqlalchemy.engine import Dialect

from schema.events import Json
from schema.sources import WIDE, Column, ValueType, bare_type, choice

Decode = Callable[[object], Json]

_EXACT = 2**53 - 1
_MAX_DEPTH = 100
"""Lists and objects of a stored JSON value within each other; clients give up soon after."""


class Unfit(ValueError):
    """A stored value has no form on the wire."""


UNFIT = (ValueError, TypeError, ArithmeticError, LookupError, AttributeError, RecursionError)
"""What a column's own type raises, on the way in or out, about a value that it does not take."""


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
        return number if last_place is None else number.quantize(last_place, context=WIDE)

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
