"""Computed fields: shown like any other, never asked by, and harmless when their code fails."""

import enum
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, date, datetime, time
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING
from uuid import UUID

import pytest

from schema import Managers, ToolContext
from schema.computed import Function
from schema.errors import ConfigurationError, ToolRetry
from schema.events import Actor, Json, JsonObject
from schema.query import Reader
from schema.tools import ToolRegistry, data_tools, direct_tools
from tests.schema.conftest import ADA, exposed, on_sqlite
from tests.schema.shop import Material, Part, Payroll, Project, Status, Supplier

if TYPE_CHECKING:
    from fractions import Fraction

BUYER = Actor("user", "ben", scopes=frozenset({"costs"}))


class Grade(enum.Enum):
    FINE = "fine"
    POOR = 2


def computing() -> Managers:
    """The shop with computed fields of parts and materials."""
    managers = exposed()

    @managers.field(Part)
    def stock_value(price: Decimal | None, stock: int) -> Decimal | None:
        """What the parts in stock
        are worth.

        Not for the model.
        """
        return price and price * stock

    @managers.field(Part, name="margin", description="Price over cost")
    def _margin(price: Decimal | None, cost: Decimal | None) -> float | None:
        return None if price is None or cost is None else float(price / cost)

    @managers.field(Part)
    def inverse(stock: int) -> float:
        return 1 / stock

    @managers.field(Material)
    def title(name: str, *, density: float | None) -> str:
        return f"{name} ({density})"

    return managers


@asynccontextmanager
async def context(url: str, managers: Managers, actor: Actor = ADA) -> AsyncGenerator[ToolContext]:
    async with Reader(managers, database_url=url) as reader:
        yield ToolContext(actor, await reader.view(actor), reader)


async def ask(context: ToolContext, tool: str, **args: Json) -> JsonObject:
    found = await ToolRegistry(data_tools()).call(tool, args, context)
    assert isinstance(found, dict)
    return found


async def shown(context: ToolContext, name: str, filters: JsonObject) -> Json:
    """The field of the only row that matches."""
    page = await ask(context, "query", manager="Part", fields=[name], filters=filters)
    rows = page["data"]
    assert isinstance(rows, list)
    [row] = rows
    assert isinstance(row, dict)
    return row[name]


async def test_a_computed_field_is_made_of_columns_as_the_orm_gives_them(shop_url: str) -> None:
    async with context(shop_url, computing()) as shop:
        page = await ask(
            shop,
            "query",
            manager="Part",
            fields=["stock_value", "name", {"material": ["title", "density"]}],
            filters={"id__in": [1, 2, 4]},
        )
        assert page["data"] == [
            {
                "stock_value": "5.50",
                "name": "Bolt",
                "material": {"title": "Steel (7.8)", "density": 7.8},
            },
            {
                "stock_value": "0.00",
                "name": "Bearing",
                "material": {"title": "Aluminum (2.7)", "density": 2.7},
            },
            {"stock_value": None, "name": "100%_Nut", "material": None},
        ]
        assert "notes" not in page


async def test_it_is_shown_in_lists_and_takes_hidden_columns(shop_url: str) -> None:
    managers = computing()
    managers.field(Part, name="costs")(_costs)
    async with context(shop_url, managers) as shop:
        page = await ask(
            shop,
            "query",
            manager="Project",
            fields=["code", {"parts": ["costs", "stock_value"]}],
            filters={"code__in": ["APO", "VEN"]},
        )
        assert page["data"] == [
            {
                "code": "APO",
                "parts": [
                    {"costs": "?", "stock_value": "5.50"},
                    {"costs": "?", "stock_value": "84.00"},
                ],
            },
            {"code": "VEN", "parts": [{"costs": "9.99", "stock_value": None}]},
        ]


def _costs(cost: Decimal | None) -> str:
    return "?" if cost is None else str(cost)


