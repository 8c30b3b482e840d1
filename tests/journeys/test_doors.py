"""What the HTTP doors refuse, and how."""

import asyncio
from collections.abc import AsyncGenerator, Callable

import httpx
import pytest
from databases import ON_BOTH, execute
from transports import Chat, HttpVisitor, Transport, open_chat

import app.routes
from app.demo.manufacturing import managers
from app.identity import CSRF_HEADER, Scope
from app.main import create_app
from app.sessions import CSRF_COOKIE, SESSION_COOKIE
from app.settings import Settings
from providers import OfflineProvider
from providers.scripted import say
from schema.events import Actor, Failed

ROUTES = ("/chat/", "/chat/stream/")


@pytest.fixture(params=ROUTES)
def route(request: pytest.FixtureRequest) -> str:
    """Run the test over both routes that take a message."""
    return request.param


@pytest.fixture
async def door(manufacturing_url: str) -> AsyncGenerator[tuple[HttpVisitor, Chat]]:
    """A visitor of a running server, and its chat."""
    settings = {"max_body_bytes": 2_000, "allowed_hosts": ("127.0.0.1", "a.example")}
    async with open_chat("http", managers, manufacturing_url, **settings) as chat:
        yield chat.browser, chat


def _only_event(response: httpx.Response) -> dict[str, object]:
    """Return the one event of a refusal, from either route."""
    if response.headers["content-type"].startswith("text/event-stream"):
        frame = response.content.removesuffix(b"\n\n")
        assert b"\n" not in frame
        return httpx.Response(200, content=frame.removeprefix(b"data: ")).json()
    envelope = response.json()
    assert envelope["answer"] == ""
    (event,) = envelope["events"]
    return event


@pytest.mark.covers("C7-6")
async def test_other_methods_are_refused(door: tuple[HttpVisitor, Chat], route: str) -> None:
    visitor, _ = door
    for method in ("GET", "PUT", "DELETE"):
        response = await visitor.client.request(method, route)
        assert response.status_code == 405
        assert response.json()["code"] == "bad_event"
        assert response.headers["Allow"] == "POST"


@pytest.mark.covers("C7-6")
async def test_a_session_needs_its_token(door: tuple[HttpVisitor, Chat], route: str) -> None:
    visitor, chat = door
    chat.model.will(say("a"), say("b"))
    await visitor.ask("one")
    for headers in ({}, {CSRF_HEADER: ""}, {CSRF_HEADER: "x" * 27}):
        response = await visitor.client.post(route, json={"text": "two"}, headers=headers)
        assert response.status_code == 403
        assert response.json()["code"] == "denied"
        assert CSRF_HEADER in response.json()["detail"]
    assert len(chat.model.requests) == 1
    assert (await visitor.post(route, {"text": "three"})).status_code == 200


@pytest.mark.covers("C7-6")
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-origin"}, 200),
        ({"Sec-Fetch-Site": "none"}, 200),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://[evil"}, 403),
        ({"Origin": "http://127.0.0.1@evil.example"}, 403),
        ({"Origin": "HTTP://A.EXAMPLE:8080", "Host": "a.example:8080"}, 200),
    ],
)
async def test_another_sites_page_can_not_ask(
    door: tuple[HttpVisitor, Chat], route: str, headers: dict[str, str], status: int
) -> None:
    visitor, chat = door
    chat.model.will(say("a"))
    response = await visitor.client.post(route, json={"text": "hi"}, headers=headers)
    assert response.status_code == status
    assert len(chat.model.requests) == (status == 200)


@pytest.mark.covers("C7-8")
async def test_the_first_answer_sets_a_signed_session_that_scripts_can_not_read(
    door: tuple[HttpVisitor, Chat], route: str
) -> None:
    visitor, chat = door
    chat.model.will(say("a"), say("b"))
    response = await visitor.client.post(route, json={"text": "hi"})
    session, token = response.headers.get_list("set-cookie")
    assert session.startswith(f"{SESSION_COOKIE}=")
    assert "httponly" in session.lower()
    assert "samesite=lax" in session.lower()
    assert token.startswith(f"{CSRF_COOKIE}=")
    assert "httponly" not in token.lower()
    again = await visitor.post(route, {"text": "hi"})
    assert again.headers.get_list("set-cookie") == []
    assert again.headers["x-conversation-id"] == response.headers["x-conversation-id"]


