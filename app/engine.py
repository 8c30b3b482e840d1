"""The turn: from a command to events, and the one place where a failure gets its public name.

Transports hand in a command and an actor, and tail the run that they get back. Source: design.md 3.
"""

import asyncio
import logging
import secrets
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from datetime import datetime
from weakref import WeakKeyDictionary

from app.conversation import history, system_prompt, tool_list
from app.loop import Budget, Loop
from app.runs import Run, RunHost
from app.settings import Settings
from app.store import NewEntry
from providers.base import BaseLLMProvider
from schema.errors import BadMessage, ChatError, ChatFailed, DeadlineExceeded
from schema.events import Actor, Ask, Event, Failed, Message
from schema.index import SchemaIndex
from schema.query import Reader
from schema.tools import ToolContext, ToolRegistry, direct_tools
from schema.views import View

_log = logging.getLogger(__name__)


class TurnEngine:
    """Runs turns. One instance serves all actors and transports."""

    def __init__(
        self,
        *,
        settings: Settings,
        host: RunHost,
        reader: Reader,
        tools: ToolRegistry,
        provider: Callable[[], BaseLLMProvider],
        now: Callable[[], datetime],
    ) -> None:
        self._settings = settings
        self._host = host
        self._reader = reader
        self._tools = tools
        self._tool_list = tool_list(tools.definitions, direct=settings.tool_strategy == "direct")
        self._direct: WeakKeyDictionary[SchemaIndex, ToolRegistry] = WeakKeyDictionary()
        self._provider = provider
        self._now = now

    async def run(self, command: Ask, actor: Actor) -> Run:
        """Admit a command and start its run; the run's events are read with ``RunHost.tail``.

        Raises: BadMessage, NotFound, TurnInProgress, TryAgain; then nothing was started or stored.
        """
        self._check(command.text)
        return await self._host.start(command, actor, self._turn)

    def _check(self, text: str) -> None:
        if not text.strip():
            raise BadMessage
        if "\0" in text:
            raise BadMessage("The text must not contain a NUL character.")
        if len(text) > self._settings.max_message_chars:
            limit = self._settings.max_message_chars
            raise BadMessage(f"The text must not be longer than {limit} characters.")

    async def _turn(self, run: Run) -> AsyncGenerator[Event | NewEntry]:
        deadline = asyncio.get_running_loop().time() + self._settings.turn_timeout_seconds
        loop: Loop | None = None
        try:
            async with asyncio.timeout_at(deadline):
                context = await self._context(run.actor)
            budget = Budget(self._settings.max_retries_per_message, self._settings.rounds, deadline)
            loop = Loop(self._provider(), self._offered(context.view), context, budget)
            async with aclosing(loop.run(self._messages(run, context))) as items:
                async for item in items:
                    yield item
        except (Exception, asyncio.CancelledError) as error:
            for item in loop.unfinished() if loop is not None else ():
                yield item
            if isinstance(error, asyncio.CancelledError):
                raise
            failed = _public(error)
            yield NewEntry("error", failed.message, name=failed.code)
            yield failed

    async def _context(self, actor: Actor) -> ToolContext:
        view = await self._reader.view(actor)
        return ToolContext(actor, view, self._reader)

    def _offered(self, view: View) -> ToolRegistry:
        """The tools for an actor; the direct ones are made once for all who see the same."""
        if self._settings.tool_strategy == "discovery":
            return self._tools
        known = self._direct.get(view.index)
        if known is None:
            known = self._tools.extended(direct_tools(view.managers.values()))
            self._direct[view.index] = known
        return known

    def _messages(self, run: Run, context: ToolContext) -> list[Message]:
        prompt = system_prompt(
            self._tool_list,
            context.view,
            self._settings.system_prompt,
            self._now().astimezone(self._settings.timezone),
        )
        return [prompt, *history(run.window), Message("user", run.ask.text)]


def _public(error: Exception) -> Failed:
    """Map any failure of a turn to its event; what is not a public error goes to the log."""
    match error:
        case ChatError():
            known = error
        case TimeoutError():
            known = DeadlineExceeded()
        case _:
            known = ChatFailed()
    error_id = None
    if known is not error or known.__cause__ is not None:
        error_id = secrets.token_hex(8)
        _log.error("The turn failed with %s (error %s).", known.code, error_id, exc_info=error)
    return Failed.of(known, error_id)
