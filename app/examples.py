"""Examples of all that goes over the wire; they tell how one question is asked and answered."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import orjson

from app.bodies import Entries, Entry, Health, Problem, SessionState
from schema.errors import ChatError, TurnInProgress
from schema.events import (
    Actor,
    Done,
    Event,
    Failed,
    Json,
    JsonObject,
    TextChunk,
    ToolCall,
    ToolResult,
    Usage,
    encode,
)

RUN = "7fe6377b-820a-4d71-9bb8-3f572e6583ef"
CONVERSATION = "a9e4dd6a-dff1-4951-8ce7-6d7e6bb3727f"
CSRF_TOKEN = "LS3SzQOZV0ppPm8nk91faHfsRvqC-z_HEEmWiH6q3Oc"
LAST_EVENT = f"{RUN}:5"

_CALL = "call_7672f971f1367598"
_QUESTION = "Which projects use aluminum parts?"
_TEXT = "Two projects use aluminum parts: Cirrus Drone and Falcon Racing Bike."
_ARGUMENTS: JsonObject = {
    "manager": "Project",
    "filters": {"parts__material__name": "Aluminum"},
    "fields": ["name"],
}
_RESULT: JsonObject = {
    "data": [{"name": "Cirrus Drone"}, {"name": "Falcon Racing Bike"}],
    "total_count": 2,
    "has_more": False,
    "result_id": "f6440011c3bd95a1",
}
_ASKED_AT = datetime(2026, 12, 1, 9, 30, tzinfo=UTC)
_EVENTS: dict[int, Event] = {
    4: ToolCall(id=_CALL, name="query", args=_ARGUMENTS),
    5: ToolResult(id=_CALL, name="query", result=_RESULT),
    7: TextChunk(content=_TEXT),
    10: Done(usage=Usage(input_tokens=1240, output_tokens=96, cost_usd=Decimal("0.00516"))),
}
"""A turn without ``live``, by the numbers of its events: the others are not shown."""
_REFUSAL = Failed.of(TurnInProgress())


def _json(event: Event) -> Json:
    return orjson.loads(encode(event))


def _frames(events: Iterable[tuple[int, Event]]) -> str:
    return "".join(f"id: {RUN}:{seq}\ndata: {encode(event).decode()}\n\n" for seq, event in events)


def problem(error: type[ChatError], detail: str | None = None) -> JsonObject:
    """Show the body of a refusal with a status of its own."""
    return Problem(detail=detail or error.public, code=error.code).model_dump()


ASK: JsonObject = {
    "question": {
        "summary": "A question; the latest conversation goes on",
        "value": {"text": _QUESTION},
    },
    "new": {
        "summary": "A new conversation, with a look at how the answer comes about",
        "value": {"text": _QUESTION, "conversation_id": "new", "live": True},
    },
    "repeatable": {
        "summary": "A message that may be sent again and is asked only once",
        "value": {"text": _QUESTION, "request_id": "5c1f0c1e-order-4711"},
    },
}
ANSWER: JsonObject = {
    "answered": {
        "summary": "An answer, with the evidence for it",
        "value": {"events": [_json(event) for event in _EVENTS.values()], "answer": _TEXT},
    },
    "refused": {"summary": "A refusal", "value": {"events": [_json(_REFUSAL)], "answer": ""}},
}
STREAM: JsonObject = {
    "answered": {"summary": "An answer, as it comes about", "value": _frames(_EVENTS.items())},
    "refused": {"summary": "A refusal", "value": f"data: {encode(_REFUSAL).decode()}\n\n"},
}
RESUMED: JsonObject = {
    "resumed": {
        "summary": f"What comes after {LAST_EVENT}",
        "value": _frames((seq, event) for seq, event in _EVENTS.items() if seq > 5),
    },
}
SOCKET: JsonObject = {
    "message": {
        "summary": "Client: ask",
        "value": {"type": "message", "text": _QUESTION},
    },
    "event": {
        "summary": "Server: what comes about",
        "value": {"type": "text_chunk", "content": _TEXT, "run_id": RUN, "seq": 7},
    },
    "refused": {"summary": "Server: a refusal", "value": _json(_REFUSAL)},
    "attach": {
        "summary": "Client: follow a run again, from any event on",
        "value": {"type": "attach", "run_id": RUN, "after": 5},
    },
}
ENTRIES = Entries(
    items=[
        Entry(
            seq=1,
            run_id=RUN,
            created_at=_ASKED_AT,
            kind="user",
            content=_QUESTION,
            round=0,
            name=None,
            call_id=None,
            arguments=None,
            result=None,
            status=None,
        ),
        Entry(
            seq=2,
            run_id=RUN,
            created_at=_ASKED_AT + timedelta(seconds=1),
            kind="action",
            content="",
            round=1,
            name="query",
            call_id=_CALL,
            arguments=_ARGUMENTS,
            result=_RESULT,
            status="succeeded",
        ),
    ],
    next=2,
).model_dump(mode="json")
SIGNED_IN = SessionState(
    actor=Actor("user", "ann", tenant="acme", scopes=frozenset({"read"})),
    csrf_token=CSRF_TOKEN,
    expires_at=_ASKED_AT + timedelta(hours=1),
).model_dump(mode="json")
SESSIONS: JsonObject = {
    "visitor": {
        "summary": "A visitor nobody knows",
        "value": SessionState(
            actor=Actor("session", "vBsBp16KKmoN1AN4NqbaTNmtM4A3NZDK"),
            csrf_token=CSRF_TOKEN,
            expires_at=None,
        ).model_dump(mode="json"),
    },
    "user": {"summary": "A user who has signed in", "value": SIGNED_IN},
}
HEALTH = Health().model_dump()
