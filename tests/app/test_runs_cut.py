"""A run that is cut off keeps each text that it has shown, and each call, with one result."""

import asyncio
import shutil
import tempfile
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import orjson
import pytest
from databases import file_of, rows, snapshot
from history import check_events, check_order
from hypothesis import given, settings
from hypothesis import strategies as st
from turns import (
    ANN,
    DONE,
    Clock,
    events,
    hosting,
    numbers,
    read,
    wall_clock,
    witness,
)

from app.conversation import history
from app.demo.toy import managers
from app.engine import TurnEngine
from app.entries import NewEntry, Run, RunHandle, StoredEntry, interrupted_call
from app.runs import RunHost
from app.settings import Settings
from app.store import Store
from providers.base import BaseLLMProvider
from providers.scripted import Script, call, say
from schema.events import (
    Ask,
    CallId,
    ChatEvent,
    DoneEvent,
    EntryStored,
    Event,
    Failed,
    Json,
    JsonObject,
    Message,
    TextChunk,
    TextChunkEvent,
    ToolCall,
    ToolCallEvent,
    ToolDefinition,
    ToolResult,
    Usage,
    UsageReported,
)
from schema.query import Reader
from schema.tools import Tool, ToolContext, ToolRegistry

ROWS: JsonObject = {"data": [{"price": 1.5}], "total_count": 1}
REFUSED: JsonObject = {"status": "error", "code": "invalid_arguments", "message": "Try limit."}
FLUSH = None
"""Stands in a script for a moment at which everything so far is stored."""
Items = Sequence[Event | NewEntry | None]


def asked(id: str) -> ToolCall:
    return ToolCall(id=id, name="query", args={"manager": "Part", "price": 0.1})


def answered(id: str, result: JsonObject = ROWS) -> ToolResult:
    return ToolResult(id=id, name="query", result=result)


def action(id: str, round_: int, result: JsonObject = ROWS, status: str = "succeeded") -> NewEntry:
    return NewEntry(
        *("action", "", round_, "query", CallId(id)),
        orjson.dumps(asked(id).args).decode(),
        orjson.dumps(result).decode(),
        status,
    )


def interrupted(id: str, round_: int) -> NewEntry:
    return action(id, round_, interrupted_call(), "interrupted")


def said(text: str, round_: int) -> NewEntry:
    return NewEntry("assistant", text, round_)


def held(entry: NewEntry) -> tuple[object, ...]:
    """What an entry says, stored or not."""
    call = (entry.name, entry.call_id, entry.arguments, entry.result, entry.status)
    return (entry.kind, entry.content, entry.round, *call)


@dataclass(frozen=True, slots=True)
class Killed:
    """A database as a process that was killed has left it, and what the process went on to show."""

    url: str
    run: RunHandle
    shown: bytes
    stored: int
    """How many of the shown events are in the database."""


async def kill(url: str, copy: str, items: Items, at: int) -> Killed:
    """Run a scripted turn, and copy what is stored when the item number ``at`` is its next."""

    async def turn(run: Run) -> AsyncGenerator[Event | NewEntry]:
        for number, item in enumerate((*items, DONE)):
            if number == at:
                snapshot(url, copy)
            if item is None:
                await store.writer.submit(lambda _: None)
            else:
                yield item

    async with Store.open(url) as store, RunHost(store) as host:
        run = await host.start(Ask(text="Hi"), ANN, turn)
        shown = await read(host, run, live=True)
    [(stored,)] = rows(copy, "SELECT max(last_seq) FROM chat_run_events")
    return Killed(copy, run, shown, stored if isinstance(stored, int) else 0)


@asynccontextmanager
async def restarted(killed: Killed) -> AsyncGenerator[RunHost]:
    """Open what was left as another process does when the killed one is known to be gone."""
    later = Clock()
    later.moment = wall_clock()
    later.move(31)
    async with hosting(killed.url, now=later) as host:
        yield host


async def entries_of(host: RunHost, run: RunHandle) -> list[StoredEntry]:
    page = await host.entries(run.conversation_id, ANN, limit=500)
    return [entry for entry in page.items if entry.run_id == run.id]


# --- killed ---------------------------------------------------------------------------------------

SAID = said("Let me see.", 1)
BATCH = (TextChunk(content="Let me see."), SAID, asked("a"), asked("b"))
ERROR = NewEntry("error", "The answer was interrupted. Send the message again.", name="interrupted")


