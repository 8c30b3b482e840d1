"""What a project exposes: ``Managers``, and the Strawberry schema made from it.

``expose`` only records, because relations may not exist yet when a module is imported. ``build``
checks everything at start-up and gives the managers as the rest of the room sees them: without what
is hidden, and without relations to what is not exposed. Source: design.md 5.
"""

import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from keyword import iskeyword
from typing import NewType, cast

import strawberry
from graphql import GraphQLObjectType
from sqlalchemy import Engine
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, AsyncSession, async_sessionmaker
from strawberry.annotation import StrawberryAnnotation
from strawberry.schema.config import StrawberryConfig
from strawberry.types.field import StrawberryField
from strawberry.types.fields.resolver import StrawberryResolver
from strawberry.types.nodes import SelectedField, Selection
from strawberry.types.scalar import ScalarDefinition

from schema.errors import ConfigurationError
from schema.events import Actor, Json
from schema.sources import Column, ModelDescription, Relation, Source, SQLModelSource, ValueType

Visible = Callable[[Actor], object]
"""Gives the filter that limits an actor's rows, or a coroutine of it; see ``Managers.expose``."""

Prepare = Callable[[AsyncConnection], Awaitable[None]]

NESTED_LIMIT = 20
"""Rows of a to-many list that does not say how many."""

MANAGER = "manager"
"""The key under which a root field of the schema carries its ``Manager``."""


@dataclass(frozen=True, slots=True)
class Link:
    """A relation that may be followed: its target is exposed."""

    relation: Relation
    target: str


@dataclass(frozen=True, slots=True, eq=False)
class Manager:
    """One exposed model: its name, and what may be seen of it by the names used to ask."""

    name: str
    description: str
    aliases: tuple[str, ...]
    use_when: str
    model: ModelDescription
    columns: Mapping[str, Column]
    links: Mapping[str, Link]
    visible: Visible | None


@dataclass(frozen=True, slots=True)
class _Exposed:
    model: type
    name: str
    description: str | None
    aliases: tuple[str, ...]
    use_when: str
    hide: tuple[str, ...]
    visible: Visible | None


class Managers:
    """The models a project exposes. Nothing else can be seen, counted, filtered by or named.

    ``sessions`` says where the data is; without it, in the chat database. ``prepare`` fills a fresh
    database, once, in one transaction. ``reads`` replaces the engine that reads are made on.
    """

    def __init__(
        self,
        sessions: async_sessionmaker[AsyncSession] | None = None,
        prepare: Prepare | None = None,
        reads: Engine | None = None,
    ) -> None:
        self.sessions = sessions
        self.prepare = prepare
        self.reads = reads
        self._sources: tuple[Source, ...] = (SQLModelSource(),)
        self._exposed: list[_Exposed] = []

    def expose(
        self,
        model: type,
        *,
        name: str | None = None,
        description: str | None = None,
        aliases: Iterable[str] = (),
        use_when: str = "",
        hide: Iterable[str] = (),
        visible: Visible | None = None,
    ) -> None:
        """Expose one model, but not its subclasses, and no model it has relations to.

        ``name`` defaults to the class's, ``description`` to its docstring. ``hide`` takes columns
        and relations away everywhere. ``visible`` gives, sync or async, a filter for an actor:
        ``{"owner__subject": actor.subject}``; it may use hidden columns and unexposed models. An
        empty filter shows all rows; None, another type, an unknown name, a value that does not fit,
        a list of more than 1,024 values or an exception shows none.
        """
        self._exposed.append(
            _Exposed(
                model,
                name or model.__name__,
                description,
                _names(model, "aliases", aliases),
                use_when,
                _names(model, "hide", hide),
                visible,
            )
        )

    def build(self) -> tuple[Manager, ...]:
        """Check what was exposed and give it in order of name. Raises: ConfigurationError."""
        known = {item.model: item for item in self._exposed}
        self._check_names(known)
        described = {item.model: self.describe(item.model) for item in self._exposed}
        built = [_build(item, described[item.model], known) for item in self._exposed]
        return tuple(sorted(built, key=lambda manager: manager.name))

    def describe(self, model: type) -> ModelDescription:
        """Describe any model that a source accepts. Raises: ConfigurationError."""
        for source in self._sources:
            if source.accepts(model):
                return source.describe(model)
        raise ConfigurationError(
            "E001",
            f"{model.__name__} is not a table of a known kind.",
            "Expose SQLModel classes that are declared with table=True.",
        )

    def database_url(self, default: str) -> str:
        """Where the data is, as a SQLAlchemy URL; ``default`` is the chat database's."""
        if self.reads is not None:
            return self.reads.url.render_as_string(hide_password=False)
        if self.sessions is None:
            return default
        bind = self.sessions.kw.get("bind")
        if not isinstance(bind, AsyncEngine | Engine):
            raise ConfigurationError(
                "E001",
                "The sessions given to Managers() are not bound to an engine.",
                "Make them with async_sessionmaker(engine).",
            )
        return bind.url.render_as_string(hide_password=False)

    def _check_names(self, known: Mapping[type, _Exposed]) -> None:
        seen: dict[str, str] = {}
        for item in self._exposed:
            folded = _root_name(item.name).casefold()
            if folded in seen or known[item.model] is not item:
                raise ConfigurationError(
                    "E001",
                    f"{item.model.__name__} is exposed as {item.name}, which is taken already.",
                    "Expose each model once, and give models of the same name another name=.",
                )
            seen[folded] = item.name
            is_reserved = item.name in _RESERVED or iskeyword(item.name)
            if not _GRAPHQL_NAME.fullmatch(item.name) or is_reserved:
                raise ConfigurationError(
                    "E001",
                    f"{item.name} can't be a manager's name.",
                    "Give expose() a name= of ASCII letters, digits and underscores, which is no"
                    " word of Python or GraphQL.",
                )


