"""A chat over each transport, on the manufacturing demo."""

import asyncio
import logging
import shutil
from collections.abc import AsyncGenerator, Callable
from pathlib import Path

import pytest
from transports import TRANSPORTS, Chat, Transport, open_chat

from app.demo.manufacturing import managers


@pytest.fixture(params=TRANSPORTS)
def transport(request: pytest.FixtureRequest) -> Transport:
    """Run the test once per transport."""
    return request.param


@pytest.fixture
async def chat(transport: Transport, manufacturing_url: str) -> AsyncGenerator[Chat]:
    """A chat whose model plays what the test writes."""
    async with open_chat(transport, managers, manufacturing_url) as chat:
        yield chat


@pytest.fixture
def hear(caplog: pytest.LogCaptureFixture) -> Callable[[str], asyncio.Event]:
    """Give an event that is set when the log says something."""
    caplog.set_level("INFO")

    def listen(words: str) -> asyncio.Event:
        heard = asyncio.Event()

        def look(record: logging.LogRecord) -> bool:
            if words in record.getMessage():
                heard.set()
            return True

        caplog.handler.addFilter(look)
        return heard

    return listen


@pytest.fixture
def flights_copy(flights_url: str, tmp_path: Path) -> str:
    """The flights with a chat database of the test's own beside them."""
    path = flights_url.removeprefix("sqlite+aiosqlite:///")
    return f"sqlite+aiosqlite:///{shutil.copy(path, tmp_path / 'flights.db')}"
