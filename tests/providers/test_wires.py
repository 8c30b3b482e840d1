"""Each wire says a script in its own form, and refuses what it has no form for."""

import json

import pytest
from completions import Eof, parse
from wires import anthropic, gemini, ollama, openai
from wires.form import CannotSay, Form, Wire

from schema.events import Json, JsonObject, is_object

FORMS: dict[Wire, Form] = {
    form.wire: form for form in (openai.FORM, anthropic.FORM, gemini.FORM, ollama.FORM)
}


@pytest.fixture(params=FORMS)
def wire(request: pytest.FixtureRequest) -> Wire:
    return request.param


def _choice(delta: JsonObject, reason: str | None = None) -> JsonObject:
    return {"index": 0, "delta": delta, "finish_reason": reason}


def _told(wire: Wire, frame: JsonObject) -> Json:
    """Take from a frame what is not the same in each."""
    if wire == "openai":
        return frame["usage"] if "usage" in frame else frame["choices"]
    same = {"modelVersion", "responseId", "model", "created_at", "total_duration"}
    return {name: value for name, value in frame.items() if name not in same}


PLAIN = """R"hm" T"Hé" C(0,"a","query",'{"x":') C(0,-,-,"1}") F(tool_calls) U(9,2)"""


def _block(index: int, block: JsonObject, *deltas: JsonObject) -> list[Json]:
    return [
        {"type": "content_block_start", "index": index, "content_block": block},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def _candidate(part: Json, **more: Json) -> JsonObject:
    return {"candidates": [{"content": {"parts": [part], "role": "model"}, **more, "index": 0}]}


def _message(**fields: Json) -> JsonObject:
    return {"message": {"role": "assistant", "content": "", **fields}, "done": False}


_START: JsonObject = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "fake-1",
    "content": [],
    "stop_reason": None,
    "stop_sequence": None,
    "usage": {"input_tokens": 9, "output_tokens": 1},
}
_CALLED: JsonObject = {"index": 0, "id": "a", "type": "function"}

SPOKEN: dict[Wire, list[Json]] = {
    "openai": [
        [_choice({"role": "assistant", "content": ""})],
        [_choice({"reasoning_content": "hm"})],
        [_choice({"content": "Hé"})],
        [
            _choice(
                {"tool_calls": [{**_CALLED, "function": {"name": "query", "arguments": '{"x":'}}]}
            )
        ],
        [_choice({"tool_calls": [{"index": 0, "function": {"arguments": "1}"}}]})],
        [_choice({}, "tool_calls")],
        {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11},
    ],
    "anthropic": [
        {"type": "message_start", "message": _START},
        *_block(
            0,
            {"type": "thinking", "thinking": "", "signature": ""},
            {"type": "thinking_delta", "thinking": "hm"},
            {"type": "signature_delta", "signature": "c2lnbmVk"},
        ),
        *_block(1, {"type": "text", "text": ""}, {"type": "text_delta", "text": "Hé"}),
        *_block(
            2,
            {"type": "tool_use", "id": "a", "name": "query", "input": {}},
            {"type": "input_json_delta", "partial_json": '{"x":'},
            {"type": "input_json_delta", "partial_json": "1}"},
        ),
        {
            "type": "message_delta",
            "delta": {"stop_reason": "tool_use", "stop_sequence": None},
            "usage": {"output_tokens": 2},
        },
        {"type": "message_stop"},
    ],
    "gemini": [
        _candidate({"text": "hm", "thought": True}),
        _candidate({"text": "Hé"}),
        _candidate({"functionCall": {"id": "a", "name": "query", "args": {"x": 1}}}),
        {
            **_candidate({"text": ""}, finishReason="STOP"),
            "usageMetadata": {
                "promptTokenCount": 9,
                "candidatesTokenCount": 2,
                "totalTokenCount": 11,
            },
        },
    ],
    "ollama": [
        _message(thinking="hm"),
        _message(content="Hé"),
        _message(
            tool_calls=[
                {"id": "a", "function": {"index": 0, "name": "query", "arguments": {"x": 1}}}
            ]
        ),
        {
            **_message(),
            "done": True,
            "done_reason": "stop",
            "prompt_eval_count": 9,
            "eval_count": 2,
        },
    ],
}


