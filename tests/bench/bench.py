"""The benchmark: our turn beside a bare stream, both in one run, on this machine.

    make bench

Figures are medians of repeats; the machine drifts, so the ratios count. T3, T4 and T10 are the
names that docs/measurements.md uses.
"""

import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from servers import ROWS, AtOnce, bench_managers

from app.loop import Budget, Loop
from providers.base import Message
from schema.events import Actor, Json, JsonObject
from schema.query import Reader
from schema.tools import Tool, ToolContext, ToolRegistry, data_tools

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
        self._session = b""
        self._run_id = b""

    async def __aenter__(self) -> "_Client":
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._writer.close()
        await self._writer.wait_closed()

    async def ask(self) -> None:
        """Ask the question and read the whole stream."""
        head = b"content-type: application/json\r\ncontent-length: %d\r\n" % len(_ASK)
        await self._exchange(b"POST /chat/stream/ HTTP/1.1\r\n" + head, _ASK)

    async def read_again(self) -> None:
        """Read the stream of the last answer again."""
        await self._exchange(b"GET /chat/runs/" + self._run_id + b"/events/ HTTP/1.1\r\n", b"")

    async def _exchange(self, head: bytes, body: bytes) -> None:
        self._writer.write(head + b"host: localhost\r\n" + self._session + b"\r\n" + body)
        answer = await self._reader.readuntil(b"\r\n\r\n")
        stream = await self._reader.readuntil(b"0\r\n\r\n")
        if b"200 OK" not in answer or b'"done"' not in stream:
            raise RuntimeError((answer + stream).decode())
        cookies: list[bytes] = []
        for line in answer.split(b"\r\n"):
            name, _, value = line.partition(b": ")
            if name == b"set-cookie":
                cookies.append(value.partition(b";")[0])
            elif name == b"x-run-id":
                self._run_id = value
        if cookies:
            token = cookies[1].partition(b"=")[2]
            self._session = b"cookie: %s\r\nx-csrftoken: %s\r\n" % (b"; ".join(cookies), token)


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


_Work = Callable[[_Client], Awaitable[object]]


async def _load(server: _Server, prepare: _Work, work: _Work) -> _Figure:
    """Let all clients work for a while, each after its own preparation, which does not count."""
    latencies: list[float] = []
    ready, go = asyncio.Semaphore(0), asyncio.Event()

    async def visit() -> None:
        async with _Client(server.port) as client:
            await prepare(client)
            ready.release()
            await go.wait()
            until = time.perf_counter() + _SECONDS
            while (start := time.perf_counter()) < until:
                await work(client)
                latencies.append(time.perf_counter() - start)

    async with asyncio.TaskGroup() as group:
        for _ in range(_CLIENTS):
            group.create_task(visit())
        for _ in range(_CLIENTS):
            await ready.acquire()
        cpu, start = server.cpu_s(), time.perf_counter()
        go.set()
    elapsed, turns = time.perf_counter() - start, len(latencies)
    cuts = statistics.quantiles(latencies, n=20)
    return _Figure(
        turns / elapsed, (server.cpu_s() - cpu) / turns * 1e3, cuts[9] * 1e3, cuts[18] * 1e3
    )


async def _ten_turns(client: _Client) -> None:
    for _ in range(10):
        await client.ask()


async def _one_turn(client: _Client) -> None:
    await client.ask()


async def _loop_cpu_us() -> float:
    """Return the processor time of one turn of the loop alone, its tool answering at once."""
    supplier: Json = {"name": "Supplier 1"}
    rows: Json = [
        {"id": n, "name": f"Part {n}", "price": n / 4, "supplier": supplier} for n in range(ROWS)
    ]
    parameters = next(tool.parameters for tool in data_tools() if tool.name == "query")

    async def query(_: JsonObject, __: ToolContext) -> Json:
        return {"data": rows, "total_count": ROWS, "has_more": False}

    tools = ToolRegistry([Tool("query", "Reads rows.", parameters, query)])
    reader = Reader(bench_managers(), database_url="sqlite:///unused.db")
    actor = Actor("session", "bench")
    context = ToolContext(actor, await reader.view(actor), reader)
    turns = 2_000
    start = time.process_time()
    for _ in range(turns):
        budget = Budget(8, 18, asyncio.get_running_loop().time() + 300)
        async for _ in Loop(AtOnce(), tools, context, budget).run([Message("user", "hi")]):
            pass
    return (time.process_time() - start) / turns * 1e6


def _table(ours: list[_Figure], tails: list[_Figure], bare: list[_Figure]) -> Iterator[str]:
    """Write the figures as a table; shares are medians of the ratios of single repeats."""

    def median(figures: list[_Figure], name: str) -> float:
        return statistics.median(asdict(figure)[name] for figure in figures)

    def share(figures: list[_Figure]) -> str:
        ratios = [a.turns_per_s / b.turns_per_s for a, b in zip(figures, bare, strict=True)]
        return f"{statistics.median(ratios):.1%} ({min(ratios):.1%} to {max(ratios):.1%})"

    yield "| | turns/s | CPU ms/turn | p50 ms | p95 ms | share of bare |"
    yield "|---|---|---|---|---|---|"
    names = ("bare stream", bare), ("T3 whole turn over SSE", ours), ("T4 pass-through", tails)
    for name, figures in names:
        cells = "turns_per_s", "cpu_ms", "p50_ms", "p95_ms"
        values = " | ".join(f"{median(figures, cell):.2f}" for cell in cells)
        yield f"| {name} | {values} | {share(figures)} |"


def main() -> None:
    """Measure both sides in turns, and print."""
    bare: list[_Figure] = []
    ours: list[_Figure] = []
    tails: list[_Figure] = []
    with (
        tempfile.TemporaryDirectory() as folder,
        _serving("bare", 8791, Path(folder)) as bare_server,
        _serving("ours", 8792, Path(folder)) as our_server,
    ):
        for _ in range(_REPEATS):
            bare.append(asyncio.run(_load(bare_server, _one_turn, _one_turn)))
            ours.append(asyncio.run(_load(our_server, _ten_turns, _one_turn)))
            tails.append(asyncio.run(_load(our_server, _one_turn, _Client.read_again)))
    loops = [asyncio.run(_loop_cpu_us()) for _ in range(_REPEATS)]
    lines = [*_table(ours, tails, bare), "", f"T10: {statistics.median(loops):.0f} us CPU per turn"]
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
