"""Filters mean what they say: 120 pairs of a filter and an order against plain Python (P45).

Every pair is asked of the same rows in four houses: two ORMs on two databases.
"""

import asyncio
import operator
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from typing import cast
from uuid import UUID

import pytest
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool
from tortoise.context import require_context

from schema import Managers
from schema.events import Json, JsonObject
from schema.query import Reader
from schema.request import QueryRequest
from schema.tortoise_source import TortoiseSource
from tests.postgres import Postgres
from tests.schema import tortoise_herd
from tests.schema.conftest import ADA
from tests.schema.herd import ANIMALS, FARMS, Animal, Farm, Herd, Row

Pair = tuple[JsonObject, str]

PAIRS: list[Pair] = [
    # Equality, and what is like it but not equal.
    ({"name": "ada"}, ""),
    ({"name": "ADA"}, ""),
    ({"name": ""}, ""),
    ({"name": " ada "}, ""),
    ({"name": "😀 x"}, ""),
    ({"name": "50%"}, ""),
    ({"legs": 4}, "name"),
    ({"legs": "4"}, "-name"),
    ({"legs": 4.0}, "-id"),
    ({"legs": 2**40}, ""),
    ({"tag": 2**53}, ""),
    ({"tag": str(2**53 + 1)}, ""),
    ({"tag": 2**63 - 1}, ""),
    ({"tag": -(2**63)}, ""),
    ({"weight": 1.5}, "-id"),
    ({"weight": "1.5000"}, ""),
    ({"weight": "0.1"}, ""),
    ({"weight": "0.1004"}, ""),
    ({"weight": "10"}, ""),
    ({"weight": "1e30"}, ""),
    ({"ratio": 0.1}, ""),
    ({"ratio": "1e300"}, ""),
    ({"ratio": 0}, ""),
    ({"is_tame": True}, "name"),
    ({"is_tame": "false"}, "-name"),
    ({"diet": "all kinds"}, ""),
    ({"born": "2024-02-29"}, ""),
    ({"seen_at": "2024-03-31T01:00:00Z"}, ""),
    ({"seen_at": "2024-03-31T03:00:00+02:00"}, ""),
    ({"seen_at": "2024-03-31 01:00"}, ""),
    ({"born": "9999-12-31"}, ""),
    ({"chip": "00000000-0000-0000-0000-000000000001"}, "-name"),
    ({"id": 3, "name": "Äda"}, ""),
    ({"id": 3, "name": "Ada"}, ""),
    # Others, in lists, and missing.
    ({"name__ne": "ada"}, "name"),
    ({"legs__ne": 4}, "legs"),
    ({"weight__ne": "1.5"}, "weight"),
    ({"is_tame__ne": True}, ""),
    ({"diet__ne": "meat"}, ""),
    ({"born__ne": "2024-02-29"}, "-born"),
    ({"id__in": []}, ""),
    ({"name__in": []}, ""),
    ({"id__in": [3, "1", 99]}, "-id"),
    ({"name__in": ["", "ada", "ÄDA"]}, "name"),
    ({"weight__in": ["1.5", 9, "0.100"]}, "-weight"),
    ({"diet__in": ["grass", "meat"]}, "-id"),
    ({"chip__in": ["80000000-0000-0000-0000-000000000000"]}, ""),
    ({"seen_at__in": ["2024-10-27T01:30:00Z", "2024-10-27T02:30:00+02:00"]}, "seen_at"),
    ({"name__isnull": True}, ""),
    ({"name__isnull": False}, "-name"),
    ({"legs__isnull": True}, "name"),
    ({"extra__isnull": True}, "name"),
    ({"extra__isnull": False}, ""),
    ({"seen_at__isnull": False}, "-seen_at"),
    ({"farm__isnull": True}, "name"),
    ({"farm__isnull": False}, "-name"),
    # Ranges: by code point, by number, by moment.
    ({"name__gt": "a"}, "name"),
    ({"name__gte": "ada"}, "-name"),
    ({"name__lt": "S"}, "name"),
    ({"name__lte": "STRASSE"}, "-name"),
    ({"name__gt": "\uffff"}, ""),
    ({"name__lt": "😀"}, "name"),
    ({"legs__gt": 4}, "-legs"),
    ({"legs__lt": 0}, ""),
    ({"legs__lte": 2**62}, "-legs"),
    ({"tag__gt": 2**53}, "tag"),
    ({"weight__gt": "9"}, "weight"),
    ({"weight__lt": "0.1"}, "weight"),
    ({"weight__lte": "0.1"}, "weight"),
    ({"weight__lt": "-0.0005"}, ""),
    ({"weight__gt": "1.4999999"}, "-weight"),
    ({"ratio__gt": 0}, "ratio"),
    ({"ratio__lt": "0.3"}, "-ratio"),
    ({"ratio__gte": 1e300}, ""),
    ({"born__gt": "2024-02-28"}, "born"),
    ({"born__gte": "2024-02-28"}, "-born"),
    ({"born__lt": "2024-03-01"}, "-born"),
    ({"born__lte": "0001-01-01"}, ""),
    ({"born__lte": "9999-12-31"}, "born"),
    ({"seen_at__gt": "2024-03-31T00:59:59Z"}, "seen_at"),
    ({"seen_at__gte": "2024-03-31T02:59:59+02:00"}, "-seen_at"),
    ({"seen_at__lt": "2024-10-27T02:30:00+01:00"}, "seen_at"),
    ({"seen_at__lte": "2024-10-27T01:30:00Z"}, "-seen_at"),
    ({"seen_at__gte": "9999-12-31T23:59:59.999999Z"}, ""),
    ({"born__gt": "9999-12-31"}, ""),
    ({"born__gte": "9999-12-31"}, ""),
    ({"born__lt": "9999-12-31"}, "-born"),
    ({"seen_at__lt": "0001-01-01T00:00:00Z"}, ""),
    ({"seen_at__lte": "0001-01-01T00:00:00Z"}, ""),
    ({"born__in": ["0001-01-01", "2024-03-01"]}, "born"),
    # Parts of texts: nothing is a wildcard.
    ({"name__contains": "da"}, "name"),
    ({"name__contains": "DA"}, ""),
    ({"name__contains": "%"}, ""),
    ({"name__contains": "_"}, ""),
    ({"name__icontains": "ADA"}, "name"),
    ({"name__icontains": "äda"}, "-name"),
    ({"name__icontains": "strasse"}, "name"),
    ({"name__icontains": "ß"}, "name"),
    ({"name__icontains": "%"}, ""),
    ({"name__icontains": "_"}, ""),
    ({"name__icontains": "/B\\"}, ""),
    ({"name__icontains": "i̇ZM"}, ""),
    ({"name__icontains": ""}, "name"),
    ({"name__startswith": "a"}, "name"),
    ({"name__startswith": "50_"}, ""),
    ({"name__startswith": "😀"}, ""),
    ({"name__endswith": "a"}, "-name"),
    ({"name__endswith": "\\c"}, ""),
    # Relations, and what is combined.
    ({"farm__label": "nord"}, "name"),
    ({"farm__label__icontains": "NORD"}, "farm__label"),
    ({"farm__size__gte": 3}, "-farm__size"),
    ({"farm__size__isnull": True}, "name"),
    ({"farm__label__ne": "Nord"}, "farm__label"),
    ({"farm__animals__name": "ada"}, "name"),
    ({"farm__animals__legs": 4, "farm__animals__is_tame": False}, "name"),
    ({"not": {"legs__gte": 4}}, "legs"),
    ({"not": {"farm__label": "Nord"}}, "-farm__label"),
    ({"or": [{"legs": 8}, {"weight__lt": 0}, {"name": "50%"}]}, "-weight"),
    ({"and": [{"legs__gt": 0}, {"not": {"or": [{"is_tame": True}, {"tag": 0}]}}]}, "legs"),
    ({"or": []}, ""),
]  # fmt: skip