@pytest.mark.covers("P31")
@pytest.mark.parametrize(
    ("items", "entries"),
    [
        ([], []),
        ([TextChunk(content="Well")], [said("Well", 1)]),
        ([TextChunk(content="\n")], [said("\n", 1)]),
        (BATCH, [SAID, interrupted("a", 1), interrupted("b", 1)]),
        (BATCH[2:], [interrupted("a", 1), interrupted("b", 1)]),
        (
            [*BATCH, answered("a"), answered("b", REFUSED)],
            [SAID, action("a", 1), action("b", 1, REFUSED, "failed")],
        ),
        ([*BATCH, answered("b")], [SAID, interrupted("a", 1), action("b", 1)]),
        (
            [*BATCH, answered("a"), answered("b"), action("a", 1)],
            [SAID, action("a", 1), action("b", 1)],
        ),
        (
            [asked("a"), answered("a"), action("a", 1), TextChunk(content="Three")],
            [action("a", 1), said("Three", 2)],
        ),
        (
            [asked("a"), answered("a"), action("a", 1), asked("b")],
            [action("a", 1), interrupted("b", 2)],
        ),
    ],
)
async def test_a_killed_run_is_completed_from_its_log(
    url: str, copy_url: str, items: Items, entries: Sequence[NewEntry]
) -> None:
    killed = await kill(url, copy_url, [*items, FLUSH], len(items) + 1)
    async with restarted(killed) as host:
        _, *found = await entries_of(host, killed.run)
        assert [held(entry) for entry in found] == [held(entry) for entry in (*entries, ERROR)]
        check_events(events(await read(host, killed.run)))
        await check_next_turn(host, killed.run)


async def test_what_completes_a_run_is_shown_as_the_turn_would_have_shown_it(
    url: str, copy_url: str
) -> None:
    killed = await kill(url, copy_url, [*BATCH, FLUSH], len(BATCH) + 1)
    async with restarted(killed) as host:
        whole = await read(host, killed.run, live=True)
    assert events(whole)[2:] == [
        *(TextChunk(content="Let me see."), EntryStored(entry_seq=2, kind="assistant")),
        *(asked("a"), asked("b")),
        *(answered("a", interrupted_call()), answered("b", interrupted_call())),
        *(EntryStored(entry_seq=3, kind="action"), EntryStored(entry_seq=4, kind="action")),
        EntryStored(entry_seq=5, kind="error"),
        Failed(message=ERROR.content, code="interrupted"),
    ]
    assert numbers(whole) == list(range(1, 13))


TEXTS = st.lists(st.text("ab \n\0", max_size=3), max_size=3)
ROUNDS = st.lists(
    st.tuples(TEXTS, st.lists(st.sampled_from([ROWS, REFUSED]), min_size=1, max_size=3)),
    max_size=3,
)


def rounds(scripts: Sequence[tuple[list[str], list[JsonObject]]]) -> list[Event | NewEntry]:
    """Write the items of a turn as the loop yields them; the last round has no calls."""
    items: list[Event | NewEntry] = []
    for number, (texts, found) in enumerate(scripts, 1):
        results = {f"call_{number}_{place}": result for place, result in enumerate(found)}
        items += [TextChunk(content=text) for text in texts]
        items += [said("".join(texts), number)] if "".join(texts) else []
        items += [UsageReported(usage=Usage(number, number))]
        items += [asked(id) for id in results]
        items += [answered(id, result) for id, result in results.items()]
        items += [
            action(id, number, result, "failed" if result is REFUSED else "succeeded")
            for id, result in results.items()
        ]
    return items


async def check_log(host: RunHost, killed: Killed) -> None:
    """See that what was stored stands, and that no cursor leads from it to something else."""
    whole = await read(host, killed.run, live=True)
    frames = [frame + b"\n\n" for frame in whole.split(b"\n\n")[:-1]]
    own = b"".join(frames[: killed.stored])
    assert killed.shown.startswith(own)
    for seq in range(len(frames) + 2):
        rest = await read(host, killed.run, after=seq, live=True)
        if seq <= killed.stored:
            assert rest == b"".join(frames[seq:])
        else:
            assert [event.type for event in events(rest)] == ["resync"]


async def check_entries(host: RunHost, run: RunHandle) -> None:
    """See that entries and events tell the same."""
    shown = events(await read(host, run))
    check_events(shown)
    entries = await entries_of(host, run)
    calls = [entry for entry in entries if entry.kind == "action"]
    assert {entry.call_id: orjson.loads(entry.result or "") for entry in calls} == {
        event.id: event.result for event in shown if isinstance(event, ToolResult)
    }
    assert len(calls) == sum(isinstance(event, ToolCall) for event in shown)
    assert "".join(entry.content for entry in entries if entry.kind == "assistant") == "".join(
        event.content for event in shown if isinstance(event, TextChunk)
    )


