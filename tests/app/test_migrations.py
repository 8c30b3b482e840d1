"""The chat tables come and go by migration, and nothing else in the database is touched."""

import asyncio
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from io import StringIO
from pathlib import Path

import pytest
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory

from app.store import REVISION, VERSION_TABLE, Store, check, metadata, migrate
from schema.errors import ConfigurationError

ROOT = Path(__file__).parents[2]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "new folder" / "50%.db"


@pytest.fixture
def url(file: Path) -> str:
    return f"sqlite+aiosqlite:///{file}"


@pytest.fixture
def alembic(url: str) -> Iterator[Config]:
    with StringIO() as output:
        config = Config(attributes={"database_url": url}, stdout=output)
        config.set_main_option("script_location", str(ROOT / "alembic"))
        yield config


def tables(file: Path) -> set[str]:
    with closing(sqlite3.connect(file)) as connection:
        rows = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        return {name for (name,) in rows}


def exists(file: Path) -> bool:
    return file.exists()


def only_script(folder: Path) -> str:
    [script] = folder.glob("*.py")
    return script.read_text()


def execute(file: Path, *statements: str) -> None:
    with closing(sqlite3.connect(file)) as connection, connection:
        for statement in statements:
            connection.execute(statement)


async def test_an_empty_database_gets_the_chat_tables_and_no_others(url: str, file: Path) -> None:
    await migrate(url)
    assert tables(file) == {*metadata.tables, VERSION_TABLE}
    assert all(name.startswith("chat_") for name in tables(file))
    await check(url)


async def test_migrating_again_changes_nothing(url: str, file: Path) -> None:
    await migrate(url)
    execute(file, "INSERT INTO chat_conversations VALUES " + str((*"abcdefg", 1, 0, *"hij")))
    await migrate(url)
    with closing(sqlite3.connect(file)) as connection:
        [(count,)] = connection.execute("SELECT count(*) FROM chat_conversations")
    assert count == 1


async def test_the_migrations_and_the_classes_say_the_same(
    url: str, file: Path, alembic: Config
) -> None:
    await migrate(url)
    execute(file, "CREATE TABLE chat_of_the_host (id INTEGER)", "CREATE TABLE alembic_version (v)")
    await asyncio.to_thread(command.check, alembic)
    assert ScriptDirectory.from_config(alembic).get_heads() == [REVISION]


async def test_every_constraint_has_a_name(url: str, file: Path) -> None:
    await migrate(url)
    for table in metadata.tables.values():
        assert all(
            str(constraint.name).startswith(("pk_", "fk_", "uq_"))
            for constraint in table.constraints
        )
        with closing(sqlite3.connect(file)) as connection:
            [(text,)] = connection.execute(
                "SELECT sql FROM sqlite_master WHERE name = ?", (table.name,)
            )
        assert all(f"CONSTRAINT {constraint.name} " in text for constraint in table.constraints)


async def test_a_downgrade_takes_the_chat_tables_away_and_leaves_the_hosts(
    url: str, file: Path, alembic: Config
) -> None:
    await migrate(url)
    execute(file, "CREATE TABLE parts (id INTEGER)")
    await asyncio.to_thread(command.downgrade, alembic, "base")
    assert tables(file) == {"parts", VERSION_TABLE}
    await migrate(url)
    await check(url)


async def test_a_generated_migration_names_sqlalchemys_types_only(
    url: str, alembic: Config, tmp_path: Path
) -> None:
    await migrate(url)
    await asyncio.to_thread(command.downgrade, alembic, "base")
    alembic.set_main_option("version_locations", str(tmp_path))
    alembic.set_main_option("path_separator", "os")
    await asyncio.to_thread(
        command.revision, alembic, autogenerate=True, rev_id="0001", version_path=str(tmp_path)
    )
    text = only_script(tmp_path)
    assert "sa.Column('owner', sa.String(length=200), nullable=False)" in text
    assert "sa.Column('created_at', sa.DateTime(timezone=True), nullable=False)" in text
    compile(text, "0001", "exec")
    assert "AutoString" not in text
    assert "app." not in text


def test_alembics_own_command_works_from_the_root(
    url: str, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FRONTDESK_DATABASE_URL", url)
    upgrade = [sys.executable, "-m", "alembic", "upgrade", "head"]
    subprocess.run(upgrade, cwd=ROOT, check=True, timeout=60)
    assert tables(file) == {*metadata.tables, VERSION_TABLE}


async def test_processes_that_migrate_at_once_wait_for_one_another(url: str) -> None:
    code = "import asyncio, sys; from app.store import migrate; asyncio.run(migrate(sys.argv[1]))"
    async with asyncio.timeout(60):
        processes = [
            await asyncio.create_subprocess_exec(sys.executable, "-c", code, url, cwd=ROOT)
            for _ in range(3)
        ]
        assert [await process.wait() for process in processes] == [0, 0, 0]
    await check(url)


async def test_a_missing_database_is_named_with_the_command_that_makes_it(
    url: str, file: Path
) -> None:
    for enter in (check(url), Store.open(url).__aenter__()):
        with pytest.raises(ConfigurationError, match=r"^E002: .*Run `frontdesk migrate`\.$"):
            await enter
    assert not exists(file)


@pytest.mark.parametrize("missing", ["chat_entries", VERSION_TABLE])
async def test_a_missing_table_is_noticed(url: str, file: Path, missing: str) -> None:
    await migrate(url)
    execute(file, f"DROP TABLE {missing}")
    with pytest.raises(ConfigurationError, match="frontdesk migrate"):
        await check(url)


async def test_another_revision_is_named(url: str, file: Path) -> None:
    await migrate(url)
    execute(file, f"UPDATE {VERSION_TABLE} SET version_num = '0000'")
    with pytest.raises(ConfigurationError, match=r"0000.*0001.*frontdesk migrate"):
        await check(url)
    execute(file, f"DELETE FROM {VERSION_TABLE}")
    with pytest.raises(ConfigurationError, match="frontdesk migrate"):
        await check(url)


async def test_a_file_that_is_no_database_is_a_configuration_error(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("not a database, but long enough to be taken for one " * 40)
    with pytest.raises(ConfigurationError, match=r"notes\.txt can't be read"):
        await check(f"sqlite:///{file}")


@pytest.mark.parametrize(
    "url",
    [
        "postgresql+asyncpg://desk:secret@db/chat",
        "mysql://desk:secret@db/chat",
        "sqlite+pysqlcipher://:secret@/chat.db",
        "sqlite://",
        "sqlite:///:memory:",
        "sqlite:///file:secret?mode=memory&uri=true",
        "chat.db",
        "",
    ],
)
async def test_only_sqlite_files_are_taken_and_no_url_is_repeated(url: str) -> None:
    for attempt in (check(url), migrate(url)):
        with pytest.raises(ConfigurationError, match=r"^E002: FRONTDESK_DATABASE_URL") as caught:
            await attempt
        assert "secret" not in str(caught.value)