# --- the oracle -----------------------------------------------------------------------------------


def utc(text: str) -> datetime:
    found = datetime.fromisoformat(text)
    return found if found.tzinfo else found.replace(tzinfo=UTC)


READ: Mapping[str, Callable[[str], object]] = {
    "name": str, "label": str, "diet": str, "legs": lambda text: int(float(text)), "id": int,
    "tag": int, "size": int, "weight": Decimal, "ratio": float, "is_tame": "True".__eq__,
    "born": date.fromisoformat, "seen_at": utc, "chip": UUID,
}  # fmt: skip
"""What a filter's value means, by field."""

LOOKUPS: Mapping[str, Callable[[str, str], object]] = {
    "": operator.eq,
    "gt": operator.gt,
    "gte": operator.ge,
    "lt": operator.lt,
    "lte": operator.le,
    "contains": operator.contains,
    "icontains": lambda value, part: part.casefold() in value.casefold(),
    "startswith": str.startswith,
    "endswith": str.endswith,
}


def farm_of(animal: Row) -> Row | None:
    return next((farm for farm in FARMS if farm["id"] == animal["farm_id"]), None)


def holds(animal: Row, filters: JsonObject) -> bool:
    """Whether an animal matches; what is asked of its neighbours must hold for one of them."""
    shared: JsonObject = {}
    for key, value in filters.items():
        match key, value:
            case (("and" | "or"), list()):
                found = [holds(animal, part) for part in value if isinstance(part, dict)]
                held = all(found) if key == "and" else any(found)
            case "not", dict():
                held = not holds(animal, value)
            case _ if key.startswith("farm__animals__"):
                shared[key.removeprefix("farm__animals__")] = value
                continue
            case _ if key == "farm__isnull":
                held = (farm_of(animal) is None) is value
            case _ if key.startswith("farm__"):
                held = compares(farm_of(animal) or {}, key.removeprefix("farm__"), value)
            case _:
                held = compares(animal, key, value)
        if not held:
            return False
    farm = farm_of(animal)
    beside = [a for a in ANIMALS if farm is not None and a["farm_id"] == farm["id"]]
    return not shared or any(holds(neighbour, shared) for neighbour in beside)


