"""The ``query`` of tools and GraphQL: a request is checked, compiled once per shape, and read.

``Reader`` owns everything that reading needs and is open as long as the application is. Its
``query`` is the one way to rows. Source: design.md 4, data tools; design.md 5.
"""

import logging
import secrets
from collections.abc import Iterable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from hashlib import sha256
from typing import Self, cast

import orjson
from sqlalchemy.engine import Connection
from sqlalchemy.exc import DBAPIError

from schema.clauses import NEVER, Clause
from schema.compile import Compiler, Order, Selection
from schema.errors import (
    ConfigurationError,
    ToolError,
    ToolFailed,
    ToolRetry,
    guarded,
    guarded_answer,
)
from schema.events import Actor, Json, JsonObject
from schema.filters import Filter, Names, parse, shape
from schema.index import SchemaIndex, View
from schema.managers import Manager, Managers, QueryRequest, graphql_schema, query_type
from schema.reads import Reads, check_tables, read_engine, sqlite_url
from schema.request import is_object, select, sort, whole
from schema.rows import Compiled, Rows, TooManyRows
from schema.sources import ModelDescription

_log = logging.getLogger(__name__)

MAX_RESULTS = 200
MAX_RESULT_BYTES = 256 * 1024
_SHAPES = 1_024


@dataclass(slots=True)
class _Shape:
    """All of a request but its values; ``compiled`` is made by the first read."""

    selection: Selection
    filter: Filter
    order: tuple[Order, ...]
    compiled: Compiled | None = None


class _Models(dict[type, ModelDescription]):
    """The descriptions of exposed models, and of others that a ``visible`` filter leads to."""

    def __init__(self, managers: Managers, exposed: Sequence[Manager]) -> None:
        super().__init__({m.model.model: m.model for m in exposed})
        self._managers = managers

    def __missing__(self, model: type) -> ModelDescription:
        self[model] = self._managers.describe(model)
        return self[model]

    def names(self, model: type) -> Names:
        """Everything on a model, hidden or not: for the developer's own filters."""
        found = self[model]
        relations = {r.name: r for r in found.relations if not r.problem}
        return Names(found.name, {c.name: c for c in found.columns}, relations)


