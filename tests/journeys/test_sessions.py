"""Who asks: visitors, bearers, sessions that were signed in to, and what a project says itself."""

import secrets
import uuid
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import httpx
import pytest
from databases import ON_BOTH
from sockets import open_socket
from transports import Chat, HttpVisitor, events_of, open_chat, results
from websockets.exceptions import InvalidStatus

from app.demo.manufacturing import managers
from app.identity import CSRF_HEADER, Credentials, Scope
from app.sessions import CSRF_COOKIE, MAX_COOKIE_CHARS, SESSION_COOKIE, Sessions
from app.settings import Jwt
from app.tokens import make_token
from providers.scripted import call, say
from schema.events import Actor, Event, JsonObject

JWT = Jwt(secret="k" * 32)
ANN: JsonObject = {"kind": "user", "subject": "ann", "tenant": None, "scopes": []}
ENTRIES = "/chat/conversations/{}/entries/"


def token(subject: str, *, hours: float = 1) -> str:
    return make_token(JWT, subject, lifetime=timedelta(hours=hours), now=datetime.now(UTC))


def bearing(subject: str, *, hours: float = 1) -> dict[str, str]:
    return {"Authorization": f"Bearer {token(subject, hours=hours)}"}


@asynccontextmanager
async def chatting(url: str, **settings: object) -> AsyncGenerator[tuple[HttpVisitor, Chat]]:
    async with open_chat("http", managers, url, **{"jwt": JWT, **settings}) as chat:
        yield chat.browser, chat


@pytest.fixture
async def door(manufacturing_url: str) -> AsyncGenerator[tuple[HttpVisitor, Chat]]:
    """A visitor of a server that believes tokens, and its chat."""
    async with chatting(manufacturing_url) as door:
        yield door


def _told(response: httpx.Response) -> JsonObject:
    assert response.headers["cache-control"] == "no-store"
    return response.json()


# --- visitors -------------------------------------------------------------------------------------


async def test_a_session_route_tells_who_asks_and_what_goes_along(
    door: tuple[HttpVisitor, Chat],
) -> None:
    visitor, chat = door
    chat.model.will(say("a"))
    first = await visitor.client.get("/chat/session/")
    told = _told(first)
    assert {c.partition("=")[0] for c in first.headers.get_list("set-cookie")} == {
        SESSION_COOKIE,
        CSRF_COOKIE,
    }
    assert told["csrf_token"] == visitor.client.cookies[CSRF_COOKIE]
    assert told["expires_at"] is None
    again = await visitor.client.get("/chat/session/")
    assert again.headers.get_list("set-cookie") == []
    assert _told(again) == told
    asked = await visitor.client.post(
        "/chat/", json={"text": "hi"}, headers={CSRF_HEADER: str(told["csrf_token"])}
    )
    assert asked.json()["answer"] == "a"


# --- bearers --------------------------------------------------------------------------------------


async def test_a_bearer_needs_no_token_and_gets_no_session(door: tuple[HttpVisitor, Chat]) -> None:
    visitor, chat = door
    chat.model.will(say("a"), say("b"), say("c"))
    ann = await visitor.client.post("/chat/", json={"text": "hi"}, headers=bearing("ann"))
    assert (ann.status_code, ann.headers.get_list("set-cookie")) == (200, [])
    # Also with a cookie of somebody else's session beside it, and from any page.
    await visitor.client.post("/chat/", json={"text": "hi"})
    headers = {**bearing("ann"), "Origin": "https://elsewhere.example"}
    again = await visitor.client.post("/chat/", json={"text": "hi"}, headers=headers)
    assert again.headers["x-conversation-id"] == ann.headers["x-conversation-id"]
    told = _told(await visitor.client.get("/chat/session/", headers=bearing("ann")))
    assert (told["actor"], told["csrf_token"]) == (ANN, None)


async def test_the_claims_of_a_token_make_the_actor(manufacturing_url: str) -> None:
    asked: list[tuple[Actor, Scope]] = []

    def permission(actor: Actor, scope: Scope) -> bool:
        asked.append((actor, scope))
        return False

    made = make_token(
        JWT,
        "importer",
        lifetime=timedelta(hours=1),
        now=datetime.now(UTC),
        tenant="north",
        scopes=("read", "write"),
        is_service=True,
    )
    async with chatting(manufacturing_url, permission=permission) as (visitor, _):
        headers = {"Authorization": f"bearer {made}"}
        response = await visitor.client.post("/chat/", json={"text": "hi"}, headers=headers)
        reading = await visitor.client.get(ENTRIES.format("x"), headers=headers)
    assert (response.status_code, reading.status_code) == (403, 403)
    actor, scope = asked[0]
    assert actor == Actor("service", "importer", "north", frozenset({"read", "write"}))
    assert (scope["user"], scope["session"]) == ("importer", None)


