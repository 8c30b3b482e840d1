"""The Strawberry schema: its text, and rows that equal those of the tools."""

import json
from collections.abc import Awaitable, Callable

import pytest
from graphql import parse

from schema import ToolContext
from schema.events import Json, JsonObject
from schema.query import Reader
from tests.schema.conftest import ADA, exposed
from tests.schema.shop import BIG

Query = Callable[..., Awaitable[JsonObject]]


async def ask(context: ToolContext, document: str, **variables: object) -> Json:
    result = await context.reader.graphql.execute(
        document, variable_values=variables, context_value=context.view
    )
    assert result.errors is None, result.errors
    # What GraphQL gives is JSON.
    return json.loads(json.dumps(result.data))


@pytest.mark.parametrize(
    ("selection", "arguments", "asked"),
    [
        ("id name price stock ratio notes", "", {"fields": "id name price stock ratio notes"}),
        (
            "name",
            '(filters: {stock__gt: 1}, order: ["-stock"], limit: 2, offset: 1)',
            {
                "fields": "name",
                "filters": {"stock__gt": 1},
                "order_by": ["-stock"],
                "limit": 2,
                "offset": 1,
            },
        ),
        (
            "name",
            '(filters: {id__in: ["9007199254740993", 1], name__icontains: "o"})',
            {"fields": "name", "filters": {"id__in": [BIG, 1], "name__icontains": "o"}},
        ),
    ],
)
async def test_rows_equal_those_of_the_tool(
    context: ToolContext, query: Query, selection: str, arguments: str, asked: JsonObject
) -> None:
    fields = asked["fields"]
    assert isinstance(fields, str)
    page = await query("Part", **{**asked, "fields": [*fields.split()]})
    data = await ask(context, f"{{ partList{arguments} {{ {selection} }} }}")
    assert data == {"partList": page["data"]}


async def test_nested_rows_equal_those_of_the_tool(context: ToolContext, query: Query) -> None:
    page = await query(
        "Project",
        fields=["code", {"parent": ["name"]}, {"parts": {"fields": ["id"], "limit": 1}}],
    )
    document = """
        query ($limit: Int!) { projectList { ...shown parent { __typename name } } }
        fragment shown on Project { code ... on Project { parts(limit: $limit) { id } } }
    """
    data = await ask(context, document, limit=1)
    text = json.dumps(data).replace('"__typename": "Project", ', "")
    assert json.loads(text)["projectList"] == [
        {key: row[key] for key in ("code", "parts", "parent")}
        for row in json.loads(json.dumps(page["data"]))
    ]


async def test_uses_of_one_list_under_two_names_are_read_together(context: ToolContext) -> None:
    document = """{ projectList(filters: {code: "APO"}) {
        one: items(limit: 1) { partId }  all: items { quantity part { isMadeHere } }
    } }"""
    assert await ask(context, document) == {
        "projectList": [
            {
                "one": [{"partId": 1}],
                "all": [
                    {"quantity": 4, "part": {"isMadeHere": True}},
                    {"quantity": 1, "part": {"isMadeHere": True}},
                ],
            }
        ]
    }


async def test_a_variable_that_is_left_out_leaves_the_limit_of_a_list_out(
    context: ToolContext,
) -> None:
    document = "query ($most: Int) { projectList(limit: 1) { parts(limit: $most) { id } } }"
    data = await ask(context, document)
    assert data == {"projectList": [{"parts": [{"id": 1}, {"id": 3}]}]}


async def test_a_selection_of_nothing_but_the_type_works(context: ToolContext) -> None:
    data = await ask(context, "{ shelfList { __typename } }")
    assert data == {"shelfList": [{"__typename": "Shelf"}] * 2}


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ("{ partList(filters: {cost: 1}) { id } }", "Unknown filter 'cost'"),
        ("{ partList(filters: 3) { id } }", "filters: must be an object"),
        ("{ partList(limit: 0) { id } }", "limit: must be an integer"),
        ('{ partList(order: ["nothing"]) { id } }', "order_by: Part has no 'nothing'"),
        ("{ projectList { items(limit: 0) { partId } } }", "fields.items.limit: must be"),
        (
            "{ projectList { a: items(limit: -1) { partId } b: items(limit: 9) { partId } } }",
            "fields.items.limit: must be",
        ),
        ("{ partList { cost } }", "Cannot query field 'cost' on type 'Part'"),
        ("{ payrollList { id } }", "Cannot query field 'payrollList'"),
    ],
)
async def test_errors_are_those_of_the_tool(
    context: ToolContext, document: str, message: str
) -> None:
    result = await context.reader.graphql.execute(document, context_value=context.view)
    assert result.errors is not None
    assert [message in error.message for error in result.errors] == [True]


async def test_a_request_without_a_view_is_an_error(reader: Reader) -> None:
    result = await reader.graphql.execute("{ partList { id } }")
    assert result.errors is not None


def test_the_schema_text_is_deterministic_and_needs_no_database() -> None:
    url = "sqlite+aiosqlite:///nowhere/at/all.db"
    texts = {Reader(exposed(), database_url=url).graphql.as_str() for _ in range(2)}
    [text] = texts
    parse(text)
    assert "type ProjectPart {\n  projectCode: String\n  partId: BigInt\n" in text
    assert (
        "  partList(filters: JSON = null, order: [String!] = null,"
        " limit: Int = null, offset: Int! = 0): [Part!]"
    ) in text
    assert '"""What the part is called"""\n  name: String' in text
    assert '"""What the part is made of"""\n  material: Material' in text
    assert ADA.subject not in text
