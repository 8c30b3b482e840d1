"""What one run shows and says: numbered, joined, kept in memory, and handed to the writer.

Each event gets its number and its bytes here; every tail and the log see the same ones.
Source: design.md 3.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from functools import partial

from app import leases
from app.database import Job, T
from app.entries import NewEntry, Run, StoredEntry, stored
from app.frames import frame
from app.keys import clean
from app.leases import Admission, Admitted, Ending, Flush, LeaseLost
from app.writer import Writer
from schema.errors import Interrupted
from schema.events import (
    LIVE,
    Done,
    EntryStored,
    Event,
    Failed,
    RunStarted,
    TextChunk,
    Usage,
    UsageReported,
)

_log = logging.getLogger(__name__)

_TEXT_GAP_S = 0.04
"""Text deltas that follow one another sooner are joined."""


class HeldRun:
    """A run at work in this process, or ended a short while ago: all it has shown, in memory.

    Everything here happens on the event loop. What is not stored yet goes to the writer as one
    flush, in 50 ms at the latest. One flush is under way at a time, so that the log stays in order:
    one that fails comes back and goes with the next.
    """

    task: asyncio.Task[None]

    def __init__(
        self,
        request: Admission,
        admitted: Admitted,
        writer: Writer,
        now: Callable[[], datetime],
    ) -> None:
        self.run = Run(
            id=request.run_id,
            conversation_id=admitted.conversation_id,
            actor=request.actor,
            ask=request.ask,
            window=admitted.window,
        )
        self.frames: list[bytes] = []
        self.quiet_frames: list[bytes] = []
        self.changed = asyncio.Event()
        self.closing: Done | Failed | None = None
        self.is_ended = False
        self._is_closing = False
        self._writer, self._now = writer, now
        self._fence, self._next_entry = admitted.fence, admitted.user_seq + 1
        self._usage: Usage | None = None
        self._text = _Text(self._number)
        self._new_frames: list[tuple[int, bytes]] = []
        self._new_entries: list[StoredEntry] = []
        self._is_deferred = self._is_repeated = False
        self._saving: asyncio.Future[None] | None = None
        self._number(RunStarted(run_id=self.run.id, conversation_id=self.run.conversation_id))
        self._number(EntryStored(entry_seq=admitted.user_seq, kind="user"))

    def take(self, item: Event | NewEntry) -> None:
        """Number, show and log what the turn has yielded; its closing event is kept for the end."""
        if self.closing is not None:
            raise RuntimeError("The turn went on after its closing event.")
        if isinstance(item, TextChunk):
            self._text.add(item)
            return
        self._text.end()
        if isinstance(item, NewEntry):
            self._add(item)
        elif isinstance(item, Done | Failed):
            self.closing = item
        else:
            if isinstance(item, UsageReported):
                self._usage = item.usage
            self._number(item)

    async def store(self, closing: Done | Failed) -> None:
        """Store the closing event and all that is left, and give up the lease.

        Raises: LeaseLost, DatabaseFailed; then nothing was stored.
        """
        self._is_closing = True
        self._text.end()
        if self._saving is not None:
            await _outlast(self._saving)
        if isinstance(closing, Failed) and closing is not self.closing:
            # A failure that the turn does not know of itself.
            self._add(NewEntry("error", closing.message, name=closing.code))
        seq = len(self.frames) + 1
        self._new_frames.append((seq, frame(self.run.id, seq, closing)))
        job = partial(leases.close, flush=self._flush(), ending=self._ending(closing))
        await _outlast(self._writer.submit(job))

    def show(self, closing: Done | Failed) -> None:
        """Show the closing event; no event follows."""
        data = frame(self.run.id, len(self.frames) + 1, closing)
        self.frames.append(data)
        self.quiet_frames.append(data)
        self.is_ended = True
        # An ended run stays in memory for its frames; what its turn was told is needed no more.
        self.run = replace(self.run, window=())
        self.changed.set()

    def give_up(self) -> None:
        """Stop: the lease is somebody else's. A run that is storing its end finds out by itself."""
        if not self._is_closing:
            _log.warning("Run %s has lost its lease and is stopped.", self.run.id)
            self.task.cancel()

    def _ending(self, closing: Done | Failed) -> Ending:
        if isinstance(closing, Done):
            return Ending("done", closing.usage, None)
        status = "interrupted" if closing.code == Interrupted.code else "failed"
        return Ending(status, self._usage, closing.code)

    def _number(self, event: Event) -> None:
        seq = len(self.frames) + 1
        data = frame(self.run.id, seq, event)
        self.frames.append(data)
        self.quiet_frames.append(b"" if event.type in LIVE else data)
        self._new_frames.append((seq, data))
        self.changed.set()
        self.changed = asyncio.Event()
        self._defer()

    def _add(self, entry: NewEntry) -> None:
        self._new_entries.append(stored(entry, self._next_entry, self.run.id, self._now()))
        self._number(EntryStored(entry_seq=self._next_entry, kind=entry.kind))
        self._next_entry += 1

    def _defer(self) -> None:
        if not self._is_deferred:
            self._is_deferred = True
            self._writer.defer(self._prepare)

    def _prepare(self) -> tuple[Job[None], Callable[[BaseException | None], None]] | None:
        self._is_deferred = False
        if not self._new_frames or self._saving is not None:
            return None
        flush, self._saving = self._flush(), asyncio.get_running_loop().create_future()
        return partial(leases.save, flush=flush), partial(self._saved, flush, self._saving)

    def _flush(self) -> Flush:
        flush = Flush(
            run_id=self.run.id,
            conversation_id=self.run.conversation_id,
            fence=self._fence,
            frames=self._new_frames,
            entries=self._new_entries,
            next_seq=self._next_entry,
            now=self._now(),
            is_repeated=self._is_repeated,
        )
        self._new_frames, self._new_entries = [], []
        return flush

    def _saved(
        self, flush: Flush, saving: asyncio.Future[None], error: BaseException | None
    ) -> None:
        self._saving = None
        saving.set_result(None)
        if error is None:
            self._is_repeated = False
            if self._new_frames:
                self._defer()
        elif isinstance(error, LeaseLost):
            self.give_up()
        else:
            _log.warning("Events of run %s could not be stored yet.", self.run.id, exc_info=error)
            self._is_repeated = True
            self._new_frames = [*flush.frames, *self._new_frames]
            self._new_entries = [*flush.entries, *self._new_entries]


