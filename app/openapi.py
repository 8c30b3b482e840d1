"""The published contract: the OpenAPI document and the event schema, from the types that run.

FastAPI can't describe a stream whose frames carry ids, and client generators read ``schema`` where
the standard says ``itemSchema``; so both are given for each stream. Source: design.md 4.
"""

from datetime import datetime
from typing import Literal

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse
from fastapi.routing import APIRoute
from pydantic import BaseModel, Field, TypeAdapter
from starlette.staticfiles import StaticFiles

from app.identity import CSRF_HEADER, SUBPROTOCOL
from app.sessions import CSRF_COOKIE, SESSION_COOKIE
from schema.events import EVENTS, Actor, Ask, ClientFrame, EntryKind, Event, Json, JsonObject
from schema.request import is_object

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
_EVENT: JsonObject = {"$ref": _REF.format(model="Event")}
SUMMARY = "Ask your organisation's data in plain language; every answer shows its evidence."
TAGS: list[dict[str, object]] = [
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
    status: str | None = Field(description="Of an action: succeeded, failed or interrupted.")


class Entries(BaseModel):
    """One page of a conversation, oldest first."""

    items: list[Entry]
    next: int | None = Field(description="Give it as `after` to read on; null at the end.")


class SessionState(BaseModel):
    """Who asks, and what a browser has to send with each message."""

    actor: Actor
    csrf_token: str | None = Field(
        description=f"Goes along as {CSRF_HEADER}; null where none is needed, as with a bearer."
    )
    expires_at: datetime | None = Field(description="When to sign in again; null: never.")


def _problem(description: str) -> Schema:
    return {"description": description, "model": Problem}


def _refusal(description: str) -> JsonObject:
    """As ``_problem``, for what FastAPI does not build."""
    schema: JsonObject = {"$ref": _REF.format(model="Problem")}
    return {"description": description, "content": {"application/json": {"schema": schema}}}


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
                'id: 3f0c:2\ndata: {"type":"done","usage":{"input_tokens":9,"output_tokens":4,'
                '"cost_usd":"0.0000425"}}\n\n'
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
                    {
                        "type": "done",
                        "usage": {"input_tokens": 100, "output_tokens": 20, "cost_usd": None},
                    },
                ],
                "answer": "Mercury uses aluminum parts.",
            },
        }
    },
}
_UNAUTHORIZED: dict[int | str, Schema] = {
    401: _problem("The bearer token is not valid, or the session has expired."),
}
_ASKING: dict[int | str, Schema] = {
    **_UNAUTHORIZED,
    403: _problem("You may not ask, or the session's CSRF token is missing."),
    404: _problem("The conversation is not one of yours."),
    405: _problem("Only POST is supported."),
    413: _problem("The body is too large."),
    415: _problem("The body is not application/json."),
    503: _problem("Nothing was stored; try again."),
}
_READING: dict[int | str, Schema] = {
    **_UNAUTHORIZED,
    403: _problem("You may not read."),
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
_SESSION: Schema = {
    "description": "Who asks.",
    "model": SessionState,
    "headers": {
        "Set-Cookie": {
            "description": f"{SESSION_COOKIE} and {CSRF_COOKIE}, where they are new.",
            "schema": {"type": "string"},
        }
    },
}
_SITE: dict[int | str, Schema] = {
    403: _problem("The host is not served, or another site's page has sent the request."),
}
_KEYS: dict[int | str, Schema] = {503: _problem("The token can't be checked now; try again.")}
SESSION: dict[int | str, Schema] = {200: _SESSION, **_UNAUTHORIZED, **_SITE, **_KEYS}
"""Responses of the route that tells who asks."""
SIGN_IN: dict[int | str, Schema] = {
    **SESSION,
    422: _problem("A parameter is not valid."),
}
"""Responses of a sign-in."""
SIGN_OUT: dict[int | str, Schema] = {
    204: {"description": "The browser has no session any more."},
    403: _problem("The session's CSRF token is missing, or another site's page asks."),
    503: _problem("Not ready; try again."),
}
"""Responses of a sign-out."""
READY: dict[int | str, Schema] = {503: _problem("Not ready.")}
"""Responses of the readiness check."""
_CSRF_PARAMETER: Schema = {
    "name": CSRF_HEADER,
    "in": "header",
    "required": False,
    "schema": {"type": "string"},
    "description": f"The value of the cookie {CSRF_COOKIE}; needed with a session cookie.",
}
_SECURITY_SCHEMES: JsonObject = {
    "bearer": {
        "type": "http",
        "scheme": "bearer",
        "bearerFormat": "JWT",
        "description": "A token whose `sub` is the user. `frontdesk token SUBJECT` makes one.",
    },
    "session": {
        "type": "apiKey",
        "in": "cookie",
        "name": SESSION_COOKIE,
        "description": f"Set by the first answer; goes with {CSRF_HEADER} for all but reading.",
    },
}
_SECURITY: list[Json] = [{}, {"bearer": []}, {"session": []}]
"""Nothing is needed, unless the permission says so; a bearer or a session says who asks."""

SECURED: Schema = {"security": _SECURITY}
"""What an operation is open to that only reads."""
SIGNING_IN: Schema = {"security": [{"bearer": []}]}
"""What a sign-in is open to."""
SIGNING_OUT: Schema = {"security": [{}, {"session": []}], "parameters": [_CSRF_PARAMETER]}
"""What a sign-out is open to, and what it takes."""
ASK_BODY: Schema = {
    "security": _SECURITY,
    "parameters": [_CSRF_PARAMETER],
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

_SOCKET_DESCRIPTION = f"""\
Ask, and follow runs, over one connection. Text frames hold one JSON object each: the client sends a
`ClientFrame`, the server an `Event` with the further fields `run_id` and `seq`. A refusal is an
`error` event without a number; after most of them the connection stays open.

    > {{"type": "message", "text": "Which projects use aluminum parts?"}}
    < {{"type": "text_chunk", "content": "Mercury uses it.", "run_id": "3f0c", "seq": 5}}
    < {{"type": "done", "usage": {{...}}, "run_id": "3f0c", "seq": 9}}
    > {{"type": "attach", "run_id": "3f0c", "after": 5}}
    < {{"type": "done", "usage": {{...}}, "run_id": "3f0c", "seq": 9}}

A bearer token comes in the `Authorization` header or, from a browser, as second of the subprotocols
`{SUBPROTOCOL}, bearer.<token>`. Cookies count for programs, and for pages of the server's own
origin and of allowed ones.

The connection is closed with 4403 when the actor may not ask or the credentials have expired, 1009
after a frame larger than a body may be, 1011 after a failure of the server, and 1012 when the
server ends: connect again and attach to the run.
"""
_SOCKET: JsonObject = {
    "tags": ["chat"],
    "summary": "Converse over a WebSocket",
    "description": _SOCKET_DESCRIPTION,
    "operationId": "chat_socket",
    "parameters": [
        {
            "name": "Sec-WebSocket-Protocol",
            "in": "header",
            "required": False,
            "schema": {"type": "string"},
            "description": f"`{SUBPROTOCOL}, bearer.<token>`: where a page puts its bearer token.",
        }
    ],
    "security": _SECURITY,
    "responses": {
        "101": {
            "description": "The WebSocket is open. Its frames, as if they were a body:",
            "content": {
                "application/json": {
                    "schema": {
                        "oneOf": [{"$ref": _REF.format(model="ClientFrame")}, _EVENT],
                    }
                }
            },
        },
        "401": _refusal("The bearer token is not valid, or the session has expired."),
        "403": _refusal("The host is not served, or another site's page wants to connect."),
        "405": _refusal("This was no WebSocket handshake; over HTTP, questions are posted."),
        "503": _refusal("The token can't be checked now; try again."),
    },
}


def operation_id(route: APIRoute) -> str:
    """Name an operation by its tag and its function, e.g. ``chat_stream``."""
    return f"{route.tags[0]}_{route.name}"


def describe(document: object, url: str) -> None:
    """Add to an application's document what FastAPI does not know of the chat below ``url``."""
    known = _part(document, "components", "schemas")
    if "ClientFrame" in known:
        return  # FastAPI keeps the document that it has built
    models: list[tuple[str, Literal["validation", "serialization"], TypeAdapter[object]]] = [
        ("Ask", "validation", TypeAdapter(Ask)),
        ("ClientFrame", "validation", TypeAdapter(ClientFrame)),
        ("Answer", "serialization", TypeAdapter(Answer)),
        ("Problem", "serialization", TypeAdapter(Problem)),
    ]
    _, schemas = TypeAdapter.json_schemas(models, ref_template=_REF)
    known.update(schemas["$defs"])
    # It refers to itself, which generators of clients do not take, and says no more than this.
    known["Json"] = {"title": "Json", "description": "Any JSON value."}
    _part(document, "components", "securitySchemes").update(_SECURITY_SCHEMES)
    _part(document, "paths", url)["get"] = _SOCKET


def _part(document: object, *names: str) -> JsonObject:
    """Find an object inside a document, or put it there."""
    if not is_object(document):
        raise TypeError("An OpenAPI document is an object.")
    return _part(document.setdefault(names[0], {}), *names[1:]) if names else document


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
