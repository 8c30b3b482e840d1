"""The adapter over the wires of four vendors: what it makes of their answers."""

import asyncio
from contextlib import aclosing

import pytest
from models import (
    HI,
    KEY,
    LITELLM_WARNINGS,
    OK,
    TOOLS,
    calls,
    events_of,
    model,
    on_wires,
    text,
    tokens,
    warm,
    wires,
)
from vendors import FakeVendor, Wire

from providers import LiteLLMProvider
from schema.errors import ContextOverflow, ProviderFailed
from schema.events import DoneEvent, Json, Message, TextChunkEvent, ToolCallEvent

pytestmark = LITELLM_WARNINGS


# --- answers --------------------------------------------------------------------------------------


@wires
@pytest.mark.covers("C7-52")
async def test_a_completion_is_text_then_calls_then_one_end(wire: Wire) -> None:
    script = """T"Let " T"me look." C(0,"a","query",'{"manager":"Part"}') F(tool_calls) U(9,2)"""
    async with model(wire, script) as (_, provider):
        *said, call, done = await events_of(provider)
    assert said == [TextChunkEvent("Let "), TextChunkEvent("me look.")]
    assert isinstance(call, ToolCallEvent)
    assert (call.name, call.args) == ("query", {"manager": "Part"})
    assert tokens(done) == (9, 2)


BOLT, NUT = '{"filters":{"name":"bolt"}}', '{"filters":{"name":"nut"}}'
TWO: list[tuple[str, Json]] = [
    ("query", {"filters": {"name": "bolt"}}),
    ("query", {"filters": {"name": "nut"}}),
]

CALLS: list[tuple[str, list[tuple[str, Json]]]] = [
    (f"""C(0,"a","query",'{BOLT}') C(0,"b","query",'{NUT}') F(tool_calls)""", TWO),
    (f"""C(0,"a","query",'{BOLT}') C(1,"b","query",'{NUT}') F(tool_calls)""", TWO),
    (f"""C(0,"a","query",'{BOLT}') C(1,"a","query",'{NUT}') F(stop)""", TWO),
    ("""C(1,"a","query",'{"limit":') C(1,-,-,'5}') F(tool_calls)""", [("query", {"limit": 5})]),
    ("""C(0,"a","query",'{"limit":5}') F(stop)""", [("query", {"limit": 5})]),
    ("""C(0,"a","query",'{"limit":5}') F(null)""", [("query", {"limit": 5})]),
    ("""T"So: " C(0,"a","query",'{"limit":5}') F(stop)""", [("query", {"limit": 5})]),
    ("""C(0,"a","search_managers","") F(tool_calls)""", [("search_managers", {})]),
    ("""C(0,"a","search_managers",-) F(tool_calls)""", [("search_managers", {})]),
    ("""C(0,"a","search_managers","  ") F(tool_calls)""", [("search_managers", {})]),
    ("""C(0,"a","query",'{"limit":') F(tool_calls)""", [("query", '{"limit":')]),
    ("""C(0,"a","query",'{"a":1}{"a":1}') F(tool_calls)""", [("query", '{"a":1}{"a":1}')]),
    ("""C(0,"a","no_such_tool",'{}') F(tool_calls)""", [("no_such_tool", {})]),
    ("""T"query({\\"manager\\":\\"Part\\"})" F(stop)""", []),
    ("F(stop)", []),
]


@pytest.mark.covers("H01", "H02", "H03", "P39")
@pytest.mark.parametrize(("wire", "script", "expected"), on_wires(*CALLS))
async def test_calls_are_what_was_streamed(
    wire: Wire, script: str, expected: list[tuple[str, Json]]
) -> None:
    async with model(wire, script) as (vendor, provider):
        events = await events_of(provider)
    assert isinstance(events[-1], DoneEvent), events
    assert calls(events) == expected
    assert vendor.calls == 1


@wires
@pytest.mark.covers("H11")
@pytest.mark.parametrize("mark", ["-", "----", "0\\n"])
async def test_a_model_may_repeat_itself(wire: Wire, mark: str) -> None:
    async with model(wire, f'T"{mark}" x 300 T" end" F(stop)') as (_, provider):
        events = await events_of(provider)
    assert text(events) == mark.replace("\\n", "\n") * 300 + " end"
    assert isinstance(events[-1], DoneEvent)