_GRAPHQL_NAME = re.compile(r"(?!__)[A-Za-z_][A-Za-z0-9_]*")
_RESERVED = frozenset(
    "Query Mutation Subscription String Int Float Boolean ID BigInt Decimal Date DateTime Time"
    " UUID JSON list object".split()
)


def _names(model: type, argument: str, names: Iterable[str]) -> tuple[str, ...]:
    if isinstance(names, str):
        raise ConfigurationError(
            "E001",
            f"{argument} of {model.__name__} must be a tuple of names.",
            f"Write {argument}=({names!r},).",
        )
    return tuple(names)


def _build(item: _Exposed, model: ModelDescription, known: Mapping[type, _Exposed]) -> Manager:
    names = {c.name for c in model.columns} | {r.name for r in model.relations} | model.unread
    for name in item.hide:
        if name not in names:
            raise ConfigurationError(
                "E001",
                f"hide of {item.name} names {name!r}, which {item.model.__name__} does not have.",
                f"It has {', '.join(sorted(names))}.",
            )
    columns = {c.name: c for c in model.columns if c.name not in item.hide}
    shown = [r for r in model.relations if r.name not in item.hide and r.target in known]
    links = {r.name: Link(r, known[r.target].name) for r in shown}
    _check_fields(item, columns, links)
    text = model.description if item.description is None else item.description
    return Manager(
        item.name, text, item.aliases, item.use_when, model, columns, links, item.visible
    )


def _check_fields(item: _Exposed, columns: Mapping[str, Column], links: Mapping[str, Link]) -> None:
    def refuse(problem: str, fix: str) -> ConfigurationError:
        return ConfigurationError("E001", f"{item.name}{problem}.", fix)

    if not columns:
        raise refuse(" shows no column", "Hide less, or do not expose it.")
    taken: dict[str, str] = {}
    for name in (*columns, *links):
        if not _GRAPHQL_NAME.fullmatch(name) or "__" in name:
            raise refuse(
                f".{name} can't be asked for: names are ASCII and hold no double underscore",
                f"Hide it with hide=({name!r},), or map the column under another name.",
            )
        other = taken.setdefault(camel(name), name)
        if other != name:
            raise refuse(
                f".{name} and .{other} are one name in GraphQL, {camel(name)}",
                f"Hide one of them with hide=({name!r},).",
            )
    for name, link in links.items():
        if link.relation.problem:
            raise refuse(
                f".{name} can't be read: it {link.relation.problem}",
                f"Correct the relationship, or hide it with hide=({name!r},).",
            )
    if item.visible is not None and not callable(item.visible):
        raise refuse(" has a visible= that can't be called", "Give a function of the actor.")


