"""Tools: what a model may call, how its arguments are checked, and those that read data.

A tool returns JSON or raises a ``ToolError``, which the model reads; nothing else gets out of
``ToolRegistry.call``. Source: design.md 4, data tools.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from schema.aggregates import AggregateRequest
from schema.errors import ToolRetry, UnknownTool, guarded
from schema.events import Actor, Json, JsonObject, ToolDefinition, is_object
from schema.managers import Manager
from schema.measures import Op
from schema.names import echo, listed, nearest
from schema.query import Reader
from schema.request import QueryRequest
from schema.views import View


@dataclass(frozen=True, slots=True)
class ToolContext:
    """What a call gets: who asks, what that actor may see for this run, and the way to rows."""

    actor: Actor
    view: View
    reader: Reader


@dataclass(frozen=True, slots=True)
class Parameter:
    """One argument of a tool; ``items`` is the JSON Schema of an array's items."""

    name: str
    type: Literal["string", "integer", "array", "object"]
    description: str
    required: bool = False
    items: JsonObject | None = None

    @property
    def schema(self) -> JsonObject:
        """The argument as JSON Schema."""
        schema: JsonObject = {"type": self.type, "description": self.description}
        return schema if self.items is None else {**schema, "items": self.items}

    def accepts(self, value: Json) -> bool:
        """Tell whether a value has the declared type; a boolean is no integer."""
        match self.type:
            case "string":
                return isinstance(value, str)
            case "integer":
                return isinstance(value, int) and not isinstance(value, bool)
            case "array":
                return isinstance(value, list)
            case "object":
                return is_object(value)


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool: what the model is told, and the function that answers a checked call."""

    name: str
    description: str
    parameters: tuple[Parameter, ...]
    answer: Callable[[JsonObject, ToolContext], Awaitable[Json]]

    @property
    def definition(self) -> ToolDefinition:
        """The tool as a provider is given it."""
        required: list[Json] = [p.name for p in self.parameters if p.required]
        schema: JsonObject = {
            "type": "object",
            "properties": {p.name: p.schema for p in self.parameters},
            "required": required,
            "additionalProperties": False,
        }
        return ToolDefinition(self.name, self.description, schema)

    def check(self, args: JsonObject) -> None:
        """Check the arguments against the parameters. Raises: ToolRetry, which names one."""
        known = {p.name: p for p in self.parameters}
        for name in args:
            if name not in known:
                hint = nearest(name, known)
                raise ToolRetry(
                    f"Unexpected argument {echo(name)}.{hint} {self.name} takes {', '.join(known)}."
                )
        for name, parameter in known.items():
            value = args.get(name)
            if value is None and parameter.required:
                raise ToolRetry(f"Missing argument {name}: {parameter.description}")
            if value is not None and not parameter.accepts(value):
                article = "an" if parameter.type[0] in "aio" else "a"
                raise ToolRetry(f"{name}: must be {article} {parameter.type}.")


class ToolRegistry:
    """The tools that are offered."""

    def __init__(self, tools: Iterable[Tool]) -> None:
        self._tools: Mapping[str, Tool] = {t.name: t for t in sorted(tools, key=lambda t: t.name)}
        self.definitions: list[ToolDefinition] = [t.definition for t in self._tools.values()]

    def extended(self, tools: Iterable[Tool]) -> "ToolRegistry":
        """The same with more tools."""
        return ToolRegistry([*self._tools.values(), *tools])

    async def call(self, name: str, args: JsonObject, context: ToolContext) -> Json:
        """Answer one call. Raises: ToolError and nothing else, save for cancellation."""
        tool = self._tools.get(name)
        if tool is None:
            offered = ", ".join(self._tools)
            hint = nearest(name, self._tools)
            raise UnknownTool(f"There is no tool {echo(name)}.{hint} The tools are {offered}.")
        tool.check(args)
        with guarded(f"tool {name}"):
            return await tool.answer(args, context)


def data_tools() -> list[Tool]:
    """The tools that find managers and read their rows."""
    return [
        Tool(
            "search_managers",
            "Find the managers (kinds of records) that a question is about, best first. Call this"
            " before you use a manager you have not seen yet. Ask with the nouns of the question,"
            ' or with "what data is there" to list managers; so do words that are nowhere, with'
            ' the reason "catalogue". Example: {"query": "projects parts"}',
            (Parameter("query", "string", "Words to look for.", required=True),),
            _search_managers,
        ),
        Tool(
            "get_manager_schema",
            "Get the exact fields, relations and filter lookups of one manager. Call this before"
            ' you query it. Example: {"manager": "Part"}',
            (_MANAGER,),
            _get_manager_schema,
        ),
        Tool(
            "find_path",
            "Find the relations that lead from one manager to another, to nest fields or to filter"
            " across managers: hops parts, material make the filter parts__material__name."
            ' Example: {"from_manager": "Project", "to_manager": "Material"}',
            (
                Parameter("from_manager", "string", "The manager to start at.", required=True),
                Parameter("to_manager", "string", "The manager to reach.", required=True),
            ),
            _find_path,
        ),
        Tool("query", _QUERY, _QUERY_PARAMETERS, _query),
        Tool("aggregate", _AGGREGATE, _AGGREGATE_PARAMETERS, _aggregate),
    ]


def direct_tools(managers: Iterable[Manager]) -> list[Tool]:
    """One tool for each manager that reads its rows, for models that do better with few steps."""
    return [_direct_tool(manager) for manager in managers]


def _direct_tool(manager: Manager) -> Tool:
    def answer(args: JsonObject, context: ToolContext) -> Awaitable[Json]:
        return _query({"manager": manager.name, **args}, context)

    about = f": {manager.description.rstrip('.')}" if manager.description else ""
    return Tool(
        f"query_{manager.name.replace('_', '').lower()}",
        f"Read rows of {manager.name}{about}. Takes what the tool query takes, but no manager."
        f" Fields: {listed(manager.fields)}. Relations: {listed(manager.links) or 'none'}.",
        tuple(p for p in _QUERY_PARAMETERS if p is not _MANAGER),
        answer,
    )


_MANAGER = Parameter("manager", "string", "The manager's exact name.", required=True)

_QUERY = (
    "Read rows of one manager. total_count is the number of all rows that match, so to count, set"
    " limit to 1 and read total_count. If has_more is true, read on with offset."
    ' Example: {"manager": "Part", "fields": ["name", {"material": ["name"]}], "filters":'
    ' {"price__gt": 3, "material__name__icontains": "alu"}, "order_by": ["-price"], "limit": 10}'
)

_QUERY_PARAMETERS = (
    _MANAGER,
    Parameter(
        "fields",
        "array",
        'Names of fields, and relations as {"material": ["name"]} or {"parts": {"fields": ["name"],'
        ' "limit": 5}}. Left out: all fields, no relations.',
        items={"anyOf": [{"type": "string"}, {"type": "object"}]},
    ),
    Parameter(
        "filters",
        "object",
        "Conditions that must all hold: field for equality, or field__lookup with a lookup of"
        " get_manager_schema, such as price__gt, name__icontains, id__in: [1, 2],"
        " material__isnull: true. Relations are followed as in material__name. Combine with"
        ' {"or": [{...}, {...}]}, {"and": [...]} and {"not": {...}}.',
    ),
    Parameter(
        "order_by",
        "array",
        'Fields to sort by, with - for descending: ["-price", "material__name"]. A path may lead'
        " over relations to one row.",
        items={"type": "string"},
    ),
    Parameter("limit", "integer", "The most rows to return, from 1."),
    Parameter("offset", "integer", "How many rows to skip, from 0."),
)

_AGGREGATE = (
    "Count, sum or average rows of one manager, in all or for each group. The database does it over"
    " all rows that match, so use this instead of adding up rows of query. A result has the keys of"
    ' group_by and of measures, such as avg_price. Example: {"manager": "Part", "group_by":'
    ' ["material__name"], "measures": [{"op": "count"}, {"op": "avg", "field": "price"}],'
    ' "having": {"count__gt": 1}, "order_by": ["-avg_price"], "limit": 5}'
)

_AGGREGATE_PARAMETERS = (
    _MANAGER,
    Parameter("filters", "object", "Which rows to take, as for query."),
    Parameter(
        "group_by",
        "array",
        'Fields to group by: ["city", "material__name"], over relations to one row. After a date or'
        " time __year, __quarter, __month, __week, __day or __hour gives that part as an integer:"
        ' ["made_at__month"]. Left out: one result for all rows.',
        items={"type": "string"},
    ),
    Parameter(
        "measures",
        "array",
        'What to tell of each group: op, its field (left out, count counts rows), and "as" for a'
        " key other than count or op_field. Left out: the count of rows.",
        items={
            "type": "object",
            "properties": {
                "op": {"enum": [*get_args(Op)]},
                "field": {"type": "string"},
                "as": {"type": "string"},
            },
            "required": ["op"],
            "additionalProperties": False,
        },
    ),
    Parameter(
        "having",
        "object",
        'Conditions on measures, in the language of filters: {"count__gt": 10}.',
    ),
    Parameter(
        "order_by",
        "array",
        'Keys of the result to sort by, with - for descending: ["-count"]. Left out: group_by.',
        items={"type": "string"},
    ),
    Parameter("limit", "integer", "The most groups to return, from 1."),
    Parameter("offset", "integer", "How many groups to skip, from 0."),
)


async def _search_managers(args: JsonObject, context: ToolContext) -> Json:
    return context.view.index.search(_text(args, "query"))


async def _get_manager_schema(args: JsonObject, context: ToolContext) -> Json:
    return context.view.index.describe(_text(args, "manager"))


async def _find_path(args: JsonObject, context: ToolContext) -> Json:
    return context.view.index.find_path(_text(args, "from_manager"), _text(args, "to_manager"))


async def _query(args: JsonObject, context: ToolContext) -> Json:
    request = QueryRequest(
        manager=_text(args, "manager"),
        fields=_list(args, "fields"),
        filters=args.get("filters"),
        order_by=_list(args, "order_by"),
        limit=args.get("limit"),
        offset=args.get("offset"),
    )
    return await context.reader.query(request, context.view)


async def _aggregate(args: JsonObject, context: ToolContext) -> Json:
    request = AggregateRequest(
        manager=_text(args, "manager"),
        filters=args.get("filters"),
        group_by=_list(args, "group_by"),
        measures=_list(args, "measures"),
        having=args.get("having"),
        order_by=_list(args, "order_by"),
        limit=args.get("limit"),
        offset=args.get("offset"),
    )
    return await context.reader.aggregate(request, context.view)


def _list(args: JsonObject, name: str) -> list[Json] | None:
    """An argument that ``Tool.check`` has found to be an array, if it is given."""
    value = args.get(name)
    return value if isinstance(value, list) else None


def _text(args: JsonObject, name: str) -> str:
    """An argument that ``Tool.check`` has found to be a text."""
    value = args[name]
    return value if isinstance(value, str) else ""
