"""What holds for every turn, however it ends: in its events, and in what a model is told next."""

from collections.abc import Sequence

from schema.events import Done, Event, Failed, Message, ToolCall, ToolResult


def check_order(messages: Sequence[Message]) -> None:
    """Refuse messages that one of OpenAI, Anthropic, Gemini and Ollama would refuse."""
    roles = [message.role for message in messages]
    assert (roles[0], roles.count("system")) == ("system", 1)
    assert roles[-1] in {"user", "tool"}
    calls = [call for message in messages for call in message.tool_calls]
    assert all(call.id and call.name for call in calls)
    assert all(type(call.args) is dict for call in calls)
    assert len({call.id for call in calls}) == len(calls)
    unanswered: list[tuple[str | None, str | None]] = []
    for message in messages:
        if message.role == "tool":
            assert unanswered
            assert (message.tool_call_id, message.tool_name) == unanswered.pop(0)
            assert message.content
        else:
            assert not unanswered
            assert message.content.strip() or message.tool_calls
            assert not message.tool_calls or message.role == "assistant"
            unanswered = [(call.id, call.name) for call in message.tool_calls]
    assert not unanswered


def check_events(events: Sequence[Event]) -> None:
    """See that a run closes once, at its end, and that each call has one result behind it."""
    assert [isinstance(event, Done | Failed) for event in events] == [
        *(len(events) - 1) * [False],
        True,
    ]
    ids = [event.id for event in events if isinstance(event, ToolCall)]
    assert len({*ids}) == len(ids)
    unanswered: set[str] = set()
    for event in events:
        match event:
            case ToolCall(id=id):
                unanswered.add(id)
            case ToolResult(id=id):
                unanswered.remove(id)
            case _:
                pass
    assert not unanswered
