"""A run is admitted in one step, and what it yields is numbered, shown and kept."""

import asyncio
import contextvars
import threading
from collections.abc import AsyncGenerator
from contextlib import aclosing

import pytest
import sqlalchemy as sa
from databases import occupied, rows
from turns import (
    ANN,
    BOB,
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
    runs_in,
    script,
    told,
    witness,
)

from app.database import Command, Connection, DatabaseFailed
from app.entries import NewEntry, Run, StoredEntry
from app.runs import RunHost, Turn
from app.store import Store
from schema.errors import BadMessage, NotFound, TryAgain, TurnInProgress
from schema.events import (
    Actor,
    Ask,
    CallId,
    Done,
    EntryStored,
    Event,
    Failed,
    RunStarted,
    TextChunk,
    ToolResult,
    Usage,
    UsageReported,
)

DESK = Actor("service", "desk")
STATES = "SELECT status FROM chat_runs ORDER BY started_at"


@pytest.fixture
async def host(url: str) -> AsyncGenerator[RunHost]:
    async with hosting(url) as host:
        yield host


# --- events ---------------------------------------------------------------------------------------


async def test_a_turn_is_shown_in_order_under_rising_numbers(host: RunHost) -> None:
    said = NewEntry("assistant", "None.", round=1)
    run = await host.start(
        Ask(text="Hi"), ANN, script(CALL, RESULT, TextChunk(content="None."), said)
    )
    data = await read(host, run, live=True)
    assert events(data) == [
        RunStarted(run_id=run.id, conversation_id=run.conversation_id),
        EntryStored(entry_seq=1, kind="user"),
        *(CALL, RESULT, TextChunk(content="None.")),
        EntryStored(entry_seq=2, kind="assistant"),
        DONE,
    ]
    assert numbers(data) == [1, 2, 3, 4, 5, 6, 7]
    assert runs_in(data) == {run.id}


async def test_without_live_the_numbers_have_gaps(host: RunHost) -> None:
    run = await play(host, CALL, NewEntry("action"), UsageReported(usage=Usage(1, 1)), RESULT)
    data = await read(host, run)
    assert events(data) == [CALL, RESULT, DONE]
    assert numbers(data) == [3, 6, 7]


async def test_frames_that_are_ready_together_come_joined(host: RunHost) -> None:
    run = await play(host, CALL, RESULT)
    assert len([part async for part in host.tail(run)]) == 1


async def test_the_first_text_comes_at_once_and_the_rest_is_joined(host: RunHost) -> None:
    texts = [TextChunk(content=text) for text in ("One", "", " two", " three")]
    run = await play(host, *texts, CALL, TextChunk(content="Four"), TextChunk(content=" five"))
    assert events(await read(host, run)) == [
        TextChunk(content="One"),
        TextChunk(content=" two three"),
        CALL,
        TextChunk(content="Four"),
        TextChunk(content=" five"),
        DONE,
    ]


async def test_joined_text_does_not_wait_for_the_next_event(host: RunHost) -> None:
    may_end = asyncio.Event()

    async def turn(run: Run) -> AsyncGenerator[Event | NewEntry]:
        for text in ("One", " two", " three"):
            yield TextChunk(content=text)
        await may_end.wait()
        yield DONE

    run = await host.start(Ask(text="Hi"), ANN, turn)
    seen = b""
    async with asyncio.timeout(5), aclosing(host.tail(run)) as parts:
        async for part in parts:
            seen += part
            if b" two three" in seen:
                may_end.set()
    assert events(seen)[-1] == DONE


async def test_the_end_is_stored_before_it_is_shown(host: RunHost, url: str) -> None:
    run = await host.start(Ask(text="Hi"), ANN, script(CALL, NewEntry("assistant", "Bye."), DONE))
    async with asyncio.timeout(5):
        async for part in host.tail(run):
            if b'"done"' in part:
                state = rows(
                    url,
                    "SELECT status, last_seq, first_entry_seq, last_entry_seq, input_tokens,"
                    " output_tokens, error_code, lease_run_id, next_seq"
                    " FROM chat_runs r JOIN chat_conversations c ON c.id = r.conversation_id",
                )
                assert state == [("done", 5, 1, 2, 3, 4, None, None, 3)]
                assert rows(url, "SELECT kind FROM chat_entries ORDER BY seq") == [
                    ("user",),
                    ("assistant",),
                ]


