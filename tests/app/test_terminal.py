"""One question to `frontdesk chat`: its answer in a terminal, in a file, in a pipe."""

import asyncio
import io
import json
import re
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
from commands import run_here, terminal
from hypothesis import given
from hypothesis import strategies as st
from processes import FRONTDESK, environment, free_port, run
from vendors import FakeVendor

from app.terminal import Screen
from schema.events import Event, Failed, Json, TextChunk, ToolCall, ToolResult

TOY = "app.demo.toy:managers"
MODELS = r"""
import asyncio
from providers.base import DoneEvent, TextChunkEvent, ToolCallEvent


class Looks:
    async def complete(self, messages, tools):
        if messages[-1].role == "tool":
            yield TextChunkEvent("\x1b[31mThree.\x07")
        else:
            yield TextChunkEvent("I look.")
            yield ToolCallEvent("a", "query", {"manager": "PartManager", "fields": ["name"]})
            yield ToolCallEvent("b", "no\x1b[2J\n", {"x": "\x9b" + "y" * 300})
        yield DoneEvent()


class Breaks:
    async def complete(self, messages, tools):
        yield TextChunkEvent("There are")
        raise ValueError("\x1b[31mbroken")


class Goes:
    async def complete(self, messages, tools):
        for number in range(1000):
            yield TextChunkEvent(f"{number}\n" * 1000)
            await asyncio.sleep(0.001)
        yield DoneEvent()
"""
ACCESS = """
def permission(actor, scope):
    print(actor.kind, actor.tenant, sorted(actor.scopes), scope["user"], scope["transport"])
    return actor.subject != "mallory"
"""
EVIL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A project's folder with models of its own."""
    (tmp_path / "voices.py").write_text(MODELS)
    (tmp_path / "access.py").write_text(ACCESS)
    yield tmp_path
    for name in ("voices", "access"):
        sys.modules.pop(name, None)


def chat(folder: Path, *words: str, **settings: str) -> subprocess.CompletedProcess[str]:
    """Ask the toy managers, unless others are named."""
    return run_here(folder, "chat", *words, **{"managers": TOY, **settings})


def stored(folder: Path, query: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(folder / ".frontdesk" / "frontdesk.db")) as database:
        return database.execute(query).fetchall()


def test_a_demo_answers_in_an_empty_folder_without_any_configuration(tmp_path: Path) -> None:
    ended = run(tmp_path, FRONTDESK, "chat", "--demo", "toy", "How many parts are there?")
    assert (ended.returncode, ended.stdout) == (0, "There are 3 parts.\n")
    first, *told = ended.stderr.splitlines()
    assert first == "The data of the toy demo is made, once: .frontdesk/demo-toy.db"
    assert [line.split()[0] for line in told] == [
        "search_managers",
        "search_managers:",
        "query",
        "query:",
    ]
    assert [file.name for file in tmp_path.iterdir()] == [".frontdesk"]
    assert [file.name for file in (tmp_path / ".frontdesk").iterdir()] == ["demo-toy.db"]


