"""Whole turns with a vendor's model: what a client sees, and what the vendor is sent.

One application for each wire and transport serves all tests of this module; each test has visitors
of its own.
"""

import base64
import json
import logging
import time
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack

import pytest
import pytest_asyncio
from models import KEY, OK, on_wires
from transports import TRANSPORTS, HttpVisitor, Transport, Visitor, WsVisitor, results
from vendor_desks import TIMER_S, Desk, Desks, at_once, lines, open_at, sent
from vendors import WIRES, FakeVendor, Wire, can_say

from schema.events import Failed, ToolCall

# Filters of warnings that LiteLLM's import brings are gone when the first test is over.
pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.filterwarnings("ignore:.*ReadOnly.*qualifier:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*Accessing the.*attribute on the instance is deprecated"),
    pytest.mark.filterwarnings("ignore:coroutine '.*' was never awaited:RuntimeWarning"),
]

PARTS = """C(0,"query:0","query",'{"manager":"PartManager","fields":["name"]}')"""
PROJECTS = """C(0,"query:0","query",'{"manager":"ProjectManager","fields":["name"]}')"""
FOUND = "result 1 Bolt, Bearing, Gear"
ASKED = ["system", "user"]


# --- desks ----------------------------------------------------------------------------------------


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def desks(shared_toy_url: str) -> AsyncGenerator[Desks]:
    async with AsyncExitStack() as stack:
        yield Desks(shared_toy_url, stack)


@pytest.fixture(params=WIRES)
def wire(request: pytest.FixtureRequest) -> Wire:
    return request.param


@pytest.fixture(params=["sse", "ws"])
def transport(request: pytest.FixtureRequest) -> Transport:
    return request.param


@pytest_asyncio.fixture(loop_scope="module")
async def desk(desks: Desks, wire: Wire, transport: Transport) -> AsyncGenerator[Desk]:
    """A desk for each wire and transport."""
    async with desks.at(wire, transport) as desk:
        yield desk


@pytest_asyncio.fixture(loop_scope="module")
async def four(desks: Desks, transport: Transport) -> AsyncGenerator[list[Desk]]:
    """A desk for each wire, for what takes a second: it is done at all of them at once."""
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(desks.at(wire, transport)) for wire in WIRES]


# --- calls ----------------------------------------------------------------------------------------

BOLT = '{"manager":"PartManager","fields":["name"],"filters":{"name":"Bolt"}}'
GEAR = '{"manager":"PartManager","fields":["name"],"filters":{"name":"Gear"}}'


@pytest.mark.covers("H01")
@pytest.mark.parametrize("second", ['0,"b"', '1,"b"'])
async def test_parallel_calls_are_run_and_answered_each(desk: Desk, second: str) -> None:
    calls = f"""C(0,"a","query",'{BOLT}') C({second},"query",'{GEAR}') F(tool_calls)"""
    events = await desk.ask(f'{calls} || T"Both." F(stop)')
    assert lines(events) == [
        "call 1 query",
        "call 2 query",
        "result 1 Bolt",
        "result 2 Gear",
        "text Both.",
        "done 0, 0",
    ]
    filters = [event.args["filters"] for event in events if isinstance(event, ToolCall)]
    assert filters == [{"name": "Bolt"}, {"name": "Gear"}]
    assert [sent(request.body) for request in desk.vendor.requests] == [
        ASKED,
        [*ASKED, "call", "call", "result", "result"],
    ]


CALLED: list[tuple[str, list[str]]] = [
    (f"{PARTS} F(stop)", []),
    (f"{PARTS} F(null)", []),
    (f'T"So: " {PARTS} F(stop)', ["text So: "]),
]


@pytest.mark.covers("H02")
@pytest.mark.parametrize(("wire", "script", "before"), on_wires(*CALLED))
async def test_a_call_is_run_whatever_the_finish_is_called(
    desk: Desk, script: str, before: list[str]
) -> None:
    events = await desk.ask(f'{script} || T"3 parts" F(stop)')
    assert lines(events) == [*before, "call 1 query", FOUND, "text 3 parts", "done 0, 0"]
    assert desk.vendor.calls == 2


