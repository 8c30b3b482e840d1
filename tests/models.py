"""Fake vendors with the provider that asks them, and what a completion of theirs is."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, asynccontextmanager
from datetime import UTC, datetime

import pytest
from vendors import WIRES, FakeVendor, Wire, can_say

from providers import LiteLLMProvider
from providers.base import BaseLLMProvider, complete_round
from schema.errors import ChatError
from schema.events import ChatEvent, DoneEvent, Json, Message, TextChunkEvent, ToolCallEvent
from schema.tools import ToolRegistry, data_tools

KEY = "SENTINEL-KEY-1"
LITELLM_WARNINGS = [
    pytest.mark.filterwarnings("ignore:.*ReadOnly.*qualifier:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*Accessing the.*attribute on the instance is deprecated"),
    pytest.mark.filterwarnings("ignore:coroutine '.*' was never awaited:RuntimeWarning"),
]
TOOLS = ToolRegistry(data_tools()).definitions[::-1]
OK = 'T"ok" F(stop)'
HI = [Message("system", "You are a desk."), Message("user", "hi")]

wires = pytest.mark.parametrize("wire", WIRES)


def on_wires(*rows: tuple[object, ...]) -> list[tuple[object, ...]]:
    """Put before each row, which begins with a script, every wire that can say it."""
    found = [(wire, *row) for row in rows for wire in WIRES if can_say(wire, str(row[0]))]
    assert {row[1] for row in found} == {row[0] for row in rows}
    return found


@asynccontextmanager
async def model(
    wire: Wire, *scripts: str, waits: list[float] | None = None, **config: str | float
) -> AsyncGenerator[tuple[FakeVendor, LiteLLMProvider]]:
    """A vendor with its scripts, and a provider of it that notes its waits instead of waiting."""
    noted: list[float] = [] if waits is None else waits

    async def sleep(seconds: float) -> None:
        noted.append(seconds)

    async with FakeVendor(wire) as vendor:
        vendor.will(*scripts)
        given = {"model": vendor.model, "base_url": vendor.base_url, "api_key": KEY, **config}
        provider = LiteLLMProvider(given, sleep=sleep, now=lambda: datetime.now(UTC))
        async with provider.opened():
            yield vendor, provider
        assert vendor.faults == []


async def warm(wire: Wire) -> None:
    """Let LiteLLM load what it has for a wire: on a busy machine that outlasts a short timer."""
    async with model(wire, OK) as (_, provider):
        await events_of(provider)


async def events_of(
    provider: BaseLLMProvider, messages: Sequence[Message] = HI, *, seconds: float = 20
) -> list[ChatEvent | Exception]:
    """Play one completion; an error is the last of its events."""
    events: list[ChatEvent | Exception] = []
    deadline = asyncio.get_running_loop().time() + seconds
    try:
        async with aclosing(complete_round(provider, [*messages], TOOLS, deadline)) as stream:
            async for event in stream:
                events.append(event)
    except (ChatError, TimeoutError) as error:
        events.append(error)
    return events


def text(events: Sequence[ChatEvent | Exception]) -> str:
    return "".join(event.content for event in events if isinstance(event, TextChunkEvent))


def calls(events: Sequence[ChatEvent | Exception]) -> list[tuple[str, Json]]:
    return [(event.name, event.args) for event in events if isinstance(event, ToolCallEvent)]


def tokens(event: ChatEvent | Exception) -> tuple[int, int]:
    assert isinstance(event, DoneEvent), event
    return event.usage.input_tokens, event.usage.output_tokens
