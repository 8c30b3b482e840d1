"""Events as they are published: each one that a test is shown fits openapi/events.schema.json."""

import json
from functools import cache
from pathlib import Path

from jsonschema import Draft202012Validator

from schema.events import EVENTS, Event, Json, JsonObject

SCHEMA: JsonObject = json.loads(
    (Path(__file__).parents[1] / "openapi/events.schema.json").read_text("utf-8")
)


@cache
def _validator() -> Draft202012Validator:
    parts = SCHEMA["$defs"]
    assert isinstance(parts, dict)
    # All that was read from JSON is JSON, and to prove it of each value of each row takes long.
    return Draft202012Validator({**SCHEMA, "$defs": {**parts, "Json": True}})


def event_from(value: Json) -> Event:
    """Read an event that came as JSON."""
    _validator().validate(value)  # pyright: ignore[reportUnknownMemberType]
    return EVENTS.validate_python(value)
