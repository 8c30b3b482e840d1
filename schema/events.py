"""The one vocabulary: what a model is told, what it says, and what a client sees.

Three groups live here because a turn translates between them all the time:

- the model's side, with the seed's names: ``Message``, ``ToolDefinition`` in; ``ChatEvent`` out;
- the client's side: ``Ask`` in, ``Event`` out;
- ``Actor``, who asks.

Source: design.md 1 and 4; seed, server event contract.
"""

from dataclasses import dataclass, field
from decimal import Decimal
from typing import Annotated, Literal, NewType, Self

import orjson
from pydantic import BaseModel, ConfigDict, Field, SkipValidation, TypeAdapter
from typing_extensions import TypeAliasType, TypeIs

from schema.errors import ChatError

Json = TypeAliasType("Json", "dict[str, Json] | list[Json] | str | int | float | bool | None")
JsonObject = TypeAliasType("JsonObject", "dict[str, Json]")


def is_object(value: object) -> TypeIs[JsonObject]:
    """Tell a JSON object from any other value that came as JSON or from a project's code."""
    return isinstance(value, dict)


RunId = NewType("RunId", str)
ConversationId = NewType("ConversationId", str)
CallId = NewType("CallId", str)

EntryKind = Literal["user", "assistant", "action", "error"]
"""What can happen in a conversation."""


@dataclass(frozen=True, slots=True)
class Actor:
    """Who asks; every read, run and conversation belongs to one.

    ``session`` is an anonymous visitor, known by a signed cookie only.
    """

    kind: Literal["user", "session", "service"]
    subject: str
    tenant: str | None = None
    scopes: frozenset[str] = frozenset()

    @property
    def is_signed_in(self) -> bool:
        """True unless the actor is an anonymous session."""
        return self.kind != "session"


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one completion, or summed over a turn, and what they cost."""

    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: Annotated[
        Decimal | None,
        Field(
            description="What it cost in US dollars by the price list; null when the price of any "
            "part is unknown."
        ),
    ] = None

    def __add__(self, other: "Usage") -> "Usage":
        cost, more = self.cost_usd, other.cost_usd
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            None if cost is None or more is None else cost + more,
        )


# --- the model's side -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ToolDefinition:
    """One tool as a model sees it; ``input_schema`` is a JSON Schema object."""

    name: str
    description: str
    input_schema: JsonObject


@dataclass(frozen=True, slots=True)
class TextChunkEvent:
    """Assistant text as the model streams it."""

    content: str


@dataclass(frozen=True, slots=True)
class ToolCallEvent:
    """The model asks for one tool; ``id`` is the provider's and valid for its own round only."""

    id: str
    name: str
    args: JsonObject = field(default_factory=dict[str, Json])


@dataclass(frozen=True, slots=True)
class DoneEvent:
    """The end of one completion; nothing may follow it."""

    usage: Usage = Usage()


ChatEvent = TextChunkEvent | ToolCallEvent | DoneEvent


@dataclass(frozen=True, slots=True)
class Message:
    """One piece of history for a model, tool exchanges kept as structure.

    An ``assistant`` message may declare ``tool_calls``; each is answered by one ``tool`` message
    with the same ``tool_call_id``, whose ``content`` is the result as JSON text.
    """

    role: Literal["system", "user", "assistant", "tool"]
    content: str
    tool_calls: tuple[ToolCallEvent, ...] = ()
    tool_call_id: str | None = None
    tool_name: str | None = None

    @property
    def tool_result(self) -> Json:
        """The result of a ``tool`` message as a value, decoded on demand."""
        return orjson.loads(self.content)


# --- the client's side ----------------------------------------------------------------------------


def _name_its_type(schema: dict[str, Json]) -> None:
    """Say in the schema of an event that its type is always there, though it has a default."""
    required = schema.get("required")
    schema["required"] = ["type", *(required if isinstance(required, list) else [])]


class _Event(BaseModel):
    """Base of all events: immutable, and open for fields that come later.

    What has a default is always there, too, as their schemas say.
    """

    model_config = ConfigDict(frozen=True, json_schema_serialization_defaults_required=True)


class ToolCall(_Event):
    """The model asked for a tool, and the server is about to run it."""

    type: Literal["tool_call"] = "tool_call"
    id: str = Field(description="The call's id, made by the server; its result repeats it.")
    name: str = Field(description="The tool's name.")
    args: SkipValidation[JsonObject] = Field(description="The arguments as the model gave them.")


class ToolResult(_Event):
    """What the tool returned: the evidence behind the answer."""

    type: Literal["tool_result"] = "tool_result"
    id: str = Field(description="The id of the call that this answers.")
    name: str = Field(description="The tool's name.")
    result: SkipValidation[Json] = Field(
        description='The tool\'s result, or {"status": "error", "code", "message"}.'
    )


