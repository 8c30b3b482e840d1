"""Kinds of values: what a setting takes, from the environment's text and from Python.

The errors are ValueErrors that end a sentence and never repeat the value, which may be a secret.
"""

import json
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Annotated, Literal, TypeVar, cast
from zoneinfo import ZoneInfo, available_timezones

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints
from pydantic_settings import NoDecode

from app.addresses import host_pattern, origin, private_url

_T = TypeVar("_T")

SECRET_CHARS = 16
"""A secret with fewer could be guessed."""
KEY_CHARS = {"HS256": 32, "HS384": 48, "HS512": 64}
"""How long the key of a signature has to be. Source: RFC 7518 3.2."""

_MOST = 2**31 - 1
"""Databases take no higher limits."""
_YEAR_S = 31_536_000


def _path(value: str) -> str:
    """Give the base path one slash at each end: "chat", "/chat" and "/chat/" are the same."""
    parts = [part for part in value.split("/") if part]
    # A part of dots only would mean another folder to a client.
    if not all(re.fullmatch(r"[\w.~-]+", part, re.ASCII) and part.strip(".") for part in parts):
        raise ValueError("must be a path such as /chat/, of letters, digits and . _ ~ - only")
    return f"/{'/'.join(parts)}/" if parts else "/"


def _timezone(value: object) -> object:
    if isinstance(value, str):
        if value not in available_timezones():
            raise ValueError("must be an IANA time zone such as Europe/Berlin")
        return ZoneInfo(value)
    return value


def _number(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("must be a number")  # else True would be 1
    return value


def _code(value: object) -> object:
    if not (isinstance(value, str) or callable(value)):
        raise ValueError("must be callable, or the dotted path of something that is")
    return value


def _without_margins(value: str) -> str:
    if value != value.strip():
        raise ValueError("must not begin or end with white space")
    return value


def _lower(value: object) -> object:
    return value.lower() if isinstance(value, str) else value


def _entries(value: object) -> object:
    """Take a list from text: JSON, or entries between commas."""
    if not isinstance(value, str):
        return value
    with suppress(ValueError):
        found: object = json.loads(value)
        if isinstance(found, list):
            return cast("list[object]", found)  # of what is checked later
    return [entry.strip() for entry in value.split(",") if entry.strip()]


def _once(entries: tuple[_T, ...]) -> tuple[_T, ...]:
    return tuple(dict.fromkeys(entries))


def decoded(value: object) -> object:
    """Take an object from text: what stands below a name of the user's comes undecoded."""
    if not isinstance(value, str):
        return value
    with suppress(ValueError):
        found: object = json.loads(value)
        if isinstance(found, dict):
            return cast("dict[str, object]", found)  # whose values somebody else checks
    raise ValueError("must be a JSON object")


Text = Annotated[str, StringConstraints(min_length=1)]
Name = Annotated[Text, AfterValidator(_without_margins)]
Secret = Annotated[
    str, StringConstraints(min_length=SECRET_CHARS), AfterValidator(_without_margins)
]
SigningKey = Annotated[
    str, StringConstraints(min_length=min(KEY_CHARS.values())), AfterValidator(_without_margins)
]
Path = Annotated[str, AfterValidator(_path)]
PrivateUrl = Annotated[str, AfterValidator(private_url)]
HostPattern = Annotated[str, AfterValidator(host_pattern)]
Origin = Annotated[str, AfterValidator(origin)]
Code = Annotated[str | Callable[..., object], BeforeValidator(_code)]
"""A callable, or where it can be imported from."""
Config = Annotated[dict[str, object] | None, BeforeValidator(decoded)]
"""A mapping whose keys somebody else knows."""
Named = Annotated[Mapping[str, _T] | None, BeforeValidator(decoded)]
"""Things of one kind, by names of the user's."""
Timezone = Annotated[ZoneInfo, BeforeValidator(_timezone)]
LogLevel = Annotated[Literal["debug", "info", "warning", "error"], BeforeValidator(_lower)]
Limit = Annotated[int, Field(ge=0, le=_MOST), BeforeValidator(_number)]
Count = Annotated[int, Field(ge=1, le=_MOST), BeforeValidator(_number)]
Seconds = Annotated[float, Field(gt=0, le=_YEAR_S, allow_inf_nan=False), BeforeValidator(_number)]
List = Annotated[tuple[_T, ...], NoDecode, BeforeValidator(_entries), AfterValidator(_once)]
