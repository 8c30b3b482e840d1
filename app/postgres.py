"""The chat database on a PostgreSQL server, which any number of processes share.

Everything happens on the event loop: jobs stay sync functions, run in a greenlet that gives way
while a statement is under way. A process writes through one connection, several jobs in one
transaction as long as none has to wait for another process: the one that does is run next, as the
first of its transaction, so nobody waits while others wait for it. Source: design.md 9.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache, partial
from typing import Protocol, Self, cast, runtime_checkable

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql.asyncpg import dialect
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.util.concurrency import await_, greenlet_spawn

from app.database import (
    NO_VALUES,
    Command,
    DatabaseFailed,
    Job,
    Pending,
    Query,
    Row,
    T,
    Values,
)
from schema.errors import ConfigurationError
from schema.postgres_reads import load_asyncpg

_log = logging.getLogger(__name__)

_READERS = 4
_READ_PATIENCE_S = 5.0
_CONNECT_LIMIT_S = 10
_STATEMENT_LIMIT_S = 30
"""Beyond it, the server counts as gone."""
_MIGRATION_LIMIT_S = 600
"""How long one statement of a migration may take, and the wait for another process's migration."""
_GOODBYE_LIMIT_S = 1
"""How long a server is given to take note that a connection is closed."""
_IDLE_LIMIT_MS = 5_000
"""A process that stands still within a transaction gives up its locks then."""
_BATCH_WAIT_MS = 50
"""How long a job that is not the first of its transaction waits for another process."""
_TRIES = 4
"""How often a job or a transaction is run that others, or a lost connection, got in the way of."""
_PAUSE_S = 0.2
"""Between two attempts to connect."""
_MIGRATION_LOCK = 0x66726F6E74
"""The advisory lock of migrations: "front"."""

_GONE = {"25006", "25P03", "25P04", "57P01", "57P02", "57P03", "57P05"}
"""SQLSTATEs with which a server ends a connection, or can't be written to because another one is
the primary; those of class 08 are others."""
_LOCKED, _DEADLOCK, _SERIALIZATION, _UNIQUE = "55P03", "40P01", "40001", "23505"
_DIALECT = dialect()
_NO_DATABASE, _REFUSED = "3D000", ("28000", "28P01")


class _Lost(DatabaseFailed):
    """The connection was lost, and nothing of its transaction was committed."""


class _EndUnknown(DatabaseFailed):
    """The connection was lost while the first ``count`` jobs were committed, or were not."""

    def __init__(self, error: _Lost, count: int) -> None:
        super().__init__(f"A commit was begun, and its end is not known: {error}")
        self.count = count


class _InTheWay(DatabaseFailed):
    """Another process was in the way; afterwards the same can succeed."""

    def __init__(self, error: Exception, sqlstate: str) -> None:
        super().__init__(str(error))
        self.can_wait = sqlstate != _UNIQUE
        self.is_patience_over = sqlstate == _LOCKED


class _Driver(Protocol):
    """What is used of an asyncpg connection."""

    async def fetch(self, query: str, *args: object) -> list[tuple[object, ...]]: ...

    async def execute(self, query: str, *args: object) -> str: ...

    async def executemany(self, command: str, args: list[list[object]]) -> None: ...

    async def close(self) -> None: ...

    def terminate(self) -> None: ...

    def is_closed(self) -> bool: ...

    def is_in_transaction(self) -> bool: ...


class _Asyncpg(Protocol):
    """What is used of asyncpg, which has no types of its own."""

    PostgresError: type[Exception]
    DataError: type[Exception]
    InterfaceError: type[Exception]
    InternalClientError: type[Exception]

    async def connect(self, **arguments: object) -> _Driver: ...


@runtime_checkable
class _Told(Protocol):
    """An error that the server has told."""

    sqlstate: str | None


def _asyncpg() -> _Asyncpg:
    return cast("_Asyncpg", load_asyncpg())  # a module that has all of it


def _failures() -> tuple[type[Exception], ...]:
    """What asyncpg raises, the system's own errors of the network included."""
    asyncpg = _asyncpg()
    return (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError)


def _sqlstate(error: BaseException) -> str:
    return (error.sqlstate or "") if isinstance(error, _Told) else ""


def _reason(error: BaseException) -> str:
    return str(error) or type(error).__name__


# --- statements -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Sql:
    """A statement's text, and the names of its parameters in the order of their numbers."""

    text: str
    names: tuple[str, ...]

    def bind(self, values: Values) -> list[object]:
        return [values[name] for name in self.names]


@cache
def _compiled(statement: Query[Row] | Command) -> _Sql:
    compiled = _DIALECT.statement_compiler(_DIALECT, statement.core)
    return _Sql(str(compiled), tuple(compiled.positiontup or ()))


