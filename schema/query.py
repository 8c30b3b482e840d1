"""The ``query`` of tools and GraphQL, and ``aggregate``: checked, compiled once per shape, read.

``Reader`` owns everything that reading needs and is open as long as the application is. It is the
one way to rows, and to what is counted of them. Source: design.md 4, data tools; design.md 5.
"""

import asyncio
import logging
import secrets
from collections.abc import Callable, Generator, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Self
from weakref import WeakKeyDictionary
from zoneinfo import ZoneInfo

import orjson
import sqlalchemy as sa
import strawberry
from sqlalchemy.exc import DBAPIError

from schema.aggregates import AggregateRequest, about_having, check, parse_having
from schema.compile import Question, compile_page
from schema.errors import ConfigurationError, ToolFailed, ToolRetry, guarded
from schema.events import Actor, Json, JsonObject, is_object
from schema.filters import Filter, parse, shape
from schema.graphql import graphql_schema, managers_of
from schema.index import SchemaIndex
from schema.managers import Manager, Managers
from schema.measures import ZONE, compile_aggregation, is_too_large
from schema.reads import Reads, check_tables, open_reads
from schema.request import QueryRequest, select, sort, whole
from schema.resolved import read_resolved, refuse_sums
from schema.rows import Rows, TooManyRows
from schema.sources import SESSIONS
from schema.views import Models, View, Views

_log = logging.getLogger(__name__)

MAX_RESULT_BYTES = 256 * 1024
_SHAPES = 256
"""Shapes kept at a time. The largest that can be asked for takes more than a megabyte."""

_UTC = ZoneInfo("UTC")


@dataclass(frozen=True, slots=True)
class _Shape:
    """All of a request but its values."""

    question: Question
    filter: Filter
    having: Filter


class _Shapes:
    """Shapes by what they were asked with; the oldest make room."""

    def __init__(self) -> None:
        self._known: dict[object, _Shape] = {}

    def find(self, key: object, make: Callable[[], _Shape]) -> _Shape:
        """Give the shape of a key, made if it is not known."""
        if key not in self._known:
            made = make()
            while len(self._known) >= _SHAPES:
                del self._known[next(iter(self._known))]
            self._known[key] = made
        return self._known[key]


