"""Values of Tortoise models on both databases, as Tortoise itself gives and stores them."""

import enum
import sqlite3
from collections.abc import AsyncIterator
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import cast
from uuid import UUID

import pytest
from tortoise import fields
from tortoise.context import TortoiseContext, require_context
from tortoise.models import Model

from schema.aggregates import AggregateRequest
from schema.errors import ConfigurationError
from schema.events import Json, JsonObject
from schema.tortoise_source import TortoiseSource
from tests.schema import tortoise_shop
from tests.schema.conftest import on_sqlite
from tests.schema.tortoise_desk import Apps, Shop, module_of, opened
from tests.schema.tortoise_shop import Drawing, Material, Part, Project, ProjectPart, Supplier


@pytest.fixture
def url(dialect: str, tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """An empty database."""
    if dialect == "sqlite":
        return f"sqlite+aiosqlite:///{tmp_path / 'shop.db'}"
    return request.getfixturevalue("postgres_url")


async def fill_with_time() -> None:
    """Fill the shop; a time of day is stored as an adapter of sqlite3 would do it."""
    await tortoise_shop.fill()
    at = "'08:30:00+00:00'"
    await require_context().db().execute_script(f"UPDATE part SET packed_at = {at} WHERE id = 4")


@pytest.fixture
async def shop(url: str) -> AsyncIterator[Shop]:
    models = Drawing, Material, Part, Project, ProjectPart, Supplier
    async with opened(url, fill_with_time, tortoise_shop.APPS, *models) as shop:
        yield shop


def wire(value: object) -> object:
    """The wire form of a value that Tortoise gave."""
    match value:
        case bool() | float() | str():
            return value.value if isinstance(value, enum.Enum) else value
        case enum.Enum():
            return value.value if isinstance(value.value, str) else value.name
        case int():
            return value if abs(value) < 2**53 else str(value)
        case datetime():
            return value.astimezone(UTC).isoformat()
        case time():
            return value.replace(tzinfo=None).isoformat()
        case date():
            return value.isoformat()
        case dict():
            items = cast("dict[str, object]", value).items()  # as JSON has it
            return {name: wire(item) for name, item in items}
        case list():
            return [wire(item) for item in cast("list[object]", value)]  # as above
        case _:
            return value if value is None else str(value)


async def test_values_are_those_that_tortoise_gives(shop: Shop) -> None:
    parts = await shop.tell(lambda: Part.all().order_by("id"))
    names = [c.name for c in shop.source.describe(Part).columns]
    attributes = ["supplier_id" if name == "sold_by" else name for name in names]
    expected = [
        {n: wire(vars(part)[a]) for n, a in zip(names, attributes, strict=True)} for part in parts
    ]
    assert await shop.page("Part") == expected
    assert len(expected) == 6
    assert all(value is not None for name, value in expected[3].items() if name in dict(VALUES))


VALUES: list[tuple[str, Json]] = [
    ("id", 4),
    ("name", "100%_Nut"),
    ("stock", 2),
    ("ratio", 0.5),
    ("notes", tortoise_shop.NOTES),
    ("is_made_here", False),
    ("status", "on hold"),
    ("grade", "FINE"),
    ("made_on", "2024-05-31"),
    ("made_at", "2024-05-31T14:00:00.000250+00:00"),
    ("made_at", "2024-05-31T16:00:00.000250+02:00"),
    ("packed_at", "08:30:00"),
    ("serial", str(UUID(int=7))),
    ("cost", "9.90"),
    ("cost", 9.9),
]


@pytest.mark.parametrize(("field", "value"), VALUES)
async def test_a_value_that_is_shown_is_found(shop: Shop, field: str, value: Json) -> None:
    assert await shop.names({field: value}) == ["100%_Nut"]
    assert await shop.names({f"{field}__in": [value]}) == ["100%_Nut"]
    others = await shop.names({f"{field}__ne": value})
    assert len(others) == 5
    assert "100%_Nut" not in others


@pytest.mark.parametrize(
    ("field", "below", "above"),
    [
        ("made_at", "2024-05-31T14:00:00Z", "2024-05-31T14:00:00.000251Z"),
        ("made_on", "2024-05-30", "2024-06-01"),
        ("packed_at", "08:29:59.999", "08:30:00.001"),
        ("cost", "9.899", "9.901"),
        ("cost", "-100", "10"),
        ("ratio", 0.49, 0.51),
    ],
)
async def test_values_are_compared_by_what_they_mean(
    shop: Shop, field: str, below: Json, above: Json
) -> None:
    assert await shop.names({f"{field}__gt": below, f"{field}__lt": above}) == ["100%_Nut"]
    assert await shop.names({f"{field}__lte": below}) == []
    assert await shop.names({f"{field}__gte": above}) == []


@pytest.mark.parametrize("large", [2**31, -(2**31) - 1, 2**63 - 1])
async def test_a_number_too_large_for_a_column_is_just_not_there(shop: Shop, large: int) -> None:
    assert await shop.names({"stock": large}) == []


async def test_moments_stored_at_other_offsets_are_compared_as_moments(shop: Shop) -> None:
    east, west = timezone(timedelta(hours=2)), timezone(-timedelta(hours=9, minutes=30))
    moments = {
        1: datetime(2024, 5, 31, 16, 0, 0, 250, tzinfo=east),
        2: datetime(2024, 5, 31, 23, 30, tzinfo=west),
        3: datetime(2024, 5, 31, 23, 59, 59, 999999, tzinfo=east),
    }

    async def write() -> None:
        for number, moment in moments.items():
            await Part.filter(id=number).update(made_at=moment)

    await shop.tell(write)
    at = "2024-05-31T14:00:00.000250Z"
    assert await shop.names({"made_at": at}) == ["Bolt", "100%_Nut"]
    assert await shop.names({"made_at__gt": at}, "made_at") == ["Gear", "Bearing"]
    there: JsonObject = {"made_at__isnull": False}
    assert await shop.names(there, "-made_at", "id") == ["Bearing", "Gear", "Bolt", "100%_Nut"]
    shown = await shop.page("Part", fields=["made_at"], filters={"id": 2})
    assert shown == [{"made_at": "2024-06-01T09:00:00+00:00"}]
    count: Json = {"op": "count"}
    request = AggregateRequest("Part", there, ["made_at"], [count], limit=1)
    assert await shop.groups(request) == [{"made_at": f"{at[:-1]}+00:00", "count": 2}]
    request = AggregateRequest("Part", there, ["made_at__day"], [count])
    assert await shop.groups(request) == [
        {"made_at__day": 1, "count": 1},
        {"made_at__day": 31, "count": 3},
    ]
    measures: list[Json] = [
        {"op": op, "field": "made_at", "as": op} for op in ("min", "max", "count_distinct")
    ]
    assert await shop.groups(AggregateRequest("Part", there, measures=measures)) == [
        {"min": f"{at[:-1]}+00:00", "max": "2024-06-01T09:00:00+00:00", "count_distinct": 3}
    ]


async def test_decimals_are_compared_as_numbers(shop: Shop) -> None:
    async def write() -> None:
        for number, price in enumerate(("9.5", "100", "-2")):
            await Part.filter(id=number + 1).update(price=Decimal(price))

    await shop.tell(write)
    assert await shop.names({"price__lt": 10}, "price") == ["Gear", "Zahn", "Bolt"]
    assert await shop.names({"price": "9.500"}) == ["Bolt"]
    shown = await shop.page("Part", fields=["price"], filters={"price__gte": "9.5"})
    assert shown == [{"price": "9.50"}, {"price": "100.00"}]
    measures: list[Json] = [
        {"op": op, "field": "price", "as": op} for op in ("min", "max", "sum", "count_distinct")
    ]
    assert await shop.groups(AggregateRequest("Part", measures=measures)) == [
        {"min": "-2.00", "max": "100.00", "sum": "108.00", "count_distinct": 4}
    ]


async def test_choices_are_groups_by_their_names(shop: Shop) -> None:
    for field, rare, common in (("status", "on hold", "active"), ("grade", "FINE", None)):
        groups = await shop.groups(AggregateRequest("Part", group_by=[field]))
        assert sorted(groups, key=str) == sorted(
            [{field: rare, "count": 1}, {field: common, "count": 5}], key=str
        )


async def test_relations_of_every_kind_are_followed(shop: Shop) -> None:
    fields: list[Json] = [
        "code",
        {"parent": ["name"]},
        {"children": ["code"]},
        {"parts": ["name", {"material": ["name"]}, {"drawing": ["title"]}]},
        {"materials": ["name"]},
        {"rivals": ["code"]},
        {"rival_of": ["code"]},
    ]
    assert await shop.page("Project", fields=fields, filters={"code": "APO"}) == [
        {
            "code": "APO",
            "parent": None,
            "children": [{"code": "MER"}, {"code": "X'1"}],
            "parts": [
                {
                    "name": "Bolt",
                    "material": {"name": "Steel"},
                    "drawing": {"title": "Bolt, full size"},
                },
                {"name": "Gear", "material": {"name": "Cobalt"}, "drawing": None},
            ],
            "materials": [{"name": "Steel"}, {"name": "Cobalt"}],
            "rivals": [{"code": "MER"}],
            "rival_of": [],
        }
    ]
    assert await shop.names({"supplier__isnull": True, "sold_by__isnull": False}) == ["Gear"]
    assert await shop.names({"projects__rival_of__code": "APO"}) == ["Bolt", "Bearing"]


# --- times, and fields of a project's own ---------------------------------------------------------


NAIVE = datetime(2024, 7, 1, 12, 0, 0, 5)  # noqa: DTZ001  as a project without zones has it
EAST = datetime(2024, 7, 1, 14, 0, 0, 5, tzinfo=timezone(timedelta(hours=2)))


class Alarm(Model):
    id = fields.IntField(primary_key=True)
    rings_at = fields.DatetimeField()


class Loud(fields.CharField[str]):
    """Stores small letters, and gives capitals."""

    def to_db_value(self, value: object, instance: type[Model] | Model) -> str:
        return str(value).lower()

    def to_python_value(self, value: object) -> str:
        return str(value).upper()


class Hourly(fields.DatetimeField[datetime]):
    """Gives the beginning of the hour."""

    def to_python_value(self, value: object) -> datetime | None:
        moment = super().to_python_value(value)
        return moment and moment.replace(minute=0, second=0, microsecond=0)


class Odd(fields.Field[str], str):
    SQL_TYPE = "TEXT"


class Sign(Model):
    id = fields.IntField(primary_key=True)
    text = Loud(20)
    odd = Odd(default="odd")
    put_up = Hourly(default=EAST)


ALARMS: Apps = {"alarms": {"models": [module_of(Alarm)]}}
SIGNS: Apps = {"signs": {"models": [module_of(Sign)]}}


@pytest.fixture
def no_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tortoise keeps its settings of times in the environment, for the whole process."""
    monkeypatch.setenv("USE_TZ", "True")
    monkeypatch.setenv("TIMEZONE", "UTC")


async def ring(moment: datetime) -> None:
    await require_context().generate_schemas()
    await Alarm.create(id=1, rings_at=moment)


@pytest.mark.usefixtures("no_times")
@pytest.mark.parametrize(
    ("times", "moment"),
    [
        ({"use_tz": False}, NAIVE),
        ({"use_tz": False, "timezone": "Europe/Berlin"}, NAIVE),
        ({"timezone": "Europe/Berlin"}, EAST),
        ({"use_tz": True}, EAST),
    ],
)
async def test_moments_are_those_of_any_setting(
    url: str, times: dict[str, object], moment: datetime
) -> None:
    shown = "2024-07-01T12:00:00.000005+00:00"
    async with opened(url, lambda: ring(moment), ALARMS, Alarm, **times) as shop:
        assert await shop.page("Alarm") == [{"id": 1, "rings_at": shown}]
        for found in (shown, "2024-07-01T12:00:00.000005", "2024-07-01T08:00:00.000005-04:00"):
            assert await shop.page("Alarm", fields=["id"], filters={"rings_at": found}) == [
                {"id": 1}
            ]
        later = "2024-07-01T12:00:00.000006Z"
        assert await shop.page("Alarm", fields=["id"], filters={"rings_at__lt": later}) == [
            {"id": 1}
        ]
        assert await shop.page("Alarm", fields=["id"], filters={"rings_at__gte": later}) == []


@pytest.mark.usefixtures("no_times")
@on_sqlite
async def test_a_moment_stored_without_a_zone_is_in_tortoises(url: str) -> None:
    async with opened(url, lambda: ring(EAST), ALARMS, Alarm) as shop:
        with sqlite3.connect(url.removeprefix("sqlite+aiosqlite:///")) as writer:
            writer.execute("UPDATE alarm SET rings_at = '2024-07-01 09:00:00'")
        shown = "2024-07-01T09:00:00+00:00"
        assert await shop.page("Alarm", filters={"rings_at": shown}) == [
            {"id": 1, "rings_at": shown}
        ]


@pytest.mark.usefixtures("no_times")
@on_sqlite
async def test_a_moment_stored_without_a_zone_is_read_in_the_zone_of_the_setting(url: str) -> None:
    zone = "Europe/Berlin"
    async with opened(url, lambda: ring(EAST), ALARMS, Alarm, timezone=zone) as shop:
        with sqlite3.connect(url.removeprefix("sqlite+aiosqlite:///")) as writer:
            writer.execute("UPDATE alarm SET rings_at = '2024-07-01 09:00:00'")
        shown = "2024-07-01T07:00:00+00:00"
        assert await shop.page("Alarm", filters={"rings_at": shown}) == [
            {"id": 1, "rings_at": shown}
        ]
        for earlier, found in (("06:59:59", 1), ("07:00:00", 0)):
            later: JsonObject = {"rings_at__gt": f"2024-07-01T{earlier}Z"}
            assert len(await shop.page("Alarm", filters=later)) == found
        by_hour = AggregateRequest("Alarm", group_by=["rings_at__hour"])
        assert await shop.groups(by_hour) == [{"rings_at__hour": 7, "count": 1}]


@pytest.mark.usefixtures("no_times")
@on_sqlite
async def test_a_text_that_is_no_moment_leaves_the_moments_beside_it_readable(url: str) -> None:
    async with opened(url, lambda: ring(EAST), ALARMS, Alarm, timezone="Europe/Berlin") as shop:
        with sqlite3.connect(url.removeprefix("sqlite+aiosqlite:///")) as writer:
            writer.execute("UPDATE alarm SET rings_at = '2024-07-01 09:00:00'")
            writer.execute("INSERT INTO alarm (id, rings_at) VALUES (2, 'soon')")
        in_order = await shop.page("Alarm", fields=["id"], order_by=["rings_at"])
        assert in_order == [{"id": 1}, {"id": 2}]
        shown = "2024-07-01T07:00:00+00:00"
        assert await shop.page("Alarm", filters={"rings_at": shown}) == [
            {"id": 1, "rings_at": shown}
        ]
        by_hour = AggregateRequest("Alarm", group_by=["rings_at__hour"])
        assert await shop.groups(by_hour) == [
            {"rings_at__hour": 7, "count": 1},
            {"rings_at__hour": None, "count": 1},
        ]


async def put_up() -> None:
    await require_context().generate_schemas()
    await Sign.create(id=1, text="Exit")
    await Sign.filter(id=1).update(put_up=EAST.replace(minute=59))


async def test_a_field_of_a_projects_own_converts_its_values(url: str) -> None:
    async with opened(url, put_up, SIGNS, Sign) as shop:
        assert shop.source.describe(Sign).unread == {"odd"}
        shown = {"id": 1, "text": "EXIT", "put_up": "2024-07-01T12:00:00+00:00"}
        assert await shop.page("Sign") == [shown]
        for name, moment in (("put_up__gt", "12:58"), ("put_up__lt", "13:00")):
            filters: JsonObject = {name: f"2024-07-01T{moment}Z"}
            assert await shop.page("Sign", fields=["id"], filters=filters) == [{"id": 1}]
        assert await shop.page("Sign", fields=["id"], filters={"text": "EXIT"}) == [{"id": 1}]


@pytest.mark.usefixtures("no_times")
@on_sqlite
async def test_times_other_than_those_of_the_host_are_refused(url: str) -> None:
    ours = TortoiseSource({"apps": ALARMS, "use_tz": False})
    async with TortoiseContext() as host:
        await host.init({"connections": {"default": "sqlite://:memory:"}, "apps": ALARMS})
        with pytest.raises(ConfigurationError, match=r"^E001: Tortoise is in use with use_tz=True"):
            async with ours.opened(url):
                pass
