"""What only concerns PostgreSQL: processes that compete, locks, and connections that are lost."""

import asyncio
from collections.abc import AsyncGenerator, Generator
from contextlib import AsyncExitStack, suppress

import pytest
import sqlalchemy as sa
from databases import execute, locked, occupied, rows
from notes import note, notes
from postgres import Postgres, database
from turns import ANN, BOB, DONE, Gate, events, hosting, numbers, play, read

from app import postgres as module
from app.database import Command, Connection, DatabaseFailed, Job, Query
from app.entries import NewEntry, Run, RunHandle
from app.postgres import PostgresServer
from app.runs import RunHost
from app.store import VERSION_TABLE, Store, check
from schema.errors import ConfigurationError, TryAgain
from schema.events import Ask, Event, TextChunk

KILL = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    " WHERE datname = current_database() AND pid <> pg_backend_pid()"
)
DIE = (
    "CREATE FUNCTION die() RETURNS trigger LANGUAGE plpgsql AS"
    " 'BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END'",
    "CREATE CONSTRAINT TRIGGER dies AFTER INSERT ON notes DEFERRABLE INITIALLY DEFERRED"
    " FOR EACH ROW WHEN (new.text = 'deadly') EXECUTE FUNCTION die()",
)
"""Make whoever commits the note "deadly" lose the connection then."""

_TOUCH = Command(sa.text("UPDATE notes SET touched = touched + 1 WHERE text = :text"))
_SLEEP = Query[tuple[object]](sa.text("SELECT pg_sleep(0.1)"))
_SLEEP_LONG = Query[tuple[object]](sa.text("SELECT pg_sleep(20)"))
_END_MYSELF = Query[tuple[object]](sa.text("SELECT pg_terminate_backend(pg_backend_pid())"))
_WHO = Query[tuple[int]](sa.text("SELECT pg_backend_pid()"))
_REFUSE = Command(sa.text("DO 'BEGIN RAISE ''read-only'' USING ERRCODE = ''25006''; END'"))


@pytest.fixture
def url(postgres: Postgres, migrated_template: str) -> Generator[str]:
    """A chat database of this test alone, with a table of the test's own."""
    url = postgres.create(migrated_template)
    execute(url, "CREATE TABLE notes (number SERIAL, text TEXT UNIQUE, touched INTEGER DEFAULT 0)")
    # A deadlock is found after that time, which is a second if nobody says otherwise.
    execute(url, f"ALTER DATABASE {database(url)} SET deadlock_timeout = '100ms'")
    yield url
    postgres.drop(url)


@pytest.fixture
async def store(url: str) -> AsyncGenerator[Store]:
    async with Store.open(url) as store:
        yield store


def who(connection: Connection) -> int:
    [(pid,)] = connection.read(_WHO)
    return pid


def who_slowly(connection: Connection) -> int:
    connection.read(_SLEEP)
    return who(connection)


def touch(*texts: str, slowly: bool = False) -> Job[None]:
    """Make a job that locks notes, one after the other."""

    def job(connection: Connection) -> None:
        for text in texts:
            connection.write(_TOUCH, {"text": text})
            if slowly:
                connection.read(_SLEEP)

    return job


async def waiting(url: str) -> int:
    """Wait until a connection waits for a lock, and give its process."""
    query = (
        "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
        " AND datname = current_database()"
    )
    while not (found := rows(url, query)):  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    [(pid,)] = found
    assert isinstance(pid, int)
    return pid


def deadlocks(url: str) -> int:
    [(count,)] = rows(
        url, "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
    )
    assert isinstance(count, int)
    return count


# --- processes that compete -----------------------------------------------------------------------


async def test_batches_that_lock_the_same_rows_the_other_way_round_do_not_deadlock(
    url: str,
) -> None:
    names = [f"note {number}" for number in range(12)]
    async with Store.open(url) as one, Store.open(url) as two, asyncio.timeout(30):
        await asyncio.gather(*(one.writer.submit(note(name)) for name in names))
        for _ in range(10):
            await asyncio.gather(
                *(one.writer.submit(touch(name)) for name in names),
                *(two.writer.submit(touch(name)) for name in reversed(names)),
            )
    assert rows(url, "SELECT min(touched), max(touched) FROM notes") == [(20, 20)]
    assert deadlocks(url) == 0


