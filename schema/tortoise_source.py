"""Tortoise models as managers: what they say about themselves.

Nothing is asked of a database. Relations exist only after the models of all apps are known to each
other, which Tortoise does once in the life of a process: here, when the first model is described,
or before in a context of the host's own. Source: design.md 5.
"""

import asyncio
import contextvars
import warnings
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated, Protocol, cast, get_args, get_origin

import sqlalchemy as sa
from typing_extensions import Doc, Format, get_annotations

from schema.errors import ConfigurationError
from schema.sources import (
    Column,
    ModelDescription,
    Relation,
    bare_type,
    choices,
    docstring,
    value_type,
)
from schema.tortoise_config import Configuration, read_configuration, wrong
from schema.tortoise_types import stored_type

if TYPE_CHECKING:
    from tortoise.config import TortoiseConfig
    from tortoise.models import Model

_DATABASE = "tortoise."


class TortoiseSource:
    """Reads the models of a Tortoise configuration.

    ``config`` has Tortoise's own form, {"connections": {...}, "apps": {...}}; without connections
    the data is in the chat database. A ``Meta.manager`` limits Tortoise's own queries and not what
    is read here: that is what ``visible`` is for. Raises: ConfigurationError.
    """

    def __init__(self, config: "Mapping[str, object] | TortoiseConfig") -> None:
        self._config = read_configuration(config)
        self._described: Mapping[type, ModelDescription] = {}

    def accepts(self, model: type) -> bool:
        """Tell whether ``model`` is of Tortoise, in one of the apps or not."""
        from tortoise.models import Model

        return issubclass(model, Model)

    def describe(self, model: type) -> ModelDescription:
        """Describe a model of one of the apps. Raises: ConfigurationError."""
        if not self._described:
            self._described = _describe(self._config)
        found = self._described.get(model)
        if found is None:
            raise ConfigurationError(
                "E001",
                f"{model.__name__} is a model of no app in the Tortoise configuration.",
                f"Name its module, {model.__module__}, among the models of one app; an abstract"
                " model can't be exposed.",
            )
        return found

    def urls(self, default: str) -> Mapping[str, str]:
        """The databases by the names that descriptions give them, as SQLAlchemy URLs.

        ``default`` is the chat database's. Raises: ConfigurationError.
        """
        return {_DATABASE + name: url for name, url in self._config.urls(default).items()}

    @asynccontextmanager
    async def opened(self, default_url: str) -> AsyncGenerator[contextvars.Context]:
        """Open Tortoise's connections for the project's own code.

        A task that starts with a copy of the context can use Tortoise; each entering a context of
        its own would not do. ``default_url`` is the chat database's. Tortoise keeps ``use_tz`` and
        ``timezone`` for the whole process. Raises: ConfigurationError.
        """
        from tortoise.context import TortoiseContext
        from tortoise.exceptions import BaseORMException

        config = self._config.connected(default_url)
        _check_times(config)
        context, tortoise = contextvars.copy_context(), TortoiseContext()

        async def enter() -> Exception | None:
            await tortoise.__aenter__()
            try:
                await tortoise.init(config)
            except (BaseORMException, ImportError) as error:
                return error
            return None

        async def leave() -> None:
            await tortoise.__aexit__(None, None, None)

        # Both run in the context itself: what is entered in one can't be left in another.
        async with asyncio.TaskGroup() as group:
            entering = group.create_task(enter(), context=context)
        try:
            if error := entering.result():
                raise wrong(error) from error
            yield context
        finally:
            async with asyncio.TaskGroup() as group:
                group.create_task(leave(), context=context)


def _check_times(config: "TortoiseConfig") -> None:
    """Refuse to change how the host's own Tortoise, which is open already, takes times."""
    from tortoise.context import get_current_context

    host, ours = get_current_context(), (config.use_tz is not False, config.timezone or "UTC")
    if host is not None and host.inited and (host.use_tz, host.timezone) != ours:
        raise ConfigurationError(
            "E001",
            f"Tortoise is in use with use_tz={host.use_tz} and timezone={host.timezone!r}, and the"
            " configuration given to Managers() says otherwise.",
            "Write both into the configuration, and use the same one everywhere.",
        )


# --- what models say ------------------------------------------------------------------------------


class _Field(Protocol):
    """A field, as far as it is used here. The ``reference`` of a raw column is its relation."""

    model_field_name: str
    source_field: str | None
    null: bool
    unique: bool
    description: str | None
    docstring: str | None
    reference: object


class _Meta(Protocol):
    """What Tortoise knows of a model, as far as it is used here."""

    fields_map: Mapping[str, _Field]
    fields_db_projection: Mapping[str, str]
    pk_attr: str
    db_table: str
    schema: str | None
    unique_together: Sequence[Sequence[str]]
    table_description: str


