"""One SQL compiler: a checked question becomes SQL text once, and rows become nested values.

To-one relations are LEFT JOINs, so a missing row is a null; a to-many selection is one statement
with a row number per parent; a to-many hop in a filter is an EXISTS. ``Visibility``, what an actor
may see of each table, is part of every one of these places. ``schema.rows`` runs the result.
Source: design.md 5.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeVar

import sqlalchemy as sa
from sqlalchemy.engine import Dialect
from sqlalchemy.sql.elements import ColumnElement
from sqlalchemy.sql.selectable import FromClause
from sqlalchemy.types import TypeEngine

from schema.rows import Branch, Compiled, Level, Node, Statement
from schema.sources import Column, ModelDescription, Relation, is_unique
from schema.values import TEXT, TextLookup, decoder

FOLD = "frontdesk_fold"
"""The SQL function that read connections on SQLite provide: Python's ``str.casefold``."""

_PARENTS, _PARENT = "frontdesk_parents", "frontdesk_parent"
"""The parents of a to-many list, as a table of their numbers and keys, and the number's column."""

_INTEGER = sa.Integer()
_JSON_NULL = sa.literal_column("'null'", sa.String())
_ONE = sa.literal_column("1", _INTEGER)

_T = TypeVar("_T")

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


@dataclass(frozen=True, slots=True)
class Nested:
    """A relation shown inside its parent; ``limit`` is the length of a to-many list."""

    relation: Relation
    selection: "Selection"
    limit: int = 0


@dataclass(frozen=True, slots=True)
class Selection:
    """What to show of one model, in this order."""

    model: ModelDescription
    fields: tuple[Column | Nested, ...]


@dataclass(frozen=True, slots=True)
class Order:
    """One sort key, at the end of a path of to-one relations.

    Rows without a value come last in both directions.
    """

    column: Column
    descending: bool
    hops: Hops = ()


class Compiler:
    """Compiles questions about ``models``, which hold every model that a hop may reach."""

    def __init__(self, models: Mapping[type, ModelDescription], dialect: Dialect) -> None:
        self._models = models
        self._dialect = dialect

    def compile(
        self,
        selection: Selection,
        conditions: Sequence[Clause],
        order: Sequence[Order],
        visible: Visibility,
    ) -> Compiled:
        """Compile one page and its count; reading gives ``limit`` and ``offset`` their values."""
        tables = _Tables(self._models, visible, self._dialect)
        counted = _From(tables, selection.model)
        count = sa.select(sa.func.count()).where(*counted.where(conditions, visible=True))
        shown = _From(tables, selection.model)
        where = shown.where(conditions, visible=True)
        columns, level = _Columns(), Level()
        level.node = tables.node(shown, (), selection, columns, level.branches, ())
        keys = _sort_keys(shown, selection.model, order)
        page = (
            sa.select(*columns.chosen)
            .select_from(shown.source)
            .where(*where)
            .order_by(*keys)
            .limit(_value("limit", _INTEGER))
            .offset(_value("offset", _INTEGER))
        )
        level.statement = tables.text(page)
        return Compiled(level, tables.text(count.select_from(counted.source)))


def _sort_keys(
    level: "_From", model: ModelDescription, order: Sequence[Order]
) -> list[ColumnElement[object]]:
    keys: list[ColumnElement[object]] = []
    for item in order:
        column = _of(level.join(item.hops), item.column.column)
        key = column.desc() if item.descending else column.asc()
        keys.append(key.nulls_last() if item.column.nullable or item.hops else key)
    named = {item.column.column for item in order if not item.hops}
    return keys + [_of(level.rows, column) for column in model.key if column not in named]


def _of(rows: FromClause, column: sa.Column[object]) -> ColumnElement[object]:
    """The column as it appears in one use of its table."""
    return rows.c[column.key]


def _value(name: str, kind: TypeEngine[_T]) -> sa.BindParameter[_T]:
    """A named parameter; it has no value until a read."""
    return sa.bindparam(name, type_=kind, required=False)


class _Columns:
    """The columns of one SELECT, each only once; the place of a column is its index in the row."""

    def __init__(self) -> None:
        self.chosen: list[ColumnElement[object]] = []
        self._places: dict[tuple[int, str], int] = {}

    def place(self, rows: FromClause, column: sa.Column[object]) -> int:
        key = (id(rows), column.key)
        if key not in self._places:
            self._places[key] = len(self.chosen)
            self.chosen.append(_of(rows, column).label(f"c{len(self.chosen)}"))
        return self._places[key]


