"""Reads of PostgreSQL: asyncpg over a small pool, a read-only snapshot for each.

When a read is given up, its statement is cancelled on the server, and waited for. Source: design.md
5, "one compiler".
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from functools import cache
from importlib import import_module
from math import ceil
from typing import Protocol, Self, TypeVar, cast

from sqlalchemy.dialects.postgresql.asyncpg import AsyncAdapt_asyncpg_dbapi
from sqlalchemy.engine import URL, Connection
from sqlalchemy.exc import DBAPIError, OperationalError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from schema.errors import ConfigurationError
from schema.postgres_codecs import CODECS

_CONNECTIONS = 4
_CONNECT_S = 10
_CANCEL_S = 5
"""How long a server may take to end a cancelled statement before its connection is cut."""

_READY = "frontdesk-read"
_NAMES = ("postgresql", "postgres")
_OPTIONS = {"host", "port", "passfile", "ssl", "target_session_attrs", "krbsrvname", "gsslib"}
"""What other drivers' URLs have after the ``?`` that asyncpg takes as well."""

_GONE = {"57P01", "57P02", "57P03", "40001"}
"""The server ends or starts, or a replica took the rows away: the read can be done again."""

_T = TypeVar("_T")


class _Driver(Protocol):
    """What is used of asyncpg's connection."""

    async def execute(self, query: str) -> str: ...

    async def set_type_codec(
        self,
        typename: str,
        *,
        schema: str,
        encoder: Callable[..., object],
        decoder: Callable[..., object],
        format: str,
    ) -> None: ...

    def is_closed(self) -> bool: ...

    def terminate(self) -> None: ...


def is_postgres(url: URL) -> bool:
    """Tell whether a URL names a database on PostgreSQL, by whatever driver."""
    return url.drivername.partition("+")[0] in _NAMES


def postgres_url(url: URL) -> URL:
    """The same database by way of asyncpg."""
    if url.drivername == "postgresql+asyncpg":
        return url
    query = {"ssl" if name == "sslmode" else name: value for name, value in url.query.items()}
    query = {name: value for name, value in query.items() if name in _OPTIONS}
    return url.set(drivername="postgresql+asyncpg", query=query)


def load_asyncpg() -> object:
    """Import the driver, which is a module without types. Raises: ConfigurationError E003."""
    try:
        return import_module("asyncpg")
    except ImportError as error:
        raise ConfigurationError(
            "E003",
            "PostgreSQL needs asyncpg, which is not installed.",
            "Run `pip install 'frontdesk[postgres]'`.",
        ) from error


def postgres_engine(url: URL, **options: object) -> AsyncEngine:
    """Make an engine on asyncpg. Raises: ConfigurationError."""
    load_asyncpg()
    args: dict[str, object] = {"server_settings": {"application_name": "frontdesk"}}
    if "timeout" not in url.query:
        args["timeout"] = _CONNECT_S
    return create_async_engine(postgres_url(url), connect_args=args, **options)


def read_engine(url: URL) -> AsyncEngine:
    """Make an engine for reads, with a small pool. Raises: ConfigurationError."""
    # The time of a read has its own limit, so waiting for a connection has none.
    return postgres_engine(url, pool_size=_CONNECTIONS, max_overflow=0, pool_timeout=None)


@contextmanager
def connecting(url: URL) -> Generator[None]:
    """Turn what is wrong with a database into an error of the set-up.

    Raises: ConfigurationError, which has the server's reason and no password.
    """
    where = f"{url.database} on {url.host}" if url.host else str(url.database)
    try:
        yield
    except (DBAPIError, OSError) as error:
        reason = error.orig if isinstance(error, DBAPIError) else error
        raise ConfigurationError(
            "E001",
            f"The database {where} can't be read: {str(reason) or type(reason).__name__}.",
            "Start the server, or correct the URL; an engine with options of its own, such as a"
            " password in connect_args, goes to Managers(reads=engine).",
        ) from error
    except (TypeError, ValueError, OverflowError) as error:
        raise ConfigurationError(
            "E001",
            f"The URL of the database {where} has a port or options that asyncpg does not take.",
            "Use those of asyncpg.connect(), such as ?ssl=require.",
        ) from error


