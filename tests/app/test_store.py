"""The writer commits for everybody, readers only read, and rows keep what they were given."""

import asyncio
import sqlite3
import threading
from collections.abc import AsyncGenerator
from contextlib import closing
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st
from sqlmodel import Session, col, select

from app.records import clean, owner_key
from app.store import KEY_LENGTH, Conversations, Store
from app.writer import Job, Writer
from schema.events import Actor


@pytest.fixture
async def store(url: str) -> AsyncGenerator[Store]:
    async with Store.open(url) as store:
        yield store


def note(text: str) -> Job[None]:
    """Make a job that leaves a trace in the database."""

    def job(connection: sqlite3.Connection) -> None:
        connection.execute("CREATE TABLE IF NOT EXISTS notes (text UNIQUE)")
        connection.execute("INSERT INTO notes VALUES (?)", (text,))

    return job


def notes(connection: sqlite3.Connection) -> list[str]:
    return [text for (text,) in connection.execute("SELECT text FROM notes ORDER BY rowid")]


def transactions(file: Path) -> int:
    """Count commits since the last checkpoint: each leaves one commit frame in the log."""
    log = Path(f"{file}-wal").read_bytes()
    size = 24 + int.from_bytes(log[8:12], "big")
    frames = [log[start : start + 8] for start in range(32, len(log), size)]
    return sum(frame[4:8] != b"\0\0\0\0" for frame in frames)


def pragma(name: str) -> Job[object]:
    return lambda connection: connection.execute(f"PRAGMA {name}").fetchone()[0]


async def test_what_is_committed_is_on_disk_and_foreign_keys_hold(store: Store) -> None:
    settings = {
        name: await store.writer.submit(pragma(name))
        for name in ("journal_mode", "synchronous", "foreign_keys")
    }
    assert settings == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1}
    assert await store.read(pragma("foreign_keys")) == 1


async def test_a_job_that_fails_fails_alone(store: Store) -> None:
    jobs = [note("a"), note("b"), note("a"), note("c")]
    results = await asyncio.gather(
        *(store.writer.submit(job) for job in jobs), return_exceptions=True
    )
    assert [type(result) for result in results] == [
        *(type(None), type(None), sqlite3.IntegrityError, type(None))
    ]
    assert await store.read(notes) == ["a", "b", "c"]


async def test_jobs_run_in_the_order_they_were_given(store: Store) -> None:
    ended: list[BaseException | None] = []
    store.writer.defer(lambda: (note("1"), ended.append))
    store.writer.defer(lambda: None)
    store.writer.defer(lambda: (note("2"), ended.append))
    await store.writer.submit(note("3"))
    assert await store.read(notes) == ["1", "2", "3"]
    assert ended == [None, None]


async def test_jobs_that_wait_together_share_a_commit(store: Store, database: Path) -> None:
    await store.writer.submit(note("first"))
    before = transactions(database)
    gate, entered = threading.Event(), threading.Event()

    def hold(_: sqlite3.Connection) -> None:
        entered.set()
        assert gate.wait(5)

    held = store.writer.submit(hold)
    assert await asyncio.to_thread(entered.wait, 5)
    rest = [store.writer.submit(note(str(number))) for number in range(20)]
    gate.set()
    await asyncio.gather(held, *rest)
    assert transactions(database) == before + 1


async def test_deferred_work_is_stored_soon_without_being_waited_for(url: str) -> None:
    done = asyncio.Event()
    loop = asyncio.get_running_loop()

    def tell(connection: sqlite3.Connection) -> None:
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
        assert isinstance(await failed, sqlite3.IntegrityError)


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
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        await store.writer.submit(note("late"))


async def test_a_waiter_that_leaves_undoes_nothing(store: Store) -> None:
    async def leave() -> None:
        async with asyncio.timeout(0):
            await store.writer.submit(note("kept"))

    with pytest.raises(TimeoutError):
        await leave()
    await store.writer.submit(note("after"))
    assert await store.read(notes) == ["kept", "after"]


