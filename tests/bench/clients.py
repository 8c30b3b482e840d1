"""The visitors that load a server: they write and read bytes, and parse nothing.

They share the machine with the server, so what they use themselves must stay small.
"""

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import AsyncExitStack
from typing import Self

from figures import Figure
from serving import Server

CLIENTS = 16
_SECONDS = 3.0
_TEXT = b"Which parts do we have, and who delivers them?"
_ANSWER_LIMIT_S = 30
_HANDSHAKE = (
    b"GET /chat/ HTTP/1.1\r\nhost: localhost\r\nconnection: Upgrade\r\nupgrade: websocket\r\n"
    b"sec-websocket-version: 13\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
)


class Client:
    """One visitor with a connection that stays open, and a session that outlives it.

    ``begun`` are the ids of the conversations that it has begun by itself.
    """

    def __init__(self, port: int) -> None:
        self.begun: list[bytes] = []
        self._port = port
        self._session = b""
        self._run_id = b""
        self._conversation_id = b""

    async def __aenter__(self) -> Self:
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._writer.close()
        await self._writer.wait_closed()

    async def ask(self, conversation: bytes = b"") -> None:
        """Ask the question and read the whole stream; in the latest conversation, or the given."""
        where = b',"conversation_id":"%b"' % conversation if conversation else b""
        body = b'{"text":"%b"%b}' % (_TEXT, where)
        head = b"content-type: application/json\r\ncontent-length: %d\r\n" % len(body)
        await self._exchange(b"POST /chat/stream/ HTTP/1.1\r\n" + head, body)

    async def begin(self) -> None:
        """Ask the question in a new conversation."""
        await self.ask(b"new")
        self.begun.append(self._conversation_id)

    async def read_again(self) -> None:
        """Read the stream of the last answer again."""
        await self._exchange(b"GET /chat/runs/" + self._run_id + b"/events/ HTTP/1.1\r\n", b"")

    async def _exchange(self, head: bytes, body: bytes) -> None:
        self._writer.write(head + b"host: localhost\r\n" + self._session + b"\r\n" + body)
        answer = await self._reader.readuntil(b"\r\n\r\n")
        stream = await self._reader.readuntil(b"0\r\n\r\n")
        if b"200 OK" not in answer or b'"done"' not in stream:
            raise RuntimeError((answer + stream).decode())
        self._learn(answer)

    def _learn(self, answer: bytes) -> None:
        """Keep what the head of an answer names: the session, the run and the conversation."""
        cookies: dict[bytes, bytes] = {}
        for line in answer.split(b"\r\n"):
            name, _, value = line.partition(b": ")
            if name == b"set-cookie":
                cookie, _, content = value.partition(b";")[0].partition(b"=")
                cookies[cookie] = content
            elif name == b"x-run-id":
                self._run_id = value
            elif name == b"x-conversation-id":
                self._conversation_id = value
        if cookies:
            pairs = b"; ".join(b"%b=%b" % pair for pair in cookies.items())
            token = cookies[b"csrftoken"]
            self._session = b"cookie: %b\r\nx-csrftoken: %b\r\n" % (pairs, token)


class SocketClient(Client):
    """A visitor who asks over a WebSocket, and does nothing else there."""

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        self._writer.write(_HANDSHAKE + self._session + b"\r\n")
        answer = await self._reader.readuntil(b"\r\n\r\n")
        if b" 101 " not in answer:
            raise RuntimeError(answer.decode())
        self._learn(answer)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._writer.write(_frame(0x8, b""))
        await super().__aexit__()

    async def ask(self, conversation: bytes = b"") -> None:
        """Ask the question and read until the answer is over."""
        where = b',"conversation_id":"%b"' % conversation if conversation else b""
        body = b'{"type":"message","text":"%b"%b}' % (_TEXT, where)
        self._writer.write(_frame(0x1, body))
        async with asyncio.timeout(_ANSWER_LIMIT_S):  # a refusal has no such event
            await self._reader.readuntil(b'"done"')


def _frame(kind: int, body: bytes) -> bytes:
    """Write a frame of a client. A mask of zeros is one too, and leaves the bytes as they are."""
    size = len(body)
    head = bytes([0x80 | size]) if size < 126 else b"\xfe" + size.to_bytes(2, "big")
    return bytes([0x80 | kind]) + head + bytes(4) + body


Act = Callable[[Client], Awaitable[None]]
"""Something that a client does."""
Plan = Callable[[Client], Iterable[Awaitable[None]]]
"""What a client does one after the other while the clock runs."""


def newcomers(server: Server, kind: type[Client] = Client) -> list[Client]:
    """Make as many visitors as load a server, none of whom has been there."""
    return [kind(server.port) for _ in range(CLIENTS)]


def for_a_while(act: Act) -> Plan:
    """Do the same thing again and again, for the time that one repeat takes."""

    def plan(client: Client) -> Iterator[Awaitable[None]]:
        until = time.perf_counter() + _SECONDS
        while time.perf_counter() < until:
            yield act(client)

    return plan


async def visit(clients: list[Client], act: Act) -> None:
    """Let all clients come, do one thing, and leave."""

    async def come(client: Client) -> None:
        async with client:
            await act(client)

    async with asyncio.TaskGroup() as group:
        for client in clients:
            group.create_task(come(client))


async def load(server: Server, clients: list[Client], prepare: Act, plan: Plan) -> Figure:
    """Let all clients work off their plans at the same time, once all are prepared."""
    latencies: list[float] = []

    async def work(client: Client) -> None:
        for act in plan(client):
            start = time.perf_counter()
            await act
            latencies.append(time.perf_counter() - start)

    await visit(clients, prepare)
    # Connected anew: a server closes a connection that has had an answer and idles then.
    async with AsyncExitStack() as connections:
        for client in clients:
            await connections.enter_async_context(client)
        cpu, start = server.cpu_s(), time.perf_counter()
        async with asyncio.TaskGroup() as group:
            for client in clients:
                group.create_task(work(client))
        elapsed, cpu = time.perf_counter() - start, server.cpu_s() - cpu
    turns, cuts = len(latencies), statistics.quantiles(latencies, n=20)
    return Figure(turns / elapsed, cpu / turns * 1e3, cuts[9] * 1e3, cuts[18] * 1e3)
