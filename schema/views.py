"""What one actor may see for one run: the managers and fields that exist for it, and its rows.

``Views`` asks the project's own functions (``readers``, ``hide``, ``visible``) and the tenant. What
is hidden from an actor is taken out of the index that everything else is asked of, so it is unknown
there by every path. Whatever goes wrong hides. Source: design.md 5.
"""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import cast
from zoneinfo import ZoneInfo

from sqlalchemy.engine import Dialect

from schema.errors import (
    ConfigurationError,
    ToolError,
    ToolFailed,
    ToolRetry,
    awaited,
    guarded,
)
from schema.events import Actor, Json, JsonObject, is_object
from schema.filters import parse, resolve, shape
from schema.index import SchemaIndex
from schema.joins import NEVER, Clause, Visibility
from schema.managers import Manager, Managers, Rule
from schema.names import Names, Scope, echo, listed, nearest
from schema.sources import ModelDescription

_log = logging.getLogger(__name__)

_INDEXES = 64

_Hidden = tuple[frozenset[str], frozenset[tuple[str, str]]]
"""Names of hidden managers, and (manager, column or relation) of what is hidden of others."""


@dataclass(frozen=True, slots=True)
class View:
    """What one actor may see for one run: the index, and the filters that limit rows.

    ``visible`` are the evaluated filters with ``values`` for their parameters; ``shape`` tells
    views apart that need other SQL. ``zone`` is where the actor's days begin.
    """

    actor: Actor
    index: SchemaIndex
    visible: Visibility
    values: Mapping[str, object]
    shape: str
    zone: ZoneInfo

    @property
    def managers(self) -> Mapping[str, Manager]:
        """The managers this actor may see, in order of name."""
        return self.index.managers

    def manager(self, name: str) -> Manager:
        """The manager of this name. Raises: ToolRetry; a hidden one is unknown."""
        found = self.index.find(name)
        if found is None:
            hint = nearest(name, self.managers)
            raise ToolRetry(
                f"Unknown manager {echo(name)}.{hint} Managers: {listed(self.managers)}."
            )
        return found

    @property
    def names(self) -> Scope:
        """What may be named on the models that the index holds."""
        return self.index.names


class Models(dict[type, ModelDescription]):
    """The descriptions of exposed models, and of others that a ``visible`` filter leads to."""

    def __init__(self, managers: Managers, exposed: Iterable[Manager]) -> None:
        super().__init__({m.model.model: m.model for m in exposed})
        self._managers = managers
        self.names: Scope = _AllNames(self)

    def __missing__(self, model: type) -> ModelDescription:
        self[model] = self._managers.describe(model)
        return self[model]


class _AllNames(dict[type, Names]):
    """Everything on each model, hidden or not: for the developer's own filters."""

    def __init__(self, models: Models) -> None:
        super().__init__()
        self._models = models

    def __missing__(self, model: type) -> Names:
        found = self._models[model]
        relations = {r.name: r for r in found.relations if not r.problem}
        self[model] = Names(found.name, {c.name: c for c in found.columns}, relations)
        return self[model]


class Views:
    """Makes views. ``index`` holds all that is exposed; ``dialects`` are by database.

    ``zone`` is everybody's.

    Raises: ConfigurationError when a ``tenant`` leads nowhere.
    """

    def __init__(
        self,
        index: SchemaIndex,
        models: Models,
        dialects: Mapping[str, Dialect],
        zone: ZoneInfo,
    ) -> None:
        self._index = index
        self._zone = zone
        self._models = models
        self._dialects = dialects
        self._indexes: dict[_Hidden, SchemaIndex] = {}
        for manager in index.managers.values():
            if manager.tenant:
                _check_tenant(manager, models)

    async def of(self, actor: Actor) -> View:
        """Evaluate what ``actor`` may see, once; the result holds for a run."""
        limits = _Limits(actor, self._models, self._dialects)
        hidden_managers, hidden_fields = set[str](), set[tuple[str, str]]()
        for name, manager in self._index.managers.items():
            if manager.tenant or manager.visible is not None:
                await limits.add(manager)
            if manager.readers is not None and not await _says(
                f"readers of {name}", manager.readers, actor, otherwise=False
            ):
                hidden_managers.add(name)
                continue
            for field, rule in manager.hides.items():
                if await _says(f"hide of {name}.{field}", rule, actor, otherwise=True):
                    hidden_fields.add((name, field))
        hidden = frozenset(hidden_managers), frozenset(hidden_fields)
        kinds = [*limits.kinds, *map(sorted, hidden)] if any(hidden) else limits.kinds
        key = sha256(repr(kinds).encode()).hexdigest() if kinds else ""
        index = self._narrowed(hidden)
        return View(actor, index, limits.visible, limits.values, key, self._zone)

    def _narrowed(self, hidden: _Hidden) -> SchemaIndex:
        """The index without what is hidden; actors of one kind share it."""
        if not any(hidden):
            return self._index
        known = self._indexes.get(hidden)
        if known is None:
            known = SchemaIndex(_without(hidden, self._index.managers))
            while len(self._indexes) >= _INDEXES:
                del self._indexes[next(iter(self._indexes))]
            self._indexes[hidden] = known
        return known


