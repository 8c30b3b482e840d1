"""The import contracts of pyproject.toml hold, and a tree that breaks them is told so."""

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOMS = ("app", "planned", "providers", "schema")

# One line added to a file breaks one contract.
BREACHES = {
    "rooms": ("schema/errors.py", "import providers.base"),
    "layers of app": ("app/unplaced.py", ""),
    "layers of planned": ("planned/unplaced.py", ""),
    "layers of providers": ("providers/base.py", "import providers.scripted"),
    "layers of offline": (
        "providers/offline/english.py",
        "import providers.offline.match",
    ),
    "layers of schema": ("schema/sources.py", "import schema.tools"),
    "the web ends above the engine": ("schema/errors.py", "import starlette.requests"),
    "doors to sqlmodel": ("schema/tools.py", "import sqlmodel"),
    "doors to strawberry": ("schema/index.py", "import strawberry.types"),
    "doors to joserfc": ("app/identity.py", "def late():\n    import joserfc"),
    "doors to tortoise": ("schema/sources.py", "def late():\n    from tortoise import fields"),
    "doors to litellm": ("providers/base.py", "def late():\n    import litellm"),
    "no door": ("providers/retries.py", "def late():\n    import pandas"),
}


def lint(tree: Path) -> subprocess.CompletedProcess[str]:
    """Run import-linter as `make check` does, with `tree` as the place of the rooms."""
    script = Path(sys.executable).with_name("lint-imports")
    return subprocess.run(
        [script, "--no-logo", "--no-cache"],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": str(tree), "PYTHONSAFEPATH": "1", "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_imports_go_one_way(root: Path) -> None:
    result = lint(root)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.fixture(scope="module")
def broken_tree(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    tree = tmp_path_factory.mktemp("broken")
    shutil.copy(root / "pyproject.toml", tree)
    for room in ROOMS:
        shutil.copytree(root / room, tree / room, ignore=shutil.ignore_patterns("*.pyc"))
    for file, line in BREACHES.values():
        with (tree / file).open("a", encoding="utf-8") as end:
            end.write(f"\n{line}\n")
    return tree


def test_each_contract_can_be_broken(broken_tree: Path) -> None:
    result = lint(broken_tree)
    broken = {name for name in BREACHES if f"\n{name} BROKEN" in result.stdout}
    assert result.returncode == 1, result.stderr
    assert broken == BREACHES.keys(), result.stdout


def test_each_contract_has_its_breach(root: Path) -> None:
    project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))
    contracts = project["tool"]["importlinter"]["contracts"]
    assert [contract["name"] for contract in contracts] == list(BREACHES)
