"""What is in the tree, in the wheel and in the lock files is what an installation needs."""

import json
import re
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterable
from importlib import import_module
from importlib.metadata import packages_distributions
from importlib.resources import files
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOMS = ("app", "planned", "providers", "schema")
PIN = re.compile(r"^(?P<name>[\w.-]+)==(?P<version>\S+)", re.MULTILINE)


def packages_in(folder: Path) -> list[Path]:
    return list(folder.rglob("__init__.py"))


@pytest.mark.parametrize("folder", ["alembic", "tests"])
def test_a_folder_that_would_shadow_a_package_is_none(folder: str, root: Path) -> None:
    assert packages_in(root / folder) == []


def test_a_shadowing_package_would_be_found(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "__init__.py").touch()
    assert packages_in(tmp_path)


def rivals(room: str) -> set[str]:
    """Name the other distributions that brought a top-level package of this name."""
    return set(packages_distributions().get(room, ())) - {"frontdesk"}


@pytest.mark.parametrize("room", ROOMS)
def test_each_room_belongs_to_this_distribution_alone(room: str, root: Path) -> None:
    assert rivals(room) == set()
    assert import_module(room).__file__ == str(root / room / "__init__.py")


def test_a_rival_would_be_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    metadata = tmp_path / "schema-0.7.8.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: schema\nVersion: 0.7.8\n")
    (metadata / "RECORD").write_text("schema/__init__.py,,\n")
    (tmp_path / "schema").mkdir()
    (tmp_path / "schema" / "__init__.py").touch()
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    assert rivals("schema") == {"schema"}


@pytest.fixture(scope="module")
def wheel(root: Path, tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=root, check=True, capture_output=True, timeout=60)
    [file] = folder.glob("frontdesk-*.whl")
    with zipfile.ZipFile(file) as archive:
        return set(archive.namelist())


def in_tree(root: Path, folder: str) -> set[str]:
    """List the files of a folder that are ours to ship."""
    paths = (path for path in (root / folder).rglob("*") if path.is_file())
    return {
        path.relative_to(root).as_posix() for path in paths if path.parent.name != "__pycache__"
    }


def test_the_wheel_holds_the_rooms_and_the_migrations(wheel: set[str], root: Path) -> None:
    rooms = {path for room in ROOMS for path in in_tree(root, room)}
    migrations = {
        path.replace("alembic/", "app/migrations/", 1) for path in in_tree(root, "alembic")
    }
    assert {path for path in wheel if ".dist-info/" not in path} == rooms | migrations
    assert {f"{room}/py.typed" for room in ROOMS} <= rooms
    assert {"app/migrations/env.py", "app/migrations/script.py.mako"} <= migrations
    assert any(path.startswith("app/migrations/versions/") for path in migrations)
    assert {path.rpartition("/")[2] for path in wheel} >= {"LICENSE", "entry_points.txt"}


def test_swagger_comes_from_its_own_package(wheel: set[str]) -> None:
    resources = files("fastapi_swagger").joinpath("resources")
    assert resources.joinpath("swagger-ui-bundle.js").is_file()
    assert [path for path in wheel if path.endswith((".js", ".css"))] == []


def unmet(requirements: Iterable[str], lock: str) -> list[str]:
    """Name the requirements that no pin of a lock file meets."""
    pins = [(pin["name"], pin["version"]) for pin in PIN.finditer(lock)]
    return [
        text
        for text in requirements
        if (wanted := Requirement(text)).name != "frontdesk"
        and not any(
            name == canonicalize_name(wanted.name) and wanted.specifier.contains(version)
            for name, version in pins
        )
    ]


def test_the_lock_file_of_the_generator_meets_what_is_asked_for(root: Path) -> None:
    lines = (root / "requirements/clients.in").read_text("utf-8").splitlines()
    asked = [line for line in lines if line and not line.startswith("#")]
    assert asked
    assert unmet(asked, (root / "requirements/clients.txt").read_text("utf-8")) == []


@pytest.mark.parametrize(("lock", "extras"), [("demo", ["demo"]), ("dev", ["demo", "dev"])])
def test_a_lock_file_meets_what_the_project_asks_for(
    lock: str, extras: list[str], root: Path
) -> None:
    project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))
    asked: list[str] = [*project["build-system"]["requires"], *project["project"]["dependencies"]]
    for extra in extras:
        asked += project["project"]["optional-dependencies"][extra]
    assert unmet(asked, (root / "requirements" / f"{lock}.txt").read_text("utf-8")) == []


def test_an_old_lock_file_would_be_found() -> None:
    lock = "uvicorn==0.54.0 \\\n    --hash=sha256:0\ntyping-extensions==4.16.0 \\\n"
    asked = ["uvicorn[standard]>=0.55", "typing_extensions>=4", "rich", "frontdesk[demo]"]
    assert unmet(asked, lock) == ["uvicorn[standard]>=0.55", "rich"]


def test_lock_files_name_no_index_and_no_machine(root: Path) -> None:
    texts = {file.name: file.read_text("utf-8") for file in (root / "requirements").iterdir()}
    found = [
        name for name, text in texts.items() if re.search(r"://|--index|--find-links|/\w+/", text)
    ]
    assert found == []


def test_the_lock_file_of_npm_pins_all_and_names_no_registry(root: Path) -> None:
    lock = json.loads((root / "tests/contract/typescript/package-lock.json").read_text("utf-8"))
    packages = {name: package for name, package in lock["packages"].items() if name}
    assert packages
    assert [name for name, package in packages.items() if "integrity" not in package] == []
    assert [name for name, package in packages.items() if "resolved" in package] == []
