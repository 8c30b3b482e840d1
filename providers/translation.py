"""Messages and tools in the form that LiteLLM takes, which is OpenAI's.

The same history gives the same bytes each time, so that vendors can cache it.
Source: bug-cases.md H05 and H14; stack.md 3.8.
"""

from collections.abc import Sequence
from dataclasses import replace

import orjson

from schema.events import Json, JsonObject, Message, ToolCallEvent, ToolDefinition

_LEAST_RESULT_CHARS = 2_000
"""A tool result that is not longer is not what makes a context too long."""


def wire_messages(messages: Sequence[Message]) -> list[JsonObject]:
    """Translate a history; what is blank is left out, because vendors refuse it."""
    return [wired for message in messages if (wired := _message(message))]


def _message(message: Message) -> JsonObject | None:
    if message.role == "tool":
        return {
            "role": "tool",
            "tool_call_id": message.tool_call_id,
            "name": message.tool_name,
            "content": message.content,
        }
    content = message.content if message.content.strip() else None
    if message.tool_calls:
        calls: list[Json] = [_call(call) for call in message.tool_calls]
        return {"role": "assistant", "content": content, "tool_calls": calls}
    return None if content is None else {"role": message.role, "content": content}


def _call(call: ToolCallEvent) -> JsonObject:
    arguments = orjson.dumps(call.args, option=orjson.OPT_SORT_KEYS).decode()
    return {
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": arguments},
    }


def wire_tools(tools: Sequence[ToolDefinition]) -> list[JsonObject]:
    """Translate tools, by name, whatever order they come in."""
    return [
        {
            "type": "function",
            "function": {
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.input_schema,
            },
        }
        for tool in sorted(tools, key=lambda tool: tool.name)
    ]


def with_shorter_result(messages: Sequence[Message]) -> list[Message] | None:
    """Cut the longest tool result to a quarter; None if there is none to cut."""
    lengths = [len(each.content) if each.role == "tool" else 0 for each in messages]
    longest = max(lengths, default=0)
    if longest <= _LEAST_RESULT_CHARS:
        return None
    place = lengths.index(longest)
    cut: JsonObject = {
        "truncated": True,
        "note": "The result was too long to be shown whole. Ask for fewer rows or fields.",
        "beginning": messages[place].content[: longest // 4],
    }
    shorter = replace(messages[place], content=orjson.dumps(cut).decode())
    return [*messages[:place], shorter, *messages[place + 1 :]]