# --- ends -----------------------------------------------------------------------------------------


async def raises(run: Run) -> AsyncGenerator[Event | NewEntry]:
    yield TextChunk(content="Well")
    raise ValueError("secret")


async def has_no_end(run: Run) -> AsyncGenerator[Event | NewEntry]:
    yield TextChunk(content="Well")


async def goes_on(run: Run) -> AsyncGenerator[Event | NewEntry]:
    yield TextChunk(content="Well")
    yield DONE
    yield TextChunk(content="and more")


async def lets_a_cancellation_out(run: Run) -> AsyncGenerator[Event | NewEntry]:
    yield TextChunk(content="Well")
    raise asyncio.CancelledError


async def yields_what_no_json_can_hold(run: Run) -> AsyncGenerator[Event | NewEntry]:
    yield TextChunk(content="Well")
    yield ToolResult(id="c", name="query", result="half \ud83d of one")


def is_no_generator(run: Run) -> AsyncGenerator[Event | NewEntry]:
    raise ValueError("secret")


@pytest.mark.parametrize(
    "turn",
    [
        *(raises, has_no_end, goes_on, lets_a_cancellation_out),
        *(yields_what_no_json_can_hold, is_no_generator),
    ],
)
async def test_a_turn_that_breaks_ends_in_chat_error_and_the_log_knows_why(
    host: RunHost, url: str, turn: Turn, caplog: pytest.LogCaptureFixture
) -> None:
    run = await host.start(Ask(text="Hi"), ANN, turn)
    data = await read(host, run)
    *_, closing_event = events(data)
    assert isinstance(closing_event, Failed)
    assert closing_event.code == "chat_error"
    assert closing_event.error_id
    assert closing_event.error_id in caplog.text
    assert b"secret" not in data
    assert rows(url, "SELECT status, error_code FROM chat_runs") == [("failed", "chat_error")]
    page = await host.entries(run.conversation_id, ANN)
    assert told(page.items) == [(1, "user", "Hi"), (2, "error", closing_event.message)]
    await play(host)


async def test_a_failure_that_the_turn_reports_is_kept_as_it_says(host: RunHost, url: str) -> None:
    failed = Failed(message="Too slow.", code="deadline_exceeded")
    said = NewEntry("error", "Too slow.", name="deadline_exceeded")
    run = await play(host, UsageReported(usage=Usage(5, 6)), said, failed)
    assert events(await read(host, run)) == [failed]
    assert rows(url, "SELECT status, error_code, input_tokens, output_tokens FROM chat_runs") == [
        ("failed", "deadline_exceeded", 5, 6)
    ]
    assert len((await host.entries(run.conversation_id, ANN)).items) == 2


@pytest.mark.covers("H27")
async def test_a_turn_has_cleaned_up_before_its_end_is_shown(host: RunHost) -> None:
    order: list[str] = []

    async def turn(run: Run) -> AsyncGenerator[Event | NewEntry]:
        try:
            yield DONE
        finally:
            await asyncio.sleep(0)
            order.append("cleaned up")

    run = await host.start(Ask(text="Hi"), ANN, turn)
    await read(host, run)
    order.append("shown")
    assert order == ["cleaned up", "shown"]


