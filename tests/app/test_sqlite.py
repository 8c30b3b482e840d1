"""What only concerns SQLite: its file, its one write lock, and what it does when a disk is full."""

import asyncio
import threading
from collections.abc import AsyncGenerator
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
import sqlalchemy as sa
from databases import execute, file_of, occupied
from notes import note, notes
from sqlmodel import Session, col, select

from app.database import Command, Connection, DatabaseFailed, Job, Query
from app.sqlite import SqliteFile
from app.store import Conversations, Store


@pytest.fixture
def url(file_url: str) -> str:
    """A chat database with a table of the test's own."""
    execute(file_url, "CREATE TABLE notes (number INTEGER PRIMARY KEY, text TEXT UNIQUE)")
    return file_url


@pytest.fixture
async def store(url: str) -> AsyncGenerator[Store]:
    async with Store.open(url) as store:
        yield store


def transactions(file: Path) -> int:
    """Count commits since the last checkpoint: each leaves one commit frame in the log."""
    log = Path(f"{file}-wal").read_bytes()
    size = 24 + int.from_bytes(log[8:12], "big")
    frames = [log[start : start + 8] for start in range(32, len(log), size)]
    return sum(frame[4:8] != b"\0\0\0\0" for frame in frames)


def pragma(name: str) -> Job[object]:
    query = Query[tuple[object]](sa.text(f"PRAGMA {name}"))

    def read(connection: Connection) -> object:
        [(value,)] = connection.read(query)
        return value

    return read


async def test_what_is_committed_is_on_disk_and_foreign_keys_hold(store: Store) -> None:
    settings = {
        name: await store.writer.submit(pragma(name))
        for name in ("journal_mode", "synchronous", "foreign_keys")
    }
    assert settings == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1}
    assert await store.read(pragma("foreign_keys")) == 1


async def test_jobs_that_wait_together_share_a_commit(store: Store, file: Path) -> None:
    await store.writer.submit(note("first"))
    before = transactions(file)
    gate, entered = threading.Event(), threading.Event()

    def hold(_: Connection) -> None:
        entered.set()
        assert gate.wait(5)

    held = store.writer.submit(hold)
    assert await asyncio.to_thread(entered.wait, 5)
    rest = [store.writer.submit(note(str(number))) for number in range(20)]
    gate.set()
    await asyncio.gather(held, *rest)
    assert transactions(file) == before + 1


@pytest.mark.covers("H46")
async def test_a_busy_database_is_waited_for(url: str, caplog: pytest.LogCaptureFixture) -> None:
    async with Store.open(url) as store:
        async with occupied(url):
            waiting = store.writer.submit(note("patient"))
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(1.2):
                    await asyncio.shield(waiting)
        async with asyncio.timeout(5):
            await waiting
        assert await store.read(notes) == ["patient"]
    assert "Waiting for the write lock" in caplog.text


async def test_waiting_for_a_busy_database_ends(url: str) -> None:
    async with Store.open(url, busy_limit_s=0.1) as store:
        async with occupied(url):
            jobs = [store.writer.submit(note("a")), store.writer.submit(note("b"))]
            results = await asyncio.gather(*jobs, return_exceptions=True)
            assert [str(result) for result in results] == ["database is locked"] * 2
        await store.writer.submit(note("c"))
        assert await store.read(notes) == ["c"]


async def test_a_full_disk_fails_the_commit_and_not_the_writer(store: Store) -> None:
    def fill(connection: Connection) -> None:
        pages = pragma("page_count")(connection)
        pragma(f"max_page_count = {pages}")(connection)
        note("x" * 1_000_000)(connection)

    with pytest.raises(DatabaseFailed, match="full"):
        await store.writer.submit(fill)
    await store.writer.submit(pragma("max_page_count = 1000000"))
    await store.writer.submit(note("room again"))
    assert await store.read(notes) == ["room again"]


async def test_if_sqlite_itself_rolls_back_all_jobs_of_the_commit_are_told(store: Store) -> None:
    def break_down(connection: Connection) -> None:
        connection.write(Command(sa.text("ROLLBACK")))
        raise DatabaseFailed("disk I/O error")

    # While the writer is busy all three queue up, and so share a commit.
    are_queued = threading.Event()
    busy = store.writer.submit(lambda _: are_queued.wait(5))
    jobs = [note("a"), break_down, note("b")]
    waiting = [store.writer.submit(job) for job in jobs]
    are_queued.set()
    results = await asyncio.gather(*waiting, return_exceptions=True)
    await asyncio.gather(busy, return_exceptions=True)  # it may share it too
    assert [str(result) for result in results] == ["disk I/O error"] * 3
    await store.writer.submit(note("after"))
    assert await store.read(notes) == ["after"]


async def test_a_commit_that_fails_is_undone(store: Store) -> None:
    def leave_a_dangling_key(connection: Connection) -> None:
        for statement in (
            "PRAGMA defer_foreign_keys = ON",
            "INSERT INTO chat_run_events VALUES ('no run', 1, 1, '')",
        ):
            connection.write(Command(sa.text(statement)))

    with pytest.raises(DatabaseFailed):
        await store.writer.submit(leave_a_dangling_key)
    await store.writer.submit(note("after"))
    assert await store.read(notes) == ["after"]


async def test_a_missing_folder_is_told_when_the_writer_opens(tmp_path: Path) -> None:
    with pytest.raises(DatabaseFailed):
        await SqliteFile(tmp_path / "no" / "folder.db").open(patience_s=0.1).__aenter__()


def test_moments_keep_their_zone_and_rows_their_values(file_url: str) -> None:
    noon = datetime(2026, 5, 4, 12, 30, 0, 7, tzinfo=timezone(timedelta(hours=2)))
    engine = sa.create_engine(f"sqlite:///{file_of(file_url)}")
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
