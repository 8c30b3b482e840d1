"""A column type of the project's own may raise, in or out: nothing breaks and nothing leaks."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column
from sqlalchemy.pool import NullPool

from schema import Managers, ToolFailed, ToolRetry
from schema.errors import guarded
from schema.events import Actor, Json
from schema.query import Reader
from schema.request import QueryRequest

REFUSALS: dict[str | None, type[Exception]] = {
    "refused": ValueError,
    "unknown": KeyError,
    "not of its kind": TypeError,
    "too large": OverflowError,
}


class Code(sa.TypeDecorator[str]):
    """A text that its column is choosy about; what it refuses is told in whatever way it likes."""

    impl = sa.String
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: sa.Dialect) -> str | None:
        if value in REFUSALS:
            raise REFUSALS[value]("secret detail")
        return value

    def process_result_value(self, value: str | None, dialect: sa.Dialect) -> str | None:
        if value == "odd":
            raise AttributeError("secret detail")
        if value == "broken":
            raise RuntimeError("secret detail")
        return value


class Base(DeclarativeBase):
    pass


class Tag(Base):
    __tablename__ = "tag"

    id: Mapped[int] = mapped_column(primary_key=True)
    code: Mapped[str] = mapped_column(Code)


@pytest.fixture
async def tags(
    dialect: str, tmp_path: Path, request: pytest.FixtureRequest
) -> AsyncIterator[Reader]:
    url = f"sqlite+aiosqlite:///{tmp_path / 'tags.db'}"
    if dialect == "postgres":
        url = request.getfixturevalue("postgres_url")
    engine = create_async_engine(url, poolclass=NullPool)
    async with engine.begin() as connection:
        await connection.run_sync(Base.metadata.create_all)
        rows = "(1, 'refused'), (2, 'taken'), (3, 'odd'), (4, 'broken')"
        await connection.exec_driver_sql(f"INSERT INTO tag VALUES {rows}")
    managers = Managers()
    managers.expose(Tag, visible=lambda actor: {"code": actor.subject} if actor.tenant else {})
    async with Reader(managers, database_url=url) as reader:
        yield reader


@pytest.mark.parametrize(("subject", "expected"), [("refused", []), ("taken", [{"id": 2}])])
async def test_a_visible_value_that_it_refuses_matches_nothing(
    tags: Reader, subject: str, expected: list[Json]
) -> None:
    view = await tags.view(Actor("user", subject, tenant="limited"))
    assert (await tags.query(QueryRequest("Tag", ["id"]), view))["data"] == expected


@pytest.mark.parametrize("value", REFUSALS)
async def test_a_filter_value_that_it_refuses_is_refused(tags: Reader, value: str) -> None:
    view = await tags.view(Actor("user", "ada"))
    with pytest.raises(ToolRetry, match=r"^Filter code: the value does not fit the field\.$"):
        await tags.query(QueryRequest("Tag", filters={"code": value}), view)


async def test_a_stored_value_that_it_can_not_read_is_null_with_a_note(tags: Reader) -> None:
    view = await tags.view(Actor("user", "ada"))
    page = await tags.query(QueryRequest("Tag", ["code"], {"id__in": [2, 3]}), view)
    assert page["data"] == [{"code": "taken"}, {"code": None}]
    assert "notes" in page


async def test_what_it_raises_beyond_that_is_told_to_nobody(tags: Reader) -> None:
    view = await tags.view(Actor("user", "ada"))
    with pytest.raises(ToolFailed, match=r"^The tool failed unexpectedly"):
        with guarded("query"):
            await tags.query(QueryRequest("Tag"), view)
    result = await tags.graphql.execute("{ tagList { code } }", context_value=view)
    assert result.errors is not None
    assert "secret" not in str(result.errors)
