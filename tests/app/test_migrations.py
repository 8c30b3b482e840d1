"""The chat tables come and go by migration, and nothing else in the database is touched."""

import asyncio
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from io import StringIO
from pathlib import Path

import pytest
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from databases import execute, file_of, is_postgres, rows, tables

from app.settings import load_settings
from app.store import REVISION, VERSION_TABLE, Store, check, metadata, migrate
from schema.errors import ConfigurationError

ROOT = Path(__file__).parents[2]


@pytest.fixture
def file_url(tmp_path: Path) -> str:
    return f"sqlite+aiosqlite:///{tmp_path / 'new folder' / '50%.db'}"


@pytest.fixture
def server_url(postgres_url: str) -> str:
    return postgres_url


@pytest.fixture
def alembic(url: str) -> Iterator[Config]:
    with StringIO() as output:
        config = Config(attributes={"database_url": url}, stdout=output)
        config.set_main_option("script_location", str(ROOT / "alembic"))
        yield config


def made(url: str) -> bool:
    return file_of(url).exists()


def only_script(folder: Path) -> str:
    [script] = folder.glob("*.py")
    return script.read_text()


async def test_an_empty_database_gets_the_chat_tables_and_no_others(url: str) -> None:
    await migrate(url)
    assert tables(url) == {*metadata.tables, VERSION_TABLE}
    assert all(name.startswith("chat_") for name in tables(url))
    await check(url)


async def test_migrating_again_changes_nothing(url: str) -> None:
    await migrate(url)
    execute(
        url,
        "INSERT INTO chat_conversations"
        " (id, owner, created_at, updated_at, next_seq, lease_fence)"
        " VALUES ('c', 'o', '2026-05-04 12:00:00', '2026-05-04 12:00:00', 1, 0)",
    )
    await migrate(url)
    assert rows(url, "SELECT count(*) FROM chat_conversations") == [(1,)]


async def test_the_migrations_and_the_classes_say_the_same(url: str, alembic: Config) -> None:
    await migrate(url)
    execute(
        url, "CREATE TABLE chat_of_the_host (id INTEGER)", "CREATE TABLE alembic_version (v TEXT)"
    )
    await asyncio.to_thread(command.check, alembic)
    assert ScriptDirectory.from_config(alembic).get_heads() == [REVISION]


async def test_every_constraint_has_a_name(url: str) -> None:
    await migrate(url)
    for table in metadata.tables.values():
        assert all(
            str(constraint.name).startswith(("pk_", "fk_", "uq_"))
            for constraint in table.constraints
        )
        if is_postgres(url):
            query = f"SELECT conname FROM pg_constraint WHERE conrelid = '{table.name}'::regclass"
            found = {f"CONSTRAINT {name} " for (name,) in rows(url, query)}
        else:
            [(found,)] = rows(url, f"SELECT sql FROM sqlite_master WHERE name = '{table.name}'")
        assert isinstance(found, str | set)
        assert all(f"CONSTRAINT {constraint.name} " in found for constraint in table.constraints)


async def test_a_downgrade_takes_the_chat_tables_away_and_leaves_the_hosts(
    url: str, alembic: Config
) -> None:
    await migrate(url)
    execute(url, "CREATE TABLE parts (id INTEGER)")
    await asyncio.to_thread(command.downgrade, alembic, "base")
    assert tables(url) == {"parts", VERSION_TABLE}
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
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FRONTDESK_DATABASE_URL", url)
    upgrade = [sys.executable, "-m", "alembic", "upgrade", "head"]
    subprocess.run(upgrade, cwd=ROOT, check=True, timeout=60)
    assert tables(url) == {*metadata.tables, VERSION_TABLE}


async def test_processes_that_migrate_at_once_wait_for_one_another(url: str) -> None:
    code = "import asyncio, sys; from app.store import migrate; asyncio.run(migrate(sys.argv[1]))"
    async with asyncio.timeout(60):
        processes = [
            await asyncio.create_subprocess_exec(sys.executable, "-c", code, url, cwd=ROOT)
            for _ in range(3)
        ]
        assert [await process.wait() for process in processes] == [0, 0, 0]
    await check(url)


async def test_a_missing_database_is_named_with_the_command_that_makes_it(url: str) -> None:
    for enter in (check(url), Store.open(url).__aenter__()):
        with pytest.raises(ConfigurationError, match=r"^E002: .*Run `frontdesk migrate`\.$"):
            await enter
    assert is_postgres(url) or not made(url)