async def test_jobs_that_deadlock_are_run_again(url: str) -> None:
    async with Store.open(url) as one, Store.open(url) as two, asyncio.timeout(30):
        for name in "ab":
            await one.writer.submit(note(name))
        await asyncio.gather(
            one.writer.submit(touch("a", "b", slowly=True)),
            two.writer.submit(touch("b", "a", slowly=True)),
        )
    assert rows(url, "SELECT touched FROM notes") == [(2,), (2,)]
    assert deadlocks(url) >= 1  # each may have been told to give way to the other


async def test_jobs_keep_their_order_when_one_has_to_wait(store: Store, url: str) -> None:
    await store.writer.submit(note("held"))
    done: list[str] = []

    def listed(name: str, job: Job[None]) -> Job[None]:
        def listing(connection: Connection) -> None:
            job(connection)
            done.append(name)

        return listing

    async with Store.open(url) as other, asyncio.timeout(10):
        holding = other.writer.submit(touch("held", slowly=True))
        jobs = [("1", note("1")), ("2", touch("held")), ("3", note("3"))]
        await asyncio.gather(holding, *(store.writer.submit(listed(*job)) for job in jobs))
    assert done == ["1", "2", "3"]


async def test_a_lock_is_waited_for_as_long_as_patience_lasts(url: str) -> None:
    async with Store.open(url, busy_limit_s=0.2) as store, RunHost(store) as host:
        async with occupied(url):
            jobs = [note("before"), note("after")]
            ended = await asyncio.gather(
                store.writer.submit(jobs[0]),
                play(host),
                store.writer.submit(jobs[1]),
                return_exceptions=True,
            )
        assert isinstance(ended[1], TryAgain)
        assert await store.read(notes) == ["before", "after"]
        await play(host)


async def test_a_key_that_another_process_takes_meanwhile_is_seen_by_the_second_attempt(
    store: Store, url: str
) -> None:
    """What a job has read is what makes it write, and no row is locked by reading none."""
    count = 0

    def write_once(connection: Connection) -> None:
        nonlocal count
        count += 1
        if notes(connection) == []:
            if count == 1:
                execute(url, "INSERT INTO notes (text) VALUES ('one')")
            note("one")(connection)

    await store.writer.submit(write_once)
    assert count == 2
    assert await store.read(notes) == ["one"]


async def test_many_processes_admit_one_turn_at_a_time(url: str) -> None:
    async with AsyncExitStack() as stack, asyncio.timeout(60):
        hosts = [await stack.enter_async_context(hosting(url)) for _ in range(4)]
        first = await play(hosts[0])
        for number in range(10):
            gate = Gate()
            ask = Ask(text="Hi", conversation_id=first.conversation_id, request_id=f"r{number}")
            ended = await asyncio.gather(
                *(host.start(ask, ANN, gate.turn) for host in hosts for _ in range(3)),
                return_exceptions=True,
            )
            assert len({run.id for run in ended if isinstance(run, RunHandle)}) == 1
            assert all(isinstance(run, RunHandle) for run in ended)
            gate.may_end.set()
            for host in hosts:
                for run in ended:
                    assert isinstance(run, RunHandle)
                    assert events(await read(host, run))[-1] == DONE
    assert rows(url, "SELECT count(*), count(DISTINCT first_entry_seq) FROM chat_runs") == [
        (11, 11)
    ]
    assert deadlocks(url) == 0