USAGES: list[tuple[str, tuple[int, int]]] = [
    ('U(100,1) T"a" F(stop) U(-,20)', (100, 20)),
    ('U(100,0) T"a" F(stop) U(0,20)', (100, 20)),
    ('T"a" F(stop) U(100,20)', (100, 20)),
    ('U(100,1) T"a" U(100,5) T"b" F(stop) U(100,20)', (100, 20)),
    ('T"a" F(stop)', (0, 0)),
    ('T"a" F(stop) U(100,-)', (100, 0)),
    ('T"a" F(stop) U(-,20)', (0, 20)),
]


@pytest.mark.covers("H04", "P41")
@pytest.mark.parametrize(("wire", "script", "counted"), on_wires(*USAGES))
async def test_tokens_are_what_the_vendor_counted(
    wire: Wire, script: str, counted: tuple[int, int]
) -> None:
    async with model(wire, script) as (_, provider):
        events = await events_of(provider)
    assert tokens(events[-1]) == counted


# --- ends that are none ---------------------------------------------------------------------------

UNFINISHED: list[str] = [
    """T"Let me check." C(0,"a","mutate",'{"input":{"id":1}}') !eof""",
    """T"Let me check." C(0,"a","mutate",'{"input":{"id":1}}') !cut""",
    """T"Let me check." C(0,"a","mutate",'{"input":{"id":1}}') !drop""",
    """T"Let me check." C(0,"a","mutate",'{"input":{"id":1}}') !error("overloaded")""",
    """T"Let me check." C(0,"a","mutate",'{"input":{"id":1}}') F(length)""",
    """T"Let me check." C(0,"a","mutate",'{"input":{"id":1}}') F(content_filter)""",
    """T"Let me check." F(length)""",
    """T"Let me check." F(content_filter)""",
]


@wires
@pytest.mark.covers("H06", "P39", "P40", "C7-52")
@pytest.mark.parametrize("script", UNFINISHED)
async def test_an_answer_without_its_end_is_a_failure_and_its_calls_are_dropped(
    wire: Wire, script: str
) -> None:
    waits: list[float] = []
    async with model(wire, script, waits=waits) as (vendor, provider):
        events = await events_of(provider)
    assert text(events) == "Let me check."
    assert calls(events) == []
    assert isinstance(events[-1], ProviderFailed)
    assert (vendor.calls, waits) == (1, [])


ILLEGIBLE: list[str] = [
    'T"I have " RAW"data: {broken\\n\\n" T"12 parts." F(stop)',
    'RAW"data: {broken\\n\\n" T"12 parts." F(stop)',
    """C(0,"a","mutate",'{"id":1}') RAW"data: {broken\\n\\n" F(tool_calls)""",
]


@wires
@pytest.mark.covers("H06", "P39", "C7-52")
@pytest.mark.parametrize("script", ILLEGIBLE)
async def test_an_answer_with_a_part_that_can_t_be_read_is_a_failure(
    wire: Wire, script: str
) -> None:
    async with model(wire, script, max_retries=0) as (vendor, provider):
        events = await events_of(provider)
    assert calls(events) == []
    assert isinstance(events[-1], ProviderFailed)
    assert vendor.calls == 1


@pytest.mark.covers("H06")
async def test_arguments_cut_at_any_byte_are_no_call() -> None:
    arguments = '{"mutation":"tagPart","input":{"id":1,"tag":"x"}}'
    scripts = [
        f"""T"So: " C(0,"a","mutate",'{arguments[:end]}') !eof"""
        for end in range(1, len(arguments) + 1)
    ]
    async with model("openai", *scripts) as (vendor, provider):
        for _ in scripts:
            events = await events_of(provider)
            assert calls(events) == []
            assert isinstance(events[-1], ProviderFailed)
    assert vendor.calls == len(scripts)


# --- time -----------------------------------------------------------------------------------------

STALLS: list[tuple[str, str, float]] = [
    ('~60s T"late" F(stop)', "", 0.6),
    ('KA ~0.2s KA ~0.2s KA ~0.2s KA ~0.2s KA ~0.2s T"late" F(stop)', "", 0.6),
    ('T"a" ~60s T"late" F(stop)', "a", 0.3),
    ('T"a" KA ~0.1s KA ~0.1s KA ~0.1s KA ~0.1s KA T"late" F(stop)', "a", 0.3),
]