@pytest.mark.parametrize("missing", ["chat_entries", VERSION_TABLE])
async def test_a_missing_table_is_noticed(url: str, missing: str) -> None:
    await migrate(url)
    execute(url, f"DROP TABLE {missing}")
    with pytest.raises(ConfigurationError, match="frontdesk migrate"):
        await check(url)


async def test_another_revision_is_named(url: str) -> None:
    await migrate(url)
    execute(url, f"UPDATE {VERSION_TABLE} SET version_num = '0000'")
    with pytest.raises(ConfigurationError, match=r"0000.*0001.*frontdesk migrate"):
        await check(url)
    execute(url, f"DELETE FROM {VERSION_TABLE}")
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
        "postgresql+psycopg://desk:secret@db/chat",
        "postgresql://db:secret/chat",
        "postgresql://desk:pass@secret@db/chat",
        "postgresql://desk:pass@db/secret@db/chat",
        "mysql://desk:secret@db/chat",
        "sqlite+pysqlcipher://:secret@/chat.db",
        "sqlite://",
        "sqlite:///:memory:",
        "sqlite:///file:secret?mode=memory&uri=true",
        "chat.db",
        "",
    ],
)
async def test_other_urls_are_refused_and_none_is_repeated(url: str) -> None:
    for attempt in (check(url), migrate(url)):
        with pytest.raises(ConfigurationError, match=r"^E002: FRONTDESK_DATABASE_URL") as caught:
            await attempt
        assert "secret" not in "".join(traceback.format_exception(caught.value))


# --- a server -------------------------------------------------------------------------------------


def with_user(url: str, user: str) -> str:
    return url.replace("postgres@", f"{user}:secret@")


UNUSABLE: list[tuple[Callable[[str], str], str]] = [
    (lambda url: url.replace("/test_", "/no_"), r"no_\d+ does not exist.*CREATE DATABASE"),
    (lambda url: with_user(url, "nobody"), r"refuses the user 'nobody'.*: role .* not exist"),
    (lambda _: "postgresql://desk:secret@127.0.0.1:1/chat", r"127\.0\.0\.1:1 can't be used"),
    (lambda url: f"{url}&colour=secret", "parameters that asyncpg does not take"),
    (lambda url: f"{url}&ssl=secret", "parameters that asyncpg does not take"),
]


@pytest.mark.parametrize(("change", "problem"), UNUSABLE)
async def test_a_server_that_can_not_be_used_is_told_without_the_password(
    postgres_url: str, change: Callable[[str], str], problem: str
) -> None:
    url = change(postgres_url)
    for attempt in (check(url), migrate(url), Store.open(url).__aenter__()):
        with pytest.raises(ConfigurationError, match=f"^E002: .*{problem}") as caught:
            await attempt
        assert "secret" not in "".join(traceback.format_exception(caught.value))


async def test_a_user_without_rights_is_told_so(postgres_url: str) -> None:
    execute(postgres_url, "DROP ROLE IF EXISTS guest", "CREATE ROLE guest LOGIN")
    with pytest.raises(ConfigurationError, match=r"can't be migrated: .*permission denied.* right"):
        await migrate(with_user(postgres_url, "guest"))
    await migrate(postgres_url)
    with pytest.raises(ConfigurationError, match=r"can't be read: permission denied"):
        await check(with_user(postgres_url, "guest"))


@pytest.mark.parametrize("scheme", ["postgres", "postgresql", "postgresql+asyncpg"])
async def test_a_server_is_named_in_any_of_the_usual_ways(postgres_url: str, scheme: str) -> None:
    url = load_settings(database_url=f"{scheme}:{postgres_url.partition(':')[2]}").database_url
    assert url is not None
    await migrate(url)
    await check(url)


def test_without_the_driver_the_extra_is_named() -> None:
    code = (
        "import asyncio, sys; sys.modules['asyncpg'] = None; from app.store import check\n"
        "asyncio.run(check('postgresql://desk:secret@127.0.0.1:1/chat'))"
    )
    command = [sys.executable, "-c", code]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    last = ended.stderr.splitlines()[-1]
    assert "E003: PostgreSQL needs asyncpg" in last
    assert "pip install 'frontdesk[postgres]'" in last