async def test_values_are_those_of_python(shop_url: str) -> None:
    managers, given = exposed(), list[object]()

    @managers.field(Part)
    def first(id: int, is_made_here: bool, status: Status, made_on: date) -> bool | None:
        given.extend((id, is_made_here, status, made_on))
        return None

    @managers.field(Part)
    def second(packed_at: time, serial: UUID, extra: Json, made_at: datetime) -> bool:
        assert isinstance(extra, dict)
        given.extend((packed_at, serial, extra["list"], made_at.replace(tzinfo=UTC)))
        return True

    async with context(shop_url, managers) as shop:
        assert await shown(shop, "first", {"id": 4}) is None
        assert await shown(shop, "second", {"id": 4}) is True
    assert given == [
        4,
        False,
        Status.ON_HOLD,
        date(2024, 5, 31),
        time(8, 30),
        UUID(int=7),
        [1, "x"],
        datetime(2024, 5, 31, 14, 0, tzinfo=UTC),
    ]


@on_sqlite
async def test_it_is_among_the_fields_that_are_shown_without_being_named(shop_url: str) -> None:
    async with context(shop_url, computing()) as shop:
        asked: list[JsonObject] = [{}, {"fields": ["*"]}]
        for args in asked:
            page = await ask(shop, "query", manager="Material", limit=1, **args)
            steel = {"id": 1, "name": "Steel", "density": 7.8, "title": "Steel (7.8)"}
            assert page["data"] == [steel]


@on_sqlite
async def test_the_index_tells_of_it(shop_url: str) -> None:
    async with context(shop_url, computing()) as shop:
        schema = await ask(shop, "get_manager_schema", manager="Part")
        assert isinstance(schema["fields"], list)
        assert schema["fields"][-3] == {
            "name": "stock_value",
            "type": "decimal",
            "nullable": True,
            "description": "What the parts in stock are worth.",
            "computed": True,
        }
        [found, *_] = shop.reader.index.search("stock value")
        assert isinstance(found, dict)
        assert isinstance(found["fields"], list)
        assert "margin" in found["fields"]
        [tool, *_] = direct_tools([shop.view.manager("Material")])
        assert "title" in tool.description


@on_sqlite
async def test_graphql_shows_it(shop_url: str) -> None:
    async with context(shop_url, computing()) as shop:
        text = shop.reader.graphql.as_str()
        assert '"""Price over cost"""\n  margin: Float\n' in text
        document = "{ partList(filters: {id: 1}) { stockValue material { title } } }"
        result = await shop.reader.graphql.execute(document, context_value=shop.view)
        assert result.errors is None
        assert result.data == {
            "partList": [{"stockValue": "5.50", "material": {"title": "Steel (7.8)"}}]
        }


_SUM: JsonObject = {"measures": [{"op": "sum", "field": "stock_value"}]}
_ASKED_BY: list[tuple[str, JsonObject, str]] = [
    ("query", {"filters": {"stock_value": 1}}, "filtered by"),
    ("query", {"filters": {"stock_value__gt": 1}}, "filtered by"),
    ("query", {"filters": {"not": {"stock_value__isnull": True}}}, "filtered by"),
    ("query", {"order_by": ["-stock_value"]}, "sorted by"),
    ("aggregate", {"filters": {"stock_value__lt": 1}}, "filtered by"),
    ("aggregate", {"group_by": ["stock_value"]}, "grouped by"),
    ("aggregate", _SUM, "aggregated"),
]


@on_sqlite
@pytest.mark.parametrize(("tool", "args", "use"), _ASKED_BY)
async def test_it_can_be_shown_but_nothing_else(
    shop_url: str, tool: str, args: JsonObject, use: str
) -> None:
    async with context(shop_url, computing()) as shop:
        with pytest.raises(ToolRetry) as error:
            await ask(shop, tool, manager="Part", **args)
        told = f"Part.stock_value is computed: it can be shown, but not {use}."
        assert str(error.value) == told


@on_sqlite
async def test_errors_offer_it_where_it_can_be_shown(shop_url: str) -> None:
    async with context(shop_url, computing()) as shop:
        with pytest.raises(ToolRetry, match=r"Did you mean title\?.* only to be shown: title\."):
            await ask(shop, "query", manager="Material", fields=["titel"])
        with pytest.raises(ToolRetry, match="title is a field; ask for it by its name alone"):
            await ask(shop, "query", manager="Material", fields=[{"title": ["name"]}])


