"""What a model can be configured with: the keys of ``provider_config``, checked.

Source: seed, provider adapters; design.md 7.
"""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import cast
from urllib.parse import urlsplit

from schema.errors import ConfigurationError

CONFIG_FIX = "Correct FRONTDESK_PROVIDER_CONFIG or FRONTDESK_MODEL."

_MOST_S = 31_536_000


@dataclass(frozen=True, slots=True)
class Options:
    """One model, where it is, and how it is asked; times in seconds."""

    model: str = ""
    api_key: str | None = field(default=None, repr=False)
    base_url: str | None = None
    timeout_seconds: float = 60
    """The wait for the first event."""
    stream_timeout_seconds: float = 30
    """The wait between two events."""
    temperature: float = 0.0
    top_p: float | None = None
    max_tokens: int | None = None
    reasoning_effort: str | None = None
    max_retries: int = 3
    """Requests after the first one, for as long as nothing has come."""


_TEXTS = frozenset({"model", "api_key", "base_url", "reasoning_effort"})
_LEAST = {
    "timeout_seconds": 0.001,
    "stream_timeout_seconds": 0.001,
    "temperature": 0,
    "top_p": 0,
    "max_tokens": 1,
    "max_retries": 0,
}
_MOST = {
    "timeout_seconds": _MOST_S,
    "stream_timeout_seconds": _MOST_S,
    "temperature": 2,
    "top_p": 1,
    "max_tokens": 2**31 - 1,
    "max_retries": 20,
}
_WHOLE = frozenset({"max_tokens", "max_retries"})


def read_options(config: Mapping[str, object], defaults: Mapping[str, object]) -> Options:
    """Check a configuration; ``defaults`` stand for what it leaves out. None leaves a key out.

    Raises: ConfigurationError E002 that names each wrong key, and never a value.
    """
    given = {key: _number(key, value) for key, value in config.items() if value is not None}
    problems = [problem for key, value in given.items() if (problem := _problem(key, value))]
    if problems:
        raise ConfigurationError("E002", f"provider_config: {'; '.join(problems)}.", CONFIG_FIX)
    # Each value was checked to be of its field's type.
    options = Options(**cast("dict[str, str]", {**defaults, **given}))  # pyright: ignore[reportArgumentType]
    if not options.model:
        raise ConfigurationError(
            "E002",
            "provider_config names no model.",
            'Set FRONTDESK_MODEL, e.g. to "anthropic/claude-3-5-haiku-latest".',
        )
    return options


def _number(key: str, value: object) -> object:
    """Read a number that is set as a variable of its own, and so comes as text."""
    if key not in _LEAST or not isinstance(value, str):
        return value
    try:
        return int(value) if key in _WHOLE else float(value)
    except ValueError:
        return value


def _problem(key: str, value: object) -> str | None:
    names = [known.name for known in fields(Options)]
    if key not in names:
        [closest] = difflib.get_close_matches(key, names, n=1, cutoff=0)
        return f"{key} is not a key, the closest one is {closest}"
    if key in _TEXTS:
        return _text_problem(key, value)
    kind = int if key in _WHOLE else (int, float)
    is_number = isinstance(value, kind) and not isinstance(value, bool)
    least, most = _LEAST[key], _MOST[key]
    if isinstance(value, int | float) and is_number and least <= value <= most:
        return None
    word = "a whole number" if key in _WHOLE else "a number"
    return f"{key} must be {word} from {least} to {most}"


def _text_problem(key: str, value: object) -> str | None:
    if not isinstance(value, str) or not value.strip():
        return f"{key} must be a text that is not blank"
    if value != value.strip():
        return f"{key} must not begin or end with white space"
    return f"{key} {problem}" if key == "base_url" and (problem := url_problem(value)) else None


def url_problem(url: str) -> str | None:
    """Say what is wrong with the address of a vendor; addresses are logged, so they hold no key."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return "is malformed"
    if parts.scheme not in ("http", "https") or not host:
        return "must begin with http:// or https:// and a host"
    if parts.query or parts.fragment or parts.username is not None:
        return "must have no user name, no query and no fragment"
    return None
