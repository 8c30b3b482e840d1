"""What is kept: conversations and their entries, runs and their event logs, in one database.

The tables are SQLModel classes on a MetaData of their own, so that a host's tables and ours never
mix. ``Store`` is the opened database. Source: design.md 3 and 9.
"""

import asyncio
import re
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Self

import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError, DBAPIError
from sqlalchemy.orm import declared_attr, registry
from sqlmodel import Field, SQLModel

from app.database import Database, Job, Place, T, UtcDateTime
from app.keys import KEY_LENGTH
from app.postgres import PostgresServer
from app.sqlite import SqliteFile
from app.writer import Writer
from schema.errors import ConfigurationError

REVISION = "0001"
"""The newest migration: what the tables below look like."""
VERSION_TABLE = "chat_alembic_version"

_MIGRATIONS = (Path(__file__).parent.parent / "alembic", Path(__file__).parent / "migrations")
"""Where the migration scripts are: in the repository, or inside the installed package."""


# --- tables ---------------------------------------------------------------------------------------

metadata = sa.MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
        "pk": "pk_%(table_name)s",
    }
)


class ChatTable(SQLModel, registry=registry(metadata=metadata)):
    """Base of the chat tables; a table is named after its class."""

    @declared_attr.directive
    def __tablename__(cls) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        return "chat" + re.sub("(?=[A-Z])", "_", cls.__name__).lower()


class Conversations(ChatTable, table=True):
    """A conversation, the number of its next entry, and the lease of the run at work in it.

    ``lease_fence`` counts the leases that were given. A holder writes only while the number is the
    one it got, so one that was given up for dead writes nothing when it comes back.
    """

    __table_args__ = (sa.Index(None, "owner", "last_user_at"),)

    id: str = Field(primary_key=True, max_length=36)
    owner: str = Field(max_length=KEY_LENGTH)
    title: str | None = Field(default=None, max_length=KEY_LENGTH)
    origin_key: str | None = Field(default=None, max_length=KEY_LENGTH, unique=True)
    created_at: datetime = Field(sa_type=UtcDateTime)
    updated_at: datetime = Field(sa_type=UtcDateTime)
    last_user_at: datetime | None = Field(default=None, sa_type=UtcDateTime)
    next_seq: int
    lease_fence: int
    lease_run_id: str | None = Field(default=None, max_length=36, index=True)
    lease_holder: str | None = Field(default=None, max_length=400)
    lease_beat_at: datetime | None = Field(default=None, sa_type=UtcDateTime)


class Runs(ChatTable, table=True):
    """One stretch of a turn. ``last_seq`` is its closing event's number, once there is one.

    ``was_lost`` marks a run that somebody else closed after its process went away: events behind
    the last stored one may have been shown.
    """

    __table_args__ = (sa.UniqueConstraint("owner", "request_id"),)

    id: str = Field(primary_key=True, max_length=36)
    conversation_id: str = Field(
        foreign_key="chat_conversations.id", ondelete="CASCADE", max_length=36, index=True
    )
    owner: str = Field(max_length=KEY_LENGTH)
    turn_id: str = Field(max_length=36)
    parent_run_id: str | None = Field(default=None, max_length=36)
    status: str = Field(max_length=20)
    request_id: str | None = Field(default=None, max_length=KEY_LENGTH)
    request_sha256: str | None = Field(default=None, max_length=64)
    first_entry_seq: int
    last_entry_seq: int | None = None
    last_seq: int | None = None
    input_tokens: int | None = Field(default=None, sa_type=sa.BigInteger)
    output_tokens: int | None = Field(default=None, sa_type=sa.BigInteger)
    error_code: str | None = Field(default=None, max_length=100)
    was_lost: bool
    started_at: datetime = Field(sa_type=UtcDateTime)
    ended_at: datetime | None = Field(default=None, sa_type=UtcDateTime)


class RunEvents(ChatTable, table=True):
    """The event log: what clients were shown, as SSE frames, one row per flush."""

    run_id: str = Field(
        primary_key=True, foreign_key="chat_runs.id", ondelete="CASCADE", max_length=36
    )
    first_seq: int = Field(primary_key=True, sa_column_kwargs={"autoincrement": False})
    last_seq: int
    frames: str = Field(sa_type=sa.Text)


class Entries(ChatTable, table=True):
    """What happened in a conversation, in order; the fields are those of ``StoredEntry``."""

    conversation_id: str = Field(
        primary_key=True, foreign_key="chat_conversations.id", ondelete="CASCADE", max_length=36
    )
    seq: int = Field(primary_key=True, sa_column_kwargs={"autoincrement": False})
    run_id: str = Field(max_length=36)
    round: int
    kind: str = Field(max_length=20)
    content: str = Field(sa_type=sa.Text)
    name: str | None = Field(default=None, sa_type=sa.Text)
    call_id: str | None = Field(default=None, max_length=100)
    arguments: str | None = Field(default=None, sa_type=sa.Text)
    result: str | None = Field(default=None, sa_type=sa.Text)
    status: str | None = Field(default=None, max_length=20)
    created_at: datetime = Field(sa_type=UtcDateTime)