async def test_what_fails_is_null_with_a_note_and_one_log_record(
    shop_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    managers = computing()

    @managers.field(Part)
    def broken(name: str, stock: int) -> str:
        if stock:
            raise ToolRetry(f"secret detail of {name}")
        return name

    async with context(shop_url, managers) as shop:
        page = await ask(shop, "query", manager="Part", fields=["broken", "inverse", "stock"])
        rows = page["data"]
        assert isinstance(rows, list)
        assert rows[:3] == [
            {"broken": None, "inverse": 0.2, "stock": 5},
            {"broken": "Bearing", "inverse": None, "stock": 0},
            {"broken": None, "inverse": pytest.approx(1 / 7), "stock": 7},
        ]
        assert page["notes"] == [
            "broken: null stands for a value that could not be computed",
            "inverse: null stands for a value that could not be computed",
        ]
    assert "secret" not in str(page)
    failed = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert sorted(record.getMessage() for record in failed) == [
        "Part.broken could not be computed",
        "Part.inverse could not be computed",
    ]
    assert "secret detail of Bolt" in caplog.text
    assert "ZeroDivisionError" in caplog.text


@on_sqlite
@pytest.mark.parametrize(
    ("kind", "value", "wire"),
    [
        (str, "a\0b", "a␀b"),
        (int, 2**60, str(2**60)),
        (float, 2, 2.0),
        (Decimal, 3, "3"),
        (Decimal, Decimal("1E+2"), "100"),
        (datetime, datetime(2024, 1, 2, 3), "2024-01-02T03:00:00+00:00"),  # noqa: DTZ001  as stored
        (date, date(2024, 1, 2), "2024-01-02"),
        (time, time(8, 30), "08:30:00"),
        (UUID, UUID(int=7), "00000000-0000-0000-0000-000000000007"),
        (Grade, Grade.FINE, "fine"),
        (Grade | None, Grade.POOR, "POOR"),
        (dict[str, object], {"a": [2**60]}, {"a": [str(2**60)]}),
        (list, [1, None], [1, None]),
        (Json, None, None),
        (object, "x", "x"),
        (str | None, None, None),
    ],
)
async def test_what_a_function_gives_is_shown_in_wire_form(
    shop_url: str, kind: object, value: object, wire: Json
) -> None:
    async with context(shop_url, _giving(kind, value)) as shop:
        assert await shown(shop, "given", {"id": 1}) == wire


@on_sqlite
@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (str, None),
        (str, 1),
        (str, "\ud800"),
        (int, True),
        (int, 1.0),
        (float, float("inf")),
        (float, "1"),
        (Decimal, 1.5),
        (Decimal, Decimal("NaN")),
        (bool, 1),
        (date, datetime(2024, 1, 2, tzinfo=UTC)),
        (Grade, "fine"),
        (dict, []),
        (dict, {"a": object()}),
        (list, ["\ud800"]),
        (Json, b"x"),
    ],
)
async def test_a_value_of_another_type_is_null(shop_url: str, kind: object, value: object) -> None:
    async with context(shop_url, _giving(kind, value)) as shop:
        page = await ask(shop, "query", manager="Part", fields=["given"], limit=1)
        assert page["data"] == [{"given": None}]
        assert page["notes"] == ["given: null stands for a value that could not be computed"]


def _giving(kind: object, value: object) -> Managers:
    managers = exposed()

    def given(id: int) -> object:
        return value

    given.__annotations__["return"] = kind
    managers.field(Part)(given)
    return managers


@on_sqlite
async def test_a_function_is_called_for_the_reads_that_ask_for_it_only(shop_url: str) -> None:
    managers, calls = exposed(), list[str]()

    @managers.field(Part)
    def shout(name: str) -> str:
        calls.append(name)
        return name.upper()

    async with context(shop_url, managers) as shop:
        await ask(shop, "query", manager="Part", fields=["name"])
        assert calls == []
        assert await shown(shop, "shout", {"id": 1}) == "BOLT"
        assert calls == ["Bolt"]


