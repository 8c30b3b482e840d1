"""The chat database in a SQLite file: one writing thread for everybody, and a few reading ones.

SQLite has one write lock. Connections that compete for it sleep in turns, so a process writes
through one thread with one connection, and what waits while a commit is under way goes into the
next one. Source: design.md 3 and 9.
"""

import asyncio
import logging
import sqlite3
import threading
from asyncio import AbstractEventLoop
from collections.abc import AsyncGenerator, Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Self, cast

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.dialects import sqlite

from app.database import (
    NO_VALUES,
    Command,
    DatabaseFailed,
    Job,
    Pending,
    Query,
    Row,
    T,
    UtcDateTime,
    Values,
)
from schema.errors import ConfigurationError

_log = logging.getLogger(__name__)

_READERS = 2
_BUSY_SLICE_MS = 1_000
"""How long SQLite waits for a lock before we get to say so and try again."""
_ALTER_WAIT_S = 30


# --- statements -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Sql:
    """A statement's text, and which of its parameters, and columns by number, are moments."""

    text: str
    moments: tuple[str, ...]
    columns: tuple[int, ...]

    def bind(self, values: Values) -> Values:
        """Write moments as the tables keep them."""
        if not self.moments:
            return values
        return {**values, **{name: _stamp(values[name]) for name in self.moments}}

    def row(self, row: Row) -> Row:
        """Read the moments of a row."""
        cells = [*row]
        for column in self.columns:
            cells[column] = _moment(cells[column])
        return cast("Row", tuple(cells))  # the query says what its rows hold


@cache
def _compiled(statement: Query[Row] | Command) -> _Sql:
    core, dialect = statement.core, sqlite.dialect(paramstyle="named")
    compiled = dialect.statement_compiler(dialect, core)
    columns = core.selected_columns if isinstance(core, sa.Select) else ()
    return _Sql(
        str(compiled),
        tuple(name for name, bind in compiled.binds.items() if isinstance(bind.type, UtcDateTime)),
        tuple(n for n, column in enumerate(columns) if isinstance(column.type, UtcDateTime)),
    )


def _stamp(moment: object) -> str | None:
    """Write a moment in UTC with microseconds, so that the texts compare."""
    if not isinstance(moment, datetime):
        return None
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(" ", "microseconds")


def _moment(text: object) -> datetime | None:
    return datetime.fromisoformat(text).replace(tzinfo=UTC) if isinstance(text, str) else None


class _Connection:
    """A connection as jobs have it. They never commit."""

    def __init__(self, driver: sqlite3.Connection) -> None:
        self._driver = driver

    def read(self, query: Query[Row], values: Values = NO_VALUES) -> list[Row]:
        sql = _compiled(query)
        try:
            rows: list[Row] = self._driver.execute(sql.text, sql.bind(values)).fetchall()
        except sqlite3.Error as error:
            raise _failed(error) from error
        return [sql.row(row) for row in rows] if sql.columns else rows

    def write(self, command: Command, values: Values = NO_VALUES) -> int:
        sql = _compiled(command)
        try:
            return self._driver.execute(sql.text, sql.bind(values)).rowcount
        except sqlite3.Error as error:
            raise _failed(error) from error

    def write_all(self, command: Command, rows: Sequence[Values]) -> None:
        sql = _compiled(command)
        try:
            self._driver.executemany(sql.text, [sql.bind(values) for values in rows])
        except sqlite3.Error as error:
            raise _failed(error) from error


def _failed(error: sqlite3.Error) -> DatabaseFailed:
    return DatabaseFailed(str(error))


# --- writing --------------------------------------------------------------------------------------


