"""Asking a vendor again: only while nothing has come, and not before the vendor wants it.

Source: bug-cases.md H10; reliability.md P40.
"""

import asyncio
import math
import re
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TypeVar

import orjson
from tenacity import (
    AsyncRetrying,
    RetryCallState,
    retry_if_exception_type,
    stop_after_attempt,
    stop_any,
    wait_random_exponential,
)
from tenacity.stop import stop_base

from schema.errors import ProviderFailed
from schema.events import Json

_T = TypeVar("_T")

_BACKOFF = wait_random_exponential(multiplier=1, max=20, min=0.5)
"""Where the vendor does not say how long to wait."""
_RETRY_INFO = "google.rpc.RetryInfo"
_MOST_WAIT_S = 31_536_000
"""What is longer is no wait: some say a moment in seconds instead."""
_DURATION = re.compile(r"[0-9]{1,12}(\.[0-9]{1,9})?s")


class VendorError(Exception):
    """What a vendor or the way to it answered with: the log's side of a public error.

    Its text holds no key, no address and no header.
    """


class Unavailable(ProviderFailed):
    """A provider can't answer at the moment; another time, or another provider, may.

    ``retry_after`` is in seconds; None if the vendor did not say how long to wait.
    """

    def __init__(self, retry_after: float | None = None) -> None:
        is_wait = retry_after is not None and 0 <= retry_after <= _MOST_WAIT_S
        self.retry_after = retry_after if is_wait else None
        seconds = None if self.retry_after is None else math.ceil(self.retry_after)
        super().__init__(retry_after_seconds=seconds)


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


def retry_after(headers: Mapping[str, str], now: datetime, body: bytes = b"") -> float | None:
    """Read how many seconds to wait: the most that a vendor says; None if it says nothing.

    ``headers`` are found by lower-case names. Retry-After is a number of seconds or a date,
    Retry-After-Ms a number of milliseconds; Google says it in the ``body`` of an error. Whatever
    else stands there says nothing. Source: RFC 9110 10.2.3; google.rpc.RetryInfo.
    """
    text = headers.get("retry-after", "").strip()
    seconds = _number(text)
    milliseconds = _number(headers.get("retry-after-ms", ""))
    told = [
        _until(text, now) if seconds is None else seconds,
        None if milliseconds is None else milliseconds / 1000,
        *_delays(body),
    ]
    return max(
        (wait for wait in told if wait is not None and 0 <= wait <= _MOST_WAIT_S), default=None
    )


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _delays(body: bytes) -> list[float]:
    try:
        told: Json = orjson.loads(body)
    except ValueError:
        return []
    match told:
        case {"error": {"details": [*details]}} | [{"error": {"details": [*details]}}]:
            return [delay for detail in details if (delay := _delay(detail)) is not None]
        case _:
            return []


def _delay(detail: Json) -> float | None:
    match detail:
        case {"@type": str(kind), "retryDelay": str(delay)} if kind.endswith(_RETRY_INFO):
            return float(delay[:-1]) if _DURATION.fullmatch(delay) else None
        case _:
            return None


def _until(text: str, now: datetime) -> float | None:
    try:
        moment = parsedate_to_datetime(text)
    except ValueError:
        return None
    # A date without a zone is in GMT, as all of these are.
    known = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return max(0.0, (known - now).total_seconds())