class _Connection:
    """A connection as jobs have it, in a greenlet."""

    def __init__(self, driver: _Driver) -> None:
        self._driver = driver

    def read(self, query: Query[Row], values: Values = NO_VALUES) -> list[Row]:
        sql = _compiled(query)
        records = self._wait(self._driver.fetch(sql.text, *sql.bind(values)))
        return cast("list[Row]", [tuple(record) for record in records])  # the query says what of

    def write(self, command: Command, values: Values = NO_VALUES) -> int:
        sql = _compiled(command)
        status = self._wait(self._driver.execute(sql.text, *sql.bind(values)))
        count = status.rpartition(" ")[2]
        return int(count) if count.isdecimal() else 0

    def write_all(self, command: Command, rows: Sequence[Values]) -> None:
        sql = _compiled(command)
        if rows:
            many = [sql.bind(values) for values in rows]
            self._wait(self._driver.executemany(sql.text, many))

    def control(self, statements: str) -> str:
        """Run statements that begin and end transactions; return what the last has done."""
        return self._wait(self._driver.execute(statements))

    def roll_back(self) -> None:
        """End a transaction with nothing done; one whose connection is gone has ended."""
        if not self._driver.is_closed():
            self.control("ROLLBACK")

    def _wait(self, work: Awaitable[T]) -> T:
        try:
            return await_(work)
        except asyncio.CancelledError:
            self._driver.terminate()  # its caller does not wait for what was on its way
            raise
        except _failures() as error:
            raise self._failed(error) from error

    def _failed(self, error: Exception) -> Exception:
        state = _sqlstate(error)
        if isinstance(error, ValueError | _asyncpg().DataError):
            return error  # the value is at fault, and not the database
        if state in (_LOCKED, _DEADLOCK, _SERIALIZATION, _UNIQUE):
            return _InTheWay(error, state)
        if (
            state
            and not self._driver.is_closed()
            and state not in _GONE
            and not state.startswith("08")
        ):
            return DatabaseFailed(str(error))
        self._driver.terminate()
        return _Lost(_reason(error))


# --- connections ----------------------------------------------------------------------------------


class _Pool:
    """A few connections, opened when they are needed; one with an open transaction is not kept."""

    def __init__(self, server: "PostgresServer", most: int) -> None:
        self._server = server
        self._free = asyncio.Semaphore(most)
        self._idle: list[_Driver] = []

    async def close(self) -> None:
        """Close the connections, none of which is in use."""
        await asyncio.gather(*(_close(driver) for driver in self._idle))

    async def run(self, work: Callable[[_Connection], T], patience_s: float) -> T:
        """Run sync code on a connection, and again if the connection was lost meanwhile.

        Raises: DatabaseFailed, also when none is free in time, and what ``work`` raises.
        """
        try:
            async with asyncio.timeout(patience_s):
                await self._free.acquire()
        except TimeoutError as error:
            raise DatabaseFailed("All connections to the chat database are in use.") from error
        try:
            for _ in range(_TRIES - 1):
                try:
                    return await self._run(work, patience_s)
                except _Lost as error:
                    _log.warning("A connection to the chat database was lost: %s", error)
                    while self._idle:
                        self._idle.pop().terminate()  # lost as well, as a rule
            return await self._run(work, patience_s)
        finally:
            self._free.release()

    async def _run(self, work: Callable[[_Connection], T], patience_s: float) -> T:
        driver = await self._driver(patience_s)
        try:
            return await greenlet_spawn(work, _Connection(driver))
        finally:
            if driver.is_closed() or driver.is_in_transaction():
                driver.terminate()
            else:
                self._idle.append(driver)

    async def _driver(self, patience_s: float) -> _Driver:
        """Take a connection that waits for work, or open one for as long as patience lasts."""
        while self._idle:
            driver = self._idle.pop()
            if not driver.is_closed():
                return driver
        loop = asyncio.get_running_loop()
        started, waited = loop.time(), 0.0
        while True:
            try:
                # A server that takes a connection and stays silent costs no more than patience.
                limit_s = min(_CONNECT_LIMIT_S, max(1.0, patience_s - waited))
                return await self._server.connect(limit_s)
            except _failures() as error:
                waited = loop.time() - started
                if waited >= patience_s or _sqlstate(error) in (_NO_DATABASE, *_REFUSED):
                    raise DatabaseFailed(_reason(error)) from error
                if waited >= 1:
                    _log.warning("No connection to the chat database since %.1f s.", waited)
            await asyncio.sleep(_PAUSE_S if waited < 1 else 5 * _PAUSE_S)


