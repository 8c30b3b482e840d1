"""Reads of SQLite files: worker threads over a small pool of connections that refuse to write.

When a read is given up, its statement is interrupted and its thread waited for.
"""

import asyncio
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal, InvalidOperation
from pathlib import Path
from threading import Lock
from time import monotonic
from typing import Self, TypeVar
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy.engine import URL, Connection, Engine
from sqlalchemy.exc import OperationalError

from schema.errors import ConfigurationError
from schema.exact import provide
from schema.joins import DECIMAL, FOLD

_THREADS = 4
_INTERRUPT_EVERY_S = 0.005
_LOCK_WAIT_S = 30
_LOCK_STEP_MS = 50

_READY = "frontdesk-read"
_UNDECODABLE = "Could not decode to UTF-8"
"""How the driver's error about a broken text begins; it has no code of its own."""

_T = TypeVar("_T")


def is_in_memory(url: URL) -> bool:
    """Tell whether a URL of SQLite names no file, so that no two connections see the same data."""
    path = url.database or ""
    return path in ("", ":memory:") or "mode=memory" in path or url.query.get("mode") == "memory"


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
        driver.create_collation(DECIMAL, _by_number)
        provide(driver)
        connection.info[_READY] = True
    return driver


def _fold(text: bytes | None) -> str | None:
    return None if text is None else text.decode(errors="replace").casefold()


def _text_or_bytes(stored: bytes) -> str | bytes:
    """Read a text; the driver reads texts faster by itself, but gives up on one that is broken."""
    try:
        return stored.decode()
    except UnicodeDecodeError:
        return stored


def _by_number(one: str, other: str) -> int:
    """Compare texts of numbers; other texts come after them."""
    a, b = _number_first(one), _number_first(other)
    return (a > b) - (a < b)


def _number_first(text: str) -> tuple[bool, Decimal, str]:
    try:
        number = Decimal(text)
    except InvalidOperation:
        return True, Decimal(), text
    return (False, number, "") if number.is_finite() else (True, Decimal(), text)


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
                return self._read(connection, driver, operation)
            finally:
                driver.text_factory = str
                # From here on the connection may serve another read, which must not be hit.
                with self._lock:
                    self._running = None

    def _read(
        self,
        connection: Connection,
        driver: sqlite3.Connection,
        operation: Callable[[Connection], _T],
    ) -> _T:
        """Run the operation in a transaction, from the start again while another has the lock.

        And once more where a text is not UTF-8: SQLite stores any bytes as a text.
        """
        patience = monotonic() + _LOCK_WAIT_S
        while True:
            connection.exec_driver_sql("BEGIN")
            try:
                return operation(connection)
            except OperationalError as error:
                if self._stopped:
                    raise
                if driver.text_factory is str and str(error.orig).startswith(_UNDECODABLE):
                    driver.text_factory = _text_or_bytes
                elif not _is_locked(error) or monotonic() > patience:
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


class SQLiteReads:
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
