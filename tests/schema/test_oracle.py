"""Filters, orders and pages agree with plain Python over the same rows, in every house of them."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.orm import registry
from sqlmodel import Field, Relationship, SQLModel

from schema import Managers
from schema.events import Json, JsonObject
from schema.joins import TEXT
from schema.query import Reader
from schema.request import QueryRequest
from tests.schema import tortoise_zoo
from tests.schema.conftest import ADA


class Zoo(SQLModel, registry=registry(metadata=sa.MetaData())):
    pass


class Cage(Zoo, table=True):
    id: int | None = Field(default=None, primary_key=True)
    label: str | None = None
    size: int = 0

    beasts: list["Beast"] = Relationship(back_populates="cage")


class Beast(Zoo, table=True):
    id: int | None = Field(default=None, primary_key=True)
    name: str | None = None
    legs: int | None = None
    cage_id: int | None = Field(default=None, foreign_key="cage.id")

    cage: Cage | None = Relationship(back_populates="beasts")


UNTIED = "ALTER TABLE beast DROP CONSTRAINT beast_cage_id_fkey"
TWINS = (tortoise_zoo.Cage, tortoise_zoo.Beast)

Row = dict[str, Json]
Flat = list[tuple[str, tuple[str, object]]]

texts = st.none() | st.text("aBß%_\\/éİ", max_size=3)
numbers = st.none() | st.integers(-2, 2)
cages = st.lists(st.tuples(texts, st.integers(-2, 2)), max_size=4)
beasts = st.lists(st.tuples(texts, numbers, st.none() | st.integers(1, 6)), max_size=8)

text_conditions = st.one_of(
    st.tuples(
        st.sampled_from(["", "ne", "gt", "gte", "lt", "lte", *TEXT]),
        st.text("aBß%_\\/éİ", max_size=4),
    ),
    st.tuples(st.just("in"), st.lists(st.text("aB", max_size=1), max_size=3)),
    st.tuples(st.just("isnull"), st.booleans()),
)
number_conditions = st.one_of(
    st.tuples(st.sampled_from(["", "ne", "gt", "gte", "lt", "lte"]), st.integers(-2, 2)),
    st.tuples(st.just("in"), st.lists(st.integers(-2, 2), max_size=3)),
    st.tuples(st.just("isnull"), st.booleans()),
)
presence = st.tuples(st.just("isnull"), st.booleans())


beast_conditions = st.one_of(
    st.tuples(st.just("name"), text_conditions),
    st.tuples(st.just("legs"), number_conditions),
    st.tuples(st.just("cage"), presence),
    st.tuples(st.just("cage__label"), text_conditions),
    st.tuples(st.just("cage__size"), number_conditions),
    st.tuples(st.just("cage__beasts__name"), text_conditions),
    st.tuples(st.just("cage__beasts__legs"), number_conditions),
    st.tuples(st.just("cage__beasts"), presence),
)


@dataclass(frozen=True)
class Tree:
    """A filter: conditions that all hold, and filters that are combined."""

    flat: Flat
    below: dict[str, "list[Tree] | Tree"]

    def unique(self) -> dict[str, tuple[str, tuple[str, object]]]:
        return {
            f"{name}__{lookup}".removesuffix("__"): (name, (lookup, value))
            for name, (lookup, value) in self.flat
        }

    def json(self) -> JsonObject:
        filters: JsonObject = {}
        for key, (_, (_, value)) in self.unique().items():
            # The strategies make nothing but JSON.
            filters[key] = value  # pyright: ignore[reportArgumentType]
        for key, value in self.below.items():
            filters[key] = value.json() if isinstance(value, Tree) else [t.json() for t in value]
        return filters


def _trees(
    flat: st.SearchStrategy[Flat], listed: st.SearchStrategy[Tree], turned: st.SearchStrategy[Tree]
) -> st.SearchStrategy[Tree]:
    combined = st.lists(listed, max_size=2)
    parts = {"and": combined, "or": combined, "not": turned}
    return st.builds(Tree, flat, st.fixed_dictionaries({}, optional=parts))


few = st.lists(beast_conditions, max_size=2)
leaves = st.builds(Tree, few, st.just({}))
trees = _trees(st.lists(beast_conditions, max_size=4), leaves, _trees(few, leaves, leaves))
orders = st.lists(
    st.sampled_from(["name", "-name", "legs", "-legs", "-id", "cage__label", "-cage__size"]),
    max_size=2,
    unique_by=lambda order: order.strip("-"),
)


@dataclass(frozen=True)
class House:
    """The zoo in one database, by way of one ORM."""

    reader: Reader
    engine: AsyncEngine

    async def store(self, tables: "Tables") -> None:
        async with self.engine.begin() as connection:
            for statement, rows in (
                ("DELETE FROM beast", None),
                ("DELETE FROM cage", None),
                ("INSERT INTO cage VALUES (:id, :label, :size)", tables.cages),
                ("INSERT INTO beast VALUES (:id, :name, :legs, :cage_id)", tables.beasts),
            ):
                if rows != []:
                    await connection.execute(sa.text(statement), rows)


@pytest.fixture
def zoo_url(dialect: str, tmp_path: Path, request: pytest.FixtureRequest) -> str:
    if dialect == "sqlite":
        return f"sqlite+aiosqlite:///{tmp_path / 'zoo.db'}"
    return request.getfixturevalue("postgres_url")


@pytest.fixture(params=["sqlmodel", "tortoise"])
async def zoo(zoo_url: str, request: pytest.FixtureRequest) -> AsyncIterator[House]:
    engine = create_async_engine(zoo_url)
    async with engine.begin() as connection:
        await connection.run_sync(Zoo.metadata.create_all)
        if engine.dialect.name == "postgresql":
            # Beasts of a cage that is not there are among the rows; SQLite checks no key unasked.
            await connection.execute(sa.text(UNTIED))
    managers = Managers(tortoise={"apps": tortoise_zoo.APPS})
    for model in (Cage, Beast) if request.param == "sqlmodel" else TWINS:
        managers.expose(model)
    async with Reader(managers, database_url=zoo_url) as reader:
        yield House(reader, engine)
    await engine.dispose()


def compare(value: Json, lookup: str, wanted: object) -> bool:
    """One comparison as SQL has it: only ``isnull`` and ``ne`` are true of a missing value."""
    if lookup == "isnull":
        return (value is None) is wanted
    if lookup == "ne":
        return value != wanted
    if value is None:
        return False
    if lookup == "in":
        return isinstance(wanted, list) and value in wanted
    if isinstance(value, str) and isinstance(wanted, str):
        return {
            "": value == wanted,
            "gt": value > wanted,
            "gte": value >= wanted,
            "lt": value < wanted,
            "lte": value <= wanted,
            "icontains": wanted.casefold() in value.casefold(),
            "contains": wanted in value,
            "startswith": value.startswith(wanted),
            "endswith": value.endswith(wanted),
        }[lookup]
    assert isinstance(value, int)
    assert isinstance(wanted, int)
    return {
        "": value == wanted,
        "gt": value > wanted,
        "gte": value >= wanted,
        "lt": value < wanted,
        "lte": value <= wanted,
    }[lookup]


def matches(row: Row, asked: list[tuple[str, tuple[str, object]]], tables: "Tables") -> bool:
    """Whether a beast matches; what is asked of its neighbours must hold for one of them."""
    cage = tables.cage_of(row)
    neighbours = tables.beasts_in(cage)
    shared: list[tuple[str, str, object]] = []
    for path, (lookup, wanted) in asked:
        *hops, last = path.split("__")
        if path == "cage":
            holds = (cage is None) is wanted
        elif path == "cage__beasts":
            holds = (not neighbours) is wanted
        elif hops == ["cage", "beasts"]:
            shared.append((last, lookup, wanted))
            continue
        else:
            found = (cage or {}) if hops else row
            holds = compare(found.get(last), lookup, wanted)
        if not holds:
            return False
    return not shared or any(
        all(compare(one[last], lookup, wanted) for last, lookup, wanted in shared)
        for one in neighbours
    )


def holds(row: Row, tree: Tree, tables: "Tables") -> bool:
    """Whether a beast matches a whole filter."""
    combined = {"and": all, "or": any}
    for key, value in tree.below.items():
        if isinstance(value, Tree):
            if holds(row, value, tables):
                return False
        elif not combined[key](holds(row, part, tables) for part in value):
            return False
    return matches(row, list(tree.unique().values()), tables)


class Tables:
    def __init__(
        self,
        cages: list[tuple[str | None, int]],
        beasts: list[tuple[str | None, int | None, int | None]],
    ) -> None:
        self.cages: list[Row] = [
            {"id": n, "label": label, "size": size} for n, (label, size) in enumerate(cages, 1)
        ]
        self.beasts: list[Row] = [
            {"id": n, "name": name, "legs": legs, "cage_id": cage}
            for n, (name, legs, cage) in enumerate(beasts, 1)
        ]

    def cage_of(self, beast: Row) -> Row | None:
        return next((cage for cage in self.cages if cage["id"] == beast["cage_id"]), None)

    def beasts_in(self, cage: Row | None) -> list[Row]:
        return [b for b in self.beasts if cage is not None and b["cage_id"] == cage["id"]]


def in_order(rows: list[Row], orders: list[str], tables: "Tables") -> list[Row]:
    """Sort by each key, the last one first; missing values come last in both directions."""
    found = sorted(rows, key=lambda row: str(row["id"]).zfill(3))
    for order in reversed(orders):
        down, groups = order.startswith("-"), dict[Json, list[Row]]()
        *hops, name = order.removeprefix("-").split("__")
        for row in found:
            value = (tables.cage_of(row) or {}).get(name) if hops else row[name]
            groups.setdefault(value, []).append(row)
        missing = groups.pop(None, [])
        keys = sorted(groups, key=lambda key: (str(key), 0) if isinstance(key, str) else ("", key))
        found = [row for key in (reversed(keys) if down else keys) for row in groups[key]] + missing
    return found


@pytest.mark.covers("P45", "H45")
@settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    cages=cages,
    beasts=beasts,
    asked=trees,
    order=orders,
    limit=st.integers(1, 4),
    offset=st.integers(0, 5),
)
async def test_pages_agree_with_plain_python(
    zoo: House,
    cages: list[tuple[str | None, int]],
    beasts: list[tuple[str | None, int | None, int | None]],
    asked: Tree,
    order: list[str],
    limit: int,
    offset: int,
) -> None:
    tables = Tables(cages, beasts)
    await zoo.store(tables)
    expected = in_order([row for row in tables.beasts if holds(row, asked, tables)], order, tables)
    page = expected[offset : offset + limit]
    fields: list[Json] = ["id", {"cage": ["id", {"beasts": ["id"]}]}]
    request = QueryRequest("Beast", fields, asked.json(), [*order], limit, offset)
    found = await zoo.reader.query(request, await zoo.reader.view(ADA))
    found.pop("result_id")
    assert found == {
        "data": [
            {
                "id": row["id"],
                "cage": (cage := tables.cage_of(row))
                and {"id": cage["id"], "beasts": [{"id": b["id"]} for b in tables.beasts_in(cage)]},
            }
            for row in page
        ],
        "total_count": len(expected),
        "has_more": len(expected) > offset + len(page),
    }
