"""FROM and WHERE: paths become joins, conditions become SQL, and both keep to what is visible.

A ``Clause`` is what rows have to meet: comparisons at the ends of paths, and how they combine.
To-one relations are LEFT JOINs, so a missing row is a null; a to-many hop in a filter is an EXISTS.
``Visibility``, what an actor may see of each table, is part of every one of these places.
Source: design.md 5.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Literal, TypeVar, cast

import sqlalchemy as sa
from sqlalchemy.engine import Dialect
from sqlalchemy.sql.elements import ColumnElement
from sqlalchemy.sql.selectable import FromClause
from sqlalchemy.types import TypeEngine

from schema.errors import ToolRetry
from schema.rows import Statement
from schema.sources import Column, InOrder, ModelDescription, Relation, bare_type

FOLD = "frontdesk_fold"
"""The SQL function that read connections on SQLite provide: ``str.casefold`` of a text's bytes."""

DECIMAL = "frontdesk_decimal"
"""The collation that read connections on SQLite provide: texts in the order of their numbers."""

_MAX_JOINS = 50
"""Joins of one FROM: SQLite takes 64 tables with all else, and PostgreSQL plans them for long."""

INTEGER = sa.BigInteger()
ONE = sa.literal_column("1", INTEGER)
_JSON_NULL = sa.literal_column("'null'", sa.String())
_BLANKS = sa.literal_column("' \t\n\r'", sa.String())
"""What JSON may have around its values."""
NOT_A_NUMBER = sa.literal_column("'NaN'", sa.Double[float]())

_FIRST, _LAST = "0001-01-01 00:00:00+00", "9999-12-31 23:59:59.999999+00"
"""The first and the last moment that Python has; a date or a local time ignores the rest."""

ESCAPE = "/"
"""The escape character for LIKE: unlike a backslash, it is one in every text of SQL."""

_T = TypeVar("_T")

TextLookup = Literal["contains", "icontains", "startswith", "endswith"]
TEXT: tuple[TextLookup, ...] = ("contains", "icontains", "startswith", "endswith")
"""The lookups that look at parts of a text; all but icontains tell capitals from small letters."""

Comparison = (
    Literal["exact", "ne", "in", "gt", "gte", "lt", "lte", "missing", "present", "never"]
    | TextLookup
)
Hops = tuple[Relation, ...]


@dataclass(frozen=True, slots=True)
class Condition:
    """One comparison at the end of a path; a ``column`` of None means the relation itself.

    ``parameters`` name the values it is given later. ``never`` is false whatever the row.
    """

    hops: Hops
    column: Column | None
    comparison: Comparison
    parameters: tuple[str, ...] = ()


NEVER = Condition((), None, "never")


@dataclass(frozen=True, slots=True)
class Junction:
    """Clauses that must hold: ``all`` of them, ``any`` of them, or just ``not`` all of them.

    What is not known, because a value is missing, does not hold; so ``not`` has every other row.
    """

    kind: Literal["all", "any", "not"]
    parts: tuple["Clause", ...]


Clause = Condition | Junction

Visibility = Mapping[type, tuple[Clause, ...]]
"""What limits the rows of each model; a model that is absent is seen whole."""


def column_of(rows: FromClause, column: sa.Column[object]) -> ColumnElement[object]:
    """The column as it appears in one use of its table."""
    return rows.c[column.key]


def parameter(name: str, kind: TypeEngine[_T]) -> sa.BindParameter[_T]:
    """A named parameter; it has no value until a read."""
    return sa.bindparam(name, type_=kind, required=False)


