"""The database as this room uses it: reads that can be interrupted, and the first fill.

A read is one sync function of a ``Connection`` that runs in one of a few worker threads, inside one
read transaction on a connection that refuses to write. When its time is up or its caller is
cancelled, the statement is interrupted and the thread waited for, so nothing runs on unseen.
Source: design.md 5; performance.md, last section.
"""

import asyncio
import sqlite3
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from time import monotonic
from typing import Self, TypeVar
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.engine import URL, Connection, Engine
from sqlalchemy.exc import OperationalError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.pool import NullPool

from schema.errors import ConfigurationError
from schema.joins import FOLD
from schema.managers import Manager, Managers
from schema.sources import SESSIONS

_THREADS = 4
_INTERRUPT_EVERY_S = 0.005
_LOCK_WAIT_S = 30
_LOCK_STEP_MS = 50
_PREPARE_WAIT_S = 600

_READY = "frontdesk-read"

_T = TypeVar("_T")


def sqlite_url(text: str) -> URL:
    """Check that a URL names a SQLite file. Raises: ConfigurationError."""
    url = sa.make_url(text)
    path = url.database or ""
    in_memory = (
        path in ("", ":memory:") or "mode=memory" in path or url.query.get("mode") == "memory"
    )
    if url.get_backend_name() != "sqlite" or in_memory:
        what = "An in-memory database" if url.get_backend_name() == "sqlite" else url.drivername
        raise ConfigurationError(
            "E001",
            f"{what} can't be read: SQLite files are what is supported in this version.",
            "Give the sessions an engine such as sqlite+aiosqlite:///data.db.",
        )
    return url


def read_engine(url: URL) -> Engine:
    """Make an engine for reads of a SQLite file, which must exist. Raises: ConfigurationError."""
    path = str(url.database)
    if not path.startswith("file:"):
        if not Path(path).is_file():
            raise ConfigurationError(
                "E001",
                f"The database file {path} does not exist.",
                "Create it with your migrations, or give Managers(prepare=...) to fill a new one.",
            )
        path = f"file:{quote(str(Path(path).resolve()))}?mode=rw"

    def connect() -> sqlite3.Connection:
        return sqlite3.connect(path, uri=True, check_same_thread=False)

    return sa.create_engine(
        "sqlite://", creator=connect, poolclass=sa.QueuePool, pool_size=_THREADS, max_overflow=0
    )


def _driver(connection: Connection) -> sqlite3.Connection:
    """The driver's connection, made fit for reads when it is met for the first time."""
    driver = connection.connection.driver_connection
    if not isinstance(driver, sqlite3.Connection):
        raise TypeError("reads are made on the sqlite3 driver")
    if _READY not in connection.info:
        # Without the driver's own transactions the BEGIN of a read is ours.
        driver.isolation_level = None
        driver.execute("PRAGMA query_only=ON")
        # The driver's wait for a lock can't be interrupted; ours, between steps, can.
        driver.execute(f"PRAGMA busy_timeout={_LOCK_STEP_MS}")
        driver.create_function(FOLD, 1, _fold, deterministic=True)
        connection.info[_READY] = True
    return driver


def _fold(value: str | bytes | float | None) -> str | bytes | float | None:
    return value.casefold() if isinstance(value, str) else value


class _Job:
    """One read in a thread; ``interrupt`` ends its statement, and the ones it would begin."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._lock = Lock()
        self._running: sqlite3.Connection | None = None
        self._stopped = False

    def run(self, operation: Callable[[Connection], _T]) -> _T:
        with self._engine.connect() as connection:
            driver = _driver(connection)
            with self._lock:
                if self._stopped:
                    raise _Stopped
                self._running = driver
            try:
                return self._unlocked(connection, operation)
            finally:
                # From here on the connection may serve another read, which must not be hit.
                with self._lock:
                    self._running = None

    def _unlocked(self, connection: Connection, operation: Callable[[Connection], _T]) -> _T:
        """Run the operation in a transaction, from the start again while another has the lock."""
        patience = monotonic() + _LOCK_WAIT_S
        while True:
            connection.exec_driver_sql("BEGIN")
            try:
                return operation(connection)
            except OperationalError as error:
                if self._stopped or not _is_locked(error) or monotonic() > patience:
                    raise
            connection.rollback()

    def interrupt(self) -> None:
        with self._lock:
            self._stopped = True
            if self._running is not None:
                self._running.interrupt()


def _is_locked(error: OperationalError) -> bool:
    cause = error.orig
    return isinstance(cause, sqlite3.Error) and cause.sqlite_errorcode & 0xFF in _LOCKED


_LOCKED = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


class _Stopped(Exception):
    """The read was given up before it began."""


class Reads:
    """Worker threads over a pool of read connections. An async context manager."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.dialect = engine.dialect
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="frontdesk-read")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._threads.shutdown(wait=True)
        self._engine.dispose()

    async def run(
        self, operation: Callable[[Connection], _T], timeout_seconds: float | None = None
    ) -> _T:
        """Run one read; the time it waits for a thread counts. Raises: TimeoutError."""
        job = _Job(self._engine)
        queued = self._threads.submit(job.run, operation)
        work = asyncio.wrap_future(queued)
        try:
            async with asyncio.timeout(timeout_seconds):
                return await asyncio.shield(work)
        finally:
            if not work.done() and not queued.cancel():
                await _stop(work, job)


