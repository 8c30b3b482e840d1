"""The committed contract, as those who have only that read it."""

import json
from pathlib import Path

import pytest

from schema.events import JsonObject

OPENAPI = Path(__file__).parents[2] / "openapi"


@pytest.fixture(scope="session")
def document() -> JsonObject:
    return json.loads((OPENAPI / "openapi.json").read_text("utf-8"))


@pytest.fixture(scope="session")
def event_schema() -> JsonObject:
    return json.loads((OPENAPI / "events.schema.json").read_text("utf-8"))
