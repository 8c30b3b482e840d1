"""The settings, and the only reader of the environment.

A setting is read from ``FRONTDESK_<NAME>``, a part of a nested one from
``FRONTDESK_<NAME>__<PART>``, in upper or lower case. Before that, ``.env`` of the working directory
fills in what the environment does not set: all that is in it, because libraries and projects read
names of their own. Names and defaults are the seed's where the seed has them. Source: design.md 6.
"""

import difflib
import os
import re
import secrets
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from io import StringIO
from pathlib import Path
from typing import Annotated, Literal, Self, cast, get_args, get_origin
from zoneinfo import ZoneInfo

from dotenv import load_dotenv
from dotenv.parser import parse_stream
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, SettingsConfigDict

from app import kinds
from schema.errors import ConfigurationError

DATA_FOLDER = Path(".frontdesk")
"""Where an installation without configuration keeps its database and its secret."""

TRUST_GROUP = "default"
"""The trust group of the provider that is no profile. Source: seed, planned read orchestration."""

TOKEN = "DESK_TOKEN"
"""The variable that holds the bearer token of a client: no list of processes shows it."""

_PREFIX = "FRONTDESK_"
_FIX = "Correct the environment or .env; `frontdesk settings` explains every setting."
_SECRET_FIX = "Set FRONTDESK_SESSION_SECRET, or delete the file so that it is made anew."
_REASONS = {
    "dict_type": "must be a JSON object",
    "missing": "must be set",
    "model_type": "must be a JSON object",
}
_RSA = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
_PUBLISHED = (*_RSA, "ES256", "ES384", "ES512", "EdDSA")
"""The algorithms of keys that an issuer publishes."""


class Jwt(BaseModel):
    """Which bearer tokens are believed: those signed with one secret, or with published keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    secret: kinds.SigningKey | None = Field(
        default=None,
        repr=False,
        description="What signs tokens, shared with their issuer; 48 characters for HS384, "
        "64 for HS512.",
    )
    jwks_url: kinds.PrivateUrl | None = Field(
        default=None,
        description="Where the issuer publishes its keys: https, or http on this machine.",
        examples=["https://login.example/.well-known/jwks.json"],
    )
    algorithms: kinds.List[str] = Field(
        default=(),
        description=f"What may sign. With a secret: {', '.join(kinds.KEY_CHARS)}; unset: HS256. "
        f"With published keys: {', '.join(_PUBLISHED)}; unset: RS256 and ES256.",
        examples=["ES256,EdDSA"],
    )
    issuer: kinds.Text | None = Field(default=None, description="The only accepted `iss`.")
    audience: kinds.Text | None = Field(default=None, description="What `aud` must hold.")

    @property
    def allowed_algorithms(self) -> tuple[str, ...]:
        """What may sign, the defaults included."""
        return self.algorithms or (("HS256",) if self.secret else ("RS256", "ES256"))

    @field_validator("algorithms")
    @classmethod
    def _fit_the_key(cls, algorithms: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        secret = info.data.get("secret")
        if secret is None and info.data.get("jwks_url") is None:
            return algorithms  # without a valid key, there is something else to tell
        fitting = _PUBLISHED if secret is None else tuple(kinds.KEY_CHARS)
        if not set(algorithms) <= set(fitting):
            key = "published keys" if secret is None else "a secret"
            raise ValueError(f"takes with {key} only {', '.join(fitting)}")
        least = max((kinds.KEY_CHARS.get(name, 0) for name in algorithms), default=0)
        if secret is not None and len(secret) < least:
            raise ValueError(f"holds one that takes a secret of at least {least} characters")
        return algorithms

    @model_validator(mode="after")
    def _has_one_key(self) -> Self:
        names = "FRONTDESK_JWT__SECRET or FRONTDESK_JWT__JWKS_URL"
        if self.secret is None and self.jwks_url is None:
            raise ValueError(f"needs {names}")
        if self.secret is not None and self.jwks_url is not None:
            raise ValueError(f"takes {names}, not both")
        return self


class ProviderProfile(BaseModel):
    """A provider under a name, made of its own configuration only. Source: seed, provider_profiles.

    What is asked goes to members of one trust group, and to nobody else.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    provider: kinds.Code = Field(description="As FRONTDESK_PROVIDER, with a class of its own.")
    provider_config: kinds.Config = Field(
        default=None,
        repr=False,
        description="As FRONTDESK_PROVIDER_CONFIG, of which it has nothing.",
    )
    trust_group: kinds.Name = Field(
        description="Who may see the same: what is asked goes to one group only."
    )


