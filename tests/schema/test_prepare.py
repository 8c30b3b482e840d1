"""A fresh database is filled once, wholly or not at all."""

import asyncio
import multiprocessing
import sqlite3
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection, async_sessionmaker, create_async_engine

from schema import Managers
from schema.errors import ConfigurationError
from schema.query import QueryRequest, Reader
from schema.reads import prepare_database
from tests.schema.conftest import ADA
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


def url(path: Path) -> str:
    return f"sqlite+aiosqlite:///{path / 'new.db'}"


async def test_a_fresh_database_is_filled_and_then_left_alone(tmp_path: Path) -> None:
    assert await prepare_database(shop(), url(tmp_path)) is True
    assert await prepare_database(shop(), url(tmp_path)) is False
    async with Reader(shop(), database_url=url(tmp_path)) as reader:
        page = await reader.query(QueryRequest("Material"), await reader.view(ADA))
        assert page["total_count"] == 500


async def test_only_one_of_many_tasks_fills_it(tmp_path: Path) -> None:
    async with asyncio.timeout(30), asyncio.TaskGroup() as group:
        tasks = [group.create_task(prepare_database(shop(), url(tmp_path))) for _ in range(4)]
    assert sorted(task.result() for task in tasks) == [False, False, False, True]


def _fill_in_a_process(database_url: str) -> bool:
    return asyncio.run(prepare_database(shop(), database_url))


async def test_only_one_of_two_processes_fills_it(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    with context.Pool(2) as pool:
        work = pool.map_async(_fill_in_a_process, [url(tmp_path)] * 2)
        results = await asyncio.to_thread(work.get, 60)
    assert sorted(results) == [False, True]
    with sqlite3.connect(tmp_path / "new.db") as connection:
        assert connection.execute("SELECT count(*) FROM material").fetchone() == (500,)


async def test_a_failure_leaves_nothing_behind(tmp_path: Path) -> None:
    async def break_off(connection: AsyncConnection) -> None:
        await fill(connection)
        raise LookupError("no file to load")

    managers = Managers(prepare=break_off)
    managers.expose(Material)
    with pytest.raises(LookupError, match="no file to load"):
        await prepare_database(managers, url(tmp_path))
    with sqlite3.connect(tmp_path / "new.db") as connection:
        assert connection.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,)
    assert await prepare_database(shop(), url(tmp_path)) is True


async def test_a_database_with_any_exposed_table_is_not_fresh(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "new.db") as connection:
        connection.execute("CREATE TABLE project_part (id INTEGER)")
    assert await prepare_database(shop(), url(tmp_path)) is False


async def test_other_tables_do_not_matter(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "new.db") as connection:
        connection.execute("CREATE TABLE chat_run (id INTEGER)")
    assert await prepare_database(shop(), url(tmp_path)) is True


async def test_the_sessions_say_which_database_is_filled(tmp_path: Path) -> None:
    managers = Managers(async_sessionmaker(create_async_engine(url(tmp_path))), prepare=fill)
    managers.expose(Material)
    assert await prepare_database(managers, "sqlite+aiosqlite:///nowhere/chat.db") is True
    assert (tmp_path / "new.db").is_file()


async def test_without_prepare_nothing_is_touched(tmp_path: Path) -> None:
    managers = Managers()
    managers.expose(Material)
    assert await prepare_database(managers, url(tmp_path)) is False
    assert not (tmp_path / "new.db").exists()


async def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"The folder .*/deep of the database does not"):
        await prepare_database(shop(), url(tmp_path / "deep"))