# --- the Strawberry schema ------------------------------------------------------------------------

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


@dataclass(frozen=True, slots=True)
class QueryRequest:
    """One page to read, as the ``query`` tool and GraphQL ask for it; None means the default.

    ``fields`` mixes names with {"relation": [...]} or {"relation": {"fields": [...], "limit": 9}}.
    """

    manager: str
    fields: list[Json] | None = None
    filters: Json = None
    order_by: list[Json] | None = None
    limit: Json = None
    offset: Json = None


Resolve = Callable[[QueryRequest, object], Awaitable[Sequence[Json]]]
"""Answers a root field; the second argument is the request's context value."""


def camel(name: str) -> str:
    """The GraphQL spelling of a Python name: ``unit_price`` is ``unitPrice``."""
    first, *rest = name.split("_")
    return first + "".join(part[:1].upper() + part[1:] for part in rest)


def graphql_schema(managers: Sequence[Manager], resolve: Resolve) -> strawberry.Schema:
    """Build the schema: a type per manager, and a list of each at the root."""
    types: dict[str, type] = {}
    names = {manager.name: manager for manager in managers}
    for manager in managers:
        types[manager.name] = _type(manager.name, _fields(manager, types), manager.description)
    roots = [_root(manager, names, types, resolve) for manager in managers]
    if not roots:
        raise ConfigurationError(
            "E001", "No model is exposed.", "Call managers.expose(Model) for at least one."
        )
    query = _type("Query", roots, "The exposed managers.")
    config = StrawberryConfig(scalar_map=_SCALARS, default_resolver=_member)
    # Types that are given need not be found by recursion, which would go as deep as paths do.
    every = [types[name] for name in names]
    schema = strawberry.Schema(query=query, types=every, config=config)
    root = query_type(schema)
    for manager in managers:
        root.fields[_root_name(manager.name)].extensions[MANAGER] = manager
    return schema


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


def query_type(schema: strawberry.Schema) -> GraphQLObjectType:
    """The root of the schema, whose fields carry their managers."""
    found = schema.schema_converter.type_map["Query"].implementation
    if not isinstance(found, GraphQLObjectType):
        raise TypeError("Query is not an object type")
    return found


def _root_name(manager: str) -> str:
    return camel(manager[:1].lower() + manager[1:]) + "List"


def _member(row: object, name: str) -> object:
    """Read one field of a row, which is a mapping."""
    # isinstance leaves the mapping's type parameters unknown.
    return cast("Mapping[str, object]", row)[name] if isinstance(row, Mapping) else None


def _fields(manager: Manager, types: dict[str, type]) -> list[StrawberryField]:
    fields = [
        _field(name, column.description, _ANNOTATIONS[column.type])
        for name, column in manager.columns.items()
    ]
    for name, link in manager.links.items():
        note, many = link.relation.description, link.relation.many
        target = f"list[{link.target}] | None" if many else f"{link.target} | None"
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
        python_name=_root_name(manager.name),
        graphql_name=_root_name(manager.name),
        type_annotation=StrawberryAnnotation(f"list[{manager.name}] | None", namespace=types),
        description=manager.description or None,
        base_resolver=StrawberryResolver(rows),
    )


def _asked(
    selections: Iterable[Selection], manager: Manager, names: Mapping[str, Manager]
) -> list[Json]:
    """Say a selection in the words of the ``query`` tool; uses of one relation become one."""
    spelled = {camel(name): name for name in (*manager.columns, *manager.links)}
    scalars: dict[str, None] = {}
    inner: dict[str, list[Selection]] = {}
    limits: dict[str, list[int]] = {}
    for field in _flat(selections):
        name = spelled.get(field.name)
        if name is None:
            continue
        if name in manager.links:
            inner.setdefault(name, []).extend(field.selections)
            limits.setdefault(name, []).append(int(field.arguments.get("limit", NESTED_LIMIT)))
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