async def test_a_conversation_that_is_begun_while_others_are_adopted_comes_along_whole(
    url: str,
) -> None:
    async with hosting(url) as one, hosting(url) as two, asyncio.timeout(10):
        await play(one)
        other = await PostgresServer(sa.make_url(url)).connect()
        await other.execute("BEGIN; SELECT FROM chat_runs FOR UPDATE")
        async with asyncio.TaskGroup() as group:
            group.create_task(one.adopt(ANN, BOB))
            await waiting(url)
            run = await play(two, conversation_id="new")
            await other.close()
        assert await one.find(run.id, BOB) == RunHandle(run.id, run.conversation_id)
        assert len((await one.entries(run.conversation_id, BOB)).items) == 1


# --- connections that are lost --------------------------------------------------------------------


def lose_once(name: str) -> Job[None]:
    """Make a job in whose first attempt the connection is lost."""
    attempts: list[str] = []

    def job(connection: Connection) -> None:
        note(name)(connection)
        attempts.append(name)
        if len(attempts) == 1:
            connection.read(_END_MYSELF)

    return job


async def test_a_transaction_whose_connection_is_lost_is_run_again(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    jobs = [note("a"), lose_once("b"), note("c"), note("a")]
    ended = await asyncio.gather(
        *(store.writer.submit(job) for job in jobs), return_exceptions=True
    )
    assert [isinstance(end, DatabaseFailed) for end in ended] == [False, False, False, True]
    assert await store.read(notes) == ["a", "b", "c"]
    assert "was lost" in caplog.text


async def test_a_connection_that_is_always_lost_fails_in_the_end(store: Store) -> None:
    def lose(connection: Connection) -> None:
        connection.read(_END_MYSELF)

    with pytest.raises(DatabaseFailed):
        await store.writer.submit(lose)
    with pytest.raises(DatabaseFailed):
        await store.read(lose)
    await store.writer.submit(note("after"))
    assert await store.read(notes) == ["after"]


async def test_after_a_commit_whose_end_is_not_known_nothing_is_run_again(
    store: Store, url: str
) -> None:
    execute(url, *DIE)
    attempts: list[str] = []

    def count(connection: Connection) -> None:
        attempts.append("deadly")
        note("deadly")(connection)

    ended = await asyncio.gather(
        store.writer.submit(note("a")), store.writer.submit(count), return_exceptions=True
    )
    assert ["not known" in str(end) for end in ended] == [True, True]
    assert attempts == ["deadly"]
    await store.writer.submit(note("after"))
    assert await store.read(notes) == ["after"]


async def test_a_job_behind_a_commit_whose_end_is_not_known_is_run(store: Store, url: str) -> None:
    execute(url, *DIE)
    await store.writer.submit(note("held"))
    other = await PostgresServer(sa.make_url(url)).connect()
    await other.execute("BEGIN; SELECT FROM notes FOR UPDATE")
    async with asyncio.timeout(10):
        lost, run = (store.writer.submit(job) for job in (note("deadly"), touch("held")))
        with pytest.raises(DatabaseFailed, match="not known"):
            await lost
        await other.close()
        await run
    assert rows(url, "SELECT text, touched FROM notes") == [("held", 1)]


async def test_a_job_that_goes_on_after_a_failure_is_not_taken_for_committed(store: Store) -> None:
    def go_on(connection: Connection) -> None:
        note("b")(connection)
        with suppress(DatabaseFailed):
            connection.write(Command(sa.text("DELETE FROM no_table")))

    ended = await asyncio.gather(
        store.writer.submit(note("a")), store.writer.submit(go_on), return_exceptions=True
    )
    assert [isinstance(end, DatabaseFailed) for end in ended] == [True, True]
    await store.writer.submit(note("after"))
    assert await store.read(notes) == ["after"]


async def test_a_server_that_is_no_longer_the_primary_is_left(store: Store) -> None:
    """A pooler or a name that has moved leads to the new one."""
    seen: list[int] = []

    def job(connection: Connection) -> None:
        seen.append(who(connection))
        if len(seen) == 1:
            connection.write(_REFUSE)
        note("moved")(connection)

    await store.writer.submit(job)
    assert len({*seen}) == len(seen) == 2
    assert await store.read(notes) == ["moved"]


async def test_idle_connections_that_were_lost_are_replaced(store: Store, url: str) -> None:
    await asyncio.gather(*(store.read(notes) for _ in range(8)))
    for name in "ab":
        execute(url, KILL)
        await store.writer.submit(note(name))
        execute(url, KILL)
        await asyncio.gather(*(store.read(notes) for _ in range(8)))
    assert await store.read(notes) == ["a", "b"]


async def test_a_run_goes_on_when_all_connections_are_lost(url: str) -> None:
    async def turn(run: Run) -> AsyncGenerator[Event | NewEntry]:
        for number in range(5):
            yield TextChunk(content=str(number))
            yield NewEntry("assistant", str(number), round=number)
            execute(url, KILL)
            await asyncio.sleep(0.06)  # what is deferred is due
        yield DONE

    async with hosting(url) as host, asyncio.timeout(20):
        run = await host.start(Ask(text="Hi"), ANN, turn)
        shown = await read(host, run, live=True)
        assert events(shown)[-1] == DONE
        assert numbers(shown) == [*range(1, len(numbers(shown)) + 1)]
    async with hosting(url) as host:
        assert await read(host, run, live=True) == shown


async def test_a_server_that_is_away_is_waited_for_and_then_told(
    postgres: Postgres, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    def allow(answer: bool) -> None:
        postgres.execute(f"ALTER DATABASE {database(url)} ALLOW_CONNECTIONS {answer}")

    async with Store.open(url, busy_limit_s=0.3) as store:
        execute(url, KILL)
        allow(False)
        with pytest.raises(DatabaseFailed):
            await store.writer.submit(note("lost"))
        waiting = store.writer.submit(note("patient"))
        allow(True)
        await waiting
        assert await store.read(notes) == ["patient"]


async def test_a_caller_that_leaves_a_read_keeps_no_connection(store: Store) -> None:
    def wait(connection: Connection) -> None:
        connection.read(_SLEEP_LONG)

    for _ in range(6):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.02):
                await store.read(wait)
    async with asyncio.timeout(5):
        assert await store.read(notes) == []


async def test_a_read_waits_for_a_connection_no_longer_than_for_a_lock(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_READ_PATIENCE_S", 0.1)

    async def sleep() -> None:
        await store.read(lambda connection: connection.read(_SLEEP_LONG))

    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        readers = [group.create_task(sleep()) for _ in range(4)]
        await asyncio.sleep(0)  # they have begun
        with pytest.raises(DatabaseFailed, match="in use"):
            await store.read(notes)
        for reader in readers:
            reader.cancel()
    assert await store.read(notes) == []


# --- a server that falls silent -------------------------------------------------------------------


async def test_a_server_that_falls_silent_cannot_be_used(postgres: Postgres, url: str) -> None:
    async with asyncio.timeout(10), locked(url, VERSION_TABLE), asyncio.TaskGroup() as group:
        checking = group.create_task(refused(f"{url}&command_timeout=1"))
        with postgres.silent(await waiting(url)):
            assert "can't be used: TimeoutError" in await checking


async def refused(url: str) -> str:
    with pytest.raises(ConfigurationError) as caught:
        await check(url)
    return str(caught.value)


async def test_a_server_that_takes_connections_silently_is_waited_for_as_long_as_patience_lasts(
    postgres: Postgres, url: str
) -> None:
    async with Store.open(url, busy_limit_s=0.3) as store:
        with postgres.silent():
            async with asyncio.timeout(5):
                with pytest.raises(DatabaseFailed, match="TimeoutError"):
                    await store.writer.submit(note("lost"))
        await store.writer.submit(note("stored"))
        assert await store.read(notes) == ["stored"]


async def test_a_store_is_closed_soon_when_its_server_does_not_listen(
    postgres: Postgres, url: str
) -> None:
    async with asyncio.timeout(10):
        store = await (opening := Store.open(url)).__aenter__()
        pids = await asyncio.gather(
            store.writer.submit(who), *(store.read(who_slowly) for _ in range(4))
        )
        assert len({*pids}) == 5
        with postgres.silent(*pids):
            await opening.__aexit__(None, None, None)