async def test_a_forged_session_is_a_new_visitor(door: tuple[HttpVisitor, Chat]) -> None:
    visitor, chat = door
    chat.model.will(say("a"), say("b"))
    first = await visitor.client.post("/chat/", json={"text": "hi"})
    subject = visitor.client.cookies[SESSION_COOKIE].rpartition(".")[0]
    visitor.client.cookies.clear()
    visitor.client.cookies.set(SESSION_COOKIE, f"{subject}.{'A' * 27}")
    second = await visitor.client.post("/chat/", json={"text": "hi"})
    assert first.headers["x-conversation-id"] != second.headers["x-conversation-id"]
    assert len(second.headers.get_list("set-cookie")) == 2


async def test_a_body_of_no_type_and_one_whose_size_is_not_told_are_refused(
    door: tuple[HttpVisitor, Chat], route: str
) -> None:
    visitor, chat = door
    plain = await visitor.client.post(route, content=b'{"text":"hi"}')

    async def chunks() -> AsyncGenerator[bytes]:
        for _ in range(30):
            yield b" " * 100

    headers = {"content-type": "application/json"}
    chunked = await visitor.client.post(route, content=chunks(), headers=headers)
    assert [r.status_code for r in (plain, chunked)] == [415, 413]
    assert {r.json()["code"] for r in (plain, chunked)} == {"bad_event"}
    assert chat.model.requests == []


async def test_foreign_runs_and_conversations_answer_like_unknown_ones(
    door: tuple[HttpVisitor, Chat],
) -> None:
    visitor, chat = door
    chat.model.will(say("a"))
    asked = await visitor.client.post("/chat/", json={"text": "hi"})
    stranger = chat.new_visitor()
    assert isinstance(stranger, HttpVisitor)
    for path, id in (
        ("/chat/runs/{}/events/", asked.headers["x-run-id"]),
        ("/chat/conversations/{}/entries/", asked.headers["x-conversation-id"]),
    ):
        foreign = await stranger.client.get(path.format(id))
        unknown = await stranger.client.get(path.format("0b1c"))
        assert (foreign.status_code, foreign.content) == (404, unknown.content)
        assert foreign.json() == {"detail": "Not found.", "code": "not_found"}
        assert (await visitor.client.get(path.format(id))).status_code == 200


async def test_a_client_that_leaves_in_the_middle_of_its_body_is_no_failure_of_ours(
    door: tuple[HttpVisitor, Chat], route: str, caplog: pytest.LogCaptureFixture
) -> None:
    visitor, chat = door
    chat.model.will(say("a"))
    head = f"POST {route} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
    url = visitor.client.base_url
    async with asyncio.timeout(5):
        reader, writer = await asyncio.open_connection(url.host, url.port)
        writer.write(f'{head}Content-Length: 1000\r\n\r\n{{"text":'.encode())
        await writer.drain()
        writer.close()
        await reader.read()
    assert (await visitor.ask("hi"))[-1].type == "done"
    assert "Exception" not in caplog.text
    assert len(chat.model.requests) == 1


