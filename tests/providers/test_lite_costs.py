"""What a completion costs, by the price list and by what the vendor says of its cache."""

import logging
from collections.abc import Mapping
from decimal import Decimal

import pytest
from models import LITELLM_WARNINGS, events_of, model, tokens
from transports import TRANSPORTS, Transport, open_chat
from vendors import Wire

from app.demo.toy import managers
from providers import LiteLLMProvider
from providers.deltas import Tokens
from providers.lite import Prices, load_litellm
from providers.scripted import call, say, spend
from schema.events import EVENTS, ChatEvent, Done, DoneEvent, Usage, UsageReported, encode
from tests.providers.test_lite_requests import END, SAID, SSE, answering

pytestmark = LITELLM_WARNINGS

READ, WRITTEN = "cache_read_input_token_cost", "cache_creation_input_token_cost"
INPUT, OUTPUT = "input_cost_per_token", "output_cost_per_token"


def listed(name: str, **counts: int) -> Decimal:
    """Add up counts by a list's prices, whose names they have."""
    prices: Mapping[str, object] = load_litellm().model_cost[name]
    return sum((Decimal(str(prices[key])) * count for key, count in counts.items()), Decimal(0))


def cost(event: ChatEvent | Exception) -> Decimal | None:
    assert isinstance(event, DoneEvent), event
    return event.usage.cost_usd


OPENAI = '"prompt_tokens":1000,"completion_tokens":20,"prompt_tokens_details":{"cached_tokens":600}'
DEEPSEEK = (
    '"prompt_tokens":1000,"completion_tokens":20,'
    '"prompt_cache_hit_tokens":600,"prompt_cache_miss_tokens":400'
)
ANTHROPIC = (
    '"input_tokens":100,"output_tokens":20,'
    '"cache_read_input_tokens":600,"cache_creation_input_tokens":300'
)
GEMINI = '"promptTokenCount":1000,"candidatesTokenCount":15,"thoughtsTokenCount":5'
CACHED: dict[str, int] = {INPUT: 400, READ: 600, OUTPUT: 20}

COUNTED: list[tuple[Wire, str, str, str, dict[str, int]]] = [
    ("openai", "openai/gpt-4.1-mini", "gpt-4.1-mini", OPENAI, CACHED),
    ("openai", "deepseek/deepseek-chat", "deepseek/deepseek-chat", DEEPSEEK, CACHED),
    (
        "anthropic",
        "anthropic/claude-sonnet-4-5",
        "claude-sonnet-4-5",
        ANTHROPIC,
        {INPUT: 100, READ: 600, WRITTEN: 300, OUTPUT: 20},
    ),
    (
        "gemini",
        "gemini/gemini-2.5-flash",
        "gemini/gemini-2.5-flash",
        f'{GEMINI},"cachedContentTokenCount":600',
        CACHED,
    ),
    (
        "gemini",
        "gemini/gemini-2.5-flash",
        "gemini/gemini-2.5-flash",
        GEMINI,
        {INPUT: 1000, OUTPUT: 20},
    ),
]
FRAMES: dict[Wire, str] = {
    "openai": '{"choices":[],"usage":{%s}}',
    "anthropic": '{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{%s}}',
    "gemini": '{"candidates":[],"usageMetadata":{%s}}',
}


@pytest.mark.covers("P41")
@pytest.mark.parametrize(("wire", "name", "key", "said", "counts"), COUNTED)
async def test_a_completion_costs_what_the_list_says_with_its_cache_counted(
    wire: Wire, name: str, key: str, said: str, counts: dict[str, int]
) -> None:
    script = f"""T"ok" F(stop) JSON'{FRAMES[wire] % said}'"""
    async with model(wire, script, model=name) as (_, provider):
        *_, done = await events_of(provider)
    assert tokens(done) == (1000, 20)
    assert cost(done) == listed(key, **counts) > 0


async def test_a_long_prompt_costs_what_long_ones_do() -> None:
    script = 'T"ok" F(stop) U(300000,20) || T"ok" F(stop) U(1000,20)'
    async with model("gemini", script, model="gemini/gemini-2.5-pro") as (_, provider):
        *_, long = await events_of(provider)
        *_, short = await events_of(provider)
    above = {f"{INPUT}_above_200k_tokens": 300_000, f"{OUTPUT}_above_200k_tokens": 20}
    assert cost(long) == listed("gemini/gemini-2.5-pro", **above)
    assert cost(short) == listed("gemini/gemini-2.5-pro", **{INPUT: 1000, OUTPUT: 20})


