"""Databases that Tortoise makes itself, opened for reading by our own means."""

import asyncio
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import TypeVar

import sqlalchemy as sa
from tortoise.models import Model

from schema import Managers
from schema.aggregates import AggregateRequest
from schema.events import Json, JsonObject
from schema.query import Reader
from schema.request import QueryRequest
from schema.tortoise_source import TortoiseSource
from tests.schema.conftest import ADA

T = TypeVar("T")
Apps = Mapping[str, Mapping[str, object]]

ASYNCPG = "tortoise.backends.asyncpg"


def module_of(*models: type[Model]) -> str:
    """Put models into a module that can be imported; a model is part of one app in its life."""
    module = ModuleType(f"models_of_{models[0].__name__.lower()}")
    vars(module)["__models__"] = models
    sys.modules[module.__name__] = module
    return module.__name__


@dataclass(frozen=True)
class Shop:
    """The shop, filled by Tortoise, and as it is read here."""

    source: TortoiseSource
    reader: Reader

    async def tell(self, work: Callable[[], Awaitable[T]]) -> T:
        """Do something with Tortoise's own means."""
        return await telling(self.source, work)

    async def page(
        self,
        manager: str,
        fields: list[Json] | None = None,
        filters: JsonObject | None = None,
        order_by: list[Json] | None = None,
    ) -> list[Json]:
        view = await self.reader.view(ADA)
        page = await self.reader.query(QueryRequest(manager, fields, filters, order_by), view)
        assert "notes" not in page
        rows = page["data"]
        assert isinstance(rows, list)
        return rows

    async def groups(self, request: AggregateRequest) -> list[Json]:
        page = await self.reader.aggregate(request, await self.reader.view(ADA))
        rows = page["data"]
        assert isinstance(rows, list)
        return rows

    async def names(self, filters: JsonObject, *order: Json) -> list[Json]:
        rows = await self.page("Part", fields=["name"], filters=filters, order_by=[*order])
        return [row["name"] for row in rows if isinstance(row, dict)]


async def telling(source: TortoiseSource, work: Callable[[], Awaitable[T]]) -> T:
    async def done() -> T:
        return await work()

    async with (
        source.opened("sqlite+aiosqlite:///nowhere/chat.db") as context,
        asyncio.TaskGroup() as group,
    ):
        task = group.create_task(done(), context=context.copy())
    return task.result()


def at(url: str, apps: Mapping[str, Mapping[str, object]]) -> dict[str, object]:
    """A configuration. Tortoise keeps SQL by the connection's name, so each kind has its own."""
    where = sa.make_url(url)
    name = where.get_backend_name()
    if name == "sqlite":
        connection: object = f"sqlite://{where.database}"
    else:
        credentials = {"host": where.query["host"], "user": "postgres", "database": where.database}
        connection = {"engine": ASYNCPG, "credentials": credentials}
    return {
        "connections": {name: connection},
        "apps": {label: {**app, "default_connection": name} for label, app in apps.items()},
    }


@asynccontextmanager
async def opened(
    url: str,
    fill: Callable[[], Awaitable[None]],
    apps: Mapping[str, Mapping[str, object]],
    *models: type,
    **times: object,
) -> AsyncGenerator[Shop]:
    managers = Managers(tortoise={**at(url, apps), **times})
    for model in models:
        managers.expose(model)
    assert managers.tortoise is not None
    await telling(managers.tortoise, fill)
    async with Reader(managers, database_url=url) as reader:
        yield Shop(managers.tortoise, reader)
