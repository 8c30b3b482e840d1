"""Stored rows as values: how a run, its log and a conversation's entries are written down and read.

Every query is a sync function of a ``Connection``, run on a reader's snapshot or inside a
transaction of the writer. Statements are Core statements, compiled once to SQL text, because an ORM
session costs many times the statement. Stored texts stay text. No database is given what one of
them refuses: ``clean`` and ``fit`` make texts and keys storable. Source: design.md 3, 4 and 9.
"""

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple

import orjson
import sqlalchemy as sa

from app.database import Command, Connection, Query
from app.store import (
    KEY_LENGTH,
    EntryPage,
    NewEntry,
    StoredEntry,
    conversations,
    entries,
    run_events,
    runs,
)
from schema.errors import NotFound
from schema.events import (
    LIVE,
    Actor,
    CallId,
    ConversationId,
    EntryKind,
    Event,
    Json,
    JsonObject,
    Resync,
    RunId,
    encode,
)


@dataclass(frozen=True, slots=True)
class RunHandle:
    """Names a run to its owner: enough to tail it."""

    id: RunId
    conversation_id: ConversationId
    turn_id: str


class Lease(NamedTuple):
    """A conversation as admission sees it: its next entry, and who is at work in it."""

    conversation_id: ConversationId
    next_seq: int
    fence: int
    run_id: RunId | None
    holder: str | None
    beat_at: datetime | None


@dataclass(frozen=True, slots=True)
class Claim:
    """Who takes a lease, and from whom: a holder silent since ``stale_before``, or known dead.

    Of the holder's own runs, those that are not ``alive`` have lost their end: it could not be
    stored.
    """

    holder: str
    alive: frozenset[RunId]
    stale_before: datetime
    is_dead: Callable[[str], bool]

    def may_take(self, lease: Lease) -> bool:
        """Tell whether nobody works under the lease any more."""
        if lease.holder == self.holder:
            return lease.run_id not in self.alive
        is_silent = lease.beat_at is None or lease.beat_at < self.stale_before
        return is_silent or (lease.holder is not None and self.is_dead(lease.holder))


@dataclass(frozen=True, slots=True)
class LogPage:
    """What a run's log holds behind a cursor, as the client is to see it.

    ``last_seq`` is the last stored number, and ``own_seq`` the last that the run itself has stored:
    what follows is of whoever closed it when its holder had gone, and clients of the holder may
    have seen other events under those numbers. A closed run's log does not grow any more;
    ``is_orphaned`` tells that the run is still to be closed for its holder.
    """

    frames: bytes
    own_seq: int
    last_seq: int
    is_closed: bool
    is_orphaned: bool


# --- statements -----------------------------------------------------------------------------------

_OPEN = frozenset({"queued", "running", "stopping"})
"""States of a run in which events can still come."""

LEASE = tuple(
    conversations.c[name]
    for name in ("id", "next_seq", "lease_fence", "lease_run_id", "lease_holder", "lease_beat_at")
)
"""The columns of a ``Lease``."""
LeaseRow = tuple[ConversationId, int, int, RunId | None, str | None, datetime | None]
RUN = tuple(runs.c[name] for name in ("id", "conversation_id", "turn_id"))
"""The columns of a ``RunHandle``."""
RunRow = tuple[RunId, ConversationId, str]
_ENTRY = tuple(column for column in entries.c if column.name != "conversation_id")
_EntryRow = tuple[
    int,
    RunId,
    int,
    EntryKind,
    str,
    str | None,
    CallId | None,
    str | None,
    str | None,
    str | None,
    datetime,
]

_TYPE_AT = len(b'{"type":"')
ONE, NO_OFFSET = (sa.literal_column(number, sa.Integer()) for number in "10")
"""Goes with each limit: SQLite's dialect adds an unnamed parameter where there is no offset."""

param = sa.bindparam


_USED = runs.alias()
_OLDEST = entries.alias("oldest")
_OTHER = entries.alias("other")