@pytest.mark.parametrize(
    ("wire", "name"),
    [
        ("openai", "openai/no-such-model"),
        ("openai", "openai/claude-sonnet-4-5"),
        ("anthropic", "anthropic/claude-no-such-model"),
        ("gemini", "gemini/gemini-99-flash"),
        ("ollama", "ollama_chat/llama3.1"),
        ("ollama", "ollama_chat/gemma4:e4b"),
    ],
)
async def test_what_is_not_listed_costs_nobody_knows_what(
    wire: Wire, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with model(wire, 'T"ok" F(stop) U(1000,20)', model=name) as (vendor, provider):
        *_, done = await events_of(provider)
    assert (tokens(done), cost(done)) == ((1000, 20), None)
    assert vendor.calls == 1
    assert [record.name for record in caplog.records if record.name != "asyncio"] == []


@pytest.mark.parametrize("script", ['T"ok" F(stop)', 'T"ok" F(stop) U(1000,-)', "F(stop) U(-,20)"])
async def test_what_was_not_counted_costs_nobody_knows_what(script: str) -> None:
    async with model("openai", script) as (_, provider):
        *_, done = await events_of(provider)
    assert cost(done) is None


async def test_a_vendor_whose_bytes_are_not_read_has_its_price_as_well() -> None:
    async with answering(SSE + SAID + END) as (url, _):
        provider = LiteLLMProvider({"model": "azure/gpt-4o", "api_key": "k", "base_url": url})
        async with provider.opened():
            *_, done = await events_of(provider)
    assert tokens(done) == (9, 2)
    assert cost(done) == listed("azure/gpt-4o", **{INPUT: 9, OUTPUT: 2})


def test_a_listed_price_of_nothing_is_a_price() -> None:
    assert Prices("ollama/llama3.1", "ollama").cost_usd(Tokens(9, 2)) == 0


def test_reasoning_of_another_price_is_not_taken_for_output() -> None:
    assert Prices("dashscope/qwen-turbo", "dashscope").cost_usd(Tokens(9, 2)) is None


@pytest.mark.parametrize(
    ("reads", "writes", "counts"),
    [(10, 0, {READ: 9}), (5, 5, {READ: 5, WRITTEN: 4}), (0, 10, {WRITTEN: 9})],
)
def test_no_more_comes_from_a_cache_than_was_sent(
    reads: int, writes: int, counts: dict[str, int]
) -> None:
    prices = Prices("anthropic/claude-sonnet-4-5", "anthropic")
    cost = prices.cost_usd(Tokens(9, 2, reads, writes))
    assert cost == listed("claude-sonnet-4-5", **counts, **{OUTPUT: 2})


KNOWN, UNKNOWN = Usage(1, 2, Decimal("0.1")), Usage(3, 4)
SUMS: list[tuple[Usage, Usage, Usage]] = [
    (KNOWN, KNOWN, Usage(2, 4, Decimal("0.2"))),
    (KNOWN, UNKNOWN, Usage(4, 6)),
    (UNKNOWN, UNKNOWN, Usage(6, 8)),
    (KNOWN, Usage(), Usage(1, 2)),
    (UNKNOWN, Usage(), UNKNOWN),
    (Usage(), Usage(), Usage()),
    (KNOWN, Usage(0, 0, Decimal(0)), KNOWN),
]


@pytest.mark.parametrize(("first", "second", "total"), SUMS)
def test_a_sum_is_known_if_each_part_is(first: Usage, second: Usage, total: Usage) -> None:
    assert first + second == second + first == total


@pytest.mark.parametrize(
    ("cost", "text"),
    [
        (None, "null"),
        (Decimal(0), '"0"'),
        (Decimal("0E-9"), '"0"'),
        (Decimal("1E-7"), '"0.0000001"'),
        (Decimal("0.00042500"), '"0.000425"'),
        (Decimal("1E+2"), '"100"'),
        (Decimal("1E-300"), '"0"'),
    ],
)
def test_a_cost_is_written_as_a_plain_decimal(cost: Decimal | None, text: str) -> None:
    usage = Usage(9, 2, cost)
    for event in (Done(usage=usage), UsageReported(usage=usage)):
        written = encode(event)
        assert written.endswith(b'"cost_usd":%b}}' % text.encode())
        assert EVENTS.validate_json(written) == event or text == '"0"'


def test_an_event_that_was_stored_without_a_cost_is_read() -> None:
    stored = '{"type":"done","usage":{"input_tokens":9,"output_tokens":2}}'
    assert EVENTS.validate_json(stored) == Done(usage=Usage(9, 2))


@pytest.mark.covers("P41")
@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_a_turn_costs_what_its_rounds_cost(transport: Transport, toy_url: str) -> None:
    look = call("search_managers", query="parts")
    tiny, half = Decimal("1E-7"), Decimal("0.5")
    async with open_chat(transport, managers, toy_url) as chat:
        chat.model.will([look, spend(9, 2, tiny)], [say("ok"), spend(9, 2, half)])
        chat.model.will([look, spend(9, 2)], [say("ok"), spend(9, 2, half)])
        known = await chat.ask("Which?", live=True)
        unknown = await chat.ask("And now?")
    usages = [event.usage for event in known if isinstance(event, Done | UsageReported)]
    total = Usage(18, 4, Decimal("0.5000001"))
    assert usages == [Usage(9, 2, tiny), total, total]
    assert unknown[-1] == Done(usage=Usage(18, 4))
