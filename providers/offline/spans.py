"""Years and months as conditions on a field of dates, which has no column for them."""

import re
from collections.abc import Sequence

from providers.offline.english import MONTH_NAMES
from providers.offline.facts import Field
from providers.offline.match import Condition
from schema.events import Json, JsonObject

_MONTHS = 12
_DAY = r"\d{4}-(0[1-9]|1[0-2])-01(T00:00:00)?"
_WHOLE = re.compile(f"{_DAY} {_DAY}$")
"""The first days of two months."""


def span(
    path: tuple[str, ...], field: Field, when: tuple[int, int | None], lookup: str, said: str
) -> Condition:
    """Return the condition of a year, or of a month of one, compared in any way.

    ``when`` is the year and, if it is about one, the month.
    """
    first, end = _start(field, *when), _end(field, *when)
    said = f"the end of {said}" if lookup in {"gt", "lte"} else said
    match lookup:
        case "gt" | "gte":
            return Condition(path, "gte", end if lookup == "gt" else first, said, in_time=True)
        case "lt" | "lte":
            return Condition(path, "lt", first if lookup == "lt" else end, said, in_time=True)
        case _:
            return any_of(path, field, [when], said)


def any_of(
    path: tuple[str, ...], field: Field, spans: Sequence[tuple[int, int | None]], said: str
) -> Condition:
    """Return the condition that a date is in one of some years or months."""
    name = "__".join(path)
    ways: list[Json] = [
        {f"{name}__gte": _start(field, *when), f"{name}__lt": _end(field, *when)} for when in spans
    ]
    return Condition(path, "any", ways, said, in_time=True)


def years_of(manager: str, field: Field) -> JsonObject:
    """Ask which years there are: "in July" is a month of each."""
    return {
        "manager": manager,
        "filters": {f"{field.name}__isnull": False},
        "group_by": [f"{field.name}__year"],
        "measures": [{"op": "count"}],
    }


def _start(field: Field, year: int, month: int | None) -> str:
    day = f"{year:04}-{month or 1:02}-01"
    return day if field.type == "date" else f"{day}T00:00:00"


def _end(field: Field, year: int, month: int | None) -> str:
    if month is None or month == _MONTHS:
        return _start(field, year + 1, None)
    return _start(field, year, month + 1)


def said_of(path: tuple[str, ...], ways: Sequence[Json]) -> str:
    """Say the years or months of an ``any_of`` condition; "" if it is none."""
    name, said = "__".join(path), list[str]()
    for way in ways:
        bounds = way if isinstance(way, dict) else {}
        first, end = (str(bounds.get(f"{name}__{lookup}", "")) for lookup in ("gte", "lt"))
        found = _WHOLE.match(f"{first} {end}")
        if not found:
            return ""
        is_year = first[4:7] == end[4:7]
        month = MONTH_NAMES[int(first[5:7]) - 1]
        said.append(first[:4] if is_year else f"{month} {first[:4]}")
    return " or ".join(said)
