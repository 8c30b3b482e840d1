"""The fake vendors say what a script says, in each wire's own form, and LiteLLM reads it."""

import asyncio
import json
import os
import sys
import time
from collections.abc import Sequence
from email.utils import parsedate_to_datetime

import httpx
import pytest
import pytest_asyncio
from completions import (
    BadScript,
    Eof,
    Raw,
)
from vendors import WIRES, CannotSay, FakeVendor, Wire
from wires.connection import Connection

from schema.events import Json, JsonObject

USER: Json = {"role": "user", "content": "hi"}
PATHS: dict[Wire, str] = {
    "openai": "/chat/completions",
    "anthropic": "/v1/messages",
    "gemini": "/models/x:streamGenerateContent?alt=sse",
    "ollama": "/api/chat",
}
BODIES: dict[Wire, JsonObject] = {
    "openai": {"messages": [USER], "stream_options": {"include_usage": True}},
    "anthropic": {"messages": [USER], "max_tokens": 9},
    "gemini": {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]},
    "ollama": {"messages": [USER]},
}


@pytest.fixture(params=WIRES)
def wire(request: pytest.FixtureRequest) -> Wire:
    return request.param


async def said(vendor: FakeVendor, **body: Json) -> httpx.Response:
    """Ask once, and read the answer to its end."""
    sent: JsonObject = {"stream": True, **BODIES[vendor.wire], **body}
    async with httpx.AsyncClient() as client:
        return await client.post(vendor.base_url + PATHS[vendor.wire], json=sent)


# Streams and whole answers


async def test_a_stream_is_what_the_wire_says(wire: Wire) -> None:
    async with FakeVendor(wire) as vendor:
        vendor.will('T"Hé" F(stop) U(9,2)')
        response = await said(vendor)
    assert response.status_code == 200
    media_type = "application/x-ndjson" if wire == "ollama" else "text/event-stream"
    assert response.headers["content-type"] == media_type
    assert '"Hé"' in response.text
    assert response.text.endswith("data: [DONE]\n\n") == (wire == "openai")
    assert vendor.faults == []


