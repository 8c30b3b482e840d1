"""A chat over each transport, on the manufacturing demo."""

import shutil
from collections.abc import AsyncGenerator
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
def flights_copy(flights_url: str, tmp_path: Path) -> str:
    """The flights with a chat database of the test's own beside them."""
    path = flights_url.removeprefix("sqlite+aiosqlite:///")
    return f"sqlite+aiosqlite:///{shutil.copy(path, tmp_path / 'flights.db')}"
