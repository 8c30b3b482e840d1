"""Parts of a turn without the rest, in this process: the loop, and storing a turn."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from zoneinfo import ZoneInfo

from servers import ROWS, AtOnce, bench_managers

from app.entries import NewEntry, Run
from app.loop import Budget, Loop
from app.runs import RunHost
from app.store import Store, migrate
from providers.base import Message
from schema.events import Actor, Ask, Event, Json, JsonObject
from schema.query import Reader
from schema.tools import Tool, ToolContext, ToolRegistry, data_tools
from schema.views import View

_LOOPS = 2_000
_STORED = 400
_WARM = 10
"""Turns that each conversation holds before the clock starts."""


async def loop_cpu_us() -> float:
    """Return the processor time of one turn of the loop alone, its tool answering at once."""
    turn = _loop_turn()
    start = time.process_time()
    for _ in range(_LOOPS):
        async for _ in turn():
            pass
    return (time.process_time() - start) / _LOOPS * 1e6


async def storing_cpu_us(at_once: int, url: str) -> float:
    """Return the processor time of storing one turn, all threads, user and system.

    Included is all that ``RunHost`` and ``Store`` do for a turn on a fresh database (a SQLite file
    with ``synchronous=FULL``, or PostgreSQL, whose server's own time does not count): admission
    (lease, run, question, window), numbering and encoding the events, joining the text, the event
    log and entries on the way and at the end, all commits, and one tail that waits for the end.
    The turn yields what the loop yielded once, so no provider, tool or loop is at work, and there
    is no HTTP. ``at_once`` conversations are at work at the same time and share commits.
    """
    items = [item async for item in _loop_turn()()]

    async def turn(_: Run) -> AsyncGenerator[Event | NewEntry]:
        for item in items:
            yield item

    async def talk(host: RunHost, name: str, turns: int) -> None:
        for _ in range(turns):
            ask = Ask(text="Which parts do we have, and who delivers them?")
            run = await host.start(ask, Actor("session", name), turn)
            async for _ in host.tail(run):
                pass

    async def talk_all(host: RunHost, turns: int) -> None:
        async with asyncio.TaskGroup() as group:
            for n in range(at_once):
                group.create_task(talk(host, f"visitor {n}", turns))

    await migrate(url)
    async with Store.open(url) as store, RunHost(store) as host:
        await talk_all(host, _WARM)
        turns = _STORED // at_once
        start = time.process_time()
        await talk_all(host, turns)
        return (time.process_time() - start) / (turns * at_once) * 1e6


def _loop_turn() -> Callable[[], AsyncGenerator[Event | NewEntry]]:
    """Make what starts a turn of the loop: one query, answered at once, and an answer."""
    supplier: Json = {"name": "Supplier 1"}
    rows: Json = [
        {"id": n, "name": f"Part {n}", "price": n / 4, "supplier": supplier} for n in range(ROWS)
    ]
    parameters = next(tool.parameters for tool in data_tools() if tool.name == "query")

    async def query(_: JsonObject, __: ToolContext) -> Json:
        return {"data": rows, "total_count": ROWS, "has_more": False}

    tools = ToolRegistry([Tool("query", "Reads rows.", parameters, query)])
    reader = Reader(bench_managers(), database_url="sqlite:///unused.db")
    actor = Actor("session", "bench")
    context = ToolContext(actor, View(actor, reader.index, {}, {}, "", ZoneInfo("UTC")), reader)

    def turn() -> AsyncGenerator[Event | NewEntry]:
        budget = Budget(8, 18, asyncio.get_running_loop().time() + 300)
        return Loop(AtOnce(), tools, context, budget).run([Message("user", "hi")])

    return turn
