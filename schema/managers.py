"""What a project exposes: ``Managers``.

``expose`` only records, because relations may not exist yet when a module is imported. ``build``
checks everything at start-up and gives the managers as the rest of the room sees them: without what
is hidden, and without relations to what is not exposed. Source: design.md 5.
"""

import re
from collections.abc import Awaitable, Callable, Container, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from keyword import iskeyword
from typing import TYPE_CHECKING, Literal, Self, TypedDict, TypeVar, Unpack, cast

from sqlalchemy import Engine
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, AsyncSession, async_sessionmaker

from schema.computed import Computed, Function, read_computed
from schema.errors import ConfigurationError
from schema.events import Actor
from schema.resolver import PageFunction, Resolver, read_resolver
from schema.sources import SESSIONS, Column, ModelDescription, Relation, Source
from schema.sqlmodel_source import SQLModelSource
from schema.tortoise_source import TortoiseSource

if TYPE_CHECKING:
    from tortoise.config import TortoiseConfig

Visible = Callable[[Actor], object]
"""Gives the filter that limits an actor's rows, or a coroutine of it; see ``Exposure``."""

Rule = Callable[[Actor], object]
"""Says yes or no about an actor, or gives a coroutine that does; see ``Exposure``."""

Hide = Mapping[str, Rule] | Sequence[str] | Set[str]
"""Names, or names with the rule that says from whom they are hidden."""

Prepare = Callable[[AsyncConnection], Awaitable[None]]

_F = TypeVar("_F", bound=Function)


@dataclass(frozen=True, slots=True)
class Link:
    """A relation that may be followed: its target is exposed."""

    relation: Relation
    target: str


@dataclass(frozen=True, slots=True, eq=False)
class Manager:
    """One exposed model: its name, and what may be seen of it by the names used to ask.

    ``readers`` and ``hides``, by field or relation, say for an actor what of it is not there;
    ``tenant`` is the path to what must equal the actor's tenant, ``visible`` limits rows further.
    A manager with a ``resolver`` has no table: the project's own function gives its rows.
    ``left_out`` names what of the model has no form on the wire.
    """

    name: str
    description: str
    aliases: tuple[str, ...]
    use_when: str
    model: ModelDescription
    columns: Mapping[str, Column]
    links: Mapping[str, Link]
    visible: Visible | None = None
    readers: Rule | None = None
    hides: Mapping[str, Rule] = field(default_factory=dict[str, Rule])
    tenant: str = ""
    computed: Mapping[str, Computed] = field(default_factory=dict[str, Computed])
    resolver: Resolver | None = None
    left_out: frozenset[str] = frozenset()

    @property
    def fields(self) -> Mapping[str, Column]:
        """All that can be shown of a row itself; a computed field as the column it could be."""
        return {**self.columns, **{name: c.column for name, c in self.computed.items()}}


class Exposure(TypedDict, total=False):
    """How a model is exposed. The functions may be async, and are called once for a run."""

    name: str
    """What it is called; by default as its class."""

    description: str
    """What its rows are; by default the first paragraph of the docstring."""

    aliases: Iterable[str]
    """Other words for it, for search."""

    use_when: str
    """What questions it answers, for search and for the model."""

    hide: Hide
    """Fields and relations that are not there; as a mapping, for the actors for whom the function
    gives a true value or fails: ``{"cost": lambda actor: "costs" not in actor.scopes}``."""

    visible: Visible | None
    """Gives the filter that limits an actor's rows: ``{"owner__subject": actor.subject}``. It may
    use hidden columns and unexposed models. An empty filter shows all rows; None, another type, an
    unknown name, a value that does not fit, lists of more than 1,024 values in all or an exception
    shows none."""

    readers: Rule | None
    """The manager is there only for actors for whom this gives a true value."""

    tenant: str | Literal[False] | None
    """The column, or a path to it, that must equal the actor's tenant. Once one manager has it,
    every one needs it; False is for tables that all tenants share."""

    page: PageFunction | None
    """Gives the rows of a Strawberry type that the project wrote: a ``Page``, or the list of all
    that match, as ``async def balances(actor, limit, offset, account: str | None = None)``.

    It is given what it names of ``actor``, ``limit``, ``offset``, ``order_by`` (as ["-amount"]) and
    ``fields``; its other parameters are the filters there are, each with a default, and only those
    that are asked for are given. ``visible`` and ``tenant`` are for it to heed: where others have a
    tenant, it must take ``actor``, or say ``tenant=False`` if all tenants share its rows."""


