"""Creates the shop's databases by the means of their own libraries: ``python -m shop.fill``."""

import asyncio
from datetime import UTC, datetime
from decimal import Decimal

from shop.db import engine, sessions
from shop.models import Customer, Material, Order, Part
from shop.settings import TORTOISE
from sqlmodel import SQLModel
from tortoise.context import TortoiseContext


async def fill_parts() -> None:
    async with engine.begin() as connection:
        await connection.run_sync(SQLModel.metadata.create_all)
    async with sessions() as session:
        steel = Material(name="Steel", purchase_price=Decimal("0.07"))
        session.add(Part(name="Bolt", price=Decimal("1.10"), stock=40, material=steel))
        session.add(Part(name="Gear", price=Decimal("12"), material=steel))
        await session.commit()
    await engine.dispose()


async def fill_orders() -> None:
    async with TortoiseContext() as tortoise:
        await tortoise.init(TORTOISE)
        await tortoise.generate_schemas()
        ada, bob = [await Customer.create(subject=name) for name in ("ada", "bob")]
        at = datetime(2024, 5, 31, 14, tzinfo=UTC)
        await Order.create(part_id=1, total=Decimal("5.5"), ordered_at=at, owner=ada)
        await Order.create(part_id=2, total=Decimal("24"), ordered_at=at, owner=bob)


async def main() -> None:
    await fill_parts()
    await fill_orders()


asyncio.run(main())
