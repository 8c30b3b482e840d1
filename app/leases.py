"""Who may write in a conversation, and every write under that right.

A run works under its conversation's lease. Each lease has a number, the fence, and each write names
it: a holder that was given up for dead and comes back changes nothing. Source: design.md 3.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy import bindparam as param

from app.database import NO_OFFSET, ONE, Command, Connection, Query
from app.entries import ENTRY_FIELDS, NewEntry, RunHandle, StoredEntry, stored
from app.frames import frame
from app.keys import fit, owner_key, sha256
from app.losses import owed
from app.records import (
    LEASE,
    RUN,
    Claim,
    Lease,
    LeaseRow,
    RunRow,
    last_event,
    read_window,
    run_entries,
)
from app.store import conversations, entries, run_events, runs
from schema.errors import BadMessage, Interrupted, NotFound, TurnInProgress
from schema.events import Actor, Ask, ConversationId, EntryStored, Event, Failed, RunId, Usage


@dataclass(frozen=True, slots=True)
class Admission:
    """A request for a run. ``run_id`` and ``conversation_id`` are fresh ids, used if needed."""

    actor: Actor
    ask: Ask
    run_id: RunId
    conversation_id: ConversationId
    window: int
    claim: Claim
    now: datetime


@dataclass(frozen=True, slots=True)
class Admitted:
    """A new run has the lease: ``fence`` is its right to write, ``user_seq`` its question."""

    conversation_id: ConversationId
    fence: int
    user_seq: int
    window: tuple[StoredEntry, ...]


@dataclass(frozen=True, slots=True)
class Flush:
    """What a run has to store: numbered frames and entries, under its fence.

    Of one that ``is_repeated``, a part was on its way before, and may be stored already: a commit
    can fail after all was written.
    """

    run_id: RunId
    conversation_id: ConversationId
    fence: int
    frames: Sequence[tuple[int, bytes]]
    entries: Sequence[StoredEntry]
    next_seq: int
    now: datetime
    is_repeated: bool = False


@dataclass(frozen=True, slots=True)
class Ending:
    """How a run closed."""

    status: str
    usage: Usage | None
    error_code: str | None
    was_lost: bool = False


class LeaseLost(Exception):
    """The run's lease was given to somebody else: it must not write any more."""


# --- statements -----------------------------------------------------------------------------------


def _insert(table: sa.Table) -> Command:
    return Command(sa.insert(table).values({column.name: param(column.name) for column in table.c}))


# The statements of the fence: each changes one row, or none if the lease is somebody else's.
_OF_RUN = (
    (conversations.c.id == param("conversation"))
    & (conversations.c.lease_run_id == param("run"))
    & (conversations.c.lease_fence == param("fence"))
)
_TAKE_LEASE = Command(
    sa.update(conversations)
    .where(
        conversations.c.id == param("conversation"),
        conversations.c.lease_run_id.is_(None),
        conversations.c.lease_fence == param("fence"),
    )
    .values(
        next_seq=conversations.c.next_seq + ONE,
        lease_fence=conversations.c.lease_fence + ONE,
        lease_run_id=param("run"),
        lease_holder=param("holder"),
        lease_beat_at=param("now"),
        last_user_at=param("now"),
        updated_at=param("now"),
    )
)
_KEEP_LEASE = Command(
    sa.update(conversations)
    .where(_OF_RUN)
    .values(next_seq=param("next"), lease_beat_at=param("now"), updated_at=param("now"))
)
_END_LEASE = Command(
    sa.update(conversations)
    .where(_OF_RUN)
    .values(
        next_seq=param("next"),
        lease_run_id=sa.null(),
        lease_holder=sa.null(),
        lease_beat_at=sa.null(),
        updated_at=param("now"),
    )
)
_BEAT = Command(
    sa.update(conversations)
    .where(
        conversations.c.lease_run_id == param("run"),
        conversations.c.lease_holder == param("holder"),
    )
    .values(lease_beat_at=param("now"))
)

_NEW_CONVERSATION = _insert(conversations)
_NEW_RUN = _insert(runs)
_NEW_EVENTS = _insert(run_events)
_NEW_ENTRY = _insert(entries)
_END_RUN = Command(
    sa.update(runs)
    .where(runs.c.id == param("run"))
    .values(
        {
            name: param(name)
            for name in (
                *("status", "last_seq", "last_entry_seq", "input_tokens", "output_tokens"),
                *("error_code", "was_lost", "ended_at"),
            )
        }
    )
)

