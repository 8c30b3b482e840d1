"""The benchmark: our turn beside a bare stream, both in one run, on this machine.

    make bench

The names of the figures are those of docs/measurements.md. A figure that missed what it must reach
says so in its row; the exit status does not, since a busy machine misses some. Takes three minutes.
"""

import asyncio
import sys
import tempfile
from collections.abc import Awaitable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

from answering import offline_ms
from asking import asking_shares
from clients import CLIENTS, Client, SocketClient, for_a_while, load, newcomers, visit
from counting import aggregate_shares
from figures import Figure, Must, load_table, must_table, ratios
from finding import index_ms, search_ms
from parts import loop_cpu_us, storing_cpu_us
from postgres import running
from reading import query_ms, reading_shares
from serving import Server, serving

from app.demo import DEMOS

_REPEATS = 5
_BIN = Path(sys.executable).parent
_QUIET = ("--log-level", "warning", "--no-access-log")
_STARTS = (("frontdesk", "serve"), ("uvicorn", "app.main:app", *_QUIET))

_BARE = "bare stream"
_TURN = "T3 whole turn over SSE"
_SOCKET = "T3 whole turn over a WebSocket"
_AGAIN = "T4 pass-through"
_SHORT = "T7 turn at 10 stored messages"
_LONG = "T7 turn at 1,000 stored messages"

_SHORT_CONVERSATIONS = 20
"""Of each client in each repeat; a turn is measured at 9 stored messages, and one at 12."""
_LONG_TURNS = 334
"""Turns that make 1,000 messages; a turn stores three."""


# --- what the clients do --------------------------------------------------------------------------


async def _one_turn(client: Client) -> None:
    await client.ask()


async def _ten_turns(client: Client) -> None:
    for _ in range(10):
        await client.ask()


async def _talk_long(client: Client) -> None:
    await client.begin()
    for _ in range(_LONG_TURNS - 1):
        await client.ask()


async def _talk_short(client: Client) -> None:
    for _ in range(_SHORT_CONVERSATIONS):
        await client.begin()
        await client.ask()
        await client.ask()


def _go_on_short(client: Client) -> Iterator[Awaitable[None]]:
    for conversation in client.begun[-_SHORT_CONVERSATIONS:]:
        yield client.ask(conversation)
        yield client.ask(conversation)


def _go_on_long(client: Client) -> Iterator[Awaitable[None]]:
    for _ in range(2 * _SHORT_CONVERSATIONS):
        yield client.ask(client.begun[0])


# --- what is measured -----------------------------------------------------------------------------


def _measure_servers(folder: Path) -> dict[str, list[Figure]]:
    """Load both servers in turns."""
    names = (_BARE, _TURN, _SOCKET, _AGAIN, _SHORT, _LONG)
    loads: dict[str, list[Figure]] = {name: [] for name in names}
    with _served("bare", folder) as bare, _served("ours", folder) as ours:
        regulars = newcomers(ours)
        asyncio.run(visit(regulars, _talk_long))
        asking = for_a_while(_one_turn)
        for _ in range(_REPEATS):
            for name, server, clients, prepare, plan in (
                (_BARE, bare, newcomers(bare), _one_turn, asking),
                (_TURN, ours, newcomers(ours), _ten_turns, asking),
                (_SOCKET, ours, newcomers(ours, SocketClient), _ten_turns, asking),
                (_AGAIN, ours, newcomers(ours), _one_turn, for_a_while(Client.read_again)),
                (_SHORT, ours, regulars, _talk_short, _go_on_short),
                (_LONG, ours, regulars, _one_turn, _go_on_long),
            ):
                loads[name].append(asyncio.run(load(server, clients, prepare, plan)))
    return loads


def _served(factory: str, folder: Path) -> AbstractContextManager[Server]:
    command = (_BIN / "uvicorn", f"servers:{factory}", "--factory", *_QUIET)
    return serving(folder, *command, "--app-dir", Path(__file__).parent, log_level="warning")


def _start(folder: Path, command: tuple[str, ...]) -> tuple[float, float]:
    """Start a demo as its user would; return the seconds until it is ready, and its MiB then.

    The provider is the embedded one, so LiteLLM is not loaded.
    """
    settings = {"managers": DEMOS["manufacturing"], "session_secret": "b" * 32}
    program, *arguments = command
    with serving(folder, _BIN / program, *arguments, **settings, log_level="warning") as server:
        return server.start_s, server.memory_mib()


