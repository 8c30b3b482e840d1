"""`frontdesk chat --url`: the chat of a running server, and what is said when there is none."""

import asyncio
import os
import subprocess
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from commands import run_here, terminal
from fastapi import FastAPI, Request, Response
from processes import free_port
from transports import Chat, open_chat, serve

from app.demo.toy import managers
from app.identity import Scope
from app.settings import Jwt
from app.tokens import make_token
from providers.scripted import call, say, wait
from schema.events import Actor

JWT = Jwt(secret="k" * 32)
SESSION = '{"actor":{"kind":"session","subject":"s"},"csrf_token":"t","expires_at":null}'
DENIED = '{"detail":"Not allowed.","code":"denied"}'
GONE = "There is no Frontdesk at {}/: give --url the address of its chat"


@pytest.fixture(autouse=True)
def _no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DESK_TOKEN", raising=False)


def bearer(subject: str) -> str:
    return make_token(JWT, subject, lifetime=timedelta(hours=1), now=datetime.now(UTC))


def permission(actor: Actor, scope: Scope) -> bool:
    return actor.subject != "mallory" and scope["transport"] in ("sse", "http")


@pytest.fixture
async def chat(toy_url: str) -> AsyncGenerator[Chat]:
    """A served desk that believes tokens, and the script of its model."""
    async with open_chat("http", managers, toy_url, jwt=JWT, permission=permission) as chat:
        yield chat


def address(chat: Chat) -> str:
    return str(chat.browser.client.base_url).rstrip("/")


async def asked(
    folder: Path, url: str, question: str = "How many?"
) -> subprocess.CompletedProcess[str]:
    """Ask a server in another thread than that which serves."""
    return await asyncio.to_thread(run_here, folder, "chat", question, "--url", url)


@pytest.mark.parametrize("path", ["", "/", "/chat", "/chat/"])
async def test_a_server_answers_as_a_desk_here_does(tmp_path: Path, chat: Chat, path: str) -> None:
    chat.model.will(
        [say("I look. "), call("query", manager="PartManager", fields=["name"])], say("Thr", "ee.")
    )
    here = tmp_path / "empty"
    here.mkdir()
    ended = await asked(here, address(chat) + path)
    assert (ended.returncode, ended.stdout) == (0, "I look. Three.\n")
    assert ended.stderr.splitlines() == [
        'query {"manager":"PartManager","fields":["name"]}',
        "query: rows 3 of 3",
    ]
    assert os.listdir(here) == []


