"""Reads that take their time: they run beside each other, end with the turn, and hold nobody up."""

import asyncio
import time
from collections.abc import AsyncGenerator

import pytest
from transports import Chat, HttpVisitor, Transport, kinds, open_chat, results

from app.demo.flights import managers
from providers.scripted import Step, call, say
from schema.events import Failed


@pytest.fixture
async def chat(transport: Transport, flights_copy: str) -> AsyncGenerator[Chat]:
    """A chat over all the flights."""
    async with open_chat(transport, managers, flights_copy) as chat:
        yield chat


def slow(word: str) -> Step:
    """Count flights by a text that every row has to be read for, on both sides of a join."""
    filters = {"plane__manufacturer__icontains": word, "dest_airport__name__icontains": word}
    return call("query", manager="Flight", fields=["id"], filters={**filters}, limit=1)


def endless(word: str) -> Step:
    """Count flights whose plane has flown to a place, plane by plane: it takes many seconds."""
    filters = {"plane__flights__dest_airport__name__icontains": word}
    return call("query", manager="Flight", fields=["id"], filters={**filters}, limit=1)


@pytest.mark.covers("H27")
async def test_a_read_that_fails_leaves_its_slow_siblings_their_results(chat: Chat) -> None:
    wrong = call("query", manager="Flight", fields=["nope"])
    chat.model.will([wrong, slow("boeing"), slow("airport")], say("ok"))
    events = await chat.ask("flights")
    assert kinds(events) == [*["tool_call"] * 3, *["tool_result"] * 3, "text_chunk", "done"]
    failed, *others = results(events)
    assert failed["code"] == "invalid_arguments"
    assert all("total_count" in result for result in others)


@pytest.mark.covers("H27")
async def test_the_turns_deadline_ends_reads_that_run_with_a_result_each(
    transport: Transport, flights_copy: str
) -> None:
    async with open_chat(transport, managers, flights_copy, turn_timeout_seconds=0.3) as chat:
        chat.model.will([endless(f"word {n}") for n in range(6)])
        started = time.monotonic()
        events = await chat.ask("flights")
        assert time.monotonic() - started < 2
    assert kinds(events) == [*["tool_call"] * 6, *["tool_result"] * 6, "error"]
    assert [result["code"] for result in results(events)] == 6 * ["deadline_exceeded"]
    assert isinstance(events[-1], Failed)
    assert events[-1].code == "deadline_exceeded"


async def test_a_query_beyond_its_own_time_limit_is_an_error_for_the_model(
    transport: Transport, flights_copy: str
) -> None:
    async with open_chat(transport, managers, flights_copy, query_timeout_seconds=0.2) as chat:
        chat.model.will(endless("boeing"), say("too slow"))
        events = await chat.ask("flights")
    assert kinds(events) == ["tool_call", "tool_result", "text_chunk", "done"]
    assert results(events)[0]["status"] == "error"


@pytest.mark.covers("C7-27")
async def test_the_server_answers_others_while_reads_run(flights_copy: str) -> None:
    limit = {"query_timeout_seconds": 2}
    async with open_chat("http", managers, flights_copy, **limit) as chat:
        chat.model.will([endless(f"word {n}") for n in range(4)], say("ok"))
        other = chat.new_visitor()
        assert isinstance(other, HttpVisitor)
        async with asyncio.TaskGroup() as group:
            asking = group.create_task(chat.ask("flights"))
            slowest = 0.0
            while not asking.done():
                started = time.monotonic()
                await other.client.get("/health/live")
                slowest = max(slowest, time.monotonic() - started)
    assert kinds(asking.result())[-1] == "done"
    assert slowest < 1.2  # reads on the event loop would hold it for the whole limit
