"""Aggregates over all flights, beside the same by hand through the driver."""

import asyncio
import sqlite3
import time
from contextlib import closing
from pathlib import Path

from app.demo import flights
from schema.aggregates import AggregateRequest
from schema.events import Actor
from schema.query import Reader
from schema.reads import prepare_database

_ROUNDS = 5
_BY_HAND = "SELECT carrier, avg(dep_delay) FROM flight GROUP BY carrier ORDER BY carrier"
_ASKED = AggregateRequest(
    "Flight", group_by=["carrier"], measures=[{"op": "avg", "field": "dep_delay"}]
)


def aggregate_shares(folder: Path, repeats: int) -> list[float]:
    """Return, by repeat, the processor time of an aggregate over that of the same by hand.

    Both go over the file of the flights demo, 336,776 rows, which is made in ``folder``; a first
    round of each does not count.
    """
    return asyncio.run(_shares(folder / "flights.db", repeats))


async def _shares(path: Path, repeats: int) -> list[float]:
    url = f"sqlite+aiosqlite:///{path}"
    await prepare_database(flights.managers, url)
    async with Reader(flights.managers, database_url=url) as reader:
        with closing(sqlite3.connect(path)) as connection:
            view = await reader.view(Actor("session", "bench"))
            shares: list[float] = []
            for _ in range(repeats + 1):
                start = time.process_time()
                for _ in range(_ROUNDS):
                    await reader.aggregate(_ASKED, view)
                half = time.process_time()
                for _ in range(_ROUNDS):
                    connection.execute(_BY_HAND).fetchall()
                shares.append((half - start) / (time.process_time() - half))
            return shares[1:]
