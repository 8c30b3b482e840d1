"""A fake vendor: a server that speaks one vendor's wire format and says what a test wrote.

    async with FakeVendor("openai") as vendor:
        vendor.will(
            '''C(0,"a","query",'{"manager":"Part"}') F(tool_calls) U(9,2)''',
            'T"Twelve " T"parts." F(stop) U(20,1)',
        )
        ...  # a client of `vendor.base_url` asks twice
        request = await vendor.ended(1)
    assert vendor.calls == 2
    assert request.body["messages"] == ...
    assert vendor.closed == [None, None]
    assert vendor.faults == []

`completions` describes the language. Each request takes the next completion; one without a stream
gets it whole. What the requests did wrong is in `faults`: rules of the vendor they broke
(`vendor_rules`), a wrong address, a request for which nothing was left to say.
"""

import asyncio
import json
import math
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from email.utils import formatdate
from functools import partial
from typing import NamedTuple, Self

from completions import Completion, Cut, Drop, Eof, Silence, Status, Step, Tokens, checked, parse
from vendor_rules import RULES
from wires import anthropic, gemini, ollama, openai
from wires.connection import Connection, Received, protocol
from wires.form import Beat, CannotSay, Form, Wire, encoded, json_text

from schema.events import JsonObject, is_object

__all__ = ["WIRES", "CannotSay", "FakeVendor", "Request", "Wire"]

WIRES: tuple[Wire, ...] = ("openai", "anthropic", "gemini", "ollama")


class _Door(NamedTuple):
    """Where a vendor is spoken to."""

    form: Form
    base: str
    path: re.Pattern[str]
    model: str
    streams_unless_told: bool = False


_DOORS: Mapping[Wire, _Door] = {
    "openai": _Door(openai.FORM, "/v1", re.compile(r"/v1/chat/completions"), "openai/gpt-4o"),
    "anthropic": _Door(
        anthropic.FORM, "", re.compile(r"/v1/messages"), "anthropic/claude-sonnet-4-5"
    ),
    "gemini": _Door(
        gemini.FORM,
        "/v1beta",
        re.compile(r"/v1beta/models/[\w.-]+:(generateContent|streamGenerateContent\?alt=sse)"),
        "gemini/gemini-2.5-flash",
    ),
    "ollama": _Door(
        ollama.FORM, "", re.compile(r"/api/chat"), "ollama_chat/llama3.1", streams_unless_told=True
    ),
}


_JSON: Mapping[str, str] = {"content-type": "application/json"}


@dataclass(frozen=True, slots=True)
class _Answer:
    """A whole answer."""

    body: JsonObject


@dataclass(slots=True)
class Request:
    """One request, and how its answer ended; times are those of `time.monotonic`."""

    path: str
    """As it stands in the request line, query included."""
    headers: Mapping[str, str]
    """Their names are in lower case."""
    body: JsonObject
    connection: int
    """Which of the vendor's connections it came on."""
    at: float
    closed: float | None = None
    """When the client closed the connection, if that was before the answer's end."""
    over: threading.Event = field(default_factory=threading.Event)
    """The answer is at its end, or the client closed the connection."""


def can_say(wire: Wire, script: str) -> bool:
    """Tell whether a wire has a form for each step of a script. Raises: BadScript."""
    try:
        for completion in parse(script):
            _DOORS[wire].form.beats(completion)
    except CannotSay:
        return False
    return True


