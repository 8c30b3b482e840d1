"""Turns that a seed invents: what a vendor says in them, and where they are stopped.

    turn = invented_turn(Random("a seed"), "openai")

What is said is a script in the language of `completions`, so that a turn that shows a fault can be
written down as it is.
"""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random

from vendors import Wire, can_say

SPARE = 'T"ok" F(stop)'
"""What a vendor says when it is asked more often than a turn foresees."""


@dataclass(frozen=True, slots=True)
class Stop:
    """Where the process of a turn ends: behind ``after`` events of the model, or in a tool.

    ``waits`` tells that the turn stands still there until it is stopped; else it goes on meanwhile.
    """

    is_kill: bool
    after: int
    waits: bool


@dataclass(frozen=True, slots=True)
class InventedTurn:
    """One question, and what the asked vendor says: a completion for each request."""

    wire: Wire
    text: str
    completions: Sequence[str]
    is_new: bool = False
    """The question begins a conversation."""
    stop: Stop | None = None

    def __str__(self) -> str:
        begins = "new conversation, " if self.is_new else ""
        script = " || ".join(self.completions)
        return f"{begins}{self.wire} {self.text[:20]!r} {self.stop or ''}: {script}"


def invented_turn(random: Random, wire: Wire) -> InventedTurn:
    """Invent a turn in which a vendor of that wire is asked."""
    stop = None
    rounds = random.choices((1, 2, 3, 5), (3, 5, 3, 1))[0]
    completions = [_sayable(random, wire, _round) for _ in range(rounds - 1)]
    completions.append(_sayable(random, wire, _last_round))
    if random.random() < 0.03:
        stop = Stop(random.random() < 0.5, random.randrange(8), random.random() < 0.7)
        if random.random() < 0.3:
            completions.insert(0, _sayable(random, wire, _waiting_round))
    is_new = random.random() < 0.08
    return InventedTurn(wire, random.choice(_QUESTIONS), completions, is_new, stop)


async def shortest(
    turns: Sequence[InventedTurn],
    is_faulty: Callable[[Sequence[InventedTurn]], Awaitable[bool]],
) -> Sequence[InventedTurn]:
    """Leave out turns, and completions of them, while what is left is still faulty."""
    for place in reversed(range(len(turns))):
        fewer = [*turns[:place], *turns[place + 1 :]]
        turns = fewer if await is_faulty(fewer) else turns
    for place, turn in enumerate(turns):
        for said in reversed(range(len(turn.completions))):
            completions = [*turns[place].completions]
            del completions[said]
            shorter = replace(turns[place], completions=completions)
            fewer = [*turns[:place], shorter, *turns[place + 1 :]]
            turns = fewer if await is_faulty(fewer) else turns
    return turns


def _sayable(random: Random, wire: Wire, invent: Callable[[Random], Iterator[str]]) -> str:
    while True:
        script = " ".join(invent(random))
        if can_say(wire, script):
            return script


def _round(random: Random) -> Iterator[str]:
    """A completion that most often has calls."""
    if random.random() < 0.06:
        yield random.choice(_STATUSES)
        return
    steps = [*_words(random, 2), *_calls(random, random.choice((1, 1, 1, 2, 2, 3, 4)))]
    if random.random() < 0.1:
        steps += _words(random, 2)
    yield from _ended(random, steps, "tool_calls")


def _last_round(random: Random) -> Iterator[str]:
    """A completion that most often has only a text."""
    if random.random() < 0.05:
        yield random.choice(_STATUSES)
        return
    steps = [] if random.random() < 0.08 else [*_words(random, 3), 'T"Done."']
    yield from _ended(random, steps, "stop")


def _waiting_round(random: Random) -> Iterator[str]:
    """A completion with a call of the tool that waits until its process ends."""
    calls = [*_calls(random, random.randrange(3)), """C(9,"w","wait","{}")"""]
    yield from (*_words(random, 1), *calls, "F(tool_calls)")