def compares(row: Row, key: str, wanted: Json) -> bool:
    field, _, lookup = key.partition("__")
    value = row.get(field)
    if isinstance(value, Enum):
        value = value.value
    if lookup == "isnull":
        return (value is None) is wanted
    read = READ[field]
    if lookup == "ne":
        return value is None or value != read(str(wanted))
    if value is None:
        return False
    if isinstance(wanted, list):
        return value in [read(str(item)) for item in wanted]
    # Values of one field can be compared, as texts can; what is looked into is one.
    return bool(LOOKUPS[lookup](cast("str", value), cast("str", read(str(wanted)))))


def in_order(rows: list[Row], order: str) -> list[Row]:
    """Sort by the key and then by id; a missing value comes last in both directions."""
    *path, field = order.removeprefix("-").split("__")
    found = sorted(rows, key=lambda row: int(str(row["id"])))
    if not field:
        return found

    def value(row: Row) -> str | None:
        found = ((farm_of(row) or {}) if path else row).get(field)
        return cast("str | None", found)  # values of one field can be compared, as texts can

    there = [(key, row) for row in found if (key := value(row)) is not None]
    there.sort(key=lambda pair: pair[0], reverse=order.startswith("-"))
    return [row for _, row in there] + [row for row in found if value(row) is None]


# --- the houses -----------------------------------------------------------------------------------


async def store_sqlmodel(url: str) -> None:
    engine = create_async_engine(url, poolclass=NullPool)
    async with engine.begin() as connection:
        await connection.run_sync(Herd.metadata.create_all)
        await connection.execute(sa.insert(Farm), FARMS)
        await connection.execute(sa.insert(Animal), ANIMALS)
    await engine.dispose()


