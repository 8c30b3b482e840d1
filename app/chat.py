"""The chat in a terminal: one question or many, of a desk that is opened here or of a server's.

Source: design.md 4.
"""

import asyncio
import secrets
from collections.abc import AsyncGenerator, Callable
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    aclosing,
    asynccontextmanager,
    suppress,
)
from dataclasses import dataclass

from app.doors import read_ask
from app.main import open_desk
from app.remote import Unanswered, open_remote
from app.settings import Settings
from app.terminal import Screen
from schema import Managers
from schema.errors import ChatError
from schema.events import Actor, Ask, Done, Event, Failed, RunStarted


@dataclass(frozen=True, slots=True)
class Source:
    """Where answers come from: ``run`` gives the events of a turn, to the closing one.

    ``stopped`` says what becomes of an answer that nobody waits for any more. Raises: Unanswered.
    """

    run: Callable[[Ask], AsyncGenerator[Event]]
    stopped: str


Opening = AbstractAsyncContextManager[Source]

with suppress(ImportError):  # it is not everywhere
    import readline

    readline.set_auto_history(True)  # input() has the keys of a line editor, too

_WELCOME = "Ask in plain language. /help says what else there is, Ctrl-D ends."
_HELP = """Each question goes on with the conversation.
/new    begin another conversation
/help   say this
Ctrl-C  stop an answer; with no answer under way, end
Ctrl-D  end, as /quit does"""


@asynccontextmanager
async def open_here(managers: Managers, settings: Settings, actor: Actor) -> AsyncGenerator[Source]:
    """Open a desk for this terminal alone: what nobody reads any more is interrupted."""
    # No session is signed here, so that no secret has to be kept.
    secret = settings.session_secret or secrets.token_urlsafe(32)
    chosen = settings.model_copy(update={"session_secret": secret})
    async with open_desk(managers, chosen) as desk:

        async def run(command: Ask) -> AsyncGenerator[Event]:
            try:
                async with aclosing(desk.run(command, actor, transport="cli")) as events:
                    async for event in events:
                        yield event
            finally:
                await desk.host.interrupt()

        yield Source(run, "Stopped.")


@asynccontextmanager
async def open_there(url: str, token: str | None) -> AsyncGenerator[Source]:
    """Come in at a server, which goes on with an answer that nobody reads any more."""
    async with open_remote(url, token) as desk:
        yield Source(desk.run, "The server goes on with it: ask again then, or begin with /new.")


async def answer(opening: Opening, question: str, screen: Screen) -> bool:
    """Ask in a new conversation and show the answer; False when there is none, and why is told."""
    try:
        async with opening as source:
            return await Conversation(source, screen).ask(question)
    except Unanswered as error:
        screen.fail(str(error))
        return False


def converse(opening: Opening, screen: Screen) -> bool:
    """Ask what is typed, until it ends; False when nothing can be asked, and why is told."""
    with asyncio.Runner() as runner:
        stack = AsyncExitStack()
        try:
            source = runner.run(stack.enter_async_context(opening))
        except Unanswered as error:
            screen.fail(str(error))
            return False
        try:
            _hear(runner, source, screen)
        finally:
            runner.run(stack.aclose())
    return True


def _hear(runner: asyncio.Runner, source: Source, screen: Screen) -> None:
    """Take lines while nothing runs: the loop stands still, so that Ctrl-C is the prompt's."""
    screen.say(_WELCOME, "dim")
    conversation = Conversation(source, screen)
    while (line := _typed(screen)) is not None:
        match line.strip():
            case "":
                pass
            case "exit" | "quit" | "/exit" | "/quit":
                return
            case "/help":
                screen.say(_HELP, "dim")
            case "/new":
                conversation = Conversation(source, screen)
                screen.say("This is a new conversation.", "dim")
            case text if text.startswith("/") and " " not in text:
                screen.say("There is no such command: /help says what there is.", "dim")
            case text:
                try:
                    runner.run(conversation.ask(text))
                except KeyboardInterrupt:
                    screen.say(source.stopped, "dim")


def _typed(screen: Screen) -> str | None:
    """Read a line; None at the end. Bytes that are no text come as the empty line they are."""
    try:
        return input("> ")
    except UnicodeDecodeError:
        screen.fail("What was typed is no text in this terminal's encoding. Type it again.")
        return ""
    except (EOFError, KeyboardInterrupt):
        screen.say("")
        return None


class Conversation:
    """Questions that belong together."""

    def __init__(self, source: Source, screen: Screen) -> None:
        self._source, self._screen = source, screen
        self._id = "new"

    async def ask(self, text: str) -> bool:
        """Ask, and show the answer as it comes; False when there is none, and why is told."""
        is_answered = False
        try:
            # "live", because it tells which conversation the first question has begun.
            asked = {"text": text, "conversation_id": self._id, "live": True}
            async with aclosing(self._source.run(read_ask(asked))) as events:
                async for event in events:
                    if isinstance(event, RunStarted):
                        self._id = event.conversation_id
                    is_answered = isinstance(event, Done)
                    # Whoever reads may be slower than the run, whose timers run in this loop.
                    await asyncio.to_thread(self._screen.show, event)
        except ChatError as error:
            self._screen.show(Failed.of(error))
        except Unanswered as error:
            self._screen.fail(str(error))
        finally:
            self._screen.end()
        return is_answered
