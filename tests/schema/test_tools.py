"""The registry: what is offered, how arguments are checked, and what gets out."""

from collections.abc import Awaitable, Callable

import pytest

import schema
from schema import ToolContext, ToolFailed, ToolRetry
from schema.errors import UnknownTool
from schema.events import Json, JsonObject
from schema.tools import Parameter, Tool, ToolRegistry, data_tools

Call = Callable[..., Awaitable[Json]]


def test_the_users_names_are_exported_in_order() -> None:
    assert schema.__all__ == sorted(schema.__all__)
    assert {name: hasattr(schema, name) for name in schema.__all__} == dict.fromkeys(
        ("Actor", "Managers", "Page", "ToolContext", "ToolFailed", "ToolRetry"), True
    )


def test_definitions_are_sorted_and_closed() -> None:
    definitions = ToolRegistry(data_tools()[::-1]).definitions
    assert [d.name for d in definitions] == [
        "aggregate",
        "find_path",
        "get_manager_schema",
        "query",
        "search_managers",
    ]
    for definition in definitions:
        assert definition.input_schema["additionalProperties"] is False
        assert definition.input_schema["type"] == "object"
        assert "Example: {" in definition.description
        assert len(definition.description) < 500
    properties = definitions[3].input_schema["properties"]
    assert isinstance(properties, dict)
    assert list(properties) == ["manager", "fields", "filters", "order_by", "limit", "offset"]
    assert definitions[3].input_schema["required"] == ["manager"]


@pytest.mark.covers("H09")
async def test_an_unknown_tool_is_an_error_that_lists_the_offered_ones(call: Call) -> None:
    with pytest.raises(UnknownTool) as unknown:
        await call("list_everything")
    assert unknown.value.code == "unknown_tool"
    assert isinstance(unknown.value, ToolRetry)
    assert str(unknown.value) == (
        "There is no tool 'list_everything'."
        " The tools are aggregate, find_path, get_manager_schema, query, search_managers."
    )
    with pytest.raises(UnknownTool, match=r"Did you mean query\?"):
        await call("querry")


@pytest.mark.parametrize(
    ("tool", "args", "message"),
    [
        ("query", {}, "^Missing argument manager: The manager's exact name"),
        ("query", {"manager": None}, "^Missing argument manager"),
        ("query", {"manager": 3}, r"^manager: must be a string\.$"),
        ("query", {"manager": "Part", "fields": "name"}, r"^fields: must be an array\.$"),
        ("query", {"manager": "Part", "filters": [1]}, r"^filters: must be an object\.$"),
        ("query", {"manager": "Part", "limit": True}, r"^limit: must be an integer"),
        ("query", {"manager": "Part", "limit": "5"}, r"^limit: must be an integer"),
        (
            "query",
            {"manager": "Part", "filter": {}},
            r"^Unexpected argument 'filter'\. Did you mean filters\? query takes manager, fields",
        ),
        ("search_managers", {}, "^Missing argument query"),
        ("search_managers", {"query": ["a"]}, r"^query: must be a string\.$"),
        ("find_path", {"from_manager": "Part"}, "^Missing argument to_manager"),
        ("get_manager_schema", {"manager": {"name": "Part"}}, r"^manager: must be a string\.$"),
    ],
)
async def test_arguments_that_do_not_fit_are_refused_by_name(
    call: Call, tool: str, args: JsonObject, message: str
) -> None:
    with pytest.raises(ToolRetry, match=message) as refused:
        await call(tool, **args)
    assert refused.value.code == "invalid_arguments"


async def test_null_is_the_same_as_a_left_out_argument(call: Call) -> None:
    page = await call("query", manager="Material", fields=None, filters=None, limit=None)
    assert isinstance(page, dict)
    assert page["total_count"] == 3


async def test_the_data_tools_answer(call: Call) -> None:
    found = await call("search_managers", query="materials")
    assert isinstance(found, list)
    described = await call("get_manager_schema", manager="Material")
    assert isinstance(described, dict)
    assert described["found"] is True
    path = await call("find_path", from_manager="Project", to_manager="Material")
    assert isinstance(path, dict)
    assert path["found"] is True
    assert await call("get_manager_schema", manager="Payroll") == {"found": False}


async def test_an_unexpected_failure_tells_the_model_nothing(
    context: ToolContext, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(args: JsonObject, context: ToolContext) -> Json:
        raise KeyError("secret detail")

    async def gives_up(args: JsonObject, context: ToolContext) -> Json:
        raise ToolFailed("The archive is closed.")

    note = Parameter("note", "string", "Any text.")
    registry = ToolRegistry(
        [Tool("broken", "", (note,), broken), Tool("gives_up", "", (), gives_up)]
    )
    with pytest.raises(ToolFailed) as failed:
        await registry.call("broken", {"note": "x"}, context)
    assert str(failed.value) == "The tool failed unexpectedly. Do not repeat this call."
    assert "secret detail" in caplog.text
    with pytest.raises(ToolFailed, match=r"^The archive is closed\.$"):
        await registry.call("gives_up", {}, context)
