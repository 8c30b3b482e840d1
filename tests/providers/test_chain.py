"""Providers that stand in for each other: who is asked, when, and what the others are spared."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial

import pytest
from models import KEY, LITELLM_WARNINGS, OK, events_of, text, warm, wires
from vendors import FakeVendor, Wire

from providers import LiteLLMProvider, Unavailable
from providers.base import (
    BaseLLMProvider,
    ChatEvent,
    DoneEvent,
    Message,
    TextChunkEvent,
    ToolDefinition,
    complete_round,
)
from providers.chain import Chain, Member
from providers.loading import chained, load_provider, opened
from schema.errors import ContextOverflow, ProviderFailed

pytestmark = LITELLM_WARNINGS


@dataclass
class Clock:
    """A clock that waiting moves, and nothing else."""

    seconds: float = 1000.0
    waits: list[float] = field(default_factory=list[float])

    def __call__(self) -> float:
        return self.seconds

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.seconds += seconds


Said = str | Exception | None


class Own:
    """A project's own provider: says one thing after the other, a text, an error or nothing."""

    def __init__(self, *said: Said) -> None:
        self.said = [*said]
        self.asked = 0

    def __call__(self) -> "Own":
        return self

    async def complete(
        self, messages: list[Message], tools: list[ToolDefinition]
    ) -> AsyncGenerator[ChatEvent]:
        self.asked += 1
        messages.clear()  # the list is its own
        said = self.said.pop(0)
        if isinstance(said, Exception):
            raise said
        if said is not None:
            yield TextChunkEvent(said)
            yield DoneEvent()


def chain(clock: Clock, *members: Own, retries: int = 0) -> Callable[[], Chain]:
    named = [Member(f"number {n}", own, retries) for n, own in enumerate(members, start=1)]
    return partial(Chain, named, clock=clock, sleep=clock.sleep)