async def test_without_a_stream_the_answer_is_whole(
    wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(PATHS, "gemini", "/models/x:generateContent")
    async with FakeVendor(wire) as vendor:
        vendor.will('T"Hé" F(stop)', "~0.05s !drop", "!429(ra=2)", 'T"x" !eof')
        answer = await said(vendor, stream=False)
        with pytest.raises(httpx.ReadError):
            await said(vendor, stream=False)
        refused = await said(vendor, stream=False)
        await said(vendor, stream=False)
    assert answer.headers["content-type"] == "application/json"
    assert '"Hé"' in json.dumps(answer.json(), ensure_ascii=False)
    assert refused.status_code == 429
    assert vendor.faults == [f"request 3: {wire} can't say Eof(): the answer is whole."]


# The ends


@pytest.mark.parametrize(
    ("end", "error"),
    [("!drop", httpx.ReadError), ("!cut", httpx.RemoteProtocolError), ("!eof", None)],
)
async def test_a_stream_ends_as_it_is_told(
    wire: Wire, end: str, error: type[httpx.HTTPError] | None
) -> None:
    async with FakeVendor(wire) as vendor, httpx.AsyncClient() as client:
        vendor.will(f'T"x" {end}')
        body: JsonObject = {**BODIES[wire], "stream": True}
        received, raised = b"", None
        async with client.stream("POST", vendor.base_url + PATHS[wire], json=body) as response:
            try:
                async for piece in response.aiter_raw():
                    received += piece
            except httpx.HTTPError as caught:
                raised = type(caught)
        request = await vendor.ended()
    assert raised is error
    assert b'"x"' in received
    assert not received.endswith(b"[DONE]\n\n")
    assert b"stop" not in received.split(b'"x"')[-1]
    assert (request.closed, vendor.closed, vendor.calls) == (None, [None], 1)


@pytest.mark.parametrize("end", ["!drop", "!cut"])
async def test_a_connection_can_end_before_the_head(wire: Wire, end: str) -> None:
    async with FakeVendor(wire) as vendor:
        vendor.will(end)
        with pytest.raises((httpx.ReadError, httpx.RemoteProtocolError)):
            await said(vendor)


async def test_an_error_stands_in_the_stream(wire: Wire) -> None:
    async with FakeVendor(wire) as vendor:
        vendor.will('T"x" !error("Broken.")')
        response = await said(vendor)
    assert response.status_code == 200
    assert '"Broken."' in response.text.splitlines()[-1 if wire == "ollama" else -2]


@pytest.mark.parametrize(
    ("script", "code", "texts"),
    [
        ("!500", 500, 4 * [""]),
        (
            "!400(context)",
            400,
            [
                "context_length_exceeded",
                "prompt is too long",
                "exceeds the maximum number of tokens",
                "exceeds the available context size",
            ],
        ),
        ("!429(quota)", 429, ["insufficient_quota", "credit balance", "quota", "limit"]),
        ('!529(text="Come later.")', 529, 4 * ["Come later."]),
    ],
)
async def test_a_status_has_the_error_of_the_vendor(
    wire: Wire, script: str, code: int, texts: Sequence[str]
) -> None:
    async with FakeVendor(wire) as vendor:
        vendor.will(script)
        response = await said(vendor)
    assert response.status_code == code
    assert texts[WIRES.index(wire)] in response.text
    assert "error" in response.json()
    assert "retry-after" not in response.headers


async def test_a_status_says_when_to_come_again(wire: Wire) -> None:
    async with FakeVendor(wire) as vendor:
        vendor.will("!429(ra=2)", "!429(ra=soon)", "!503(ra=date+2)")
        told = [(await said(vendor)).headers["retry-after"] for _ in range(3)]
    assert told[:2] == ["2", "soon"]
    assert 1 < parsedate_to_datetime(told[2]).timestamp() - time.time() <= 3


async def test_a_status_says_in_milliseconds_and_in_its_body_when_to_come_again() -> None:
    async with FakeVendor("gemini") as vendor:
        vendor.will("!429(ms=1500, delay=3.5s)")
        response = await said(vendor)
    assert response.headers["retry-after-ms"] == "1500"
    assert "retry-after" not in response.headers
    assert response.json()["error"]["details"][-1]["retryDelay"] == "3.5s"


async def test_headers_wait_for_the_first_word(wire: Wire) -> None:
    async with FakeVendor(wire) as vendor, httpx.AsyncClient(timeout=0.3) as client:
        vendor.will('~600s T"late"', 'RAW"" ~600s')
        url, body = vendor.base_url + PATHS[wire], {**BODIES[wire], "stream": True}
        with pytest.raises(httpx.ReadTimeout):
            await client.post(url, json=body)
        first = await vendor.ended()
        async with client.stream("POST", url, json=body) as response:
            assert response.status_code == 200
        second = await vendor.ended()
    for request in (first, second):
        assert request.closed is not None
        assert request.closed - request.at < 2
    assert vendor.closed == [first.closed, second.closed]


async def test_a_silence_takes_its_time(wire: Wire) -> None:
    async with FakeVendor(wire) as vendor:
        vendor.will('~0.1s T"x" ~0.2s F(stop)')
        start = time.monotonic()
        await said(vendor)
        assert 0.3 <= time.monotonic() - start < 2
    assert vendor.closed == [None]


# The requests


async def test_the_requests_are_kept(wire: Wire) -> None:
    async with FakeVendor(wire) as vendor, httpx.AsyncClient() as client:
        vendor.will('T"a" F(stop) || T"b" F(stop)')
        for word in ("one", "two"):
            body: JsonObject = {**BODIES[wire], "stream": True, "user": word}
            url = vendor.base_url + PATHS[wire]
            await client.post(url, json=body, headers={"X-Api-Key": "k"})
    assert [request.body["user"] for request in vendor.requests] == ["one", "two"]
    assert {request.headers["x-api-key"] for request in vendor.requests} == {"k"}
    assert all(request.path.endswith(PATHS[wire]) for request in vendor.requests)
    assert vendor.requests[0].at < vendor.requests[1].at <= time.monotonic()
    assert (vendor.calls, vendor.closed, vendor.faults) == (2, [None, None], [])


async def test_what_a_request_does_wrong_is_found(wire: Wire) -> None:
    async with FakeVendor(wire) as vendor, httpx.AsyncClient() as client:
        codes = [
            (await client.get(vendor.base_url + "/models")).status_code,
            (await client.post(vendor.base_url + PATHS[wire], content=b"[NaN]")).status_code,
            (await said(vendor)).status_code,
        ]
        vendor.will('T"x" F(stop)')
        codes.append((await said(vendor, messages=[], contents=[], max_tokens=9)).status_code)
    prefix = {"openai": "/v1", "gemini": "/v1beta"}.get(wire, "")
    assert codes == [404, 400, 400, 200]
    assert vendor.faults[:3] == [
        f"request 0: GET {prefix}/models is no address of the vendor's",
        "request 1: the body is no JSON object",
        "request 2: no completion is left",
    ]
    assert all(fault.startswith("request 3: ") for fault in vendor.faults[3:])
    assert "request 3: there are no " in vendor.faults[3]


async def test_openai_counts_only_when_it_is_asked_to() -> None:
    async with FakeVendor("openai") as vendor:
        vendor.will('T"x" F(stop) U(1,2)')
        await said(vendor, stream_options=None)
    assert vendor.faults == ["request 0: counts come only with stream_options.include_usage"]


async def test_ollama_streams_unless_it_is_told_not_to() -> None:
    async with FakeVendor("ollama") as vendor, httpx.AsyncClient() as client:
        vendor.will('T"x" F(stop)')
        response = await client.post(vendor.base_url + "/api/chat", json=BODIES["ollama"])
    assert len(response.text.splitlines()) == 2


def test_what_a_wire_cannot_say_is_refused_at_once() -> None:
    with pytest.raises(CannotSay, match="ollama can't say KeepAlive"):
        FakeVendor("ollama").will('T"x" KA F(stop)')


async def test_steps_that_are_made_are_said_too() -> None:
    async with FakeVendor("openai") as vendor:
        vendor.will([Raw(b"\xff"), Eof()])
        assert (await said(vendor)).content == b"\xff"
    with pytest.raises(BadScript):
        vendor.will([])


async def test_a_fault_of_the_vendor_itself_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    async def break_off(self: Connection) -> None:
        raise LookupError

    monkeypatch.setattr(Connection, "receive", break_off)
    vendor = await FakeVendor("openai").__aenter__()
    with pytest.raises(httpx.HTTPError):
        await said(vendor)
    with pytest.raises(ExceptionGroup):
        await vendor.__aexit__()


# LiteLLM

_READS = """
import asyncio, json, sys, litellm

TOOL = {"name": "query", "description": "d", "parameters": {"type": "object", "properties": {}}}

async def read(model, api_base):
    stream = await litellm.acompletion(
        model=model, api_base=api_base, api_key="k", stream=True, timeout=20,
        messages=[{"role": "system", "content": "s"}, {"role": "user", "content": "hi"}],
        tools=[{"type": "function", "function": TOOL}], stream_options={"include_usage": True},
    )
    text, calls, usage = "", [], None
    async for chunk in stream:
        usage = chunk.usage if "usage" in chunk and chunk.usage else usage
        for choice in chunk.choices:
            text += choice.delta.content or ""
            for call in choice.delta.tool_calls or []:
                calls.append([call.function.name, call.function.arguments])
    name = calls[0][0]
    arguments = "".join(part for _, part in calls)
    return [text, name, json.loads(arguments), usage.prompt_tokens, usage.completion_tokens]

async def main():
    return [await read(*pair) for pair in json.loads(sys.argv[1])]

print(json.dumps(asyncio.run(main())))
"""


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def read_by_litellm() -> dict[Wire, Json]:
    """What LiteLLM, in a process of its own, reads from each wire, and what it asked wrongly."""
    vendors = {wire: FakeVendor(wire) for wire in WIRES}
    async with vendors["openai"], vendors["anthropic"], vendors["gemini"], vendors["ollama"]:
        for vendor in vendors.values():
            vendor.will("""T"Hé" C(0,"a","query",'{"x":') C(0,-,-,"1}") F(tool_calls) U(9,2)""")
        asked = json.dumps([(vendor.model, vendor.base_url) for vendor in vendors.values()])
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", _READS, asked),
            env={**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True"},
            stdout=asyncio.subprocess.PIPE,
        )
        async with asyncio.timeout(60):
            output, _ = await process.communicate()
    read: list[Json] = json.loads(output.splitlines()[-1])
    return {
        wire: [found, _first_faults(vendors[wire])] for wire, found in zip(WIRES, read, strict=True)
    }


def _first_faults(vendor: FakeVendor) -> list[Json]:
    """Leave out what comes after the answer: LiteLLM asks Ollama about models it doesn't know."""
    return [fault for fault in vendor.faults if fault.startswith("request 0:")]


async def test_litellm_reads_each_wire(wire: Wire, read_by_litellm: dict[Wire, Json]) -> None:
    assert read_by_litellm[wire] == [["Hé", "query", {"x": 1}, 9, 2], []]