class _Writing:
    """The one writing connection of a process, in a thread of its own.

    The write lock is waited for up to ``patience_s``.
    """

    def __init__(self, path: Path, patience_s: float) -> None:
        self._path, self._patience_s = path, patience_s
        self._queue: SimpleQueue[list[Pending]] = SimpleQueue()

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        opened: asyncio.Future[None] = self._loop.create_future()
        self._stopped: asyncio.Future[None] = self._loop.create_future()
        # A daemon, so that an interpreter that ends without closing us does not wait for ever.
        threading.Thread(
            target=self._work, args=(opened,), name="frontdesk-writer", daemon=True
        ).start()
        await opened
        return self

    async def __aexit__(self, *_: object) -> None:
        self.put([])
        await self._stopped

    def put(self, jobs: list[Pending]) -> None:
        """Hand jobs over to the thread; none is the sign to stop."""
        self._queue.put(jobs)

    # --- in the thread ----------------------------------------------------------------------------

    def _work(self, opened: asyncio.Future[None]) -> None:
        try:
            driver = _open_for_writing(self._path, self._patience_s)
        except sqlite3.Error as error:
            self._loop.call_soon_threadsafe(opened.set_exception, _failed(error))
            return
        self._loop.call_soon_threadsafe(opened.set_result, None)
        is_open = True
        while is_open:
            jobs, is_open = self._next()
            _commit(driver, jobs, self._patience_s)
            _settle_soon(self._loop, jobs)
        driver.close()
        self._loop.call_soon_threadsafe(self._stopped.set_result, None)

    def _next(self) -> tuple[list[Pending], bool]:
        """Wait for jobs, and take all there are. An empty batch is the sign to stop."""
        jobs: list[Pending] = []
        batch = self._queue.get()
        while batch:
            jobs += batch
            try:
                batch = self._queue.get_nowait()
            except Empty:
                return jobs, True
        return jobs, False


def _settle_soon(loop: AbstractEventLoop, jobs: Sequence[Pending]) -> None:
    def settle() -> None:
        for job in jobs:
            loop.call_soon(job.settle)  # each on its own, whatever another one's owner does

    loop.call_soon_threadsafe(settle)


def _commit(driver: sqlite3.Connection, jobs: Sequence[Pending], patience_s: float) -> None:
    """Run jobs in one transaction. If it can't begin or commit, all of them have failed."""
    if not jobs:
        return
    try:
        _transact(driver, jobs, patience_s)
    except Exception as error:
        if driver.in_transaction:
            with suppress(sqlite3.Error):
                driver.execute("ROLLBACK")
        for job in jobs:
            job.error = job.error or error


def _transact(driver: sqlite3.Connection, jobs: Sequence[Pending], patience_s: float) -> None:
    connection = _Connection(driver)
    try:
        _begin(driver, patience_s)
        for job in jobs:
            _run_in_savepoint(driver, connection, job)
        driver.execute("COMMIT")
    except sqlite3.Error as error:
        raise _failed(error) from error


def _run_in_savepoint(driver: sqlite3.Connection, connection: _Connection, job: Pending) -> None:
    driver.execute("SAVEPOINT job")
    try:
        job.run(connection)
    except Exception as error:
        job.error = error
        if not driver.in_transaction:
            # A full disk and the like: SQLite itself has rolled back what the others did.
            raise
        driver.execute("ROLLBACK TO job")
    driver.execute("RELEASE job")


def _begin(driver: sqlite3.Connection, patience_s: float) -> None:
    """Take the write lock before anything is read: a lock taken later fails without waiting."""
    _patiently(lambda: driver.execute("BEGIN IMMEDIATE"), patience_s)


def _patiently(attempt: Callable[[], object], patience_s: float) -> None:
    """Try until the database is free; say so once a second has gone by."""
    started = monotonic()
    while True:
        try:
            attempt()
            return
        except sqlite3.OperationalError as error:
            waited = monotonic() - started
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or waited >= patience_s:
                raise
            _log.warning("Waiting for the write lock of the chat database since %.1f s.", waited)


def _open_for_writing(path: Path, patience_s: float) -> sqlite3.Connection:
    driver = _connect(path, min(_BUSY_SLICE_MS, int(patience_s * 1000)))
    _patiently(lambda: driver.execute("PRAGMA journal_mode = WAL").fetchone(), patience_s)
    driver.execute("PRAGMA synchronous = FULL")
    return driver


