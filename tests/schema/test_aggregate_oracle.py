"""Aggregates agree with plain Python over the same rows, on both databases."""

import random
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_HALF_EVEN, Decimal, localcontext
from fractions import Fraction
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.orm import registry
from sqlmodel import Field, Relationship, SQLModel

from schema import Managers
from schema.aggregates import AggregateRequest
from schema.events import Actor, Json, JsonObject
from schema.query import Reader
from tests.schema.conftest import ADA

NEW_YORK = ZoneInfo("America/New_York")
SCALE = Decimal("0.001")


class League(SQLModel, registry=registry(metadata=sa.MetaData())):
    pass


class Team(League, table=True):
    id: int = Field(primary_key=True)
    name: str | None = None
    is_secret: bool = False


class Game(League, table=True):
    id: int = Field(primary_key=True)
    label: str | None = None
    goals: int = 0
    points: int | None = Field(default=None, sa_type=sa.BigInteger)
    price: Decimal | None = Field(default=None, max_digits=15, decimal_places=3)
    ratio: float | None = None
    started_at: datetime | None = None
    day: date | None = None
    is_shown: bool = True
    team_id: int | None = None

    # No database constraint: teams may be gone.
    team: Team | None = Relationship(
        sa_relationship_kwargs={"primaryjoin": "foreign(Game.team_id) == Team.id"}
    )


Row = dict[str, object]


@dataclass
class World:
    reader: Reader
    engine: AsyncEngine

    async def store(self, rows: dict[type[SQLModel], list[Row]]) -> None:
        async with self.engine.begin() as connection:
            for model in (Game, Team):
                await connection.execute(sa.delete(model))
            for model in (Team, Game):
                if rows[model]:
                    await connection.execute(sa.insert(model), rows[model])

    async def ask(self, **asked: Json) -> JsonObject:
        # Tests give what the tool would.
        request = AggregateRequest("Game", **asked)  # pyright: ignore[reportArgumentType]
        page = await self.reader.aggregate(request, await self.reader.view(ADA))
        page.pop("result_id")
        return page


def open_teams(_: Actor) -> object:
    return {"is_secret": False}


def shown_games(_: Actor) -> object:
    return {"is_shown": True}


@asynccontextmanager
async def opened(url: str) -> AsyncGenerator[World]:
    engine = create_async_engine(url)
    async with engine.begin() as connection:
        await connection.run_sync(League.metadata.create_all)
    managers = Managers()
    managers.expose(Team, visible=open_teams)
    managers.expose(Game, visible=shown_games)
    async with Reader(managers, database_url=url, timezone=NEW_YORK) as reader:
        yield World(reader, engine)
    await engine.dispose()


@pytest.fixture
async def world(
    dialect: str, tmp_path: Path, request: pytest.FixtureRequest
) -> AsyncGenerator[World]:
    url = f"sqlite+aiosqlite:///{tmp_path / 'league.db'}"
    if dialect == "postgres":
        url = str(request.getfixturevalue("postgres_url"))
    async with opened(url) as world:
        yield world


# --- what is asked --------------------------------------------------------------------------------

texts = st.none() | st.text("aBß😀é", max_size=2)
whole = st.integers(-3, 3) | st.sampled_from([2**53 + 1, 2**62, 2**63 - 1, -(2**63)])
prices = st.integers(-3000, 3000) | st.sampled_from([999_999_999_999, -999_999_999_999])
halves = st.sampled_from([0.5, -1.25, 3.0, 2.0**-10])  # their sums need no rounding
moments = st.sampled_from(
    [
        datetime(2023, 12, 31, 23, 30, tzinfo=UTC),
        datetime(2024, 3, 10, 6, 59, 59, 999_999, tzinfo=UTC),
        datetime(2024, 3, 10, 7, 0, tzinfo=UTC),
        datetime(2024, 11, 3, 5, 30, tzinfo=UTC),
        datetime(2024, 11, 3, 6, 30, tzinfo=UTC),
        datetime(2027, 1, 4, 3, 0, tzinfo=UTC),
    ]
)
days = st.integers(0, 1_500).map(lambda days: date(2023, 12, 25) + timedelta(days))

