"""Where managers come from: what a model of some ORM says about itself, in our words.

The ``Source`` port reads one kind of model. Its result, a ``ModelDescription``, is all the rest of
the room knows: columns as SQLAlchemy Core columns, relations as hops between tables.
Source: design.md 5.
"""

import inspect
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import Context, Decimal
from enum import Enum
from typing import Literal, Protocol, runtime_checkable

import sqlalchemy as sa
from sqlalchemy.engine import Dialect
from sqlalchemy.sql.elements import ColumnElement
from sqlalchemy.types import TypeDecorator, TypeEngine

ValueType = Literal[
    "string",
    "integer",
    "number",
    "decimal",
    "boolean",
    "date",
    "time",
    "datetime",
    "uuid",
    "enum",
    "json",
]

Pair = tuple[sa.Column[object], sa.Column[object]]

SESSIONS = "sessions"
"""The database that the sessions given to ``Managers`` lead to, else the chat's."""


@dataclass(frozen=True, slots=True)
class Column:
    """One scalar column. ``choices`` are an enum's values as they appear on the wire."""

    name: str
    column: sa.Column[object]
    type: ValueType
    nullable: bool
    primary_key: bool
    description: str = ""
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Relation:
    """A hop to another model: ``pairs`` are (own column, target column), or go through ``link``.

    With a link table, ``pairs`` are (own column, link column) and ``link_pairs`` (link column,
    target column). ``many`` is False for a to-one relation. ``problem`` says why the hop can't be
    read, if so.
    """

    name: str
    target: type
    many: bool
    pairs: tuple[Pair, ...]
    nullable: bool
    description: str
    link: sa.Table | None = None
    link_pairs: tuple[Pair, ...] = ()
    problem: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class ModelDescription:
    """All that a model says about itself. ``columns`` and ``relations`` keep the model's order.

    ``key`` are the columns that tell rows apart, in table order; each is among ``columns`` unless
    its type has no wire form. ``unread`` names the attributes without one. ``database`` says which
    of the project's databases holds the table.
    """

    model: type
    name: str
    table: sa.Table
    columns: tuple[Column, ...]
    relations: tuple[Relation, ...]
    key: tuple[sa.Column[object], ...]
    description: str
    unread: frozenset[str]
    database: str = SESSIONS

    @property
    def primary_key(self) -> tuple[Column, ...]:
        """The scalar columns of the key, in the model's order."""
        return tuple(c for c in self.columns if c.primary_key)


class Source(Protocol):
    """Reads the models of one ORM."""

    def accepts(self, model: type) -> bool:
        """Tell whether ``model`` is of this ORM."""
        ...

    def describe(self, model: type) -> ModelDescription:
        """Describe a model, with its relations to all others, exposed or not."""
        ...


def is_unique(table: sa.Table, columns: Iterable[sa.Column[object]]) -> bool:
    """Tell whether the database keeps ``columns`` of ``table`` from naming two rows."""
    given = set(columns)
    return any(key and key <= given for key in _unique_keys(table))


def _unique_keys(table: sa.Table) -> Iterator[set[sa.Column[object]]]:
    yield set(table.primary_key.columns)
    for constraint in table.constraints:
        if isinstance(constraint, sa.UniqueConstraint):
            yield set(constraint.columns)
    for index in table.indexes:
        if index.unique and not _is_partial(index):
            yield set(index.columns)
    for column in table.columns:
        if column.unique:
            yield {column}


def _is_partial(index: sa.Index) -> bool:
    """True for an index with a WHERE, which leaves the other rows free to repeat a key."""
    given = index.dialect_kwargs.items()
    return any(name.endswith("_where") and value is not None for name, value in given)


def bare_type(stored: TypeEngine[object]) -> TypeEngine[object]:
    """The type below all decorators: it decides what kind of value the column holds."""
    # An interval is one, too, of the moment that it ends at when it begins in 1970.
    while isinstance(stored, TypeDecorator) and not isinstance(stored, sa.Interval):
        stored = stored.impl_instance
    return stored


_TYPES: tuple[tuple[type, ValueType], ...] = (
    (sa.Enum, "enum"),
    (sa.Boolean, "boolean"),
    (sa.Uuid, "uuid"),
    (sa.JSON, "json"),
    (sa.DateTime, "datetime"),
    (sa.Date, "date"),
    (sa.Time, "time"),
    (sa.Integer, "integer"),
    (sa.Float, "number"),
    (sa.Numeric, "decimal"),
    (sa.String, "string"),
)


def value_type(stored: TypeEngine[object]) -> ValueType | None:
    """Name the kind of value; the order of the table settles subclasses, an Enum is a String."""
    for known, name in _TYPES:
        if isinstance(stored, known):
            return "number" if isinstance(stored, sa.Numeric) and not stored.asdecimal else name
    return None


def choices(stored: sa.Enum) -> dict[str, object]:
    """An enum's members by their wire name: the value if it is a text, else the member's name."""
    if stored.enum_class is None:
        return {name: name for name in stored.enums}
    return {choice(member): member for member in stored.enum_class}


def choice(member: object) -> str:
    """What the wire calls one member of an enum column."""
    if isinstance(member, Enum):
        return member.value if isinstance(member.value, str) else member.name
    return str(member)


def docstring(model: type) -> str:
    """The first paragraph of the class's own docstring on one line."""
    own = model.__dict__.get("__doc__")
    return first_paragraph(own) if isinstance(own, str) else ""


def first_paragraph(docstring: str) -> str:
    """The first paragraph of a docstring on one line."""
    return " ".join(inspect.cleandoc(docstring).split("\n\n")[0].split())


WIDE = Context(prec=1_000)
"""Room for the digits of any number in a database; the default context refuses more than 28."""


@runtime_checkable
class InOrder(Protocol):
    """A type that some database keeps as texts which are in order only in another form."""

    def in_order(self, value: ColumnElement[object], dialect: Dialect) -> ColumnElement[object]:
        """The column in the form in which it is compared and sorted, equal values alike."""
        ...


class TextDecimal(TypeDecorator[Decimal]):
    """A decimal that SQLite holds as a text; every other database as a number.

    The bare type tells the scale that values are read at. Texts of one number may differ ("1.5" and
    "1.50"), so they are to be compared with a collation that reads them.
    """

    impl = sa.Numeric
    cache_ok = True

    def __init__(self, precision: int, scale: int) -> None:
        super().__init__(precision, scale)
        self.precision, self.scale = precision, scale

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[str] | TypeEngine[Decimal]:
        """Say how values are stored; a filter's number keeps digits that the column has not."""
        if dialect.name == "sqlite":
            return dialect.type_descriptor(sa.String())
        return dialect.type_descriptor(sa.Numeric())

    def process_bind_param(self, value: Decimal | None, dialect: Dialect) -> Decimal | str | None:
        """Give SQLite the digits without an exponent."""
        return format(value, "f") if value is not None and dialect.name == "sqlite" else value

    def process_result_value(self, value: object, dialect: Dialect) -> Decimal | None:
        """Read a number at the column's scale."""
        if value is None:
            return None
        number = value if isinstance(value, Decimal) else Decimal(str(value))
        return number.quantize(Decimal(1).scaleb(-self.scale), context=WIDE)