# Whoever reads a lease in order to write locks its row, so that what was read stays true. SQLite's
# writer has the whole file locked.
_OWN_CONVERSATION = Query[LeaseRow](
    sa.select(*LEASE)
    .where(conversations.c.id == param("id"), conversations.c.owner == param("owner"))
    .with_for_update(key_share=True)
)
_LATEST_CONVERSATION = Query[LeaseRow](
    sa.select(*LEASE)
    .where(conversations.c.owner == param("owner"), conversations.c.last_user_at.is_not(None))
    .order_by(conversations.c.last_user_at.desc())
    .limit(ONE)
    .offset(NO_OFFSET)
    .with_for_update(key_share=True)
)
_LEASES = Query[LeaseRow](
    sa.select(*LEASE).where(conversations.c.lease_run_id.is_not(None)).order_by(conversations.c.id)
)
# Whoever has it locked sees to it.
_UNLOCKED_LEASE = Query[LeaseRow](
    sa.select(*LEASE)
    .where(conversations.c.id == param("id"), conversations.c.lease_run_id.is_not(None))
    .with_for_update(key_share=True, skip_locked=True)
)
_REQUESTED_RUN = Query[tuple[str, *RunRow]](
    sa.select(runs.c.request_sha256, *RUN).where(
        runs.c.owner == param("owner"), runs.c.request_id == param("request")
    )
)


# --- admission ------------------------------------------------------------------------------------


def admit(connection: Connection, request: Admission) -> Admitted | RunHandle:
    """Take the lease, store the user's entry and the run, and read the window before it.

    A repeated ``request_id`` gives the first run, and nothing is stored.
    Raises: NotFound, TurnInProgress, BadMessage (the ``request_id`` came with another text).
    """
    owner = owner_key(request.actor)
    if (first := _first_run(connection, owner, request.ask)) is not None:
        return first
    lease = _choose(connection, owner, request)
    if lease.run_id is not None:
        # The same request may have been admitted while we waited for the conversation.
        if (first := _first_run(connection, owner, request.ask)) is not None:
            return first
        if not request.claim.may_take(lease):
            raise TurnInProgress
        lease = _interrupt(connection, lease, request.now)
    took = connection.write(
        _TAKE_LEASE,
        {
            "conversation": lease.conversation_id,
            "fence": lease.fence,
            "run": request.run_id,
            "holder": request.claim.holder,
            "now": request.now,
        },
    )
    if took != 1:
        raise TurnInProgress
    connection.write(_NEW_RUN, _run_row(request, owner, lease))
    user = stored(NewEntry("user", request.ask.text), lease.next_seq, request.run_id, request.now)
    connection.write(_NEW_ENTRY, _entry_row(lease.conversation_id, user))
    window = read_window(connection, lease.conversation_id, lease.next_seq, request.window)
    return Admitted(lease.conversation_id, lease.fence + 1, lease.next_seq, window)


def _first_run(connection: Connection, owner: str, ask: Ask) -> RunHandle | None:
    if ask.request_id is None:
        return None
    request = {"owner": owner, "request": fit(ask.request_id)}
    for row in connection.read(_REQUESTED_RUN, request):
        if row[0] != sha256(ask.text):
            raise BadMessage("This request_id was used for another text.")
        return RunHandle(*row[1:])
    return None


def _choose(connection: Connection, owner: str, request: Admission) -> Lease:
    wanted = request.ask.conversation_id
    if wanted is not None and wanted != "new":
        for row in connection.read(_OWN_CONVERSATION, {"id": fit(wanted), "owner": owner}):
            return Lease(*row)
        raise NotFound
    if wanted == "new" or request.actor.kind == "service":
        return _new_conversation(connection, owner, request, origin=None)
    for row in connection.read(_LATEST_CONVERSATION, {"owner": owner}):
        return Lease(*row)
    # The unique key keeps two first messages from making two conversations.
    return _new_conversation(connection, owner, request, origin=fit(f"first:{owner}"))


def _new_conversation(
    connection: Connection, owner: str, request: Admission, origin: str | None
) -> Lease:
    row: dict[str, object] = {name: None for name in conversations.c.keys()}
    now = request.now
    row |= {"id": request.conversation_id, "owner": owner, "origin_key": origin}
    row |= {"created_at": now, "updated_at": now, "next_seq": 1, "lease_fence": 0}
    connection.write(_NEW_CONVERSATION, row)
    return Lease(request.conversation_id, 1, 0, None, None, None)


def _run_row(request: Admission, owner: str, lease: Lease) -> dict[str, object]:
    row: dict[str, object] = {name: None for name in runs.c.keys()}
    # A turn is named after its first run.
    row |= {"id": request.run_id, "turn_id": request.run_id, "owner": owner}
    row |= {"conversation_id": lease.conversation_id, "first_entry_seq": lease.next_seq}
    row |= {"status": "running", "was_lost": False, "started_at": request.now}
    if request.ask.request_id is not None:
        row["request_id"] = fit(request.ask.request_id)
        row["request_sha256"] = sha256(request.ask.text)
    return row


