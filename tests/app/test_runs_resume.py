"""A stream that was cut goes on where it stopped, from memory and from the log, byte for byte."""

import asyncio
import shutil
import tempfile
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from pathlib import Path

import pytest
from databases import execute, rows
from hypothesis import given, settings
from hypothesis import strategies as st
from turns import (
    ANN,
    CALL,
    DONE,
    RESULT,
    Clock,
    Gate,
    events,
    hosting,
    numbers,
    play,
    read,
    script,
    told,
)

from app.entries import NewEntry, Run, RunHandle
from app.runs import RunHost, Turn
from app.store import Store
from schema.errors import NotFound
from schema.events import Ask, Event, Failed, Resync, TextChunk, Usage, UsageReported

FLUSH = None
"""Stands in a script for a moment at which everything so far is stored."""

ITEMS: Sequence[Event | NewEntry | None] = (
    TextChunk(content="Let me see, "),
    TextChunk(content='"naïve" \n\n data: 漢字 '),
    FLUSH,
    NewEntry("assistant", "Let me see"),
    CALL,
    RESULT,
    FLUSH,
    UsageReported(usage=Usage(1, 2)),
    TextChunk(content="id: "),
    TextChunk(content="1:2\n"),
    FLUSH,
    NewEntry("assistant", "id: 1:2"),
)


def stored_script(store: Store, items: Sequence[Event | NewEntry | None]) -> Turn:
    """Make a turn whose log has a row per stretch between two ``FLUSH``."""

    async def turn(run: Run) -> AsyncGenerator[Event | NewEntry]:
        for item in items:
            if item is None:
                await store.writer.submit(lambda _: None)
            else:
                yield item
        yield DONE

    return turn


async def assert_every_cut_heals(host: RunHost, run: RunHandle, whole: bytes, live: bool) -> None:
    """Resume behind each number; what was seen before and what comes after is the whole."""
    frames = [frame + b"\n\n" for frame in whole.split(b"\n\n")[:-1]]
    seqs = numbers(whole)
    for seen, seq in enumerate([0, *seqs]):
        before = b"".join(frames[:seen])
        assert before + await read(host, run, after=seq, live=live) == whole
    for seq in range(seqs[-1]):
        after = await read(host, run, after=seq, live=live)
        assert after == b"".join(frames[sum(number <= seq for number in seqs) :])


@pytest.mark.parametrize("live", [False, True])
async def test_a_cut_at_each_event_heals_from_memory_and_from_the_log(url: str, live: bool) -> None:
    async with Store.open(url) as store, RunHost(store) as host:
        run = await host.start(Ask(text="Hi"), ANN, stored_script(store, ITEMS))
        whole = await read(host, run, live=live)
        await assert_every_cut_heals(host, run, whole, live)
    assert len(rows(url, "SELECT 1 FROM chat_run_events")) == 4
    async with hosting(url) as host:
        await assert_every_cut_heals(host, await host.find(run.id, ANN), whole, live)


async def test_a_run_that_was_forgotten_goes_on_from_the_log(url: str) -> None:
    async with hosting(url, kept_runs=1) as host:
        runs = [await play(host, CALL, RESULT, TextChunk(content=str(n))) for n in range(3)]
        for run in runs:
            whole = await read(host, run, live=True)
            assert len(events(whole)) == 6
            await assert_every_cut_heals(host, run, whole, live=True)


async def test_a_cut_while_the_turn_is_at_work_heals(url: str) -> None:
    """The client takes one part, leaves, and comes back with the last id, until the end."""
    steps = asyncio.Semaphore(0)

    async def turn(run: Run) -> AsyncGenerator[Event | NewEntry]:
        for number in range(8):
            await steps.acquire()
            yield CALL if number % 3 else TextChunk(content=str(number))
        yield DONE

    async with hosting(url) as host, asyncio.timeout(10):
        run = await host.start(Ask(text="Hi"), ANN, turn)
        seen = b""
        while not seen.endswith(b'"output_tokens":4,"cost_usd":null}}\n\n'):
            steps.release()
            async with aclosing(host.tail(run, after=max([0, *numbers(seen)]))) as parts:
                seen += await anext(parts)
        assert seen == await read(host, run)


async def test_another_host_follows_a_run_at_work(url: str) -> None:
    gate = Gate()
    async with hosting(url) as one, hosting(url) as two, asyncio.timeout(10):
        run = await one.start(Ask(text="Hi"), ANN, gate.turn)
        found = await two.find(run.id, ANN)
        async with aclosing(two.tail(found, live=True)) as parts:
            seen = await anext(parts)
            gate.may_end.set()
            seen += b"".join([part async for part in parts])
        assert seen == await read(one, run, live=True)


SEQUENCES = st.lists(
    st.one_of(
        st.builds(TextChunk, content=st.text(max_size=5)),
        st.sampled_from([CALL, RESULT, UsageReported(usage=Usage()), FLUSH]),
        st.builds(NewEntry, st.just("assistant"), st.text(max_size=5)),
    ),
    max_size=12,
)


