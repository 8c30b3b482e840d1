"""Groups and measures in SQL: a question about many rows becomes one statement, and its count.

The groups are a subquery, and what is asked of their measures is asked of its columns like of any
others: ``having`` is its WHERE. Source: design.md 4, data tools; design.md 5, decimal sums.
"""

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Literal, Protocol, TypeVar, cast

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql.asyncpg import AsyncAdapt_asyncpg_dbapi
from sqlalchemy.engine import Dialect
from sqlalchemy.exc import DBAPIError
from sqlalchemy.sql.elements import ColumnElement
from sqlalchemy.sql.selectable import FromClause
from sqlalchemy.types import TypeDecorator, TypeEngine

from schema.exact import MEAN, MEAN_DIGITS, PART, RATIO, SUM, Part
from schema.joins import (
    INTEGER,
    ONE,
    Clause,
    Condition,
    From,
    Hops,
    Tables,
    column_of,
    parameter,
)
from schema.rows import Compiled, Level, Node
from schema.sources import Column, ModelDescription, TextDecimal, ValueType, bare_type
from schema.values import decoder

Op = Literal["count", "sum", "avg", "min", "max", "count_distinct"]

ZONE = "zone"
"""The parameter that names the zone of date parts."""

_T = TypeVar("_T")
_Sql = ColumnElement[object]


def _of_sql(kind: object) -> TypeEngine[object]:
    return cast("TypeEngine[object]", kind)  # what SQL reckons with is of no matter to Python


_DOUBLE, _NUMERIC = _of_sql(sa.Double[float]()), _of_sql(sa.Numeric())
_TEXT, _WHOLE = _of_sql(sa.String()), _of_sql(INTEGER)
_NULL, _UTC = sa.literal_column("NULL", _TEXT), sa.literal_column("'UTC'", _TEXT)
_ZERO, _TWO = sa.literal_column("0", _NUMERIC), sa.literal_column("2", _NUMERIC)
_LARGEST = sa.literal_column("1.7976931348623157e308", _NUMERIC)
_INFINITY = sa.literal_column("'Infinity'", _TEXT)
_ENDLESS = sa.literal_column("9e999", _DOUBLE)
"""Infinity as SQLite writes it."""
_RATIO_DIGITS = sa.literal_column("40", _WHOLE)
"""Decimal places that leave no doubt which floating-point number is nearest to a quotient."""

_OUT_OF_RANGE = "22003"
_OVERFLOW = "integer overflow"
"""What SQLite says of a sum; its code says no more than that there is an error."""


@dataclass(frozen=True, slots=True)
class Group:
    """One key that rows are grouped by; ``part`` is of a date or time."""

    key: str
    hops: Hops
    column: Column
    part: Part | None = None


@dataclass(frozen=True, slots=True)
class Measure:
    """One value of each group. A ``column`` of None counts rows."""

    key: str
    op: Op
    hops: Hops = ()
    column: Column | None = None


@dataclass(frozen=True, slots=True)
class Aggregation:
    """Groups of the rows of a model, and what to measure of each.

    ``order`` has keys with True for descending; all other group keys come after it. ``is_exact``
    has sums that the database's own arithmetic is too small for, and is slower.
    """

    model: ModelDescription
    groups: tuple[Group, ...]
    measures: tuple[Measure, ...]
    order: tuple[tuple[str, bool], ...]
    is_exact: bool

    def columns(self, dialect: Dialect) -> dict[str, Column]:
        """The columns of the result by their keys."""
        is_wide = self.is_exact or dialect.name != "sqlite"
        columns: dict[str, Column] = {}
        for place, item in enumerate((*self.groups, *self.measures)):
            kind, stored = _type(item, is_wide=is_wide)
            column = sa.Column[object](_label(place), stored)
            columns[item.key] = Column(item.key, column, kind, nullable=True, primary_key=False)
        return columns


def is_reckoned(column: Column) -> bool:
    """Tell whether a column's stored numbers can be added up: its type does not change them."""
    stored = column.column.type
    if not isinstance(stored, TypeDecorator) or isinstance(stored, TextDecimal):
        return True
    kinds = (kind for kind in type(stored).__mro__ if kind is not TypeDecorator)
    return not any("process_result_value" in vars(kind) for kind in kinds)


def is_too_large(error: DBAPIError) -> bool:
    """Tell whether a sum was too large for the database's own arithmetic; an exact one is not."""
    told = error.orig
    if isinstance(told, AsyncAdapt_asyncpg_dbapi.Error):
        return told.sqlstate == _OUT_OF_RANGE
    return isinstance(told, sqlite3.Error) and str(told) == _OVERFLOW


def _label(place: int) -> str:
    return f"c{place}"


