"""The filter language: lookups, paths, coercion, and words that tell nothing."""

from collections.abc import Awaitable, Callable
from zoneinfo import ZoneInfo

import pytest

from schema import Managers, ToolRetry
from schema.aggregates import AggregateRequest
from schema.events import Actor, Json, JsonObject
from schema.filters import MAX_CONDITIONS, MAX_LIST
from schema.query import Reader
from schema.request import QueryRequest
from tests.schema.conftest import ADA, Query
from tests.schema.shop import BIG, LARGEST, Part

Names = Callable[..., Awaitable[list[Json]]]


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({}, ["Bolt", "Bearing", "Gear", "100%_Nut", "Straße", "Zahn"]),
        ({"name": "Bolt"}, ["Bolt"]),
        ({"name__gt": "Gear"}, ["Straße", "Zahn"]),
        ({"name__icontains": "B"}, ["Bolt", "Bearing"]),
        ({"name__icontains": "%"}, ["100%_Nut"]),
        ({"name__icontains": "_"}, ["100%_Nut"]),
        ({"name__icontains": "\\"}, []),
        ({"name__icontains": "STRASSE"}, ["Straße"]),
        ({"name__icontains": ""}, ["Bolt", "Bearing", "Gear", "100%_Nut", "Straße", "Zahn"]),
        ({"name__contains": "B"}, ["Bolt", "Bearing"]),
        ({"name__contains": "b"}, []),
        ({"name__contains": "%_"}, ["100%_Nut"]),
        ({"name__startswith": "B"}, ["Bolt", "Bearing"]),
        ({"name__startswith": "b"}, []),
        ({"name__startswith": "100%_N"}, ["100%_Nut"]),
        ({"name__endswith": "aße"}, ["Straße"]),
        ({"name__endswith": "The whole Bolt"}, []),
        ({"name__endswith": ""}, ["Bolt", "Bearing", "Gear", "100%_Nut", "Straße", "Zahn"]),
        ({"name__ne": "Bolt"}, ["Bearing", "Gear", "100%_Nut", "Straße", "Zahn"]),
        ({"price__ne": 12}, ["Bolt", "100%_Nut", "Straße", "Zahn"]),
        ({"material__name__ne": "Aluminum"}, ["Bolt", "Gear", "100%_Nut"]),
        ({"stock__gte": 3, "stock__lt": 7}, ["Bolt", "Zahn"]),
        ({"stock": "5"}, ["Bolt"]),
        ({"stock": 5.0}, ["Bolt"]),
        ({"stock__in": [0, "7"]}, ["Bearing", "Gear"]),
        ({"price": "12"}, ["Bearing", "Gear"]),
        ({"price__lte": 1.1}, ["Bolt", "Zahn"]),
        ({"price__isnull": True}, ["100%_Nut", "Straße"]),
        ({"price__isnull": False, "stock__gt": 4}, ["Bolt", "Gear"]),
        ({"ratio__gt": 0.1, "ratio__lt": "1e3"}, ["100%_Nut"]),
        ({"is_made_here": False}, ["100%_Nut"]),
        ({"is_made_here": "false"}, ["100%_Nut"]),
        ({"status": "on hold"}, ["100%_Nut"]),
        ({"status__in": ["on hold"]}, ["100%_Nut"]),
        ({"made_on__gte": "2024-05-31"}, ["100%_Nut"]),
        ({"made_at": "2024-05-31T16:00:00+02:00"}, ["100%_Nut"]),
        ({"made_at": "2024-05-31 14:00"}, ["100%_Nut"]),
        ({"booked_at__lt": "2024-06-01T09:30:01Z"}, ["100%_Nut"]),
        ({"packed_at": "08:30"}, ["100%_Nut"]),
        ({"serial": "00000000-0000-0000-0000-000000000007"}, ["100%_Nut"]),
        ({"extra__isnull": False}, ["100%_Nut"]),
        ({"id": BIG}, ["Straße"]),
        ({"id": str(LARGEST)}, ["Zahn"]),
        ({"material_id": 2**40}, []),
        ({"stock__lt": -(2**40)}, []),
        ({"price": "1.104"}, []),
        ({"price__lt": "1e30", "stock": 5}, ["Bolt"]),
        ({"material__name": "Aluminum"}, ["Bearing", "Straße", "Zahn"]),
        ({"material__name__icontains": "ALU", "stock": 0}, ["Bearing"]),
        ({"material__isnull": True}, ["100%_Nut"]),
        ({"material__name__isnull": True}, ["100%_Nut"]),
        ({"supplier__isnull": True}, ["Gear", "100%_Nut", "Zahn"]),
        ({"supplier__isnull": False, "supplier__city": "Köln"}, ["Bolt", "Straße"]),
        ({"supplier__city__icontains": "århus"}, ["Bearing"]),
        ({"projects__isnull": True}, ["Straße", "Zahn"]),
        ({"projects__isnull": False, "stock": 0}, ["Bearing"]),
        ({"projects__owner": "grace"}, ["Bolt", "Bearing", "100%_Nut"]),
        ({"projects__parent__name": "Apollo"}, ["Bolt", "Bearing"]),
        ({"projects__parent__isnull": True}, ["Bolt", "Gear"]),
        ({"uses__project__children__code": "VEN"}, ["Bolt", "Bearing"]),
    ],
)
async def test_filters_match(names: Names, filters: JsonObject, expected: list[str]) -> None:
    assert await names("Part", **filters) == expected


