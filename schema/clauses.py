"""What rows have to meet: comparisons at the ends of paths, and how they combine.

``schema.filters`` makes them of a filter, ``schema.joins`` turns them into SQL.
Source: design.md 4, data tools.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from schema.sources import Column, Relation
from schema.values import TextLookup

Comparison = (
    Literal["exact", "ne", "in", "gt", "gte", "lt", "lte", "missing", "present", "never"]
    | TextLookup
)
Hops = tuple[Relation, ...]


@dataclass(frozen=True, slots=True)
class Condition:
    """One comparison at the end of a path; a ``column`` of None means the relation itself.

    ``parameters`` name the values it is given later. ``never`` is false whatever the row.
    """

    hops: Hops
    column: Column | None
    comparison: Comparison
    parameters: tuple[str, ...] = ()


NEVER = Condition((), None, "never")


@dataclass(frozen=True, slots=True)
class Junction:
    """Clauses that must hold: ``all`` of them, ``any`` of them, or just ``not`` all of them.

    What is not known, because a value is missing, does not hold; so ``not`` has every other row.
    """

    kind: Literal["all", "any", "not"]
    parts: tuple["Clause", ...]


Clause = Condition | Junction

Visibility = Mapping[type, tuple[Clause, ...]]
"""What limits the rows of each model; a model that is absent is seen whole."""
