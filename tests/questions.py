"""Questions to the offline provider over the engine, with the read that each answer is made of."""

import sqlite3
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path

from transports import Chat, answer, open_chat

from schema import Managers
from schema.events import Event, Json, JsonObject, ToolCall, ToolResult

Row = tuple[str | int | float | None, ...]


@dataclass(frozen=True, slots=True)
class Asked:
    """An answered question: its text, and the arguments and result of the read that gave it."""

    text: str
    tool: str
    args: JsonObject
    result: JsonObject

    @property
    def headline(self) -> str:
        return self.text.splitlines()[0]

    @property
    def lines(self) -> list[str]:
        """The listed rows, or those of a table."""
        return [line for line in self.text.splitlines() if line.startswith(("- ", "| "))]

    @property
    def table(self) -> list[tuple[Json, ...]]:
        """The values of the rows that the tool returned, each in its order."""
        rows = self.result["data"]
        assert isinstance(rows, list)
        return [tuple(row.values()) for row in rows if isinstance(row, dict)]


@dataclass(frozen=True, slots=True)
class Desk:
    """A demo behind the engine, answered offline, and its file as plain SQL sees it."""

    chat: Chat
    file: Path

    async def ask(self, *questions: str) -> Asked:
        """Ask one after the other in a conversation of their own; the last answer."""
        first, *rest = questions
        events = await self.chat.ask(first, conversation_id="new")
        for said in rest:
            events = await self.chat.ask(said)
        return asked_in(events)

    async def ask_count(self, rows: str, *questions: str) -> tuple[Asked, int]:
        """Ask for rows that plain SQL counts as well."""
        asked = await self.ask(*questions)
        [(count,)] = self.sql(f"SELECT count(*) FROM {rows}")
        read = asked.table[0][0] if asked.tool == "aggregate" else asked.result["total_count"]
        assert isinstance(count, int)
        assert read == count
        return asked, count

    def sql(self, statement: str) -> list[Row]:
        with closing(sqlite3.connect(self.file)) as connection:
            return connection.execute(statement).fetchall()


def asked_in(events: list[Event]) -> Asked:
    """The last read of a turn, and what was said of it."""
    called = [event for event in events if isinstance(event, ToolCall)]
    results = [event for event in events if isinstance(event, ToolResult)]
    assert len(called) == len(results) <= 8
    if not called:
        return Asked(answer(events), "", {}, {})
    result = results[-1].result
    return Asked(
        answer(events), called[-1].name, called[-1].args, result if isinstance(result, dict) else {}
    )


@asynccontextmanager
async def open_offline(managers: Managers, url: str) -> AsyncGenerator[Desk]:
    """Open a desk over a database that it may write its chats to."""
    async with open_chat("engine", managers, url, provider="offline") as chat:
        yield Desk(chat, Path(url.removeprefix("sqlite+aiosqlite:///")))
