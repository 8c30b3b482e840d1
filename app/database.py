"""The seam below the jobs: what a job can do on any database, and what a database offers the store.

A job is a sync function of a ``Connection``. What it runs are Core statements that are constants of
their modules; each database compiles them once, for its own driver. Source: design.md 9.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Generic, Protocol, TypeVar

import sqlalchemy as sa
from sqlalchemy.engine import Dialect

T = TypeVar("T")
Row = TypeVar("Row", bound=tuple[object, ...])

Values = Mapping[str, object]
"""Values of a statement's parameters by name; moments as ``datetime`` with a zone."""
NO_VALUES: Values = {}


class DatabaseFailed(Exception):
    """The database did not do what it was asked for; the driver's own error is the cause."""


class UtcDateTime(sa.TypeDecorator[datetime]):
    """A moment in UTC, with its zone in Python even where the database drops it."""

    impl = sa.DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Move a moment to UTC."""
        return None if value is None else value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Give a moment its zone back."""
        if value is None or value.tzinfo is not None:
            return value
        return value.replace(tzinfo=UTC)


# --- statements -----------------------------------------------------------------------------------

ONE, NO_OFFSET = (sa.literal_column(number, sa.Integer()) for number in "10")
"""Goes with each limit: SQLite's dialect adds an unnamed parameter where there is no offset."""


@dataclass(frozen=True, eq=False)  # slots and ``Query[...](...)`` do not go together
class Query(Generic[Row]):
    """A statement that reads, and the type of its rows."""

    core: sa.Select[*tuple[object, ...]] | sa.TextClause


@dataclass(frozen=True, slots=True, eq=False)
class Command:
    """A statement that writes."""

    core: sa.ClauseElement


class Connection(Protocol):
    """What a job works with. All of its methods raise ``DatabaseFailed``.

    A value that no column can hold, and was not made to fit, is an error of the driver's own.
    """

    def read(self, query: Query[Row], values: Values = NO_VALUES) -> list[Row]:
        """Return all rows."""
        ...

    def write(self, command: Command, values: Values = NO_VALUES) -> int:
        """Return how many rows it has concerned."""
        ...

    def write_all(self, command: Command, rows: Sequence[Values]) -> None:
        """Run a command once with the values of each row."""
        ...


Job = Callable[[Connection], T]


# --- databases ------------------------------------------------------------------------------------


class Pending(Protocol):
    """A job on its way through a database: run there, and settled on the event loop."""

    error: BaseException | None

    def run(self, connection: Connection) -> None:
        """Do the job, on a transaction that has nothing of an earlier attempt."""
        ...

    def settle(self) -> None:
        """Tell whoever waits for it, on the event loop, how it ended."""
        ...


class Database(Protocol):
    """An opened database, used from one event loop, which it never blocks."""

    def commit(self, jobs: list[Pending]) -> None:
        """Take jobs, to be run in their order, committed, and settled when that is done.

        Those that wait at the same time share a commit; one that fails, fails alone.
        """
        ...

    async def read(self, query: Job[T]) -> T:
        """Run a query on one snapshot. Raises: DatabaseFailed, and what the query raises."""
        ...


class Place(Protocol):
    """Where a database is. ``ConfigurationError`` tells why it can't be read or altered."""

    @property
    def remedy(self) -> str:
        """What to do when its tables can't be made."""
        ...

    def __str__(self) -> str: ...

    def open(self, *, patience_s: float) -> AbstractAsyncContextManager[Database]:
        """Open it; others' locks and failures that pass are waited for up to ``patience_s``.

        Raises: DatabaseFailed.
        """
        ...

    async def revision(self, tables: Collection[str], version_table: str) -> str | None:
        """Read the revision of the tables; None when one of them is missing."""
        ...

    def alter(self, work: Callable[[sa.Connection], None]) -> None:
        """Run migrations in one transaction, for which other processes' migrations wait.

        Not to be called on an event loop.
        """
        ...