def compile_aggregation(
    asked: Aggregation, conditions: Sequence[Clause], having: Sequence[Clause], tables: Tables
) -> Compiled:
    """Compile one page of groups and its count; reading gives ``ZONE``, limit and offset."""
    columns = asked.columns(tables.dialect)
    places = enumerate(columns.items())
    node = Node(cells=[(key, at, decoder(c, tables.dialect)) for at, (key, c) in places])
    shown = _groups(asked, conditions, tables)
    page = (
        sa.select(*(column_of(shown.rows, c.column) for c in columns.values()))
        .select_from(shown.source)
        .where(*shown.where(having))
        .order_by(*_sort_keys(asked, columns, shown.rows, tables))
        .limit(parameter("limit", INTEGER))
        .offset(parameter("offset", INTEGER))
    )
    # What is only counted need not be measured.
    few = asked if having or not asked.groups else replace(asked, measures=())
    counted = _groups(few, conditions, tables)
    count = sa.select(sa.func.count()).select_from(counted.source).where(*counted.where(having))
    return Compiled(Level(node, [], tables.text(page)), tables.text(count))


def _groups(asked: Aggregation, conditions: Sequence[Clause], tables: Tables) -> From:
    """The groups as rows to select from."""
    rows = From(tables, asked.model)
    where = rows.where(conditions, visible=True)
    values = [_key(group, rows, tables) for group in asked.groups]
    values += [_value(measure, rows, tables, asked) for measure in asked.measures]
    grouped = (
        sa.select(*(value.label(_label(place)) for place, value in enumerate(values)))
        .select_from(rows.source)
        .where(*where)
        # By number: a parameter in a key is another one at each place that it is written.
        .group_by(*(sa.literal_column(str(n), _WHOLE) for n in range(1, len(asked.groups) + 1)))
        .subquery(tables.name("g"))
    )
    return From(tables, asked.model, rows=grouped)


def _sort_keys(
    asked: Aggregation, columns: Mapping[str, Column], rows: FromClause, tables: Tables
) -> list[_Sql]:
    given = dict(asked.order)
    for group in asked.groups:
        given.setdefault(group.key, False)
    values = ((tables.comparable(rows, columns[key].column), down) for key, down in given.items())
    return [(value.desc() if down else value.asc()).nulls_last() for value, down in values]


# --- keys -----------------------------------------------------------------------------------------


def _key(group: Group, rows: From, tables: Tables) -> _Sql:
    table, column = rows.join(group.hops), group.column.column
    if group.part is None:
        return tables.comparable(table, column)
    is_moment = group.column.type == "datetime"
    if tables.dialect.name == "sqlite":
        value = tables.equatable(table, column)
        zone = parameter(ZONE, _TEXT) if is_moment else _NULL
        return sa.Function(PART, value, sa.literal_column(f"'{group.part}'"), zone, type_=_WHOLE)
    value = tables.finite(table, column)
    if is_moment:
        stored = bare_type(column.type.dialect_impl(tables.dialect))
        if not (isinstance(stored, sa.DateTime) and stored.timezone):
            value = sa.Function("timezone", _UTC, value, type_=sa.DateTime(timezone=True))
        value = sa.Function("timezone", parameter(ZONE, _TEXT), value, type_=sa.DateTime())
    return sa.cast(sa.extract(group.part, value), _WHOLE)


# --- measures -------------------------------------------------------------------------------------


def _value(measure: Measure, rows: From, tables: Tables, asked: Aggregation) -> _Sql:
    if measure.column is None:
        return _count(ONE)
    table, column = rows.join(measure.hops), measure.column
    match measure.op:
        case "count":
            present = rows.where([Condition(measure.hops, column, "present")])
            return _count(sa.case((sa.and_(*present), ONE)))
        case "count_distinct":
            return _count(sa.distinct(tables.comparable(table, column.column)))
        case "min" | "max":
            value = tables.comparable(table, column.column)
            return sa.Function(measure.op, value, type_=column.column.type)
        case "sum" | "avg":
            value = column_of(table, column.column)
            calculate = _on_sqlite if tables.dialect.name == "sqlite" else _on_postgresql
            return calculate(measure.op, column, value, asked.is_exact)


def _on_sqlite(op: Literal["sum", "avg"], column: Column, value: _Sql, is_exact: bool) -> _Sql:
    count = _count(value)
    match column.type:
        case "decimal":
            name = SUM if op == "sum" else MEAN
            return sa.Function(name, value, sa.literal_column(str(_read_scale(column))))
        case "integer":
            total = sa.Function(SUM, value, _ZERO) if is_exact else sa.Function("sum", value)
            return total if op == "sum" else sa.Function(RATIO, total, count)
        case _:
            total = sa.Function("sum", sa.cast(value, _DOUBLE), type_=_DOUBLE)
            # SQLite has null for what infinities add up to, as for the sum of nothing.
            total = sa.func.coalesce(total, sa.case((count > _ZERO, _ENDLESS)))
            return total if op == "sum" else total / sa.cast(count, _DOUBLE)


