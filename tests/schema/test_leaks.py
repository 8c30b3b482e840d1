"""What is hidden changes nothing that is shown: not a row, a count, an order or an error's text."""

import json
import random
import sqlite3
from pathlib import Path

import pytest

from schema import Managers, ToolContext
from schema.errors import ToolError
from schema.events import Actor, Json, JsonObject
from schema.query import Reader
from schema.tools import ToolRegistry, data_tools
from tests.schema.conftest import ADA
from tests.schema.shop import Material, Part, Project, ProjectPart, Supplier

CALLS = 1_500

# A visible row with a parent that is not visible.
SETUP = "UPDATE project SET parent_code = 'MER' WHERE name = 'Ex'"

# Hidden columns, a model that is not exposed, and rows that ada may not see.
CHANGES = """
    UPDATE part SET cost = id % 7;
    UPDATE supplier SET bank_account = 'CANARY-' || id;
    UPDATE payroll SET person = 'CANARY', salary = 7;
    UPDATE project SET name = 'CANARY', parent_code = NULL WHERE owner = 'grace';
    UPDATE project_part SET quantity = 77, part_id = 4 WHERE project_code = 'MER' AND part_id = 2;
    INSERT INTO project (code, name, owner, parent_code) VALUES ('AAA', 'CANARY', 'eve', 'APO');
    INSERT INTO project_part VALUES ('AAA', 1, 1), ('AAA', 2, 1), ('AAA', 3, 1), ('APO', 2, 77);
"""

NAMES = {
    "Material": ("id", "name", "density", "parts"),
    "Part": ("id", "name", "price", "stock", "cost", "material", "supplier", "uses", "projects"),
    "Project": ("code", "name", "owner", "parent_code", "parent", "children", "items", "parts"),
    "ProjectPart": ("project_code", "part_id", "quantity", "project", "part"),
    "Supplier": ("id", "name", "bank_account", "parts", "payroll"),
    "Payroll": ("id", "person", "salary", "supplier"),
}
TARGETS = {
    "material": "Material", "parts": "Part", "supplier": "Supplier", "uses": "ProjectPart",
    "projects": "Project", "parent": "Project", "children": "Project", "items": "ProjectPart",
    "project": "Project", "part": "Part", "payroll": "Payroll",
}  # fmt: skip
LOOKUPS = ("", "", "__in", "__gt", "__lte", "__icontains", "__isnull")
VALUES: tuple[Json, ...] = (1, 4, 77, "CANARY", "MER", "grace", True, False, None, [1, 77], "AAA")


class Calls:
    """Random calls that name what is shown and what is hidden alike."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def call(self) -> tuple[str, JsonObject]:
        pick = self._random.choice
        manager = pick([*NAMES])
        match self._random.random():
            case chance if chance < 0.03:
                return "find_path", {"from_manager": manager, "to_manager": pick([*NAMES])}
            case chance if chance < 0.06:
                return "search_managers", {"query": f"{pick(NAMES[manager])} of {manager}"}
            case chance if chance < 0.09:
                return "get_manager_schema", {"manager": manager}
            case _:
                return "query", self._query(manager)

    def _query(self, manager: str) -> JsonObject:
        pick = self._random.choice
        filters: JsonObject = {self._path(manager): pick(VALUES) for _ in range(pick([0, 1, 1, 2]))}
        order: list[Json] = [pick(["", "-"]) + pick(NAMES[manager]) for _ in range(pick([0, 0, 1]))]
        return {
            "manager": manager, "fields": self._fields(manager, 2), "filters": filters,
            "order_by": order, "limit": pick([1, 2, 200]), "offset": pick([0, 0, 1, 9]),
        }  # fmt: skip

    def _fields(self, manager: str, depth: int) -> Json:
        fields: list[Json] = []
        for name in self._random.sample(NAMES[manager], 3):
            if name not in TARGETS:
                fields.append(name)
            elif depth:
                fields.append({name: self._fields(TARGETS[name], depth - 1)})
        return fields or [NAMES[manager][0]]

    def _path(self, manager: str) -> str:
        path = [self._random.choice(NAMES[manager])]
        while path[-1] in TARGETS and self._random.random() < 0.9:
            path.append(self._random.choice(NAMES[TARGETS[path[-1]]]))
        return "__".join(path) + self._random.choice(LOOKUPS)


async def transcript(path: Path, seed: int) -> list[str]:
    def own(actor: Actor) -> object:
        return {"owner": actor.subject}

    def few_of_own(actor: Actor) -> object:
        return {"project__owner": actor.subject, "quantity__lt": 50}

    managers = Managers()
    managers.expose(Material)
    managers.expose(Part, hide=("cost",))
    managers.expose(Project, visible=own)
    managers.expose(ProjectPart, visible=few_of_own)
    managers.expose(Supplier, hide=("bank_account",))
    registry, calls, lines = ToolRegistry(data_tools()), Calls(seed), list[str]()
    async with Reader(managers, database_url=f"sqlite+aiosqlite:///{path}") as reader:
        context = ToolContext(ADA, await reader.view(ADA), reader)
        for _ in range(CALLS):
            name, args = calls.call()
            try:
                result = await registry.call(name, args, context)
            except ToolError as error:
                result = f"{error.code}: {error}"
            if isinstance(result, dict):
                result = {key: value for key, value in result.items() if key != "result_id"}
            lines.append(json.dumps([name, args, result]))
    return lines


@pytest.mark.covers("H31", "P16")
@pytest.mark.parametrize("seed", range(2))
async def test_hidden_values_and_rows_change_no_answer(shop_file: Path, seed: int) -> None:
    with sqlite3.connect(shop_file) as writer:
        writer.execute(SETUP)
    before = await transcript(shop_file, seed)
    with sqlite3.connect(shop_file) as writer:
        writer.executescript(CHANGES)
    after = await transcript(shop_file, seed)
    assert [pair for pair in zip(before, after, strict=True) if pair[0] != pair[1]] == []
    answered = [line for line in before if '"data": [{' in line]
    assert len(answered) > CALLS / 20
    assert not any("failed" in line for line in before)
