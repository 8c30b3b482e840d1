"""What is not a request or not a frame: each has its exact answer, and nothing breaks."""

import json
from collections.abc import AsyncGenerator
from dataclasses import dataclass

import httpx
import pytest
from sockets import open_socket
from transports import Chat, open_chat

from app.demo.manufacturing import managers
from providers.scripted import say
from schema.errors import BadMessage, NotFound

LIMIT = 2_000
DEEP = "[" * 1_900
TEXT_DUE = ("bad_message", BadMessage.public)
UNREADABLE = ("bad_event", "The JSON can't be read: malformed, or nested too deeply.")
NO_SUCH = ("not_found", NotFound.public)
NO_NUL = ("bad_message", "The text must not contain a NUL character.")
TOO_LARGE = ("bad_event", f"The body must not be larger than {LIMIT} bytes.")
NO_JSON = ("bad_event", "The body must be application/json.")
NO_METHOD = ("bad_event", "This method is not supported here.")
CURSOR = ("bad_event", "Not valid: Last-Event-ID.")


def invalid(*names: str, code: str = "bad_message") -> tuple[str, str]:
    return code, f"Not valid: {', '.join(names)}."


# --- bodies: the same answer on both routes, as the one event under 200 ---------------------------

BODIES: list[tuple[bytes, tuple[str, str]]] = [
    (b"", TEXT_DUE),
    (b" \n", TEXT_DUE),
    (b"{}", TEXT_DUE),
    (b"[]", TEXT_DUE),
    (b"1", TEXT_DUE),
    (b"null", TEXT_DUE),
    (b"true", TEXT_DUE),
    (b'"hi"', TEXT_DUE),
    (b'{"text": null}', TEXT_DUE),
    (b'{"text": ""}', TEXT_DUE),
    (b'{"text": " \\t "}', TEXT_DUE),
    (b'{"text": {}}', TEXT_DUE),
    (b'{"text": ["hi"]}', TEXT_DUE),
    (b'{"text": 5}', TEXT_DUE),
    (b'{"text": "a\\u0000b"}', NO_NUL),
    (
        b'{"text": "%b"}' % (b"x" * 101),
        ("bad_message", "The text must not be longer than 100 characters."),
    ),
    (b'{"text": "hi", "live": 1}', invalid("live")),
    (b'{"text": "hi", "live": "yes"}', invalid("live")),
    (b'{"text": "hi", "conversation_id": 5}', invalid("conversation_id")),
    (b'{"text": "hi", "conversation_id": ["x"]}', invalid("conversation_id")),
    (b'{"text": "hi", "request_id": "", "live": null}', invalid("live", "request_id")),
    (b'{"text": "hi", "request_id": "%b"}' % (b"r" * 201), invalid("request_id")),
    (b'{"text": "hi"', UNREADABLE),
    (b"text=hi", UNREADABLE),
    (b'{"text": NaN}', UNREADABLE),
    (b'{"text": "\\ud800"}', UNREADABLE),
    (b"\xff\xfe{}", UNREADABLE),
    (DEEP.encode(), UNREADABLE),
]

# --- requests: an answer with a status of its own -------------------------------------------------


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    status: int
    answer: tuple[str, str]
    body: bytes = b""
    content_type: str = "application/json"
    headers: tuple[tuple[str, str], ...] = ()


REQUESTS = [
    Request("POST", "/chat/", 415, NO_JSON, b'{"text":"hi"}', "text/plain"),
    Request("POST", "/chat/stream/", 415, NO_JSON, b"text=hi", "application/x-www-form-urlencoded"),
    Request("POST", "/chat/", 415, NO_JSON, b"{}", "application/jsonx"),
    Request("POST", "/chat/", 413, TOO_LARGE, b'{"text":"%b"}' % (b"x" * LIMIT)),
    Request("POST", "/chat/stream/", 413, TOO_LARGE, b" " * (LIMIT + 1)),
    Request("GET", "/chat/", 405, NO_METHOD),
    Request("PUT", "/chat/stream/", 405, NO_METHOD, b"{}"),
    Request("POST", "/chat/runs/x/events/", 405, NO_METHOD),
    Request("PATCH", "/chat/session/", 405, NO_METHOD),
    Request("POST", "/chat/", 404, NO_SUCH, b'{"text":"hi","conversation_id":"x"}'),
    Request("POST", "/chat/stream/", 404, NO_SUCH, b'{"text":"hi","conversation_id":""}'),
    Request("GET", "/chat/runs/%00/events/", 404, NO_SUCH),
    Request("GET", "/chat/conversations/%F0%9F%98%80/entries/", 404, NO_SUCH),
    Request("GET", "/chat/nothing/", 404, NO_SUCH),
    Request("GET", "/chat/runs/x/events/?after=-1", 422, invalid("after", code="bad_event")),
    Request("GET", "/chat/runs/x/events/?after=x", 422, invalid("after", code="bad_event")),
    Request(
        "GET", "/chat/runs/x/events/?after=1&live=maybe", 422, invalid("live", code="bad_event")
    ),
    Request(
        "GET", f"/chat/runs/x/events/?after={'9' * 5000}", 422, invalid("after", code="bad_event")
    ),
    Request(
        "GET", "/chat/conversations/x/entries/?limit=0", 422, invalid("limit", code="bad_event")
    ),
    Request(
        "GET", "/chat/conversations/x/entries/?limit=501", 422, invalid("limit", code="bad_event")
    ),
    Request("GET", "/chat/runs/RUN/events/", 422, CURSOR, headers=(("Last-Event-ID", "RUN"),)),
    Request("GET", "/chat/runs/RUN/events/", 422, CURSOR, headers=(("Last-Event-ID", "RUN:-1"),)),
]

