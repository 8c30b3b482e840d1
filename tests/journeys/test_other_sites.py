"""Another site's page in the browser of somebody known here: whatever it tries, nothing happens.

Each way is the request that a browser makes of it, header by header. A page can choose neither
``Origin`` nor ``Sec-Fetch-Site``; the session's cookie comes along by itself wherever a browser
would send it, and also where one would not.
"""

from collections.abc import AsyncGenerator
from dataclasses import dataclass, field

import httpx
import pytest
from databases import rows
from transports import Chat, HttpVisitor, open_chat

from app.demo.manufacturing import managers
from app.identity import CSRF_HEADER
from app.sessions import CSRF_COOKIE
from providers.scripted import say

EVIL = "https://evil.example"
JSON = b'{"text":"hi"}'
CROSS = {"Origin": EVIL, "Sec-Fetch-Site": "cross-site"}
NAVIGATION = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
OLD = {"Origin": EVIL}  # a browser that does not say from where it fetches


@dataclass(frozen=True)
class Way:
    """A request; ``statuses`` are the answers that it may get."""

    method: str = "POST"
    path: str = "/chat/"
    headers: dict[str, str] = field(default_factory=dict[str, str])
    body: bytes = JSON
    status: int = 403


FORM = {"content-type": "application/x-www-form-urlencoded"}
TEXT = {"content-type": "text/plain"}
TYPED = {"content-type": "application/json"}
WAYS = {
    "a form": Way(headers={**CROSS, **FORM}, body=b"text=hi"),
    "a form with a file": Way(
        headers={**CROSS, "content-type": "multipart/form-data; boundary=b"},
        body=b'--b\r\nContent-Disposition: form-data; name="text"\r\n\r\nhi\r\n--b--\r\n',
    ),
    "a form whose text is JSON": Way(headers={**CROSS, **TEXT}, body=b'{"text":"hi","x":"="}'),
    "a form of an old browser": Way(headers={**OLD, **TEXT}),
    "a form that was clicked on the top of the page": Way(headers={**CROSS, **NAVIGATION, **TEXT}),
    "a fetch without asking first": Way(headers={**CROSS, **TEXT, "Sec-Fetch-Mode": "no-cors"}),
    "a fetch that asked first": Way(headers={**CROSS, **TYPED, "Sec-Fetch-Mode": "cors"}),
    "a fetch of an old browser": Way(headers={**OLD, **TYPED}),
    "a fetch that guesses the token": Way(headers={**CROSS, **TYPED, CSRF_HEADER: "x" * 43}),
    "a fetch that knows the token": Way(headers={**CROSS, **TYPED, CSRF_HEADER: "TOKEN"}),
    "a fetch from a sandbox": Way(headers={**CROSS, **TYPED, "Origin": "null"}),
    "a fetch from a sandbox of an old browser": Way(headers={**TYPED, "Origin": "null"}),
    "a fetch without its token from a sibling": Way(
        headers={**TYPED, "Origin": "http://sub.127.0.0.1", "Sec-Fetch-Site": "same-site"}
    ),
    "a fetch from another port of an old browser": Way(
        headers={**TYPED, "Origin": "http://127.0.0.1:1", CSRF_HEADER: "TOKEN"}
    ),
    "a beacon": Way(path="/chat/stream/", headers={**CROSS, **TYPED, "Sec-Fetch-Mode": "no-cors"}),
    "a stream": Way(path="/chat/stream/", headers={**CROSS, **TYPED}),
    "a name that leads here": Way(
        headers={"Host": "evil.example", "Origin": "http://evil.example", **TYPED}
    ),
    "another method in disguise": Way(
        headers={**CROSS, **FORM, "X-HTTP-Method-Override": "DELETE"},
        path="/chat/session/",
        status=401,
    ),
    "the end of the session": Way("DELETE", "/chat/session/", headers=CROSS, body=b""),
    "the end of the session, old browser": Way("DELETE", "/chat/session/", headers=OLD, body=b""),
    "an image": Way("GET", "/chat/?text=hi", headers=NAVIGATION, body=b"", status=405),
    "a link": Way("GET", "/chat/stream/?text=hi", headers=NAVIGATION, body=b"", status=405),
    "the question whether it may": Way(
        "OPTIONS",
        headers={"Origin": EVIL, "Access-Control-Request-Method": "POST"},
        body=b"",
        status=405,
    ),
}


@pytest.fixture
async def known(manufacturing_url: str) -> AsyncGenerator[tuple[HttpVisitor, Chat]]:
    """Somebody who has asked before, in a browser."""
    async with open_chat("http", managers, manufacturing_url) as chat:
        chat.model.will(say("a"))
        await chat.ask("hi")
        yield chat.browser, chat


def _state(url: str) -> list[object]:
    tables = ("chat_conversations", "chat_runs", "chat_entries")
    return [rows(url, f"SELECT * FROM {table}") for table in tables]


