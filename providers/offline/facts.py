"""What the tool results of the current turn have said so far.

The provider keeps nothing between completions: each one reads its facts again from the messages
after the last user message. A result of another shape than expected is a refusal.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal

import orjson
from pydantic import BaseModel, BeforeValidator, ConfigDict, TypeAdapter, ValidationError
from pydantic import Field as Named

from providers.base import Message, ToolCallEvent
from schema.events import JsonObject

SEARCH, SCHEMA, PATH = "search_managers", "get_manager_schema", "find_path"
QUERY, AGGREGATE = "query", "aggregate"
MAX_CALLS = 8
"""Reads of one answer; the default budget of a message allows as many."""
SUGGESTED = "\nYou could ask:\n- "
"""What opens the questions to ask instead, in an answer that is none."""


def _or_empty(value: object) -> object:
    return "" if value is None else value


_Text = Annotated[str, BeforeValidator(_or_empty)]


class _Facts(BaseModel):
    model_config = ConfigDict(frozen=True, populate_by_name=True)


class Field(_Facts):
    """A scalar field; ``type`` is empty while only its name is known."""

    name: str
    type: str = ""
    nullable: bool = True
    description: _Text = ""
    choices: tuple[str, ...] = ()
    computed: bool = False


class Relation(_Facts):
    """A hop from one manager to another."""

    name: str
    target: str
    many: bool = False
    nullable: bool = True
    description: _Text = ""


def _named(value: object) -> object:
    return {"name": value} if isinstance(value, str) else value


class Manager(_Facts):
    """A manager as far as it is known; ``primary_key`` is empty before its schema was read."""

    name: str = Named(alias="manager")
    description: _Text = ""
    aliases: tuple[str, ...] = ()
    primary_key: tuple[str, ...] = ()
    fields: tuple[Annotated[Field, BeforeValidator(_named)], ...] = ()
    relations: tuple[Relation, ...] = ()
    reason: str = ""

    def relation(self, name: str) -> Relation | None:
        """Find a relation by its exact name."""
        return next((r for r in self.relations if r.name == name), None)


class _Schema(Manager):
    found: bool
    name: str = Named(default="", alias="manager")


class _Hop(_Facts):
    name: str = Named(alias="field")
    target: str = Named(alias="to")
    many: bool = False


class _Path(_Facts):
    found: bool
    hops: tuple[_Hop, ...] = ()


class Page(_Facts):
    """The answer of a query."""

    data: list[JsonObject]
    total_count: int


_SEARCHED = TypeAdapter(list[Manager])
Answer = Page | Literal["refused"]


@dataclass(slots=True)
class Facts:
    """All that is known in this turn.

    ``managers`` keeps the order of discovery, best search hit first; ``detailed`` are those whose
    schema was asked for. A path that does not exist is ``None``; ``widening`` are those that lead
    to many rows. ``done``: keys of all calls.
    """

    managers: dict[str, Manager] = field(default_factory=dict[str, Manager])
    detailed: set[str] = field(default_factory=set[str])
    paths: dict[tuple[str, str], tuple[str, ...] | None] = field(
        default_factory=dict[tuple[str, str], tuple[str, ...] | None]
    )
    widening: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    pages: dict[str, Answer] = field(default_factory=dict[str, Answer])
    done: set[str] = field(default_factory=set[str])
    is_refused: bool = False
    calls: int = 0

    @property
    def left(self) -> int:
        """How many more reads the answer may make."""
        return max(0, MAX_CALLS - self.calls)

    def page(self, args: JsonObject, tool: str = QUERY) -> Answer | None:
        """Return what a query found; None if it was not asked."""
        return self.pages.get(call_key(tool, args))

    def learn(self, call: ToolCallEvent, content: str) -> None:
        """Take in one tool result."""
        self.calls += 1
        key = call_key(call.name, call.args)
        self.done.add(key)
        if call.name == SCHEMA:
            self.detailed.add(str(call.args.get("manager")))
        try:
            self._take(call, key, content)
        except ValidationError:
            self.is_refused = True
            self.pages[key] = "refused"

    def _take(self, call: ToolCallEvent, key: str, content: str) -> None:
        match call.name:
            case "search_managers":
                for manager in _SEARCHED.validate_json(content):
                    self.managers.setdefault(manager.name, manager)
            case "get_manager_schema":
                schema = _Schema.model_validate_json(content)
                if schema.found:
                    seen = self.managers.get(schema.name)
                    reason = seen.reason if seen else ""
                    # A question about a computed field is one about its rows' values, by which no
                    # read can choose or sort.
                    fields = tuple(f for f in schema.fields if not f.computed)
                    known = {"reason": reason, "fields": fields}
                    self.managers[schema.name] = schema.model_copy(update=known)
            case "find_path":
                path = _Path.model_validate_json(content)
                pair = (str(call.args.get("from_manager")), str(call.args.get("to_manager")))
                self.paths[pair] = tuple(hop.name for hop in path.hops) if path.found else None
                self.widening |= {pair} if any(hop.many for hop in path.hops) else set()
            case "query" | "aggregate":
                self.pages[key] = Page.model_validate_json(content)
            case _:
                pass


@dataclass(frozen=True, slots=True)
class Said:
    """An earlier message of the user, with the read that ``answered`` it.

    ``is_refused``: it got no answer but what to ask instead.
    """

    text: str
    is_refused: bool = False
    answered: ToolCallEvent | None = None


def call_key(name: str, args: JsonObject) -> str:
    """Name a call, so that the same call is known again whatever the order of its arguments."""
    return name + orjson.dumps(args, option=orjson.OPT_SORT_KEYS).decode()


def earlier_questions(messages: list[Message]) -> list[Said]:
    """Return what the user said before the current message, oldest first."""
    said: list[Said] = []
    for message in messages:
        if message.role == "user":
            said.append(Said(message.content))
        elif said and message.role == "assistant":
            answered = _answering(said[-1].answered, message.tool_calls)
            said[-1] = Said(said[-1].text, SUGGESTED in message.content, answered)
    return said[:-1]


def _answering(
    before: ToolCallEvent | None, calls: Sequence[ToolCallEvent]
) -> ToolCallEvent | None:
    """Return the last read of rows; after one of rows in order, what follows only counts ties."""
    if before and before.name == QUERY and "order_by" in before.args:
        return before
    return next((call for call in reversed(calls) if call.name in {QUERY, AGGREGATE}), before)


def read_turn(messages: list[Message]) -> tuple[str, Facts]:
    """Return the current user message and what its tool calls have brought."""
    last = max((i for i, m in enumerate(messages) if m.role == "user"), default=-1)
    facts = Facts()
    for call, content in _exchanges(messages[last + 1 :]):
        facts.learn(call, content)
    return (messages[last].content if last >= 0 else ""), facts


def _exchanges(messages: list[Message]) -> Iterator[tuple[ToolCallEvent, str]]:
    asked: dict[str, ToolCallEvent] = {}
    for message in messages:
        for call in message.tool_calls:
            asked[call.id] = call
        if message.role == "tool" and message.tool_call_id in asked:
            yield asked[message.tool_call_id], message.content
