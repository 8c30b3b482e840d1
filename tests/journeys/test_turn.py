"""The main job: a question goes in, the model looks it up, the answer comes with its evidence."""

import re

import pytest
from databases import ON_BOTH
from transports import Chat, Transport, answer, kinds, merged, open_chat, results, rows

from app.demo.manufacturing import managers
from providers.scripted import call, cut, fail, say, spend
from schema.events import Done, Failed, Json, JsonObject, TextChunk, ToolCall, ToolResult, Usage
from schema.tools import data_tools

ALUMINUM: JsonObject = {"parts__material__name": "Aluminum"}


@pytest.mark.covers("C7-1")
async def test_a_plain_answer_is_text_then_done(chat: Chat) -> None:
    chat.model.will([say("Hel", "lo."), spend(7, 2)])
    assert merged(await chat.ask("Hi")) == [TextChunk(content="Hello."), Done(usage=Usage(7, 2))]


@pytest.mark.covers("C7-2")
@pytest.mark.parametrize("text", [" ", "\n\t", "a\0b", "x" * 20_001])
async def test_a_text_that_says_nothing_is_refused_and_not_stored(chat: Chat, text: str) -> None:
    chat.model.will(say("ok"))
    assert [event.code for event in await chat.ask(text) if isinstance(event, Failed)] == [
        "bad_message"
    ]
    assert chat.model.requests == []
    await chat.ask("hi")
    assert [m.content for m in chat.model.requests[0].messages if m.role == "user"] == ["hi"]


@pytest.mark.covers("C7-3", "H23")
async def test_a_provider_that_crashes_shows_one_generic_error(chat: Chat) -> None:
    chat.model.will([say("Let me "), fail(RuntimeError("dsn=postgres://u:pw@h"))], say("again"))
    events = merged(await chat.ask("Hi"))
    assert kinds(events) == ["text_chunk", "error"]
    assert isinstance(events[-1], Failed)
    assert events[-1].code == "chat_error"
    assert events[-1].error_id
    assert "pw@" not in str(events)
    assert answer(await chat.ask("And now?")) == "again"


async def test_a_completion_that_ends_without_its_end_is_a_provider_failure(chat: Chat) -> None:
    chat.model.will([say("Half"), call("query", manager="Part"), cut()])
    events = await chat.ask("Hi")
    assert kinds(events) == ["text_chunk", "error"]
    assert isinstance(events[-1], Failed)
    assert events[-1].code == "provider_failed"


@ON_BOTH
@pytest.mark.covers("C7-8")
async def test_a_visitor_continues_the_conversation_and_another_one_does_not(chat: Chat) -> None:
    chat.model.will(say("Noted."), say("42."), say("Which one?"))
    await chat.ask("Remember 42")
    await chat.ask("What number?")
    await chat.new_visitor().ask("What number?")
    first, second, other = (
        [(m.role, m.content) for m in request.messages[1:]] for request in chat.model.requests
    )
    assert first == [("user", "Remember 42")]
    assert second == [*first, ("assistant", "Noted."), ("user", "What number?")]
    assert other == [("user", "What number?")]


async def test_a_new_conversation_starts_on_request(chat: Chat) -> None:
    chat.model.will(say("a"), say("b"), say("c"))
    await chat.ask("one")
    await chat.ask("two", conversation_id="new")
    await chat.ask("three")
    said = [m.content for m in chat.model.requests[2].messages if m.role == "user"]
    assert said == ["two", "three"]


@pytest.mark.covers("H30")
async def test_an_unknown_and_a_foreign_conversation_are_not_told_apart(chat: Chat) -> None:
    chat.model.will(say("a"))
    events = await chat.ask("one", live=True)
    foreign = next(event for event in events if event.type == "run_started").conversation_id
    stranger = chat.new_visitor()
    assert await stranger.ask("hi", conversation_id=foreign) == await stranger.ask(
        "hi", conversation_id="0b1c"
    )
    assert len(chat.model.requests) == 1


