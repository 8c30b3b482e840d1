"""The two doors to a SQLite file: one writer that commits for everybody, and a few readers.

SQLite has one write lock. Connections that compete for it sleep in turns, so a process writes
through one thread with one connection, and what waits while a commit is under way goes into the
next one. A job is a sync function of the driver's connection; it never commits. Source: design.md 3
and 9.
"""

import asyncio
import logging
import sqlite3
import threading
from asyncio import AbstractEventLoop
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Generic, Protocol, Self, TypeVar

T = TypeVar("T")
Job = Callable[[sqlite3.Connection], T]
Deferred = Callable[[], tuple[Job[None], Callable[[BaseException | None], None]] | None]
"""Makes a job, and who hears how it ended, when its time comes; None when nothing is to do."""

_log = logging.getLogger(__name__)

_WINDOW_S = 0.05
"""How long deferred jobs wait for others at most."""
_READERS = 2
_BUSY_SLICE_MS = 1_000
"""How long SQLite waits for a lock before we get to say so and try again."""


class Writer:
    """The one writing connection of a process, in a thread of its own.

    ``submit`` commits at once and takes along all that was deferred; what is deferred waits 50 ms
    at most. Jobs run in the order of submission, each in a savepoint: one that fails, fails alone.
    The write lock is waited for up to ``busy_limit_s``. A writer belongs to one event loop.
    """

    def __init__(self, path: str, *, busy_limit_s: float) -> None:
        self._path, self._busy_limit_s = path, busy_limit_s
        self._deferred: list[Deferred] = []
        self._timer: asyncio.TimerHandle | None = None
        self._queue: SimpleQueue[list[_Pending]] = SimpleQueue()
        self._is_closed = False

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
        self._hand_over()
        self._is_closed = True
        self._queue.put([])
        await self._stopped

    def submit(self, job: Job[T]) -> asyncio.Future[T]:
        """Run a job and commit it at once. Whoever stops waiting for it does not undo it."""
        pending = _Submitted(job, self._loop.create_future())
        if self._is_closed:
            pending.future.set_exception(sqlite3.ProgrammingError("The database is closed."))
        else:
            self._hand_over(pending)
        return pending.future

    def defer(self, job: Deferred) -> None:
        """Run what ``job`` makes with the next commit, in 50 ms at the latest."""
        self._deferred.append(job)
        if self._timer is None:
            self._timer = self._loop.call_later(_WINDOW_S, self._hand_over)

    def _hand_over(self, *last: "_Pending") -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        waiting, self._deferred = self._deferred, []
        made = (make() for make in waiting)
        jobs: list[_Pending] = [_Unwatched(*job) for job in made if job is not None]
        jobs += last
        if jobs:
            self._queue.put(jobs)

    # --- in the thread ----------------------------------------------------------------------------

    def _work(self, opened: asyncio.Future[None]) -> None:
        try:
            connection = _open_for_writing(self._path, self._busy_limit_s)
        except sqlite3.Error as error:
            self._loop.call_soon_threadsafe(opened.set_exception, error)
            return
        self._loop.call_soon_threadsafe(opened.set_result, None)
        is_open = True
        while is_open:
            jobs, is_open = self._next()
            _commit(connection, jobs, self._busy_limit_s)
            _settle_soon(self._loop, jobs)
        connection.close()
        self._loop.call_soon_threadsafe(self._stopped.set_result, None)

    def _next(self) -> "tuple[list[_Pending], bool]":
        """Wait for jobs, and take all there are. An empty batch is the sign to stop."""
        jobs: list[_Pending] = []
        batch = self._queue.get()
        while batch:
            jobs += batch
            try:
                batch = self._queue.get_nowait()
            except Empty:
                return jobs, True
        return jobs, False


class _Pending(Protocol):
    """A job on its way through the thread: run there, settled on the event loop."""

    error: BaseException | None

    def run(self, connection: sqlite3.Connection) -> None: ...

    def settle(self) -> None: ...