class FakeVendor:
    """One vendor on a free port of this machine, between `async with` and its end.

    It has a thread and an event loop of its own: a client that blocks its loop still gets answers.
    """

    def __init__(self, wire: Wire) -> None:
        self.wire: Wire = wire
        self.model = _DOORS[wire].model
        self.base_url = ""
        self.requests: list[Request] = []
        self.faults: list[str] = []
        self._door = _DOORS[wire]
        self._completions: deque[Completion] = deque()
        self._thread = ThreadPoolExecutor(1)
        self._running: Future[None]
        self._close: Callable[[], object]

    def will(self, *scripts: str | Sequence[Step]) -> None:
        """Add completions; a str may hold several, steps are those of one.

        Raises: BadScript; CannotSay when the wire has no form for a step.
        """
        for script in scripts:
            for completion in parse(script) if isinstance(script, str) else [checked(script)]:
                self._door.form.beats(completion)
                self._completions.append(completion)

    def forget(self) -> None:
        """Drop the completions that are left."""
        self._completions.clear()

    @property
    def left(self) -> int:
        """How many completions no request has taken."""
        return len(self._completions)

    @property
    def calls(self) -> int:
        """How many requests came."""
        return len(self.requests)

    @property
    def closed(self) -> list[float | None]:
        """Tell for each request when the client closed the connection before the answer's end."""
        return [request.closed for request in self.requests]

    async def ended(self, number: int = -1) -> Request:
        """Wait until the answer to a request that came is over, however it ends."""
        request = self.requests[number]
        assert await asyncio.to_thread(request.over.wait, 5)
        return request

    async def __aenter__(self) -> Self:
        is_open: Future[None] = Future()
        self._running = self._thread.submit(asyncio.run, self._listen(is_open))
        await asyncio.wrap_future(is_open)
        return self

    async def __aexit__(self, *raised: object) -> None:
        if not self._running.done():
            self._close()
        await asyncio.wrap_future(self._running)
        self._thread.shutdown()

    async def _listen(self, is_open: "Future[None]") -> None:
        """Serve until the vendor is closed; what goes wrong here is raised there."""
        loop, is_over = asyncio.get_running_loop(), asyncio.Event()
        connections: set[Connection] = set()
        serving: set[asyncio.Task[None]] = set()
        async with asyncio.TaskGroup() as group:

            def connected(connection: Connection) -> None:
                connections.add(connection)
                if is_over.is_set():
                    connection.reset()
                else:
                    serving.add(group.create_task(self._serve(connection, len(connections))))

            server = await loop.create_server(lambda: protocol(connected), "127.0.0.1", 0)
            port = server.sockets[0].getsockname()[1]
            self.base_url = f"http://127.0.0.1:{port}{self._door.base}"
            self._close = partial(loop.call_soon_threadsafe, is_over.set)
            is_open.set_result(None)
            try:
                await is_over.wait()
            finally:
                # A server that is closed loses a connection that it is just accepting.
                while accepting := asyncio.all_tasks() - {asyncio.current_task(), *serving}:
                    await asyncio.wait(accepting)
                server.close()
                for connection in connections:
                    connection.reset()

    async def _serve(self, connection: Connection, number: int) -> None:
        """Answer the requests of one connection until either side closes it."""
        while connection.is_open and (received := await connection.receive()):
            body = _json_object(received.body)
            request = Request(received.path, received.headers, body or {}, number, time.monotonic())
            faults, beats = self._reply(received, body)
            self.faults += [f"request {self.calls}: {fault}" for fault in faults]
            self.requests.append(request)
            for beat in beats:
                await self._play(beat, connection)
            request.closed = connection.closed
            request.over.set()
        connection.close()

    def _reply(
        self, received: Received, body: JsonObject | None
    ) -> tuple[list[str], Sequence[Beat | _Answer]]:
        """Find what a request does wrong, and what it gets."""
        at = f"{received.method} {received.path}"
        if received.method != "POST" or not self._door.path.fullmatch(received.path):
            return [f"{at} is no address of the vendor's"], [Status(404)]
        if body is None:
            return ["the body is no JSON object"], [Status(400)]
        faults = RULES[self.wire](body)
        if not self._completions:
            return [*faults, "no completion is left"], [Status(400, text="No completion is left.")]
        completion = self._completions.popleft()
        try:
            if not self._streams(received, body):
                return faults, self._whole(completion)
            beats = self._door.form.beats(completion)
        except CannotSay as error:
            return [*faults, str(error)], [Status(400, text=str(error))]
        if any(isinstance(step, Tokens) for step in completion) and not self._counts(body):
            faults = [*faults, "counts come only with stream_options.include_usage"]
        return faults, beats

    def _streams(self, received: Received, body: JsonObject) -> bool:
        if self.wire == "gemini":
            return ":stream" in received.path
        return body.get("stream", self._door.streams_unless_told) is True

    def _counts(self, body: JsonObject) -> bool:
        """Tell if a stream with this request has counts."""
        options = body.get("stream_options")
        asked = is_object(options) and options.get("include_usage") is True
        return asked or self.wire != "openai"

    def _whole(self, completion: Completion) -> list[Beat | _Answer]:
        steps = [step for step in completion if isinstance(step, Silence | Drop | Status)]
        if steps and not isinstance(steps[-1], Silence):
            return [*steps]
        return [*steps, _Answer(self._door.form.answer(completion))]

    async def _play(self, beat: Beat | _Answer, connection: Connection) -> None:
        form = self._door.form
        match beat:
            case bytes():
                await connection.stream(form.media_type, beat)
            case Silence(seconds):
                await connection.wait(seconds)
            case Eof():
                await connection.end(form.media_type)
            case Cut():
                connection.close()
            case Drop():
                connection.reset()
            case Status():
                await connection.respond(beat.code, _headers(beat), _encoded(form.error(beat)))
            case _Answer(body):
                await connection.respond(200, _JSON, _encoded(body))


def _json_object(body: bytes) -> JsonObject | None:
    try:
        value: object = json.loads(body, parse_constant=_refuse)
    except ValueError:
        return None
    return value if is_object(value) else None


def _refuse(constant: str) -> object:
    raise ValueError(constant)


def _encoded(payload: JsonObject) -> bytes:
    return encoded(json_text(payload))


def _headers(status: Status) -> Mapping[str, str]:
    told = {"retry-after": status.retry_after, "retry-after-ms": status.retry_after_ms}
    if moment := re.fullmatch(r"date\+(\d+)", status.retry_after or ""):
        told["retry-after"] = formatdate(math.ceil(time.time() + int(moment[1])), usegmt=True)
    return {**_JSON, **{name: value for name, value in told.items() if value is not None}}
