"""Tortoise models: what they say of themselves, where their data is, and a context for them."""

import asyncio
import re
import sqlite3
from collections.abc import Awaitable, Callable, Mapping
from contextvars import Context
from pathlib import Path

import pytest
from tortoise import fields
from tortoise.config import TortoiseConfig
from tortoise.context import TortoiseContext, get_current_context, require_context
from tortoise.exceptions import IntegrityError
from tortoise.models import Model
from tortoise.transactions import in_transaction

from schema import Managers
from schema.errors import ConfigurationError
from schema.sources import Relation, is_unique
from schema.tortoise_source import TortoiseSource
from tests.schema import tortoise_shop, tortoise_zoo
from tests.schema.tortoise_desk import ASYNCPG, Apps, module_of
from tests.schema.tortoise_shop import (
    Drawing,
    Material,
    Part,
    Project,
    ProjectPart,
    Supplier,
)
from tests.schema.tortoise_zoo import Beast, Cage

SQLITE = "tortoise.backends.sqlite"
SHOP = TortoiseSource({"apps": tortoise_shop.APPS})


def relation(model: type, name: str) -> Relation:
    return next(r for r in SHOP.describe(model).relations if r.name == name)


def ends(found: Relation) -> list[tuple[str, str]]:
    return [(str(a), str(b)) for a, b in (*found.pairs, *found.link_pairs)]


# --- what models say ------------------------------------------------------------------------------


def test_columns_have_their_kind_of_value_in_the_models_order() -> None:
    part = SHOP.describe(Part)
    assert [(c.name, c.type, c.nullable) for c in part.columns] == [
        ("id", "integer", False),
        ("name", "string", False),
        ("price", "decimal", True),
        ("stock", "integer", False),
        ("ratio", "number", True),
        ("notes", "string", True),
        ("is_made_here", "boolean", False),
        ("status", "enum", False),
        ("grade", "enum", True),
        ("made_on", "date", True),
        ("made_at", "datetime", True),
        ("packed_at", "time", True),
        ("serial", "uuid", True),
        ("extra", "json", True),
        ("cost", "decimal", True),
        ("material_id", "integer", True),
        ("sold_by", "integer", True),
    ]
    assert part.unread == {"photo", "lead_time"}
    assert [c.name for c in part.primary_key] == ["id"]
    assert part.database == "tortoise.default"


def test_names_and_choices_are_those_of_the_model_and_columns_those_of_the_table() -> None:
    columns = {c.name: c for c in SHOP.describe(Part).columns}
    assert columns["cost"].column.name == "purchase_cost"
    assert columns["status"].choices == ("active", "on hold")
    assert columns["grade"].choices == ("ROUGH", "FINE")


def test_descriptions_are_those_of_fields_comments_and_docstrings() -> None:
    part = SHOP.describe(Part)
    assert part.description == "Inventory parts catalog."
    notes = {c.name: c.description for c in part.columns if c.description}
    assert notes == {
        "name": "What the part is called",
        "notes": "What the workshop says",
        "sold_by": "Who sells it",
    }


def test_relations_lead_both_ways() -> None:
    material, parts = relation(Part, "material"), relation(Material, "parts")
    assert (material.target, material.many, material.nullable) == (Material, False, True)
    assert material.description == "What the part is made of"
    assert ends(material) == [("part.material_id", "material.id")]
    assert (parts.target, parts.many, parts.nullable) == (Part, True, False)
    assert parts.description == "What is made of it"
    assert ends(parts) == [("material.id", "part.material_id")]
    assert relation(ProjectPart, "part").nullable is False


def test_a_relation_without_a_constraint_may_dangle() -> None:
    supplier = relation(Part, "supplier")
    assert ends(supplier) == [("part.sold_by", "supplier.id")]
    assert (supplier.many, supplier.nullable) == (False, True)
    assert ends(relation(Supplier, "parts")) == [("supplier.id", "part.sold_by")]


class Loose(Model):
    owner: fields.ForeignKeyRelation[Supplier] = fields.ForeignKeyField(
        "loose.Tight", db_constraint=False, source_field="owner"
    )
    color: fields.ForeignKeyRelation["Tight"] = fields.ForeignKeyField(
        "loose.Tight", related_name=False, db_constraint=False
    )
    wide = fields.IntField(source_field="width")


