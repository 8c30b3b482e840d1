"""A network that breaks: connections lead to a server, and each is cut after so many bytes."""

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager, suppress


@asynccontextmanager
async def cut(port: int, after: Iterator[int]) -> AsyncGenerator[int]:
    """Serve on a port that leads to another one of this machine.

    Of the n-th connection, as many bytes come back as the n-th number says; the last number holds
    for all further ones.
    """
    last = 0

    async def connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal last
        last = next(after, last)
        come, go = await asyncio.open_connection("127.0.0.1", port)
        with suppress(ConnectionError):
            async with asyncio.TaskGroup() as group:
                sending = group.create_task(_pass(reader, go, 1_000_000))
                await _pass(come, writer, last)
                sending.cancel()
        go.close()
        writer.transport.abort()

    server = await asyncio.start_server(connect, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, limit: int) -> None:
    while limit > 0 and (data := await reader.read(min(limit, 65_536))):
        limit -= len(data)
        writer.write(data)
        await writer.drain()