BAD_BEARERS = {
    "no token": "Bearer",
    "garbage": "Bearer x.y.z",
    "another secret": "Bearer "
    + make_token(Jwt(secret="o" * 32), "ann", lifetime=timedelta(hours=1), now=datetime.now(UTC)),
    "expired": f"Bearer {token('ann', hours=-1)}",
}


@pytest.mark.parametrize("bearer", BAD_BEARERS.values(), ids=BAD_BEARERS)
async def test_a_bad_bearer_is_refused_and_no_session_helps(
    door: tuple[HttpVisitor, Chat], bearer: str
) -> None:
    visitor, chat = door
    chat.model.will(say("a"))
    asked = await visitor.client.post("/chat/", json={"text": "hi"})
    token = {CSRF_HEADER: visitor.client.cookies[CSRF_COOKIE]}
    headers = {"Authorization": bearer, **token}
    for method, path in (
        ("POST", "/chat/"),
        ("POST", "/chat/stream/"),
        ("POST", "/chat/session/"),
        ("GET", "/chat/session/"),
        ("GET", ENTRIES.format(asked.headers["x-conversation-id"])),
        ("GET", f"/chat/runs/{asked.headers['x-run-id']}/events/"),
    ):
        body = {"text": "hi"} if method == "POST" else None
        response = await visitor.client.request(method, path, json=body, headers=headers)
        assert (response.status_code, response.json()["code"]) == (401, "unauthorized"), path
        assert response.headers["www-authenticate"] == "Bearer"
        assert response.headers.get_list("set-cookie") == []
    assert len(chat.model.requests) == 1


async def test_without_configuration_no_bearer_is_believed(manufacturing_url: str) -> None:
    async with chatting(manufacturing_url, jwt=None) as (visitor, chat):
        response = await visitor.client.post("/chat/", json={"text": "hi"}, headers=bearing("ann"))
        assert response.status_code == 401
        basic = {"Authorization": "Basic YW5uOg=="}
        chat.model.will(say("a"))
        assert (
            await visitor.client.post("/chat/", json={"text": "hi"}, headers=basic)
        ).status_code == 200


# --- signing in and out ---------------------------------------------------------------------------


@pytest.mark.covers("C7-41")
async def test_a_sign_in_rotates_the_session_and_starts_fresh(
    door: tuple[HttpVisitor, Chat],
) -> None:
    visitor, chat = door
    chat.model.will(say("a"), say("b"), say("c"))
    before = await visitor.client.post("/chat/", json={"text": "secret of the visitor"})
    old = dict(visitor.client.cookies)
    signed_in = await visitor.client.post("/chat/session/", headers=bearing("ann"))
    assert signed_in.status_code == 200
    now = dict(visitor.client.cookies)
    assert now[SESSION_COOKIE] != old[SESSION_COOKIE]
    assert now[CSRF_COOKIE] != old[CSRF_COOKIE]
    told = _told(signed_in)
    assert told["csrf_token"] == now[CSRF_COOKIE]
    assert told["actor"] == ANN
    assert told["expires_at"] is not None

    stale = await visitor.client.post(
        "/chat/", json={"text": "hi"}, headers={CSRF_HEADER: old[CSRF_COOKIE]}
    )
    assert stale.status_code == 403
    after = await visitor.post("/chat/", {"text": "hi"})
    assert after.headers["x-conversation-id"] != before.headers["x-conversation-id"]
    assert "secret" not in repr(chat.model.requests[-1])
    foreign = await visitor.client.get(ENTRIES.format(before.headers["x-conversation-id"]))
    assert foreign.status_code == 404
    # The same user by a bearer, without any cookie.
    visitor.client.cookies.clear()
    own = await visitor.client.get(
        ENTRIES.format(after.headers["x-conversation-id"]), headers=bearing("ann")
    )
    assert own.status_code == 200