@pytest.mark.covers("H07", "P38")
@pytest.mark.parametrize(("wire", "script", "said", "seconds"), on_wires(*STALLS))
async def test_a_silent_vendor_is_left_in_time_and_the_connection_closed(
    wire: Wire, script: str, said: str, seconds: float
) -> None:
    await warm(wire)
    async with model(wire, script, timeout_seconds=0.6, stream_timeout_seconds=0.3) as (
        vendor,
        provider,
    ):
        begun = asyncio.get_running_loop().time()
        events = await events_of(provider)
        left = asyncio.get_running_loop().time()
        request = await vendor.ended()
    assert (text(events), calls(events)) == (said, [])
    assert isinstance(events[-1], TimeoutError)
    assert seconds - 0.05 < left - begun < seconds + 1
    assert request.closed == pytest.approx(left, abs=0.5)
    assert vendor.calls == 1


@pytest.mark.parametrize("wire", ["openai", "anthropic"])
@pytest.mark.covers("P38")
async def test_a_call_that_stops_growing_is_left_as_well(wire: Wire) -> None:
    script = """C(0,"a","query",'{"limit"') ~60s C(0,-,-,':1}') F(stop)"""
    async with model(wire, script, stream_timeout_seconds=0.3) as (vendor, provider):
        [error] = await events_of(provider)
        request = await vendor.ended()
    assert isinstance(error, TimeoutError)
    assert request.closed is not None


@wires
@pytest.mark.covers("P38")
async def test_a_slow_drip_is_no_silence(wire: Wire) -> None:
    script = 'T"a" ~0.25s T"b" ~0.25s T"c" ~0.25s T"d" F(stop)'
    await warm(wire)
    async with model(wire, script, timeout_seconds=0.6, stream_timeout_seconds=0.4) as (
        _,
        provider,
    ):
        events = await events_of(provider)
    assert text(events) == "abcd"
    assert isinstance(events[-1], DoneEvent)


@wires
@pytest.mark.covers("P38")
async def test_an_answer_whose_connection_does_not_end_is_an_answer(wire: Wire) -> None:
    async with model(wire, 'T"a" F(stop) ~60s', stream_timeout_seconds=0.3) as (vendor, provider):
        events = await events_of(provider)
        request = await vendor.ended()
    assert text(events) == "a"
    assert isinstance(events[-1], DoneEvent)
    assert request.closed is not None


@wires
@pytest.mark.covers("H07")
async def test_who_stops_reading_closes_the_connection(wire: Wire) -> None:
    async with model(wire, 'T"a" ~60s T"late" F(stop)') as (vendor, provider):
        async with aclosing(provider.complete([*HI], TOOLS)) as events:
            assert await anext(events) == TextChunkEvent("a")
        request = await vendor.ended()
    assert request.closed is not None


@wires
async def test_cancelling_closes_the_connection(wire: Wire) -> None:
    async with model(wire, '~60s T"late" F(stop)') as (vendor, provider):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await anext(provider.complete([*HI], TOOLS))
        request = await vendor.ended()
    assert request.closed is not None


# --- refusals and retries -------------------------------------------------------------------------

RETRIED: list[tuple[str, list[float] | None]] = [
    (f"!429(ra=2) || {OK}", [2.0]),
    (f"!429(ms=1500) || {OK}", [1.5]),
    (f"!429(ra=1, ms=1500) || !503(ms=soon, ra=2) || {OK}", [1.5, 2.0]),
    (f"!429(delay=12s) || !503(delay=3.5s, ra=2) || {OK}", [12.0, 3.5]),
    (f"!429(delay=soon) || !429(delay=12) || !429(delay=-1s) || {OK}", None),
    (f"!429(ra=0.25) || !503 || {OK}", None),
    (f"!429(ra=soon) || {OK}", None),
    (f"!429(ra=-5) || {OK}", None),
    (f"!500 || !502 || !529 || {OK}", None),
    (f"!drop || {OK}", None),
    (f"!eof || {OK}", None),
    (f'!error("overloaded") || {OK}', None),
]


@pytest.mark.covers("H10", "P40")
@pytest.mark.parametrize(("wire", "script", "expected"), on_wires(*RETRIED))
async def test_before_any_output_it_asks_again(
    wire: Wire, script: str, expected: list[float] | None
) -> None:
    waits: list[float] = []
    async with model(wire, script, waits=waits) as (vendor, provider):
        events = await events_of(provider, seconds=100)
    assert text(events) == "ok", events
    assert vendor.calls == script.count("||") + 1
    assert len(waits) == vendor.calls - 1
    assert all(0 <= wait <= 20 for wait in waits)
    assert expected in (None, waits)