async def test_a_client_that_does_not_read_is_let_go(
    manufacturing_url: str,
    hear: Callable[[str], asyncio.Event],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    heard = hear("did not read its stream")
    monkeypatch.setattr(app.routes, "SEND_TIMEOUT_S", 0.2)
    async with open_chat("sse", managers, manufacturing_url) as chat:
        chat.model.will(say(*100 * ["x" * 200_000]))
        body = {"text": "hi"}
        async with (
            asyncio.timeout(10),
            chat.browser.client.stream("POST", "/chat/stream/", json=body) as response,
        ):
            assert response.status_code == 200
            await heard.wait()
    assert "Traceback" not in caplog.text


@ON_BOTH
@pytest.mark.covers("H23", "P19", "P42")
async def test_a_log_that_can_not_be_read_is_said_and_not_an_empty_answer(
    manufacturing_url: str,
) -> None:
    async with open_chat("http", managers, manufacturing_url) as chat:
        chat.model.will(say("a"))
        asked = await chat.browser.post("/chat/", {"text": "hi", "request_id": "r1"})
        cookies = chat.browser.client.cookies
    async with open_chat("http", managers, manufacturing_url) as chat:
        execute(manufacturing_url, "ALTER TABLE chat_run_events RENAME TO elsewhere")
        chat.browser.client.cookies = cookies
        run = asked.headers["x-run-id"]
        resumed = await chat.browser.client.get(f"/chat/runs/{run}/events/")
        again = await chat.browser.post("/chat/", {"text": "hi", "request_id": "r1"})
    assert (_only_event(resumed)["code"], resumed.headers["x-run-id"]) == ("try_again", run)
    assert (again.status_code, again.json()["code"]) == (503, "try_again")
    for response in (resumed, again):
        assert "chat_run_events" not in response.text


async def test_unknown_paths_get_our_body(door: tuple[HttpVisitor, Chat]) -> None:
    visitor, _ = door
    for path in ("/nowhere", "/docs/assets/nothing.js", "/chat/runs//events/"):
        response = await visitor.client.get(path)
        assert response.status_code == 404
        assert response.json() == {"detail": "Not found.", "code": "not_found"}


@pytest.mark.covers("C7-5")
@pytest.mark.parametrize("answer", [False, None, 0, "", RuntimeError("dsn=secret")])
@pytest.mark.parametrize("is_async", [False, True])
async def test_a_permission_denies_before_any_work_unless_it_says_yes(
    manufacturing_url: str, route: str, answer: object, *, is_async: bool
) -> None:
    asked: list[tuple[Actor, Scope]] = []

    def decide(actor: Actor, scope: Scope) -> object:
        asked.append((actor, scope))
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def decide_later(actor: Actor, scope: Scope) -> object:
        return decide(actor, scope)

    permission = decide_later if is_async else decide
    async with open_chat("http", managers, manufacturing_url, permission=permission) as chat:
        response = await chat.browser.client.post(route, json={"text": "hi"})
        assert chat.model.requests == []
    assert (response.status_code, response.json()["code"]) == (403, "denied")
    assert "secret" not in response.text
    ((actor, scope),) = asked
    assert scope["session"] == actor.subject
    assert scope["transport"] == ("sse" if route == "/chat/stream/" else "http")


@pytest.mark.covers("C7-4", "H23")
async def test_a_provider_that_can_not_be_made_is_one_generic_error(
    transport: Transport, manufacturing_url: str
) -> None:
    made = 0

    def factory() -> object:
        nonlocal made
        made += 1
        if made > 1:
            raise RuntimeError("key=secret")
        return OfflineProvider()

    async with open_chat(transport, managers, manufacturing_url, provider=factory) as chat:
        events = await chat.ask("hi")
    assert [event.type for event in events] == ["error"]
    assert "secret" not in repr(events)


@pytest.mark.covers("H23", "P19")
@pytest.mark.parametrize("table", ["chat_conversations", "chat_entries", "chat_runs"])
async def test_a_message_that_can_not_be_stored_is_one_error(
    transport: Transport, manufacturing_url: str, table: str
) -> None:
    async with open_chat(transport, managers, manufacturing_url) as chat:
        execute(manufacturing_url, f"ALTER TABLE {table} RENAME TO elsewhere")
        (event,) = await chat.ask("hi")
        assert isinstance(event, Failed)
        assert event.code == "try_again"
        assert table not in event.message
        execute(manufacturing_url, f"ALTER TABLE elsewhere RENAME TO {table}")
        chat.model.will(say("a"))
        assert (await chat.ask("hi"))[-1].type == "done"


async def test_health_tells_that_the_process_lives_and_is_ready(
    door: tuple[HttpVisitor, Chat],
) -> None:
    visitor, _ = door
    for path in ("/health/live", "/health/ready"):
        response = await visitor.client.get(path)
        assert (response.status_code, response.json()) == (200, {"status": "ok"})
        other = await visitor.client.post(path)
        assert (other.status_code, other.headers["Allow"]) == (405, "GET")


async def test_before_the_start_every_door_answers_as_it_is_described(
    manufacturing_url: str,
) -> None:
    app = create_app(managers, Settings(database_url=manufacturing_url))
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        document = (await client.get("/openapi.json")).json()
        for path, operations in document["paths"].items():
            for method, operation in operations.items():
                response = await client.request(method, path)
                assert str(response.status_code) in operation["responses"], (method, path)


async def test_a_disabled_chat_answers_like_no_chat(manufacturing_url: str) -> None:
    async with open_chat("http", managers, manufacturing_url, enabled=False) as chat:
        response = await chat.browser.client.post("/chat/", json={"text": "hi"})
    assert response.status_code == 404


async def test_the_docs_page_loads_nothing_from_elsewhere(door: tuple[HttpVisitor, Chat]) -> None:
    visitor, _ = door
    page = await visitor.client.get("/docs")
    assert page.status_code == 200
    assert "//" not in page.text.replace("</", "")
    for asset in ("swagger-ui-bundle.js", "swagger-ui.css", "favicon-32x32.png"):
        assert f"/docs/assets/{asset}" in page.text
        assert (await visitor.client.get(f"/docs/assets/{asset}")).status_code == 200