def _connect(path: Path, busy_ms: int) -> sqlite3.Connection:
    """Open an existing file; transactions are begun by hand."""
    driver = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    driver.execute(f"PRAGMA busy_timeout = {busy_ms}")
    driver.execute("PRAGMA foreign_keys = ON")
    return driver


# --- reading --------------------------------------------------------------------------------------


class _Reading:
    """A few threads with a reading connection each. A read sees one snapshot from start to end."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._pool = ThreadPoolExecutor(_READERS, thread_name_prefix="frontdesk-reader")
        self._mine = threading.local()
        self._drivers: list[sqlite3.Connection] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self._pool.shutdown)
        for driver in self._drivers:
            driver.close()

    async def run(self, query: Job[T]) -> T:
        """Run a query off the event loop."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._query, query)

    def _query(self, query: Job[T]) -> T:
        try:
            driver = self._driver()
            driver.execute("BEGIN")
            try:
                return query(_Connection(driver))
            finally:
                driver.execute("ROLLBACK")
        except sqlite3.Error as error:
            raise _failed(error) from error

    def _driver(self) -> sqlite3.Connection:
        mine: sqlite3.Connection | None = self._mine.__dict__.get("driver")
        if mine is None:
            mine = _connect(self._path, 5 * _BUSY_SLICE_MS)
            mine.execute("PRAGMA query_only = ON")
            self._drivers.append(mine)
            self._mine.driver = mine
        return mine


# --- the file -------------------------------------------------------------------------------------


class _Database:
    """The opened file."""

    def __init__(self, writing: _Writing, reading: _Reading) -> None:
        self.commit, self.read = writing.put, reading.run


@dataclass(frozen=True, slots=True)
class SqliteFile:
    """A chat database in a file."""

    path: Path

    @property
    def remedy(self) -> str:
        """What to do when the tables can't be made."""
        return "Set FRONTDESK_DATABASE_URL to a SQLite file that can be written."

    def __str__(self) -> str:
        return str(self.path)

    @asynccontextmanager
    async def open(self, *, patience_s: float) -> AsyncGenerator[_Database]:
        """Open the file, which exists. Raises: DatabaseFailed."""
        async with _Reading(self.path) as reading, _Writing(self.path, patience_s) as writing:
            yield _Database(writing, reading)

    async def revision(self, tables: Collection[str], version_table: str) -> str | None:
        """Read the revision; None when the file, or one of the tables, does not exist."""
        return await asyncio.to_thread(self._revision, tables, version_table)

    def _revision(self, tables: Collection[str], version_table: str) -> str | None:
        if not self.path.is_file():
            return None
        uri = f"{self.path.absolute().as_uri()}?mode=ro"
        try:
            with closing(sqlite3.connect(uri, uri=True)) as driver:
                rows = driver.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
                if not {*tables, version_table} <= {name for (name,) in rows}:
                    return None
                row = driver.execute(f"SELECT version_num FROM {version_table}").fetchone()
                return None if row is None else str(row[0])
        except sqlite3.DatabaseError as error:
            raise ConfigurationError(
                "E002",
                f"The chat database {self} can't be read: {error}.",
                "Set FRONTDESK_DATABASE_URL to a SQLite file.",
            ) from error

    def alter(self, work: Callable[[sa.Connection], None]) -> None:
        """Run migrations, creating the file if need be."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        engine = sa.create_engine(
            sa.URL.create("sqlite", database=str(self.path)),
            connect_args={"timeout": _ALTER_WAIT_S, "isolation_level": None},
            poolclass=sa.NullPool,
        )

        def begin(connection: sa.Connection) -> None:
            # The lock is taken before the revision is read, so the second process finds the work
            # done.
            connection.exec_driver_sql("BEGIN IMMEDIATE")

        def prepare(driver: sqlite3.Connection, _record: object) -> None:
            driver.execute("PRAGMA journal_mode = WAL").close()

        event.listen(engine, "begin", begin)
        event.listen(engine, "connect", prepare)
        with engine.begin() as connection:
            work(connection)
        engine.dispose()
