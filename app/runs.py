"""The run host: starts runs, keeps their leases, and shows their events to whoever asks.

A run is a task of its own that outlives the request it came from. What it yields gets a number,
goes into the event log, and is shown to any number of tails; a tail that was cut goes on from the
last number it saw, from memory while the run is held here, else from the log. Source: design.md 3.
"""

import asyncio
import contextvars
import logging
import secrets
import uuid
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Self

from app import leases, owners, records
from app.database import DatabaseFailed, Job, T
from app.entries import MAX_PAGE, EntryPage, NewEntry, Run, RunHandle
from app.holders import this_process
from app.keys import owner_key
from app.leases import Admission, Admitted, LeaseLost
from app.recording import HeldRun, accept_cancellation
from app.records import Claim
from app.store import Store
from schema.errors import ChatError, ChatFailed, Interrupted, TryAgain
from schema.events import Actor, Ask, ConversationId, Event, Failed, RunId

_log = logging.getLogger(__name__)

_POLL_S = (0.05, 0.5)
"""Shortest and longest pause between two looks at the log of another process's run."""
_LAG_S = 1.0
"""How long an event shown by another process may take to reach the log."""
_CHECK_S = 2.0
"""How long the database may take to say that it is there."""
_KEPT_S = 60.0
"""How long an ended run stays in memory."""
_MOST = 2**31 - 1
"""The largest number of an event or an entry."""

Turn = Callable[[Run], AsyncGenerator[Event | NewEntry]]
"""Works on a run. Its last item, and no other, is ``Done`` or ``Failed``."""