@dataclass(frozen=True, slots=True)
class _Exposed:
    model: type
    name: str
    description: str | None
    aliases: tuple[str, ...]
    use_when: str
    hide: Mapping[str, Rule | None]
    visible: Visible | None
    readers: Rule | None
    tenant: str | Literal[False] | None
    page: PageFunction | None

    @classmethod
    def of(cls, model: type, options: Exposure) -> Self:
        return cls(
            model=model,
            name=options.get("name") or model.__name__,
            description=options.get("description"),
            aliases=_names(model, "aliases", options.get("aliases", ())),
            use_when=options.get("use_when", ""),
            hide=_hidden(model, options.get("hide", ())),
            visible=options.get("visible"),
            readers=options.get("readers"),
            tenant=options.get("tenant"),
            page=options.get("page"),
        )


@dataclass(frozen=True, slots=True)
class _Field:
    """A function that computes a field, with what was said of it."""

    model: type
    function: Function
    name: str
    description: str | None


class Managers:
    """The models a project exposes. Nothing else can be seen, counted, filtered by or named.

    ``sessions`` says where SQLModel tables are; without it, in the chat database. ``tortoise`` is a
    Tortoise configuration; without connections its models are in the chat database too.
    ``prepare`` fills a fresh database, that of ``sessions``, once, in one transaction. ``reads``
    replaces the engine that the tables of ``sessions`` are read on.
    """

    def __init__(
        self,
        sessions: async_sessionmaker[AsyncSession] | None = None,
        *,
        tortoise: "Mapping[str, object] | TortoiseConfig | None" = None,
        prepare: Prepare | None = None,
        reads: Engine | AsyncEngine | None = None,
    ) -> None:
        self.sessions = sessions
        self.prepare = prepare
        self.reads = reads
        self.tortoise = None if tortoise is None else TortoiseSource(tortoise)
        self._sources: list[Source] = [SQLModelSource()]
        if self.tortoise is not None:
            self._sources.append(self.tortoise)
        self._exposed: list[_Exposed] = []
        self._fields: list[_Field] = []

    def expose(self, model: type, **options: Unpack[Exposure]) -> None:
        """Expose one model, but not its subclasses, and no model it has relations to."""
        unknown = options.keys() - Exposure.__annotations__.keys()
        if unknown:
            raise TypeError(f"expose() takes no {', '.join(sorted(unknown))}")
        _check_class("expose()", model)
        self._exposed.append(_Exposed.of(model, options))

    def field(
        self, model: type, *, name: str | None = None, description: str | None = None
    ) -> Callable[[_F], _F]:
        """Make a field of an exposed model of the function below, which computes it of columns.

        The function names the columns as its parameters, hidden ones too, and gets their values as
        the ORM has them. It is called for each row that is asked for the field, so it must be quick
        and change nothing; what it raises, or a value that is not of the type that it says it
        returns, shows as null. Such a field can't be filtered, sorted or grouped by.
        """
        _check_class("field()", model)

        def record(function: _F) -> _F:
            self._fields.append(_Field(model, function, name or function.__name__, description))
            return function

        return record

    def build(self) -> tuple[Manager, ...]:
        """Check what was exposed and give it in order of name. Raises: ConfigurationError."""
        known = {item.model: item for item in self._exposed}
        self._check_names(known)
        read = {item.model: self._read(item) for item in self._exposed}
        self._check_tenants({model for model, (_, resolver) in read.items() if _heeds(resolver)})
        fields = self._computed({model: described for model, (described, _) in read.items()})
        built = [
            _build(item, *read[item.model], fields[item.model], known) for item in self._exposed
        ]
        return tuple(sorted(built, key=lambda manager: manager.name))

    def _read(self, item: _Exposed) -> tuple[ModelDescription, Resolver | None]:
        if item.page is None:
            return self.describe(item.model), None
        if item.visible is not None or item.tenant:
            raise ConfigurationError(
                "E001",
                f"{item.name} has page= and visible= or tenant=.",
                "Let the page function take actor, and give the rows that the actor may see.",
            )
        return read_resolver(item.model, item.page)

    def _computed(
        self, described: Mapping[type, ModelDescription]
    ) -> Mapping[type, Mapping[str, Computed]]:
        found: dict[type, dict[str, Computed]] = {model: {} for model in described}
        pages = {item.model for item in self._exposed if item.page is not None}
        for item in self._fields:
            what = f"{item.name} is a field of {item.model.__name__}"
            if item.model not in described:
                fix = f"Call managers.expose({item.model.__name__}) too, or take the field away."
                raise ConfigurationError("E001", f"{what}, which is not exposed.", fix)
            if item.model in pages:
                fix = "Write it in the type, as a method with @strawberry.field."
                raise ConfigurationError("E001", f"{what}, which has page=.", fix)
            model = described[item.model]
            made = read_computed(model, item.function, item.name, item.description)
            if item.name in {*_names_of(model), *found[item.model]}:
                fix = "Give managers.field() another name=."
                raise ConfigurationError("E001", f"{what}, which has one of that name.", fix)
            found[item.model][item.name] = made
        return found

    def describe(self, model: type) -> ModelDescription:
        """Describe any model that a source accepts. Raises: ConfigurationError."""
        for source in self._sources:
            if source.accepts(model):
                return source.describe(model)
        raise ConfigurationError(
            "E001",
            f"{model.__name__} is not a table of a known kind.",
            "Expose SQLModel classes that are declared with table=True, Tortoise models when"
            " Managers(tortoise=...) has their configuration, and Strawberry types with page=.",
        )

    def urls(self, default: str) -> Mapping[str, str]:
        """The databases by the names that descriptions give them, as SQLAlchemy URLs.

        ``default`` is the chat database's. Raises: ConfigurationError.
        """
        urls: Mapping[str, str] = {} if self.tortoise is None else self.tortoise.urls(default)
        return {**urls, SESSIONS: self._sessions_url(default)}

    def _sessions_url(self, default: str) -> str:
        if self.reads is not None:
            return self.reads.url.render_as_string(hide_password=False)
        if self.sessions is None:
            return default
        bind = _bind(self.sessions)
        if not isinstance(bind, AsyncEngine | Engine):
            raise ConfigurationError(
                "E001",
                "The sessions given to Managers() are not bound to an engine.",
                "Make them with async_sessionmaker(engine).",
            )
        return bind.url.render_as_string(hide_password=False)

    def _check_tenants(self, heeding: Container[type]) -> None:
        """``heeding`` are the models whose page functions know the actor's tenant."""
        are_apart = any(item.tenant for item in self._exposed)
        for item in self._exposed:
            is_missing = are_apart and item.tenant is None and item.model not in heeding
            if is_missing or item.tenant == "":
                why = "no tenant=, which others have" if is_missing else "an empty tenant="
                raise ConfigurationError(
                    "E001",
                    f"{item.name} has {why}.",
                    "Name the column that holds the tenant, or give tenant=False if all"
                    " tenants share the table. A page function may take actor instead.",
                )

    def _check_names(self, known: Mapping[type, _Exposed]) -> None:
        seen: dict[str, str] = {}
        for item in self._exposed:
            folded = root_name(item.name).casefold()
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