async def _close(driver: _Driver) -> None:
    """Close a connection, whose server may not listen any more."""
    try:
        async with asyncio.timeout(_GOODBYE_LIMIT_S):
            await driver.close()
    except _failures():
        driver.terminate()


# --- writing --------------------------------------------------------------------------------------


class _Writing:
    """Commits jobs, in a task of its own, over one connection."""

    def __init__(self, pool: _Pool, patience_s: float) -> None:
        self._pool, self._patience_s = pool, patience_s
        self._queue: asyncio.Queue[list[Pending]] = asyncio.Queue()

    async def __aenter__(self) -> Self:
        self._group = await asyncio.TaskGroup().__aenter__()
        self._group.create_task(self._work(), name="frontdesk-writer")
        return self

    async def __aexit__(self, *_: object) -> None:
        self.put([])
        await self._group.__aexit__(None, None, None)

    def put(self, jobs: list[Pending]) -> None:
        """Hand jobs over to the task; none is the sign to stop."""
        self._queue.put_nowait(jobs)

    async def _work(self) -> None:
        loop, is_open = asyncio.get_running_loop(), True
        while is_open:
            jobs = await self._queue.get()
            is_open = bool(jobs)
            while is_open and not self._queue.empty():
                batch = self._queue.get_nowait()
                is_open = bool(batch)
                jobs += batch
            while jobs:
                count = await self._commit(jobs)
                for job in jobs[:count]:
                    loop.call_soon(job.settle)  # each on its own, whatever another's owner does
                jobs = jobs[count:]

    async def _commit(self, jobs: Sequence[Pending]) -> int:
        """Run jobs in one transaction, and return how many. If it fails, they have all failed."""
        limit_ms = max(1, int(self._patience_s * 1000))
        try:
            return await self._pool.run(
                lambda connection: _transact(connection, jobs, limit_ms), self._patience_s
            )
        except Exception as error:
            concerned = jobs[: error.count] if isinstance(error, _EndUnknown) else jobs
            for job in concerned:
                job.error = job.error or error
            return len(concerned)


def _transact(connection: _Connection, jobs: Sequence[Pending], limit_ms: int) -> int:
    """Run jobs and commit, up to one that would have to wait for others; return how many.

    Raises: _Lost, with nothing committed; DatabaseFailed.
    """
    connection.control(_begin("READ COMMITTED READ WRITE", limit_ms) + "SAVEPOINT job")
    count = 0
    for job in jobs:
        if count:
            connection.control(
                f"RELEASE job; SET LOCAL lock_timeout = {_BATCH_WAIT_MS}; SAVEPOINT job"
            )
        if not _run_in_savepoint(connection, job, is_first=not count):
            break
        count += 1
    try:
        done = connection.control("COMMIT")
    except _Lost as error:
        raise _EndUnknown(error, count) from error
    if done != "COMMIT":
        # So the server ends a transaction in which a statement has failed, without an error.
        raise DatabaseFailed("A job has gone on after a failure, and nothing was committed.")
    return count


def _run_in_savepoint(connection: _Connection, job: Pending, *, is_first: bool) -> bool:
    """Run a job, again if others got in its way; False if it is to be the first of the next.

    A row that others have written meanwhile, under a key that the job meant to use, is there when
    the job is run again.
    """
    for _ in range(_TRIES):
        job.error = None
        try:
            job.run(connection)
            return True
        except _Lost:
            raise
        except Exception as error:
            job.error = error
            connection.control("ROLLBACK TO job")
            if not isinstance(error, _InTheWay):
                return True
            if error.can_wait and not is_first:
                job.error = None
                return False
            if error.is_patience_over:
                return True
    return True


def _read(connection: _Connection, query: Job[T]) -> T:
    """Run a query on one snapshot."""
    connection.control(_begin("REPEATABLE READ READ ONLY", int(_READ_PATIENCE_S * 1000)))
    try:
        return query(connection)
    finally:
        connection.roll_back()


def _begin(mode: str, lock_limit_ms: int) -> str:
    """Write what begins a transaction, with limits of its own: a pooler may stand between."""
    return (
        f"BEGIN ISOLATION LEVEL {mode}; SET LOCAL lock_timeout = {lock_limit_ms};"
        f"SET LOCAL idle_in_transaction_session_timeout = {_IDLE_LIMIT_MS};"
    )


# --- the server -----------------------------------------------------------------------------------


class _Database:
    """The opened database."""

    def __init__(self, writing: _Writing, pool: _Pool) -> None:
        self.commit = writing.put
        self._pool = pool

    async def read(self, query: Job[T]) -> T:
        return await self._pool.run(lambda connection: _read(connection, query), _READ_PATIENCE_S)


