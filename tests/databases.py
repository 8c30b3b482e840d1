"""Chat databases of both kinds, as a test looks at them past everything of ours."""

import asyncio
import sqlite3
from collections.abc import AsyncGenerator, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import TypeVar

import pytest
import sqlalchemy as sa

from app.postgres import PostgresServer
from app.store import metadata

T = TypeVar("T")
Rows = list[tuple[object, ...]]

KINDS = ("sqlite", "postgres")
"""The kinds of database, as the parameters of tests name them."""
ON_BOTH = pytest.mark.parametrize("database_kind", KINDS)
"""Marks a test on a demo that shows that each kind of database will do."""


def is_postgres(url: str) -> bool:
    return url.startswith("postgres")


def file_of(url: str) -> Path:
    """The file that a SQLite URL leads to."""
    return Path(sa.make_url(url).database or "")


def rows(url: str, query: str) -> Rows:
    """Run one query."""
    if is_postgres(url):
        return _beside(_postgres(url, [query]))
    with closing(sqlite3.connect(file_of(url))) as connection:
        return connection.execute(query).fetchall()


def execute(url: str, *statements: str) -> None:
    """Change a database."""
    if is_postgres(url):
        _beside(_postgres(url, statements))
        return
    with closing(sqlite3.connect(file_of(url))) as connection, connection:
        connection.execute("PRAGMA foreign_keys = ON")
        for statement in statements:
            connection.execute(statement)


def tables(url: str) -> set[str]:
    """Name all tables of a database."""
    names = "SELECT name FROM sqlite_master WHERE type = 'table'"
    if is_postgres(url):
        names = "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
    return {str(name) for (name,) in rows(url, names)}


@asynccontextmanager
async def occupied(url: str) -> AsyncGenerator[None]:
    """Be another process that keeps everybody from writing to conversations, until the end."""
    if is_postgres(url):
        async with locked(url, "chat_conversations", "EXCLUSIVE"):
            yield
    else:
        with closing(sqlite3.connect(file_of(url), isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            yield
            other.execute("COMMIT")


@asynccontextmanager
async def locked(url: str, table: str, mode: str = "ACCESS EXCLUSIVE") -> AsyncGenerator[None]:
    """Keep a table of PostgreSQL locked, until the end."""
    connection = await PostgresServer(sa.make_url(url)).connect()
    try:
        await connection.execute(f"BEGIN; LOCK TABLE {table} IN {mode} MODE")
        yield
    finally:
        await connection.close()


def snapshot(url: str, copy: str) -> None:
    """Copy a database as it is now: what would be left if everybody who uses it were killed.

    A copy on PostgreSQL has the chat tables already, empty.
    """
    if is_postgres(url):
        _beside(_copy_tables(url, copy))
        return
    with (
        closing(sqlite3.connect(file_of(url))) as source,
        closing(sqlite3.connect(file_of(copy))) as target,
    ):
        source.backup(target)


def _beside(work: Coroutine[None, None, T]) -> T:
    """Run what is async to its end, whatever event loop is at work here."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()


async def _postgres(url: str, statements: Sequence[str]) -> Rows:
    connection = await PostgresServer(sa.make_url(url)).connect()
    try:
        found = [await connection.fetch(statement) for statement in statements]
        return [tuple(row) for row in found[-1]]
    finally:
        await connection.close()


async def _copy_tables(url: str, copy: str) -> None:
    source = await PostgresServer(sa.make_url(url)).connect()
    target = await PostgresServer(sa.make_url(copy)).connect()
    await source.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
    for table in metadata.sorted_tables:
        found = [[*row] for row in await source.fetch(f"SELECT * FROM {table.name}")]
        places = ", ".join(f"${number}" for number in range(1, len(table.c) + 1))
        await target.executemany(f"INSERT INTO {table.name} VALUES ({places})", found)
    await source.close()
    await target.close()
