"""Every request keeps its vendor's order rules, whatever became of the turns before it.

Turns are invented from ``SEED``: a failure comes again with the same one. Conversations run at once
on one database, change vendors, and go on after their process was closed or killed.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from shutil import copy
from tempfile import TemporaryDirectory

import pytest
from databases import snapshot
from history import check_events
from invented import SPARE, InventedTurn, Stop, invented_turn, shortest
from turns import events
from vendors import WIRES, FakeVendor, Wire

from app.demo.manufacturing import managers
from app.engine import TurnEngine
from app.runs import RunHost
from app.settings import Settings
from app.store import Store
from providers import LiteLLMProvider
from schema.errors import ChatFailed, NotFound, TryAgain
from schema.events import (
    Actor,
    Ask,
    ChatEvent,
    ConversationId,
    Event,
    Failed,
    Json,
    JsonObject,
    Message,
    ToolDefinition,
)
from schema.query import Reader
from schema.tools import Tool, ToolContext, ToolRegistry, data_tools

SEED = "order rules"
VISITORS = 8
TURNS = 25
"""Of one visitor."""

# Filters of warnings that LiteLLM's import brings are gone when the first test is over.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*ReadOnly.*qualifier:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*Accessing the.*attribute on the instance is deprecated"),
    pytest.mark.filterwarnings("ignore:coroutine '.*' was never awaited:RuntimeWarning"),
    # The same, where Python finds no way to say it.
    pytest.mark.filterwarnings(
        "ignore:Exception ignored in. <coroutine object:pytest.PytestUnraisableExceptionWarning"
    ),
]


@dataclass(slots=True)
class Visitor:
    """Somebody who asks one thing after the other, and the vendors that answer."""

    number: int
    turns: Sequence[InventedTurn]
    vendors: dict[Wire, FakeVendor] = field(default_factory=dict[Wire, FakeVendor])
    providers: dict[Wire, LiteLLMProvider] = field(default_factory=dict[Wire, LiteLLMProvider])
    conversation: ConversationId | None = None
    done: int = 0
    seen: int = 0
    """Events of the model in the turn under way."""
    ends: Counter[str] = field(default_factory=Counter[str])
    broken: list[str] = field(default_factory=list[str])

    @asynccontextmanager
    async def served(self, config: Mapping[str, object]) -> AsyncGenerator[None]:
        """Open the vendors, each with a provider that doesn't wait before it asks again."""
        async with AsyncExitStack() as stack:
            for wire in WIRES:
                vendor = await stack.enter_async_context(FakeVendor(wire))
                own = {"model": vendor.model, "base_url": vendor.base_url, "api_key": "k"}
                provider = LiteLLMProvider({**config, **own}, sleep=_at_once)
                await stack.enter_async_context(provider.opened())
                self.vendors[wire], self.providers[wire] = vendor, provider
            yield

    @property
    def turn(self) -> InventedTurn:
        return self.turns[self.done]

    @property
    def faults(self) -> list[str]:
        """What vendors found wrong with requests, and turns that were none."""
        found = [f"{wire}: {fault}" for wire, v in self.vendors.items() for fault in v.faults]
        return [*found, *self.broken]

    def prepare(self) -> Ask:
        """Let the vendor know what it says, and put the question."""
        turn, vendor = self.turn, self.vendors[self.turn.wire]
        vendor.forget()
        vendor.will(*turn.completions, *3 * [SPARE])
        self.seen = 0
        begun = None if turn.is_new else self.conversation
        text = f"{self.number}: {turn.text}"
        return Ask(text=text, conversation_id=begun or ConversationId("new"))

    def see(self, shown: Sequence[Event]) -> None:
        """Take note of a turn that is over."""
        try:
            check_events(shown)
        except AssertionError:
            self.broken.append(f"turn {self.done}: {[event.type for event in shown]}")
        closing = shown[-1]
        end = closing.code if isinstance(closing, Failed) else closing.type
        if end == ChatFailed.code:
            self.broken.append(f"turn {self.done}: {end}")
        self.ends[end] += 1
        self.done += 1


async def _at_once(_: float) -> None:
    pass


