"""A provider that plays a script: for our tests and evals, and for users' own tests.

A script is a list of completions; a completion is one step or a list of steps. All providers made
from one script share their place in it, because an application makes a new provider for each run:

    script = Script(
        [say("Let me look. "), call("query", manager="Part")],
        say("There are ", "3 parts."),
    )
    app = create_app(managers, Settings(provider=script))
    ...
    assert script.requests[1].tool_result("query")["total_count"] == 3
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal

from providers.base import (
    ChatEvent,
    DoneEvent,
    Message,
    TextChunkEvent,
    ToolCallEvent,
    ToolDefinition,
)
from schema.events import Json, JsonObject, Usage

__all__ = [
    "Completion",
    "Request",
    "Script",
    "ScriptEnded",
    "ScriptedProvider",
    "Step",
    "call",
    "cut",
    "emit",
    "fail",
    "say",
    "spend",
    "wait",
]


class ScriptEnded(LookupError):
    """More completions were asked for than the script has."""

    def __init__(self, length: int, asked: int) -> None:
        completions = "1 completion" if length == 1 else f"{length} completions"
        super().__init__(f"The script has {completions}, but completion {asked} was asked for.")


@dataclass(frozen=True, slots=True)
class _Events:
    events: tuple[ChatEvent, ...]


@dataclass(frozen=True, slots=True)
class _Call:
    name: str
    args: JsonObject
    id: str | None


@dataclass(frozen=True, slots=True)
class _Cut:
    pass


Step = _Events | _Call | _Cut | Usage | asyncio.Event | BaseException


def say(*chunks: str) -> Step:
    """Stream text, one chunk per argument."""
    return _Events(tuple(map(TextChunkEvent, chunks)))


def call(
    name: str, args: JsonObject | None = None, /, *, call_id: str | None = None, **more: Json
) -> Step:
    """Call a tool with the arguments in ``args`` and those given by name.

    Without ``call_id`` the call is numbered within its completion.
    """
    return _Call(name, {**(args or {}), **more}, call_id)


def spend(input_tokens: int = 0, output_tokens: int = 0, cost_usd: Decimal | None = None) -> Step:
    """Report usage with the completion's ``DoneEvent``."""
    return Usage(input_tokens, output_tokens, cost_usd)


def wait(gate: asyncio.Event) -> Step:
    """Go on when the test sets ``gate``."""
    return gate


def fail(error: BaseException) -> Step:
    """Raise ``error`` at this point."""
    return error


def cut() -> Step:
    """End the completion without ``DoneEvent``, as a broken connection does."""
    return _Cut()


def emit(event: ChatEvent) -> Step:
    """Yield any event, for streams that no sound provider sends."""
    return _Events((event,))


@dataclass(frozen=True, slots=True)
class Request:
    """What one completion was asked with."""

    messages: tuple[Message, ...]
    tools: tuple[ToolDefinition, ...]

    @property
    def tool_names(self) -> tuple[str, ...]:
        """The names of the tools on offer, in their order."""
        return tuple(tool.name for tool in self.tools)

    def tool_result(self, name: str) -> Json:
        """Return the newest result of a tool.

        Raises: LookupError if the messages have none.
        """
        for message in reversed(self.messages):
            if message.role == "tool" and message.tool_name == name:
                return message.tool_result
        raise LookupError(f"No result of {name} in {len(self.messages)} messages.")


Reply = Callable[[Request], "Step | Sequence[Step]"]
"""A completion that depends on the request."""

Completion = Step | Sequence[Step] | Reply


class Script:
    """What providers will say, and what they were asked.

    Calling it makes a provider, so it stands wherever a provider class can. ``repeat`` starts
    over at the end. ``requests`` has one entry per completion asked for, over all providers.
    """

    def __init__(self, *completions: Completion, repeat: bool = False) -> None:
        self.completions = list(completions)
        self.repeat = repeat
        self.requests: list[Request] = []

    def __call__(self) -> "ScriptedProvider":
        """Make a provider that goes on where the script stands."""
        return ScriptedProvider(self)

    def will(self, *completions: Completion) -> None:
        """Add completions at the end."""
        self.completions += completions

    @property
    def left(self) -> int:
        """How many completions were not asked for yet; a test that ends at 0 has played all."""
        return max(0, len(self.completions) - len(self.requests))

    def take(self, request: Request) -> Sequence[Step]:
        """Record a request and return the steps that answer it.

        Raises: ScriptEnded if there are none left.
        """
        place, length = len(self.requests), len(self.completions)
        self.requests.append(request)
        if self.repeat and length:
            place %= length
        if place >= length:
            raise ScriptEnded(length, place + 1)
        completion = self.completions[place]
        steps = completion(request) if callable(completion) else completion
        return steps if isinstance(steps, Sequence) else [steps]


class ScriptedProvider:
    """Plays the next completion of its script each time it is asked."""

    def __init__(self, script: Script) -> None:
        self._script = script

    async def complete(
        self, messages: list[Message], tools: list[ToolDefinition]
    ) -> AsyncIterator[ChatEvent]:
        """Play one completion. The place in the script is taken when the stream is first read."""
        steps = self._script.take(Request(tuple(messages), tuple(tools)))
        usage: Usage | None = None
        for number, step in enumerate(steps, start=1):
            match step:
                case _Events(events):
                    for event in events:
                        yield event
                case _Call(name, args, id):
                    yield ToolCallEvent(id or f"call_{number}", name, args)
                case Usage():
                    usage = step if usage is None else usage + step
                case asyncio.Event():
                    await step.wait()
                case BaseException():
                    raise step
                case _Cut():
                    return
        yield DoneEvent(usage or Usage())
