"""A vendor's model as a provider.

LiteLLM translates requests and streams. All that has to be certain is ours: the timers, what counts
as the end of a stream, retries, whole tool calls, and which error a failure is.
Source: design.md 7.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from types import MappingProxyType
from typing import ClassVar, Self, TypeVar, cast

import httpx

from providers.base import turn_deadline
from providers.deltas import Deltas, Tokens, merged
from providers.lite import (
    Choice,
    Chunk,
    Counts,
    Line,
    LiteLLMImportError,
    Stream,
    failure_of,
    load_litellm,
    missing_key,
)
from providers.options import read_options
from providers.retries import Unavailable, VendorError, with_retries
from providers.translation import with_shorter_result
from providers.upstream import Watch
from providers.wire import CUT_SHORT
from schema.errors import ContextOverflow, ProviderFailed
from schema.events import ChatEvent, DoneEvent, Message, TextChunkEvent, ToolDefinition, Usage
from schema.waiting import wait_until

_T = TypeVar("_T")

_REST_S = 3.0
"""How long the bytes behind the end of an answer are waited for."""


class LiteLLMProvider:
    """A model of any vendor that LiteLLM knows, e.g. ``{"model": "mistral/mistral-large-latest"}``.

    One instance may serve any number of runs, of which it keeps nothing. Inside ``opened`` it keeps
    connections; without it each completion has its own.
    """

    prefix: ClassVar[str | None] = None
    """The vendor, for a class that is of one vendor."""
    defaults: ClassVar[Mapping[str, object]] = MappingProxyType({})
    required_extra: ClassVar[str | None] = None
    missing: ClassVar[type[LiteLLMImportError]] = LiteLLMImportError

    def __init__(
        self,
        config: Mapping[str, object] | None = None,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        now: Callable[[], datetime] = partial(datetime.now, UTC),
    ) -> None:
        self._config = MappingProxyType(dict(config or {}))
        self._options = read_options(self._config, self.defaults_for(self._config))
        self._retries = self._options.max_retries
        self._sleep, self._now = sleep, now
        self._line: Line | None = None

    @classmethod
    def from_config(cls, config: Mapping[str, object]) -> Self:
        """Make a provider of a configuration, which is copied.

        Raises: ConfigurationError E002 that names each wrong key.
        """
        return cls(config)

    @classmethod
    def check_configuration(cls, config: Mapping[str, object] | None = None) -> None:
        """Check a configuration, and that LiteLLM is there.

        Raises: ConfigurationError E002, E003, or E004 for a vendor that can't be asked by a server.
        """
        cls(config)._check()

    def _check(self) -> str | None:
        """Return what gives cause for a warning."""
        try:
            load_litellm()
        except LiteLLMImportError as error:
            raise self.missing(self.required_extra) from error
        names = missing_key(self.model, self._options)
        if names is None:
            return None
        return (
            f"{self.model} has no key: set {names}, or api_key in provider_config. "
            "Without one its vendor refuses every question."
        )

    @classmethod
    def defaults_for(cls, config: Mapping[str, object]) -> Mapping[str, object]:
        """What stands for the keys that a configuration leaves out."""
        return cls.defaults

    @property
    def provider_config(self) -> Mapping[str, object]:
        """The configuration as it was given; read-only."""
        return self._config

    @property
    def model(self) -> str:
        """The model, as LiteLLM names it."""
        name = self._options.model
        if self.prefix is None or name.startswith(f"{self.prefix}/"):
            return name
        return f"{self.prefix}/{name}"

    def leave_retries(self) -> int:
        """Ask once from here on; return how often somebody else may ask again instead."""
        retries, self._retries = self._retries, 0
        return retries

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[str | None]:
        """Be ready inside: LiteLLM is loaded, and connections are kept to the end.

        Gives a warning if the vendor's key is missing. Raises: as ``check_configuration``.
        """
        warning = await asyncio.to_thread(self._check)
        async with self._connected() as self._line:
            try:
                yield warning
            finally:
                self._line = None

    @asynccontextmanager
    async def _connected(self) -> AsyncGenerator[Line]:
        """Give the connections that are kept, else some that are closed at the end.

        Those of one event loop are of no use in another.
        """
        loop, line = asyncio.get_running_loop(), self._line
        if line is not None and line.loop is loop:
            yield line
            return
        line = await asyncio.to_thread(Line, loop, self._options, self.model)
        async with aclosing(line.http):
            yield line

    async def complete(
        self, messages: list[Message], tools: list[ToolDefinition]
    ) -> AsyncGenerator[ChatEvent]:
        """Stream one completion; tool calls come when the vendor has ended it properly.

        Raises: ProviderFailed, ContextOverflow, and TimeoutError when a timer of ours has run out.
        """
        deadline = turn_deadline()
        async with self._connected() as line:
            try:
                answer = await self._begun(line, messages, tools, deadline)
            except ContextOverflow:
                shorter = with_shorter_result(messages)
                if shorter is None:
                    raise
                answer = await self._begun(line, shorter, tools, deadline)
            try:
                async with aclosing(answer.events()) as events:
                    async for event in events:
                        yield event
            finally:
                await answer.close()

    async def _begun(
        self, line: Line, messages: list[Message], tools: list[ToolDefinition], deadline: float
    ) -> "_Answer":
        """Ask, and ask again while the vendor is not available; return what has begun to come."""

        async def ask() -> _Answer:
            async with AsyncExitStack() as stack:
                answer = _Answer(line, self._now)
                stack.push_async_callback(answer.close)
                await answer.begin(messages, tools)
                stack.pop_all()
                return answer

        return await with_retries(ask, retries=self._retries, deadline=deadline, sleep=self._sleep)


class _Answer:
    """One request, and what comes of it."""

    def __init__(self, line: Line, now: Callable[[], datetime]) -> None:
        self._line, self._now = line, now
        self._watch = Watch([line.options.api_key] if line.options.api_key else [])
        self._stream: Stream | None = None
        self._first: Chunk | None = None
        self._finish: str | None = None

    async def begin(self, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> None:
        """Ask, and wait for the first event.

        Raises: TimeoutError, Unavailable, ContextOverflow, ProviderFailed.
        """
        deadline = self._line.loop.time() + self._line.options.timeout_seconds
        self._stream = await self._step(deadline, self._line.ask(messages, tools))
        self._first = await self._next(deadline)
        if self._first is None and not self._is_complete:
            raise Unavailable from VendorError(f"{self._line.vendor}: the stream is empty.")

    async def events(self) -> AsyncGenerator[ChatEvent]:
        """Yield the text as it comes, then the calls and the end."""
        deltas, chunk = Deltas(), self._first
        while chunk is not None:
            delta = chunk.choices[0].delta
            if delta.content:
                yield TextChunkEvent(delta.content)
            for call in delta.tool_calls or ():
                deltas.add(
                    index=call.index,
                    id=call.id,
                    name=call.function.name,
                    arguments=call.function.arguments,
                )
            chunk = await self._further()
        self._check_end()
        await self._read_on()
        for call in deltas.calls():
            yield call
        yield DoneEvent(self._usage())

    async def _read_on(self) -> None:
        """See the stream to its last byte: counts may stand there."""
        deadline = self._line.loop.time() + _REST_S
        with suppress(TimeoutError, httpx.ReadError):
            await wait_until(deadline, self._watch.read_on())

    async def _further(self) -> Chunk | None:
        seconds = self._line.options.stream_timeout_seconds
        if self._is_complete:
            if self._watch.wire is not None and self._finish is not None:
                return None  # LiteLLM would only add up, and look up prices at the vendor's
            seconds = min(seconds, _REST_S)
        try:
            return await self._next(self._line.loop.time() + seconds)
        except TimeoutError:
            if not self._is_complete:
                raise
            return None  # only the connection's end does not come

    async def _next(self, deadline: float) -> Chunk | None:
        """Wait for the next chunk that says something; None is the end of the stream."""
        assert self._stream is not None
        while True:
            chunk = await self._step(deadline, anext(self._stream))
            if chunk is None or (not chunk.choices and chunk.get("usage")):
                return None  # the usage that LiteLLM sums up stands behind the end
            if chunk.choices and self._says_something(chunk.choices[0]):
                return chunk

    def _says_something(self, choice: Choice) -> bool:
        wire, delta = self._watch.wire, choice.delta
        if wire is None or wire.is_complete:  # else LiteLLM makes up an end
            self._finish = choice.finish_reason or self._finish
        return bool(
            delta.content or delta.tool_calls or self._finish or delta.get("reasoning_content")
        )

    async def _step(self, deadline: float, work: Awaitable[_T]) -> _T | None:
        """Let LiteLLM go on; None is the end of the stream."""
        try:
            with self._watch.on():
                return await wait_until(deadline, work)
        except (StopAsyncIteration, TimeoutError) as error:
            if isinstance(error, TimeoutError):
                raise
            return None
        except Exception as error:
            failure = failure_of(error, self._watch, self._line.vendor, self._now())
        if self._is_complete:
            return None  # what LiteLLM finds missing, the vendor does not send
        raise failure

    @property
    def _is_complete(self) -> bool:
        """True when the vendor has said that the answer is at its end."""
        wire = self._watch.wire
        return self._finish is not None if wire is None else wire.is_complete

    def _check_end(self) -> None:
        """Refuse an answer that the vendor did not complete; its calls are not run."""
        vendor, wire = self._line.vendor, self._watch.wire
        reason = self._finish if wire is None else wire.reason
        if not self._is_complete:
            raise ProviderFailed from VendorError(f"{vendor}: the stream has no end.")
        if wire is not None and not wire.is_legible:
            raise ProviderFailed from VendorError(f"{vendor}: a part of the stream is no JSON.")
        if reason is not None and reason.lower() in CUT_SHORT:
            raise ProviderFailed from VendorError(f"{vendor}: the answer was stopped ({reason}).")

    def _usage(self) -> Usage:
        tokens = self._tokens()
        return Usage(tokens.sent, tokens.received, self._line.prices.cost_usd(tokens))

    def _tokens(self) -> Tokens:
        """Join what the vendor counted; LiteLLM's own sum has guesses where it did not count."""
        if self._watch.wire is not None:
            return self._watch.wire.tokens
        tokens = Tokens()
        for chunk in self._stream.chunks if self._stream is not None else ():
            # LiteLLM's class of counts, where there are any
            counts = cast("Counts | None", chunk.get("usage"))
            if counts is not None:
                sent, received = counts.prompt_tokens or 0, counts.completion_tokens or 0
                tokens = merged(tokens, Tokens(sent, received))
        return tokens

    async def close(self) -> None:
        """Close the connection, whatever is still to come."""
        await self._watch.close()
        if self._stream is not None:
            await self._stream.aclose()
