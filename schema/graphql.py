"""The Strawberry schema: a type for each manager, and a list of its rows at the root.

It is the one definition of what is exposed; the index is read from it. Every read of it is answered
by the function that answers the ``query`` tool. Source: design.md 5.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import NewType, cast

import strawberry
from graphql import GraphQLObjectType
from strawberry.annotation import StrawberryAnnotation
from strawberry.schema.config import StrawberryConfig
from strawberry.types.field import StrawberryField
from strawberry.types.fields.resolver import StrawberryResolver
from strawberry.types.nodes import SelectedField, Selection
from strawberry.types.scalar import ScalarDefinition

from schema.errors import ConfigurationError
from schema.events import Json
from schema.managers import Manager, camel, root_name
from schema.request import NESTED_LIMIT, QueryRequest
from schema.sources import ValueType

_MANAGER = "manager"
"""The key under which a root field of the schema carries its ``Manager``."""

BigInt = NewType("BigInt", int)
Plain = NewType("Plain", str)
Day = NewType("Day", str)
Clock = NewType("Clock", str)
Moment = NewType("Moment", str)
Uuid = NewType("Uuid", str)
AnyJson = NewType("AnyJson", object)

_SCALARS: Mapping[object, ScalarDefinition] = {
    BigInt: strawberry.scalar(
        name="BigInt", description="An integer; a text beyond ±(2^53-1), where numbers lose digits."
    ),
    Plain: strawberry.scalar(name="Decimal", description="A decimal number as a plain text."),
    Day: strawberry.scalar(name="Date", description="A date, ISO 8601."),
    Clock: strawberry.scalar(name="Time", description="A time of day, ISO 8601."),
    Moment: strawberry.scalar(name="DateTime", description="A date and time with zone, ISO 8601."),
    Uuid: strawberry.scalar(name="UUID", description="A UUID as a text."),
    AnyJson: strawberry.scalar(name="JSON", description="Any JSON value."),
}
"""Rows arrive in wire form, so every scalar passes through as it is."""

_GRAPHQL_TYPES: Mapping[ValueType, object] = {
    "string": str | None,
    "integer": BigInt | None,
    "number": float | None,
    "decimal": Plain | None,
    "boolean": bool | None,
    "date": Day | None,
    "time": Clock | None,
    "datetime": Moment | None,
    "uuid": Uuid | None,
    "enum": str | None,
    "json": AnyJson | None,
}
"""Output is nullable throughout; the model's own nullability is told by ``get_manager_schema``."""

# Strawberry resolves an annotation once and remembers it, so fields of one kind share theirs.
_ANNOTATIONS: Mapping[ValueType, StrawberryAnnotation] = {
    kind: StrawberryAnnotation(annotation, namespace={})
    for kind, annotation in _GRAPHQL_TYPES.items()
}


Resolve = Callable[[QueryRequest, object], Awaitable[Sequence[Json]]]
"""Answers a root field; the second argument is the request's context value."""


def graphql_schema(managers: Sequence[Manager], resolve: Resolve) -> strawberry.Schema:
    """Build the schema: a type per manager, and a list of each at the root."""
    types: dict[str, type] = {}
    names = {manager.name: manager for manager in managers}
    for manager in managers:
        made = _type(manager.name, _fields(manager, types), manager.description)
        types[_annotated(manager.name)] = made
    roots = [_root(manager, names, types, resolve) for manager in managers]
    if not roots:
        raise ConfigurationError(
            "E001", "No model is exposed.", "Call managers.expose(Model) for at least one."
        )
    query = _type("Query", roots, "The exposed managers.")
    config = StrawberryConfig(scalar_map=_SCALARS, default_resolver=_member)
    # Types that are given need not be found by recursion, which would go as deep as paths do.
    every = [types[_annotated(name)] for name in names]
    schema = strawberry.Schema(query=query, types=every, config=config)
    root = _root_type(schema)
    for manager in managers:
        root.fields[root_name(manager.name)].extensions[_MANAGER] = manager
    return schema


def _annotated(name: str) -> str:
    """What annotations call the type of a manager: no builtin is called like that."""
    return f"{name}_"


def _type(name: str, fields: Sequence[StrawberryField], description: str) -> type:
    """Make a Strawberry type, whose annotations may name types that come after it."""
    members: dict[str, object] = {field.python_name: field for field in fields}
    annotations = {field.python_name: field.type_annotation for field in fields}
    made = type(name, (), {**members, "__annotations__": annotations})
    decorated = strawberry.type(made, description=description or None)
    for field in fields:
        # The decorator has resolved these too early; the schema asks for them again.
        field.type_annotation = annotations[field.python_name]
    return decorated


