"""The doors over HTTP: plain answers, event streams, resume, entries and sessions.

A door reads the body, finds the actor, starts or finds a run, and tails it; it knows nothing of how
an answer comes about. What can be refused is refused before headers go out. Source: design.md 4.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Literal

import orjson
from fastapi import APIRouter, Header, Path, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import WithJsonSchema
from sse_starlette import EventSourceResponse, ServerSentEvent
from sse_starlette.sse import SendTimeoutError
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Send
from starlette.types import Scope as Connection

from app import examples
from app.bodies import Health, SessionState
from app.doors import (
    SEND_TIMEOUT_S,
    Desk,
    credentials_of,
    not_valid,
    problem,
    read_ask,
    read_json,
    refused,
    set_cookies,
)
from app.entries import MAX_PAGE, RunHandle, entry_json
from app.frames import event_type, framed, unnumbered
from app.identity import Transport, Visit
from app.openapi import (
    ASK,
    ASK_BODY,
    ASK_STREAM,
    ENTRIES,
    LIVE,
    READY,
    RESUME,
    SECURED,
    SESSION,
    SIGN_IN,
    SIGN_OUT,
    SIGNING_IN,
    SIGNING_OUT,
    operation_id,
)
from app.sessions import CSRF_COOKIE, SESSION_COOKIE
from app.settings import Settings
from app.socket import converse
from schema.errors import BadEvent, ChatError
from schema.events import Ask, Failed, encode

_log = logging.getLogger(__name__)

_NOT_KEPT = {"Cache-Control": "no-store"}
_PING_S = 15
_DRAIN_S = 10
"""How long a stream may go on when the server ends: longer than its run may."""

# The names of parameters as a client sees them. None is no value that could be sent.
_RunPath = Annotated[str, Path(description="One of your runs.", examples=[examples.RUN])]
_ConversationPath = Annotated[
    str, Path(description="One of your conversations.", examples=[examples.CONVERSATION])
]
_AfterEvent = Annotated[
    int | None,
    Query(ge=0, description="The last event you have."),
    WithJsonSchema({"type": "integer", "minimum": 0, "examples": [5]}),
]
_LastEventId = Annotated[
    str | None,
    Header(
        alias="Last-Event-ID",
        description="The id of the last event you have, as SSE clients send it.",
    ),
    WithJsonSchema({"type": "string", "examples": [examples.LAST_EVENT]}),
]


class _Refused(Exception):
    """A request whose form is wrong, with the HTTP status that says how."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status, self.detail = status, detail


class _ChatRoute(APIRoute):
    """Answers every refusal with our own body, so that no framework default reaches a client."""

    allowed: frozenset[str] = frozenset()
    """The methods of all routes on this path."""

    async def handle(self, scope: Connection, receive: Receive, send: Send) -> None:
        if scope["method"] in (self.methods or ()):
            await super().handle(scope, receive, send)
            return
        response = problem(405, BadEvent.code, "This method is not supported here.")
        response.headers["Allow"] = ", ".join(sorted(self.allowed))
        await response(scope, receive, send)

    def get_route_handler(self) -> Callable[[Request], Coroutine[None, None, Response]]:
        handle = super().get_route_handler()

        async def answer(request: Request) -> Response:
            try:
                return await handle(request)
            except _Refused as refusal:
                return problem(refusal.status, BadEvent.code, refusal.detail)
            except RequestValidationError as error:
                return problem(422, BadEvent.code, not_valid(error))
            except ChatError as error:
                return refused(error)

        return answer


def chat_router(settings: Settings, desk: Callable[[], Desk]) -> APIRouter:
    """Build the chat routes below ``settings.url``; ``desk`` gives the running parts."""
    router = APIRouter(
        prefix=settings.url.rstrip("/"),
        tags=["chat"],
        route_class=_ChatRoute,
        generate_unique_id_function=operation_id,
    )
    _add_asking(router, desk)
    _add_reading(router, desk)
    _add_sessions(router, desk)
    router.add_websocket_route(settings.url, partial(converse, desk=desk), name="socket")
    return _with_allowed(router)


def _add_asking(router: APIRouter, desk: Callable[[], Desk]) -> None:
    @router.post("/", summary="Ask", response_class=Response, responses=ASK, openapi_extra=ASK_BODY)
    async def ask(request: Request) -> Response:
        """Ask a question and wait for the whole answer.

        A refusal that has no status of its own comes as the only event. The run goes on when the
        client leaves: with the same `request_id` the message gives the first answer again.
        """
        return await _ask(request, desk(), "http", _seen(None))

    @router.post(
        "/stream/",
        summary="Ask, and stream the answer",
        response_class=Response,
        responses=ASK_STREAM,
        openapi_extra=ASK_BODY,
    )
    async def stream(request: Request, last_event_id: _LastEventId = None) -> Response:
        """Ask a question and follow the answer as it comes about.

        Each frame has an `id`, `<run_id>:<seq>`, and an event as JSON in `data`. A client that
        sends a message again after its connection broke, with the same `request_id` and the last id
        as `Last-Event-ID`, gets the events after that one.
        """
        return await _ask(request, desk(), "sse", _seen(last_event_id))


