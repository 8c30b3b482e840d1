"""The turn: from a run to events, and the one place where a failure gets its public name.

Source: design.md 3.
"""

import asyncio
import logging
import secrets
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from datetime import datetime
from weakref import WeakKeyDictionary

from app.conversation import history, system_prompt, tool_list
from app.entries import NewEntry, Run
from app.loop import Budget, Loop
from app.settings import Settings
from providers.base import BaseLLMProvider
from schema.errors import ChatError, ChatFailed, DeadlineExceeded
from schema.events import Event, Failed, Message
from schema.index import SchemaIndex
from schema.query import Reader
from schema.tools import ToolContext, ToolRegistry, direct_tools
from schema.views import View

_log = logging.getLogger(__name__)


class TurnEngine:
    """Works on runs. One instance serves all actors and transports."""

    def __init__(
        self,
        *,
        settings: Settings,
        reader: Reader,
        tools: ToolRegistry,
        provider: Callable[[], BaseLLMProvider],
        now: Callable[[], datetime],
    ) -> None:
        self._settings = settings
        self._reader = reader
        self._tools = tools
        self._tool_list = tool_list(tools.definitions, direct=settings.tool_strategy == "direct")
        self._direct: WeakKeyDictionary[SchemaIndex, ToolRegistry] = WeakKeyDictionary()
        self._provider = provider
        self._now = now

    async def turn(self, run: Run) -> AsyncGenerator[Event | NewEntry]:
        """Yield the events and entries of a run's turn; ``Done`` or ``Failed`` is the last."""
        deadline = asyncio.get_running_loop().time() + self._settings.turn_timeout_seconds
        loop: Loop | None = None
        try:
            async with asyncio.timeout_at(deadline):
                view = await self._reader.view(run.actor)
            context = ToolContext(run.actor, view, self._reader)
            budget = Budget(self._settings.max_retries_per_message, self._settings.rounds, deadline)
            loop = Loop(self._provider(), self._offered(view), context, budget)
            async with aclosing(loop.run(self._messages(run, view))) as items:
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

    def _offered(self, view: View) -> ToolRegistry:
        """The tools for an actor; the direct ones are made once for all who see the same."""
        if self._settings.tool_strategy == "discovery":
            return self._tools
        known = self._direct.get(view.index)
        if known is None:
            known = self._tools.extended(direct_tools(view.managers.values()))
            self._direct[view.index] = known
        return known

    def _messages(self, run: Run, view: View) -> list[Message]:
        prompt = system_prompt(
            self._tool_list,
            view,
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