teams = st.lists(st.tuples(texts, st.booleans()), max_size=3).map(
    lambda found: [
        {"id": n, "name": name, "is_secret": secret} for n, (name, secret) in enumerate(found, 1)
    ]
)
games = st.lists(
    st.fixed_dictionaries(
        {
            "label": texts,
            "goals": st.integers(0, 3),
            "points": st.none() | whole,
            "price": st.none() | prices.map(lambda units: units * SCALE),
            "ratio": st.none() | halves,
            "started_at": st.none() | moments,
            "day": st.none() | days,
            "is_shown": st.sampled_from([True, True, True, False]),
            "team_id": st.none() | st.integers(1, 3),
        }
    ),
    max_size=9,
)

PARTS: dict[str, Callable[[date], int]] = {
    "year": lambda day: day.year,
    "quarter": lambda day: (day.month + 2) // 3,
    "month": lambda day: day.month,
    "week": lambda day: day.isocalendar().week,
    "day": lambda day: day.day,
}
GROUPS = [
    "label", "points", "price", "day", "team__name", "started_at", "started_at__hour",
    *(f"{field}__{part}" for field in ("started_at", "day") for part in PARTS),
]  # fmt: skip
NUMBERS = ("goals", "points", "price", "ratio")
MEASURES = [
    "count", "count_label", "count_team__id", "count_distinct_label", "count_distinct_price",
    "count_distinct_team__name", "max_team__name", "min_label", "min_day", "max_started_at",
    *(f"{op}_{field}" for op in ("sum", "avg", "min", "max") for field in NUMBERS),
]  # fmt: skip


OPS = ("count_distinct", "count", "sum", "avg", "min", "max")


def measure(key: str) -> Json:
    if key == "count":
        return {"op": "count"}
    op = next(op for op in OPS if key.startswith(f"{op}_"))
    return {"op": op, "field": key.removeprefix(f"{op}_")}


@dataclass(frozen=True)
class Condition:
    key: str
    lookup: str
    value: Json


lookups = st.sampled_from(["", "ne", "gt", "gte", "lt", "lte"])


def wanted(key: str) -> st.SearchStrategy[Condition]:
    """Conditions on a measure or field, of values that it may well have."""
    value: st.SearchStrategy[Json]
    if key.startswith("count"):
        value = st.integers(0, 3)
    elif "price" in key:
        value = prices.map(lambda units: str(units * SCALE))
    elif "ratio" in key or key in ("avg_points", "avg_goals"):
        value = st.sampled_from([0.5, 3.0, -1.25, 1.0, 2.0**62])
    elif "points" in key or "goals" in key:
        value = whole
    elif key in ("min_day", "max_started_at"):
        return is_null(key)
    else:
        value = st.text("aBß", max_size=1)
    one = st.builds(Condition, st.just(key), lookups, value)
    several = st.builds(Condition, st.just(key), st.just("in"), st.lists(value, max_size=2))
    return one | several | is_null(key)


def is_null(key: str) -> st.SearchStrategy[Condition]:
    return st.builds(Condition, st.just(key), st.just("isnull"), st.booleans())


conditions = st.lists(
    st.sampled_from(["label", "goals", "price", "team__name", "ratio"]).flatmap(wanted), max_size=2
)


@dataclass(frozen=True)
class Asked:
    filters: list[Condition]
    groups: list[str]
    measures: list[str]
    having: list[Condition]
    either: list[Condition] | None
    order: list[str]
    limit: int
    offset: int


