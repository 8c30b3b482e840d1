"""What happens over an open WebSocket: any frame gets its answer, and a run is shown to its end."""

import asyncio
import logging
import random
import secrets
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import ExitStack
from pathlib import Path

import pytest
from databases import execute
from processes import UVICORN, serving
from sockets import Socket, code, events_in, open_socket
from transports import Chat, WsVisitor, answer, kinds, open_chat
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

import app.socket
from app.demo.manufacturing import managers
from app.settings import Jwt
from providers.scripted import call, say, wait
from schema.events import Failed, JsonObject


@pytest.fixture
async def chat(manufacturing_url: str) -> AsyncGenerator[Chat]:
    async with open_chat("ws", managers, manufacturing_url, max_body_bytes=20_000) as chat:
        yield chat


# --- frames ---------------------------------------------------------------------------------------


@pytest.mark.covers("P34")
@pytest.mark.parametrize("frame", ["ä" * 10_001, b"x" * 20_001], ids=["text", "binary"])
async def test_a_frame_that_is_too_large_ends_the_socket(chat: Chat, frame: str | bytes) -> None:
    socket = await chat.page.connect()
    await socket.send_raw("ä" * 10_000)
    assert code(await socket.receive()) == "bad_event"
    await socket.send_raw(frame)
    told = await socket.receive()
    assert code(told) == "bad_event"
    assert "20000 bytes" in told.text
    assert await socket.receive_close() == 1009


@pytest.mark.covers("P34")
async def test_a_frame_beyond_what_the_server_takes_ends_the_socket_in_the_middle_of_a_turn(
    chat: Chat, caplog: pytest.LogCaptureFixture
) -> None:
    gate = asyncio.Event()
    chat.model.will([say("First. "), wait(gate), say("Last.")])
    socket = await chat.page.connect()
    run_id = await socket.start("hi")
    for _ in range(2):
        await socket.receive()
    await socket.send_raw("x" * (16 * 1024 * 1024 + 1))
    gate.set()
    while (await socket.receive_or_close()) is not None:
        pass
    assert await socket.receive_close() == 1009
    again = await chat.page.connect()
    await again.attach(run_id)
    assert answer(events_in(await again.receive_turn())) == "First. Last."
    assert "Traceback" not in caplog.text
    assert [record for record in caplog.records if record.name == "app.socket"] == []


# --- turns ----------------------------------------------------------------------------------------


@pytest.mark.covers("C7-7")
async def test_another_message_is_refused_at_once_while_a_turn_is_under_way(chat: Chat) -> None:
    gate = asyncio.Event()
    chat.model.will([say("First. "), wait(gate), say("Last.")], say("Next."))
    socket, other = await chat.page.connect(), await chat.page.connect()
    await socket.ask("one")
    first = await socket.receive()
    others: list[JsonObject] = [{}, {"conversation_id": "new"}, {"request_id": "r2"}, {"text": ""}]
    for fields in others:
        await socket.send({"type": "message", "text": "two", **fields})
        told = await socket.receive()
        assert (code(told), told.run_id) == ("turn_in_progress", None)
    await socket.send_raw("{")
    assert code(await socket.receive()) == "bad_event"
    await other.ask("three")
    assert code(await other.receive()) == "turn_in_progress"
    gate.set()
    rest = await socket.receive_turn()
    assert answer(events_in([first, *rest])) == "First. Last."
    await socket.ask("four")
    assert answer(events_in(await socket.receive_turn())) == "Next."
    assert [m.content for m in chat.model.requests[1].messages if m.role == "user"] == [
        "one",
        "four",
    ]


async def test_of_two_messages_sent_together_the_second_is_refused(chat: Chat) -> None:
    chat.model.will(say("One."))
    socket = await chat.page.connect()
    await socket.ask("one")
    await socket.ask("two", conversation_id="new")
    frames = [await socket.receive() for _ in range(3)]
    refusals = [frame for frame in frames if frame.run_id is None]
    assert [code(frame) for frame in refusals] == ["turn_in_progress"]
    assert answer(events_in([frame for frame in frames if frame.run_id])) == "One."


async def test_who_has_read_the_end_of_a_turn_may_ask_again(chat: Chat) -> None:
    socket = await chat.page.connect()
    for number in range(40):
        chat.model.will([] if number % 2 else say("ok"))
        await socket.ask("hi", live=number % 3 == 0)
        assert (await socket.receive_turn())[-1].event.type == "done"
    assert len(chat.model.requests) == 40


