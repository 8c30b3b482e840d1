"""Types that the project wrote with Strawberry, and the functions that give their rows.

``read_resolver`` reads what a type and its function say of themselves; ``schema.resolved`` calls
the function. Source: design.md 5.
"""

import inspect
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from inspect import Parameter, isawaitable
from typing import Generic, TypeVar, cast, get_args, get_origin

import sqlalchemy as sa
from strawberry.types import get_object_definition
from strawberry.types.field import StrawberryField
from strawberry.types.fields.resolver import StrawberryResolver

from schema.annotations import KNOWN, Kind, hints, kind_of, without_none
from schema.computed import NotComputed
from schema.errors import ConfigurationError, mapped
from schema.events import Json
from schema.sources import Column, ModelDescription, docstring

GIVEN = frozenset({"actor", "limit", "offset", "order_by", "fields"})
"""The parameters of a page function that are no filters."""

PageFunction = Callable[..., Awaitable[object]]

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Page(Generic[_T]):
    """One page of rows, as a page function gives it; ``total_count`` counts all that match."""

    rows: Sequence[_T]
    total_count: int


@dataclass(frozen=True, slots=True)
class Filter:
    """A filter of a page function, and the field it looks at, if its name begins with one's."""

    column: Column
    is_list: bool
    field: str | None


@dataclass(frozen=True, slots=True)
class Attribute:
    """A field of a row: a value of it, or what ``method`` makes of the row."""

    what: str
    name: str
    kind: Kind
    method: Callable[[object], object] | None

    async def show(self, row: object) -> Json:
        """The wire form of the field of one row. Raises: NotComputed."""
        with mapped(NotComputed(self.what)):
            if isinstance(row, Mapping):
                # isinstance leaves the mapping's type parameters unknown.
                found = cast("Mapping[str, object]", row)[self.name]
            elif self.method is None:
                found: object = getattr(row, self.name)
            else:
                found = self.method(row)
            return self.kind.show(await found if isawaitable(found) else found)


@dataclass(frozen=True, slots=True, eq=False)
class Resolver:
    """A page function and all that is known of it; ``takes`` are its parameters among ``GIVEN``."""

    page: PageFunction
    takes: frozenset[str]
    filters: Mapping[str, Filter]
    attributes: Mapping[str, Attribute]

    @property
    def can_sort(self) -> bool:
        """Whether the page function takes an order."""
        return "order_by" in self.takes

    def offered(self, shown: Collection[str]) -> Mapping[str, Filter]:
        """The filters by name where only some fields are shown: a hidden one takes its along."""
        return {
            name: filter
            for name, filter in self.filters.items()
            if filter.field is None or filter.field in shown
        }


def read_resolver(model: type, page: PageFunction) -> tuple[ModelDescription, Resolver]:
    """Read a type and its page function. Raises: ConfigurationError."""
    definition = get_object_definition(model)
    if definition is None or definition.is_input or definition.is_interface:
        raise ConfigurationError(
            "E001",
            f"{model.__name__} is exposed with page=, and is no type of Strawberry's.",
            "Decorate it with @strawberry.type; tables are exposed without page=.",
        )
    attributes, columns, left_out = dict[str, Attribute](), list[Column](), set[str]()
    for field in definition.fields:
        attribute = _attribute(model, field)
        if attribute is None:
            left_out.add(field.python_name)
        else:
            attributes[attribute.name] = attribute
            columns.append(attribute.kind.column(attribute.name, field.description or ""))
    written = docstring(model)
    # A dataclass without a docstring is given its signature for one.
    about = "" if written.startswith(f"{model.__name__}(") else written
    description = ModelDescription(
        model=model,
        name=model.__name__,
        table=sa.Table(model.__name__, sa.MetaData(), *(c.column for c in columns)),
        columns=tuple(columns),
        relations=(),
        key=(),
        description=definition.description or about,
        unread=frozenset(left_out),
        database="",
    )
    takes, filters = _parameters(model, page, attributes)
    return description, Resolver(page, takes, filters, attributes)


# --- the type -------------------------------------------------------------------------------------


def _attribute(model: type, field: StrawberryField) -> Attribute | None:
    """Read one field; None for one that is no scalar, or that takes more than its row.

    Extensions and permissions need a GraphQL request to run in, so what they guard is left out.
    """
    # What it gives is of no matter here.
    resolver = cast(
        "StrawberryResolver[object] | None",
        field.base_resolver,  # pyright: ignore[reportUnknownMemberType]
    )
    if field.extensions or (resolver is not None and not _takes_row_only(resolver)):
        return None
    annotation = field.type_annotation or (resolver.type_annotation if resolver else None)
    kind = None if annotation is None else kind_of(annotation.annotation)
    if annotation is None or kind is None or _holds_objects(annotation.annotation):
        return None
    name = field.python_name
    method = None if resolver is None else _method(resolver)
    return Attribute(f"{model.__name__}.{name}", name, kind, method)


def _takes_row_only(resolver: StrawberryResolver[object]) -> bool:
    return not resolver.arguments and resolver.info_parameter is None


def _method(resolver: StrawberryResolver[object]) -> Callable[[object], object]:
    call = cast("Callable[..., object]", resolver)  # its own signature has texts only
    places = resolver.self_parameter, resolver.root_parameter, resolver.parent_parameter
    takes_row = any(place is not None for place in places)
    return call if takes_row else lambda _: call()


def _holds_objects(annotation: object) -> bool:
    """Tell whether a list, at any depth, is one of types with fields of their own."""
    if get_object_definition(annotation) is not None:
        return True
    return any(_holds_objects(inner) for inner in get_args(annotation))


# --- the function ---------------------------------------------------------------------------------


def _parameters(
    model: type, page: PageFunction, fields: Collection[str]
) -> tuple[frozenset[str], Mapping[str, Filter]]:
    what = f"page= of {model.__name__}"
    if not inspect.iscoroutinefunction(page):
        raise ConfigurationError(
            "E001",
            f"{what} is no async function.",
            "Write it with async def, so that a slow one can be ended and holds up nothing.",
        )
    known = hints(what, page)
    takes, filters = set[str](), dict[str, Filter]()
    for parameter in inspect.signature(page).parameters.values():
        if parameter.kind not in (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY):
            raise ConfigurationError(
                "E001",
                f"{what} takes {parameter}, which says nothing of the filters there are.",
                "Give each filter a parameter of its own.",
            )
        if parameter.name in GIVEN:
            takes.add(parameter.name)
        else:
            filters[parameter.name] = _filter(what, parameter, known.get(parameter.name), fields)
    return frozenset(takes), filters


def _filter(what: str, parameter: Parameter, annotation: object, fields: Collection[str]) -> Filter:
    plain, _ = without_none(annotation)
    inner = get_args(plain)[:1] if get_origin(plain) is list else ()
    kind = kind_of(inner[0] if inner else plain)
    if kind is None or kind.type == "json" or parameter.default is Parameter.empty:
        raise ConfigurationError(
            "E001",
            f"{what} takes {parameter}, which can't be a filter.",
            f"Annotate it with one of {KNOWN.partition(', dict')[0]}, or a list of one, and give it"
            " a default: a filter may be left out.",
        )
    column = kind.column(parameter.name)
    field = parameter.name.partition("__")[0]
    return Filter(column, bool(inner), field if field in fields else None)
