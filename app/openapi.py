"""The published contract: the OpenAPI document and the event schema, from the types that run.

FastAPI can't describe a stream whose frames carry ids, and client generators read ``schema`` where
the standard says ``itemSchema``; so both are given for each stream. Source: design.md 4.
"""

from typing import Literal

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse
from fastapi.routing import APIRoute
from pydantic import TypeAdapter
from starlette.staticfiles import StaticFiles

from app import examples
from app.bodies import Answer, Entries, Problem, SessionState
from app.identity import CSRF_HEADER, SUBPROTOCOL
from app.sessions import CSRF_COOKIE, SESSION_COOKIE
from schema.errors import (
    BadEvent,
    ChatError,
    ChatFailed,
    Denied,
    NotFound,
    TryAgain,
    Unauthorized,
)
from schema.events import EVENTS, Ask, ClientFrame, Json, JsonObject, is_object

Responses = dict[int | str, JsonObject]
"""What an operation answers, by status, as FastAPI takes it."""

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
DESCRIPTION = """\
Whoever asks without credentials is a visitor, known by cookies; a bearer token says who asks.

A turn is a sequence of events, told apart by their `type`; by their numbers a client goes on after
a broken connection. Types and fields may be added: ignore those you do not know.
"""
TAGS: list[dict[str, object]] = [
    {"name": "chat", "description": "Questions, answers and what a conversation holds."},
    {"name": "health", "description": "The state of the process."},
]


# --- responses ------------------------------------------------------------------------------------


def _header(description: str, example: str | int) -> JsonObject:
    kind = "integer" if isinstance(example, int) else "string"
    return {"description": description, "schema": {"type": kind}, "example": example}


def _json(model: str, **shown: Json) -> JsonObject:
    """Describe a body: the component that it is, and an ``example`` or ``examples``."""
    return {"application/json": {"schema": {"$ref": _REF.format(model=model)}, **shown}}


def _refusal(
    error: type[ChatError],
    description: str,
    detail: str | None = None,
    headers: JsonObject | None = None,
) -> JsonObject:
    """Describe an answer that holds a Problem: what it means, and an example of it."""
    body = _json("Problem", example=examples.problem(error, detail))
    named: JsonObject = {} if headers is None else {"headers": headers}
    return {"description": description, **named, "content": body}


_RETRY_AFTER: JsonObject = {
    "Retry-After": _header("Seconds to wait before trying again, when known.", 30),
}
_KNOWN: JsonObject = {
    "Set-Cookie": _header(
        f"{SESSION_COOKIE} and {CSRF_COOKIE}, where they are new.",
        f"{CSRF_COOKIE}={examples.CSRF_TOKEN}; Max-Age=31536000; Path=/; SameSite=lax",
    )
}
_RUN: JsonObject = {
    "X-Run-Id": _header("The run, to resume by; a refusal has none.", examples.RUN),
    "X-Conversation-Id": _header(
        "The conversation, to continue by; a refusal has none.", examples.CONVERSATION
    ),
}
_ASKED: JsonObject = {**_RUN, **_KNOWN, **_RETRY_AFTER}
_FRAME: JsonObject = {
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


def _stream(shown: JsonObject, headers: JsonObject) -> JsonObject:
    return {
        "description": "Server-sent events, ended by `done` or `error`; a refusal is one `error`.",
        "headers": headers,
        "content": {
            "text/event-stream": {"schema": _EVENT, "itemSchema": _FRAME, "examples": shown}
        },
    }


_ENVELOPE: JsonObject = {
    "description": "The turn's events, ended by `done` or `error`; a refusal is one `error`.",
    "headers": _ASKED,
    "content": _json("Answer", examples=examples.ANSWER),
}
_STRANGER = "The host is not served, or another site's page has sent the request."
_UNAUTHORIZED = _refusal(
    Unauthorized,
    "The bearer token is not valid, or the session has expired.",
    headers={"WWW-Authenticate": _header("What would be taken.", "Bearer")},
)
_NOT_POST = _refusal(
    BadEvent,
    "Only POST is supported.",
    "This method is not supported here.",
    {"Allow": _header("What is supported.", "POST")},
)
_NO_KEYS = _refusal(
    TryAgain,
    "The token can't be checked now; try again.",
    "The credentials can't be checked now.",
    _RETRY_AFTER,
)
_NOT_READY = _refusal(TryAgain, "Not ready; try again.", headers=_RETRY_AFTER)


def _parameter(name: str) -> JsonObject:
    return _refusal(BadEvent, "A parameter is not valid.", f"Not valid: {name}.")


_ASKING: Responses = {
    401: _UNAUTHORIZED,
    403: _refusal(Denied, "You may not ask, or the session's CSRF token is missing."),
    404: _refusal(NotFound, "The conversation is not one of yours."),
    405: _NOT_POST,
    413: _refusal(
        BadEvent, "The body is too large.", "The body must not be larger than 262144 bytes."
    ),
    415: _refusal(
        BadEvent, "The body is not application/json.", "The body must be application/json."
    ),
    503: _refusal(TryAgain, "Nothing was stored; try again.", headers=_RETRY_AFTER),
}
_READING: Responses = {
    401: _UNAUTHORIZED,
    403: _refusal(Denied, "You may not read."),
    404: _refusal(NotFound, "There is none of yours with this id."),
    422: _parameter("after"),
    503: _refusal(TryAgain, "The database can't be read now; try again.", headers=_RETRY_AFTER),
}
ENTRIES: Responses = {
    200: {
        "description": "A page of entries.",
        "content": _json("Entries", example=examples.ENTRIES),
    },
    **_READING,
}
"""Responses of the route that reads a conversation."""
ASK: Responses = {200: _ENVELOPE, **_ASKING}
"""Responses of a question that waits for its whole answer."""
ASK_STREAM: Responses = {
    200: _stream(examples.STREAM, _ASKED),
    **_ASKING,
    422: _parameter("Last-Event-ID"),
}
"""Responses of a question whose answer is streamed."""
RESUME: Responses = {200: _stream(examples.RESUMED, _RUN), **_READING}
"""Responses of a stream that is read again."""
SESSION: Responses = {
    200: {
        "description": "Who asks.",
        "headers": _KNOWN,
        "content": _json("SessionState", examples=examples.SESSIONS),
    },
    401: _UNAUTHORIZED,
    403: _refusal(Denied, _STRANGER),
    503: _NO_KEYS,
}
"""Responses of the route that tells who asks."""
SIGN_IN: Responses = {
    200: {
        "description": "Who asks from here on.",
        "headers": _KNOWN,
        "content": _json("SessionState", example=examples.SIGNED_IN),
    },
    401: _UNAUTHORIZED,
    403: _refusal(Denied, _STRANGER),
    422: _parameter("claim"),
    503: _NO_KEYS,
}
"""Responses of a sign-in."""
SIGN_OUT: Responses = {
    204: {"description": "The browser has no session any more."},
    403: _refusal(
        Denied,
        "The session's CSRF token is missing, or another site's page asks.",
        f"Send the value of the cookie {CSRF_COOKIE} as header {CSRF_HEADER}.",
    ),
    503: _NOT_READY,
}
"""Responses of a sign-out."""
_ANSWERS = {
    "chat_ask": ASK,
    "chat_stream": ASK_STREAM,
    "chat_events": RESUME,
    "chat_entries": ENTRIES,
    "chat_session": SESSION,
    "chat_sign_in": SIGN_IN,
}
LIVE: Responses = {
    200: {
        "description": "All is well.",
        "content": _json("Health", example=examples.HEALTH),
    },
}
"""Responses of a check that has nothing to say but yes."""
READY: Responses = {**LIVE, 503: _NOT_READY}
"""Responses of the readiness check."""
FAILED: dict[int | str, dict[str, object]] = {
    500: {**_refusal(ChatFailed, "Anything unexpected; the log has the details."), "model": Problem}
}
"""What any route of our own application may answer."""

# --- requests -------------------------------------------------------------------------------------

_CSRF_PARAMETER: JsonObject = {
    "name": CSRF_HEADER,
    "in": "header",
    "required": False,
    # As a schema's example, because Swagger UI would send an example of the parameter's own.
    "schema": {"type": "string", "examples": [examples.CSRF_TOKEN]},
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
        "description": "The first answer sets it and a browser sends it by itself: nothing has to "
        f"be filled in. For all but reading, {CSRF_HEADER} goes along.",
    },
}
_SECURITY: list[Json] = [{}, {"bearer": []}, {"session": []}]
"""Nothing is needed, unless the permission says so; a bearer or a session says who asks."""

