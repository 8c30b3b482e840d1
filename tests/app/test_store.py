"""The writer commits for everybody, readers only read, and rows keep what they were given."""

import asyncio
from collections.abc import AsyncGenerator
from datetime import UTC, datetime, timedelta, timezone

import pytest
import sqlalchemy as sa
from databases import execute, is_postgres
from notes import note, notes

from app.database import Command, Connection, DatabaseFailed, Query
from app.store import Store, conversations

NUMBER = {False: "INTEGER PRIMARY KEY AUTOINCREMENT", True: "SERIAL PRIMARY KEY"}
"""How a column that counts up is made, on PostgreSQL and elsewhere."""


@pytest.fixture
def url(url: str) -> str:
    """A chat database with a table of the test's own."""
    number = NUMBER[is_postgres(url)]
    execute(url, f"CREATE TABLE notes (number {number}, text VARCHAR UNIQUE)")
    return url


@pytest.fixture
async def store(url: str) -> AsyncGenerator[Store]:
    async with Store.open(url) as store:
        yield store


async def test_a_job_that_fails_fails_alone(store: Store) -> None:
    jobs = [note("a"), note("b"), note("a"), note("c")]
    results = await asyncio.gather(
        *(store.writer.submit(job) for job in jobs), return_exceptions=True
    )
    failed = [isinstance(result, DatabaseFailed) for result in results]
    assert failed == [False, False, True, False]
    assert await store.read(notes) == ["a", "b", "c"]


async def test_jobs_run_in_the_order_they_were_given(store: Store) -> None:
    ended: list[BaseException | None] = []
    store.writer.defer(lambda: (note("1"), ended.append))
    store.writer.defer(lambda: None)
    store.writer.defer(lambda: (note("2"), ended.append))
    await store.writer.submit(note("3"))
    assert await store.read(notes) == ["1", "2", "3"]
    assert ended == [None, None]


async def test_deferred_work_is_stored_soon_without_being_waited_for(url: str) -> None:
    done = asyncio.Event()
    loop = asyncio.get_running_loop()

    def tell(connection: Connection) -> None:
        note("later")(connection)
        loop.call_soon_threadsafe(done.set)

    async with Store.open(url) as store, asyncio.timeout(5):
        store.writer.defer(lambda: (tell, lambda error: None))
        await done.wait()
    async with Store.open(url) as store:
        assert await store.read(notes) == ["later"]


async def test_a_failed_deferred_job_is_told_to_its_owner(store: Store) -> None:
    failed: asyncio.Future[BaseException | None] = asyncio.get_running_loop().create_future()
    await store.writer.submit(note("a"))
    store.writer.defer(lambda: (note("a"), failed.set_result))
    async with asyncio.timeout(5):
        assert isinstance(await failed, DatabaseFailed)


async def test_an_owner_that_breaks_keeps_nobody_else_waiting(store: Store) -> None:
    told: list[str] = []

    def break_down(error: BaseException | None) -> None:
        raise RuntimeError("the owner's fault")

    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: told.append(str(context["exception"])))
    store.writer.defer(lambda: (note("1"), break_down))
    async with asyncio.timeout(5):
        await store.writer.submit(note("2"))
    assert told == ["the owner's fault"]


async def test_closing_stores_what_was_deferred(url: str) -> None:
    async with Store.open(url) as store:
        store.writer.defer(lambda: (note("last"), lambda error: None))
    async with Store.open(url) as store:
        assert await store.read(notes) == ["last"]


async def test_nothing_is_written_after_the_end(url: str) -> None:
    async with Store.open(url) as store:
        pass
    with pytest.raises(DatabaseFailed, match="closed"):
        await store.writer.submit(note("late"))


async def test_a_waiter_that_leaves_undoes_nothing(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    async def leave() -> None:
        async with asyncio.timeout(0):
            await store.writer.submit(note("kept"))

    with pytest.raises(TimeoutError):
        await leave()
    await store.writer.submit(note("after"))
    assert await store.read(notes) == ["kept", "after"]
    assert caplog.text == ""


async def test_a_reader_never_writes(store: Store) -> None:
    with pytest.raises(DatabaseFailed, match=r"readonly|read-only"):
        await store.read(note("no"))


async def test_a_read_sees_one_moment(store: Store, url: str) -> None:
    await store.writer.submit(note("before"))

    def read_twice(connection: Connection) -> tuple[list[str], list[str]]:
        first = notes(connection)
        execute(url, "INSERT INTO notes (text) VALUES ('meanwhile')")
        return first, notes(connection)

    assert await store.read(read_twice) == (["before"], ["before"])
    assert await store.read(notes) == ["before", "meanwhile"]


async def test_a_query_that_raises_leaves_nothing_behind(store: Store) -> None:
    def give_up(connection: Connection) -> None:
        notes(connection)
        raise LookupError

    for _ in range(10):
        with pytest.raises(LookupError):
            await store.read(give_up)
    assert await store.read(notes) == []


async def test_moments_come_back_in_utc_and_to_the_microsecond(store: Store) -> None:
    noon = datetime(2026, 5, 4, 12, 30, 0, 7, tzinfo=timezone(timedelta(hours=2)))
    none: dict[str, object] = {name: None for name in conversations.c.keys()}
    row = none | {"id": "c", "owner": "o", "created_at": noon, "updated_at": noon}
    insert = sa.insert(conversations).values({name: sa.bindparam(name) for name in none})
    moments = sa.select(conversations.c.created_at, conversations.c.last_user_at)
    query = Query[tuple[datetime | None, datetime | None]](moments)

    def keep(connection: Connection) -> list[tuple[datetime | None, datetime | None]]:
        connection.write(Command(insert), row | {"next_seq": 1, "lease_fence": 0})
        return connection.read(query)

    for [(created_at, last_user_at)] in (
        await store.writer.submit(keep),
        await store.read(lambda connection: connection.read(query)),
    ):
        assert (created_at, created_at and created_at.tzinfo) == (noon, UTC)
        assert last_user_at is None


async def test_a_thousand_small_writes_do_not_block_the_event_loop(store: Store) -> None:
    # A busy machine may hold up one of the rounds; a writer that blocks holds up each.
    assert min([await _longest_wait(store, first) for first in (0, 1000, 2000)]) < 0.5
    assert len(await store.read(notes)) == 3000


async def _longest_wait(store: Store, first: int) -> float:
    """Write a thousand notes, and return by how much the event loop was late at most."""
    loop = asyncio.get_running_loop()
    latest = 0.0

    async def beat() -> None:
        nonlocal latest
        while True:
            due = loop.time() + 0.005
            await asyncio.sleep(0.005)
            latest = max(latest, loop.time() - due)

    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        beating = group.create_task(beat())
        jobs = [note(str(number)) for number in range(first, first + 1000)]
        await asyncio.gather(*map(store.writer.submit, jobs))
        beating.cancel()
    return latest