@pytest.mark.covers("H46")
async def test_a_busy_database_is_waited_for(
    url: str, database: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with Store.open(url) as store:
        with closing(sqlite3.connect(database, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            waiting = store.writer.submit(note("patient"))
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(1.2):
                    await asyncio.shield(waiting)
            other.execute("COMMIT")
            async with asyncio.timeout(5):
                await waiting
        assert await store.read(notes) == ["patient"]
    assert "Waiting for the write lock" in caplog.text


async def test_waiting_for_a_busy_database_ends(url: str, database: Path) -> None:
    async with Store.open(url, busy_limit_s=0.1) as store:
        with closing(sqlite3.connect(database, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            jobs = [store.writer.submit(note("a")), store.writer.submit(note("b"))]
            results = await asyncio.gather(*jobs, return_exceptions=True)
            assert [str(result) for result in results] == ["database is locked"] * 2
        await store.writer.submit(note("c"))
        assert await store.read(notes) == ["c"]


async def test_a_full_disk_fails_the_commit_and_not_the_writer(store: Store) -> None:
    def fill(connection: sqlite3.Connection) -> None:
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        connection.execute(f"PRAGMA max_page_count = {pages}")
        note("x" * 1_000_000)(connection)

    with pytest.raises(sqlite3.OperationalError, match="full"):
        await store.writer.submit(fill)
    await store.writer.submit(pragma("max_page_count = 1000000"))
    await store.writer.submit(note("room again"))
    assert await store.read(notes) == ["room again"]


async def test_if_sqlite_itself_rolls_back_all_jobs_of_the_commit_are_told(store: Store) -> None:
    def break_down(connection: sqlite3.Connection) -> None:
        connection.execute("ROLLBACK")
        raise sqlite3.OperationalError("disk I/O error")

    jobs = [note("a"), break_down, note("b")]
    results = await asyncio.gather(
        *(store.writer.submit(job) for job in jobs), return_exceptions=True
    )
    assert [str(result) for result in results] == ["disk I/O error"] * 3
    await store.writer.submit(note("after"))
    assert await store.read(notes) == ["after"]


async def test_a_commit_that_fails_is_undone(store: Store) -> None:
    def leave_a_dangling_key(connection: sqlite3.Connection) -> None:
        connection.execute("PRAGMA defer_foreign_keys = ON")
        connection.execute("INSERT INTO chat_run_events VALUES ('no run', 1, 1, '')")

    with pytest.raises(sqlite3.IntegrityError):
        await store.writer.submit(leave_a_dangling_key)
    await store.writer.submit(note("after"))
    assert await store.read(notes) == ["after"]


async def test_a_reader_never_writes(store: Store) -> None:
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        await store.read(note("no"))


async def test_a_read_sees_one_moment(store: Store) -> None:
    await store.writer.submit(note("before"))
    loop = asyncio.get_running_loop()

    async def write() -> None:
        await store.writer.submit(note("meanwhile"))

    def read_twice(connection: sqlite3.Connection) -> tuple[list[str], list[str]]:
        first = notes(connection)
        asyncio.run_coroutine_threadsafe(write(), loop).result(5)
        return first, notes(connection)

    assert await store.read(read_twice) == (["before"], ["before"])
    assert await store.read(notes) == ["before", "meanwhile"]


async def test_a_missing_folder_is_told_when_the_writer_opens(tmp_path: Path) -> None:
    with pytest.raises(sqlite3.OperationalError):
        await Writer(str(tmp_path / "no" / "folder.db"), busy_limit_s=0.1).__aenter__()


def test_moments_keep_their_zone_and_rows_their_values(database: Path) -> None:
    noon = datetime(2026, 5, 4, 12, 30, 0, 7, tzinfo=timezone(timedelta(hours=2)))
    engine = sa.create_engine(f"sqlite:///{database}")
    row = Conversations(
        id="c", owner="o", created_at=noon, updated_at=noon, next_seq=1, lease_fence=0
    )
    with Session(engine) as session:
        session.add(row)
        session.commit()
    with Session(engine) as session:
        found = session.exec(select(Conversations).where(col(Conversations.id) == "c")).one()
        assert found.created_at == noon
        assert found.created_at.tzinfo is UTC
        assert found.last_user_at is None
    engine.dispose()


SHORT = st.text(max_size=12)
ACTORS = st.builds(
    Actor,
    kind=st.sampled_from(["user", "session", "service"]),
    subject=st.one_of(SHORT, st.text(min_size=KEY_LENGTH)),
    tenant=st.one_of(st.none(), SHORT),
)


@given(ACTORS, ACTORS)
def test_owners_are_told_apart_and_fit_their_column(one: Actor, other: Actor) -> None:
    assert (owner_key(one) == owner_key(other)) == (one == other)
    assert len(owner_key(one)) <= KEY_LENGTH


@pytest.mark.parametrize(
    ("tenant", "subject", "others"), [("a", "b:c", ("a:b", "c")), (None, "b", ("", "b"))]
)
def test_owners_with_like_parts_are_told_apart(
    tenant: str | None, subject: str, others: tuple[str, str]
) -> None:
    assert owner_key(Actor("user", subject, tenant)) != owner_key(
        Actor("user", others[1], others[0])
    )


@pytest.mark.parametrize(
    ("given_text", "stored"),
    [
        ("plain", "plain"),
        ("\ud83d\ude00", "😀"),
        ("half \ud83d of one", "half � of one"),
        ("a\0b", "a␀b"),
    ],
)
def test_any_text_can_be_stored(given_text: str, stored: str) -> None:
    assert clean(given_text) == stored


@given(st.text(st.characters(codec=None)))
def test_storing_a_text_never_fails(text: str) -> None:
    clean(text).encode()


async def test_a_thousand_small_writes_do_not_block_the_event_loop(store: Store) -> None:
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
        await asyncio.gather(*(store.writer.submit(note(str(number))) for number in range(1000)))
        beating.cancel()
    assert len(await store.read(notes)) == 1000
    assert latest < 0.5
