"""The script language of completions: what a model's vendor says, one delta after the other.

A completion is a line of steps, and `||` starts the next one. Blanks and commas between steps don't
matter. A text stands in `"..."` with JSON's escapes, or in `'...'` as it is (for JSON texts).

    T"x"   R"x"            a delta of text, of reasoning; D() is a delta with nothing in it
    C(i,id,name,args)      a delta of a tool call, `-` is an absent field: C(0,-,-,'le":1}') goes on
    F(reason)              the finish, in OpenAI's words; F(null) is one whose reason is null
    U(in,out)              counts of tokens; `-` is an absent count
    KA                     a keep-alive
    ~5s  ~0.2s             silence; headers go out with the first step that is not a silence
    RAW"x"   JSON'{}'      these bytes; one frame of the wire that holds this
    STEP x 300             the step 300 times

    !eof                   the answer ends cleanly, without what the vendor ends with
    !cut   !drop           the connection is closed, or reset, inside of the answer
    !error("x")            the vendor's error inside of a stream
    !500   !429(ra=2)   !400(context)   !429(quota, text="x")      a status, and no stream

`ra` goes into Retry-After as it stands: `ra=2`, `ra=soon`; only `ra=date+2` is the HTTP date two
seconds later, at the full second behind it. So do `ms=1500`, into Retry-After-Ms, and Gemini's
`delay=3.5s`, into the body of the error. Only silences may stand before a status, and nothing
behind a step with `!`. A completion without one ends as its vendor ends.

Wires differ: counts beside a finish share its frame, except for OpenAI. Anthropic says counts that
stand before all else in its first event, and splits the only ones at the end as it does in life.
Gemini and Ollama send whole calls: the deltas of one are joined, and it comes with the last.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NoReturn, TypeVar

T = TypeVar("T")

About = Literal["", "context", "quota"]


class BadScript(ValueError):
    """A script breaks the language; says what is wrong, and where."""


@dataclass(frozen=True, slots=True)
class Text:
    text: str


@dataclass(frozen=True, slots=True)
class Reasoning:
    text: str


@dataclass(frozen=True, slots=True)
class Nothing:
    """A delta with nothing in it."""


@dataclass(frozen=True, slots=True)
class Call:
    """A delta of a tool call; None is an absent field."""

    index: int | None
    id: str | None
    name: str | None
    args: str | None


@dataclass(frozen=True, slots=True)
class Finish:
    reason: str | None


@dataclass(frozen=True, slots=True)
class Tokens:
    """Counts of tokens sent and received; None is an absent count."""

    input: int | None
    output: int | None


@dataclass(frozen=True, slots=True)
class KeepAlive:
    pass


@dataclass(frozen=True, slots=True)
class Silence:
    seconds: float


@dataclass(frozen=True, slots=True)
class Raw:
    data: bytes


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame of the wire; its payload is a JSON text."""

    payload: str


@dataclass(frozen=True, slots=True)
class Eof:
    pass


@dataclass(frozen=True, slots=True)
class Cut:
    pass


@dataclass(frozen=True, slots=True)
class Drop:
    pass


@dataclass(frozen=True, slots=True)
class StreamError:
    text: str


@dataclass(frozen=True, slots=True)
class Status:
    """A status instead of a stream; an empty text is the vendor's usual one."""

    code: int
    about: About = ""
    retry_after: str | None = None
    text: str = ""
    retry_after_ms: str | None = None
    delay: str | None = None


Said = Text | Reasoning | Nothing | Call | Finish | Tokens | KeepAlive | Raw | Frame | StreamError
"""What a wire has a form for."""

Step = Said | Silence | Eof | Cut | Drop | Status
Completion = tuple[Step, ...]

_LAST = (Eof, Cut, Drop, StreamError, Status)


def parse(script: str) -> list[Completion]:
    """Parse a script into its completions. Raises: BadScript."""
    reader = _Reader(script)
    completions = [_completion(reader)]
    while reader.take(r"\|\|"):
        completions.append(_completion(reader))
    return completions


def checked(steps: Sequence[Step]) -> Completion:
    """See that the steps make one completion. Raises: BadScript."""
    if not steps:
        raise BadScript("A completion has no steps.")
    for number, step in enumerate(steps):
        if isinstance(step, _LAST) and number != len(steps) - 1:
            raise BadScript(f"Nothing can follow {step}.")
        if isinstance(step, Status) and not all(isinstance(s, Silence) for s in steps[:number]):
            raise BadScript(f"Only silences can stand before {step}.")
    return tuple(steps)


def _completion(reader: "_Reader") -> Completion:
    steps: list[Step] = []
    while not (reader.is_at_end or reader.sees(r"\|\|")):
        steps += _step(reader)
        reader.take(r",")
    return checked(steps)


