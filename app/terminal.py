"""What a terminal shows of a turn: the answer on standard output, all else on standard error.

Standard output gets the answer's text and nothing else, as it is; where it is a terminal, Markdown
tables are drawn. Models, rows and vendors say what strangers wrote, so nothing that a terminal
would obey gets through, to neither of the two and in no log record.
"""

import logging
import os
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from traceback import format_exception_only
from types import TracebackType

import orjson
from rich.console import Console
from rich.text import Text

from app.tables import TableDrawer
from schema.events import (
    Done,
    EntryStored,
    Event,
    Failed,
    Json,
    Resync,
    RunStarted,
    TextChunk,
    ToolCall,
    ToolResult,
    UsageReported,
)
from schema.faults import project_line

_ExcInfo = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]

_CONTROLS = {
    **{code: 0x2400 + code for code in range(0x20)},
    0x7F: 0x2421,
    **dict.fromkeys(range(0x80, 0xA0), 0xFFFD),
}
"""Control characters, each with the symbol that shows it; those of C1 have none of their own."""
_IN_TEXT = {code: shown for code, shown in _CONTROLS.items() if chr(code) not in "\n\t"}


class Unwritable(Exception):
    """Standard output takes nothing: it is closed, or full. The text says which."""


@contextmanager
def writing() -> Generator[None]:
    """Write to standard output inside.

    Raises: Unwritable, and nothing is written there any more; BrokenPipeError when nobody reads.
    """
    if sys.stdout is None:
        raise Unwritable("Standard output is closed, so nothing can be shown.")
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        # What is left in its buffer would fail again when Python ends.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
        raise Unwritable(f"Standard output can't be written: {error.strerror}.") from error


def log_to(screen: "Screen", *, with_tracebacks: bool) -> None:
    """Show the log's records between the other lines."""
    handler = _LogHandler(screen)
    handler.setFormatter(_LogFormatter(with_tracebacks))
    logging.basicConfig(handlers=[handler])


class _LogHandler(logging.Handler):
    def __init__(self, screen: "Screen") -> None:
        super().__init__()
        self._screen = screen

    def emit(self, record: logging.LogRecord) -> None:
        try:
            text = self.format(record)
        except (LookupError, TypeError, ValueError):
            self.handleError(record)  # its arguments don't fit its text
        else:
            self._screen.say(text)


class _LogFormatter(logging.Formatter):
    def __init__(self, with_tracebacks: bool) -> None:
        super().__init__("%(levelname)s: %(message)s")
        self._with_tracebacks = with_tracebacks

    def formatException(self, ei: _ExcInfo) -> str:
        if self._with_tracebacks:
            return super().formatException(ei)
        return "\n".join(
            "".join(format_exception_only(error)).rstrip() + project_line(error)
            for error in _causes(ei[1])
        )


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """Give an error, and what led to it."""
    while error is not None:
        yield error
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


class Screen:
    """The two outputs, which are one screen when nothing is redirected."""

    def __init__(self) -> None:
        self._console = Console(stderr=True)
        is_drawn = sys.stdout is not None and sys.stdout.isatty()
        self._tables = TableDrawer() if is_drawn else None
        self._is_within_line = False

    def show(self, event: Event) -> None:
        """Show an event. Raises: as ``writing``."""
        match event:
            case TextChunk():
                if event.content:
                    self._write(event.content)
            case ToolCall():
                self._tell(f"{event.name} {_json(event.args)}")
            case ToolResult():
                self._tell(f"{event.name}: {_outcome(event.result)}")
            case Failed():
                id = "" if event.error_id is None else f", error {event.error_id}"
                self.fail(f"{event.message} ({event.code}{id})")
            case Done() | RunStarted() | EntryStored() | UsageReported() | Resync():
                pass  # not for those who read the answer

    def say(self, text: str, style: str = "") -> None:
        """Say something beside the answer, in lines of its own."""
        self._leave_line()
        self._console.print(Text(text.translate(_IN_TEXT), style=style), soft_wrap=True)

    def fail(self, sentence: str) -> None:
        """Say what went wrong."""
        self.say(f"frontdesk: {sentence}", "red")

    def end(self) -> None:
        """End the answer: show what is left of it, and end its last line."""
        self._show_held()
        if self._is_within_line:
            self._put("\n")

    def _write(self, text: str) -> None:
        shown = text.translate(_IN_TEXT)
        if self._tables is not None:
            shown = self._tables.feed(shown)
        if shown:
            self._put(shown)

    def _show_held(self) -> None:
        if self._tables is not None and (held := self._tables.end()):
            self._put(held)

    def _put(self, text: str) -> None:
        self._is_within_line = False  # what can't be written needs no end
        with writing():
            sys.stdout.buffer.write(text.encode(sys.stdout.encoding, "replace"))
            sys.stdout.buffer.flush()
        self._is_within_line = not text.endswith("\n")

    def _tell(self, line: str) -> None:
        """Say one thing in one line of the terminal's width."""
        shown = Text(line.translate(_CONTROLS), style="dim")
        self._leave_line()
        self._console.print(shown, no_wrap=True, overflow="ellipsis")

    def _leave_line(self) -> None:
        """Where both outputs are one screen, begin a line without a word in the answer."""
        self._show_held()
        if self._is_within_line and self._console.is_terminal and sys.stdout.isatty():
            self._console.print()
            self._is_within_line = False


def _json(value: Json) -> str:
    return orjson.dumps(value).decode()


def _outcome(result: Json) -> str:
    """Say in short what a tool returned."""
    match result:
        case {"status": "error", "code": str(code), "message": str(message)}:
            return f"{code}: {message}"
        case {"data": list(rows), "total_count": int(total)}:
            return f"rows {len(rows)} of {total}"
        case _:
            return _json(result)