_Profile = Annotated[ProviderProfile, BeforeValidator(kinds.decoded)]


def _parts(value: object) -> object:
    """Take the parts of a nested setting in any case, as their own variables are taken."""
    if isinstance(value, dict):
        # Of what types is checked later; a wrong key is told by its name.
        parts = cast("dict[object, object]", value)
        return {str(key).lower(): part for key, part in parts.items()}
    if value is None or isinstance(value, BaseModel):
        return value
    raise ValueError("must be a JSON object; or set its parts, such as FRONTDESK_JWT__SECRET")


class Settings(BaseSettings):
    """All settings with their defaults; immutable once loaded."""

    model_config = SettingsConfigDict(
        env_prefix=_PREFIX,
        env_nested_delimiter="__",
        extra="forbid",
        frozen=True,
        arbitrary_types_allowed=True,
        hide_input_in_errors=True,
    )

    enabled: bool = Field(
        default=True, description="Serve the chat routes; if false, they answer 404."
    )
    url: kinds.Path = Field(default="/chat/", description="Base path of the chat routes.")
    managers: kinds.Text | None = Field(
        default=None,
        description='The exposed managers as "module:attribute", for `uvicorn app.main:app`.',
    )
    provider: kinds.Code = Field(
        default="auto",
        description='"auto" (the model, if one is set, else offline), "offline", or the dotted '
        "path of a provider class.",
    )
    model: kinds.Text | None = Field(
        default=None,
        description="Who answers: the vendor and the model, as LiteLLM names them. The same as "
        "`model` of the provider's configuration.",
        examples=["anthropic/claude-3-5-haiku-latest"],
    )
    provider_config: kinds.Config = Field(
        default=None,
        repr=False,  # it may hold a key
        description="What the provider is made of. For a model: `model`, `api_key`, `base_url`, "
        "`timeout_seconds` (60, for the first event), `stream_timeout_seconds` (30, between "
        "events), `temperature` (0), `top_p`, `max_tokens`, `reasoning_effort`, `max_retries` (3).",
        examples=['{"base_url": "http://127.0.0.1:8080/v1", "timeout_seconds": 90}'],
    )
    provider_profiles: kinds.Named[_Profile] = Field(
        default=None,
        repr=False,  # they may hold keys
        description="More providers, by names of yours. Each has `provider`, `provider_config` and "
        "`trust_group`; that of FRONTDESK_PROVIDER itself is `default`.",
        examples=[
            '{"backup": {"provider": "providers.AnthropicProvider", "trust_group": "default"}}'
        ],
    )
    provider_fallbacks: kinds.List[str] = Field(
        default=(),
        description="Profiles that answer, in this order, while the provider can't. They must be "
        "of its trust group, `default`.",
        examples=["backup"],
    )
    permission: kinds.Code | None = Field(
        default=None,
        description="Called with (actor, scope); anything but a true answer denies.",
    )
    identity: kinds.Code | None = Field(
        default=None,
        description="Called with a request's credentials; gives its actor, or None for a visitor.",
    )
    jwt: Annotated[Jwt | None, BeforeValidator(_parts)] = Field(
        default=None, description="Which bearer tokens are believed; unset: none."
    )
    allowed_hosts: kinds.List[kinds.HostPattern] = Field(
        default=(),
        description="Host names that are served, `*.` for all below one, `*` for every one; "
        "unset: those of this machine itself.",
        examples=["desk.example,*.desk.example"],
    )
    allowed_origins: kinds.List[kinds.Origin] = Field(
        default=(),
        description="Other origins whose pages may ask, those of another site by bearer only.",
        examples=["https://app.example,https://intranet.example:8443"],
    )
    database_url: kinds.Text | None = Field(
        default=None,
        repr=False,  # it may hold a password
        description="The chat database, a SQLite file or on PostgreSQL; unset: a SQLite file in "
        "./.frontdesk/.",
        examples=["postgresql+asyncpg://desk:password@db.example:5432/desk"],
    )
    session_secret: kinds.Secret | None = Field(
        default=None,
        repr=False,
        description="Signs the sessions of browsers; unset: made once in ./.frontdesk/secret.",
    )
    system_prompt: str = Field(default="", description="Instructions added to the built-in prompt.")
    timezone: kinds.Timezone = Field(
        default=ZoneInfo("UTC"),
        description="The zone of the day told to the model, of moments that are asked for without "
        "one, and of the parts of dates in aggregates.",
    )
    tool_strategy: Literal["discovery", "direct"] = Field(
        default="discovery",
        description='"direct" adds a tool query_<manager> for each manager the actor may see.',
    )
    max_results: kinds.Count = Field(
        default=200, description="Rows of one query page, as default and as limit."
    )
    query_timeout_seconds: kinds.Seconds | None = Field(
        default=None, description="Time limit of one data query."
    )
    max_retries_per_message: kinds.Limit = Field(
        default=8, description="Data lookups (read tool calls) one message may use."
    )
    max_mutations_per_message: kinds.Limit = Field(
        default=8, description="Writes one message may use; counts into the rounds of a turn."
    )
    max_total_rounds_per_message: kinds.Count | None = Field(
        default=None, description="Provider rounds of one turn; unset: lookups + writes + 2."
    )
    max_recent_messages: kinds.Count = Field(
        default=20, description="Newest stored entries that a model is shown."
    )
    max_message_chars: kinds.Count = Field(
        default=20_000, description="Longest accepted message text."
    )
    max_body_bytes: kinds.Count = Field(default=262_144, description="Largest accepted body.")
    turn_timeout_seconds: kinds.Seconds = Field(
        default=300, description="Time limit of one whole turn."
    )
    run_stale_seconds: kinds.Seconds = Field(
        default=30, description="Silence after which a run's process counts as gone."
    )
    ttl_hours: kinds.Count = Field(
        default=24,
        description="Hours without a message after which `frontdesk cleanup` deletes a "
        "conversation.",
    )
    log_level: kinds.LogLevel = Field(default="info", description="Least severe log record shown.")

    @field_validator("provider_config")
    @classmethod
    def _has_one_model(
        cls, config: dict[str, object] | None, info: ValidationInfo
    ) -> dict[str, object] | None:
        model = info.data.get("model")
        if config and model is not None and config.get("model", model) != model:
            raise ValueError("names another model than FRONTDESK_MODEL")
        return config

    @field_validator("provider_fallbacks")
    @classmethod
    def _are_trusted(cls, names: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        if "provider_profiles" not in info.data:
            return names  # they are wrong, and that is told
        profiles: Mapping[str, ProviderProfile] = info.data["provider_profiles"] or {}
        for number, name in enumerate(names, start=1):
            if name not in profiles:
                known = f"has only {', '.join(profiles)}" if profiles else "is not set"
                raise ValueError(
                    f"entry {number} names no profile: FRONTDESK_PROVIDER_PROFILES {known}"
                )
            if profiles[name].trust_group != TRUST_GROUP:
                raise ValueError(
                    f"entry {number} names a profile that is not of the provider's trust_group, "
                    f"{TRUST_GROUP}"
                )
        return names

    @property
    def effective_provider_config(self) -> dict[str, object]:
        """What the provider is made of, the model included."""
        model = {} if self.model is None else {"model": self.model}
        return {**(self.provider_config or {}), **model}

    @property
    def rounds(self) -> int:
        """Provider rounds that one turn may use."""
        default = self.max_retries_per_message + self.max_mutations_per_message + 2
        return self.max_total_rounds_per_message or default

    @property
    def chat_database_url(self) -> str:
        """The chat database's URL, the default one included, as SQLAlchemy takes it."""
        url = self.database_url or f"sqlite+aiosqlite:///{DATA_FOLDER}/frontdesk.db"
        url = re.sub(r"^postgres(ql)?(\+asyncpg)?:", "postgresql+asyncpg:", url)
        is_postgres = url.startswith("postgresql+asyncpg:")
        # libpq's name and asyncpg's
        return re.sub(r"([?&])sslmode=", r"\1ssl=", url) if is_postgres else url


def named_fields(model: type[BaseModel] = Settings, prefix: str = _PREFIX) -> dict[str, FieldInfo]:
    """Map each name in the environment to its setting; the parts of a nested one follow it.

    Where a name of the user's stands, ``<NAME>`` does.
    """
    named: dict[str, FieldInfo] = {}
    for name, field in model.model_fields.items():
        own = f"{prefix}{name.upper()}"
        named[own] = field
        for kind in get_args(field.annotation):
            if isinstance(kind, type) and issubclass(kind, BaseModel):
                named |= named_fields(kind, f"{own}__")
            if get_origin(kind) is Mapping:
                named |= named_fields(get_args(kind)[1], f"{own}__<NAME>__")
    return named


# --- loading --------------------------------------------------------------------------------------


def load_settings(**overrides: object) -> Settings:
    """Read .env and the environment; ``overrides`` win over both.

    Raises: ConfigurationError E002, naming each wrong or unknown setting, but never a value.
    """
    _load_env_file(Path(".env").absolute())
    problems = [_unknown(name) for name in _unknown_names()]
    try:
        settings = Settings(**overrides)  # pyright: ignore[reportArgumentType]
    except ValidationError as error:
        raise _wrong([*problems, *_problems(error)]) from error
    if problems:
        raise _wrong(problems)
    return settings


def _wrong(problems: list[str]) -> ConfigurationError:
    return ConfigurationError("E002", f"{'; '.join(dict.fromkeys(problems))}.", _FIX)


def _problems(error: ValidationError) -> Iterator[str]:
    for item in error.errors(include_url=False, include_input=False):
        name = _PREFIX + "__".join(part for part in item["loc"] if isinstance(part, str)).upper()
        entry = "".join(f" entry {part + 1}" for part in item["loc"] if isinstance(part, int))
        reason = re.sub("^(Value error, |Input |String )", "", item["msg"])
        reason = _REASONS.get(item["type"], reason)
        yield _unknown(name) if item["type"] == "extra_forbidden" else f"{name}{entry} {reason}"


def _unknown(name: str) -> str:
    [closest] = difflib.get_close_matches(name.upper(), named_fields(), n=1, cutoff=0)
    return f"{name.upper()} is not a setting, the closest one is {closest}"


def _unknown_names() -> list[str]:
    ours = sorted(name for name in os.environ if name.upper().startswith(_PREFIX))
    # Kubernetes tells each pod of its services by such names, and one may be called "frontdesk".
    services = [
        name.removesuffix("SERVICE_HOST") for name in ours if name.endswith("_SERVICE_HOST")
    ]
    told = tuple(f"{service}{what}" for service in services for what in ("SERVICE_", "PORT"))
    known = named_fields()
    # Which parts these have, a provider knows, and whoever names profiles.
    told += (f"{_PREFIX}PROVIDER_CONFIG__", f"{_PREFIX}PROVIDER_PROFILES__")
    return [
        name for name in ours if name.upper() not in known and not name.upper().startswith(told)
    ]


def _load_env_file(file: Path) -> None:
    """Fill in what the environment does not set."""
    before = set(os.environ)
    try:
        text = file.read_text("utf-8")
        for line in parse_stream(StringIO(text)):
            if line.error:
                blank = line.original.string.removesuffix(line.original.string.lstrip())
                number = line.original.line + blank.count("\n")
                raise ValueError(f"line {number} is not NAME=value")
        load_dotenv(stream=StringIO(text))
    except FileNotFoundError:
        return
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        reason = "it is not UTF-8" if isinstance(error, UnicodeError) else reason
        raise ConfigurationError(
            "E002", f"{file} can't be read: {reason}.", "Correct the file, or take it away."
        ) from error
    ours = {name.upper() for name in before if name.upper().startswith(_PREFIX)}
    for name in os.environ.keys() - before:
        # Our names are the same in any case, and a nested setting is given with all its parts.
        if {name.upper(), name.upper().partition("__")[0]} & ours:
            del os.environ[name]


def desk_token() -> str | None:
    """Read the bearer token that `frontdesk chat --url` sends; it is no setting of a server."""
    token = os.environ.get(TOKEN, "").strip()
    return token or None


# --- secrets --------------------------------------------------------------------------------------


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
    if len(secret) < kinds.SECRET_CHARS:
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