async def test_live_events_come_only_on_request_and_leave_the_others_as_they_are(
    chat: Chat,
) -> None:
    chat.model.will(*2 * [call("search_managers", query="parts"), say("Parts.")])
    plain = kinds(await chat.ask("What is there?"))
    live = kinds(await chat.ask("What is there?", live=True))
    assert plain == ["tool_call", "tool_result", "text_chunk", "done"]
    assert live[0] == "run_started"
    assert [kind for kind in live if kind in plain] == plain
    assert {"entry", "usage"} < set(live)


@pytest.mark.covers("C7-19")
async def test_the_next_round_sees_the_call_and_its_result_as_structure(chat: Chat) -> None:
    query = call("query", manager="Material", fields=["name"], filters={"name": "Steel"})
    chat.model.will([say("Looking. "), query], say("Steel."), say("Yes."))
    events = await chat.ask("Is there steel?")
    asked = next(event for event in events if isinstance(event, ToolCall))
    result = next(event for event in events if isinstance(event, ToolResult))
    assert kinds(events) == ["text_chunk", "tool_call", "tool_result", "text_chunk", "done"]
    assert asked.id == result.id
    declared, answered = chat.model.requests[1].messages[-2:]
    assert (declared.role, declared.content) == ("assistant", "Looking. ")
    assert [(c.id, c.name, c.args) for c in declared.tool_calls] == [
        (asked.id, "query", asked.args)
    ]
    assert (answered.role, answered.tool_call_id) == ("tool", asked.id)
    assert answered.tool_result == result.result
    await chat.ask("Sure?")
    later = chat.model.requests[2].messages
    assert [m.role for m in later[1:]] == [
        "user", "assistant", "tool", "assistant", "user",
    ]  # fmt: skip
    assert later[2:4] == (declared, answered)


@ON_BOTH
@pytest.mark.covers("C7-21")
async def test_a_batch_of_reads_shows_all_calls_then_all_results_in_order(chat: Chat) -> None:
    names = ["Steel", "Copper", "Aluminum"]
    calls = [call("query", manager="Material", filters={"name": name}) for name in names]
    chat.model.will(calls, say("Three."))
    events = await chat.ask("Steel, copper and aluminum?")
    assert kinds(events) == [*["tool_call"] * 3, *["tool_result"] * 3, "text_chunk", "done"]
    assert [event.args["filters"] for event in events if isinstance(event, ToolCall)] == [
        {"name": name} for name in names
    ]
    assert [event.id for event in events if isinstance(event, ToolCall)] == [
        event.id for event in events if isinstance(event, ToolResult)
    ]
    assert len(chat.model.requests) == 2
    assert [len(m.tool_calls) for m in chat.model.requests[1].messages if m.tool_calls] == [3]


async def test_ids_that_a_provider_repeats_are_told_apart(chat: Chat) -> None:
    first = call("query", manager="Part", limit=1, call_id="query:0")
    second = call("query", manager="Supplier", limit=1, call_id="query:0")
    chat.model.will(first, second, say("done"))
    events = await chat.ask("both")
    assert len({event.id for event in events if isinstance(event, ToolCall)}) == 2
    assert [m.tool_call_id for m in chat.model.requests[2].messages if m.role == "tool"] == [
        event.id for event in events if isinstance(event, ToolResult)
    ]


@pytest.mark.covers("H09")
async def test_an_unknown_tool_is_an_error_for_the_model_and_not_the_end(chat: Chat) -> None:
    chat.model.will(call("list_everything"), say("sorry"))
    events = await chat.ask("everything")
    assert kinds(events) == ["tool_call", "tool_result", "text_chunk", "done"]
    assert results(events)[0]["status"] == "error"
    assert results(events)[0]["code"] == "unknown_tool"


@pytest.mark.covers("H09", "C7-20")
async def test_a_model_that_insists_on_an_unknown_tool_runs_into_the_budget(
    transport: Transport, manufacturing_url: str
) -> None:
    limit = {"max_retries_per_message": 3}
    async with open_chat(transport, managers, manufacturing_url, **limit) as chat:
        chat.model.will(*10 * [call("list_everything")])
        events = await chat.ask("everything")
    assert kinds(events) == [*3 * ["tool_call", "tool_result"], "error"]
    assert isinstance(events[-1], Failed)
    assert events[-1].code == "tool_retry_limit"
    assert len(chat.model.requests) == 4
    assert [len(request.tools) for request in chat.model.requests] == [*3 * [len(data_tools())], 0]


