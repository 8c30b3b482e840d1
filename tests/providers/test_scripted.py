"""The scripted provider plays what it is given and remembers what it was asked."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from providers.base import (
    BaseLLMProvider,
    ChatEvent,
    DoneEvent,
    Message,
    TextChunkEvent,
    ToolCallEvent,
    ToolDefinition,
)
from providers.scripted import (
    Request,
    Script,
    ScriptEnded,
    Step,
    call,
    cut,
    emit,
    fail,
    say,
    spend,
    wait,
)
from schema.events import Usage

ASKED = [Message("user", "Which parts?")]
TOOLS = [ToolDefinition("query", "", {})]


async def play(script: Script) -> list[ChatEvent]:
    return [event async for event in script().complete(ASKED, TOOLS)]


async def test_steps_become_events_and_done_ends_them() -> None:
    script = Script(
        [say("Let me ", "see."), call("query", manager="Part", limit=3), spend(10, 4)],
        say("Three."),
    )
    assert await play(script) == [
        TextChunkEvent("Let me "),
        TextChunkEvent("see."),
        ToolCallEvent("call_2", "query", {"manager": "Part", "limit": 3}),
        DoneEvent(Usage(10, 4)),
    ]
    assert await play(script) == [TextChunkEvent("Three."), DoneEvent()]
    assert script.left == 0


async def test_arguments_may_be_called_name_or_id_and_the_call_id_may_be_given() -> None:
    [event, _] = await play(Script(call("mutate", call_id="x1", name="Nut", id=3)))
    assert event == ToolCallEvent("x1", "mutate", {"name": "Nut", "id": 3})


async def test_requests_are_recorded_with_messages_and_tools() -> None:
    script = Script(say("."))
    await play(script)
    assert script.requests == [Request(tuple(ASKED), tuple(TOOLS))]
    assert script.requests[0].tool_names == ("query",)
    with pytest.raises(LookupError, match="No result of query"):
        script.requests[0].tool_result("query")
    answered = Request((Message("tool", '{"total_count": 3}', (), "1", "query"),), ())
    assert answered.tool_result("query") == {"total_count": 3}


async def test_running_past_the_script_says_how_far_it_went() -> None:
    script = Script(say("one"))
    await play(script)
    with pytest.raises(ScriptEnded, match=r"has 1 completion, but completion 2 was asked for"):
        await play(script)
    script.will(say("late"))
    with pytest.raises(ScriptEnded, match=r"has 2 completions, but completion 3 was asked for"):
        await play(script)


async def test_a_script_grows_and_repeats() -> None:
    script = Script(say("a"), repeat=True)
    script.will(say("b"))
    texts = [(await play(script))[0] for _ in range(5)]
    assert texts == [TextChunkEvent(c) for c in "ababa"]
    with pytest.raises(ScriptEnded):
        await play(Script(repeat=True))


async def test_a_completion_can_depend_on_the_request() -> None:
    def echo(request: Request) -> Step:
        return say(request.messages[-1].content)

    assert await play(Script(echo)) == [TextChunkEvent("Which parts?"), DoneEvent()]


async def test_failures_cuts_and_odd_events_come_where_they_stand() -> None:
    with pytest.raises(TimeoutError):
        await play(Script([say("a"), fail(TimeoutError())]))
    assert await play(Script([say("a"), cut()])) == [TextChunkEvent("a")]
    twice = Script(emit(DoneEvent()))
    assert await play(twice) == [DoneEvent(), DoneEvent()]


async def test_a_gate_holds_the_stream_until_it_opens() -> None:
    gate = asyncio.Event()
    stream = Script([say("a"), wait(gate), say("b")])().complete(ASKED, TOOLS)
    assert await anext(stream) == TextChunkEvent("a")
    async with asyncio.timeout(5), asyncio.TaskGroup() as tasks:
        rest = tasks.create_task(collect_rest(stream))
        tasks.create_task(open_gate(gate, rest))
    assert rest.result() == [TextChunkEvent("b"), DoneEvent()]


async def collect_rest(stream: AsyncIterator[ChatEvent]) -> list[ChatEvent]:
    return [event async for event in stream]


async def open_gate(gate: asyncio.Event, waiting: asyncio.Task[list[ChatEvent]]) -> None:
    assert not waiting.done()
    gate.set()


def test_a_script_is_a_factory_of_providers() -> None:
    script = Script()
    assert isinstance(script(), BaseLLMProvider)
    assert script() is not script()
