"""The index of a schema: finds managers by words, describes them, and finds paths between them.

It is made of the managers that an actor may see, so it knows of no others.
Source: design.md 4, data tools.
"""

import heapq
import re
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping
from math import log
from typing import Literal

from schema.events import Json, JsonObject
from schema.filters import Names
from schema.managers import Manager
from schema.values import LOOKUPS

_MAX_FOUND = 10
_MAX_QUERY = 1_000

Reason = Literal["name", "alias", "field", "relation", "description", "catalogue"]

_WEIGHTS: Mapping[Reason, float] = {
    "name": 1.0,
    "alias": 0.95,
    "field": 0.6,
    "relation": 0.55,
    "description": 0.4,
}

_Phrase = tuple[str, ...]

_WORD = re.compile(r"[^\W_]+")
_CAMEL = re.compile(r"(?<=[^\W\d_A-Z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_STOP_WORDS = frozenset(
    """
    a about access all an and any are as ask at available be by can content could count
    data database do does each every everything exist find for from get give had has have
    help hold how i in information is it know list lookup manager many me model most much
    my no of on one or our overview please query record row see show some store table tell
    than that the their there these they thing this those to us use want was we were what
    when where which who why will with would you your
    """.split()
)


def _tokens(text: str) -> Iterator[str]:
    """The words of a text, lower-case and singular: ``ProjectParts`` is project, part."""
    for word in _WORD.findall(_CAMEL.sub(" ", text)):
        yield _singular(word.casefold())


def _singular(word: str) -> str:
    if len(word) <= 3 or word in _STOP_WORDS or not word.endswith("s") or word.endswith("ss"):
        return word
    return word[:-3] + "y" if word.endswith("ies") else word[:-1]


class SchemaIndex:
    """Managers, given in order of name."""

    def __init__(self, given: Iterable[Manager]) -> None:
        managers = list(given)
        self.managers: Mapping[str, Manager] = {m.name: m for m in managers}
        self._folded = {m.name.casefold(): m for m in managers}
        self._names = {
            m.model.model: Names(m.name, m.columns, {n: x.relation for n, x in m.links.items()})
            for m in managers
        }
        self._schemas = {m.name: _schema(m) for m in managers}
        self._cards = {m.name: _card(m) for m in managers}
        self._joined = _joined_names(managers)
        self._words, self._sizes = _inverted(managers, self._joined)
        self._common = _common_names(managers)

    def find(self, name: str) -> Manager | None:
        """The manager of this name, else of the same name in other letter case."""
        return self.managers.get(name) or self._folded.get(name.casefold())

    def names(self, model: type) -> Names:
        """What may be named on an exposed model."""
        return self._names[model]

    def search(self, query: str) -> list[Json]:
        """Rank managers by the words of ``query``; if all are generic, list the catalogue.

        A name that only joins other managers' whole names, as ProjectPart joins Project and Part,
        counts as a name only where its words stand together in the query.
        """
        words = tuple(_tokens(query[:_MAX_QUERY]))
        asked = {w for w in words if w not in _STOP_WORDS or w in self._common}
        if not words:
            return []
        if not asked:
            names = list(self.managers)[:_MAX_FOUND]
            return [self._found(name, 0.0, "catalogue") for name in names]
        meant = self._together(words)
        known = [(token, self._words[token]) for token in asked if token in self._words]
        scores: dict[str, float] = defaultdict(float)
        best: dict[str, tuple[float, Reason]] = {}
        hits: dict[str, int] = defaultdict(int)
        possible = 0.0
        for token, places in known:
            # A word that many managers share says less about each of them.
            rarity = log(1 + len(self.managers) / len(places))
            possible += rarity
            for name, reason in places.items():
                if name in meant and token in meant[name]:
                    reason = "name"
                weight = _WEIGHTS[reason]
                scores[name] += rarity * weight
                hits[name] += reason == "name"
                if name not in best or weight > best[name][0]:
                    best[name] = weight, reason
        ranked = heapq.nsmallest(
            _MAX_FOUND,
            scores,
            key=lambda name: (-scores[name], self._sizes[name] - hits[name], name),
        )
        return [self._found(n, round(scores[n] / possible, 2), best[n][1]) for n in ranked]

    def _together(self, words: _Phrase) -> Mapping[str, _Phrase]:
        """The joined names that stand in ``words``, with their own words."""
        lengths = {len(name) for name in self._joined}
        runs = (words[at : at + length] for at in range(len(words)) for length in lengths)
        return {name: run for run in runs for name in self._joined.get(run, ())}

    def _found(self, name: str, score: float, reason: Reason) -> Json:
        card = self._cards[name]
        return {
            "manager": name,
            "description": card["description"],
            "score": score,
            "reason": reason,
            "fields": card["fields"],
            "relations": card["relations"],
        }

    def describe(self, name: str) -> JsonObject:
        """Everything that may be asked of one manager, or ``{"found": false}``."""
        manager = self.find(name)
        return self._schemas[manager.name] if manager else {"found": False}

    def find_path(self, from_manager: str, to_manager: str) -> JsonObject:
        """The shortest way from one manager to another over relations that can be selected."""
        start, goal = self.find(from_manager), self.find(to_manager)
        if start is None or goal is None:
            return {"found": False, "hops": [], "reason": "unknown_manager"}
        came: dict[str, tuple[str, str]] = {}
        waiting, seen = deque([start.name]), {start.name}
        while waiting and goal.name not in seen:
            here = waiting.popleft()
            for field, link in self.managers[here].links.items():
                if link.target not in seen:
                    seen.add(link.target)
                    came[link.target] = here, field
                    waiting.append(link.target)
        if goal.name not in seen:
            return {"found": False, "hops": [], "reason": "no_path"}
        hops: list[Json] = []
        end = goal.name
        while end != start.name:
            before, field = came[end]
            many = self.managers[before].links[field].relation.many
            hops.append({"from": before, "field": field, "to": end, "many": many})
            end = before
        return {"found": True, "hops": hops[::-1]}