@pytest.mark.covers("H03")
@pytest.mark.parametrize(
    ("wire", "script"),
    on_wires(*((f'C(0,"a","search_managers",{text})',) for text in ('""', "-", '"  "'))),
)
async def test_no_arguments_are_an_empty_object(desk: Desk, script: str) -> None:
    events = await desk.ask(f"{script} F(tool_calls) || {OK}")
    assert lines(events) == [
        "call 1 search_managers",
        "result 1 invalid_arguments",
        "text ok",
        "done 0, 0",
    ]
    assert isinstance(events[0], ToolCall)
    assert events[0].args == {}
    assert "query" in str(results(events)[0]["message"])


MALFORMED = ['{"manager":', '["Part"]', '{"a":1}{"a":1}']


@pytest.mark.covers("H03", "P39")
@pytest.mark.parametrize(
    ("wire", "script"), on_wires(*((f"""C(0,"a","query",'{text}')""",) for text in MALFORMED))
)
async def test_a_malformed_call_is_answered_and_the_turn_goes_on(desk: Desk, script: str) -> None:
    events = await desk.ask(f"{script} F(tool_calls) || {OK}")
    assert lines(events) == [
        "call 1 query",
        "result 1 invalid_arguments",
        "text ok",
        "done 0, 0",
    ]


@pytest.mark.covers("H05")
async def test_a_vendor_s_ids_may_repeat_from_round_to_round(desk: Desk) -> None:
    events = await desk.ask(f'{PARTS} F(tool_calls) || {PROJECTS} F(tool_calls) || T"done" F(stop)')
    assert lines(events) == [
        "call 1 query",
        FOUND,
        "call 2 query",
        "result 2 Apollo, Mercury",
        "text done",
        "done 0, 0",
    ]
    assert sent(desk.vendor.requests[2].body) == [*ASKED, *["call", "result"] * 2]


PROMPT_IN: dict[Wire, str] = {
    "openai": "messages",
    "anthropic": "system",
    "gemini": "system_instruction",
    "ollama": "messages",
}


@pytest.mark.covers("C7-52")
async def test_what_comes_in_fragments_is_joined(wire: Wire, desk: Desk) -> None:
    """And the prompt stands where the vendor has it."""
    call = (
        """C(0,"a","query",'{"manager":"Part') C(0,-,-,'Manager","fiel') C(0,-,-,'ds":["name"]}')"""
    )
    events = await desk.ask(
        f'T"Let " T"me look." {call} F(tool_calls) U(100,20) || T"Th" T"ree." F(stop) U(150,5)'
    )
    assert lines(events) == [
        "text Let me look.",
        "call 1 query",
        FOUND,
        "text Three.",
        "done 250, 25",
    ]
    first, second = (request.body for request in desk.vendor.requests)
    assert [sent(first), sent(second)] == [ASKED, [*ASKED, "assistant", "call", "result"]]
    assert all("You are a toy." in str(body[PROMPT_IN[wire]]) for body in (first, second))


# --- answers --------------------------------------------------------------------------------------


@pytest.mark.covers("H08")
@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_a_last_completion_without_a_word_leaves_the_answer(desk: Desk) -> None:
    events = await desk.ask(f'T"You have 3 parts." {PARTS} F(tool_calls) || F(stop)')
    assert lines(events) == ["text You have 3 parts.", "call 1 query", FOUND, "done 0, 0"]
    assert desk.vendor.calls == 2
    await desk.ask(OK)
    assert "You have 3 parts." in str(desk.vendor.requests[2].body)


@pytest.mark.covers("H11")
@pytest.mark.parametrize("mark", ["-", "0\n"])
async def test_a_model_may_repeat_itself(desk: Desk, mark: str) -> None:
    events = await desk.ask(f'T{json.dumps(mark)} x 300 T" end" F(stop)')
    assert lines(events) == [f"text {mark * 300} end", "done 0, 0"]


