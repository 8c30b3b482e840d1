"""A desk that a server has: asked over HTTP, its events read as they come.

A stream that breaks is taken up again once, from the last event that was seen. Source: design.md 4.
"""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass

import httpx
from pydantic import ValidationError

from app.addresses import is_loopback
from app.bodies import Problem, SessionState
from app.identity import CSRF_HEADER
from app.settings import TOKEN
from schema.errors import ConfigurationError
from schema.events import EVENTS, Ask, Done, Event, Failed, Resync

_PATIENCE_S = 10
_SILENCE_S = 45
"""How long a stream may say nothing: three times the pause between a server's pings."""
_EXAMPLE = "http://127.0.0.1:8000/chat/"


class Unanswered(Exception):
    """A server gives no answer. The text says why, and what to do about it."""


@asynccontextmanager
async def open_remote(url: str, token: str | None) -> AsyncGenerator["RemoteDesk"]:
    """Find the chat at ``url`` or below it, and come in: without a token, as a visitor.

    Raises: ConfigurationError E002 for a URL or a token that can't be used; Unanswered.
    """
    place = _checked(url, token)
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    # A proxy is no way to this machine itself.
    trusts = not is_loopback(place.host)
    async with httpx.AsyncClient(timeout=_PATIENCE_S, headers=headers, trust_env=trusts) as client:
        given = f"{str(place).rstrip('/')}/"
        for base in (given, f"{given}chat/"):
            try:
                response = await client.get(f"{base}session/")
            except httpx.RequestError as error:
                raise _unreached(base, error) from error
            if (state := _state(response)) is not None:
                yield RemoteDesk(client, base, state.csrf_token)
                return
        raise _no_desk(given)


@dataclass(slots=True)
class _Seen:
    """How far a run was followed."""

    run_id: str | None = None
    seq: int = 0
    is_closed: bool = False


class RemoteDesk:
    """The chat of a server, as one who may come in sees it."""

    def __init__(self, client: httpx.AsyncClient, base: str, csrf_token: str | None) -> None:
        self._client, self._base = client, base
        self._headers = {} if csrf_token is None else {CSRF_HEADER: csrf_token}

    async def run(self, command: Ask) -> AsyncGenerator[Event]:
        """Ask, and give the events of the run in order, to the closing one; unknown ones are not.

        Whoever stops reading does not stop the run. Raises: Unanswered.
        """
        seen = _Seen()
        request = self._request("POST", "stream/", json=command.model_dump(exclude_none=True))
        for _ in range(2):
            async with aclosing(self._follow(request, seen)) as events:
                async for event in events:
                    yield event
            if seen.is_closed:
                return
            query = {"after": str(seen.seq), "live": "true" if command.live else "false"}
            request = self._request("GET", f"runs/{seen.run_id}/events/", params=query)
        raise Unanswered(
            f"The connection to {self._base} broke twice. See whether the server still runs, "
            "and ask again."
        )

    def _request(
        self,
        method: str,
        path: str,
        json: dict[str, object] | None = None,
        params: dict[str, str] | None = None,
    ) -> httpx.Request:
        return self._client.build_request(
            method,
            self._base + path,
            json=json,
            params=params,
            headers=self._headers,
            timeout=httpx.Timeout(_PATIENCE_S, read=_SILENCE_S),
        )

    async def _follow(self, request: httpx.Request, seen: _Seen) -> AsyncGenerator[Event]:
        """Give the events of one response, as far as it goes."""
        try:
            async with AsyncExitStack() as stack:
                response = await self._client.send(request, stream=True)
                stack.push_async_callback(response.aclose)
                if not _is_stream(response):
                    await response.aread()
                    raise _refusal(self._base, response)
                seen.run_id = response.headers.get("X-Run-Id", seen.run_id)
                async for seq, data in _frames(response):
                    event = _event(data)
                    seen.seq = seq or seen.seq
                    seen.is_closed = isinstance(event, Done | Failed)
                    if event is not None:
                        yield event
                    if seen.is_closed:
                        return
        except httpx.RequestError as error:
            if seen.run_id is None:
                raise _unreached(self._base, error) from error


