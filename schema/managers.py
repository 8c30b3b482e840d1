"""What a project exposes: ``Managers``.

``expose`` only records, because relations may not exist yet when a module is imported. ``build``
checks everything at start-up and gives the managers as the rest of the room sees them: without what
is hidden, and without relations to what is not exposed. Source: design.md 5.
"""

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from keyword import iskeyword
from typing import Literal, Self, TypedDict, Unpack, cast

from sqlalchemy import Engine
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, AsyncSession, async_sessionmaker

from schema.errors import ConfigurationError
from schema.events import Actor
from schema.sources import (
    SESSIONS,
    Column,
    ModelDescription,
    Relation,
    Source,
)
from schema.sqlmodel_source import SQLModelSource

Visible = Callable[[Actor], object]
"""Gives the filter that limits an actor's rows, or a coroutine of it; see ``Managers.expose``."""

Rule = Callable[[Actor], object]
"""Says yes or no about an actor, or gives a coroutine that does; see ``Managers.expose``."""

Prepare = Callable[[AsyncConnection], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Link:
    """A relation that may be followed: its target is exposed."""

    relation: Relation
    target: str


@dataclass(frozen=True, slots=True, eq=False)
class Manager:
    """One exposed model: its name, and what may be seen of it by the names used to ask.

    ``readers`` and ``hides``, by column or relation, say for an actor what of it is not there;
    ``tenant`` is the path to what must equal the actor's tenant, ``visible`` limits rows further.
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

    hide: Iterable[str] | Mapping[str, Rule]
    """Columns and relations that are not there; as a mapping, for the actors for whom the function
    gives a true value or fails: ``{"cost": lambda actor: "costs" not in actor.scopes}``."""

    visible: Visible | None
    """Gives the filter that limits an actor's rows: ``{"owner__subject": actor.subject}``. It may
    use hidden columns and unexposed models. An empty filter shows all rows; None, another type, an
    unknown name, a value that does not fit, a list of more than 1,024 values or an exception shows
    none."""

    readers: Rule | None
    """The manager is there only for actors for whom this gives a true value."""

    tenant: str | Literal[False] | None
    """The column, or a path to it, that must equal the actor's tenant. Once one manager has it,
    every one needs it; False is for tables that all tenants share."""


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
        )


class Managers:
    """The models a project exposes. Nothing else can be seen, counted, filtered by or named.

    ``sessions`` says where SQLModel tables are; without it, in the chat database.
    ``prepare`` fills a fresh database, that of ``sessions``, once, in one transaction. ``reads``
    replaces the engine that the tables of ``sessions`` are read on.
    """

    def __init__(
        self,
        sessions: async_sessionmaker[AsyncSession] | None = None,
        *,
        prepare: Prepare | None = None,
        reads: Engine | AsyncEngine | None = None,
    ) -> None:
        self.sessions = sessions
        self.prepare = prepare
        self.reads = reads
        self._sources: list[Source] = [SQLModelSource()]
        self._exposed: list[_Exposed] = []

    def expose(self, model: type, **options: Unpack[Exposure]) -> None:
        """Expose one model, but not its subclasses, and no model it has relations to."""
        unknown = options.keys() - Exposure.__annotations__.keys()
        if unknown:
            raise TypeError(f"expose() takes no {', '.join(sorted(unknown))}")
        self._exposed.append(_Exposed.of(model, options))

    def build(self) -> tuple[Manager, ...]:
        """Check what was exposed and give it in order of name. Raises: ConfigurationError."""
        known = {item.model: item for item in self._exposed}
        self._check_names(known)
        self._check_tenants()
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

    def urls(self, default: str) -> Mapping[str, str]:
        """The databases by the names that descriptions give them, as SQLAlchemy URLs.

        ``default`` is the chat database's. Raises: ConfigurationError.
        """
        return {SESSIONS: self._sessions_url(default)}

    def _sessions_url(self, default: str) -> str:
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

    def _check_tenants(self) -> None:
        if any(item.tenant for item in self._exposed):
            for item in self._exposed:
                if item.tenant is None:
                    raise ConfigurationError(
                        "E001",
                        f"{item.name} has no tenant=, and other managers have one.",
                        "Name the column that holds the tenant, or give tenant=False if all"
                        " tenants share the table.",
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


def _hidden(model: type, hide: Iterable[str] | Mapping[str, Rule]) -> Mapping[str, Rule | None]:
    if isinstance(hide, Mapping):
        # isinstance leaves the mapping's value type unknown.
        return {**cast("Mapping[str, Rule]", hide)}
    return dict.fromkeys(_names(model, "hide", hide))


def _build(item: _Exposed, model: ModelDescription, known: Mapping[type, _Exposed]) -> Manager:
    names = {c.name for c in model.columns} | {r.name for r in model.relations} | model.unread
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
    _check_fields(item, columns, links)
    return Manager(
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
        tenant=item.tenant or "",
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
