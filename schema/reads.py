"""The databases as this room uses them: open for reads that end in time, checked, and first filled.

A read is one sync function of a ``Connection``, inside one read transaction on a connection that
refuses to write. When its time is up or its caller is cancelled, its statement is ended before the
caller goes on, so nothing runs on unseen. Source: design.md 5; performance.md, last section.
"""

from collections.abc import AsyncGenerator, Callable, Generator, Iterable
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    contextmanager,
)
from pathlib import Path
from typing import Protocol, TypeVar

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.engine import URL, Connection, Dialect, Engine
from sqlalchemy.engine.reflection import ObjectKind
from sqlalchemy.exc import ArgumentError, DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import NullPool

from schema import postgres_reads, sqlite_reads
from schema.errors import ConfigurationError
from schema.faults import blaming
from schema.joins import ONE
from schema.managers import Manager, Managers
from schema.sources import SESSIONS

_PREPARE_WAIT_S = 600
_PREPARE_LOCK = 0x66726F6E74646573
"""The advisory lock that a first fill on PostgreSQL holds."""

_T = TypeVar("_T")


class Reads(Protocol):
    """One database, open for reading."""

    @property
    def dialect(self) -> Dialect:
        """The dialect that statements are compiled for."""
        ...

    async def run(
        self, operation: Callable[[Connection], _T], timeout_seconds: float | None = None
    ) -> _T:
        """Run one read; the time it waits for a connection counts.

        Raises: TimeoutError; DBAPIError, also when the database can't be reached.
        """
        ...


def open_reads(
    url: str, engine: Engine | AsyncEngine | None = None
) -> AbstractAsyncContextManager[Reads]:
    """Open a database for reading; ``engine`` is used in place of one of our own, if it can be.

    Reads of SQLite need a sync engine and those of PostgreSQL an async one on asyncpg; of any other
    engine only the URL counts. Raises: ConfigurationError, also on entry.
    """
    known = known_url(url)
    if postgres_reads.is_postgres(known):
        if isinstance(engine, AsyncEngine) and engine.dialect.driver == "asyncpg":
            return postgres_reads.PostgresReads(engine)
        return postgres_reads.PostgresReads(postgres_reads.read_engine(known))
    if isinstance(engine, Engine):
        return sqlite_reads.SQLiteReads(engine)
    return sqlite_reads.SQLiteReads(sqlite_reads.read_engine(known))


def known_url(text: str) -> URL:
    """Check that a URL names a database that can be read. Raises: ConfigurationError."""
    try:
        url = sa.make_url(text)
    except (ArgumentError, ValueError):
        raise ConfigurationError(
            "E001", "The URL of the database can't be understood.", _URLS
        ) from None
    if postgres_reads.is_postgres(url):
        return url
    if url.get_backend_name() != "sqlite":
        raise ConfigurationError("E001", f"{url.drivername} can't be read.", _URLS)
    if sqlite_reads.is_in_memory(url):
        raise ConfigurationError("E001", "An in-memory database can't be read.", _URLS)
    return url


_URLS = "Give a URL such as sqlite+aiosqlite:///data.db or postgresql+asyncpg://user@host/name."


def _tables(manager: Manager) -> list[sa.Table]:
    """The tables that reads of a manager need: its own and those that link it to others."""
    links = (link.relation.link for link in manager.links.values())
    return [manager.model.table, *(link for link in links if link is not None)]


def check_tables(connection: Connection, managers: Iterable[Manager], where: str) -> None:
    """Check that all that is exposed is in the database, and may be read.

    Raises: ConfigurationError; DBAPIError where a right is missing.
    """
    users = {table: manager.name for manager in managers for table in _tables(manager)}
    there = _columns_there(connection, users)
    for table, manager in users.items():
        names = there.get((table.schema, table.name))
        if names is None:
            raise ConfigurationError(
                "E001",
                f"The table {table.name} of {manager} is missing in {where}.",
                "Create it with your migrations, or give Managers(prepare=...) to fill a new"
                " database.",
            )
        for column in table.columns:
            if column.name not in names:
                raise ConfigurationError(
                    "E001",
                    f"The column {table.name}.{column.name} of {manager} is missing in {where}.",
                    "Run your migrations on this database.",
                )
        connection.execute(sa.select(ONE).select_from(table).where(sa.false()))