class _Hop(Protocol):
    """A field that leads to another model; each kind has some of the members.

    ``source_field`` of a foreign key and ``relation_field`` of the way back name the raw column's
    field.
    """

    related_model: "type[Model]"
    to_field_instance: _Field
    source_field: str
    relation_field: str
    db_constraint: bool
    null: bool
    unique: bool
    description: str | None
    docstring: str | None
    through: str
    through_schema: str | None
    forward_key: str
    backward_key: str

    def describe(self, serializable: bool) -> Mapping[str, object]: ...


def _meta(model: "type[Model]") -> _Meta:
    # Documented, in spite of its name; the type says more than Tortoise's own annotations.
    return cast("_Meta", model._meta)  # pyright: ignore[reportPrivateUsage]


def _load(config: Configuration) -> dict["type[Model]", str]:
    """Import the models of all apps and join their relations; give their connections."""
    from tortoise.apps import Apps
    from tortoise.connection import ConnectionHandler
    from tortoise.exceptions import ConfigurationError as TortoiseError

    apps, labels = Apps(None, ConnectionHandler()), [*config.given.apps]
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("error", "Module .* has no models", RuntimeWarning)
            for label in labels:
                is_last = label == labels[-1]
                apps.init_app(label, config.given.apps[label].models, _init_relations=is_last)
    except RuntimeWarning as error:
        raise ConfigurationError(
            "E001",
            f"{error} for an app of the Tortoise configuration.",
            "Correct the name; a module is part of one app only, by the same label everywhere.",
        ) from error
    except TortoiseError as error:
        raise wrong(error) from error
    return {
        model: config.connection_of(label) for label in labels for model in apps[label].values()
    }


def _describe(config: Configuration) -> dict[type, ModelDescription]:
    connections = _load(config)
    models = _Models(config, connections)
    return {model: models.describe(model) for model in connections}


class _Models:
    """All models with their tables, and the tables that link them."""

    def __init__(self, config: Configuration, connections: Mapping["type[Model]", str]) -> None:
        self._connections = connections
        self._zone = config.zone
        self._schemas = {name: config.schema_of(name) for name in {*connections.values()}}
        self._tables = {model: self._table(model) for model in connections}
        self._links = {
            (self._connections[model], table.schema, table.name): table
            for model, table in self._tables.items()
        }

    def describe(self, model: "type[Model]") -> ModelDescription:
        """Put together what a model says."""
        table, meta = self._tables[model], _meta(model)
        read = {name: _column(name, attribute, table, meta) for name, attribute in _scalars(meta)}
        return ModelDescription(
            model=model,
            name=model.__name__,
            table=table,
            columns=tuple(column for column in read.values() if column),
            relations=self._relations(model),
            key=tuple(table.primary_key),
            description=docstring(model) or meta.table_description,
            unread=frozenset(name for name, column in read.items() if column is None),
            database=_DATABASE + self._connections[model],
        )

    def _table(self, model: "type[Model]") -> sa.Table:
        meta = _meta(model)
        columns = [
            sa.Column(
                column,
                stored_type(meta.fields_map[name], self._zone),
                primary_key=name == meta.pk_attr,
                nullable=meta.fields_map[name].null,
                unique=meta.fields_map[name].unique,
            )
            for name, column in meta.fields_db_projection.items()
        ]
        together = [
            sa.UniqueConstraint(*(_stored_name(meta, name) for name in names))
            for names in meta.unique_together
        ]
        schema = meta.schema or self._schemas[self._connections[model]]
        return sa.Table(meta.db_table, sa.MetaData(), *columns, *together, schema=schema)

    def _relations(self, model: "type[Model]") -> tuple[Relation, ...]:
        """The relations within a connection; those that are annotated come first, in that order."""
        notes = _annotations(model)
        order = {name: place for place, name in enumerate(notes)}
        found = [
            self._relation(model, name, hop, notes.get(name, ""))
            for name, hop in _hops(model)
            if self._connections.get(hop.related_model) == self._connections[model]
        ]
        return tuple(sorted(found, key=lambda relation: order.get(relation.name, len(order))))

    def _relation(self, model: "type[Model]", name: str, hop: _Hop, note: str) -> Relation:
        from tortoise.fields import relational as kinds

        if isinstance(hop, kinds.ManyToManyFieldInstance):
            return self._over_link(model, name, hop, note)
        target, to = hop.related_model, hop.to_field_instance.model_field_name
        if isinstance(hop, kinds.BackwardFKRelation):
            ends = to, hop.relation_field
            many = not isinstance(hop, kinds.BackwardOneToOneRelation)
            nullable = not many
        else:
            ends = hop.source_field, to
            many, nullable = False, hop.null or not hop.db_constraint
            note = note or hop.docstring or hop.description or ""
        own, theirs = self._stored(model, ends[0]), self._stored(target, ends[1])
        return Relation(
            name, target, many, ((own, theirs),), nullable=nullable, description=_line(note)
        )

    def _over_link(self, model: "type[Model]", name: str, hop: _Hop, note: str) -> Relation:
        target, is_generated = hop.related_model, hop.describe(serializable=True)["_generated"]
        own, theirs = (self._stored(m, _meta(m).pk_attr) for m in (model, target))
        link = self._link(model, hop)
        missing = {hop.backward_key, hop.forward_key} - {*link.c.keys()}
        if missing:
            raise ConfigurationError(
                "E001",
                f"The table {hop.through} of {model.__name__}.{name} has no column {min(missing)}.",
                "Correct forward_key and backward_key of the ManyToManyField.",
            )
        return Relation(
            name,
            target,
            many=True,
            pairs=((own, link.c[hop.backward_key]),),
            link=link,
            link_pairs=((link.c[hop.forward_key], theirs),),
            nullable=False,
            description=_line(
                note or ("" if is_generated else hop.docstring or hop.description or "")
            ),
        )

    def _link(self, model: "type[Model]", hop: _Hop) -> sa.Table:
        """The table between two models, which may be that of a third one."""
        connection, target = self._connections[model], hop.related_model
        schema = hop.through_schema or self._schemas[connection]
        key = connection, schema, hop.through
        if key not in self._links:
            columns = [
                sa.Column(name, self._stored(m, _meta(m).pk_attr).type, nullable=False)
                for m, name in ((model, hop.backward_key), (target, hop.forward_key))
            ]
            link = sa.Table(hop.through, sa.MetaData(), *columns, schema=schema)
            # Of the two ends only the declared one says that pairs may repeat.
            if all(end.unique for m in (model, target) for end in _ends_at(m, hop.through)):
                link.append_constraint(sa.UniqueConstraint(*link.columns))
            self._links[key] = link
        return self._links[key]

    def _stored(self, model: "type[Model]", attribute: str) -> sa.Column[object]:
        return self._tables[model].c[_meta(model).fields_db_projection[attribute]]


