"""The shop of ``shop.py`` as Tortoise models, as far as Tortoise can say the same, and its rows.

Tortoise has no keys of several columns, so shelves and boxes are missing and a project's part has a
number; parts have a value of every kind of field.
"""

import enum
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Annotated
from uuid import UUID

from tortoise import fields
from tortoise.context import require_context
from tortoise.models import Model
from typing_extensions import Doc

from tests.schema.shop import BIG, LARGEST, Status

APPS = {"shop": {"models": [__name__]}}


class Grade(enum.IntEnum):
    ROUGH = 1
    FINE = 2


class Material(Model):
    """Materials used in manufacturing."""

    id = fields.IntField(primary_key=True)
    name = fields.CharField(50, unique=True)
    density = fields.FloatField(null=True)

    parts: Annotated[fields.ReverseRelation["Part"], Doc("What is made of it")]


class Supplier(Model):
    """Companies that sell us parts."""

    id = fields.IntField(primary_key=True)
    name = fields.CharField(50)
    city = fields.TextField(null=True)
    bank_account = fields.CharField(40, default="CANARY-IBAN")

    parts: fields.ReverseRelation["Part"]
    payroll: fields.ReverseRelation["Payroll"]


class Part(Model):
    """Inventory parts catalog.

    The second paragraph is for developers.
    """

    id = fields.BigIntField(primary_key=True)
    name = fields.CharField(50, description="What the part  is called")
    price = fields.DecimalField(10, 2, null=True)
    stock = fields.SmallIntField(default=0)
    ratio = fields.FloatField(null=True)
    #: What the workshop says
    notes = fields.TextField(null=True)
    is_made_here = fields.BooleanField(default=True)
    status = fields.CharEnumField(Status, default=Status.ACTIVE)
    grade = fields.IntEnumField(Grade, null=True)
    made_on = fields.DateField(null=True)
    made_at = fields.DatetimeField(null=True)
    packed_at = fields.TimeField(null=True)
    lead_time = fields.TimeDeltaField(null=True)
    serial = fields.UUIDField(null=True)
    extra = fields.JSONField[dict[str, object]](null=True)
    photo = fields.BinaryField(null=True)
    cost = fields.DecimalField(10, 2, null=True, source_field="purchase_cost")
    material: Annotated[
        fields.ForeignKeyNullableRelation[Material], Doc("What the part is made of")
    ] = fields.ForeignKeyField("shop.Material", related_name="parts", null=True)
    # No database constraint: suppliers may be gone.
    supplier: fields.ForeignKeyNullableRelation[Supplier] = fields.ForeignKeyField(
        "shop.Supplier",
        related_name="parts",
        null=True,
        db_constraint=False,
        source_field="sold_by",
        description="Who sells it",
    )

    uses: fields.ReverseRelation["ProjectPart"]
    projects: fields.ManyToManyRelation["Project"]
    drawing: fields.OneToOneRelation["Drawing"]


class Drawing(Model):
    """One drawing for a part, known by it."""

    part: fields.OneToOneRelation[Part] = fields.OneToOneField(
        "shop.Part", related_name="drawing", primary_key=True
    )
    title = fields.CharField(50)


class Project(Model):
    """Engineering projects."""

    code = fields.CharField(10, primary_key=True)
    name = fields.CharField(50)
    owner = fields.CharField(20, default="ada")
    parent: fields.ForeignKeyNullableRelation["Project"] = fields.ForeignKeyField(
        "shop.Project", related_name="children", null=True, source_field="parent_code"
    )
    parts: fields.ManyToManyRelation[Part] = fields.ManyToManyField(
        "shop.Part",
        related_name="projects",
        through="project_part",
        backward_key="project_code",
        forward_key="part_id",
    )
    materials: fields.ManyToManyRelation[Material] = fields.ManyToManyField(
        "shop.Material", related_name="projects", description="What it is  built of"
    )
    rivals: fields.ManyToManyRelation["Project"] = fields.ManyToManyField(
        "shop.Project", related_name="rival_of", unique=False
    )

    children: fields.ReverseRelation["Project"]
    items: fields.ReverseRelation["ProjectPart"]