class Tight(Model):
    id = fields.IntField(primary_key=True)


LOOSE: Apps = {"loose": {"models": [module_of(Loose, Tight)]}}


def test_a_raw_column_named_like_its_relation_has_its_fields_name() -> None:
    source = TortoiseSource({"apps": LOOSE})
    loose = source.describe(Loose)
    assert [(c.name, c.column.name) for c in loose.columns] == [
        ("id", "id"),
        ("owner_id", "owner"),
        ("color_id", "color_id"),
        ("wide", "width"),
    ]
    assert [(r.name, r.nullable) for r in loose.relations] == [("owner", True), ("color", True)]
    assert [r.name for r in source.describe(Tight).relations] == ["looses"]


class Here(Model):
    there: fields.ForeignKeyRelation["There"] = fields.ForeignKeyField(
        "there.There", related_name="heres", db_constraint=False
    )


class There(Model):
    id = fields.IntField(primary_key=True)


def test_relations_never_lead_to_another_connection() -> None:
    connections = {"a": "sqlite://a.db", "b": "sqlite://b.db", "unused": "mysql://host/db"}
    apps = {
        "here": {"models": [module_of(Here)], "default_connection": "a"},
        "there": {"models": [module_of(There)], "default_connection": "b"},
    }
    source = TortoiseSource({"connections": connections, "apps": apps})
    here, there = source.describe(Here), source.describe(There)
    assert (here.database, there.database) == ("tortoise.a", "tortoise.b")
    assert [c.name for c in here.columns] == ["id", "there_id"]
    assert here.relations == there.relations == ()
    urls = {"tortoise.a": "sqlite+aiosqlite:///a.db", "tortoise.b": "sqlite+aiosqlite:///b.db"}
    assert source.urls("sqlite+aiosqlite:///chat.db") == urls


def test_one_to_one_leads_to_one_row_both_ways() -> None:
    part, drawing = relation(Drawing, "part"), relation(Part, "drawing")
    assert ends(part) == [("drawing.part_id", "part.id")]
    assert ends(drawing) == [("part.id", "drawing.part_id")]
    assert (part.many, part.nullable) == (False, False)
    assert (drawing.many, drawing.nullable) == (False, True)
    described = SHOP.describe(Drawing)
    assert [c.name for c in described.key] == ["part_id"]
    assert is_unique(described.table, [b for _, b in drawing.pairs])


def test_relations_to_the_same_table_know_their_direction() -> None:
    assert ends(relation(Project, "parent")) == [("project.parent_code", "project.code")]
    assert ends(relation(Project, "children")) == [("project.code", "project.parent_code")]
    rivals, rival_of = relation(Project, "rivals"), relation(Project, "rival_of")
    first, second = "project_project.project_rel_id", "project_project.project_id"
    assert ends(rivals) == [("project.code", first), (second, "project.code")]
    assert ends(rival_of) == [("project.code", second), (first, "project.code")]


def test_a_link_has_two_hops_and_knows_whether_its_pairs_repeat() -> None:
    materials, projects = relation(Project, "materials"), relation(Material, "projects")
    assert ends(materials) == [
        ("project.code", "project_material.project_id"),
        ("project_material.material_id", "material.id"),
    ]
    assert materials.description == "What it is built of"
    assert materials.link is projects.link
    rivals = relation(Project, "rivals")
    assert materials.link is not None
    assert rivals.link is not None
    assert is_unique(materials.link, materials.link.columns)
    assert not is_unique(rivals.link, rivals.link.columns)


def test_a_link_that_is_a_models_table_is_that_models() -> None:
    parts, items = relation(Project, "parts"), SHOP.describe(ProjectPart)
    assert parts.link is items.table
    assert is_unique(items.table, [items.table.c.project_code, items.table.c.part_id])


@pytest.mark.parametrize("other", [int, Managers, TortoiseSource])
def test_what_is_no_model_is_not_accepted(other: type) -> None:
    assert not SHOP.accepts(other)
    assert SHOP.accepts(Part)


# --- a context for the project's own code ---------------------------------------------------------


@pytest.fixture
def zoo_url(tmp_path: Path) -> str:
    return f"sqlite+aiosqlite:///{tmp_path / 'zoo.db'}"