class Town:
    """Visitors of one application, which is closed or killed now and then and starts again."""

    def __init__(self, visitors: Sequence[Visitor], folder: str, settings: JsonObject) -> None:
        self._visitors = visitors
        self._folder, self._kills = folder, 0
        self._settings = Settings.model_validate({**settings, "session_secret": "s" * 32})
        self._tools = ToolRegistry([*data_tools(), Tool("wait", "Waits.", (), self._wait)])

    async def live(self) -> None:
        """Let all visitors ask all they have to ask."""
        config = self._settings.effective_provider_config
        async with AsyncExitStack() as stack:
            for visitor in self._visitors:
                await stack.enter_async_context(visitor.served(config))
            while any(visitor.done < len(visitor.turns) for visitor in self._visitors):
                await self._live_once()

    async def _live_once(self) -> None:
        """Be one process."""
        self._ending: asyncio.Future[Stop] = asyncio.get_running_loop().create_future()
        async with (
            Store.open(self._url) as store,
            Reader(managers, database_url=self._url) as reader,
            RunHost(
                store,
                max_recent_messages=self._settings.max_recent_messages,
                grace_s=0,
                now=self._now,
            ) as host,
            asyncio.TaskGroup() as group,
        ):
            engine = TurnEngine(
                settings=self._settings,
                reader=reader,
                tools=self._tools,
                provider=lambda: self,
                now=self._now,
            )
            ending = group.create_task(self._end(host))
            async with asyncio.TaskGroup() as asking:
                for visitor in self._visitors:
                    asking.create_task(self._ask(visitor, engine, host))
            ending.cancel()

    @property
    def _url(self) -> str:
        return f"sqlite+aiosqlite:///{self._folder}/{self._kills}.db"

    def _now(self) -> datetime:
        """Tell a time at which all that was killed before is known to be gone."""
        return datetime.now(UTC) + timedelta(seconds=31 * self._kills)

    async def _end(self, host: RunHost) -> None:
        stop = await self._ending
        if stop.is_kill:
            url = self._url
            self._kills += 1
            snapshot(url, self._url)
        await host.close()

    async def _ask(self, visitor: Visitor, engine: TurnEngine, host: RunHost) -> None:
        actor = Actor("session", str(visitor.number))
        while visitor.done < len(visitor.turns):
            try:
                run = await host.start(visitor.prepare(), actor, engine.turn)
            except TryAgain:
                return
            except NotFound:
                visitor.conversation = None  # it was not stored when the process was killed
                continue
            visitor.conversation = run.conversation_id
            async with asyncio.timeout(30):
                shown = b"".join([part async for part in host.tail(run, live=True)])
            visitor.see(events(shown))

    async def complete(
        self, messages: list[Message], tools: list[ToolDefinition]
    ) -> AsyncGenerator[ChatEvent]:
        """Ask the vendor of the turn whose question comes last."""
        questions = [message.content for message in messages if message.role == "user"]
        number = int(questions[-1].partition(":")[0])
        visitor = next(visitor for visitor in self._visitors if visitor.number == number)
        provider = visitor.providers[visitor.turn.wire]
        await self._note(visitor)
        async with aclosing(provider.complete(messages, tools)) as events:
            async for event in events:
                yield event
                visitor.seen += 1
                await self._note(visitor)

    async def _note(self, visitor: Visitor) -> None:
        """Stop the process where the turn says so."""
        stop = visitor.turn.stop
        if stop is not None and stop.after == visitor.seen:
            self._stop(stop)
            if stop.waits:
                await asyncio.Event().wait()

    async def _wait(self, args: JsonObject, context: ToolContext) -> Json:
        """Answer the tool that waits until its process ends."""
        number = int(context.actor.subject)
        stop = next(v.turn.stop for v in self._visitors if v.number == number)
        if stop is None:
            return None
        self._stop(stop)
        await asyncio.Event().wait()
        return None

    def _stop(self, stop: Stop) -> None:
        if not self._ending.done():
            self._ending.set_result(stop)


def plan(number: int) -> tuple[JsonObject, list[list[InventedTurn]]]:
    """Invent a town's settings, and its visitors' turns: of each vendor, equally many."""
    random = Random(f"{SEED} {number}")
    settings: JsonObject = {
        "max_recent_messages": random.choice((2, 5, 6, 20)),
        "max_retries_per_message": random.choice((1, 3, 4, 8)),
        "tool_strategy": random.choice(("discovery", "direct")),
        "provider_config": {"max_retries": random.randrange(3)},
    }
    shifts = [random.randrange(4) if random.random() < 0.3 else 0 for _ in range(TURNS)]
    return settings, [
        [invented_turn(random, WIRES[(visitor + shift) % len(WIRES)]) for shift in shifts]
        for visitor in range(VISITORS)
    ]


async def live(
    database: Path, settings: JsonObject, turns: Sequence[Sequence[InventedTurn]]
) -> list[Visitor]:
    """Let visitors ask in a new town, on a copy of a database."""
    visitors = [Visitor(number, own) for number, own in enumerate(turns)]
    with TemporaryDirectory() as folder:
        copy(database, f"{folder}/0.db")
        await Town(visitors, folder, settings).live()
    return visitors


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make a test of each town, and as many as the option asks for."""
    turns = int(str(metafunc.config.getoption("--turns")))
    metafunc.parametrize("number", range(turns // (VISITORS * TURNS)))


@pytest.mark.covers("H05", "H14", "P30", "P39")
async def test_every_request_keeps_its_vendor_s_rules(
    number: int, manufacturing_file: Path
) -> None:
    settings, turns = plan(number)
    town = await live(manufacturing_file, settings, turns)

    async def is_faulty(turns: Sequence[InventedTurn]) -> bool:
        [alone] = await live(manufacturing_file, settings, [turns])
        return alone.faults != []

    for visitor in town:
        if faults := visitor.faults:
            shown = "\n".join(map(str, await shortest(visitor.turns, is_faulty)))
            whose = f"{SEED!r}, town {number}, visitor {visitor.number}, {settings}"
            pytest.fail(f"{whose}\n{faults}\n{shown}", pytrace=False)
    ends = sum((visitor.ends for visitor in town), Counter[str]())
    assert ends.total() == VISITORS * TURNS
    assert {"done", "provider_failed", "interrupted"} <= ends.keys()
