"""What is hidden changes nothing that is shown: not a row, a count, an order or an error's text."""

import json
import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager

import pytest
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import create_async_engine

from schema import Managers, ToolContext
from schema.errors import ToolError
from schema.events import Actor, Json, JsonObject
from schema.query import Reader
from schema.tools import ToolRegistry, data_tools
from tests.schema.shop import Box, Material, Part, Project, ProjectPart, Shelf, Supplier

CALLS = 2_500
ADA = Actor("user", "ada", tenant="ada")

# A visible row with a parent that is not visible, and rows of a manager that ada may not see.
SETUP = [
    "UPDATE project SET parent_code = 'MER' WHERE name = 'Ex'",
    "UPDATE shelf SET label = 'top'",
]

# Hidden columns, a model that is not exposed, managers and fields that ada may not see, and rows of
# others.
CHANGES = [
    "UPDATE part SET cost = id % 7",
    "UPDATE part SET notes = 'CANARY'",
    "UPDATE supplier SET bank_account = 'CANARY-' || id",
    "UPDATE payroll SET person = 'CANARY', salary = 7",
    "UPDATE project SET name = 'CANARY', parent_code = NULL WHERE owner = 'grace'",
    "UPDATE project_part SET quantity = 77, part_id = 4 WHERE project_code = 'MER' AND part_id = 2",
    "INSERT INTO project (code, name, owner, parent_code) VALUES ('AAA', 'CANARY', 'eve', 'APO')",
    "INSERT INTO project_part (project_code, part_id, quantity) VALUES ('AAA', 1, 1),"
    " ('AAA', 2, 1), ('AAA', 3, 1), ('APO', 2, 77)",
    "UPDATE shelf SET label = 'CANARY'",
    "DELETE FROM box WHERE id = 1",
]

NAMES = {
    "Box": ("id", "hall", "number", "shelf"),
    "Material": ("id", "name", "density", "parts"),
    "Part": (
        "id", "name", "price", "stock", "cost", "notes", "made_at", "material", "supplier",
        "uses", "projects",
    ),
    "Project": ("code", "name", "owner", "parent_code", "parent", "children", "items", "parts"),
    "ProjectPart": ("project_code", "part_id", "quantity", "project", "part"),
    "Shelf": ("hall", "number", "label", "boxes"),
    "Supplier": ("id", "name", "bank_account", "parts", "payroll"),
    "Payroll": ("id", "person", "salary", "supplier"),
}  # fmt: skip
TARGETS = {
    "material": "Material", "parts": "Part", "supplier": "Supplier", "uses": "ProjectPart",
    "projects": "Project", "parent": "Project", "children": "Project", "items": "ProjectPart",
    "project": "Project", "part": "Part", "payroll": "Payroll", "shelf": "Shelf", "boxes": "Box",
}  # fmt: skip
HIDDEN = {"Box", "Shelf", "Payroll", "cost", "notes", "bank_account", "payroll"}
LOOKUPS = ("", "", "__in", "__gt", "__lte", "__ne", "__contains", "__icontains", "__isnull")
PARTS = ("", "", "", "__year", "__month", "__hour")
OPS = ("count", "count", "sum", "avg", "min", "max", "count_distinct")
VALUES: tuple[Json, ...] = (1, 4, 77, "CANARY", "MER", "grace", True, False, None, [1, 77], "AAA")