_OWN_RUN = Query[RunRow](
    sa.select(*RUN).where(runs.c.id == param("id"), runs.c.owner == param("owner"))
)
_RUN_STATE = Query[tuple[str, bool, *LeaseRow]](
    sa.select(runs.c.status, runs.c.was_lost, *LEASE)
    .join(conversations, conversations.c.id == runs.c.conversation_id)
    .where(runs.c.id == param("run"))
)
_LAST_EVENT = Query[tuple[int | None]](
    sa.select(sa.func.max(run_events.c.last_seq)).where(run_events.c.run_id == param("run"))
)
# Whoever closes a lost run does so in one flush.
_LAST_FLUSH = Query[tuple[int]](
    sa.select(sa.func.max(run_events.c.first_seq)).where(run_events.c.run_id == param("run"))
)
_EVENTS = Query[tuple[str]](
    sa.select(run_events.c.frames)
    .where(run_events.c.run_id == param("run"), run_events.c.last_seq > param("after"))
    .order_by(run_events.c.first_seq)
)
_ENTRIES_OF_RUN = Query[_EntryRow](
    sa.select(*_ENTRY)
    .join(
        runs,
        (runs.c.conversation_id == entries.c.conversation_id)
        & (entries.c.seq >= runs.c.first_entry_seq)
        & (entries.c.run_id == runs.c.id),
    )
    .where(runs.c.id == param("run"))
    .order_by(entries.c.seq)
)
_OWN_CONVERSATION = Query[tuple[ConversationId]](
    sa.select(conversations.c.id).where(
        conversations.c.id == param("id"), conversations.c.owner == param("owner")
    )
)
_NEXT_ENTRIES = Query[_EntryRow](
    sa.select(*_ENTRY)
    .where(entries.c.conversation_id == param("id"), entries.c.seq > param("after"))
    .order_by(entries.c.seq)
    .limit(param("limit"))
    .offset(NO_OFFSET)
)


def _window() -> sa.Select[*tuple[object, ...]]:
    """Select the newest entries, and the rest of the round that the oldest of them is of."""
    oldest = (
        sa.select(_OLDEST.c.seq, _OLDEST.c.run_id, _OLDEST.c.round)
        .where(_OLDEST.c.conversation_id == param("conversation"), _OLDEST.c.seq < param("before"))
        .order_by(_OLDEST.c.seq.desc())
        .limit(ONE)
        .offset(param("newer"))
        .subquery()
    )
    # Looked for row by row, from the newest on, so that long conversations cost no more.
    of_another_round = (
        sa.select(_OTHER.c.seq)
        .where(
            _OTHER.c.conversation_id == param("conversation"),
            _OTHER.c.seq < oldest.c.seq,
            (_OTHER.c.run_id != oldest.c.run_id) | (_OTHER.c.round != oldest.c.round),
        )
        .order_by(_OTHER.c.seq.desc())
        .limit(ONE)
        .offset(NO_OFFSET)
        .scalar_subquery()
    )
    last_left_out = sa.select(of_another_round).select_from(oldest).scalar_subquery()
    return (
        sa.select(*_ENTRY)
        .where(
            entries.c.conversation_id == param("conversation"),
            entries.c.seq < param("before"),
            entries.c.seq > sa.func.coalesce(last_left_out, NO_OFFSET),
        )
        .order_by(entries.c.seq)
    )


_WINDOW = Query[_EntryRow](_window())

# Conversations first: whoever admits a run into one has it locked.
_LOCK_CONVERSATIONS = Query[tuple[ConversationId]](
    sa.select(conversations.c.id)
    .where(conversations.c.owner == param("old"))
    .order_by(conversations.c.id)
    .with_for_update(key_share=True)
)
_FREE_REQUESTS = Command(
    sa.update(runs)
    .where(
        runs.c.conversation_id == param("conversation"),
        runs.c.request_id.in_(sa.select(_USED.c.request_id).where(_USED.c.owner == param("new"))),
    )
    .values(request_id=sa.null(), request_sha256=sa.null())
)
_ADOPT_RUNS = Command(
    sa.update(runs)
    .where(runs.c.conversation_id == param("conversation"))
    .values(owner=param("new"))
)
_ADOPT_CONVERSATION = Command(
    sa.update(conversations)
    .where(conversations.c.id == param("conversation"))
    .values(owner=param("new"), origin_key=sa.null())
)


