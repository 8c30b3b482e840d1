"""What a model says about itself: columns, descriptions, keys, and relations of every kind."""

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy.orm import (
    DeclarativeBase,
    Mapped,
    Session,
    column_property,
    mapped_column,
    registry,
    relationship,
)
from sqlmodel import Field, Relationship, SQLModel

from schema import Managers
from schema.events import Json
from schema.query import Reader
from schema.request import QueryRequest
from schema.sources import Relation, is_unique
from schema.sqlmodel_source import SQLModelSource
from tests.schema.conftest import ADA
from tests.schema.shop import Box, Material, Part, Project, ProjectPart, Shelf, Supplier

SOURCE = SQLModelSource()


def relation(model: type, name: str) -> Relation:
    described = SOURCE.describe(model)
    return next(r for r in described.relations if r.name == name)


def ends(found: Relation) -> list[tuple[str, str]]:
    return [(str(a), str(b)) for a, b in found.pairs]


def test_columns_have_their_kind_of_value_in_the_models_order() -> None:
    part = SOURCE.describe(Part)
    assert [(c.name, c.type, c.nullable) for c in part.columns] == [
        ("id", "integer", False),
        ("name", "string", False),
        ("price", "decimal", True),
        ("stock", "integer", False),
        ("ratio", "number", True),
        ("notes", "string", True),
        ("is_made_here", "boolean", False),
        ("status", "enum", False),
        ("made_on", "date", True),
        ("made_at", "datetime", True),
        ("booked_at", "datetime", True),
        ("packed_at", "time", True),
        ("serial", "uuid", True),
        ("extra", "json", True),
        ("cost", "decimal", True),
        ("material_id", "integer", True),
        ("supplier_id", "integer", True),
    ]
    assert part.unread == {"photo"}
    assert [c.name for c in part.primary_key] == ["id"]
    assert part.description == "Inventory parts catalog."
    assert part.columns[1].description == "What the part is called"


def test_relations_lead_both_ways() -> None:
    material, parts = relation(Part, "material"), relation(Material, "parts")
    assert (material.target, material.many, material.nullable) == (Material, False, True)
    assert material.description == "What the part is made of"
    assert ends(material) == [("part.material_id", "material.id")]
    assert (parts.target, parts.many) == (Part, True)
    assert ends(parts) == [("material.id", "part.material_id")]
    assert relation(ProjectPart, "part").nullable is False


def test_a_relation_without_a_constraint_may_dangle() -> None:
    supplier = relation(Part, "supplier")
    assert ends(supplier) == [("part.supplier_id", "supplier.id")]
    assert (supplier.many, supplier.nullable, supplier.problem) == (False, True, "")
    assert ends(relation(Supplier, "parts")) == [("supplier.id", "part.supplier_id")]


def test_a_link_table_has_two_hops() -> None:
    parts = relation(Project, "parts")
    assert parts.link is not None
    assert parts.link.name == "project_part"
    assert ends(parts) == [("project.code", "project_part.project_code")]
    assert [(str(a), str(b)) for a, b in parts.link_pairs] == [("project_part.part_id", "part.id")]


def test_relations_to_the_same_table_know_their_direction() -> None:
    assert ends(relation(Project, "parent")) == [("project.parent_code", "project.code")]
    assert ends(relation(Project, "children")) == [("project.code", "project.parent_code")]


def test_composite_keys_have_a_pair_for_each_column() -> None:
    expected = [("box.hall", "shelf.hall"), ("box.number", "shelf.number")]
    assert ends(relation(Box, "shelf")) == expected
    assert ends(relation(Shelf, "boxes")) == [(b, a) for a, b in expected]


class Net(SQLModel, registry=registry(metadata=sa.MetaData())):
    pass


class Follow(Net, table=True):
    id: int | None = Field(default=None, primary_key=True)
    from_id: int = Field(foreign_key="person.id")
    to_id: int = Field(foreign_key="person.id")


class Person(Net, table=True):
    id: int | None = Field(default=None, primary_key=True)
    name: str = Field(sa_column_kwargs={"comment": "The name on  the door"})

    follows: list["Person"] = Relationship(
        sa_relationship_kwargs={
            "secondary": Follow.__table__,  # pyright: ignore[reportUnknownMemberType, reportAttributeAccessIssue]
            "primaryjoin": "Person.id == Follow.from_id",
            "secondaryjoin": "Person.id == Follow.to_id",
            "viewonly": True,
        }
    )


@pytest.fixture
def people_url(tmp_path: Path) -> str:
    engine = sa.create_engine(f"sqlite:///{tmp_path}/people.db")
    Net.metadata.create_all(engine)
    with Session(engine) as session:
        session.add_all(Person(id=n, name=f"P{n}") for n in (1, 2, 3))
        session.flush()
        pairs = [(1, 2), (1, 2), (1, 3), (2, 1)]
        session.add_all(Follow(from_id=a, to_id=b) for a, b in pairs)
        session.commit()
    engine.dispose()
    return f"sqlite+aiosqlite:///{tmp_path}/people.db"


@pytest.fixture
async def people(people_url: str) -> AsyncIterator[Reader]:
    managers = Managers()
    managers.expose(Person)
    async with Reader(managers, database_url=people_url) as reader:
        yield reader


async def test_a_link_table_that_repeats_a_pair_shows_the_row_once(people: Reader) -> None:
    view = await people.view(ADA)
    fields: list[Json] = ["id", {"follows": ["id"]}]
    page = await people.query(QueryRequest("Person", fields), view)
    assert page["data"] == [
        {"id": 1, "follows": [{"id": 2}, {"id": 3}]},
        {"id": 2, "follows": [{"id": 1}]},
        {"id": 3, "follows": []},
    ]
    request = QueryRequest("Person", ["id"], {"follows__follows__id": 1})
    assert (await people.query(request, view))["data"] == [{"id": 1}]


