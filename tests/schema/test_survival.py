"""P44: 300 values of every kind come out of both databases as they went in, and find their row."""

import enum
import json
import random
import re
from collections.abc import AsyncGenerator
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

import orjson
import pytest
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from schema import Managers, ToolRetry
from schema.events import Json, JsonObject
from schema.query import MAX_RESULT_BYTES, Reader
from schema.request import QueryRequest
from schema.sources import TextDecimal
from tests.schema.conftest import ADA, on_sqlite


class Base(DeclarativeBase):
    pass


class Size(enum.Enum):
    SMALL = "small"
    BIG = "very big"


class Thing(Base):
    __tablename__ = "thing"

    id: Mapped[int] = mapped_column(primary_key=True)
    whole: Mapped[int | None] = mapped_column(sa.BigInteger)
    little: Mapped[int | None] = mapped_column(sa.SmallInteger)
    exact: Mapped[Decimal | None] = mapped_column(TextDecimal(38, 18))
    price: Mapped[Decimal | None] = mapped_column(sa.Numeric(14, 4))
    free: Mapped[Decimal | None] = mapped_column(sa.Numeric)
    ratio: Mapped[float | None] = mapped_column(sa.Double)
    text: Mapped[str | None] = mapped_column(sa.Text)
    code: Mapped[str | None] = mapped_column(sa.String(5))
    filled: Mapped[str | None] = mapped_column(sa.CHAR(5))
    moment: Mapped[datetime | None] = mapped_column(sa.DateTime(timezone=True))
    local: Mapped[datetime | None] = mapped_column(sa.DateTime)
    day: Mapped[date | None] = mapped_column(sa.Date)
    clock: Mapped[time | None] = mapped_column(sa.Time)
    uid: Mapped[UUID | None] = mapped_column(sa.Uuid)
    flag: Mapped[bool | None] = mapped_column(sa.Boolean)
    size: Mapped[Size | None] = mapped_column(sa.Enum(Size))
    size_text: Mapped[Size | None] = mapped_column(sa.Enum(Size, native_enum=False))
    data: Mapped[object | None] = mapped_column(sa.JSON(none_as_null=True))
    span: Mapped[timedelta | None] = mapped_column(sa.Interval)


Value = tuple[str, object]


