"""One turn at a time in a conversation, whatever starts, dies or comes back meanwhile."""

import asyncio
import signal
import sys
from collections.abc import AsyncGenerator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from databases import occupied, rows
from turns import (
    ANN,
    CALL,
    DONE,
    Clock,
    Gate,
    events,
    hosting,
    numbers,
    play,
    read,
    script,
    told,
    witness,
)

from app import leases
from app.entries import NewEntry, Run, RunHandle, StoredEntry
from app.leases import Ending, Flush, LeaseLost
from app.runs import RunHost
from app.store import Store
from schema.errors import TryAgain, TurnInProgress
from schema.events import Ask, ConversationId, Done, Event, Failed, TextChunk

LEASE = "SELECT lease_run_id, lease_holder, lease_beat_at FROM chat_conversations"


async def race(hosts: list[RunHost], conversation: ConversationId, starts: int) -> list[RunHandle]:
    """Start many turns in one conversation at the same instant; return those that were let in."""
    gate = Gate()
    ask = Ask(text="Hi", conversation_id=conversation)
    results = await asyncio.gather(
        *(hosts[number % len(hosts)].start(ask, ANN, gate.turn) for number in range(starts)),
        return_exceptions=True,
    )
    refused = [result for result in results if isinstance(result, TurnInProgress)]
    admitted = [result for result in results if isinstance(result, RunHandle)]
    assert len(refused) + len(admitted) == starts
    gate.may_end.set()
    for run in admitted:
        for host in hosts:
            await read(host, run)
    return admitted


@pytest.mark.covers("H21")
async def test_of_many_starts_at_once_exactly_one_wins(url: str) -> None:
    async with hosting(url) as host:
        first = await play(host)
        for _ in range(20):
            assert len(await race([host], first.conversation_id, 20)) == 1
    kinds = rows(url, "SELECT kind FROM chat_entries")
    assert kinds == [("user",)] * 21
    assert rows(url, LEASE) == [(None, None, None)]


@pytest.mark.covers("H21")
async def test_of_starts_in_two_processes_exactly_one_wins(url: str) -> None:
    async with hosting(url) as one, hosting(url) as two, asyncio.timeout(30):
        first = await play(one)
        winners = [await race([one, two], first.conversation_id, 8) for _ in range(10)]
        assert [len(admitted) for admitted in winners] == [1] * 10


async def test_first_messages_at_once_make_one_conversation(url: str) -> None:
    gate = Gate()
    async with hosting(url) as one, hosting(url) as two:
        results = await asyncio.gather(
            *(host.start(Ask(text="Hi"), ANN, gate.turn) for host in [one, two] * 5),
            return_exceptions=True,
        )
        assert sum(isinstance(result, RunHandle) for result in results) == 1
        assert len(rows(url, "SELECT id FROM chat_conversations")) == 1
        gate.may_end.set()


async def test_one_request_sent_many_times_is_one_run(url: str) -> None:
    ask = Ask(text="Hi", request_id="r1")
    async with hosting(url) as one, hosting(url) as two:
        results = await asyncio.gather(
            *(host.start(ask, ANN, script(CALL)) for host in [one, two] * 10)
        )
        assert len({run.id for run in results}) == 1
        assert len({await read(host, results[0]) for host in (one, two)}) == 1
    assert rows(url, "SELECT count(*) FROM chat_runs") == [(1,)]


# --- holders that go away -------------------------------------------------------------------------


