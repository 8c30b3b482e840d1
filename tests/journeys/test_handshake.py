"""Who is let in over a WebSocket, and how the others are told."""

import asyncio
import json
from collections.abc import AsyncGenerator
from datetime import UTC, datetime, timedelta

import httpx
import pytest
from databases import rows
from jwts import rsa, sign
from sockets import Socket, events_in
from starlette.types import Message
from starlette.websockets import WebSocket
from transports import HttpVisitor, WsVisitor, answer, kinds, open_chat
from turns import Clock
from websockets.datastructures import Headers
from websockets.exceptions import InvalidStatus

from app.demo.manufacturing import managers
from app.doors import Desk
from app.identity import SUBPROTOCOL, Scope
from app.main import create_app, open_desk
from app.sessions import CSRF_COOKIE, SESSION_COOKIE
from app.settings import Jwt, Settings
from app.socket import converse
from app.tokens import make_token
from providers.scripted import say
from schema.events import Actor, Failed

JWT = Jwt(secret="k" * 32)


def token(subject: str, now: datetime | None = None) -> str:
    now = now or datetime.now(UTC)
    return make_token(JWT, subject, lifetime=timedelta(minutes=5), now=now)


def bearing(subject: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token(subject)}"}


async def refused_with(
    visitor: WsVisitor, headers: dict[str, str], subprotocols: tuple[str, ...] = ()
) -> tuple[int, dict[str, str], Headers]:
    """Be refused, and return the answer: status, body and headers."""
    with pytest.raises(InvalidStatus) as refusal:
        await visitor.connect(headers, subprotocols)
    response = refusal.value.response
    return response.status_code, json.loads(response.body or b""), response.headers


async def told_and_closed(opened: Socket) -> tuple[str, int]:
    """Read the one event of a refusal, and the code that the socket is closed with."""
    (frame,) = await opened.receive_turn()
    assert (frame.run_id, frame.seq) == (None, None)
    assert isinstance(frame.event, Failed)
    return frame.event.code, await opened.receive_close()


# --- bearers --------------------------------------------------------------------------------------


async def test_a_bearer_comes_as_a_header_or_beside_the_protocol(manufacturing_url: str) -> None:
    bearer = f"bearer.{token('ann')}"
    async with open_chat("ws", managers, manufacturing_url, jwt=JWT) as chat:
        chat.model.will(say("a"), say("b"), say("c"))
        opened = [
            await chat.page.connect(bearing("ann")),
            await chat.page.connect(subprotocols=[SUBPROTOCOL, bearer]),
            await chat.page.connect(subprotocols=[bearer]),
        ]
        for socket in opened:
            await socket.ask("hi")
            assert kinds(events_in(await socket.receive_turn())) == ["text_chunk", "done"]
        # The token is never said aloud, and one actor has one conversation.
        assert [socket.subprotocol for socket in opened] == [None, SUBPROTOCOL, None]
        assert not chat.page.cookies
    assert len([m for m in chat.model.requests[2].messages if m.role == "user"]) == 3


async def test_a_token_in_the_address_is_no_bearer(manufacturing_url: str) -> None:
    async with open_chat("ws", managers, manufacturing_url, jwt=JWT) as chat:
        chat.model.will(say("a"), say("b"))
        known = await chat.page.connect(bearing("ann"))
        await known.ask("hi")
        await known.receive_turn()
        stranger = await chat.page.connect(query=f"token={token('ann')}&access_token=x")
        await stranger.ask("hi")
        await stranger.receive_turn()
        assert chat.page.cookies
    assert len([m for m in chat.model.requests[1].messages if m.role == "user"]) == 1