# --- reading --------------------------------------------------------------------------------------


def find_run(connection: Connection, run_id: str, actor: Actor) -> RunHandle:
    """Look up one of an actor's runs.

    Raises: NotFound for an unknown run and for another's.
    """
    for row in connection.read(_OWN_RUN, {"id": fit(run_id), "owner": owner_key(actor)}):
        return RunHandle(*row)
    raise NotFound


def read_log(
    connection: Connection, run_id: RunId, after: int, claim: Claim, *, live: bool
) -> LogPage:
    """Read what a run's log holds behind ``after``.

    Raises: NotFound when the run was deleted.
    """
    status, was_lost, lease = _run_state(connection, run_id)
    rows = connection.read(_EVENTS, {"run": run_id, "after": after})
    shown = (
        _frame(run_id, seq, event)
        for (frames,) in rows
        for seq, event in framed(frames.encode())
        if seq > after and (live or event_type(event) not in LIVE)
    )
    last_seq = last_event(connection, run_id)
    return LogPage(
        frames=b"".join(shown),
        own_seq=_last_own_event(connection, run_id) if was_lost else last_seq,
        last_seq=last_seq,
        is_closed=status not in _OPEN,
        is_orphaned=lease.run_id == run_id and claim.may_take(lease),
    )


def _run_state(connection: Connection, run_id: RunId) -> tuple[str, bool, Lease]:
    for row in connection.read(_RUN_STATE, {"run": run_id}):
        return row[0], bool(row[1]), Lease(*row[2:])
    raise NotFound


def last_event(connection: Connection, run_id: RunId) -> int:
    """Return the number of a run's last stored event, 0 before the first."""
    [(last,)] = connection.read(_LAST_EVENT, {"run": run_id})
    return last or 0


def _last_own_event(connection: Connection, run_id: RunId) -> int:
    [(first_of_closer,)] = connection.read(_LAST_FLUSH, {"run": run_id})
    return first_of_closer - 1


def logged(connection: Connection, run_id: RunId) -> Iterator[JsonObject]:
    """Read the JSON of a run's events, in order."""
    for (frames,) in connection.read(_EVENTS, {"run": run_id, "after": 0}):
        for _, event in framed(frames.encode()):
            yield orjson.loads(event)


def run_entries(connection: Connection, run_id: RunId) -> list[StoredEntry]:
    """Read what a run has stored, in order."""
    return [_entry(row) for row in connection.read(_ENTRIES_OF_RUN, {"run": run_id})]


def resync(connection: Connection, run_id: RunId) -> bytes:
    """Make the frame for a cursor behind the end: the run's state and what it has stored.

    Raises: NotFound when the run was deleted.
    """
    status, *_ = _run_state(connection, run_id)
    event = Resync(
        run_id=run_id,
        status=status,
        last_seq=last_event(connection, run_id),
        entries=[entry_json(entry) for entry in run_entries(connection, run_id)],
    )
    return frame(run_id, event.last_seq, event)


def read_entries(
    connection: Connection, conversation_id: str, actor: Actor, after: int, limit: int
) -> EntryPage:
    """Read a page of one of an actor's conversations.

    Raises: NotFound for an unknown conversation and for another's.
    """
    own = {"id": fit(conversation_id), "owner": owner_key(actor)}
    if not connection.read(_OWN_CONVERSATION, own):
        raise NotFound
    rows = connection.read(_NEXT_ENTRIES, {**own, "after": after, "limit": limit + 1})
    found = tuple(_entry(row) for row in rows)
    items = found[:limit]
    return EntryPage(items, items[-1].seq if len(found) > limit else None)


def read_window(
    connection: Connection, conversation_id: str, before: int, size: int
) -> tuple[StoredEntry, ...]:
    """Read the newest entries before a number; the oldest round among them comes whole."""
    rows = connection.read(
        _WINDOW, {"conversation": conversation_id, "before": before, "newer": size - 1}
    )
    return tuple(_entry(row) for row in rows)


# --- owners ---------------------------------------------------------------------------------------