async def store_tortoise(url: str) -> None:
    async def store() -> None:
        await require_context().generate_schemas()
        # Tortoise gives no types to what it takes by keyword.
        await tortoise_herd.Farm.bulk_create([tortoise_herd.Farm(**row) for row in FARMS])
        await tortoise_herd.Animal.bulk_create([tortoise_herd.Animal(**row) for row in ANIMALS])

    async with (
        TortoiseSource({"apps": tortoise_herd.APPS}).opened(url) as context,
        asyncio.TaskGroup() as group,
    ):
        group.create_task(store(), context=context)


STORES: Mapping[str, Callable[[str], Coroutine[None, None, None]]] = {
    "sqlmodel": store_sqlmodel,
    "tortoise": store_tortoise,
}


@pytest.fixture(scope="session", params=["sqlite", "postgres"])
def herd_url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """An empty database."""
    if request.param == "sqlite":
        return f"sqlite+aiosqlite:///{tmp_path_factory.mktemp('herd') / 'herd.db'}"
    server: Postgres = request.getfixturevalue("postgres")
    return server.create()


@pytest.fixture(scope="session", params=[*STORES])
def house(request: pytest.FixtureRequest, herd_url: str) -> Generator[tuple[str, str]]:
    """The name of an ORM, and a database with the rows that it has stored."""
    asyncio.run(STORES[request.param](herd_url))
    yield request.param, herd_url
    asyncio.run(drop(herd_url))


async def drop(url: str) -> None:
    engine = create_async_engine(url, poolclass=NullPool)
    async with engine.begin() as connection:
        for table in ("animal", "farm"):
            await connection.execute(sa.text(f"DROP TABLE {table}"))
        if engine.dialect.name == "postgresql":
            await connection.execute(sa.text("DROP TYPE IF EXISTS diet"))
    await engine.dispose()


@pytest.fixture
async def reader(house: tuple[str, str]) -> AsyncGenerator[Reader]:
    orm, url = house
    managers = Managers(tortoise={"apps": tortoise_herd.APPS})
    managers.expose(Animal if orm == "sqlmodel" else tortoise_herd.Animal)
    managers.expose(Farm if orm == "sqlmodel" else tortoise_herd.Farm)
    async with Reader(managers, database_url=url) as reader:
        yield reader


# --- the tests ------------------------------------------------------------------------------------


@pytest.mark.covers("P45", "H44")
async def test_every_pair_agrees_with_plain_python(reader: Reader) -> None:
    assert len(PAIRS) == 120
    view = await reader.view(ADA)
    differ: list[tuple[Pair, object, object]] = []
    for filters, order in PAIRS:
        expected = [row["id"] for row in in_order([a for a in ANIMALS if holds(a, filters)], order)]
        orders: list[Json] = [order] if order else []
        page = await reader.query(QueryRequest("Animal", ["id"], filters, orders), view)
        rows = page["data"] if isinstance(page["data"], list) else []
        found = [row["id"] for row in rows if isinstance(row, dict)]
        if (found, page["total_count"]) != (expected, len(expected)):
            differ.append(((filters, order), found, expected))
    assert differ == []


@pytest.mark.covers("P44")
async def test_rows_read_the_same_in_every_house(reader: Reader) -> None:
    page = await reader.query(QueryRequest("Animal", ["*"]), await reader.view(ADA))
    assert page["data"] == [shown(animal) for animal in ANIMALS]
    assert "notes" not in page


def shown(animal: Row) -> JsonObject:
    """An animal on the wire."""
    return {name: wire(value) for name, value in animal.items()}


def wire(value: object) -> Json:
    match value:
        case Decimal():
            return str(value.quantize(Decimal("0.001")))
        case datetime() | date():
            return value.isoformat()
        case UUID():
            return str(value)
        case Enum():
            return str(value.value)
        case int() if abs(value) > 2**53 - 1:
            return str(value)
        case _:
            return value  # pyright: ignore[reportReturnType]  the rest is JSON