conversations = metadata.tables["chat_conversations"]
runs = metadata.tables["chat_runs"]
run_events = metadata.tables["chat_run_events"]
entries = metadata.tables["chat_entries"]


# --- the database ---------------------------------------------------------------------------------


class Store:
    """The opened chat database: one writer and a few readers, none of which blocks the event loop.

    A job or a query is a sync function of a ``Connection``.
    """

    def __init__(self, writer: Writer, database: Database) -> None:
        self.writer, self._database = writer, database

    @classmethod
    @asynccontextmanager
    async def open(cls, url: str, *, busy_limit_s: float = 15.0) -> AsyncGenerator[Self]:
        """Open a migrated database.

        Raises: ConfigurationError E002 when the tables are missing or not the newest, and as
        ``check``.
        """
        await check(url)
        async with place(url).open(patience_s=busy_limit_s) as database, Writer(database) as writer:
            yield cls(writer, database)

    async def read(self, query: Job[T]) -> T:
        """Run a query on one snapshot of the database."""
        return await self._database.read(query)


async def migrate(url: str) -> None:
    """Bring the tables to the newest revision, creating a SQLite file if need be.

    Processes that do so at the same time wait for one another.
    Raises: ConfigurationError E002 for a URL that we can't use, and for a database that can't be
    reached or brought there; E003 when the driver is not installed.
    """
    await asyncio.to_thread(_upgrade, url)


def _upgrade(url: str) -> None:
    from alembic import command
    from alembic.config import Config
    from alembic.util import CommandError

    config = Config(attributes={"database_url": url})
    config.set_main_option("script_location", str(_scripts()).replace("%", "%%"))
    try:
        command.upgrade(config, "head")
    except CommandError as error:
        raise ConfigurationError(
            "E002",
            f"The chat database is newer than this version: {error}.",
            "Install the newest version of Frontdesk.",
        ) from error
    except (DBAPIError, OSError) as error:
        reason = (error.orig if isinstance(error, DBAPIError) else None) or error
        where, told = place(url), str(reason) or type(reason).__name__
        raise ConfigurationError(
            "E002", f"The chat database {where} can't be migrated: {told}.", where.remedy
        ) from error


def alter(url: str, work: Callable[[sa.Connection], None]) -> None:
    """Run migrations on a database, creating a SQLite file if need be.

    Raises: as ``migrate``.
    """
    place(url).alter(work)


async def check(url: str) -> None:
    """See whether the tables are there and are the newest.

    Raises: ConfigurationError E002, which names `frontdesk migrate`, or tells what else is wrong;
    E003 when the driver is not installed.
    """
    found = await place(url).revision(metadata.tables, VERSION_TABLE)
    if found is None:
        raise ConfigurationError(
            "E002", "The chat database has no Frontdesk tables.", "Run `frontdesk migrate`."
        )
    if found != REVISION:
        raise ConfigurationError(
            "E002",
            f"The chat database is at revision {found}, and this version needs {REVISION}.",
            "Run `frontdesk migrate`.",
        )


def place(url: str) -> Place:
    """Tell where a URL leads, whatever driver of SQLite it names.

    Raises: ConfigurationError E002, which does not repeat the URL.
    """
    try:
        parsed = sa.make_url(url)
    except (ArgumentError, ValueError):
        # Without the cause, which may quote a part of the password.
        raise _unusable("is not a database URL") from None
    if parsed.drivername in {"postgresql+asyncpg", "postgresql", "postgres"}:
        if "@" in f"{parsed.host}{parsed.database}":
            # What follows the first @ of a password would be told as the name of a host.
            raise _unusable("has a second @: in a password it is written %40")
        return PostgresServer(parsed.set(drivername="postgresql+asyncpg"))
    if parsed.drivername not in {"sqlite", "sqlite+aiosqlite", "sqlite+pysqlite"}:
        raise _unusable(f"names {parsed.drivername!r}, which is not one of ours")
    if not parsed.database or parsed.database == ":memory:" or parsed.database.startswith("file:"):
        raise _unusable("names no file, and several connections must see the same database")
    return SqliteFile(Path(parsed.database))


def _unusable(problem: str) -> ConfigurationError:
    return ConfigurationError(
        "E002",
        f"FRONTDESK_DATABASE_URL {problem}.",
        "Set it to sqlite+aiosqlite:///path/to/file.db or to postgresql+asyncpg://user:password@"
        "host/name, or leave it out.",
    )


def _scripts() -> Path:
    """Find the migration scripts: in the repository, or inside the installed package."""
    for folder in _MIGRATIONS:
        if (folder / "env.py").is_file():
            return folder
    raise ConfigurationError("E002", "The migration scripts are missing.", "Reinstall frontdesk.")
