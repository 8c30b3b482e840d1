"""Whose conversations are: what a visitor has can go to the actor who signs in."""

import sqlalchemy as sa
from sqlalchemy import bindparam as param

from app.database import Command, Connection, Query
from app.keys import owner_key
from app.store import conversations, runs
from schema.events import Actor, ConversationId

_USED = runs.alias()

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