class PostgresReads:
    """Read connections on asyncpg, taken from a pool for one read each. An async context manager.

    ``engine`` may be the project's own: the codecs are set on its connections.
    """

    def __init__(self, engine: AsyncEngine) -> None:
        # Without transactions of the library's the BEGIN of a read is ours.
        self._engine = engine.execution_options(isolation_level="AUTOCOMMIT")
        self.dialect = engine.dialect

    async def __aenter__(self) -> Self:
        try:
            with connecting(self._engine.url):
                encoding = await self.run(_server_encoding)
            if encoding != "UTF8":
                raise ConfigurationError(
                    "E001",
                    f"The database {self._engine.url.database} keeps texts as {encoding}.",
                    "Create it with ENCODING 'UTF8'.",
                )
        except ConfigurationError:
            await self._engine.dispose()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._engine.dispose()

    async def run(
        self, operation: Callable[[Connection], _T], timeout_seconds: float | None = None
    ) -> _T:
        """Run one read; the time it waits for a connection counts.

        Raises: TimeoutError; DBAPIError, also when the database can't be reached.
        """
        held: list[_Driver] = []
        # What is cancelled is this and not the caller, whose later cancellations must not cut off
        # the end of the statement.
        work = asyncio.gather(self._twice(operation, timeout_seconds, held), return_exceptions=True)
        try:
            async with asyncio.timeout(timeout_seconds):
                await asyncio.shield(work)
        finally:
            if not work.done():
                await _stop(work, held)
        [outcome] = work.result()
        if isinstance(outcome, DBAPIError) and timeout_seconds and _is_cancelled(outcome):
            raise TimeoutError from outcome
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    async def _twice(
        self,
        operation: Callable[[Connection], _T],
        timeout_seconds: float | None,
        held: list[_Driver],
    ) -> _T:
        """Read, and once more if it was the connection that failed: a read does no harm."""
        try:
            return await self._once(operation, timeout_seconds, held)
        except DBAPIError as error:
            if not _may_work_again(error):
                raise
            if error.connection_invalidated:
                # The server has most likely ended all of them.
                await self._engine.dispose()
        return await self._once(operation, timeout_seconds, held)

    async def _once(
        self,
        operation: Callable[[Connection], _T],
        timeout_seconds: float | None,
        held: list[_Driver],
    ) -> _T:
        async with self._connected() as connection:
            raw = await connection.get_raw_connection()
            driver = cast("_Driver", raw.driver_connection)  # the engine is one on asyncpg
            held.append(driver)
            try:
                with _told(driver):
                    if _READY not in connection.info:
                        await _set_codecs(driver)
                        connection.info[_READY] = True
                    await driver.execute(_begin(timeout_seconds))
                return await connection.run_sync(operation)
            finally:
                await _end(connection, driver)
                held.clear()

    @asynccontextmanager
    async def _connected(self) -> AsyncGenerator[AsyncConnection]:
        connection = self._engine.connect()
        try:
            await connection.start()
        except OSError as error:
            raise OperationalError(None, None, error) from error
        try:
            yield connection
        finally:
            await connection.close()


def _server_encoding(connection: Connection) -> object:
    return connection.exec_driver_sql("SHOW server_encoding").scalar()


def _begin(timeout_seconds: float | None) -> str:
    """All that begins a read, in one round trip; what is set ends with the transaction."""
    begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL timezone = 'UTC'"
    if timeout_seconds is None:
        return begin
    # The server ends the statement by itself when this process can't.
    return f"{begin}; SET LOCAL statement_timeout = {max(1, ceil(timeout_seconds * 1000))}"


async def _set_codecs(driver: _Driver) -> None:
    for name, form, read, write in CODECS:
        await driver.set_type_codec(
            name, schema="pg_catalog", decoder=read, encoder=write, format=form
        )


async def _end(connection: AsyncConnection, driver: _Driver) -> None:
    """Give the connection back without a transaction, or not at all."""
    is_clean = driver.is_closed()
    try:
        if not is_clean:
            with _told(driver):
                await driver.execute("ROLLBACK")
            is_clean = True
    finally:
        if not is_clean:
            await connection.invalidate()


async def _stop(work: asyncio.Future[tuple[_T | BaseException]], held: list[_Driver]) -> None:
    """Cancel a read and wait for its end; the driver has the server end the statement."""
    cancelled: asyncio.CancelledError | None = None
    work.cancel()
    while not work.done():
        try:
            await asyncio.wait((work,), timeout=_CANCEL_S)
        except asyncio.CancelledError as error:
            # The statement must end first: the caller may not go on while it runs.
            cancelled = error
            continue
        for driver in held:
            driver.terminate()
    if not work.cancelled():
        work.exception()  # It says that the read was cancelled, which is no news.
    if cancelled is not None:
        raise cancelled


# --- errors ---------------------------------------------------------------------------------------


class _Asyncpg(Protocol):
    """What is used of asyncpg, which has no types of its own."""

    PostgresError: type[Exception]
    InterfaceError: type[Exception]
    InternalClientError: type[Exception]


@cache
def _failures() -> tuple[type[Exception], ...]:
    """What asyncpg raises, the system's own errors of the network included."""
    driver = cast("_Asyncpg", load_asyncpg())  # a module that has all of it
    return (driver.PostgresError, driver.InterfaceError, driver.InternalClientError, OSError)


@contextmanager
def _told(driver: _Driver) -> Generator[None]:
    """Turn the driver's own errors into the library's."""
    try:
        yield
    except _failures() as error:
        told = AsyncAdapt_asyncpg_dbapi.Error(str(error), error)
        raise OperationalError(
            None, None, told, connection_invalidated=driver.is_closed()
        ) from error


def _sqlstate(error: DBAPIError) -> str | None:
    told = error.orig
    return told.sqlstate if isinstance(told, AsyncAdapt_asyncpg_dbapi.Error) else None


def _is_cancelled(error: DBAPIError) -> bool:
    """Tell whether the server ended the statement, which it does by itself after its timeout."""
    return _sqlstate(error) == "57014"


def _may_work_again(error: DBAPIError) -> bool:
    # A table that was altered makes statements that are prepared already useless.
    is_stale = isinstance(error.orig, AsyncAdapt_asyncpg_dbapi.InvalidCachedStatementError)
    return is_stale or error.connection_invalidated or _sqlstate(error) in _GONE
