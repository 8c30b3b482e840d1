"""Notes: rows of a test's own beside the chat tables, and what writes and reads them."""

import sqlalchemy as sa

from app.database import Command, Connection, Job, Query

_NOTE = Command(sa.text("INSERT INTO notes (text) VALUES (:text)"))
_NOTES = Query[tuple[str]](sa.text("SELECT text FROM notes ORDER BY number"))


def note(text: str) -> Job[None]:
    """Make a job that leaves a trace in the database."""

    def job(connection: Connection) -> None:
        assert connection.write(_NOTE, {"text": text}) == 1

    return job


def notes(connection: Connection) -> list[str]:
    """Read all traces."""
    return [text for (text,) in connection.read(_NOTES)]
