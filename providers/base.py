"""The provider port, with the seed's names.

A provider turns messages and tool definitions into one completion: text chunks and tool calls as
they come, then exactly one ``DoneEvent``. A seed-style custom provider runs unchanged.
Source: seed, provider protocol; design.md 7.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Protocol, runtime_checkable

from schema.errors import ProviderFailed
from schema.events import (
    ChatEvent,
    DoneEvent,
    Message,
    TextChunkEvent,
    ToolCallEvent,
    ToolDefinition,
    Usage,
)

TokenUsage = Usage

__all__ = [
    "BaseLLMProvider",
    "ChatEvent",
    "DoneEvent",
    "Message",
    "TextChunkEvent",
    "TokenUsage",
    "ToolCallEvent",
    "ToolDefinition",
    "complete_round",
]


@runtime_checkable
class BaseLLMProvider(Protocol):
    """One model behind one method. Instances are made without arguments, one per run."""

    def complete(
        self, messages: list[Message], tools: list[ToolDefinition]
    ) -> AsyncIterator[ChatEvent]:
        """Stream one completion; the last event, and only the last, is ``DoneEvent``."""
        ...


async def complete_round(
    provider: BaseLLMProvider,
    messages: list[Message],
    tools: list[ToolDefinition],
    deadline: float,
) -> AsyncGenerator[ChatEvent]:
    """Play one completion strictly: ``DoneEvent`` ends it once, and nothing comes after it.

    ``deadline`` is a moment of the event loop's clock; waiting beyond it raises TimeoutError. The
    provider's stream is closed whenever this one is.
    Raises: ProviderFailed when the stream breaks the port's rules.
    """
    stream = provider.complete(messages, tools)
    is_done = False
    try:
        while True:
            try:
                async with asyncio.timeout_at(deadline):
                    event = await anext(stream)
            except StopAsyncIteration:
                break
            if is_done:
                raise ProviderFailed
            is_done = isinstance(event, DoneEvent)
            yield event
    finally:
        if isinstance(stream, AsyncGenerator):
            await stream.aclose()
    if not is_done:
        raise ProviderFailed
