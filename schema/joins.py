"""FROM and WHERE: paths become joins, conditions become SQL, and both keep to what is visible.

To-one relations are LEFT JOINs, so a missing row is a null; a to-many hop in a filter is an EXISTS.
``Visibility``, what an actor may see of each table, is part of every one of these places.
Source: design.md 5.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

import sqlalchemy as sa
from sqlalchemy.engine import Dialect
from sqlalchemy.sql.elements import ColumnElement
from sqlalchemy.sql.selectable import FromClause
from sqlalchemy.types import TypeEngine

from schema.clauses import Clause, Comparison, Condition, Hops, Junction, Visibility
from schema.rows import Statement
from schema.sources import ModelDescription, Relation
from schema.values import TEXT

FOLD = "frontdesk_fold"
"""The SQL function that read connections on SQLite provide: Python's ``str.casefold``."""

INTEGER = sa.Integer()
ONE = sa.literal_column("1", INTEGER)
_JSON_NULL = sa.literal_column("'null'", sa.String())

_T = TypeVar("_T")


def column_of(rows: FromClause, column: sa.Column[object]) -> ColumnElement[object]:
    """The column as it appears in one use of its table."""
    return rows.c[column.key]


def parameter(name: str, kind: TypeEngine[_T]) -> sa.BindParameter[_T]:
    """A named parameter; it has no value until a read."""
    return sa.bindparam(name, type_=kind, required=False)


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
        self._by_table = {model.table: model for model in models.values()}
        self._uses = 0

    def use(self, table: sa.Table) -> FromClause:
        """Give a table a name for one use of it."""
        return table.alias(self.name("t"))

    def name(self, kind: str) -> str:
        """A name that this compilation does not have yet."""
        self._uses += 1
        return f"{kind}{self._uses}"

    def text(self, statement: sa.SelectBase) -> Statement:
        """Finish a statement."""
        compiled = statement.compile(
            dialect=self.dialect, compile_kwargs={"render_postcompile": True}
        )
        return Statement(str(compiled), tuple(compiled.positiontup or ()))

    def visible(self, table: sa.Table, rows: FromClause) -> list[ColumnElement[bool]]:
        """The developer's own conditions on ``rows``; the paths in them are not limited further."""
        model = self._by_table.get(table)
        conditions = self._visible.get(model.model, ()) if model else ()
        if model is None or not conditions:
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
        return target, ties + (self.visible(relation.link, link) if limited else [])


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
        """The rows at the end of a path of to-one relations."""
        if hops not in self._joins:
            start, relation = self.join(hops[:-1]), hops[-1]
            model = self._tables.models[relation.target]
            rows = self._tables.use(model.table)
            on = [column_of(start, a) == column_of(rows, b) for a, b in relation.pairs]
            if self._limited:
                on += self._tables.visible(model.table, rows)
            self.source = self.source.outerjoin(rows, sa.and_(*on))
            self._joins[hops] = rows
        return self._joins[hops]

    def where(
        self, conditions: Iterable[Clause], *, visible: bool = False
    ) -> list[ColumnElement[bool]]:
        """The SQL of ``conditions``; those beyond one to-many hop hold for the same row."""
        clauses = self._tables.visible(self.model.table, self.rows) if visible else []
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
        rows, column = self.join(condition.hops), condition.column
        if condition.comparison == "never":
            return sa.false()
        if column is None:
            # The joined column of a relation is null exactly where no row was found.
            found = column_of(rows, condition.hops[-1].pairs[0][1])
            return found.is_(None) if condition.comparison == "missing" else found.is_not(None)
        value = column_of(rows, column.column)
        if condition.comparison in TEXT:
            return self._look_into(condition.comparison, value, condition.parameters[0])
        if column.type == "json":
            # A stored JSON null reads as null, like no value at all.
            empty = sa.or_(value.is_(None), sa.cast(value, sa.String) == _JSON_NULL)
            return empty if condition.comparison == "missing" else sa.not_(empty)
        kind = column.column.type
        return _compare(
            condition.comparison,
            value,
            [parameter(name, kind) for name in condition.parameters],
        )

    def _look_into(
        self, comparison: Comparison, value: ColumnElement[object], name: str
    ) -> ColumnElement[bool]:
        """Look for a text in another; LIKE of SQLite would not tell capitals from small letters."""
        part = parameter(name, sa.String())
        size = sa.func.length(part)
        match comparison:
            case "startswith":
                return sa.func.substr(value, ONE, size) == part
            case "endswith":
                return sa.func.substr(value, sa.func.length(value) - size + ONE) == part
            case "contains" if self._tables.dialect.name == "sqlite":
                return sa.func.instr(value, part) >= ONE
            case "contains":
                return sa.func.strpos(value, part) >= ONE
            case _:
                return self._contains(value, name)

    def _contains(self, value: ColumnElement[object], name: str) -> ColumnElement[bool]:
        """Compare without case; the pattern is folded already.

        SQLite's own LIKE knows the case of ASCII letters only, so other texts are folded by Python.
        Only those: a call per row takes the interpreter's lock, which a busy server has to spare
        for nobody.
        """
        pattern = parameter(name, sa.String())
        if self._tables.dialect.name != "sqlite":
            return sa.func.lower(value).like(pattern, escape="\\")
        # In bytes; more of them than characters means that not all are ASCII.
        size = sa.func.length(sa.cast(value, sa.LargeBinary))
        folded = sa.Function[str](FOLD, value, type_=sa.String())
        return sa.or_(
            value.like(pattern, escape="\\"),
            sa.and_(sa.func.length(value) != size, folded.like(pattern, escape="\\")),
        )


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


def _exists(inner: From, clauses: Sequence[ColumnElement[bool]]) -> ColumnElement[bool]:
    rows = sa.select(ONE).select_from(inner.source).where(*clauses)
    return rows.correlate_except(inner.source).exists()
