"""Gemini's stream: each event is an answer with parts of its own; counts may come with any.

Calls are never cut: the deltas of one are joined, and it comes where the last one stands.
"""

from collections.abc import Iterator, Mapping, Sequence

from completions import Call, Finish, Nothing, Reasoning, Status, Step, Text, Tokens
from wires.form import (
    MODEL,
    Form,
    Whole,
    arguments,
    json_text,
    sse,
    with_counts,
    with_whole_calls,
    without_absent,
)

from schema.events import Json, JsonObject


def _say(steps: Sequence[Step]) -> Iterator[bytes | Step]:
    for step, tokens in with_counts(with_whole_calls("gemini", steps)):
        match step:
            case Text(text):
                yield _part({"text": text})
            case Reasoning(text):
                yield _part({"text": text, "thought": True})
            case Nothing():
                yield _event(_answer(None, None, None))
            case Call():
                yield _part(_call(step))
            case Finish(str(reason)):
                yield _event(_answer([{"text": ""}], reason, tokens))
            case Tokens():
                yield _event(_counted(step))
            case _:
                yield step


def _part(part: JsonObject) -> bytes:
    return _event(_answer([part], None, None))


def _event(payload: JsonObject) -> bytes:
    return sse(json_text(payload))


def _answer(parts: list[Json] | None, reason: str | None, tokens: Tokens | None) -> JsonObject:
    finished = None if reason is None else _REASONS.get(reason, reason)
    content = without_absent({"parts": parts, "role": "model"})
    candidate = without_absent({"content": content, "finishReason": finished, "index": 0})
    return {"candidates": [candidate], **_counted(tokens)}


def _counted(tokens: Tokens | None) -> JsonObject:
    same: JsonObject = {"modelVersion": MODEL, "responseId": "r1"}
    if tokens is None:
        return same
    counts = {"promptTokenCount": tokens.input, "candidatesTokenCount": tokens.output}
    total = (tokens.input or 0) + (tokens.output or 0)
    return {"usageMetadata": without_absent({**counts, "totalTokenCount": total}), **same}


def _call(call: Call) -> JsonObject:
    given = arguments("gemini", call)
    called: JsonObject = {"id": call.id, "name": call.name, "args": given}
    return {"functionCall": without_absent(called)}


def _whole(whole: Whole) -> JsonObject:
    parts: list[Json] = []
    if whole.reasoning:
        parts.append({"text": whole.reasoning, "thought": True})
    if whole.text:
        parts.append({"text": whole.text})
    parts += [_call(call) for call in whole.calls]
    return _answer(parts, whole.reason, whole.tokens)


def _error(status: Status) -> JsonObject:
    usual = {
        "": "The request failed.",
        "context": "The input token count (1100000) exceeds the maximum number of tokens "
        "allowed (1048576).",
        "quota": "You exceeded your current quota, please check your plan and billing details.",
    }[status.about]
    error: JsonObject = {
        "code": status.code,
        "message": status.text or usual,
        "status": _ERRORS.get(status.code, "UNKNOWN"),
    }
    if status.delay is not None:
        kind = "type.googleapis.com/google.rpc"
        error["details"] = [
            {"@type": f"{kind}.Help", "links": []},
            {"@type": f"{kind}.RetryInfo", "retryDelay": status.delay},
        ]
    return {"error": error}


_REASONS: Mapping[str, str] = {
    "stop": "STOP",
    "tool_calls": "STOP",
    "length": "MAX_TOKENS",
    "content_filter": "SAFETY",
}

_ERRORS: Mapping[int, str] = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}

FORM = Form(
    wire="gemini",
    media_type="text/event-stream",
    say=_say,
    frame=sse,
    keep_alive=b": keep-alive\n\n",
    end=b"",
    whole=_whole,
    error=_error,
)
