"""``tool_strategy``: with "direct" the model also gets one tool for each manager it may see."""

import pytest
from transports import Chat, Transport, kinds, open_chat, results, rows

from app.demo.manufacturing import Material, Part
from app.demo.manufacturing import managers as manufacturing
from providers.scripted import call, say
from schema import Managers
from schema.events import JsonObject

DISCOVERY = {"find_path", "get_manager_schema", "query", "search_managers"}
WITH_O: JsonObject = {"name__icontains": "o"}
DIRECT = {"tool_strategy": "direct"}


@pytest.mark.covers("C7-12", "C7-17")
async def test_a_direct_tool_answers_as_query_does(
    transport: Transport, manufacturing_url: str
) -> None:
    async with open_chat(transport, manufacturing, manufacturing_url, **DIRECT) as chat:
        chat.model.will(
            [
                call("query", manager="Part", fields=["name"], filters=WITH_O, limit=2),
                call("query_part", fields=["name"], filters=WITH_O, limit=2),
            ],
            [call("query_part", limit=0), call("query_part", manager="Material")],
            say("Done."),
        )
        events = await chat.ask("Parts?")
    assert kinds(events)[-2:] == ["text_chunk", "done"]
    found = results(events)
    assert rows(found[0]) == rows(found[1]) != []
    assert [result.get("status") for result in found[2:]] == ["error", "error"]
    (request, *_) = chat.model.requests
    assert {*request.tool_names} > DISCOVERY
    assert "query_part" in request.tool_names
    assert "query_" in request.messages[0].content


@pytest.mark.covers("C7-9", "C7-17")
async def test_direct_tools_are_those_of_the_managers_an_actor_may_see(
    transport: Transport, manufacturing_url: str
) -> None:
    managers = Managers()
    managers.expose(Part)
    managers.expose(Material, readers=lambda actor: actor.is_signed_in)
    async with open_chat(transport, managers, manufacturing_url, **DIRECT) as chat:
        chat.model.will([call("query_material"), call("query_project")], say("No."))
        found = results(await chat.ask("Materials?"))
    assert {*chat.model.requests[0].tool_names} - DISCOVERY - {"aggregate"} == {"query_part"}
    hidden, unknown = (str(result) for result in found)
    assert hidden.replace("query_material", "query_project") == unknown


async def test_names_of_direct_tools_are_not_known_without_them(chat: Chat) -> None:
    chat.model.will([call("query_part")], say("No."))
    (found,) = results(await chat.ask("Parts?"))
    assert found["status"] == "error"
    assert not any(name.startswith("query_") for name in chat.model.requests[0].tool_names)