@pytest.mark.covers("H25")
async def test_text_is_shown_while_the_model_speaks_and_an_interrupt_ends_the_run(
    tmp_path: Path,
) -> None:
    async with FakeVendor("openai") as vendor:
        vendor.will('T"Well, " ~600s T"late" F(stop)')
        config = {"base_url": vendor.base_url, "api_key": "k", "stream_timeout_seconds": 600}
        settings = {"managers": TOY, "model": vendor.model, "provider_config": json.dumps(config)}
        process = await asyncio.create_subprocess_exec(
            *(FRONTDESK, "chat", "How many parts are there?"),
            cwd=tmp_path,
            env=environment(settings),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        assert process.stdout is not None
        async with asyncio.timeout(60):
            assert await process.stdout.readexactly(len("Well, ")) == b"Well, "
            told_at = time.monotonic()
            process.send_signal(signal.SIGINT)
            rest, told = await process.communicate()
    assert (process.returncode, rest, told) == (130, b"\n", b"")
    [left_at] = vendor.closed
    assert left_at is not None
    assert left_at - told_at < 5
    assert stored(tmp_path, "SELECT status FROM chat_runs") == [("interrupted",)]
    assert vendor.faults == []


def test_a_file_gets_the_answer_alone_and_what_led_to_it_is_told_in_lines(folder: Path) -> None:
    ended = chat(folder, "How many?", provider="voices.Looks")
    assert (ended.returncode, ended.stdout) == (0, "I look.␛[31mThree.␇\n")
    query, unknown, rows, refused = ended.stderr.splitlines()
    assert query == 'query {"manager":"PartManager","fields":["name"]}'
    assert re.fullmatch(r'no␛\[2J␊ {"x":"\N{REPLACEMENT CHARACTER}y+…', unknown)
    assert rows == "query: rows 3 of 3"
    assert "unknown_tool: There is no tool" in refused
    assert max(map(len, ended.stderr.splitlines())) <= 200


def test_on_a_terminal_each_line_begins_where_lines_begin(folder: Path) -> None:
    with terminal(folder, "chat", "Hm?", managers=TOY, provider="voices.Looks") as screen:
        shown = screen.rest()
    dim, plain = "\x1b[2m", "\x1b[0m"
    text, query, unknown, rows, refused, answer, end = shown.split("\n")
    assert (screen.process.returncode, text, answer, end) == (0, "I look.", "␛[31mThree.␇", "")
    assert query == f'{dim}query {{"manager":"PartManager","fields":["name"]}}{plain}'
    assert rows == f"{dim}query: rows 3 of 3{plain}"
    for line in (unknown, refused):
        assert line.startswith(f"{dim}no␛[2J␊")
        assert line.endswith(f"…{plain}")
        assert len(line) == len(dim) + 60 + len(plain)


def captured(events: Sequence[Event]) -> tuple[str, str]:
    """Show events, and give what both outputs got."""
    out, err = io.BytesIO(), io.StringIO()
    with redirect_stdout(io.TextIOWrapper(out, "utf-8")), redirect_stderr(err):
        screen = Screen()
        for event in events:
            screen.show(event)
        screen.end()
        return out.getvalue().decode(), err.getvalue()


@given(st.text())
def test_nothing_that_a_terminal_would_obey_gets_through(text: str) -> None:
    value: Json = {text: [text]}
    shown, told = captured(
        [
            TextChunk(content=text),
            ToolCall(id="1", name=text, args=value),
            ToolResult(id="1", name=text, result=value),
            ToolResult(
                id="1", name="query", result={"status": "error", "code": text, "message": text}
            ),
            Failed(message=text, code=text, error_id=text),
        ]
    )
    assert not EVIL.search(shown)
    assert not EVIL.search(told)
    assert told.count("\n") == 4 + (3 * text.count("\n"))
    assert len(shown) == len(text) + (text != "" and not text.endswith("\n"))
    if not EVIL.search(text):
        assert shown.startswith(text)


def test_an_output_that_can_not_say_all_characters_gets_the_others() -> None:
    out = io.BytesIO()
    with redirect_stdout(io.TextIOWrapper(out, "ascii")):
        Screen().show(TextChunk(content="Schräg\x1b.\n"))
        assert out.getvalue() == b"Schr?g?.\n"


def test_a_log_record_that_can_not_be_told_breaks_nothing(tmp_path: Path) -> None:
    lines = [
        "import logging",
        "from app.terminal import Screen, log_to",
        "log_to(Screen(), with_tracebacks=False)",
        "logging.warning('%d parts', '\\x1b[2J')",
        "logging.warning('%d parts', 3)",
    ]
    ended = run(tmp_path, sys.executable, "-c", "\n".join(lines))
    assert (ended.returncode, ended.stderr.splitlines()[-1]) == (0, "WARNING: 3 parts")
    assert not EVIL.search(ended.stderr)


def test_a_question_can_be_piped_in(tmp_path: Path) -> None:
    script = f"echo 'How many parts are there?' | {FRONTDESK} chat --demo toy 2>/dev/null"
    ended = run(tmp_path, "bash", "-c", script)
    assert (ended.returncode, ended.stdout) == (0, "There are 3 parts.\n")


@pytest.mark.parametrize(
    ("words", "stdin"), [([" "], ""), (["\udcff"], ""), ([], ""), ([], "\udcff\n")]
)
def test_what_is_no_question_is_refused_as_at_every_door(
    tmp_path: Path, words: list[str], stdin: str
) -> None:
    ended = run_here(tmp_path, "chat", *words, stdin=stdin, managers=TOY)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr == (
        "frontdesk: The message must be a JSON object with a non-empty text. (bad_message)\n"
    )


@pytest.mark.parametrize("streams", ["<&-", "> answer.txt"])
def test_a_question_that_is_missing_is_asked_for(tmp_path: Path, streams: str) -> None:
    script = f"{FRONTDESK} chat {streams}"
    with terminal(tmp_path, managers=TOY, command=("bash", "-c", script)) as screen:
        told = " ".join(screen.rest().split())
    assert screen.process.returncode == 2
    assert "question: it is missing" in told


ALICE = ("--subject", "alice", "--tenant", "acme", "--scope", "read", "--scope", "write all")


@pytest.mark.parametrize(
    ("words", "seen"),
    [
        ([], "session None [] None cli"),
        (ALICE, "user acme ['all', 'read', 'write'] alice cli"),
        (["--subject", "robot", "--service"], "service None [] robot cli"),
    ],
)
def test_the_permission_is_asked_about_who_asks(
    folder: Path, words: Sequence[str], seen: str
) -> None:
    ended = chat(folder, "How many parts are there?", *words, permission="access:permission")
    assert (ended.returncode, ended.stdout) == (0, f"{seen}\nThere are 3 parts.\n")


def test_who_is_denied_is_told_and_nothing_is_asked(folder: Path) -> None:
    ended = chat(folder, "Hi", "--subject", "mallory", permission="access:permission")
    assert ended.returncode == 1
    assert ended.stderr == "frontdesk: You are not allowed to do this. (denied)\n"
    assert stored(folder, "SELECT * FROM chat_runs") == []


def test_a_visitor_sees_what_visitors_see(tmp_path: Path) -> None:
    shop = "app.demo.manufacturing:managers"
    visitor = chat(tmp_path, "How many projects are there?", managers=shop)
    alice = chat(tmp_path, "How many projects are there?", "--subject", "alice", managers=shop)
    counts = [int(re.findall(r"\d+", ended.stdout)[0]) for ended in (visitor, alice)]
    assert 0 < counts[0] < counts[1]


def test_each_question_begins_a_conversation(folder: Path) -> None:
    for _ in range(2):
        assert chat(folder, "Hm?", "--subject", "ann", provider="voices.Looks").returncode == 0
    assert stored(folder, "SELECT count(DISTINCT conversation_id) FROM chat_runs") == [(2,)]


@pytest.mark.parametrize("level", ["warning", "debug"])
def test_a_failure_is_told_with_its_code_and_what_led_to_it(folder: Path, level: str) -> None:
    settings = {"managers": TOY, "provider": "voices.Breaks", "log_level": level}
    ended = run(folder, FRONTDESK, "chat", "How many?", **settings)
    assert (ended.returncode, ended.stdout) == (1, "There are\n")
    last = ended.stderr.splitlines()[-1]
    told = re.fullmatch(
        r"frontdesk: The request could not be completed. \(chat_error, error (\w+)\)", last
    )
    assert told
    assert f"(error {told[1]})" in ended.stderr
    assert "ValueError: ␛[31mbroken" in ended.stderr
    assert ("Traceback" in ended.stderr) is (level == "debug")


def test_what_a_start_tells_is_told_when_it_is_asked_for(tmp_path: Path) -> None:
    asked = (FRONTDESK, "chat", "How many parts are there?")
    ended = run(tmp_path, *asked, managers=TOY, log_level="info")
    assert ended.stdout == "There are 3 parts.\n"
    assert "INFO: Provider: OfflineProvider." in ended.stderr
    assert "INFO: Exposed: PartManager" in ended.stderr


@pytest.mark.parametrize(
    ("redirection", "said"),
    [
        (">&-", "Standard output is closed, so nothing can be shown."),
        (">/dev/full", "Standard output can't be written: No space left on device."),
    ],
)
@pytest.mark.parametrize("command", ["chat Hi", "check", "settings", "demo toy --port {port}"])
def test_an_output_that_takes_nothing_is_told_in_one_line(
    folder: Path, command: str, redirection: str, said: str
) -> None:
    script = f"{FRONTDESK} {command.format(port=free_port())} {redirection}"
    ended = run(folder, "bash", "-c", script, managers=TOY, provider="voices.Goes")
    made = "The data of the toy demo is made, once: .frontdesk/demo-toy.db\n"
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.removeprefix(made) == f"frontdesk: {said}\n"


@pytest.mark.parametrize("streams", ["", "2>&1"])
def test_who_reads_no_more_ends_it_quietly(folder: Path, streams: str) -> None:
    script = f"{FRONTDESK} chat Hi {streams} | head -n 1"
    ended = run(folder, "bash", "-c", script, managers=TOY, provider="voices.Goes")
    assert (ended.stdout, ended.stderr) == ("0\n", "")
    assert stored(folder, "SELECT status FROM chat_runs") == [("interrupted",)]
