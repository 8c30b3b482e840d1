"""Reads end in time, leave nothing running, never write, and say at start-up what is missing."""

import asyncio
import sqlite3
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Connection
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine
from sqlalchemy.orm import registry
from sqlmodel import Field, SQLModel

from schema import Managers, ToolFailed
from schema.errors import ConfigurationError
from schema.query import Reader
from schema.reads import Reads, open_reads
from schema.request import QueryRequest
from tests.schema.conftest import ADA, Write, exposed, on_sqlite
from tests.schema.shop import Material

ENDLESS = {
    "sqlite": "WITH RECURSIVE n(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n) SELECT id FROM n",
    "postgresql": "SELECT 1 AS id FROM pg_sleep(600)",
}
ENDLESS["postgres"] = ENDLESS["postgresql"]


class Views(SQLModel, registry=registry(metadata=sa.MetaData())):
    pass


class Endless(Views, table=True):
    """A view without end."""

    id: int = Field(primary_key=True)


@pytest.fixture
async def endless_url(dialect: str, writable_shop_url: str, write: Write) -> str:
    await write(sa.text(f"CREATE VIEW endless AS {ENDLESS[dialect]}"))
    return writable_shop_url


@pytest.fixture
async def reads(shop_url: str) -> AsyncIterator[Reads]:
    async with open_reads(shop_url) as reads:
        yield reads


def endless(connection: Connection) -> object:
    sql = f"SELECT count(*) FROM ({ENDLESS[connection.dialect.name]}) AS endless"
    return connection.exec_driver_sql(sql).fetchone()


def count(connection: Connection) -> object:
    return connection.exec_driver_sql("SELECT count(*) FROM material").scalar()


async def test_a_query_past_its_time_is_interrupted(endless_url: str) -> None:
    managers = Managers()
    managers.expose(Endless)
    managers.expose(Material)
    async with (
        asyncio.timeout(10),
        Reader(managers, database_url=endless_url, query_timeout_seconds=0.2) as reader,
    ):
        view = await reader.view(ADA)
        with pytest.raises(ToolFailed, match=r"longer than 0\.2 seconds and was stopped"):
            await reader.query(QueryRequest("Endless", order_by=["-id"]), view)
        page = await reader.query(QueryRequest("Material"), view)
        assert page["total_count"] == 3


async def test_waiting_for_a_thread_counts_as_time(reads: Reads) -> None:
    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        slow = [group.create_task(reads.run(endless)) for _ in range(4)]
        await asyncio.sleep(0)
        with pytest.raises(TimeoutError):
            await reads.run(count, 0.1)
        for task in slow:
            task.cancel()
    assert await reads.run(count) == 3


@pytest.mark.covers("H27")
async def test_a_cancelled_read_leaves_no_statement_running(reads: Reads) -> None:
    running = asyncio.Event()
    ended: list[float] = []
    loop = asyncio.get_running_loop()

    def operation(connection: Connection) -> object:
        loop.call_soon_threadsafe(running.set)
        try:
            return endless(connection)
        finally:
            ended.append(time.monotonic())

    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        task = group.create_task(reads.run(operation))
        await running.wait()
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        assert len(ended) == 1
        assert ended[0] <= time.monotonic()
    assert await reads.run(count) == 3


@pytest.mark.covers("H27")
async def test_a_read_that_is_cancelled_again_and_again_still_ends_first(reads: Reads) -> None:
    ended: list[int] = []

    def operation(connection: Connection) -> object:
        try:
            return endless(connection)
        finally:
            ended.append(1)

    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        for cancels in range(1, 9):
            task = group.create_task(reads.run(operation))
            await asyncio.sleep(0.002 * cancels)
            for _ in range(cancels):
                task.cancel()
                await asyncio.sleep(0)
            await asyncio.wait([task])
            assert task.cancelled()
    assert len(ended) <= 8
    assert [await reads.run(count) for _ in range(8)] == [3] * 8


@pytest.mark.covers("H27")
async def test_a_cancellation_is_heard_while_a_read_past_its_time_ends(reads: Reads) -> None:
    loop = asyncio.get_running_loop()

    def operation(connection: Connection) -> object:
        try:
            return endless(connection)
        finally:
            loop.call_soon_threadsafe(task.cancel)

    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        task = group.create_task(reads.run(operation, 0.1))
        await asyncio.wait([task])
        assert task.cancelled()
    assert await reads.run(count) == 3


@pytest.mark.covers("H27")
async def test_a_failing_read_beside_slow_ones_stops_them(reads: Reads) -> None:
    def failing(connection: Connection) -> object:
        return connection.exec_driver_sql("SELECT nowhere").scalar()

    async def both() -> None:
        async with asyncio.TaskGroup() as group:
            for operation in (failing, endless, endless):
                group.create_task(reads.run(operation))

    async with asyncio.timeout(10):
        with pytest.raises(ExceptionGroup) as failed:
            await both()
    assert failed.group_contains(DBAPIError, match="no such column|does not exist")
    assert [await reads.run(count) for _ in range(4)] == [3] * 4


async def test_a_read_can_not_write(reads: Reads) -> None:
    def write(connection: Connection) -> object:
        return connection.exec_driver_sql("DELETE FROM material")

    with pytest.raises(DBAPIError, match=r"readonly|read-only"):
        await reads.run(write)


