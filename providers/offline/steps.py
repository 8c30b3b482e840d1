"""What a step of an answer may be: calls to make, or an outcome to put into words.

Queries are written here as well, with the columns that a list shows.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from providers.offline.asked import Figures, Rank
from providers.offline.asks import Intent
from providers.offline.english import NAME_LIKE, singular
from providers.offline.facts import Manager, Page, call_key
from providers.offline.frame import Problem
from providers.offline.match import Condition, foreign_keys, is_code_field, name_field
from providers.offline.probe import Missed
from providers.offline.resolve import SHOWN_ROWS, Resolved
from schema.events import Json, JsonObject

COLUMNS = 10
"""Columns asked for; those that say nothing are not shown."""


@dataclass(frozen=True, slots=True)
class Call:
    """One tool call to make."""

    name: str
    args: JsonObject

    @property
    def key(self) -> str:
        """What tells this call from others."""
        return call_key(self.name, self.args)


@dataclass(frozen=True, slots=True)
class Taken:
    """A text that no value at the end of ``path`` is: the ``values`` with it in them were taken.

    No values: all that contain it were, for there are too many to name. ``owner`` is the manager
    that has the field.
    """

    path: tuple[str, ...]
    owner: str
    said: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Found:
    """The rows that fit.

    Rows are groups where figures were asked for. ``others`` are places and values that have the one
    asked for as a part; ``taken`` are texts that stand for values they are a part of. ``tied`` is
    how many rows share the value that is ranked first, if the page can't tell.
    """

    resolved: Resolved
    conditions: tuple[Condition, ...]
    page: Page
    others: tuple[tuple[str, str], ...] = ()
    taken: tuple[Taken, ...] = ()
    tied: int = 0

    @property
    def is_nothing(self) -> bool:
        """Tell whether no row fits; a figure of none is 0 or not there."""
        figures = self.resolved.asked
        if not isinstance(figures, Figures) or figures.groups:
            return not self.page.total_count
        return not any(row.get(m.key) for row in self.page.data for m in figures.measures)


@dataclass(frozen=True, slots=True)
class NotThere:
    """A value of the question is nowhere in the data."""

    resolved: Resolved
    missed: Missed


@dataclass(frozen=True, slots=True)
class LookedUp:
    """Rows known by a name that the question has, where it names no manager.

    ``unread`` is a word that the rows do not answer.
    """

    text: str
    pages: tuple[tuple[Manager, Page], ...]
    unread: str = ""
    is_yes_or_no: bool = False


@dataclass(frozen=True, slots=True)
class Trouble:
    """A question that can't be answered: the ``problem`` says why."""

    problem: Problem
    resolved: Resolved | None = None


@dataclass(frozen=True, slots=True)
class About:
    """What is said of the desk itself, without a look at rows."""

    kind: Intent


Outcome = Found | NotThere | LookedUp | Trouble | About


Step = list[Call] | Outcome
"""Calls to make next, or the outcome to put into words."""


def query_args(resolved: Resolved, conditions: Sequence[Condition]) -> JsonObject:
    """Write a query: one row for a count, a screenful of chosen columns for a list."""
    args: JsonObject = {"manager": resolved.subject.name}
    if conditions:
        args["filters"] = {c.key: c.value for c in conditions}
    columns, rank = columns_of(resolved, conditions), resolved.asked
    if isinstance(rank, Rank):
        args["order_by"] = [f"{'-' if rank.descending else ''}{'__'.join(rank.path)}"]
        # One row more tells whether there are others with the last value.
        args["limit"] = resolved.rows if rank.top is None else SHOWN_ROWS + 1
    elif resolved.intent == "count":
        args["limit"] = 1
        columns = columns[:1]
    else:
        args["limit"] = resolved.rows
    if resolved.skipped:
        args["offset"] = resolved.skipped
    if columns:
        args["fields"] = _selection(columns)
    return args


def aggregate_args(
    resolved: Resolved, figures: Figures, conditions: Sequence[Condition]
) -> JsonObject:
    """Write an aggregate: the measures of all rows, or of each group."""
    args: JsonObject = {"manager": resolved.subject.name}
    filters = {f"{'__'.join(path)}__isnull": False for path in figures.present}
    if filters := {**filters, **{c.key: c.value for c in conditions}}:
        args["filters"] = {**filters}
    if figures.groups:
        args["group_by"] = [group.key for group in figures.groups]
    args["measures"] = [measure.args for measure in figures.measures]
    if having := figures.having:
        key = having.measure.key
        args["having"] = {f"{key}__{having.lookup}" if having.lookup else key: having.value}
    if figures.order:
        key, descending = figures.order
        args["order_by"] = [f"-{key}" if descending else key]
    if figures.groups:
        args["limit"] = SHOWN_ROWS + 1
    if resolved.skipped:
        args["offset"] = resolved.skipped
    return args


def columns_of(resolved: Resolved, conditions: Iterable[Condition]) -> list[tuple[str, ...]]:
    """Choose columns: what a row is known by, what was asked, what was filtered, the rest."""
    manager = resolved.subject
    known_by = name_field(manager)
    keys = [(key,) for key in manager.primary_key]
    numbers = {f.name for f in manager.fields if f.type in {"integer", "uuid"}}
    chosen: list[tuple[str, ...]] = [(known_by.name,)] if known_by else []
    if not known_by:
        chosen += keys if len(keys) == 1 or not resolved.related else resolved.related
    if isinstance(resolved.asked, Rank):
        chosen.append(resolved.asked.path)
    chosen += [path for path in resolved.shown if path]
    chosen += [c.path for c in conditions if _is_column(c, manager)]
    hidden = {key for (key,) in keys if known_by and key in numbers}
    hidden |= foreign_keys(manager)
    plain = [f for f in manager.fields if not (known_by and f.name == "id")]
    if not known_by:
        # Codes tell which rows these are where no name does.
        plain.sort(key=lambda f: not is_code_field(f, manager))
    asked = list(dict.fromkeys((*chosen, *resolved.related)))
    rest = [(f.name,) for f in plain if f.name not in hidden and (f.name,) not in asked]
    return asked + rest[: max(0, COLUMNS - len(asked))]


def label(path: Sequence[str]) -> str:
    """Name a path: "density", "plane seats"."""
    return " ".join(hops(path))


def hops(path: Sequence[str]) -> list[str]:
    """Return the names of a path; the name of a related row goes without saying."""
    if len(path) > 1 and path[-1] in NAME_LIKE:
        return [*path[:-2], singular(path[-2])]
    return list(path)


def value_of(value: Json, path: Sequence[str]) -> Json:
    """Return what a row has at the end of a path; a list where the path meets one."""
    for depth, name in enumerate(path):
        if isinstance(value, list):
            return [value_of(item, path[depth:]) for item in value]
        if not isinstance(value, dict):
            return None
        value = value.get(name)
    return value


def _is_column(condition: Condition, manager: Manager) -> bool:
    """Tell whether a filtered field is worth showing: own ones, and those of one related row."""
    if len(condition.path) == 1:
        return manager.relation(condition.path[0]) is None
    relation = manager.relation(condition.path[0])
    return len(condition.path) == 2 and relation is not None and not relation.many


def _selection(columns: Iterable[tuple[str, ...]]) -> list[Json]:
    """Write columns as the query tool wants them; a path becomes a nested selection."""
    flat: list[Json] = []
    nested: dict[str, list[tuple[str, ...]]] = {}
    for path in columns:
        if len(path) == 1:
            flat.append(path[0])
        else:
            nested.setdefault(path[0], []).append(path[1:])
    return flat + [{name: _selection(paths)} for name, paths in nested.items()]
