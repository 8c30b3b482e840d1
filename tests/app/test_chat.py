"""`frontdesk chat` without a question, on a terminal: one question after the other."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from commands import terminal

TOY = "app.demo.toy:managers"
MODELS = r"""
import asyncio
from providers.base import DoneEvent, TextChunkEvent


class Counts:
    async def complete(self, messages, tools):
        asked = sum(message.role == "user" for message in messages)
        yield TextChunkEvent(f"Question {asked}: ")
        if "wait" in messages[-1].content:
            await asyncio.sleep(600)
        if "table" in messages[-1].content:
            yield TextChunkEvent("\n| a | b |\n|---|---|\n| \x1b[31m1 | 2 |\n")
        yield TextChunkEvent(messages[-1].content[::-1])
        yield DoneEvent()
"""
PROMPT = r"\n> $"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A project's folder with a model that counts the questions of a conversation."""
    (tmp_path / "voices.py").write_text(MODELS)
    return tmp_path


def runs(folder: Path) -> list[tuple[str, int]]:
    """Give each run's status, with the number of its conversation."""
    query = (
        "SELECT status, dense_rank() OVER (ORDER BY began) FROM (SELECT rowid AS nr, status,"
        " min(rowid) OVER (PARTITION BY conversation_id) AS began FROM chat_runs) ORDER BY nr"
    )
    with closing(sqlite3.connect(folder / ".frontdesk" / "frontdesk.db")) as database:
        return database.execute(query).fetchall()


@pytest.mark.covers("H25")
def test_questions_go_on_with_a_conversation_until_another_is_begun(folder: Path) -> None:
    with terminal(folder, "chat", managers=TOY, provider="voices.Counts") as screen:
        assert "/help says what else there is" in screen.until(PROMPT)
        screen.type("abc\n")
        assert "\nQuestion 1: cba\n" in screen.until(PROMPT)
        screen.type("\x1b[A\x1b[D\x1b[Dx\n")  # the line before, changed
        assert "\nQuestion 2: cbxa\n" in screen.until(PROMPT)
        screen.type("please wait\n")
        screen.until("Question 3: ")
        screen.type("\x03")
        assert "Stopped." in screen.until(PROMPT)
        screen.type("a table\n")
        assert "│ ␛[31m1 │ 2 │\n" in screen.until(PROMPT)
        screen.type("/new\n")
        assert "new conversation" in screen.until(PROMPT)
        screen.type(" \n")
        screen.until(PROMPT)
        screen.type("/help\n")
        assert "Ctrl-D  end" in screen.until(PROMPT)
        screen.type("/old\n")
        assert "no such command: /help" in screen.until(PROMPT)
        screen.type("/old is a word\n")
        assert "\nQuestion 1: drow a si dlo/\n" in screen.until(PROMPT)
        screen.type("\x04")
        assert screen.rest() == "\n"
    assert screen.process.returncode == 0
    first = [("done", 1), ("done", 1), ("interrupted", 1), ("done", 1)]
    assert runs(folder) == [*first, ("done", 2)]


def test_an_interrupt_at_the_prompt_ends_the_chat(tmp_path: Path) -> None:
    with terminal(tmp_path, "chat", "--demo", "toy") as screen:
        screen.until(PROMPT)
        screen.type("half a ques")
        screen.until("half a ques$")
        screen.interrupt()
        assert screen.rest().splitlines()[-1] == ""
    assert screen.process.returncode == 0


@pytest.mark.parametrize("word", ["exit", "quit", "/quit"])
def test_the_usual_words_end_the_chat(word: str, tmp_path: Path) -> None:
    with terminal(tmp_path, "chat", "--demo", "toy") as screen:
        screen.until(PROMPT)
        screen.type(f"{word}\n")
        screen.rest()
    assert screen.process.returncode == 0


def test_what_is_wrong_with_the_set_up_is_told_before_anything_is_asked(tmp_path: Path) -> None:
    with terminal(tmp_path, "chat", managers=TOY, database_url="sqlite:///no.db") as screen:
        told = " ".join(screen.rest().split())
    assert screen.process.returncode == 2
    assert "Run `frontdesk migrate`." in told
