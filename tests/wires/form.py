"""What the stream formats of all vendors have in common.

A wire that has no form for a step says so with `CannotSay`; nothing is bent into what it can say.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from completions import (
    Call,
    Completion,
    Cut,
    Drop,
    Eof,
    Finish,
    Frame,
    KeepAlive,
    Raw,
    Reasoning,
    Silence,
    Status,
    Step,
    StreamError,
    Text,
    Tokens,
)

from schema.events import Json, JsonObject, is_object

Wire = Literal["openai", "anthropic", "gemini", "ollama"]

MODEL = "fake-1"
"""The model that says it answered."""

Beat = bytes | Silence | Eof | Cut | Drop | Status
"""What a server does next; the last four are the ends."""


class CannotSay(ValueError):
    """A wire has no form for a step: a test leaves out the pair of the two."""

    def __init__(self, wire: Wire, step: object, why: str) -> None:
        super().__init__(f"{wire} can't say {step}: {why}.")


@dataclass(frozen=True, slots=True)
class Whole:
    """What a completion says in all."""

    text: str
    reasoning: str
    calls: list[Call]
    reason: str | None
    tokens: Tokens | None


@dataclass(frozen=True, slots=True)
class Form:
    """How one vendor answers."""

    wire: Wire
    media_type: str
    say: Callable[[Sequence[Step]], Iterator[bytes | Step]]
    """Writes what the model says; the other steps are passed on."""
    frame: Callable[[str], bytes]
    """Puts a JSON text into the stream."""
    keep_alive: bytes
    end: bytes
    whole: Callable[[Whole], JsonObject]
    error: Callable[[Status], JsonObject]

    def beats(self, completion: Completion) -> list[Beat]:
        """Write a completion as a stream. Raises: CannotSay."""
        beats = [self._beat(piece) for piece in self.say(completion)]
        match completion[-1]:
            case Eof() | Cut() | Drop() | Status():
                return beats
            case StreamError():
                return [*beats, Eof()]
            case _:
                return [*beats, self.end, Eof()]

    def _beat(self, piece: bytes | Step) -> Beat:
        match piece:
            case Status(delay=str()) if self.wire != "gemini":
                raise CannotSay(self.wire, piece, "its errors tell no delay")
            case bytes() | Silence() | Eof() | Cut() | Drop() | Status():
                return piece
            case Raw(data):
                return data
            case Frame(payload):
                return self.frame(payload)
            case StreamError(text):
                return self.frame(json_text(self.error(Status(500, text=text))))
            case KeepAlive() if self.keep_alive:
                return self.keep_alive
            case _:
                raise CannotSay(self.wire, piece, "the format has no such thing")

    def answer(self, completion: Completion) -> JsonObject:
        """Write a completion as the answer to a request without a stream. Raises: CannotSay."""
        for step in completion:
            if isinstance(step, Raw | Frame | Eof | Cut | StreamError):
                raise CannotSay(self.wire, step, "the answer is whole")
        reasons = [step.reason for step in completion if isinstance(step, Finish)]
        return self.whole(
            Whole(
                "".join(step.text for step in completion if isinstance(step, Text)),
                "".join(step.text for step in completion if isinstance(step, Reasoning)),
                joined(self.wire, completion),
                reasons[-1] if reasons else None,
                _counted([step for step in completion if isinstance(step, Tokens)]),
            )
        )


def json_text(payload: Json) -> str:
    return json.dumps(payload, ensure_ascii=False, separators=(",", ":"))


def encoded(text: str) -> bytes:
    """Encode a JSON text as vendors do, in UTF-8; half of a pair of surrogates is escaped."""
    return text.encode("utf-8", "backslashreplace")


def sse(payload: str) -> bytes:
    return encoded(f"data: {payload}\n\n")


def without_absent(fields: Mapping[str, Json]) -> JsonObject:
    return {name: value for name, value in fields.items() if value is not None}


def _counted(tokens: Sequence[Tokens]) -> Tokens | None:
    """Take the most that was counted."""
    if not tokens:
        return None
    sent = [counts.input for counts in tokens if counts.input is not None]
    received = [counts.output for counts in tokens if counts.output is not None]
    return Tokens(max(sent, default=None), max(received, default=None))


def numbered(wire: Wire, steps: Sequence[Step]) -> Iterator[tuple[Call, int, bool]]:
    """Tell for each delta which call it belongs to, and whether it opens it.

    A delta without index goes on with the latest call.
    """
    calls: list[Call] = []
    latest: dict[int | None, int] = {}
    for step in steps:
        if not isinstance(step, Call):
            continue
        number = latest.get(step.index)
        opens = _opens(step, None if number is None else calls[number])
        if opens:
            number = len(calls)
            calls.append(step)
        elif number is None:
            raise CannotSay(wire, step, "no call is open that it could go on with")
        latest[step.index] = latest[None] = number
        yield step, number, opens


def _opens(delta: Call, opened: Call | None) -> bool:
    """A new id opens a call even if the index is an old one; without ids, a new name does."""
    if opened is None:
        return bool(delta.id or delta.name)
    if delta.id and opened.id:
        return delta.id != opened.id
    return bool(delta.name and opened.name)


def joined(wire: Wire, steps: Sequence[Step]) -> list[Call]:
    """Join the deltas of each call."""
    calls: list[Call] = []
    for delta, number, opens in numbered(wire, steps):
        if opens:
            calls.append(delta)
        else:
            calls[number] = _with_delta(calls[number], delta)
    return calls


def _with_delta(call: Call, delta: Call) -> Call:
    parts = [part for part in (call.args, delta.args) if part is not None]
    args = "".join(parts) if parts else None
    return replace(call, id=call.id or delta.id, name=call.name or delta.name, args=args)


def with_whole_calls(wire: Wire, steps: Sequence[Step]) -> Iterator[Step]:
    """Put each call, whole, where its last delta stands."""
    calls = joined(wire, steps)
    numbers = [number for _, number, _ in numbered(wire, steps)]
    for step in steps:
        if not isinstance(step, Call):
            yield step
        elif (number := numbers.pop(0)) not in numbers:
            yield calls[number]


def arguments(wire: Wire, call: Call) -> JsonObject | None:
    """Read a call's arguments for a wire on which they are no text."""
    if call.args is None:
        return None
    try:
        value: object = json.loads(call.args, object_pairs_hook=_object, parse_constant=_refused)
    except ValueError:
        value = None
    if not is_object(value):
        raise CannotSay(wire, call, "the arguments are no JSON object")
    return value


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    if len(dict(pairs)) != len(pairs):
        raise ValueError
    return dict(pairs)


def _refused(constant: str) -> object:
    raise ValueError(constant)


def with_counts(steps: Iterable[Step]) -> list[tuple[Step, Tokens | None]]:
    """Give the counts right behind or before a finish to it: they share a frame."""
    pairs: list[tuple[Step, Tokens | None]] = []
    for step in steps:
        before, counts = pairs[-1] if pairs else (None, None)
        if isinstance(step, Tokens) and isinstance(before, Finish) and counts is None:
            pairs[-1] = before, step
        elif isinstance(step, Finish) and isinstance(before, Tokens):
            pairs[-1] = step, before
        else:
            pairs.append((step, None))
    return pairs
