"""Scripted turns on a real run host and a real database, and what can be read from them."""

import asyncio
import re
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

from app.entries import NewEntry, Run, RunHandle, StoredEntry
from app.runs import RunHost, Turn
from app.store import Store
from schema.events import (
    EVENTS,
    Actor,
    Ask,
    Done,
    Event,
    Failed,
    TextChunk,
    ToolCall,
    ToolResult,
    Usage,
)

ANN, BOB = Actor("session", "ann"), Actor("session", "bob")
CALL = ToolCall(id="c1", name="query", args={"manager": "Part"})
RESULT = ToolResult(id="c1", name="query", result={"data": [], "total_count": 0})
DONE = Done(usage=Usage(3, 4))

_FRAME = re.compile(rb"id: (?P<run>[^:\n]+):(?P<seq>\d+)\ndata: (?P<json>[^\n]+)\n\n")


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.moment = datetime(2026, 5, 4, 12, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.moment

    def move(self, seconds: float) -> None:
        self.moment += timedelta(seconds=seconds)


def wall_clock() -> datetime:
    return datetime.now(UTC)


@asynccontextmanager
async def hosting(
    url: str,
    *,
    grace_s: float = 0.0,
    run_stale_s: float = 30.0,
    kept_runs: int = 64,
    now: Callable[[], datetime] = wall_clock,
) -> AsyncGenerator[RunHost]:
    """Open a database and a host on it, as one process does."""
    async with (
        Store.open(url) as store,
        RunHost(
            store, grace_s=grace_s, run_stale_s=run_stale_s, kept_runs=kept_runs, now=now
        ) as host,
    ):
        yield host


def script(*items: Event | NewEntry) -> Turn:
    """Make a turn that yields these items, and ``DONE`` if they have no end."""

    async def turn(run: Run) -> AsyncGenerator[Event | NewEntry]:
        for item in items:
            yield item
        if not items or not isinstance(items[-1], Done | Failed):
            yield DONE

    return turn


class Gate:
    """A turn that says that it has begun, and waits until it may end."""

    def __init__(self) -> None:
        self.entered, self.may_end = asyncio.Event(), asyncio.Event()

    async def turn(self, run: Run) -> AsyncGenerator[Event | NewEntry]:
        yield TextChunk(content="first")
        self.entered.set()
        await self.may_end.wait()
        yield DONE


async def read(host: RunHost, run: RunHandle, *, after: int = 0, live: bool = False) -> bytes:
    """Tail a run to its end."""
    async with asyncio.timeout(10):
        return b"".join([part async for part in host.tail(run, after=after, live=live)])


async def play(
    host: RunHost, *items: Event | NewEntry, actor: Actor = ANN, **ask: object
) -> RunHandle:
    """Run a scripted turn to its end."""
    run = await host.start(Ask.model_validate({"text": "Hi", **ask}), actor, script(*items))
    await read(host, run)
    return run


async def witness(host: RunHost, *items: Event | NewEntry, **ask: object) -> Run:
    """Run a scripted turn to its end, and return the run as the turn has seen it."""
    seen: list[Run] = []

    def turn(run: Run) -> AsyncGenerator[Event | NewEntry]:
        seen.append(run)
        return script(*items)(run)

    await read(host, await host.start(Ask.model_validate({"text": "Hi", **ask}), ANN, turn))
    return seen[0]


def events(data: bytes) -> list[Event]:
    """Take a stream apart; nothing but whole frames may be in it."""
    assert b"".join(frame[0] for frame in _FRAME.finditer(data)) == data
    return [EVENTS.validate_json(frame["json"]) for frame in _FRAME.finditer(data)]


def numbers(data: bytes) -> list[int]:
    return [int(frame["seq"]) for frame in _FRAME.finditer(data)]


def runs_in(data: bytes) -> set[str]:
    return {frame["run"].decode() for frame in _FRAME.finditer(data)}


def told(entries: tuple[StoredEntry, ...]) -> list[tuple[int, str, str]]:
    return [(entry.seq, entry.kind, entry.content) for entry in entries]
