"""What the doors share: the desk with its running parts, who comes in, what is said.

Source: design.md 4.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass

import orjson
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import ValidationError
from starlette.requests import HTTPConnection
from starlette.responses import Response

from app.bodies import Problem
from app.engine import TurnEngine
from app.entries import RunHandle
from app.frames import framed
from app.identity import Authenticator, Credentials, Transport, Visit
from app.runs import RunHost
from app.sessions import SESSION_COOKIE
from app.settings import Settings
from schema.errors import BadEvent, BadMessage, ChatError
from schema.events import EVENTS, Actor, Ask, Event, Failed

SEND_TIMEOUT_S = 30
"""How long a client may leave unread what it is sent."""
_YEAR_S = 365 * 24 * 3600


@dataclass(frozen=True, slots=True)
class Desk:
    """What the doors need, alive while the application is; and the door for code beside it."""

    settings: Settings
    authenticator: Authenticator
    engine: TurnEngine
    host: RunHost

    async def run(
        self, command: Ask, actor: Actor, *, transport: Transport = "desk"
    ) -> AsyncGenerator[Event]:
        """Ask as an actor, and give the events of the run in order, to the closing one.

        The permission is asked first, with the name of the transport. What is refused is the one
        ``error`` event that other doors would show. Whoever stops reading does not stop the run.
        """
        here = Credentials(headers={}, cookies={}, client=None, transport=transport)
        try:
            await self.authenticator.permit(Visit(actor), here)
            run = await self.start(command, actor)
            async with aclosing(self.host.tail(run, live=command.live)) as parts:
                async for part in parts:
                    for _, event in framed(part):
                        yield EVENTS.validate_json(event)
        except ChatError as error:
            yield Failed.of(error)

    async def start(self, command: Ask, actor: Actor) -> RunHandle:
        """Admit a message and start its run, whose events ``host`` shows.

        Raises: BadMessage, NotFound, TurnInProgress, TryAgain; then nothing was started or stored.
        """
        _check(command.text, self.settings.max_message_chars)
        return await self.host.start(command, actor, self.engine.turn)


def _check(text: str, limit: int) -> None:
    if not text.strip():
        raise BadMessage
    if "\0" in text:
        raise BadMessage("The text must not contain a NUL character.")
    if len(text) > limit:
        raise BadMessage(f"The text must not be longer than {limit} characters.")


def credentials_of(connection: HTTPConnection, transport: Transport) -> Credentials:
    """Read what a request or a WebSocket's handshake says of who sends it."""
    client = connection.client
    return Credentials(
        headers=connection.headers,
        cookies=connection.cookies,
        client=(client.host, client.port) if client else None,
        transport=transport,
    )


def set_cookies(response: Response, visit: Visit, connection: HTTPConnection) -> None:
    """Give a client the cookies that it does not have yet."""
    for name, value in visit.new_cookies.items():
        response.set_cookie(
            name,
            value,
            max_age=_YEAR_S,
            httponly=name == SESSION_COOKIE,
            samesite="lax",
            secure=connection.url.scheme in ("https", "wss"),
        )


def read_json(text: bytes | str) -> object:
    """Read what a client has sent; nothing at all is an empty object.

    Raises: BadEvent for malformed JSON, and for JSON nested too deeply to be read.
    """
    try:
        return orjson.loads(text) if text.strip() else {}
    except orjson.JSONDecodeError as error:
        raise BadEvent("The JSON can't be read: malformed, or nested too deeply.") from error


def read_ask(data: object) -> Ask:
    """Take a message from JSON.

    Raises: BadMessage, naming the fields that are not valid.
    """
    try:
        return Ask.model_validate(data)
    except ValidationError as error:
        fields = _fields(error)
        raise BadMessage(None if fields in ([], ["text"]) else not_valid(error)) from error


def not_valid(error: ValidationError | RequestValidationError) -> str:
    """Say which fields or parameters are not valid, and nothing of what they held."""
    return f"Not valid: {', '.join(_fields(error))}."


def _fields(error: ValidationError | RequestValidationError) -> list[str]:
    return sorted({str(item["loc"][-1]) for item in error.errors() if item["loc"]})


def problem(
    status: int, code: str, detail: str, retry_after_seconds: int | None = None
) -> JSONResponse:
    """Build the one body of all refusals that have an HTTP status of their own."""
    body = Problem(detail=detail, code=code)
    response = JSONResponse(body.model_dump(), status)
    if retry_after_seconds:
        response.headers["Retry-After"] = str(retry_after_seconds)
    if status == 401:
        response.headers["WWW-Authenticate"] = "Bearer"
    return response


def refused(error: ChatError) -> JSONResponse:
    """Answer a refusal that has a status of its own."""
    return problem(error.status, error.code, str(error), error.retry_after_seconds)
