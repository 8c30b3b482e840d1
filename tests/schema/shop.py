"""A small shop: the tables that the tests of this room read, and the rows in them."""

import enum
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import ClassVar
from uuid import UUID

import sqlalchemy as sa
from pydantic import NaiveDatetime
from sqlalchemy.orm import registry
from sqlmodel import Field, Relationship, SQLModel

BIG = 2**53 + 1
LARGEST = 2**63 - 1


class Shop(SQLModel, registry=registry(metadata=sa.MetaData())):
    """Base with a metadata of its own, beside the tables of other tests."""


class Status(enum.Enum):
    ACTIVE = "active"
    ON_HOLD = "on hold"


class ProjectPart(Shop, table=True):
    """How many of a part a project needs."""

    __tablename__: ClassVar[str] = "project_part"  # pyright: ignore[reportIncompatibleVariableOverride]

    project_code: str = Field(foreign_key="project.code", primary_key=True)
    part_id: int = Field(foreign_key="part.id", primary_key=True)
    quantity: int = 1

    project: "Project" = Relationship(back_populates="items")
    part: "Part" = Relationship(back_populates="uses")


class Material(Shop, table=True):
    """Materials used in manufacturing."""

    id: int | None = Field(default=None, primary_key=True)
    name: str
    density: float | None = None

    parts: list["Part"] = Relationship(back_populates="material")


class Supplier(Shop, table=True):
    """Companies that sell us parts."""

    id: int | None = Field(default=None, primary_key=True)
    name: str
    city: str | None = None
    bank_account: str = "CANARY-IBAN"

    parts: list["Part"] = Relationship(
        back_populates="supplier",
        sa_relationship_kwargs={"primaryjoin": "foreign(Part.supplier_id) == Supplier.id"},
    )
    payroll: list["Payroll"] = Relationship(back_populates="supplier")


class Part(Shop, table=True):
    """Inventory parts catalog.

    The second paragraph is for developers.
    """

    id: int | None = Field(default=None, primary_key=True, sa_type=sa.BigInteger)
    name: str = Field(description="What the part is called")
    price: Decimal | None = Field(default=None, max_digits=10, decimal_places=2)
    stock: int = 0
    ratio: float | None = None
    notes: str | None = None
    is_made_here: bool = True
    status: Status = Status.ACTIVE
    made_on: date | None = None
    made_at: datetime | None = None
    booked_at: NaiveDatetime | None = None
    packed_at: time | None = None
    serial: UUID | None = None
    extra: dict[str, object] | None = Field(default=None, sa_type=sa.JSON)
    photo: bytes | None = None
    cost: Decimal | None = Field(default=None, max_digits=10, decimal_places=2)
    material_id: int | None = Field(default=None, foreign_key="material.id")
    supplier_id: int | None = None

    material: Material | None = Relationship(
        back_populates="parts",
        sa_relationship_kwargs={"info": {"description": "What the part is made of"}},
    )
    # No database constraint: suppliers may be gone.
    supplier: Supplier | None = Relationship(
        back_populates="parts",
        sa_relationship_kwargs={
            "primaryjoin": "foreign(Part.supplier_id) == Supplier.id",
        },
    )
    uses: list[ProjectPart] = Relationship(back_populates="part")
    projects: list["Project"] = Relationship(
        back_populates="parts",
        link_model=ProjectPart,
        sa_relationship_kwargs={"viewonly": True},
    )


class Project(Shop, table=True):
    """Engineering projects."""

    code: str = Field(primary_key=True)
    name: str
    owner: str = "ada"
    parent_code: str | None = Field(default=None, foreign_key="project.code")

    parent: "Project" = Relationship(
        back_populates="children", sa_relationship_kwargs={"remote_side": "Project.code"}
    )
    children: list["Project"] = Relationship(back_populates="parent")
    items: list[ProjectPart] = Relationship(back_populates="project")
    parts: list[Part] = Relationship(
        back_populates="projects",
        link_model=ProjectPart,
        sa_relationship_kwargs={"viewonly": True},
    )


class Payroll(Shop, table=True):
    """Never exposed."""

    id: int | None = Field(default=None, primary_key=True)
    person: str = "CANARY-77"
    salary: int = 0
    supplier_id: int | None = Field(default=None, foreign_key="supplier.id")

    supplier: Supplier | None = Relationship(back_populates="payroll")