def managers_of(schema: strawberry.Schema) -> list[Manager]:
    """The managers that a schema was made of, in order of name."""
    found = (field.extensions.get(_MANAGER) for field in _root_type(schema).fields.values())
    return sorted((m for m in found if isinstance(m, Manager)), key=lambda m: m.name)


def _root_type(schema: strawberry.Schema) -> GraphQLObjectType:
    found = schema.schema_converter.type_map["Query"].implementation
    if not isinstance(found, GraphQLObjectType):
        raise TypeError("Query is not an object type")
    return found


def _member(row: object, name: str) -> object:
    """Read one field of a row, which is a mapping."""
    # isinstance leaves the mapping's type parameters unknown.
    return cast("Mapping[str, object]", row)[name] if isinstance(row, Mapping) else None


def _fields(manager: Manager, types: dict[str, type]) -> list[StrawberryField]:
    fields = [
        _field(name, column.description, _ANNOTATIONS[column.type])
        for name, column in manager.fields.items()
    ]
    for name, link in manager.links.items():
        note, many = link.relation.description, link.relation.many
        one = _annotated(link.target)
        target = f"list[{one}] | None" if many else f"{one} | None"
        resolver = StrawberryResolver(_related) if many else None
        annotation = StrawberryAnnotation(target, namespace=types)
        fields.append(_field(name, note, annotation, resolver))
    return fields


def _field(
    name: str,
    description: str,
    annotation: StrawberryAnnotation,
    resolver: StrawberryResolver[object] | None = None,
) -> StrawberryField:
    return StrawberryField(
        python_name=name,
        graphql_name=camel(name),
        type_annotation=annotation,
        description=description or None,
        base_resolver=resolver,
    )


def _related(
    root: strawberry.Parent[object],
    info: strawberry.Info[object, object],
    limit: int = NESTED_LIMIT,
) -> object:
    """Take a to-many list from its row; the read has fetched enough for the longest of its uses."""
    found = _member(root, info.python_name)
    # isinstance leaves the list's type parameter unknown.
    return cast("list[object]", found)[:limit] if isinstance(found, list) else None


def _root(
    manager: Manager,
    names: Mapping[str, Manager],
    types: dict[str, type],
    resolve: Resolve,
) -> StrawberryField:
    async def rows(
        info: strawberry.Info[object, object],
        filters: AnyJson | None = None,
        order: list[str] | None = None,
        limit: int | None = None,
        offset: int = 0,
    ) -> object:
        asked = [
            inner
            for field in info.selected_fields
            if isinstance(field, SelectedField)
            for inner in field.selections
        ]
        request = QueryRequest(
            manager.name,
            _asked(asked, manager, names),
            # The JSON scalar admits JSON only, but its Python type can't say so.
            cast("Json", filters),
            [*order] if order else None,
            limit,
            offset,
        )
        return await resolve(request, info.context)

    rows.__doc__ = None
    return StrawberryField(
        python_name=root_name(manager.name),
        graphql_name=root_name(manager.name),
        type_annotation=StrawberryAnnotation(
            f"list[{_annotated(manager.name)}] | None", namespace=types
        ),
        description=manager.description or None,
        base_resolver=StrawberryResolver(rows),
    )


def _asked(
    selections: Iterable[Selection], manager: Manager, names: Mapping[str, Manager]
) -> list[Json]:
    """Say a selection in the words of the ``query`` tool; uses of one relation become one."""
    spelled = {camel(name): name for name in (*manager.fields, *manager.links)}
    scalars: dict[str, None] = {}
    inner: dict[str, list[Selection]] = {}
    limits: dict[str, list[int]] = {}
    for field in _flat(selections):
        name = spelled.get(field.name)
        if name is None:
            continue
        if name in manager.links:
            inner.setdefault(name, []).extend(field.selections)
            limit = field.arguments.get("limit")
            # It is None for a variable that is left out, too.
            limits.setdefault(name, []).append(NESTED_LIMIT if limit is None else int(limit))
        else:
            scalars[name] = None
    fields: list[Json] = [*scalars]
    for name, asked in inner.items():
        link = manager.links[name]
        below: Json = _asked(asked, names[link.target], names)
        if link.relation.many:
            # A limit that can't be, if any, is the one to ask for: it is refused.
            limit = max(limits[name], key=lambda asked: (asked < 1, asked))
            below = {"fields": below, "limit": limit}
        fields.append({name: below})
    # A selection of __typename alone still needs a row to stand for.
    return fields or [next(iter(manager.columns))]


def _flat(selections: Iterable[Selection]) -> Iterator[SelectedField]:
    for selection in selections:
        if isinstance(selection, SelectedField):
            yield selection
        else:
            yield from _flat(selection.selections)
