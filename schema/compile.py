"""One SQL compiler: a checked question becomes SQL text once, and rows become nested values.

A to-many selection is one statement with a row number per parent. ``schema.joins`` makes FROM and
WHERE, ``schema.rows`` runs the result. Source: design.md 5.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Dialect
from sqlalchemy.sql.elements import ColumnElement
from sqlalchemy.sql.selectable import FromClause

from schema.computed import Computed, calculator
from schema.joins import (
    INTEGER,
    Clause,
    From,
    Hops,
    Tables,
    Visibility,
    column_of,
    linked,
    parameter,
    parameter_type,
)
from schema.rows import Branch, Compiled, Level, Node, Rows, Statement, Values
from schema.sources import Column, ModelDescription, Relation, is_unique
from schema.values import decoder

_PARENTS, _PARENT = "frontdesk_parents", "frontdesk_parent"
"""The parents of a to-many list, as a table of their numbers and keys, and the number's column."""

_NOTHING = sa.literal_column("0", INTEGER)
"""SQLite writes an OFFSET beside every LIMIT, by itself as a parameter without a name."""


@dataclass(frozen=True, slots=True)
class Nested:
    """A relation shown inside its parent; ``limit`` is the length of a to-many list."""

    relation: Relation
    selection: "Selection"
    limit: int


@dataclass(frozen=True, slots=True)
class Selection:
    """What to show of one model, in this order."""

    model: ModelDescription
    fields: tuple[Column | Computed | Nested, ...]


@dataclass(frozen=True, slots=True)
class Order:
    """One sort key, at the end of a path of to-one relations.

    Rows without a value come last in both directions.
    """

    column: Column
    descending: bool
    hops: Hops


@dataclass(slots=True)
class Question:
    """What is asked of one database, without its values.

    The first read compiles it, since on SQLite a read has a thread of its own. ``models`` hold
    every model that a hop may reach.
    """

    compile: Callable[[Tables], Compiled]
    models: Mapping[type, ModelDescription]
    visible: Visibility
    dialect: Dialect
    compiled: Compiled | None = None

    def read(self, connection: Connection, values: Values, limit: int, offset: int) -> Rows:
        """Read one page. Raises: TooManyRows."""
        if self.compiled is None:
            self.compiled = self.compile(Tables(self.models, self.visible, self.dialect))
        return self.compiled.read(connection, values, limit, offset)


def compile_page(
    selection: Selection, conditions: Sequence[Clause], order: Sequence[Order], tables: Tables
) -> Compiled:
    """Compile one page and its count; reading gives ``limit`` and ``offset`` their values."""
    counted = From(tables, selection.model)
    count = sa.select(sa.func.count()).where(*counted.where(conditions, visible=True))
    shown = From(tables, selection.model)
    where = shown.where(conditions, visible=True)
    columns, level = _Columns(), Level()
    level.node = _Pages(tables).node(shown, (), selection, columns, level.branches, ())
    keys = _sort_keys(tables, shown, selection.model, order)
    page = (
        sa.select(*columns.chosen)
        .select_from(shown.source)
        .where(*where)
        .order_by(*keys)
        .limit(parameter("limit", INTEGER))
        .offset(parameter("offset", INTEGER))
    )
    level.statement = tables.text(page)
    return Compiled(level, tables.text(count.select_from(counted.source)))


def _sort_keys(
    tables: Tables, level: From, model: ModelDescription, order: Sequence[Order]
) -> list[ColumnElement[object]]:
    keys: list[ColumnElement[object]] = []
    for item in order:
        column = item.column.column
        value = tables.comparable(level.join(item.hops), column)
        key = value.desc() if item.descending else value.asc()
        may_miss = item.column.nullable or item.hops or tables.has_nan(column)
        keys.append(key.nulls_last() if may_miss else key)
    named = {item.column.column for item in order if not item.hops}
    rest = (column for column in model.key if column not in named)
    return keys + [tables.comparable(level.rows, column) for column in rest]


