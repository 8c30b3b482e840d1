"""The OpenAPI document, as the author of a client reads it."""

import re

import orjson
import pytest
from graphql import build_schema, validate_schema

from schema import errors
from schema.events import Json, JsonObject
from tests.contract.conftest import OPENAPI
from tests.contract.reading import Operation, bodies, faults, objects, operations, part

# Generated clients are named by these: a name that has been published stays.
OPERATIONS = {
    "chat_ask": ("post", "/chat/"),
    "chat_socket": ("get", "/chat/"),
    "chat_stream": ("post", "/chat/stream/"),
    "chat_events": ("get", "/chat/runs/{run_id}/events/"),
    "chat_entries": ("get", "/chat/conversations/{conversation_id}/entries/"),
    "chat_session": ("get", "/chat/session/"),
    "chat_sign_in": ("post", "/chat/session/"),
    "chat_sign_out": ("delete", "/chat/session/"),
    "health_live": ("get", "/health/live"),
    "health_ready": ("get", "/health/ready"),
}
STREAMS = ("chat_stream", "chat_events")
EVENTS = {
    "tool_call": "ToolCall",
    "tool_result": "ToolResult",
    "text_chunk": "TextChunk",
    "done": "Done",
    "error": "Failed",
    "run_started": "RunStarted",
    "entry": "EntryStored",
    "usage": "UsageReported",
    "resync": "Resync",
}
EVENT: JsonObject = {"$ref": "#/components/schemas/Event"}
PROBLEM: JsonObject = {"$ref": "#/components/schemas/Problem"}


@pytest.fixture
def described(document: JsonObject) -> dict[str, Operation]:
    return {operation.id: operation for operation in operations(document)}


def test_each_operation_keeps_its_name(document: JsonObject) -> None:
    named = [(o.id, (o.method, o.path)) for o in operations(document)]
    assert len(named) == len(dict(named))
    assert dict(named) == OPERATIONS


def test_each_operation_says_what_it_is_for(described: dict[str, Operation]) -> None:
    summaries = [str(operation.said["summary"]) for operation in described.values()]
    assert len(set(summaries)) == len(summaries)
    for operation in described.values():
        assert str(operation.said["description"]).endswith((".", "\n")), operation.id
        for parameter in operation.parameters:
            assert parameter["description"], (operation.id, parameter["name"])


def data_of(stream: Json) -> list[Json]:
    """Return what the frames of a stream hold."""
    assert isinstance(stream, str)
    assert stream.endswith("\n\n")
    return [orjson.loads(line[6:]) for line in stream.splitlines() if line.startswith("data: ")]


def test_each_body_has_an_example_that_is_possible(
    document: JsonObject, described: dict[str, Operation]
) -> None:
    found = [body for operation in described.values() for body in bodies(operation)]
    for body in found:
        schema = part(body.said, "schema")
        assert body.examples, body.place
        for example in body.examples:
            is_stream = body.media_type == "text/event-stream"
            for value in data_of(example) if is_stream else [example]:
                assert faults(value, schema, document) == [], body.place
    assert {body.place.partition(" ")[0] for body in found} == OPERATIONS.keys()


def test_what_is_not_possible_would_be_found(document: JsonObject) -> None:
    assert faults({"type": "done"}, EVENT, document)
    assert faults({"type": "text_chunk", "content": 5}, EVENT, document)


def test_each_refusal_is_a_problem_with_one_of_our_codes(described: dict[str, Operation]) -> None:
    statuses = {error.code: error.status for error in errors.ChatError.__subclasses__()}
    for operation in described.values():
        assert {"401", "403", "503"} <= operation.responses.keys() or operation.id in (
            "chat_sign_out",  # takes no bearer
            "health_live",
            "health_ready",
        )
        assert "500" in operation.responses or operation.id == "chat_socket"
        for body in bodies(operation):
            status = body.place.rpartition(" ")[2]
            if status in ("request", "101", "200"):
                continue
            assert (body.media_type, body.said["schema"]) == ("application/json", PROBLEM)
            (example,) = body.examples
            # A code of status 200 is one of events too.
            assert statuses[str(part(example)["code"])] in (int(status), 200), body.place