def _add_reading(router: APIRouter, desk: Callable[[], Desk]) -> None:
    @router.get(
        "/runs/{run_id}/events/",
        summary="Follow a run",
        response_class=Response,
        responses=RESUME,
        openapi_extra=SECURED,
    )
    async def events(
        request: Request,
        run_id: _RunPath,
        after: _AfterEvent = None,
        live: Annotated[bool, Query(description="As in the message that started it.")] = False,
        last_event_id: _LastEventId = None,
    ) -> Response:
        """Follow a run from any event on: to resume after a broken connection, or to read again.

        `after` counts more than `Last-Event-ID`; without both, the run is shown from its start.
        """
        here = desk()
        seen = _seen(last_event_id)
        visit = await _enter(request, here, "sse")
        run = await here.host.find(run_id, visit.actor)
        start = seen.of(run) if after is None else after
        response = _event_stream(here.host.tail(run, after=start, live=live))
        return _named(response, run)

    @router.get(
        "/conversations/{conversation_id}/entries/",
        summary="Read a conversation",
        response_class=Response,
        responses=ENTRIES,
        openapi_extra=SECURED,
    )
    async def entries(
        request: Request,
        conversation_id: _ConversationPath,
        after: Annotated[
            int, Query(ge=0, description="The last entry you have.", examples=[2])
        ] = 0,
        limit: Annotated[int, Query(ge=1, le=MAX_PAGE, description="Entries of one page.")] = 100,
    ) -> Response:
        """Read what a conversation holds, oldest first: questions, calls with results, answers."""
        here = desk()
        visit = await _enter(request, here, "http")
        page = await here.host.entries(conversation_id, visit.actor, after=after, limit=limit)
        items = [entry_json(entry) for entry in page.items]
        body = orjson.dumps({"items": items, "next": page.next})
        return Response(body, media_type="application/json", headers=_NOT_KEPT)


def _add_sessions(router: APIRouter, desk: Callable[[], Desk]) -> None:
    @router.get(
        "/session/",
        summary="See who asks",
        response_class=Response,
        responses=SESSION,
        openapi_extra=SECURED,
    )
    async def session(request: Request) -> Response:
        """Tell who asks and which CSRF token goes along; a new visitor gets a session."""
        here = desk()
        visit = await here.authenticator.authenticate(credentials_of(request, "http"))
        return _session(visit, request)

    @router.post(
        "/session/",
        summary="Sign in",
        response_class=Response,
        responses=SIGN_IN,
        openapi_extra=SIGNING_IN,
    )
    async def sign_in(
        request: Request,
        claim: Annotated[bool, Query(description="Take over what the visitor has asked.")] = False,
    ) -> Response:
        """Exchange a bearer token for a session of its own; the session before is left behind."""
        here, credentials = desk(), credentials_of(request, "http")
        visit = await here.authenticator.sign_in(credentials)
        visitor = here.authenticator.visitor(credentials)
        if claim and visitor is not None:
            await here.host.adopt(visitor, visit.actor)
        return _session(visit, request)

    @router.delete(
        "/session/",
        summary="Sign out",
        status_code=204,
        response_class=Response,
        responses=SIGN_OUT,
        openapi_extra=SIGNING_OUT,
    )
    async def sign_out(request: Request) -> Response:
        """End the browser's session: the next message is a new visitor's."""
        desk().authenticator.sign_out(credentials_of(request, "http"))
        response = Response(status_code=204)
        for name in (SESSION_COOKIE, CSRF_COOKIE):
            response.delete_cookie(name)
        return response


def health_router(check: Callable[[], Awaitable[None]]) -> APIRouter:
    """Build the routes that a deployment watches; ``check`` raises TryAgain unless all is well."""
    router = APIRouter(
        prefix="/health",
        tags=["health"],
        route_class=_ChatRoute,
        generate_unique_id_function=operation_id,
    )

    @router.get("/live", summary="Check that the process answers", responses=LIVE)
    async def live() -> Health:
        """Tell that the process answers."""
        return Health()

    @router.get("/ready", summary="Check that questions are taken", responses=READY)
    async def ready() -> Health:
        """Tell that questions are taken: all is open, and the chat database answers."""
        await check()
        return Health()

    return _with_allowed(router)


def _with_allowed(router: APIRouter) -> APIRouter:
    """Tell each route what its path takes, to say it to those who try something else."""
    routes = [route for route in router.routes if isinstance(route, _ChatRoute)]
    for route in routes:
        same_path = [other.methods or () for other in routes if other.path == route.path]
        route.allowed = frozenset[str]().union(*same_path)
    return router


