"""A compiled question at work: runs its statements and turns flat rows into nested values.

A ``Compiled`` is made once per shape of question and holds no values, so any number of reads may
share it. Source: design.md 5; performance.md, recommendation 5.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from sqlalchemy.engine import Connection

from schema.computed import note_null
from schema.events import Json, JsonObject
from schema.values import UNFIT, Decode

MAX_RELATED_ROWS = 10_000
"""Rows of to-many lists that one read may gather, over all levels."""

_KEYS_AT_ONCE = 512

Row = Sequence[object]
Values = Mapping[str, object]


class TooManyRows(Exception):
    """The to-many lists of one page hold more than ``MAX_RELATED_ROWS`` rows."""


@dataclass(slots=True)
class Rows:
    """What a read found. ``truncated`` tells that a nested list was cut."""

    data: list[JsonObject] = field(default_factory=list[JsonObject])
    total: int = 0
    truncated: bool = False
    notes: set[str] = field(default_factory=set[str])
    related: int = 0


@dataclass(frozen=True, slots=True)
class Statement:
    """SQL text with the names of its parameters in the order of its marks."""

    sql: str
    names: tuple[str, ...]

    def run(self, connection: Connection, values: Values) -> Sequence[Row]:
        """Execute with the named values; more may be given than are used."""
        parameters = tuple([values[name] for name in self.names])
        return connection.exec_driver_sql(self.sql, parameters).fetchall()


@dataclass(slots=True)
class Node:
    """One model in a row: its cells by name, and the to-one models beside it.

    A cell is made of the value at a place, or of a slice of the row. ``path`` names the relations
    from the root, for notes; the value at ``presence`` is null where the row has no such model.
    """

    path: tuple[str, ...] = ()
    cells: list[tuple[str, int | slice, Decode]] = field(
        default_factory=list[tuple[str, int | slice, Decode]]
    )
    ones: list[tuple[str, "Node"]] = field(default_factory=list[tuple[str, "Node"]])
    presence: int | None = None

    def reserve(self, name: str) -> None:
        """Keep a place for a relation, so that keys come in the order they were asked for."""
        self.cells.append((name, 0, _nothing_yet))

    def show(self, row: Row) -> JsonObject | None:
        """Shape one row; None where the model has none."""
        if self.presence is not None and row[self.presence] is None:
            return None
        shown: JsonObject = {name: decode(row[place]) for name, place, decode in self.cells}
        for name, node in self.ones:
            shown[name] = node.show(row)
        return shown

    def show_fitting(self, row: Row, notes: set[str]) -> JsonObject | None:
        """Shape one row that holds values without a wire form: they become null, with a note."""
        if self.presence is not None and row[self.presence] is None:
            return None
        shown: JsonObject = {}
        for name, place, decode in self.cells:
            try:
                shown[name] = decode(row[place])
            except UNFIT as error:
                shown[name] = None
                note_null(".".join((*self.path, name)), error, notes)
        for name, node in self.ones:
            shown[name] = node.show_fitting(row, notes)
        return shown

    def show_all(self, rows: Sequence[Row], notes: set[str]) -> list[JsonObject]:
        """Shape the rows of a statement; the model of a statement is always there."""
        show = self.show
        try:
            return [shown for row in rows if (shown := show(row)) is not None]
        except UNFIT:
            pages = (self.show_fitting(row, notes) for row in rows)
            return [shown for shown in pages if shown is not None]


def _nothing_yet(_: object) -> Json:
    return None


@dataclass(slots=True)
class Level:
    """One statement's worth of rows, and the to-many lists that hang on them."""

    node: Node = field(default_factory=Node)
    branches: list["Branch"] = field(default_factory=list["Branch"])
    statement: Statement = Statement("", ())


