"""Runs the migrations of the chat tables: by `alembic`, and by `frontdesk migrate`.

The caller may hand in the database as the attribute ``database_url``; else the settings name it.
Tables that are not ours are neither seen nor touched, and our revision has a table of its own.
"""

from typing import Literal

import sqlalchemy as sa
from alembic import context
from alembic.autogenerate.api import AutogenContext
from sqlalchemy.schema import SchemaItem

from app.settings import load_settings
from app.store import VERSION_TABLE, alter, metadata


def is_ours(
    _item: SchemaItem, name: str | None, kind: str, _reflected: bool, _twin: SchemaItem | None
) -> bool:
    """Leave a host's tables alone: only the chat tables are compared."""
    return kind != "table" or name in metadata.tables


def render(kind: str, item: object, _context: AutogenContext) -> str | Literal[False]:
    """Write column types of SQLModel and of our own as the SQLAlchemy types behind them."""
    if kind == "type" and isinstance(item, sa.TypeDecorator):
        return f"sa.{item.impl_instance!r}"
    return False


def run(connection: sa.Connection) -> None:
    """Run the wanted revisions in the transaction that is open."""
    context.configure(
        connection=connection,
        target_metadata=metadata,
        version_table=VERSION_TABLE,
        include_object=is_ours,
        render_item=render,
        render_as_batch=True,
        transactional_ddl=True,
    )
    with context.begin_transaction():
        context.run_migrations()


url = context.config.attributes.get("database_url")
alter(load_settings().chat_database_url if url is None else url, run)
