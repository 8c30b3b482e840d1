"""The provider port, with the seed's names.

A provider turns messages and tool definitions into one completion: text chunks and tool calls as
they come, then exactly one ``DoneEvent``. A seed-style custom provider runs unchanged.
Source: seed, provider protocol; design.md 7.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextvars import ContextVar
from decimal import Decimal
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
from schema.waiting import wait_until

TokenUsage = Usage

_MOST_TOKENS = 2**53
"""Beyond it a count is no number of tokens, and no JSON client could read it."""

_MOST_USD = 10**12
"""Beyond it a cost is none of one completion."""

_NO_DEADLINE_S = 300.0

_DEADLINE: ContextVar[float | None] = ContextVar("_DEADLINE", default=None)

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
    "turn_deadline",
]


def turn_deadline() -> float:
    """The moment of the event loop's clock at which the completion under way has to be over.

    For a caller that sets none, that is in five minutes.
    """
    return _DEADLINE.get() or asyncio.get_running_loop().time() + _NO_DEADLINE_S


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
    provider's stream is closed whenever this one is, and the lists it gets are its own.
    Raises: ProviderFailed when the stream breaks the port's rules.
    """
    _DEADLINE.set(deadline)
    stream = aiter(provider.complete([*messages], [*tools]))
    loop, is_done = asyncio.get_running_loop(), False
    try:
        while True:
            if loop.time() > deadline:
                raise TimeoutError  # a stream that never waits is never interrupted either
            try:
                event = _checked(await wait_until(deadline, anext(stream)))
            except StopAsyncIteration:
                break
            if is_done:
                raise ProviderFailed from ValueError("The stream went on after its DoneEvent.")
            is_done = isinstance(event, DoneEvent)
            yield event
    finally:
        if isinstance(stream, AsyncGenerator):
            await stream.aclose()
    if not is_done:
        raise ProviderFailed from ValueError("The stream ended without a DoneEvent.")


def _checked(event: object) -> ChatEvent:
    """Let through what the port allows: provider code is not ours, and types don't hold it."""
    match event:
        case TextChunkEvent(content=str()) | ToolCallEvent(name=str()):
            return event
        case DoneEvent(usage=usage):
            return DoneEvent(_counted(usage))
        case _:
            raise ProviderFailed from TypeError(f"The stream has a bad {type(event).__name__}.")


def _counted(usage: object) -> Usage:
    """Check a usage, which may be left out; what is no count or no cost is no sound stream."""
    match usage:
        case None:
            return Usage()
        case Usage(input_tokens=int(sent), output_tokens=int(received), cost_usd=cost) if (
            0 <= sent < _MOST_TOKENS and 0 <= received < _MOST_TOKENS and _is_cost(cost)
        ):
            return usage
        case _:
            raise ProviderFailed from TypeError("The DoneEvent has a bad usage.")


def _is_cost(value: object) -> bool:
    if not isinstance(value, Decimal):
        return value is None
    return value.is_finite() and 0 <= value < _MOST_USD