def parameter_type(column: sa.Column[object], dialect: Dialect) -> TypeEngine[object]:
    """The type of parameters that are compared with a column.

    PostgreSQL turns a parameter into its type, so that has to have room for any value: a number
    must not be rounded to the column's scale, nor be an error because the column is too small.
    """
    kind = _kind(column, dialect)
    match kind:
        case sa.Enum():
            wide = kind
        case sa.String():
            wide = sa.String()
        case sa.Integer():
            wide = INTEGER
        case sa.Float():
            wide = sa.Double[float]()
        case sa.Numeric():
            wide = sa.Numeric[Decimal]()
        case sa.DateTime():
            wide = sa.DateTime(timezone=kind.timezone)
        case sa.Time():
            wide = sa.Time(timezone=kind.timezone)
        case _:
            wide = kind
    return cast("TypeEngine[object]", wide)  # the type of values is invariant, and not asked for


def _kind(column: sa.Column[object], dialect: Dialect) -> object:
    """What a column is in this database, below all decorators."""
    return bare_type(column.type.dialect_impl(dialect))


class Tables:
    """One compilation: names each use of a table, and limits it to what is visible.

    ``models`` hold every model that a hop may reach.
    """

    def __init__(
        self, models: Mapping[type, ModelDescription], visible: Visibility, dialect: Dialect
    ) -> None:
        self.models = models
        self.dialect = dialect
        self._visible = visible
        # A copy first: another thread may add a model, and tables may be shared by models.
        self._known = [*models.values()]
        self._uses = 0

    def use(self, table: sa.Table) -> FromClause:
        """Give a table a name for one use of it."""
        return table.alias(self.name("t"))

    def name(self, kind: str) -> str:
        """A name that this compilation does not have yet."""
        self._uses += 1
        return f"{kind}{self._uses}"

    def comparable(self, rows: FromClause, column: sa.Column[object]) -> ColumnElement[object]:
        """The column as it is ordered, grouped and told apart: alike in all databases.

        Texts go by code point, decimals that are kept as texts by their number, and what is not a
        number is missing.
        """
        value, kind = self.equatable(rows, column), _kind(column, self.dialect)
        if self.has_nan(column):
            return sa.func.nullif(value, NOT_A_NUMBER, type_=column.type)
        if self.dialect.name == "sqlite":
            is_text = isinstance(bare_type(column.type), sa.String)
            return value.collate("BINARY") if is_text else value
        if isinstance(kind, sa.String):
            # An enum of its own is no text, and sorts as it was declared.
            text = sa.cast(value, sa.String) if isinstance(kind, sa.Enum) else value
            return text.collate("C")
        return value

    def has_nan(self, column: sa.Column[object]) -> bool:
        """Tell whether a column may hold what is not a number, which PostgreSQL sorts last."""
        is_number = isinstance(_kind(column, self.dialect), sa.Numeric | sa.Float)
        return is_number and self.dialect.name == "postgresql"

    def has_infinity(self, column: sa.Column[object]) -> bool:
        """Tell whether a column may hold ``infinity``, which is read as the last day or moment."""
        is_time = isinstance(_kind(column, self.dialect), sa.Date | sa.DateTime)
        return is_time and self.dialect.name == "postgresql"

    def finite(self, rows: FromClause, column: sa.Column[object]) -> ColumnElement[object]:
        """The column as it is read, with the first or last day or moment for what is endless."""
        value = column_of(rows, column)
        if not self.has_infinity(column):
            return value
        kind = column.type
        last = value == _literal("infinity", kind), _literal(_LAST, kind)
        first = value == _literal("-infinity", kind), _literal(_FIRST, kind)
        return sa.case(last, first, else_=value)

    def equatable(self, rows: FromClause, column: sa.Column[object]) -> ColumnElement[object]:
        """The column as it is compared for equality only, for which an index can serve."""
        value = column_of(rows, column)
        if isinstance(column.type, InOrder):
            return column.type.in_order(value, self.dialect)
        is_decimal = isinstance(bare_type(column.type), sa.Numeric)
        if is_decimal and isinstance(_kind(column, self.dialect), sa.String):
            return sa.type_coerce(value, sa.String).collate(DECIMAL)
        return value

    def text(self, statement: sa.SelectBase) -> Statement:
        """Finish a statement."""
        compiled = statement.compile(
            dialect=self.dialect, compile_kwargs={"render_postcompile": True}
        )
        return Statement(str(compiled), tuple(compiled.positiontup or ()))

    def visible(self, model: ModelDescription, rows: FromClause) -> list[ColumnElement[bool]]:
        """The developer's own conditions on ``rows``; the paths in them are not limited further."""
        conditions = self._visible.get(model.model, ())
        if not conditions:
            return []
        joined = [c for c in conditions if _needs_join(c)]
        beside = [c for c in conditions if not _needs_join(c)]
        clauses = From(self, model, rows=rows, limited=False).where(beside)
        if joined:
            # One row to hang the joins on: this place may be an ON clause, which takes no joins.
            one = sa.select(ONE.label("one")).subquery(self.name("o"))
            inner = From(self, model, rows=rows, source=one, limited=False)
            clauses.append(_exists(inner, inner.where(joined)))
        return clauses

    def visible_link(self, link: sa.Table, rows: FromClause) -> list[ColumnElement[bool]]:
        """The conditions on rows of a link table, which are those of every model that it has."""
        models = [model for model in self._known if model.table is link]
        return [clause for model in models for clause in self.visible(model, rows)]

    def reach(
        self, start: FromClause, relation: Relation, *, limited: bool
    ) -> tuple["From", list[ColumnElement[bool]]]:
        """Follow one to-many hop: the target's rows, and what ties them to ``start``."""
        target = From(self, self.models[relation.target], limited=limited)
        if relation.link is None:
            return target, [
                column_of(start, a) == column_of(target.rows, b) for a, b in relation.pairs
            ]
        link = self.use(relation.link)
        target.source = target.source.join(link, linked(link, relation, target.rows))
        ties = [column_of(start, a) == column_of(link, b) for a, b in relation.pairs]
        return target, ties + (self.visible_link(relation.link, link) if limited else [])


