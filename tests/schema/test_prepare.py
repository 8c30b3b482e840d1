"""A fresh database is filled once, wholly or not at all."""

import asyncio
import multiprocessing
from pathlib import Path

import pytest
from sqlalchemy import inspect, text
from sqlalchemy.ext.asyncio import AsyncConnection, async_sessionmaker, create_async_engine

from schema import Managers
from schema.errors import ConfigurationError
from schema.query import Reader
from schema.reads import prepare_database
from schema.request import QueryRequest
from tests.schema.conftest import ADA
from tests.schema.ledger import Balance, Ledger
from tests.schema.shop import Material, Part, Project, Shop


async def fill(connection: AsyncConnection) -> None:
    await connection.run_sync(Shop.metadata.create_all)
    rows = [{"n": f"Material {n}"} for n in range(500)]
    await connection.execute(text("INSERT INTO material (name) VALUES (:n)"), rows)


def shop() -> Managers:
    managers = Managers(prepare=fill)
    managers.expose(Material)
    managers.expose(Project)
    managers.expose(Part)
    return managers


@pytest.fixture
def new_url(dialect: str, tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """A database without a table."""
    if dialect == "sqlite":
        return f"sqlite+aiosqlite:///{tmp_path / 'new.db'}"
    return request.getfixturevalue("postgres_url")


async def run(url: str, statement: str) -> list[tuple[object, ...]]:
    engine = create_async_engine(url)
    async with engine.begin() as connection:
        found = await connection.exec_driver_sql(statement)
        rows = [tuple(row) for row in found] if found.returns_rows else []
    await engine.dispose()
    return rows


async def tables(url: str) -> list[str]:
    engine = create_async_engine(url)
    async with engine.connect() as connection:
        found = await connection.run_sync(lambda c: inspect(c).get_table_names())
    await engine.dispose()
    return found


async def test_a_manager_without_a_table_is_no_matter_of_the_fill(new_url: str) -> None:
    managers = shop()
    managers.expose(Balance, page=Ledger().balances)
    assert await prepare_database(managers, new_url) is True
    assert await prepare_database(managers, new_url) is False


async def test_a_fresh_database_is_filled_and_then_left_alone(new_url: str) -> None:
    assert await prepare_database(shop(), new_url) is True
    assert await prepare_database(shop(), new_url) is False
    async with Reader(shop(), database_url=new_url) as reader:
        page = await reader.query(QueryRequest("Material"), await reader.view(ADA))
        assert page["total_count"] == 500


async def test_only_one_of_many_tasks_fills_it(new_url: str) -> None:
    async with asyncio.timeout(30), asyncio.TaskGroup() as group:
        tasks = [group.create_task(prepare_database(shop(), new_url)) for _ in range(4)]
    assert sorted(task.result() for task in tasks) == [False, False, False, True]


def _fill_in_a_process(database_url: str) -> bool:
    return asyncio.run(prepare_database(shop(), database_url))


async def test_only_one_of_two_processes_fills_it(new_url: str) -> None:
    context = multiprocessing.get_context("spawn")
    with context.Pool(2) as pool:
        work = pool.map_async(_fill_in_a_process, [new_url] * 2)
        results = await asyncio.to_thread(work.get, 60)
    assert sorted(results) == [False, True]
    assert await run(new_url, "SELECT count(*) FROM material") == [(500,)]


async def test_a_failure_leaves_nothing_behind(new_url: str) -> None:
    async def break_off(connection: AsyncConnection) -> None:
        await fill(connection)
        raise LookupError("no file to load")

    managers = Managers(prepare=break_off)
    managers.expose(Material)
    with pytest.raises(ConfigurationError, match=r"LookupError: no file to load, in .* line"):
        await prepare_database(managers, new_url)
    assert await tables(new_url) == []
    assert await prepare_database(shop(), new_url) is True


async def test_a_database_with_any_exposed_table_is_not_fresh(new_url: str) -> None:
    await run(new_url, "CREATE TABLE project_part (id INTEGER)")
    assert await prepare_database(shop(), new_url) is False


async def test_other_tables_do_not_matter(new_url: str) -> None:
    await run(new_url, "CREATE TABLE chat_run (id INTEGER)")
    assert await prepare_database(shop(), new_url) is True


async def test_the_sessions_say_which_database_is_filled(new_url: str) -> None:
    managers = Managers(async_sessionmaker(create_async_engine(new_url)), prepare=fill)
    managers.expose(Material)
    assert await prepare_database(managers, "sqlite+aiosqlite:///nowhere/chat.db") is True
    assert "material" in await tables(new_url)


async def test_without_prepare_nothing_is_touched(new_url: str) -> None:
    managers = Managers()
    managers.expose(Material)
    assert await prepare_database(managers, new_url) is False
    assert await tables(new_url) == []


async def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"The folder .*/deep of the database does not"):
        await prepare_database(shop(), f"sqlite+aiosqlite:///{tmp_path}/deep/new.db")


async def test_a_server_that_is_not_there_is_named(tmp_path: Path) -> None:
    nowhere = f"postgresql+asyncpg://u:secret@/shop?host={tmp_path}"
    with pytest.raises(ConfigurationError, match=r"^E001: The database shop can't be") as refused:
        await prepare_database(shop(), nowhere)
    assert "secret" not in str(refused.value)
