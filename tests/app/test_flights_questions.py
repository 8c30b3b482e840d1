"""Questions that people ask of the flights, answered by the tools as by SQL on the same file."""

import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import closing

import pytest
import sqlalchemy as sa
from sqlalchemy import event

from app.demo import flights
from schema import ToolContext
from schema.events import Actor, Json, JsonObject
from schema.query import Reader
from schema.tools import ToolRegistry, data_tools

Ask = Callable[..., Awaitable[JsonObject]]
Sql = Callable[[str], list[tuple[Json, ...]]]

ADA = Actor("user", "ada")


@pytest.fixture
async def ask(flights_url: str) -> AsyncIterator[Ask]:
    """Call a tool on the flights: ``await ask("aggregate", group_by=[...])``."""
    registry = ToolRegistry(data_tools())
    async with Reader(flights.managers, database_url=flights_url) as reader:
        context = ToolContext(ADA, await reader.view(ADA), reader)

        async def ask(tool: str, **args: Json) -> JsonObject:
            answer = await registry.call(tool, {"manager": "Flight", **args}, context)
            assert isinstance(answer, dict)
            return answer

        yield ask


@pytest.fixture
def sql(flights_url: str) -> Sql:
    """Ask the same file by hand."""

    def run(statement: str) -> list[tuple[Json, ...]]:
        with closing(sqlite3.connect(str(sa.make_url(flights_url).database))) as connection:
            return connection.execute(statement).fetchall()

    return run


@pytest.fixture
def statements() -> Iterator[list[str]]:
    """The statements that have run, those that begin and end transactions left out."""
    run = list[str]()

    def note(*given: object) -> None:
        if "SELECT" in str(given[2]):
            run.append(str(given[2]))

    event.listen(sa.Engine, "before_cursor_execute", note)
    yield run
    event.remove(sa.Engine, "before_cursor_execute", note)


def table(page: JsonObject) -> list[tuple[Json, ...]]:
    """The values of the rows, each in its order."""
    rows = page["data"]
    assert isinstance(rows, list)
    return [tuple(row.values()) for row in rows if isinstance(row, dict)]


async def test_flights_per_carrier(ask: Ask, sql: Sql) -> None:
    page = await ask("aggregate", group_by=["carrier"], order_by=["-count"])
    assert page["total_count"] == 16
    assert table(page)[0] == ("UA", 58_665)
    assert table(page) == sql(
        "SELECT carrier, count(*) FROM flight GROUP BY carrier ORDER BY 2 DESC, 1"
    )


async def test_the_average_departure_delay_from_jfk_in_july(ask: Ask, sql: Sql) -> None:
    page = await ask(
        "aggregate",
        filters={"origin": "JFK", "month": 7},
        measures=[{"op": "avg", "field": "dep_delay"}],
    )
    [(delay,)] = table(page)
    assert delay == pytest.approx(23.769, abs=0.001)
    assert [(delay,)] == sql("SELECT avg(dep_delay) FROM flight WHERE origin = 'JFK' AND month = 7")


async def test_the_five_longest_departure_delays_with_their_airlines(ask: Ask, sql: Sql) -> None:
    page = await ask(
        "query",
        fields=["dep_delay", "carrier", "flight", {"airline": ["name"]}],
        order_by=["-dep_delay"],
        limit=5,
    )
    assert table(page)[0] == (1301, "HA", 51, {"name": "Hawaiian Airlines Inc."})
    assert table(page) == [
        (delay, carrier, flight, {"name": name})
        for delay, carrier, flight, name in sql(
            "SELECT dep_delay, carrier, flight, name FROM flight JOIN airline USING (carrier)"
            " ORDER BY dep_delay DESC NULLS LAST, id LIMIT 5"
        )
    ]


async def test_cancelled_flights_per_month(ask: Ask, sql: Sql) -> None:
    page = await ask("aggregate", filters={"dep_time__isnull": True}, group_by=["month"])
    assert table(page)[1] == (2, 1_261)
    assert table(page) == sql(
        "SELECT month, count(*) FROM flight WHERE dep_time IS NULL GROUP BY month ORDER BY month"
    )


async def test_distinct_planes_per_airline(ask: Ask, sql: Sql) -> None:
    page = await ask(
        "aggregate",
        group_by=["airline__name"],
        measures=[{"op": "count_distinct", "field": "tailnum", "as": "planes"}],
        order_by=["-planes"],
    )
    assert table(page) == sql(
        "SELECT name, count(DISTINCT tailnum) FROM flight JOIN airline USING (carrier)"
        " GROUP BY name ORDER BY 2 DESC, 1"
    )


async def test_the_share_of_flights_over_1_000_miles_per_origin(ask: Ask, sql: Sql) -> None:
    long = await ask("aggregate", filters={"distance__gt": 1_000}, group_by=["origin"])
    every = await ask("aggregate", group_by=["origin"])
    pairs = zip(table(long), table(every), strict=True)
    assert [(origin, part, whole) for (origin, part), (_, whole) in pairs] == sql(
        "SELECT origin, count(*) FILTER (WHERE distance > 1000), count(*) FROM flight"
        " GROUP BY origin ORDER BY origin"
    )


async def test_the_hour_with_the_worst_mean_delay(ask: Ask, sql: Sql) -> None:
    page = await ask(
        "aggregate",
        group_by=["hour"],
        measures=[{"op": "avg", "field": "dep_delay", "as": "delay"}],
        order_by=["-delay"],
        limit=1,
    )
    assert page["total_count"] == 20
    assert table(page) == sql(
        "SELECT hour, avg(dep_delay) FROM flight GROUP BY hour ORDER BY 2 DESC LIMIT 1"
    )
    by_moment = await ask(
        "aggregate", group_by=["time_hour__hour"], order_by=["-time_hour__hour"], limit=1
    )
    assert table(by_moment) == sql(
        "SELECT CAST(substr(time_hour, 12, 2) AS INTEGER) AS utc, count(*) FROM flight"
        " GROUP BY utc ORDER BY utc DESC LIMIT 1"
    )


async def test_a_page_with_its_relations_takes_few_statements(
    ask: Ask, statements: list[str]
) -> None:
    names: dict[str, Json] = {"airline": ["name"], "plane": ["year"], "origin_airport": ["name"]}
    relations: list[Json] = [{name: fields} for name, fields in names.items()]
    page = await ask("query", limit=100, fields=["id", *relations, {"dest_airport": ["name"]}])
    rows = page["data"]
    assert isinstance(rows, list)
    assert len(rows) == 100
    assert all(isinstance(row, dict) and row["airline"] for row in rows)
    assert 1 <= len(statements) <= 5