class _Tables:
    """One compilation: names each use of a table, and limits it to what is visible."""

    def __init__(
        self, models: Mapping[type, ModelDescription], visible: Visibility, dialect: Dialect
    ) -> None:
        self.models = models
        self.dialect = dialect
        self._visible = visible
        self._by_table = {model.table: model for model in models.values()}
        self._uses = 0

    def use(self, table: sa.Table) -> FromClause:
        self._uses += 1
        return table.alias(f"t{self._uses}")

    def text(self, statement: sa.SelectBase) -> Statement:
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
        clauses = _From(self, model, rows=rows, limited=False).where(beside)
        if joined:
            # One row to hang the joins on: this place may be an ON clause, which takes no joins.
            one = sa.select(_ONE.label("one")).subquery(f"o{self._uses}")
            inner = _From(self, model, rows=rows, source=one, limited=False)
            clauses.append(_exists(inner, inner.where(joined)))
        return clauses

    def reach(
        self, start: FromClause, relation: Relation, *, limited: bool
    ) -> tuple["_From", list[ColumnElement[bool]]]:
        """Follow one to-many hop: the target's rows, and what ties them to ``start``."""
        target = _From(self, self.models[relation.target], limited=limited)
        if relation.link is None:
            return target, [_of(start, a) == _of(target.rows, b) for a, b in relation.pairs]
        link = self.use(relation.link)
        target.source = target.source.join(link, _joined(link, relation, target.rows))
        ties = [_of(start, a) == _of(link, b) for a, b in relation.pairs]
        return target, ties + (self.visible(relation.link, link) if limited else [])

    def node(
        self,
        level: "_From",
        hops: Hops,
        selection: Selection,
        columns: _Columns,
        branches: list[Branch],
        path: tuple[str, ...],
    ) -> Node:
        """Choose the columns for one model of a level, the to-one models beside it included."""
        rows = level.join(hops)
        node = Node(path)
        if hops:
            node.presence = columns.place(rows, hops[-1].pairs[0][1])
        for item in selection.fields:
            if isinstance(item, Column):
                place = columns.place(rows, item.column)
                node.cells.append((item.name, place, decoder(item, self.dialect)))
                continue
            node.reserve(item.relation.name)
            if item.relation.many:
                keys = tuple(columns.place(rows, own) for own, _ in item.relation.pairs)
                holder = tuple(hop.name for hop in hops)
                branches.append(self.branch(item, keys, holder, path))
            else:
                beyond, name = (*hops, item.relation), item.relation.name
                inner = self.node(level, beyond, item.selection, columns, branches, (*path, name))
                node.ones.append((name, inner))
        return node

    def branch(
        self, nested: Nested, keys: tuple[int, ...], holder: tuple[str, ...], path: tuple[str, ...]
    ) -> Branch:
        """Compile the statement for one to-many list; it is finished for a number of parents."""
        relation = nested.relation
        level = _From(self, self.models[relation.target])
        parent, limits = self._below(level, relation)
        columns, inner = _Columns(), Level()
        columns.chosen.append(parent.label("c0"))
        inner_path = (*path, relation.name)
        inner.node = self.node(level, (), nested.selection, columns, inner.branches, inner_path)
        number = sa.func.row_number().over(
            partition_by=parent, order_by=[_of(level.rows, c) for c in level.model.key]
        )
        window = (
            sa.select(*columns.chosen, number.label("place"))
            .select_from(level.source)
            .where(*limits, *level.where((), visible=True))
            .subquery("w")
        )
        page = (
            sa.select(*(window.c[column.name] for column in columns.chosen))
            .where(window.c.place <= _value("many", _INTEGER))
            .order_by(window.c.place)
        )

        def finish(count: int) -> Statement:
            return self.text(page.add_cte(_parents(relation, count)))

        return Branch(holder, relation.name, keys, nested.limit, inner, finish)

    def _below(
        self, level: "_From", relation: Relation
    ) -> tuple[ColumnElement[object], list[ColumnElement[bool]]]:
        """Put the parents before ``level``, and the link, each pair once; give their number."""
        parents = sa.table(_PARENTS, *_parent_columns(relation))
        number: ColumnElement[object] = parents.c[_PARENT]
        link = level.rows if relation.link is None else self.use(relation.link)
        # The stored column stands first: its collation decides which keys are equal.
        ties = [
            _of(link, theirs) == parents.c[f"k{at}"]
            for at, (_, theirs) in enumerate(relation.pairs)
        ]
        owner, limits = parents.join(link, sa.and_(*ties)), list[ColumnElement[bool]]()
        if relation.link is None:
            level.source = owner
            return number, limits
        limits = self.visible(relation.link, link)
        ends = [a for a, _ in relation.link_pairs]
        if is_unique(relation.link, [*ends, *(b for _, b in relation.pairs)]):
            level.source = owner.join(level.rows, _joined(link, relation, level.rows))
            return number, limits
        pairs = sa.select(number, *(_of(link, end) for end in ends)).select_from(owner)
        once = pairs.where(*limits).distinct().subquery(f"d{self._uses}")
        level.source = once.join(level.rows, _joined(once, relation, level.rows))
        return once.c[_PARENT], []