@ON_BOTH
async def test_a_sign_in_takes_the_visitors_history_along_if_asked_to(
    door: tuple[HttpVisitor, Chat],
) -> None:
    visitor, chat = door
    chat.model.will(*(say("a") for _ in range(4)))
    body = {"text": "hi", "request_id": "r1"}
    own = await visitor.client.post("/chat/", json=body, headers=bearing("ann"))
    before = await visitor.client.post("/chat/", json=body)
    old = dict(visitor.client.cookies)
    claimed = await visitor.client.post("/chat/session/?claim=true", headers=bearing("ann"))
    assert claimed.status_code == 200
    entries = ENTRIES.format(before.headers["x-conversation-id"])
    events = f"/chat/runs/{before.headers['x-run-id']}/events/"
    for path in (entries, events):
        assert (await visitor.client.get(path)).status_code == 200
    # The latest conversation goes on, and a request_id that both have used names the user's run.
    after = await visitor.post("/chat/", {"text": "more"})
    assert after.headers["x-conversation-id"] == before.headers["x-conversation-id"]
    repeated = await visitor.post("/chat/", body)
    assert repeated.headers["x-run-id"] == own.headers["x-run-id"]
    # Who still has the visitor's cookie has nothing of it any more, and can begin anew.
    visitor.client.cookies.clear()
    visitor.client.cookies.update(old)
    for path in (entries, events):
        assert (await visitor.client.get(path)).status_code == 404
    anew = await visitor.post("/chat/", {"text": "hi"})
    assert anew.json()["answer"] == "a"


async def test_a_sign_in_takes_nothing_of_another_user_along(
    door: tuple[HttpVisitor, Chat],
) -> None:
    visitor, chat = door
    chat.model.will(say("a"), say("b"))
    assert (await visitor.client.post("/chat/session/", headers=bearing("ann"))).status_code == 200
    before = await visitor.post("/chat/", {"text": "hi"})
    entries = ENTRIES.format(before.headers["x-conversation-id"])
    claimed = await visitor.client.post("/chat/session/?claim=true", headers=bearing("bob"))
    assert claimed.status_code == 200
    assert (await visitor.client.get(entries)).status_code == 404
    assert (await visitor.client.get(entries, headers=bearing("ann"))).status_code == 200


async def test_a_page_of_another_site_is_told_that_it_can_have_no_session(
    manufacturing_url: str,
) -> None:
    friend = "https://app.example"
    async with chatting(manufacturing_url, allowed_origins=(friend,)) as (visitor, _):
        headers = {**bearing("ann"), "Origin": friend, "Sec-Fetch-Site": "cross-site"}
        response = await visitor.client.post("/chat/session/", headers=headers)
        assert (response.status_code, response.json()["code"]) == (403, "denied")
        headers["Sec-Fetch-Site"] = "same-site"
        assert (await visitor.client.post("/chat/session/", headers=headers)).status_code == 200


async def test_a_sign_in_needs_a_bearer(door: tuple[HttpVisitor, Chat]) -> None:
    visitor, _ = door
    for path in ("/chat/session/", "/chat/session/?claim=true"):
        response = await visitor.client.post(path)
        assert (response.status_code, response.json()["code"]) == (401, "unauthorized")
    response = await visitor.client.post("/chat/session/?claim=perhaps", headers=bearing("ann"))
    assert (response.status_code, response.json()["code"]) == (422, "bad_event")


async def test_a_session_ends_with_its_token_and_says_so(door: tuple[HttpVisitor, Chat]) -> None:
    visitor, chat = door
    sessions = Sessions("s" * 32)
    expired = sessions.start(Actor("user", "ann"), datetime.now(UTC))
    visitor.client.cookies.update(sessions.cookies(expired))
    asked = await visitor.post("/chat/", {"text": "hi"})
    assert (asked.status_code, asked.json()["code"]) == (401, "unauthorized")
    assert chat.model.requests == []
    out = await visitor.client.delete(
        "/chat/session/", headers={CSRF_HEADER: visitor.client.cookies[CSRF_COOKIE]}
    )
    assert out.status_code == 204
    assert all("Max-Age=0" in cookie for cookie in out.headers.get_list("set-cookie"))
    visitor.client.cookies.clear()
    chat.model.will(say("a"))
    assert (await visitor.post("/chat/", {"text": "hi"})).json()["answer"] == "a"


async def test_a_token_within_the_leeway_of_clocks_signs_in_for_that_long(
    door: tuple[HttpVisitor, Chat],
) -> None:
    visitor, chat = door
    chat.model.will(say("a"))
    late = bearing("ann", hours=-5 / 3600)
    assert (await visitor.client.post("/chat/session/", headers=late)).status_code == 200
    assert (await visitor.post("/chat/", {"text": "hi"})).json()["answer"] == "a"