@pytest.mark.covers("C7-6")
async def test_a_page_of_another_site_can_not_act(
    known: tuple[HttpVisitor, Chat], manufacturing_url: str, subtests: pytest.Subtests
) -> None:
    visitor, chat = known
    before, cookies = _state(manufacturing_url), dict(visitor.client.cookies)
    for name, way in WAYS.items():
        headers = {k: v.replace("TOKEN", cookies[CSRF_COOKIE]) for k, v in way.headers.items()}
        with subtests.test(name):
            response = await visitor.client.request(
                way.method, way.path, content=way.body, headers=headers
            )
            assert response.status_code == way.status, response.text
            assert set(response.json()) == {"detail", "code"}
            assert "access-control-allow-origin" not in response.headers
            assert len(chat.model.requests) == 1
            assert _state(manufacturing_url) == before
            assert dict(visitor.client.cookies) == cookies


async def test_a_page_of_another_site_can_read_nothing(known: tuple[HttpVisitor, Chat]) -> None:
    visitor, _ = known
    for path in ("/chat/session/", "/openapi.json", "/health/ready"):
        response = await visitor.client.get(path, headers=CROSS)
        # A browser keeps an answer from a page that it is not allowed for.
        assert "access-control-allow-origin" not in response.headers


# --- pages that may -------------------------------------------------------------------------------

FRIEND = "https://app.example"


def _preflight(origin: str) -> dict[str, str]:
    return {
        "Origin": origin,
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": f"content-type,{CSRF_HEADER},authorization",
    }


async def test_a_page_of_an_allowed_origin_can_ask_with_its_session(
    manufacturing_url: str,
) -> None:
    async with open_chat("http", managers, manufacturing_url, allowed_origins=(FRIEND,)) as chat:
        chat.model.will(say("a"), say("b"))
        client = chat.browser.client
        may = await client.options("/chat/stream/", headers=_preflight(FRIEND))
        assert may.status_code == 200
        assert may.headers["access-control-allow-origin"] == FRIEND
        assert may.headers["access-control-allow-credentials"] == "true"
        headers = {"Origin": FRIEND, "Sec-Fetch-Site": "cross-site"}
        told = (await client.get("/chat/session/", headers=headers)).json()
        without = await client.post("/chat/", json={"text": "hi"}, headers=headers)
        assert (without.status_code, without.json()["code"]) == (403, "denied")
        headers[CSRF_HEADER] = told["csrf_token"]
        asked = await client.post("/chat/", json={"text": "hi"}, headers=headers)
        assert asked.json()["answer"] == "a"
        assert asked.headers["access-control-allow-origin"] == FRIEND
        assert "X-Run-Id" in asked.headers["access-control-expose-headers"]
        for other in (EVIL, "http://app.example", "https://app.example.evil", "null"):
            may_not = await client.options("/chat/stream/", headers=_preflight(other))
            assert "access-control-allow-origin" not in may_not.headers
            headers["Origin"] = other
            denied = await client.post("/chat/", json={"text": "hi"}, headers=headers)
            assert denied.status_code == 403
        # What is not the chat is not opened with it.
        docs = await client.get("/openapi.json", headers={"Origin": FRIEND})
        assert "access-control-allow-origin" not in docs.headers
    assert len(chat.model.requests) == 1


# --- host names -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("allowed", "served", "refused"),
    [
        (
            (),
            ["127.0.0.1", "127.0.0.1:8000", "127.3.2.1", "localhost:80", "LOCALHOST", "[::1]:80"],
            [
                *("chat.example", "localhost.example", "127.0.0.1.example", "10.0.0.1"),
                *("[2001::1]", "[::1", "[::1].example", "127.0.0.1:80@chat.example", "::1", ""),
            ],
        ),
        (
            ("chat.example", "::1"),
            ["chat.example:443", "Chat.Example", "[::1]"],
            ["x.chat.example", "localhost", "chat.example.evil", "chat.example@evil"],
        ),
        (
            ("*.chat.example",),
            ["x.chat.example", "y.x.chat.example"],
            ["chat.example", "evilchat.example"],
        ),
        (("*",), ["anything.example"], []),
    ],
)
async def test_only_allowed_host_names_are_served(
    manufacturing_url: str, allowed: tuple[str, ...], served: list[str], refused: list[str]
) -> None:
    async with open_chat("http", managers, manufacturing_url, allowed_hosts=allowed) as chat:
        client = chat.browser.client
        for host in (*served, *refused):
            headers = {"Host": host}
            session = await client.get("/chat/session/", headers=headers)
            events = await client.get("/chat/runs/x/events/", headers=headers)
            if host in served:
                assert (session.status_code, events.status_code) == (200, 404), host
            else:
                assert (session.status_code, events.status_code) == (403, 403), host
                assert session.json()["code"] == "denied"
            # Whoever watches a deployment asks by address.
            assert (await client.get("/health/ready", headers=headers)).status_code == 200


async def test_a_refused_host_name_is_logged_once(
    known: tuple[HttpVisitor, Chat], caplog: pytest.LogCaptureFixture
) -> None:
    visitor, _ = known
    for host in ("a.example", "b.example"):
        response: httpx.Response = await visitor.client.get(
            "/chat/session/", headers={"Host": host}
        )
        assert response.status_code == 403
    assert caplog.text.count("FRONTDESK_ALLOWED_HOSTS") == 1
