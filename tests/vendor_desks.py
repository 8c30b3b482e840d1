"""Desks of the toys at which vendors' models answer: each is started once, for many tests.

    async with AsyncExitStack() as stack:
        desks = Desks(url, stack)
        async with desks.at("gemini", "sse") as desk:
            events = await desk.ask('T"ok" F(stop)')
            assert lines(events) == ["text ok", "done 0, 0"]
            assert sent(desk.vendor.requests[0].body) == ["system", "user"]

The scripts are those of ``completions``.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from models import KEY, OK
from transports import Chat, Transport, Visitor, merged, open_chat, rows
from vendors import FakeVendor, Wire

from app.demo.toy import managers
from schema.events import (
    Done,
    Event,
    Failed,
    Json,
    JsonObject,
    TextChunk,
    ToolCall,
    ToolResult,
    is_object,
)

S = TypeVar("S")
T = TypeVar("T")

TIMER_S = 1.5
"""How long a vendor may be silent."""
CONFIG: dict[str, Json] = {
    "api_key": KEY,
    "timeout_seconds": TIMER_S,
    "stream_timeout_seconds": TIMER_S,
    "max_retries": 1,
}


async def at_once(items: Iterable[S], act: Callable[[S], Coroutine[None, None, T]]) -> list[T]:
    """Do the same with all of them at once."""
    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        acting = [group.create_task(act(item)) for item in items]
    return [task.result() for task in acting]


@asynccontextmanager
async def open_at(
    vendor: FakeVendor, transport: Transport, url: str, **config: Json
) -> AsyncGenerator[Chat]:
    """Open a chat of the toys whose model is a vendor's."""
    settings: dict[str, object] = {
        "provider": "auto",
        "model": vendor.model,
        "provider_config": {"base_url": vendor.base_url, **CONFIG, **config},
        "system_prompt": "You are a toy.",
        "log_level": "debug",
    }
    async with open_chat(transport, managers, url, **settings) as chat:
        yield chat


@dataclass
class Desk:
    """What one test has of a chat; the first of its visitors asks unless it says how many do."""

    vendor: FakeVendor
    new_visitor: Callable[[], Visitor]
    visitors: list[Visitor]

    async def ask(self, *scripts: str) -> list[Event]:
        """Ask for an answer that these scripts play."""
        [events] = await self.ask_at_once(1, *scripts)
        return events

    async def ask_at_once(self, number: int, *scripts: str) -> list[list[Event]]:
        """Let so many visitors ask at once; each asks something else."""
        self.vendor.will(*scripts)
        self.visitors += [self.new_visitor() for _ in range(number - len(self.visitors))]
        asking = enumerate(self.visitors)
        return await at_once(asking, lambda item: item[1].ask(f"Question {item[0]}?"))


@dataclass
class Desks:
    """One chat for each wire and transport, opened when a test first asks for it."""

    url: str
    stack: AsyncExitStack
    opened: dict[tuple[Wire, Transport], tuple[FakeVendor, Chat]] = field(
        default_factory=dict[tuple[Wire, Transport], tuple[FakeVendor, Chat]]
    )

    @asynccontextmanager
    async def at(self, wire: Wire, transport: Transport) -> AsyncGenerator[Desk]:
        """Have a desk that nobody has used; whatever happens there, its conversations go on."""
        if (wire, transport) not in self.opened:
            vendor = await self.stack.enter_async_context(FakeVendor(wire))
            chat = await self.stack.enter_async_context(open_at(vendor, transport, self.url))
            self.opened[wire, transport] = vendor, chat
            vendor.will(OK)
            await chat.ask("hi")  # the first time is slow: LiteLLM loads what a vendor needs
        vendor, chat = self.opened[wire, transport]
        vendor.forget()
        vendor.requests.clear()
        vendor.faults.clear()
        desk = Desk(vendor, chat.new_visitor, [chat.new_visitor()])
        yield desk
        assert vendor.left == 0
        for visitor in desk.visitors:
            vendor.will(OK)
            assert lines(await visitor.ask("hi")) == ["text ok", "done 0, 0"]
        assert vendor.faults == []
        assert KEY not in str([(request.path, request.body) for request in vendor.requests])


def lines(events: Iterable[Event]) -> list[str]:
    """Say each event in a line; calls have numbers for their ids, which are the server's choice."""
    numbers: dict[str, int] = {}
    said: list[str] = []
    for event in merged(events):
        match event:
            case TextChunk():
                said.append(f"text {event.content}")
            case ToolCall():
                assert event.id not in numbers
                numbers[event.id] = len(numbers) + 1
                said.append(f"call {numbers[event.id]} {event.name}")
            case ToolResult():
                said.append(f"result {numbers[event.id]} {_outcome(event.result)}")
            case Done(usage=usage):
                said.append(f"done {usage.input_tokens}, {usage.output_tokens}")
            case Failed():
                said.append(f"error {event.code}")
            case _:
                said.append(event.type)
    return said


def _outcome(result: Json) -> str:
    """Say a result in short: the names that were found, or why there are none."""
    assert is_object(result)
    if "data" in result:
        return ", ".join(str(row["name"]) for row in rows(result))
    return str(result["code"])


_KINDS: dict[str, str] = {
    "tool_use": "call",
    "tool_result": "result",
    "function_call": "call",
    "function_response": "result",
}


def sent(body: JsonObject) -> list[str]:
    """Name in order what a request tells a model, whatever the wire."""
    said = ["system"] if {"system", "system_instruction"} & {*body} else []
    for message in _objects(body.get("messages", body.get("contents"))):
        role = {"model": "assistant", "tool": "result"}.get(str(message["role"]))
        content = message.get("content") or message.get("parts")
        text: list[JsonObject] = [{"text": content}] if isinstance(content, str) else []
        for part in text or _objects(content):
            kinds = {str(part.get("type")), *part} & {*_KINDS}
            plain = role or str(message["role"]) if str(part.get("text")).strip() else "blank"
            said += [_KINDS[kind] for kind in kinds] or [plain]
        said += ["call"] * len(_objects(message.get("tool_calls")))
    return said


def _objects(value: Json) -> list[JsonObject]:
    return [item for item in value if is_object(item)] if isinstance(value, list) else []