@on_sqlite
async def test_all_statements_of_a_read_see_one_state(shop_file: Path, reads: Reads) -> None:
    with sqlite3.connect(shop_file) as setup:
        setup.execute("PRAGMA journal_mode=WAL")

    def operation(connection: Connection) -> object:
        before = count(connection)
        with sqlite3.connect(shop_file) as writer:
            writer.execute("DELETE FROM material WHERE id = 1")
        return before, count(connection)

    assert await reads.run(operation) == (3, 3)
    assert await reads.run(count) == 2


async def test_the_loop_stays_responsive_while_reads_run(reads: Reads) -> None:
    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        task = group.create_task(reads.run(endless))
        gaps: list[float] = []
        for _ in range(20):
            start = time.monotonic()
            await asyncio.sleep(0.001)
            gaps.append(time.monotonic() - start)
        task.cancel()
    assert sorted(gaps)[10] < 0.25


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("sqlite+aiosqlite://", "An in-memory database can't be read. Give a URL such as sqlite"),
        ("sqlite+aiosqlite:///:memory:", "An in-memory database can't be read"),
        ("sqlite+aiosqlite:///file:x?mode=memory&uri=true", "An in-memory database can't be read"),
        ("mysql+asyncmy://u:secret@h/db", r"mysql\+asyncmy can't be read. Give a URL such as"),
        ("u:secret@h/db", "The URL of the database can't be understood. Give a URL such as"),
        ("postgresql://u:secret@h:port/db", "The URL of the database can't be understood."),
        ("sqlite+aiosqlite:///nowhere.db", "The database file nowhere.db does not exist. Create"),
    ],
)
async def test_a_database_that_can_not_be_read_is_named(url: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^E001: {message}") as refused:
        async with Reader(exposed(), database_url=url):
            pass
    assert "secret" not in str(refused.value)


async def test_a_missing_table_or_column_is_named_with_its_manager(
    writable_shop_url: str, write: Write
) -> None:
    await write(sa.text("ALTER TABLE part RENAME COLUMN stock TO amount"))
    with pytest.raises(ConfigurationError, match=r"column part.stock of Part is missing.*migrat"):
        async with Reader(exposed(), database_url=writable_shop_url):
            pass
    await write(sa.text("ALTER TABLE material RENAME TO materials"))
    with pytest.raises(ConfigurationError, match=r"table material of Material is missing.*prepare"):
        async with Reader(exposed(), database_url=writable_shop_url):
            pass


async def test_the_projects_own_sessions_or_engine_say_where_to_read(
    shop_file: Path, file_url: str
) -> None:
    engine = create_async_engine(file_url)
    nowhere = "sqlite+aiosqlite:///nowhere.db"
    for options in (
        Managers(async_sessionmaker(engine)),
        Managers(reads=sa.create_engine(f"sqlite:///{shop_file}")),
        Managers(
            async_sessionmaker(
                create_async_engine(f"sqlite+aiosqlite:///file:{shop_file}?mode=ro&uri=true")
            )
        ),
    ):
        options.expose(Material)
        async with Reader(options, database_url=nowhere) as reader:
            page = await reader.query(QueryRequest("Material"), await reader.view(ADA))
            assert page["total_count"] == 3


@on_sqlite
async def test_a_read_that_waits_for_a_lock_can_be_stopped(shop_file: Path, reads: Reads) -> None:
    locker = sqlite3.connect(shop_file, isolation_level=None)
    locker.execute("BEGIN EXCLUSIVE")
    start = time.monotonic()
    with pytest.raises(TimeoutError):
        await reads.run(count, 0.2)
    assert time.monotonic() - start < 5
    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        waiting = group.create_task(reads.run(count))
        with pytest.raises(TimeoutError):
            await reads.run(count, 0.2)
        locker.execute("ROLLBACK")
    locker.close()
    assert waiting.result() == 3


@pytest.fixture
def junk_url(tmp_path: Path) -> str:
    (tmp_path / "shop.db").write_bytes(b"not a database " * 100)
    return f"sqlite+aiosqlite:///{tmp_path / 'shop.db'}"


async def test_a_file_that_is_no_database_is_named(junk_url: str) -> None:
    with pytest.raises(ConfigurationError, match=r"^E001: The database .*/shop\.db can't be read"):
        async with Reader(exposed(), database_url=junk_url):
            pass


async def test_a_broken_table_fails_without_its_details(
    writable_shop_url: str, write: Write, caplog: pytest.LogCaptureFixture
) -> None:
    async with Reader(exposed(), database_url=writable_shop_url) as reader:
        view = await reader.view(ADA)
        await write(sa.text("DROP TABLE box"))
        with pytest.raises(ToolFailed, match=r"^The database could not answer this query\.$"):
            await reader.query(QueryRequest("Box"), view)
    assert "no such table" in caplog.text or '"box" does not exist' in caplog.text


async def test_a_table_is_found_in_other_letters_where_the_database_finds_it(
    shop_file: Path, file_url: str
) -> None:
    with sqlite3.connect(shop_file) as writer:
        writer.execute("ALTER TABLE material RENAME TO materials")
        writer.execute("ALTER TABLE materials RENAME TO Material")
    managers = Managers()
    managers.expose(Material)
    async with Reader(managers, database_url=file_url) as reader:
        page = await reader.query(QueryRequest("Material"), await reader.view(ADA))
    assert page["total_count"] == 3