async def _enter(request: Request, desk: Desk, transport: Transport) -> Visit:
    """Let in whoever may ask.

    Raises: Denied, Unauthorized, TryAgain.
    """
    credentials = credentials_of(request, transport)
    visit = await desk.authenticator.authenticate(credentials)
    if request.method != "GET":
        desk.authenticator.check_origin(visit, credentials)
    await desk.authenticator.permit(visit, credentials)
    return visit


async def _ask(
    request: Request, desk: Desk, transport: Literal["http", "sse"], seen: "_Seen"
) -> Response:
    """Take a message; a refusal that has no status of its own is an event like any other."""
    visit = await _enter(request, desk, transport)
    is_stream = transport == "sse"
    try:
        ask = await _read_ask(request, desk.settings)
        run = await desk.start(ask, visit.actor)
    except ChatError as error:
        if error.status != 200:
            raise
        response = _refusal(error, is_stream=is_stream)
    else:
        frames = desk.host.tail(run, after=seen.of(run), live=ask.live)
        response = _named(_event_stream(frames) if is_stream else await _envelope(frames), run)
    set_cookies(response, visit, request)
    return response


def _session(visit: Visit, request: Request) -> Response:
    state = SessionState(
        actor=visit.actor,
        csrf_token=visit.csrf_token or visit.new_cookies.get(CSRF_COOKIE),
        expires_at=visit.expires_at,
    )
    response = Response(state.model_dump_json(), media_type="application/json", headers=_NOT_KEPT)
    set_cookies(response, visit, request)
    return response


# --- bodies in ------------------------------------------------------------------------------------


async def _read_ask(request: Request, settings: Settings) -> Ask:
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/json":
        raise _Refused(415, "The body must be application/json.")
    return read_ask(read_json(await _read(request, settings.max_body_bytes)))


async def _read(request: Request, limit: int) -> bytes:
    """Read the body, and no more of it than ``limit`` bytes."""
    body = bytearray()
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > limit:
                raise _Refused(413, f"The body must not be larger than {limit} bytes.")
    except ClientDisconnect as error:
        raise BadEvent from error  # nobody is there to read it
    return bytes(body)


@dataclass(frozen=True, slots=True)
class _Seen:
    """The last event that a client has: of which run, and its number there."""

    run_id: str
    seq: int

    def of(self, run: RunHandle) -> int:
        """Return the number in a run; what was seen of another one means "from the start"."""
        return self.seq if self.run_id == run.id else 0


def _seen(last_event_id: str | None) -> _Seen:
    """Read the ``<run_id>:<seq>`` of an SSE client."""
    if last_event_id is None:
        return _Seen("", 0)
    run_id, _, seq = last_event_id.rpartition(":")
    if not seq.isdecimal() or len(seq) > 18:
        raise _Refused(422, "Not valid: Last-Event-ID.")
    return _Seen(run_id, int(seq))


# --- answers out ----------------------------------------------------------------------------------


async def _envelope(frames: AsyncGenerator[bytes]) -> Response:
    parts = [part async for part in frames]
    return _enveloped([event for _, event in framed(b"".join(parts))])


def _enveloped(events: list[bytes]) -> Response:
    """Join ready events into the envelope; only text has to be read for ``answer``."""
    chunks = (event for event in events if event_type(event) == "text_chunk")
    answer = "".join(orjson.loads(event)["content"] for event in chunks)
    body = b'{"events":[' + b",".join(events) + b'],"answer":' + orjson.dumps(answer) + b"}"
    return Response(body, media_type="application/json")


class _EventStream(EventSourceResponse):
    """A stream that lets go of a client that does not read: in time, or when the server ends."""

    async def __call__(self, scope: Connection, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        except (SendTimeoutError, asyncio.CancelledError):
            _log.info("A client that did not read its stream was cut off.")


def _event_stream(frames: AsyncGenerator[bytes]) -> Response:
    return _EventStream(
        _shown(frames),
        sep="\n",
        ping=_PING_S,
        ping_message_factory=lambda: ServerSentEvent(comment="ping", sep="\n"),
        send_timeout=SEND_TIMEOUT_S,
        shutdown_grace_period=_DRAIN_S,
        headers={"Cache-Control": "no-cache, no-store"},
    )


async def _shown(frames: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    """Pass frames on; the headers are out, so a failure to read more of them is an event too.

    It has no number, so that the client can come back with the last one it saw.
    """
    async with aclosing(frames):
        try:
            async for part in frames:
                yield part
        except ChatError as error:
            yield unnumbered(Failed.of(error))


def _named(response: Response, run: RunHandle) -> Response:
    response.headers["X-Run-Id"] = run.id
    response.headers["X-Conversation-Id"] = run.conversation_id
    return response


def _refusal(error: ChatError, *, is_stream: bool) -> Response:
    """Answer 200 with the one event that says why no run was started."""
    event = Failed.of(error)
    if is_stream:
        response = Response(unnumbered(event), media_type="text/event-stream")
    else:
        response = _enveloped([encode(event)])
    if error.retry_after_seconds is not None:
        response.headers["Retry-After"] = str(error.retry_after_seconds)
    return response
