"""A Tortoise configuration: what it says about databases, in the words of SQLAlchemy."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import tzinfo
from typing import TYPE_CHECKING, cast

import sqlalchemy as sa

from schema.errors import ConfigurationError

if TYPE_CHECKING:
    from tortoise.config import ConnectionConfig, DBUrlConfig, TortoiseConfig

_DEFAULT = "default"
_KEYS = ("connections", "apps", "routers", "use_tz", "timezone")
_SQLITE = "tortoise.backends.sqlite"
_ASYNCPG = "tortoise.backends.asyncpg"


@dataclass(frozen=True, slots=True)
class Configuration:
    """A checked configuration. Without connections of its own the data is in the chat database."""

    given: "TortoiseConfig"
    has_connections: bool

    def connection_of(self, app: str) -> str:
        """The name of the connection that an app's models use."""
        return self.given.apps[app].default_connection or _DEFAULT

    @property
    def zone(self) -> tzinfo | None:
        """The zone of times that are given without one; None if zones are not kept.

        Raises: ConfigurationError.
        """
        from tortoise.timezone import parse_timezone

        if self.given.use_tz is False:
            return None
        try:
            return parse_timezone(self.given.timezone or "UTC")
        except (KeyError, ValueError) as error:
            raise wrong(error) from error

    def urls(self, default: str) -> Mapping[str, str]:
        """SQLAlchemy URLs by connection; ``default`` is the chat database's.

        Raises: ConfigurationError about a connection that an app uses and that can't be read.
        """
        names = sorted({self.connection_of(app) for app in self.given.apps})
        connections = self.given.connections
        if not self.has_connections:
            return dict.fromkeys(names, default)
        return {name: _url(name, connections.get(name)) for name in names}

    def schema_of(self, connection: str) -> str | None:
        """The PostgreSQL schema in which a connection looks for tables, if it says so."""
        found = self.given.connections.get(connection)
        schema = _parts(found)[1].get("schema") if found else None
        return schema if isinstance(schema, str) else None

    def connected(self, default_url: str) -> "TortoiseConfig":
        """The configuration with connections; ``default_url`` is the chat database's."""
        from tortoise.config import ConnectionConfig

        if self.has_connections:
            return self.given
        url = sa.make_url(default_url)
        if url.get_backend_name() == "sqlite":
            connection = ConnectionConfig(_SQLITE, {"file_path": url.database})
        else:
            credentials = {
                "host": url.host or url.query.get("host"),
                "port": url.port or 5432,
                "user": url.username,
                "password": url.password,
                "database": url.database,
            }
            ssl = {"ssl": url.query["ssl"]} if "ssl" in url.query else {}
            connection = ConnectionConfig(_ASYNCPG, {**credentials, **ssl})
        return replace(self.given, connections={_DEFAULT: connection})


def read_configuration(given: "Mapping[str, object] | TortoiseConfig") -> Configuration:
    """Check a configuration of Tortoise's own form. Raises: ConfigurationError."""
    from tortoise.config import TortoiseConfig
    from tortoise.exceptions import ConfigurationError as TortoiseError

    if isinstance(given, TortoiseConfig):
        return Configuration(given, has_connections=True)
    for name in given:
        if name not in _KEYS:
            raise ConfigurationError(
                "E001",
                f"The Tortoise configuration has no {name!r}.",
                f"It takes {', '.join(_KEYS)}.",
            )
    nowhere_yet = {"connections": {_DEFAULT: {"engine": _SQLITE}}}
    try:
        config = TortoiseConfig.from_dict({**nowhere_yet, **given})
    except TortoiseError as error:
        raise wrong(error) from error
    return Configuration(config, "connections" in given)


def wrong(error: Exception) -> ConfigurationError:
    """What Tortoise has to say about a configuration, and what a right one looks like."""
    # Of a module that is there and imports another that is not, Tortoise says the same.
    imported = f" ({error.__context__})" if isinstance(error.__context__, ImportError) else ""
    return ConfigurationError(
        "E001",
        f"The Tortoise configuration can't be used: {str(error).rstrip('.')}{imported}.",
        'Give what Tortoise takes: {"connections": {"default": "sqlite://shop.db"},'
        ' "apps": {"shop": {"models": ["shop.models"]}}}.',
    )


def _parts(connection: "ConnectionConfig | DBUrlConfig") -> tuple[str, Mapping[str, object]]:
    """The engine of a connection and its credentials."""
    from tortoise.backends.base.config_generator import (
        expand_db_url,  # pyright: ignore[reportUnknownVariableType]
    )
    from tortoise.exceptions import ConfigurationError as TortoiseError

    made = connection.to_config()
    try:
        # Either way a dict of these two; the libraries say no more than dict.
        known = cast("Mapping[str, object]", expand_db_url(made) if isinstance(made, str) else made)
    except TortoiseError as error:
        raise wrong(error) from error
    # That one is a dict too.
    return str(known["engine"]), cast("Mapping[str, object]", known["credentials"])


def _url(name: str, connection: "ConnectionConfig | DBUrlConfig | None") -> str:
    if connection is None:
        raise _unfit(name, "is used by an app and not there", "Add it, or give default_connection.")
    engine, credentials = _parts(connection)
    if engine == _SQLITE:
        url = _sqlite_url(name, credentials)
    elif engine == _ASYNCPG:
        url = _postgres_url(name, credentials)
    else:
        raise _unfit(
            name,
            f"uses {engine}, which can't be read",
            "Use a SQLite file, sqlite://shop.db, or PostgreSQL by asyncpg, asyncpg://host/shop.",
        )
    return url.render_as_string(hide_password=False)


def _sqlite_url(name: str, credentials: Mapping[str, object]) -> sa.URL:
    path = credentials.get("file_path")
    if not isinstance(path, str) or path in ("", ":memory:") or path.startswith("file:"):
        raise _unfit(
            name, "is no SQLite file that others can open", "Give a path, sqlite://shop.db."
        )
    return sa.URL.create("sqlite+aiosqlite", database=path)


def _postgres_url(name: str, credentials: Mapping[str, object]) -> sa.URL:
    def text(key: str) -> str | None:
        value = credentials.get(key)
        if value is None or isinstance(value, str):
            return value
        problem, example = f"gives {key} as something other than a text", ", such as 'verify-full'"
        raise _unfit(name, problem, f"Write {key} as a text{example if key == 'ssl' else ''}.")

    host, port, ssl = text("host"), str(credentials.get("port") or 5432), credentials.get("ssl")
    if not port.isdecimal():
        raise _unfit(name, "gives port as something other than a number", "Write one, as 5432.")
    query = {} if ssl in (None, False) else {"ssl": text("ssl") or ""}
    if host is not None and host.startswith("/"):
        # A folder of sockets has no place but the query.
        query |= {"host": host, "port": port}
    return sa.URL.create(
        "postgresql+asyncpg",
        username=text("user"),
        password=text("password"),
        host=None if "host" in query else host,
        port=None if "host" in query else int(port),
        database=text("database"),
        query=query,
    )


def _unfit(name: str, problem: str, fix: str) -> ConfigurationError:
    return ConfigurationError("E001", f"The Tortoise connection {name} {problem}.", fix)