def test_a_cookie_longer_than_any_of_ours_is_not_read() -> None:
    sessions = Sessions("s" * 32)
    cookies = sessions.cookies(sessions.start(Actor("user", secrets.token_hex(MAX_COOKIE_CHARS))))
    assert sessions.read(cookies[SESSION_COOKIE]) is None


async def test_a_token_that_no_cookie_can_hold_signs_nobody_in(
    door: tuple[HttpVisitor, Chat],
) -> None:
    visitor, _ = door
    scopes = [secrets.token_hex(16) for _ in range(150)]
    made = make_token(JWT, "ann", lifetime=timedelta(hours=1), now=datetime.now(UTC), scopes=scopes)
    headers = {"Authorization": f"Bearer {made}"}
    response = await visitor.client.post("/chat/session/", headers=headers)
    assert (response.status_code, response.json()["code"]) == (403, "denied")
    assert (await visitor.client.get("/chat/session/", headers=headers)).status_code == 200


async def test_a_sign_out_leaves_a_new_visitor(door: tuple[HttpVisitor, Chat]) -> None:
    visitor, chat = door
    await visitor.client.post("/chat/session/", headers=bearing("ann"))
    without = await visitor.client.delete("/chat/session/")
    assert (without.status_code, without.json()["code"]) == (403, "denied")
    out = await visitor.client.delete(
        "/chat/session/", headers={CSRF_HEADER: visitor.client.cookies[CSRF_COOKIE]}
    )
    assert (out.status_code, out.content) == (204, b"")
    assert dict(visitor.client.cookies) == {}
    told = _told(await visitor.client.get("/chat/session/"))
    assert isinstance(told["actor"], dict)
    assert told["actor"]["kind"] == "session"
    assert chat.model.requests == []


# --- what is theirs -------------------------------------------------------------------------------


@pytest.mark.covers("C7-18")
async def test_everybody_is_answered_from_the_rows_that_are_theirs(
    door: tuple[HttpVisitor, Chat],
) -> None:
    visitor, chat = door
    client, look = visitor.client, call("query", manager="Project", fields=["name"])
    chat.model.will(*4 * [look, say("ok")])
    own = await open_socket(client.base_url, httpx.Cookies(), headers=bearing("ann"))
    stranger = await open_socket(client.base_url, httpx.Cookies())
    seen: list[list[Event]] = []
    for headers in ({}, bearing("ann")):
        asked = await client.post("/chat/stream/", json={"text": "hi"}, headers=headers)
        client.cookies.clear()
        seen.append(events_of(asked.content))
    for socket in (stranger, own):
        await socket.ask("hi")
        seen.append([frame.event for frame in await socket.receive_turn()])
        await socket.close()
    confidential = ["Nightjar" in repr(results(events)) for events in seen]
    assert confidential == [False, True, False, True]


@pytest.mark.covers("H30")
async def test_nobody_goes_on_in_somebody_elses_conversation(
    door: tuple[HttpVisitor, Chat],
) -> None:
    visitor, chat = door
    client = visitor.client
    chat.model.will(say("a"))
    own = await client.post("/chat/", json={"text": "hi"}, headers=bearing("ann"))
    foreign, entries = own.headers["x-conversation-id"], await _entries(client, own)
    await client.get("/chat/session/")
    token = {CSRF_HEADER: client.cookies[CSRF_COOKIE]}
    unknown = str(uuid.uuid4())
    for who in (bearing("bob"), token):
        for path in ("/chat/", "/chat/stream/"):
            answers = [
                await client.post(path, json={"text": "hi", "conversation_id": id}, headers=who)
                for id in (foreign, unknown)
            ]
            assert [answer.status_code for answer in answers] == [404, 404]
            assert answers[0].content == answers[1].content
            assert [(k, v) for k, v in answers[0].headers.multi_items() if k != "date"] == [
                (k, v) for k, v in answers[1].headers.multi_items() if k != "date"
            ]
        socket = await open_socket(client.base_url, client.cookies, headers=who)
        texts: list[str] = []
        for id in (foreign, unknown):
            await socket.ask("hi", conversation_id=id)
            (frame,) = await socket.receive_turn()
            texts.append(frame.text)
        assert texts[0] == texts[1]
        await socket.close()
    assert await _entries(client, own) == entries
    assert len(chat.model.requests) == 1


