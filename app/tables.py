"""Markdown tables in a text that comes in pieces: held back until they are whole, then drawn.

All else goes through as it comes, the lines of code blocks too. A table is one when each of its
lines begins with a bar, and the second one says how its columns are aligned.
"""

import re
from collections.abc import Iterator, Sequence

from rich.console import Console, JustifyMethod
from rich.table import Table
from rich.text import Text

_ROW = re.compile(r" {0,3}\|")
_FENCE = re.compile(r" {0,3}(```|~~~)")
_UNDECIDED = re.compile(r" {0,3}(`{0,2}|~{0,2})")
"""What may yet become a row or a fence."""
_RULE = re.compile(r":?-+:?")
_BAR = re.compile(r"(?<!\\)\|")


class TableDrawer:
    """Gives a text as it is to be shown on the terminal that is standard output."""

    def __init__(self) -> None:
        self._line = ""
        """Of the line under way, what is held back."""
        self._is_shown = False
        """Whether the beginning of the line under way was shown."""
        self._fence = ""
        self._rows: list[str] = []

    def feed(self, text: str) -> str:
        """Take a piece of the text, and give what can be shown by now."""
        lines = re.findall(r"[^\n]*\n|[^\n]+", text)
        return "".join(part for line in lines for part in self._take(line))

    def end(self) -> str:
        """Give what is held back: no more of this text comes."""
        line, self._line = self._line, ""
        held = [*self._begin(line)] if line else []
        held += self._release()
        self._is_shown, self._fence = False, ""
        return "".join(held)

    def _take(self, piece: str) -> Iterator[str]:
        is_whole = piece.endswith("\n")
        if self._is_shown:
            yield piece
        else:
            self._line += piece
            is_row = not self._fence and _ROW.match(self._line)
            if not is_whole and (is_row or _UNDECIDED.fullmatch(self._line)):
                return
            line, self._line = self._line, ""
            yield from self._begin(line)
        self._is_shown = not is_whole

    def _begin(self, line: str) -> Iterator[str]:
        """Show a line, or so much of it that its kind is known; a row is held."""
        if not self._fence and _ROW.match(line):
            self._rows.append(line)
            if len(self._rows) == 2 and not _is_table(self._rows):
                yield self._rows.pop(0)
            return
        yield from self._release()
        if found := _FENCE.match(line):
            if not self._fence:
                self._fence = found[1]
            elif self._fence == found[1]:
                self._fence = ""
        yield line

    def _release(self) -> Iterator[str]:
        rows, self._rows = self._rows, []
        if len(rows) > 1:
            yield _drawn(rows)
        else:
            yield from rows


def _cells(row: str) -> list[str]:
    inner = row.strip().removeprefix("|")
    cells = _BAR.split(inner)
    if len(cells) > 1 and not cells[-1].strip():
        del cells[-1]
    return [cell.strip().replace("\\|", "|") for cell in cells]


def _is_table(rows: Sequence[str]) -> bool:
    head, rule = map(_cells, rows[:2])
    return len(head) == len(rule) and all(_RULE.fullmatch(cell) for cell in rule)


def _drawn(rows: Sequence[str]) -> str:
    head, rule, *body = map(_cells, rows)
    table = Table()
    for name, dashes in zip(head, rule, strict=True):
        table.add_column(Text(name), justify=_justified(dashes), overflow="fold")
    for cells in body:
        last = len(head) - 1
        fitting = [*cells[:last], " | ".join(cells[last:])]
        table.add_row(*map(Text, fitting))
    console = Console()
    with console.capture() as captured:
        console.print(table)
    return captured.get()


def _justified(dashes: str) -> JustifyMethod:
    if dashes.endswith(":"):
        return "center" if dashes.startswith(":") else "right"
    return "left"