async def test_an_end_that_cannot_be_stored_is_an_error_and_is_not_lost(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    gate = Gate()
    async with Store.open(url, busy_limit_s=0.1) as store, RunHost(store) as host:
        run = await host.start(Ask(text="Hi"), ANN, gate.turn)
        await store.writer.submit(lambda _: None)
        async with occupied(url):
            gate.may_end.set()
            shown = events(await read(host, run))
        assert shown[0] == TextChunk(content="first")
        assert isinstance(shown[-1], Failed)
        assert shown[-1].code == "try_again"
        assert shown[-1].error_id is not None
        assert shown[-1].error_id in caplog.text
    assert rows(url, "SELECT status FROM chat_runs") == [("running",)]


async def test_tokens_are_counted_beyond_32_bits(url: str) -> None:
    done = Done(usage=Usage(2**31, 2**53))
    async with hosting(url) as host:
        run = await play(host, done)
        assert events(await read(host, run))[-1] == done
    counted = rows(url, "SELECT input_tokens, output_tokens FROM chat_runs")
    assert counted == [(2**31, 2**53)]


async def test_an_entry_that_cannot_be_stored_is_an_error_of_ours(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock()
    async with hosting(url, now=clock) as host:
        turn = script(NewEntry("assistant", "Well", round=2**70))
        run = await host.start(Ask(text="Hi"), ANN, turn)
        last = events(await read(host, run))[-1]
        assert isinstance(last, Failed)
        assert last.code == "chat_error"
        assert "could not be stored" in caplog.text
        clock.move(31)
        await play(host)
    assert rows(url, STATES) == [("interrupted",), ("done",)]


@pytest.mark.covers("P42")
async def test_after_an_end_that_could_not_be_stored_the_conversation_goes_on(url: str) -> None:
    gate = Gate()
    async with Store.open(url, busy_limit_s=0.1) as store, RunHost(store) as host:
        run = await host.start(Ask(text="Hi"), ANN, gate.turn)
        async with occupied(url):
            gate.may_end.set()
            await read(host, run)
        again = await play(host)
        assert again.conversation_id == run.conversation_id
        assert events(await read(host, again)) == [DONE]
    assert rows(url, STATES) == [("interrupted",), ("done",)]


async def test_a_busy_database_refuses_a_request_with_try_again(url: str) -> None:
    async with Store.open(url, busy_limit_s=0.1) as store, RunHost(store) as host:
        async with occupied(url):
            with pytest.raises(TryAgain):
                await play(host)
        await play(host)
    assert len(rows(url, "SELECT id FROM chat_runs")) == 1


async def test_events_that_could_not_be_stored_at_once_are_stored_later(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    gate = Gate()
    async with Store.open(url, busy_limit_s=0.05) as store, RunHost(store) as host:
        run = await host.start(Ask(text="Hi"), ANN, gate.turn)
        await gate.entered.wait()
        async with occupied(url):
            await asyncio.wait([store.writer.submit(lambda _: None)])
        assert "could not be stored yet" in caplog.text
        gate.may_end.set()
        shown = await read(host, run, live=True)
    async with hosting(url) as host:
        assert await read(host, run, live=True) == shown


@pytest.mark.covers("P33", "P42")
@pytest.mark.parametrize("ends_at_once", [False, True])
@pytest.mark.parametrize("outcome", ["ROLLBACK", "COMMIT"])
async def test_the_log_keeps_its_order_when_a_part_of_it_could_not_be_stored_at_first(
    file_url: str, outcome: str, *, ends_at_once: bool
) -> None:
    """Events go on while a flush is under way that will fail, and the next one does not.

    One that fails may have been committed all the same.
    """
    stalled, may_fail = threading.Event(), threading.Event()

    def fail(connection: Connection) -> None:
        stalled.set()
        assert may_fail.wait(5)
        connection.write(Command(sa.text(outcome)))
        raise DatabaseFailed("disk I/O error")

    async with Store.open(file_url) as store, RunHost(store) as host:

        async def turn(run: Run) -> AsyncGenerator[Event | NewEntry]:
            yield NewEntry("assistant", "One.", round=1)
            failing = store.writer.submit(fail)
            assert await asyncio.to_thread(stalled.wait, 5)
            yield NewEntry("assistant", "Two.", round=2)
            passing = store.writer.submit(lambda _: None)
            both = asyncio.gather(failing, passing, return_exceptions=True)
            may_fail.set()
            if not ends_at_once:
                await both
            yield NewEntry("assistant", "Three.", round=3)
            yield DONE

        run = await host.start(Ask(text="Hi"), ANN, turn)
        shown = await read(host, run, live=True)
    assert events(shown)[-1] == DONE
    async with hosting(file_url) as host:
        assert await read(host, run, live=True) == shown
        page = await host.entries(run.conversation_id, ANN)
        assert [text for _, _, text in told(page.items)] == ["Hi", "One.", "Two.", "Three."]


# --- conversations --------------------------------------------------------------------------------


async def test_without_an_id_the_latest_conversation_goes_on(host: RunHost) -> None:
    first = await play(host)
    assert (await play(host)).conversation_id == first.conversation_id
    second = await play(host, conversation_id="new")
    assert second.conversation_id != first.conversation_id
    assert (await play(host)).conversation_id == second.conversation_id
    await play(host, conversation_id=first.conversation_id)
    assert (await play(host)).conversation_id == first.conversation_id


async def test_each_actor_has_conversations_of_its_own(host: RunHost) -> None:
    assert (await play(host)).conversation_id != (await play(host, actor=BOB)).conversation_id


async def test_a_service_starts_a_conversation_each_time_unless_it_names_one(
    host: RunHost,
) -> None:
    one, two = await play(host, actor=DESK), await play(host, actor=DESK)
    assert one.conversation_id != two.conversation_id
    again = await play(host, actor=DESK, conversation_id=one.conversation_id)
    assert again.conversation_id == one.conversation_id


async def test_a_foreign_conversation_is_an_unknown_one(host: RunHost, url: str) -> None:
    run = await play(host)
    before = rows(url, "SELECT count(*) FROM chat_entries")
    for asked in (run.conversation_id, "unknown"):
        with pytest.raises(NotFound) as caught:
            await play(host, actor=BOB, conversation_id=asked)
        assert caught.value.args == NotFound().args
        with pytest.raises(NotFound):
            await host.entries(asked, BOB)
    for asked in (run.id, "unknown"):
        with pytest.raises(NotFound):
            await host.find(asked, BOB)
    assert rows(url, "SELECT count(*) FROM chat_entries") == before
    assert (await host.find(run.id, ANN)).conversation_id == run.conversation_id


async def test_entries_come_in_pages(host: RunHost) -> None:
    entry = NewEntry(
        *("action", "", 2, "query", CallId("c1"), '{"a": 1}', '{"data": []}', "succeeded")
    )
    run = await play(host, entry, NewEntry("assistant", "Bye.", round=3))
    first = await host.entries(run.conversation_id, ANN, limit=2)
    assert told(first.items) == [(1, "user", "Hi"), (2, "action", "")]
    assert first.next == 2
    stored = first.items[1]
    assert stored == StoredEntry(
        *("action", "", 2, "query", CallId("c1"), '{"a": 1}', '{"data": []}', "succeeded"),
        seq=2,
        run_id=run.id,
        created_at=stored.created_at,
    )
    last = await host.entries(run.conversation_id, ANN, after=2, limit=2)
    assert (told(last.items), last.next) == ([(3, "assistant", "Bye.")], None)
    for after in (3, 2**80):
        beyond = await host.entries(run.conversation_id, ANN, after=after, limit=0)
        assert (beyond.items, beyond.next) == ((), None)


async def test_a_turn_sees_what_was_said_before_it(host: RunHost, url: str) -> None:
    first = await witness(host, NewEntry("assistant", "Hello.", round=1))
    assert first.window == ()
    second = await witness(host, text="And now?")
    assert told(second.window) == [(1, "user", "Hi"), (2, "assistant", "Hello.")]
    assert (second.actor, second.ask.text) == (ANN, "And now?")
    assert rows(url, "SELECT count(*) FROM chat_runs WHERE turn_id = id") == [(2,)]


@pytest.mark.parametrize(
    ("size", "seen"),
    [(1, [6]), (2, [3, 4, 5, 6]), (4, [3, 4, 5, 6]), (5, [2, 3, 4, 5, 6]), (9, [1, 2, 3, 4, 5, 6])],
)
async def test_the_window_keeps_rounds_whole(url: str, size: int, seen: list[int]) -> None:
    async with Store.open(url) as store, RunHost(store, max_recent_messages=size) as host:
        calls = [NewEntry("action", name="query", round=2) for _ in range(2)]
        await play(
            host,
            NewEntry("assistant", "First", round=1),
            NewEntry("assistant", "Let me see.", round=2),
            *calls,
            NewEntry("assistant", "Bye.", round=3),
        )
        run = await witness(host)
        assert [entry.seq for entry in run.window] == seen


async def test_text_that_a_database_cannot_hold_is_made_storable(host: RunHost) -> None:
    run = await play(
        host,
        TextChunk(content="a\0b \ud83d"),
        NewEntry("action", "a\0b", name="\ud83d", arguments="\0", result='"\ud83d\ude00"'),
    )
    assert events(await read(host, run))[0] == TextChunk(content="a␀b �")
    stored = (await host.entries(run.conversation_id, ANN)).items[1]
    assert (stored.content, stored.name) == ("a␀b", "�")
    assert (stored.arguments, stored.result) == ("␀", '"😀"')


@pytest.mark.parametrize("id", ["a\0b", "half \ud83d of one", "x" * 300])
async def test_an_id_that_no_row_can_have_is_an_unknown_one(host: RunHost, id: str) -> None:
    with pytest.raises(NotFound):
        await host.find(id, ANN)
    with pytest.raises(NotFound):
        await host.entries(id, ANN)


async def test_request_ids_that_a_database_cannot_hold_are_told_apart(host: RunHost) -> None:
    one, other = await play(host, request_id="a\0b"), await play(host, request_id="a␀b")
    assert one.id != other.id
    assert (await play(host, request_id="a\0b")).id == one.id


# --- repeated requests ----------------------------------------------------------------------------


async def test_a_repeated_request_gives_the_first_run(host: RunHost, url: str) -> None:
    gate = Gate()
    ask = Ask(text="Hi", request_id="r" * 200)
    run = await host.start(ask, ANN, gate.turn)
    again = await host.start(ask, ANN, has_no_end)
    gate.may_end.set()
    later = await host.start(ask, ANN, has_no_end)
    assert run.id == again.id == later.id
    assert again.conversation_id == run.conversation_id
    assert await read(host, again) == await read(host, run)
    assert rows(url, "SELECT count(*) FROM chat_entries") == [(1,)]


async def test_a_request_id_serves_one_text_of_one_actor(host: RunHost) -> None:
    run = await play(host, request_id="r1")
    with pytest.raises(BadMessage) as caught:
        await play(host, request_id="r1", text="Something else")
    assert "request_id" in str(caught.value)
    assert (await play(host, request_id="r1", actor=BOB)).id != run.id


# --- tasks ----------------------------------------------------------------------------------------


async def test_a_caller_that_leaves_does_not_stop_the_run(host: RunHost, url: str) -> None:
    begun = asyncio.Event()

    async def turn(run: Run) -> AsyncGenerator[Event | NewEntry]:
        begun.set()
        yield DONE

    async def leave() -> None:
        async with asyncio.timeout(0):
            await host.start(Ask(text="Hi"), ANN, turn)

    with pytest.raises(TimeoutError):
        await leave()
    async with asyncio.timeout(5):
        await begun.wait()
    [(run_id,)] = rows(url, "SELECT id FROM chat_runs")
    assert events(await read(host, await host.find(str(run_id), ANN))) == [DONE]


@pytest.mark.covers("H22")
async def test_tails_that_are_cut_leave_nothing_behind(host: RunHost) -> None:
    gate = Gate()
    run = await host.start(Ask(text="Hi"), ANN, gate.turn)
    await gate.entered.wait()
    before = asyncio.all_tasks()

    async def follow() -> None:
        async with aclosing(host.tail(run)) as parts:
            async for _ in parts:
                pass

    async with asyncio.timeout(5):
        async with asyncio.TaskGroup() as group:
            followers = [group.create_task(follow()) for _ in range(50)]
            await asyncio.sleep(0)
            for follower in followers:
                follower.cancel()
        tail = host.tail(run)
        await anext(tail)
        await tail.aclose()
    assert asyncio.all_tasks() == before
    gate.may_end.set()
    assert events(await read(host, run)) == [TextChunk(content="first"), DONE]


VISITOR = contextvars.ContextVar("visitor", default="nobody")


async def test_each_run_has_a_fresh_copy_of_the_hosts_context(url: str) -> None:
    seen: list[str] = []

    async def turn(run: Run) -> AsyncGenerator[Event | NewEntry]:
        seen.append(VISITOR.get())
        VISITOR.set("of the run")
        yield DONE

    VISITOR.set("of the house")
    async with hosting(url) as host:
        VISITOR.set("of the request")
        for _ in range(2):
            await read(host, await host.start(Ask(text="Hi"), ANN, turn))
    assert seen == ["of the house", "of the house"]


async def test_one_turn_at_a_time(host: RunHost) -> None:
    gate = Gate()
    run = await host.start(Ask(text="Hi"), ANN, gate.turn)
    with pytest.raises(TurnInProgress):
        await play(host)
    with pytest.raises(TurnInProgress):
        await play(host, conversation_id=run.conversation_id)
    await play(host, conversation_id="new")
    gate.may_end.set()
    await read(host, run)
    await play(host, conversation_id=run.conversation_id)