class ProjectPart(Model):
    """How many of a part a project needs."""

    id = fields.IntField(primary_key=True)
    project: fields.ForeignKeyRelation[Project] = fields.ForeignKeyField(
        "shop.Project", related_name="items", source_field="project_code"
    )
    part: fields.ForeignKeyRelation[Part] = fields.ForeignKeyField("shop.Part", related_name="uses")
    quantity = fields.IntField(default=1)

    class Meta(Model.Meta):
        table = "project_part"
        unique_together = ("project_id", "part_id")


class Payroll(Model):
    """Never exposed."""

    id = fields.IntField(primary_key=True)
    person = fields.CharField(20, default="CANARY-77")
    salary = fields.IntField(default=0)
    supplier: fields.ForeignKeyNullableRelation[Supplier] = fields.ForeignKeyField(
        "shop.Supplier", related_name="payroll", null=True
    )


NOTES = "tab\t, quote ' and ß"
WITH_ALL = {
    "ratio": 0.5,
    "notes": NOTES,
    "status": Status.ON_HOLD,
    "grade": Grade.FINE,
    "is_made_here": False,
    "made_on": date(2024, 5, 31),
    "made_at": datetime(2024, 5, 31, 14, 0, 0, 250, tzinfo=UTC),
    "lead_time": timedelta(days=3),
    "serial": UUID(int=7),
    "extra": {"big": BIG, "list": [1, "x", None]},
    "photo": b"\0\1",
    "cost": Decimal("9.9"),
}
"""A value for every kind of field but ``packed_at``: Tortoise itself can't store it on SQLite."""


async def fill() -> None:
    """Create the tables and all rows by Tortoise's own means, in the current context."""
    await require_context().generate_schemas()
    for number, (name, density) in enumerate([("Steel", 7.8), ("Aluminum", 2.7), ("Cobalt", 8.9)]):
        await Material.create(id=number + 1, name=name, density=density)
    for number, (name, city) in enumerate([("Acme", "Köln"), ("Äther", "ÅRHUS"), ("Empty", None)]):
        await Supplier.create(id=number + 1, name=name, city=city)
    first = [
        ("Bolt", "1.10", 5, 1, 1),
        ("Bearing", "12.00", 0, 2, 2),
        ("Gear", "12.00", 7, 3, 99),
    ]
    for number, (name, price, stock, material, supplier) in enumerate(first):
        await Part.create(
            id=number + 1,
            name=name,
            price=Decimal(price),
            stock=stock,
            material_id=material,
            supplier_id=supplier,
        )
    await Part(id=4, name="100%_Nut", stock=2, **WITH_ALL).save()
    await Part.create(id=BIG, name="Straße", stock=1, material_id=2, supplier_id=1)
    await Part.create(id=LARGEST, name="Zahn", stock=3, price=Decimal("0.50"), material_id=2)
    for code, name, owner, parent in [
        ("APO", "Apollo", "ada", None),
        ("MER", "Mercury", "grace", "APO"),
        ("VEN", "Venus", "grace", "MER"),
        ("X'1", "Ex", "ada", "APO"),
    ]:
        await Project.create(code=code, name=name, owner=owner, parent_id=parent)
    items = [("APO", 1, 4), ("APO", 3, 1), ("MER", 2, 2), ("MER", 1, 9), ("VEN", 4, 1)]
    for project, part, quantity in items:
        await ProjectPart.create(project_id=project, part_id=part, quantity=quantity)
    await Drawing.create(part_id=1, title="Bolt, full size")
    apollo, mercury = await Project.get(code="APO"), await Project.get(code="MER")
    await apollo.materials.add(await Material.get(id=1), await Material.get(id=3))
    await apollo.rivals.add(mercury)
    await Payroll.create(id=1, supplier_id=1, salary=1)