async def test_the_same_message_again_shows_the_turn_again_from_its_start(chat: Chat) -> None:
    gate = asyncio.Event()
    chat.model.will([say("First. "), wait(gate), say("Last.")])
    socket = await chat.page.connect()
    await socket.ask("hi", request_id="r1")
    first = await socket.receive()
    await socket.ask("ho", request_id="r1")
    assert code(await socket.receive()) == "bad_message"
    await socket.ask("hi", request_id="r1")
    assert (await socket.receive()).text == first.text
    await socket.ask("other")
    assert code(await socket.receive()) == "turn_in_progress"
    gate.set()
    rest = await socket.receive_turn()
    await socket.ask("hi", request_id="r1")
    assert await socket.receive_turn() == [first, *rest]
    assert len(chat.model.requests) == 1


async def test_the_message_of_an_earlier_turn_is_refused_while_another_turn_is_under_way(
    chat: Chat,
) -> None:
    gate = asyncio.Event()
    chat.model.will(say("a"), [say("First. "), wait(gate), say("Last.")])
    socket = await chat.page.connect()
    await socket.ask("hi", request_id="r1")
    await socket.receive_turn()
    await socket.ask("ho")
    first = await socket.receive()
    await socket.ask("hi", request_id="r1")
    assert code(await socket.receive()) == "turn_in_progress"
    gate.set()
    assert answer(events_in([first, *await socket.receive_turn()])) == "First. Last."


async def test_a_refused_message_leaves_the_socket_free(chat: Chat) -> None:
    chat.model.will(say("ok"))
    socket = await chat.page.connect()
    for conversation in ("unknown", "", "x" * 5_000):
        await socket.ask("hi", conversation_id=conversation)
        assert code(await socket.receive()) == "not_found"
    await socket.ask("hi")
    assert (await socket.receive_turn())[-1].event.type == "done"


async def test_live_shows_more_under_the_same_numbers(chat: Chat) -> None:
    chat.model.will([call("search_managers", query="parts")], say("Parts."))
    socket = await chat.page.connect()
    run_id = await socket.start("What is there?")
    await socket.receive_turn()
    await socket.attach(run_id, live=True)
    live = await socket.receive_turn()
    await socket.attach(run_id)
    plain = await socket.receive_turn()
    assert [frame.seq for frame in live] == list(range(1, len(live) + 1))
    assert {"run_started", "entry", "usage"} < {frame.event.type for frame in live}
    assert plain == [frame for frame in live if frame in plain]
    assert kinds(events_in(plain)) == ["tool_call", "tool_result", "text_chunk", "done"]


# --- what goes wrong ------------------------------------------------------------------------------


@pytest.mark.covers("P19", "P42")
async def test_a_log_that_can_not_be_read_is_said_and_the_socket_stays(
    manufacturing_url: str,
) -> None:
    async with open_chat("ws", managers, manufacturing_url) as chat:
        chat.model.will(say("a"))
        socket = await chat.page.connect()
        await socket.ask("hi", request_id="r1")
        run_id = (await socket.receive_turn())[0].run_id or ""
        cookies = chat.page.cookies
    async with open_chat("ws", managers, manufacturing_url) as chat:
        chat.page.cookies = cookies
        socket = await chat.page.connect()
        execute(manufacturing_url, "ALTER TABLE chat_run_events RENAME TO elsewhere")
        await socket.attach(run_id)
        told = await socket.receive()
        assert (code(told), told.run_id, told.seq) == ("try_again", run_id, None)
        execute(manufacturing_url, "ALTER TABLE elsewhere RENAME TO chat_run_events")
        await socket.ask("hi", request_id="r1")
        assert answer(events_in(await socket.receive_turn())) == "a"


