"""The embedded default: a deterministic provider that needs no key, no model and no network.

It knows nothing but the messages and tools it is given, and learns the schema by calling tools like
any model. It goes through four stages at each completion, from the messages alone:

    parse    question → intent and pieces
    resolve  pieces + facts → filters, or several ways to read them
    plan     → the next tool calls, or an outcome
    word     outcome → answer

Text in rows is shown, never read: only the question and the schema decide what is asked for.
Source: design.md 8.
"""

import re
from collections.abc import AsyncIterator
from dataclasses import replace

from providers.base import (
    ChatEvent,
    DoneEvent,
    Message,
    TextChunkEvent,
    ToolCallEvent,
    ToolDefinition,
)
from providers.offline.facts import earlier_question, read_turn
from providers.offline.parse import parse
from providers.offline.plan import plan
from providers.offline.word import word

__all__ = ["OfflineProvider"]

_CHUNK = re.compile(r"\S+\s*|\s+")
_CHUNK_CHARS = 24


class OfflineProvider:
    """Answers simple English questions about the exposed data. Holds no state."""

    async def complete(
        self, messages: list[Message], tools: list[ToolDefinition]
    ) -> AsyncIterator[ChatEvent]:
        """Ask for the next look-ups, or answer; the same messages always give the same events."""
        text, facts = read_turn(messages)
        question = replace(parse(text), earlier=earlier_question(messages))
        step = plan(question, facts, frozenset(tool.name for tool in tools))
        for number, call in enumerate(step.calls, start=facts.calls + 1):
            yield ToolCallEvent(f"call_{number}", call.name, call.args)
        if step.outcome:
            for chunk in _chunks(word(step.outcome, facts)):
                yield TextChunkEvent(chunk)
        yield DoneEvent()


def _chunks(text: str) -> list[str]:
    """Cut an answer at word ends, so that it is seen to arrive."""
    chunks = [""]
    for part in _CHUNK.findall(text):
        if len(chunks[-1]) >= _CHUNK_CHARS:
            chunks.append("")
        chunks[-1] += part
    return chunks
