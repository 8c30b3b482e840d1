"""Conversations and their entries, runs and their event logs."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the tables."""
    create_conversations()
    create_entries()
    create_runs()
    create_run_events()


def create_conversations() -> None:
    """A conversation and the lease of the run at work in it."""
    op.create_table(
        "chat_conversations",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("owner", sa.String(200), nullable=False),
        sa.Column("title", sa.String(200), nullable=True),
        sa.Column("origin_key", sa.String(200), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("last_user_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("next_seq", sa.Integer(), nullable=False),
        sa.Column("lease_fence", sa.Integer(), nullable=False),
        sa.Column("lease_run_id", sa.String(36), nullable=True),
        sa.Column("lease_holder", sa.String(400), nullable=True),
        sa.Column("lease_beat_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_chat_conversations")),
        sa.UniqueConstraint("origin_key", name=op.f("uq_chat_conversations_origin_key")),
    )
    with op.batch_alter_table("chat_conversations") as batch:
        batch.create_index(batch.f("ix_chat_conversations_lease_run_id"), ["lease_run_id"])
        batch.create_index(
            batch.f("ix_chat_conversations_owner_last_user_at"), ["owner", "last_user_at"]
        )


def create_entries() -> None:
    """What happened in a conversation."""
    op.create_table(
        "chat_entries",
        sa.Column("conversation_id", sa.String(36), nullable=False),
        sa.Column("seq", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("run_id", sa.String(36), nullable=False),
        sa.Column("round", sa.Integer(), nullable=False),
        sa.Column("kind", sa.String(20), nullable=False),
        sa.Column("content", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=True),
        sa.Column("call_id", sa.String(100), nullable=True),
        sa.Column("arguments", sa.Text(), nullable=True),
        sa.Column("result", sa.Text(), nullable=True),
        sa.Column("status", sa.String(20), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["conversation_id"],
            ["chat_conversations.id"],
            name=op.f("fk_chat_entries_conversation_id_chat_conversations"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("conversation_id", "seq", name=op.f("pk_chat_entries")),
    )


def create_runs() -> None:
    """One stretch of a turn."""
    op.create_table(
        "chat_runs",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("conversation_id", sa.String(36), nullable=False),
        sa.Column("owner", sa.String(200), nullable=False),
        sa.Column("turn_id", sa.String(36), nullable=False),
        sa.Column("parent_run_id", sa.String(36), nullable=True),
        sa.Column("status", sa.String(20), nullable=False),
        sa.Column("request_id", sa.String(200), nullable=True),
        sa.Column("request_sha256", sa.String(64), nullable=True),
        sa.Column("first_entry_seq", sa.Integer(), nullable=False),
        sa.Column("last_entry_seq", sa.Integer(), nullable=True),
        sa.Column("last_seq", sa.Integer(), nullable=True),
        sa.Column("input_tokens", sa.BigInteger(), nullable=True),
        sa.Column("output_tokens", sa.BigInteger(), nullable=True),
        sa.Column("error_code", sa.String(100), nullable=True),
        sa.Column("was_lost", sa.Boolean(), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(
            ["conversation_id"],
            ["chat_conversations.id"],
            name=op.f("fk_chat_runs_conversation_id_chat_conversations"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_chat_runs")),
        sa.UniqueConstraint("owner", "request_id", name=op.f("uq_chat_runs_owner_request_id")),
    )
    with op.batch_alter_table("chat_runs") as batch:
        batch.create_index(batch.f("ix_chat_runs_conversation_id"), ["conversation_id"])


def create_run_events() -> None:
    """The event log of a run."""
    op.create_table(
        "chat_run_events",
        sa.Column("run_id", sa.String(36), nullable=False),
        sa.Column("first_seq", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("last_seq", sa.Integer(), nullable=False),
        sa.Column("frames", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["run_id"],
            ["chat_runs.id"],
            name=op.f("fk_chat_run_events_run_id_chat_runs"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("run_id", "first_seq", name=op.f("pk_chat_run_events")),
    )


def downgrade() -> None:
    """Drop the tables, and all that was said."""
    op.drop_table("chat_run_events")
    op.drop_table("chat_runs")
    op.drop_table("chat_entries")
    op.drop_table("chat_conversations")
