"""Reading rows: the ``query`` tool beside the same statements through the sqlite3 module."""

import asyncio
import sqlite3
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from servers import QUERY, bench_managers
from sqlalchemy import MetaData
from sqlalchemy.orm import registry
from sqlmodel import Field, SQLModel

from schema import Managers
from schema.events import Actor
from schema.query import Reader
from schema.reads import prepare_database
from schema.request import QueryRequest
from schema.tools import ToolContext, ToolRegistry, data_tools

_ACTOR = Actor("session", "bench")
_CALLS = 300
_PAGES = 100
_ARTICLES = 5_000
_PAGE = (
    "SELECT id, name, price, stock FROM article WHERE stock > ? ORDER BY price DESC, id LIMIT 200"
)
_COUNT = "SELECT count(*) FROM article WHERE stock > ?"


class _Table(SQLModel, registry=registry(metadata=MetaData())):
    """Base with its own metadata."""


class Article(_Table, table=True):
    """What is sold."""

    id: int = Field(primary_key=True)
    name: str
    price: float
    stock: int


def query_ms(folder: Path, repeats: int) -> list[float]:
    """Return the processor times of one call of ``query``: 20 rows with one related row each."""
    return asyncio.run(_query_ms(f"sqlite+aiosqlite:///{folder / 'query.db'}", repeats))


async def _query_ms(url: str, repeats: int) -> list[float]:
    await prepare_database(bench_managers(), url)
    tools = ToolRegistry(data_tools())
    found: list[float] = []
    async with Reader(bench_managers(), database_url=url) as reader:
        context = ToolContext(_ACTOR, await reader.view(_ACTOR), reader)
        await tools.call(QUERY.name, QUERY.args, context)
        for _ in range(repeats):
            start = time.process_time()
            for _ in range(_CALLS):
                await tools.call(QUERY.name, QUERY.args, context)
            found.append((time.process_time() - start) / _CALLS * 1e3)
    return found


def reading_shares(folder: Path, repeats: int) -> Sequence[float]:
    """Return the processor times of a filtered, ordered page of 200 rows and its count.

    Each is divided by that of the same two statements by hand, taken right after it.
    """
    path = folder / "reading.db"
    with closing(sqlite3.connect(path)) as writer, writer:
        writer.execute("CREATE TABLE article (id INTEGER PRIMARY KEY, name, price REAL, stock)")
        writer.executemany(
            "INSERT INTO article VALUES (?, ?, ?, ?)",
            [(n, f"Article {n}", n * 37 % 1009 / 4, n % 10) for n in range(_ARTICLES)],
        )
    return asyncio.run(_reading_shares(path, repeats))


async def _reading_shares(path: Path, repeats: int) -> list[float]:
    managers = Managers()
    managers.expose(Article)
    request = QueryRequest("Article", filters={"stock__gt": 4}, order_by=["-price"], limit=200)
    shares: list[float] = []
    async with Reader(managers, database_url=f"sqlite+aiosqlite:///{path}") as reader:
        view = await reader.view(_ACTOR)
        await reader.query(request, view)
        with closing(sqlite3.connect(path)) as by_hand:
            for _ in range(repeats):
                start = time.process_time()
                for _ in range(_PAGES):
                    await reader.query(request, view)
                between = time.process_time()
                for _ in range(_PAGES):
                    by_hand.execute(_PAGE, (4,)).fetchall()
                    by_hand.execute(_COUNT, (4,)).fetchone()
                shares.append((between - start) / (time.process_time() - between))
    return shares