@st.composite
def questions(draw: st.DrawFn) -> Asked:
    groups = draw(st.lists(st.sampled_from(GROUPS), max_size=2, unique=True))
    measures = draw(st.lists(st.sampled_from(MEASURES), min_size=1, max_size=4, unique=True))
    of_measures = st.lists(st.sampled_from(measures).flatmap(wanted), max_size=2)
    keys = st.lists(st.sampled_from([*groups, *measures]), max_size=2, unique=True)
    return Asked(
        draw(conditions),
        groups,
        measures,
        draw(st.just([]) | of_measures),
        draw(st.none() | of_measures),
        [draw(st.sampled_from(["", "-"])) + key for key in draw(keys)],
        draw(st.integers(1, 4)),
        draw(st.integers(0, 3)),
    )


def named(conditions: list[Condition]) -> JsonObject:
    return {f"{c.key}__{c.lookup}".removesuffix("__"): c.value for c in conditions}


def unique(conditions: list[Condition]) -> list[Condition]:
    """What is left of conditions as keys of an object: the last of each."""
    return [*{(c.key, c.lookup): c for c in conditions}.values()]


# --- plain Python ---------------------------------------------------------------------------------


def value_at(game: Row, path: str, teams: list[Row]) -> object:
    if path.startswith("team__"):
        open_teams = {t["id"]: t for t in teams if not t["is_secret"]}
        team = open_teams.get(game["team_id"])
        return team and team[path.removeprefix("team__")]
    field, _, part = path.partition("__")
    value = game[field]
    if not part or value is None:
        return value
    assert isinstance(value, date)
    if isinstance(value, datetime):
        value = value.astimezone(NEW_YORK)
        if part == "hour":
            return value.hour
    return PARTS[part](value)


def measured(key: str, rows: list[Row], teams: list[Row]) -> object:
    if key == "count":
        return len(rows)
    asked = measure(key)
    assert isinstance(asked, dict)
    values = [value_at(row, str(asked["field"]), teams) for row in rows]
    found = [value for value in values if value is not None]
    match asked["op"]:
        case "count":
            return len(found)
        case "count_distinct":
            return len({*found})
        case "min" | "max":
            in_order = sorted(found, key=sort_key)
            return in_order[0 if asked["op"] == "min" else -1] if found else None
        case op:
            return total_or_mean(found, is_mean=op == "avg")


def total_or_mean(found: Sequence[object], *, is_mean: bool) -> object:
    numbers = [value for value in found if isinstance(value, int | float | Decimal)]
    if not numbers:
        return None
    total = sum((Fraction(number) for number in numbers), Fraction())
    mean = total / len(numbers)
    match numbers[0]:
        case int():
            return float(mean) if is_mean else int(total)
        case float():
            return float(total) / len(numbers) if is_mean else float(total)
        case Decimal():
            digits = 9 if is_mean else 3
            with localcontext(prec=60):
                return Decimal(round((mean if is_mean else total) * 10**digits)).scaleb(-digits)


def sort_key(value: object) -> Decimal | str:
    match value:
        case str():
            return value
        case int() | float() | Decimal():
            return Decimal(value)
        case datetime():
            return Decimal(value.timestamp())
        case date():
            return Decimal(value.toordinal())
        case _:
            raise TypeError(value)


def holds(value: object, condition: Condition) -> bool:
    return compare(value, condition.lookup, condition.value)


def compare(value: object, lookup: str, asked: Json) -> bool:
    """One comparison as SQL has it: only ``isnull`` and ``ne`` are true of a missing value."""
    if lookup == "isnull":
        return (value is None) is asked
    if lookup == "in":
        return isinstance(asked, list) and any(compare(value, "", one) for one in asked)
    if value is None:
        return lookup == "ne"
    if isinstance(value, str):
        order = (value > str(asked)) - (value < str(asked))
    else:
        number, other = sort_key(value), Decimal(str(asked))
        assert isinstance(number, Decimal)
        order = (number > other) - (number < other)
    return {
        "": order == 0,
        "ne": order != 0,
        "gt": order > 0,
        "gte": order >= 0,
        "lt": order < 0,
        "lte": order <= 0,
    }[lookup]


