"""The commands `check` and `managers`: what is exposed at all, and what somebody sees of it."""

import json
from pathlib import Path

from commands import run_here
from processes import FRONTDESK, run

TOY = "app.demo.toy:managers"


def test_check_shows_exactly_what_is_exposed(tmp_path: Path) -> None:
    ended = run(tmp_path, FRONTDESK, "check", managers="app.demo.manufacturing:managers")
    assert ended.returncode == 0, ended.stderr
    for shown in ("Material", "Part", "Project", "Supplier", "material -> Material"):
        assert shown in ended.stdout
    for hidden in ("bank_account", "Payroll", "purchase_price"):
        assert hidden not in ended.stdout


def test_check_says_in_json_what_is_exposed_or_what_is_wrong(tmp_path: Path) -> None:
    ended = run_here(tmp_path, "check", "--format", "json", managers=TOY)
    told = json.loads(ended.stdout)
    assert (ended.returncode, told["ok"], told["problems"]) == (0, True, [])
    part = next(m for m in told["managers"] if m["manager"] == "PartManager")
    assert [field["name"] for field in part["fields"]] == ["id", "name"]
    assert [relation["target"] for relation in part["relations"]] == [
        "MaterialManager",
        "ProjectManager",
    ]
    assert part["limits"] == []

    wrong = {"jwt__secret": "SECRET", "provider_config": '{"api_key": "SECRET"}', "model": "x/y"}
    ended = run_here(tmp_path, "check", "--format", "json", managers=TOY, **wrong)
    told = json.loads(ended.stdout)
    assert (ended.returncode, told["ok"], told["managers"]) == (2, False, [])
    [problem] = told["problems"]
    assert (problem["id"], problem["problem"]) == (
        "E002",
        "FRONTDESK_JWT__SECRET should have at least 32 characters.",
    )
    assert "`frontdesk settings`" in problem["fix"]
    assert "SECRET" not in ended.stdout.replace("JWT__SECRET", "") + ended.stderr


SEEN = """
from sqlalchemy.orm import registry
from sqlmodel import Field, Relationship, SQLModel

from schema import Managers


class Table(SQLModel, registry=registry()): ...


class Shelf(Table, table=True):
    id: int = Field(primary_key=True)
    parts: list["Part"] = Relationship(back_populates="shelf")


class Part(Table, table=True):
    "What we sell."

    id: int = Field(primary_key=True)
    name: str = Field(description="Its name.")
    cost: int
    company: str
    shelf_id: int = Field(foreign_key="shelf.id")
    shelf: Shelf = Relationship(back_populates="parts")


class Order(Table, table=True):
    id: int = Field(primary_key=True)


class Note(Table, table=True):
    id: int = Field(primary_key=True)


def fails(actor):
    raise ValueError("broken")


managers = Managers(prepare=lambda connection: connection.run_sync(Table.metadata.create_all))
managers.expose(
    Part, tenant="company", hide={"cost": lambda actor: "costs" not in actor.scopes}
)
managers.expose(Shelf, tenant=False)
managers.expose(Order, tenant=False, readers=fails)
managers.expose(Note, tenant=False, visible=fails)
"""


def test_an_actor_is_shown_what_there_is_for_them(tmp_path: Path) -> None:
    (tmp_path / "seen.py").write_text(SEEN)

    def seen(*who: str) -> dict[str, dict[str, object]]:
        ended = run_here(tmp_path, "managers", "--format", "json", *who, managers="seen:managers")
        assert ended.returncode == 0, ended.stderr
        return {manager["manager"]: manager for manager in json.loads(ended.stdout)}

    visitor = seen()
    ann = seen("--subject", "ann", "--tenant", "acme", "--scope", "costs")
    assert [*visitor] == [*ann] == ["Note", "Part", "Shelf"]
    assert [m["rows"] for m in visitor.values()] == ["none", "none", "all"]
    assert [m["rows"] for m in ann.values()] == ["none", "some", "all"]
    assert "cost" not in json.dumps(visitor["Part"])
    assert "cost" in json.dumps(ann["Part"])
    assert [m["filter_count"] for m in ann.values()] == [8, 48, 8]
    assert ann["Part"]["description"] == "What we sell."


def test_an_actor_is_shown_it_in_tables_and_rules_that_fail_are_told(tmp_path: Path) -> None:
    (tmp_path / "seen.py").write_text(SEEN)
    who = ("--subject", "robot", "--service")
    ended = run(tmp_path, FRONTDESK, "managers", *who, managers="seen:managers")
    assert ended.returncode == 0, ended.stderr
    shown = " ".join(ended.stdout.split())
    assert shown.startswith("The service robot sees managers: 3.")
    assert "Part What we sell." in shown
    assert "│ name │ string │ Its name. │" in shown
    assert "│ shelf │ -> Shelf │ │" in shown
    assert "│ parts │ -> Part (many) │ │" in shown
    assert "Rows: none. Filters: 40." in shown
    assert ended.stderr == (
        "ERROR: visible of Note failed\nValueError: broken, in seen.py line 36\n"
        "ERROR: readers of Order failed\nValueError: broken, in seen.py line 36\n"
    )


def test_check_shows_what_limits_what_is_exposed(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(
        """
import sqlalchemy as sa
from sqlmodel import Field, SQLModel

from schema import Managers


class Part(SQLModel, table=True):
    id: int = Field(primary_key=True)
    company: str
    cost: int
    photo: bytes
    scan: bytes


managers = Managers(prepare=lambda connection: connection.run_sync(SQLModel.metadata.create_all))
managers.expose(
    Part,
    readers=lambda actor: True,
    tenant="company",
    visible=lambda actor: {},
    hide={"cost": lambda actor: True, "scan": lambda actor: True},
)
"""
    )
    ended = run(tmp_path, FRONTDESK, "check", managers="shop:managers")
    assert ended.returncode == 0, ended.stderr
    told = " ".join(ended.stdout.split())
    for limit in ("readers", "tenant company", "visible", "hidden from some: cost", "photo"):
        assert limit in told