def _step(reader: "_Reader") -> list[Step]:
    """Read one step and how often it comes."""
    step: Step
    if reader.take(r"~"):
        step = Silence(float(reader.need(r"\d+(\.\d+)?(?=s)", "seconds")))
        reader.need("s", "s")
    elif reader.take(r"!"):
        step = _ending(reader)
    else:
        kind = reader.need(r"[A-Z]+", "a step")
        if kind not in _STEPS:
            reader.fail(f"one of the steps {', '.join(_STEPS)}", back=len(kind))
        step = _STEPS[kind](reader)
    times = int(reader.need(r"\d+", "how often")) if reader.take(r"x(?=\s*\d)") else 1
    return [step] * times


def _ending(reader: "_Reader") -> Step:
    """Read what stands after the `!`."""
    if code := reader.take(r"[45]\d\d\b"):
        return _status(reader, int(code))
    kind = reader.need(r"eof\b|cut\b|drop\b|error\b", "a status, eof, cut, drop or error")
    match kind:
        case "eof":
            return Eof()
        case "cut":
            return Cut()
        case "drop":
            return Drop()
        case _:
            return StreamError(*_fields(reader, [_string]))


def _status(reader: "_Reader", code: int) -> Status:
    status = Status(code)
    if not reader.take(r"\("):
        return status
    while not reader.take(r"\)"):
        known = r"context|quota|ra=|ms=|delay=|text="
        match reader.need(known, "context, quota, ra=, ms=, delay= or text="):
            case "context":
                status = replace(status, about="context")
            case "quota":
                status = replace(status, about="quota")
            case "ra=":
                status = replace(status, retry_after=_word(reader))
            case "ms=":
                status = replace(status, retry_after_ms=_word(reader))
            case "delay=":
                status = replace(status, delay=_word(reader))
            case _:
                status = replace(status, text=_string(reader))
        reader.take(r",")
    return status


def _word(reader: "_Reader") -> str:
    """Read a text, whose quotes may be missing."""
    return reader.take(r"[^\s,()\"']+") or _string(reader)


def _string(reader: "_Reader") -> str:
    """Read a text in one of the two quotes."""
    if verbatim := reader.take(r"'[^']*'"):
        return verbatim[1:-1]
    text = reader.need(r'"(?:[^"\\]|\\.)*"', "a text in quotes")
    try:
        value: object = json.loads(text, strict=False)
    except ValueError:
        reader.fail("a text with JSON's escapes", back=len(text))
    assert isinstance(value, str)
    return value


def _string_or_absent(reader: "_Reader") -> str | None:
    return None if reader.take(r"-") else _string(reader)


def _count(reader: "_Reader") -> int | None:
    found = reader.need(r"\d+|-", "a number or -")
    return None if found == "-" else int(found)


def _reason(reader: "_Reader") -> str | None:
    found = reader.need(r"\w+", "a reason or null")
    return None if found == "null" else found


def _fields(reader: "_Reader", kinds: Sequence[Callable[["_Reader"], T]]) -> Iterator[T]:
    """Read as many fields as there are kinds, in parentheses."""
    reader.need(r"\(", "(")
    for number, kind in enumerate(kinds):
        if number:
            reader.need(r",", ",")
        yield kind(reader)
    reader.need(r"\)", ")")


def _call(reader: "_Reader") -> Call:
    reader.need(r"\(", "(")
    index = _count(reader)
    reader.need(r",", ",")
    id = _string_or_absent(reader)
    reader.need(r",", ",")
    name = _string_or_absent(reader)
    reader.need(r",", ",")
    args = _string_or_absent(reader)
    reader.need(r"\)", ")")
    return Call(index, id, name, args)


def _nothing(reader: "_Reader") -> Nothing:
    reader.need(r"\(\s*\)", "()")
    return Nothing()


_STEPS: dict[str, Callable[["_Reader"], Step]] = {
    "T": lambda reader: Text(_string(reader)),
    "R": lambda reader: Reasoning(_string(reader)),
    "D": _nothing,
    "C": _call,
    "F": lambda reader: Finish(*_fields(reader, [_reason])),
    "U": lambda reader: Tokens(*_fields(reader, [_count, _count])),
    "KA": lambda reader: KeepAlive(),
    "RAW": lambda reader: Raw(_string(reader).encode("utf-8", "surrogateescape")),
    "JSON": lambda reader: Frame(_string(reader)),
}


class _Reader:
    """A place in a script; blanks before what is read are skipped."""

    def __init__(self, script: str) -> None:
        self._script, self._place = script, 0

    @property
    def is_at_end(self) -> bool:
        self._skip()
        return self._place == len(self._script)

    def sees(self, pattern: str) -> str:
        """Return what matches and is not read yet."""
        self._skip()
        found = re.compile(pattern).match(self._script, self._place)
        return found[0] if found else ""

    def take(self, pattern: str) -> str:
        """Read what matches, or nothing."""
        found = self.sees(pattern)
        self._place += len(found)
        return found

    def need(self, pattern: str, expected: str) -> str:
        """Read what matches."""
        return self.take(pattern) or self.fail(expected)

    def fail(self, expected: str, back: int = 0) -> NoReturn:
        place = self._place - back
        raise BadScript(f"{expected} expected at {place}, before {self._script[place:][:30]!r}.")

    def _skip(self) -> None:
        while self._place < len(self._script) and self._script[self._place].isspace():
            self._place += 1