async def test_tasks_in_copies_of_the_context_use_tortoise(zoo_url: str) -> None:
    zoo = TortoiseSource({"apps": tortoise_zoo.APPS})

    async def add(number: int) -> int:
        async with in_transaction():
            await Cage.create(id=number, label=f"cage {number}")
        return await Cage.all().count()

    async with zoo.opened(zoo_url) as context:
        assert get_current_context() is None
        await in_copy(context, require_generated)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(add(n), context=context.copy()) for n in range(1, 6)]
        assert {task.result() for task in tasks} <= {1, 2, 3, 4, 5}
        assert get_current_context() is None
        tortoise = context.run(require_context)
    assert not tortoise.inited
    assert context.run(get_current_context) is None
    with sqlite3.connect(zoo_url.removeprefix("sqlite+aiosqlite:///")) as reader:
        assert reader.execute("SELECT count(*) FROM cage").fetchone() == (5,)


async def test_the_chat_database_is_opened_on_postgres_as_well(postgres_url: str) -> None:
    async def add() -> None:
        await require_context().generate_schemas()
        await Tight.create(id=1)

    source = TortoiseSource({"apps": LOOSE})
    async with source.opened(postgres_url) as context:
        await in_copy(context, add)
    async with source.opened(postgres_url) as context:
        with pytest.raises(ExceptionGroup) as caught:
            await in_copy(context, add)
    assert caught.group_contains(IntegrityError)


async def require_generated() -> None:
    await require_context().generate_schemas()


async def in_copy(context: Context, work: Callable[[], Awaitable[None]]) -> None:
    async def done() -> None:
        await work()

    async with asyncio.TaskGroup() as group:
        group.create_task(done(), context=context.copy())


async def test_a_context_of_the_hosts_is_left_alone(tmp_path: Path, zoo_url: str) -> None:
    config = {"connections": {"default": f"sqlite://{tmp_path}/host.db"}, "apps": tortoise_zoo.APPS}
    zoo = TortoiseSource({"apps": tortoise_zoo.APPS})
    async with TortoiseContext() as host:
        await host.init(config)
        await host.generate_schemas()
        await Cage.create(id=1, label="of the host")
        beast = zoo.describe(Beast)
        assert [r.name for r in beast.relations] == ["cage"]
        async with zoo.opened(zoo_url) as context:
            await in_copy(context, require_generated)
            await in_copy(context, add_two)
            assert await Cage.all().count() == 1
        assert get_current_context() is host
        await Beast.create(id=1, cage_id=1)
        cage = await Cage.get(id=1).prefetch_related("beasts")
        assert [beast.id for beast in cage.beasts] == [1]


async def add_two() -> None:
    await Cage.create(id=1)
    await Cage.create(id=2)


# --- configurations -------------------------------------------------------------------------------


def test_a_configuration_may_be_an_object_of_tortoises() -> None:
    given = {"connections": {"default": "sqlite://shop.db"}, "apps": tortoise_shop.APPS}
    source = TortoiseSource(TortoiseConfig.from_dict(given))
    assert source.describe(Part).database == "tortoise.default"
    assert source.urls("x") == {"tortoise.default": "sqlite+aiosqlite:///shop.db"}


def test_without_connections_the_data_is_in_the_chat_database() -> None:
    url = "postgresql+asyncpg://ada:secret@db:5433/chat?ssl=require"
    assert SHOP.urls(url) == {"tortoise.default": url}


@pytest.mark.parametrize(
    ("connection", "url"),
    [
        ("sqlite://data/shop.db", "sqlite+aiosqlite:///data/shop.db"),
        ("sqlite:///var/shop.db?journal_mode=DELETE", "sqlite+aiosqlite:////var/shop.db"),
        ({"engine": SQLITE, "credentials": {"file_path": "a b.db"}}, "sqlite+aiosqlite:///a b.db"),
        ({"db_url": "sqlite://shop.db"}, "sqlite+aiosqlite:///shop.db"),
        ("postgres://ada:p%40ss@db/shop", "postgresql+asyncpg://ada:p%40ss@db:5432/shop"),
        ("asyncpg://db:5433/shop?minsize=2", "postgresql+asyncpg://db:5433/shop"),
        (
            {
                "engine": ASYNCPG,
                "credentials": {
                    "host": "/run/pg",
                    "port": 5433,
                    "user": "ada",
                    "database": "shop",
                    "ssl": "verify-full",
                },
            },
            "postgresql+asyncpg://ada@/shop?host=%2Frun%2Fpg&port=5433&ssl=verify-full",
        ),
    ],
)
def test_a_connection_is_told_as_a_url(connection: object, url: str) -> None:
    config = {"connections": {"default": connection}, "apps": tortoise_zoo.APPS}
    assert TortoiseSource(config).urls("x") == {"tortoise.default": url}


