"""The Dockerfile and compose.yaml, done line by line by processes in a folder, without Docker."""

import json
import re
import shutil
import sys
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from string import Template
from tempfile import TemporaryDirectory

import httpx
import pytest
import yaml
from pages import ROOT, block
from processes import ask, run, serving
from pydantic import BaseModel, TypeAdapter

DOCKERFILE = (ROOT / "Dockerfile").read_text("utf-8")
COMPOSE = (ROOT / "compose.yaml").read_text("utf-8")
# What makes an image small and quick to start, and its making slow.
SLOWER = re.compile(r" --(no-cache(-dir)?|compile-bytecode)\b")


@dataclass
class Image:
    """A folder that stands for the root of an image, and what the lines have set in it.

    Commands are those of this machine, where the image's paths are below the folder.
    """

    root: Path
    folder: str = ""
    variables: dict[str, str] = field(default_factory=dict[str, str])
    command: list[str] = field(default_factory=list[str])
    health: list[str] = field(default_factory=list[str])

    def here(self, text: str) -> str:
        return re.sub(r"(?<![\w./-])/(opt|desk|src)\b", rf"{self.root}/\1", text)

    def place(self, path: str) -> Path:
        return Path(self.here(self.folder or "/opt"), self.here(path))

    def do(self, line: str, context: Path, before: "Image | None" = None) -> None:
        """Do one line of a Dockerfile; `before` is the image of the stage before."""
        word, _, rest = line.partition(" ")
        match word:
            case "WORKDIR":
                self.folder = rest
                self.place("").mkdir(parents=True, exist_ok=True)
            case "ENV":
                name, _, value = rest.partition("=")
                self.variables[name] = Template(self.here(value)).substitute(self.given())
            case "COPY" if rest.startswith("--from=build "):
                assert before
                source, target = rest.split()[1:]
                self.place(target).parent.mkdir(exist_ok=True)
                shutil.move(before.place(source), self.place(target))
            case "COPY":
                *sources, target = rest.split()
                for source in sources:
                    _copy(context / source, self.place(target))
            case "RUN" if rest == "useradd --create-home --home-dir /desk desk":
                self.place("/desk").mkdir()
            case "RUN":
                self.run(rest)
            case "CMD":
                self.command = json.loads(rest)
            case "HEALTHCHECK":
                self.health = json.loads(rest.partition(" CMD ")[2])
            case _:
                assert line in ("USER desk", "EXPOSE 8000")

    def given(self) -> dict[str, str]:
        return {"PATH": f"{self.root}/bin:/usr/bin:/bin", **self.variables}

    def run(self, script: str) -> None:
        """Run what a line says, with what this machine has fetched before."""
        command = ["sh", "-ec", SLOWER.sub("", self.here(script))]
        ended = run(self.place(""), *self.process(command, {"UV_LINK_MODE": "hardlink"}))
        assert ended.returncode == 0, ended.stderr

    def process(self, command: list[str], given: Mapping[str, str]) -> tuple[str, ...]:
        """Give what starts a command in the image, with the variables of a container."""
        # What is not compiled when an image is made, the first process compiles for the others.
        variables = {"PYTHONDONTWRITEBYTECODE": "", **self.given(), **given}
        return ("env", *(f"{name}={value}" for name, value in variables.items()), *command)


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        target.mkdir(exist_ok=True)
        shutil.copy(source, target)


def lines(text: str) -> Iterator[str]:
    """Give the lines of a Dockerfile, each with what continues it."""
    for line in re.sub(r"\\\n\s*", "", text).splitlines():
        if line and not line.startswith("#"):
            yield line


@pytest.fixture(scope="module")
def image() -> Generator[Image]:
    """The image that the Dockerfile makes; of its first stage there is only what is copied."""
    with TemporaryDirectory(prefix="frontdesk-") as folder:
        root = Path(folder)
        (root / "bin").mkdir()
        (root / "bin/python").symlink_to(Path(sys.base_prefix, "bin/python3"))
        build, final = DOCKERFILE.split("\nFROM python:3.11-slim\n")
        first, last = Image(root), Image(root)
        for line in lines(build):
            if line != "FROM python:3.11-slim AS build":
                first.do(line, ROOT)
        (root / "build").mkdir()
        for name in ("opt", "src"):
            shutil.move(root / name, root / "build" / name)
        for line in lines(final):
            last.do(line, ROOT, replace(first, root=root / "build"))
        yield last


