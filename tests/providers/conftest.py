"""Desks over the demos' databases."""

from collections.abc import AsyncGenerator

import pytest_asyncio
from desk import Desk, open_desk

from app.demo import flights, manufacturing, toy


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
