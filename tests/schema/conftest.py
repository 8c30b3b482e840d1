"""The shop, opened for reading on either database, and the tools that read it.

A test with ``shop_url``, or with anything that is made of it, runs on both databases; with
``on_sqlite`` on one. Rows are changed through ``writable_shop_url`` or ``write``.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from pathlib import Path

import pytest
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.pool import NullPool
from sqlalchemy.sql.base import Executable

from schema import Managers, ToolContext
from schema.events import Actor, Json, JsonObject
from schema.query import Reader
from schema.tools import ToolRegistry, data_tools
from tests.postgres import Postgres, database
from tests.schema.shop import (
    Box,
    Material,
    Part,
    Project,
    ProjectPart,
    Shelf,
    Shop,
    Supplier,
    rows_for,
)

ADA = Actor("user", "ada")

Call = Callable[..., Awaitable[Json]]
Query = Callable[..., Awaitable[JsonObject]]
Rows = Callable[..., Awaitable[list[JsonObject]]]
Aggregate = Callable[..., Awaitable[JsonObject]]
Write = Callable[..., Awaitable[None]]

on_sqlite = pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)


@pytest.fixture(params=["sqlite", "postgres"])
def dialect(request: pytest.FixtureRequest) -> str:
    """The database that a test runs on."""
    return request.param


async def fill(url: str) -> None:
    """Make the tables of the shop, with their rows."""
    engine = create_async_engine(url, poolclass=NullPool)
    async with engine.begin() as connection:
        await connection.run_sync(Shop.metadata.create_all)
    async with AsyncSession(engine) as session:
        for rows in rows_for(engine.dialect.name):
            for row in rows:
                await session.merge(row)
            await session.commit()
    await engine.dispose()


@pytest.fixture(scope="session")
def filled(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The shop's database file; made once, since nearly every test needs it."""
    path = tmp_path_factory.mktemp("shop") / "shop.db"
    asyncio.run(fill(f"sqlite+aiosqlite:///{path}"))
    return path.read_bytes()


@pytest.fixture(scope="session")
def filled_url(postgres: Postgres) -> str:
    """The shop on PostgreSQL; made once, for tests that only read."""
    url = postgres.create()
    asyncio.run(fill(url))
    return url


@pytest.fixture
def shop_file(tmp_path: Path, filled: bytes) -> Path:
    path = tmp_path / "shop.db"
    path.write_bytes(filled)
    return path


@pytest.fixture
def file_url(shop_file: Path) -> str:
    """The shop on SQLite, for tests of files."""
    return f"sqlite+aiosqlite:///{shop_file}"


@pytest.fixture
def writable_shop_url(dialect: str, request: pytest.FixtureRequest) -> Generator[str]:
    """The shop in a database of the test's own."""
    if dialect == "sqlite":
        yield request.getfixturevalue("file_url")
        return
    server: Postgres = request.getfixturevalue("postgres")
    url = server.create(database(request.getfixturevalue("filled_url")))
    yield url
    server.drop(url)


@pytest.fixture
def shop_url(dialect: str, request: pytest.FixtureRequest) -> str:
    """The shop, to read; the test's own database if it writes as well."""
    if {"write", "writable_shop_url"} & {*request.fixturenames}:
        return request.getfixturevalue("writable_shop_url")
    return request.getfixturevalue("file_url" if dialect == "sqlite" else "filled_url")


@pytest.fixture
def write(writable_shop_url: str) -> Write:
    """Change rows: ``await write(sa.update(Part).values(stock=1))``, or with a list of rows."""

    async def write(statement: Executable, rows: list[dict[str, object]] | None = None) -> None:
        engine = create_async_engine(writable_shop_url, poolclass=NullPool)
        async with engine.begin() as connection:
            await connection.execute(statement, rows)
        await engine.dispose()

    return write


def exposed() -> Managers:
    """The shop as most tests see it: no payroll, no bank accounts, no costs."""
    managers = Managers()
    managers.expose(Material)
    managers.expose(Part, aliases=("component",), use_when="stock and prices", hide=("cost",))
    managers.expose(Project)
    managers.expose(ProjectPart)
    managers.expose(Supplier, hide=("bank_account",))
    managers.expose(Shelf)
    managers.expose(Box)
    return managers


@pytest.fixture
async def reader(shop_url: str) -> AsyncIterator[Reader]:
    async with Reader(exposed(), database_url=shop_url) as reader:
        yield reader


@pytest.fixture
async def context(reader: Reader) -> ToolContext:
    return ToolContext(ADA, await reader.view(ADA), reader)


@pytest.fixture
def call(context: ToolContext) -> Call:
    """Call a tool: ``await call("query", manager="Part")``."""
    registry = ToolRegistry(data_tools())

    async def call(name: str, **args: Json) -> Json:
        return await registry.call(name, args, context)

    return call


@pytest.fixture
def query(call: Call) -> Query:
    """Query a manager: ``await query("Part", filters={...})`` gives the whole page."""

    async def query(manager: str, **args: Json) -> JsonObject:
        page = await call("query", manager=manager, **args)
        assert isinstance(page, dict)
        return page

    return query


@pytest.fixture
def names(query: Query) -> Callable[..., Awaitable[list[Json]]]:
    """Names of the rows that match: ``await names("Part", price__gt=3)``."""

    async def names(manager: str, **filters: Json) -> list[Json]:
        page = await query(manager, fields=["name"], filters=filters)
        rows = page["data"]
        assert isinstance(rows, list)
        found = [row["name"] for row in rows if isinstance(row, dict)]
        assert page["total_count"] == len(found)
        return found

    return names


@pytest.fixture
def aggregate(call: Call) -> Aggregate:
    """Aggregate a manager: ``await aggregate("Part", group_by=[...])`` gives the whole page."""

    async def aggregate(manager: str, **args: Json) -> JsonObject:
        page = await call("aggregate", manager=manager, **args)
        assert isinstance(page, dict)
        return page

    return aggregate


def measure(op: str, field: str | None = None, key: str | None = None) -> Json:
    asked: JsonObject = {"op": op}
    return asked | ({"field": field} if field else {}) | ({"as": key} if key else {})