@on_sqlite
async def test_it_can_be_hidden_from_some_actors_and_from_all(shop_url: str) -> None:
    def is_no_buyer(actor: Actor) -> bool:
        return "costs" not in actor.scopes

    def everybody(_: Actor) -> bool:
        return True

    managers = Managers()
    managers.expose(Part, hide={"stock_value": is_no_buyer, "price": everybody})
    managers.expose(Material, hide=("title",))
    managers.field(Part)(_stock_value)
    managers.field(Material)(_title)
    async with context(shop_url, managers, BUYER) as shop:
        assert await shown(shop, "stock_value", {"id": 1}) == "5.50"
        assert "title" not in str(shop.view.index.describe("Material"))
    async with context(shop_url, managers) as shop:
        asked: list[JsonObject] = [
            {"fields": ["stock_value"]},
            {"filters": {"stock_value": 1}},
            {"order_by": ["stock_value"]},
        ]
        for args in asked:
            with pytest.raises(ToolRetry, match="Part has no 'stock_value'"):
                await ask(shop, "query", manager="Part", **args)
        assert "stock_value" not in str(shop.view.index.describe("Part"))
        assert "stockValue" not in shop.reader.schema(shop.view).as_str()


def _stock_value(price: Decimal | None, stock: int) -> Decimal | None:
    return price and price * stock


def _title(name: str) -> str:
    return name


_stock_value.__name__, _title.__name__ = "stock_value", "title"


def _unknown(prise: Decimal) -> Decimal:
    return prise


def _all(**columns: str) -> str:
    return str(columns)


def _none() -> int:
    return 1


def _silent(price: Decimal):
    return price


def _odd(price: Decimal) -> bytes:
    return bytes(int(price))


def _forward(price: Decimal) -> "Fraction":
    return Fraction(price)


async def _slow(price: Decimal) -> Decimal:
    return price


def _fine(name: str) -> str:
    return name


@pytest.mark.parametrize(
    ("function", "name", "problem"),
    [
        (_unknown, "x", "Part.x takes prise, which is no column of Part. Its parameters must be"),
        (_all, "x", r"Part.x takes \*\*columns, which is no column"),
        (_none, "x", "Part.x takes no column. Name the columns"),
        (_silent, "x", "Part.x does not say what kind of value it gives. Annotate"),
        (_odd, "x", "Part.x does not say what kind of value it gives. Annotate"),
        (_forward, "x", "The annotations of Part.x can't be read: name 'Fraction' is not defined"),
        (_slow, "x", "Part.x is async"),
        (_fine, "stock", "stock is a field of Part, which has one of that name. Give"),
        (_fine, "material", "material is a field of Part, which has one of that name"),
        (_fine, "photo", "photo is a field of Part, which has one of that name"),
        (_fine, "is_madeHere", "are one name in GraphQL"),
        (_fine, "a__b", r"Part.a__b can't be asked for.*Give managers.field\(\) another name="),
        (partial(_fine), "x", "Part.x is no function. Write one around it"),
    ],
)
def test_a_mistake_is_told_at_start_up(function: Function, name: str, problem: str) -> None:
    managers = exposed()
    managers.field(Part, name=name)(function)
    with pytest.raises(ConfigurationError, match=f"^E001: .*{problem}"):
        managers.build()


def test_a_field_of_a_model_that_is_not_exposed_is_a_mistake() -> None:
    managers = exposed()
    managers.field(Payroll)(_fine)
    with pytest.raises(ConfigurationError, match="_fine is a field of Payroll, which is not exp"):
        managers.build()


def test_two_fields_of_one_name_are_a_mistake() -> None:
    managers = exposed()
    managers.field(Project)(_fine)
    managers.field(Supplier)(_fine)
    managers.build()
    managers.field(Project)(_fine)
    with pytest.raises(ConfigurationError, match="Project, which has one of that name"):
        managers.build()
