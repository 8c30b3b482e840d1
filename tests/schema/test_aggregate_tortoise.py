"""Aggregates over Tortoise models, whose decimals and times SQLite holds as texts."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path

import pytest

from schema.aggregates import AggregateRequest
from schema.events import Json
from tests.schema import tortoise_shop
from tests.schema.conftest import ADA
from tests.schema.tortoise_desk import Shop, opened
from tests.schema.tortoise_shop import Material, Part, Supplier


@pytest.fixture
async def shop(dialect: str, tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Shop]:
    url = f"sqlite+aiosqlite:///{tmp_path / 'shop.db'}"
    if dialect == "postgres":
        url = str(request.getfixturevalue("postgres_url"))
    models = Material, Part, Supplier
    async with opened(url, tortoise_shop.fill, tortoise_shop.APPS, *models) as shop:
        yield shop


async def aggregate(shop: Shop, **asked: Json) -> list[Json]:
    # Tests give what the tool would.
    request = AggregateRequest("Part", **asked)  # pyright: ignore[reportArgumentType]
    page = await shop.reader.aggregate(request, await shop.reader.view(ADA))
    rows = page["data"]
    assert isinstance(rows, list)
    assert "notes" not in page
    return rows


async def test_decimals_are_added_and_compared_as_numbers(shop: Shop) -> None:
    async def reprice() -> None:
        await Part.filter(name="Gear").update(price=Decimal("9.5"))
        await Part.filter(name="Zahn").update(price=Decimal("-12345678.25"))

    await shop.tell(reprice)
    ops = ("count", "sum", "avg", "min", "max", "count_distinct")
    measures: list[Json] = [{"op": op, "field": "price", "as": op} for op in ops[1:]]
    assert await aggregate(shop, measures=measures) == [
        {
            "sum": "-12345655.65",
            "avg": "-3086413.9125",
            "min": "-12345678.25",
            "max": "12.00",
            "count_distinct": 4,
        }
    ]
    sums: list[Json] = [{"op": "sum", "field": "price", "as": "sum"}]
    assert await aggregate(
        shop,
        group_by=["material__name"],
        measures=sums,
        having={"or": [{"sum__gt": 9}, {"sum__lt": "-12345666.2499"}]},
        order_by=["-sum"],
    ) == [
        {"material__name": "Cobalt", "sum": "9.50"},
        {"material__name": "Aluminum", "sum": "-12345666.25"},
    ]
    assert await aggregate(shop, group_by=["price"], order_by=["-price"]) == [
        {"price": price, "count": count}
        for price, count in (
            ("12.00", 1), ("9.50", 1), ("1.10", 1), ("-12345678.25", 1), (None, 2),
        )
    ]  # fmt: skip


async def test_moments_are_grouped_and_compared_whatever_their_offset(shop: Shop) -> None:
    noon = datetime(2024, 7, 1, 12, tzinfo=UTC)
    east = noon.astimezone(timezone(timedelta(hours=9)))
    later = (noon + timedelta(hours=1)).astimezone(timezone(timedelta(hours=-9)))

    async def make() -> None:
        for name, moment in (("Bolt", noon), ("Gear", east), ("Zahn", later)):
            await Part.filter(name=name).update(made_at=moment)

    await shop.tell(make)
    moments: list[Json] = [
        {"op": op, "field": "made_at", "as": op} for op in ("min", "max", "count_distinct")
    ]
    assert await aggregate(shop, filters={"stock__in": [3, 5, 7]}, measures=moments) == [
        {
            "min": "2024-07-01T12:00:00+00:00",
            "max": "2024-07-01T13:00:00+00:00",
            "count_distinct": 2,
        }
    ]
    asked: list[Json] = ["made_at", "made_at__day", "made_at__hour"]
    assert await aggregate(shop, filters={"stock__in": [3, 5, 7]}, group_by=asked) == [
        {
            "made_at": f"2024-07-01T{hour}:00:00+00:00",
            "made_at__day": 1,
            "made_at__hour": hour,
            "count": count,
        }
        for hour, count in ((12, 2), (13, 1))
    ]


async def test_every_kind_of_field_can_be_grouped_by(shop: Shop) -> None:
    asked: list[Json] = ["grade", "status", "serial", "made_on__week", "is_made_here"]
    assert await aggregate(shop, group_by=asked, order_by=["-count"]) == [
        {
            "grade": None,
            "status": "active",
            "serial": None,
            "made_on__week": None,
            "is_made_here": True,
            "count": 5,
        },
        {
            "grade": "FINE",
            "status": "on hold",
            "serial": "00000000-0000-0000-0000-000000000007",
            "made_on__week": 22,
            "is_made_here": False,
            "count": 1,
        },
    ]
