"""What is in an OpenAPI document: its operations, and its bodies with their examples."""

from collections.abc import Iterator
from dataclasses import dataclass

from jsonschema import Draft202012Validator

from schema.events import Json, JsonObject

METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace")


def part(value: Json, *names: str) -> JsonObject:
    """Return an object inside of a document; what is not there is an empty one."""
    for name in names:
        assert isinstance(value, dict)
        value = value.get(name, {})
    assert isinstance(value, dict)
    return value


def objects(value: Json) -> list[JsonObject]:
    """Return the objects of a list."""
    assert isinstance(value, list)
    return [item for item in value if isinstance(item, dict)]


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation, and where it stands."""

    path: str
    method: str
    said: JsonObject

    @property
    def id(self) -> str:
        return str(self.said["operationId"])

    @property
    def parameters(self) -> list[JsonObject]:
        return objects(self.said.get("parameters", []))

    @property
    def responses(self) -> dict[str, JsonObject]:
        return {status: part(said) for status, said in part(self.said, "responses").items()}


@dataclass(frozen=True, slots=True)
class Body:
    """What a request or a response can hold, in one media type."""

    place: str
    media_type: str
    said: JsonObject

    @property
    def examples(self) -> list[Json]:
        """All examples of it."""
        single = [self.said["example"]] if "example" in self.said else []
        return single + [part(said)["value"] for said in part(self.said, "examples").values()]


def operations(document: JsonObject) -> Iterator[Operation]:
    for path, item in part(document, "paths").items():
        for method, said in part(item).items():
            assert method in METHODS
            yield Operation(path, method, part(said))


def bodies(operation: Operation) -> Iterator[Body]:
    holders = {"request": part(operation.said, "requestBody"), **operation.responses}
    for name, holder in holders.items():
        for media_type, said in part(holder, "content").items():
            yield Body(f"{operation.id} {name}", media_type, part(said))


def faults(value: Json, schema: JsonObject, document: JsonObject) -> list[str]:
    """Tell what of a value does not fit a schema, whose references lead into a document."""
    validator = Draft202012Validator({**schema, "components": document["components"]})
    found = validator.iter_errors(value)  # pyright: ignore[reportUnknownMemberType]
    return [str(error) for error in found]