SECURED: JsonObject = {"security": _SECURITY}
"""What an operation is open to that only reads."""
SIGNING_IN: JsonObject = {"security": [{"bearer": []}]}
"""What a sign-in is open to."""
SIGNING_OUT: JsonObject = {"security": [{}, {"session": []}], "parameters": [_CSRF_PARAMETER]}
"""What a sign-out is open to, and what it takes."""
ASK_BODY: JsonObject = {
    "security": _SECURITY,
    "parameters": [_CSRF_PARAMETER],
    "requestBody": {
        "required": True,
        "content": _json("Ask", examples=examples.ASK),
    },
}
"""What a question consists of: the doors read it themselves, so it has to be said here."""

# --- the WebSocket --------------------------------------------------------------------------------

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
            "schema": {"type": "string", "examples": [f"{SUBPROTOCOL}, bearer.eyJhbGciOi..."]},
            "description": f"`{SUBPROTOCOL}, bearer.<token>`: where a page puts its bearer token.",
        }
    ],
    "security": _SECURITY,
    "responses": {
        "101": {
            "description": "The WebSocket is open. Its frames, as if they were a body:",
            "content": {
                "application/json": {
                    "schema": {"oneOf": [{"$ref": _REF.format(model="ClientFrame")}, _EVENT]},
                    "examples": examples.SOCKET,
                }
            },
        },
        "401": _UNAUTHORIZED,
        "403": _refusal(Denied, "The host is not served, or another site's page connects."),
        "405": _refusal(
            BadEvent,
            "This was no WebSocket handshake; over HTTP, questions are posted.",
            "This method is not supported here.",
            {"Allow": _header("What is supported over HTTP.", "POST")},
        ),
        "503": _NO_KEYS,
    },
}

# --- the document ---------------------------------------------------------------------------------


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
        ("Entries", "serialization", TypeAdapter(Entries)),
        ("Problem", "serialization", TypeAdapter(Problem)),
        ("SessionState", "serialization", TypeAdapter(SessionState)),
    ]
    _, schemas = TypeAdapter.json_schemas(models, ref_template=_REF)
    known.update(schemas["$defs"])
    # It refers to itself, which generators of clients do not take, and says no more than this.
    known["Json"] = {"title": "Json", "description": "Any JSON value."}
    _part(document, "components", "securitySchemes").update(_SECURITY_SCHEMES)
    _part(document, "paths", url)["get"] = _SOCKET
    for item in _part(document, "paths").values():
        for operation in item.values() if is_object(item) else ():
            if is_object(operation):
                _restore(_part(operation, "responses"), operation.get("operationId"))


def _restore(responses: JsonObject, operation: Json) -> None:
    """Put our responses back as they are: FastAPI leaves out what is null in an example."""
    if isinstance(operation, str) and operation in _ANSWERS:
        responses.update({str(status): said for status, said in _ANSWERS[operation].items()})


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
