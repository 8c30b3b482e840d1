"""A process that is killed at any moment leaves nothing half open, and the next one goes on."""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from databases import is_postgres, locked, rows
from dying import Mortal, living, told_last
from history import check_events, check_order
from postgres import Postgres
from transports import events_of
from turns import numbers

from app.entries import interrupted_call
from schema.events import Event, Failed, JsonObject, Resync, TextChunk, ToolResult

KILLS = {"sqlite": 40, "postgres": 8}
SEED = 20261201


@pytest.fixture
def server_url(postgres: Postgres, migrated_template: str) -> Generator[str]:
    """A database that has room for the data too."""
    url = postgres.create(migrated_template)
    yield url
    postgres.drop(url)


@dataclass(frozen=True, slots=True)
class Cut:
    """What a client has of a run whose process was killed: whole frames, as they came."""

    run_id: str
    live: bool
    seen: bytes


class Visitor:
    """Somebody who comes back, to each new process on the same database."""

    server: Mortal
    client: httpx.AsyncClient

    def __init__(self, folder: Path, url: str) -> None:
        self.folder, self.url = folder, url
        self.cookies, self.conversation = httpx.Cookies(), "new"

    @asynccontextmanager
    async def visit(self) -> AsyncGenerator[None]:
        """Come to a new process."""
        async with living(self.folder, self.url) as self.server:
            url = self.server.url
            async with httpx.AsyncClient(
                base_url=url, cookies=self.cookies, timeout=20
            ) as self.client:
                yield

    @asynccontextmanager
    async def asking(self, text: str, *, live: bool = False) -> AsyncGenerator[httpx.Response]:
        body = {"text": text, "conversation_id": self.conversation, "live": live}
        headers = {"x-csrftoken": self.cookies.get("csrftoken") or ""}
        async with self.client.stream(
            "POST", "/chat/stream/", json=body, headers=headers
        ) as response:
            yield response

    async def say_hi(self) -> None:
        """Have a turn that goes well, at once; its model is told a history that it takes."""
        async with asyncio.timeout(10), self.asking("hi") as response:
            shown = events_of(await response.aread())
        assert [event.type for event in shown] == ["text_chunk", "done"]
        messages = told_last(self.folder)
        assert messages[-1].content == "hi"
        check_order(messages)
        self.cookies = self.client.cookies
        self.conversation = response.headers["x-conversation-id"]

    async def ask_and_kill(self, *, at_byte: int, after_s: float, live: bool) -> Cut | None:
        """Ask, and kill the server at a byte or a moment; None if no run was begun."""
        before, received = self._newest_run(), b""
        timer = asyncio.get_running_loop().call_later(after_s, self.server.kill)
        with suppress(httpx.TransportError):
            async with self.asking("What is there?", live=live) as response:
                async for chunk in response.aiter_raw():
                    received += chunk
                    if len(received) >= at_byte:
                        self.server.kill()
        timer.cancel()
        self.server.kill()
        await self.server.wait()
        run_id = self._newest_run()
        if run_id == before:
            assert not received
            return None
        frames, end, _ = received.rpartition(b"\n\n")
        return Cut(run_id, live, frames + end)

    def look(self, query: str) -> list[tuple[object, ...]]:
        return rows(self.url, query)

    def _newest_run(self) -> str:
        return str(self.look("SELECT id FROM chat_runs ORDER BY started_at DESC LIMIT 1")[0][0])

    def last_stored(self, run_id: str) -> int:
        """Return the last number that a lost run has stored itself; the rest is one row."""
        [(first,)] = self.look(
            f"SELECT max(first_seq) FROM chat_run_events WHERE run_id = '{run_id}'"
        )
        assert isinstance(first, int)
        return first - 1

    async def tail(self, run_id: str, after: int = 0, *, live: bool = False) -> bytes:
        path, params = f"/chat/runs/{run_id}/events/", {"after": after, "live": live}
        return (await self.client.get(path, params=params)).content

    async def kept(self, run_id: str) -> tuple[dict[str, JsonObject], str]:
        """Read a run's entries: its calls by their id, and its text."""
        path = f"/chat/conversations/{self.conversation}/entries/"
        page = (await self.client.get(path, params={"limit": 500})).json()
        assert page["next"] is None
        own = [entry for entry in page["items"] if entry["run_id"] == run_id]
        calls = [entry for entry in own if entry["kind"] == "action"]
        by_id = {entry["call_id"]: entry for entry in calls}
        assert len(by_id) == len(calls)
        return by_id, "".join(e["content"] for e in own if e["kind"] == "assistant")


