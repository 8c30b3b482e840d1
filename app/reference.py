"""The reference pages, written from the settings, errors and events themselves.

`frontdesk settings`, `frontdesk errors` and `frontdesk events` print them; the pages in docs/ are
copies that `make docs` renews.
"""

import inspect
import re
from collections.abc import Iterator
from typing import TypeVar, get_args

from pydantic import BaseModel, create_model
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core.core_schema import CallableSchema

from app.settings import named_fields
from schema.errors import ChatError, ToolError
from schema.events import LIVE, Event, Usage

_TOP = """\
# Settings

Every setting is an environment variable, in upper or in lower case. A file `.env` in the working
directory, of lines `NAME=value`, fills in what the environment does not set, for Frontdesk and for
all that runs in its process. A name that begins with `FRONTDESK_` and is no setting stops the
start; so does a value that is not valid. The error names the setting and never shows its value.

- A **list** is written with commas, `a,b`, or as JSON, `["a", "b"]`.
- A **dotted path** is `package.module:name` or `package.module.name`, importable from the working
  directory. In Python, `load_settings(permission=...)` takes the object itself.
- A **JSON object** can also be set part by part; a part wins over the same part of the object.

| Name | Value | Default | Meaning |
|---|---|---|---|
"""


def settings_reference() -> str:
    """Write the Markdown page of all settings."""
    rows = (
        f"| `{name}` | {_value(field)} | {_default(field)} | {_meaning(field)} |\n"
        for name, field in named_fields().items()
    )
    return _TOP + "".join(rows)


class _Schema(GenerateJsonSchema):
    """JSON Schema with a word for code, which it has none for."""

    def callable_schema(self, schema: CallableSchema) -> JsonSchemaValue:
        return {"format": "code"}


def _value(field: FieldInfo) -> str:
    one = create_model("One", value=(field.rebuild_annotation(), ...))
    schema = one.model_json_schema(schema_generator=_Schema)["properties"]["value"]
    options = schema.get("anyOf", [schema])
    if {"format": "code"} in options:
        return "dotted path"
    return _words(options[0])


def _words(schema: JsonSchemaValue) -> str:
    match schema:
        case {"enum": [*others, last]}:
            return f"{', '.join(f'`{name}`' for name in others)} or `{last}`"
        case {"$ref": _} | {"type": "object"}:
            return "JSON object"
        case {"type": "array"}:
            return "list"
        case {"type": "boolean"}:
            return "`true` or `false`"
        case {"type": "integer", "minimum": least}:
            return f"whole number from {least}"
        case {"type": "number", "exclusiveMinimum": limit}:
            return f"number above {limit:g}"
        case {"format": "zoneinfo"}:
            return "time zone"
        case {"type": "string", "minLength": least} if least > 1:
            return f"text of {least} characters or more"
        case {"type": "string"}:
            return "text"
        case _:
            raise ValueError(f"no words for {schema}")


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "must be set"
    if field.default in (None, ()) or not field.repr:  # what is not shown is a secret
        return "unset"
    if field.default == "":
        return "empty"
    value = str(field.default)
    return f"`{value.lower() if isinstance(field.default, bool) else value}`"


def _meaning(field: FieldInfo) -> str:
    examples = " ".join(f"Example: `{example}`" for example in field.examples or ())
    return f"{field.description} {examples}".strip()


# --- events ---------------------------------------------------------------------------------------

_EVENTS = """\
# Events

A turn is told in events, the same ones on every way in: in the list `events` of `POST /chat/`, as
server-sent events (`id: <run id>:<number>` and `data: <JSON>`), and as frames of a WebSocket, which
have `run_id` and `seq` besides. Numbers rise within a run and are never used twice; they have gaps,
because some events are shown on request only. Each run ends with exactly one `done` or `error`.
Ignore fields and types that you do not know: there will be more.

In TypeScript and Python they have types; see [clients.md](clients.md). Their JSON Schema is
[events.schema.json](../openapi/events.schema.json), the codes of `error` are in
[errors.md](errors.md).
"""


def events_reference() -> str:
    """Write the Markdown page of all events."""
    union = get_args(Event.__value__)[0]
    return _EVENTS + "".join(_event(kind) for kind in get_args(union))


def _event(kind: type[BaseModel]) -> str:
    """Write what an event says of itself, and its fields; its type is its heading."""
    schema = kind.model_json_schema()
    fields = schema["properties"]
    name = fields.pop("type")["const"]
    shown = " With `live: true` only." if name in LIVE else ""
    rows = "".join(
        f"| `{field}` | {_json_words(part)} | {part.get('description', '')} |\n"
        for field, part in fields.items()
    )
    said = _when(kind).removeprefix("Live: ")
    said = said[:1].upper() + said[1:]
    return f"\n## `{name}`\n\n{said}{shown}\n\n| Field | Value | Meaning |\n|---|---|---|\n{rows}"


def _json_words(schema: JsonSchemaValue) -> str:
    match schema:
        case {"anyOf": [{"type": kind}, {"type": "null"}]}:
            return f"{kind}, may be left out"
        case {"enum": [*names]}:
            return ", ".join(f"`{name}`" for name in names)
        case {"$ref": "#/$defs/Usage"}:
            return ", ".join(f"`{name}`" for name in Usage.__slots__)
        case {"type": str(kind)}:
            return kind
        case _:
            return "any JSON"


# --- errors ---------------------------------------------------------------------------------------

_ERRORS = """\
# Errors

## What a client is told

An error that a turn ends with, or that refuses a message, is an event under status 200:
`{"type": "error", "code": "...", "message": "..."}`, with `retry_after_seconds` where it is known
how long to wait, and with `error_id` where the server's log has details. What has a status of its
own is a body `{"detail": "...", "code": "..."}`. Act on the code: the sentences may change.

| Code | Status | Message | When |
|---|---|---|---|
"""
_TOOL_ERRORS = """
## What the model is told

A call that fails is a result `{"status": "error", "code": "...", "message": "..."}` in the event
`tool_result`. It goes back to the model and never ends a turn. A call that was cut off has the code
`deadline_exceeded` or `interrupted`.

| Code | When |
|---|---|
"""
_IDS = """
## What a start is stopped by

`frontdesk check` and every start tell it in a sentence or two, with what mends it, and end with
status 2.

| Id | What is wrong |
|---|---|
| `E001` | what is exposed: its models, or the database that they are in |
| `E002` | a setting, or something that a setting names |
| `E003` | a package is not installed; the sentence names the extra |
| `E004` | the provider can't be imported, made or used |
"""


def errors_reference() -> str:
    """Write the Markdown page of all errors."""
    rows = (
        f"| `{error.code}` | {_status(error)} | {error.public} | {_when(error)} |\n"
        for error in _all_of(ChatError)
    )
    calls = (f"| `{error.code}` | {_when(error)} |\n" for error in _all_of(ToolError))
    return _ERRORS + "".join(rows) + _TOOL_ERRORS + "".join(calls) + _IDS


_E = TypeVar("_E", bound=Exception)


def _all_of(root: type[_E]) -> Iterator[type[_E]]:
    """Give the kinds of an error that have a code of their own, in their order."""
    for kind in root.__subclasses__():
        if "code" in vars(kind):
            yield kind
            yield from _all_of(kind)


def _status(error: type[ChatError]) -> str:
    return "an event" if error.status == 200 else f"{error.status}; over a WebSocket an event"


def _when(error: type[object]) -> str:
    """Say what the class says of itself, without where that comes from."""
    text = " ".join(inspect.cleandoc(error.__doc__ or "").split())
    return re.sub(r" (Source|Shape): .*$", "", text)
