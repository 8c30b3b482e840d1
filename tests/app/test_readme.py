"""What the README says is so."""

import re
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import httpx
from processes import FRONTDESK, UVICORN, ask, run, serving

from app.settings import named_fields

README = (Path(__file__).parents[2] / "README.md").read_text()


def table(heading: str) -> list[list[str]]:
    """Return the rows of the table below a heading, as cells."""
    section = re.split(r"\n##+ ", README.partition(f"# {heading}\n")[2])[0]
    lines = re.findall(r"^\| (.+) \|$", section, re.MULTILINE)
    return [[cell.strip() for cell in line.split(" | ")] for line in lines[1:]]


def block(language: str, containing: str) -> str:
    """Return the code block that contains a text."""
    blocks = re.findall(rf"```{language}\n(.+?)```", README, re.DOTALL)
    return next(found for found in blocks if containing in found)


def test_every_setting_of_the_readme_is_one() -> None:
    cells = " ".join(row[0] for row in table("Settings"))
    assert set(re.findall(r"`(FRONTDESK_\w+)`", cells)) <= named_fields().keys()


def test_the_models_of_the_readme_can_be_served(tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "chat.py").write_text(block("python", "shop/chat.py"))
    create = block("sh", "create_all").replace("python", sys.executable, 1)
    made = run(tmp_path, "bash", "-ec", create)
    assert made.returncode == 0, made.stderr
    with closing(sqlite3.connect(tmp_path / "shop.db")) as connection:
        connection.executescript(
            """
            INSERT INTO material VALUES (1, 'Steel', 7.5);
            INSERT INTO part VALUES (1, 'Bolt', 1, 1), (2, 'Secret gear', 0, 1);
            """
        )
    with serving(tmp_path, UVICORN, "shop.chat:app") as url:
        said = ask(url, "Which parts are made of steel?")
        assert "Bolt" in said
        assert "Secret gear" not in said
    shown = run(tmp_path, FRONTDESK, "check", managers="shop.chat:managers")
    assert shown.returncode == 0, shown.stderr
    assert "material -> Material" in shown.stdout
    assert "purchase_price" not in shown.stdout


def test_the_rules_of_the_readme_say_who_asks_and_who_may(tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "access.py").write_text(block("python", "shop/access.py"))
    rules = {"identity": "shop.access:identity", "permission": "shop.access:permission"}
    settings = {**rules, "managers": "app.demo.toy:managers", "jwt__secret": "k" * 32}
    token = run(tmp_path, FRONTDESK, "token", "ann", jwt__secret="k" * 32).stdout.strip()
    with serving(tmp_path, FRONTDESK, "serve", **settings) as url:
        for headers, status in (
            ({}, 403),
            ({"X-API-Key": "guessed"}, 403),
            ({"X-API-Key": "key-of-the-importer"}, 200),
            ({"Authorization": f"Bearer {token}"}, 200),
        ):
            asked = httpx.post(f"{url}/chat/", json={"text": "List all parts"}, headers=headers)
            assert asked.status_code == status, headers


def test_the_terminal_of_the_readme_answers_into_a_file(tmp_path: Path) -> None:
    script = block("sh", "frontdesk chat").replace(".venv/bin/frontdesk", str(FRONTDESK))
    ended = run(tmp_path, "bash", "-ec", script)
    assert (ended.returncode, ended.stdout) == (0, "")
    assert "Beacon Light Tower" in (tmp_path / "answer.txt").read_text()
    assert "query: rows 3 of 3" in ended.stderr


def test_the_curl_commands_of_the_readme_work(tmp_path: Path) -> None:
    with serving(tmp_path, FRONTDESK, "demo", "toy") as url:
        for containing in ("curl -N -X POST", "curl -c jar"):
            script = block("sh", containing).replace("localhost:8000", url.removeprefix("http://"))
            ended = run(tmp_path, "bash", "-ec", script)
            assert ended.returncode == 0, ended.stderr
            assert '"type":"done"' in ended.stdout
    assert "3 parts" in ended.stdout
