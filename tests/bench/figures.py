"""What was measured, what it had to be, and the tables of both.

Figures are medians of repeats. A ratio is taken within each repeat, so that the machine's drift
hits both sides of it.
"""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class Figure:
    """What one load of a server gave; latencies are those of turns."""

    turns_per_s: float
    cpu_ms: float
    p50_ms: float
    p95_ms: float


@dataclass(frozen=True, slots=True)
class Must:
    """A limit, and the values of the repeats that are held against it; ``form`` writes a value."""

    name: str
    limit: float
    form: str
    unit: str
    values: Sequence[float]
    is_least: bool = False

    def row(self) -> str:
        """Write the row of the table: the median decides, the spread stands beside it."""
        reached = statistics.median(self.values)
        is_missed = reached < self.limit if self.is_least else reached > self.limit
        limit, median, low, high = (
            format(value, self.form)
            for value in (self.limit, reached, min(self.values), max(self.values))
        )
        bound = "at least" if self.is_least else "at most"
        outcome = "missed" if is_missed else ""
        return (
            f"| {self.name} | {bound} {limit}{self.unit} "
            f"| {median}{self.unit} ({low} to {high}) | {outcome} |"
        )


def ratios(over: Sequence[Figure], under: Sequence[Figure], of: str) -> list[float]:
    """Divide one value of the figures repeat by repeat."""
    return [asdict(a)[of] / asdict(b)[of] for a, b in zip(over, under, strict=True)]


def load_table(loads: Mapping[str, Sequence[Figure]], bare: Sequence[Figure]) -> Iterator[str]:
    """Write the loads of servers, each beside ``bare``."""
    yield "| | turns/s | CPU ms/turn | p50 ms | p95 ms | share of bare |"
    yield "|---|---|---|---|---|---|"
    for name, figures in loads.items():
        columns = zip(*(asdict(figure).values() for figure in figures), strict=True)
        values = " | ".join(f"{statistics.median(column):.2f}" for column in columns)
        shares = ratios(figures, bare, "turns_per_s")
        share = f"{statistics.median(shares):.1%} ({min(shares):.1%} to {max(shares):.1%})"
        yield f"| {name} | {values} | {share} |"


def must_table(musts: Sequence[Must]) -> Iterator[str]:
    """Write what had to be reached, and what was."""
    yield "| | must | reached | |"
    yield "|---|---|---|---|"
    yield from (must.row() for must in musts)
