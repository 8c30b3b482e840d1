"""Fields that a project's function computes of columns: what its signature says, and their values.

Source: design.md 5.
"""

import inspect
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, cast

from sqlalchemy.engine import Dialect

from schema.annotations import KNOWN, Kind, hints, kind_of
from schema.errors import ConfigurationError, mapped
from schema.events import Json
from schema.sources import Column, ModelDescription, first_paragraph
from schema.values import Decode, Unfit, reader

_log = logging.getLogger(__name__)


class Function(Protocol):
    """A function that was written with ``def``."""

    __name__: str

    __call__: Callable[..., object]


class NotComputed(Unfit):
    """A project's code gave no fitting value. The text names the field, the cause says why."""


@dataclass(frozen=True, slots=True, eq=False)
class Computed:
    """A field that ``function`` computes of ``inputs``, the columns that its parameters name.

    ``column`` is one that could hold the field; ``what`` is its name for the log.
    """

    what: str
    column: Column
    kind: Kind
    inputs: tuple[Column, ...]
    function: Callable[..., object]


def read_computed(
    model: ModelDescription, function: Function, name: str, description: str | None
) -> Computed:
    """Read the signature of a function that computes a field. Raises: ConfigurationError."""
    what = f"{model.model.__name__}.{name}"
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        raise ConfigurationError(
            "E001",
            f"{what} is async, and a computed field is made while rows are read.",
            "Compute it with def from its columns alone; expose what has to be fetched as a"
            " Strawberry type with page=.",
        )
    known = hints(what, function)
    kind = kind_of(known.get("return"))
    if kind is None:
        raise ConfigurationError(
            "E001",
            f"{what} does not say what kind of value it gives.",
            f"Annotate what it returns: {KNOWN} are known, each with | None if there may be none.",
        )
    note = first_paragraph(function.__doc__ or "") if description is None else description
    inputs = _inputs(what, model, function)
    return Computed(what, kind.column(name, note), kind, inputs, function)


def _inputs(
    what: str, model: ModelDescription, function: Callable[..., object]
) -> tuple[Column, ...]:
    columns = {column.name: column for column in model.columns}
    parameters = inspect.signature(function).parameters.values()
    for parameter in parameters:
        is_named = parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        if parameter.name not in columns or not is_named:
            raise ConfigurationError(
                "E001",
                f"{what} takes {str(parameter).partition(':')[0]}, which is no column of"
                f" {model.model.__name__}.",
                f"Its parameters must be names of columns: {', '.join(columns)}.",
            )
    if not parameters:
        raise ConfigurationError(
            "E001",
            f"{what} takes no column.",
            f"Name the columns that it is made of as parameters: {', '.join(columns)}.",
        )
    return tuple(columns[parameter.name] for parameter in parameters)


def calculator(field: Computed, places: Sequence[int], dialect: Dialect) -> Decode:
    """Make the function that computes ``field`` from a whole row of the driver's values.

    ``places`` are those of its inputs in the row. Raises, at work: NotComputed.
    """
    inputs = [
        (column.name, place, reader(column, dialect))
        for column, place in zip(field.inputs, places, strict=True)
    ]

    def compute(row: object) -> Json:
        values = cast("Sequence[object]", row)  # what a cell without a place is given
        with mapped(NotComputed(field.what)):
            given = {name: read(values[place]) for name, place, read in inputs}
            return field.kind.show(field.function(**given))

    return compute


def note_null(where: str, error: Exception, notes: set[str]) -> None:
    """Say in ``notes`` why a value is shown as null; code that failed is logged once for a read."""
    if not isinstance(error, NotComputed):
        notes.add(f"{where}: null stands for a stored value that is infinite or not valid")
        return
    note = f"{where}: null stands for a value that could not be computed"
    if note not in notes:
        notes.add(note)
        _log.error("%s could not be computed", error, exc_info=error.__cause__)
