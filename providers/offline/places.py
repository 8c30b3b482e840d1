"""Where a value may belong: the fields in reach of a question's subject, and the filters they give.

Managers in reach of which nothing is known yet are noted in ``Places.wanted``.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from providers.offline.facts import Facts, Field, Manager, Relation
from providers.offline.match import (
    Bond,
    Candidate,
    Condition,
    Scope,
    candidates,
    contains,
    equal,
    hint_score,
    is_code_field,
    name_field,
)
from providers.offline.segment import Mention

_MAX_SCHEMAS = 3
_MAX_OPTIONS = 8
_CERTAIN = 5.0
_TELLING = 4


@dataclass(frozen=True, slots=True)
class Option:
    """One way to filter by a value; ``exact`` takes the value as a whole instead of a part."""

    condition: Condition
    score: float
    exact: Condition | None = None


class Places:
    """Finds the places of values. ``depth``: how many hops away to look."""

    def __init__(self, manager: Manager, facts: Facts, depth: int) -> None:
        self.manager = manager
        self.facts = facts
        self.depth = depth
        self.wanted: list[str] = []

    def known(self, name: str) -> Manager | None:
        """Return a manager; one of which nothing is known becomes wanted."""
        manager = self.facts.managers.get(name)
        asked = name in self.facts.detailed or name in self.wanted
        if manager is None and not asked and len(self.wanted) < _MAX_SCHEMAS:
            self.wanted.append(name)
        return manager

    def anywhere(self, text: str, hints: frozenset[str], bond: Bond) -> list[Candidate]:
        """Rate the places of a value that stands next to nothing."""
        own = candidates(text, hints, Scope((), self.manager), bond)
        if any(c.is_sure and c.score >= _CERTAIN for c in own):
            return [c for c in own if c.is_sure]
        return self._rated(text, hints, bond, [Scope((), self.manager), *self._near(hints)])

    def beside(
        self, text: str, hints: frozenset[str], mention: Mention, bond: Bond
    ) -> list[Candidate]:
        """Rate the places of a value that stands next to related rows, as in "supplier X"."""
        target = self.known(mention.target)
        if target is None:
            return []
        scopes = [Scope(mention.path, target), *self._same_target(mention, target)]
        if bond == "loose":
            # "Supplier X" gives a name or a code, not just any text of a supplier.
            rated = self._rated(text, hints, bond, scopes)
            return [c for c in rated if c.is_name or c.is_code or c.is_sure]
        kinds = [r for r in target.relations if self.depth > 1 or not r.many]
        return self._rated(text, hints, bond, [*scopes, *self._hop(mention.path, kinds, 0)])

    def in_field(self, texts: Sequence[str], mention: Mention) -> list[Candidate]:
        """Return the place of a value that stands next to a field, if it may hold the value."""
        field = mention.field
        if field is None or field.type not in {"string", "enum", "uuid", ""}:
            return []
        choices = {choice.lower() for choice in field.choices}
        if choices and not choices & {text.lower() for text in texts}:
            return []
        code = is_code_field(field, self.manager)
        return [Candidate(mention.path, field, 9.0, is_sure=True, is_code=code)]

    def speaks_of(self, hints: frozenset[str], manager: Manager | None) -> bool:
        """Tell whether hints point at a field or relation of a manager."""
        members: list[Field | Relation] = [*manager.fields, *manager.relations] if manager else []
        return any(hint_score(hints, m.name, m.description) >= 3.0 for m in members)

    def _rated(
        self, text: str, hints: frozenset[str], bond: Bond, scopes: list[Scope]
    ) -> list[Candidate]:
        found = [c for scope in scopes for c in candidates(text, hints, scope, bond)]
        sure = [c for c in found if c.is_sure]
        return sorted(sure or found, key=lambda c: -c.score)

    def _same_target(self, mention: Mention, target: Manager) -> list[Scope]:
        """Return other relations to the same manager: an airport may be an origin or a goal."""
        named_by_manager = len(mention.path) == 1 and mention.path[0] not in mention.target.lower()
        return [
            Scope((r.name,), target, 0, r, self._is_detailed(target))
            for r in self.manager.relations
            if named_by_manager and r.target == target.name and r.name != mention.path[0]
        ]

    def _near(self, hints: frozenset[str]) -> list[Scope]:
        """Return the managers one hop away, or those the hints point to; two hops at depth 2."""
        relations = self.manager.relations
        pointed = [r for r in relations if hint_score(hints, r.name, r.description) >= 3.0]
        first = self._hop((), pointed or relations, 0)
        if self.depth < 2:
            return first
        seen = {self.manager.name} | {r.target for r in relations}
        second = [
            scope
            for near in first
            for scope in self._hop(
                near.path, [r for r in near.manager.relations if r.target not in seen], near.hops
            )
        ]
        return first + second

    def _hop(self, path: tuple[str, ...], relations: Sequence[Relation], hops: int) -> list[Scope]:
        found: list[Scope] = []
        for relation in relations:
            target = self.known(relation.target)
            if target is not None and relation.target != self.manager.name:
                distance = hops + (2 if relation.many else 1)
                detailed = self._is_detailed(target)
                found.append(Scope((*path, relation.name), target, distance, relation, detailed))
        return found

    def _is_detailed(self, manager: Manager) -> bool:
        return manager.name in self.facts.detailed


def options(texts: Sequence[str], places: Sequence[Candidate]) -> list[Option]:
    """Return the ways to filter by a value, best first.

    A long value is looked for as a part, which finds it as a whole too; a short one is anywhere.
    """
    ways: list[Option] = []
    for place in places:
        whole, part = equal(place, texts), contains(place, texts)
        if part is not None and len(texts[0]) >= _TELLING:
            ways.append(Option(part, place.score, whole))
            continue
        ways.append(Option(whole, place.score))
        if part is not None:
            ways.append(Option(part, place.score - 3.0))
    return sorted(ways, key=lambda way: -way.score)[:_MAX_OPTIONS]


def related_names(manager: Manager, facts: Facts) -> Iterator[tuple[str, str]]:
    """Name the rows that a row without a name is known by: a project's part by project and part."""
    types = {f.type for f in manager.fields if f.name in manager.primary_key}
    if name_field(manager) or (len(manager.primary_key) == 1 and types == {"string"}):
        return
    for relation in manager.relations:
        target = facts.managers.get(relation.target)
        named = name_field(target) if target else None
        if named and not relation.many:
            yield relation.name, named.name
