"""What is wrong with a set-up is told in a sentence, with the way out, by every command."""

import re
import sys
from pathlib import Path

import pytest
from commands import run_here
from processes import FRONTDESK, run

TOY = "app.demo.toy:managers"
KEY = "k" * 48
URL = "http://127.0.0.1:1"


@pytest.mark.parametrize(
    ("command", "settings", "said"),
    [
        (["demo", "nothing"], {}, "choose from flights, large"),
        (["serve"], {}, "FRONTDESK_MANAGERS is not set.*frontdesk demo"),
        (["serve"], {"managers": "nowhere:managers"}, "nowhere:managers can't be imported"),
        (["serve"], {"managers": "app.demo.toy"}, "names a module.*app.demo.toy:managers"),
        (["serve"], {"managers": "app.demo.toy:prepare"}, "is no Managers"),
        (["serve"], {"managers": TOY, "database_url": "sqlite:///no.db"}, "frontdesk migrate"),
        (["serve"], {"managers": TOY, "database_url": "mysql://h/d"}, "FRONTDESK_DATABASE_URL"),
        (
            ["migrate"],
            {"database_url": "postgres://u:p@127.0.0.1:1/d"},
            "127.0.0.1:1 can't be used",
        ),
        (["serve"], {"managers": TOY, "max_results": "many"}, "FRONTDESK_MAX_RESULTS"),
        (["serve"], {"managers": TOY, "timezone": "Mars"}, "FRONTDESK_TIMEZONE.*IANA"),
        (["serve"], {"managers": TOY, "provider": "nowhere.Model"}, "nowhere"),
        (["serve"], {"managers": TOY, "permission": "os:name"}, "FRONTDESK_PERMISSION"),
        (["serve"], {"managers": TOY, "identity": "os:name"}, "FRONTDESK_IDENTITY"),
        (
            ["serve"],
            {"managers": TOY, "max_reslts": "1"},
            "MAX_RESLTS is no.*FRONTDESK_MAX_RESULTS",
        ),
        (["serve", "--host", "0.0.0.0"], {}, "FRONTDESK_ALLOWED_HOSTS is not set.*=desk.example"),
        (["demo", "--host", "0.0.0.0"], {}, "FRONTDESK_ALLOWED_HOSTS is not set.*=desk.example"),
        (["token", "anna"], {}, "FRONTDESK_JWT__SECRET.*not set.*secrets.token_urlsafe"),
        (["token", " "], {"jwt__secret": KEY}, "subject.*blank"),
        (["check"], {}, "FRONTDESK_MANAGERS is not set"),
        (["check"], {"managers": TOY, "provider": "nowhere.Model"}, "nowhere"),
        (["migrate"], {"database_url": "sqlite:///garbage.db"}, "garbage.db can't be migrated"),
        (["migrate"], {"database_url": "sqlite:///garbage.db/chat.db"}, "can't be migrated"),
        (["serve", "--reload", "--workers", "2"], {}, "leave --workers out"),
        (["demo", "--host", "192.0.2.1"], {"allowed_hosts": "a"}, "another address.*--host"),
        (["managers"], {}, "FRONTDESK_MANAGERS is not set"),
        (["managers", "--demo", "nothing"], {}, "choose from flights, large"),
        (["managers", "--demo", "toy", "--scope", "read"], {}, "--subject"),
        (["chat", "Hi"], {}, "FRONTDESK_MANAGERS is not set.*demo.*frontdesk chat --demo"),
        (["chat", "Hi", "--demo", "nothing"], {}, "choose from flights, large"),
        (["chat", "Hi", "--demo", "toy", "--tenant", "acme"], {}, "--subject"),
        (["chat", "Hi", "--demo", "toy", "--scope", "read"], {}, "--subject"),
        (["chat", "Hi", "--demo", "toy", "--service"], {}, "--subject"),
        (["chat", "Hi", "--subject", "a\x1bb"], {}, "--subject.*control characters"),
        (["chat", "Hi"], {"managers": TOY, "provider": "nowhere.Model"}, "nowhere"),
        (["chat", "Hi"], {"managers": TOY, "database_url": "sqlite:///no.db"}, "frontdesk migrate"),
        (["chat", "Hi", "--url", URL, "--demo", "toy"], {}, "DESK_TOKEN.*leave out"),
        (["chat", "Hi", "--url", URL, "--subject", "ann"], {}, "DESK_TOKEN.*leave out"),
        (["chat", "Hi", "--url", URL, "--service"], {}, "DESK_TOKEN.*leave out"),
    ],
)
def test_a_wrong_set_up_is_named_in_a_sentence(
    tmp_path: Path, command: list[str], settings: dict[str, str], said: str
) -> None:
    (tmp_path / "garbage.db").write_text("no database at all")
    ended = run_here(tmp_path, *command, **settings)
    told = " ".join(ended.stderr.split())
    assert (ended.returncode, ended.stdout) == (2, ""), told
    assert re.search(said, told), told