class TextChunk(_Event):
    """One fragment of assistant text; concatenating all of a turn gives the answer."""

    type: Literal["text_chunk"] = "text_chunk"
    content: str = Field(description="The fragment, to be joined as it is.")


class Done(_Event):
    """The turn is complete; no event of the run follows."""

    type: Literal["done"] = "done"
    usage: Usage = Field(description="Tokens over all rounds of the turn; 0 when not reported.")


class Failed(_Event):
    """The turn ended, or was refused, for a reason a client may know."""

    model_config = ConfigDict(
        json_schema_serialization_defaults_required=False, json_schema_extra=_name_its_type
    )

    type: Literal["error"] = "error"
    message: str = Field(description="A public sentence; it never carries internals.")
    code: str = Field(description="A stable code to act on.")
    retry_after_seconds: int | None = Field(
        default=None, description="Seconds to wait before trying again, when known."
    )
    error_id: str | None = Field(
        default=None, description="The id under which the server's log has the details."
    )

    @classmethod
    def of(cls, error: ChatError, error_id: str | None = None) -> Self:
        """Say an error as a client is told it."""
        return cls(
            message=str(error),
            code=error.code,
            retry_after_seconds=error.retry_after_seconds,
            error_id=error_id,
        )


class RunStarted(_Event):
    """Live: the run has its conversation's lease and begins to work."""

    type: Literal["run_started"] = "run_started"
    run_id: str = Field(description="The run, by which its events can be read again.")
    conversation_id: str = Field(description="The conversation that it belongs to.")


class EntryStored(_Event):
    """Live: an entry of the conversation was written; read it in the list of entries."""

    type: Literal["entry"] = "entry"
    entry_seq: int = Field(description="The entry's number in its conversation, from 1.")
    kind: EntryKind = Field(description="What the entry is.")


class UsageReported(_Event):
    """Live: tokens of the turn so far, after each round."""

    type: Literal["usage"] = "usage"
    usage: Usage = Field(description="Tokens over all rounds so far; 0 when not reported.")


class Resync(_Event):
    """The cursor lies beyond what was stored: drop what you have and read this instead."""

    type: Literal["resync"] = "resync"
    run_id: str = Field(description="The run.")
    status: str = Field(description="The run's status.")
    last_seq: int = Field(description="The number of the last stored event.")
    entries: SkipValidation[list[Json]] = Field(description="The entries the run has stored.")


Event = TypeAliasType(
    "Event",
    Annotated[
        ToolCall
        | ToolResult
        | TextChunk
        | Done
        | Failed
        | RunStarted
        | EntryStored
        | UsageReported
        | Resync,
        Field(discriminator="type"),
    ],
)
EVENTS: TypeAdapter[Event] = TypeAdapter(Event)
"""The reader of events; ``encode`` is the writer."""

LIVE: frozenset[str] = frozenset({"run_started", "entry", "usage"})
"""Types that only a client with ``live: true`` is shown. They have numbers like all others."""


def encode(event: Event) -> bytes:
    """Write one event as JSON: ``type`` first, and no optional field that has no value."""
    fields = event.__dict__
    if isinstance(event, Failed):
        fields = {name: value for name, value in fields.items() if value is not None}
    return orjson.dumps(fields, default=_plain)


def _plain(value: object) -> str:
    """Write a cost as a plain decimal, to a millionth of a millionth of a dollar."""
    if not isinstance(value, Decimal):
        raise TypeError
    return f"{value:.12f}".rstrip("0").rstrip(".")


class Ask(BaseModel):
    """A user message: the body of POST `/chat/` and `/chat/stream/`, and the command it becomes."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")

    text: str = Field(min_length=1, description="The question, in plain language.")
    conversation_id: ConversationId | None = Field(
        default=None,
        description='The conversation to continue; "new" starts one; absent, the latest one.',
    )
    live: bool = Field(default=False, description="Also show how the answer comes about.")
    request_id: str | None = Field(
        default=None,
        min_length=1,
        max_length=200,
        description="Makes the request repeatable: the same id and text give the first run again.",
    )


class MessageFrame(Ask):
    """A user message over a WebSocket."""

    type: Literal["message"]


class AttachFrame(BaseModel):
    """Follow a run over a WebSocket, from any event on: to resume, or to read again."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")

    type: Literal["attach"]
    run_id: RunId = Field(description="One of your runs.")
    after: int = Field(default=0, ge=0, description="The last event you have.")
    live: bool = Field(default=False, description="As in the message that started it.")


ClientFrame = TypeAliasType(
    "ClientFrame", Annotated[MessageFrame | AttachFrame, Field(discriminator="type")]
)
"""What a client may send over a WebSocket."""