def values() -> list[Value]:
    """300 values, each with the column that it is stored in."""
    rng = random.Random(44)
    ends = [0, 1, 2**31, 2**53 - 1, 2**53, 2**53 + 1, 2**62, 2**63 - 1]
    digits = "12345678901234567890.123456789012345678"
    moments = [
        datetime(1, 1, 1, tzinfo=UTC), datetime(1582, 10, 5, 12, tzinfo=UTC),
        datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC), datetime(2000, 1, 1, tzinfo=UTC),
        # The hours that clocks in Berlin and New York skip and repeat.
        datetime(2024, 3, 31, 0, 59, 59, 999999, tzinfo=UTC), datetime(2024, 3, 31, 1, tzinfo=UTC),
        datetime(2024, 10, 27, 0, 30, tzinfo=UTC), datetime(2024, 10, 27, 1, 30, tzinfo=UTC),
        datetime(2024, 11, 3, 5, 30, tzinfo=UTC), datetime(2024, 11, 3, 6, 30, tzinfo=UTC),
        datetime(2038, 1, 19, 3, 14, 8, tzinfo=UTC),
        datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
    ]  # fmt: skip
    texts = [
        "", " ", "  a  ", "a\tb", "a\nb", "a\r\nb", "\x01\x1f\x7f", "'", "''; DROP TABLE thing; --",
        '"', "\\", "\\\\", "%", "_", "%_\\/", ":id", "$1", "?", "{}", "null", "NaN", "0", "true",
        "ß", "ẞ", "İ", "ı", "ΑΣ", "é", "e\u0301", "Å", "A\u030a", "\u200b", "\u202e", "\u2028",
        "\ufeff", "\ufffd", "\uffff", "😀", "👩‍👩‍👧‍👦", "🇩🇪", "𝒳", "نص", "汉字", "\U0010ffff",
        "x" * 10_000,
    ]  # fmt: skip
    nested: list[object] = []
    for _ in range(50):
        nested = [nested]
    data: list[object] = [
        {}, [], "", "null", 0, -1, 1.5, 1e300, False, True, [None], {"a": None}, {"": {"": []}},
        {"ключ": "😀", "a b": [1, "x", {"y": 2.25}]}, 2**53, [2**63, -(10**40)], nested,
        "x" * 1_000, {"nul\0": "a\0b"}, ["\u2028", "\x7f"],
    ]  # fmt: skip
    found: list[Value] = [("whole", sign * end) for end in ends for sign in (1, -1)]
    found += [("whole", -(2**63)), *(("little", n) for n in (-(2**15), -1, 0, 2**15 - 1))]
    long = (digits, "0.000000000000000001", "0.1", "10000000000000000000")
    found += [("exact", Decimal(sign + text)) for text in long for sign in ("", "-")]
    found += [("exact", Decimal(rng.randrange(10**38)).scaleb(-18)) for _ in range(30)]
    found += [("price", Decimal(rng.randrange(-(10**14), 10**14)).scaleb(-4)) for _ in range(30)]
    found += [("free", Decimal(n)) for n in ("0", "0.1", "-2.25", "1e-7", "123456789.25", "1e40")]
    found += [("ratio", n) for n in (0.1, 1 / 3, -0.0, 1e300, -1e300, 5e-324, 2.0**53, 1e16)]
    found += [("ratio", rng.uniform(-1, 1) * 10.0 ** rng.randrange(-20, 20)) for _ in range(30)]
    found += [("text", text) for text in texts]
    found += [("code", text) for text in ("abcde", "ab", "ab   ", "ÄÖÜß😀")]
    found += [("filled", text) for text in ("abcde", "ab", "")]
    found += [("moment", moment) for moment in moments]
    found += [("local", moment.replace(tzinfo=None)) for moment in moments]
    found += [("day", moment.date()) for moment in moments]
    found += [("day", date(9999, 12, 31)), ("day", date(2024, 2, 29))]
    found += [("clock", clock) for clock in (time(0), time(8, 30), time.max)]
    found += [("uid", UUID(int=rng.getrandbits(128))) for _ in range(8)]
    found += [("flag", True), ("flag", False), ("size", Size.BIG), ("size_text", Size.BIG)]
    found += [("data", item) for item in data]
    letters = [rng.choices(range(0xE000, 0x11000), k=9) for _ in range(300 - len(found))]
    return found + [("text", "".join(map(chr, text))) for text in letters]


VALUES = values()


def wire(value: object, column: str) -> Json:
    """The value as clients see it."""
    match value:
        case bool() | float() | None:
            return value
        case int():
            return value if abs(value) <= 2**53 - 1 else str(value)
        case str():
            return value.replace("\0", "␀")
        case Decimal():
            scale = {"exact": 18, "price": 4}.get(column)
            return f"{value:f}" if scale is None else f"{value:.{scale}f}"
        case datetime():
            return value.replace(tzinfo=UTC).isoformat()
        case date() | time():
            return value.isoformat()
        case UUID():
            return str(value)
        case enum.Enum():
            return str(value.value)
        case _:
            return orjson.loads(DIGITS.sub(r'"\1"', json.dumps(value)).replace("\\u0000", "␀"))


DIGITS = re.compile(r"(-?[0-9]{17,})")
"""Integers that are texts on the wire; JSON of the values has no shorter ones of that kind."""


