"""Where managers come from: what a model of some ORM says about itself, in our words.

The ``Source`` port reads one kind of model. Its result, a ``ModelDescription``, is all the rest of
the room knows: columns as SQLAlchemy Core columns, relations as hops between tables.
Source: design.md 5.
"""

import inspect
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Literal, Protocol, cast

import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import ColumnProperty, Mapper, RelationshipProperty, class_mapper
from sqlalchemy.sql import operators, visitors
from sqlalchemy.sql.elements import BinaryExpression, BooleanClauseList, ColumnElement, Grouping
from sqlalchemy.types import TypeDecorator, TypeEngine
from sqlmodel import SQLModel

from schema.errors import ConfigurationError

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
    link: sa.Table | None = None
    link_pairs: tuple[Pair, ...] = ()
    nullable: bool = True
    description: str = ""
    problem: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class ModelDescription:
    """All that a model says about itself. ``columns`` and ``relations`` keep the model's order.

    ``key`` are the columns that tell rows apart, in table order; each is among ``columns`` unless
    its type has no wire form. ``unread`` names the attributes without one.
    """

    model: type
    name: str
    table: sa.Table
    columns: tuple[Column, ...]
    relations: tuple[Relation, ...]
    key: tuple[sa.Column[object], ...]
    description: str = ""
    unread: frozenset[str] = frozenset()

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


class SQLModelSource:
    """Reads SQLModel tables through their SQLAlchemy mapper; declarative classes work as well."""

    def accepts(self, model: type) -> bool:
        """Tell whether ``model`` is mapped to a table; a SQLModel without ``table=True`` is not."""
        return isinstance(sa.inspect(model, raiseerr=False), Mapper)

    def describe(self, model: type) -> ModelDescription:
        """Describe a mapped class. Raises: ConfigurationError."""
        try:
            return _describe(class_mapper(model))
        except SQLAlchemyError as error:
            raise ConfigurationError(
                "E001", f"{model.__name__} can't be read: {error}", "Correct its relationships."
            ) from error


def _describe(mapper: Mapper[object]) -> ModelDescription:
    model, table = mapper.class_, _table(mapper.local_table)
    if mapper.inherits is not None or table is None:
        raise ConfigurationError(
            "E001",
            f"{model.__name__} inherits another table's model, which can't be exposed.",
            "Expose the base model, or give this model a table of its own.",
        )
    notes = _field_descriptions(model)
    key = tuple(column for column in table.columns if column in mapper.primary_key)
    read = {p.key: _column(p, table, key, notes) for p in mapper.column_attrs}
    order = {name: place for place, name in enumerate(notes)}
    found = sorted((c for c in read.values() if c), key=lambda c: order.get(c.name, len(order)))
    return ModelDescription(
        model=model,
        name=model.__name__,
        table=table,
        columns=tuple(found),
        relations=tuple(_relation(r, table) for r in mapper.relationships),
        key=key,
        description=_docstring(model),
        unread=frozenset(name for name, column in read.items() if column is None),
    )


def _table(clause: sa.FromClause | None) -> sa.Table | None:
    if not isinstance(clause, sa.Table):
        return None
    return cast("sa.Table", clause)  # isinstance alone leaves the table's type parameter unknown


def _docstring(model: type) -> str:
    """The first paragraph of the class's own docstring on one line."""
    own = model.__dict__.get("__doc__")
    paragraph = inspect.cleandoc(own).split("\n\n")[0] if isinstance(own, str) else ""
    return " ".join(paragraph.split())


def _field_descriptions(model: type) -> dict[str, str]:
    """What ``Field(description=...)`` says, by field, in the order the model declares them."""
    if not issubclass(model, SQLModel):
        return {}
    return {name: field.description or "" for name, field in model.model_fields.items()}