class Calls:
    """Random calls that name what is shown and what is hidden alike."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def _name(self, names: Iterable[str]) -> str:
        """Any of the names, one that is shown more often than one that is hidden."""
        name = self._random.choice([*names])
        if name in HIDDEN and self._random.random() < 0.8:
            return self._name(names)
        return name

    def call(self) -> tuple[str, JsonObject]:
        pick = self._random.choice
        manager = self._name(NAMES)
        match self._random.random():
            case chance if chance < 0.03:
                return "find_path", {"from_manager": manager, "to_manager": pick([*NAMES])}
            case chance if chance < 0.06:
                return "search_managers", {"query": f"{pick(NAMES[manager])} of {manager}"}
            case chance if chance < 0.09:
                return "get_manager_schema", {"manager": manager}
            case chance if chance < 0.4:
                return "aggregate", self._aggregate(manager)
            case _:
                return "query", self._query(manager)

    def _query(self, manager: str) -> JsonObject:
        pick = self._random.choice
        return {
            "manager": manager, "fields": self._fields(manager, 2),
            "filters": self._filters(manager, 2),
            "order_by": [pick(["", "-"]) + self._path(manager) for _ in range(pick([0, 0, 1]))],
            "limit": pick([1, 2, 200]), "offset": pick([0, 0, 1, 9]),
        }  # fmt: skip

    def _aggregate(self, manager: str) -> JsonObject:
        pick = self._random.choice
        measure: JsonObject = {"op": pick(OPS), "as": "n"}
        if measure["op"] != "count" or self._random.random() < 0.3:
            measure["field"] = self._path(manager)
        groups: list[Json] = [self._path(manager) + pick(PARTS) for _ in range(pick([0, 1, 1, 2]))]
        asked: JsonObject = {"manager": manager, "measures": [measure], "group_by": groups}
        if self._random.random() < 0.5:
            asked["filters"] = self._filters(manager, 1)
        if self._random.random() < 0.3:
            asked["having"] = {pick(["n__gt", "n", "n__isnull", "cost"]): pick(VALUES)}
        if self._random.random() < 0.3:
            asked["order_by"] = ["-n"]
        return asked

    def _filters(self, manager: str, depth: int) -> JsonObject:
        pick = self._random.choice
        filters: JsonObject = {
            self._path(manager) + pick(LOOKUPS): pick(VALUES) for _ in range(pick([0, 1, 1, 2]))
        }
        if depth and self._random.random() < 0.3:
            below = [self._filters(manager, depth - 1) for _ in range(pick([0, 1, 2]))]
            filters[pick(["and", "or"])] = [*below]
        if depth and self._random.random() < 0.15:
            filters["not"] = self._filters(manager, depth - 1)
        return filters

    def _fields(self, manager: str, depth: int) -> Json:
        fields: list[Json] = []
        for name in self._random.sample(NAMES[manager], 3):
            if name not in TARGETS:
                fields.append(name)
            elif depth:
                fields.append({name: self._fields(TARGETS[name], depth - 1)})
        return fields or [NAMES[manager][0]]

    def _path(self, manager: str) -> str:
        path = [self._name(NAMES[manager])]
        while path[-1] in TARGETS and self._random.random() < 0.9:
            path.append(self._name(NAMES[TARGETS[path[-1]]]))
        return "__".join(path)


def managers() -> Managers:
    def few(actor: Actor) -> object:
        return {"project__owner": actor.subject, "quantity__lt": 50}

    managers = Managers()
    for model in (Box, Shelf):
        managers.expose(model, tenant=False, readers=lambda actor: actor.subject != "ada")
    managers.expose(Material, tenant=False)
    managers.expose(Part, tenant=False, hide={"cost": lambda _: True, "notes": lambda _: True})
    managers.expose(Project, tenant="owner")
    managers.expose(ProjectPart, tenant="project__owner", visible=few)
    managers.expose(Supplier, tenant=False, hide=("bank_account",))
    return managers


@asynccontextmanager
async def asking(url: str) -> AsyncGenerator[Callable[[str, JsonObject], Awaitable[Json]]]:
    registry = ToolRegistry(data_tools())
    async with Reader(managers(), database_url=url) as reader:
        context = ToolContext(ADA, await reader.view(ADA), reader)

        async def ask(name: str, args: JsonObject) -> Json:
            try:
                result = await registry.call(name, args, context)
            except ToolError as error:
                return f"{error.code}: {error}"
            if isinstance(result, dict):
                return {key: value for key, value in result.items() if key != "result_id"}
            return result

        yield ask


async def transcript(url: str, seed: int) -> list[str]:
    calls = Calls(seed)
    async with asking(url) as ask:
        made = [calls.call() for _ in range(CALLS)]
        return [json.dumps([name, args, await ask(name, args)]) for name, args in made]


async def change(url: str, statements: list[str]) -> None:
    engine = create_async_engine(url)
    async with engine.begin() as connection:
        for statement in statements:
            await connection.execute(sa.text(statement))
    await engine.dispose()


@pytest.mark.covers("H31", "P16")
@pytest.mark.parametrize("seed", range(2))
async def test_hidden_values_and_rows_change_no_answer(writable_shop_url: str, seed: int) -> None:
    await change(writable_shop_url, SETUP)
    before = await transcript(writable_shop_url, seed)
    await change(writable_shop_url, CHANGES)
    after = await transcript(writable_shop_url, seed)
    assert [pair for pair in zip(before, after, strict=True) if pair[0] != pair[1]] == []
    answered = [line for line in before if '"data": [{' in line]
    assert len(answered) > CALLS / 20
    assert any('["aggregate"' in line for line in answered)
    assert not any("failed" in line for line in before)
