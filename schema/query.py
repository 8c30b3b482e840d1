"""The ``query`` of tools and GraphQL: a request is checked, compiled once per shape, and read.

``Reader`` owns everything that reading needs and is open as long as the application is. Its
``query`` is the one way to rows. Source: design.md 4, data tools; design.md 5.
"""

import logging
import secrets
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Self, TypeVar
from weakref import WeakKeyDictionary

import orjson
import sqlalchemy as sa
import strawberry
from sqlalchemy.engine import Connection
from sqlalchemy.exc import DBAPIError

from schema.compile import Compiler, Order, Selection
from schema.errors import ConfigurationError, ToolFailed, ToolRetry, guarded
from schema.events import Actor, Json, JsonObject, is_object
from schema.filters import Filter, parse, shape
from schema.graphql import QueryRequest, graphql_schema, managers_of
from schema.index import SchemaIndex
from schema.managers import Manager, Managers
from schema.reads import Reads, check_tables, open_reads
from schema.request import select, sort, whole
from schema.rows import Compiled, Rows, TooManyRows
from schema.sources import SESSIONS
from schema.views import Models, View, Views

_log = logging.getLogger(__name__)

MAX_RESULTS = 200
MAX_RESULT_BYTES = 256 * 1024
_SHAPES = 1_024

_T = TypeVar("_T")


@dataclass(slots=True)
class _Shape:
    """All of a request but its values; ``compiled`` is made by the first read."""

    selection: Selection
    filter: Filter
    order: tuple[Order, ...]
    compiled: Compiled | None = None


@dataclass(frozen=True, slots=True)
class _Database:
    """One of the project's databases, open for reading."""

    reads: Reads
    compiler: Compiler


class Reader:
    """The exposed data, open for reading. An async context manager.

    ``database_url`` is the chat database's, for managers without one of their own. Raises:
    ConfigurationError, on construction about what is exposed, on entry about the databases.
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
        self.index = SchemaIndex(managers_of(self.graphql))
        self._managers = managers
        self._database_url = database_url
        self._max_results = max_results
        self._timeout = query_timeout_seconds
        self._models = Models(managers, exposed)
        self._shapes: dict[object, _Shape] = {}
        self._schemas: WeakKeyDictionary[SchemaIndex, strawberry.Schema] = WeakKeyDictionary()
        self._open = AsyncExitStack()

    async def __aenter__(self) -> Self:
        urls = self._managers.urls(self._database_url)
        async with AsyncExitStack() as opening:
            self._databases = {
                name: await self._opened(name, urls[name], opening)
                for name in sorted({m.model.database for m in self.index.managers.values()})
            }
            dialects = {name: d.compiler.dialect for name, d in self._databases.items()}
            self._views = Views(self.index, self._models, dialects)
            self._open = opening.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._open.aclose()

    async def _opened(self, name: str, url: str, opening: AsyncExitStack) -> _Database:
        """Open one database and check that it has the tables that are exposed."""
        engine = self._managers.reads if name == SESSIONS else None
        reads = await opening.enter_async_context(open_reads(url, engine))
        exposed = [m for m in self.index.managers.values() if m.model.database == name]
        where = str(sa.make_url(url).database)
        try:
            await reads.run(lambda connection: check_tables(connection, exposed, where))
        except DBAPIError as error:
            raise ConfigurationError(
                "E001",
                f"The database {where} can't be read: {error.orig}.",
                "Give the URL of a SQLite file that no other program keeps locked.",
            ) from error
        return _Database(reads, Compiler(self._models, reads.dialect))

    async def view(self, actor: Actor) -> View:
        """Evaluate what ``actor`` may see, once; the result holds for a run."""
        return await self._views.of(actor)

    def schema(self, view: View) -> strawberry.Schema:
        """The GraphQL schema of what a view shows; requests to it need the view as context."""
        if view.index is self.index:
            return self.graphql
        known = self._schemas.get(view.index)
        if known is None:
            known = graphql_schema([*view.managers.values()], self._resolve)
            self._schemas[view.index] = known
        return known

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
        database = self._databases[manager.model.database]
        known = self._shape(request, manager, filters, view)
        values = {**view.values, **known.filter.values(filters)}

        def operation(connection: Connection) -> Rows:
            if known.compiled is None:
                known.compiled = database.compiler.compile(
                    known.selection, known.filter.conditions, known.order, view.visible
                )
            return known.compiled.read(connection, values, limit, offset)

        try:
            return await self._run(manager, operation), offset
        except TooManyRows:
            raise ToolRetry(
                "fields: the nested lists of this page hold too many rows. Ask for a smaller limit"
                " of the page or of the lists."
            ) from None

    async def _run(self, manager: Manager, operation: Callable[[Connection], _T]) -> _T:
        """Read from the database of a manager. Raises: ToolFailed."""
        reads = self._databases[manager.model.database].reads
        try:
            return await reads.run(operation, self._timeout)
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
            dialect = self._databases[manager.model.database].compiler.dialect
            parsed = parse(filters, manager.model.model, view.names, dialect)
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
