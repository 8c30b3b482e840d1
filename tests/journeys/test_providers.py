"""Providers are not our code: whatever one does, a turn ends in order and nobody else notices."""

from collections.abc import AsyncIterator
from decimal import Decimal
from typing import cast

import pytest
from transports import Chat, Transport, answer, kinds, open_chat, results, rows

from app.demo.manufacturing import managers
from providers.base import ChatEvent, DoneEvent, Message, TextChunkEvent, ToolCallEvent
from providers.scripted import call, emit, say
from schema.events import Done, Failed, Json, JsonObject, ToolCall, ToolDefinition, Usage
from schema.tools import data_tools

NO_TEXT = cast("str", 5)  # untyped provider code may hand over this and all that follows
NO_EVENT = cast("ChatEvent", {"type": "text_chunk", "content": "hi"})  # a dict of that shape
NO_OBJECT = cast("JsonObject", '{"manager": "Part"}')  # arguments that were not decoded
NO_JSON = cast("Json", {1: 2})  # a key that is no text
NO_USAGE = cast("Usage", None)  # a vendor that does not tell

UNSOUND: list[ChatEvent] = [
    NO_EVENT,
    TextChunkEvent(NO_TEXT),
    ToolCallEvent("a", NO_TEXT),
    DoneEvent(Usage(-1, 0)),
    DoneEvent(Usage(0, 2**70)),
    DoneEvent(Usage(0, cast("int", "5"))),  # as some vendors count
    *(DoneEvent(Usage(9, 2, Decimal(cost))) for cost in ("-1", "nan", "snan", "inf", "1e12")),
    DoneEvent(Usage(9, 2, cast("Decimal", 0.5))),  # a float, from untyped code
]


@pytest.mark.covers("P30", "P31")
@pytest.mark.parametrize("event", UNSOUND)
async def test_an_unsound_event_fails_the_provider_before_any_call_is_shown(
    chat: Chat, event: ChatEvent, caplog: pytest.LogCaptureFixture
) -> None:
    chat.model.will([say("Well"), call("query", manager="Part"), emit(event)], say("ok"))
    events = await chat.ask("Hi")
    assert kinds(events) == ["text_chunk", "error"]
    assert isinstance(events[-1], Failed)
    assert events[-1].code == "provider_failed"
    assert str(events[-1].error_id) in caplog.text
    assert answer(await chat.ask("Again?")) == "ok"


@pytest.mark.covers("P39", "P44")
@pytest.mark.parametrize(
    "args",
    [
        NO_OBJECT,
        {"query": "half \ud83d of one"},
        {"limit": 2**70},
        {"filters": NO_JSON},
    ],
)
async def test_arguments_that_no_json_holds_are_refused_and_the_model_goes_on(
    chat: Chat, args: JsonObject
) -> None:
    chat.model.will([emit(ToolCallEvent("a", "query", args))], say("ok"))
    events = await chat.ask("Hi")
    assert kinds(events) == ["tool_call", "tool_result", "text_chunk", "done"]
    assert results(events)[0]["code"] == "invalid_arguments"


@pytest.mark.covers("P39", "P44")
async def test_what_runs_is_what_is_shown(chat: Chat) -> None:
    """A tuple is shown as a list, and a number that is none as null: so they are run."""
    fields = cast("Json", ("name",))  # as provider code may build it
    chat.model.will(
        [
            call("query", manager="Part", fields=fields, limit=1),
            call("query", manager="Part", filters={"price__gt": float("nan")}),
        ],
        say("ok"),
    )
    events = await chat.ask("Hi")
    listed, refused = results(events)
    assert [list(row) for row in rows(listed)] == [["name"]]
    assert refused["code"] == "invalid_arguments"
    assert "null" in str(refused["message"])
    shown = [event.args for event in events if isinstance(event, ToolCall)]
    assert (shown[0]["fields"], shown[1]["filters"]) == (["name"], {"price__gt": None})
    assert [c.args for c in chat.model.requests[1].messages[-3].tool_calls] == shown


@pytest.mark.covers("P44")
async def test_a_tool_name_that_no_json_holds_is_an_unknown_tool(chat: Chat) -> None:
    chat.model.will(call("query\ud83d\0"), say("ok"))
    events = await chat.ask("Hi")
    assert kinds(events) == ["tool_call", "tool_result", "text_chunk", "done"]
    assert results(events)[0]["code"] == "unknown_tool"


class Tampering:
    """A seed-style provider that is no generator, and works in the lists it is given."""

    asked: list[tuple[list[str], int]]

    def __init__(self) -> None:
        self.asked = []

    def complete(
        self, messages: list[Message], tools: list[ToolDefinition]
    ) -> AsyncIterator[ChatEvent]:
        self.asked.append(([message.role for message in messages], len(tools)))
        messages.insert(0, Message("system", "mine"))
        tools.clear()
        is_answer = len(self.asked) % 2 == 0
        call = ToolCallEvent("a", "search_managers", {"query": "part"})
        return _Stream(TextChunkEvent("ok") if is_answer else call, DoneEvent(NO_USAGE))


class _Stream:
    """An iterator with the two methods that an iterator must have."""

    def __init__(self, *events: ChatEvent) -> None:
        self._events = list(events)

    def __aiter__(self) -> AsyncIterator[ChatEvent]:
        return self

    async def __anext__(self) -> ChatEvent:
        if not self._events:
            raise StopAsyncIteration
        return self._events.pop(0)


async def test_a_provider_that_works_in_its_lists_works_in_its_own(
    transport: Transport, manufacturing_url: str
) -> None:
    provider = Tampering()
    async with open_chat(transport, managers, manufacturing_url, provider=lambda: provider) as chat:
        for visitor in (chat.visitor, chat.new_visitor()):
            events = await visitor.ask("Hi")
            assert kinds(events) == ["tool_call", "tool_result", "text_chunk", "done"]
            assert events[-1] == Done(usage=Usage())
    assert provider.asked == 2 * [
        (["system", "user"], len(data_tools())),
        (["system", "user", "assistant", "tool"], len(data_tools())),
    ]