@pytest.mark.covers("P23")
async def test_a_bad_bearer_is_refused_before_anything_is_opened(
    manufacturing_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_chat("ws", managers, manufacturing_url, jwt=JWT) as chat:
        await chat.page.connect()
        for headers, protocols in (
            ({"Authorization": "Bearer x.y.z"}, ()),
            ({"Authorization": "Bearer"}, ()),
            ({}, (SUBPROTOCOL, "bearer.x.y.z")),
            ({}, (SUBPROTOCOL, "bearer.")),
        ):
            status, body, answered = await refused_with(chat.page, headers, protocols)
            assert (status, body["code"]) == (401, "unauthorized")
            assert answered["WWW-Authenticate"] == "Bearer"
            assert answered["Content-Type"] == "application/json"
            assert "Set-Cookie" not in answered
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []


async def test_a_bearer_that_can_not_be_checked_now_may_come_again(manufacturing_url: str) -> None:
    nobody = Jwt(jwks_url="http://127.0.0.1:1/keys")
    bearer = {"Authorization": f"Bearer {sign(rsa(), 'RS256')}"}
    async with open_chat("ws", managers, manufacturing_url, jwt=nobody) as chat:
        status, body, answered = await refused_with(chat.page, bearer)
        async with httpx.AsyncClient(base_url=chat.page.base_url) as client:
            described = (await client.get("/openapi.json")).json()["paths"]["/chat/"]["get"]
    assert (status, body["code"], answered["Retry-After"]) == (503, "try_again", "30")
    assert str(status) in described["responses"]


async def test_credentials_that_expire_end_the_socket_at_the_next_message(
    manufacturing_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr("app.main._now", clock)
    async with open_chat("ws", managers, manufacturing_url, jwt=JWT) as chat:
        chat.model.will(say("a"))
        headers = {"Authorization": f"Bearer {token('ann', clock())}"}
        opened, second = await chat.page.connect(headers), await chat.page.connect(headers)
        await opened.ask("hi")
        frames = await opened.receive_turn()
        clock.move(3600)
        await opened.ask("hi")
        await second.attach(frames[0].run_id or "")
        assert await told_and_closed(opened) == ("unauthorized", 4403)
        assert await told_and_closed(second) == ("unauthorized", 4403)
    assert len(chat.model.requests) == 1


# --- pages and hosts ------------------------------------------------------------------------------


@pytest.mark.covers("P21", "C7-6")
@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": ""},
        {"Origin": "http://127.0.0.1"},
        {"Origin": "http://127.0.0.1:1"},
        {"Origin": "http://127.0.0.1:1", "Sec-Fetch-Site": "same-site"},
        {"Origin": "http://localhost.evil"},
        {"Origin": "http://OWN.evil"},
        {"Origin": "chrome-extension://OWN"},
        {"Origin": "://OWN"},
        {"Origin": "http://127.0.0.1@evil.example"},
        {"Origin": "https://app.example.evil"},
        {"Origin": "https://sub.app.example"},
        {"Origin": "http://app.example"},
        {"Origin": "http://[evil"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"},
    ],
    ids=str,
)
async def test_another_sites_page_is_refused_before_anything_is_opened(
    manufacturing_url: str, headers: dict[str, str]
) -> None:
    origins = ("https://app.example",)
    async with open_chat("ws", managers, manufacturing_url, allowed_origins=origins) as chat:
        await chat.page.connect()  # its browser knows somebody here
        own = httpx.URL(chat.page.base_url).netloc.decode()
        sent = {name: value.replace("OWN", own) for name, value in headers.items()}
        status, body, answered = await refused_with(chat.page, sent)
    assert (status, body["code"]) == (403, "denied")
    assert "Set-Cookie" not in answered


@pytest.mark.covers("P21")
async def test_a_page_that_may_is_let_in(manufacturing_url: str) -> None:
    origins = ("https://app.example",)
    async with open_chat(
        "ws", managers, manufacturing_url, allowed_origins=origins, jwt=JWT
    ) as chat:
        own = str(httpx.URL(chat.page.base_url))
        for headers in (
            {},
            {"Origin": own},
            {"Origin": own.upper()},
            {"Origin": own, "Sec-Fetch-Site": "same-origin"},
            {"Origin": "https://app.example"},
            {"Origin": "https://app.example", "Sec-Fetch-Site": "same-site"},
            {"Origin": "https://app.example", "Sec-Fetch-Site": "cross-site"},
            {"Origin": "https://evil.example", **bearing("ann")},  # no page has this by itself
        ):
            chat.model.will(say("a"))
            opened = await chat.page.connect(headers)
            await opened.ask("hi")
            assert (await opened.receive_turn())[-1].event.type == "done"


@pytest.mark.covers("P21")
async def test_a_host_that_is_not_served_is_refused(manufacturing_url: str) -> None:
    async with open_chat("ws", managers, manufacturing_url) as chat:
        for host in ("evil.example", "127.0.0.1.evil.example"):
            with pytest.raises(InvalidStatus) as refusal:
                await chat.page.connect({"Origin": f"http://{host}"}, host=host)
            assert refusal.value.response.status_code == 403


# --- permission -----------------------------------------------------------------------------------


@pytest.mark.covers("C7-5")
@pytest.mark.parametrize("answer", [False, None, 0, RuntimeError("dsn=secret")])
async def test_a_client_that_may_not_ask_can_read_that(
    manufacturing_url: str, answer: object
) -> None:
    asked: list[tuple[Actor, Scope]] = []

    async def permission(actor: Actor, scope: Scope) -> object:
        asked.append((actor, scope))
        if isinstance(answer, Exception):
            raise answer
        return answer

    async with open_chat("ws", managers, manufacturing_url, permission=permission) as chat:
        opened = await chat.page.connect()
        assert await told_and_closed(opened) == ("denied", 4403)
    ((actor, scope),) = asked
    assert (scope["transport"], scope["session"]) == ("ws", actor.subject)
    assert chat.model.requests == []


async def test_permission_is_asked_again_for_every_frame_and_a_turn_goes_on_without_it(
    manufacturing_url: str,
) -> None:
    may = True

    def permission(actor: Actor, scope: Scope) -> bool:
        return may

    async with open_chat("ws", managers, manufacturing_url, permission=permission) as chat:
        chat.model.will(say("a"), say("b"))
        first, second = await chat.page.connect(), await chat.page.connect()
        await first.ask("hi")
        run_id = (await first.receive_turn())[0].run_id
        may = False
        await first.ask("hi")
        await second.attach(run_id or "")
        assert await told_and_closed(first) == ("denied", 4403)
        assert await told_and_closed(second) == ("denied", 4403)
        may = True
        third = await chat.page.connect()
        await third.attach(run_id or "")
        assert answer(events_in(await third.receive_turn())) == "a"
    assert len(chat.model.requests) == 1


# --- sessions -------------------------------------------------------------------------------------


@pytest.mark.covers("C7-8", "H24")
async def test_a_visitor_that_comes_back_goes_on_in_the_same_conversation(
    manufacturing_url: str,
) -> None:
    async with open_chat("ws", managers, manufacturing_url) as chat:
        chat.model.will(say("Noted."))
        opened = await chat.page.connect()
        await opened.ask("Remember 42")
        await opened.receive_turn()
        opened.drop()
        cookies = chat.page.cookies
        assert set(cookies) == {SESSION_COOKIE, CSRF_COOKIE}
    async with open_chat("ws", managers, manufacturing_url) as chat:
        chat.model.will(say("42."), say("42!"))
        known = dict(cookies)
        chat.page.cookies = cookies
        await chat.ask("What number?")
        assert dict(cookies) == known
        # The same browser over HTTP.
        browser = HttpVisitor(chat.page.base_url, "sse")
        browser.client.cookies = cookies
        await browser.ask("Sure?")
        await browser.close()
    assert [m.content for m in chat.model.requests[1].messages if m.role == "user"] == [
        "Remember 42",
        "What number?",
        "Sure?",
    ]
    assert rows(manufacturing_url, "SELECT count(*) FROM chat_conversations") == [(1,)]


# --- other servers --------------------------------------------------------------------------------


class Server:
    """An ASGI server that does what it must and no more, and keeps what it was told to send."""

    def __init__(self, **headers: str) -> None:
        self.sent: list[Message] = []
        self.received: asyncio.Queue[Message] = asyncio.Queue()
        self.received.put_nowait({"type": "websocket.connect"})
        self.is_closed = False
        host = {"Host": "localhost", **headers}
        self.scope = {
            "type": "websocket",
            "scheme": "wss",
            "path": "/chat/",
            "query_string": b"",
            "client": None,
            "headers": [(name.lower().encode(), value.encode()) for name, value in host.items()],
        }

    async def send(self, message: Message) -> None:
        if self.is_closed:
            raise RuntimeError("Unexpected ASGI message 'websocket.send'.")
        self.sent.append(message)

    async def talk_to(self, desk: Desk) -> None:
        websocket = WebSocket(self.scope, self.received.get, self.send)
        await converse(websocket, lambda: desk)


@pytest.fixture
async def desk(manufacturing_url: str) -> AsyncGenerator[Desk]:
    async with open_desk(managers, Settings(database_url=manufacturing_url)) as desk:
        yield desk


async def test_a_server_that_can_not_say_why_still_refuses(desk: Desk) -> None:
    server = Server(Origin="https://evil.example")
    await server.talk_to(desk)
    assert [message["type"] for message in server.sent] == ["websocket.close"]


async def test_cookies_that_come_over_tls_are_sent_over_tls_only(desk: Desk) -> None:
    server = Server()
    server.received.put_nowait({"type": "websocket.disconnect", "code": 1001})
    await server.talk_to(desk)
    (accepted,) = server.sent
    assert [name for name, _ in accepted["headers"]] == [b"set-cookie", b"set-cookie"]
    assert all(b"secure" in value.lower() for _, value in accepted["headers"])


async def test_a_client_that_comes_too_early_is_told_to_come_again(manufacturing_url: str) -> None:
    server = Server()
    app = create_app(managers, Settings(database_url=manufacturing_url))
    await app(server.scope, server.received.get, server.send)
    accepted, said, closed = server.sent
    assert accepted["type"] == "websocket.accept"
    assert json.loads(said["text"])["code"] == "try_again"
    assert (closed["type"], closed["code"]) == ("websocket.close", 1011)


async def test_a_connection_that_a_server_has_closed_by_itself_is_no_failure_of_ours(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server()
    server.received.put_nowait({"type": "websocket.receive", "text": "["})

    async def close(message: Message) -> None:
        await server.send(message)
        server.is_closed = True

    await converse(WebSocket(server.scope, server.received.get, close), lambda: desk)
    assert [message["type"] for message in server.sent] == ["websocket.accept"]
    assert "Traceback" not in caplog.text


async def test_a_server_that_ends_may_cancel_what_it_still_serves(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    server, is_stuck = Server(), asyncio.Event()
    server.received.put_nowait({"type": "websocket.receive", "text": "["})

    async def get_stuck(message: Message) -> None:
        await server.send(message)
        if message["type"] == "websocket.send":
            is_stuck.set()
            await asyncio.Event().wait()

    websocket = WebSocket(server.scope, server.received.get, get_stuck)
    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        talking = group.create_task(converse(websocket, lambda: desk))
        await is_stuck.wait()
        talking.cancel()
    assert not talking.cancelled()
    assert "was cut off" in caplog.text
