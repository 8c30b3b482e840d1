"""A run can be followed over any socket of its owner, from any event on, by many at once."""

import asyncio
from collections.abc import AsyncGenerator

import pytest
from sockets import Frame, Socket, code, events_in
from transports import Chat, WsVisitor, answer, kinds, open_chat

from app.demo.manufacturing import managers
from providers.scripted import call, say, wait
from schema.events import JsonObject, Resync, RunStarted


@pytest.fixture
async def chat(manufacturing_url: str) -> AsyncGenerator[Chat]:
    async with open_chat("ws", managers, manufacturing_url) as chat:
        yield chat


@pytest.mark.covers("P33")
@pytest.mark.parametrize("live", [False, True])
async def test_a_turn_cut_at_any_event_is_joined_from_memory_and_from_the_log(
    manufacturing_url: str, *, live: bool
) -> None:
    steps = [
        [
            say("Let me look. "),
            call("search_managers", query="parts"),
            call("query", manager="Part", limit=2),
        ],
        [say("There ", "are "), say("parts.")],
    ]
    async with open_chat("ws", managers, manufacturing_url) as chat:
        chat.model.will(*steps)
        socket = await chat.page.connect()
        await socket.ask("What is there?", live=live)
        whole = await socket.receive_turn()
        assert len(whole) > 6
        await _check_cuts(socket, whole, live=live)
        cookies = chat.page.cookies
    async with open_chat("ws", managers, manufacturing_url) as chat:
        chat.page.cookies = cookies
        await _check_cuts(await chat.page.connect(), whole, live=live)


async def _check_cuts(socket: Socket, whole: list[Frame], *, live: bool) -> None:
    run_id, seqs = whole[-1].run_id or "", [frame.seq or 0 for frame in whole]
    for cut, after in enumerate([0, *seqs[:-1]]):
        await socket.attach(run_id, after=after, live=live)
        assert await socket.receive_turn() == whole[cut:]
    for beyond in (seqs[-1] + 1, 2**64 - 1):
        await socket.attach(run_id, after=beyond, live=live)
        (frame,) = await socket.receive_turn()
        assert isinstance(frame.event, Resync)
        assert (frame.run_id, frame.event.status) == (run_id, "done")
        assert frame.seq == frame.event.last_seq == seqs[-1]


@pytest.mark.covers("P32")
async def test_a_turn_goes_on_when_its_client_leaves_and_is_shown_to_whoever_comes_back(
    chat: Chat,
) -> None:
    gate = asyncio.Event()
    chat.model.will([say("First. "), wait(gate), say("Last.")])
    socket, watcher = await chat.page.connect(), await chat.page.connect()
    run_id = await socket.start("hi")
    await watcher.attach(run_id)
    assert (await watcher.receive()).event.type == "text_chunk"
    socket.drop()
    back = await chat.page.connect()
    await back.attach(run_id, after=1, live=True)
    seen = [await back.receive() for _ in range(2)]
    gate.set()
    seen += await back.receive_turn()
    assert [frame.seq for frame in seen] == list(range(2, len(seen) + 2))
    assert answer(events_in(seen)) == "First. Last."
    rest = await watcher.receive_turn()
    assert rest == [frame for frame in seen[2:] if frame in rest]
    assert kinds(events_in(rest)) == ["text_chunk", "done"]
    assert len(chat.model.requests) == 1


async def test_to_attach_to_a_run_that_is_followed_starts_it_over_and_its_turn_stays_the_turn(
    chat: Chat,
) -> None:
    gate = asyncio.Event()
    chat.model.will([say("First. "), wait(gate), say("Last.")])
    socket = await chat.page.connect()
    await socket.ask("hi")
    first = await socket.receive()
    for _ in range(3):
        await socket.attach(first.run_id or "")
        assert await socket.receive() == first
    await socket.attach(first.run_id or "", after=first.seq)
    await socket.ask("more", conversation_id="new")
    assert code(await socket.receive()) == "turn_in_progress"
    gate.set()
    assert kinds(events_in(await socket.receive_turn())) == ["text_chunk", "done"]
    chat.model.will(say("ok"))
    await socket.ask("more", conversation_id="new")
    assert answer(events_in(await socket.receive_turn())) == "ok"


async def test_several_runs_are_followed_at_once_but_not_any_number(
    manufacturing_url: str,
) -> None:
    gate = asyncio.Event()
    async with open_chat("ws", managers, manufacturing_url) as chat:
        chat.model.will(*17 * [[wait(gate), say("ok")]])
        socket, runs = await chat.page.connect(), list[str]()
        for _ in range(17):
            asker = await chat.page.connect()
            runs.append(await asker.start("hi", conversation_id="new"))
            await asker.close()
        for run_id in runs[:16]:
            await socket.attach(run_id)
        await socket.attach(runs[16])
        assert code(await socket.receive()) == "turn_in_progress"
        await socket.ask("hi", conversation_id="new")
        assert code(await socket.receive()) == "turn_in_progress"
        gate.set()
        frames = [await socket.receive() for _ in range(32)]
        assert {frame.run_id for frame in frames} == set(runs[:16])
        for run_id in runs[:16]:
            own = events_in([frame for frame in frames if frame.run_id == run_id])
            assert kinds(own) == ["text_chunk", "done"]
        await socket.attach(runs[16])
        assert kinds(events_in(await socket.receive_turn())) == ["text_chunk", "done"]


@pytest.mark.covers("H30", "P15")
async def test_runs_and_conversations_of_others_answer_like_unknown_ones(chat: Chat) -> None:
    chat.model.will(say("a"), say("b"))
    socket = await chat.page.connect()
    await socket.ask("hi", live=True)
    frames = await socket.receive_turn()
    assert isinstance(frames[0].event, RunStarted)
    ids = frames[0].event
    other = chat.new_visitor()
    assert isinstance(other, WsVisitor)
    stranger = await other.connect()
    tried: list[JsonObject] = [
        {"type": "attach", "run_id": ids.run_id},
        {"type": "attach", "run_id": ids.run_id, "after": 10_000},
        {"type": "message", "text": "hi", "conversation_id": ids.conversation_id},
    ]
    for asked in tried:
        unknown: JsonObject = {**asked, "run_id": "0b1c", "conversation_id": "0b1c"}
        texts: list[str] = []
        for frame in (asked, unknown):
            await stranger.send(frame)
            told = await stranger.receive()
            assert code(told) == "not_found"
            texts.append(told.text)
        assert texts[0] == texts[1]
    assert len(chat.model.requests) == 1
    await socket.ask("And?")
    await socket.receive_turn()
    assert [m.content for m in chat.model.requests[1].messages if m.role == "user"] == [
        "hi",
        "And?",
    ]
