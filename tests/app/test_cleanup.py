"""Conversations that were left alone are deleted whole, and nothing else is."""

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest
from commands import run_here
from databases import execute, rows
from turns import ANN, BOB, CALL, RESULT, Clock, Gate, hosting, play, read, script, wall_clock

from app.cleanup import clean_up
from app.database import DatabaseFailed
from app.entries import NewEntry
from app.store import Store
from schema.errors import NotFound
from schema.events import Ask

TABLES = ("chat_conversations", "chat_runs", "chat_run_events", "chat_entries")


def counts(url: str) -> list[object]:
    return [rows(url, f"SELECT count(*) FROM {table}")[0][0] for table in TABLES]


@pytest.mark.covers("C7-42")
async def test_only_what_was_left_alone_is_deleted_with_all_that_is_in_it(url: str) -> None:
    clock = Clock()
    async with hosting(url, now=clock, kept_runs=0) as host, Store.open(url) as store:
        entry = NewEntry("assistant", "Hello", round=1)
        old = await host.start(Ask(text="Hi", request_id="r1"), ANN, script(CALL, RESULT, entry))
        await read(host, old)
        clock.move(3600)
        young = await play(host, actor=BOB)
        before = clock()

        assert await clean_up(store, before - timedelta(hours=1)) == 0
        assert await clean_up(store, before) == 1
        assert counts(url)[:2] == [1, 1]
        assert rows(url, "SELECT DISTINCT run_id FROM chat_run_events") == [(young.id,)]
        assert rows(url, "SELECT DISTINCT run_id FROM chat_entries") == [(young.id,)]
        for lost in (
            host.find(old.id, ANN),
            host.entries(old.conversation_id, ANN),
            host.start(Ask(text="Hi", conversation_id=old.conversation_id), ANN, script()),
        ):
            with pytest.raises(NotFound):
                await lost
        # What is gone is not remembered either: the request is a new one.
        again = await host.start(Ask(text="Hi", request_id="r1"), ANN, script())
        assert again.conversation_id != old.conversation_id
        await read(host, again)


async def test_a_conversation_with_a_run_at_work_stays(url: str) -> None:
    clock, gate = Clock(), Gate()
    async with hosting(url, now=clock) as host, Store.open(url) as store:
        run = await host.start(Ask(text="Hi"), ANN, gate.turn)
        clock.move(7200)
        assert await clean_up(store, clock()) == 0
        gate.may_end.set()
        assert b'"done"' in await read(host, run)


async def test_many_are_deleted_in_batches_while_others_start(url: str) -> None:
    columns = "id, owner, created_at, updated_at, next_seq, lease_fence"
    moment = "'2026-05-04 12:00:00.000000'"
    old = ", ".join(f"('{number}', 'o', {moment}, {moment}, 1, 0)" for number in range(450))
    execute(url, f"INSERT INTO chat_conversations ({columns}) VALUES {old}")
    async with hosting(url) as host, Store.open(url) as store:
        async with asyncio.TaskGroup() as group:
            deleting = group.create_task(clean_up(store, wall_clock() - timedelta(hours=24)))
            starting = [group.create_task(play(host, conversation_id="new")) for _ in range(5)]
    assert deleting.result() == 450
    kept = {str(id) for (id,) in rows(url, "SELECT id FROM chat_conversations")}
    assert kept == {task.result().conversation_id for task in starting}


async def test_a_database_that_fails_is_told_and_keeps_what_it_has(url: str) -> None:
    clock = Clock()
    async with hosting(url, now=clock) as host, Store.open(url) as store:
        await play(host)
        clock.move(60)
        execute(url, "ALTER TABLE chat_conversations RENAME TO hidden")
        with pytest.raises(DatabaseFailed):
            await clean_up(store, clock())
        execute(url, "ALTER TABLE hidden RENAME TO chat_conversations")
    assert counts(url)[0] == 1


def test_the_command_says_what_it_has_deleted(file_url: str, tmp_path: Path) -> None:
    asyncio.run(_leave_one(file_url))
    for hours, said in ((10**6, "0 conversations"), (1, "1 conversation"), (1, "0 conversations")):
        ended = run_here(tmp_path, "cleanup", database_url=file_url, ttl_hours=str(hours))
        assert (ended.returncode, ended.stderr) == (0, "")
        assert ended.stdout == f"{said} deleted, with nothing new in {hours} hours.\n"


async def _leave_one(url: str) -> None:
    async with hosting(url, now=Clock()) as host:
        await play(host)


def test_without_tables_the_command_says_how_to_make_them(tmp_path: Path) -> None:
    ended = run_here(tmp_path, "cleanup", database_url=f"sqlite:///{tmp_path}/no.db")
    assert ended.returncode == 2
    assert "frontdesk migrate" in ended.stderr
