"""Whole turns of the offline provider over the flights, through the engine, in this process."""

import asyncio
import statistics
import time
from pathlib import Path

from transports import open_chat

from app.demo import flights
from app.store import migrate
from schema.reads import prepare_database

_ASKED = (
    "How many flights are there?",
    "flights per carrier",
    "Which carrier has the most flights?",
    "What is the name of carrier B6?",
    "How many flights from JFK to LAX?",
    "average departure delay from JFK in July",
    "How many flights have no departure time?",
    "planes by manufacturer, top five",
    "Which planes were built before 1960?",
    "airports above 8,000 feet",
)
"""Questions of ten kinds; those of one repeat follow each other in conversations of their own."""


def offline_ms(folder: Path, repeats: int) -> list[float]:
    """Return, by repeat, the median time of a turn: from the question to its last event.

    Included are the provider's thinking, its reads of 336,776 flights, storing and events; a first
    repeat does not count.
    """
    return asyncio.run(_medians(folder / "flights.db", repeats))


async def _medians(path: Path, repeats: int) -> list[float]:
    url = f"sqlite+aiosqlite:///{path}"
    await migrate(url)
    await prepare_database(flights.managers, url)
    async with open_chat("engine", flights.managers, url, provider="offline") as chat:
        medians: list[float] = []
        for _ in range(repeats + 1):
            times: list[float] = []
            for question in _ASKED:
                start = time.perf_counter()
                events = await chat.ask(question, conversation_id="new")
                times.append((time.perf_counter() - start) * 1000)
                assert events[-1].type == "done"
            medians.append(statistics.median(times))
        return medians[1:]
