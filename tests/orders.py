"""An odd little business: its names are words that questions have for figures, too.

A manager is called Order and a field ``total``; moments stand in dates only, one order has none,
and two of them are worth the same.
"""

from datetime import date
from decimal import Decimal

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.orm import registry
from sqlmodel import Field, Relationship, SQLModel

from schema import Managers


class OrdersTable(SQLModel, registry=registry(metadata=sa.MetaData())):
    """Base of these tables: names here do not meet those of other domains."""


class Customer(OrdersTable, table=True):
    """People who order."""

    id: int | None = Field(default=None, primary_key=True)
    name: str
    town: str
    average_rating: float = Field(description="Average rating from 1 to 5.")

    orders: list["Order"] = Relationship(back_populates="customer")


class Order(OrdersTable, table=True):
    """Orders of customers."""

    id: int | None = Field(default=None, primary_key=True)
    placed_on: date | None = Field(description="Day the order was placed; null if draft.")
    total: Decimal = Field(max_digits=8, decimal_places=2, description="Sum of it, in euros.")
    is_paid: bool
    rank: int = Field(description="Urgency from 1 to 9.")
    customer_id: int | None = Field(foreign_key="customer.id")

    customer: Customer | None = Relationship(back_populates="orders")


CUSTOMERS = [("Ada", "Turin", 4.5), ("Bo", "Lyon", 3.0), ("Cy", "Lyon", 4.0)]
ORDERS: list[tuple[date | None, str, bool, int, int | None]] = [
    (date(2023, 7, 4), "12.50", True, 1, 1),
    (date(2023, 12, 31), "99.90", False, 5, 1),
    (date(2024, 7, 30), "99.90", True, 9, 2),
    (date(2024, 8, 1), "7.00", True, 2, 3),
    (None, "3.10", False, 2, None),
]


async def prepare(connection: AsyncConnection) -> None:
    """Create the tables and load the rows."""
    await connection.run_sync(OrdersTable.metadata.create_all)
    customers = [{"name": n, "town": t, "average_rating": r} for n, t, r in CUSTOMERS]
    await connection.execute(sa.insert(Customer), customers)
    orders = [
        {"placed_on": on, "total": Decimal(total), "is_paid": paid, "rank": rank, "customer_id": by}
        for on, total, paid, rank, by in ORDERS
    ]
    await connection.execute(sa.insert(Order), orders)


managers = Managers(prepare=prepare)
managers.expose(Customer)
managers.expose(Order)
