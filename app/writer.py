"""The door to writing: jobs that are committed at once, and jobs that wait a moment for others."""

import asyncio
from collections.abc import Callable
from typing import Generic, Self

from app.database import Connection, Database, DatabaseFailed, Job, Pending, T

Deferred = Callable[[], tuple[Job[None], Callable[[BaseException | None], None]] | None]
"""Makes a job, and who hears how it ended, when its time comes; None when nothing is to do."""

_WINDOW_S = 0.05
"""How long deferred jobs wait for others at most."""


class Writer:
    """Everybody's way into a database.

    ``submit`` commits at once and takes along all that was deferred; what is deferred waits 50 ms
    at most. Jobs run in the order of submission; one that fails, fails alone. A job may be run
    more than once, and what it did before the last time is undone. A writer belongs to one event
    loop.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._deferred: list[Deferred] = []
        self._timer: asyncio.TimerHandle | None = None
        self._is_closed = False

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._hand_over()
        self._is_closed = True

    def submit(self, job: Job[T]) -> asyncio.Future[T]:
        """Run a job and commit it at once. Whoever stops waiting for it does not undo it."""
        pending = _Submitted(job, self._loop.create_future())
        if self._is_closed:
            pending.future.set_exception(DatabaseFailed("The database is closed."))
        else:
            self._hand_over(pending)
        return pending.future

    def defer(self, job: Deferred) -> None:
        """Run what ``job`` makes with the next commit, in 50 ms at the latest."""
        self._deferred.append(job)
        if self._timer is None:
            self._timer = self._loop.call_later(_WINDOW_S, self._hand_over)

    def _hand_over(self, *last: Pending) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        waiting, self._deferred = self._deferred, []
        made = (make() for make in waiting)
        jobs: list[Pending] = [_Unwatched(*job) for job in made if job is not None]
        jobs += last
        if jobs:
            self._database.commit(jobs)


class _Submitted(Generic[T]):
    """A job whose result somebody waits for."""

    def __init__(self, job: Job[T], future: asyncio.Future[T]) -> None:
        self.job, self.future = job, future
        self.error: BaseException | None = None

    def run(self, connection: Connection) -> None:
        self.result = self.job(connection)

    def settle(self) -> None:
        if self.future.cancelled():
            return
        if self.error is None:
            self.future.set_result(self.result)
        else:
            self.future.set_exception(self.error)


class _Unwatched:
    """A deferred job, which nobody waits for."""

    def __init__(self, job: Job[None], ended: Callable[[BaseException | None], None]) -> None:
        self.job, self.ended = job, ended
        self.error: BaseException | None = None

    def run(self, connection: Connection) -> None:
        self.job(connection)

    def settle(self) -> None:
        self.ended(self.error)
