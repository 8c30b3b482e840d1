"""The shop on a SQLite file, opened for reading, and the tools that read it."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session

from schema import Managers, ToolContext
from schema.events import Actor, Json, JsonObject
from schema.query import Reader
from schema.tools import ToolRegistry, data_tools
from tests.schema.shop import (
    ROWS,
    Box,
    Material,
    Part,
    Project,
    ProjectPart,
    Shelf,
    Shop,
    Supplier,
)

ADA = Actor("user", "ada")

Call = Callable[..., Awaitable[Json]]
Rows = Callable[..., Awaitable[list[JsonObject]]]


@pytest.fixture(scope="session")
def filled(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The shop's database file; made once, since nearly every test needs it."""
    path = tmp_path_factory.mktemp("shop") / "shop.db"
    engine = sa.create_engine(f"sqlite:///{path}")
    Shop.metadata.create_all(engine)
    with Session(engine) as session:
        for rows in ROWS:
            for row in rows:
                session.merge(row)
            session.commit()
    engine.dispose()
    return path.read_bytes()


@pytest.fixture
def shop_file(tmp_path: Path, filled: bytes) -> Path:
    path = tmp_path / "shop.db"
    path.write_bytes(filled)
    return path


@pytest.fixture
def shop_url(shop_file: Path) -> str:
    return f"sqlite+aiosqlite:///{shop_file}"


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
def query(call: Call) -> Callable[..., Awaitable[JsonObject]]:
    """Query a manager: ``await query("Part", filters={...})`` gives the whole page."""

    async def query(manager: str, **args: Json) -> JsonObject:
        page = await call("query", manager=manager, **args)
        assert isinstance(page, dict)
        return page

    return query


@pytest.fixture
def names(query: Callable[..., Awaitable[JsonObject]]) -> Callable[..., Awaitable[list[Json]]]:
    """Names of the rows that match: ``await names("Part", price__gt=3)``."""

    async def names(manager: str, **filters: Json) -> list[Json]:
        page = await query(manager, fields=["name"], filters=filters)
        rows = page["data"]
        assert isinstance(rows, list)
        found = [row["name"] for row in rows if isinstance(row, dict)]
        assert page["total_count"] == len(found)
        return found

    return names