async def test_a_silent_holder_is_replaced_and_writes_nothing_more(url: str) -> None:
    clock, gate = Clock(), Gate()
    async with (
        Store.open(url) as store,
        RunHost(store, now=clock, grace_s=0) as one,
        hosting(url, now=clock) as two,
    ):
        lost = await one.start(Ask(text="Hi"), ANN, gate.turn)
        await gate.entered.wait()
        await store.writer.submit(lambda _: None)
        clock.move(30)
        with pytest.raises(TurnInProgress):
            await play(two)
        clock.move(1)
        run = await witness(two, NewEntry("assistant", "Here."))
        assert run.conversation_id == lost.conversation_id

        gate.may_end.set()
        shown = events(await read(one, lost))
        assert isinstance(shown[-1], Failed)
        assert shown[-1].code == "interrupted"
        stored = await read(two, lost, live=True)
        assert numbers(stored) == [1, 2, 3, 4, 5, 6]
        assert isinstance(events(stored)[-1], Failed)
        assert await read(one, lost, live=True) == stored
        entries = (await two.entries(run.conversation_id, ANN)).items
        assert told(entries) == [
            (1, "user", "Hi"),
            (2, "assistant", "first"),
            (3, "error", shown[-1].message),
            (4, "user", "Hi"),
            (5, "assistant", "Here."),
        ]
        assert told(run.window) == told(entries[:3])
    assert rows(
        url, "SELECT status, error_code, last_seq, was_lost FROM chat_runs ORDER BY started_at"
    ) == [
        ("interrupted", "interrupted", 6, 1),
        ("done", None, 4, 0),
    ]


async def test_a_host_that_opens_ends_the_runs_that_were_left(url: str) -> None:
    clock, gate = Clock(), Gate()
    async with hosting(url, now=clock) as one:
        lost = await one.start(Ask(text="Hi"), ANN, gate.turn)
        clock.move(31)
        async with hosting(url, now=clock) as two:
            assert rows(url, "SELECT status FROM chat_runs") == [("interrupted",)]
            assert rows(url, LEASE) == [(None, None, None)]
            assert isinstance(events(await read(two, lost))[-1], Failed)


async def test_whoever_tails_a_run_without_holder_sees_it_interrupted(url: str) -> None:
    clock, gate = Clock(), Gate()
    async with hosting(url, now=clock) as one, hosting(url, now=clock) as two:
        lost = await one.start(Ask(text="Hi"), ANN, gate.turn)
        clock.move(31)
        *_, last = events(await read(two, lost))
        assert isinstance(last, Failed)
        assert last.code == "interrupted"


@pytest.mark.parametrize("has_more_to_store", [True, False])
async def test_a_run_that_lost_its_lease_is_stopped(url: str, has_more_to_store: bool) -> None:
    """Its own host notices with the next write, or the next heartbeat."""
    clock, stopped = Clock(), asyncio.Event()

    async def turn(run: Run) -> AsyncGenerator[Event | NewEntry]:
        try:
            await asyncio.Event().wait()
            yield DONE
        finally:
            stopped.set()

    async with (
        asyncio.timeout(10),
        Store.open(url) as store,
        RunHost(store, now=clock, run_stale_s=0.3) as one,
    ):
        await one.start(Ask(text="Hi"), ANN, turn)
        if not has_more_to_store:
            await store.writer.submit(lambda _: None)
        later = Clock()
        later.move(31)
        async with hosting(url, now=later):
            await stopped.wait()


