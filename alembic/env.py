"""Runs the migrations of the chat tables: by `alembic`, and by `frontdesk migrate`.

The caller may hand in the database as the attribute ``database_url``; else the settings name it.
Tables that are not ours are neither seen nor touched, and our revision has a table of its own.
"""

import sqlite3
from typing import Literal

import sqlalchemy as sa
from alembic import context
from alembic.autogenerate.api import AutogenContext
from sqlalchemy import event
from sqlalchemy.schema import SchemaItem

from app.settings import load_settings
from app.store import VERSION_TABLE, database_path, metadata

_WAIT_S = 30


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


def connect() -> sa.Engine:
    """Open the file so that migrations of two processes take turns."""
    url = context.config.attributes.get("database_url")
    path = database_path(load_settings().chat_database_url if url is None else url)
    path.parent.mkdir(parents=True, exist_ok=True)
    engine = sa.create_engine(
        sa.URL.create("sqlite", database=str(path)),
        connect_args={"timeout": _WAIT_S, "isolation_level": None},
        poolclass=sa.NullPool,
    )

    def begin(connection: sa.Connection) -> None:
        # The lock is taken before the revision is read, so the second process finds the work done.
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    def prepare(connection: sqlite3.Connection, _record: object) -> None:
        connection.execute("PRAGMA journal_mode = WAL").close()

    event.listen(engine, "begin", begin)
    event.listen(engine, "connect", prepare)
    return engine


def migrate() -> None:
    """Run the wanted revisions in one transaction."""
    engine = connect()
    with engine.begin() as connection:
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
    engine.dispose()


migrate()