class _Text:
    """Joins text deltas: the first of a text goes out at once, later ones at most 40 ms apart."""

    def __init__(self, show: Callable[[Event], None]) -> None:
        self._show = show
        self._loop = asyncio.get_running_loop()
        self._waiting: list[str] = []
        self._shown_at: float | None = None
        self._timer: asyncio.TimerHandle | None = None

    def add(self, chunk: TextChunk) -> None:
        """Take one delta."""
        if not chunk.content:
            return
        self._waiting.append(chunk.content)
        due = 0.0 if self._shown_at is None else self._shown_at + _TEXT_GAP_S
        if due <= self._loop.time():
            self._flush()
        elif self._timer is None:
            self._timer = self._loop.call_at(due, self._flush)

    def end(self) -> None:
        """Show what is waiting, because something else is to be shown."""
        self._flush()
        self._shown_at = None

    def _flush(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._waiting:
            text, self._waiting = "".join(self._waiting), []
            self._show(TextChunk(content=clean(text)))
            self._shown_at = self._loop.time()


def accept_cancellation() -> bool:
    """Take a cancellation of this task as done; False if nobody has asked for one."""
    task = asyncio.current_task()
    was_asked = task is not None and task.cancelling() > 0
    while task is not None and task.uncancel():
        pass
    return was_asked


async def _outlast(future: asyncio.Future[T]) -> T:
    """Wait for a write that must not be left half known, even when cancelled meanwhile."""
    while True:
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            if not accept_cancellation():
                raise