class Store(NamedTuple):
    reader: Reader
    engine: AsyncEngine

    async def execute(self, *statements: str) -> None:
        async with self.engine.begin() as connection:
            for statement in statements:
                await connection.exec_driver_sql(statement)

    async def page(
        self, fields: list[Json] | None = None, filters: JsonObject | None = None
    ) -> JsonObject:
        request = QueryRequest("Thing", fields or ["*"], filters, limit=200)
        page = await self.reader.query(request, await self.reader.view(ADA))
        # What a client gets is strict JSON.
        assert orjson.loads(orjson.dumps(page)) == page
        assert json.loads(json.dumps(page, allow_nan=False)) == page
        return page

    async def cell(self, column: str, filters: JsonObject | None = None) -> tuple[Json, Json]:
        """The value of a column in the only row, and the notes."""
        page = await self.page([column], filters)
        [row] = page["data"] if isinstance(page["data"], list) else []
        assert isinstance(row, dict)
        return row[column], page.get("notes")


@pytest.fixture
async def store(
    dialect: str, tmp_path: Path, request: pytest.FixtureRequest
) -> AsyncGenerator[Store]:
    url = f"sqlite+aiosqlite:///{tmp_path / 'things.db'}"
    if dialect == "postgres":
        url = str(request.getfixturevalue("postgres_url"))
    engine = create_async_engine(url)
    async with engine.begin() as connection:
        await connection.run_sync(Base.metadata.create_all)
    managers = Managers()
    managers.expose(Thing)
    async with Reader(managers, database_url=url) as reader:
        yield Store(reader, engine)
    await engine.dispose()


@pytest.mark.covers("P44", "H40")
async def test_300_values_come_out_as_they_went_in(store: Store) -> None:
    assert len(VALUES) == 300
    async with store.engine.begin() as connection:
        for number, (column, value) in enumerate(VALUES):
            await connection.execute(sa.insert(Thing).values({"id": number, column: value}))
    differ: list[tuple[Value, Json]] = []
    for number, (column, value) in enumerate(VALUES):
        shown, notes = await store.cell(column, {"id": number})
        if shown != wire(value, column) or notes is not None:
            differ.append(((column, value), shown))
    assert differ == []


@pytest.mark.covers("P44", "P45")
async def test_every_value_finds_its_own_rows(store: Store) -> None:
    asked = [(c, v) for c, v in VALUES if c != "data"]
    async with store.engine.begin() as connection:
        for number, (column, value) in enumerate(asked):
            await connection.execute(sa.insert(Thing).values({"id": number, column: value}))
    differ: list[tuple[Value, Json]] = []
    for column, value in asked:
        same = [n for n, (c, v) in enumerate(asked) if c == column and v == value]
        page = await store.page(["id"], {column: wire(value, column)})
        if page["data"] != [{"id": number} for number in same]:
            differ.append(((column, value), page["data"]))
    assert differ == []


async def test_graphql_shows_the_same(store: Store) -> None:
    chosen = VALUES[::7]
    async with store.engine.begin() as connection:
        for number, (column, value) in enumerate(chosen):
            await connection.execute(sa.insert(Thing).values({"id": number, column: value}))
    view = await store.reader.view(ADA)
    for number, (column, value) in enumerate(chosen):
        name = "sizeText" if column == "size_text" else column
        question = f"{{ thingList(filters: {{id: {number}}}) {{ {name} }} }}"
        result = await store.reader.graphql.execute(question, context_value=view)
        assert result.errors is None
        assert result.data == {"thingList": [{name: wire(value, column)}]}


NOTE = "null stands for a stored value that is infinite or not valid"

DEEP = "[" * 10_000 + "]" * 10_000


@pytest.mark.covers("P44")
@pytest.mark.parametrize("stored", [DEEP, f'{{"a": {DEEP}}}', "[" * 101 + "]" * 101, '"\\ud800"'])
async def test_json_without_a_form_on_the_wire_is_null_with_a_note(
    store: Store, stored: str
) -> None:
    await store.execute(f"INSERT INTO thing (id, data) VALUES (1, '{stored}'), (2, '[]')")
    assert await store.cell("data", {"id": 1}) == (None, [f"data: {NOTE}"])
    assert await store.cell("data", {"id": 2}) == ([], None)
    page = await store.page(["id"], {"data__isnull": False})
    assert page["total_count"] == 2


