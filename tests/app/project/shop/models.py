"""What the shop sells, as SQLModel tables, and who ordered it, as Tortoise models."""

from decimal import Decimal

from sqlmodel import Field, Relationship, SQLModel
from tortoise import fields
from tortoise.models import Model


class Material(SQLModel, table=True):
    """Materials that parts are made of."""

    id: int | None = Field(default=None, primary_key=True)
    name: str
    purchase_price: Decimal = Field(max_digits=10, decimal_places=2)

    parts: list["Part"] = Relationship(back_populates="material")


class Part(SQLModel, table=True):
    """Parts that the shop sells."""

    id: int | None = Field(default=None, primary_key=True)
    name: str = Field(description="What the part is called")
    price: Decimal = Field(max_digits=10, decimal_places=2)
    stock: int = 0
    material_id: int | None = Field(default=None, foreign_key="material.id")

    material: Material = Relationship(back_populates="parts")


class Customer(Model):
    """Never exposed."""

    id = fields.IntField(primary_key=True)
    subject = fields.CharField(50, unique=True)

    orders: fields.ReverseRelation["Order"]


class Order(Model):
    """Orders of customers."""

    id = fields.IntField(primary_key=True)
    part_id = fields.IntField(description="Number of the part that is ordered")
    total = fields.DecimalField(10, 2)
    ordered_at = fields.DatetimeField()
    owner: fields.ForeignKeyRelation[Customer] = fields.ForeignKeyField(
        "shop.Customer", related_name="orders"
    )