@dataclass(frozen=True, slots=True)
class Branch:
    """A to-many list below a level: ``keys`` are the places of the parents' keys in their row.

    ``holder`` leads from a shown parent to the object that holds the list ``name``. ``finish``
    makes the statement for a number of parents, whose rows begin with the number of their parent.
    """

    holder: tuple[str, ...]
    name: str
    keys: tuple[int, ...]
    limit: int
    level: Level
    finish: Callable[[int], Statement]
    _finished: dict[int, Statement] = field(default_factory=dict[int, Statement])

    def statement(self, count: int) -> Statement:
        """The statement for ``count`` parents, which is a power of two so that few exist."""
        if count not in self._finished:
            self._finished[count] = self.finish(count)
        return self._finished[count]


@dataclass(frozen=True, slots=True)
class Compiled:
    """A page and its count. Sync, for one connection inside one read transaction."""

    page: Level
    count: Statement

    def read(self, connection: Connection, values: Values, limit: int, offset: int) -> Rows:
        """Read one page. Raises: TooManyRows."""
        given = {**values, "limit": limit, "offset": offset}
        rows = Rows()
        found = self.page.statement.run(connection, given)
        rows.data = self.page.node.show_all(found, rows.notes)
        for branch in self.page.branches:
            _fill(connection, branch, found, rows.data, given, rows)
        rows.total = offset + len(found)
        if len(found) == limit or (offset and not found):
            [[total]] = self.count.run(connection, given)
            rows.total = total if isinstance(total, int) else 0
        return rows


def _fill(
    connection: Connection,
    branch: Branch,
    parents: Sequence[Row],
    shown: Sequence[JsonObject],
    values: Values,
    rows: Rows,
) -> None:
    """Read one to-many list for all parents, put it in place, and go on with the lists below it."""
    lists: dict[Row, list[Json]] = {}
    for parent, top in zip(parents, shown, strict=True):
        holder = _holder(top, branch)
        if holder is None:
            continue
        key = tuple([parent[place] for place in branch.keys])
        # Parents with the same key share one list; a key that is not whole has no rows.
        holder[branch.name] = [] if None in key else lists.setdefault(key, [])
    found, places = _related(connection, branch, lists, values, rows)
    kept, kept_shown = list[Row](), list[JsonObject]()
    shown_rows = branch.level.node.show_all(found, rows.notes)
    for row, place, item in zip(found, places, shown_rows, strict=True):
        if len(place) == branch.limit:
            rows.truncated = True
            continue
        place.append(item)
        kept.append(row)
        kept_shown.append(item)
    for below in branch.level.branches:
        _fill(connection, below, kept, kept_shown, values, rows)


def _holder(top: JsonObject, branch: Branch) -> JsonObject | None:
    """The object a list belongs to; None when a to-one relation on the way has no row."""
    holder = top
    for name in branch.holder:
        inner = holder[name]
        if not isinstance(inner, dict):
            return None
        holder = inner
    return holder


def _related(
    connection: Connection,
    branch: Branch,
    lists: Mapping[Row, list[Json]],
    values: Values,
    rows: Rows,
) -> tuple[list[Row], list[list[Json]]]:
    """Read the rows of ``lists``, which are by parents' keys, and say which list each is for.

    The database alone decides which keys are equal, so rows know their parent by its number.
    """
    found, places = list[Row](), list[list[Json]]()
    keys = list(lists)
    for start in range(0, len(keys), _KEYS_AT_ONCE):
        some = keys[start : start + _KEYS_AT_ONCE]
        count = 1 << (len(some) - 1).bit_length()
        # One row too many tells that there are more, which are not even read.
        room = MAX_RELATED_ROWS - rows.related + 1
        given: dict[str, object] = {**values, "many": branch.limit + 1, "room": room}
        for number in range(1, count + 1):
            for at in range(len(branch.keys)):
                # A key without a value leads to no row.
                given[f"k{number}_{at}"] = some[number - 1][at] if number <= len(some) else None
        numbered: dict[object, list[Json]] = {n: lists[key] for n, key in enumerate(some, 1)}
        related = branch.statement(count).run(connection, given)
        found += related
        places += [numbered[row[0]] for row in related]
        rows.related += len(related)
        if rows.related > MAX_RELATED_ROWS:
            raise TooManyRows
    return found, places
