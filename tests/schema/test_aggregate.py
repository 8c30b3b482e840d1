"""The aggregate tool: groups, measures, conditions on them, order and pages."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, date, datetime, time
from zoneinfo import ZoneInfo

import pytest
import sqlalchemy as sa

from schema import Managers
from schema.aggregates import AggregateRequest
from schema.events import Actor, Json, JsonObject
from schema.managers import Visible
from schema.query import Reader
from schema.tools import data_tools
from tests.schema.conftest import ADA, Aggregate, Query, Write, measure, on_sqlite
from tests.schema.shop import BIG, LARGEST, Material, Part, Project, ProjectPart, Supplier


@asynccontextmanager
async def opened(
    url: str, zone: str = "UTC", **visible: Visible
) -> AsyncGenerator[Callable[..., Awaitable[JsonObject]]]:
    """The shop in a zone, with the given visible functions by model name in lower case."""
    managers = Managers()
    for model in (Material, Part, Project, ProjectPart, Supplier):
        managers.expose(model, visible=visible.get(model.__name__.lower()))
    async with Reader(managers, database_url=url, timezone=ZoneInfo(zone)) as reader:
        view = await reader.view(ADA)

        async def aggregate(manager: str, **asked: Json) -> JsonObject:
            # Tests give what the tool would.
            request = AggregateRequest(manager, **asked)  # pyright: ignore[reportArgumentType]
            return await reader.aggregate(request, view)

        yield aggregate


# --- groups and measures --------------------------------------------------------------------------


async def test_without_anything_it_counts_all_rows(aggregate: Aggregate) -> None:
    page = await aggregate("Part")
    assert isinstance(page.pop("result_id"), str)
    assert page == {"data": [{"count": 6}], "total_count": 1, "has_more": False}


async def test_rows_are_keyed_by_the_group_as_asked_and_by_the_measure(
    aggregate: Aggregate,
) -> None:
    page = await aggregate(
        "Part",
        filters={"material__isnull": False},
        group_by=["material__name"],
        measures=[
            measure("count"),
            measure("sum", "stock", "pieces"),
            measure("min", "material__density"),
        ],
    )
    assert page["data"] == [
        {"material__name": "Aluminum", "count": 3, "pieces": 4, "min_material__density": 2.7},
        {"material__name": "Cobalt", "count": 1, "pieces": 7, "min_material__density": 8.9},
        {"material__name": "Steel", "count": 1, "pieces": 5, "min_material__density": 7.8},
    ]


async def test_measures_of_numbers_are_exact(aggregate: Aggregate) -> None:
    numbers = ("stock", "price")
    ops = ("count", "sum", "avg", "min", "max", "count_distinct")
    page = await aggregate("Part", measures=[measure(op, n) for n in numbers for op in ops])
    assert page["data"] == [
        {
            "count_stock": 6,
            "sum_stock": 18,
            "avg_stock": 3.0,
            "min_stock": 0,
            "max_stock": 7,
            "count_distinct_stock": 6,
            "count_price": 4,
            "sum_price": "25.60",
            "avg_price": "6.4",
            "min_price": "0.50",
            "max_price": "12.00",
            "count_distinct_price": 3,
        }
    ]


async def test_measures_of_other_fields_have_their_wire_form(aggregate: Aggregate) -> None:
    fields = ("name", "made_on", "made_at", "booked_at", "packed_at")
    distinct = ("status", "is_made_here", "serial", "name")
    page = await aggregate(
        "Part",
        measures=[
            *(measure("max", field) for field in fields),
            *(measure("count_distinct", field) for field in distinct),
            measure("count", "extra"),
        ],
    )
    assert page["data"] == [
        {
            "max_name": "Zahn",
            "max_made_on": "2024-05-31",
            "max_made_at": "2024-05-31T14:00:00+00:00",
            "max_booked_at": "2024-06-01T09:30:00+00:00",
            "max_packed_at": "08:30:00",
            "count_distinct_status": 2,
            "count_distinct_is_made_here": 2,
            "count_distinct_serial": 1,
            "count_distinct_name": 6,
            "count_extra": 1,
        }
    ]


async def test_groups_have_their_wire_form(aggregate: Aggregate) -> None:
    page = await aggregate("Part", group_by=["status", "is_made_here", "serial", "price"])
    assert page["data"] == [
        {"status": "active", "is_made_here": True, "serial": None, "price": price, "count": count}
        for price, count in (("0.50", 1), ("1.10", 1), ("12.00", 2), (None, 1))
    ] + [
        {
            "status": "on hold",
            "is_made_here": False,
            "serial": "00000000-0000-0000-0000-000000000007",
            "price": None,
            "count": 1,
        }
    ]
    big = await aggregate("Part", group_by=["id"], measures=[measure("max", "id")], offset=4)
    assert big["data"] == [{"id": str(n), "max_id": str(n)} for n in (BIG, LARGEST)]


async def test_nothing_sums_up_to_null(aggregate: Aggregate) -> None:
    ops = ("count", "sum", "avg", "min", "max", "count_distinct")
    for field in ("stock", "price", "ratio"):
        page = await aggregate(
            "Part", filters={"id__in": []}, measures=[measure(op, field, op) for op in ops]
        )
        empty: JsonObject = {"sum": None, "avg": None, "min": None, "max": None}
        assert page["data"] == [{"count": 0, "count_distinct": 0, **empty}]
        assert page["total_count"] == 1
    page = await aggregate("Part", filters={"id__in": []}, group_by=["name"])
    assert (page["data"], page["total_count"], page["has_more"]) == ([], 0, False)


async def test_rows_without_a_related_row_are_a_group_of_their_own(aggregate: Aggregate) -> None:
    page = await aggregate("Part", group_by=["supplier__city"], order_by=["-supplier__city"])
    assert page["data"] == [
        {"supplier__city": "ÅRHUS", "count": 1},
        {"supplier__city": "Köln", "count": 2},
        {"supplier__city": None, "count": 3},
    ]


@on_sqlite
async def test_a_collation_of_the_file_changes_no_group_and_no_order(
    aggregate: Aggregate, query: Query, write: Write
) -> None:
    columns = "id INTEGER PRIMARY KEY, name TEXT COLLATE NOCASE, density REAL"
    for statement in (
        "DROP TABLE material",
        f"CREATE TABLE material ({columns})",
        "INSERT INTO material (id, name) VALUES (1, 'b'), (2, 'B'), (3, 'a'), (4, 'C')",
    ):
        await write(sa.text(statement))
    in_order: list[Json] = ["B", "C", "a", "b"]
    page = await aggregate("Material", group_by=["name"])
    assert page["data"] == [{"name": name, "count": 1} for name in in_order]
    page = await aggregate("Material", measures=[measure("count_distinct", "name", "names")])
    assert page["data"] == [{"names": 4}]
    page = await query("Material", fields=["name"], order_by=["name"])
    assert page["data"] == [{"name": name} for name in in_order]


async def test_composite_keys_and_longer_paths_lead_to_groups(aggregate: Aggregate) -> None:
    boxes = await aggregate("Box", group_by=["shelf__label"])
    assert boxes["data"] == [
        {"shelf__label": "A1", "count": 2},
        {"shelf__label": "A2", "count": 1},
        {"shelf__label": None, "count": 1},
    ]
    uses = await aggregate(
        "ProjectPart",
        group_by=["project__parent__name", "part__material__name"],
        measures=[measure("sum", "quantity")],
    )
    assert uses["data"] == [
        {
            "project__parent__name": "Apollo",
            "part__material__name": "Aluminum",
            "sum_quantity": 2,
        },
        {"project__parent__name": "Apollo", "part__material__name": "Steel", "sum_quantity": 9},
        {"project__parent__name": "Mercury", "part__material__name": None, "sum_quantity": 1},
        {"project__parent__name": None, "part__material__name": "Cobalt", "sum_quantity": 1},
        {"project__parent__name": None, "part__material__name": "Steel", "sum_quantity": 4},
    ]


@pytest.mark.covers("H44")
async def test_filters_are_those_of_query(aggregate: Aggregate) -> None:
    counts: list[tuple[JsonObject, int]] = [
        ({"id__in": []}, 0),
        ({"or": []}, 0),
        ({"and": []}, 6),
        ({"not": {"id__in": []}}, 6),
        ({"uses__quantity__gt": 3}, 1),
        ({"or": [{"name__startswith": "B"}, {"price__isnull": True}]}, 4),
    ]
    for filters, count in counts:
        assert (await aggregate("Part", filters=filters))["data"] == [{"count": count}]


# --- having, order and pages ----------------------------------------------------------------------


async def test_having_keeps_the_groups_whose_measures_match(aggregate: Aggregate) -> None:
    found: list[tuple[JsonObject, list[Json]]] = [
        ({"count": 1}, ["Cobalt", "Steel", None]),
        ({"count__gt": 1}, ["Aluminum"]),
        ({"sum_price__gte": 12}, ["Aluminum", "Cobalt"]),
        ({"sum_price": "12.5"}, ["Aluminum"]),
        ({"avg_price__lt": "6.250001"}, ["Aluminum", "Steel"]),
        ({"sum_price__isnull": True}, [None]),
        ({"count__in": [1, 7], "not": {"avg_price__gt": 2}}, ["Steel", None]),
        ({"or": [{"best__gt": 6}, {"and": [{"best": 5}, {"count__ne": 3}]}]}, ["Cobalt", "Steel"]),
        ({"max_material__density__gt": 8}, ["Cobalt"]),
        ({"first__gte": "Bo", "first__lt": "H"}, ["Cobalt", "Steel"]),
        ({"count__in": []}, []),
        ({"or": []}, []),
    ]  # fmt: skip
    for having, names in found:
        page = await aggregate(
            "Part",
            group_by=["material__name"],
            measures=[
                measure("count"),
                measure("sum", "price"),
                measure("avg", "price"),
                measure("max", "stock", "best"),
                measure("max", "material__density"),
                measure("min", "name", "first"),
            ],
            having=having,
        )
        rows = page["data"]
        assert isinstance(rows, list)
        assert [row["material__name"] for row in rows if isinstance(row, dict)] == names
        assert page["total_count"] == len(names)


async def test_having_without_groups_shows_the_one_row_or_none(aggregate: Aggregate) -> None:
    for least, total in ((6, 1), (7, 0)):
        page = await aggregate("Part", having={"count__gte": least})
        assert page["total_count"] == total
        assert page["data"] == [{"count": 6}] * total


async def test_order_is_by_measures_then_by_groups_with_missing_values_last(
    aggregate: Aggregate,
) -> None:
    for order, expected in {
        "-n": ["Aluminum", "Cobalt", "Steel", None],
        "n": ["Cobalt", "Steel", None, "Aluminum"],
        "price": ["Steel", "Cobalt", "Aluminum", None],
        "-price": ["Aluminum", "Cobalt", "Steel", None],
        "-material__name": ["Steel", "Cobalt", "Aluminum", None],
    }.items():
        page = await aggregate(
            "Part",
            group_by=["material__name"],
            measures=[measure("count", key="n"), measure("sum", "price", "price")],
            order_by=[order],
        )
        rows = page["data"]
        assert isinstance(rows, list)
        assert [row["material__name"] for row in rows if isinstance(row, dict)] == expected


@pytest.mark.covers("H45")
async def test_pages_over_ties_give_every_group_once(aggregate: Aggregate) -> None:
    seen: list[Json] = []
    for offset in range(0, 6, 2):
        page = await aggregate(
            "Part", group_by=["name"], order_by=["-count"], limit=2, offset=offset
        )
        assert isinstance(page["data"], list)
        seen += [row["name"] for row in page["data"] if isinstance(row, dict)]
        assert (page["total_count"], page["has_more"]) == (6, offset < 4)
    assert seen == ["100%_Nut", "Bearing", "Bolt", "Gear", "Straße", "Zahn"]
    past = await aggregate("Part", group_by=["name"], having={"count": 1}, offset=9)
    assert (past["data"], past["total_count"], past["has_more"]) == ([], 6, False)


async def test_the_limit_is_capped(shop_url: str) -> None:
    managers = Managers()
    managers.expose(Part)
    async with Reader(managers, database_url=shop_url, max_results=4) as reader:
        request = AggregateRequest("Part", group_by=["id"], limit=100)
        page = await reader.aggregate(request, await reader.view(ADA))
        assert isinstance(page["data"], list)
        assert (len(page["data"]), page["total_count"], page["has_more"]) == (4, 6, True)


# --- parts of dates and times ---------------------------------------------------------------------


async def test_parts_of_times_are_those_of_the_zone(shop_url: str, write: Write) -> None:
    moments = [
        datetime(2023, 12, 31, 23, 30, tzinfo=UTC),
        datetime(2024, 3, 10, 6, 59, tzinfo=UTC),
        datetime(2024, 3, 10, 7, 0, tzinfo=UTC),  # New York sets its clocks forward
        datetime(2024, 11, 3, 5, 59, tzinfo=UTC),
        datetime(2024, 11, 3, 6, 0, tzinfo=UTC),  # and back
    ]
    for at, moment in zip((1, 2, 3, 4, BIG), moments, strict=True):
        values = {"made_at": moment, "booked_at": moment.replace(tzinfo=None)}
        await write(sa.update(Part).where(sa.column("id") == at).values(values))
    parts = ("year", "quarter", "month", "week", "day", "hour")
    for zone in ("UTC", "America/New_York", "Asia/Kathmandu"):
        expected: list[Json] = []
        for moment in moments:
            local = moment.astimezone(ZoneInfo(zone))
            week = local.isocalendar().week
            expected.append(
                [local.year, (local.month + 2) // 3, local.month, week, local.day, local.hour]
            )
        async with opened(shop_url, zone) as aggregate:
            for field in ("made_at", "booked_at"):
                keys: list[Json] = [f"{field}__{part}" for part in parts]
                page = await aggregate("Part", group_by=["id", *keys], limit=5)
                rows = page["data"]
                assert isinstance(rows, list)
                found = [[*row.values()][1:-1] for row in rows if isinstance(row, dict)]
                assert found == expected


async def test_parts_of_days_and_clock_times_know_no_zone(shop_url: str, write: Write) -> None:
    await write(sa.update(Part).values(made_on=date(2027, 1, 3), packed_at=time(0, 5)))
    parts: list[Json] = [f"made_on__{p}" for p in ("year", "quarter", "month", "week", "day")]
    async with opened(shop_url, "America/New_York") as aggregate:
        page = await aggregate("ProjectPart", group_by=["part__packed_at__hour"])
        assert page["data"] == [{"part__packed_at__hour": 0, "count": 5}]
        page = await aggregate("Part", group_by=[*parts, "packed_at__hour"])
    assert page["data"] == [
        {
            "made_on__year": 2027,
            "made_on__quarter": 1,
            "made_on__month": 1,
            "made_on__week": 53,
            "made_on__day": 3,
            "packed_at__hour": 0,
            "count": 6,
        }
    ]


async def test_the_last_day_and_moment_have_their_parts(aggregate: Aggregate, write: Write) -> None:
    # The driver of PostgreSQL stores them as infinity.
    ends = {"made_on": date.max, "made_at": datetime.max.replace(tzinfo=UTC)}
    await write(sa.update(Part).values(ends))
    parts: list[Json] = ["made_on__year", "made_on__day", "made_at__year", "made_at__hour"]
    page = await aggregate("Part", group_by=parts)
    found = [9999, 31, 9999, 23]
    assert page["data"] == [{**dict(zip(parts, found, strict=True)), "count": 6}]


async def test_rows_without_a_date_are_a_group_of_their_own(aggregate: Aggregate) -> None:
    page = await aggregate("Part", group_by=["made_at__hour"])
    assert page["data"] == [{"made_at__hour": 14, "count": 1}, {"made_at__hour": None, "count": 5}]


@on_sqlite
async def test_the_first_moment_of_all_has_no_part_west_of_it(shop_url: str, write: Write) -> None:
    await write(sa.text("UPDATE part SET made_at = '0001-01-01 00:00:00.000000'"))
    for zone, year in (("America/New_York", None), ("Asia/Tokyo", 1)):
        async with opened(shop_url, zone) as aggregate:
            page = await aggregate("Part", group_by=["made_at__year"])
            assert page["data"] == [{"made_at__year": year, "count": 6}]


# --- what is visible ------------------------------------------------------------------------------


def own(actor: Actor) -> object:
    return {"owner": actor.subject}


def not_gear(_: Actor) -> object:
    return {"name__ne": "Gear"}


async def test_hidden_rows_are_not_there(shop_url: str) -> None:
    async with opened(shop_url, project=own, part=not_gear) as aggregate:
        projects = await aggregate("Project", group_by=["parent__name"])
        assert projects["data"] == [
            {"parent__name": "Apollo", "count": 1},
            {"parent__name": None, "count": 1},
        ]
        uses = await aggregate(
            "ProjectPart",
            group_by=["project__name"],
            measures=[measure("count"), measure("count", "part__id"), measure("max", "part__name")],
        )
        assert uses["data"] == [
            {"project__name": "Apollo", "count": 2, "count_part__id": 1, "max_part__name": "Bolt"},
            {"project__name": None, "count": 3, "count_part__id": 3, "max_part__name": "Bolt"},
        ]
        parts = await aggregate("Part", filters={"projects__code": "MER"})
        assert parts["data"] == [{"count": 0}]


def test_the_tool_tells_a_model_how_to_use_it() -> None:
    [tool] = [tool for tool in data_tools() if tool.name == "aggregate"]
    assert "Example: {" in tool.description
    properties = tool.definition.input_schema["properties"]
    assert isinstance(properties, dict)
    assert list(properties) == [
        "manager", "filters", "group_by", "measures", "having", "order_by", "limit", "offset",
    ]  # fmt: skip
