"""The door over a WebSocket: questions in, the events of runs out, both as JSON in text frames.

A socket only shows runs: each goes on by itself when the client leaves, and is shown again to one
that comes back and attaches. What a run shows carries ``run_id`` and ``seq``; a refusal is an
``error`` event without them, and the socket stays open. Source: design.md 4; seed, WebSocket.
"""

import asyncio
import logging
import secrets
from collections.abc import Callable
from contextlib import aclosing, suppress
from typing import NoReturn, cast, get_args

from pydantic import BaseModel, ValidationError
from starlette.responses import Response
from starlette.types import Message
from starlette.websockets import WebSocket, WebSocketDisconnect

from app.doors import (
    SEND_TIMEOUT_S,
    Desk,
    credentials_of,
    not_valid,
    read_ask,
    read_json,
    refused,
    set_cookies,
)
from app.entries import RunHandle
from app.frames import event_type, framed
from app.identity import SUBPROTOCOL, Credentials, Visit, subprotocols
from schema.errors import BadEvent, ChatError, ChatFailed, TryAgain, TurnInProgress
from schema.events import Ask, AttachFrame, Event, Failed, JsonObject, RunId, encode
from schema.waiting import wait_until

_log = logging.getLogger(__name__)

_MAY_NOT_ASK, _TOO_LARGE, _BROKEN = 4403, 1009, 1011
_MOST_TASKS = 16
"""How many frames of a client are worked on at once: nearly all of them by showing it a run."""

_EVENTS: tuple[type[BaseModel], ...] = get_args(get_args(Event.__value__)[0])
_NAMING_THEIR_RUN = frozenset(
    str(event.model_fields["type"].default) for event in _EVENTS if "run_id" in event.model_fields
)
"""Types of events that carry ``run_id`` already: JSON must not say a name twice."""
_LAST_OF_A_RUN = frozenset({"done", "error", "resync"})


async def converse(websocket: WebSocket, desk: Callable[[], Desk]) -> None:
    """Let a client in, and answer its frames until it leaves."""
    wire = _Wire(websocket)
    protocol = SUBPROTOCOL if SUBPROTOCOL in subprotocols(websocket.headers) else None
    try:
        here = desk()
    except TryAgain as error:
        await websocket.accept(protocol)
        await wire.end(_BROKEN, Failed.of(error))
        return
    credentials = credentials_of(websocket, "ws")
    try:
        visit = await here.authenticator.authenticate(credentials)
        here.authenticator.check_origin(visit, credentials)
    except ChatError as error:
        await _turn_away(websocket, error)
        return
    cookies = Response()
    set_cookies(cookies, visit, websocket)
    headers = [header for header in cookies.raw_headers if header[0] == b"set-cookie"]
    await websocket.accept(protocol, headers)
    try:
        await _Conversation(wire, here, visit, credentials).go_on()
    except asyncio.CancelledError:
        _log.info("A WebSocket was cut off because the server ends.")


async def _turn_away(websocket: WebSocket, error: ChatError) -> None:
    """Refuse the handshake, with the answer that HTTP would give if the server can send one."""
    if "websocket.http.response" not in websocket.scope.get("extensions", {}):
        await websocket.close()
        return
    await websocket.send_denial_response(refused(error))
    # Until the connection is closed, uvicorn takes this for no answer and logs an error.
    # https://github.com/Kludex/uvicorn/pull/3138
    await asyncio.sleep(0)


class _Wire:
    """The connection to a client. Whoever sends to one that left has a WebSocketDisconnect."""

    def __init__(self, websocket: WebSocket) -> None:
        self._websocket = websocket
        self._sending = asyncio.Lock()
        self._loop = asyncio.get_running_loop()

    async def receive(self) -> str | bytes:
        """Take the client's next frame."""
        message = await self._websocket.receive()
        if message["type"] == "websocket.disconnect":
            raise WebSocketDisconnect(message["code"])
        text: str | None = message.get("text")
        return text if text is not None else message["bytes"]

    async def send(self, event: bytes) -> None:
        """Send an event, after those that are being sent."""
        await self._put({"type": "websocket.send", "text": event.decode()})

    async def end(self, code: int, event: Failed) -> None:
        """Tell a client that is still there why it ends here, and close."""
        with suppress(WebSocketDisconnect):
            await self.send(encode(event))
            await self._put({"type": "websocket.close", "code": code, "reason": event.code})

    async def _put(self, message: Message) -> None:
        async with self._sending:
            try:
                deadline = self._loop.time() + SEND_TIMEOUT_S
                await wait_until(deadline, self._websocket.send(message))
            except TimeoutError as error:
                _log.info("A client that did not read its WebSocket was cut off.")
                raise WebSocketDisconnect from error
            except RuntimeError as error:
                # It is closed: by us, or by the server, which does not tell before it is asked.
                raise WebSocketDisconnect from error