@settings(max_examples=25, deadline=None)
@given(items=SEQUENCES, live=st.booleans(), kept=st.sampled_from([0, 1]), data=st.data())
def test_any_turn_heals_from_any_cut(
    migrated: Path,
    items: Sequence[Event | NewEntry | None],
    live: bool,
    kept: int,
    data: st.DataObject,
) -> None:
    async def check(folder: str) -> None:
        url = f"sqlite:///{shutil.copy(migrated, folder)}"
        async with Store.open(url) as store, RunHost(store, kept_runs=kept) as host:
            run = await host.start(Ask(text="Hi"), ANN, stored_script(store, items))
            whole = await read(host, run, live=live)
            cut = data.draw(st.sampled_from([0, *numbers(whole)]))
            rest = await read(host, run, after=cut, live=live)
            assert whole.endswith(rest)
            assert numbers(rest) == [number for number in numbers(whole) if number > cut]

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(check(folder))


# --- the end of the log ---------------------------------------------------------------------------


async def test_behind_the_last_event_nothing_comes(url: str) -> None:
    async with hosting(url) as host:
        run = await play(host, CALL)
        assert await read(host, run, after=4) == b""
    async with hosting(url) as host:
        assert await read(host, run, after=4) == b""
        assert await read(host, run, after=-7) == await read(host, run)


async def assert_resynced(host: RunHost, run: RunHandle, after: int) -> None:
    data = await read(host, run, after=after)
    [event] = events(data)
    assert isinstance(event, Resync)
    assert (event.run_id, event.status, event.last_seq) == (run.id, "done", 4)
    assert numbers(data) == [4]
    page = await host.entries(run.conversation_id, ANN)
    own = [entry for entry in page.items if entry.run_id == run.id]
    kept = [entry for entry in event.entries if isinstance(entry, dict)]
    assert [(entry["seq"], entry["content"]) for entry in kept] == [
        (seq, content) for seq, _, content in told(tuple(own))
    ]
    assert str(kept[0]["created_at"]).endswith("Z")


async def test_a_cursor_beyond_the_end_gets_a_resync(url: str) -> None:
    said = NewEntry("assistant", "Hello.")
    async with hosting(url) as host:
        await play(host)
        run = await play(host, said)
        await play(host)
        for after in (5, 2**80):
            await assert_resynced(host, run, after)
    async with hosting(url) as host:
        for after in (5, 2**80):
            await assert_resynced(host, run, after)


async def test_a_cursor_beyond_a_run_at_work_elsewhere_waits_a_moment_and_resyncs(
    url: str,
) -> None:
    gate = Gate()
    async with hosting(url) as one, hosting(url) as two:
        run = await one.start(Ask(text="Hi"), ANN, gate.turn)
        [event] = events(await read(two, run, after=50))
        assert isinstance(event, Resync)
        assert event.status == "running"
        gate.may_end.set()
        await read(one, run)


async def test_whoever_saw_more_of_a_lost_run_than_was_stored_is_resynced(url: str) -> None:
    """The numbers of the last events may have been those of others before the process went."""
    clock, gate = Clock(), Gate()
    async with Store.open(url) as store, RunHost(store, now=clock, grace_s=0) as one:
        run = await one.start(Ask(text="Hi"), ANN, gate.turn)
        await gate.entered.wait()
        await store.writer.submit(lambda _: None)
        clock.move(31)
        async with hosting(url, now=clock) as two:
            whole = await read(two, run, live=True)
            assert numbers(whole) == [1, 2, 3, 4, 5, 6]
            assert isinstance(events(whole)[-1], Failed)
            for after in (0, 1, 2, 3):
                rest = await read(two, run, after=after, live=True)
                assert whole.endswith(rest)
                assert numbers(rest)[0] == after + 1
            for after in (4, 5, 6, 7):
                [event] = events(await read(two, run, after=after))
                assert isinstance(event, Resync)
                assert (event.status, event.last_seq) == ("interrupted", 6)
                assert len(event.entries) == 3


async def test_a_deleted_run_is_not_found(url: str) -> None:
    async with Store.open(url) as store, RunHost(store, kept_runs=0) as host:
        run = await play(host)
        execute(url, "DELETE FROM chat_conversations")
        for after in (0, 9):
            with pytest.raises(NotFound):
                await read(host, run, after=after)
    for name in ("runs", "run_events", "entries"):
        assert rows(url, f"SELECT count(*) FROM chat_{name}") == [(0,)]


async def test_an_unread_run_ends_all_the_same(url: str) -> None:
    ended = asyncio.Event()

    async def turn(run: Run) -> AsyncGenerator[Event | NewEntry]:
        async for item in script(CALL, RESULT)(run):
            yield item
        ended.set()

    async with hosting(url, grace_s=5) as host, asyncio.timeout(5):
        await host.start(Ask(text="Hi"), ANN, turn)
        await ended.wait()
    assert rows(url, "SELECT status, last_seq FROM chat_runs") == [("done", 5)]