WHOLE: dict[Wire, JsonObject] = {
    "openai": {
        "choices": [
            {
                "index": 0,
                "message": {
                    "role": "assistant",
                    "content": "Hé",
                    "reasoning_content": "hm",
                    "tool_calls": [
                        {
                            "id": "a",
                            "type": "function",
                            "function": {"name": "query", "arguments": '{"x":1}'},
                        }
                    ],
                },
                "finish_reason": "tool_calls",
            }
        ],
        "usage": {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11},
    },
    "anthropic": {
        "content": [
            {"type": "thinking", "thinking": "hm", "signature": "c2lnbmVk"},
            {"type": "text", "text": "Hé"},
            {"type": "tool_use", "id": "a", "name": "query", "input": {"x": 1}},
        ],
        "stop_reason": "tool_use",
        "usage": {"input_tokens": 9, "output_tokens": 2},
    },
    "gemini": {
        "candidates": [
            {
                "content": {
                    "parts": [
                        {"text": "hm", "thought": True},
                        {"text": "Hé"},
                        {"functionCall": {"id": "a", "name": "query", "args": {"x": 1}}},
                    ],
                    "role": "model",
                },
                "finishReason": "STOP",
                "index": 0,
            }
        ],
        "usageMetadata": {
            "promptTokenCount": 9,
            "candidatesTokenCount": 2,
            "totalTokenCount": 11,
        },
    },
    "ollama": {
        "message": {
            "role": "assistant",
            "content": "Hé",
            "thinking": "hm",
            "tool_calls": [
                {"id": "a", "function": {"index": 0, "name": "query", "arguments": {"x": 1}}}
            ],
        },
        "done": True,
        "prompt_eval_count": 9,
        "eval_count": 2,
    },
}


def said(wire: Wire, script: str) -> list[JsonObject]:
    """Write a script as a stream, and read the payloads of its frames."""
    [completion] = parse(script)
    pieces = [beat for beat in FORMS[wire].beats(completion) if isinstance(beat, bytes)]
    lines = [line.removeprefix("data: ") for line in b"".join(pieces).decode().splitlines()]
    found = [json.loads(line) for line in lines if line.startswith("{")]
    return [frame for frame in found if is_object(frame)]


def test_each_wire_says_a_script_in_its_own_form(wire: Wire) -> None:
    assert [_told(wire, frame) for frame in said(wire, PLAIN)] == SPOKEN[wire]


def test_each_wire_answers_without_a_stream(wire: Wire) -> None:
    answer = FORMS[wire].answer(parse(PLAIN)[0])
    assert {**answer, **WHOLE[wire]} == answer


def test_the_events_of_anthropic_have_names() -> None:
    *beats, end = FORMS["anthropic"].beats(parse('KA T"x" F(stop)')[0])
    assert end == Eof()
    events = [beat.decode().partition("\ndata: ") for beat in beats if isinstance(beat, bytes)]
    names = [f"event: {json.loads(data)['type']}" for _, _, data in events]
    assert [name for name, _, _ in events] == names
    assert events[1] == ("event: ping", "\ndata: ", '{"type":"ping"}\n\n')


ODD: list[tuple[str, list[JsonObject]]] = [
    ('T""', [{"content": ""}]),
    ("D()", [{}]),
    (
        'C(-,"a","q",-)',
        [{"tool_calls": [{"id": "a", "type": "function", "function": {"name": "q"}}]}],
    ),
    ('C(1,-,-,"")', [{"tool_calls": [{"index": 1, "function": {"arguments": ""}}]}]),
    (
        'C(0,"a",-,-) C(0,"b",-,-)',
        [
            {"tool_calls": [{"index": 0, "id": "a", "type": "function", "function": {}}]},
            {"tool_calls": [{"index": 0, "id": "b", "type": "function", "function": {}}]},
        ],
    ),
    ('T"\\ud800"', [{"content": "\ud800"}]),
]


