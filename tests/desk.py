"""A desk for the offline provider: the real tools over a real database, and the loop of a turn."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import orjson

from providers.offline import OfflineProvider
from schema import Managers, ToolContext
from schema.errors import ToolError
from schema.events import (
    Actor,
    ChatEvent,
    DoneEvent,
    Json,
    JsonObject,
    Message,
    TextChunkEvent,
    ToolCallEvent,
    ToolDefinition,
)
from schema.query import Reader
from schema.tools import ToolRegistry, data_tools

VISITOR = Actor("session", "visitor")
TOOLS = ToolRegistry(data_tools())


@dataclass(frozen=True, slots=True)
class Asked:
    """One answered question: the text, its chunks, and the calls of each completion."""

    answer: str
    chunks: list[str]
    rounds: list[list[ToolCallEvent]]
    messages: list[Message]

    @property
    def calls(self) -> list[ToolCallEvent]:
        return [call for calls in self.rounds for call in calls]

    @property
    def queries(self) -> list[JsonObject]:
        return [call.args for call in self.calls if call.name == "query"]

    @property
    def headline(self) -> str:
        return self.answer.splitlines()[0]

    @property
    def rows(self) -> list[str]:
        """What the listed rows are known by."""
        lines = self.answer.splitlines()
        return [line[2:].split(": ")[0] for line in lines if line.startswith("- ")]


@dataclass(slots=True)
class Desk:
    """Answers questions as a turn does: completions and tool calls until there is a text."""

    context: ToolContext

    async def ask(
        self,
        question: str,
        *,
        reads: int = 8,
        without: str = "",
        earlier: Sequence[tuple[str, str]] = (),
        before: Sequence[Message] = (),
    ) -> Asked:
        """Ask; after ``reads`` calls no tools are offered, and ``without`` never is.

        ``earlier`` are the questions before, each with its answer; ``before`` are whole turns.
        """
        messages = [Message("system", "Answer from the data."), *before]
        for said, answer in earlier:
            messages += [Message("user", said), Message("assistant", answer)]
        messages.append(Message("user", question))
        rounds: list[list[ToolCallEvent]] = []
        for _ in range(10):
            offered = [d for d in TOOLS.definitions if d.name != without]
            events = await collect(messages, offered if sum(map(len, rounds)) < reads else [])
            calls = [event for event in events if isinstance(event, ToolCallEvent)]
            chunks = [event.content for event in events if isinstance(event, TextChunkEvent)]
            assert events[-1] == DoneEvent()
            assert bool(calls) != bool(chunks)
            if chunks:
                return Asked("".join(chunks), chunks, rounds, messages)
            rounds.append(calls)
            messages.append(Message("assistant", "", tuple(calls)))
            for call in calls:
                result = orjson.dumps(await self.run(call)).decode()
                messages.append(Message("tool", result, (), call.id, call.name))
        raise AssertionError(f"no answer to {question!r} after {rounds}")

    async def run(self, call: ToolCallEvent) -> Json:
        try:
            return await TOOLS.call(call.name, call.args, self.context)
        except ToolError as error:
            return {"status": "error", "code": error.code, "message": str(error)}


async def collect(messages: list[Message], tools: list[ToolDefinition]) -> list[ChatEvent]:
    return [event async for event in OfflineProvider().complete(messages, tools)]


@asynccontextmanager
async def open_desk(managers: Managers, url: str) -> AsyncGenerator[Desk]:
    """Open a database of a demo for questions of an anonymous visitor."""
    async with Reader(managers, database_url=url) as reader:
        yield Desk(ToolContext(VISITOR, await reader.view(VISITOR), reader))