async def test_a_link_table_that_repeats_a_pair_links_by_its_visible_rows(people_url: str) -> None:
    managers = Managers()
    managers.expose(Person)
    managers.expose(Follow, visible=lambda actor: {"id__in": [2, 4]})
    async with Reader(managers, database_url=people_url) as reader:
        fields: list[Json] = ["id", {"follows": ["id"]}]
        page = await reader.query(QueryRequest("Person", fields), await reader.view(ADA))
        assert page["data"] == [
            {"id": 1, "follows": [{"id": 2}]},
            {"id": 2, "follows": [{"id": 1}]},
            {"id": 3, "follows": []},
        ]


def test_a_column_comment_describes_a_field() -> None:
    person = SOURCE.describe(Person)
    assert person.columns[1].description == "The name on the door"


class Base(DeclarativeBase):
    pass


class Author(Base):
    """Writers of books."""

    __tablename__ = "author"

    key: Mapped[str] = mapped_column("author_key", primary_key=True)
    born: Mapped[int | None]
    desk: Mapped["Desk"] = relationship(back_populates="author")


Author.__mapper__.add_property("age", column_property(2000 - Author.__table__.c.born))


class Desk(Base):
    __tablename__ = "desk"

    id: Mapped[int] = mapped_column(primary_key=True)
    author_key: Mapped[str] = mapped_column(sa.ForeignKey(Author.key), unique=True)
    author: Mapped[Author] = relationship(back_populates="desk")


def test_declarative_models_work_as_well() -> None:
    assert SOURCE.accepts(Author)
    author = SOURCE.describe(Author)
    assert [(c.name, c.column.name) for c in author.columns] == [
        ("key", "author_key"),
        ("born", "born"),
    ]
    assert author.unread == {"age"}
    assert author.description == "Writers of books."
    desk = relation(Author, "desk")
    assert (desk.many, desk.nullable, desk.problem) == (False, True, "")


class Trip(Base):
    __tablename__ = "trip"

    id: Mapped[int] = mapped_column(primary_key=True)
    lasted: Mapped[timedelta]


def test_what_has_no_wire_form_is_not_read() -> None:
    trip = SOURCE.describe(Trip)
    assert [c.name for c in trip.columns] == ["id"]
    assert trip.unread == {"lasted"}


@pytest.mark.parametrize("other", [int, SQLModel, Net, Managers])
def test_what_has_no_table_is_not_accepted(other: type) -> None:
    assert not SOURCE.accepts(other)


class Holder(Base):
    __tablename__ = "holder"

    code: Mapped[str] = mapped_column(sa.String(collation="NOCASE"), primary_key=True)
    cards: Mapped[list["Card"]] = relationship(back_populates="holder")


class Card(Base):
    """Keyed by the mapper alone; a cancelled card's number is given out again."""

    __table__ = sa.Table(
        "card",
        Base.metadata,
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("holder_code", sa.String(collation="NOCASE"), sa.ForeignKey(Holder.code)),
        sa.Column("is_valid", sa.Boolean, nullable=False),
        sa.Index("ux_card_holder", "holder_code", unique=True, sqlite_where=sa.text("is_valid")),
    )
    __mapper_args__ = {"primary_key": [__table__.c.number]}  # noqa: RUF012  as SQLAlchemy has it

    holder: Mapped[Holder] = relationship(back_populates="cards")


def test_a_partial_index_keeps_no_key_unique() -> None:
    card, desk = (SOURCE.describe(model).table for model in (Card, Desk))
    assert not is_unique(card, [card.c.holder_code])
    assert is_unique(desk, [desk.c.author_key])


@pytest.fixture
async def cards(tmp_path: Path) -> AsyncIterator[Reader]:
    engine = sa.create_engine(f"sqlite:///{tmp_path}/cards.db")
    Base.metadata.create_all(engine)
    with engine.begin() as connection:
        connection.exec_driver_sql("INSERT INTO holder VALUES ('Ada'), ('Bob'), ('eve')")
        rows = "(3, 'ADA', 1), (1, 'bob', 0), (2, 'BOB', 1), (5, 'ada', 0), (4, NULL, 0)"
        connection.exec_driver_sql(f"INSERT INTO card VALUES {rows}")
    engine.dispose()
    managers = Managers()
    managers.expose(Holder)
    managers.expose(Card)
    async with Reader(managers, database_url=f"sqlite+aiosqlite:///{tmp_path}/cards.db") as reader:
        yield reader


async def test_a_key_that_only_the_mapper_knows_orders_and_is_described(cards: Reader) -> None:
    view = await cards.view(ADA)
    page = await cards.query(QueryRequest("Card", ["number"]), view)
    assert page["data"] == [{"number": number} for number in (1, 2, 3, 4, 5)]
    assert view.index.describe("Card")["primary_key"] == ["number"]


async def test_the_database_decides_which_keys_are_equal(cards: Reader) -> None:
    view = await cards.view(ADA)
    fields: list[Json] = ["code", {"cards": ["number", {"holder": ["code"]}]}]
    page = await cards.query(QueryRequest("Holder", fields), view)
    ada, bob = {"code": "Ada"}, {"code": "Bob"}
    assert page["data"] == [
        {"code": "Ada", "cards": [{"number": n, "holder": ada} for n in (3, 5)]},
        {"code": "Bob", "cards": [{"number": n, "holder": bob} for n in (1, 2)]},
        {"code": "eve", "cards": []},
    ]
    request = QueryRequest("Holder", ["code"], {"cards__number": 5})
    assert (await cards.query(request, view))["data"] == [ada]
