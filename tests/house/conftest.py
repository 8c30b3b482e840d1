"""What the checks of the house look at: every Python file we write, by its path from the root."""

from pathlib import Path

import pytest

PLACES = ("app", "planned", "providers", "schema", "alembic", "tests")


@pytest.fixture(scope="session")
def root() -> Path:
    return Path(__file__).parents[2]


@pytest.fixture(scope="session")
def sources(root: Path) -> dict[str, str]:
    files = (file for place in PLACES for file in sorted((root / place).rglob("*.py")))
    return {file.relative_to(root).as_posix(): file.read_text("utf-8") for file in files}