def test_events_are_told_apart_by_their_type(document: JsonObject) -> None:
    schemas = part(document, "components", "schemas")
    union = part(schemas, "Event")
    mapping = {kind: f"#/components/schemas/{name}" for kind, name in EVENTS.items()}
    assert union["discriminator"] == {"propertyName": "type", "mapping": mapping}
    assert [option["$ref"] for option in objects(union["oneOf"])] == list(mapping.values())
    for kind, name in EVENTS.items():
        event = part(schemas, name)
        assert part(event, "properties", "type")["const"] == kind
        always = {*part(event, "properties")} - {"retry_after_seconds", "error_id"}
        assert event["required"] == [name for name in part(event, "properties") if name in always]
        assert event["description"]


@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_is_typed_for_generators_and_for_the_standard(
    described: dict[str, Operation], name: str
) -> None:
    (media_type, said), *others = part(described[name].responses["200"], "content").items()
    assert (media_type, others) == ("text/event-stream", [])
    assert part(said, "schema") == EVENT
    frame = part(said, "itemSchema")
    assert part(frame, "properties", "data")["contentSchema"] == EVENT
    assert part(frame, "properties", "data")["contentMediaType"] == "application/json"
    assert frame["required"] == ["data"]
    assert "id" in part(frame, "properties")


def test_headers_that_a_client_needs_are_described(described: dict[str, Operation]) -> None:
    for name in ("chat_ask", "chat_stream", "chat_events"):
        assert {"X-Run-Id", "X-Conversation-Id"} <= part(
            described[name].responses["200"], "headers"
        ).keys()
    for operation in described.values():
        for status, header in (("401", "WWW-Authenticate"), ("405", "Allow")):
            if status in operation.responses:
                assert header in part(operation.responses[status], "headers"), operation.id
        if "503" in operation.responses:
            assert "Retry-After" in part(operation.responses["503"], "headers"), operation.id
    for name in ("chat_ask", "chat_stream"):
        assert "Retry-After" in part(described[name].responses["200"], "headers")
    for name in STREAMS:
        assert "Last-Event-ID" in [p["name"] for p in described[name].parameters]


def test_each_operation_names_the_credentials_it_takes(
    document: JsonObject, described: dict[str, Operation]
) -> None:
    schemes = part(document, "components", "securitySchemes")
    assert part(schemes, "bearer")["scheme"] == "bearer"
    assert part(schemes, "session")["in"] == "cookie"
    for operation in described.values():
        taken = [tuple(option) for option in objects(operation.said.get("security", []))]
        if operation.id.startswith("health_"):
            assert taken == []
        else:
            assert {scheme for option in taken for scheme in option} <= schemes.keys()
            assert taken
        takes_session = ("session",) in taken and operation.method != "get"
        names = [parameter["name"] for parameter in operation.parameters]
        assert ("X-CSRFToken" in names) == takes_session, operation.id


def test_swagger_fills_in_no_example_that_would_change_a_request(
    described: dict[str, Operation],
) -> None:
    for operation in described.values():
        for parameter in operation.parameters:
            assert not {"example", "examples"} & parameter.keys(), (operation.id, parameter)


def test_the_socket_is_an_operation_with_named_frames(
    document: JsonObject, described: dict[str, Operation]
) -> None:
    socket = described["chat_socket"]
    assert socket.responses.keys() == {"101", "401", "403", "405", "503"}
    (opened,) = [body for body in bodies(socket) if body.place.endswith("101")]
    client: JsonObject = {"$ref": "#/components/schemas/ClientFrame"}
    assert opened.said["schema"] == {"oneOf": [client, EVENT]}
    frames = part(document, "components", "schemas", "ClientFrame")
    assert part(frames, "discriminator", "mapping").keys() == {"message", "attach"}
    assert "> {" in str(socket.said["description"])
    assert "< {" in str(socket.said["description"])


def test_the_document_is_complete_and_tells_no_address(document: JsonObject) -> None:
    text = orjson.dumps(document).decode()
    known = part(document, "components", "schemas")
    references = set(re.findall(r'"\$ref":"([^"]+)"', text))
    assert references == {f"#/components/schemas/{name}" for name in known}
    assert document["openapi"] == "3.1.0"
    assert "servers" not in document
    assert "://" not in text
    assert "HTTPValidationError" not in known


def test_the_graphql_schema_stands_beside_it() -> None:
    schema = build_schema((OPENAPI / "schema.graphql").read_text("utf-8"))
    assert validate_schema(schema) == []
    assert schema.query_type is not None
    assert schema.query_type.fields
