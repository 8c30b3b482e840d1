"""A migrated chat database per test, on SQLite and on PostgreSQL."""

import asyncio
import shutil
import sqlite3
from collections.abc import Generator
from contextlib import closing
from pathlib import Path

import pytest
from databases import KINDS, is_postgres
from pages import block, shell, write
from postgres import Postgres, database
from processes import run

from app.store import metadata, migrate


@pytest.fixture(scope="session")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database as `frontdesk migrate` leaves it; tests work on copies."""
    file = tmp_path_factory.mktemp("migrated") / "chat.db"
    asyncio.run(migrate(f"sqlite:///{file}"))
    return file


@pytest.fixture(scope="session")
def migrated_template(postgres: Postgres) -> str:
    """The name of such a database on PostgreSQL."""
    url = postgres.create()
    asyncio.run(migrate(url))
    return database(url)


@pytest.fixture
def file(migrated: Path, tmp_path: Path) -> Path:
    """The SQLite file of a chat database that this test may write to."""
    return Path(shutil.copy(migrated, tmp_path / "chat.db"))


@pytest.fixture
def file_url(file: Path) -> str:
    """The URL of that file, for what only concerns SQLite."""
    return f"sqlite+aiosqlite:///{file}"


@pytest.fixture(scope="session")
def shared_url(postgres: Postgres, migrated_template: str) -> str:
    """A chat database that tests have one after the other, because it takes long to make one."""
    return postgres.create(migrated_template)


@pytest.fixture
def server_url(postgres: Postgres, shared_url: str) -> Generator[str]:
    """An empty chat database on PostgreSQL, for what only concerns PostgreSQL."""
    yield shared_url
    tables = ", ".join(metadata.tables)
    postgres.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid();"
        f"DROP TABLE IF EXISTS notes; TRUNCATE {tables}",
        database(shared_url),
    )


@pytest.fixture(params=KINDS)
def url(request: pytest.FixtureRequest) -> str:
    """The URL of the test's chat database, of either kind."""
    name: str = "file_url" if request.param == "sqlite" else "server_url"
    return request.getfixturevalue(name)


@pytest.fixture
def copy_url(url: str, request: pytest.FixtureRequest, tmp_path: Path) -> Generator[str]:
    """The URL of a place of the same kind for a copy of the test's chat database."""
    if not is_postgres(url):
        yield f"sqlite:///{tmp_path / 'copy.db'}"
        return
    server: Postgres = request.getfixturevalue("postgres")
    copy = server.create(request.getfixturevalue("migrated_template"))
    yield copy
    server.drop(copy)


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """The folder of README's project: its package `shop`, and the database of its models."""
    write(tmp_path, block("README.md", "python", "shop/chat.py"))
    made = run(tmp_path, *shell(block("README.md", "sh", "create_all")))
    assert made.returncode == 0, made.stderr
    with closing(sqlite3.connect(tmp_path / "shop.db")) as connection:
        connection.executescript(
            """
            INSERT INTO material VALUES (1, 'Steel', 7.5);
            INSERT INTO part VALUES (1, 'Bolt', 1, 1), (2, 'Secret gear', 0, 1);
            """
        )
    return tmp_path
