"""The settings, and the only reader of the environment.

Every name is read from ``FRONTDESK_<NAME>``; a ``.env`` file in the working directory fills in what
the environment does not set. Names and defaults are the seed's where the seed has them.
Source: design.md 6.
"""

import importlib
import os
import secrets
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Literal
from zoneinfo import ZoneInfo, available_timezones

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PositiveInt,
    StringConstraints,
    ValidationError,
)
from pydantic_settings import BaseSettings, SettingsConfigDict

from schema.errors import ConfigurationError

DATA_FOLDER = Path(".frontdesk")
"""Where an installation without configuration keeps its database and its secret."""
_OBJECT_FIX = 'Give it as "module:attribute", importable from the working directory.'
_SECRET_CHARS = 16
"""Fewer could be guessed."""
_SECRET_FIX = "Set FRONTDESK_SESSION_SECRET, or delete the file so that it is made anew."


def _url(value: str) -> str:
    """Give the base path one slash at each end: "chat", "/chat" and "/chat/" are the same."""
    inner = "/".join(part for part in value.split("/") if part)
    return f"/{inner}/" if inner else "/"


def _timezone(value: object) -> object:
    if isinstance(value, str):
        if value not in available_timezones():
            raise ValueError("must be an IANA time zone such as Europe/Berlin")
        return ZoneInfo(value)
    return value


class Settings(BaseSettings):
    """All settings with their defaults; immutable once loaded."""

    model_config = SettingsConfigDict(
        env_prefix="FRONTDESK_",
        env_nested_delimiter="__",
        env_file=".env",
        extra="ignore",
        frozen=True,
        arbitrary_types_allowed=True,
        hide_input_in_errors=True,
    )

    enabled: bool = Field(
        default=True, description="Serve the chat routes; if false, they answer 404."
    )
    url: Annotated[str, AfterValidator(_url)] = Field(
        default="/chat/", description="Base path of the chat routes."
    )
    managers: str | None = Field(
        default=None,
        description='The exposed managers as "module:attribute", for `uvicorn app.main:app`.',
    )
    provider: str | Callable[[], object] = Field(
        default="auto",
        description='"auto", "offline", or the dotted path of a provider class.',
    )
    permission: str | Callable[..., object] | None = Field(
        default=None,
        description="Called with (actor, scope); anything but a true answer denies. Or its path.",
    )
    database_url: str | None = Field(
        default=None, description="The chat database; unset: a SQLite file in ./.frontdesk/."
    )
    session_secret: Annotated[str, StringConstraints(min_length=_SECRET_CHARS)] | None = Field(
        default=None,
        repr=False,
        description="Signs anonymous sessions; unset: made once in ./.frontdesk/secret.",
    )
    system_prompt: str = Field(default="", description="Instructions added to the built-in prompt.")
    timezone: Annotated[ZoneInfo, BeforeValidator(_timezone)] = Field(
        default=ZoneInfo("UTC"), description="The zone of dates told to the model."
    )
    max_results: PositiveInt = Field(
        default=200, description="Rows of one query page, as default and as limit."
    )
    query_timeout_seconds: Annotated[float, Field(gt=0)] | None = Field(
        default=None, description="Time limit of one data query."
    )
    max_retries_per_message: Annotated[int, Field(ge=0)] = Field(
        default=8, description="Data lookups (read tool calls) one message may use."
    )
    max_mutations_per_message: Annotated[int, Field(ge=0)] = Field(
        default=8, description="Writes one message may use; counts into the rounds of a turn."
    )
    max_total_rounds_per_message: PositiveInt | None = Field(
        default=None,
        description="Provider rounds of one turn; unset: lookups + writes + 2.",
    )
    max_recent_messages: PositiveInt = Field(
        default=20, description="Newest stored entries that a model is shown."
    )
    max_message_chars: PositiveInt = Field(
        default=20_000, description="Longest accepted message text."
    )
    max_body_bytes: PositiveInt = Field(default=262_144, description="Largest accepted body.")
    turn_timeout_seconds: Annotated[float, Field(gt=0)] = Field(
        default=300, description="Time limit of one whole turn."
    )
    run_stale_seconds: Annotated[float, Field(gt=0)] = Field(
        default=30, description="Silence after which a run's process counts as gone."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="Least severe log record shown."
    )

    @property
    def rounds(self) -> int:
        """Provider rounds that one turn may use."""
        default = self.max_retries_per_message + self.max_mutations_per_message + 2
        return self.max_total_rounds_per_message or default

    @property
    def chat_database_url(self) -> str:
        """The chat database's URL, the default one included."""
        return self.database_url or f"sqlite+aiosqlite:///{DATA_FOLDER}/frontdesk.db"


def load_settings(**overrides: object) -> Settings:
    """Read the environment; ``overrides`` win over it.

    Raises: ConfigurationError E002, naming each wrong setting and what it takes.
    """
    try:
        return Settings(**overrides)  # pyright: ignore[reportArgumentType]
    except ValidationError as error:
        problems = "; ".join(
            f"FRONTDESK_{'__'.join(str(part) for part in item['loc']).upper()} {item['msg']}"
            for item in error.errors(include_url=False, include_input=False)
        )
        raise ConfigurationError("E002", f"{problems}.", "Correct the environment.") from error


def load_object(name: str, path: str, *, id: str = "E002", fix: str = _OBJECT_FIX) -> object:
    """Import what the setting ``name`` names as "pkg.mod:attribute" or "pkg.mod.attribute".

    Raises: ConfigurationError with the reason, whatever the module itself raises included.
    """
    module, colon, attribute = path.partition(":")
    if not colon:
        module, _, attribute = path.rpartition(".")
    try:
        found: object = importlib.import_module(module)
        for part in attribute.split("."):
            found = getattr(found, part)
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise ConfigurationError(
            id, f"FRONTDESK_{name.upper()}={path} can't be imported ({reason}).", fix
        ) from error
    return found


def session_secret(settings: Settings, warn: Callable[[str], None]) -> str:
    """Return the signing secret; without a setting, make one once and keep it in a private file."""
    if settings.session_secret is not None:
        return settings.session_secret
    path = DATA_FOLDER / "secret"
    try:
        if not path.exists():
            _make_secret(path)
            warn(
                f"FRONTDESK_SESSION_SECRET is not set: made one in {path}. "
                "Set it when several hosts serve the same users."
            )
        secret = path.read_text().strip()
    except (OSError, UnicodeError) as error:
        raise ConfigurationError(
            "E002", f"The session secret {path} can't be kept: {error}.", _SECRET_FIX
        ) from error
    if len(secret) < _SECRET_CHARS:
        raise ConfigurationError("E002", f"The session secret {path} is too short.", _SECRET_FIX)
    return secret


def _make_secret(path: Path) -> None:
    """Write a secret aside and link it into place, so that nobody ever reads half of it."""
    path.parent.mkdir(exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=path.parent) as file:  # created with mode 0600
        file.write(secrets.token_urlsafe(32))
        file.flush()
        os.fsync(file.fileno())
        with suppress(FileExistsError):
            os.link(file.name, path)
