"""Search, descriptions and paths over what is exposed."""

import sys
import time
from collections.abc import Sequence
from dataclasses import replace

import pytest

from schema import Managers, ToolContext
from schema.events import Json, JsonObject
from schema.graphql import QueryRequest, graphql_schema, managers_of
from schema.index import SchemaIndex
from schema.managers import Link, Manager
from schema.query import Reader
from tests.schema.conftest import exposed
from tests.schema.shop import Material, Part, Project, ProjectPart

URL = "sqlite+aiosqlite:///nowhere.db"


@pytest.fixture(scope="module")
def index() -> SchemaIndex:
    return Reader(exposed(), database_url=URL).index


def found(index: SchemaIndex, query: str) -> list[tuple[Json, Json]]:
    results = index.search(query)
    return [(r["manager"], r["reason"]) for r in results if isinstance(r, dict)]


@pytest.mark.covers("C7-15")
@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("part", ("Part", "name")),
        ("PARTS", ("Part", "name")),
        ("the components we make", ("Part", "alias")),
        ("project parts", ("ProjectPart", "name")),
        ("ProjectPart", ("ProjectPart", "name")),
        ("who are our suppliers", ("Supplier", "name")),
        ("density", ("Material", "field")),
        ("inventory", ("Part", "description")),
        ("companies", ("Supplier", "description")),
        ("prices in stock", ("Part", "field")),
        ("children", ("Project", "relation")),
    ],
)
def test_the_best_manager_comes_first_and_says_why(
    index: SchemaIndex, query: str, first: tuple[str, str]
) -> None:
    assert found(index, query)[0] == first


@pytest.mark.covers("C7-15")
@pytest.mark.parametrize("query", ["art", "vehicles", "VehicleManager", "stee", "", " ", "?!"])
def test_words_that_are_nowhere_find_nothing(index: SchemaIndex, query: str) -> None:
    assert found(index, query) == []


@pytest.mark.parametrize(
    "query", ["What data do you have access to?", "list all managers", "what can I ask about"]
)
def test_generic_words_list_the_catalogue(index: SchemaIndex, query: str) -> None:
    names = ["Box", "Material", "Part", "Project", "ProjectPart", "Shelf", "Supplier"]
    assert found(index, query) == [(name, "catalogue") for name in names]
    assert all(r["score"] == 0 for r in index.search(query) if isinstance(r, dict))


def test_a_result_is_short_and_complete(index: SchemaIndex) -> None:
    [best, *_] = index.search("materials")
    assert best == {
        "manager": "Material",
        "description": "Materials used in manufacturing.",
        "score": 1.0,
        "reason": "name",
        "fields": ["id", "name", "density"],
        "relations": [{"name": "parts", "target": "Part", "many": True}],
    }


def test_scores_fall_and_the_order_is_deterministic(index: SchemaIndex) -> None:
    query = "which projects use parts of aluminum material from a supplier"
    results = index.search(query)
    scores = [r["score"] for r in results if isinstance(r, dict)]
    assert all(isinstance(s, float) and 0 < s <= 1 for s in scores)
    assert scores == sorted(scores, key=str, reverse=True)
    assert index.search(query) == results


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("Which projects use aluminum parts?", "Project"),
        ("Which parts do projects use?", "Project"),
        ("how many parts of the projects", "Project"),
        ("quantity of the parts in a project", "ProjectPart"),
        ("rows of project_part", "ProjectPart"),
        ("show the project parts, by part", "ProjectPart"),
    ],
)
def test_a_name_joined_of_other_names_ranks_first_only_when_it_is_said(
    query: str, first: str
) -> None:
    managers = Managers()
    managers.expose(Material)
    managers.expose(Part)
    managers.expose(Project, use_when="projects and the parts they use")
    managers.expose(ProjectPart, aliases=("bill of materials",))
    assert found(Reader(managers, database_url=URL).index, query)[0][0] == first


def test_a_word_of_a_managers_name_counts_though_it_is_common() -> None:
    managers = Managers()
    managers.expose(Part, name="Store")
    managers.expose(Material, name="Record")
    index = Reader(managers, database_url=URL).index
    assert found(index, "all stores") == [("Store", "name")]
    assert found(index, "how many records are there") == [("Record", "name")]


def test_a_common_word_inside_a_name_does_not_count() -> None:
    managers = Managers()
    managers.expose(Part)
    managers.expose(ProjectPart, name="Usage", aliases=("bill of materials",))
    index = Reader(managers, database_url=URL).index
    assert found(index, "stock of parts")[0] == ("Part", "name")
    assert found(index, "of") == [("Part", "catalogue"), ("Usage", "catalogue")]


