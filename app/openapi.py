"""The published contract: the OpenAPI document and the event schema, from the types that run.

FastAPI can't describe a stream whose frames carry ids, and client generators read ``schema`` where
the standard says ``itemSchema``; so both are given for each stream. Source: design.md 4.
"""

from datetime import datetime

from fastapi import FastAPI, Request
from fastapi.openapi.utils import get_openapi
from fastapi.responses import HTMLResponse
from fastapi.routing import APIRoute
from pydantic import BaseModel, Field
from pydantic.json_schema import models_json_schema
from starlette.staticfiles import StaticFiles

from app.identity import CSRF_COOKIE, CSRF_HEADER
from schema.events import EVENTS, Ask, EntryKind, Event, Json

Schema = dict[str, object]

_DOCS_ASSETS = "/docs/assets"
_DOCS_PAGE = f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>Frontdesk</title>
<link rel="icon" href="ROOT{_DOCS_ASSETS}/favicon-32x32.png">
<link rel="stylesheet" href="ROOT{_DOCS_ASSETS}/swagger-ui.css">
</head>
<body>
<div id="swagger-ui"></div>
<script src="ROOT{_DOCS_ASSETS}/swagger-ui-bundle.js"></script>
<script>
const token = () => document.cookie.match(/(?:^|; ){CSRF_COOKIE}=([^;]*)/)?.[1];
SwaggerUIBundle({{
  url: "ROOT/openapi.json",
  dom_id: "#swagger-ui",
  deepLinking: true,
  tryItOutEnabled: true,
  requestInterceptor: (request) => {{
    if (token()) request.headers["{CSRF_HEADER}"] = token();
    return request;
  }},
}});
</script>
</body>
</html>
"""

_REF = "#/components/schemas/{model}"
_EVENT: Schema = {"$ref": _REF.format(model="Event")}
_SUMMARY = "Ask your organisation's data in plain language; every answer shows its evidence."
_TAGS: list[Schema] = [
    {"name": "chat", "description": "Questions, answers and what a conversation holds."},
    {"name": "health", "description": "The state of the process."},
]


class Problem(BaseModel):
    """Why a request was refused, where the refusal has an HTTP status of its own."""

    detail: str = Field(description="A public sentence.")
    code: str = Field(description="A stable code to act on.")


class Answer(BaseModel):
    """A whole turn: its events in order, and the text of all its text chunks."""

    events: list[Event]
    answer: str


class Entry(BaseModel):
    """One thing that happened in a conversation."""

    seq: int = Field(description="Its number in the conversation, from 1.")
    run_id: str
    created_at: datetime
    kind: EntryKind
    content: str = Field(description="The text; of an error, its public message.")
    round: int = Field(description="The provider round; an answer and its calls share it.")
    name: str | None = Field(description="Of an action, the tool; of an error, its code.")
    call_id: str | None = Field(description="Of an action, the id that its events carry.")
    arguments: Json = Field(description="Of an action, what the tool was called with.")
    result: Json = Field(description="Of an action, what the tool returned.")
    status: str | None = Field(description="Of an action: succeeded or failed.")


class Entries(BaseModel):
    """One page of a conversation, oldest first."""

    items: list[Entry]
    next: int | None = Field(description="Give it as `after` to read on; null at the end.")


def _problem(description: str) -> Schema:
    return {"description": description, "model": Problem}


_RUN_HEADERS: Schema = {
    "X-Run-Id": {"description": "The run, to resume by.", "schema": {"type": "string"}},
    "X-Conversation-Id": {
        "description": "The conversation, to continue by.",
        "schema": {"type": "string"},
    },
}
_FRAME: Schema = {
    "type": "object",
    "required": ["data"],
    "properties": {
        "id": {
            "type": "string",
            "description": "<run_id>:<seq>; send it back as Last-Event-ID to resume.",
        },
        "data": {
            "type": "string",
            "contentMediaType": "application/json",
            "contentSchema": _EVENT,
        },
    },
}
_STREAM: Schema = {
    "description": "Server-sent events, ended by `done` or `error`; a refusal is one `error`.",
    "headers": _RUN_HEADERS,
    "content": {
        "text/event-stream": {
            "schema": _EVENT,
            "itemSchema": _FRAME,
            "example": (
                'id: 3f0c:1\ndata: {"type":"text_chunk","content":"Mercury uses it."}\n\n'
                'id: 3f0c:2\ndata: {"type":"done","usage":{"input_tokens":9,"output_tokens":4}}\n\n'
            ),
        }
    },
}
_ENVELOPE: Schema = {
    "description": "The turn's events, ended by `done` or `error`; a refusal is one `error`.",
    "headers": _RUN_HEADERS,
    "content": {
        "application/json": {
            "schema": {"$ref": _REF.format(model="Answer")},
            "example": {
                "events": [
                    {"type": "text_chunk", "content": "Mercury uses aluminum parts."},
                    {"type": "done", "usage": {"input_tokens": 100, "output_tokens": 20}},
                ],
                "answer": "Mercury uses aluminum parts.",
            },
        }
    },
}
_ASKING: dict[int | str, Schema] = {
    403: _problem("You may not ask, or the session's CSRF token is missing."),
    404: _problem("The conversation is not one of yours."),
    413: _problem("The body is too large."),
    415: _problem("The body is not application/json."),
    503: _problem("Nothing was stored; try again."),
}
_READING: dict[int | str, Schema] = {
    404: _problem("There is none of yours with this id."),
    422: _problem("A parameter is not valid."),
    503: _problem("The database can't be read now; try again."),
}
ENTRIES: dict[int | str, Schema] = {
    200: {"description": "A page of entries.", "model": Entries},
    **_READING,
}
"""Responses of the route that reads a conversation."""
ASK: dict[int | str, Schema] = {200: _ENVELOPE, **_ASKING}
"""Responses of a question that waits for its whole answer."""
ASK_STREAM: dict[int | str, Schema] = {200: _STREAM, **_ASKING}
"""Responses of a question whose answer is streamed."""
RESUME: dict[int | str, Schema] = {200: _STREAM, **_READING}
"""Responses of a stream that is read again."""
READY: dict[int | str, Schema] = {503: _problem("Not ready.")}
"""Responses of the readiness check."""
ASK_BODY: Schema = {
    "parameters": [
        {
            "name": CSRF_HEADER,
            "in": "header",
            "required": False,
            "schema": {"type": "string"},
            "description": f"The value of the cookie {CSRF_COOKIE}; needed with a session cookie.",
        }
    ],
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": {"$ref": _REF.format(model="Ask")},
                "example": {"text": "Which projects use aluminum parts?"},
            }
        },
    },
}
"""What a question consists of: the doors read it themselves, so it has to be said here."""


def operation_id(route: APIRoute) -> str:
    """Name an operation by its tag and its function, e.g. ``chat_stream``."""
    return f"{route.tags[0]}_{route.name}"


def document(app: FastAPI) -> dict[str, object]:
    """Build the application's OpenAPI document; the same bytes for the same code."""
    described = get_openapi(
        title=app.title,
        version=app.version,
        summary=_SUMMARY,
        routes=app.routes,
        tags=_TAGS,
    )
    _, models = models_json_schema(
        [(Ask, "validation"), (Answer, "serialization"), (Problem, "serialization")],
        ref_template=_REF,
    )
    described["components"]["schemas"] |= models["$defs"]
    return described


def event_schema() -> dict[str, object]:
    """Build the JSON Schema of one event, for clients that read streams by other means."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **EVENTS.json_schema(mode="serialization"),
    }


def add_docs(app: FastAPI) -> None:
    """Serve Swagger UI at /docs from an installed package; the page loads nothing from outside."""

    @app.get("/docs", tags=["docs"], include_in_schema=False)
    async def docs(request: Request) -> HTMLResponse:
        root = request.scope.get("root_path", "").rstrip("/")
        return HTMLResponse(_DOCS_PAGE.replace("ROOT", root))

    app.mount(_DOCS_ASSETS, StaticFiles(packages=[("fastapi_swagger", "resources")]))
