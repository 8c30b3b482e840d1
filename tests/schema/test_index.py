"""Descriptions of what is exposed, and paths over it."""

import sys
import time
from collections.abc import Sequence
from dataclasses import replace

import pytest

from schema import ToolContext
from schema.events import Json, JsonObject
from schema.graphql import graphql_schema, managers_of
from schema.index import SchemaIndex
from schema.managers import Link, Manager
from schema.query import Reader
from schema.request import QueryRequest
from tests.schema.conftest import exposed

URL = "sqlite+aiosqlite:///nowhere.db"


@pytest.fixture(scope="module")
def index() -> SchemaIndex:
    return Reader(exposed(), database_url=URL).index


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


def managers_linked(links: dict[str, list[str]]) -> list[Manager]:
    """Managers with one relation to each of the named ones, in that order."""
    [part] = [manager for manager in exposed().build() if manager.name == "Part"]
    relation = part.links["material"].relation
    return [
        replace(
            part, name=name, links={f"to_{target}": Link(relation, target) for target in targets}
        )
        for name, targets in links.items()
    ]


def fields_of(path: JsonObject) -> list[Json]:
    hops = path["hops"]
    assert isinstance(hops, list)
    return [hop["field"] for hop in hops if isinstance(hop, dict)]


def test_of_paths_of_one_length_the_first_declared_is_taken() -> None:
    links = {"A": ["D", "C", "B"], "B": ["E"], "C": ["E"], "D": [], "E": ["F"], "F": []}
    for order in (list(links), list(reversed(links))):
        linked = managers_linked({name: links[name] for name in order})
        assert fields_of(SchemaIndex(linked).find_path("A", "F")) == ["to_C", "to_E", "to_F"]


def test_a_path_goes_round_in_no_circle() -> None:
    index = SchemaIndex(managers_linked({"A": ["A", "B"], "B": ["A"], "C": ["A"]}))
    assert fields_of(index.find_path("C", "B")) == ["to_A", "to_B"]
    assert index.find_path("A", "C") == {"found": False, "hops": [], "reason": "no_path"}


def test_an_index_holds_the_managers_it_was_given_and_no_others() -> None:
    everything = exposed().build()
    index = SchemaIndex(reversed([m for m in everything if m.name != "Material"]))
    assert [*index.managers] == ["Box", "Part", "Project", "ProjectPart", "Shelf", "Supplier"]
    assert index.find("material") is None
    assert index.describe("Material") == {"found": False}
    assert index.find_path("Part", "Material")["reason"] == "unknown_manager"
    first, *_ = index.search("material")
    assert isinstance(first, dict)
    assert first["manager"] != "Material"


def test_an_index_of_a_thousand_managers_is_made_fast() -> None:
    names = [f"M{n:03}" for n in range(1000)]
    managers = managers_linked({name: [names[n - 1]] for n, name in enumerate(names)})
    start = time.process_time()
    index = SchemaIndex(managers)
    assert len(fields_of(index.find_path("M999", "M000"))) == 999
    assert len(index.search("parts")) == 10
    # Far above the figure of an idle machine: this finds a wrong order of growth, not noise.
    assert time.process_time() - start < 3


def test_a_long_chain_of_relations_does_not_exhaust_the_stack() -> None:
    async def nobody(request: QueryRequest, context: object) -> Sequence[Json]:
        return []

    limit = sys.getrecursionlimit()
    names = [f"M{n}" for n in range(limit)]
    managers = managers_linked({name: [names[n - 1]] for n, name in enumerate(names)})
    schema = graphql_schema(managers, nobody)
    assert sorted(manager.name for manager in managers_of(schema)) == sorted(names)
