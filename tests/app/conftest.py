"""A migrated chat database per test."""

import asyncio
import shutil
from pathlib import Path

import pytest

from app.store import migrate


@pytest.fixture(scope="session")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database as `frontdesk migrate` leaves it; tests work on copies."""
    file = tmp_path_factory.mktemp("migrated") / "chat.db"
    asyncio.run(migrate(f"sqlite:///{file}"))
    return file


@pytest.fixture
def database(migrated: Path, tmp_path: Path) -> Path:
    """The file of a chat database that this test may write to."""
    return Path(shutil.copy(migrated, tmp_path / "chat.db"))


@pytest.fixture
def url(database: Path) -> str:
    """The URL of the test's chat database."""
    return f"sqlite+aiosqlite:///{database}"