def _column(
    attribute: ColumnProperty[object],
    table: sa.Table,
    key: tuple[sa.Column[object], ...],
    notes: dict[str, str],
) -> Column | None:
    """Read one mapped attribute; computed ones and types without a wire form give None."""
    column = attribute.columns[0]
    if not isinstance(column, sa.Column) or column.table is not table:
        return None
    stored = bare_type(column.type)
    value_type = _value_type(stored)
    if value_type is None:
        return None
    return Column(
        name=attribute.key,
        column=column,
        type=value_type,
        nullable=bool(column.nullable),
        primary_key=column in key,
        description=" ".join((notes.get(attribute.key) or column.comment or "").split()),
        choices=tuple(choices(stored)) if isinstance(stored, sa.Enum) else (),
    )


def bare_type(stored: TypeEngine[object]) -> TypeEngine[object]:
    """The type below all decorators: it decides what kind of value the column holds."""
    while isinstance(stored, TypeDecorator):
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


def _value_type(stored: TypeEngine[object]) -> ValueType | None:
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


def _relation(attribute: RelationshipProperty[object], table: sa.Table) -> Relation:
    link, over_link = attribute.secondary, attribute.secondary_synchronize_pairs
    if link is None or over_link is None:
        pairs, link_pairs = _columns(attribute.local_remote_pairs), ()
    else:
        pairs = _columns(attribute.synchronize_pairs)
        link_pairs = _columns((b, a) for a, b in over_link)
    note, many = attribute.info.get("description"), bool(attribute.uselist)
    return Relation(
        name=attribute.key,
        target=attribute.mapper.class_,
        many=many,
        pairs=pairs,
        link=_table(link),
        link_pairs=link_pairs,
        nullable=not many and (link is not None or any(_may_dangle(own) for own, _ in pairs)),
        description=" ".join(note.split()) if isinstance(note, str) else "",
        problem=_problem(attribute, table, pairs, link_pairs),
    )


def _columns(
    pairs: Iterable[tuple[ColumnElement[object], ColumnElement[object]]],
) -> tuple[Pair, ...]:
    """The pairs in a fixed order: the mapper collects some of them in sets."""
    plain = [(a, b) for a, b in pairs if isinstance(a, sa.Column) and isinstance(b, sa.Column)]
    return tuple(sorted(plain, key=lambda pair: (str(pair[0]), str(pair[1]))))


def _may_dangle(own: sa.Column[object]) -> bool:
    """True when nothing makes the database keep a target row for this key."""
    return bool(own.nullable) or not own.foreign_keys


def _problem(
    attribute: RelationshipProperty[object],
    table: sa.Table,
    pairs: tuple[Pair, ...],
    link_pairs: tuple[Pair, ...],
) -> str:
    """Say why rows can't be read over this relationship; "" when they can."""
    joins = [(attribute.primaryjoin, pairs)]
    target: sa.FromClause = attribute.mapper.local_table
    if attribute.secondary is not None and attribute.secondaryjoin is not None:
        joins.append((attribute.secondaryjoin, link_pairs))
        target = attribute.secondary
    if not all(_is_plain(clause, keys) for clause, keys in joins):
        return "joins on more than equal columns"
    if not all(a.table is table and b.table is target for a, b in pairs):
        return "joins columns of other tables"
    table_reached = _table(target) if attribute.secondary is None else None
    if attribute.uselist or (
        table_reached is not None and is_unique(table_reached, [b for _, b in pairs])
    ):
        return ""
    return "leads to one row, but no unique constraint on the joined columns says so"


def _is_plain(clause: ColumnElement[bool], pairs: tuple[Pair, ...]) -> bool:
    """True for equalities of columns joined by AND, one for each pair."""
    equalities = 0
    for node in visitors.iterate(clause):
        if isinstance(node, BinaryExpression):
            if node.operator is not operators.eq:
                return False
            equalities += 1
        elif isinstance(node, BooleanClauseList):
            if node.operator is not operators.and_:
                return False
        elif not isinstance(node, sa.Column | Grouping):
            return False
    return equalities == len(pairs) > 0
