"""The servers that the benchmark loads: ours with a model that answers at once, and a bare stream.

uvicorn --app-dir tests/bench --factory servers:ours
"""

from collections.abc import AsyncGenerator

from fastapi import FastAPI
from sqlalchemy import MetaData, insert
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.orm import registry
from sqlmodel import Field, Relationship, SQLModel
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from app.main import create_app
from app.settings import Settings
from providers.base import (
    ChatEvent,
    DoneEvent,
    Message,
    TextChunkEvent,
    TokenUsage,
    ToolCallEvent,
    ToolDefinition,
)
from schema import Managers

CHUNKS = 20
ROWS = 20
QUERY: ToolCallEvent = ToolCallEvent(
    "c1", "query", {"manager": "Part", "fields": ["id", "name", "price", {"supplier": ["name"]}]}
)


class _Table(SQLModel, registry=registry(metadata=MetaData())):
    """Base with its own metadata."""


class Supplier(_Table, table=True):
    """Who delivers."""

    id: int = Field(primary_key=True)
    name: str
    parts: list["Part"] = Relationship(back_populates="supplier")


class Part(_Table, table=True):
    """What is delivered."""

    id: int = Field(primary_key=True)
    name: str
    price: float
    supplier_id: int = Field(foreign_key="supplier.id")
    supplier: Supplier = Relationship(back_populates="parts")


async def _prepare(connection: AsyncConnection) -> None:
    await connection.run_sync(_Table.metadata.create_all)
    await connection.execute(
        insert(Supplier), [{"id": n, "name": f"Supplier {n}"} for n in range(1, 5)]
    )
    await connection.execute(
        insert(Part),
        [
            {"id": n, "name": f"Part {n}", "price": n / 4, "supplier_id": n % 4 + 1}
            for n in range(1, ROWS + 1)
        ],
    )


class AtOnce:
    """A model without latency: one query, then an answer in many chunks."""

    async def complete(
        self, messages: list[Message], tools: list[ToolDefinition]
    ) -> AsyncGenerator[ChatEvent]:
        """Query first; answer when the result is there."""
        if messages[-1].role == "tool":
            for n in range(CHUNKS):
                yield TextChunkEvent(f"word {n} ")
        else:
            yield QUERY
        yield DoneEvent(TokenUsage(100, 20))


def bench_managers() -> Managers:
    """Expose the two tables."""
    managers = Managers(prepare=_prepare)
    managers.expose(Part)
    managers.expose(Supplier)
    return managers


def bare() -> Starlette:
    """Stream the same number of frames of the same size, and do nothing else."""
    result = '{"type":"tool_result","result":"' + "x" * 1500 + '"}'
    frames = [b'id: r:1\ndata: {"type":"tool_call"}\n\n', f"id: r:2\ndata: {result}\n\n".encode()]
    frames += [
        f'id: r:{n}\ndata: {{"type":"text_chunk","content":"word {n} "}}\n\n'.encode()
        for n in range(CHUNKS)
    ]
    frames.append(b'id: r:23\ndata: {"type":"done","usage":{"input_tokens":200}}\n\n')

    async def body() -> AsyncGenerator[bytes]:
        for frame in frames:
            yield frame

    async def stream(request: Request) -> StreamingResponse:
        await request.body()
        return StreamingResponse(body(), media_type="text/event-stream")

    async def ready(_: Request) -> Response:
        return Response()

    return Starlette(
        routes=[
            Route("/chat/stream/", stream, methods=["POST"]),
            Route("/health/ready", ready),
        ]
    )


def ours() -> FastAPI:
    """Serve the two tables; all files are those of the working directory."""
    return create_app(bench_managers(), Settings(provider=AtOnce, session_secret="b" * 32))