def _columns_there(
    connection: Connection, tables: Iterable[sa.Table]
) -> dict[tuple[str | None, str], set[str]]:
    """The columns of those tables and views that exist, with few statements however many."""
    inspector, there = sa.inspect(connection), dict[tuple[str | None, str], set[str]]()
    wanted: dict[str | None, list[str]] = {}
    for table in tables:
        wanted.setdefault(table.schema, []).append(table.name)
    for schema, names in wanted.items():
        found = inspector.get_multi_columns(schema, names, kind=ObjectKind.ANY)
        # A name in other letters is missing here, and yet the same table to SQLite.
        rest = [n for n in names if (schema, n) not in found and inspector.has_table(n, schema)]
        found |= {(schema, name): inspector.get_columns(name, schema) for name in rest}
        there |= {key: {column["name"] for column in columns} for key, columns in found.items()}
    return there


async def prepare_database(managers: Managers, database_url: str) -> bool:
    """Let the project's ``prepare`` fill a fresh database, and tell whether it did.

    Fresh means that none of the exposed tables exists. ``database_url`` is the chat database's, for
    managers without sessions. All of it is one exclusive transaction: a second process waits for it
    and then finds the tables, and a failure leaves nothing behind. Raises: ConfigurationError, also
    for what ``prepare`` raises.
    """
    prepare = managers.prepare
    if prepare is None:
        return False
    urls = managers.urls(database_url)
    url = urls[SESSIONS]
    # A manager with a page function is in no database.
    here = [manager for manager in managers.build() if urls.get(manager.model.database) == url]
    wanted = [table for manager in here for table in _tables(manager)]

    def is_fresh(connection: Connection) -> bool:
        return not _columns_there(connection, wanted)

    async with _alone(known_url(url)) as connection:
        fresh = await connection.run_sync(is_fresh)
        if fresh:
            fix = "Correct it, and start again: nothing of what it did is kept."
            with blaming("E001", "prepare= of Managers() failed", fix):
                await prepare(connection)
        return fresh


@asynccontextmanager
async def _alone(url: URL) -> AsyncGenerator[AsyncConnection]:
    """Begin a transaction that no other process's first fill runs beside."""
    is_postgres = postgres_reads.is_postgres(url)
    engine = postgres_reads.postgres_engine(url, poolclass=NullPool) if is_postgres else _file(url)
    async with AsyncExitStack() as opening:
        opening.push_async_callback(engine.dispose)
        with postgres_reads.connecting(url) if is_postgres else _opening(url):
            connection = await opening.enter_async_context(engine.connect())
            await opening.enter_async_context(connection.begin())
        if is_postgres:
            await connection.exec_driver_sql(f"SET LOCAL lock_timeout = '{_PREPARE_WAIT_S}s'")
            await connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_PREPARE_LOCK})")
        yield connection


def _file(url: URL) -> AsyncEngine:
    """Make an engine on a file, which needs no other to exist than its folder."""
    folder = Path(str(url.database)).parent
    if not str(url.database).startswith("file:") and not folder.is_dir():
        raise ConfigurationError(
            "E001", f"The folder {folder} of the database does not exist.", "Create it."
        )
    engine = create_async_engine(
        url.set(drivername="sqlite+aiosqlite"),
        poolclass=NullPool,
        # Without the driver's own transactions the BEGIN is ours.
        connect_args={"timeout": _PREPARE_WAIT_S, "isolation_level": None},
    )
    event.listen(engine.sync_engine, "begin", _begin_at_once)
    return engine


@contextmanager
def _opening(url: URL) -> Generator[None]:
    """Turn what is wrong with a file into an error of the set-up. Raises: ConfigurationError."""
    try:
        yield
    except DBAPIError as error:
        raise ConfigurationError(
            "E001",
            f"The database {url.database} can't be written: {error.orig}.",
            "Give the URL of a SQLite file that may be written and that no other program locks.",
        ) from error


def _begin_at_once(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE")
