"""Whole turns with a vendor's model: what the client sees, and what the vendor is sent."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
from models import OK, on_wires, wires
from transports import Chat, answer, kinds, open_chat, results
from vendors import FakeVendor, Wire

from app.demo.toy import managers
from schema.events import Done, Failed, ToolCall, ToolResult, Usage

# Filters of warnings that LiteLLM's import brings are gone when the first test is over.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*ReadOnly.*qualifier:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*Accessing the.*attribute on the instance is deprecated"),
    pytest.mark.filterwarnings("ignore:coroutine '.*' was never awaited:RuntimeWarning"),
]


PARTS = """C(0,"query:0","query",'{"manager":"PartManager","fields":["name"]}')"""
PROJECTS = """C(0,"query:0","query",'{"manager":"ProjectManager","fields":["name"]}')"""


@asynccontextmanager
async def desk(
    wire: Wire, url: str, *scripts: str, **config: str | float
) -> AsyncGenerator[tuple[FakeVendor, Chat]]:
    """A desk whose model is a vendor's; the vendor never finds fault with a request."""
    async with FakeVendor(wire) as vendor:
        vendor.will(*scripts)
        given = {"base_url": vendor.base_url, "api_key": "SENTINEL-KEY-1", **config}
        settings = {"provider": "auto", "model": vendor.model, "provider_config": given}
        async with open_chat("engine", managers, url, **settings) as chat:
            yield vendor, chat
        assert vendor.faults == []


@wires
@pytest.mark.covers("H05")
async def test_a_vendor_s_ids_may_repeat_from_round_to_round(wire: Wire, toy_url: str) -> None:
    script = f'{PARTS} F(tool_calls) || {PROJECTS} F(tool_calls) || T"done" F(stop) || {OK}'
    async with desk(wire, toy_url, script) as (vendor, chat):
        events = await chat.ask("What is there?")
        assert answer(await chat.ask("hi")) == "ok"
    assert kinds(events) == [*["tool_call", "tool_result"] * 2, "text_chunk", "done"]
    first, second = [event.id for event in events if isinstance(event, ToolCall)]
    assert first != second
    assert [event.id for event in events if isinstance(event, ToolResult)] == [first, second]
    parts, projects = results(events)
    assert parts["data"] != projects["data"]
    assert vendor.calls == 4


@wires
@pytest.mark.covers("H01")
async def test_parallel_calls_are_run_and_answered_one_by_one(wire: Wire, toy_url: str) -> None:
    calls = f"""{PARTS} C(0,"b","query",'{{"manager":"ProjectManager","fields":["name"]}}')"""
    async with desk(wire, toy_url, f"{calls} F(tool_calls) || {OK}") as (vendor, chat):
        events = await chat.ask("What is there?")
    assert kinds(events) == ["tool_call"] * 2 + ["tool_result"] * 2 + ["text_chunk", "done"]
    assert vendor.calls == 2


@wires
@pytest.mark.covers("H08")
async def test_a_last_completion_without_a_word_leaves_the_answer(wire: Wire, toy_url: str) -> None:
    script = f'T"You have 3 parts." {PARTS} F(tool_calls) || F(stop)'
    async with desk(wire, toy_url, script) as (vendor, chat):
        events = await chat.ask("How many parts?")
    assert answer(events) == "You have 3 parts."
    assert isinstance(events[-1], Done)
    assert vendor.calls == 2


@wires
@pytest.mark.covers("H14")
@pytest.mark.parametrize("before", ["", 'T"\\n" '])
async def test_no_blank_text_is_sent_back(wire: Wire, before: str, toy_url: str) -> None:
    script = f"{before}{PARTS} F(tool_calls) || {OK} || {OK}"
    async with desk(wire, toy_url, script) as (vendor, chat):
        assert "ok" in answer(await chat.ask("How many parts?"))
        assert answer(await chat.ask("And now?")) == "ok"
    assert vendor.calls == 3


MALFORMED = ["", '{"manager":', '["Part"]', '{"a":1}{"a":1}']


@pytest.mark.covers("H03", "P39")
@pytest.mark.parametrize(
    ("wire", "script"),
    on_wires(*((f"""C(0,"a","query",'{text}') F(tool_calls) || {OK}""",) for text in MALFORMED)),
)
async def test_a_malformed_call_is_answered_and_the_turn_goes_on(
    wire: Wire, script: str, toy_url: str
) -> None:
    async with desk(wire, toy_url, script) as (_, chat):
        events = await chat.ask("How many parts?")
    assert kinds(events) == ["tool_call", "tool_result", "text_chunk", "done"]
    assert results(events)[0]["code"] == "invalid_arguments"


@wires
@pytest.mark.covers("H02", "H04", "P41")
async def test_tokens_of_a_turn_are_those_of_its_rounds(wire: Wire, toy_url: str) -> None:
    script = f'{PARTS} F(stop) U(100,20) || T"12" F(stop) U(150,5)'
    async with desk(wire, toy_url, script) as (_, chat):
        events = await chat.ask("How many parts?")
    assert events[-1] == Done(usage=Usage(250, 25))


@wires
@pytest.mark.covers("H06", "H07", "H10", "P40")
@pytest.mark.parametrize(
    ("script", "code", "seconds"),
    [
        ("!429(ra=3600)", "provider_failed", 3600),
        ("!401", "provider_failed", None),
        ("!400(context)", "context_overflow", None),
        ("~60s", "deadline_exceeded", None),
        ('T"a" !eof', "provider_failed", None),
        ('T"a" ~60s', "deadline_exceeded", None),
    ],
)
async def test_a_failure_has_its_code_and_the_conversation_goes_on(
    wire: Wire, script: str, code: str, seconds: int | None, toy_url: str
) -> None:
    times = {"timeout_seconds": 0.4, "stream_timeout_seconds": 0.4}
    end = ' T"late" F(stop)' if script.endswith("s") else ""
    async with desk(wire, toy_url, f"{script}{end} || {OK}", **times) as (vendor, chat):
        async with asyncio.timeout(5):
            *_, failed = await chat.ask("How many parts?")
        assert isinstance(failed, Failed)
        assert (failed.code, failed.retry_after_seconds) == (code, seconds)
        assert failed.error_id is not None
        assert answer(await chat.ask("hi")) == "ok"
    assert vendor.calls == 2
