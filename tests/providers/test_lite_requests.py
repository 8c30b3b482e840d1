"""What the adapter sends over the wires, to whom, and what it keeps to itself."""

import asyncio
import gc
import json
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager, suppress

import pytest
from models import HI, KEY, LITELLM_WARNINGS, OK, TOOLS, events_of, model, text, warm, wires
from vendors import FakeVendor, Wire

from providers import LiteLLMProvider
from providers.translation import wire_messages, with_cache_marks
from schema.errors import ProviderFailed
from schema.events import (
    ChatEvent,
    DoneEvent,
    Json,
    JsonObject,
    Message,
    TextChunkEvent,
    ToolCallEvent,
    Usage,
    is_object,
)

pytestmark = LITELLM_WARNINGS


# --- requests -------------------------------------------------------------------------------------


def call(number: int, name: str = "query", /, **args: Json) -> ToolCallEvent:
    return ToolCallEvent(f"call_{number:016x}", name, args)


def result(number: int, content: str = '{"data":[]}', name: str = "query") -> Message:
    return Message("tool", content, (), f"call_{number:016x}", name)


CALLED = [Message("assistant", "", (call(1),)), result(1)]
FAILED = '{"status":"error","code":"tool_failed","message":"x"}'

HISTORIES: list[list[Message]] = [
    [*CALLED],
    [Message("assistant", "\n", (call(1),)), result(1)],
    [Message("assistant", "Let me look.", (call(1, manager="Part"),)), result(1)],
    [Message("assistant", "", (call(1), call(2, "find_path"))), result(1), result(2, "null")],
    [*CALLED, Message("assistant", "", (call(2),)), result(2, FAILED)],
    [*CALLED, Message("assistant", "12"), Message("user", "and nuts?")],
    [Message("assistant", "Hello."), Message("user", "a"), Message("user", "b")],
    [Message("user", "again"), Message("assistant", "  "), Message("user", "?")],
    [Message("assistant", "", (call(1),)), result(1, '["a list"]')],
]


@wires
@pytest.mark.covers("H05", "H14", "C7-52")
@pytest.mark.parametrize("messages", HISTORIES)
async def test_a_history_is_one_that_the_vendor_takes(wire: Wire, messages: list[Message]) -> None:
    messages = [*HI, *messages]
    async with model(wire, OK, OK) as (vendor, provider):
        assert text(await events_of(provider, messages)) == "ok"
        assert text(await events_of(provider, messages)) == "ok"
    first, second = (request.body for request in vendor.requests)
    assert first == second
    assert "You are a desk." in str(first)


ROUNDS: list[list[Message]] = [
    HI,
    [*HI, *CALLED],
    [*HI, *CALLED, Message("assistant", "So:", (call(2, b=1, a=2), call(3))), result(2), result(3)],
    [*HI, *CALLED, Message("assistant", "12"), Message("user", "and nuts?")],
]
MARK: JsonObject = {"type": "ephemeral"}


def unmarked(value: Json) -> Json:
    """Leave out what tells a vendor up to where to keep what it reads."""
    if isinstance(value, list):
        return [unmarked(item) for item in value]
    if not is_object(value):
        return value
    return {name: unmarked(item) for name, item in value.items() if name != "cache_control"}


@wires
async def test_a_request_begins_with_the_one_of_the_round_before(wire: Wire) -> None:
    async with model(wire, *[OK] * len(ROUNDS)) as (vendor, provider):
        for messages in ROUNDS:
            assert text(await events_of(provider, messages)) == "ok"
    history = "contents" if wire == "gemini" else "messages"
    texts: list[tuple[str, str]] = []
    for request in vendor.requests:
        body = unmarked(request.body)
        assert is_object(body)
        told = json.dumps(body.pop(history))
        texts.append((json.dumps(body), told.removesuffix("]")))
    assert len({rest for rest, _ in texts}) == 1
    first, called, again, *next_turn = [told for _, told in texts]
    assert called.startswith(f"{first}, ")
    for later in (again, *next_turn):
        assert later.startswith(f"{called}, ")