def _start_musts(folder: Path) -> Iterator[Must]:
    """Start both ways in turns; the first start of all makes the databases and does not count."""
    starts: dict[tuple[str, ...], list[tuple[float, float]]] = {command: [] for command in _STARTS}
    _start(folder, _STARTS[0])
    for _ in range(_REPEATS):
        for command, found in starts.items():
            found.append(_start(folder, command))
    for command, found in starts.items():
        name = " ".join(command[:2])
        yield Must(f"T13 start of `{name}`", 2.5, ".2f", " s", [s for s, _ in found])
        yield Must(f"T13 idle memory of `{name}`", 140, ".0f", " MiB", [mib for _, mib in found])


def _load_musts(loads: dict[str, list[Figure]]) -> Iterator[Must]:
    """Hold the loads of servers against what they must reach."""
    bare, turns, again = loads[_BARE], loads[_TURN], loads[_AGAIN]
    share = ratios(turns, bare, "turns_per_s")
    yield Must("T3 share of bare", 0.09, ".1%", "", share, is_least=True)
    yield Must("T3 CPU of a turn", 3.5, ".2f", " ms", [turn.cpu_ms for turn in turns])
    share = ratios(again, bare, "turns_per_s")
    yield Must("T4 share of bare", 0.35, ".1%", "", share, is_least=True)
    tail = [turn.p95_ms / turn.p50_ms for turn in turns]
    yield Must("T6 p95 / median of T3", 3, ".2f", "", tail)
    for what, of in (("median", "p50_ms"), ("CPU", "cpu_ms")):
        length = ratios(loads[_LONG], loads[_SHORT], of)
        yield Must(f"T7 {what} at 1,000 stored messages / at 10", 1.3, ".2f", "x", length)


def _part_musts() -> Iterator[Must]:
    """Measure the parts of a turn alone, in this process."""
    yield from _storing_musts()
    loops = [asyncio.run(loop_cpu_us()) for _ in range(_REPEATS)]
    yield Must("T10 CPU of a turn in the loop", 300, ".0f", " us", loops)
    for said, shares in asking_shares(_REPEATS).items():
        yield Must(f"T12 CPU of a completion of {said} / LiteLLM alone", 1.05, ".2f", "x", shares)
    searches = [search_ms() for _ in range(_REPEATS)]
    yield Must("T14 CPU of a search among 1,000 managers", 1.5, ".3f", " ms", searches)
    indexes = [index_ms(number) for number in range(_REPEATS)]
    yield Must("T15 CPU of an index of 1,000 managers", 300, ".0f", " ms", indexes)
    with tempfile.TemporaryDirectory() as folder:
        shares = aggregate_shares(Path(folder), _REPEATS)
        queries = query_ms(Path(folder), _REPEATS)
        pages = reading_shares(Path(folder), _REPEATS)
        answers = offline_ms(Path(folder), _REPEATS)
    yield Must("CPU of an aggregate over all flights / by hand", 1.3, ".2f", "x", shares)
    yield Must("T9 CPU of a query of 20 rows", 1.0, ".2f", " ms", queries)
    yield Must("CPU of a page of 200 rows and its count / by hand", 3, ".2f", "x", pages)
    yield Must("median of an offline turn over the flights", 30, ".1f", " ms", answers)


def _storing_musts() -> Iterator[Must]:
    """Store turns on a SQLite file and on PostgreSQL in turns, on a fresh database each time."""
    on_file: list[float] = []
    on_server: list[float] = []
    with tempfile.TemporaryDirectory() as folder, running() as server:
        for number in range(_REPEATS):
            url = f"sqlite+aiosqlite:///{folder}/{number}.db"
            on_file.append(asyncio.run(storing_cpu_us(CLIENTS, url)))
            on_server.append(asyncio.run(storing_cpu_us(CLIENTS, server.create())))
    yield Must("T8 CPU of storing a turn, SQLite", 900, ".0f", " us", on_file)
    yield Must("T8 CPU of storing a turn, PostgreSQL", 1500, ".0f", " us", on_server)


def main() -> None:
    """Measure, and print."""
    with tempfile.TemporaryDirectory() as folder:
        loads = _measure_servers(Path(folder))
    with tempfile.TemporaryDirectory() as folder:
        musts = [*_load_musts(loads), *_part_musts(), *_start_musts(Path(folder))]
    lines = [*load_table(loads, loads[_BARE]), "", *must_table(musts)]
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