async def _entries(client: httpx.AsyncClient, own: httpx.Response) -> bytes:
    path = ENTRIES.format(own.headers["x-conversation-id"])
    return (await client.get(path, headers=bearing("ann"))).content


# --- a project's own identity ---------------------------------------------------------------------


def by_cookie(credentials: Credentials) -> Actor | None:
    name = credentials.cookies.get("login")
    return Actor("user", name) if name else None


async def by_cookie_later(credentials: Credentials) -> Actor | None:
    return by_cookie(credentials)


@pytest.mark.parametrize("identity", [by_cookie, by_cookie_later])
async def test_a_project_can_say_who_asks(
    manufacturing_url: str, identity: Callable[[Credentials], object]
) -> None:
    async with chatting(manufacturing_url, identity=identity, jwt=None) as (visitor, chat):
        chat.model.will(say("a"), say("b"))
        visitor.client.cookies.set("login", "ann")
        # A cookie is sent by any page, so the session's token is due here as well.
        plain = await visitor.client.post("/chat/", json={"text": "hi"})
        assert (plain.status_code, plain.json()["code"]) == (403, "denied")
        told = _told(await visitor.client.get("/chat/session/"))
        assert told["actor"] == ANN
        assert told["csrf_token"] == visitor.client.cookies[CSRF_COOKIE]
        asked = await visitor.post("/chat/", {"text": "hi"})
        assert asked.json()["answer"] == "a"
        assert asked.headers.get_list("set-cookie") == []
        visitor.client.cookies.clear()
        stranger = await visitor.client.post("/chat/", json={"text": "hi"})
        assert stranger.headers["x-conversation-id"] != asked.headers["x-conversation-id"]


async def test_no_bearer_opens_a_socket_for_another_sites_page_by_a_projects_cookie(
    manufacturing_url: str,
) -> None:
    async with chatting(manufacturing_url, identity=by_cookie) as (visitor, chat):
        url, cookies = visitor.client.base_url, httpx.Cookies({"login": "ann"})
        evil = {"Origin": "https://evil.example"}
        for bearer in ("junk", token("eve")):
            with pytest.raises(InvalidStatus) as refusal:
                await open_socket(
                    url, cookies, headers=evil, subprotocols=("frontdesk", f"bearer.{bearer}")
                )
            assert refusal.value.response.status_code in (401, 403)
    assert chat.model.requests == []


async def test_a_project_can_believe_keys_of_its_own(manufacturing_url: str) -> None:
    def identity(credentials: Credentials) -> Actor | None:
        return Actor("service", "robot") if credentials.bearer == "key-1" else None

    async with chatting(manufacturing_url, identity=identity, jwt=None) as (visitor, chat):
        chat.model.will(say("a"))
        for key, status in (("key-1", 200), ("key-2", 401)):
            headers = {"Authorization": f"Bearer {key}"}
            response = await visitor.client.post("/chat/", json={"text": "hi"}, headers=headers)
            assert response.status_code == status


async def test_a_project_can_read_the_claims_of_a_token(manufacturing_url: str) -> None:
    def identity(credentials: Credentials) -> Actor | None:
        claims = credentials.claims
        return Actor("user", f"id-{claims['sub']}") if claims and claims["sub"] != "eve" else None

    async with chatting(manufacturing_url, identity=identity) as (visitor, _):
        told = _told(await visitor.client.get("/chat/session/", headers=bearing("ann")))
        assert isinstance(told["actor"], dict)
        assert told["actor"]["subject"] == "id-ann"
        eve = await visitor.client.get("/chat/session/", headers=bearing("eve"))
        forged = await visitor.client.get(
            "/chat/session/", headers={"Authorization": "Bearer x.y.z"}
        )
        assert (eve.status_code, forged.status_code) == (401, 401)


@pytest.mark.parametrize("answer", [RuntimeError("dsn=secret"), "ann", True])
async def test_an_identity_that_fails_lets_nobody_in_and_sends_nobody_away(
    manufacturing_url: str, answer: object
) -> None:
    def identity(_: Credentials) -> object:
        if isinstance(answer, Exception):
            raise answer
        return answer

    async with chatting(manufacturing_url, identity=identity) as (visitor, chat):
        response = await visitor.client.post("/chat/", json={"text": "hi"})
        assert chat.model.requests == []
    assert (response.status_code, response.json()["code"]) == (503, "try_again")
    assert "secret" not in response.text
