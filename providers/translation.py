"""Messages and tools in the form that LiteLLM takes, which is OpenAI's.

The same history gives the same bytes each time, so that vendors can cache it.
Source: bug-cases.md H05 and H14; stack.md 3.8.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import takewhile

import orjson

from schema.events import Json, JsonObject, Message, ToolCallEvent, ToolDefinition

_LEAST_RESULT_CHARS = 2_000
"""A tool result that is not longer is not what makes a context too long."""
_CUT = "(Earlier messages are left out.)"
_NO_NAME = re.compile(r"[^a-zA-Z0-9_-]|^(?![a-zA-Z_])")
"""What no vendor has in a name, and the place before a first letter that not all have there."""


def wire_messages(messages: Sequence[Message]) -> list[JsonObject]:
    """Translate a history; what is blank is left out, because vendors refuse it.

    One that was cut begins with a user's message all the same.
    """
    told = _without_twins(messages)
    wired = [wired for message in told if (wired := _message(message))]
    first = next((n for n, each in enumerate(wired) if each["role"] != "system"), len(wired))
    if first < len(wired) and wired[first]["role"] != "user":
        wired.insert(first, {"role": "user", "content": _CUT})
    return wired


def _without_twins(messages: Sequence[Message]) -> Iterator[Message]:
    """Tell calls that are equal one after the other, each with its result.

    Of those that stand in one message, LiteLLM tells Gemini only the first, and all results.
    """
    answered: set[str] = set()
    for place, message in enumerate(messages):
        batches = _batches(message.tool_calls)
        if len(batches) < 2:
            if message.role != "tool" or message.tool_call_id not in answered:
                yield message
            continue
        results = {
            each.tool_call_id: each
            for each in takewhile(lambda each: each.role == "tool", messages[place + 1 :])
        }
        answered = {call.id for call in message.tool_calls}
        for number, batch in enumerate(batches):
            yield replace(message, content="" if number else message.content, tool_calls=(*batch,))
            yield from (results[call.id] for call in batch if call.id in results)


def _batches(calls: Sequence[ToolCallEvent]) -> list[list[ToolCallEvent]]:
    """Share calls out, so that those of a batch differ."""
    batches: list[list[ToolCallEvent]] = []
    seen: list[tuple[str, JsonObject]] = []
    for call in calls:
        known = (_name(call.name), call.args)
        number = seen.count(known)
        seen.append(known)
        if number == len(batches):
            batches.append([])
        batches[number].append(call)
    return batches


def _message(message: Message) -> JsonObject | None:
    if message.role == "tool":
        return {
            "role": "tool",
            "tool_call_id": message.tool_call_id,
            "name": _name(message.tool_name or ""),
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
        "function": {"name": _name(call.name), "arguments": arguments},
    }


def _name(name: str) -> str:
    """Spell a called name as vendors take it: a model may have made it up."""
    return _NO_NAME.sub("_", name)[:64]


def with_cache_marks(messages: Sequence[JsonObject]) -> list[JsonObject]:
    """Mark wire messages up to which Anthropic is to keep what it has read, and read it again.

    That are the system message, behind the tools, and the last message; a blank one takes no mark.
    """
    systems = [place for place, each in enumerate(messages) if each["role"] == "system"]
    marked = {*systems[-1:], len(messages) - 1}
    return [
        {**each, "cache_control": {"type": "ephemeral"}}
        if place in marked and str(each["content"] or "").strip()
        else each
        for place, each in enumerate(messages)
    ]


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