def _words(random: Random, most: int) -> Iterator[str]:
    for _ in range(random.randint(0, most)):
        kind = random.choices("TRDK", (12, 3, 1, 1))[0]
        yield {"D": "D()", "K": "KA"}.get(kind) or f"{kind}{random.choice(_TEXTS)}"


def _calls(random: Random, number: int) -> Iterator[str]:
    """Calls, each in one to three deltas."""
    for place in range(number):
        index = random.choices((str(place), "0", "-"), (8, 1, 1))[0]
        id = f'"id_{random.randrange(10**6)}"' if random.random() < 0.3 else random.choice(_IDS)
        args = random.choice(_ODD_ARGS if random.random() < 0.25 else _ARGS)
        name = random.choice(_ODD_NAMES) if random.random() < 0.12 else _name_for(args)
        cuts = sorted(random.randint(0, len(args)) for _ in range(random.choice((0, 0, 1, 2))))
        parts = [args[a:b] for a, b in zip([0, *cuts], [*cuts, len(args)], strict=True)]
        yield f"C({index},{id},{name},'{parts[0]}')"
        yield from (f"C({index},-,-,'{part}')" for part in parts[1:])


def _name_for(args: str) -> str:
    return '"search_managers"' if '"query":' in args else '"query"'


def _ended(random: Random, steps: list[str], reason: str) -> Iterator[str]:
    """End a completion as it should be, or cut it anywhere."""
    said = [*steps, f"F({random.choices((reason, *_REASONS), (40, 2, 2, 1, 1))[0]})"]
    said += ["U(9,2)"] if random.random() < 0.5 else []
    if random.random() < 0.12:
        said = [*said[: random.randint(0, len(said))], random.choice(_CUTS)]
    yield from said


_QUESTIONS = (
    "How many parts are there?",
    "And now?\n",
    "\t«Größe» \U0001f529",
    "x" * 3_000,
    '{"a":',
)
_TEXTS = (
    *('"Let me see."', '"Twelve parts.\\n"', '"  "', '"\\n"', '"\\n\\n"', '""', '"\\t \\u00a0"'),
    *('"\\u0000"', '"\\ud83d"', '"\\ud83d\\ude00"', '"query({})"', '"{\\"a\\":"'),
)
_IDS = (
    *('"a"', '"a"', '"query:0"', '"call_1"', '""', '" "', "-", '"a b"', '"\\u00fc/1"', '"\\n"'),
    f'"{"x" * 80}"',
)
_ODD_NAMES = (
    *('"no_such_tool"', '"multi_tool_use.parallel"', '"list parts"', '""', '" "', '"1st"', '"-q"'),
    *(
        '"gr\\u00f6\\u00dfe"',
        f'"{"q" * 80}"',
        '" query "',
        '"query\\u0000"',
        '"\\ud83d"',
        '"a<b>/c"',
    ),
)
_ARGS = (
    '{"manager":"Part","fields":["name"],"limit":3}',
    '{"manager":"Part"}',
    '{"manager":"Supplier","fields":["name","city"]}',
    '{"manager":"Part","fields":["name",{"supplier":["name"]}],"filters":{"stock__gt":4}}',
    '{"query":"parts"}',
    '{"manager":"Nothing"}',
    '{"manager":"Part","fields":["nothing"]}',
    '{"manager":"Part","filters":{"name":"\\u0000 \\ud83d\\ude00"}}',
)
_ODD_ARGS = (
    *("", "  ", "{}", "null", "5", '"text"', '["Part"]', '{"manager":', '{"a":1}{"a":1}', "}{"),
    *('{"limit":123456789012345678901234567890}', '{"limit":1e999}', '{"limit":NaN}'),
    *('{"a":1,"a":2}', '{"manager":"\\ud83d"}', '{"":{"":[[[[]]]]}}', '{"manager":null}'),
)
_REASONS = ("null", "length", "content_filter", "stop")
_CUTS = ("!eof", "!cut", "!drop", '!error("overloaded")')
_STATUSES = (
    *("!400", "!401", "!429(ra=3600)", "!429(ra=1)", "!500", "!503", "!400(context)"),
    *("!400(context)", "!400(context)", "!drop"),
)