async def test_who_asks_is_told_by_the_token(
    tmp_path: Path, chat: Chat, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DESK_TOKEN", f"{bearer('ann')}\n")
    chat.model.will(say("Yes."))
    assert (await asked(tmp_path, address(chat))).stdout == "Yes.\n"
    for subject, token in (("mallory", bearer("mallory")), ("nobody", f"{bearer('ann')}x")):
        monkeypatch.setenv("DESK_TOKEN", token)
        ended = await asked(tmp_path, address(chat))
        assert (ended.returncode, ended.stdout) == (1, "")
        told = {
            "mallory": "You are not allowed to do this. Put the token of somebody who may into",
            "nobody": "The credentials are not valid. Put a valid token into DESK_TOKEN",
        }
        assert told[subject] in ended.stderr
        assert token not in ended.stderr


async def test_what_is_refused_is_told_as_everywhere(tmp_path: Path, chat: Chat) -> None:
    ended = await asked(tmp_path, address(chat), " ")
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr == (
        "frontdesk: The message must be a JSON object with a non-empty text. (bad_message)\n"
    )


async def test_many_questions_are_one_conversation_that_can_be_left(
    tmp_path: Path, chat: Chat
) -> None:
    gate = asyncio.Event()
    chat.model.will(say("One."), [say("Two"), wait(gate), say("!")], say("Three."))

    def talk() -> None:
        with terminal(tmp_path, "chat", "--url", address(chat)) as screen:
            screen.until("> $")
            for keys, shown in (
                ("first\n", "\nOne.\n> $"),
                ("second\n", "\nTwo$"),
                ("\x03", "The server goes on with it: .*> $"),
                ("third\n", r"\(turn_in_progress\).*\n> $"),
                ("/new\n", "> $"),
                ("fourth\n", "\nThree.\n> $"),
            ):
                screen.type(keys)
                screen.until(f"(?s){shown}")
            screen.type("\x04")
            screen.rest()
        assert screen.process.returncode == 0

    await asyncio.to_thread(talk)
    gate.set()
    said = [[m.content for m in request.messages[1:]] for request in chat.model.requests]
    assert said == [["first"], ["first", "One.", "second"], ["fourth"]]


# --- connections that break -----------------------------------------------------------------------


@asynccontextmanager
async def cutting(address: str, streams: int) -> AsyncGenerator[tuple[str, list[str]]]:
    """Stand before a server, and cut so many streams behind a text; give the requests' lines."""
    host, port = address.removeprefix("http://").split(":")
    lines: list[str] = []
    cuts = [*range(streams)]

    async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while part := await reader.read(65536):
            line, is_head, _ = part.partition(b" HTTP")
            lines.extend([line.decode()] if is_head else [])
            writer.write(part)
        writer.close()

    async def show(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while part := await reader.read(65536):
            head, found, _ = part.partition(b'"content":"')
            if found and cuts:
                cuts.pop()
                writer.write(head)  # half of an event
                break
            writer.write(part)
        await writer.drain()
        writer.close()

    async def stand(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        behind_reader, behind_writer = await asyncio.open_connection(host, int(port))
        async with asyncio.TaskGroup() as group:
            group.create_task(ask(reader, behind_writer))
            await show(behind_reader, writer)
        await behind_writer.wait_closed()

    async with await asyncio.start_server(stand, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", lines


@pytest.mark.parametrize("cuts", [1, 2])
async def test_a_stream_that_breaks_is_taken_up_again_once(
    tmp_path: Path, chat: Chat, cuts: int
) -> None:
    chat.model.will(call("query", manager="PartManager"), say("There are 3 parts."))
    async with cutting(address(chat), cuts) as (url, lines):
        ended = await asked(tmp_path, url)
    assert [line.split("?")[0].split("/runs/")[0] for line in lines] == [
        "GET /session/",
        "GET /chat/session/",
        "POST /chat/stream/",
        "GET /chat",
    ]
    assert lines[-1].endswith("/events/?after=6&live=true")
    assert ended.stderr.count("query") == 2
    if cuts == 1:
        assert (ended.returncode, ended.stdout) == (0, "There are 3 parts.\n")
    else:
        assert (ended.returncode, ended.stdout) == (1, "")
        assert "broke twice. See whether the server still runs, and ask again." in ended.stderr


# --- servers that are none ------------------------------------------------------------------------


def pretender(paths: Mapping[str, tuple[int, str, str]]) -> FastAPI:
    """A server that answers paths with status, content type and body, and others as FastAPI."""
    app = FastAPI()

    async def answer(request: Request) -> Response:
        status, kind, body = paths[request.url.path]
        headers = {"Content-Type": kind, "Location": "https://desk.example/chat/"}
        return Response(body, status, headers)

    for path in paths:
        app.add_api_route(path, answer, methods=["GET", "POST"])
    return app


JSON, HTML, EVENTS = "application/json", "text/html", "text/event-stream"
COME_IN = {"/chat/session/": (200, JSON, SESSION)}


@pytest.mark.parametrize(
    ("paths", "said"),
    [
        ({}, GONE),
        ({"/session/": (200, HTML, "<p>"), "/chat/session/": (200, JSON, "{}")}, GONE),
        ({"/session/": (403, HTML, "no")}, GONE),
        ({"/session/": (403, JSON, '{"detail":"Not authenticated"}')}, GONE),
        (
            {"/session/": (308, HTML, "")},
            "{}/ leads elsewhere: .* behind https://desk.example/chat",
        ),
        (
            {"/session/": (403, JSON, DENIED)},
            "{}/ refuses: Not allowed. Put the token of .* DESK_T",
        ),
        ({"/session/": (503, JSON, DENIED)}, "{}/ refuses: Not allowed. Ask again in a moment."),
        ({"/session/": (500, JSON, DENIED)}, "{}/ refuses: Not allowed. The log of the server"),
        (COME_IN, "There is no Frontdesk at {}/chat/"),
        ({**COME_IN, "/chat/stream/": (200, HTML, "")}, "There is no Frontdesk at {}/chat/"),
        ({**COME_IN, "/chat/stream/": (503, JSON, DENIED)}, "{}/chat/ refuses: .* in a moment."),
        (
            {
                **COME_IN,
                "/chat/stream/": (
                    200,
                    EVENTS,
                    'id: r:1\ndata: {"type":"resync","run_id":"r","status":"done","last_seq":1,'
                    '"entries":[]}\n\n',
                ),
            },
            "The server has lost a part of the answer. Ask again.",
        ),
    ],
)
async def test_a_server_that_gives_no_answer_is_told_in_a_sentence(
    tmp_path: Path, paths: Mapping[str, tuple[int, str, str]], said: str
) -> None:
    async with serve(pretender(paths)) as url:
        ended = await asked(tmp_path, url)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.count("\n") == 1
    assert matches(said.format(url), ended.stderr)


def matches(pattern: str, line: str) -> bool:
    """Find texts in their order; between them is `.*`."""
    start = 0
    for part in pattern.split(".* "):
        start = line.find(part, start) + 1
        if not start:
            return False
    return line.startswith("frontdesk: ")


async def test_events_that_are_not_known_are_left_out(tmp_path: Path) -> None:
    stream = (
        ': ping\n\nid: r:1\ndata: {"type":"later"}\n\nid: r:2\ndata: {"type":"text_chunk",'
        '"content":"Yes\x85\u2028.","more":1}\n\nid: r:3\ndata: {"type":"done","usage":{}}\n\n'
    )
    async with serve(pretender({**COME_IN, "/chat/stream/": (200, EVENTS, stream)})) as url:
        ended = await asked(tmp_path, url)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "Yes\ufffd\u2028.\n", "")


def test_a_server_that_is_not_there_is_told_with_the_way_to_one(tmp_path: Path) -> None:
    ended = run_here(tmp_path, "chat", "Hi", "--url", f"http://127.0.0.1:{free_port()}")
    assert (ended.returncode, ended.stdout, ended.stderr.count("\n")) == (1, "", 1)
    assert "can't be reached (" in ended.stderr
    assert "Start a server with `frontdesk serve`, or correct --url." in ended.stderr


@pytest.mark.parametrize(
    ("url", "token", "said"),
    [
        ("127.0.0.1:8000", "", "--url is no address"),
        ("ftp://desk.example", "", "--url is no address"),
        ("http://", "", "--url is no address"),
        ("http://[::1", "", "--url is no address"),
        ("http://ann:SECRET@desk.example/", "", "--url holds more than the address"),
        ("http://desk.example/?token=SECRET", "", "--url holds more than the address"),
        ("http://desk.example/", "SECRET", "would go to desk.example where others can read it."),
        ("http://127.0.0.1:1/", "SECRET TWO", "DESK_TOKEN holds no bearer token."),
        ("http://127.0.0.1:1/", "SECRET\nX: y", "DESK_TOKEN holds no bearer token."),
        ("http://127.0.0.1:1/", "SECRÈT", "DESK_TOKEN holds no bearer token."),
    ],
)
def test_an_address_or_a_token_that_can_not_be_used_is_told_and_not_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str, token: str, said: str
) -> None:
    monkeypatch.setenv("DESK_TOKEN", token)
    ended = run_here(tmp_path, "chat", "Hi", "--url", url)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert said in ended.stderr
    assert "SECR" not in ended.stderr