async def test_a_failure_of_ours_is_one_generic_event_and_the_details_are_in_the_log(
    chat: Chat, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(frame: bytes) -> tuple[bytes, bytes]:
        raise ValueError("dsn=secret")

    monkeypatch.setattr(app.socket, "framed", fail)
    chat.model.will(say("a"))
    socket = await chat.page.connect()
    await socket.ask("hi")
    told = await socket.receive()
    assert isinstance(told.event, Failed)
    assert told.event.code == "chat_error"
    assert "secret" not in told.text
    assert await socket.receive_close() == 1011
    assert str(told.event.error_id) in caplog.text
    assert "dsn=secret" in caplog.text


@pytest.mark.covers("P34")
async def test_a_client_that_does_not_read_is_let_go_and_holds_up_nobody(
    manufacturing_url: str,
    hear: Callable[[str], asyncio.Event],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    heard = hear("did not read its WebSocket")
    monkeypatch.setattr(app.socket, "SEND_TIMEOUT_S", 0.3)
    async with open_chat("ws", managers, manufacturing_url) as chat:
        # Text that does not become small on its way.
        chat.model.will(
            *3 * [[say(secrets.token_hex(4_000_000)), call("search_managers", query="x")]]
        )
        chat.model.will(say("end"), say("ok"))
        deaf, other = await chat.page.connect(), chat.new_visitor()
        deaf.stop_reading()
        await deaf.ask("hi")
        async with asyncio.timeout(10):
            await heard.wait()
        assert answer(await other.ask("hi")) == "ok"
        deaf.drop()
    assert "Traceback" not in caplog.text


@pytest.mark.covers("H25", "P36")
async def test_a_server_that_ends_closes_its_sockets_so_that_they_can_come_back(
    manufacturing_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    gate = asyncio.Event()

    async def watch(socket: Socket) -> None:
        assert await socket.receive_close() == 1012
        gate.set()

    async with asyncio.TaskGroup() as group:
        async with open_chat("ws", managers, manufacturing_url) as chat:
            chat.model.will([say("First. "), wait(gate), say("Last.")])
            cookies = chat.page.cookies
            idle, socket = [await open_socket(chat.page.base_url, cookies) for _ in range(2)]
            await socket.ask("hi")
            first = await socket.receive()
            group.create_task(watch(socket))
    assert await idle.receive_close() == 1012
    async with open_chat("ws", managers, manufacturing_url) as chat:
        chat.page.cookies = cookies
        socket = await chat.page.connect()
        await socket.attach(first.run_id or "", after=first.seq)
        assert answer(events_in(await socket.receive_turn())) == "Last."
    assert "Traceback" not in caplog.text


SLOW = """
import asyncio
from providers.base import TextChunkEvent

class Slow:
    async def complete(self, messages, tools):
        yield TextChunkEvent("Well, ")
        await asyncio.sleep(600)
"""


@pytest.mark.covers("H25", "P36")
def test_a_process_that_is_told_to_end_lets_go_of_its_sockets(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(SLOW)
    settings = {"managers": "app.demo.toy:managers", "provider": "slow.Slow"}
    with ExitStack() as stack:
        with serving(tmp_path, UVICORN, "app.main:app", **settings) as url:
            place = url.replace("http", "ws") + "/chat/"
            asked = [stack.enter_context(connect(place, proxy=None)) for _ in range(20)]
            for socket in asked:
                socket.send('{"type":"message","text":"Hi"}')
                assert b"Well, " in socket.recv(timeout=10, decode=False)
            told = time.monotonic()
        assert time.monotonic() - told < 12
        for socket in asked:
            with pytest.raises(ConnectionClosed):
                socket.recv(timeout=5)
            assert socket.close_code == 1012


@pytest.mark.covers("P32", "P23")
async def test_sockets_that_come_and_go_leave_nothing_behind(
    manufacturing_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    jwt = Jwt(secret="k" * 32)
    chance = random.Random(5)
    async with open_chat("ws", managers, manufacturing_url, jwt=jwt) as chat:
        chat.model.repeat = True
        chat.model.will([say("Some "), call("query", manager="Part", limit=1)], say("thing."))
        await chat.ask("hi")
        base = asyncio.all_tasks()
        for _ in range(50):
            visitor = chat.new_visitor()
            assert isinstance(visitor, WsVisitor)
            socket = await visitor.connect()
            for _ in range(asked := chance.randrange(3)):
                await socket.ask("hi", live=True)
            for _ in range(chance.randrange(6) if asked else 0):
                await socket.receive()
            if chance.random() < 0.5:
                socket.drop()
            else:
                await socket.close()
        async with asyncio.timeout(5):
            while left := asyncio.all_tasks() - base:
                await asyncio.wait(left)
        assert kinds(await chat.ask("hi"))[-1] == "done"
    assert "Traceback" not in caplog.text
    assert [r for r in caplog.records if r.levelno > logging.INFO] == []