async def test_a_json_null_is_no_value(store: Store) -> None:
    await store.execute(
        "INSERT INTO thing (id, data)"
        " VALUES (1, 'null'), (2, NULL), (3, ' null\n'), (4, '\"null\"'), (5, '[null]')"
    )
    for wanted, ids in ((True, [1, 2, 3]), (False, [4, 5])):
        page = await store.page(["id"], {"data__isnull": wanted})
        assert page["data"] == [{"id": number} for number in ids]


@pytest.mark.covers("P44")
async def test_a_text_that_is_too_long_is_cut_off_with_its_row(store: Store) -> None:
    async with store.engine.begin() as connection:
        await connection.execute(sa.insert(Thing).values({"id": 1, "text": "y"}))
        await connection.execute(sa.insert(Thing).values({"id": 2, "text": "x" * 2**20}))
    page = await store.page(["id", "text"])
    assert page["data"] == [{"id": 1, "text": "y"}]
    assert (page["total_count"], page["truncated"], page["has_more"]) == (2, True, True)
    assert len(orjson.dumps(page["data"])) <= MAX_RESULT_BYTES


async def test_types_without_a_form_on_the_wire_are_not_shown(store: Store) -> None:
    assert "span" not in store.reader.index.managers["Thing"].columns
    async with store.engine.begin() as connection:
        await connection.execute(sa.insert(Thing).values({"id": 1, "span": timedelta(1)}))
    assert (await store.page())["total_count"] == 1


@pytest.mark.covers("H42")
@pytest.mark.parametrize("value", ["inf", "-inf"])
async def test_an_infinity_is_null_with_a_note(store: Store, value: str) -> None:
    async with store.engine.begin() as connection:
        await connection.execute(sa.insert(Thing).values({"id": 1, "ratio": float(value)}))
    assert await store.cell("ratio") == (None, [f"ratio: {NOTE}"])


# --- what only one of the databases can hold ------------------------------------------------------

on_postgres = pytest.mark.parametrize("dialect", ["postgres"], indirect=True)


@on_postgres
@pytest.mark.covers("H42")
async def test_what_is_not_a_number_is_in_no_range_and_comes_last(store: Store) -> None:
    await store.execute(
        "INSERT INTO thing (id, ratio, free) VALUES (1, 'NaN', 'NaN'), (2, 5, 5), (3, -5, -5),"
        " (4, 'Infinity', 'Infinity')"
    )
    view = await store.reader.view(ADA)
    for column in ("ratio", "free"):
        for order, ids in ((column, [3, 2, 4, 1]), (f"-{column}", [4, 2, 3, 1])):
            request = QueryRequest("Thing", ["id"], {}, [order])
            page = await store.reader.query(request, view)
            assert page["data"] == [{"id": number} for number in ids]
        for lookup in ("gt", "gte"):
            page = await store.page(["id"], {f"{column}__{lookup}": 0})
            assert page["data"] == [{"id": 2}, {"id": 4}]
        page = await store.page(["id"], {f"{column}__lt": 0})
        assert page["data"] == [{"id": 3}]
        assert await store.cell(column, {"id": 1}) == (None, [f"{column}: {NOTE}"])


@on_postgres
@pytest.mark.covers("P44")
@pytest.mark.parametrize(
    ("column", "stored", "shown"),
    [
        ("day", "infinity", "9999-12-31"),
        ("day", "-infinity", "0001-01-01"),
        ("moment", "infinity", "9999-12-31T23:59:59.999999+00:00"),
        ("local", "-infinity", "0001-01-01T00:00:00+00:00"),
        ("moment", "2024-03-31 03:30:00 Europe/Berlin", "2024-03-31T01:30:00+00:00"),
        ("moment", "2024-10-27 02:30:00-04", "2024-10-27T06:30:00+00:00"),
    ],
)
async def test_times_of_postgres_are_read_as_its_driver_reads_them(
    store: Store, column: str, stored: str, shown: str
) -> None:
    await store.execute(f"INSERT INTO thing (id, {column}) VALUES (1, '{stored}')")
    assert await store.cell(column) == (shown, None)
    for lookup in ("", "__gte", "__lte"):
        assert (await store.page(["id"], {column + lookup: shown}))["total_count"] == 1
    for lookup in ("__ne", "__gt", "__lt"):
        assert (await store.page(["id"], {column + lookup: shown}))["total_count"] == 0


