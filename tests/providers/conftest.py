"""Desks over the demos' databases."""

from collections.abc import AsyncGenerator
from pathlib import Path

import orders
import pytest_asyncio
from desk import Desk, open_desk

from app.demo import flights, manufacturing, toy
from schema.reads import prepare_database


@pytest_asyncio.fixture
async def toys(toy_url: str) -> AsyncGenerator[Desk]:
    async with open_desk(toy.managers, toy_url) as desk:
        yield desk


@pytest_asyncio.fixture
async def factory(manufacturing_url: str) -> AsyncGenerator[Desk]:
    async with open_desk(manufacturing.managers, manufacturing_url) as desk:
        yield desk


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def tower(flights_url: str) -> AsyncGenerator[Desk]:
    async with open_desk(flights.managers, flights_url) as desk:
        yield desk


@pytest_asyncio.fixture
async def shop(tmp_path: Path) -> AsyncGenerator[Desk]:
    url = f"sqlite+aiosqlite:///{tmp_path / 'orders.db'}"
    await prepare_database(orders.managers, url)
    async with open_desk(orders.managers, url) as desk:
        yield desk
