"""Dates as conditions: on columns of year, month and day, or on the one field of dates.

A year, a month or a day is a span of time there: from its first moment up to that of the next.
"""

import re
from collections.abc import Sequence
from datetime import date, timedelta

from providers.offline.english import MONTH_NAMES, split_name
from providers.offline.facts import Field, Manager
from providers.offline.frame import Stuck, only_one
from providers.offline.match import TEMPORAL, Condition
from providers.offline.parse import Moment
from schema.events import Json, JsonObject

_MIDNIGHT = "T00:00:00"
_FIRST = re.compile(rf"(\d{{4}})-(0[1-9]|1[0-2])-01(?:{_MIDNIGHT})?")


def conditions_of(when: Moment, lookup: str, manager: Manager, field: str) -> list[Condition]:
    """Return the conditions of a date; none for a month or day of any year, in a field of dates.

    ``field`` is that field if the question names one. Raises: Stuck.
    """
    parts = {"year": when.year, "month": when.month, "day": when.day}
    given = {name: value for name, value in parts.items() if value is not None}
    whole = [f.name for f in manager.fields if f.type == "integer"]
    columns = {part: _column_of(part, whole) for part in given}
    alone = len(given) == 1
    if not field and all(columns.values()) and (not lookup or alone):
        if when.more:
            others = [other.month for other in when.more]
            same_kind = all(o.year is None and o.day is None for o in when.more)
            if not alone or not same_kind:
                raise Stuck("or", when.text)
            months: list[Json] = [when.month, *others]
            return [Condition((columns["month"],), "in", months, when.text)]
        return [
            Condition((columns[part],), lookup, value, when.text if alone else "", alone)
            for part, value in given.items()
        ]
    dates = [f for f in manager.fields if f.type in TEMPORAL and field in {"", f.name}]
    found = only_one(dates, when.text, [f"{when.text} of {f.name}" for f in dates], none="date")
    if when.more:
        raise Stuck("date", when.text)
    is_long = when.day and found.type != "date" and not lookup
    lookups = () if not when.year else ("gte", "lte") if is_long else (lookup,)
    return [span((found.name,), found, when, each) for each in lookups]


def span(path: tuple[str, ...], field: Field, when: Moment, lookup: str) -> Condition:
    """Return the condition of a year, a month or a day, compared in any way. Raises: Stuck."""
    first, end = _bounds(field, when)
    if when.day and field.type == "date":
        return Condition(path, lookup, first, when.text, in_time=True)
    said = f"the end of {when.text}" if lookup in {"gt", "lte"} else when.text
    match lookup:
        case "gt" | "gte":
            return Condition(path, "gte", end if lookup == "gt" else first, said, in_time=True)
        case "lt" | "lte":
            return Condition(path, "lt", first if lookup == "lt" else end, said, in_time=True)
        case _:
            return any_of(path, field, [when], said)


def any_of(path: tuple[str, ...], field: Field, spans: Sequence[Moment], said: str) -> Condition:
    """Return the condition that a date is in one of some years or months."""
    name = "__".join(path)
    bounds = [_bounds(field, when) for when in spans]
    ways: list[Json] = [{f"{name}__gte": first, f"{name}__lt": end} for first, end in bounds]
    return Condition(path, "any", ways, said, in_time=True)


def said_of(path: tuple[str, ...], field: Field, ways: Sequence[Json]) -> str:
    """Say the years or months of an ``any_of`` condition; "" if it is none."""
    name, said = "__".join(path), list[str]()
    for way in ways:
        bounds = way if isinstance(way, dict) else {}
        first, end = (str(bounds.get(f"{name}__{lookup}", "")) for lookup in ("gte", "lt"))
        found = _FIRST.fullmatch(first)
        if not found:
            return ""
        year, month = int(found[1]), int(found[2])
        month_of = f"{MONTH_NAMES[month - 1]} {year}"
        names = (Moment(found[1], year), Moment(month_of, year, month))
        said += [when.text for when in names if _bounds(field, when) == (first, end)]
    return " or ".join(said) if len(said) == len(ways) else ""


def years_of(manager: str, field: Field) -> JsonObject:
    """Ask which years there are: "in July" is a month of each."""
    return {
        "manager": manager,
        "filters": {f"{field.name}__isnull": False},
        "group_by": [f"{field.name}__year"],
        "measures": [{"op": "count"}],
    }


def _bounds(field: Field, when: Moment) -> tuple[str, str]:
    """Return the first day of a span and of the next. Raises: Stuck where there is no such day."""
    try:
        first = date(when.year or 0, when.month or 1, when.day or 1)
        # A month has at most 31 days and a year 366: then the next has begun.
        later = first + timedelta(days=1 if when.day else 31 if when.month else 366)
    except (ValueError, OverflowError):
        raise Stuck("date", when.text) from None
    time = "" if field.type == "date" else _MIDNIGHT
    return f"{first}{time}", f"{later if when.day else later.replace(day=1)}{time}"


def _column_of(part: str, names: list[str]) -> str:
    """Find the column of a part of a date: month, or one that ends so."""
    return next((n for n in names if split_name(n)[-1:] == (part,)), "")
