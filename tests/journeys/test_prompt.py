"""What a model is told: one stable prompt, and a history in which calls keep their results."""

from itertools import pairwise

import pytest
from transports import Chat, Transport, open_chat

from app.demo.manufacturing import managers
from providers.scripted import call, say
from schema.events import Message


async def test_the_prompt_is_the_same_from_turn_to_turn_and_ends_with_the_day(
    transport: Transport, manufacturing_url: str
) -> None:
    settings = {"timezone": "Asia/Tokyo", "system_prompt": "Call parts components."}
    async with open_chat(transport, managers, manufacturing_url, **settings) as chat:
        chat.model.will(say("a"), [call("query", manager="Part", limit=1)], say("b"))
        await chat.ask("one")
        await chat.new_visitor().ask("two")
    prompts = {request.messages[0].content for request in chat.model.requests}
    assert len(prompts) == 1
    (prompt,) = prompts
    stable, _, last = prompt.rstrip().rpartition("\n")
    assert "Call parts components." in stable.splitlines()[-2:]
    assert last.startswith("Today is ")
    assert last.endswith("Time zone: Asia/Tokyo.")
    for tool in chat.model.requests[0].tools:
        assert f"- {tool.name}: " in stable
    assert "- Project: " in stable
    assert "parts -> Part" in stable


async def test_tools_come_in_one_order(chat: Chat) -> None:
    chat.model.will(say("a"))
    await chat.ask("one")
    names = chat.model.requests[0].tool_names
    assert names == tuple(sorted(names))


@pytest.mark.parametrize("recent", range(1, 13))
async def test_a_window_of_any_size_keeps_calls_and_results_together(
    manufacturing_url: str, recent: int
) -> None:
    async with open_chat("engine", managers, manufacturing_url, max_recent_messages=recent) as chat:
        for number in range(3):
            chat.model.will([call("query", manager="Part", limit=1)] * 2, say(f"answer {number}"))
            await chat.ask(f"question {number}")
        chat.model.will(say("last"))
        await chat.ask("the newest")
    messages = chat.model.requests[-1].messages
    assert messages[-1] == Message("user", "the newest")
    declared = [c.id for m in messages for c in m.tool_calls]
    assert declared == [m.tool_call_id for m in messages if m.role == "tool"]
    assert len(declared) % 2 == 0
    for before, message in pairwise(messages):
        if message.role == "tool":
            assert before.role in {"assistant", "tool"}