def test_a_wrong_set_up_is_told_without_a_traceback(tmp_path: Path) -> None:
    ended = run(tmp_path, FRONTDESK, "serve", managers="nowhere:managers")
    assert (ended.returncode, ended.stdout, ended.stderr.count("\n")) == (2, "", 1)


BROKEN = """
from sqlalchemy.orm import registry
from sqlmodel import Field, SQLModel
from schema import Managers

class Table(SQLModel, registry=registry()): ...


class Part(Table, table=True):
    id: int = Field(primary_key=True)


{}
managers.expose(Part)
"""


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("managers = Manager()", "E002: .* (NameError: name 'Manager' is not defined, in {} 13)."),
        ("import nowhere", "E002: .* (ModuleNotFoundError: No module named 'nowhere', in {} 13)."),
        ("managers = Managers(", "E002: .* (SyntaxError: '(' was never closed, in {} 13)."),
        ("raise ValueError", "E002: .* (ValueError, in {} 13)."),
        ("raise ValueError('a.\\nb')", "E002: .* (ValueError: a, in {} 13)."),
        ("raise ValueError('\\x1b[2J')", "E002: .* (ValueError: ␛[2J, in {} 13)."),
        (
            "managers = Managers(prepare=lambda connection: 1 / 0)",
            "E001: prepare= of Managers() failed (ZeroDivisionError: division by zero, in {} 13).",
        ),
    ],
)
def test_what_a_projects_own_code_raises_is_told_with_its_line(
    tmp_path: Path, code: str, said: str
) -> None:
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "chat.py").write_text(BROKEN.format(code))
    ended = run_here(tmp_path, "check", managers="broken.chat:managers")
    sys.modules.pop("broken", None)
    assert ended.returncode == 2
    start, _, rest = said.format("broken/chat.py line").partition(".*")
    assert ended.stderr.startswith(f"frontdesk: {start}")
    assert f"{rest} Correct the code there.\n" in ended.stderr


@pytest.mark.parametrize("command", [["demo", "toy"], ["chat", "--demo", "toy", "Hi"]])
def test_a_demo_that_can_not_keep_its_data_says_where_it_would(
    tmp_path: Path, command: list[str]
) -> None:
    (tmp_path / ".frontdesk").write_text("a file")
    ended = run_here(tmp_path, *command)
    assert ended.returncode == 2
    assert "Delete .frontdesk/demo-toy.db to start anew, or go to" in ended.stderr


def test_a_secret_that_can_not_be_kept_is_told_before_serving(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/chat.db"
    assert run_here(tmp_path, "migrate", database_url=url).returncode == 0
    (tmp_path / ".frontdesk").write_text("a file")
    ended = run_here(tmp_path, "serve", managers=TOY, database_url=url)
    assert ended.returncode == 2
    assert "Set FRONTDESK_SESSION_SECRET" in ended.stderr
