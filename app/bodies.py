"""What answers over HTTP hold, where that is no event: problems, turns, entries and sessions.

Source: design.md 4.
"""

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from app.identity import CSRF_HEADER
from schema.events import Actor, EntryKind, Event, Json


class _Body(BaseModel):
    """Base of all bodies: what has a default is always there too."""

    model_config = ConfigDict(json_schema_serialization_defaults_required=True)


class Problem(_Body):
    """Why a request was refused, where the refusal has an HTTP status of its own."""

    detail: str = Field(description="A public sentence.")
    code: str = Field(description="A stable code to act on.")


class Answer(_Body):
    """A whole turn."""

    events: list[Event] = Field(description="In order; the last one is a `done` or an `error`.")
    answer: str = Field(description="The text of all text chunks.")


class Entry(_Body):
    """One thing that happened in a conversation."""

    seq: int = Field(description="Its number in the conversation, from 1.")
    run_id: str = Field(description="The run that it belongs to.")
    created_at: datetime
    kind: EntryKind
    content: str = Field(description="The text; of an error, its public message.")
    round: int = Field(description="The provider round; an answer and its calls share it.")
    name: str | None = Field(description="Of an action, the tool; of an error, its code.")
    call_id: str | None = Field(description="Of an action, the id that its events carry.")
    arguments: Json = Field(description="Of an action, what the tool was called with.")
    result: Json = Field(description="Of an action, what the tool returned.")
    status: str | None = Field(description="Of an action: succeeded, failed or interrupted.")


class Entries(_Body):
    """One page of a conversation, oldest first."""

    items: list[Entry]
    next: int | None = Field(description="Give it as `after` to read on; null at the end.")


class SessionState(_Body):
    """Who asks, and what a browser has to send with each message."""

    actor: Actor
    csrf_token: str | None = Field(
        description=f"Goes along as {CSRF_HEADER}; null where none is needed, as with a bearer."
    )
    expires_at: datetime | None = Field(description="When to sign in again; null: never.")


class Health(_Body):
    """The state of the process."""

    status: Literal["ok"] = "ok"
