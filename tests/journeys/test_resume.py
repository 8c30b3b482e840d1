"""A client that is cut off comes back with the last id it saw and gets the rest, byte for byte."""

import asyncio

import httpx
import pytest
from databases import ON_BOTH
from transports import HttpVisitor, events_of, kinds, open_chat

from app.demo.manufacturing import managers
from app.identity import CSRF_HEADER
from app.sessions import CSRF_COOKIE
from providers.scripted import call, say, wait
from schema.events import EVENTS


def _frames(stream: bytes) -> list[bytes]:
    """Split a stream into frames, pings left out."""
    parts = (part + b"\n\n" for part in stream.split(b"\n\n") if part)
    return [part for part in parts if not part.startswith(b":")]


def _id(frame: bytes) -> str:
    return frame.partition(b"\n")[0].removeprefix(b"id: ").decode()


@ON_BOTH
@pytest.mark.parametrize("live", [False, True])
async def test_a_stream_cut_at_any_event_is_joined_from_memory_and_from_the_log(
    manufacturing_url: str, *, live: bool
) -> None:
    whole: list[bytes] = []
    run_id, cookies = "", httpx.Cookies()
    async with open_chat("sse", managers, manufacturing_url) as chat:
        seen = 0
        is_cut_before_the_end = True
        while is_cut_before_the_end:
            seen += 1
            gate = asyncio.Event()
            chat.model.will(
                [say("Let me look. "), call("search_managers", query="parts"),
                 call("query", manager="Part", limit=2)],
                [wait(gate), say("There ", "are "), say("parts.")],
            )  # fmt: skip
            if seen > 5:
                gate.set()
            visitor = chat.new_visitor()
            assert isinstance(visitor, HttpVisitor)
            first, run_id = await _read(visitor, seen, live=live)
            gate.set()
            resumed = await visitor.client.get(
                f"/chat/runs/{run_id}/events/",
                params={"live": live},
                headers={"Last-Event-ID": _id(first[-1])},
            )
            unbroken = await visitor.client.get(
                f"/chat/runs/{run_id}/events/", params={"live": live, "after": 0}
            )
            assert b"".join(first) + resumed.content == unbroken.content
            whole = _frames(unbroken.content)
            is_cut_before_the_end = seen < len(whole)
            cookies = visitor.client.cookies
    assert kinds(events_of(b"".join(whole)))[-1] == "done"
    assert seen > 6

    async with open_chat("sse", managers, manufacturing_url) as chat:
        visitor = chat.new_visitor()
        assert isinstance(visitor, HttpVisitor)
        visitor.client.cookies = cookies
        for cut in range(len(whole) + 1):
            after = _id(whole[cut - 1]).rpartition(":")[2] if cut else "0"
            resumed = await visitor.client.get(
                f"/chat/runs/{run_id}/events/", params={"live": live, "after": after}
            )
            assert resumed.content == b"".join(whole[cut:])


async def _read(visitor: HttpVisitor, events: int, *, live: bool) -> tuple[list[bytes], str]:
    """Ask, read some events, and break the connection."""
    body = {"text": "What is there?", "live": live}
    received = b""
    async with (
        asyncio.timeout(10),
        visitor.client.stream("POST", "/chat/stream/", json=body) as response,
    ):
        chunks = response.aiter_raw()
        while len(_frames(received)) < events:
            received += await anext(chunks)
        # An async generator in truth; left open, it would end after the test's event loop.
        await chunks.aclose()  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    return _frames(received)[:events], response.headers["x-run-id"]


@pytest.mark.covers("C7-7")
async def test_text_is_shown_before_the_model_has_finished(manufacturing_url: str) -> None:
    async with open_chat("sse", managers, manufacturing_url) as chat:
        gate = asyncio.Event()
        chat.model.will([say("First. "), wait(gate), say("Last.")])
        first, run_id = await _read(chat.browser, 1, live=False)
        assert b"First. " in first[0]
        gate.set()
        rest = await chat.browser.client.get(
            f"/chat/runs/{run_id}/events/", headers={"Last-Event-ID": _id(first[0])}
        )
        assert kinds(events_of(rest.content)) == ["text_chunk", "done"]


async def test_a_cursor_beyond_the_end_gets_a_resync(manufacturing_url: str) -> None:
    async with open_chat("sse", managers, manufacturing_url) as chat:
        chat.model.will(say("ok"))
        # To its end: a run at work is resynced as one that is running.
        _, run_id = await _read(chat.browser, 2, live=False)
        answer = await chat.browser.client.get(f"/chat/runs/{run_id}/events/?after=1000")
        (event,) = events_of(answer.content)
        assert (event.type, EVENTS.dump_python(event)["status"]) == ("resync", "done")


async def test_another_runs_id_reads_the_run_from_its_start(manufacturing_url: str) -> None:
    async with open_chat("sse", managers, manufacturing_url) as chat:
        chat.model.will(say("ok"))
        _, run_id = await _read(chat.browser, 1, live=False)
        path = f"/chat/runs/{run_id}/events/"
        whole = await chat.browser.client.get(path)
        other = await chat.browser.client.get(path, headers={"Last-Event-ID": "other:7"})
        broken = await chat.browser.client.get(path, headers={"Last-Event-ID": "seven"})
        assert other.content == whole.content
        assert broken.status_code == 422


@ON_BOTH
async def test_a_repeated_request_is_answered_by_its_first_run(manufacturing_url: str) -> None:
    async with open_chat("sse", managers, manufacturing_url) as chat:
        chat.model.will(say("once"))
        first = await chat.browser.post("/chat/stream/", {"text": "hi", "request_id": "r1"})
        again = await chat.browser.post("/chat/stream/", {"text": "hi", "request_id": "r1"})
        other = await chat.browser.post("/chat/stream/", {"text": "ho", "request_id": "r1"})
        assert again.content == first.content
        assert again.headers["x-run-id"] == first.headers["x-run-id"]
        (refused,) = events_of(other.content)
        assert refused.type == "error"
        assert refused.code == "bad_message"
        assert len(chat.model.requests) == 1


async def test_a_message_sent_again_goes_on_after_the_last_event_that_was_seen(
    manufacturing_url: str,
) -> None:
    async with open_chat("sse", managers, manufacturing_url) as chat:
        chat.model.will([call("query", manager="Part", limit=2)], say("There are parts."), say("b"))
        visitor = chat.browser
        body = {"text": "hi", "request_id": "first"}
        whole = await visitor.post("/chat/stream/", body)
        frames = _frames(whole.content)
        headers = {CSRF_HEADER: visitor.client.cookies[CSRF_COOKIE]}
        for seen in range(len(frames)):
            headers["Last-Event-ID"] = _id(frames[seen])
            again = await visitor.client.post("/chat/stream/", json=body, headers=headers)
            assert again.headers["X-Run-Id"] == whole.headers["X-Run-Id"]
            assert _frames(again.content) == frames[seen + 1 :]
        # Of another run: nothing was seen of this one.
        other = await visitor.client.post("/chat/stream/", json={"text": "on"}, headers=headers)
        assert kinds(events_of(other.content)) == ["text_chunk", "done"]
        headers["Last-Event-ID"] = "nonsense"
        refused = await visitor.client.post("/chat/stream/", json=body, headers=headers)
        assert (refused.status_code, refused.json()["code"]) == (422, "bad_event")
    assert len(chat.model.requests) == 3
