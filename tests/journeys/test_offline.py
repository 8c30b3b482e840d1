"""The embedded provider on the real flights: its answers are what plain SQL says."""

import re
import sqlite3
from contextlib import closing

from transports import Transport, answer, kinds, open_chat

from app.demo.flights import managers

SHOWN = 20
QUESTIONS = [
    ("How many flights are there?", "SELECT count(*) FROM flight", ""),
    ("Which airlines are there?", "SELECT count(*) FROM airline", "SELECT name FROM airline"),
    (
        "flights from LGA",
        "SELECT count(*) FROM flight WHERE origin = 'LGA'",
        "SELECT id FROM flight WHERE origin = 'LGA' ORDER BY id",
    ),
    (
        "flights to HNL",
        "SELECT count(*) FROM flight WHERE dest = 'HNL'",
        "SELECT id FROM flight WHERE dest = 'HNL' ORDER BY id",
    ),
    (
        "Which airports are in the America/Anchorage time zone?",
        "SELECT count(*) FROM airport WHERE tzone = 'America/Anchorage'",
        "SELECT name FROM airport WHERE tzone = 'America/Anchorage' ORDER BY faa",
    ),
    (
        "Which planes were built before 1960?",
        "SELECT count(*) FROM plane WHERE year < 1960",
        "SELECT tailnum FROM plane WHERE year < 1960 ORDER BY tailnum",
    ),
    (
        "flights without a departure time",
        "SELECT count(*) FROM flight WHERE dep_time IS NULL",
        "SELECT id FROM flight WHERE dep_time IS NULL ORDER BY id",
    ),
    (
        "Which planes have more than 400 seats?",
        "SELECT count(*) FROM plane WHERE seats > 400",
        "SELECT tailnum FROM plane WHERE seats > 400 ORDER BY tailnum",
    ),
]


async def test_simple_questions_about_the_flights_are_answered_as_sql_answers_them(
    transport: Transport, flights_copy: str
) -> None:
    path = flights_copy.removeprefix("sqlite+aiosqlite:///")
    async with open_chat(transport, managers, flights_copy, provider="offline") as chat:
        for question, count, names in QUESTIONS:
            events = await chat.ask(question)
            assert kinds(events)[-2:] == ["text_chunk", "done"]
            said = answer(events)
            with closing(sqlite3.connect(path)) as connection:
                (total,) = connection.execute(count).fetchone()
                rows = [str(row[0]) for row in connection.execute(names or "SELECT 0 WHERE 0")]
            assert re.search(rf"\b{total:,}\b", said.splitlines()[0]), said
            listed = re.findall(r"^- (?:id )?(.+?)(?::|$)", said, re.MULTILINE)
            assert listed == rows[:SHOWN], question
