"""What SQLite can't compute by itself: exact sums and averages, and moments in a zone.

``provide`` gives these functions to a connection; statements call them by name.
Source: design.md 4, values; design.md 5, decimal sums.
"""

import sqlite3
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time
from decimal import ROUND_HALF_EVEN, Context, Decimal
from functools import lru_cache
from typing import Literal
from zoneinfo import ZoneInfo

SUM = "frontdesk_sum"
"""The aggregate of (value, scale): the sum of the values at a decimal scale, as a text."""
MEAN = "frontdesk_mean"
"""The aggregate of (value, scale): their average at ``MEAN_DIGITS`` more digits, as a text."""
RATIO = "frontdesk_ratio"
"""The function of (sum, count) of integers: their quotient, the nearest floating-point number."""
PART = "frontdesk_part"
"""The function of (value, part, zone): a part of a stored date or time as an integer.

A moment is told in the zone; with null for a zone the value is a date, or a time for its hour.
"""
UTC_TEXT = "frontdesk_utc"
"""The function of (value, zone): a stored date and time without an offset as one in UTC."""

MEAN_DIGITS = 6

Part = Literal["year", "quarter", "month", "week", "day", "hour"]

Stored = str | bytes | int | float | None

_PARTS: Mapping[str, Callable[[date], int]] = {
    "year": lambda day: day.year,
    "quarter": lambda day: (day.month + 2) // 3,
    "month": lambda day: day.month,
    "week": lambda day: day.isocalendar().week,
    "day": lambda day: day.day,
}

_NOT_FINITE = "Infinity"
_MAX_EXPONENT = 400
_WIDE = Context(prec=2 * _MAX_EXPONENT)
_MOMENTS = 10_000
"""Times whose parts a connection remembers: rows of one time are many."""


def provide(driver: sqlite3.Connection) -> None:
    """Give a connection the functions."""
    # The types of the driver have aggregates of one integer, whose result is one.
    driver.create_aggregate(SUM, 2, _Sum)  # pyright: ignore[reportArgumentType]
    driver.create_aggregate(MEAN, 2, _Mean)  # pyright: ignore[reportArgumentType]
    driver.create_function(RATIO, 2, _ratio, deterministic=True)
    driver.create_function(PART, 3, lru_cache(_MOMENTS)(_part), deterministic=True)
    driver.create_function(UTC_TEXT, 2, lru_cache(_MOMENTS)(_utc_text), deterministic=True)


class _Sum:
    """Adds up in units of the last decimal place, which are integers of any size."""

    def __init__(self) -> None:
        self.units = self.count = self.scale = 0
        self.is_finite = True

    def step(self, value: Stored, scale: int) -> None:
        if value is None:
            return
        self.count += 1
        self.scale = scale
        try:
            self.units += _units(value, scale)
        except (ArithmeticError, ValueError, TypeError):
            self.is_finite = False

    def finalize(self) -> str | None:
        if self.count == 0:
            return None
        return _text(self.units, self.scale) if self.is_finite else _NOT_FINITE


class _Mean(_Sum):
    """Divides exactly, and rounds half to even."""

    def finalize(self) -> str | None:
        if self.count == 0 or not self.is_finite:
            return super().finalize()
        whole, rest = divmod(self.units * 10**MEAN_DIGITS, self.count)
        if (2 * rest, whole % 2) > (self.count, 0):
            whole += 1
        return _text(whole, self.scale + MEAN_DIGITS)


def _units(value: str | bytes | float, scale: int) -> int:
    """A stored number in units of the last place, read as a row shows it."""
    match value:
        case int():
            return value * 10**scale
        case float():
            # The shortest digits that name it, as a row has them; few numbers need more than this.
            digits = repr(value)
            whole, _, rest = digits.partition(".")
            if len(rest) <= scale and "e" not in digits:
                return int(whole + rest.ljust(scale, "0"))
            return _rounded(digits, scale)
        case str():
            return _rounded(value, scale)
        case _:
            raise TypeError


def _rounded(digits: str, scale: int) -> int:
    number = Decimal(digits)
    if number and abs(number.adjusted()) > _MAX_EXPONENT:
        raise ValueError
    return int(number.scaleb(scale, _WIDE).to_integral_value(ROUND_HALF_EVEN, _WIDE))


def _text(units: int, scale: int) -> str:
    digits = str(abs(units)).zfill(scale + 1)
    sign, cut = "-" if units < 0 else "", len(digits) - scale
    return f"{sign}{digits[:cut]}.{digits[cut:]}" if scale else f"{sign}{digits}"


def _ratio(total: Stored, count: int) -> float | None:
    match total:
        case str():
            return int(total) / count
        case int() | float():
            return total / count
        case _:
            return None


def _part(value: Stored, part: Part, zone: str | None) -> int | None:
    if not isinstance(value, str):
        return None
    try:
        if zone is None and part == "hour":
            return time.fromisoformat(value).hour
        if zone is None:
            return _PARTS[part](date.fromisoformat(value))
        moment = datetime.fromisoformat(value)
        moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
        local = moment.astimezone(ZoneInfo(zone))
    except (ValueError, OverflowError):
        return None
    return local.hour if part == "hour" else _PARTS[part](local)


def _utc_text(value: Stored, zone: str) -> Stored:
    """What is no date and time stays as it is."""
    if not isinstance(value, str):
        return value
    try:
        moment = datetime.fromisoformat(value).replace(tzinfo=ZoneInfo(zone))
        return moment.astimezone(UTC).isoformat(" ")
    except (ValueError, OverflowError):
        return value