async def _frames(response: httpx.Response) -> AsyncGenerator[tuple[int, bytes]]:
    """Read frames: the number of each event, 0 if it has none, and its JSON."""
    rest = b""
    async for part in response.aiter_bytes():
        *frames, rest = (rest + part).split(b"\n\n")
        for frame in frames:
            head, is_event, data = (b"\n" + frame).partition(b"\ndata: ")
            number = head.rpartition(b":")[2]
            if is_event:
                yield int(number) if number.isdigit() else 0, data


def _event(data: bytes) -> Event | None:
    """Read an event; None for one of a kind that is not known here."""
    try:
        event = EVENTS.validate_json(data)
    except ValidationError:
        return None
    if isinstance(event, Resync):
        raise Unanswered("The server has lost a part of the answer. Ask again.")
    return event


def _checked(url: str, token: str | None) -> httpx.URL:
    try:
        place = httpx.URL(url)
    except httpx.InvalidURL:
        place = httpx.URL("")
    if place.scheme not in ("http", "https") or not place.host:
        raise ConfigurationError("E002", "--url is no address.", f"Give one such as {_EXAMPLE}.")
    if place.userinfo or place.query or place.fragment:
        raise ConfigurationError(
            "E002",
            "--url holds more than the address of a chat.",
            f"Give one such as {_EXAMPLE}, and a token in {TOKEN}.",
        )
    if token is None:
        return place
    if not token.isascii() or not token.isprintable() or not token or " " in token:
        raise ConfigurationError(
            "E002",
            f"{TOKEN} holds no bearer token.",
            f"Set it to one, or unset it: `unset {TOKEN}`.",
        )
    if place.scheme == "http" and not is_loopback(place.host):
        raise ConfigurationError(
            "E002",
            f"The token in {TOKEN} would go to {place.host} where others can read it.",
            "Give an address with https://.",
        )
    return place


def _state(response: httpx.Response) -> SessionState | None:
    """Read what a server says of who asks; None when it is no Frontdesk. Raises: Unanswered."""
    if response.status_code == 200:
        try:
            return SessionState.model_validate_json(response.content)
        except ValidationError:
            return None
    base = str(response.url).removesuffix("session/")
    is_told = response.is_redirect or _problem(response) is not None
    if response.status_code == 404 or not is_told:
        return None
    raise _refusal(base, response)


def _problem(response: httpx.Response) -> Problem | None:
    try:
        return Problem.model_validate_json(response.content)
    except ValidationError:
        return None


def _is_stream(response: httpx.Response) -> bool:
    kind = response.headers.get("Content-Type", "").partition(";")[0].strip()
    return response.status_code == 200 and kind == "text/event-stream"


def _refusal(base: str, response: httpx.Response) -> Unanswered:
    if response.is_redirect:
        elsewhere = response.headers.get("Location", "")
        return Unanswered(f"{base} leads elsewhere: give --url the address behind {elsewhere}.")
    problem = _problem(response)
    if problem is None or response.status_code == 404:
        return _no_desk(base)
    match response.status_code:
        case 401:
            remedy = f"Put a valid token into {TOKEN}, e.g. one of `frontdesk token`, or unset it."
        case 403:
            remedy = f"Put the token of somebody who may into {TOKEN}, or change who may there."
        case 503:
            remedy = "Ask again in a moment."
        case _:
            remedy = "The log of the server tells more."
    return Unanswered(f"{base} refuses: {problem.detail} {remedy}")


def _no_desk(base: str) -> Unanswered:
    return Unanswered(
        f"There is no Frontdesk at {base}: give --url the address of its chat, such as {_EXAMPLE}."
    )


def _unreached(base: str, error: httpx.RequestError) -> Unanswered:
    if isinstance(error, httpx.TimeoutException):
        why = f"does not answer within {_PATIENCE_S} seconds"
    else:
        why = f"can't be reached ({str(error) or type(error).__name__})"
    return Unanswered(f"{base} {why}. Start a server with `frontdesk serve`, or correct --url.")
