"""What is deleted in time: conversations in which nothing has happened for long.

Source: seed, persistence and cleanup; chat-contract.md 8, cleanup.
"""

from collections.abc import Sequence
from datetime import datetime
from functools import partial

import sqlalchemy as sa
from sqlalchemy import bindparam as param

from app.database import Command, Connection, Query
from app.store import Store, conversations
from schema.events import ConversationId

_BATCH = 200
"""Conversations deleted at a time: desks at work write in between."""

_IS_LEFT_ALONE = (conversations.c.updated_at < param("before")) & (
    conversations.c.lease_run_id.is_(None)
)
_LEFT_ALONE = Query[tuple[ConversationId]](sa.select(conversations.c.id).where(_IS_LEFT_ALONE))
# Asked again: a desk may have gone on with it meanwhile.
_DELETE = Command(sa.delete(conversations).where(conversations.c.id == param("id"), _IS_LEFT_ALONE))


async def clean_up(store: Store, before: datetime) -> int:
    """Delete the conversations that nothing has happened in since ``before``, and count them.

    Their entries, runs and events go along; one with a run at work stays. Raises: DatabaseFailed;
    then the batches before it are deleted.
    """
    found = await store.read(lambda connection: connection.read(_LEFT_ALONE, {"before": before}))
    deleted = 0
    for start in range(0, len(found), _BATCH):
        ids = [id for (id,) in found[start : start + _BATCH]]
        deleted += await store.writer.submit(partial(_delete, ids=ids, before=before))
    return deleted


def _delete(connection: Connection, ids: Sequence[ConversationId], before: datetime) -> int:
    return sum(connection.write(_DELETE, {"id": id, "before": before}) for id in ids)
