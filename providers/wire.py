"""What a vendor's own bytes say of a stream's end and its tokens.

A library on top may make up an end that never came, and counts that nobody counted. A stream is
complete when the vendor says so in its own words; a connection that closes without them has cut the
answer off. Source: bug-cases.md H02, H04 and H06; reliability.md P41.
"""

import json
import re
from collections.abc import Mapping, Sequence

import orjson

from providers.deltas import Tokens, merged
from schema.events import Json, is_object

_HINTS = re.compile(
    rb'finish_?reason|stop_reason|blockReason|"done"|\[DONE\]|message_stop|response\.|usage', re.I
)
"""Lines without any of these say nothing of an end or of tokens."""

_LAST_TYPES = ("message_delta", "message_stop", "response.completed", "response.incomplete")

_SENT = (
    ("prompt_tokens",),  # OpenAI and all who speak like it
    ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"),  # Anthropic
    ("promptTokenCount", "toolUsePromptTokenCount"),  # Gemini
    ("prompt_eval_count",),  # Ollama
)
_RECEIVED = (
    ("completion_tokens",),
    ("output_tokens",),
    ("candidatesTokenCount", "thoughtsTokenCount"),
    ("eval_count",),
)
_CACHE_READS = (
    ("cached_tokens",),  # OpenAI, in the details of what was sent
    ("cache_read_input_tokens",),
    ("cachedContentTokenCount",),
    ("prompt_cache_hit_tokens",),  # DeepSeek
)
_CACHE_WRITES = (("cache_creation_input_tokens",), ("cache_write_tokens",))
"""Counts that add up, by vendor; the first that are there count, for some say them twice."""

CUT_SHORT = frozenset(
    {
        "compaction",
        "content_filter",
        "content_filtered",
        "error",
        "incomplete",
        "length",
        "max_tokens",
        "model_context_window_exceeded",
        "network_error",
        "pause_turn",
        "refusal",
        "sensitive",
        # Gemini's
        "blocklist",
        "image_safety",
        "language",
        "malformed_function_call",
        "malformed_response",
        "missing_thought_signature",
        "other",
        "prohibited_content",
        "recitation",
        "safety",
        "spii",
        "too_many_tool_calls",
        "unexpected_tool_call",
    }
)
"""Reasons, in lower case, of an end that is none: the answer was stopped before it was complete."""


_BARE_CALL = re.compile(rb'("functionCall"\s*:\s*\{[^{}]*[^{}\s])\s*\}')
_BESIDE = (b":", b"id:", b"retry:")
"""Lines that are about the connection; some libraries take them for an event without data."""


class WireReader:
    """Reads a stream's bytes along, in any of the vendors' formats."""

    def __init__(self) -> None:
        self.is_complete = False
        self.is_legible = True
        """False when a part of the answer is no JSON: libraries go on as if it were not there."""
        self.reason: str | None = None
        self.tokens = Tokens()
        self._line = bytearray()

    def feed(self, data: bytes) -> bytes:
        """Take the next bytes, cut anywhere; return whole lines that a library can read."""
        self._line += data
        if b"\n" not in data:
            return b""
        lines = self._line.splitlines(keepends=True)
        self._line = bytearray() if lines[-1].endswith(b"\n") else lines.pop()
        return b"".join(self._read(bytes(line)) for line in lines)

    def finish(self) -> bytes:
        """Take the end of the bytes: a last line needs no line feed."""
        line, self._line = self._line, bytearray()
        return self._read(bytes(line))

    def _read(self, line: bytes) -> bytes:
        data = line.removeprefix(b"data:").strip()
        if line.startswith(_BESIDE) or (not data and line.startswith(b"data:")):
            return b""
        if data == b"[DONE]":
            self.is_complete = True
        elif line.startswith((b"data:", b"{")):
            self._take(data)
        return _mended(line)

    def _take(self, data: bytes) -> None:
        try:
            frame = _decoded(data)
        except (ValueError, RecursionError):
            self.is_legible = self.is_legible and self.is_complete
            return
        if is_object(frame) and _HINTS.search(data):
            self.reason = _reason(frame) or self.reason
            self.is_complete = self.is_complete or _is_end(frame) or self.reason is not None
            self.tokens = merged(self.tokens, _tokens(frame))


def _mended(line: bytes) -> bytes:
    """Give Gemini's calls without arguments an empty object, without which LiteLLM fails."""
    return _BARE_CALL.sub(rb'\1,"args":{}}', line) if b"functionCall" in line else line


def _decoded(data: bytes) -> Json:
    """Decode what libraries can: some servers write NaN, or half of a surrogate pair."""
    try:
        return orjson.loads(data)
    except ValueError:
        return json.loads(data)


def _is_end(frame: dict[str, Json]) -> bool:
    """True for frames that end a stream whatever reason they give."""
    if frame.get("done") is True:  # Ollama
        return True
    return frame.get("type") in _LAST_TYPES


def _reason(frame: dict[str, Json]) -> str | None:
    match frame:
        case {"choices": [{"finish_reason": str(reason)}, *_]}:  # OpenAI and all who speak like it
            return reason
        case {"type": "message_delta", "delta": {"stop_reason": str(reason)}}:  # Anthropic
            return reason
        case {"candidates": [{"finishReason": str(reason)}, *_]}:  # Gemini
            return reason
        case {"promptFeedback": {"blockReason": str(reason)}}:
            return reason
        case {"done": True, "done_reason": str(reason)}:  # Ollama
            return reason
        case {"type": "response.incomplete"}:  # OpenAI's other API
            return "incomplete"
        case _:
            return None


def _tokens(frame: dict[str, Json]) -> Tokens:
    """Read what one frame counts; vendors count in several, and what they leave out is 0."""
    message, response = frame.get("message"), frame.get("response")
    inner = message if is_object(message) else response if is_object(response) else frame
    usage, metadata = inner.get("usage", frame.get("usage")), frame.get("usageMetadata")
    counts = usage if is_object(usage) else metadata if is_object(metadata) else frame
    details = counts.get("prompt_tokens_details", counts.get("input_tokens_details"))
    cached = {**counts, **details} if is_object(details) else counts
    return Tokens(
        _sum(counts, _SENT),
        _sum(counts, _RECEIVED),
        _sum(cached, _CACHE_READS),
        _sum(cached, _CACHE_WRITES),
    )


def _sum(counts: Mapping[str, Json], groups: Sequence[Sequence[str]]) -> int:
    for names in groups:
        found = [count for name in names if isinstance(count := counts.get(name), int)]
        if found:
            return sum(max(count, 0) for count in found)
    return 0