async def test_a_heartbeat_that_fails_is_tried_again(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    gate = Gate()
    async with (
        asyncio.timeout(10),
        Store.open(url, busy_limit_s=0.05) as store,
        RunHost(store, run_stale_s=0.15) as host,
    ):
        run = await host.start(Ask(text="Hi"), ANN, gate.turn)
        await store.writer.submit(lambda _: None)
        async with occupied(url):
            while "could not be renewed" not in caplog.text:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        gate.may_end.set()
        assert events(await read(host, run))[-1] == DONE


async def test_a_heartbeat_behind_the_end_of_a_run_is_not_told_that_it_was_lost(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    gate = Gate()
    async with (
        asyncio.timeout(10),
        Store.open(url) as store,
        RunHost(store, run_stale_s=0.3) as host,
    ):
        run = await host.start(Ask(text="Hi"), ANN, gate.turn)
        await gate.entered.wait()
        await store.writer.submit(lambda _: None)  # all but the end is stored
        async with occupied(url):
            gate.may_end.set()
            await asyncio.sleep(0.25)  # the end waits for the writer, and a heartbeat behind it
        assert events(await read(host, run))[-1] == DONE
        await store.writer.submit(lambda _: None)
    assert "lost its lease" not in caplog.text


async def test_a_heartbeat_keeps_a_quiet_run_alive(url: str) -> None:
    gate = Gate()
    async with hosting(url, run_stale_s=0.3) as one, asyncio.timeout(10):
        run = await one.start(Ask(text="Hi"), ANN, gate.turn)
        await gate.entered.wait()
        beats = {rows(url, LEASE)[0][2]}
        while len(beats) < 5:
            beats.add(rows(url, LEASE)[0][2])
            await asyncio.sleep(0.01)
        async with hosting(url, run_stale_s=0.3) as two:
            with pytest.raises(TurnInProgress):
                await play(two)
        gate.may_end.set()
        assert events(await read(one, run))[-1] == DONE


PROCESS = """
import asyncio, sys
from app.runs import RunHost
from app.store import Store
from schema.events import Actor, Ask, TextChunk

async def turn(run):
    yield TextChunk(content="first")
    await asyncio.Event().wait()

async def main():
    async with Store.open(sys.argv[1]) as store, RunHost(store) as host:
        run = await host.start(Ask(text="Hi"), Actor("session", "ann"), turn)
        await asyncio.sleep(0)
        await store.writer.submit(lambda connection: None)
        print(run.id, flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


@pytest.mark.covers("H21")
async def test_a_killed_process_is_replaced_at_once(url: str) -> None:
    root = Path(__file__).parents[2]
    async with hosting(url) as host, asyncio.timeout(20):
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", PROCESS, url), cwd=root, stdout=asyncio.subprocess.PIPE
        )
        assert process.stdout is not None
        run_id = (await process.stdout.readline()).decode().strip()
        lost = await host.find(run_id, ANN)
        with pytest.raises(TurnInProgress):
            await play(host)
        process.send_signal(signal.SIGKILL)
        await process.wait()
        run = await play(host)
        assert run.conversation_id == lost.conversation_id
        assert numbers(await read(host, lost, live=True)) == [1, 2, 3, 4, 5, 6]
    assert rows(url, "SELECT status FROM chat_runs ORDER BY started_at") == [
        ("interrupted",),
        ("done",),
    ]


# --- the fence ------------------------------------------------------------------------------------


def flush(run: RunHandle, fence: int, clock: Clock) -> Flush:
    return Flush(
        run_id=run.id,
        conversation_id=run.conversation_id,
        fence=fence,
        frames=[(90, b"id: x:90\ndata: {}\n\n")],
        entries=[StoredEntry(kind="assistant", seq=90, run_id=run.id, created_at=clock.moment)],
        next_seq=91,
        now=clock.moment,
    )


async def test_a_write_with_an_old_fence_changes_nothing(url: str) -> None:
    clock, gate = Clock(), Gate()
    async with Store.open(url) as store, RunHost(store, now=clock) as host:
        run = await host.start(Ask(text="Hi"), ANN, gate.turn)
        tables = ("conversations", "runs", "run_events", "entries")
        await store.writer.submit(lambda _: None)
        before = [rows(url, f"SELECT * FROM chat_{table}") for table in tables]
        for fence in (0, 2):
            old = flush(run, fence, clock)
            for job in (
                partial(leases.save, flush=old),
                partial(leases.close, flush=old, ending=Ending("done", None, None)),
            ):
                with pytest.raises(LeaseLost):
                    await store.writer.submit(job)
        assert [rows(url, f"SELECT * FROM chat_{table}") for table in tables] == before
        gate.may_end.set()
        assert events(await read(host, run))[-1] == DONE


async def test_what_was_stored_before_is_not_stored_again(url: str) -> None:
    """A commit whose end nobody saw may have been made; more has been shown meanwhile."""
    clock, gate = Clock(), Gate()
    async with Store.open(url) as store, RunHost(store, now=clock, grace_s=0) as host:
        run = await host.start(Ask(text="Hi"), ANN, gate.turn)
        await store.writer.submit(lambda _: None)
        first = flush(run, 1, clock)
        entry = StoredEntry("error", seq=91, run_id=run.id, created_at=clock.moment)
        more = replace(
            first,
            frames=[*first.frames, (91, b"id: x:91\ndata: {}\n\n")],
            entries=[*first.entries, entry],
            next_seq=92,
            is_repeated=True,
        )
        for once in (first, more, more):
            await store.writer.submit(partial(leases.save, flush=once))
        assert rows(url, "SELECT first_seq, last_seq FROM chat_run_events ORDER BY 1") == [
            *((1, 3), (90, 90), (91, 91)),
        ]
        kept = rows(url, "SELECT seq, kind FROM chat_entries ORDER BY seq")
        assert kept == [(1, "user"), (90, "assistant"), (91, "error")]


# --- closing --------------------------------------------------------------------------------------


async def test_closing_lets_a_run_end_within_the_grace(url: str) -> None:
    gate = Gate()
    async with hosting(url, grace_s=5) as host:
        run = await host.start(Ask(text="Hi"), ANN, gate.turn)
        asyncio.get_running_loop().call_later(0.05, gate.may_end.set)
        await host.close()
        assert events(await read(host, run))[-1] == DONE
    assert rows(url, "SELECT status FROM chat_runs") == [("done",)]


async def test_closing_interrupts_what_does_not_end(url: str) -> None:
    before = asyncio.all_tasks()
    gate = Gate()
    async with hosting(url) as host:
        run = await host.start(Ask(text="Hi"), ANN, gate.turn)
        await gate.entered.wait()
        follower = host.tail(run)
        seen = await anext(follower)
        await host.close()
        async with asyncio.timeout(5):
            seen += b"".join([part async for part in follower])
        with pytest.raises(TryAgain):
            await play(host)
    [first, last] = events(seen)
    assert first == TextChunk(content="first")
    assert isinstance(last, Failed)
    assert last.code == "interrupted"
    assert asyncio.all_tasks() == before
    assert rows(url, "SELECT status, was_lost FROM chat_runs") == [("interrupted", 0)]
    assert rows(url, LEASE) == [(None, None, None)]
    async with hosting(url) as host:
        assert await read(host, run) == seen
        assert await read(host, run, after=numbers(seen)[-1]) == b""


async def test_closing_while_an_end_is_being_stored_changes_nothing(url: str) -> None:
    gate = Gate()
    async with Store.open(url) as store, RunHost(store, grace_s=0) as host, asyncio.timeout(5):
        run = await host.start(Ask(text="Hi"), ANN, gate.turn)
        await store.writer.submit(lambda _: None)
        async with asyncio.TaskGroup() as group:
            async with occupied(url):
                gate.may_end.set()
                await asyncio.sleep(0.05)  # the end waits for the writer
                group.create_task(host.close())
                await asyncio.sleep(0.05)
        assert events(await read(host, run))[-1] == DONE
    assert rows(url, "SELECT status FROM chat_runs") == [("done",)]


async def test_closing_waits_for_a_request_that_is_being_admitted(url: str) -> None:
    async with hosting(url) as host:
        async with asyncio.TaskGroup() as group:
            start = group.create_task(host.start(Ask(text="Hi"), ANN, Gate().turn))
            await asyncio.sleep(0)
            await host.close()
        assert isinstance(start.result(), RunHandle)
    assert rows(url, "SELECT status FROM chat_runs") == [("interrupted",)]
    assert rows(url, LEASE) == [(None, None, None)]


async def test_a_run_that_has_said_its_end_is_not_interrupted(url: str) -> None:
    cleaning = asyncio.Event()

    async def turn(run: Run) -> AsyncGenerator[Event | NewEntry]:
        yield DONE
        cleaning.set()
        await asyncio.Event().wait()

    async with hosting(url) as host:
        run = await host.start(Ask(text="Hi"), ANN, turn)
        await cleaning.wait()
        await host.close()
        assert isinstance(events(await read(host, run))[-1], Done)
    assert rows(url, "SELECT status FROM chat_runs") == [("done",)]


async def test_the_bodys_own_exception_leaves_the_host_as_it_is(url: str) -> None:
    async def fail() -> None:
        async with hosting(url) as host:
            await host.start(Ask(text="Hi"), ANN, Gate().turn)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()