def _bind(sessions: object) -> object:
    """What a project's sessions are bound to; an engine in their place is a likely slip."""
    if not isinstance(sessions, async_sessionmaker):
        return None
    # isinstance leaves the type of its sessions unknown.
    return cast("async_sessionmaker[AsyncSession]", sessions).kw.get("bind")


_GRAPHQL_NAME = re.compile(r"(?!__)[A-Za-z_][A-Za-z0-9_]*")
_RESERVED = frozenset(
    "Query Mutation Subscription String Int Float Boolean ID BigInt Decimal Date DateTime Time"
    " UUID JSON".split()
)


def _check_class(called: str, model: object) -> None:
    """A name or an object in a class's place is a likely slip, and types don't hold it."""
    if not isinstance(model, type):
        raise TypeError(
            f"{called} takes the class of a model, a SQLModel table, a Tortoise model or a "
            f"Strawberry type with page=, and was given a value of type {type(model).__name__}"
        )


def _names(model: type, argument: str, names: Iterable[str]) -> tuple[str, ...]:
    if isinstance(names, str):
        raise ConfigurationError(
            "E001",
            f"{argument} of {model.__name__} must be a tuple of names.",
            f"Write {argument}=({names!r},).",
        )
    return tuple(names)


def _hidden(model: type, hide: Hide) -> Mapping[str, Rule | None]:
    if isinstance(hide, Mapping):
        return {**hide}
    return dict.fromkeys(_names(model, "hide", hide))