async def _says(what: str, rule: Rule, actor: Actor, *, otherwise: bool) -> bool:
    """Ask a project's function about an actor; ``otherwise`` is what an exception means."""
    try:
        with guarded(what):
            return bool(await awaited(rule(actor)))
    except ToolError:
        return otherwise


def _without(hidden: _Hidden, managers: Mapping[str, Manager]) -> list[Manager]:
    names, fields = hidden
    kept: dict[str, Manager] = {}
    for name, manager in managers.items():
        columns = {n: c for n, c in manager.columns.items() if (name, n) not in fields}
        computed = {n: c for n, c in manager.computed.items() if (name, n) not in fields}
        if name not in names and columns:
            kept[name] = replace(manager, columns=columns, computed=computed)
    return [
        replace(
            manager,
            links={
                n: link
                for n, link in manager.links.items()
                if link.target in kept and (name, n) not in fields
            },
        )
        for name, manager in kept.items()
    ]


def _check_tenant(manager: Manager, models: Models) -> None:
    try:
        hops, column, lookup = resolve(manager.tenant, manager.model.model, models.names)
    except ToolError as error:
        raise _bad_tenant(manager, str(error)) from error
    if column is None or lookup != "exact" or any(hop.many for hop in hops):
        raise _bad_tenant(manager, "it does not lead to one column")


def _bad_tenant(manager: Manager, why: str) -> ConfigurationError:
    return ConfigurationError(
        "E001",
        f"The tenant {manager.tenant!r} of {manager.name} can't be used: {why.rstrip('.')}.",
        "Name a column, or a path over relations to one row such as owner__tenant_id.",
    )


class _Limits:
    """Gathers the conditions that limit an actor's rows, and the values of their parameters."""

    def __init__(self, actor: Actor, models: Models, dialects: Mapping[str, Dialect]) -> None:
        self._actor, self._models, self._dialects = actor, models, dialects
        self.visible: dict[type, tuple[Clause, ...]] = {}
        self.values: dict[str, object] = {}
        self.kinds: list[object] = []

    async def add(self, manager: Manager) -> None:
        """Evaluate one manager's limits; whatever is wrong with them shows nothing."""
        try:
            with guarded(f"visible of {manager.name}"):
                clauses = await self._clauses(manager)
        except ToolError as error:
            if error.__cause__ is None:  # the log has an exception already
                _log.warning("visible of %s shows nothing: %s", manager.name, error)
            clauses = (NEVER,)
            self.kinds.append((manager.name, "nothing"))
        if clauses:
            self.visible[manager.model.model] = clauses

    async def _clauses(self, manager: Manager) -> tuple[Clause, ...]:
        clauses: tuple[Clause, ...] = ()
        if manager.tenant:
            if self._actor.tenant is None:
                self.kinds.append((manager.name, "no tenant"))
                return (NEVER,)
            clauses += self._parsed(manager, {manager.tenant: self._actor.tenant})
        if manager.visible is not None:
            found = await awaited(manager.visible(self._actor))
            if found is None:
                self.kinds.append((manager.name, "none"))
                return (NEVER,)
            asked = _listed(found)
            if not is_object(asked):
                raise ToolFailed(f"it gave a {type(found).__name__}, not a filter")
            clauses += self._parsed(manager, asked)
        return clauses

    def _parsed(self, manager: Manager, asked: JsonObject) -> tuple[Clause, ...]:
        prefix, model = f"v{len(self.kinds)}_", manager.model
        # Before it is parsed, which is safe only for what is not nested without end.
        kind = shape(asked)
        dialect = self._dialects[model.database]
        limits = parse(asked, model.model, self._models.names, dialect, prefix)
        self.values |= limits.values(asked)
        self.kinds.append((manager.name, kind))
        return limits.conditions


def _listed(value: object) -> Json:
    """Lists, wherever in a filter a project's code may well have a tuple or a set."""
    if isinstance(value, tuple | set | frozenset | list):
        return [_listed(item) for item in cast("Iterable[object]", value)]  # whatever they are
    if is_object(value):
        return {str(key): _listed(item) for key, item in value.items()}
    return cast("Json", value)  # the coercer of the column checks it