class RunHost:
    """Starts runs and tails them. One per process, open as long as the application.

    It keeps the leases of its runs alive, ends runs whose process is gone, and on closing gives its
    own runs ``grace_s`` to end before it interrupts them. Of the runs that ended, the last
    ``kept_runs`` are tailed from memory for a minute. Each run has a fresh copy of ``context``,
    or of the context variables that the host is made with.
    """

    def __init__(
        self,
        store: Store,
        *,
        max_recent_messages: int = 20,
        run_stale_s: float = 30.0,
        grace_s: float = 5.0,
        kept_runs: int = 64,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        context: contextvars.Context | None = None,
    ) -> None:
        self._context = context or contextvars.copy_context()
        self._store, self._window, self._now = store, max_recent_messages, now
        self._stale_s, self._grace_s, self._kept_runs = run_stale_s, grace_s, kept_runs
        self._holder = this_process()
        self._held: dict[RunId, HeldRun] = {}
        self._ended: deque[tuple[float, RunId]] = deque()
        self._admissions: dict[RunId, asyncio.Future[Admitted | RunHandle]] = {}
        self._is_closing = False

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        await self._sweep()
        self._group = await asyncio.TaskGroup().__aenter__()
        self._beating = self._group.create_task(self._beat())
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
        # The body's own exception goes on as it is: there is no task left that it could concern.
        await self._group.__aexit__(None, None, None)

    def drain(self) -> None:
        """Begin to close, because the process is about to end: tails end with their runs."""
        if not self._is_closing:
            self._is_closing = True
            self._group.create_task(self.close())

    async def close(self) -> None:
        """Admit nothing more, let runs end, interrupt those that don't; then nothing is running."""
        self._is_closing = True
        await self._end_runs(self._grace_s)
        self._beating.cancel()

    async def interrupt(self) -> None:
        """Interrupt the runs that are at work in this process; then none of them is running."""
        await self._end_runs(0)

    async def _end_runs(self, grace_s: float) -> None:
        if self._admissions:
            await asyncio.wait(self._admissions.values())
        tasks = {held.task for held in self._held.values() if not held.is_ended}
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=grace_s)
            for task in late:
                task.cancel()
            await asyncio.wait(tasks)

    async def check(self) -> None:
        """See that the database answers. Raises: TryAgain, within two seconds."""
        try:
            async with asyncio.timeout(_CHECK_S):
                await self._read(lambda _: None)
        except TimeoutError as error:
            raise TryAgain from error

    async def adopt(self, visitor: Actor, actor: Actor) -> None:
        """Give an actor the conversations of a visitor, and the runs in them.

        Raises: TryAgain; then nothing has changed.
        """
        await _stored(
            self._store.writer.submit(partial(owners.adopt, visitor=visitor, actor=actor))
        )
        for held in self._held.values():
            if owner_key(held.run.actor) == owner_key(visitor):
                held.run = replace(held.run, actor=actor)

    # --- starting ---------------------------------------------------------------------------------

    async def start(self, ask: Ask, actor: Actor, turn: Turn) -> RunHandle:
        """Admit a request and start its run.

        A repeated ``request_id`` gives the first run again, and ``turn`` is not called. A caller
        that goes away meanwhile does not stop the run.
        Raises: TurnInProgress, NotFound, BadMessage, TryAgain; then nothing is stored.
        """
        if self._is_closing:
            raise TryAgain
        request = Admission(
            actor=actor,
            ask=ask,
            run_id=RunId(str(uuid.uuid4())),
            conversation_id=ConversationId(str(uuid.uuid4())),
            window=self._window,
            claim=self._claim(),
            now=self._now(),
        )
        admission = self._store.writer.submit(partial(leases.admit, request=request))
        self._admissions[request.run_id] = admission
        admission.add_done_callback(partial(self._launch, request, turn))
        admitted = await _stored(asyncio.shield(admission))
        return admitted if isinstance(admitted, RunHandle) else self._held[request.run_id].run

    def _launch(
        self, request: Admission, turn: Turn, admission: asyncio.Future[Admitted | RunHandle]
    ) -> None:
        del self._admissions[request.run_id]
        if admission.cancelled() or admission.exception() is not None:
            return
        admitted = admission.result()
        if isinstance(admitted, RunHandle):
            return
        held = HeldRun(request, admitted, self._store.writer, self._now)
        self._held[held.run.id] = held
        held.task = self._group.create_task(
            self._work(held, turn), name=f"run {held.run.id}", context=self._context.copy()
        )

    async def _work(self, held: HeldRun, turn: Turn) -> None:
        """Take what the turn yields, to its end, whatever kind of end that is."""
        try:
            async with aclosing(turn(held.run)) as items:
                async for item in items:
                    held.take(item)
            closing = held.closing or _unexpected(held.run, "has no closing event")
        except asyncio.CancelledError as error:
            closing = held.closing or Failed.of(Interrupted())
            if not accept_cancellation():
                closing = _unexpected(held.run, "let a cancellation escape", error)
        except Exception as error:
            closing = _unexpected(held.run, "failed", error)
        is_stored = False
        try:
            await held.store(closing)
            is_stored = True
        except LeaseLost:
            closing = Failed.of(Interrupted())
        except DatabaseFailed as error:
            closing = _unexpected(held.run, "could not be stored", error, TryAgain)
        except Exception as error:
            closing = _unexpected(held.run, "could not be stored", error)
        held.show(closing)
        if is_stored:
            self._ended.append((self._loop.time(), held.run.id))
        else:
            del self._held[held.run.id]  # in the log, another end follows what is stored
        self._forget()

    def _forget(self) -> None:
        oldest = self._loop.time() - _KEPT_S
        while self._ended and (len(self._ended) > self._kept_runs or self._ended[0][0] < oldest):
            del self._held[self._ended.popleft()[1]]

    # --- leases -----------------------------------------------------------------------------------

    def _running(self) -> list[RunId]:
        return [run_id for run_id, held in self._held.items() if not held.is_ended]

    def _claim(self) -> Claim:
        # The writer keeps the order of jobs, so a run is known here before its lease is seen.
        alive = frozenset((*self._admissions, *self._running()))
        stale_before = self._now() - timedelta(seconds=self._stale_s)
        return Claim(self._holder, alive, stale_before)

    async def _sweep(self) -> None:
        job = partial(leases.sweep, claim=self._claim(), now=self._now())
        if closed := await _stored(self._store.writer.submit(job)):
            _log.warning("Runs closed as interrupted, whose processes are gone: %d.", closed)

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(self._stale_s / 3)
            self._forget()
            # In the order in which all who lock several conversations do it.
            runs = sorted(self._running(), key=lambda id: self._held[id].run.conversation_id)
            job = partial(leases.beat, runs=runs, claim=self._claim(), now=self._now())
            try:
                lost = await self._store.writer.submit(job)
            except DatabaseFailed as error:
                _log.warning("The leases of the runs could not be renewed.", exc_info=error)
                continue
            for run_id in lost:
                if (held := self._held.get(run_id)) is not None:
                    held.give_up()

    # --- reading ----------------------------------------------------------------------------------

    async def find(self, run_id: str, actor: Actor) -> RunHandle:
        """Look up one of an actor's runs.

        Raises: NotFound, for another's run as for an unknown one; TryAgain.
        """
        held = self._held.get(RunId(run_id))
        if held is not None and owner_key(held.run.actor) == owner_key(actor):
            return held.run
        return await self._read(partial(records.find_run, run_id=run_id, actor=actor))

    async def entries(
        self, conversation_id: str, actor: Actor, *, after: int = 0, limit: int = 100
    ) -> EntryPage:
        """Read a conversation's entries behind ``after``, oldest first.

        Raises: NotFound, for another's conversation as for an unknown one; TryAgain.
        """
        query = partial(
            records.read_entries,
            conversation_id=conversation_id,
            actor=actor,
            after=_cursor(after),
            limit=max(1, min(limit, MAX_PAGE)),
        )
        return await self._read(query)

    def tail(self, run: RunHandle, *, after: int = 0, live: bool = False) -> AsyncGenerator[bytes]:
        """Show a run's events behind ``after`` as they come, to its closing event.

        Yields SSE frames, ``id: <run id>:<seq>`` and ``data: <JSON>``; those that are ready
        together come joined. Without ``live``, the types in ``LIVE`` are left out. A cursor beyond
        what is stored gets one ``resync`` event. Raises while iterating: NotFound when the run was
        deleted, TryAgain.
        """
        held = self._held.get(run.id)
        if held is None:
            return self._tail_log(run.id, _cursor(after), live)
        return self._tail_held(held, _cursor(after), live)

    async def _tail_held(self, held: HeldRun, after: int, live: bool) -> AsyncGenerator[bytes]:
        frames = held.frames if live else held.quiet_frames
        if after > len(frames):
            yield await self._read(partial(records.resync, run_id=held.run.id))
            return
        while True:
            if after < len(frames):
                part, after = b"".join(frames[after:]), len(frames)
                if part:
                    yield part
            elif held.is_ended:
                return
            else:
                await held.changed.wait()

    async def _tail_log(self, run_id: RunId, after: int, live: bool) -> AsyncGenerator[bytes]:
        shortest, longest = _POLL_S
        pause_s, patience_s = shortest, _LAG_S
        while not self._is_closing:
            query = partial(
                records.read_log, run_id=run_id, after=after, claim=self._claim(), live=live
            )
            page = await self._read(query)
            if page.is_orphaned:
                await self._sweep()
                continue
            if after > page.own_seq:
                if page.is_closed or patience_s <= 0:
                    yield await self._read(partial(records.resync, run_id=run_id))
                    return
                patience_s -= pause_s
            elif page.last_seq > after:
                after, pause_s = page.last_seq, shortest
                if page.frames:
                    yield page.frames
            if page.is_closed:
                return
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, longest)

    async def _read(self, query: Job[T]) -> T:
        return await _stored(self._store.read(query))


# --- ends -----------------------------------------------------------------------------------------


def _unexpected(
    run: Run,
    what: str,
    error: BaseException | None = None,
    public: type[ChatError] = ChatFailed,
) -> Failed:
    """Log a failure under an id that the client is told."""
    error_id = secrets.token_hex(8)
    _log.error("Turn of run %s %s (error %s).", run.id, what, error_id, exc_info=error)
    return Failed.of(public(), error_id)


async def _stored(work: Awaitable[T]) -> T:
    """Give the failures of the database their public name."""
    try:
        return await work
    except DatabaseFailed as error:
        _log.warning("The chat database failed.", exc_info=error)
        raise TryAgain from error


def _cursor(after: int) -> int:
    return max(0, min(after, _MOST))