def _relation_cards(manager: Manager) -> list[Json]:
    return [
        {"name": name, "target": link.target, "many": link.relation.many}
        for name, link in manager.links.items()
    ]


def _card(manager: Manager) -> JsonObject:
    fields: list[Json] = [*manager.columns]
    relations = _relation_cards(manager)
    return {"description": manager.description, "fields": fields, "relations": relations}


def _schema(manager: Manager) -> JsonObject:
    fields: list[Json] = []
    for column in manager.columns.values():
        field: JsonObject = {
            "name": column.name,
            "type": column.type,
            "nullable": column.nullable,
            "description": column.description,
        }
        if column.choices:
            field["choices"] = [*column.choices]
        fields.append(field)
    relations: list[Json] = [
        {
            "name": name,
            "target": link.target,
            "many": link.relation.many,
            "nullable": link.relation.nullable,
            "description": link.relation.description,
        }
        for name, link in manager.links.items()
    ]
    types = {column.type: LOOKUPS[column.type] for column in manager.columns.values()}
    return {
        "found": True,
        "manager": manager.name,
        "description": manager.description,
        "use_when": manager.use_when,
        "aliases": [*manager.aliases],
        "primary_key": [c.name for c in manager.model.primary_key if c.name in manager.columns],
        "fields": fields,
        "relations": relations,
        "lookups": {name: [*lookups] for name, lookups in types.items()},
    }


_Words = dict[str, dict[str, Reason]]


def _joined_names(managers: list[Manager]) -> Mapping[_Phrase, list[str]]:
    """By their words, the managers whose names are whole names of others, one after the other."""
    names = {m.name: tuple(t for t in _tokens(m.name) if t != "manager") for m in managers}
    whole, joined = frozenset(names.values()), defaultdict[_Phrase, list[str]](list)
    for name, words in names.items():
        reached = {0}
        for end in range(1, len(words) + 1):
            parts = (words[start:end] for start in reached)
            if any(part in whole and part != words for part in parts):
                reached.add(end)
        if words and len(words) in reached:
            joined[words].append(name)
    return dict(joined)


def _inverted(
    managers: list[Manager], joined: Mapping[_Phrase, list[str]]
) -> tuple[_Words, dict[str, int]]:
    """For each token the managers that have it, with the best place it has there.

    The words of a ``joined`` name say what it relates, so they count as relations.
    """
    relating = {name for names in joined.values() for name in names}
    words: _Words = defaultdict(dict)
    sizes: dict[str, int] = {}
    for manager in managers:
        own = set(_tokens(manager.name))
        sizes[manager.name] = len(own)
        places: tuple[tuple[Reason, str], ...] = (
            ("name", "" if manager.name in relating else manager.name),
            ("alias", " ".join(manager.aliases)),
            ("field", " ".join(manager.columns)),
            ("relation", " ".join([manager.name, *manager.links])),
            ("description", f"{manager.description} {manager.use_when}"),
        )
        for reason, text in places:
            for token in _tokens(text):
                words[token].setdefault(manager.name, reason)
    return dict(words), sizes


def _common_names(managers: list[Manager]) -> frozenset[str]:
    """Stop words that count after all, because some name or alias has no other words."""
    texts = [frozenset(_tokens(text)) for m in managers for text in (m.name, *m.aliases)]
    return frozenset[str]().union(*(t for t in texts if t <= _STOP_WORDS)) - {"manager"}