def _heeds(resolver: Resolver | None) -> bool:
    return resolver is not None and "actor" in resolver.takes


def _names_of(model: ModelDescription) -> frozenset[str]:
    """Everything that a model has by a name."""
    return model.unread.union(c.name for c in model.columns).union(r.name for r in model.relations)


def _build(
    item: _Exposed,
    model: ModelDescription,
    resolver: Resolver | None,
    computed: Mapping[str, Computed],
    known: Mapping[type, _Exposed],
) -> Manager:
    names = _names_of(model).union(computed)
    if resolver is not None:
        # Filters may well be named after what is left out, and hide= would not reach them.
        names -= model.unread
    for name in item.hide:
        if name not in names:
            raise ConfigurationError(
                "E001",
                f"hide of {item.name} names {name!r}, which {item.model.__name__} does not have.",
                f"It has {', '.join(sorted(names))}.",
            )
    hidden = {name for name, rule in item.hide.items() if rule is None}
    columns = {c.name: c for c in model.columns if c.name not in hidden}
    shown = [r for r in model.relations if r.name not in hidden and r.target in known]
    links = {r.name: Link(r, known[r.target].name) for r in shown}
    manager = Manager(
        name=item.name,
        description=model.description if item.description is None else item.description,
        aliases=item.aliases,
        use_when=item.use_when,
        model=model,
        columns=columns,
        links=links,
        visible=item.visible,
        readers=item.readers,
        hides={name: rule for name, rule in item.hide.items() if rule is not None},
        tenant=str(item.tenant or ""),
        computed={name: field for name, field in computed.items() if name not in hidden},
        resolver=resolver,
        left_out=model.unread - hidden,
    )
    _check_fields(item, manager)
    return manager


def _check_fields(item: _Exposed, manager: Manager) -> None:
    def refuse(problem: str, fix: str) -> ConfigurationError:
        return ConfigurationError("E001", f"{item.name}{problem}.", fix)

    if not manager.columns:
        raise refuse(" shows no column", "Hide less, or do not expose it.")
    taken: dict[str, str] = {}
    for name in (*manager.fields, *manager.links):
        if not _GRAPHQL_NAME.fullmatch(name) or "__" in name:
            elsewhere = f"Hide it with hide=({name!r},), or map the column under another name."
            raise refuse(
                f".{name} can't be asked for: names are ASCII and hold no double underscore",
                "Give managers.field() another name=." if name in manager.computed else elsewhere,
            )
        other = taken.setdefault(camel(name), name)
        if other != name:
            raise refuse(
                f".{name} and .{other} are one name in GraphQL, {camel(name)}",
                f"Hide one of them with hide=({name!r},).",
            )
    for name, link in manager.links.items():
        if link.relation.problem:
            raise refuse(
                f".{name} can't be read: it {link.relation.problem}",
                f"Correct the relationship, or hide it with hide=({name!r},).",
            )
    hides = {f"hide= of {name}": rule for name, rule in item.hide.items()}
    for argument, rule in {"visible=": item.visible, "readers=": item.readers, **hides}.items():
        if rule is not None and not callable(rule):
            raise refuse(f" has a {argument} that can't be called", "Give a function of the actor.")


def camel(name: str) -> str:
    """The GraphQL spelling of a Python name: ``unit_price`` is ``unitPrice``."""
    first, *rest = name.split("_")
    return first + "".join(part[:1].upper() + part[1:] for part in rest)


def root_name(manager: str) -> str:
    """The root field that lists a manager's rows."""
    return camel(manager[:1].lower() + manager[1:]) + "List"