@pytest.mark.covers("H40")
async def test_an_integer_beyond_64_bits_is_refused_and_not_rounded(chat: Chat) -> None:
    chat.model.will([call("query", manager="Part", filters={"id": -(2**63) - 1})], say("No."))
    events = await chat.ask("Part?")
    assert kinds(events) == ["tool_call", "tool_result", "text_chunk", "done"]
    [result] = results(events)
    assert result["code"] == "invalid_arguments"
    assert "integers of 64 bits" in str(result["message"])


@pytest.mark.covers("C7-20")
@pytest.mark.parametrize("reads", [0, 2])
async def test_a_batch_beyond_the_budget_is_refused_whole(
    transport: Transport, manufacturing_url: str, reads: int
) -> None:
    limit = {"max_retries_per_message": reads}
    async with open_chat(transport, managers, manufacturing_url, **limit) as chat:
        chat.model.will([call("query", manager="Part")] * (reads + 1))
        events = await chat.ask("parts")
    assert kinds(events) == ["error"]
    assert isinstance(events[0], Failed)
    assert events[0].code == "tool_retry_limit"


@pytest.mark.covers("C7-20")
async def test_the_last_read_of_the_budget_still_gets_its_answer(
    transport: Transport, manufacturing_url: str
) -> None:
    async with open_chat(transport, managers, manufacturing_url, max_retries_per_message=2) as chat:
        chat.model.will([call("query", manager="Part", limit=1)] * 2, say("Two."))
        assert kinds(await chat.ask("parts"))[-2:] == ["text_chunk", "done"]
        assert [len(request.tools) for request in chat.model.requests] == [len(data_tools()), 0]


async def test_a_turn_that_uses_up_its_rounds_ends(
    transport: Transport, manufacturing_url: str
) -> None:
    limit = {"max_total_rounds_per_message": 2}
    async with open_chat(transport, managers, manufacturing_url, **limit) as chat:
        chat.model.will(*3 * [call("search_managers", query="part")])
        events = await chat.ask("parts")
    assert isinstance(events[-1], Failed)
    assert events[-1].code == "turn_limit"
    assert len(chat.model.requests) == 2


async def test_usage_adds_up_over_the_rounds(chat: Chat) -> None:
    chat.model.will(
        [call("search_managers", query="part"), spend(10, 1)], [say("Parts."), spend(20, 2)]
    )
    assert (await chat.ask("parts"))[-1] == Done(usage=Usage(30, 3))


async def test_an_empty_completion_is_just_done(chat: Chat) -> None:
    chat.model.will([], say("ok"))
    assert kinds(await chat.ask("hi")) == ["done"]
    assert kinds(await chat.ask("hi")) == ["text_chunk", "done"]


@pytest.mark.covers("C7-14")
async def test_related_rows_come_nested_in_the_rows_they_belong_to(chat: Chat) -> None:
    fields: list[Json] = ["name", {"parts": ["name", {"material": ["name"]}]}]
    chat.model.will(call("query", manager="Project", fields=fields, filters=ALUMINUM), say("ok"))
    found = rows(results(await chat.ask("Projects, their parts and materials?"))[0])
    assert found
    for project in found:
        assert list(project) == ["name", "parts"]
        parts = rows({"data": project["parts"]})
        assert [list(part) for part in parts] == len(parts) * [["name", "material"]]
        assert {"name": "Aluminum"} in [part["material"] for part in parts]


async def test_the_first_question_of_the_readme_names_exactly_the_right_projects(
    transport: Transport, manufacturing_url: str
) -> None:
    async with open_chat(transport, managers, manufacturing_url) as chat:
        chat.model.will(call("query", manager="Project", filters=ALUMINUM), say("ok"))
        result = results(await chat.ask("Which projects use aluminum parts?"))[0]
    async with open_chat(transport, managers, manufacturing_url, provider="offline") as offline:
        said = answer(await offline.ask("Which projects use aluminum parts?"))
    names = [row["name"] for row in rows(result)]
    assert names
    assert re.findall(r"^- (.+?)(?::|$)", said, re.MULTILINE) == names
