"""What the pieces of a vendor's stream add up to: whole tool calls, and tokens.

Vendors differ in how they cut a call into deltas: the id may come once, with each delta or never,
the index may repeat, start anywhere or be missing. Nothing is guessed into a call: pieces that do
not fit make a call that is refused later, and never one that the model did not ask for.
Source: bug-cases.md H01-H06.
"""

import json
import re
from dataclasses import astuple, dataclass, field
from typing import cast

import orjson

from schema.events import Json, JsonObject, ToolCallEvent, is_object

_LONG_NUMBER = re.compile(r"\d{19}")


@dataclass(slots=True)
class _Call:
    index: int | None
    id: str = ""
    name: str = ""
    parts: list[str] = field(default_factory=list[str])

    @property
    def arguments(self) -> str:
        return "".join(self.parts)


class Deltas:
    """The tool calls of one completion, gathered from its deltas."""

    def __init__(self) -> None:
        self._calls: list[_Call] = []

    def add(
        self,
        *,
        index: int | None = None,
        id: str | None = None,
        name: str | None = None,
        arguments: str | None = None,
    ) -> None:
        """Add one delta; an absent field is None, and a blank id or name is absent as well."""
        id, name = (id or "").strip(), (name or "").strip()
        call = self._continued(index, id, name)
        if call is None:
            call = _Call(index)
            self._calls.append(call)
        call.id, call.name = call.id or id, call.name or name
        if arguments:
            call.parts.append(arguments)

    def _continued(self, index: int | None, id: str, name: str) -> _Call | None:
        """Find the call that a delta goes on with: the latest one of its index, unless it differs.

        Without an index that is the latest call of all.
        """
        latest = (call for call in reversed(self._calls) if index in (None, call.index))
        call = next(latest, None)
        if call is None:
            return None
        if id and call.id:
            return call if id == call.id else None
        if name and call.name:
            # A call without id: its name is said again in each delta, or another call begins.
            return call if name == call.name and not _is_whole(call.arguments) else None
        return call

    def calls(self) -> list[ToolCallEvent]:
        """Return the calls in the order in which they began; for use after the stream's end."""
        return [
            ToolCallEvent(call.id or f"call_{number}", call.name, _arguments(call.arguments))
            for number, call in enumerate(self._calls, start=1)
        ]


def _arguments(text: str) -> JsonObject:
    """Decode a call's arguments; a tool without parameters is called with no text at all.

    What is no JSON object comes back as it is: whoever runs calls refuses it, so that the model
    reads why.
    """
    if not text.strip():
        return {}
    decoded = _decoded(text)
    if is_object(decoded):
        return decoded
    # Not of the type on purpose: the loop reads arguments as what they turn out to be.
    return cast("JsonObject", text)


def _is_whole(text: str) -> bool:
    return _decoded(text) is not None


def _decoded(text: str) -> Json:
    try:
        decoded = orjson.loads(text)
        # It makes a float of an integer beyond 64 bits, which would then be another number.
        return json.loads(text) if _LONG_NUMBER.search(text) else decoded
    except (ValueError, RecursionError):
        return None


@dataclass(frozen=True, slots=True)
class Tokens:
    """What a vendor counted of one completion.

    Those that it read from its cache, and those that it wrote there, are among those sent.
    """

    sent: int = 0
    received: int = 0
    cache_reads: int = 0
    cache_writes: int = 0


def merged(first: Tokens, second: Tokens) -> Tokens:
    """Join two reports on one completion: the larger value of each count, and never their sum."""
    return Tokens(*map(max, astuple(first), astuple(second)))