def test_a_description_tells_everything_that_may_be_asked(index: SchemaIndex) -> None:
    described = index.describe("part")
    fields = described.pop("fields")
    assert isinstance(fields, list)
    assert fields[1] == {
        "name": "name",
        "type": "string",
        "nullable": False,
        "description": "What the part is called",
    }
    assert fields[7] == {
        "name": "status",
        "type": "enum",
        "nullable": False,
        "description": "",
        "choices": ["active", "on hold"],
    }
    assert [f["name"] for f in fields if isinstance(f, dict)][-2:] == ["material_id", "supplier_id"]
    lookups = described.pop("lookups")
    assert isinstance(lookups, dict)
    ranges = ["ne", "in", "gt", "gte", "lt", "lte"]
    parts = ["contains", "icontains", "startswith", "endswith"]
    assert lookups["string"] == [*ranges, *parts, "isnull"]
    assert lookups["json"] == ["isnull"]
    relations = described.pop("relations")
    assert isinstance(relations, list)
    assert relations[:2] == [
        {
            "name": "material",
            "target": "Material",
            "many": False,
            "nullable": True,
            "description": "What the part is made of",
        },
        {
            "name": "supplier",
            "target": "Supplier",
            "many": False,
            "nullable": True,
            "description": "",
        },
    ]
    assert described == {
        "found": True,
        "manager": "Part",
        "description": "Inventory parts catalog.",
        "use_when": "stock and prices",
        "aliases": ["component"],
        "primary_key": ["id"],
    }
    assert index.describe("Payroll") == {"found": False}


def test_a_key_that_can_not_be_null_says_so(index: SchemaIndex) -> None:
    relations = index.describe("ProjectPart")["relations"]
    assert isinstance(relations, list)
    assert [r["nullable"] for r in relations if isinstance(r, dict)] == [False, False]
    assert index.describe("ProjectPart")["primary_key"] == ["project_code", "part_id"]


@pytest.mark.covers("C7-16")
def test_paths_are_shortest_and_can_be_selected(index: SchemaIndex) -> None:
    assert index.find_path("Part", "Part") == {"found": True, "hops": []}
    assert index.find_path("project", "material") == {
        "found": True,
        "hops": [
            {"from": "Project", "field": "parts", "to": "Part", "many": True},
            {"from": "Part", "field": "material", "to": "Material", "many": False},
        ],
    }
    assert index.find_path("Material", "Project") == {
        "found": True,
        "hops": [
            {"from": "Material", "field": "parts", "to": "Part", "many": True},
            {"from": "Part", "field": "projects", "to": "Project", "many": True},
        ],
    }


@pytest.mark.covers("C7-16")
def test_no_path_and_unknown_managers_are_told_apart(index: SchemaIndex) -> None:
    nothing: JsonObject = {"found": False, "hops": []}
    assert index.find_path("Part", "Shelf") == {**nothing, "reason": "no_path"}
    assert index.find_path("Part", "Payroll") == {**nothing, "reason": "unknown_manager"}
    assert index.find_path("Nothing", "Part") == {**nothing, "reason": "unknown_manager"}


async def test_a_view_has_the_managers_in_order_of_name(context: ToolContext) -> None:
    names = ["Box", "Material", "Part", "Project", "ProjectPart", "Shelf", "Supplier"]
    assert [*context.view.managers] == names
    assert [manager.name for manager in context.view.managers.values()] == names


def synthetic(count: int) -> list[Manager]:
    """Managers in a ring, each with the columns of a part and a relation to the next."""
    managers = Managers()
    managers.expose(Material)
    managers.expose(Part)
    part = next(m for m in managers.build() if m.name == "Part")
    next_one = part.links["material"].relation
    names = [f"Synthetic{n:03}Part" for n in range(count)]
    return [
        replace(
            part,
            name=name,
            description="One of the catalogue of parts",
            links={"next": Link(next_one, names[(n + 1) % count])},
        )
        for n, name in enumerate(names)
    ]


def test_search_and_index_of_a_thousand_managers_are_fast() -> None:
    managers = synthetic(1000)
    start = time.process_time()
    index = SchemaIndex(managers)
    built = time.process_time() - start
    start = time.process_time()
    for _ in range(20):
        assert len(index.search("catalogue of parts with name, price and stock")) == 10
    searched = (time.process_time() - start) / 20
    path = index.find_path("Synthetic000Part", "Synthetic007Part")["hops"]
    assert isinstance(path, list)
    assert len(path) == 7
    # Far above the figures of an idle machine: this finds a wrong order of growth, not noise.
    assert (built < 3, searched < 0.05) == (True, True)


def test_a_long_chain_of_relations_does_not_exhaust_the_stack() -> None:
    async def nobody(request: QueryRequest, context: object) -> Sequence[Json]:
        return []

    limit = sys.getrecursionlimit()
    schema = graphql_schema(synthetic(limit), nobody)
    assert len(SchemaIndex(managers_of(schema)).managers) == limit