async def check_log(visitor: Visitor, cut: Cut) -> list[Event]:
    """See that a run is closed, and what each cursor leads to; return the events of the run."""
    [(status, was_lost)] = visitor.look(
        f"SELECT status, was_lost FROM chat_runs WHERE id = '{cut.run_id}'"
    )
    shown = events_of(await visitor.tail(cut.run_id))
    check_events(shown)
    assert status == (shown[-1].code if isinstance(shown[-1], Failed) else "done")
    assert status == ("interrupted" if was_lost else "done")

    whole = await visitor.tail(cut.run_id, live=cut.live)
    seen_to, last = max(numbers(cut.seen), default=0), numbers(whole)[-1]
    is_beyond = bool(was_lost) and seen_to > visitor.last_stored(cut.run_id)
    rest = await visitor.tail(cut.run_id, seen_to, live=cut.live)
    assert is_beyond or cut.seen + rest == whole
    for data in [await visitor.tail(cut.run_id, last + 1), *([rest] if is_beyond else [])]:
        [resync] = events_of(data)
        assert isinstance(resync, Resync)
        assert (resync.status, resync.last_seq) == (status, last)
    return shown


async def check_entries(visitor: Visitor, cut: Cut, shown: list[Event]) -> None:
    """See that a run's entries tell what its events tell."""
    calls, text = await visitor.kept(cut.run_id)
    results = {event.id: event.result for event in shown if isinstance(event, ToolResult)}
    assert {id: entry["result"] for id, entry in calls.items()} == results
    assert text == "".join(event.content for event in shown if isinstance(event, TextChunk))


@pytest.mark.covers("P31", "P33", "P35")
async def test_a_process_that_is_killed_anywhere_leaves_nothing_half_open(
    url: str, tmp_path: Path
) -> None:
    """Each process sees how the one before it has left things, has a turn, and is killed in one."""
    dice, visitor = random.Random(SEED), Visitor(tmp_path, url)
    kills = KILLS["postgres" if is_postgres(url) else "sqlite"]
    closed: Counter[str] = Counter()
    cut: Cut | None = None
    for _ in range(kills + 1):
        async with asyncio.timeout(60), visitor.visit():
            if cut is not None:
                shown = await check_log(visitor, cut)
                closed[shown[-1].type] += 1
                await check_entries(visitor, cut, shown)
            await visitor.say_hi()
            cut = await visitor.ask_and_kill(
                at_byte=dice.randrange(3000),
                after_s=dice.choice([dice.uniform(0, 0.8), 30]),
                live=dice.choice([False, True]),
            )
    assert closed["error"] > kills / 4


@pytest.mark.covers("H12")
async def test_a_call_whose_process_was_killed_is_interrupted_once_and_for_all(
    url: str, tmp_path: Path
) -> None:
    visitor = Visitor(tmp_path, url)
    async with asyncio.timeout(60), visitor.visit():
        await visitor.say_hi()
        # A server knows ways that make an end of the query.
        stuck = locked(url, "projectmanager") if is_postgres(url) else nullcontext()
        async with stuck, visitor.asking("endless") as response:
            run_id = response.headers["x-run-id"]
            shown = "SELECT 1 FROM chat_run_events WHERE frames LIKE '%tool_call%'"
            while not visitor.look(shown):  # noqa: ASYNC110
                await asyncio.sleep(0.01)  # another process writes; there is nothing to wait on
            visitor.server.kill()
            await visitor.server.wait()
    for _ in range(3):
        async with asyncio.timeout(60), visitor.visit():
            calls, text = await visitor.kept(run_id)
            assert [entry["status"] for entry in calls.values()] == 2 * ["interrupted"]
            assert [entry["result"] for entry in calls.values()] == 2 * [interrupted_call()]
            assert text.startswith("word 0 word 1 ")
    async with asyncio.timeout(60), visitor.visit():
        await visitor.say_hi()
        assert len((await visitor.kept(run_id))[0]) == 2
