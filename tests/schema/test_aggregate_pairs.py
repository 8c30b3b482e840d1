"""Aggregates mean what they say: 40 of them against plain Python, in the herd's four houses."""

from collections.abc import Callable, Mapping
from datetime import date, datetime
from decimal import ROUND_HALF_EVEN, Decimal
from typing import cast
from zoneinfo import ZoneInfo

import pytest

from schema.aggregates import AggregateRequest
from schema.events import Json, JsonObject
from schema.query import Reader
from tests.schema.conftest import ADA
from tests.schema.herd import ANIMALS, Row
from tests.schema.test_pairs import farm_of, herd_url, holds, house, reader, wire

__all__ = ["herd_url", "house", "reader"]  # fixtures

GROUPS: list[list[str]] = [
    [], ["diet"], ["legs"], ["is_tame"], ["name"], ["weight"], ["chip"], ["tag"],
    ["born__year"], ["born__month"], ["seen_at__year"], ["seen_at__hour"], ["seen_at__week"],
    ["farm__label"], ["farm__size", "diet"], ["is_tame", "born__quarter"],
]  # fmt: skip
MEASURES: list[tuple[str, str]] = [
    ("count", ""), ("count", "weight"), ("sum", "legs"), ("sum", "tag"), ("sum", "weight"),
    ("avg", "legs"), ("avg", "weight"), ("min", "name"), ("max", "name"), ("min", "weight"),
    ("max", "weight"), ("min", "born"), ("max", "seen_at"), ("min", "ratio"), ("max", "tag"),
    ("count_distinct", "name"), ("count_distinct", "weight"), ("count_distinct", "chip"),
    ("sum", "farm__size"), ("count_distinct", "farm__label"),
]  # fmt: skip
FILTERS: list[JsonObject] = [
    {}, {"legs__gte": 3}, {"farm__label__icontains": "nord"}, {"not": {"is_tame": True}},
    {"weight__gt": "0.1", "or": [{"diet": "grass"}, {"diet__isnull": True}]},
]  # fmt: skip
PAIRS = [
    (GROUPS[number % len(GROUPS)], [MEASURES[(number * 3 + at) % len(MEASURES)] for at in range(4)],
     FILTERS[number % len(FILTERS)])
    for number in range(40)
]  # fmt: skip
PARTS: Mapping[str, Callable[[date], int]] = {
    "year": lambda day: day.year,
    "quarter": lambda day: (day.month + 2) // 3,
    "month": lambda day: day.month,
    "week": lambda day: day.isocalendar().week,
    "hour": lambda day: day.hour if isinstance(day, datetime) else 0,
}


def value(animal: Row, path: str) -> object:
    """What a path leads to, on an animal or its farm."""
    *hops, field = path.split("__")
    return ((farm_of(animal) or {}) if hops else animal).get(field)


def group(animal: Row, key: str) -> object:
    path, _, part = key.rpartition("__")
    if part not in PARTS:
        return value(animal, key)
    day = value(animal, path)
    return PARTS[part](day) if isinstance(day, date) else None


def measured(op: str, field: str, rows: list[Row]) -> object:
    if not field:
        return len(rows)
    found = [there for row in rows if (there := value(row, field)) is not None]
    if op == "count":
        return len(found)
    if op == "count_distinct":
        return len(set(found))
    if not found:
        return None
    # Values of one field can be compared and added, as numbers can.
    numbers = cast("list[Decimal]", found)
    match op:
        case "min":
            return min(numbers)
        case "max":
            return max(numbers)
        case "sum":
            return sum(numbers)
        case _ if isinstance(found[0], Decimal):
            mean = Decimal(sum(numbers)) / len(numbers)
            return mean.quantize(Decimal("0.000000001"), ROUND_HALF_EVEN)
        case _:
            return sum(numbers) / len(numbers)


def shown(op: str, found: object) -> Json:
    """A measure on the wire: means of decimals have no superfluous zeros."""
    if op == "avg" and isinstance(found, Decimal):
        text = format(found, "f")
        return text.rstrip("0").rstrip(".") if "." in text else text
    return wire(found)


def expected(groups: list[str], measures: list[tuple[str, str]], filters: JsonObject) -> list[Json]:
    there: dict[tuple[object, ...], list[Row]] = {} if groups else {(): []}
    for animal in ANIMALS:
        if holds(animal, filters):
            key = tuple(group(animal, name) for name in groups)
            there.setdefault(key, []).append(animal)
    return [
        {name: wire(part) for name, part in zip(groups, key, strict=True)}
        | {
            f"m{at}": shown(op, measured(op, field, rows))
            for at, (op, field) in enumerate(measures)
        }
        for key, rows in there.items()
    ]


@pytest.mark.covers("P45", "P46")
async def test_every_aggregate_agrees_with_plain_python(reader: Reader) -> None:
    view = await reader.view(ADA)
    assert view.zone == ZoneInfo("UTC")
    differ: list[object] = []
    for groups, measures, filters in PAIRS:
        asked: list[Json] = [
            {"op": op, "as": f"m{at}", "field": field or None}
            for at, (op, field) in enumerate(measures)
        ]
        page = await reader.aggregate(AggregateRequest("Animal", filters, [*groups], asked), view)
        found = page["data"] if isinstance(page["data"], list) else []
        wanted = expected(groups, measures, filters)
        if sorted(map(str, found)) != sorted(map(str, wanted)) or page["total_count"] != len(
            wanted
        ):
            lost = [row for row in wanted if row not in found]
            differ.append((groups, measures, filters, lost, [r for r in found if r not in wanted]))
    assert not differ, "\n".join(map(str, differ))