async def test_a_schema_of_a_connection_is_that_of_its_tables() -> None:
    source = TortoiseSource(
        {"connections": {"default": "asyncpg://db/shop?schema=zoo"}, "apps": tortoise_zoo.APPS}
    )
    assert source.describe(Cage).table.schema == "zoo"


def connected(connection: object) -> dict[str, object]:
    return {"connections": {"default": connection}, "apps": tortoise_zoo.APPS}


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        ({}, 'must define "apps"'),
        ({"conections": {}, "apps": tortoise_zoo.APPS}, "has no 'conections'"),
        ({"apps": {"zoo": {}}}, 'requires "models"'),
        (
            {"apps": {"zoo": {"models": ["no.such.module"]}}},
            "Module \"no.such.module\" not found (No module named 'no')",
        ),
        ({"apps": {"zoo": {"models": ["tests.schema.conftest"]}}}, "has no models"),
        ({"apps": {"other": {"models": ["tests.schema.tortoise_zoo"]}}}, "has no models"),
        ({"apps": tortoise_zoo.APPS, "timezone": "Mars/Olympus"}, "Mars/Olympus"),
        ({"connections": {}, "apps": tortoise_zoo.APPS}, "must be a non-empty dict"),
        (
            {**connected("sqlite://x.db"), "connections": {"a": "sqlite://x.db"}},
            "used by an app and not there",
        ),
        (connected("sqlite://:memory:"), "is no SQLite file"),
        (connected("sqlite://file:x.db?mode=memory"), "is no SQLite file"),
        (connected("mysql://db/shop"), "uses tortoise.backends.mysql"),
        (connected("psycopg://db/shop"), "uses tortoise.backends.psycopg"),
        (connected("oddity://db/shop"), "Unknown DB scheme"),
        (connected("postgres://db/shop?ssl=True"), "gives ssl as something other"),
        (
            connected({"engine": ASYNCPG, "credentials": {"port": "first"}}),
            "gives port as something other than a number",
        ),
        (
            connected({"engine": ASYNCPG, "credentials": {"password": print}}),
            "gives password as something other",
        ),
    ],
)
def test_a_wrong_configuration_is_told_with_the_fix(
    config: Mapping[str, object], problem: str
) -> None:
    # Zones and modules are looked at when a model is described, connections when they are used.
    def use() -> None:
        source = TortoiseSource(config)
        source.describe(Cage)
        source.urls("sqlite+aiosqlite:///chat.db")

    with pytest.raises(ConfigurationError, match=f"^E001: .*{re.escape(problem)}") as caught:
        use()
    assert str(caught.value).count(". ") >= 1
    assert "print" not in str(caught.value)


class Elsewhere(Model):
    id = fields.IntField(primary_key=True)


def test_a_model_of_no_app_is_told_with_its_module() -> None:
    with pytest.raises(ConfigurationError, match=r"^E001: Elsewhere is a model of no app .*test_"):
        SHOP.describe(Elsewhere)


async def test_what_can_not_be_opened_is_an_error_of_the_configuration(zoo_url: str) -> None:
    source = TortoiseSource({"apps": tortoise_zoo.APPS, "routers": ["no.such.Router"]})
    with pytest.raises(ConfigurationError, match=r"^E001: .*no\.such\.Router"):
        async with source.opened(zoo_url):
            pass
    assert get_current_context() is None


class Wrong(Model):
    code = fields.CharField(3, primary_key=True)
    others: fields.ManyToManyRelation["Wrong"] = fields.ManyToManyField(
        "wrong.Wrong", through="wrong", forward_key="other_code", related_name="of_others"
    )


def test_a_link_without_its_columns_is_told() -> None:
    source = TortoiseSource({"apps": {"wrong": {"models": [module_of(Wrong)]}}})
    with pytest.raises(
        ConfigurationError, match=r"^E001: The table wrong of Wrong\.\w+ has no col"
    ):
        source.describe(Wrong)
