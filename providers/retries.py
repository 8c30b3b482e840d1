"""Asking a vendor again: only while nothing has come, and not before the vendor wants it.

Source: bug-cases.md H10; reliability.md P40.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TypeVar

from tenacity import (
    AsyncRetrying,
    RetryCallState,
    retry_if_exception_type,
    stop_after_attempt,
    stop_any,
    wait_random_exponential,
)
from tenacity.stop import stop_base

_T = TypeVar("_T")

_BACKOFF = wait_random_exponential(multiplier=1, max=20, min=0.5)
"""Where the vendor does not say how long to wait."""


class VendorError(Exception):
    """What a vendor or the way to it answered with: the log's side of a public error.

    Its text holds no key, no address and no header.
    """


class Unavailable(Exception):
    """The vendor can't answer at the moment; ``retry_after`` is in seconds, None if it did not say.

    The cause is a ``VendorError``.
    """

    def __init__(self, retry_after: float | None = None) -> None:
        super().__init__("The vendor is not available.")
        self.retry_after = retry_after


async def with_retries(
    ask: Callable[[], Awaitable[_T]],
    *,
    retries: int,
    deadline: float,
    sleep: Callable[[float], Awaitable[None]],
) -> _T:
    """Ask until the vendor is available; waiting beyond ``deadline`` is not even begun.

    ``deadline`` is a moment of the event loop's clock. Raises: Unavailable, the last one.
    """
    retrying = AsyncRetrying(
        retry=retry_if_exception_type(Unavailable),
        wait=_wait,
        stop=stop_any(stop_after_attempt(retries + 1), _TooLate(deadline)),
        sleep=sleep,
        reraise=True,
    )
    return await retrying(ask)


class _TooLate(stop_base):
    def __init__(self, deadline: float) -> None:
        self._deadline = deadline

    def __call__(self, retry_state: RetryCallState) -> bool:
        return asyncio.get_running_loop().time() + retry_state.upcoming_sleep >= self._deadline


def _wait(state: RetryCallState) -> float:
    error = state.outcome and state.outcome.exception()
    if isinstance(error, Unavailable) and error.retry_after is not None:
        return error.retry_after
    return _BACKOFF(state)


def retry_after(headers: Mapping[str, str], now: datetime) -> float | None:
    """Read how long to wait: a number of seconds, or a date; anything else says nothing.

    ``headers`` are found by lower-case names. Source: RFC 9110 10.2.3.
    """
    text = headers.get("retry-after", "").strip()
    try:
        seconds = float(text)
    except ValueError:
        seconds = _until(text, now)
    return seconds if seconds is not None and 0 <= seconds < math.inf else None


def _until(text: str, now: datetime) -> float | None:
    try:
        moment = parsedate_to_datetime(text)
    except ValueError:
        return None
    # A date without a zone is in GMT, as all of these are.
    known = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return max(0.0, (known - now).total_seconds())