async def check_next_turn(host: RunHost, run: RunHandle) -> None:
    """See that a model takes the history that the next turn begins with."""
    following = await witness(host)
    assert following.conversation_id == run.conversation_id
    messages = history(following.window)
    check_order([Message("system", "Answer."), *messages, Message("user", "hi")])


@pytest.mark.covers("P31", "P33")
@settings(max_examples=60, deadline=None)
@given(scripts=ROUNDS, last=TEXTS, data=st.data())
def test_a_run_that_is_killed_anywhere_leaves_a_whole_history(
    migrated: Path,
    scripts: list[tuple[list[str], list[JsonObject]]],
    last: list[str],
    data: st.DataObject,
) -> None:
    items: list[Event | NewEntry | None] = [*rounds([*scripts, (last, [])])]
    at = data.draw(st.integers(0, len(items)))
    flushed = data.draw(st.integers(0, at))
    items.insert(flushed, FLUSH)

    async def check(folder: str) -> None:
        url, copy = (f"sqlite:///{folder}/{name}.db" for name in ("chat", "killed"))
        shutil.copy(migrated, file_of(url))
        killed = await kill(url, copy, items, at + 1)
        for _ in range(3):
            async with restarted(killed) as host:
                await check_log(host, killed)
                await check_entries(host, killed.run)
        async with restarted(killed) as host:
            await check_next_turn(host, killed.run)

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(check(folder))


# --- stopped by its own process -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Bench:
    """Tools that are quick, never done, or done only when they are told to stop."""

    limit_s: float = 60
    begun: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def tools(self) -> ToolRegistry:
        answers = {"quick": self._quick, "stuck": self._stuck, "stubborn": self._stubborn}
        return ToolRegistry([Tool(name, "A tool.", (), run) for name, run in answers.items()])

    async def _quick(self, args: JsonObject, context: ToolContext) -> Json:
        return "quick"

    async def _stuck(self, args: JsonObject, context: ToolContext) -> Json:
        self.begun.set()
        await asyncio.Event().wait()
        return None

    async def _stubborn(self, args: JsonObject, context: ToolContext) -> Json:
        self.begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await asyncio.sleep(0)
        return "stubborn"


@pytest.fixture
async def reader(toy_url: str) -> AsyncGenerator[Reader]:
    async with Reader(managers, database_url=toy_url) as reader:
        yield reader


async def ask(
    host: RunHost,
    reader: Reader,
    bench: Bench,
    model: Callable[[], BaseLLMProvider],
    text: str = "Hi",
) -> RunHandle:
    """Start a turn of the engine whose tools are the bench's."""
    engine = TurnEngine(
        settings=Settings.model_construct(turn_timeout_seconds=bench.limit_s),
        reader=reader,
        tools=bench.tools,
        provider=model,
        now=wall_clock,
    )
    return await host.start(Ask(text=text), ANN, engine.turn)


def outcomes(entries: Sequence[StoredEntry]) -> list[str]:
    return [entry.status or entry.kind for entry in entries]


STOPPED = pytest.mark.parametrize(
    ("tools", "found"),
    [
        (["stuck"], ["interrupted"]),
        (["stubborn"], ["succeeded"]),
        (
            ["quick", "stuck", "stubborn", "unknown"],
            ["succeeded", "interrupted", "succeeded", "failed"],
        ),
    ],
)


@pytest.mark.covers("P31", "P36")
@STOPPED
async def test_a_turn_that_is_stopped_in_its_tools_has_a_result_for_each(
    url: str, reader: Reader, tools: list[str], found: list[str]
) -> None:
    bench = Bench()
    model = Script([say("Let me see."), *(call(name) for name in tools)], say("ok"))
    async with asyncio.timeout(10), hosting(url) as host:
        run = await ask(host, reader, bench, model)
        await bench.begun.wait()
        host.drain()
        shown = await read(host, run)
    async with hosting(url) as host:
        assert await read(host, run) == shown
        await check_entries(host, run)
        *entries, error = await entries_of(host, run)
        assert outcomes(entries) == ["user", "assistant", *found]
        assert (error.kind, error.name) == ("error", "interrupted")
        assert len(model.requests) == 1
        again = await ask(host, reader, bench, model, "And now?")
        assert [event.type for event in events(await read(host, again))] == ["text_chunk", "done"]
    check_order(model.requests[1].messages)


