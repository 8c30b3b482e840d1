"""Reads of PostgreSQL: nothing runs on unseen, and what is broken is replaced or named."""

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy.dialects.postgresql.asyncpg import PGDialect_asyncpg
from sqlalchemy.engine import Connection
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine

from schema import Managers
from schema.errors import ConfigurationError
from schema.joins import Comparison, Condition, From, Tables
from schema.query import Reader
from schema.reads import Reads, open_reads
from schema.request import QueryRequest
from schema.sqlmodel_source import SQLModelSource
from tests.postgres import Postgres, database
from tests.schema.conftest import ADA, exposed
from tests.schema.shop import Material


@pytest.fixture
def dialect() -> str:
    return "postgres"


@pytest.fixture
async def reads(shop_url: str) -> AsyncIterator[Reads]:
    async with open_reads(shop_url) as reads:
        yield reads


def sleeping(connection: Connection) -> object:
    return connection.exec_driver_sql("SELECT pg_sleep(600)").scalar()


def count(connection: Connection) -> object:
    return connection.exec_driver_sql("SELECT count(*) FROM material").scalar()


def backend(connection: Connection) -> object:
    return connection.exec_driver_sql("SELECT pg_backend_pid()").scalar()


def others(server: Postgres, url: str) -> str:
    """The number of connections to the test's own database that are at work."""
    return server.execute(
        f"SELECT count(*) FROM pg_stat_activity WHERE datname = '{database(url)}'"
        " AND backend_type = 'client backend' AND state <> 'idle'"
    ).strip()


@pytest.mark.covers("H27")
async def test_no_statement_runs_on_when_its_time_is_up(
    postgres: Postgres, writable_shop_url: str, reads: Reads
) -> None:
    for _ in range(3):
        async with asyncio.timeout(10):
            with pytest.raises(TimeoutError):
                await reads.run(sleeping, 0.2)
        assert others(postgres, writable_shop_url) == "0"
    assert await reads.run(count) == 3


@pytest.mark.covers("H27")
async def test_no_statement_runs_on_however_often_its_read_is_cancelled(
    postgres: Postgres, writable_shop_url: str, reads: Reads
) -> None:
    async with asyncio.timeout(30), asyncio.TaskGroup() as group:
        for cancels in range(1, 5):
            task = group.create_task(reads.run(sleeping))
            while await asyncio.to_thread(others, postgres, writable_shop_url) != "1":
                pass
            for _ in range(cancels):
                task.cancel()
                await asyncio.sleep(0)
            await asyncio.wait([task])
            assert task.cancelled()
            assert others(postgres, writable_shop_url) == "0"
    assert await reads.run(count) == 3


async def test_the_server_ends_a_statement_by_itself(
    postgres: Postgres, writable_shop_url: str, reads: Reads
) -> None:
    limits: list[object] = []

    def operation(connection: Connection) -> object:
        limits.append(connection.exec_driver_sql("SHOW statement_timeout").scalar())
        limits.append(connection.exec_driver_sql("SHOW timezone").scalar())
        return limits.append(connection.exec_driver_sql("SHOW transaction_isolation").scalar())

    await reads.run(operation, 7.5)
    await reads.run(operation)
    assert limits == ["7500ms", "UTC", "repeatable read", "0", "UTC", "repeatable read"]
    assert others(postgres, writable_shop_url) == "0"


async def test_all_statements_of_a_read_see_one_state(
    postgres: Postgres, writable_shop_url: str, reads: Reads
) -> None:
    def operation(connection: Connection) -> object:
        before = count(connection)
        postgres.execute("DELETE FROM material WHERE id = 3", database(writable_shop_url))
        return before, count(connection)

    postgres.execute("UPDATE part SET material_id = 1", database(writable_shop_url))
    assert await reads.run(operation) == (3, 3)
    assert await reads.run(count) == 2


async def test_reads_go_on_after_the_server_has_ended_their_connections(
    postgres: Postgres, writable_shop_url: str, reads: Reads
) -> None:
    async with asyncio.TaskGroup() as group:
        before = [group.create_task(reads.run(backend)) for _ in range(4)]
    assert len({task.result() for task in before}) == 4
    others_end = (
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
        f" WHERE datname = '{database(writable_shop_url)}'"
    )
    assert postgres.execute(others_end).strip() == "4"
    assert [await reads.run(count) for _ in range(6)] == [3] * 6


async def test_a_read_whose_connection_breaks_is_done_again_once(
    postgres: Postgres, writable_shop_url: str, reads: Reads
) -> None:
    tried: list[object] = []

    def operation(connection: Connection) -> object:
        tried.append(backend(connection))
        if len(tried) in breaking:
            postgres.execute(f"SELECT pg_terminate_backend({tried[-1]})")
        return count(connection)

    breaking = [1]
    assert await reads.run(operation) == 3
    assert len(tried) == 2
    breaking = [3, 4]
    with pytest.raises(DBAPIError):
        await reads.run(operation)
    assert len(tried) == 4
    assert await reads.run(count) == 3


async def test_a_table_that_changes_under_a_prepared_statement_is_read(
    postgres: Postgres, writable_shop_url: str
) -> None:
    managers = Managers()
    managers.expose(Material)
    async with Reader(managers, database_url=writable_shop_url) as reader:
        view = await reader.view(ADA)
        for kind in ("real", "double precision"):
            assert (await reader.query(QueryRequest("Material"), view))["total_count"] == 3
            change = f"ALTER TABLE material ALTER COLUMN density TYPE {kind}"
            postgres.execute(change, database(writable_shop_url))
        assert (await reader.query(QueryRequest("Material"), view))["total_count"] == 3