class _Conversation:
    """What goes on over one socket: at most one turn that it asked for, and runs to follow.

    Each frame is answered by a task of its own, so that the next one is heard at once.
    """

    _group: asyncio.TaskGroup

    def __init__(self, wire: _Wire, desk: Desk, visit: Visit, credentials: Credentials) -> None:
        self._wire, self._desk = wire, desk
        self._visit, self._credentials = visit, credentials
        self._tasks: set[asyncio.Task[None]] = set()
        self._tails: dict[RunId, asyncio.Task[None] | None] = {}
        self._asking = 0  # messages whose run is not known yet: one, or one and its repetitions
        self._asked: RunId | None = None
        self._request_id: str | None = None

    async def go_on(self) -> None:
        """Answer frames until somebody hangs up; the runs go on."""
        try:
            async with asyncio.TaskGroup() as self._group:
                await self._permit()
                while True:
                    await self._hear(await self._wire.receive())
                    await asyncio.sleep(0)  # frames that came together must not hold up others
        except* WebSocketDisconnect:
            pass
        except* Exception as errors:
            error_id = secrets.token_hex(8)
            _log.error("A WebSocket failed (error %s).", error_id, exc_info=errors)
            await self._wire.end(_BROKEN, Failed.of(ChatFailed(), error_id))

    async def _hear(self, frame: str | bytes) -> None:
        limit = self._desk.settings.max_body_bytes
        if len(frame if isinstance(frame, bytes) else frame.encode()) > limit:
            reason = f"A frame must not be larger than {limit} bytes."
            await self._hang_up(_TOO_LARGE, BadEvent(reason))
        try:
            if isinstance(frame, bytes):
                raise BadEvent("A frame must be text.")
            self._begin(self._read(read_json(frame)))
        except ChatError as error:
            await self._refuse(error)

    def _read(self, data: object) -> Ask | AttachFrame:
        """Take a command from JSON.

        Raises: BadEvent, TurnInProgress, BadMessage.
        """
        if not isinstance(data, dict):
            raise BadEvent("A frame must be a JSON object.")
        frame = cast("JsonObject", data)  # JSON has no other keys and values
        match frame.get("type"), frame.get("request_id"):
            case "message", request_id:
                is_repeated = request_id is not None and request_id == self._request_id
                if (self._asking or self._asked) and not is_repeated:
                    raise TurnInProgress("Another turn is still running here. Wait for it to end.")
                return read_ask(frame)
            case "attach", _:
                return _read_attach(frame)
            case _:
                raise BadEvent('The type of a frame must be "message" or "attach".')

    # --- answers ----------------------------------------------------------------------------------

    def _begin(self, command: Ask | AttachFrame) -> None:
        if len(self._tasks) >= _MOST_TASKS:
            raise TurnInProgress(f"{_MOST_TASKS} runs are followed here. Wait for one to end.")
        if isinstance(command, Ask):
            self._asking += 1
            self._request_id = command.request_id
        task = self._group.create_task(self._answer(command))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, command: Ask | AttachFrame) -> None:
        after = command.after if isinstance(command, AttachFrame) else 0
        try:
            await self._permit()
            run = await self._find(command)
        except ChatError as error:
            await self._refuse(error)
        else:
            await self._follow(run, after=after, live=command.live)

    async def _find(self, command: Ask | AttachFrame) -> RunHandle:
        actor = self._visit.actor
        if isinstance(command, AttachFrame):
            return await self._desk.host.find(command.run_id, actor)
        try:
            run = await self._desk.start(command, actor)
            self._asked = run.id
            return run
        finally:
            self._asking -= 1

    async def _follow(self, run: RunHandle, *, after: int, live: bool) -> None:
        """Show a run to its end, in place of the task that shows it already."""
        mine = asyncio.current_task()
        before, self._tails[run.id] = self._tails.get(run.id), mine
        if before is not None:
            before.cancel()
        try:
            async with aclosing(self._desk.host.tail(run, after=after, live=live)) as parts:
                async for part in parts:
                    for seq, event in framed(part):
                        await self._show(run.id, seq, event)
        except ChatError as error:
            self._end_turn(run.id)
            event = encode(Failed.of(error))
            await self._wire.send(b'%b,"run_id":"%b"}' % (event[:-1], run.id.encode()))
        finally:
            if self._tails.get(run.id) is mine:
                del self._tails[run.id]
                self._end_turn(run.id)

    async def _show(self, run_id: RunId, seq: int, event: bytes) -> None:
        await asyncio.sleep(0)  # a run that has ended comes in one part, however long it is
        kind = event_type(event)
        if kind in _LAST_OF_A_RUN:
            self._end_turn(run_id)  # first, because the client may ask again at once
        run = b"" if kind in _NAMING_THEIR_RUN else b'"run_id":"%b",' % run_id.encode()
        await self._wire.send(b'%b,%b"seq":%d}' % (event[:-1], run, seq))

    def _end_turn(self, run_id: RunId) -> None:
        """Nothing more is shown of a run: if it is the turn of this socket, that is over."""
        if self._asked == run_id:
            self._asked = None

    # --- refusals ---------------------------------------------------------------------------------

    async def _permit(self) -> None:
        """Look again whether the client may ask; hang up if it may not."""
        try:
            self._desk.authenticator.check_expiry(self._visit)
            await self._desk.authenticator.permit(self._visit, self._credentials)
        except ChatError as error:
            await self._hang_up(_MAY_NOT_ASK, error)

    async def _refuse(self, error: ChatError) -> None:
        _log.info("A frame was refused with %s: %s", error.code, error)
        await self._wire.send(encode(Failed.of(error)))

    async def _hang_up(self, code: int, error: ChatError) -> NoReturn:
        _log.info("A WebSocket was closed with %s: %s", error.code, error)
        await self._wire.end(code, Failed.of(error))
        raise WebSocketDisconnect(code)


def _read_attach(frame: JsonObject) -> AttachFrame:
    try:
        return AttachFrame.model_validate(frame)
    except ValidationError as error:
        raise BadEvent(not_valid(error)) from error