class Reader:
    """The exposed data, open for reading. An async context manager.

    ``database_url`` is the chat database's, for managers without one of their own; ``timezone`` is
    that of parts of dates, and of moments without a zone in requests. Raises: ConfigurationError,
    on construction about what is exposed, on entry about the databases.
    """

    def __init__(
        self,
        managers: Managers,
        *,
        database_url: str,
        max_results: int = 200,
        query_timeout_seconds: float | None = None,
        timezone: ZoneInfo = _UTC,
    ) -> None:
        exposed = managers.build()
        self.graphql = graphql_schema(exposed, self._resolve)
        self.index = SchemaIndex(managers_of(self.graphql))
        self._managers = managers
        self._database_url = database_url
        self._max_results = max_results
        self._timeout = query_timeout_seconds
        self._zone = timezone
        self._models = Models(managers, exposed)
        self._shapes = _Shapes()
        self._group_shapes = _Shapes()
        self._schemas: WeakKeyDictionary[SchemaIndex, strawberry.Schema] = WeakKeyDictionary()
        self._open = AsyncExitStack()

    async def __aenter__(self) -> Self:
        urls = self._managers.urls(self._database_url)
        managers = self.index.managers.values()
        for manager in managers:
            if manager.left_out:
                left_out = ", ".join(sorted(manager.left_out))
                _log.info("%s is shown without %s: no form in JSON.", manager.name, left_out)
        async with AsyncExitStack() as opening:
            self._databases = {
                name: await self._opened(name, urls[name], opening)
                for name in sorted({m.model.database for m in managers if m.resolver is None})
            }
            dialects = {name: reads.dialect for name, reads in self._databases.items()}
            self._views = Views(self.index, self._models, dialects, self._zone)
            self._open = opening.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._open.aclose()

    async def _opened(self, name: str, url: str, opening: AsyncExitStack) -> Reads:
        """Open one database and check that it has the tables that are exposed."""
        engine = self._managers.reads if name == SESSIONS else None
        reads = await opening.enter_async_context(open_reads(url, engine))
        exposed = [m for m in self.index.managers.values() if m.model.database == name]
        place = where = str(sa.make_url(url).database)
        if url == self._database_url:
            where += " (the chat's database; sessions= or Tortoise connections lead elsewhere)"
        try:
            await reads.run(lambda connection: check_tables(connection, exposed, where))
        except DBAPIError as error:
            raise ConfigurationError(
                "E001",
                f"The database {place} can't be read: {error.orig}.",
                "Give the URL of a database that may be read and that no other program locks.",
            ) from error
        return reads

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
        return _page(*await self._read(request, view))

    async def aggregate(self, request: AggregateRequest, view: View) -> JsonObject:
        """Count, sum and group the rows of a manager.

        Shape: as ``query``; its rows are groups, {"carrier": "UA", "avg_dep_delay": 12.1}, with
        the keys of ``group_by`` as they were asked, and ``total_count`` is the number of groups.
        They come in the asked order, then by their keys. Raises: as ``query``.
        """
        return _page(*await self._read_groups(request, view))

    async def _read(self, request: QueryRequest, view: View) -> tuple[Rows, int]:
        manager = view.manager(request.manager)
        limit, offset = self._numbers(request)
        with self._answering(manager):
            if manager.resolver is not None:
                async with asyncio.timeout(self._timeout):
                    page = read_resolved(manager.resolver, request, view, limit, offset)
                    return await page, offset
            filters = _conditions("filters", request.filters)
            known = self._shape(request, manager, filters, view)
            values = {**view.values, **known.filter.values(filters)}
            read = partial(known.question.read, values=values, limit=limit, offset=offset)
            return await self._databases[manager.model.database].run(read, self._timeout), offset

    async def _read_groups(
        self, request: AggregateRequest, view: View, *, is_exact: bool = False
    ) -> tuple[Rows, int]:
        manager = view.manager(request.manager)
        refuse_sums(manager)
        limit, offset = self._numbers(request)
        filters = _conditions("filters", request.filters)
        having = _conditions("having", request.having)
        known = self._group_shape(request, view, filters, having, is_exact=is_exact)
        values = {ZONE: view.zone.key, **view.values, **known.filter.values(filters)}
        with about_having():
            values |= known.having.values(having)
        read = partial(known.question.read, values=values, limit=limit, offset=offset)
        reads = self._databases[manager.model.database]
        with self._answering(manager):
            try:
                return await reads.run(read, self._timeout), offset
            except DBAPIError as error:
                if is_exact or not is_too_large(error):
                    raise
        return await self._read_groups(request, view, is_exact=True)

    def _numbers(self, request: QueryRequest | AggregateRequest) -> tuple[int, int]:
        """The checked limit and offset."""
        limit = min(whole("limit", request.limit, 1, self._max_results), self._max_results)
        return limit, whole("offset", request.offset, 0, 0)

    @contextmanager
    def _answering(self, manager: Manager) -> Generator[None]:
        """Tell the model why the rows of a manager can't be read. Raises: ToolError."""
        try:
            yield
        except TimeoutError:
            raise ToolFailed(
                f"The query took longer than {self._timeout} seconds and was stopped."
                " Narrow it with filters, or ask for fewer relations."
            ) from None
        except TooManyRows:
            raise ToolRetry(
                "fields: the nested lists of this page hold too many rows. Ask for a smaller limit"
                " of the page or of the lists."
            ) from None
        except DBAPIError as error:
            # Its message has the values of the statement; they are nobody else's business.
            _log.error("Reading %s failed: %s", manager.name, error.orig)
            _log.debug("The statement was: %s", error.statement)
            raise ToolFailed("The database could not answer this query.") from error

    def _shape(
        self, request: QueryRequest, manager: Manager, filters: JsonObject, view: View
    ) -> _Shape:
        """The checked request without its values; requests of one shape share it."""
        asked = _plain("fields", (request.fields, request.order_by))

        def make() -> _Shape:
            dialect = self._databases[manager.model.database].dialect
            parsed = parse(filters, manager.model.model, view.names, dialect, zone=view.zone)
            selection = select(view, manager, request.fields)
            order = sort(view, manager, request.order_by)
            page = partial(compile_page, selection, parsed.conditions, order)
            question = Question(page, self._models, view.visible, dialect)
            return _Shape(question, parsed, having=Filter((), ()))

        return self._shapes.find((manager.name, asked, shape(filters), view.shape), make)

    def _group_shape(
        self,
        request: AggregateRequest,
        view: View,
        filters: JsonObject,
        having: JsonObject,
        *,
        is_exact: bool,
    ) -> _Shape:
        manager = view.manager(request.manager)
        asked = _plain("measures", (request.group_by, request.measures, request.order_by))

        def make() -> _Shape:
            dialect = self._databases[manager.model.database].dialect
            aggregation = check(request, manager, view, is_exact=is_exact)
            parsed = parse(filters, manager.model.model, view.names, dialect, zone=view.zone)
            held = parse_having(having, aggregation, dialect, view.zone)
            page = partial(compile_aggregation, aggregation, parsed.conditions, held.conditions)
            return _Shape(Question(page, self._models, view.visible, dialect), parsed, held)

        with about_having():
            kind = shape(having)
        key = manager.name, asked, shape(filters), kind, view.shape, is_exact
        return self._group_shapes.find(key, make)

    async def _resolve(self, request: QueryRequest, context: object) -> Sequence[Json]:
        """Answer a GraphQL root field with the rows that the tool gives."""
        if not isinstance(context, View):
            raise TypeError("the context value of a GraphQL request must be a View")
        with guarded("a GraphQL read"):
            rows, _ = await self._read(request, context)
        return _fit(rows)


def _plain(argument: str, asked: object) -> bytes:
    try:
        return orjson.dumps(asked)
    except TypeError:
        raise ToolRetry(f"{argument}: must be plain JSON with numbers of sensible size.") from None


def _conditions(argument: str, asked: Json) -> JsonObject:
    conditions = {} if asked is None else asked
    if not is_object(conditions):
        raise ToolRetry(f"{argument}: must be an object.")
    return conditions


def _page(rows: Rows, offset: int) -> JsonObject:
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


def _fit(rows: Rows) -> list[JsonObject]:
    """Leave out rows at the end so that the result stays within ``MAX_RESULT_BYTES``."""
    size = 1
    # Row by row: all of them may be a thousand times too large.
    for number, row in enumerate(rows.data):
        size += len(orjson.dumps(row)) + 1
        if size > MAX_RESULT_BYTES:
            rows.truncated = True
            rows.notes.add(
                f"the result is cut at {MAX_RESULT_BYTES} bytes: ask for fewer fields or rows"
            )
            return rows.data[:number]
    return rows.data