@pytest.mark.parametrize("messages", ROUNDS)
async def test_anthropic_keeps_the_instructions_and_the_history(messages: list[Message]) -> None:
    async with model("anthropic", OK) as (vendor, provider):
        assert text(await events_of(provider, messages)) == "ok"
    body = vendor.requests[0].body
    assert str(body).count("cache_control") == 2
    match body:
        case {
            "system": [*_, {"cache_control": first}],
            "messages": [*_, {"role": "user", "content": [*_, {"cache_control": last}]}],
        }:
            assert first == last == MARK
        case _:
            raise AssertionError(body)


@pytest.mark.parametrize("wire", ["openai", "gemini", "ollama"])
async def test_other_vendors_are_not_told_what_to_keep(wire: Wire) -> None:
    async with model(wire, OK) as (vendor, provider):
        await events_of(provider, ROUNDS[1])
    assert "cache" not in str(vendor.requests[0].body)
    assert "cache" not in vendor.requests[0].path


def test_what_is_blank_takes_no_mark() -> None:
    wired = wire_messages([Message("system", "s"), Message("user", "u"), CALLED[0], result(1, " ")])
    marked = with_cache_marks(wired)
    assert marked == [{**wired[0], "cache_control": MARK}, *wired[1:]]
    assert "cache_control" not in str(wired)
    assert with_cache_marks(wired[2:3]) == wired[2:3]


@wires
async def test_all_that_is_configured_is_sent_and_nothing_else(wire: Wire) -> None:
    async with model(wire, OK, temperature=0.5, top_p=0.9, max_tokens=77) as (vendor, provider):
        await events_of(provider)
    [request] = vendor.requests
    sent = str(request.body)
    for value in ("0.5", "0.9", "77"):
        assert value in sent
    assert KEY not in sent + request.path
    assert KEY in str(request.headers)
    names = [sent.index(f"'name': '{tool.name}'") for tool in sorted(TOOLS, key=lambda t: t.name)]
    assert names == sorted(names)


async def test_a_temperature_is_left_out_where_the_model_takes_none() -> None:
    async with model("openai", OK, model="openai/o3-mini") as (vendor, provider):
        await events_of(provider)
    assert "temperature" not in vendor.requests[0].body


@wires
async def test_a_connection_is_used_again(wire: Wire) -> None:
    async with model(wire, OK, OK, OK) as (vendor, provider):
        for _ in range(3):
            assert text(await events_of(provider)) == "ok"
    assert [request.connection for request in vendor.requests] == [1, 1, 1]


@wires
async def test_another_event_loop_has_connections_of_its_own(wire: Wire) -> None:
    async with model(wire, OK, OK, OK) as (vendor, provider):
        assert text(await events_of(provider)) == "ok"
        elsewhere = asyncio.to_thread(asyncio.run, events_of(provider))
        assert text(await elsewhere) == "ok"
        assert text(await events_of(provider)) == "ok"
    assert [request.connection for request in vendor.requests] == [1, 2, 1]
    gc.collect()


@wires
async def test_a_history_with_calls_may_come_without_tools(wire: Wire) -> None:
    async with model(wire, OK) as (vendor, provider):
        events = [event async for event in provider.complete([*HI, *CALLED], [])]
    assert text(events) == "ok"
    assert vendor.calls == 1


@asynccontextmanager
async def answering(response: bytes) -> AsyncGenerator[tuple[str, list[bytes]]]:
    """A server that answers whatever it is asked; gives its address and what it was asked."""
    asked: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(response)
        with suppress(ConnectionError):
            await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", asked


@pytest.mark.covers("H33")
@wires
async def test_a_key_follows_no_redirect(wire: Wire) -> None:
    elsewhere = b"HTTP/1.1 307 Elsewhere\r\nlocation: /other\r\ncontent-length: 0\r\n\r\n"
    async with answering(elsewhere) as (url, asked):
        provider = LiteLLMProvider(
            {"model": FakeVendor(wire).model, "api_key": KEY, "base_url": url}
        )
        async with provider.opened():
            [error] = await events_of(provider)
    assert isinstance(error, ProviderFailed)
    assert "status 307" in str(error.__cause__)
    assert [b"/other" in request for request in asked] == [False]


