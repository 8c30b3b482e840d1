"""Waiting with a limit, at no cost where there is nothing to wait for.

Most of what is waited for is there at once: the next event of a model's stream, a frame that goes
out. A timer for each would cost more than all that is done with it.
"""

import asyncio
from collections.abc import Awaitable, Generator
from types import TracebackType
from typing import Self, TypeVar

_T = TypeVar("_T")


async def wait_until(deadline: float, work: Awaitable[_T]) -> _T:
    """Wait for ``work``, but not beyond a moment of the event loop's clock.

    Raises: TimeoutError.
    """
    steps = work.__await__()
    try:
        waited = next(steps)
    except StopIteration as done:
        return done.value
    async with asyncio.timeout_at(deadline):
        return await _Begun(steps, waited)


class _Begun(Generator[object, None, _T]):
    """Work that waits already: whoever awaits it waits for that first."""

    def __init__(self, steps: Generator[object, None, _T], waited: object) -> None:
        self._steps, self._waited = steps, [waited]

    def __await__(self) -> Self:
        return self

    def send(self, value: None, /) -> object:
        return self._waited.pop() if self._waited else self._steps.send(value)

    def throw(
        self,
        error: type[BaseException] | BaseException,
        value: object = None,
        traceback: TracebackType | None = None,
        /,
    ) -> object:
        # A task throws one exception that is made; the other forms are of the protocol only.
        return self._steps.throw(error if isinstance(error, BaseException) else error())
