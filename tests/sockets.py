"""A WebSocket's client that looks closely: what each frame says, and how it is named."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from http.cookies import SimpleCookie

import httpx
from published import event_from
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed
from websockets.typing import Subprotocol

from schema.events import Event, Failed, Json, RunStarted

_LAST = {"done", "error", "resync"}


@dataclass(frozen=True, slots=True)
class Frame:
    """One event as it came, with the run and the number that its frame gives it."""

    text: str
    event: Event
    run_id: str | None
    seq: int | None


class Socket:
    """An open WebSocket."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection

    @property
    def subprotocol(self) -> str | None:
        return self._connection.subprotocol

    @property
    def headers(self) -> list[tuple[str, str]]:
        """What the server answered with when the socket was opened."""
        assert self._connection.response is not None
        return [*self._connection.response.headers.raw_items()]

    async def send(self, frame: Json) -> None:
        await self._connection.send(json.dumps(frame))

    async def send_raw(self, frame: str | bytes) -> None:
        """Send text or bytes as they are."""
        await self._connection.send(frame)

    async def ask(self, text: str, **fields: Json) -> None:
        await self.send({"type": "message", "text": text, **fields})

    async def start(self, text: str, **fields: Json) -> str:
        """Ask, and return the run's id as soon as it has begun."""
        await self.ask(text, live=True, **fields)
        event = (await self.receive()).event
        assert isinstance(event, RunStarted)
        return event.run_id

    async def attach(self, run_id: str, **fields: Json) -> None:
        await self.send({"type": "attach", "run_id": run_id, **fields})

    async def receive(self) -> Frame:
        """Read one frame."""
        async with asyncio.timeout(30):
            text = await self._connection.recv()
        assert isinstance(text, str)
        fields = dict(json.loads(text, object_pairs_hook=_without_doubles))
        return Frame(text, event_from(fields), fields.get("run_id"), fields.get("seq"))

    async def receive_turn(self) -> list[Frame]:
        """Read a run to its end, or a refusal."""
        frames = [await self.receive()]
        while frames[-1].event.type not in _LAST:
            frames.append(await self.receive())
        return frames

    async def receive_close(self) -> int:
        """Wait for the server to close, and return its code; no frame may come before."""
        with suppress(ConnectionClosed):
            async with asyncio.timeout(30):
                raise AssertionError(f"not closed, but {await self._connection.recv()!r}")
        assert self._connection.close_code is not None
        return self._connection.close_code

    async def receive_or_close(self) -> Frame | None:
        """Read one frame, or None when the server has closed."""
        with suppress(ConnectionClosed):
            return await self.receive()
        return None

    def stop_reading(self) -> None:
        """Leave what comes where it is."""
        self._connection.transport.pause_reading()

    def drop(self) -> None:
        """Be gone, without a word."""
        self._connection.transport.abort()

    async def close(self) -> None:
        await self._connection.close()


async def open_socket(
    base_url: str | httpx.URL,
    cookies: httpx.Cookies,
    headers: Mapping[str, str] | None = None,
    subprotocols: Sequence[str] = (),
    *,
    host: str | None = None,
    query: str = "",
) -> Socket:
    """Connect as a browser does: with its cookies, and keeping those that it is given.

    The server is asked under the name ``host``.
    Raises: websockets.exceptions.InvalidStatus when the server answers with HTTP.
    """
    url = httpx.URL(base_url)
    named = url.copy_with(scheme="ws", host=host or url.host, path="/chat/", query=query.encode())
    sent = "; ".join(f"{cookie.name}={cookie.value}" for cookie in cookies.jar)
    connection = await connect(
        str(named),
        host=url.host,
        additional_headers={**({"Cookie": sent} if sent else {}), **(headers or {})},
        subprotocols=[Subprotocol(name) for name in subprotocols] or None,
        proxy=None,
        max_size=None,
    )
    assert connection.response is not None
    for header in connection.response.headers.get_all("Set-Cookie"):
        for name, morsel in SimpleCookie(header).items():
            cookies.set(name, morsel.value)
    return Socket(connection)


def code(frame: Frame) -> str:
    """Return what a refusal or a failure is called."""
    assert isinstance(frame.event, Failed)
    return frame.event.code


def events_in(frames: Sequence[Frame]) -> list[Event]:
    """Return the events of one turn; a run's frames name it, and their numbers rise."""
    if [frame.run_id for frame in frames] != [None]:
        assert {frame.run_id for frame in frames} == {frames[0].run_id}
        seqs = [frame.seq for frame in frames if frame.seq is not None]
        assert len(seqs) == len(frames)
        assert seqs == sorted(set(seqs))
    return [frame.event for frame in frames]


def _without_doubles(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    names = [name for name, _ in pairs]
    assert len(names) == len(set(names)), f"{names} has a name twice"
    return dict(pairs)
