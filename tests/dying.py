"""A server in a process of its own that is made to be killed, and started again at once.

Its processes are forked from one that has imported everything already.
"""

import asyncio
import multiprocessing
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import sqlalchemy as sa
import uvicorn
from pydantic import TypeAdapter
from sqlalchemy.ext.asyncio import AsyncConnection

from app.demo import toy
from app.main import create_app
from app.settings import Settings
from providers.base import (
    ChatEvent,
    DoneEvent,
    Message,
    TextChunkEvent,
    ToolCallEvent,
    ToolDefinition,
)
from schema import Managers
from schema.events import JsonObject

_MESSAGES = TypeAdapter(list[Message])
_LINKED = 24
_PAUSE_S = 0.012
_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["__main__", "app.main", "app.demo.toy"])


async def _prepare(connection: AsyncConnection) -> None:
    """Link many parts and projects, each with each, so that a query along the links takes time."""
    await toy.prepare(connection)
    ids = range(10, 10 + _LINKED)
    parts = [{"id": id, "name": f"Part {id}", "material_id": 1} for id in ids]
    projects = [{"id": id, "name": f"Project {id}"} for id in ids]
    links = [{"project_id": a, "part_id": b} for a in ids for b in ids]
    await connection.execute(sa.insert(toy.PartManager), parts)
    await connection.execute(sa.insert(toy.ProjectManager), projects)
    await connection.execute(sa.insert(toy.ProjectPartLink), links)


def _managers() -> Managers:
    managers = Managers(prepare=_prepare)
    managers.expose(toy.PartManager)
    managers.expose(toy.ProjectManager)
    return managers


def _query(hops: int) -> ToolCallEvent:
    path = "parts__" + hops * "projects__parts__" + "name__icontains"
    args: JsonObject = {"manager": "ProjectManager", "fields": ["name"], "filters": {path: "zzz"}}
    return ToolCallEvent("q", "query", args)


SLOW, ENDLESS = _query(1), _query(2)
"""Calls that take about a tenth of a second, and many seconds."""


class Model:
    """Says "ok" to "hi"; else talks, makes two calls, and talks. It writes down what it is told."""

    def __init__(self, log: Path) -> None:
        self._log = log

    async def complete(
        self, messages: list[Message], tools: list[ToolDefinition]
    ) -> AsyncGenerator[ChatEvent]:
        with self._log.open("ab") as log:
            log.write(_MESSAGES.dump_json(messages) + b"\n")
        if messages[-1].content == "hi":
            yield TextChunkEvent("ok")
        else:
            for number in range(6):
                await asyncio.sleep(_PAUSE_S)
                yield TextChunkEvent(f"word {number} ")
        if messages[-1].role == "user" and messages[-1].content != "hi":
            yield ENDLESS if messages[-1].content == "endless" else SLOW
            yield ToolCallEvent("s", "search_managers", {"query": "parts"})
        yield DoneEvent()


def _serve(folder: Path, url: str, ready: "Connection[int, int]") -> None:
    settings = Settings.model_validate(
        {
            "provider": partial(Model, folder / "told.jsonl"),
            "database_url": url,
            "session_secret": "s" * 32,
            "log_level": "warning",
        }
    )
    config = uvicorn.Config(create_app(_managers(), settings), port=0, log_config=None)
    _Server(config, ready).run()


class _Server(uvicorn.Server):
    """A server that tells its port when it listens."""

    def __init__(self, config: uvicorn.Config, ready: "Connection[int, int]") -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready.send(self.servers[0].sockets[0].getsockname()[1])


def told_last(folder: Path) -> list[Message]:
    """Read what the model was told for its latest completion."""
    return _MESSAGES.validate_json((folder / "told.jsonl").read_bytes().splitlines()[-1])


@dataclass(frozen=True, slots=True)
class Mortal:
    """A running server."""

    process: ForkServerProcess
    url: str

    def kill(self) -> None:
        """Let it end at once, without knowing."""
        self.process.kill()

    async def wait(self) -> None:
        """Wait until it is gone."""
        await asyncio.to_thread(self.process.join)


@asynccontextmanager
async def living(folder: Path, url: str) -> AsyncGenerator[Mortal]:
    """Run a server on a chat database until the block ends; then it is killed.

    What its model is told is written down in the folder.
    """
    ours, theirs = _FORKS.Pipe(duplex=False)
    server = Mortal(_FORKS.Process(target=_serve, args=(folder, url, theirs)), "")
    server.process.start()
    try:
        assert await asyncio.to_thread(ours.poll, 40)
        yield replace(server, url=f"http://127.0.0.1:{ours.recv()}")
    finally:
        server.kill()
        await server.wait()
        for end in (ours, theirs, server.process):
            end.close()