async def _stop(work: asyncio.Future[_T], job: _Job) -> None:
    """Interrupt a read until its thread is free; an interrupt between statements has no effect."""
    cancelled: asyncio.CancelledError | None = None
    while not work.done():
        job.interrupt()
        try:
            await asyncio.wait((work,), timeout=_INTERRUPT_EVERY_S)
        except asyncio.CancelledError as error:
            # The thread must end first: the caller may not go on while a statement runs.
            cancelled = error
    if not work.cancelled():
        work.exception()  # It says that the statement was interrupted, which is no news.
    if cancelled is not None:
        raise cancelled


def open_reads(url: str, engine: Engine | AsyncEngine | None) -> Reads:
    """Make the way to read a database; ``engine`` is used instead of one of our own."""
    if isinstance(engine, AsyncEngine):
        raise ConfigurationError("E001", "reads= must be a sync engine.", "Use create_engine.")
    return Reads(engine or read_engine(sqlite_url(url)))


def _tables(manager: Manager) -> list[sa.Table]:
    """The tables that reads of a manager need: its own and those that link it to others."""
    links = (link.relation.link for link in manager.links.values())
    return [manager.model.table, *(link for link in links if link is not None)]


def check_tables(connection: Connection, managers: Iterable[Manager], file: str) -> None:
    """Check that all that is exposed is in the database. Raises: ConfigurationError."""
    there = sa.inspect(connection)
    for manager in managers:
        for table in _tables(manager):
            if not there.has_table(table.name, table.schema):
                raise ConfigurationError(
                    "E001",
                    f"The table {table.name} of {manager.name} is missing in {file}.",
                    "Create it with your migrations, or give Managers(prepare=...) to fill a new"
                    " database.",
                )
            names = {column["name"] for column in there.get_columns(table.name, table.schema)}
            for column in table.columns:
                if column.name not in names:
                    raise ConfigurationError(
                        "E001",
                        f"The column {table.name}.{column.name} of {manager.name} is missing"
                        f" in {file}.",
                        "Run your migrations on this database.",
                    )


async def prepare_database(managers: Managers, database_url: str) -> bool:
    """Let the project's ``prepare`` fill a fresh database, and tell whether it did.

    Fresh means that none of the exposed tables exists. ``database_url`` is the chat database's, for
    managers without sessions. All of it is one exclusive transaction: a second process waits for it
    and then finds the tables, and a failure leaves nothing behind. Raises: ConfigurationError, and
    what ``prepare`` raises.
    """
    prepare = managers.prepare
    if prepare is None:
        return False
    wanted = [table for manager in managers.build() for table in _tables(manager)]

    def is_fresh(connection: Connection) -> bool:
        there = sa.inspect(connection)
        return not any(there.has_table(table.name, table.schema) for table in wanted)

    database_url = managers.urls(database_url)[SESSIONS]
    url = sqlite_url(database_url).set(drivername="sqlite+aiosqlite")
    folder = Path(str(url.database)).parent
    if not str(url.database).startswith("file:") and not folder.is_dir():
        raise ConfigurationError(
            "E001", f"The folder {folder} of the database does not exist.", "Create it."
        )
    engine = create_async_engine(
        url,
        poolclass=NullPool,
        # Without the driver's own transactions the BEGIN is ours.
        connect_args={"timeout": _PREPARE_WAIT_S, "isolation_level": None},
    )
    event.listen(engine.sync_engine, "begin", _begin_at_once)
    try:
        async with engine.begin() as connection:
            fresh = await connection.run_sync(is_fresh)
            if fresh:
                await prepare(connection)
            return fresh
    finally:
        await engine.dispose()


def _begin_at_once(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE")
