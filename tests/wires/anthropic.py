"""Anthropic's stream: named events, content in numbered blocks, counts in the first and the last.

The blocks are numbered by their place: the index of a call only tells which one a delta goes on.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from completions import (
    Call,
    Finish,
    KeepAlive,
    Reasoning,
    Status,
    Step,
    StreamError,
    Text,
    Tokens,
)
from wires.form import (
    MODEL,
    CannotSay,
    Form,
    Whole,
    arguments,
    json_text,
    numbered,
    sse,
    with_counts,
    without_absent,
)

from schema.events import Json, JsonObject, is_object

_Said = Text | Reasoning | Call | Finish | Tokens | KeepAlive | StreamError
"""What the first event stands before."""

_SIGNATURE = "c2lnbmVk"


def _say(steps: Sequence[Step]) -> Iterator[bytes | Step]:
    usage, steps = _first_usage(steps)
    numbers = numbered("anthropic", steps)
    blocks = _Blocks()
    is_started = False
    for step, tokens in with_counts(steps):
        if isinstance(step, _Said) and not is_started:
            is_started = True
            yield _start(usage)
        match step:
            case Text(text):
                yield from blocks.open("text", {"type": "text", "text": ""})
                yield blocks.delta({"type": "text_delta", "text": text})
            case Reasoning(text):
                empty: JsonObject = {"type": "thinking", "thinking": "", "signature": ""}
                yield from blocks.open("thinking", empty)
                yield blocks.delta({"type": "thinking_delta", "thinking": text})
            case Call():
                yield from _call(blocks, *next(numbers))
            case Finish(reason):
                yield from blocks.close()
                yield _last(_REASONS.get(reason, reason), tokens)
            case Tokens():
                yield from blocks.close()
                yield _last(None, step)
            case _:
                yield step


class _Blocks:
    """The content blocks of a message: each is closed before the next one opens."""

    def __init__(self) -> None:
        self._index, self._open = -1, ""

    def open(self, name: str, block: JsonObject) -> Iterator[bytes]:
        """Open a block unless it is the open one."""
        if self._open != name:
            yield from self.close()
            self._index, self._open = self._index + 1, name
            start: JsonObject = {"index": self._index, "content_block": block}
            yield _event({"type": "content_block_start", **start})

    def is_open(self, name: str) -> bool:
        return self._open == name

    def delta(self, delta: JsonObject) -> bytes:
        return _event({"type": "content_block_delta", "index": self._index, "delta": delta})

    def close(self) -> Iterator[bytes]:
        if self._open == "thinking":
            yield self.delta({"type": "signature_delta", "signature": _SIGNATURE})
        if self._open:
            self._open = ""
            yield _event({"type": "content_block_stop", "index": self._index})


def _call(blocks: _Blocks, call: Call, number: int, opens: bool) -> Iterator[bytes]:
    if opens:
        if call.id is None or call.name is None:
            raise CannotSay("anthropic", call, "a tool_use block has an id and a name")
        start: JsonObject = {"id": call.id, "name": call.name, "input": {}}
        yield from blocks.open(f"call {number}", {"type": "tool_use", **start})
    elif not blocks.is_open(f"call {number}"):
        raise CannotSay("anthropic", call, "its block is closed")
    elif call.name:
        raise CannotSay("anthropic", call, "a name stands at the start of a block")
    if call.args is not None:
        yield blocks.delta({"type": "input_json_delta", "partial_json": call.args})


def _first_usage(steps: Sequence[Step]) -> tuple[Tokens | None, Sequence[Step]]:
    """Take from the counts what the first event says.

    Those which stand before all else are its own. The only ones, behind something, come in two
    parts, as the vendor sends them.
    """
    places = [place for place, step in enumerate(steps) if isinstance(step, Tokens)]
    if not places:
        return None, steps
    first = places[0]
    counts = steps[first]
    assert isinstance(counts, Tokens)
    if not any(isinstance(step, _Said) for step in steps[:first]):
        return counts, [*steps[:first], *steps[first + 1 :]]
    if len(places) > 1:
        return None, steps
    sent = Tokens(counts.input, None if counts.output is None else min(1, counts.output))
    return sent, [*steps[:first], Tokens(None, counts.output), *steps[first + 1 :]]


def _start(usage: Tokens | None) -> bytes:
    return _event({"type": "message_start", "message": _message([], None, usage)})


def _last(reason: str | None, tokens: Tokens | None) -> bytes:
    delta: JsonObject = {"stop_reason": reason, "stop_sequence": None}
    return _event({"type": "message_delta", "delta": delta, **_usage(tokens)})


def _message(content: list[Json], reason: str | None, tokens: Tokens | None) -> JsonObject:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": MODEL,
        "content": content,
        "stop_reason": reason,
        "stop_sequence": None,
        **_usage(tokens),
    }


def _usage(tokens: Tokens | None) -> JsonObject:
    if tokens is None:
        return {}
    counts = {"input_tokens": tokens.input, "output_tokens": tokens.output}
    return {"usage": without_absent(counts)}


def _event(event: JsonObject) -> bytes:
    return _frame(json_text(event))


def _frame(payload: str) -> bytes:
    event: object = json.loads(payload)
    kind = event.get("type") if is_object(event) else None
    return f"event: {kind}\n".encode() + sse(payload)


def _whole(whole: Whole) -> JsonObject:
    content: list[Json] = []
    if whole.reasoning:
        thinking: JsonObject = {"thinking": whole.reasoning, "signature": _SIGNATURE}
        content.append({"type": "thinking", **thinking})
    if whole.text:
        content.append({"type": "text", "text": whole.text})
    for call in whole.calls:
        given = arguments("anthropic", replace(call, args=call.args or "{}"))
        use: JsonObject = {"id": call.id, "name": call.name, "input": given}
        content.append({"type": "tool_use", **use})
    return _message(content, _REASONS.get(whole.reason, whole.reason), whole.tokens)


def _error(status: Status) -> JsonObject:
    kind = _ERRORS.get(status.code, "api_error")
    usual = {
        "": kind.replace("_", " "),
        "context": "prompt is too long: 210000 tokens > 200000 maximum",
        "quota": "Your credit balance is too low to access the Anthropic API.",
    }[status.about]
    return {"type": "error", "error": {"type": kind, "message": status.text or usual}}


_REASONS: Mapping[str | None, str] = {
    "stop": "end_turn",
    "tool_calls": "tool_use",
    "length": "max_tokens",
    "content_filter": "refusal",
}

_ERRORS: Mapping[int, str] = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}

FORM = Form(
    wire="anthropic",
    media_type="text/event-stream",
    say=_say,
    frame=_frame,
    keep_alive=_event({"type": "ping"}),
    end=_event({"type": "message_stop"}),
    whole=_whole,
    error=_error,
)
