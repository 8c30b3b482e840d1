"""The index: finds managers by words, describes them, and finds paths between them.

It is made of the managers that an actor may see, so it knows of no others.
Source: design.md 4, data tools.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from functools import cached_property

from schema.events import Json, JsonObject
from schema.filters import LOOKUPS
from schema.managers import Manager
from schema.names import Names, Scope
from schema.search import Search


class SchemaIndex:
    """The given managers; what needs more of them than their names is made when it is needed.

    ``names`` are what may be named on the model of each.
    """

    def __init__(self, managers: Iterable[Manager]) -> None:
        ordered = sorted(managers, key=lambda manager: manager.name)
        self.managers: Mapping[str, Manager] = {m.name: m for m in ordered}
        self._folded = {m.name.casefold(): m for m in ordered}
        self.names: Scope = {m.model.model: _names(m) for m in ordered}

    @cached_property
    def _search(self) -> Search:
        return Search(tuple(self.managers.values()))

    def find(self, name: str) -> Manager | None:
        """The manager of this name, else of the same name in other letter case."""
        return self.managers.get(name) or self._folded.get(name.casefold())

    def search(self, query: str) -> list[Json]:
        """Rank managers by the words of ``query``; see ``Search.find``.

        Shape: [{"manager": "Part", "description": "...", "score": 0.95, "reason": "alias",
        "fields": ["id", ...], "relations": [{"name": "material", "target": "Material", "many":
        false}]}], at most 10.
        """
        return [
            {
                "manager": hit.manager.name,
                "description": hit.manager.description,
                "score": hit.score,
                "reason": hit.reason,
                "fields": [*hit.manager.fields],
                "relations": _relation_cards(hit.manager),
            }
            for hit in self._search.find(query)
        ]

    def describe(self, name: str) -> JsonObject:
        """Everything that may be asked of one manager, or ``{"found": false}``."""
        manager = self.find(name)
        return _schema(manager) if manager else {"found": False}

    def find_path(self, from_manager: str, to_manager: str) -> JsonObject:
        """The shortest way from one manager to another over relations that can be selected.

        Among equals, the one whose first differing relation the model declares first.
        """
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


def _names(manager: Manager) -> Names:
    relations = {name: link.relation for name, link in manager.links.items()}
    return Names(manager.name, manager.columns, relations, manager.computed)


def _relation_cards(manager: Manager) -> list[Json]:
    return [
        {"name": name, "target": link.target, "many": link.relation.many}
        for name, link in manager.links.items()
    ]


def _schema(manager: Manager) -> JsonObject:
    fields: list[Json] = []
    for name, column in manager.fields.items():
        field: JsonObject = {
            "name": name,
            "type": column.type,
            "nullable": column.nullable,
            "description": column.description,
        }
        if column.choices:
            field["choices"] = [*column.choices]
        if name in manager.computed:
            field["computed"] = True
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
    return {
        "found": True,
        "manager": manager.name,
        "description": manager.description,
        "use_when": manager.use_when,
        "aliases": [*manager.aliases],
        "primary_key": [c.name for c in manager.model.primary_key if c.name in manager.columns],
        "fields": fields,
        "relations": relations,
        **_ways_to_ask(manager),
    }


def _ways_to_ask(manager: Manager) -> JsonObject:
    """The lookups by type; for a manager with a page function the filters that it takes."""
    if manager.resolver is None:
        types = {column.type: LOOKUPS[column.type] for column in manager.columns.values()}
        return {"lookups": {name: [*lookups] for name, lookups in types.items()}}
    filters: list[Json] = []
    for name, taken in manager.resolver.offered(manager.columns).items():
        filter: JsonObject = {"name": name, "type": taken.column.type, "list": taken.is_list}
        if taken.column.choices:
            filter["choices"] = [*taken.column.choices]
        filters.append(filter)
    return {"lookups": {}, "filters": filters, "order_by": manager.resolver.can_sort}
