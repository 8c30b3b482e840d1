"""A chat over each transport, on the manufacturing demo."""

from collections.abc import AsyncGenerator

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
