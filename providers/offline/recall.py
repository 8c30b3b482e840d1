"""What an earlier question meant, told by the read that answered it.

It stands in for a question that is no longer among the messages. What the arguments do not say is
not made up: the best of some groups come back as all groups in that order. Arguments may be those
of another provider, and what this one does not write is not followed.
"""

from dataclasses import dataclass
from typing import NoReturn

from pydantic import BaseModel, ConfigDict, ValidationError

from providers.base import ToolCallEvent
from providers.offline.asked import Figures, Group, Having, Measure, Rank
from providers.offline.dates import said_of
from providers.offline.english import MONTH_NAMES, PARTS, OpName, singular, split_name
from providers.offline.facts import AGGREGATE, Facts, Field
from providers.offline.frame import Problem, Stuck, Wanting
from providers.offline.match import TEMPORAL, Condition, manager_words
from providers.offline.resolve import SHOWN_ROWS, Resolved
from providers.offline.subject import Subject
from schema.events import Json

_ORDERED = frozenset({"gt", "gte", "lt", "lte"})
_LOOKUPS = frozenset({"", "in", "isnull", "icontains", *_ORDERED})
_GONE = "gone"


def recall(call: ToolCallEvent, facts: Facts) -> Resolved | None:
    """Read the arguments of a call as the question they answered; None without its manager."""
    manager = facts.managers.get(str(call.args.get("manager")))
    if manager is None:
        return None
    noun = singular(" ".join(manager_words(manager)))
    resolved = Resolved(manager, noun, "list", Subject(manager))
    if manager.name not in facts.detailed:
        resolved.schemas = [manager.name]
        return resolved
    try:
        args = _Args.model_validate(call.args)
        _Reader(resolved, facts).read(args, is_figure=call.name == AGGREGATE)
    except Stuck as stuck:
        resolved.problem = stuck.problem
    except ValidationError:
        resolved.problem = Problem(_GONE)
    except Wanting:
        # The reader has noted in the result which schema it needs.
        pass
    return resolved


class _Measured(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    op: OpName
    field: str = ""


class _Args(BaseModel):
    """The arguments that this provider writes."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    manager: str
    filters: dict[str, Json] = {}
    fields: Json = None
    group_by: list[str] = []
    measures: list[_Measured] = []
    having: dict[str, Json] = {}
    order_by: list[str] = []
    limit: int = SHOWN_ROWS
    offset: int = 0


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a key leads: a path, the field at its end if there is one, and what stands behind."""

    path: tuple[str, ...]
    field: Field | None
    rest: str


class _Reader:
    """Takes over what arguments say. Raises: Stuck, Wanting."""

    def __init__(self, resolved: Resolved, facts: Facts) -> None:
        self.out = resolved
        self.facts = facts

    def read(self, args: _Args, *, is_figure: bool) -> None:
        self.out.skipped, self.out.rows = args.offset, min(args.limit, SHOWN_ROWS)
        self.out.conditions = [self._condition(key, value) for key, value in args.filters.items()]
        if is_figure:
            self.out.asked = self._figures(args)
        elif args.order_by:
            key = args.order_by[0]
            path, found = self._column(key.removeprefix("-"))
            self.out.asked = Rank(path, found, key.startswith("-"), "")
        elif args.limit == 1:
            self.out.intent = "count"

    def _place(self, key: str, *, is_detailed: bool = False) -> _Place:
        """Follow a key through the schema."""
        manager, steps, field = self.out.subject, key.split("__"), None
        path: list[str] = []
        while len(path) < len(steps) and field is None:
            name = steps[len(path)]
            field = next((f for f in manager.fields if f.name == name), None)
            relation = None if field else manager.relation(name)
            if not field and not relation:
                break
            path.append(name)
            behind = steps[len(path) :]
            if relation and behind and not (len(behind) == 1 and behind[0] in _LOOKUPS):
                known = self.facts.managers.get(relation.target)
                if is_detailed or known is None or not known.fields:
                    self._want(relation.target)
                manager = self.facts.managers.get(relation.target) or _gone()
        if not path:
            _gone()
        return _Place(tuple(path), field, "__".join(steps[len(path) :]))

    def _want(self, name: str) -> None:
        if name not in self.facts.detailed:
            self.out.schemas.append(name)
            raise Wanting

    def _column(self, key: str) -> tuple[tuple[str, ...], Field]:
        place = self._place(key, is_detailed=True)
        if place.field is None or place.rest:
            _gone()
        return place.path, place.field

    def _condition(self, key: str, value: Json) -> Condition:
        if key == "or":
            ways = value if isinstance(value, list) else []
            first = next((k for way in ways if isinstance(way, dict) for k in way), "")
            path, found = self._column(first.rpartition("__")[0])
            said = said_of(path, found, ways) or _gone()
            return Condition(path, "any", value, said, in_time=True)
        place = self._place(key)
        if place.rest not in _LOOKUPS:
            _gone()
        is_moment = place.field is not None and (
            place.field.type in TEMPORAL or "year" in split_name(place.field.name)
        )
        in_time = is_moment and place.rest in _ORDERED
        return Condition(place.path, place.rest, value, _said(place, value), in_time=in_time)

    def _figures(self, args: _Args) -> Figures:
        groups = tuple(self._group(key) for key in args.group_by)
        measures = tuple(
            Measure(m.op, *self._column(m.field)) if m.field else Measure(m.op)
            for m in args.measures
        )
        order = next((key for key in args.order_by), "")
        # Groups need what they are called by; that goes without saying.
        present = [
            c
            for c in self.out.conditions
            if c.lookup == "isnull"
            and c.value is False
            and any(g.path[: len(c.path)] == c.path for g in groups)
        ]
        self.out.conditions = [c for c in self.out.conditions if c not in present]
        return Figures(
            measures or _gone(),
            groups,
            (order.removeprefix("-"), order.startswith("-")) if order else None,
            having=self._having(args, measures),
            present=tuple(c.path for c in present),
        )

    def _group(self, key: str) -> Group:
        place = self._place(key, is_detailed=True)
        if place.field is None or place.rest not in {"", *PARTS}:
            _gone()
        return Group(place.path, place.field, place.rest)

    def _having(self, args: _Args, measures: tuple[Measure, ...]) -> Having | None:
        for key, value in args.having.items():
            for measure in measures:
                lookup = key.removeprefix(measure.key).removeprefix("__")
                if key.startswith(measure.key) and lookup in {"", *_ORDERED}:
                    said = f"{value:,}" if isinstance(value, (int, float)) else str(value)
                    return Having(measure, lookup, value, said)
            _gone()
        return None


def _gone() -> NoReturn:
    raise Stuck(_GONE)


def _said(place: _Place, value: Json) -> str:
    """Say a value as people do, where it differs from how it is written."""
    is_month = place.field is not None and Group(place.path, place.field).calendar == "month"
    values = value if isinstance(value, list) else [value]
    said = [
        MONTH_NAMES[v - 1] if is_month and isinstance(v, int) and 1 <= v <= 12 else str(v)
        for v in values
    ]
    is_plain = is_month or isinstance(value, list)
    return " or ".join(said) if is_plain else ""