@pytest.mark.covers("H14")
@pytest.mark.parametrize("before", ["", 'T"\\n" '])
async def test_no_blank_text_is_sent_back(desk: Desk, before: str) -> None:
    await desk.ask(f"{before}{PARTS} F(tool_calls) || {OK}")
    assert sent(desk.vendor.requests[1].body) == [*ASKED, "call", "result"]
    assert lines(await desk.ask(OK)) == ["text ok", "done 0, 0"]
    assert "blank" not in sent(desk.vendor.requests[2].body)


@pytest.mark.covers("H04", "P41")
@pytest.mark.parametrize(
    ("wire", "counts"), on_wires(('U(100,1) T"a" F(stop) U(-,20)',), ('T"a" F(stop) U(100,20)',))
)
async def test_tokens_of_a_turn_are_those_of_its_rounds(desk: Desk, counts: str) -> None:
    for _ in range(2):
        events = await desk.ask(f"{PARTS} F(stop) U(50,2) || {counts}")
        assert lines(events) == ["call 1 query", FOUND, "text a", "done 150, 22"]


# --- failures -------------------------------------------------------------------------------------

CUT = """C(0,"a","query",'{"manager":"PartManager"}')"""
ENDS = ["!eof", "!cut", "!drop", '!error("overloaded")', "F(length)", "F(content_filter)"]


@pytest.mark.covers("H06", "C7-52")
@pytest.mark.parametrize("call", ["", CUT])
async def test_an_answer_without_its_end_is_a_failure_and_no_tool_runs(
    desk: Desk, call: str
) -> None:
    for number, end in enumerate(ENDS, 1):
        events = await desk.ask(f'T"Let me check." {call} {end}')
        assert (end, lines(events)) == (end, ["text Let me check.", "error provider_failed"])
        assert desk.vendor.calls == number


@pytest.mark.covers("H06")
@pytest.mark.parametrize("wire", ["openai", "anthropic"])
async def test_arguments_cut_at_any_byte_run_no_tool(desk: Desk) -> None:
    arguments = '{"manager":"PartManager"}'
    for end in range(1, len(arguments) + 1):
        events = await desk.ask(f"""C(0,"a","query",'{arguments[:end]}') !eof""")
        assert lines(events) == ["error provider_failed"]
    assert desk.vendor.calls == len(arguments)


@pytest.mark.covers("P40")
@pytest.mark.parametrize(
    ("script", "code"), [("!401", "provider_failed"), ("!400(context)", "context_overflow")]
)
async def test_a_refusal_has_its_code(desk: Desk, script: str, code: str) -> None:
    [failed] = await desk.ask(script)
    assert isinstance(failed, Failed)
    assert (failed.code, failed.retry_after_seconds) == (code, None)
    assert failed.error_id is not None
    assert desk.vendor.calls == 1


# --- time -----------------------------------------------------------------------------------------

STALLS: list[tuple[str, list[str]]] = [
    ('~60s T"late" F(stop)', []),
    (f'{"KA ~0.2s " * 20} T"late" F(stop)', []),
    ('T"a" ~60s T"late" F(stop)', ["text a"]),
    (f'T"a" {"KA ~0.2s " * 20} T"late" F(stop)', ["text a"]),
]


@pytest.mark.covers("H07", "P38")
async def test_a_silent_vendor_is_left_in_time_and_its_connection_closed(
    four: list[Desk],
) -> None:
    async def leave(desk: Desk) -> None:
        stalls = [stall for stall in STALLS if can_say(desk.vendor.wire, stall[0])]
        begun = time.monotonic()
        told = await desk.ask_at_once(len(stalls), *(script for script, _ in stalls))
        over = time.monotonic()
        expected = [[*said, "error deadline_exceeded"] for _, said in stalls]
        assert sorted(map(lines, told)) == sorted(expected)
        assert desk.vendor.calls == len(stalls)
        for number in range(len(stalls)):
            request = await desk.vendor.ended(number)
            assert request.closed is not None
            assert request.closed - begun >= TIMER_S
            assert request.closed - request.at <= TIMER_S + 2
            assert request.closed - over <= 0.5

    await at_once(four, leave)