# --- frames: one error each, and the socket stays -------------------------------------------------

NO_OBJECT = ("bad_event", "A frame must be a JSON object.")
NO_TYPE = ("bad_event", 'The type of a frame must be "message" or "attach".')
FRAMES: list[tuple[str | bytes, tuple[str, str]]] = [
    ("[]", NO_OBJECT),
    ("1", NO_OBJECT),
    ("null", NO_OBJECT),
    ('"x"', NO_OBJECT),
    ("true", NO_OBJECT),
    ("{", UNREADABLE),
    ("", NO_TYPE),
    (DEEP, UNREADABLE),
    (b'{"type":"message","text":"hi"}', ("bad_event", "A frame must be text.")),
    (b"", ("bad_event", "A frame must be text.")),
    ("{}", NO_TYPE),
    ('{"type":[]}', NO_TYPE),
    ('{"type":"confirm","confirmation_id":"call-1","confirmed":true}', NO_TYPE),
    ('{"text":"hi"}', NO_TYPE),
    ('{"type":"message"}', TEXT_DUE),
    ('{"type":"message","text":{}}', TEXT_DUE),
    ('{"type":"message","text":" "}', TEXT_DUE),
    ('{"type":"message","text":"hi","live":"yes"}', invalid("live")),
    ('{"type":"message","text":"hi","conversation_id":"x"}', NO_SUCH),
    ('{"type":"attach"}', invalid("run_id", code="bad_event")),
    ('{"type":"attach","run_id":"x"}', NO_SUCH),
    (
        '{"type":"attach","run_id":5,"after":"CANARY","CANARY":1}',
        invalid("after", "run_id", code="bad_event"),
    ),
    ('{"type":"attach","run_id":"r","after":-1}', invalid("after", code="bad_event")),
    ('{"type":"attach","run_id":"\\u0000"}', NO_SUCH),
    ('{"type":"Message","text":"hi"}', NO_TYPE),
    ('{"type":null}', NO_TYPE),
    ('{"type":"message","text":NaN}', UNREADABLE),
    ('{"type":"message","text":"\\ud800"}', UNREADABLE),
    ('{"type":"message","text":"a\\u0000b"}', NO_NUL),
    ('{"type":"message","text":"hi","request_id":""}', invalid("request_id")),
    ('{"type":"attach","run_id":"r","after":true}', invalid("after", code="bad_event")),
    ('{"type":"attach","run_id":"r","after":1e400}', UNREADABLE),
    ('{"type":"attach","run_id":"r","live":1}', invalid("live", code="bad_event")),
]


@pytest.fixture
async def chat(manufacturing_url: str) -> AsyncGenerator[Chat]:
    settings = {"max_body_bytes": LIMIT, "max_message_chars": 100}
    async with open_chat("http", managers, manufacturing_url, **settings) as chat:
        yield chat


def test_the_table_is_long_enough() -> None:
    assert len(BODIES) + len(REQUESTS) + len(FRAMES) >= 60


@pytest.mark.covers("C7-2", "H23")
async def test_each_malformed_body_has_its_answer(chat: Chat, subtests: pytest.Subtests) -> None:
    client = chat.browser.client
    headers = {"content-type": "application/json"}
    for body, (code, message) in BODIES:
        event = {"type": "error", "message": message, "code": code}
        with subtests.test(str(body[:60])):
            whole = await client.post("/chat/", content=body, headers=headers)
            client.cookies.clear()  # a refused visitor is known from now on, like any other
            streamed = await client.post("/chat/stream/", content=body, headers=headers)
            client.cookies.clear()
            assert (whole.status_code, streamed.status_code) == (200, 200)
            assert whole.json() == {"events": [event], "answer": ""}
            assert streamed.headers["content-type"].startswith("text/event-stream")
            assert streamed.content.startswith(b"data: ")
            assert json.loads(streamed.content.removeprefix(b"data: ")) == event
    assert chat.model.requests == []


@pytest.mark.covers("H30")
async def test_each_malformed_request_has_its_answer(chat: Chat, subtests: pytest.Subtests) -> None:
    client = chat.browser.client
    chat.model.will(say("a"))
    run = (await client.post("/chat/", json={"text": "hi"})).headers["x-run-id"]
    token = chat.browser.client.cookies["csrftoken"]
    for request in REQUESTS:
        with subtests.test(f"{request.method} {request.path[:60]}"):
            headers = {name: value.replace("RUN", run) for name, value in request.headers}
            headers |= {"content-type": request.content_type, "X-CSRFToken": token}
            response: httpx.Response = await client.request(
                request.method,
                request.path.replace("RUN", run),
                content=request.body,
                headers=headers,
            )
            code, detail = request.answer
            assert response.status_code == request.status, response.text
            assert response.json() == {"detail": detail, "code": code}
            assert ("allow" in response.headers) == (request.status == 405)
    assert len(chat.model.requests) == 1


@pytest.mark.covers("H28")
async def test_each_malformed_frame_has_its_answer_and_the_socket_stays(
    chat: Chat, subtests: pytest.Subtests, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "app.socket")
    client = chat.browser.client
    socket = await open_socket(client.base_url, client.cookies)
    for frame, (code, message) in FRAMES:
        with subtests.test(str(frame[:60])):
            caplog.clear()
            await socket.send_raw(frame)
            (answer,) = await socket.receive_turn()
            assert json.loads(answer.text) == {"type": "error", "message": message, "code": code}
            (record,) = [r for r in caplog.records if r.name == "app.socket"]
            assert record.exc_info is None
    assert chat.model.requests == []
    chat.model.will(say("a"))
    await socket.ask("hi")
    assert [frame.event.type for frame in await socket.receive_turn()] == ["text_chunk", "done"]
    await socket.close()