def on_wire(value: object, key: str) -> Json:
    match value:
        case Decimal() if key.startswith("avg"):
            text = format(value, "f")
            return text.rstrip("0").rstrip(".") if "." in text else text
        case Decimal():
            return format(value.quantize(SCALE, ROUND_HALF_EVEN), "f")
        case int():
            return value if abs(value) < 2**53 else str(value)
        case date():
            return value.isoformat()
        case None | float() | str():
            return value
        case _:
            raise TypeError(value)


def in_order(rows: list[Row], orders: list[str]) -> list[Row]:
    """Sort by each key, the last one first; missing values come last in both directions."""
    for order in reversed(orders):
        key = order.removeprefix("-")
        present = sorted(
            (row for row in rows if row[key] is not None),
            key=lambda row, key=key: sort_key(row[key]),
            reverse=order.startswith("-"),
        )
        rows = present + [row for row in rows if row[key] is None]
    return rows


def answer(games: list[Row], teams: list[Row], asked: Asked) -> JsonObject:
    rows = [
        game
        for game in games
        if game["is_shown"] and all(holds(value_at(game, c.key, teams), c) for c in asked.filters)
    ]
    groups: dict[tuple[object, ...], list[Row]] = {} if asked.groups else {(): []}
    for row in rows:
        groups.setdefault(tuple(value_at(row, path, teams) for path in asked.groups), []).append(
            row
        )
    found = [
        dict(zip(asked.groups, key, strict=True))
        | {m: measured(m, members, teams) for m in asked.measures}
        for key, members in groups.items()
    ]
    found = [row for row in found if all(holds(row[c.key], c) for c in asked.having)]
    if asked.either is not None:
        found = [row for row in found if any(holds(row[c.key], c) for c in asked.either)]
    given = {order.removeprefix("-") for order in asked.order}
    found = in_order(found, [*asked.order, *(key for key in asked.groups if key not in given)])
    page = found[asked.offset : asked.offset + asked.limit]
    return {
        "data": [{key: on_wire(value, key) for key, value in row.items()} for row in page],
        "total_count": len(found),
        "has_more": len(found) > asked.offset + len(page),
    }


@settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(teams=teams, games=games, asked=questions())
async def test_aggregates_agree_with_plain_python(
    world: World, teams: list[Row], games: list[Row], asked: Asked
) -> None:
    games = [game | {"id": number} for number, game in enumerate(games, 1)]
    await world.store({Team: teams, Game: games})
    having = named(asked.having)
    if asked.either is not None:
        having["or"] = [named([condition]) for condition in asked.either]
    filters = named(asked.filters)
    asked = replace(asked, filters=unique(asked.filters), having=unique(asked.having))
    found = await world.ask(
        filters=filters,
        group_by=[*asked.groups],
        measures=[measure(key) for key in asked.measures],
        having=having,
        order_by=[*asked.order],
        limit=asked.limit,
        offset=asked.offset,
    )
    assert found == answer(games, teams, asked)


@pytest.mark.covers("P46")
async def test_a_thousand_random_sums_and_averages_are_exact(world: World) -> None:
    dice = random.Random(46)
    games: list[Row] = [
        {
            "id": number,
            "label": f"{number % 1_000:03}",
            "goals": 1,
            "points": dice.randint(-(2**63), 2**63 - 1) >> dice.choice([0, 0, 20, 55]),
            "price": dice.randint(-(10**15), 10**15) // dice.choice([1, 10**6, 10**11]) * SCALE,
            "ratio": None,
            "started_at": None,
            "day": None,
            "is_shown": True,
            "team_id": None,
        }
        for number in range(5_000)
        if dice.random() < 0.9
    ]
    await world.store({Team: [], Game: games})
    keys = ["count", "sum_points", "avg_points", "sum_price", "avg_price"]
    asked = Asked([], ["label"], keys, [], None, ["-sum_price", "sum_points"], 200, 0)
    for offset in range(0, 1_000, 200):
        found = await world.ask(
            group_by=["label"],
            measures=[measure(key) for key in keys],
            order_by=[*asked.order],
            offset=offset,
        )
        assert found == answer(games, [], replace(asked, offset=offset))