def _needs_join(clause: Clause) -> bool:
    """Tell whether a condition leads over a to-one relation first, which is joined."""
    if isinstance(clause, Junction):
        return any(_needs_join(part) for part in clause.parts)
    return bool(clause.hops) and not clause.hops[0].many


def linked(link: FromClause, relation: Relation, target: FromClause) -> ColumnElement[bool]:
    """What ties the rows of a link table to those of the relation's target."""
    return sa.and_(*(column_of(link, a) == column_of(target, b) for a, b in relation.link_pairs))


class From:
    """A FROM clause that grows by one LEFT JOIN for each to-one path asked of it.

    ``limited`` hops lead to visible rows only; only a ``visible`` condition's own are not.
    """

    def __init__(
        self,
        tables: Tables,
        model: ModelDescription,
        *,
        rows: FromClause | None = None,
        source: FromClause | None = None,
        limited: bool = True,
    ) -> None:
        self.model = model
        self.rows = tables.use(model.table) if rows is None else rows
        self.source = self.rows if source is None else source
        self._tables = tables
        self._limited = limited
        self._joins: dict[Hops, FromClause] = {(): self.rows}

    def join(self, hops: Hops) -> FromClause:
        """The rows at the end of a path of to-one relations. Raises: ToolRetry."""
        if hops not in self._joins:
            start, relation = self.join(hops[:-1]), hops[-1]
            if len(self._joins) > _MAX_JOINS:
                raise ToolRetry(
                    "The paths of this request follow too many different relations to one row:"
                    f" at most {_MAX_JOINS} in fields, filters, order_by, group_by and measures."
                )
            model = self._tables.models[relation.target]
            rows = self._tables.use(model.table)
            on = [column_of(start, a) == column_of(rows, b) for a, b in relation.pairs]
            if self._limited:
                on += self._tables.visible(model, rows)
            self.source = self.source.outerjoin(rows, sa.and_(*on))
            self._joins[hops] = rows
        return self._joins[hops]

    def where(
        self, conditions: Iterable[Clause], *, visible: bool = False
    ) -> list[ColumnElement[bool]]:
        """The SQL of ``conditions``; those beyond one to-many hop hold for the same row."""
        clauses = self._tables.visible(self.model, self.rows) if visible else []
        groups: dict[Hops, list[Condition]] = {}
        for condition in conditions:
            if isinstance(condition, Junction):
                clauses.append(self._junction(condition))
                continue
            cut = next((at for at, hop in enumerate(condition.hops, 1) if hop.many), 0)
            if cut == 0:
                clauses.append(self._compare(condition))
            elif condition.column is None and cut == len(condition.hops):
                found = self._related(condition.hops, ())
                clauses.append(sa.not_(found) if condition.comparison == "missing" else found)
            else:
                rest = replace(condition, hops=condition.hops[cut:])
                groups.setdefault(condition.hops[:cut], []).append(rest)
        return clauses + [self._related(hops, rest) for hops, rest in groups.items()]

    def _junction(self, junction: Junction) -> ColumnElement[bool]:
        if junction.kind == "any":
            return sa.or_(
                sa.false(), *(clause for p in junction.parts for clause in self.where([p]))
            )
        held = sa.and_(sa.true(), *self.where(junction.parts))
        if junction.kind == "all":
            return held
        return sa.not_(sa.func.coalesce(held, sa.false(), type_=sa.Boolean()))

    def _related(self, hops: Hops, conditions: Sequence[Condition]) -> ColumnElement[bool]:
        start = self.join(hops[:-1])
        target, ties = self._tables.reach(start, hops[-1], limited=self._limited)
        return _exists(target, [*ties, *target.where(conditions, visible=self._limited)])

    def _compare(self, condition: Condition) -> ColumnElement[bool]:
        rows, column, tables = self.join(condition.hops), condition.column, self._tables
        if condition.comparison == "never":
            return sa.false()
        if column is None:
            # The joined column of a relation is null exactly where no row was found.
            found = column_of(rows, condition.hops[-1].pairs[0][1])
            return found.is_(None) if condition.comparison == "missing" else found.is_not(None)
        if condition.comparison in TEXT:
            return self._look_into(condition, rows, column.column)
        if column.type == "json":
            value = column_of(rows, column.column)
            # A stored JSON null reads as null, like no value at all.
            text = sa.func.trim(sa.cast(value, sa.String), _BLANKS)
            empty = sa.or_(value.is_(None), text == _JSON_NULL)
            return empty if condition.comparison == "missing" else sa.not_(empty)
        by_order = condition.comparison in ("gt", "gte", "lt", "lte")
        is_text = column.type == "string"
        of = tables.comparable if by_order and is_text else tables.equatable
        value, kind = of(rows, column.column), parameter_type(column.column, tables.dialect)
        parameters = [parameter(name, kind) for name in condition.parameters]
        if tables.has_infinity(column.column) and parameters:
            return _compare_time(condition.comparison, value, parameters)
        found = _compare(condition.comparison, value, parameters)
        if condition.comparison in ("gt", "gte") and tables.has_nan(column.column):
            # An index serves this, which it would not do for ``comparable``.
            return sa.and_(found, value < NOT_A_NUMBER)
        return found

    def _look_into(
        self, condition: Condition, rows: FromClause, column: sa.Column[object]
    ) -> ColumnElement[bool]:
        """Look for a text in another; LIKE of SQLite would not tell capitals from small letters."""
        [name] = condition.parameters
        value, part = self._tables.comparable(rows, column), parameter(name, sa.String())
        size = sa.func.length(part)
        match condition.comparison:
            case "startswith":
                return sa.func.substr(value, ONE, size) == part
            case "endswith":
                return sa.func.substr(value, sa.func.length(value) - size + ONE) == part
            case "contains" if self._tables.dialect.name == "sqlite":
                return sa.func.instr(value, part) >= ONE
            case "contains":
                return sa.func.strpos(value, part) >= ONE
            case _:
                return self._contains(column_of(rows, column), part)

    def _contains(
        self, value: ColumnElement[object], pattern: ColumnElement[str]
    ) -> ColumnElement[bool]:
        """Compare without case; on SQLite the pattern is folded already.

        SQLite's own LIKE knows the case of ASCII letters only, so other texts are folded by Python.
        Only those: a call per row takes the interpreter's lock, which a busy server has to spare
        for nobody.
        """
        dialect = self._tables.dialect
        if dialect.name != "sqlite":
            return _folded(value, dialect).like(_folded(pattern, dialect), escape=ESCAPE)
        # More bytes than characters mean that not all are ASCII.
        stored = sa.cast(value, sa.LargeBinary)
        size, folded = sa.func.length(stored), sa.Function[str](FOLD, stored, type_=sa.String())
        return sa.or_(
            value.like(pattern, escape=ESCAPE),
            sa.and_(sa.func.length(value) != size, folded.like(pattern, escape=ESCAPE)),
        )


