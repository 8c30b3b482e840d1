"""What is deleted in time: conversations in which nothing has happened for long.

Source: seed, persistence and cleanup; chat-contract.md 8, cleanup.
"""

from datetime import datetime
from functools import partial

import sqlalchemy as sa
from sqlalchemy import bindparam as param

from app.database import NO_OFFSET, Command, Connection, Query
from app.store import Store, conversations
from schema.events import ConversationId

_BATCH = 200
"""Conversations deleted at a time: desks at work write in between."""

# Nobody waits for it, and it waits for nobody: one that is being written in is not left alone.
_LEFT_ALONE = Query[tuple[ConversationId]](
    sa.select(conversations.c.id)
    .where(
        conversations.c.updated_at < param("before"),
        conversations.c.lease_run_id.is_(None),
    )
    .limit(param("limit"))
    .offset(NO_OFFSET)
    .with_for_update(skip_locked=True)
)
_DELETE = Command(sa.delete(conversations).where(conversations.c.id == param("id")))


async def clean_up(store: Store, before: datetime) -> int:
    """Delete the conversations that nothing has happened in since ``before``, and count them.

    Their entries, runs and events go along; one with a run at work stays. Raises: DatabaseFailed;
    then the batches before it are deleted.
    """
    deleted = 0
    while batch := await store.writer.submit(partial(_delete_batch, before=before)):
        deleted += batch
    return deleted


def _delete_batch(connection: Connection, before: datetime) -> int:
    found = connection.read(_LEFT_ALONE, {"before": before, "limit": _BATCH})
    connection.write_all(_DELETE, [{"id": id} for (id,) in found])
    return len(found)