class Shelf(Shop, table=True):
    """Shelves, known by hall and number."""

    hall: str = Field(primary_key=True)
    number: int = Field(primary_key=True)
    label: str = ""

    boxes: list["Box"] = Relationship(back_populates="shelf")


class Box(Shop, table=True):
    """Boxes on shelves."""

    id: int | None = Field(default=None, primary_key=True)
    hall: str | None = None
    number: int | None = None

    shelf: Shelf | None = Relationship(back_populates="boxes")

    __table_args__ = (sa.ForeignKeyConstraint(["hall", "number"], ["shelf.hall", "shelf.number"]),)


MATERIALS = [
    Material(id=1, name="Steel", density=7.8),
    Material(id=2, name="Aluminum", density=2.7),
    Material(id=3, name="Cobalt", density=8.9),
]
SUPPLIERS = [
    Supplier(id=1, name="Acme", city="Köln"),
    Supplier(id=2, name="Äther", city="ÅRHUS"),
    Supplier(id=3, name="Empty"),
]
PARTS = [
    Part(id=1, name="Bolt", price=Decimal("1.10"), stock=5, material_id=1, supplier_id=1),
    Part(id=2, name="Bearing", price=Decimal("12.00"), stock=0, material_id=2, supplier_id=2),
    Part(id=3, name="Gear", price=Decimal("12.00"), stock=7, material_id=3, supplier_id=99),
    Part(
        id=4,
        name="100%_Nut",
        ratio=0.5,
        stock=2,
        notes="a\0b",
        status=Status.ON_HOLD,
        is_made_here=False,
        made_on=date(2024, 5, 31),
        made_at=datetime(2024, 5, 31, 14, 0, tzinfo=UTC),
        booked_at=datetime(2024, 6, 1, 9, 30),  # noqa: DTZ001  a naive column on purpose
        packed_at=time(8, 30),
        serial=UUID(int=7),
        extra={"n": float("nan"), "big": BIG, "list": [1, "x"]},
        photo=b"\0\1",
        cost=Decimal("9.99"),
    ),
    Part(id=BIG, name="Straße", ratio=float("inf"), stock=1, material_id=2, supplier_id=1),
    Part(id=LARGEST, name="Zahn", stock=3, price=Decimal("0.50"), material_id=2),
]
PROJECTS = [
    Project(code="APO", name="Apollo"),
    Project(code="MER", name="Mercury", owner="grace", parent_code="APO"),
    Project(code="VEN", name="Venus", owner="grace", parent_code="MER"),
    Project(code="X'1", name="Ex", parent_code="APO"),
]
ITEMS = [
    ProjectPart(project_code="APO", part_id=1, quantity=4),
    ProjectPart(project_code="APO", part_id=3, quantity=1),
    ProjectPart(project_code="MER", part_id=2, quantity=2),
    ProjectPart(project_code="MER", part_id=1, quantity=9),
    ProjectPart(project_code="VEN", part_id=4, quantity=1),
]
SHELVES = [Shelf(hall="A", number=1, label="A1"), Shelf(hall="A", number=2, label="A2")]
BOXES = [
    Box(id=1, hall="A", number=1),
    Box(id=2, hall="A", number=2),
    Box(id=3, hall="A", number=1),
    Box(id=4, hall="A"),
]
PAYROLL = [Payroll(id=1, supplier_id=1, salary=1)]

_ROWS: list[list[Shop]] = [
    [*MATERIALS], [*SUPPLIERS], [*PARTS], [*PROJECTS], [*ITEMS], [*SHELVES], [*BOXES], [*PAYROLL],
]  # fmt: skip


def rows_for(dialect: str) -> list[list[Shop]]:
    """The rows, as far as a database can hold them: PostgreSQL has no NUL, and no NaN in JSON."""
    if dialect == "sqlite":
        return _ROWS
    nut = PARTS[3].model_copy(
        update={"notes": "a␀b", "extra": {"n": None, "big": BIG, "list": [1, "x"]}}
    )
    return [[nut if row is PARTS[3] else row for row in rows] for rows in _ROWS]
