"""A run, and the entries that it adds to a conversation: values that know of no database.

The fields of an entry are those of its classes; rows and clients have them under the same names.
Source: design.md 1 and 3.
"""

from dataclasses import dataclass, fields
from datetime import UTC, datetime

import orjson

from app.keys import clean
from schema.errors import Interrupted
from schema.events import Actor, Ask, CallId, ConversationId, EntryKind, Json, JsonObject, RunId


@dataclass(frozen=True, slots=True)
class NewEntry:
    """One thing that happened in a conversation, to be stored.

    ``round`` is the provider round within the run: an assistant text and its calls share it. The
    ``content`` of an error is its public message. ``arguments`` and ``result`` are JSON texts.
    """

    kind: EntryKind
    content: str = ""
    round: int = 0
    name: str | None = None
    call_id: CallId | None = None
    arguments: str | None = None
    result: str | None = None
    status: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredEntry(NewEntry):
    """An entry with its number in the conversation, from 1."""

    seq: int
    run_id: RunId
    created_at: datetime


MAX_PAGE = 500
"""Most entries of one page."""


@dataclass(frozen=True, slots=True)
class EntryPage:
    """Entries in order; ``next`` is the cursor behind the last one, None at the end."""

    items: tuple[StoredEntry, ...]
    next: int | None


@dataclass(frozen=True, slots=True)
class RunHandle:
    """Names a run to whoever asks for it: enough to tail it."""

    id: RunId
    conversation_id: ConversationId


@dataclass(frozen=True, slots=True)
class Run(RunHandle):
    """One uninterrupted stretch of a turn, as the turn itself sees it.

    ``window`` holds the newest entries before this turn's question, in order, rounds whole.
    """

    actor: Actor
    ask: Ask
    window: tuple[StoredEntry, ...]


_NEW = tuple(field.name for field in fields(NewEntry))
ENTRY_FIELDS = ("seq", "run_id", "created_at", *_NEW)
"""What a stored entry holds, in the order in which clients read it."""


def stored(entry: NewEntry, seq: int, run_id: RunId, now: datetime) -> StoredEntry:
    """Give an entry its number, its texts made storable."""
    values = {name: getattr(entry, name) for name in _NEW}
    values |= {name: clean(text) for name, text in values.items() if isinstance(text, str)}
    return StoredEntry(**values, seq=seq, run_id=run_id, created_at=now)


def entry_json(entry: StoredEntry) -> JsonObject:
    """Write an entry as clients read it, ``arguments`` and ``result`` as values."""
    values = {name: getattr(entry, name) for name in ENTRY_FIELDS}
    created_at = entry.created_at.astimezone(UTC).isoformat().replace("+00:00", "Z")
    arguments, result = _value(entry.arguments), _value(entry.result)
    return {**values, "created_at": created_at, "arguments": arguments, "result": result}


def _value(text: str | None) -> Json:
    return None if text is None else orjson.loads(text)


def call_error(code: str, message: str) -> JsonObject:
    """Make the result of a call that has failed, as the model and clients read it."""
    return {"status": "error", "code": code, "message": message}


def interrupted_call() -> JsonObject:
    """Make the result of a call whose own result nobody will see."""
    message = "The call was interrupted, and its result is not known."
    return call_error(Interrupted.code, message)