@dataclass(frozen=True, slots=True)
class PostgresServer:
    """A chat database on a server; ``url`` is one of SQLAlchemy's for asyncpg."""

    url: sa.URL

    def __str__(self) -> str:
        return self.url.database or self.url.username or "postgres"

    @property
    def remedy(self) -> str:
        """What to do when the tables can't be made."""
        return "Give its user the right to make tables there, as the owner of a database has it."

    @asynccontextmanager
    async def open(self, *, patience_s: float) -> AsyncGenerator[_Database]:
        """Open connections to the database."""
        writes, reads = _Pool(self, 1), _Pool(self, _READERS)
        try:
            async with _Writing(writes, patience_s) as writing:
                yield _Database(writing, reads)
        finally:
            await writes.close()
            await reads.close()

    async def connect(
        self, limit_s: float = _CONNECT_LIMIT_S, statement_limit_s: float = _STATEMENT_LIMIT_S
    ) -> _Driver:
        """Open a connection. Raises: what asyncpg raises."""
        _, arguments = _DIALECT.create_connect_args(self.url)
        # Behind a pooler that gives each transaction another connection, nothing can be cached.
        is_cached = arguments.pop("prepared_statement_cache_size", None) != 0
        arguments.pop("prepared_statement_name_func", None)
        options: dict[str, object] = {
            "timeout": limit_s,
            "command_timeout": statement_limit_s,
            "server_settings": {"application_name": "frontdesk"},
        }
        if not is_cached:
            options["statement_cache_size"] = 0
        return await _asyncpg().connect(**{**options, **arguments})

    async def reach(self, statement_limit_s: float = _STATEMENT_LIMIT_S) -> _Driver:
        """Open the first connection. Raises: ConfigurationError that tells why it can't be."""
        failures = _failures()
        try:
            return await self.connect(statement_limit_s=statement_limit_s)
        except (*failures, TypeError, ValueError) as error:
            raise self._unreachable(error) from error

    def _unreachable(self, error: Exception) -> ConfigurationError:
        state = _sqlstate(error)
        if state == _NO_DATABASE:
            return ConfigurationError(
                "E002",
                f"The chat database {self} does not exist on the server.",
                f'Create it, e.g. with CREATE DATABASE "{self}", and run `frontdesk migrate`.',
            )
        if state in _REFUSED:
            return ConfigurationError(
                "E002",
                f"The database server refuses the user {self.url.username!r} or the password: "
                f"{_reason(error)}.",
                "Correct them in FRONTDESK_DATABASE_URL.",
            )
        if isinstance(error, TypeError | ValueError):
            return ConfigurationError(
                "E002",
                "FRONTDESK_DATABASE_URL has parameters that asyncpg does not take.",
                "Set it to postgresql+asyncpg://user:password@host:5432/name.",
            )
        return ConfigurationError(
            "E002",
            f"The database server {self._at} can't be used: {_reason(error)}.",
            "Start it, or correct FRONTDESK_DATABASE_URL.",
        )

    @property
    def _at(self) -> str:
        host = self.url.host or self.url.query.get("host", "localhost")
        return f"{host}:{self.url.port}" if self.url.port else str(host)

    async def revision(self, tables: Collection[str], version_table: str) -> str | None:
        """Read the revision; None when one of the tables does not exist."""
        driver = await self.reach()
        try:
            names = [*tables, version_table]
            found = await driver.fetch(
                "SELECT name FROM unnest($1::text[]) name WHERE to_regclass(name) IS NULL", names
            )
            if found:
                return None
            rows = await driver.fetch(f"SELECT version_num FROM {version_table}")
            return str(rows[0][0]) if rows else None
        except OSError as error:
            raise self._unreachable(error) from error
        except _failures() as error:
            raise ConfigurationError(
                "E002",
                f"The chat database {self} can't be read: {error}.",
                "Give its user the right to read and write the tables.",
            ) from error
        finally:
            await _close(driver)

    def alter(self, work: Callable[[sa.Connection], None]) -> None:
        """Run migrations."""
        asyncio.run(self._alter(work))

    async def _alter(self, work: Callable[[sa.Connection], None]) -> None:
        load_asyncpg()
        connect = partial(self.reach, _MIGRATION_LIMIT_S)
        engine = create_async_engine(self.url, async_creator=connect, poolclass=sa.NullPool)
        try:
            async with engine.begin() as connection:
                # The lock is taken before the revision is read, so the second process finds the
                # work done; it goes with the transaction.
                lock = f"SELECT pg_advisory_xact_lock({_MIGRATION_LOCK})"
                await connection.exec_driver_sql(lock)
                await connection.run_sync(work)
        finally:
            await engine.dispose()
