"""What a turn keeps when it is stopped, and what it makes of a tool that is broken."""

import asyncio
from collections.abc import AsyncGenerator
from typing import cast

import pytest
from desk import open_desk
from turns import ANN, events, read, told, wall_clock

from app.demo.toy import managers
from app.engine import TurnEngine
from app.entries import NewEntry
from app.loop import Budget, Loop
from app.runs import RunHost
from app.settings import Settings
from app.store import Store
from providers.base import BaseLLMProvider
from providers.scripted import Script, call, say, wait
from schema.errors import ToolFailed
from schema.events import Ask, Failed, Json, JsonObject, Message, ToolCall, ToolResult
from schema.query import Reader
from schema.tools import Tool, ToolContext, ToolRegistry, data_tools


@pytest.fixture
async def reader(toy_url: str) -> AsyncGenerator[Reader]:
    async with Reader(managers, database_url=toy_url) as reader:
        yield reader


@pytest.mark.covers("P36")
async def test_a_turn_that_is_interrupted_keeps_what_it_has_said(
    toy_url: str, reader: Reader
) -> None:
    begun, never = asyncio.Event(), asyncio.Event()

    def begin() -> BaseLLMProvider:
        begun.set()
        return Script([say("There are "), say("three"), wait(never)])()

    async with Store.open(toy_url) as store:
        async with RunHost(store, grace_s=0.1) as host:
            engine = TurnEngine(
                settings=Settings.model_construct(),
                reader=reader,
                tools=ToolRegistry(data_tools()),
                provider=begin,
                now=wall_clock,
            )
            run = await host.start(Ask(text="How many?"), ANN, engine.turn)
            async with asyncio.timeout(5):
                await begun.wait()
            host.drain()
            *_, last = events(await read(host, run))
        assert isinstance(last, Failed)
        assert last.code == "interrupted"
        async with RunHost(store) as host:
            page = await host.entries(run.conversation_id, ANN)
    assert told(page.items) == [
        (1, "user", "How many?"),
        (2, "assistant", "There are three"),
        (3, "error", last.message),
    ]


@pytest.mark.covers("P31")
async def test_a_tool_that_returns_no_json_has_failed_and_the_model_goes_on(toy_url: str) -> None:
    async def answer(args: JsonObject, context: ToolContext) -> Json:
        return cast("Json", {"when": object()})  # what untyped code may return

    broken = Tool("broken", "Breaks.", (), answer)
    model = Script(call("broken"), say("Sorry."))
    async with open_desk(managers, toy_url) as desk:
        deadline = asyncio.get_running_loop().time() + 5
        loop = Loop(model(), ToolRegistry([broken]), desk.context, Budget(3, 3, deadline))
        items = [item async for item in loop.run([Message("user", "Hi")])]
    kinds = [item.kind if isinstance(item, NewEntry) else item.type for item in items]
    assert [kind for kind in kinds if kind != "usage"] == [
        *("tool_call", "tool_result", "action"),
        *("text_chunk", "assistant", "done"),
    ]
    asked = next(item for item in items if isinstance(item, ToolCall))
    failed = next(item for item in items if isinstance(item, ToolResult))
    assert (failed.id, isinstance(failed.result, dict)) == (asked.id, True)
    assert model.requests[1].tool_result("broken") == failed.result
    assert ToolFailed.code in str(failed.result)