@pytest.mark.covers("P31", "P35")
@STOPPED
async def test_a_turn_that_loses_its_lease_in_its_tools_keeps_nothing_of_its_own(
    url: str, reader: Reader, tools: list[str], found: list[str]
) -> None:
    """Whoever took the lease has closed the run, and knows of no result."""
    bench, later = Bench(), Clock()
    later.moment = wall_clock()
    later.move(31)
    model = Script([call(name) for name in tools])
    async with (
        asyncio.timeout(10),
        Store.open(url) as store,
        RunHost(store, run_stale_s=0.3) as one,
    ):
        run = await ask(one, reader, bench, model)
        await bench.begun.wait()
        await store.writer.submit(lambda _: None)
        async with hosting(url, now=later) as two:
            shown = await read(one, run)
            check_events(events(shown))
            assert isinstance(events(shown)[-1], Failed)
            await check_entries(two, run)
            entries = await entries_of(two, run)
            assert outcomes(entries) == ["user", *len(found) * ["interrupted"], "error"]
            assert await read(one, run) == await read(two, run)


@pytest.mark.covers("P31")
@pytest.mark.parametrize(("tool", "status"), [("stuck", "failed"), ("stubborn", "succeeded")])
async def test_a_deadline_in_a_tool_leaves_a_result(
    url: str, reader: Reader, tool: str, status: str
) -> None:
    bench = Bench(limit_s=0.2)
    async with asyncio.timeout(10), hosting(url) as host:
        run = await ask(host, reader, bench, Script(call(tool)))
        *_, last = events(await read(host, run))
        assert isinstance(last, Failed)
        assert last.code == "deadline_exceeded"
        await check_entries(host, run)
        assert outcomes(await entries_of(host, run)) == ["user", status, "error"]


class GoesOn:
    """A provider that takes a cancellation for the end of its wait."""

    def __init__(self, begun: asyncio.Event) -> None:
        self._begun = begun

    async def complete(
        self, messages: list[Message], tools: list[ToolDefinition]
    ) -> AsyncGenerator[ChatEvent]:
        yield TextChunkEvent("Well. ")
        self._begun.set()
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        yield ToolCallEvent("c1", "quick")
        yield DoneEvent()


async def test_a_provider_that_goes_on_when_it_is_stopped_gets_no_other_round(
    url: str, reader: Reader
) -> None:
    bench = Bench()
    async with asyncio.timeout(10), hosting(url) as host:
        model = GoesOn(bench.begun)
        run = await ask(host, reader, bench, lambda: model)
        await bench.begun.wait()
        host.drain()
        *_, last = events(await read(host, run))
    assert isinstance(last, Failed)
    assert last.code == "interrupted"
    async with hosting(url) as host:
        await check_entries(host, run)
        assert outcomes(await entries_of(host, run)) == ["user", "assistant", "succeeded", "error"]


# --- the rules themselves -------------------------------------------------------------------------

PROMPT, QUESTION = Message("system", "Answer."), Message("user", "hi")
CALLS = Message("assistant", "", (ToolCallEvent("a", "query"), ToolCallEvent("b", "query")))
RESULT_A, RESULT_B = (Message("tool", "1", (), id, "query") for id in "ab")


def test_the_order_of_a_whole_exchange_is_accepted() -> None:
    check_order([PROMPT, QUESTION, CALLS, RESULT_A, RESULT_B])
    check_order([PROMPT, QUESTION, CALLS, RESULT_A, RESULT_B, Message("assistant", "2"), QUESTION])


@pytest.mark.parametrize(
    "messages",
    [
        [QUESTION],
        [PROMPT, PROMPT, QUESTION],
        [PROMPT, QUESTION, Message("assistant", "2")],
        [PROMPT, QUESTION, Message("assistant", "\n"), QUESTION],
        [PROMPT, QUESTION, CALLS, RESULT_A],
        [PROMPT, QUESTION, CALLS, RESULT_B, RESULT_A],
        [PROMPT, QUESTION, CALLS, RESULT_A, RESULT_A],
        [PROMPT, QUESTION, CALLS, RESULT_A, RESULT_B, RESULT_B],
        [PROMPT, QUESTION, CALLS, RESULT_A, QUESTION, RESULT_B],
        [PROMPT, QUESTION, CALLS, RESULT_A, RESULT_B, CALLS, RESULT_A, RESULT_B],
        [PROMPT, QUESTION, RESULT_A],
    ],
)
def test_an_order_that_a_vendor_refuses_is_refused(messages: list[Message]) -> None:
    with pytest.raises(AssertionError):
        check_order(messages)