class _Submitted(Generic[T]):
    """A job whose result somebody waits for."""

    def __init__(self, job: Job[T], future: asyncio.Future[T]) -> None:
        self.job, self.future = job, future
        self.error: BaseException | None = None

    def run(self, connection: sqlite3.Connection) -> None:
        self.result = self.job(connection)

    def settle(self) -> None:
        if self.future.cancelled():
            return
        if self.error is None:
            self.future.set_result(self.result)
        else:
            self.future.set_exception(self.error)


class _Unwatched:
    """A deferred job, which nobody waits for."""

    def __init__(self, job: Job[None], ended: Callable[[BaseException | None], None]) -> None:
        self.job, self.ended = job, ended
        self.error: BaseException | None = None

    def run(self, connection: sqlite3.Connection) -> None:
        self.job(connection)

    def settle(self) -> None:
        self.ended(self.error)


def _settle_soon(loop: AbstractEventLoop, jobs: Sequence[_Pending]) -> None:
    def settle() -> None:
        for job in jobs:
            loop.call_soon(job.settle)  # each on its own, whatever another one's owner does

    loop.call_soon_threadsafe(settle)


def _commit(connection: sqlite3.Connection, jobs: Sequence[_Pending], limit_s: float) -> None:
    """Run jobs in one transaction. If it can't begin or commit, all of them have failed."""
    if not jobs:
        return
    try:
        _begin(connection, limit_s)
        for job in jobs:
            _run_in_savepoint(connection, job)
        connection.execute("COMMIT")
    except Exception as error:
        if connection.in_transaction:
            with suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
        for job in jobs:
            job.error = job.error or error


def _run_in_savepoint(connection: sqlite3.Connection, job: _Pending) -> None:
    connection.execute("SAVEPOINT job")
    try:
        job.run(connection)
    except Exception as error:
        job.error = error
        if not connection.in_transaction:
            # A full disk and the like: SQLite itself has rolled back what the others did.
            raise
        connection.execute("ROLLBACK TO job")
    connection.execute("RELEASE job")


def _begin(connection: sqlite3.Connection, limit_s: float) -> None:
    """Take the write lock before anything is read: a lock taken later fails without waiting."""
    _patiently(lambda: connection.execute("BEGIN IMMEDIATE"), limit_s)


def _patiently(attempt: Callable[[], object], limit_s: float) -> None:
    """Try until the database is free; say so once a second has gone by."""
    started = monotonic()
    while True:
        try:
            attempt()
            return
        except sqlite3.OperationalError as error:
            waited = monotonic() - started
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or waited >= limit_s:
                raise
            _log.warning("Waiting for the write lock of the chat database since %.1f s.", waited)


def _open_for_writing(path: str, limit_s: float) -> sqlite3.Connection:
    connection = _connect(path, min(_BUSY_SLICE_MS, int(limit_s * 1000)))
    _patiently(lambda: connection.execute("PRAGMA journal_mode = WAL").fetchone(), limit_s)
    connection.execute("PRAGMA synchronous = FULL")
    return connection


def _connect(path: str, busy_ms: int) -> sqlite3.Connection:
    """Open an existing file; transactions are begun by hand."""
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    connection.execute(f"PRAGMA busy_timeout = {busy_ms}")
    connection.execute("PRAGMA foreign_keys = ON")
    return connection


class Readers:
    """A few threads with a reading connection each. A read sees one snapshot from start to end."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._pool = ThreadPoolExecutor(_READERS, thread_name_prefix="frontdesk-reader")
        self._mine = threading.local()
        self._connections: list[sqlite3.Connection] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self._pool.shutdown)
        for connection in self._connections:
            connection.close()

    async def run(self, query: Job[T]) -> T:
        """Run a query off the event loop."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._query, query)

    def _query(self, query: Job[T]) -> T:
        connection = self._connection()
        connection.execute("BEGIN")
        try:
            return query(connection)
        finally:
            connection.execute("ROLLBACK")

    def _connection(self) -> sqlite3.Connection:
        mine: sqlite3.Connection | None = self._mine.__dict__.get("connection")
        if mine is None:
            mine = _connect(self._path, 5 * _BUSY_SLICE_MS)
            mine.execute("PRAGMA query_only = ON")
            self._connections.append(mine)
            self._mine.connection = mine
        return mine