def _ends_at(model: "type[Model]", link: str) -> list[_Hop]:
    from tortoise.fields.relational import ManyToManyFieldInstance

    return [
        hop
        for _, hop in _hops(model)
        if isinstance(hop, ManyToManyFieldInstance) and hop.through == link
    ]


def _scalars(meta: _Meta) -> Iterator[tuple[str, str]]:
    """The names of columns with the names of their fields, in the order of the model.

    A foreign key's raw column stands where its relation is, under its own name unless the model
    means something else by that.
    """
    from tortoise.fields.relational import ForeignKeyFieldInstance

    for name, field in meta.fields_map.items():
        if isinstance(field, ForeignKeyFieldInstance):
            raw = field.source_field or ""
            stored = meta.fields_db_projection[raw]
            yield (raw if stored in meta.fields_map else stored), raw
        elif name in meta.fields_db_projection and field.reference is None:
            yield name, name


def _hops(model: "type[Model]") -> Iterator[tuple[str, _Hop]]:
    """The fields that lead to other models."""
    from tortoise.fields.relational import RelationalField

    for name, field in _meta(model).fields_map.items():
        if isinstance(field, RelationalField):
            yield name, cast("_Hop", field)  # each kind has those of the members that it needs


def _column(name: str, attribute: str, table: sa.Table, meta: _Meta) -> Column | None:
    """Read one column; types without a wire form give None."""
    field, column = meta.fields_map[attribute], table.c[meta.fields_db_projection[attribute]]
    stored = bare_type(column.type)
    kind = value_type(stored)
    if kind is None:
        return None
    note, members = field.description or "", dict[str, object]()
    if isinstance(stored, sa.Enum):
        members = choices(stored)
        if note == "\n".join(f"{m.name}: {m.value}" for m in stored.enum_class or ()):
            note = ""  # Tortoise's own, which names what is stored and not what is asked for
    return Column(
        name=name,
        column=column,
        type=kind,
        nullable=field.null,
        primary_key=attribute == meta.pk_attr,
        description=_line(note),
        choices=tuple(members),
    )


def _annotations(model: "type[Model]") -> dict[str, str]:
    """What ``Annotated[..., Doc("...")]`` says of annotated attributes, in order."""
    notes: dict[str, str] = {}
    for base in reversed(model.__mro__):
        for name, given in get_annotations(base, format=Format.FORWARDREF).items():
            metadata = get_args(given)[1:] if get_origin(given) is Annotated else ()
            notes[name] = next((m.documentation for m in metadata if isinstance(m, Doc)), "")
    return notes


def _stored_name(meta: _Meta, name: str) -> str:
    """The column of a field; of a relation its raw column."""
    raw = meta.fields_map[name].source_field if name not in meta.fields_db_projection else name
    return meta.fields_db_projection[raw or name]


def _line(text: str) -> str:
    return " ".join(text.split())
