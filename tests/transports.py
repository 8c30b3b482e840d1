"""One way to ask over every transport: a journey is written once and runs over all of them."""

import asyncio
import secrets
from collections.abc import (
    AsyncGenerator,
    Callable,
    Generator,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from itertools import groupby
from socket import socket
from typing import Literal, Protocol

import httpx
import orjson
import uvicorn
from fastapi import FastAPI
from published import event_from
from sockets import Socket, events_in, open_socket

from app.doors import Desk
from app.identity import CSRF_HEADER
from app.main import create_app, open_desk
from app.sessions import CSRF_COOKIE
from app.settings import Settings
from providers import Script
from schema import Managers
from schema.events import (
    Actor,
    Ask,
    Event,
    Failed,
    Json,
    JsonObject,
    TextChunk,
    ToolResult,
)

Transport = Literal["engine", "http", "sse", "ws"]
TRANSPORTS: tuple[Transport, ...] = ("engine", "http", "sse", "ws")


class Visitor(Protocol):
    """Somebody who asks: one session, whatever the transport."""

    async def ask(self, text: str, **fields: Json) -> list[Event]:
        """Send a message and return all events of its turn."""
        ...


@dataclass
class Chat:
    """A running application as one transport shows it, and the script its model plays."""

    model: Script
    new_visitor: Callable[[], Visitor]
    visitor: Visitor = field(init=False)

    def __post_init__(self) -> None:
        self.visitor = self.new_visitor()

    @property
    def browser(self) -> "HttpVisitor":
        """The first visitor, if the transport is one of HTTP's."""
        assert isinstance(self.visitor, HttpVisitor)
        return self.visitor

    @property
    def page(self) -> "WsVisitor":
        """The first visitor, if the transport is the WebSocket."""
        assert isinstance(self.visitor, WsVisitor)
        return self.visitor

    async def ask(self, text: str, **fields: Json) -> list[Event]:
        """Ask as the first visitor."""
        return await self.visitor.ask(text, **fields)


@asynccontextmanager
async def open_chat(
    transport: Transport, managers: Managers, url: str, **settings: object
) -> AsyncGenerator[Chat]:
    """Run the application behind one transport; its provider is the chat's script."""
    script = Script()
    configured = Settings.model_validate(
        {"provider": script, "database_url": url, "session_secret": "s" * 32, **settings}
    )
    if transport == "engine":
        async with open_desk(managers, configured) as desk:
            yield Chat(script, lambda: EngineVisitor(desk))
    else:
        async with serve(create_app(managers, configured)) as base_url, AsyncExitStack() as stack:

            def new_visitor() -> HttpVisitor | WsVisitor:
                if transport == "ws":
                    visitor = WsVisitor(base_url)
                else:
                    visitor = HttpVisitor(base_url, transport)
                stack.push_async_callback(visitor.close)
                return visitor

            yield Chat(script, new_visitor)


@asynccontextmanager
async def serve(app: FastAPI) -> AsyncGenerator[str]:
    """Serve an application on a free port of this machine, by a real server, in this event loop."""
    config = uvicorn.Config(app, port=0, log_config=None, timeout_graceful_shutdown=5)
    server = _Server(config)
    async with asyncio.TaskGroup() as group:
        group.create_task(server.serve())
        async with asyncio.timeout(20):
            await server.has_started.wait()
        port = server.servers[0].sockets[0].getsockname()[1]
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            server.should_exit = True


class _Server(uvicorn.Server):
    """A server that says when it listens, and leaves the process's signals alone."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.has_started = asyncio.Event()

    async def startup(self, sockets: list[socket] | None = None) -> None:
        await super().startup(sockets)
        self.has_started.set()

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


class EngineVisitor:
    """Asks the desk itself, without a server."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._actor = Actor("session", secrets.token_hex(8))

    async def ask(self, text: str, **fields: Json) -> list[Event]:
        """Run a command and return its events."""
        command = Ask.model_validate({"text": text, **fields})
        async with aclosing(self._desk.run(command, self._actor)) as events:
            return [event async for event in events]


class HttpVisitor:
    """Asks over HTTP like a browser: keeps its cookies, and sends the token that goes with them."""

    def __init__(self, base_url: str, transport: Literal["http", "sse"]) -> None:
        self.client = httpx.AsyncClient(base_url=base_url, timeout=30)
        self._path = "/chat/" if transport == "http" else "/chat/stream/"

    async def close(self) -> None:
        await self.client.aclose()

    async def post(self, path: str, body: object) -> httpx.Response:
        """Post JSON and return the whole response."""
        token = self.client.cookies.get(CSRF_COOKIE)
        headers = {CSRF_HEADER: token} if token else {}
        return await self.client.post(path, json=body, headers=headers)

    async def ask(self, text: str, **fields: Json) -> list[Event]:
        """Post a message and return its events, however the route wraps them."""
        response = await self.post(self._path, {"text": text, **fields})
        if response.status_code != 200:
            problem = response.json()
            return [Failed(code=problem["code"], message=problem["detail"])]
        if self._path == "/chat/stream/":
            return events_of(response.content)
        envelope = response.json()
        events = [event_from(event) for event in envelope["events"]]
        assert envelope["answer"] == answer(events)
        return events


class WsVisitor:
    """Asks over a WebSocket like a browser's page: all questions over one, and it keeps cookies."""

    def __init__(self, base_url: str) -> None:
        self.base_url, self.cookies = base_url, httpx.Cookies()
        self._sockets: list[Socket] = []

    async def connect(
        self,
        headers: Mapping[str, str] | None = None,
        subprotocols: Sequence[str] = (),
        **place: str,
    ) -> Socket:
        """Open one more socket of the same browser."""
        opened = await open_socket(self.base_url, self.cookies, headers, subprotocols, **place)
        self._sockets.append(opened)
        return opened

    async def ask(self, text: str, **fields: Json) -> list[Event]:
        """Send a message and return its events, whose frames are named as they must be."""
        opened = self._sockets[0] if self._sockets else await self.connect()
        await opened.ask(text, **fields)
        return events_in(await opened.receive_turn())

    async def close(self) -> None:
        for opened in self._sockets:
            await opened.close()


def events_of(stream: bytes) -> list[Event]:
    """Parse SSE frames; comments are left out."""
    frames = [frame for frame in stream.split(b"\n\n") if frame and not frame.startswith(b":")]
    return [event_from(orjson.loads(frame.partition(b"data: ")[2])) for frame in frames]


def merged(events: Iterable[Event]) -> list[Event]:
    """Join neighbouring text chunks: how a text was cut is not what a journey is about."""
    joined: list[Event] = []
    for is_text, group in groupby(events, key=lambda event: isinstance(event, TextChunk)):
        events_of_kind = list(group)
        text = answer(events_of_kind)
        joined += [TextChunk(content=text)] if is_text else events_of_kind
    return joined


def kinds(events: Iterable[Event]) -> list[str]:
    """Name the events in order, neighbouring text chunks as one."""
    return [event.type for event in merged(events)]


def answer(events: Iterable[Event]) -> str:
    """Return the text of the turn."""
    return "".join(event.content for event in events if isinstance(event, TextChunk))


def results(events: Iterable[Event]) -> list[JsonObject]:
    """Return the tool results that are objects, in order."""
    found = (event.result for event in events if isinstance(event, ToolResult))
    return [result for result in found if isinstance(result, dict)]


def rows(result: JsonObject) -> list[JsonObject]:
    """Return the rows of a query's result."""
    data = result["data"]
    assert isinstance(data, list)
    return [row for row in data if isinstance(row, dict)]
