"""HTTP on bare streams, as far as a vendor needs it: each way of ending an answer is exact."""

import asyncio
import socket
import struct
import time
from asyncio import IncompleteReadError, StreamReader, StreamReaderProtocol, StreamWriter
from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Received:
    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


class Connection:
    """One client's connection; knows when the client closed it."""

    def __init__(self, reader: "_Reader", writer: StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._is_started = False
        writer.transport.set_write_buffer_limits(0)  # drain waits until the kernel has it all

    @property
    def closed(self) -> float | None:
        """When the client closed the connection."""
        return self._reader.closed

    @property
    def is_open(self) -> bool:
        """Neither side has closed the connection."""
        return not (self._reader.is_over.is_set() or self._writer.is_closing())

    async def receive(self) -> Received | None:
        """Read the next request; None when there is none."""
        try:
            head = await self._reader.readuntil(b"\r\n\r\n")
            request, *lines = head.decode("latin-1").rstrip().split("\r\n")
            fields = [line.partition(":") for line in lines]
            headers = {name.lower(): value.strip() for name, _, value in fields}
            body = await self._reader.readexactly(int(headers.get("content-length", 0)))
        except (IncompleteReadError, ConnectionError):
            return None
        method, path, _ = request.split(" ")
        self._is_started = False
        return Received(method, path, headers, body)

    async def wait(self, seconds: float) -> None:
        """Wait, and no longer than the connection is open."""
        try:
            async with asyncio.timeout(seconds):
                await self._reader.is_over.wait()
        except TimeoutError:
            pass

    async def respond(self, code: int, headers: Mapping[str, str], body: bytes) -> None:
        """Send a whole response."""
        await self._write(_head(code, {**headers, "content-length": str(len(body))}) + body)

    async def stream(self, media_type: str, chunk: bytes) -> None:
        """Send a part of a response, behind its head."""
        await self._write(
            self._start(media_type) + _chunk(chunk) if chunk else self._start(media_type)
        )

    async def end(self, media_type: str) -> None:
        """End the response; the connection stays open."""
        await self._write(self._start(media_type) + b"0\r\n\r\n")

    def close(self) -> None:
        """Close the connection where it is."""
        self._reader.is_ours = True
        self._writer.close()

    def reset(self) -> None:
        """Close the connection with a reset."""
        if not self.is_open:
            return
        self._reader.is_ours = True
        raw: socket.socket = self._writer.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()

    def _start(self, media_type: str) -> bytes:
        if self._is_started:
            return b""
        self._is_started = True
        return _head(200, {"content-type": media_type, "transfer-encoding": "chunked"})

    async def _write(self, data: bytes) -> None:
        if not self.is_open:
            return
        self._writer.write(data)
        try:
            await self._writer.drain()
        except ConnectionError:
            await self._reader.is_over.wait()


def protocol(connected: Callable[[Connection], None]) -> StreamReaderProtocol:
    """Make what asyncio speaks to for each connection."""
    reader = _Reader()
    return StreamReaderProtocol(reader, lambda _, writer: connected(Connection(reader, writer)))


class _Reader(StreamReader):
    """A reader that notes the moment at which the other side closes."""

    def __init__(self) -> None:
        super().__init__(limit=2**20)
        self.is_over = asyncio.Event()
        self.is_ours = False
        self.closed: float | None = None

    def feed_eof(self) -> None:
        self._note()
        super().feed_eof()

    def set_exception(self, exc: Exception) -> None:
        self._note()
        super().set_exception(exc)

    def _note(self) -> None:
        if not (self.is_over.is_set() or self.is_ours):
            self.closed = time.monotonic()
        self.is_over.set()


def _head(code: int, headers: Mapping[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {code} Fake", *(f"{name}: {value}" for name, value in headers.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def _chunk(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"