def _needs_join(clause: Clause) -> bool:
    """Tell whether a condition leads over a to-one relation first, which is joined."""
    if isinstance(clause, Junction):
        return any(_needs_join(part) for part in clause.parts)
    return bool(clause.hops) and not clause.hops[0].many


def _parent_columns(relation: Relation) -> list[sa.ColumnClause[object]]:
    kinds = [theirs.type for _, theirs in relation.pairs]
    number: sa.ColumnClause[object] = sa.column(_PARENT, _INTEGER)
    return [number, *(sa.column(f"k{at}", kind) for at, kind in enumerate(kinds))]


def _parents(relation: Relation, count: int) -> sa.CTE:
    """The table of ``count`` parents, whose keys are parameters."""
    columns = _parent_columns(relation)
    rows = [
        (
            sa.literal_column(str(number), _INTEGER),
            *(_value(f"k{number}_{at}", column.type) for at, column in enumerate(columns[1:])),
        )
        for number in range(1, count + 1)
    ]
    return sa.values(*columns, name=_PARENTS).data(rows).cte(_PARENTS)


def _joined(link: FromClause, relation: Relation, target: FromClause) -> ColumnElement[bool]:
    return sa.and_(*(_of(link, a) == _of(target, b) for a, b in relation.link_pairs))


class _From:
    """A FROM clause that grows by one LEFT JOIN for each to-one path asked of it.

    ``limited`` hops lead to visible rows only; only a ``visible`` condition's own are not.
    """

    def __init__(
        self,
        tables: _Tables,
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
            on = [_of(start, a) == _of(rows, b) for a, b in relation.pairs]
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
            found = _of(rows, condition.hops[-1].pairs[0][1])
            return found.is_(None) if condition.comparison == "missing" else found.is_not(None)
        value = _of(rows, column.column)
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
            [_value(name, kind) for name in condition.parameters],
        )

    def _look_into(
        self, comparison: Comparison, value: ColumnElement[object], parameter: str
    ) -> ColumnElement[bool]:
        """Look for a text in another; LIKE of SQLite would not tell capitals from small letters."""
        part = _value(parameter, sa.String())
        size = sa.func.length(part)
        match comparison:
            case "startswith":
                return sa.func.substr(value, _ONE, size) == part
            case "endswith":
                return sa.func.substr(value, sa.func.length(value) - size + _ONE) == part
            case "contains" if self._tables.dialect.name == "sqlite":
                return sa.func.instr(value, part) >= _ONE
            case "contains":
                return sa.func.strpos(value, part) >= _ONE
            case _:
                return self._contains(value, parameter)

    def _contains(self, value: ColumnElement[object], parameter: str) -> ColumnElement[bool]:
        """Compare without case; the pattern is folded already.

        SQLite's own LIKE knows the case of ASCII letters only, so other texts are folded by Python.
        Only those: a call per row takes the interpreter's lock, which a busy server has to spare
        for nobody.
        """
        pattern = _value(parameter, sa.String())
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


def _exists(inner: _From, clauses: Sequence[ColumnElement[bool]]) -> ColumnElement[bool]:
    rows = sa.select(_ONE).select_from(inner.source).where(*clauses)
    return rows.correlate_except(inner.source).exists()