@pytest.mark.parametrize(("script", "deltas"), ODD)
def test_openai_says_odd_deltas_as_they_are(script: str, deltas: list[JsonObject]) -> None:
    found = said("openai", script)
    assert [frame["choices"] for frame in found[1:]] == [[_choice(delta)] for delta in deltas]


@pytest.mark.parametrize(
    ("script", "usages"),
    [
        ('U(100,1) T"x" U(-,20) F(stop)', [(100, 1), (None, 20)]),
        ('T"x" F(stop) U(9,2)', [(9, 1), (None, 2)]),
        ('T"x" F(stop) U(9,0)', [(9, 0), (None, 0)]),
        ('U(9,2) T"x" F(stop)', [(9, 2)]),
        ('T"x" U(-,5) F(stop) U(9,7)', [(None, 5), (9, 7)]),
        ('T"x" F(stop)', []),
    ],
)
def test_anthropic_counts_in_two_parts(
    script: str, usages: list[tuple[int | None, int | None]]
) -> None:
    found = said("anthropic", script)
    starts = [frame.get("message", frame) for frame in found]
    counts = [start["usage"] for start in starts if is_object(start) and "usage" in start]
    found_usages = [
        (usage.get("input_tokens"), usage.get("output_tokens"))
        for usage in counts
        if is_object(usage)
    ]
    assert found_usages == usages


@pytest.mark.parametrize(
    ("script", "calls"),
    [
        ("""C(0,"a","q",'{"x":1}') C(0,"b","q",'{"x":') C(0,-,-,"2}")""", [("a", 1), ("b", 2)]),
        ("""C(0,"a","q",'{"x":') C(1,"b","q",'{"x":2}') C(0,-,-,"1}")""", [("b", 2), ("a", 1)]),
        ("""C(0,"a","q",'{"x":') C(0,"a","q","1}")""", [("a", 1)]),
        ("""C(0,"a",-,-) C(0,-,"q",-) T"x" C(-,-,-,'{"x":1}')""", [("a", 1)]),
        ("""C(-,"a","q",'{"x":1}') C(-,"b","q",'{"x":2}')""", [("a", 1), ("b", 2)]),
        ("""C(0,-,"q",'{"x":1}') C(0,-,"q",'{"x":2}')""", [(None, 1), (None, 2)]),
        ("""C(0,"","q",'{"x":1}') C(0,"","q",'{"x":2}')""", [("", 1), ("", 2)]),
    ],
)
def test_gemini_joins_the_deltas_of_each_call(
    script: str, calls: list[tuple[str | None, int]]
) -> None:
    called: list[JsonObject] = [{"name": "q", "args": {"x": x}} for _, x in calls]
    for call, (id, _) in zip(called, calls, strict=True):
        if id is not None:
            call["id"] = id
    told = [_told("gemini", frame) for frame in said("gemini", script)]
    assert [frame for frame in told if frame != _candidate({"text": "x"})] == [
        _candidate({"functionCall": call}) for call in called
    ]


@pytest.mark.parametrize(
    ("wire", "script"),
    [
        ("anthropic", "D()"),
        ("anthropic", 'C(0,-,"q","")'),
        ("anthropic", 'C(0,-,-,"{}")'),
        ("anthropic", 'C(0,"a","q","") C(1,"b","q","") C(0,-,-,"{}")'),
        ("gemini", "F(null)"),
        ("gemini", 'C(0,"a","q","")'),
        ("gemini", """C(0,"a","q",'{"x":')"""),
        ("gemini", 'C(0,"a","q","[1]")'),
        ("gemini", """C(0,"a","q",'{"x":1,"x":2}')"""),
        ("ollama", """C(0,"a","q",'{"x":NaN}')"""),
        ("ollama", "KA"),
        ("ollama", 'U(1,2) T"x" F(stop)'),
    ],
)
def test_what_a_wire_cannot_say_is_refused_at_once(wire: Wire, script: str) -> None:
    with pytest.raises(CannotSay, match=f"{wire} can't say"):
        FORMS[wire].beats(parse(script)[0])