def _on_postgresql(op: Literal["sum", "avg"], column: Column, value: _Sql, is_exact: bool) -> _Sql:
    count = sa.cast(_count(value), _NUMERIC)
    match column.type:
        case "decimal":
            total = _numeric("sum", value)
            digits = _read_scale(column) + MEAN_DIGITS
            return total if op == "sum" else _half_even(total, count, digits)
        case "integer":
            # That of small integers is a bigint.
            total = sa.cast(_numeric("sum", value), _NUMERIC)
            return total if op == "sum" else sa.cast(_quotient(total, count), _DOUBLE)
        case _ if is_exact:
            total = _double(_numeric("sum", sa.cast(sa.cast(value, _TEXT), _NUMERIC)))
        case _:
            total = sa.Function("sum", sa.cast(value, _DOUBLE), type_=_DOUBLE)
    return total if op == "sum" else total / sa.cast(count, _DOUBLE)


def _count(value: ColumnElement[_T]) -> _Sql:
    return sa.Function("count", value, type_=_WHOLE)


def _numeric(name: str, *arguments: _Sql) -> _Sql:
    return sa.Function(name, *arguments, type_=_NUMERIC)


def _quotient(total: _Sql, count: _Sql) -> _Sql:
    return _numeric("round", total, _RATIO_DIGITS) / count


def _double(number: _Sql) -> _Sql:
    """A number of any size as a floating-point one, which may be infinite."""
    infinite = sa.cast(_numeric("sign", number), _DOUBLE) * sa.cast(_INFINITY, _DOUBLE)
    return sa.case((_numeric("abs", number) <= _LARGEST, sa.cast(number, _DOUBLE)), else_=infinite)


def _half_even(total: _Sql, count: _Sql, digits: int) -> _Sql:
    """A quotient at a number of decimal places; ``round`` itself would round half away from 0."""
    units = total * sa.literal_column(f"1{'0' * digits}", _NUMERIC)
    whole = _numeric("div", units, count)
    rest = _numeric("abs", units - whole * count) * _TWO
    is_odd = _numeric("mod", whole, _TWO) != _ZERO
    beyond = sa.or_(rest > count, sa.and_(rest == count, is_odd))
    rounded = whole + sa.case((beyond, _numeric("sign", units)), else_=_ZERO)
    return rounded * sa.literal_column(f"0.{'1'.zfill(digits)}", _NUMERIC)


# --- types ----------------------------------------------------------------------------------------


def _type(item: Group | Measure, *, is_wide: bool) -> tuple[ValueType, TypeEngine[object]]:
    """What the values of a key or measure are, and the type that reads them from the driver."""
    column = item.column
    # A key is like its column, as a smallest value is; a part is an integer, as a count is.
    op = item.op if isinstance(item, Measure) else "count" if item.part else "min"
    if column is None or op in ("count", "count_distinct"):
        return "integer", _WHOLE
    if op in ("min", "max"):
        return column.type, column.column.type
    if column.type == "decimal":
        return "decimal", _Exact(_scale(column) if op == "sum" else None)
    if column.type == "integer" and op == "sum":
        return "integer", _Exact(is_whole=True) if is_wide else _WHOLE
    return "number", _DOUBLE


def _scale(column: Column) -> int | None:
    stored = bare_type(column.column.type)
    return stored.scale if isinstance(stored, sa.Numeric) else None


def _read_scale(column: Column) -> int:
    """The decimal places that the values of a column are read at."""
    scale = _scale(column)
    return _DEFAULT_SCALE if scale is None else scale


_DEFAULT_SCALE = 10
"""SQLAlchemy's own, for a column that does not say."""


class _Exact(TypeDecorator[object]):
    """A number of any size. SQLite has none such, and gives it as a text."""

    impl = sa.Numeric
    cache_ok = True

    def __init__(self, scale: int | None = None, *, is_whole: bool = False) -> None:
        super().__init__(None, scale)
        self.scale, self.is_whole = scale, is_whole

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[object]:
        return dialect.type_descriptor(_TEXT if dialect.name == "sqlite" else _NUMERIC)

    def process_bind_param(self, value: object, dialect: Dialect) -> object:
        if isinstance(value, int | Decimal) and dialect.name == "sqlite":
            return format(Decimal(value), "f")
        return value

    def result_processor(self, dialect: Dialect, coltype: object) -> "_Read":
        return _whole if self.is_whole else _decimal


class _Read(Protocol):
    def __call__(self, value: object) -> object: ...


def _decimal(value: object) -> Decimal:
    return value if isinstance(value, Decimal) else Decimal(str(value))


def _whole(value: object) -> int:
    return int(_decimal(value))
