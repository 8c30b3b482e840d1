"""What a question asks to be worked out: measures, groups, order, and rows that are ranked."""

from dataclasses import dataclass

from providers.offline.english import BAD, GOOD, MOMENTS, PARTS, OpName, split_name
from providers.offline.facts import Field
from providers.offline.match import unit_of
from schema.events import Json, JsonObject


@dataclass(frozen=True, slots=True)
class Measure:
    """One value of a group, or of all rows; without a ``field`` the number of rows."""

    op: OpName
    path: tuple[str, ...] = ()
    field: Field | None = None

    @property
    def key(self) -> str:
        """The key of its value in a result."""
        return f"{self.op}_{'__'.join(self.path)}" if self.path else "count"

    @property
    def args(self) -> JsonObject:
        """The measure as the tool takes it."""
        return {"op": self.op, "field": "__".join(self.path)} if self.path else {"op": "count"}


@dataclass(frozen=True, slots=True)
class Group:
    """What rows are grouped by; ``part`` is of a date or time."""

    path: tuple[str, ...]
    field: Field
    part: str = ""

    @property
    def key(self) -> str:
        """The key of its value in a result."""
        return "__".join((*self.path, self.part) if self.part else self.path)

    @property
    def calendar(self) -> str:
        """The part of a date it holds, or ""."""
        last = split_name(self.field.name)[-1:]
        is_part = self.field.type == "integer" and last and last[0] in PARTS
        return self.part or (last[0] if is_part else "")

    @property
    def is_in_time(self) -> bool:
        """Tell whether groups follow one another in time."""
        return bool(self.calendar) or self.field.type in {"date", "datetime"}


@dataclass(frozen=True, slots=True)
class Having:
    """A condition on a measure of each group."""

    measure: Measure
    lookup: str
    value: Json
    said: str


@dataclass(frozen=True, slots=True)
class Rank:
    """An order of rows by a field; ``said`` is what the best of them are called.

    ``top`` is how many are asked for, if only those at one end are.
    """

    path: tuple[str, ...]
    field: Field
    descending: bool
    said: str
    top: int | None = None


@dataclass(frozen=True, slots=True)
class Figures:
    """Measures of groups, or of all rows if there are none, in an ``order`` of one key.

    ``top`` is how many groups are asked for, and ``said`` what they are called: "most".
    ``present`` are paths to what a row needs to be in a group that is asked for.
    """

    measures: tuple[Measure, ...]
    groups: tuple[Group, ...] = ()
    order: tuple[str, bool] | None = None
    top: int | None = None
    said: str = ""
    having: Having | None = None
    present: tuple[tuple[str, ...], ...] = ()

    @property
    def ranked(self) -> Measure:
        """The measure that groups are ranked by."""
        key = self.order[0] if self.order else ""
        return next((m for m in self.measures if m.key == key), self.measures[0])


@dataclass(frozen=True, slots=True)
class Change:
    """One thing of an earlier figure to change: what is worked out, how many, or which way.

    ``is_judged``: ``descending`` is true for the bad end first. ``rank`` is meant where there is no
    earlier figure.
    """

    said: str
    op: OpName | None = None
    top: int | None = None
    descending: bool | None = None
    is_judged: bool = False
    rank: Rank | None = None


def from_bad_end(field: Field | None, *, from_bad: bool) -> bool | None:
    """Tell whether an order from the bad end descends; None where that can't be told."""
    words = {*split_name(field.name)} if field else set[str]()
    if bool(words & BAD) == bool(words & GOOD):
        return None
    return from_bad is bool(words & BAD)


def is_moment(field: Field) -> bool:
    """Tell a number that names a moment, a year or a time of day, from one that has a unit."""
    return bool(MOMENTS & {*split_name(field.name)[-1:]}) and not unit_of(field)