SSE = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
SAID = b'data: {"id":"1","choices":[{"index":0,"delta":{"content":"ok"},"finish_reason":null}]}\n\n'
END = (
    b'data: {"id":"1","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'
    b'data: {"id":"1","choices":[],"usage":{"prompt_tokens":9,"completion_tokens":2,'
    b'"total_tokens":11}}\n\ndata: [DONE]\n\n'
)
BUSY = b"HTTP/1.1 429 Busy\r\nretry-after: 3600\r\ncontent-length: 2\r\n\r\n{}"


@pytest.mark.covers("H06", "P40", "P41")
async def test_a_vendor_that_is_asked_by_other_means_keeps_to_the_same_rules() -> None:
    config = {"model": "azure/m", "api_key": KEY, "max_retries": 0}
    told: list[list[ChatEvent | Exception]] = []
    for response in (SSE + SAID + END, SSE + SAID, BUSY):
        async with answering(response) as (url, _):
            provider = LiteLLMProvider({**config, "base_url": url})
            async with provider.opened():
                told.append(await events_of(provider))
    whole, cut, busy = told
    assert whole == [TextChunkEvent("ok"), DoneEvent(Usage(9, 2))]
    assert cut[:-1] == [TextChunkEvent("ok")]
    for failed in (cut[-1], *busy):
        assert isinstance(failed, ProviderFailed)
    assert KEY not in str(busy[0])


OTHERS = [
    "groq",
    "mistral",
    "deepseek",
    "openrouter",
    "hosted_vllm",
    "lm_studio",
    "cerebras",
    "zai",
]


@pytest.mark.covers("H06", "H10")
@pytest.mark.parametrize("vendor", OTHERS)
async def test_vendors_that_speak_like_openai_are_watched_as_well(vendor: str) -> None:
    waits: list[float] = []
    script = f"!429(ra=2) || !eof || {OK} || T'ok' !eof"
    async with model("openai", script, waits=waits, model=f"{vendor}/m") as (fake, provider):
        assert text(await events_of(provider, seconds=60)) == "ok"
        *_, error = await events_of(provider)
    assert isinstance(error, ProviderFailed)
    assert waits[0] == 2.0
    assert fake.calls == 4
    assert {request.headers["authorization"] for request in fake.requests} == {f"Bearer {KEY}"}


@wires
@pytest.mark.parametrize("seconds", [0.0, 0.001, 0.003, 0.006, 0.01])
async def test_stopping_at_any_moment_leaves_nothing_behind(wire: Wire, seconds: float) -> None:
    async with model(wire, OK) as (_, provider):
        with suppress(TimeoutError):
            async with (
                asyncio.timeout(seconds),
                aclosing(provider.complete([*HI], TOOLS)) as events,
            ):
                async for _ in events:
                    pass
    gc.collect()


# --- discretion -----------------------------------------------------------------------------------

LEAKS: list[str] = [
    "!drop",
    "!cut",
    f'!401(text="Incorrect API key provided: {KEY}")',
    f'!500(text="at http://h/v1?key={KEY}")',
    f'T"a" !error("{KEY}")',
    'RAW"data: {broken\\n\\n"',
    '~60s T"a" F(stop)',
    OK,
]


@wires
@pytest.mark.covers("H33")
@pytest.mark.parametrize("script", LEAKS)
async def test_a_key_is_in_no_line_of_the_log_and_in_no_error(
    wire: Wire,
    script: str,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    await warm(wire)
    caplog.set_level(logging.DEBUG)
    async with model(wire, script, max_retries=0, timeout_seconds=0.3) as (vendor, provider):
        events = await events_of(provider)
        address = vendor.base_url.partition("//")[2]
    for event in events:
        if isinstance(event, Exception):
            logging.getLogger("app.engine").error("The turn failed.", exc_info=event)
    out = capfd.readouterr()
    shown = caplog.text + out.out + out.err
    assert KEY not in shown
    assert "?key=" not in shown
    lines = [record for record in caplog.records if record.name not in ("asyncio", "app.engine")]
    assert [record.name for record in lines] == []
    assert address not in shown