@pytest.mark.covers("H10")
async def test_it_is_asked_again_when_the_vendor_wants_it(four: list[Desk]) -> None:
    """And after a time of our own where the vendor says nothing that can be obeyed."""

    async def wait(desk: Desk) -> None:
        refusals = {"!429(ra=1)": 1.0, "!429(ra=soon)": 0.5, "!429(ra=-5)": 0.5}
        told = await desk.ask_at_once(3, *refusals, OK, OK, OK)
        assert [lines(events) for events in told] == [["text ok", "done 0, 0"]] * 3
        firsts, seconds = desk.vendor.requests[:3], desk.vendor.requests[3:]
        for first, least in zip(firsts, refusals.values(), strict=True):
            [second] = [request for request in seconds if request.body == first.body]
            assert least <= second.at - first.at <= 3

    await at_once(four, wait)


@pytest.mark.covers("H10", "P40")
@pytest.mark.parametrize("script", ["!429(ra=3600)", "!429(ra=date+3600)"])
async def test_a_wait_that_does_not_fit_is_told_at_once(desk: Desk, script: str) -> None:
    begun = time.monotonic()
    [failed] = await desk.ask(script)
    assert time.monotonic() - begun < 1
    assert isinstance(failed, Failed)
    assert failed.code == "provider_failed"
    assert failed.retry_after_seconds == pytest.approx(3600, abs=2)
    assert desk.vendor.calls == 1


# --- keys -----------------------------------------------------------------------------------------

CODED = base64.b64encode(KEY.encode()).decode().rstrip("=")
LEAKS: list[list[str]] = [
    [f'!401(text="Incorrect API key provided: {KEY}")'],
    [f'!403(text="Authorization: Basic {CODED}")'],
    [f'!500(ra=0, text="at http://h/v1?key={KEY}")'] * 2,
    [f'T"a" !error("{KEY}")'],
    ["!drop"] * 2,
    ['T"a" RAW"data: {broken\\n\\n" !eof'],
    ['~60s T"late" F(stop)'],
]


@pytest.mark.covers("H33")
@pytest.mark.parametrize("scripts", LEAKS)
async def test_a_key_is_shown_to_nobody(
    four: list[Desk],
    scripts: list[str],
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level(logging.DEBUG)

    async def fail(desk: Desk) -> str:
        desk.vendor.will(*scripts)
        shown = await shown_to(desk.visitors[0])
        assert shown.count('"type":"error"') == 1
        assert all(KEY in str(request.headers) for request in desk.vendor.requests)
        return shown

    shown = await at_once(four, fail)
    out = capfd.readouterr()
    assert caplog.text.count("Traceback") >= len(four)
    for secret in (KEY, CODED, "?key="):
        assert secret not in "".join([*shown, caplog.text, out.out, out.err])


async def shown_to(visitor: Visitor) -> str:
    """Ask, and return all that the visitor is shown, headers included."""
    if isinstance(visitor, HttpVisitor):
        response = await visitor.post("/chat/stream/", {"text": "What is there?"})
        return f"{response.headers.raw}{response.text}"
    assert isinstance(visitor, WsVisitor)
    opened = await visitor.connect()
    await opened.ask("What is there?")
    return f"{opened.headers}{[frame.text for frame in await opened.receive_turn()]}"


@pytest.mark.covers("H33", "P40")
async def test_a_vendor_that_is_not_there_is_named_to_nobody(
    wire: Wire, transport: Transport, shared_toy_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with FakeVendor(wire) as gone:
        pass
    async with open_at(gone, transport, shared_toy_url, max_retries=0) as chat:
        shown = await shown_to(chat.visitor)
    assert shown.count('"code":"provider_failed"') == 1
    assert "ConnectError" in caplog.text
    for secret in (KEY, gone.base_url.partition("//")[2]):
        assert secret not in caplog.text + shown
