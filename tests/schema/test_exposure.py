"""Default deny: what was not exposed, or is hidden, can't be seen, named or guessed."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, registry
from sqlmodel import Field, Relationship, SQLModel

from schema import Managers, ToolContext
from schema.errors import ConfigurationError, ToolError
from schema.events import Json
from schema.query import Reader
from schema.tools import ToolRegistry, data_tools
from tests.schema.conftest import exposed
from tests.schema.shop import Material, Part, Shop

HIDDEN = ("payroll", "salary", "bank_account", "CANARY", "cost", "photo")


async def answers(context: ToolContext, calls: list[tuple[str, dict[str, Json]]]) -> str:
    """All that a model gets to see: definitions, results and errors, as one text."""
    registry = ToolRegistry(data_tools())
    seen: list[object] = [[d.description, d.input_schema] for d in registry.definitions]
    for name, args in calls:
        try:
            seen.append(await registry.call(name, args, context))
        except ToolError as error:
            seen.append(str(error))
    return json.dumps(seen)


@pytest.mark.covers("H38", "C7-9")
async def test_hidden_names_and_values_appear_in_no_output(context: ToolContext) -> None:
    calls: list[tuple[str, dict[str, Json]]] = [
        ("search_managers", {"query": "what data is there"}),
        ("search_managers", {"query": "payroll salary bank account cost of suppliers"}),
        ("find_path", {"from_manager": "Supplier", "to_manager": "Payroll"}),
        ("find_path", {"from_manager": "Payroll", "to_manager": "Supplier"}),
        ("get_manager_schema", {"manager": "Payroll"}),
        *[("get_manager_schema", {"manager": name}) for name in context.view.managers],
        *[("query", {"manager": name}) for name in context.view.managers],
        ("query", {"manager": "Supplier", "fields": ["*", {"parts": ["name"]}]}),
        ("query", {"manager": "Supplier", "fields": ["nam"]}),
        ("query", {"manager": "Supplier", "filters": {"nam": 1}}),
        ("query", {"manager": "Part", "filters": {"supplier__nam": 1}}),
        ("query", {"manager": "Part", "order_by": ["nam"]}),
    ]
    text = await answers(context, calls)
    text += context.reader.graphql.as_str()
    found = [name for name in HIDDEN if name.casefold() in text.casefold()]
    assert found == []
    assert "Bolt" in text


@pytest.mark.covers("H38")
async def test_a_hidden_name_gets_the_words_of_an_unknown_one(context: ToolContext) -> None:
    def ask(name: str) -> list[tuple[str, dict[str, Json]]]:
        return [
            ("query", {"manager": "Supplier", "fields": [name]}),
            ("query", {"manager": "Supplier", "fields": [{name: ["id"]}]}),
            ("query", {"manager": "Supplier", "order_by": [f"-{name}"]}),
            ("query", {"manager": "Supplier", "filters": {name: "x"}}),
            ("query", {"manager": "Supplier", "filters": {f"{name}__isnull": True}}),
            ("query", {"manager": "Part", "filters": {f"supplier__{name}__gt": "x"}}),
            ("query", {"manager": "Part", "fields": [{"supplier": [name]}]}),
            ("query", {"manager": name}),
            ("get_manager_schema", {"manager": name}),
            ("find_path", {"from_manager": "Part", "to_manager": name}),
        ]

    unknown = await answers(context, ask("qqqqqqqqqqqq"))
    for hidden in ("bank_account", "payroll", "Payroll"):
        assert (await answers(context, ask(hidden))).replace(hidden, "qqqqqqqqqqqq") == unknown


@pytest.mark.covers("H38")
async def test_nothing_is_exposed_by_default_and_a_subclass_is_not(shop_url: str) -> None:
    managers = exposed()
    names = [manager.name for manager in managers.build()]
    assert names == ["Box", "Material", "Part", "Project", "ProjectPart", "Shelf", "Supplier"]
    with pytest.raises(ConfigurationError, match="No model is exposed"):
        Reader(Managers(), database_url=shop_url)


async def test_relations_to_models_that_are_not_exposed_vanish(shop_url: str) -> None:
    managers = Managers()
    managers.expose(Part)
    reader = Reader(managers, database_url=shop_url)
    assert reader.index.describe("Part")["relations"] == []
    assert "Material" not in reader.graphql.as_str()


class Own(SQLModel, registry=registry(metadata=sa.MetaData())):
    pass


class Plain(SQLModel):
    id: int


class Odd(Own, table=True):
    id: int | None = Field(default=None, primary_key=True)
    a__b: int = 0


class Twins(Own, table=True):
    id: int | None = Field(default=None, primary_key=True)
    a_b: int = 0
    aB: int = 0


class Loose(Own, table=True):
    id: int | None = Field(default=None, primary_key=True)
    code: str = ""
    other_code: str | None = None

    other: "Loose" = Relationship(
        sa_relationship_kwargs={
            "primaryjoin": "foreign(Loose.other_code) == remote(Loose.code)",
            "viewonly": True,
            "uselist": False,
        }
    )


class Filtered(Own, table=True):
    id: int | None = Field(default=None, primary_key=True)
    up_id: int | None = None

    downs: list["Filtered"] = Relationship(
        sa_relationship_kwargs={
            "primaryjoin": "and_(Filtered.id == foreign(remote(Filtered.up_id)), Filtered.id > 3)",
            "viewonly": True,
        }
    )


class Base(DeclarativeBase):
    pass


class Animal(Base):
    __tablename__ = "animal"

    id: Mapped[int] = mapped_column(primary_key=True)


class Dog(Animal):
    __tablename__ = "dog"

    id: Mapped[int] = mapped_column(sa.ForeignKey("animal.id"), primary_key=True)


@pytest.mark.covers("H38")
def test_a_subclass_of_an_exposed_model_is_no_manager() -> None:
    managers = Managers()
    managers.expose(Animal)
    assert [manager.name for manager in managers.build()] == ["Animal"]
    managers.expose(Dog)
    with pytest.raises(ConfigurationError, match="Dog inherits another table's model"):
        managers.build()


def _expose(*models: type, **options: object) -> Callable[[Managers], None]:
    def apply(managers: Managers) -> None:
        for model in models:
            # The options are wrong on purpose.
            managers.expose(model, **options)  # pyright: ignore[reportArgumentType]

    return apply


def _expose_named(part: str, material: str) -> Callable[[Managers], None]:
    def apply(managers: Managers) -> None:
        managers.expose(Part, name=part)
        managers.expose(Material, name=material)

    return apply


@pytest.mark.parametrize(
    ("apply", "problem", "fix"),
    [
        (_expose(Plain), "Plain is not a table", "table=True"),
        (_expose(int), "int is not a table", "table=True"),
        (_expose(Part, Part), "Part is exposed as Part, which is taken", "another name="),
        (_expose(Part, Material, name="Thing"), "Thing, which is taken", "another name="),
        (_expose(Part, name="Teil-Ä"), "can't be a manager's name", "ASCII letters"),
        (_expose(Part, name="Query"), "can't be a manager's name", "ASCII letters"),
        (_expose(Part, name="None"), "None can't be a manager's name", "no word of Python"),
        (_expose_named("A_b", "AB"), "Material is exposed as AB, which is taken", "another name="),
        (_expose(Part, hide=("prise",)), "'prise', which Part does not have", "id, .*price"),
        (_expose(Part, visible=3), "visible= that can't be called", "function of the actor"),
        (_expose(Odd), "Odd.a__b can't be asked for", "hide="),
        (_expose(Twins), "one name in GraphQL, aB", "hide="),
        (_expose(Loose), "Loose.other can't be read: it leads to one row", "hide="),
        (_expose(Filtered), "Filtered.downs can't be read: it joins on more", "hide="),
        (_expose(Shop), "Shop is not a table", "table=True"),
    ],
)
def test_what_can_not_be_exposed_is_named_with_the_fix(
    apply: Callable[[Managers], None], problem: str, fix: str
) -> None:
    managers = Managers()
    apply(managers)
    with pytest.raises(ConfigurationError, match=f"^E001: .*{problem}.*{fix}"):
        managers.build()


@pytest.mark.parametrize("argument", ["hide", "aliases"])
def test_a_text_in_place_of_a_tuple_of_names_is_refused(argument: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"Write {argument}=\('cost',\)"):
        _expose(Part, **{argument: "cost"})(Managers())


def test_hiding_what_is_in_the_way_is_enough() -> None:
    managers = Managers()
    managers.expose(Odd, hide=("a__b",))
    managers.expose(Twins, hide=("aB",))
    managers.expose(Loose, hide=("other",))
    managers.expose(Part, hide=("photo", "cost", "material"))
    assert {name for m in managers.build() for name in m.links} == set()


def test_the_data_is_where_the_sessions_are(tmp_path: Path) -> None:
    engine = create_async_engine(f"sqlite+aiosqlite:///{tmp_path}/a.db")
    chat = "sqlite+aiosqlite:///chat.db"
    assert Managers().urls(chat) == {"sessions": chat}
    assert Managers(async_sessionmaker(engine)).urls(chat)["sessions"].endswith("/a.db")
    reads = sa.create_engine(f"sqlite:///{tmp_path}/b.db")
    assert (
        Managers(async_sessionmaker(engine), reads=reads).urls(chat)["sessions"].endswith("/b.db")
    )
    with pytest.raises(ConfigurationError, match="not bound to an engine"):
        Managers(async_sessionmaker()).urls(chat)
    with pytest.raises(ConfigurationError, match=r"async_sessionmaker\(engine\)"):
        # As somebody does who has no type checker.
        Managers(engine).urls(chat)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("name", ["Warning", "int", "list", "type"])
def test_a_manager_may_be_called_like_a_builtin_of_python(name: str) -> None:
    managers = Managers()
    managers.expose(Part, name=name)
    managers.expose(Material)
    text = Reader(managers, database_url="").graphql.as_str()
    assert f"parts(limit: Int! = 20): [{name}!]" in text
