"""Where a value may belong: the fields in reach of a question's subject.

Managers in reach of which nothing is known yet are noted in ``Places.wanted``.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from providers.offline.english import PLACES
from providers.offline.facts import Facts, Field, Manager, Relation
from providers.offline.match import (
    Bond,
    Candidate,
    Scope,
    candidates,
    hint_score,
    is_code_field,
    manager_words,
    name_field,
)
from providers.offline.segment import Mention

MAX_SCHEMAS = 3
"""Schemas asked for at once."""
_CERTAIN = 5.0


@dataclass(frozen=True, slots=True)
class Slot:
    """A value of the question with the fields that may hold it, best first.

    ``texts`` are alternatives. ``is_tied``: a tie, a verb or a name of the schema stands with it.
    ``is_whole``: a part of a longer value does not count.
    ``is_part``: the question asks for values that contain it.
    """

    texts: tuple[str, ...]
    said: str
    places: tuple[Candidate, ...]
    is_tied: bool = False
    is_whole: bool = False
    is_part: bool = False


class Places:
    """Finds the places of values. ``depth``: how many hops away to look."""

    def __init__(self, manager: Manager, facts: Facts, depth: int) -> None:
        self.manager = manager
        self.facts = facts
        self.depth = depth
        # What is left for schemas, if a value is to be looked for before the rows are read.
        self.room = min(MAX_SCHEMAS, facts.left - 2)
        self.wanted: list[str] = []

    def known(self, name: str) -> Manager | None:
        """Return a manager; one of which nothing is known becomes wanted."""
        manager = self.facts.managers.get(name)
        asked = name in self.facts.detailed or name in self.wanted
        if manager is None and not asked and len(self.wanted) < self.room:
            self.wanted.append(name)
        return manager

    def find(
        self, text: str, hints: frozenset[str], mention: Mention | None, bond: Bond
    ) -> list[Candidate]:
        """Rate the places of a value, best first; ``mention`` are related rows beside it."""
        if mention:
            return self._beside(text, hints, mention, bond)
        return self._anywhere(text, hints, bond)

    def _anywhere(self, text: str, hints: frozenset[str], bond: Bond) -> list[Candidate]:
        own = candidates(text, hints, Scope((), self.manager), bond)
        if own and (bond == "named" or (bond == "own" and self.depth < 2)):
            return own
        if self.depth < 2 and any(c.is_sure and c.score >= _CERTAIN for c in own):
            return [c for c in own if c.is_sure]
        return self._rated(text, hints, bond, [Scope((), self.manager), *self._near(hints)])

    def _beside(
        self, text: str, hints: frozenset[str], mention: Mention, bond: Bond
    ) -> list[Candidate]:
        target = self.known(mention.target)
        if target is None:
            return []
        many = self.along(mention.path)[1]
        detailed = self._is_detailed(target)
        scopes = [Scope(mention.path, target, 0, None, detailed, many)]
        scopes += self._same_target(mention, target)
        if bond == "loose":
            # "Supplier X" gives a name or a code, not just any text of a supplier.
            rated = self._rated(text, hints, bond, scopes)
            return [c for c in rated if c.is_name or c.is_code or c.is_sure]
        kinds = [r for r in target.relations if self.depth > 1 or not r.many]
        return self._rated(
            text, hints, bond, [*scopes, *self._hop(mention.path, kinds, 0, is_many=many)]
        )

    def in_field(self, texts: Sequence[str], mention: Mention) -> list[Candidate]:
        """Return the place of a value that stands next to a field, if it may hold the value."""
        field = mention.field
        if field is None or field.type not in {"string", "enum", "uuid", ""}:
            return []
        choices = {choice.lower() for choice in field.choices}
        if choices and not choices & {text.lower() for text in texts}:
            return []
        owner, many = self.along(mention.path[:-1])
        if owner is None:
            return []
        code = is_code_field(field, owner)
        return [Candidate(mention.path, field, owner.name, 9.0, True, many, code)]

    def along(self, path: Sequence[str]) -> tuple[Manager | None, bool]:
        """Follow relations: the manager at the end, and whether one leads to many rows."""
        manager, many = self.manager, False
        for step in path:
            relation = manager.relation(step)
            target = self.facts.managers.get(relation.target) if relation else None
            if relation is None or target is None:
                return None, many
            manager, many = target, many or relation.many
        return manager, many

    def explains(self, path: Sequence[str], hints: frozenset[str]) -> bool:
        """Tell whether hint words speak of a step of a path."""
        manager: Manager | None = self.manager
        for step in path:
            found = manager.relation(step) if manager else None
            target = self.facts.managers.get(found.target) if found else None
            fields = manager.fields if manager else ()
            member = found or next((f for f in fields if f.name == step), None)
            names = [(step, member.description if member else "")]
            names += [(" ".join(manager_words(target)), "")] if target else []
            if any(hint_score(hints, name, said) > 0 for name, said in names):
                return True
            manager = target
        return False

    def _rated(
        self, text: str, hints: frozenset[str], bond: Bond, scopes: list[Scope]
    ) -> list[Candidate]:
        found = [c for scope in scopes for c in candidates(text, hints, scope, bond)]
        if self.depth > 1 and hints and hints <= PLACES:
            # "In" may also speak of what is no place: "parts in Apollo".
            return sorted(found, key=lambda c: -c.score)
        # The name of a row counts beside what is sure: "from Osaka" and "from Hallam Forge".
        sure = {c.path[:-1] for c in found if c.is_sure}
        first = {c.path[0] for c in found if c.is_sure and len(c.path) > 1}
        kept = [
            c
            for c in found
            if c.is_sure
            or (c.is_name and c.path[:-1] in sure)
            or (self.depth > 1 and len(c.path) > 2 and c.path[0] in first)
        ]
        return sorted(kept or found, key=lambda c: -c.score)

    def _same_target(self, mention: Mention, target: Manager) -> list[Scope]:
        """Return other relations to the same manager: an airport may be an origin or a goal."""
        detailed = self._is_detailed(target)
        ways = [r for r in self.manager.relations if r.name in mention.rivals]
        rest = mention.path[1:]
        return [Scope((r.name, *rest), target, 0, r, detailed, r.many) for r in ways]

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
                near.path,
                [r for r in near.manager.relations if r.target not in seen],
                near.hops,
                is_many=near.is_many,
            )
        ]
        return first + second

    def _hop(
        self,
        path: tuple[str, ...],
        relations: Sequence[Relation],
        hops: int,
        *,
        is_many: bool = False,
    ) -> list[Scope]:
        found: list[Scope] = []
        for relation in relations:
            target = self.known(relation.target)
            if target is not None and relation.target != self.manager.name:
                self._want_details(target)
                distance = hops + (2 if relation.many else 1)
                detailed, many = self._is_detailed(target), is_many or relation.many
                step = (*path, relation.name)
                found.append(Scope(step, target, distance, relation, detailed, many))
        return found

    def _want_details(self, manager: Manager) -> None:
        """Want the schema of rows without a name: nothing else tells where a value may be."""
        missing = name_field(manager) is None and not self._is_detailed(manager)
        if missing and manager.name not in self.wanted and len(self.wanted) < self.room:
            self.wanted.append(manager.name)

    def _is_detailed(self, manager: Manager) -> bool:
        return manager.name in self.facts.detailed


def related_names(manager: Manager, facts: Facts) -> Iterator[tuple[str, str]]:
    """Name the related rows that tell what a row is: a project's part by project and part."""
    for relation in manager.relations:
        target = facts.managers.get(relation.target)
        named = name_field(target) if target else None
        if named and not relation.many:
            yield relation.name, named.name


def speaks_of(hints: frozenset[str], manager: Manager) -> bool:
    """Tell whether hints point at a field or relation of a manager."""
    members: list[Field | Relation] = [*manager.fields, *manager.relations]
    return any(hint_score(hints, m.name, m.description) >= 3.0 for m in members)
