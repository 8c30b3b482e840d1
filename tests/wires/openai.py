"""OpenAI's stream: chunks with choices, counts in a chunk without, and `[DONE]`."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from completions import Call, Finish, Nothing, Reasoning, Status, Step, Text, Tokens
from wires.form import MODEL, Form, Whole, json_text, sse, without_absent

from schema.events import Json, JsonObject


def _say(steps: Sequence[Step]) -> Iterator[bytes | Step]:
    has_role = False
    for step in steps:
        if isinstance(step, Text | Reasoning | Nothing | Call) and not has_role:
            has_role = True
            yield _delta({"role": "assistant", "content": ""})
        match step:
            case Text(text):
                yield _delta({"content": text})
            case Reasoning(text):
                yield _delta({"reasoning_content": text})
            case Nothing():
                yield _delta({})
            case Call():
                yield _delta({"tool_calls": [_call(step)]})
            case Finish(reason):
                yield _delta({}, reason)
            case Tokens():
                yield _chunk([], usage=_usage(step))
            case _:
                yield step


def _delta(delta: JsonObject, reason: str | None = None) -> bytes:
    return _chunk([{"index": 0, "delta": delta, "finish_reason": reason}])


def _chunk(choices: list[Json], **more: Json) -> bytes:
    chunk: JsonObject = {**_SAME, "object": "chat.completion.chunk", "choices": choices, **more}
    return sse(json_text(chunk))


def _call(call: Call) -> JsonObject:
    return without_absent(
        {
            "index": call.index,
            "id": call.id,
            "type": None if call.id is None and call.name is None else "function",
            "function": without_absent({"name": call.name, "arguments": call.args}),
        }
    )


def _usage(tokens: Tokens) -> JsonObject:
    counts = {"prompt_tokens": tokens.input, "completion_tokens": tokens.output}
    return without_absent({**counts, "total_tokens": (tokens.input or 0) + (tokens.output or 0)})


def _whole(whole: Whole) -> JsonObject:
    calls: list[Json] = [_call(replace(call, index=None)) for call in whole.calls]
    message: JsonObject = {"role": "assistant", "content": whole.text or None}
    if whole.reasoning:
        message["reasoning_content"] = whole.reasoning
    if calls:
        message["tool_calls"] = calls
    answer: JsonObject = {
        **_SAME,
        "object": "chat.completion",
        "choices": [{"index": 0, "message": message, "finish_reason": whole.reason}],
    }
    if whole.tokens:
        answer["usage"] = _usage(whole.tokens)
    return answer


def _error(status: Status) -> JsonObject:
    usual, kind, code = _ERRORS.get(
        (status.code, status.about), ("The server had an error.", "server_error", None)
    )
    error: JsonObject = {"message": status.text or usual, "type": kind, "param": None, "code": code}
    return {"error": error}


_SAME: JsonObject = {"id": "chatcmpl-1", "created": 1_700_000_000, "model": MODEL}

_ERRORS: Mapping[tuple[int, str], tuple[str, str, str | None]] = {
    (400, ""): ("The request is invalid.", "invalid_request_error", None),
    (400, "context"): (
        "This model's maximum context length is 8192 tokens. However, your messages resulted in "
        "9000 tokens. Please reduce the length of the messages.",
        "invalid_request_error",
        "context_length_exceeded",
    ),
    (401, ""): ("Incorrect API key provided.", "invalid_request_error", "invalid_api_key"),
    (403, ""): ("Your organization may not do this.", "invalid_request_error", None),
    (404, ""): ("The model does not exist.", "invalid_request_error", "model_not_found"),
    (429, ""): ("Rate limit reached for requests.", "requests", "rate_limit_exceeded"),
    (429, "quota"): (
        "You exceeded your current quota, please check your plan and billing details.",
        "insufficient_quota",
        "insufficient_quota",
    ),
}

FORM = Form(
    wire="openai",
    media_type="text/event-stream",
    say=_say,
    frame=sse,
    keep_alive=b": keep-alive\n\n",
    end=b"data: [DONE]\n\n",
    whole=_whole,
    error=_error,
)
