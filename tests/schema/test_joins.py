"""Paths over relations to one row: as many joins as any database takes in one statement."""

from collections.abc import AsyncIterator
from itertools import product
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship
from sqlalchemy.pool import NullPool

from schema import Managers, ToolRetry
from schema.aggregates import AggregateRequest
from schema.events import Json, JsonObject
from schema.query import Reader
from schema.request import QueryRequest
from tests.schema.conftest import ADA


class Base(DeclarativeBase):
    pass


class Node(Base):
    """A node that leads to two others."""

    __tablename__ = "node"

    id: Mapped[int] = mapped_column(primary_key=True)
    left_id: Mapped[int | None] = mapped_column(sa.ForeignKey("node.id"))
    right_id: Mapped[int | None] = mapped_column(sa.ForeignKey("node.id"))

    left: Mapped["Node | None"] = relationship(foreign_keys=[left_id], remote_side=[id])
    right: Mapped["Node | None"] = relationship(foreign_keys=[right_id], remote_side=[id])


@pytest.fixture
async def nodes(
    dialect: str, tmp_path: Path, request: pytest.FixtureRequest
) -> AsyncIterator[Reader]:
    url = f"sqlite+aiosqlite:///{tmp_path / 'nodes.db'}"
    if dialect == "postgres":
        url = request.getfixturevalue("postgres_url")
    engine = create_async_engine(url, poolclass=NullPool)
    async with engine.begin() as connection:
        await connection.run_sync(Base.metadata.create_all)
        await connection.execute(sa.insert(Node), [{"id": 1, "left_id": 1, "right_id": 1}])
    managers = Managers()
    managers.expose(Node)
    async with Reader(managers, database_url=url) as reader:
        yield reader


def paths(count: int) -> list[str]:
    """The shortest of all paths, each of which is one join more than those before it."""
    ways = [
        "__".join(way)
        for length in range(1, 6)
        for way in product(("left", "right"), repeat=length)
    ]
    return [f"{way}__id" for way in ways[:count]]


async def test_a_request_has_as_many_joins_as_a_database_takes(nodes: Reader) -> None:
    view = await nodes.view(ADA)
    fifty: JsonObject = {path: 1 for path in paths(50)}
    page = await nodes.query(QueryRequest("Node", ["id"], fifty), view)
    assert page["data"] == [{"id": 1}]


async def test_a_request_with_more_joins_is_refused(nodes: Reader) -> None:
    view = await nodes.view(ADA)
    most: JsonObject = {path: 1 for path in paths(48)}
    rest: list[Json] = [*paths(52)[48:]]
    measures: list[Json] = [{"op": "max", "field": path} for path in paths(52)[48:]]
    with pytest.raises(ToolRetry, match="too many different relations to one row: at most 50"):
        await nodes.query(QueryRequest("Node", ["id"], most, rest), view)
    with pytest.raises(ToolRetry, match="too many different relations to one row: at most 50"):
        await nodes.aggregate(AggregateRequest("Node", most, measures=measures), view)
