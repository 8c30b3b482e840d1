"""Strawberry types with a page function of the project's own, asked for like any other manager."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from decimal import Decimal

import pytest
import strawberry

from schema import Managers, Page, ToolContext
from schema.errors import ToolError, ToolFailed, ToolRetry
from schema.events import Actor, Json, JsonObject
from schema.query import MAX_RESULT_BYTES, Reader
from schema.resolver import PageFunction
from schema.tools import ToolRegistry, data_tools
from tests.schema.conftest import ADA, exposed, on_sqlite
from tests.schema.ledger import LEDGER, Balance, Booking, Ledger, Side, served

NOWHERE = "sqlite+aiosqlite:///nowhere/at/all.db"
BUYER = Actor("user", "ben", scopes=frozenset({"money"}))


@asynccontextmanager
async def context(
    managers: Managers, actor: Actor = ADA, url: str = NOWHERE, seconds: float | None = None
) -> AsyncGenerator[ToolContext]:
    reader = Reader(managers, database_url=url, max_results=5, query_timeout_seconds=seconds)
    async with reader:
        yield ToolContext(actor, await reader.view(actor), reader)


async def ask(context: ToolContext, tool: str, **args: Json) -> JsonObject:
    found = await ToolRegistry(data_tools()).call(tool, args, context)
    assert isinstance(found, dict)
    return found


async def query(context: ToolContext, **args: Json) -> JsonObject:
    page = await ask(context, "query", manager="Balance", **args)
    assert isinstance(page.pop("result_id"), str)
    return page


async def refusal(context: ToolContext, **args: Json) -> str:
    with pytest.raises(ToolRetry) as error:
        await query(context, **args)
    return str(error.value)


async def test_rows_of_a_page_are_shown_in_wire_form() -> None:
    async with context(served(Ledger().balances)) as desk:
        assert await query(desk, limit=1, offset=2) == {
            "data": [
                {
                    "id": "3",
                    "account": "c-3",
                    "amount": "7.00",
                    "side": "debit",
                    "since": "2024-05-31T14:00:00+00:00",
                    "tags": [],
                    "label": "c-3: 7.00",
                    "owner": None,
                    "risk": 0.7,
                }
            ],
            "total_count": 3,
            "has_more": False,
        }
        page = await query(desk, fields=["owner", "side"], limit=2)
        assert page["data"] == [
            {"owner": "Ada", "side": "debit"},
            {"owner": None, "side": "CREDIT"},
        ]
        assert page["has_more"] is True


async def test_the_function_gets_what_it_names() -> None:
    ledger = Ledger()
    async with context(served(ledger.balances)) as desk:
        page = await query(
            desk,
            filters={"account": "c-3", "amount__gt": "6.5"},
            order_by=["-account", "amount"],
            limit=50,
            offset=1,
        )
        assert page == {"data": [], "total_count": 1, "has_more": False}
        await query(desk)
    assert ledger.asked == [
        {
            "actor": ADA,
            "limit": 5,
            "offset": 1,
            "account": "c-3",
            "amount__gt": Decimal("6.5"),
            "order_by": ["-account", "amount"],
        },
        {
            "actor": ADA,
            "limit": 5,
            "offset": 0,
            "account": None,
            "amount__gt": None,
            "order_by": [],
        },
    ]


async def test_a_list_is_all_that_matches_and_is_cut_to_the_page() -> None:
    ledger = Ledger()
    async with context(served(ledger.listed)) as desk:
        page = await query(desk, fields=["account"], limit=1, offset=1)
        assert page == {"data": [{"account": "b-2"}], "total_count": 3, "has_more": True}
        page = await query(desk, fields=["account"], filters={"account__in": ["c-3"]})
        assert page == {"data": [{"account": "c-3"}], "total_count": 1, "has_more": False}
        moment = "2024-06-01T00:00:00+02:00"
        await query(desk, fields=["id"], filters={"side": "CREDIT", "since__gte": moment})
    assert ledger.asked[1:] == [
        {
            "fields": ["account"],
            "account__in": ["c-3"],
            "side": None,
            "since__gte": None,
            "search": "",
        },
        {
            "fields": ["id"],
            "account__in": None,
            "side": Side.CREDIT,
            "since__gte": datetime(2024, 5, 31, 22, 0, tzinfo=UTC),
            "search": "",
        },
    ]


async def test_rows_may_be_mappings() -> None:
    async def page() -> list[Mapping[str, object]]:
        return [{"account": "a-1", "amount": Decimal("1.0"), "label": "mine"}]

    async with context(served(page)) as desk:
        found = await query(desk, fields=["account", "amount", "label", "owner"])
        assert found["data"] == [
            {"account": "a-1", "amount": "1.0", "label": "mine", "owner": None}
        ]
        assert found["notes"] == ["owner: null stands for a value that could not be computed"]


async def test_a_value_that_does_not_fit_is_null_with_a_note(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with context(served(Ledger().balances)) as desk:
        page = await query(desk, fields=["risk"], limit=2)
        assert page["data"] == [{"risk": 1.05}, {"risk": None}]
        assert page["notes"] == ["risk: null stands for a value that could not be computed"]
    assert "secret" not in str(page)
    [record] = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert record.getMessage() == "Balance.risk could not be computed"
    assert "secret detail" in caplog.text


async def test_only_plain_and_unguarded_fields_are_there(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "schema")
    async with context(served(Ledger().balances)) as desk:
        schema = await ask(desk, "get_manager_schema", manager="Balance")
        text = desk.reader.graphql.as_str() + str(schema) + str(await query(desk))
    assert isinstance(schema["fields"], list)
    names = [field["name"] for field in schema["fields"] if isinstance(field, dict)]
    assert names == ["id", "account", "amount", "side", "since", "tags", "label", "owner", "risk"]
    assert "CANARY" not in text
    assert "Booking" not in text
    lines = [r.getMessage() for r in caplog.records if r.levelno == logging.INFO]
    left_out = "bookings, guarded, history, host, last"
    assert lines == [f"Balance is shown without {left_out}: no form in JSON."]


async def test_the_index_describes_the_type_and_just_its_filters() -> None:
    async with context(served(Ledger().listed)) as desk:
        schema = await ask(desk, "get_manager_schema", manager="balance")
        assert isinstance(schema["fields"], list)
        assert schema["fields"][2:4] == [
            {"name": "amount", "type": "decimal", "nullable": True, "description": "In euros."},
            {
                "name": "side",
                "type": "enum",
                "nullable": False,
                "description": "",
                "choices": ["debit", "CREDIT"],
            },
        ]
        assert {key: schema[key] for key in schema if key not in ("fields", "found")} == {
            "manager": "Balance",
            "description": "What customers owe, from the ledger service.",
            "use_when": "open bills",
            "aliases": ["debt"],
            "primary_key": [],
            "relations": [],
            "lookups": {},
            "filters": [
                {"name": "account__in", "type": "string", "list": True},
                {"name": "side", "type": "enum", "list": False, "choices": ["debit", "CREDIT"]},
                {"name": "since__gte", "type": "datetime", "list": False},
                {"name": "search", "type": "string", "list": False},
            ],
            "order_by": False,
        }
        [found] = desk.reader.index.search("who has debts")
        assert isinstance(found, dict)
        assert (found["manager"], found["reason"]) == ("Balance", "alias")
    async with context(served(Ledger().balances)) as desk:
        assert (await ask(desk, "get_manager_schema", manager="Balance"))["order_by"] is True


async def test_graphql_gives_the_rows_of_the_tool() -> None:
    async with context(served(Ledger().balances)) as desk:
        document = """{
            balanceList(filters: {amount__gt: "1"}, order: ["-account"], limit: 1, offset: 1)
            { account label since side __typename }
        }"""
        result = await desk.reader.graphql.execute(document, context_value=desk.view)
        assert result.errors is None
        row = {"account": "a-1", "label": "a-1: 10.50", "since": None, "side": "debit"}
        assert result.data == {"balanceList": [{**row, "__typename": "Balance"}]}
        document = "{ balanceList(filters: {or: []}) { account } }"
        result = await desk.reader.graphql.execute(document, context_value=desk.view)
        assert result.errors is not None
        assert "can't be combined" in result.errors[0].message


_REFUSED: list[tuple[JsonObject, str]] = [
    ({"filters": 3}, "filters: must be an object."),
    (
        {"filters": {"acount": "x"}},
        "Unknown filter 'acount': Balance does not take it. Did you mean account?"
        " Its filters: account, amount__gt.",
    ),
    ({"filters": {"actor": "x"}}, "Unknown filter 'actor': Balance does not take it."),
    (
        {"filters": {"or": [{"account": "x"}]}},
        "Filter or: filters of Balance can't be combined; all that are given must hold."
        " Its filters: account, amount__gt.",
    ),
    ({"filters": {"not": {"account": "x"}}}, "Filter not: filters of Balance can't be combined"),
    ({"filters": {"account": None}}, "Filter account: the value must not be null; leave"),
    ({"filters": {"account": ["x"]}}, "Filter account: the value must be a text."),
    ({"filters": {"amount__gt": "much"}}, "Filter amount__gt: the value must be a number."),
    ({"order_by": ["size"]}, "order_by: Balance has no 'size'."),
    ({"fields": ["last"]}, "fields: Balance has no 'last'."),
    ({"fields": [{"last": ["number"]}]}, "fields: Balance has no 'last'."),
    ({"fields": [{"label": ["x"]}]}, "fields: label is a field; ask for it by its name alone."),
    ({"limit": 0}, "limit: must be an integer of 1 or more."),
]


@pytest.mark.parametrize(("args", "message"), _REFUSED)
async def test_what_it_does_not_take_is_refused_in_words(args: JsonObject, message: str) -> None:
    ledger = Ledger()
    async with context(served(ledger.balances)) as desk:
        assert (await refusal(desk, **args)).startswith(message)
    assert ledger.asked == []


async def test_lists_and_orders_are_taken_only_where_the_function_has_them() -> None:
    async with context(served(Ledger().listed)) as desk:
        assert await refusal(desk, order_by=["account"]) == (
            "order_by: Balance can't be sorted; leave order_by out."
        )
        filters: JsonObject = {"account__in": "x"}
        assert await refusal(desk, filters=filters) == (
            "Filter account__in: the value must be a list."
        )
        filters = {"account__in": [*("x" * 1025)]}
        assert "at most 1024 values" in await refusal(desk, filters=filters)
        filters = {"side": "left"}
        assert await refusal(desk, filters=filters) == (
            "Filter side: the value must be one of debit, CREDIT."
        )

    async def page() -> list[Balance]:
        return []

    async with context(served(page)) as desk:
        assert (await refusal(desk, filters={"x": 1})).endswith("It takes no filters.")


@on_sqlite
async def test_it_gives_no_aggregates_and_no_paths(shop_url: str) -> None:
    managers = exposed()
    managers.expose(Balance, page=Ledger().balances)
    async with context(managers, url=shop_url) as desk:
        with pytest.raises(ToolRetry, match=r"^manager: Balance gives rows and no aggregates"):
            await ask(desk, "aggregate", manager="Balance", measures=[{"op": "count"}])
        path = await ask(desk, "find_path", from_manager="Balance", to_manager="Part")
        assert path == {"found": False, "hops": [], "reason": "no_path"}
        assert (await query(desk))["total_count"] == 3
        page = await ask(desk, "query", manager="Part", limit=1)
        assert page["total_count"] == 6


async def test_a_hidden_field_takes_its_filters_along() -> None:
    def is_no_buyer(actor: Actor) -> bool:
        return "money" not in actor.scopes

    managers = Managers()
    managers.expose(Balance, page=Ledger().balances, hide={"amount": is_no_buyer})
    asked: list[JsonObject] = [
        {"filters": {"amount__gt": 1}},
        {"fields": ["amount"]},
        {"order_by": ["amount"]},
    ]
    async with context(managers) as desk:
        told = [await refusal(desk, **args) for args in asked]
        schema = await ask(desk, "get_manager_schema", manager="Balance")
        told += [str(schema), desk.reader.schema(desk.view).as_str()]
        assert [text.replace("'amount", "").count("amount") for text in told] == [0] * 5
    async with context(managers, BUYER) as desk:
        for args in asked:
            assert (await query(desk, **args))["total_count"]


async def test_readers_decide_for_whom_it_is_there() -> None:
    def is_buyer(actor: Actor) -> bool:
        return "money" in actor.scopes

    managers = Managers()
    managers.expose(Balance, page=Ledger().balances, readers=is_buyer)
    async with context(managers, BUYER) as desk:
        assert (await query(desk))["total_count"] == 3
    async with context(managers) as desk:
        assert (await refusal(desk)).startswith("Unknown manager 'Balance'")


async def _raises() -> list[Balance]:
    raise LookupError("secret detail")


async def _times_out() -> list[Balance]:
    raise TimeoutError("secret detail")


async def _gives_nothing() -> None:
    return None


async def _gives_other_rows() -> list[Booking]:
    return [Booking(number=1)]


async def _gives_a_page_unasked(limit: int) -> Page[Balance]:
    return Page(LEDGER[:limit], 3)


@pytest.mark.parametrize(
    "page", [_raises, _times_out, _gives_nothing, _gives_other_rows, _gives_a_page_unasked]
)
async def test_what_goes_wrong_is_told_to_the_log_only(
    page: PageFunction, caplog: pytest.LogCaptureFixture
) -> None:
    async with context(served(page)) as desk:
        with pytest.raises(ToolFailed) as error:
            await query(desk)
    assert str(error.value) == "The tool failed unexpectedly. Do not repeat this call."
    [record] = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert record.getMessage() == "page of Balance failed"


@pytest.mark.parametrize("error", [ToolRetry("account: must be ours."), ToolFailed("Closed.")])
async def test_the_function_may_speak_to_the_model(error: ToolError) -> None:
    async def page() -> list[Balance]:
        raise error

    async with context(served(page)) as desk:
        with pytest.raises(type(error), match=str(error)):
            await query(desk)


async def test_a_slow_function_is_ended() -> None:
    ended = asyncio.Event()

    async def page() -> list[Balance]:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return []

    async with context(served(page), seconds=0.01) as desk:
        with pytest.raises(ToolFailed, match=r"took longer than 0\.01 seconds"):
            await query(desk)
    assert ended.is_set()


async def test_too_much_is_cut() -> None:
    async def page() -> list[Balance]:
        return [Balance(id=strawberry.ID("1"), account="x" * 100_000, amount=None)] * 4

    async with context(served(page)) as desk:
        found = await query(desk, fields=["account"])
        assert isinstance(found["data"], list)
        assert len(found["data"]) == 2
        assert (found["total_count"], found["has_more"], found["truncated"]) == (4, True, True)
        assert str(MAX_RESULT_BYTES) in str(found["notes"])