@pytest.mark.parametrize("failure", [Unavailable(), Unavailable(5), TimeoutError(), None])
async def test_the_next_one_answers_while_the_first_can_t(
    failure: Said, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = Own(failure), Own("from the second")
    assert text(await events_of(chain(Clock(), first, second)())) == "from the second"
    assert (first.asked, second.asked) == (1, 1)
    assert "The number 1 can't answer, and rests for" in caplog.text


@pytest.mark.parametrize(
    "refusal", [ProviderFailed(), ContextOverflow(), ValueError("a bug"), KeyError("usage")]
)
async def test_what_another_could_not_mend_is_not_passed_on(refusal: Exception) -> None:
    first, second = Own(refusal), Own()
    with pytest.raises(type(refusal)):
        async for _ in chain(Clock(), first, second)().complete([], []):
            pass
    assert second.asked == 0


@pytest.mark.parametrize(("told", "rest"), [(None, 30), (5.0, 5), (90.0, 90)])
async def test_one_that_could_not_answer_rests_for_all_runs(told: float | None, rest: int) -> None:
    clock = Clock()
    first, second = Own(Unavailable(told), "from the first"), Own("a", "b")
    make = chain(clock, first, second)
    assert text(await events_of(make())) == "a"
    clock.seconds += rest - 0.1
    assert text(await events_of(make())) == "b"
    clock.seconds += 0.2
    assert text(await events_of(make())) == "from the first"
    assert (first.asked, second.asked, clock.waits) == (2, 2, [])


async def test_rest_is_no_reason_to_fail_when_nobody_else_can_answer() -> None:
    clock = Clock()
    first, second = Own(Unavailable(), "from the first"), Own("a", Unavailable(60))
    make = chain(clock, first, second)
    assert text(await events_of(make())) == "a"
    assert text(await events_of(make())) == "from the first"
    assert (first.asked, second.asked, clock.waits) == (2, 2, [])


@pytest.mark.covers("H10", "P40")
async def test_when_all_want_to_be_spared_the_first_to_be_ready_is_waited_for() -> None:
    clock = Clock()
    first, second = Own(Unavailable(9)), Own(Unavailable(4), "from the second")
    make = chain(clock, first, second, retries=1)
    assert text(await events_of(make())) == "from the second"
    assert clock.waits == [4]
    assert (first.asked, second.asked) == (1, 2)


@pytest.mark.covers("H10", "P40")
async def test_a_timer_that_fires_early_costs_no_attempt() -> None:
    clock = Clock()

    async def sleep(seconds: float) -> None:
        clock.seconds += seconds - 0.001

    only = Own(Unavailable(4), "ok")
    run = Chain([Member("only", only, 1)], clock=clock, sleep=sleep)
    assert text(await events_of(run)) == "ok"


@pytest.mark.covers("H10", "P40")
async def test_what_a_vendor_wants_is_not_undone_by_a_run_that_asked_before() -> None:
    clock, asked, over = Clock(), asyncio.Event(), asyncio.Event()

    class Slow(Own):
        async def complete(
            self, messages: list[Message], tools: list[ToolDefinition]
        ) -> AsyncGenerator[ChatEvent]:
            if not asked.is_set():
                asked.set()
                await over.wait()
                raise Unavailable
            async for event in super().complete(messages, tools):
                yield event

    first, second = Slow(Unavailable(3600)), Own("a", "b", "c")
    make = chain(clock, first, second)
    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        before = group.create_task(events_of(make()))
        await asked.wait()
        assert text(await events_of(make())) == "a"
        over.set()
    assert text(before.result()) == "b"
    clock.seconds += 3599
    second.said.insert(0, Unavailable())
    [error] = await events_of(make())
    assert isinstance(error, ProviderFailed)
    assert (first.asked, second.asked) == (1, 3)


async def test_one_that_may_be_asked_again_meanwhile_is_asked() -> None:
    clock = Clock()

    class Silent(Own):
        async def complete(
            self, messages: list[Message], tools: list[ToolDefinition]
        ) -> AsyncGenerator[ChatEvent]:
            if self.asked:
                clock.seconds += 60
                raise TimeoutError
            async for event in super().complete(messages, tools):
                yield event

    first, second = Own(Unavailable(10), "from the first"), Silent("from the second")
    make = chain(clock, first, second)
    assert text(await events_of(make())) == "from the second"
    assert text(await events_of(make())) == "from the first"
    assert clock.waits == []


@pytest.mark.covers("H10", "P40")
async def test_what_does_not_fit_into_the_deadline_is_told_at_once() -> None:
    clock = Clock()
    first, second = Own(Unavailable(100)), Own(Unavailable(50.2))
    make = chain(clock, first, second, retries=3)
    for _ in range(2):
        [error] = await events_of(make(), seconds=5)
        assert isinstance(error, ProviderFailed)
        assert error.retry_after_seconds == 51
    assert (first.asked, second.asked, clock.waits) == (1, 1, [])


@pytest.mark.covers("P40")
async def test_each_is_asked_again_only_as_often_as_is_set() -> None:
    clock = Clock()
    first, second = Own(*[Unavailable()] * 3), Own(*[Unavailable()] * 3)
    [error] = await events_of(chain(clock, first, second, retries=2)(), seconds=100)
    assert isinstance(error, ProviderFailed)
    assert (first.asked, second.asked, len(clock.waits)) == (3, 3, 2)


async def test_when_all_let_it_wait_too_long_time_is_up() -> None:
    first, second = Own(TimeoutError()), Own(TimeoutError())
    [error] = await events_of(chain(Clock(), first, second, retries=3)())
    assert isinstance(error, TimeoutError)
    assert (first.asked, second.asked) == (1, 1)


async def test_one_that_lets_it_wait_does_not_keep_the_others_from_being_asked_again() -> None:
    first, second = Own(Unavailable(), "late"), Own(TimeoutError())
    events = await events_of(chain(Clock(), first, second, retries=1)(), seconds=100)
    assert text(events) == "late"
    assert (first.asked, second.asked) == (2, 1)


async def test_a_run_keeps_the_provider_that_it_made() -> None:
    made: list[Own] = []

    def make() -> Own:
        made.append(Own("a", "b"))
        return made[-1]

    run = Chain([Member("only", make)])
    assert [text(await events_of(run)) for _ in range(2)] == ["a", "b"]
    assert len(made) == 1


async def test_a_reader_that_leaves_closes_the_stream() -> None:
    closed = asyncio.Event()

    class Endless:
        async def complete(
            self, messages: list[Message], tools: list[ToolDefinition]
        ) -> AsyncGenerator[ChatEvent]:
            try:
                while True:
                    yield TextChunkEvent("on and on")
            finally:
                closed.set()

    deadline = asyncio.get_running_loop().time() + 5
    events = complete_round(Chain([Member("endless", Endless)]), [], [], deadline)
    assert await anext(events) == TextChunkEvent("on and on")
    await events.aclose()
    assert closed.is_set()


# --- vendors --------------------------------------------------------------------------------------


@asynccontextmanager
async def two(
    wire: Wire, first: Sequence[str], second: Sequence[str], **config: str | float
) -> AsyncGenerator[tuple[BaseLLMProvider, FakeVendor, FakeVendor]]:
    """A vendor with its stand-in, which speaks OpenAI's wire."""
    async with FakeVendor(wire) as one, FakeVendor("openai") as other:
        one.will(*first)
        other.will(*second)
        makers = [
            load_provider(
                LiteLLMProvider,
                {"model": each.model, "base_url": each.base_url, "api_key": KEY, **config},
            )
            for each in (one, other)
        ]
        async with opened(makers):
            yield chained(makers[0], {"backup": makers[1]})(), one, other
        assert one.faults == other.faults == []


BEFORE_OUTPUT = ["!429(ra=3600)", "!429", "!503", "!500", "!drop", "!eof", '!error("overloaded")']


@wires
@pytest.mark.covers("H10", "P40")
@pytest.mark.parametrize("script", BEFORE_OUTPUT)
async def test_a_vendor_that_can_t_answer_is_passed_over_at_once(wire: Wire, script: str) -> None:
    async with two(wire, [script], [OK, OK]) as (provider, one, other):
        assert text(await events_of(provider)) == "ok"
        assert text(await events_of(provider)) == "ok"
    assert (one.calls, other.calls) == (1, 2)


@wires
@pytest.mark.covers("H07", "P38")
async def test_a_vendor_that_is_silent_is_passed_over(
    wire: Wire, caplog: pytest.LogCaptureFixture
) -> None:
    script = '~60s T"late" F(stop)'
    await warm(wire)
    async with two(wire, [script], [OK], timeout_seconds=0.3) as (provider, one, other):
        assert text(await events_of(provider)) == "ok"
        await one.ended(0)
    assert one.closed[0] is not None
    assert other.calls == 1
    assert "The provider can't answer, and rests for 30 s: TimeoutError" in caplog.text


@wires
@pytest.mark.covers("P40")
@pytest.mark.parametrize("script", ["!401", "!400", '!400(text="no such model")'])
async def test_a_refusal_is_told_and_not_passed_over(wire: Wire, script: str) -> None:
    async with two(wire, [script], []) as (provider, _, other):
        [error] = await events_of(provider)
    assert isinstance(error, ProviderFailed)
    assert other.calls == 0


@wires
@pytest.mark.covers("H06", "P40")
@pytest.mark.parametrize("end", ["!drop", "!cut", '!error("overloaded")'])
async def test_what_has_begun_is_never_begun_again(wire: Wire, end: str) -> None:
    async with two(wire, [f'T"I have " {end}'], []) as (provider, _, other):
        *said, error = await events_of(provider)
    assert text(said) == "I have "
    assert isinstance(error, ProviderFailed)
    assert other.calls == 0
