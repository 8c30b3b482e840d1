"""The reference of all settings, written from the settings themselves.

`frontdesk settings` prints it; docs/settings.md is a copy that `make docs` renews.
"""

from pydantic import create_model
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core.core_schema import CallableSchema

from app.settings import named_fields

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


def reference() -> str:
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
