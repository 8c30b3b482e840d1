"""Histories that vendors would refuse as they are: what each is told instead."""

import pytest
from models import HI, LITELLM_WARNINGS, OK, TOOLS, events_of, model, text, wires
from vendors import Wire

from providers.translation import wire_messages
from schema.events import JsonObject, Message, ToolCallEvent

pytestmark = LITELLM_WARNINGS

SYSTEM, USER = HI


def calling(*calls: tuple[str, str, JsonObject]) -> list[Message]:
    """A message with calls, each an id, a name and arguments, and a result for each."""
    made = tuple(ToolCallEvent(*call) for call in calls)
    results = [Message("tool", f"result {call.id}", (), call.id, call.name) for call in made]
    return [Message("assistant", "Let me look.", made), *results]


@wires
@pytest.mark.parametrize(
    "name",
    ["", " ", "1st", "-q", "multi_tool_use.parallel", "größe", "\N{SYMBOL FOR NULL}", "q" * 80],
)
@pytest.mark.covers("P39")
async def test_a_name_that_a_model_made_up_does_not_spoil_the_conversation(
    wire: Wire, name: str
) -> None:
    async with model(wire, OK) as (_, provider):
        assert text(await events_of(provider, [*HI, *calling(("a", name, {}))])) == "ok"


def test_names_of_tools_are_sent_as_they_are() -> None:
    for tool in TOOLS:
        [call, result] = wire_messages([SYSTEM, USER, *calling(("a", tool.name, {}))])[2:]
        assert f"'name': '{tool.name}'" in str(call)
        assert result["name"] == tool.name


@wires
@pytest.mark.covers("H13", "H14")
async def test_a_history_that_was_cut_behind_its_question_begins_with_a_user(wire: Wire) -> None:
    cut = [SYSTEM, *calling(("a", "query", {})), Message("assistant", "Twelve."), USER]
    async with model(wire, OK, OK) as (_, provider):
        assert text(await events_of(provider, cut)) == "ok"
        assert text(await events_of(provider, cut[1:])) == "ok"


TWINS = calling(
    ("a", "query", {"limit": 1}),
    ("b", "query", {"limit": 1}),
    ("c", "query", {"limit": 2}),
    ("d", "query", {"limit": 1}),
)


@wires
@pytest.mark.covers("H01", "H05")
async def test_equal_calls_of_one_message_keep_their_results(wire: Wire) -> None:
    async with model(wire, OK) as (vendor, provider):
        assert text(await events_of(provider, [*HI, *TWINS, Message("user", "and?")])) == "ok"
    sent = str(vendor.requests[0].body)
    assert [sent.count(f"result {id}") for id in "abcd"] == [1, 1, 1, 1]
    assert sent.count("Let me look.") == 1


def test_equal_calls_follow_one_another_with_their_results() -> None:
    wired = wire_messages([USER, *TWINS])
    ids = [each.get("tool_call_id") or str(each.get("tool_calls")).count("'id'") for each in wired]
    assert ids == [0, 2, "a", "c", 1, "b", 1, "d"]