def _folded(value: ColumnElement[_T], dialect: Dialect) -> ColumnElement[str]:
    """A text without case, as well as this PostgreSQL can: "ß" is "ss" from version 18 on."""
    version = dialect.server_version_info or ()
    if version < (17,):
        return sa.Function("lower", value, type_=sa.String())
    if version < (18,):
        return sa.Function("lower", value.collate("pg_c_utf8"), type_=sa.String())
    return sa.Function("casefold", value.collate("pg_unicode_fast"), type_=sa.String())


def _compare(
    comparison: Comparison,
    value: ColumnElement[object],
    parameters: Sequence[ColumnElement[object]],
) -> ColumnElement[bool]:
    match comparison:
        case "missing":
            return value.is_(None)
        case "present":
            return value.is_not(None)
        case "in":
            return value.in_(parameters) if parameters else sa.false()
        case "gt":
            return value > parameters[0]
        case "gte":
            return value >= parameters[0]
        case "lt":
            return value < parameters[0]
        case "lte":
            return value <= parameters[0]
        case "ne":
            # A missing value is another one than any that can be given.
            return value.is_distinct_from(parameters[0])
        case _:
            return value == parameters[0]


def _compare_time(
    comparison: Comparison,
    value: ColumnElement[object],
    parameters: Sequence[ColumnElement[object]],
) -> ColumnElement[bool]:
    """Compare days or moments, where the last one stands for ``infinity`` as well.

    That is how asyncpg stores Python's last day and moment, and how it reads them.
    """
    lows = [_instead(p, _FIRST, "-infinity") for p in parameters]
    highs = [_instead(p, _LAST, "infinity") for p in parameters]
    match comparison:
        case "gt" | "lte":
            return _compare(comparison, value, highs)
        case "lt" | "gte":
            return _compare(comparison, value, lows)
        case "ne":
            return sa.or_(value.is_(None), sa.not_(value.in_([*lows, *highs])))
        case _:
            return value.in_([*lows, *highs])


def _instead(given: ColumnElement[object], end: str, endless: str) -> ColumnElement[object]:
    """A parameter, or what is beyond all values if it is the last one."""
    kind = given.type
    return sa.case((given == _literal(end, kind), _literal(endless, kind)), else_=given)


def _literal(text: str, kind: TypeEngine[object]) -> ColumnElement[object]:
    return sa.literal_column(f"'{text}'", kind)


def _exists(inner: From, clauses: Sequence[ColumnElement[bool]]) -> ColumnElement[bool]:
    rows = sa.select(ONE).select_from(inner.source).where(*clauses)
    return rows.correlate_except(inner.source).exists()