class Service(BaseModel):
    """What compose.yaml says of a service."""

    image: str | None = None
    build: str | None = None
    command: list[str] | None = None
    environment: dict[str, str]
    depends_on: dict[str, dict[str, str]] = {}


def services(given: Mapping[str, str]) -> dict[str, Service]:
    """Read compose.yaml with some variables; one that must be set and is not is a KeyError."""

    def value(found: re.Match[str]) -> str:
        name, kind, default = found.groups()
        return given.get(name, default) if kind == "-" else given[name]

    text = re.sub(r"\$\{(\w+):([-?])([^}]*)\}", value, COMPOSE)
    return TypeAdapter(dict[str, Service]).validate_python(yaml.safe_load(text)["services"])


GIVEN = {"POSTGRES_PASSWORD": "pass", "FRONTDESK_SESSION_SECRET": "s" * 16}


def test_its_services_migrate_and_serve_the_demo_on_postgresql(
    image: Image, postgres_url: str
) -> None:
    up = services(GIVEN)
    database = up["postgres"].environment
    variables = up["desk"].environment
    assert variables == up["migrate"].environment
    assert variables[
        "FRONTDESK_DATABASE_URL"
    ] == "postgresql+asyncpg://{}:{}@postgres:5432/{}".format(
        database["POSTGRES_USER"], database["POSTGRES_PASSWORD"], database["POSTGRES_DB"]
    )
    assert [*up["migrate"].depends_on.values()] == [{"condition": "service_healthy"}]
    assert up["desk"].depends_on == {"migrate": {"condition": "service_completed_successfully"}}
    variables = {**variables, "FRONTDESK_DATABASE_URL": postgres_url}
    migrate = up["migrate"].command
    assert migrate
    migrated = run(image.place("/desk"), *image.process(migrate, variables))
    assert migrated.returncode == 0, migrated.stderr
    command = image.process(up["desk"].command or image.command, variables)
    with serving(image.place("/desk"), *command) as url:
        assert ask(url, "How many parts are there?") == "There are 64 parts."
        health = [part.replace("http://127.0.0.1:8000", url) for part in image.health]
        healthy = run(image.place("/desk"), *image.process(health, {}))
        assert healthy.returncode == 0, healthy.stderr
    unhealthy = run(image.place("/desk"), *image.process(health, {}))
    assert unhealthy.returncode == 1


def test_it_does_not_start_without_its_secrets() -> None:
    [told] = re.findall(r"^# +export (.+)$", COMPOSE, re.MULTILINE)
    assert {pair.partition("=")[0] for pair in told.split()} == GIVEN.keys()
    for name in GIVEN:
        with pytest.raises(KeyError, match=name):
            services({key: value for key, value in GIVEN.items() if key != name})


def test_an_image_made_of_it_serves_a_package(image: Image, shop: Path) -> None:
    derived = replace(image, variables={**image.variables})
    first, *rest = lines(block("docs/deploy.md", "dockerfile", "FROM frontdesk"))
    assert first == "FROM frontdesk"
    for line in rest:
        derived.do(line, shop)
    shutil.copy(shop / "shop.db", derived.place("/desk"))
    command = derived.process(derived.command, {"FRONTDESK_ALLOWED_HOSTS": "127.0.0.1"})
    with serving(derived.place("/desk"), *command) as url:
        assert httpx.get(f"{url}/docs").status_code == 200
        assert ask(url, "How many parts are there?") == "There is 1 part."


def test_the_dockerfile_shows_the_lines_of_the_page() -> None:
    shown = re.findall(r"^#     (.+)$", DOCKERFILE, re.MULTILINE)
    assert shown == [*lines(block("docs/deploy.md", "dockerfile", "FROM frontdesk"))]