def adopt(connection: Connection, visitor: Actor, actor: Actor) -> None:
    """Give an actor what a visitor has; a ``request_id`` that both have used stays the actor's."""
    old, new = owner_key(visitor), owner_key(actor)
    if old == new:
        return
    # Another process may add a conversation meanwhile. It comes along with its runs, or stays.
    while locked := connection.read(_LOCK_CONVERSATIONS, {"old": old}):
        found = [{"conversation": id, "new": new} for (id,) in locked]
        for command in (_FREE_REQUESTS, _ADOPT_RUNS, _ADOPT_CONVERSATION):
            connection.write_all(command, found)


# --- forms ----------------------------------------------------------------------------------------


def owner_key(actor: Actor) -> str:
    """Name the owner of what an actor makes; two actors never have the same key."""
    return fit(json.dumps([actor.kind, actor.tenant, actor.subject]))


def frame(run_id: RunId, seq: int, event: Event) -> bytes:
    """Write one event as clients and the log have it: an SSE frame with its id."""
    return _frame(run_id, seq, encode(event))


def _frame(run_id: RunId, seq: int, event: bytes) -> bytes:
    return b"id: %b:%d\ndata: %b\n\n" % (run_id.encode(), seq, event)


def framed(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Take frames apart: numbers, and the JSON of events, which holds no line breaks."""
    for part in data.split(b"\n\n")[:-1]:
        id, _, event = part.partition(b"\ndata: ")
        yield int(id.rpartition(b":")[2]), event


def event_type(event: bytes) -> str:
    """Read the type of an event's JSON, which it begins with."""
    return event[_TYPE_AT : event.index(b'"', _TYPE_AT)].decode()


def clean(text: str) -> str:
    """Make a text storable: halves of surrogate pairs are joined or replaced, NUL is shown.

    A NUL that JSON has escaped is six characters, and stays.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text.replace("\0", "\N{SYMBOL FOR NULL}")


def _entry(row: _EntryRow) -> StoredEntry:
    seq, run_id, round_, kind, content, name, call_id, arguments, result, status, created_at = row
    return StoredEntry(
        seq=seq,
        run_id=run_id,
        created_at=created_at,
        kind=kind,
        content=content,
        round=round_,
        name=name,
        call_id=call_id,
        arguments=arguments,
        result=result,
        status=status,
    )


def stored(entry: NewEntry, seq: int, run_id: RunId, now: datetime) -> StoredEntry:
    """Give an entry its number, its texts made storable."""
    return StoredEntry(
        seq=seq,
        run_id=run_id,
        created_at=now,
        kind=entry.kind,
        content=clean(entry.content),
        round=entry.round,
        name=entry.name and clean(entry.name),
        call_id=entry.call_id,
        arguments=entry.arguments and clean(entry.arguments),
        result=entry.result and clean(entry.result),
        status=entry.status,
    )


def entry_row(conversation_id: str, entry: StoredEntry) -> dict[str, object]:
    """Write an entry as the row of its table."""
    return {
        "conversation_id": conversation_id,
        "seq": entry.seq,
        "run_id": entry.run_id,
        "round": entry.round,
        "kind": entry.kind,
        "content": entry.content,
        "name": entry.name,
        "call_id": entry.call_id,
        "arguments": entry.arguments,
        "result": entry.result,
        "status": entry.status,
        "created_at": entry.created_at,
    }


def entry_json(entry: StoredEntry) -> JsonObject:
    """Write an entry as clients read it, ``arguments`` and ``result`` as values."""
    return {
        "seq": entry.seq,
        "run_id": entry.run_id,
        "created_at": entry.created_at.astimezone(UTC).isoformat().replace("+00:00", "Z"),
        "kind": entry.kind,
        "content": entry.content,
        "round": entry.round,
        "name": entry.name,
        "call_id": entry.call_id,
        "arguments": _value(entry.arguments),
        "result": _value(entry.result),
        "status": entry.status,
    }


def _value(text: str | None) -> Json:
    return None if text is None else orjson.loads(text)


def fit(key: str) -> str:
    """Make a key fit its column without making two keys equal: as it is, or as its digest."""
    is_storable = len(key) <= KEY_LENGTH and clean(key) == key
    return key if is_storable else sha256(key)


def sha256(text: str) -> str:
    """Return the digest that stands for a text."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
