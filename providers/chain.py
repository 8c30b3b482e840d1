"""Providers that stand in for each other: of those that can answer, the first one does.

One that can't is passed over before anything of its answer has come, and rests: as long as its
vendor says, else half a minute. What rests is known to all runs of a process. Source: design.md 7.
"""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from providers.base import BaseLLMProvider, turn_deadline
from providers.retries import Unavailable, VendorError, with_retries
from schema.events import ChatEvent, Message, ToolDefinition

_log = logging.getLogger(__name__)

_REST_S = 30.0
"""How long a provider rests whose vendor does not say."""
_EARLY_S = 0.01
"""How much too early a timer may fire: some loops count whole milliseconds."""


@dataclass(slots=True)
class Member:
    """One provider of a chain, and since when it may be asked again, by the chain's clock."""

    name: str
    make: Callable[[], BaseLLMProvider]
    retries: int = 0
    """How often it may be asked again in one completion."""
    closed_until: float = 0.0
    """Its vendor wants no request before."""
    rests_until: float = 0.0
    """Others are asked first before."""


@dataclass(frozen=True, slots=True)
class _Begun:
    """An answer of which something has come; nobody else can give it any more."""

    first: ChatEvent
    rest: AsyncIterator[ChatEvent]


class Chain:
    """The provider of one run, which asks the members in their order; all runs share these."""

    def __init__(
        self,
        members: Sequence[Member],
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._members, self._clock, self._sleep = members, clock, sleep
        self._made: dict[str, BaseLLMProvider] = {}

    async def complete(
        self, messages: list[Message], tools: list[ToolDefinition]
    ) -> AsyncGenerator[ChatEvent]:
        """Stream the completion of the first member that begins one.

        Raises: Unavailable when none does; TimeoutError when all have let it wait too long.
        """
        begun = await with_retries(
            partial(self._begun, messages, tools),
            retries=max(member.retries for member in self._members),
            deadline=turn_deadline(),
            sleep=self._sleep,
        )
        rest = begun.rest
        try:
            yield begun.first
            async for event in rest:
                yield event
        finally:
            if isinstance(rest, AsyncGenerator):
                await rest.aclose()

    async def _begun(self, messages: list[Message], tools: list[ToolDefinition]) -> _Begun:
        """Ask each member that may be asked, once, until one begins to answer."""
        failure: Unavailable | TimeoutError | None = None
        for member in self._in_turn():
            events = aiter(self._provider(member).complete([*messages], [*tools]))
            try:
                begun = _Begun(await anext(events), events)
            except StopAsyncIteration:
                error = Unavailable()
            except (Unavailable, TimeoutError) as raised:
                error = raised
            else:
                member.rests_until = 0
                return begun
            self._rest(member, error)
            failure = failure if isinstance(failure, Unavailable) else error
        if isinstance(failure, TimeoutError):
            raise failure
        raise Unavailable(self._wait()) from failure or VendorError("All want to be spared.")

    def _in_turn(self) -> Iterator[Member]:
        """Give each member that may be asked when its turn comes; those that rest come last."""
        left = [*self._members]
        while True:
            now = self._clock()
            open_now = [member for member in left if member.closed_until <= now + _EARLY_S]
            if not open_now:
                return
            member = min(open_now, key=lambda each: each.rests_until > now)
            left.remove(member)
            yield member

    def _provider(self, member: Member) -> BaseLLMProvider:
        if member.name not in self._made:
            self._made[member.name] = member.make()
        return self._made[member.name]

    def _rest(self, member: Member, error: Unavailable | TimeoutError) -> None:
        now = self._clock()
        wait = error.retry_after if isinstance(error, Unavailable) else None
        # Another run may have been told of a longer time meanwhile.
        member.closed_until = max(member.closed_until, now + (wait or 0))
        member.rests_until = max(member.closed_until, now + (_REST_S if wait is None else wait))
        _log.warning(
            "The %s can't answer, and rests for %.0f s: %s",
            member.name,
            member.rests_until - now,
            str(error.__cause__ or "") or type(error).__name__,
        )

    def _wait(self) -> float | None:
        """Tell how long none may be asked; None if one may be."""
        wait = min(member.closed_until for member in self._members) - self._clock()
        return wait if wait > 0 else None
