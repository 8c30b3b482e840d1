"""What is stored of runs, their logs and conversations, as it is read.

Every query is a sync function of a ``Connection``, run on a reader's snapshot or inside a
transaction of the writer. Statements are Core statements, compiled once to SQL text, because an ORM
session costs many times the statement. Stored texts stay text. Source: design.md 3, 4 and 9.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

import orjson
import sqlalchemy as sa
from sqlalchemy import bindparam as param

from app.database import NO_OFFSET, ONE, Connection, Query
from app.entries import ENTRY_FIELDS, EntryPage, RunHandle, StoredEntry, entry_json
from app.frames import event_type, frame, frame_json, framed
from app.holders import is_dead
from app.keys import fit, owner_key
from app.store import conversations, entries, run_events, runs
from schema.errors import NotFound
from schema.events import (
    LIVE,
    Actor,
    CallId,
    ConversationId,
    EntryKind,
    JsonObject,
    Resync,
    RunId,
)


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

    def may_take(self, lease: Lease) -> bool:
        """Tell whether nobody works under the lease any more."""
        if lease.holder == self.holder:
            return lease.run_id not in self.alive
        is_silent = lease.beat_at is None or lease.beat_at < self.stale_before
        return is_silent or (lease.holder is not None and is_dead(lease.holder))


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
RUN = (runs.c.id, runs.c.conversation_id)
"""The columns of a ``RunHandle``."""
RunRow = tuple[RunId, ConversationId]
_ENTRY = tuple(entries.c[name] for name in ENTRY_FIELDS)
_EntryRow = tuple[
    int,
    RunId,
    datetime,
    EntryKind,
    str,
    int,
    str | None,
    CallId | None,
    str | None,
    str | None,
    str | None,
]

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
        frame_json(run_id, seq, event)
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


def _entry(row: _EntryRow) -> StoredEntry:
    return StoredEntry(*row[3:], seq=row[0], run_id=row[1], created_at=row[2])