# --- the lease of a run ---------------------------------------------------------------------------


def beat(connection: Connection, runs: Sequence[RunId], claim: Claim, now: datetime) -> list[RunId]:
    """Show that runs are alive, end those of dead holders, and return the runs we have lost."""
    held = {"holder": claim.holder, "now": now}
    lost = [run for run in runs if connection.write(_BEAT, {"run": run, **held}) != 1]
    sweep(connection, claim, now)
    return lost


def sweep(connection: Connection, claim: Claim, now: datetime) -> int:
    """Close all runs whose holder is gone as interrupted, and count them."""
    closed = 0
    for row in connection.read(_LEASES):
        if claim.may_take(seen := Lease(*row)):
            for fresh in connection.read(_UNLOCKED_LEASE, {"id": seen.conversation_id}):
                if claim.may_take(lease := Lease(*fresh)):
                    _interrupt(connection, lease, now)
                    closed += 1
    return closed


def _interrupt(connection: Connection, lease: Lease, now: datetime) -> Lease:
    """Close a run in place of its holder, with all that it owes, behind its last stored event."""
    run_id = lease.run_id or RunId("")
    failed = Failed.of(Interrupted())
    events: list[Event] = []
    entries: list[StoredEntry] = []
    said = NewEntry("error", failed.message, name=failed.code)
    for item in (*owed(connection, run_id), said):
        if isinstance(item, NewEntry):
            entries.append(stored(item, lease.next_seq + len(entries), run_id, now))
            events.append(EntryStored(entry_seq=entries[-1].seq, kind=item.kind))
        else:
            events.append(item)
    numbered = enumerate((*events, failed), last_event(connection, run_id) + 1)
    flush = Flush(
        run_id=run_id,
        conversation_id=lease.conversation_id,
        fence=lease.fence,
        frames=[(seq, frame(run_id, seq, event)) for seq, event in numbered],
        entries=entries,
        next_seq=lease.next_seq + len(entries),
        now=now,
    )
    close(connection, flush, Ending("interrupted", None, failed.code, was_lost=True))
    return lease._replace(next_seq=flush.next_seq, run_id=None, holder=None, beat_at=None)


def save(connection: Connection, flush: Flush) -> None:
    """Store what a run has shown and said so far.

    Raises: LeaseLost, with nothing stored.
    """
    _write(connection, flush, _KEEP_LEASE)


def close(connection: Connection, flush: Flush, ending: Ending) -> None:
    """Store the last of a run, its closing event and how it ended, and give up the lease.

    Raises: LeaseLost, with nothing stored.
    """
    _write(connection, flush, _END_LEASE)
    usage = ending.usage
    connection.write(
        _END_RUN,
        {
            "run": flush.run_id,
            "status": ending.status,
            "last_seq": flush.frames[-1][0],
            "last_entry_seq": flush.next_seq - 1,
            "input_tokens": None if usage is None else usage.input_tokens,
            "output_tokens": None if usage is None else usage.output_tokens,
            "error_code": ending.error_code,
            "was_lost": ending.was_lost,
            "ended_at": flush.now,
        },
    )


def _write(connection: Connection, flush: Flush, lease: Command) -> None:
    kept = connection.write(
        lease,
        {
            "conversation": flush.conversation_id,
            "run": flush.run_id,
            "fence": flush.fence,
            "next": flush.next_seq,
            "now": flush.now,
        },
    )
    if kept != 1:
        raise LeaseLost
    frames, entries = flush.frames, flush.entries
    if flush.is_repeated:
        last_seq = last_event(connection, flush.run_id)
        last_entry = run_entries(connection, flush.run_id)[-1].seq
        frames = [(seq, data) for seq, data in frames if seq > last_seq]
        entries = [entry for entry in entries if entry.seq > last_entry]
    if frames:
        connection.write(
            _NEW_EVENTS,
            {
                "run_id": flush.run_id,
                "first_seq": frames[0][0],
                "last_seq": frames[-1][0],
                "frames": b"".join(data for _, data in frames).decode(),
            },
        )
    rows = [_entry_row(flush.conversation_id, entry) for entry in entries]
    connection.write_all(_NEW_ENTRY, rows)


def _entry_row(conversation_id: str, entry: StoredEntry) -> dict[str, object]:
    held = {name: getattr(entry, name) for name in ENTRY_FIELDS}
    return {"conversation_id": conversation_id, **held}
