"""Mode ``loop``: the model and the tools take turns until the model answers.

In a round, text goes through as it comes; the calls of a finished completion run together, all
calls shown first and all results after, in call order. Source: design.md 3.
"""

import asyncio
import logging
import secrets
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

import orjson

from app.conversation import round_messages
from app.entries import NewEntry, call_error, interrupted_call
from app.keys import clean
from providers.base import BaseLLMProvider, complete_round
from schema.errors import (
    DeadlineExceeded,
    ToolError,
    ToolFailed,
    ToolRetry,
    ToolRetryLimit,
    TurnLimit,
)
from schema.events import (
    CallId,
    Done,
    DoneEvent,
    Event,
    Json,
    JsonObject,
    Message,
    TextChunk,
    TextChunkEvent,
    ToolCall,
    ToolCallEvent,
    ToolResult,
    Usage,
    UsageReported,
    is_object,
)
from schema.tools import ToolContext, ToolRegistry

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Budget:
    """What one turn may use: read calls (failed ones count), rounds, and time.

    ``deadline`` is a moment of the event loop's clock.
    """

    reads: int
    rounds: int
    deadline: float


@dataclass(frozen=True, slots=True)
class _Call:
    """A call under our own id: the provider's ids may repeat from round to round."""

    id: CallId
    name: str
    args: JsonObject
    arguments: str
    refusal: ToolError | None = None


@dataclass(frozen=True, slots=True)
class _Outcome:
    call: _Call
    result: Json
    text: str
    status: Literal["succeeded", "failed", "interrupted"]


class Loop:
    """One turn in mode ``loop``; used once."""

    def __init__(
        self,
        provider: BaseLLMProvider,
        tools: ToolRegistry,
        context: ToolContext,
        budget: Budget,
    ) -> None:
        self._provider = provider
        self._tools = tools
        self._context = context
        self._budget = budget
        self._reads_left = budget.reads
        self._round = 0
        self._usage = Usage(cost_usd=Decimal(0))
        self._text: list[str] = []
        self._calls: list[ToolCallEvent] = []
        self._open: list[_Call] = []
        self._outcomes: dict[CallId, _Outcome] = {}

    async def run(self, messages: list[Message]) -> AsyncGenerator[Event | NewEntry]:
        """Yield the turn's events and entries; ``Done`` is the last.

        Raises: ChatError when a budget is used up or the provider fails; what was yielded stands.
        """
        while True:
            self._begin_round()
            async with aclosing(self._listen(messages)) as chunks:
                async for chunk in chunks:
                    yield chunk
            said = self._say()
            for entry in said:
                yield entry
            yield UsageReported(usage=self._usage)
            if not self._calls:
                yield Done(usage=self._usage)
                return
            self._open = self._admit()
            for call in self._open:
                yield ToolCall(id=call.id, name=call.name, args=call.args)
            await self._execute(self._open)
            results, entries = self._settle()
            for item in (*results, *entries):
                yield item
            messages += round_messages([*said, *entries])

    def unfinished(self) -> list[ToolResult | NewEntry]:
        """Return what a turn that ends here still has to yield, so that it keeps all it has shown.

        Calls that are over have their results, and the others are interrupted.
        """
        said = self._say()
        results, entries = self._settle()
        return [*said, *results, *entries]

    def _say(self) -> list[NewEntry]:
        text = "".join(self._text)
        self._text.clear()
        return [NewEntry("assistant", text, round=self._round)] if text else []

    def _settle(self) -> tuple[list[ToolResult], list[NewEntry]]:
        """Answer the open calls, in their order."""
        outcomes = [self._outcomes.get(call.id) or _interrupted(call) for call in self._open]
        self._open, self._outcomes = [], {}
        results = [ToolResult(id=o.call.id, name=o.call.name, result=o.result) for o in outcomes]
        return results, [self._entry(outcome) for outcome in outcomes]

    def _begin_round(self) -> None:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            # A provider or a tool has gone on all the same.
            raise asyncio.CancelledError
        if self._round >= self._budget.rounds:
            raise TurnLimit
        if asyncio.get_running_loop().time() >= self._budget.deadline:
            raise DeadlineExceeded
        self._round += 1
        self._calls = []

    async def _listen(self, messages: list[Message]) -> AsyncGenerator[Event]:
        """Pass text through and keep the calls until the completion is over."""
        # Without reads left the model gets no tools at all, so that it answers with what it has.
        offered = self._tools.definitions if self._reads_left or self._round == 1 else []
        completion = complete_round(self._provider, messages, offered, self._budget.deadline)
        async with aclosing(completion) as events:
            async for event in events:
                match event:
                    case TextChunkEvent(content=content):
                        if content:
                            self._text.append(content)
                            yield TextChunk(content=content)
                    case ToolCallEvent():
                        self._calls.append(event)
                    case DoneEvent(usage=usage):
                        self._usage += usage

    def _admit(self) -> list[_Call]:
        """Charge the calls to the read budget; a batch that does not fit is refused whole."""
        if len(self._calls) > self._reads_left:
            raise ToolRetryLimit
        self._reads_left -= len(self._calls)
        return [_own(call) for call in self._calls]

    async def _execute(self, calls: list[_Call]) -> None:
        """Run the calls together; none is at work any more when this returns or raises."""
        if len(calls) == 1:
            await self._call(calls[0])
            return
        async with asyncio.TaskGroup() as group:
            for call in calls:
                group.create_task(self._call(call))

    async def _call(self, call: _Call) -> None:
        self._outcomes[call.id] = await self._outcome(call)

    async def _outcome(self, call: _Call) -> _Outcome:
        try:
            if call.refusal is not None:
                raise call.refusal
            async with asyncio.timeout_at(self._budget.deadline):
                result = await self._tools.call(call.name, call.args, self._context)
            return _Outcome(call, result, _text(call.name, result), "succeeded")
        except ToolError as error:
            code, message = error.code, str(error)
        except TimeoutError:
            code, message = DeadlineExceeded.code, DeadlineExceeded.public
        refused = call_error(code, message)
        return _Outcome(call, refused, _text(call.name, refused), "failed")

    def _entry(self, outcome: _Outcome) -> NewEntry:
        return NewEntry(
            "action",
            round=self._round,
            name=outcome.call.name,
            call_id=outcome.call.id,
            arguments=outcome.call.arguments,
            result=outcome.text,
            status=outcome.status,
        )


def _own(call: ToolCallEvent) -> _Call:
    """Give a call our id; arguments that no JSON object can hold refuse the call, not the turn.

    What runs is what is shown and stored: the arguments as they are read back from their text.
    """
    id, name = CallId(f"call_{secrets.token_hex(8)}"), clean(call.name)
    try:
        arguments = orjson.dumps(call.args)
    except TypeError:
        arguments = b"null"
    args = orjson.loads(arguments)
    if is_object(args):
        return _Call(id, name, args, arguments.decode())
    # Its numbers may be of any size, which JSON has and ours has not.
    what = "JSON, with integers of 64 bits" if is_object(call.args) else "a JSON object"
    return _Call(id, name, {}, "{}", ToolRetry(f"The arguments must be {what}."))


def _interrupted(call: _Call) -> _Outcome:
    result = interrupted_call()
    return _Outcome(call, result, _text(call.name, result), "interrupted")


def _text(tool: str, result: Json) -> str:
    try:
        return orjson.dumps(result).decode()
    except TypeError as error:
        _log.error("tool %s returned no JSON", tool, exc_info=error)
        raise ToolFailed("The tool returned no JSON. Do not repeat this call.") from error
