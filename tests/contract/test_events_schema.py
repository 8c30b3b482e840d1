"""The JSON Schema of one event, for clients that read streams without generated types."""

import json
from decimal import Decimal

import pytest
from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError
from published import event_from

from schema.events import (
    Done,
    EntryStored,
    Event,
    Failed,
    JsonObject,
    Resync,
    RunStarted,
    TextChunk,
    ToolCall,
    ToolResult,
    Usage,
    UsageReported,
    encode,
)
from tests.contract.reading import objects, part

EVENTS: list[Event] = [
    ToolCall(id="call_1", name="query", args={"filters": {"or": [{"a": 1}, {"b": None}]}}),
    ToolResult(id="call_1", name="query", result=[{"rows": [1, 2.5, "x", True, None]}]),
    ToolResult(id="call_2", name="query", result=None),
    TextChunk(content="There "),
    Done(usage=Usage(input_tokens=3, output_tokens=4)),
    Failed(message="No.", code="denied"),
    Failed(message="No.", code="try_again", retry_after_seconds=3, error_id="5f"),
    RunStarted(run_id="r", conversation_id="c"),
    EntryStored(entry_seq=1, kind="user"),
    UsageReported(usage=Usage()),
    UsageReported(usage=Usage(3, 4, Decimal("0.0000425"))),
    Resync(run_id="r", status="done", last_seq=3, entries=[{"seq": 1}]),
]


def test_it_is_a_schema_that_stands_alone(event_schema: JsonObject) -> None:
    Draft202012Validator.check_schema(event_schema)
    assert event_schema["$schema"] == Draft202012Validator.META_SCHEMA["$id"]
    known = part(event_schema, "$defs").keys()
    members = {str(option["$ref"]).rpartition("/")[2] for option in objects(event_schema["oneOf"])}
    assert members == {type(event).__name__ for event in EVENTS}
    assert members < known


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.type)
def test_each_event_fits_as_it_is_written(event_schema: JsonObject, event: Event) -> None:
    written = json.loads(encode(event))
    found = Draft202012Validator(event_schema).iter_errors(written)  # pyright: ignore[reportUnknownMemberType]
    assert list(found) == []
    assert event_from(written) == event


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.type)
def test_an_event_without_a_field_does_not_fit(event: Event) -> None:
    written: JsonObject = json.loads(encode(event))
    for name in written.keys() - {"retry_after_seconds", "error_id"}:
        with pytest.raises(ValidationError):
            event_from({key: value for key, value in written.items() if key != name})


def test_an_event_of_another_type_does_not_fit() -> None:
    with pytest.raises(ValidationError):
        event_from({"type": "text", "content": "hi"})