@pytest.mark.covers("H10")
@pytest.mark.parametrize(("size", "waits_for_it"), [(60_000, True), (70_000, False)])
async def test_an_error_is_read_up_to_its_first_64_kib(size: int, waits_for_it: bool) -> None:
    waits: list[float] = []
    script = f"!429(delay=30s, text='{'x' * size}') || {OK}"
    async with model("gemini", script, waits=waits) as (_, provider):
        assert text(await events_of(provider, seconds=100)) == "ok"
    assert (waits == [30.0]) is waits_for_it


@wires
@pytest.mark.covers("H10")
async def test_a_date_to_wait_for_is_waited_for(wire: Wire) -> None:
    waits: list[float] = []
    async with model(wire, f"!429(ra=date+9) || {OK}", waits=waits) as (_, provider):
        assert text(await events_of(provider)) == "ok"
    assert waits == [pytest.approx(9, abs=1.5)]


@pytest.mark.covers("H10")
async def test_it_really_waits() -> None:
    async with FakeVendor("openai") as vendor:
        vendor.will(f"!429(ra=1) || {OK}")
        config = {"model": vendor.model, "base_url": vendor.base_url, "api_key": KEY}
        provider = LiteLLMProvider.from_config(config)
        async with provider.opened():
            assert text(await events_of(provider)) == "ok"
    first, second = vendor.requests
    assert second.at - first.at >= 1.0


@wires
@pytest.mark.covers("H10", "P40")
@pytest.mark.parametrize(("script", "told"), [("!429(ra=3600)", 3600), ("!503(ra=4.5)", 5)])
async def test_what_does_not_fit_into_the_deadline_is_not_waited_for(
    wire: Wire, script: str, told: int
) -> None:
    waits: list[float] = []
    async with model(wire, script, waits=waits) as (vendor, provider):
        [error] = await events_of(provider, seconds=4)
    assert isinstance(error, ProviderFailed)
    assert error.retry_after_seconds == told
    assert (vendor.calls, waits) == (1, [])


@wires
@pytest.mark.covers("P40")
async def test_it_gives_up_after_as_many_retries_as_are_set(wire: Wire) -> None:
    scripts = ["!500"] * 3
    async with model(wire, *scripts, max_retries=2) as (vendor, provider):
        [error] = await events_of(provider, seconds=100)
    assert isinstance(error, ProviderFailed)
    assert vendor.calls == 3


@wires
@pytest.mark.covers("P40")
@pytest.mark.parametrize("script", ["!400", "!401", "!403", "!404", "!422"])
async def test_a_refusal_is_not_asked_again(wire: Wire, script: str) -> None:
    async with model(wire, script) as (vendor, provider):
        [error] = await events_of(provider)
    assert isinstance(error, ProviderFailed)
    assert str(error) == ProviderFailed.public
    assert script[1:] in str(error.__cause__)
    assert vendor.calls == 1


@pytest.mark.covers("P40")
async def test_a_vendor_that_is_not_there_is_a_failure() -> None:
    async with FakeVendor("openai") as vendor:
        gone = vendor.base_url
    config = {"model": "openai/x", "base_url": gone, "api_key": KEY, "max_retries": 0}
    provider = LiteLLMProvider(config)
    async with provider.opened():
        [error] = await events_of(provider)
    assert isinstance(error, ProviderFailed)
    assert str(error.__cause__) == (
        "openai: the connection failed (ConnectError); is base_url right?"
    )


LONG = Message("tool", '{"data": "' + "x" * 8_000 + '"}', (), "call_1", "query")
LOOKED_UP = [
    *HI,
    Message("assistant", "", (ToolCallEvent("call_1", "query", {"manager": "Part"}),)),
    LONG,
]


@wires
@pytest.mark.covers("P40")
async def test_a_context_that_is_too_long_loses_its_longest_result_once(wire: Wire) -> None:
    async with model(wire, f"!400(context) || {OK} || !400(context) || !400(context)") as (
        vendor,
        provider,
    ):
        assert text(await events_of(provider, LOOKED_UP)) == "ok"
        [error] = await events_of(provider, LOOKED_UP)
    assert isinstance(error, ContextOverflow)
    lengths = [len(str(request.body)) for request in vendor.requests]
    assert lengths[1] < lengths[0] - 5_000
    assert lengths[:2] == lengths[2:]


@wires
@pytest.mark.covers("P40")
async def test_a_context_that_is_too_long_without_results_is_told_at_once(wire: Wire) -> None:
    async with model(wire, "!400(context)") as (vendor, provider):
        [error] = await events_of(provider)
    assert isinstance(error, ContextOverflow)
    assert vendor.calls == 1