@pytest.mark.parametrize(
    "form",
    [
        "postgresql+asyncpg://postgres@/{name}?host={host}",
        "postgresql://postgres@/{name}?host={host}&sslmode=disable&application_name=shop",
        "postgres://postgres@/{name}?host={host}",
        "postgresql+psycopg://postgres@/{name}?host={host}&connect_timeout=5",
    ],
)
async def test_every_form_of_a_url_leads_to_the_same_database(shop_url: str, form: str) -> None:
    host = shop_url.partition("host=")[2]
    url = form.format(name=database(shop_url), host=host)
    async with Reader(exposed(), database_url=url) as reader:
        page = await reader.query(QueryRequest("Material"), await reader.view(ADA))
    assert page["total_count"] == 3


async def test_the_projects_own_sessions_or_engine_say_where_to_read(shop_url: str) -> None:
    engine = create_async_engine(shop_url)
    for options in (Managers(async_sessionmaker(engine)), Managers(reads=engine)):
        options.expose(Material)
        async with Reader(options, database_url="sqlite+aiosqlite:///nowhere.db") as reader:
            page = await reader.query(QueryRequest("Material"), await reader.view(ADA))
            assert page["total_count"] == 3


async def test_what_is_wrong_with_a_database_is_told_without_its_password(
    postgres: Postgres, shop_url: str, tmp_path: Path
) -> None:
    host = shop_url.partition("host=")[2]
    postgres.execute("DROP ROLE IF EXISTS locked_out")
    postgres.execute("CREATE ROLE locked_out NOLOGIN")
    for url, message in {
        f"postgresql://u:secret@/shop?host={tmp_path}": "shop can't be read: .*No such file",
        "postgresql://u:secret@127.0.0.1:1/shop": "The database shop on 127.0.0.1 can't be read",
        "postgresql://u:secret@127.0.0.1:70000/shop": "shop on 127.0.0.1 has a port or options",
        f"postgresql://postgres:secret@/gone?host={host}": 'database "gone" does not exist',
        f"postgresql://locked_out:secret@/postgres?host={host}": '"locked_out" is not permitted',
        f"postgresql+asyncpg://u:secret@/shop?host={host}&sslmode=require": "or options that",
        f"postgresql://postgres:secret@/postgres?host={host}": "table box of Box is missing",
    }.items():
        with pytest.raises(ConfigurationError, match=f"^E001: .*{message}") as refused:
            async with Reader(exposed(), database_url=url):
                pass
        assert "secret" not in str(refused.value)
    postgres.execute("DROP ROLE locked_out")


async def test_a_database_of_another_encoding_is_refused(postgres: Postgres, shop_url: str) -> None:
    postgres.execute("DROP DATABASE IF EXISTS latin")
    postgres.execute("CREATE DATABASE latin TEMPLATE template0 ENCODING 'LATIN1' LOCALE 'C'")
    url = shop_url.replace(database(shop_url), "latin")
    with pytest.raises(ConfigurationError, match=r"database latin keeps texts as LATIN1.*UTF8"):
        async with open_reads(url):
            pass
    postgres.execute("DROP DATABASE latin")


async def test_a_missing_driver_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "asyncpg", None)
    with pytest.raises(ConfigurationError, match=r"^E003: .*pip install 'frontdesk\[postgres\]'"):
        open_reads("postgresql://u@h/shop")


async def test_no_connection_is_held_while_nobody_reads(
    postgres: Postgres, writable_shop_url: str
) -> None:
    engine = create_async_engine(writable_shop_url)
    async with open_reads(writable_shop_url, engine) as reads:
        async with asyncio.TaskGroup() as group:
            for _ in range(20):
                group.create_task(reads.run(count))
        assert others(postgres, writable_shop_url) == "0"
        pool = engine.pool
        assert isinstance(pool, sa.AsyncAdaptedQueuePool)
        assert pool.checkedout() == 0


@pytest.mark.parametrize(
    ("version", "sql"),
    [
        (18, "casefold(t1.name COLLATE pg_unicode_fast) LIKE casefold("),
        (17, "lower(t1.name COLLATE pg_c_utf8) LIKE lower("),
        (16, "lower(t1.name) LIKE lower("),
    ],
)
def test_texts_go_by_code_point_and_without_case_as_well_as_a_server_can(
    version: int, sql: str
) -> None:
    dialect = PGDialect_asyncpg()
    dialect.server_version_info = (version,)
    model = SQLModelSource().describe(Material)
    name = next(column for column in model.columns if column.name == "name")
    rows = From(Tables({Material: model}, {}, dialect), model)

    def where(comparison: Comparison) -> str:
        [clause] = rows.where([Condition((), name, comparison, ("part",))])
        return str(clause.compile(dialect=dialect))

    assert sql in where("icontains")
    assert where("gt") == '(t1.name COLLATE "C") > $1::VARCHAR'
    assert where("exact") == "t1.name = $1::VARCHAR"


async def test_a_table_that_may_not_be_read_stops_the_start(
    postgres: Postgres, writable_shop_url: str
) -> None:
    name = database(writable_shop_url)
    postgres.execute("CREATE ROLE clerk LOGIN")
    postgres.execute("GRANT SELECT ON ALL TABLES IN SCHEMA public TO clerk", name)
    url = writable_shop_url.replace("//postgres@", "//clerk@")
    try:
        async with Reader(exposed(), database_url=url) as reader:
            page = await reader.query(QueryRequest("Part", ["name"]), await reader.view(ADA))
            assert page["total_count"] == 6
        postgres.execute("REVOKE SELECT ON material FROM clerk", name)
        with pytest.raises(ConfigurationError, match="permission denied for table material"):
            async with Reader(exposed(), database_url=url):
                pass
    finally:
        postgres.execute("REVOKE ALL ON ALL TABLES IN SCHEMA public FROM clerk", name)
        postgres.execute("DROP ROLE clerk")