async def test_conditions_beyond_one_list_hold_for_the_same_row(names: Names) -> None:
    assert await names("Project", items__part_id=1, items__quantity=9) == ["Mercury"]
    assert await names("Project", items__part_id=1, items__quantity=1) == []
    assert await names("Project", parts__name="Bolt", parts__material__name="Steel") == [
        "Apollo",
        "Mercury",
    ]
    assert await names("Project", parts__name="Bolt", parts__material__name="Cobalt") == []


@pytest.mark.covers("H44")
async def test_an_empty_list_matches_nothing(names: Names) -> None:
    assert await names("Part", id__in=[]) == []
    assert await names("Part", supplier__name__in=[]) == []
    assert await names("Project", parts__id__in=[], name="Apollo") == []


async def test_lists_of_any_length_match_what_they_hold(names: Names) -> None:
    for length in (1, 2, 3, 5, 8, 9, 100, MAX_LIST):
        assert await names("Part", id__in=[3, *range(100, 99 + length)]) == ["Gear"]
    with pytest.raises(ToolRetry, match="at most 1024 values"):
        await names("Part", id__in=list(range(MAX_LIST + 1)))


async def test_the_values_of_all_lists_are_bounded_together(query: Query) -> None:
    half: JsonObject = {"id__in": list(range(MAX_LIST // 2))}
    assert (await query("Part", filters={"or": [half, half]}))["total_count"] == 4
    full: list[Json] = [{"id__in": list(range(MAX_LIST)), "stock": n} for n in range(3)]
    for filters in ({"or": full}, {"and": full}, {"not": {"or": full}}):
        with pytest.raises(ToolRetry, match="the lists may hold 1024 values in all"):
            await query("Part", filters=filters)


@pytest.mark.covers("C7-10")
@pytest.mark.parametrize(
    ("filters", "message"),
    [
        ({"colour": 1}, "^Unknown filter 'colour': Part has no 'colour'.* Fields: id, name"),
        ({"cost": 1}, "^Unknown filter 'cost': Part has no 'cost'"),
        ({"cost__gt": 1}, "^Unknown filter 'cost__gt': Part has no 'cost'"),
        ({"supplier__bank_account": "x"}, "Supplier has no 'bank_account'"),
        ({"supplier__payroll__salary__gt": 1}, "Supplier has no 'payroll'"),
        ({"1=1; DROP TABLE part": 1}, "Part has no '1=1; DROP TABLE part'"),
        (
            {"name__regex": "x"},
            "the string field name has no lookup 'regex'. Its lookups: name__ne, name__in",
        ),
        ({"name__exact__in": "x"}, "has no lookup 'exact__in'"),
        ({"stock__icontains": "5"}, "the integer field stock has no lookup 'icontains'"),
        ({"status__gt": "active"}, "the enum field status has no lookup 'gt'"),
        ({"extra": {"a": 1}}, "the json field extra can't be compared. Its lookups: extra__isnull"),
        ({"photo": "x"}, "Part has no 'photo'"),
        ({"material": 1}, "^Filter material: a relation is compared by its fields.* material__id"),
        ({"material": None}, "^Filter material: a relation is compared by its fields"),
        ({"isnull": True}, "Part has no 'isnull'"),
        ({"": 1}, "Part has no ''"),
        ({"parent__children": 1}, "Part has no 'parent'"),
    ],
)
async def test_unknown_and_hidden_names_are_refused_alike(
    names: Names, filters: JsonObject, message: str
) -> None:
    with pytest.raises(ToolRetry, match=message):
        await names("Part", **filters)


@pytest.mark.covers("C7-11", "H40", "H41", "H42", "H47")
@pytest.mark.parametrize(
    ("filters", "message"),
    [
        ({"name": None}, "^Filter name: null is asked for with name__isnull: true"),
        ({"stock__gt": None}, "^Filter stock__gt: null is asked for with stock__isnull: true"),
        ({"name__in": None}, "^Filter name__in: the value must be a list"),
        ({"id__in": [1, None]}, "must be an integer"),
        ({"name": ["a"]}, "must be a text. For one of several values use __in"),
        ({"name": {"eq": "a"}}, "^Filter name: the value must be a text"),
        ({"name__in": [{"eq": "a"}]}, "must be a text"),
        ({"name": 5}, "must be a text"),
        ({"name": "a\0"}, "must not hold NUL"),
        ({"name__icontains": "a\0"}, "must not hold NUL"),
        ({"name": "\ud800"}, "must be valid Unicode"),
        ({"name": "x" * 10_001}, "at most 10000 characters"),
        ({"stock": True}, "must be an integer"),
        ({"stock": 1.5}, "must be an integer"),
        ({"stock": "5x"}, "must be an integer"),
        ({"stock": [1]}, "must be an integer"),
        ({"id": 2**63}, "fits in 64 bits"),
        ({"id": str(-(2**63) - 1)}, "fits in 64 bits"),
        ({"id": "9" * 5000}, "fits in 64 bits"),
        ({"stock": {}}, "must be an integer"),
        ({"stock": "many"}, "must be an integer"),
        ({"ratio": "many"}, "must be a number"),
        ({"ratio": 1e308 * 10}, "must be a finite number"),
        ({"ratio": "1e309"}, "must be a number of sensible size"),
        ({"price": True}, "must be a number"),
        ({"price": "abc"}, "must be a number"),
        ({"price": "NaN"}, "must be a number"),
        ({"price": "1_0"}, "must be a number"),
        ({"price": "٥"}, "must be a number"),
        ({"name__icontains": "x" * 1_001}, "at most 1000 characters"),
        ({"price": "1e999"}, "must be a number of sensible size"),
        ({"ratio": float("inf")}, "must be a finite number"),
        ({"is_made_here": 1}, "must be true or false"),
        ({"status": "gone"}, "must be one of active, on hold"),
        ({"made_on": "31.5.2024"}, "must be a date such as"),
        ({"made_on": 20240531}, "must be a date such as"),
        ({"made_at": "yesterday"}, "must be a date and time"),
        ({"made_at": "0001-01-01T00:00:00+10:00"}, "between the years"),
        ({"packed_at": "8:30:00Z"}, "must be a time"),
        ({"packed_at": "08:30:00Z"}, "must be a time without zone"),
        ({"serial": "7"}, "must be a UUID"),
        ({"price__isnull": "yes"}, "must be true or false"),
        ({"price__isnull": None}, "must be true or false"),
        ({"material__isnull": 1}, "must be true or false"),
    ],
)
async def test_values_that_do_not_fit_are_refused_naming_the_filter(
    names: Names, filters: JsonObject, message: str
) -> None:
    [key] = filters
    with pytest.raises(ToolRetry, match=message) as refused:
        await names("Part", **filters)
    assert key in str(refused.value)


async def test_the_number_of_hops_and_conditions_is_bounded(query: Query) -> None:
    with pytest.raises(ToolRetry, match="at most 5 relations"):
        await query("Project", filters={"parent__" * 6 + "code": "APO"})
    many: JsonObject = {f"name__{n}": "x" for n in range(MAX_CONDITIONS + 1)}
    with pytest.raises(ToolRetry, match="at most 50 conditions"):
        await query("Project", filters=many)
    assert (await query("Project", filters={"parent__" * 5 + "code": "APO"}))["data"] == []


ALL = ["Bolt", "Bearing", "Gear", "100%_Nut", "Straße", "Zahn"]


COMBINED: list[tuple[JsonObject, list[str]]] = [
    ({"id__in": []}, []),
    ({"or": []}, []),
    ({"and": []}, ALL),
    ({"not": {}}, []),
    ({"not": {"id__in": []}}, ALL),
    ({"or": [{}]}, ALL),
    ({"or": [{"name": "Bolt"}, {"stock": 7}]}, ["Bolt", "Gear"]),
    ({"or": [{"name": "Bolt", "stock": 7}]}, []),
    ({"or": [{"stock": 7}, {"stock": 5}], "name": "Bolt"}, ["Bolt"]),
    ({"and": [{"name__startswith": "B"}, {"stock": 0}]}, ["Bearing"]),
    ({"not": {"name__in": ["Bolt", "Gear"]}}, ["Bearing", "100%_Nut", "Straße", "Zahn"]),
    # What has no price is not dearer than anything, so it is among all others.
    ({"not": {"price__gt": 2}}, ["Bolt", "100%_Nut", "Straße", "Zahn"]),
    ({"not": {"material__name": "Aluminum"}}, ["Bolt", "Gear", "100%_Nut"]),
    ({"not": {"not": {"name": "Bolt"}}}, ["Bolt"]),
    ({"not": {"projects__owner": "grace"}}, ["Gear", "Straße", "Zahn"]),
    (
        {"or": [{"projects__isnull": True}, {"supplier__isnull": True}]},
        ["Gear", "100%_Nut", "Straße", "Zahn"],
    ),
]


@pytest.mark.covers("H44", "P45")
@pytest.mark.parametrize(("filters", "expected"), COMBINED)
async def test_filters_combine(names: Names, filters: JsonObject, expected: list[str]) -> None:
    assert await names("Part", **filters) == expected


WRAPS: list[Callable[[JsonObject], JsonObject]] = [
    lambda f: {"not": f},
    lambda f: {"or": [f]},
    lambda f: {"and": [{"not": {"or": [f]}}]},
]


@pytest.mark.covers("H31")
@pytest.mark.parametrize("wrap", WRAPS)
async def test_a_hidden_field_can_be_named_at_no_depth(
    query: Query, wrap: Callable[[JsonObject], JsonObject]
) -> None:
    pairs: list[tuple[JsonObject, JsonObject]] = [
        ({"cost": 1}, {"ctos": 1}),
        ({"cost__gt": 5}, {"ctos__gt": 5}),
        ({"supplier__bank_account__startswith": "D"}, {"supplier__bnak_account__startswith": "D"}),
        ({"supplier__parts__cost": 1}, {"supplier__parts__ctos": 1}),
    ]
    for hidden, unknown in pairs:
        told: list[str] = []
        for filters in (hidden, unknown):
            with pytest.raises(ToolRetry) as refused:
                await query("Part", filters=wrap(filters))
            text = str(refused.value)
            told.append(text.replace("ctos", "cost").replace("bnak_account", "bank_account"))
        assert told[0] == told[1]


NOT_COMBINED: list[tuple[JsonObject, str]] = [
    ({"or": {"name": "Bolt"}}, "^Filter or: must be a list of filters"),
    ({"or": "x"}, "^Filter or: must be a list of filters"),
    ({"and": [5]}, "^Filter and: must be a list of filters"),
    ({"or": None}, "^Filter or: must be a list of filters"),
    ({"not": [{"name": "Bolt"}]}, "^Filter not: must be a filter"),
    ({"not": None}, "^Filter not: must be a filter"),
    ({"or": [{"stock": "many"}]}, "^Filter stock: the value must be an integer"),
    ({"not": {"name": None}}, "^Filter name: null is asked for with name__isnull"),
    ({"or": [{} for _ in range(51)]}, "at most 50 conditions"),
    ({"or": [{"name": "a"} for _ in range(30)]}, "at most 50 conditions"),
]


@pytest.mark.parametrize(("filters", "message"), NOT_COMBINED)
async def test_combinations_that_do_not_fit_are_refused(
    query: Query, filters: JsonObject, message: str
) -> None:
    with pytest.raises(ToolRetry, match=message):
        await query("Part", filters=filters)


async def test_combinations_are_bounded_in_depth(names: Names) -> None:
    deep: JsonObject = {"name": "Bolt"}
    for _ in range(4):
        deep = {"not": deep}
    assert await names("Part", **deep) == ["Bolt"]
    for nested in (_nested("or", 6), _nested("not", 6), _nested("or", 900), _nested("not", 900)):
        with pytest.raises(ToolRetry, match="nested 5 deep"):
            await names("Part", **nested)


def _nested(key: str, depth: int) -> JsonObject:
    filters: JsonObject = {"name": "Bolt"}
    for _ in range(depth):
        filters = {key: [filters] if key == "or" else filters}
    return filters


async def test_a_list_is_no_boolean_though_its_length_is_equal_to_one(names: Names) -> None:
    for is_null, as_long in ((True, ["x"]), (False, [])):
        await names("Part", price__isnull=is_null)
        with pytest.raises(ToolRetry, match="the value must be true or false"):
            await names("Part", price__isnull=as_long)


async def test_a_value_of_another_shape_is_checked_again(names: Names) -> None:
    assert await names("Part", stock=5) == ["Bolt"]
    assert await names("Part", **{"or": [{"stock": 5}]}) == ["Bolt"]
    assert await names("Part", **{"or": [{"stock": 7}]}) == ["Gear"]
    with pytest.raises(ToolRetry, match="must be an integer"):
        await names("Part", stock="many")
    assert await names("Part", stock=7) == ["Gear"]


@pytest.mark.covers("P45")
async def test_a_moment_without_a_zone_is_in_the_zone_of_the_desk(shop_url: str) -> None:
    def seen(actor: Actor) -> object:
        return {"made_at__lt": "2024-05-31T14:00:01"}  # a developer's is in UTC

    managers = Managers()
    managers.expose(Part, visible=seen)
    zone = ZoneInfo("Pacific/Auckland")  # 14:00 on May 31 in UTC is 02:00 on June 1
    async with Reader(managers, database_url=shop_url, timezone=zone) as reader:
        view = await reader.view(ADA)
        day: JsonObject = {"made_at__gte": "2024-06-01", "made_at__lt": "2024-06-02"}
        page = await reader.query(QueryRequest("Part", ["name"], day), view)
        assert page["data"] == [{"name": "100%_Nut"}]
        groups = await reader.aggregate(AggregateRequest("Part", day, ["made_at__day"]), view)
        assert groups["data"] == [{"made_at__day": 1, "count": 1}]
        last: JsonObject = {"op": "max", "field": "made_at"}
        for having, count in (("2024-06-01T02:00", 1), ("2024-06-01T02:01", 0)):
            held: JsonObject = {"max_made_at__gte": having}
            request = AggregateRequest("Part", measures=[last], having=held)
            assert (await reader.aggregate(request, view))["total_count"] == count