@on_postgres
@pytest.mark.covers("P44")
@pytest.mark.parametrize(
    ("column", "stored"),
    [
        ("day", "20000-01-01"),
        ("day", "0044-03-15 BC"),
        ("moment", "20000-01-01"),
        ("local", "0044-03-15 BC"),
        ("clock", "24:00"),
    ],
)
async def test_a_time_that_python_has_not_is_null_with_a_note(
    store: Store, column: str, stored: str
) -> None:
    await store.execute(f"INSERT INTO thing (id, {column}) VALUES (1, '{stored}')")
    assert await store.cell(column) == (None, [f"{column}: {NOTE}"])


async def test_arrays_ranges_and_the_like_are_not_shown(postgres_url: str) -> None:
    class Odd(DeclarativeBase):
        pass

    class Box(Odd):
        __tablename__ = "box"

        id: Mapped[int] = mapped_column(primary_key=True)
        tags: Mapped[list[str]] = mapped_column(postgresql.ARRAY(sa.Text))
        host: Mapped[str] = mapped_column(postgresql.INET)
        span: Mapped[object] = mapped_column(postgresql.INT4RANGE)
        extra: Mapped[object] = mapped_column(postgresql.JSONB)

    engine = create_async_engine(postgres_url)
    async with engine.begin() as connection:
        await connection.run_sync(Odd.metadata.create_all)
        await connection.exec_driver_sql(
            "INSERT INTO box VALUES (1, '{a,b}', '127.0.0.1', '[1,2)', '{\"a\": 9007199254740993}')"
        )
    await engine.dispose()
    managers = Managers()
    managers.expose(Box)
    async with Reader(managers, database_url=postgres_url) as reader:
        page = await reader.query(QueryRequest("Box"), await reader.view(ADA))
    assert page["data"] == [{"id": 1, "extra": {"a": "9007199254740993"}}]


@on_sqlite
@pytest.mark.covers("H41", "P44")
async def test_texts_that_only_sqlite_holds_are_shown_or_null_with_a_note(store: Store) -> None:
    await store.execute(
        "INSERT INTO thing (id, text) VALUES (1, 'a' || char(0) || 'b'), (4, 'Ä'),"
        " (2, CAST(x'ff61' AS TEXT)), (3, CAST(x'eda080' AS TEXT))"
    )
    assert await store.cell("text", {"id": 1}) == ("a␀b", None)
    page = await store.page(["id", "text"])
    assert page["data"] == [
        {"id": 1, "text": "a␀b"}, {"id": 2, "text": None}, {"id": 3, "text": None},
        {"id": 4, "text": "Ä"},
    ]  # fmt: skip
    assert page["notes"] == [f"text: {NOTE}"]
    for part, ids in (("A", [1, 2]), ("ä", [4])):
        page = await store.page(["id"], {"text__icontains": part})
        assert page["data"] == [{"id": number} for number in ids]
    for lookup in ("", "__contains", "__in"):
        value: Json = ["a\0b"] if lookup == "__in" else "a\0b"
        with pytest.raises(ToolRetry, match=rf"^Filter text{lookup}: the value must not hold NUL"):
            await store.page(["id"], {f"text{lookup}": value})


@on_sqlite
async def test_a_plain_decimal_of_sqlite_keeps_fifteen_digits(store: Store) -> None:
    async with store.engine.begin() as connection:
        for number, text in enumerate(("0.1", "12345678901.2345", "1.10", "-0.0001"), 1):
            await connection.execute(
                sa.insert(Thing).values({"id": number, "price": Decimal(text)})
            )
    page = await store.page(["price"])
    assert page["data"] == [
        {"price": price} for price in ("0.1000", "12345678901.2345", "1.1000", "-0.0001")
    ]
