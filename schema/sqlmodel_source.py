"""SQLModel tables, and classes of SQLAlchemy's own mappings, as managers. Source: design.md 5."""

from collections.abc import Iterable
from typing import cast

import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import ColumnProperty, Mapper, RelationshipProperty, class_mapper
from sqlalchemy.sql import operators, visitors
from sqlalchemy.sql.elements import BinaryExpression, BooleanClauseList, ColumnElement, Grouping
from sqlmodel import SQLModel

from schema.errors import ConfigurationError
from schema.sources import (
    Column,
    ModelDescription,
    Pair,
    Relation,
    bare_type,
    choices,
    docstring,
    is_unique,
    value_type,
)


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
        description=docstring(model),
        unread=frozenset(name for name, column in read.items() if column is None),
    )


def _table(clause: sa.FromClause | None) -> sa.Table | None:
    if not isinstance(clause, sa.Table):
        return None
    return cast("sa.Table", clause)  # isinstance alone leaves the table's type parameter unknown


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
    kind = value_type(stored)
    if kind is None:
        return None
    return Column(
        name=attribute.key,
        column=column,
        type=kind,
        nullable=bool(column.nullable),
        primary_key=column in key,
        description=" ".join((notes.get(attribute.key) or column.comment or "").split()),
        choices=tuple(choices(stored)) if isinstance(stored, sa.Enum) else (),
    )


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
