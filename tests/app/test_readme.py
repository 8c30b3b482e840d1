"""What the README says is so."""

import re
import shutil
from http.cookiejar import MozillaCookieJar
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx
import pytest
from commands import run_here
from pages import ROOT, block, read, server, shell, write
from processes import FRONTDESK, UVICORN, ask, run, serving

from app.settings import named_fields

# Only what an installation is made from; nothing that this tree's own tools have left.
OTHERS = shutil.ignore_patterns(".*", "__pycache__", "tests")


def table(heading: str) -> list[list[str]]:
    """Return the rows of the table below a heading, as cells."""
    section = re.split(r"\n##+ ", read("README.md").partition(f"# {heading}\n")[2])[0]
    lines = re.findall(r"^\| (.+) \|$", section, re.MULTILINE)
    return [[cell.strip() for cell in line.split(" | ")] for line in lines[1:]]


def test_every_setting_of_the_readme_is_one() -> None:
    cells = " ".join(row[0] for row in table("Settings"))
    assert set(re.findall(r"`(FRONTDESK_\w+)`", cells)) <= named_fields().keys()


def test_the_readme_names_every_option_of_every_command(tmp_path: Path) -> None:
    told: dict[str, set[str]] = {}
    for cell, _ in table("Commands"):
        for code in re.findall(r"`([^`]+)`", cell):
            name = code.removeprefix("frontdesk ").split()[0]
            told.setdefault(name, set()).update(re.findall(r"--[a-z]+", code))
    shown = run_here(tmp_path, "--help").stdout
    assert set(re.findall(r"^│ ([a-z]+) ", shown.partition("Commands")[2], re.MULTILINE)) == {*told}
    for name, options in told.items():
        shown = run_here(tmp_path, name, "--help").stdout
        assert set(re.findall(r"^│.*?(--[a-z]+)", shown, re.MULTILINE)) - {"--help"} == options, (
            name
        )


def as_shown(text: str) -> re.Pattern[str]:
    """Make a pattern of what a page shows: "…" is the rest of a word, or a line of any lines."""
    lines = [
        r"(?:.*\n)*" if line == "…" else re.escape(line).replace("6f0d…", r"[\w-]+") + "\n"
        for line in text.splitlines()
    ]
    return re.compile("".join(lines).replace("…", r"\w+"))


def test_two_commands_show_what_the_readme_shows() -> None:
    """A clone makes its own `.venv`, of what its lock file names."""
    with TemporaryDirectory() as folder:
        clone = shutil.copytree(ROOT, Path(folder, "clone"), ignore=OTHERS)
        alone = "unset MAKEFLAGS MAKELEVEL VIRTUAL_ENV\n"
        installed = run(clone, *shell(f"{alone}make install"))
        assert installed.returncode == 0, installed.stderr
        demo = block("README.md", "sh", "make demo")
        started = demo.replace("make demo", 'exec make demo PORT="$2"')
        with serving(clone, *shell(alone + started), "bash") as url:
            answered = run(clone, *shell(at(url, block("README.md", "sh", "curl -N -X POST"))))
    assert answered.returncode == 0, answered.stderr
    said = answered.stdout.replace("\r", "").replace("\n\n", "\n")
    assert as_shown(block("README.md", "", "id: 6f0d…:4")).fullmatch(said), said


def at(url: str, text: str) -> str:
    """Have an example ask a server of ours."""
    return text.replace("localhost:8000", url.removeprefix("http://"))


def test_the_models_of_the_readme_can_be_served(shop: Path) -> None:
    with serving(shop, UVICORN, "shop.chat:app") as url:
        said = ask(url, "Which parts are made of steel?")
        assert "Bolt" in said
        assert "Secret gear" not in said
    shown = run(shop, FRONTDESK, "check", managers="shop.chat:managers")
    assert shown.returncode == 0, shown.stderr
    assert "material -> Material" in shown.stdout
    assert "purchase_price" not in shown.stdout


def test_the_commands_of_the_readme_check_and_serve_them(shop: Path) -> None:
    with serving(shop, *server(block("README.md", "sh", "frontdesk serve"))) as url:
        assert ask(url, "How many parts are there?") == "There is 1 part."


@pytest.mark.parametrize("path", ["chat", "desk"])
def test_the_site_of_the_readme_has_the_chat(shop: Path, path: str) -> None:
    site = block("README.md", "python", "# shop/site.py")
    if path == "desk":  # what a comment says may be done instead
        site = site.replace("install(site, managers)\n", "").replace("# from", "from")
        site = site.replace("# install", "install")
    write(shop, site)
    with serving(shop, UVICORN, "shop.site:site", ready="/openapi.json") as url:
        answered = httpx.post(f"{url}/{path}/", json={"text": "How many parts are there?"})
        assert answered.json()["answer"] == "There is 1 part."
        assert httpx.get(f"{url}/openapi.json").json()["info"]["title"] == "Shop"


def test_the_rules_of_the_readme_say_who_asks_and_who_may(tmp_path: Path) -> None:
    write(tmp_path, block("README.md", "python", "# shop/access.py"))
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
    script = block("README.md", "sh", "frontdesk chat").replace(".venv/bin/", "")
    ended = run(tmp_path, *shell(script))
    assert (ended.returncode, ended.stdout) == (0, "")
    assert "Beacon Light Tower" in (tmp_path / "answer.txt").read_text()
    assert "query: rows 3 of 3" in ended.stderr


def test_a_visitor_of_the_readme_asks_twice_and_reads_the_rest_of_an_answer(tmp_path: Path) -> None:
    with serving(tmp_path, FRONTDESK, "demo", "toy") as url:
        asked = run(tmp_path, *shell(at(url, block("README.md", "sh", "curl -c jar"))))
        assert asked.returncode == 0, asked.stderr
        assert "3 parts" in asked.stdout
        cookies = MozillaCookieJar(tmp_path / "jar")
        cookies.load(ignore_discard=True)
        csrf = next(str(cookie.value) for cookie in cookies if cookie.name == "csrftoken")
        again = httpx.post(
            f"{url}/chat/",
            json={"text": "List all materials"},
            cookies=cookies,
            headers={"X-CSRFToken": csrf},
        )
        resume = block("README.md", "sh", "Last-Event-ID").replace("RUN", again.headers["X-Run-Id"])
        rest = run(tmp_path, *shell(at(url, resume)))
    assert rest.returncode == 0, rest.stderr
    numbers = [int(number) for number in re.findall(r"^id: \S+:(\d+)", rest.stdout, re.MULTILINE)]
    assert min(numbers) > 12
    assert '"type":"done"' in rest.stdout
