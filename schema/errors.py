"""The three kinds of error, told apart by who reads them.

    ChatError            the client: a stable code and a fixed public sentence
    ├── BadMessage       bad_message
    ├── BadEvent         bad_event
    ├── Unauthorized     unauthorized
    ├── Denied           denied
    ├── NotFound         not_found
    ├── TurnInProgress   turn_in_progress
    ├── ToolRetryLimit   tool_retry_limit
    ├── TurnLimit        turn_limit
    ├── ProviderFailed   provider_failed
    ├── ContextOverflow  context_overflow
    ├── DeadlineExceeded deadline_exceeded
    ├── Interrupted      interrupted
    ├── TryAgain         try_again
    └── ChatFailed       chat_error
    ToolError            the model: it travels as a tool result and never ends a turn
    ├── ToolRetry        the arguments were wrong: correct them and call again
    │   └── UnknownTool  no tool of this name is offered
    └── ToolFailed       give up on this call
    ConfigurationError   the developer, at start-up: says what is wrong and what fixes it

Details stay in ``__cause__`` and go to the log under the event's ``error_id``; ``str(error)`` of
the first two kinds is safe to show to its reader. Source: design.md 4, codes.
"""

import logging
from collections.abc import Callable, Generator
from contextlib import contextmanager
from inspect import isawaitable
from typing import ClassVar

_log = logging.getLogger(__name__)


class ChatError(Exception):
    """A failure a client may see. Its text is the public sentence, or a reason that is as public.

    A reason names fields, limits and remedies, and never repeats the input.
    """

    code: ClassVar[str]
    public: ClassVar[str]
    status: ClassVar[int] = 200

    def __init__(
        self, reason: str | None = None, *, retry_after_seconds: int | None = None
    ) -> None:
        super().__init__(reason or self.public)
        self.retry_after_seconds = retry_after_seconds


class BadMessage(ChatError):
    """The text is missing, blank or too long, or another field is not valid.

    Source: seed, error codes.
    """

    code = "bad_message"
    public = "The message must be a JSON object with a non-empty text."


class BadEvent(ChatError):
    """The request can't be read: malformed JSON, or a frame of an unknown type.

    A wrong method has the status 405, what is too large 413, another content type 415, a wrong
    parameter 422. Source: seed, error codes.
    """

    code = "bad_event"
    public = "The request is malformed."


class Unauthorized(ChatError):
    """The credentials that came along are not valid, or not any more."""

    code = "unauthorized"
    public = "The credentials are not valid."
    status = 401


class Denied(ChatError):
    """The permission said no, the CSRF token is missing, or the host or origin is not allowed."""

    code = "denied"
    public = "You are not allowed to do this."
    status = 403


class NotFound(ChatError):
    """The id is unknown or belongs to someone else; the two are not told apart."""

    code = "not_found"
    public = "Not found."
    status = 404


class TurnInProgress(ChatError):
    """Another turn of the conversation is still running. Source: seed, error codes."""

    code = "turn_in_progress"
    public = "Another turn is still running in this conversation. Wait for it to end."


class ToolRetryLimit(ChatError):
    """The model asked for more reads than a message may use. Source: seed, error codes."""

    code = "tool_retry_limit"
    public = "The request needed more data lookups than one message may use."


class TurnLimit(ChatError):
    """The turn used up its provider rounds. Source: seed, error codes."""

    code = "turn_limit"
    public = "The request needed more steps than one message may use."


class ProviderFailed(ChatError):
    """The model's stream was refused, broken or unfinished. Source: seed, planned reasons."""

    code = "provider_failed"
    public = "The provider could not complete the request."


class ContextOverflow(ChatError):
    """The conversation, or what its tools returned, does not fit into the model's context."""

    code = "context_overflow"
    public = "The conversation is too long for the model. Start a new one."


class DeadlineExceeded(ChatError):
    """A time limit was reached: the turn's, or one that a provider keeps itself."""

    code = "deadline_exceeded"
    public = "The request reached its time limit."


class Interrupted(ChatError):
    """The process that ran the turn went away before the turn ended."""

    code = "interrupted"
    public = "The answer was interrupted. Send the message again."


class TryAgain(ChatError):
    """Nothing was done, for now: the database is busy, or the server is starting or ending."""

    code = "try_again"
    public = "The request could not be stored. Try again."
    status = 503


class ChatFailed(ChatError):
    """Anything unexpected on our side; the log has the details. Source: seed, error codes."""

    code = "chat_error"
    public = "The request could not be completed."


class ToolError(Exception):
    """A failure the model reads and may react to. Shape: {"status": "error", "code", "message"}."""

    code: ClassVar[str]


class ToolRetry(ToolError):
    """The call was wrong in a way the model can correct; the message names what is valid."""

    code = "invalid_arguments"


class UnknownTool(ToolRetry):
    """The model asked for a tool that is not offered; the message lists those that are."""

    code = "unknown_tool"


class ToolFailed(ToolError):
    """The call can't succeed; asking again in the same way is useless."""

    code = "tool_failed"


class ConfigurationError(Exception):
    """The set-up is wrong. Its text is an id, the problem and the fix.

    Ids: E001 schema, E002 settings, E003 missing extra, E004 provider import. Source: seed, system
    checks.
    """

    def __init__(self, id: str, problem: str, fix: str) -> None:
        super().__init__(f"{id}: {problem} {fix}")
        self.id, self.problem, self.fix = id, problem, fix


@contextmanager
def guarded(what: str) -> Generator[None]:
    """Run code that is not ours, such as a tool: whatever it raises becomes a ToolError.

    An unexpected exception goes to the log under the name ``what`` and becomes a ``ToolFailed``
    that tells nothing of it.
    """
    try:
        yield
    except ToolError:
        raise
    except Exception as error:
        _log.exception("%s failed", what)
        raise ToolFailed("The tool failed unexpectedly. Do not repeat this call.") from error


async def awaited(found: object) -> object:
    """What a project's function gave, which may be sync or async, or sync and give on a coroutine.

    A coroutine is never the answer itself: it would count as true, whatever it would have said.
    """
    while isawaitable(found):
        found = await found
    return found


async def guarded_answer(what: str, call: Callable[[], object]) -> object:
    """As ``guarded``, for a project's function that may be sync or async."""
    with guarded(what):
        return await awaited(call())


@contextmanager
def mapped(error: Exception) -> Generator[None]:
    """Run code that is not ours, for one value of many: what it raises becomes ``error``'s cause.

    Nothing is logged here: a whole page may fail alike.
    """
    try:
        yield
    except Exception as cause:
        raise error from cause
