"""Ollama's stream: lines of JSON; the last one holds the finish and the counts.

Calls are never cut: the deltas of one are joined, and it comes where the last one stands.
"""

from collections.abc import Iterator, Sequence

from completions import Call, Finish, Nothing, Reasoning, Status, Step, Text, Tokens
from wires.form import (
    MODEL,
    Form,
    Whole,
    arguments,
    encoded,
    json_text,
    with_counts,
    with_whole_calls,
    without_absent,
)

from schema.events import Json, JsonObject


def _say(steps: Sequence[Step]) -> Iterator[bytes | Step]:
    for step, tokens in with_counts(with_whole_calls("ollama", steps)):
        match step:
            case Text(text):
                yield _said({"content": text})
            case Reasoning(text):
                yield _said({"content": "", "thinking": text})
            case Nothing():
                yield _said({"content": ""})
            case Call():
                yield _said({"content": "", "tool_calls": [_call(step)]})
            case Finish(reason):
                yield _line(json_text(_done({"content": ""}, reason, tokens)))
            case _:
                yield step


def _said(message: JsonObject) -> bytes:
    said: JsonObject = {"role": "assistant", **message}
    return _line(json_text({**_SAME, "message": said, "done": False}))


def _line(payload: str) -> bytes:
    return encoded(payload + "\n")


def _done(message: JsonObject, reason: str | None, tokens: Tokens | None) -> JsonObject:
    counts = tokens or Tokens(None, None)
    said: JsonObject = {"role": "assistant", **message}
    done = without_absent(
        {
            "done_reason": "stop" if reason == "tool_calls" else reason,
            "prompt_eval_count": counts.input,
            "eval_count": counts.output,
        }
    )
    return {**_SAME, "message": said, "done": True, "total_duration": 1_000_000_000, **done}


def _call(call: Call) -> JsonObject:
    given = arguments("ollama", call)
    called: JsonObject = {"index": call.index, "name": call.name, "arguments": given}
    return without_absent({"id": call.id, "function": without_absent(called)})


def _whole(whole: Whole) -> JsonObject:
    calls: list[Json] = [_call(call) for call in whole.calls]
    message: JsonObject = {"content": whole.text}
    more = {"thinking": whole.reasoning or None, "tool_calls": calls or None}
    return _done({**message, **without_absent(more)}, whole.reason, whole.tokens)


def _error(status: Status) -> JsonObject:
    usual = {
        "": "the request failed",
        "context": "request (9000 tokens) exceeds the available context size (8192 tokens)",
        "quota": "you have reached your usage limit",
    }[status.about]
    return {"error": status.text or usual}


_SAME: JsonObject = {"model": MODEL, "created_at": "2026-01-02T03:04:05.678901Z"}

FORM = Form(
    wire="ollama",
    media_type="application/x-ndjson",
    say=_say,
    frame=_line,
    keep_alive=b"",
    end=b"",
    whole=_whole,
    error=_error,
)