class Reader:
    """The exposed data, open for reading. An async context manager.

    ``database_url`` is the chat database's, for managers without sessions. Raises:
    ConfigurationError, on construction about what is exposed, on entry about the database.
    """

    def __init__(
        self,
        managers: Managers,
        *,
        database_url: str,
        max_results: int = MAX_RESULTS,
        query_timeout_seconds: float | None = None,
    ) -> None:
        exposed = managers.build()
        self.graphql = graphql_schema(exposed, self._resolve)
        self.index = SchemaIndex(query_type(self.graphql))
        self._managers = managers
        self._url = managers.database_url(database_url)
        self._max_results = max_results
        self._timeout = query_timeout_seconds
        self._models = _Models(managers, exposed)
        self._shapes: dict[object, _Shape] = {}
        self._open = AsyncExitStack()

    async def __aenter__(self) -> Self:
        url = sqlite_url(self._url)
        engine = self._managers.reads or read_engine(url)
        self._dialect = engine.dialect
        self._compiler = Compiler(self._models, engine.dialect)
        async with AsyncExitStack() as opening:
            self._reads = await opening.enter_async_context(Reads(engine))
            exposed = self.index.managers.values()
            try:
                await self._reads.run(lambda c: check_tables(c, exposed, str(url.database)))
            except DBAPIError as error:
                raise ConfigurationError(
                    "E001",
                    f"The database {url.database} can't be read: {error.orig}.",
                    "Give the URL of a SQLite file that no other program keeps locked.",
                ) from error
            self._open = opening.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._open.aclose()

    async def view(self, actor: Actor) -> View:
        """Evaluate what ``actor`` may see, once; the result holds for a run."""
        visible: dict[type, tuple[Clause, ...]] = {}
        values: dict[str, object] = {}
        shapes: list[object] = []
        for number, manager in enumerate(self.index.managers.values()):
            if manager.visible is None:
                continue
            limits, given, kind = await self._limits(manager, actor, f"v{number}_")
            if limits:
                visible[manager.model.model] = limits
                values |= given
                shapes.append((manager.name, kind))
        key = sha256(repr(shapes).encode()).hexdigest() if shapes else ""
        return View(self.index, visible, values, key)

    async def _limits(
        self, manager: Manager, actor: Actor, prefix: str
    ) -> tuple[tuple[Clause, ...], dict[str, object], object]:
        """Evaluate one ``visible``; whatever is wrong with it shows nothing, and is logged."""
        visible = manager.visible
        try:
            found = await guarded_answer(
                f"visible of {manager.name}", lambda: visible(actor) if visible else None
            )
            asked = _listed(found)
            if not is_object(asked):
                raise ToolFailed(f"it gave a {type(found).__name__}, not a filter")
            kind = shape(asked)
            filters = parse(asked, manager.model.model, self._models.names, self._dialect, prefix)
            return filters.conditions, filters.values(asked), kind
        except ToolError as error:
            _log.warning("visible of %s shows nothing: %s", manager.name, error)
            return (NEVER,), {}, "nothing"

    async def query(self, request: QueryRequest, view: View) -> JsonObject:
        """Read one page of a manager.

        Shape: {"data": [{...}], "total_count": 12, "has_more": true, "result_id": "..."}; with
        "truncated": true when something was left out of the rows, and "notes" on values without a
        wire form. Rows come in the asked order, then by primary key. Raises: ToolRetry on anything
        that the request can correct; ToolFailed after ``query_timeout_seconds``.
        """
        rows, offset = await self._read(request, view)
        kept = _fit(rows)
        page: JsonObject = {
            "data": [*kept],
            "total_count": rows.total,
            "has_more": rows.total > offset + len(kept),
            "result_id": secrets.token_hex(8),
        }
        if rows.truncated:
            page["truncated"] = True
        if rows.notes:
            page["notes"] = [*sorted(rows.notes)]
        return page

    async def _read(self, request: QueryRequest, view: View) -> tuple[Rows, int]:
        manager = view.manager(request.manager)
        limit = min(whole("limit", request.limit, 1, self._max_results), self._max_results)
        offset = whole("offset", request.offset, 0, 0)
        filters = {} if request.filters is None else request.filters
        if not is_object(filters):
            raise ToolRetry("filters: must be an object.")
        known = self._shape(request, manager, filters, view)
        values = {**view.values, **known.filter.values(filters)}

        def operation(connection: Connection) -> Rows:
            if known.compiled is None:
                known.compiled = self._compiler.compile(
                    known.selection, known.filter.conditions, known.order, view.visible
                )
            return known.compiled.read(connection, values, limit, offset)

        try:
            return await self._reads.run(operation, self._timeout), offset
        except TooManyRows:
            raise ToolRetry(
                "fields: the nested lists of this page hold too many rows. Ask for a smaller limit"
                " of the page or of the lists."
            ) from None
        except TimeoutError:
            raise ToolFailed(
                f"The query took longer than {self._timeout} seconds and was stopped."
                " Narrow it with filters, or ask for fewer relations."
            ) from None
        except DBAPIError as error:
            _log.exception("reading %s failed", manager.name)
            raise ToolFailed("The database could not answer this query.") from error

    def _shape(
        self, request: QueryRequest, manager: Manager, filters: JsonObject, view: View
    ) -> _Shape:
        """The checked request without its values; requests of one shape share it."""
        try:
            asked = orjson.dumps((request.fields, request.order_by))
        except TypeError:
            raise ToolRetry("fields: must be plain JSON with numbers of sensible size.") from None
        key = manager.name, asked, shape(filters), view.shape
        known = self._shapes.get(key)
        if known is None:
            parsed = parse(filters, manager.model.model, view.names, self._dialect)
            selection = select(view, manager, request.fields)
            known = _Shape(selection, parsed, sort(view, manager, request.order_by))
            while len(self._shapes) >= _SHAPES:
                del self._shapes[next(iter(self._shapes))]
            self._shapes[key] = known
        return known

    async def _resolve(self, request: QueryRequest, context: object) -> Sequence[Json]:
        """Answer a GraphQL root field with the rows that the tool gives."""
        if not isinstance(context, View):
            raise TypeError("the context value of a GraphQL request must be a View")
        rows, _ = await guarded("a GraphQL read", lambda: self._read(request, context))
        return _fit(rows)


def _listed(value: object) -> Json:
    """Lists, wherever in a filter a project's code may well have a tuple or a set."""
    if isinstance(value, tuple | set | frozenset | list):
        return [_listed(item) for item in cast("Iterable[object]", value)]  # whatever they are
    if is_object(value):
        return {str(key): _listed(item) for key, item in value.items()}
    return cast("Json", value)  # the coercer of the column checks it


def _fit(rows: Rows) -> list[JsonObject]:
    """Leave out rows at the end so that the result stays within ``MAX_RESULT_BYTES``."""
    if len(orjson.dumps(rows.data)) <= MAX_RESULT_BYTES:
        return rows.data
    rows.truncated = True
    rows.notes.add(f"the result is cut at {MAX_RESULT_BYTES} bytes: ask for fewer fields or rows")
    size, kept = 0, list[JsonObject]()
    for row in rows.data:
        size += len(orjson.dumps(row)) + 1
        if size > MAX_RESULT_BYTES:
            break
        kept.append(row)
    return kept
