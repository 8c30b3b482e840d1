"""How asyncpg reads and writes the types whose stored values Python can't all hold.

Its own codecs fail the whole statement for a date before the year 1, ``24:00`` or JSON of great
depth. These give a value that no column takes instead, so that it is one null of the page. As with
its own, ``infinity`` is the last day or moment that Python has; but a last day given as a parameter
stays one. Source: asyncpg's ``Connection.set_type_codec``, formats.
"""

import json
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta, timezone

_UNREADABLE = object()
"""Stands for a stored value that Python has no value for; the driver would fail the whole read."""

_EPOCH = datetime(2000, 1, 1)  # noqa: DTZ001  the server's own, for times without a zone
_EPOCH_UTC = _EPOCH.replace(tzinfo=UTC)
_FIRST_DAY = _EPOCH.toordinal()
_TICK = timedelta(microseconds=1)
_DAYS = {2**31 - 1: date.max, -(2**31): date.min}
_MOMENTS = {2**63 - 1: datetime.max, -(2**63): datetime.min}  # noqa: DTZ901  as _EPOCH
"""What the server sends for infinity and -infinity."""
_DAY_TICKS = 24 * 60 * 60 * 10**6


def _read_date(stored: tuple[int]) -> object:
    try:
        return _DAYS.get(stored[0]) or date.fromordinal(_FIRST_DAY + stored[0])
    except (ValueError, OverflowError):
        return _UNREADABLE


def _read_moment(stored: tuple[int]) -> object:
    try:
        return _MOMENTS.get(stored[0]) or _EPOCH + stored[0] * _TICK
    except OverflowError:
        return _UNREADABLE


def _read_moment_utc(stored: tuple[int]) -> object:
    found = _read_moment(stored)
    return found.replace(tzinfo=UTC) if isinstance(found, datetime) else found


def _read_time(stored: tuple[int]) -> object:
    return (_EPOCH + stored[0] * _TICK).time() if stored[0] < _DAY_TICKS else _UNREADABLE


def _read_time_in_zone(stored: tuple[int, int]) -> object:
    found = _read_time(stored[:1])
    zone = timezone(timedelta(seconds=-stored[1]))
    return found.replace(tzinfo=zone) if isinstance(found, time) else found


def _write_date(value: date) -> tuple[int]:
    return (value.toordinal() - _FIRST_DAY,)


def _write_moment(value: datetime) -> tuple[int]:
    return ((value - (_EPOCH if value.tzinfo is None else _EPOCH_UTC)) // _TICK,)


def _write_time(value: time) -> tuple[int]:
    since = datetime.combine(_EPOCH, value.replace(tzinfo=None)) - _EPOCH
    return (since // _TICK,)


def _write_time_in_zone(value: time) -> tuple[int, int]:
    offset = value.utcoffset() or timedelta()
    return *_write_time(value), -(offset // timedelta(seconds=1))


def _read_json(stored: bytes) -> object:
    try:
        return json.loads(stored)
    except (ValueError, RecursionError):
        return _UNREADABLE


def _read_jsonb(stored: bytes) -> object:
    return _read_json(stored[len(_JSONB) :])


def _write_jsonb(text: str) -> bytes:
    return _JSONB + text.encode()


_JSONB = b"\x01"
"""The number of its format, with which it begins."""

CODECS: tuple[tuple[str, str, Callable[..., object], Callable[..., object]], ...] = (
    ("date", "tuple", _read_date, _write_date),
    ("timestamp", "tuple", _read_moment, _write_moment),
    ("timestamptz", "tuple", _read_moment_utc, _write_moment),
    ("time", "tuple", _read_time, _write_time),
    ("timetz", "tuple", _read_time_in_zone, _write_time_in_zone),
    ("json", "binary", _read_json, str.encode),
    ("jsonb", "binary", _read_jsonb, _write_jsonb),
)
"""Type, format, and the functions that read and write it."""
