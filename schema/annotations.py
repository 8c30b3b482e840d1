"""What annotations in a project's own code say about values: what kind they are, and their form.

Functions that compute fields, and types that the project wrote, have no columns to be read from.
Source: design.md 4, values.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from types import NoneType, UnionType
from typing import Annotated, NewType, Union, cast, get_args, get_origin, get_type_hints
from uuid import UUID

import orjson
import sqlalchemy as sa

from schema.errors import ConfigurationError
from schema.events import Json
from schema.sources import Column, ValueType, choices
from schema.values import Unfit, shower

KNOWN = "str, int, float, Decimal, bool, date, time, datetime, UUID, an Enum, dict, list and Json"
"""The annotations that name a kind of value, for error messages."""

_Classes = tuple[type, ...]

_KINDS: Mapping[object, tuple[ValueType, _Classes]] = {
    str: ("string", (str,)),
    int: ("integer", (int,)),
    float: ("number", (float, int)),
    Decimal: ("decimal", (Decimal, int)),
    bool: ("boolean", (bool,)),
    date: ("date", (date,)),
    time: ("time", (time,)),
    datetime: ("datetime", (datetime,)),
    UUID: ("uuid", (UUID,)),
    dict: ("json", (dict,)),
    list: ("json", (list,)),
    Json: ("json", (object,)),
    object: ("json", (object,)),
}

_EXCEPT: Mapping[ValueType, type] = {
    "integer": bool,
    "number": bool,
    "decimal": bool,
    "date": datetime,
}
"""Subclasses that are values of another kind."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of value; ``classes`` are those of its Python values, one for an enum."""

    type: ValueType
    nullable: bool
    classes: _Classes

    def column(self, name: str, description: str = "") -> Column:
        """A column of this kind that is in no table; only that of an enum knows its own type."""
        stored = sa.Enum(*self.classes) if self.type == "enum" else None
        return Column(
            name=name,
            column=sa.Column[object](name, stored),
            type=self.type,
            nullable=self.nullable,
            primary_key=False,
            description=description,
            choices=() if stored is None else tuple(choices(stored)),
        )

    def show(self, value: object) -> Json:
        """The wire form of a value. Raises: Unfit, or another of UNFIT."""
        if value is None and self.nullable:
            return None
        if not isinstance(value, self.classes) or isinstance(value, _EXCEPT.get(self.type, ())):
            raise Unfit(f"a value of type {type(value).__name__} for one that is {self.type}")
        shown = shower(self.type)(value)
        if self.type in ("string", "json"):
            orjson.dumps(shown)  # It raises TypeError on what JSON can't hold: half a character.
        return shown


def kind_of(annotation: object) -> Kind | None:
    """The kind of value an annotation names; None if it names no scalar and nothing JSON has."""
    annotation, nullable = without_none(annotation)
    while isinstance(annotation, NewType):
        annotation = annotation.__supertype__
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return Kind("enum", nullable, (annotation,))
    # Of list[int] the list, which isn't known to be a class.
    known = _KINDS.get(cast("object", get_origin(annotation) or annotation))
    if known is None:
        return None
    kind, classes = known
    return Kind(kind, nullable or object in classes, classes)


def without_none(annotation: object) -> tuple[object, bool]:
    """An annotation without its metadata and its None, and whether it had that."""
    if get_origin(annotation) is Annotated:
        return without_none(get_args(annotation)[0])
    if get_origin(annotation) in (Union, UnionType):
        given = get_args(annotation)
        rest = [one for one in given if one is not NoneType]
        if len(rest) == 1:
            return without_none(rest[0])[0], len(rest) < len(given)
    return annotation, False


def hints(what: str, function: Callable[..., object]) -> Mapping[str, object]:
    """The annotations of a project's function. Raises: ConfigurationError."""
    if not inspect.isroutine(function):
        raise ConfigurationError("E001", f"{what} is no function.", "Write one around it.")
    try:
        return get_type_hints(function)
    except (NameError, TypeError, AttributeError, SyntaxError) as error:
        raise ConfigurationError(
            "E001",
            f"The annotations of {what} can't be read: {error}.",
            "Import what they name where the function is, not only for type checkers.",
        ) from error
