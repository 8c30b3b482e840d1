"""What may be named on each model, and how another name is refused: with what is near and valid.

Source: design.md 4, data tools.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from rapidfuzz import fuzz, process

from schema.errors import ToolRetry
from schema.sources import Column, Relation

_MAX_ECHO = 80
_MAX_NAMES = 60


def echo(text: str) -> str:
    """Quote what was asked for, short and on one line."""
    cut = text if len(text) <= _MAX_ECHO else text[:_MAX_ECHO] + "…"
    return repr(cut)


def nearest(name: str, names: Iterable[str]) -> str:
    """A sentence that offers the closest of ``names``; "" when none is close."""
    near = process.extractOne(name, list(names), scorer=fuzz.ratio, score_cutoff=60)
    return f" Did you mean {near[0]}?" if near else ""


def listed(names: Iterable[str]) -> str:
    """Names in a sentence; a very long list is cut."""
    all_names = list(names)
    shown, more = ", ".join(all_names[:_MAX_NAMES]), len(all_names) - _MAX_NAMES
    return f"{shown} and {more} more" if more > 0 else shown


@dataclass(frozen=True, slots=True)
class Names:
    """What may be named on one model. ``title`` is what errors call it.

    ``computed`` are names that can only be shown.
    """

    title: str
    columns: Mapping[str, Column]
    relations: Mapping[str, Relation]
    computed: Collection[str] = ()

    def unknown(self, what: str, name: str) -> ToolRetry:
        """Refuse a name that is not here, with the nearest one that is."""
        if name in self.computed:
            use = _USES.get(what.split()[0], "filtered by")
            return ToolRetry(f"{self.title}.{name} is computed: it can be shown, but not {use}.")
        hint = nearest(name, (*self.columns, *self.relations, *self.computed))
        return ToolRetry(f"{what}: {self.title} has no {echo(name)}.{hint} {self.listing()}")

    def listing(self) -> str:
        """What can be named, in words."""
        fields = f"Fields: {listed(self.columns)}."
        if self.computed:
            fields += f" Computed, only to be shown: {listed(self.computed)}."
        return f"{fields} Relations: {listed(self.relations)}." if self.relations else fields


_USES = {"order_by": "sorted by", "group_by": "grouped by", "measures": "aggregated"}
"""What is refused, by the argument that an error begins with."""

Scope = Mapping[type, Names]
"""The names of every model that a path may reach."""
