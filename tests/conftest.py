"""The databases of the demos, with the chat tables in them: each is filled once per session."""

import asyncio
import shutil
from collections.abc import Generator
from pathlib import Path

import pytest
import pytest_asyncio
from databases import KINDS

from app.demo import flights, large, manufacturing, toy
from app.store import migrate
from schema import Managers
from schema.reads import prepare_database
from tests.postgres import Postgres, database, running


def pytest_addoption(parser: pytest.Parser) -> None:
    told = "Where the demos toy and manufacturing, and the chats about them, are kept."
    parser.addoption("--database", choices=KINDS, default=KINDS[0], help=told)
    told = "How many turns are invented for the order rules of requests; 400 unless told."
    parser.addoption("--turns", type=int, default=400, help=told)


@pytest.fixture
def database_kind(request: pytest.FixtureRequest) -> str:
    """The kind of database that a test is about; one about both has it as a parameter."""
    return str(request.config.getoption("--database"))


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
async def large_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return await _prepared(large.managers, tmp_path_factory.mktemp("large"))


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def flights_url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The flights in a file that all tests share: read it only, or copy it."""
    path = await _prepared(flights.managers, tmp_path_factory.mktemp("flights"))
    return f"sqlite+aiosqlite:///{path}"


async def _prepared_on(server: Postgres, managers: Managers) -> str:
    url = server.create()
    await migrate(url)
    assert await prepare_database(managers, url)
    return database(url)


@pytest.fixture(scope="session")
def toy_template(postgres: Postgres) -> str:
    return asyncio.run(_prepared_on(postgres, toy.managers))


@pytest.fixture(scope="session")
def manufacturing_template(postgres: Postgres) -> str:
    return asyncio.run(_prepared_on(postgres, manufacturing.managers))


def _own(request: pytest.FixtureRequest, demo: str, kind: str, folder: Path) -> Generator[str]:
    """Make the test's own copy of a demo, on what the test is about."""
    if kind == "sqlite":
        yield _copy(request.getfixturevalue(f"{demo}_file"), folder)
        return
    server: Postgres = request.getfixturevalue("postgres")
    url = server.create(request.getfixturevalue(f"{demo}_template"))
    yield url
    server.drop(url)


@pytest.fixture
def toy_url(request: pytest.FixtureRequest, database_kind: str, tmp_path: Path) -> Generator[str]:
    yield from _own(request, "toy", database_kind, tmp_path)


@pytest.fixture(scope="module")
def shared_toy_url(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Generator[str]:
    """A copy for all tests of a module, each of them a visitor of its own."""
    kind = str(request.config.getoption("--database"))
    yield from _own(request, "toy", kind, tmp_path_factory.mktemp("shared"))


@pytest.fixture
def manufacturing_url(
    request: pytest.FixtureRequest, database_kind: str, tmp_path: Path
) -> Generator[str]:
    yield from _own(request, "manufacturing", database_kind, tmp_path)


@pytest.fixture
def large_url(large_file: Path, tmp_path: Path) -> str:
    return _copy(large_file, tmp_path)