class _Columns:
    """The columns of one SELECT, each only once; the place of a column is its index in the row."""

    def __init__(self) -> None:
        self.chosen: list[ColumnElement[object]] = []
        self._places: dict[tuple[int, str], int] = {}

    def place(self, rows: FromClause, column: sa.Column[object]) -> int:
        key = (id(rows), column.key)
        if key not in self._places:
            self._places[key] = len(self.chosen)
            self.chosen.append(column_of(rows, column).label(f"c{len(self.chosen)}"))
        return self._places[key]


class _Pages:
    """Chooses the columns of one compilation, and the statements of its to-many lists."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def node(
        self,
        level: From,
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
                node.cells.append((item.name, place, decoder(item, self._tables.dialect)))
                continue
            if isinstance(item, Computed):
                places = [columns.place(rows, column.column) for column in item.inputs]
                compute = calculator(item, places, self._tables.dialect)
                node.cells.append((item.column.name, slice(None), compute))
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
        level = From(self._tables, self._tables.models[relation.target])
        parent, limits = self._below(level, relation)
        columns, inner = _Columns(), Level()
        columns.chosen.append(parent.label("c0"))
        inner_path = (*path, relation.name)
        inner.node = self.node(level, (), nested.selection, columns, inner.branches, inner_path)
        number = sa.func.row_number().over(
            partition_by=parent,
            order_by=[self._tables.comparable(level.rows, c) for c in level.model.key],
        )
        window = (
            sa.select(*columns.chosen, number.label("place"))
            .select_from(level.source)
            .where(*limits, *level.where((), visible=True))
            .subquery("w")
        )
        page = (
            sa.select(*(window.c[column.name] for column in columns.chosen))
            .where(window.c.place <= parameter("many", INTEGER))
            .order_by(window.c.place)
            .limit(parameter("room", INTEGER))
            .offset(_NOTHING)
        )

        def finish(count: int) -> Statement:
            return self._tables.text(page.add_cte(self._parents(relation, count)))

        return Branch(holder, relation.name, keys, nested.limit, inner, finish)

    def _below(
        self, level: From, relation: Relation
    ) -> tuple[ColumnElement[object], list[ColumnElement[bool]]]:
        """Put the parents before ``level``, and the link, each pair once; give their number."""
        parents = sa.table(_PARENTS, *self._parent_columns(relation))
        number: ColumnElement[object] = parents.c[_PARENT]
        link = level.rows if relation.link is None else self._tables.use(relation.link)
        # The stored column stands first: its collation decides which keys are equal.
        ties = [
            column_of(link, theirs) == parents.c[f"k{at}"]
            for at, (_, theirs) in enumerate(relation.pairs)
        ]
        owner, limits = parents.join(link, sa.and_(*ties)), list[ColumnElement[bool]]()
        if relation.link is None:
            level.source = owner
            return number, limits
        limits = self._tables.visible_link(relation.link, link)
        ends = [a for a, _ in relation.link_pairs]
        if is_unique(relation.link, [*ends, *(b for _, b in relation.pairs)]):
            level.source = owner.join(level.rows, linked(link, relation, level.rows))
            return number, limits
        pairs = sa.select(number, *(column_of(link, end) for end in ends)).select_from(owner)
        once = pairs.where(*limits).distinct().subquery(self._tables.name("d"))
        level.source = once.join(level.rows, linked(once, relation, level.rows))
        return once.c[_PARENT], []

    def _parent_columns(self, relation: Relation) -> list[sa.ColumnClause[object]]:
        kinds = [parameter_type(theirs, self._tables.dialect) for _, theirs in relation.pairs]
        number: sa.ColumnClause[object] = sa.column(_PARENT, INTEGER)
        return [number, *(sa.column(f"k{at}", kind) for at, kind in enumerate(kinds))]

    def _parents(self, relation: Relation, count: int) -> sa.CTE:
        """The table of ``count`` parents, whose keys are parameters."""
        columns = self._parent_columns(relation)
        kinds = [column.type for column in columns[1:]]
        rows = [
            (
                sa.literal_column(str(number), INTEGER),
                *(parameter(f"k{number}_{at}", kind) for at, kind in enumerate(kinds)),
            )
            for number in range(1, count + 1)
        ]
        return sa.values(*columns, name=_PARENTS).data(rows).cte(_PARENTS)
