"""The databases of the demos, with the chat tables in them: each is filled once per session."""

import shutil
from collections.abc import Generator
from pathlib import Path

import pytest
import pytest_asyncio

from app.demo import flights, manufacturing, toy
from app.store import migrate
from schema import Managers
from schema.reads import prepare_database
from tests.postgres import Postgres, running


async def _prepared(managers: Managers, folder: Path) -> Path:
    path = folder / "demo.db"
    url = f"sqlite+aiosqlite:///{path}"
    await migrate(url)
    assert await prepare_database(managers, url)
    return path


def _copy(path: Path, folder: Path) -> str:
    """A test writes what it likes into its own copy."""
    return f"sqlite+aiosqlite:///{shutil.copy(path, folder / path.name)}"


@pytest.fixture(scope="session")
def postgres() -> Generator[Postgres]:
    with running() as server:
        yield server


@pytest.fixture
def postgres_url(postgres: Postgres) -> Generator[str]:
    """A fresh database on PostgreSQL."""
    url = postgres.create()
    yield url
    postgres.drop(url)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def toy_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return await _prepared(toy.managers, tmp_path_factory.mktemp("toy"))


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def manufacturing_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return await _prepared(manufacturing.managers, tmp_path_factory.mktemp("manufacturing"))


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def flights_url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The flights in a file that all tests share: read it only, or copy it."""
    path = await _prepared(flights.managers, tmp_path_factory.mktemp("flights"))
    return f"sqlite+aiosqlite:///{path}"


@pytest.fixture
def toy_url(toy_file: Path, tmp_path: Path) -> str:
    return _copy(toy_file, tmp_path)


@pytest.fixture
def manufacturing_url(manufacturing_file: Path, tmp_path: Path) -> str:
    return _copy(manufacturing_file, tmp_path)
