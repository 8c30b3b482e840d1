"""A stream is at its end when its vendor says so, whatever a library on top makes of it."""

import pytest

from providers.deltas import Tokens
from providers.wire import CUT_SHORT, WireReader

COMPLETE: list[tuple[bytes, str | None]] = [
    (b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n', "stop"),
    (b'data: {"choices":[{"delta":{},"finish_reason":null}]}\n\ndata: [DONE]\n\n', None),
    (b"data:[DONE]\r\n\r\n", None),
    (b'data: {"type":"message_delta","delta":{"stop_reason":"end_turn"}}\n\n', "end_turn"),
    (b'data: {"type":"message_delta","delta":{"stop_reason":null}}\n\n', None),
    (b'event: message_stop\ndata: {"type":"message_stop"}\n\n', None),
    (b'data: {"candidates":[{"content":{},"finishReason":"STOP"}]}\r\n\r\n', "STOP"),
    (b'data: {"promptFeedback":{"blockReason":"SAFETY"}}\n\n', None),
    (b'{"message":{"content":""},"done":true,"done_reason":"stop"}\n', "stop"),
    (b'{"message":{"content":""},"done":true}', None),  # no line feed behind the last line
    (b'data: {"type":"response.completed","response":{}}\n\n', None),
]

OPEN: list[bytes] = [
    b'data: {"choices":[{"delta":{"content":"finish_reason [DONE]"},"finish_reason":null}]}\n\n',
    b'data: {"choices":[]}\n\n',
    b": [DONE]\n\n",
    b'{"message":{"content":"\\"done\\":true"},"done":false}\n',
    b'data: {"candidates":[{"content":{"parts":[{"functionCall":{"name":"x","args":'
    b'{"finishReason":"STOP"}}}]}}]}\n\n',
    b'data: {"choices":[{"delta":{},"finish_reason":"st',
    b'data: "finish_reason"\n\n',
    b"",
]


def read(*pieces: bytes) -> WireReader:
    wire = WireReader()
    for piece in pieces:
        wire.feed(piece)
    wire.finish()
    return wire


@pytest.mark.covers("H02", "H06")
@pytest.mark.parametrize(("stream", "reason"), COMPLETE)
def test_the_end_is_found_wherever_the_bytes_are_cut(stream: bytes, reason: str | None) -> None:
    for place in range(len(stream) + 1):
        wire = read(stream[:place], stream[place:])
        assert wire.is_complete, place
        assert reason is None or wire.reason == reason


@pytest.mark.covers("H06", "P39")
@pytest.mark.parametrize("stream", OPEN)
def test_what_a_model_says_is_no_end(stream: bytes) -> None:
    assert not read(stream).is_complete


LEGIBLE: list[bytes] = [
    b":\n\n",
    b": \n\n",
    b": ping \r\n\r\n",
    b"id: \nevent: ping \nretry: 3000 \n\n",
    b"data:\n\n",
    b"data: \n\n",
    b'data: {"tokens_per_second":NaN}\n\n',
    b'data: {"choices":[{"delta":{"content":"\\ud83d"}}]}\n\n',
]


@pytest.mark.covers("H06")
@pytest.mark.parametrize("part", LEGIBLE)
def test_signs_of_life_and_what_libraries_can_read_are_no_gap(part: bytes) -> None:
    assert read(part, b"data: [DONE]\n\n").is_legible


ILLEGIBLE: list[bytes] = [
    b"data: ping\n\n",
    b'data: {"choices":[\n\n',
    b'{"message":\n',
    b'data: {"x":"\xff"}\n\n',
    b"data: " + b"[" * 100_000 + b"\n\n",
]


@pytest.mark.covers("H06", "P39")
@pytest.mark.parametrize("part", ILLEGIBLE)
def test_a_part_that_is_no_json_is_a_gap_unless_the_end_was_before_it(part: bytes) -> None:
    assert not read(part, b"data: [DONE]\n\n").is_legible
    assert read(b"data: [DONE]\n\n", part).is_legible


COUNTS: list[tuple[list[bytes], Tokens]] = [
    ([b'{"usage":{"prompt_tokens":9,"completion_tokens":2,"total_tokens":11}}'], Tokens(9, 2)),
    ([b'{"usage":{"prompt_tokens":9,"input_tokens":9,"completion_tokens":2}}'], Tokens(9, 2)),
    ([b'{"usage":null}', b'{"usage":{"prompt_tokens":9}}'], Tokens(9, 0)),
    (
        [
            b'{"type":"message_start","message":{"usage":{"input_tokens":5,"output_tokens":1,'
            b'"cache_read_input_tokens":3,"cache_creation_input_tokens":1}}}',
            b'{"type":"message_delta","delta":{},"usage":{"output_tokens":2}}',
            b'{"type":"message_delta","delta":{},"usage":{"input_tokens":null}}',
        ],
        Tokens(9, 2, 3, 1),
    ),
    (
        [
            b'{"candidates":[],"usageMetadata":{"promptTokenCount":9}}',
            b'{"usageMetadata":{"promptTokenCount":9,"candidatesTokenCount":1,'
            b'"thoughtsTokenCount":1,"totalTokenCount":11}}',
        ],
        Tokens(9, 2),
    ),
    (
        [b'{"message":{"content":""},"done":true,"prompt_eval_count":9,"eval_count":2}'],
        Tokens(9, 2),
    ),
    ([b'{"message":{"content":""},"done":true,"eval_count":2}'], Tokens(0, 2)),
    (
        [
            b'{"type":"response.completed","response":{"usage":{"input_tokens":9,"output_tokens":2}}}'
        ],
        Tokens(9, 2),
    ),
    (
        [
            b'{"usage":{"prompt_tokens":9,"completion_tokens":2,'
            b'"prompt_tokens_details":{"cached_tokens":3,"cache_write_tokens":1}}}',
        ],
        Tokens(9, 2, 3, 1),
    ),
    (
        [
            b'{"response":{"usage":{"input_tokens":9,"output_tokens":2,'
            b'"input_tokens_details":{"cached_tokens":3}}}}',
        ],
        Tokens(9, 2, 3),
    ),
    (
        [
            b'{"usage":{"prompt_tokens":9,"completion_tokens":2,"prompt_cache_hit_tokens":3,'
            b'"prompt_cache_miss_tokens":6}}',
        ],
        Tokens(9, 2, 3),
    ),
    (
        [
            b'{"usageMetadata":{"promptTokenCount":9,"candidatesTokenCount":2,'
            b'"cachedContentTokenCount":3}}',
        ],
        Tokens(9, 2, 3),
    ),
    (
        [b'{"usage":{"prompt_tokens":9,"completion_tokens":2,"prompt_tokens_details":null}}'],
        Tokens(9, 2),
    ),
    ([b'{"usage":{"prompt_tokens":9,"cached_tokens":-1}}'], Tokens(9)),
    ([b'{"usage":{"prompt_tokens":-9,"completion_tokens":"2"}}'], Tokens(0, 0)),
    ([b'{"usage":[9]}', b'{"usage":"9"}', b'["usage"]'], Tokens(0, 0)),
]


@pytest.mark.covers("H04", "P41")
@pytest.mark.parametrize(("frames", "tokens"), COUNTS)
def test_counts_are_read_in_every_vendor_s_words(frames: list[bytes], tokens: Tokens) -> None:
    assert read(*[b"data: " + frame + b"\n\n" for frame in frames]).tokens == tokens


@pytest.mark.covers("H03")
@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (b'{"functionCall":{"name":"x"}}', b'{"functionCall":{"name":"x","args":{}}}'),
        (b'{"functionCall": {"name": "x" } }', b'{"functionCall": {"name": "x","args":{}} }'),
        (b'{"functionCall":{"name":"x","args":{}}}', None),
        (b'{"functionCall":{"args":{"a":{"b":1}},"name":"x"}}', None),
        (b'{"text":"\\"functionCall\\":{\\"name\\":1}"}', None),
        (b'{"functionCall":{}}', None),
    ],
)
def test_a_call_without_arguments_gets_none(call: bytes, expected: bytes | None) -> None:
    assert WireReader().feed(b"data: " + call + b"\n") == b"data: " + (expected or call) + b"\n"


BESIDE: list[bytes] = [
    b": ping \n\n",
    b"retry: 3000\n\n",
    b"id: 7\n",
    b"data:\n\n",
    b"data: \r\n\r\n",
]


@pytest.mark.parametrize("beside", BESIDE)
@pytest.mark.parametrize("size", [1, 2, 5, 1000])
def test_what_is_about_the_connection_is_kept_from_libraries(beside: bytes, size: int) -> None:
    data = b'data: {"choices":[]}\n\n'
    stream = beside + data + beside + data
    wire = WireReader()
    shown = b"".join(wire.feed(stream[at : at + size]) for at in range(0, len(stream), size))
    assert b"".join((shown + wire.finish()).split()) == b"".join((data + data).split())
    assert b":" not in shown.replace(b"data:", b"").replace(b'"choices":', b"")
    assert wire.is_legible


def test_reasons_are_compared_in_lower_case() -> None:
    assert all(reason == reason.lower() for reason in CUT_SHORT)
