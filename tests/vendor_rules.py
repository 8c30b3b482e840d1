"""What four vendors refuse in the messages of a request: each rule answers with a 400 there.

A rule set takes the body of a request and says all that is wrong with it, by place. Where vendors
that share OpenAI's wire differ, the strictest counts.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from wires.form import Wire

from schema.events import Json, JsonObject, is_object

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_ANTHROPIC_ID = re.compile(r"[a-zA-Z0-9_-]+")
_ANTHROPIC_MARKS = 4
_GEMINI_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}")
_OPENAI_ID_CHARS = 40


def _objects(value: Json) -> list[JsonObject]:
    """Return the items of a list; what is no object has nothing in it."""
    items = value if isinstance(value, list) else []
    return [item if is_object(item) else {} for item in items]


def _is_blank(value: Json) -> bool:
    return not (isinstance(value, str) and value.strip())


# OpenAI


def _openai(body: JsonObject) -> Iterator[str]:
    messages = _objects(body.get("messages"))
    if not messages:
        yield "there are no messages"
    open_ids: list[Json] = []
    for number, message in enumerate(messages):
        at = f"messages[{number}]"
        if message.get("role") == "tool":
            yield from _openai_result(at, message, open_ids)
            continue
        if open_ids:
            yield f"{at}: the calls {open_ids} before it have no result"
        yield from _openai_message(at, message)
        open_ids = [call.get("id") for call in _objects(message.get("tool_calls"))]
    if open_ids:
        yield f"the calls {open_ids} have no result"


def _openai_result(at: str, message: JsonObject, open_ids: list[Json]) -> Iterator[str]:
    """Judge a result, and close its call."""
    id = message.get("tool_call_id")
    if id in open_ids:
        open_ids.remove(id)
    else:
        yield f"{at}: {id!r} is no open call of the message before"
    if message.get("content") is None:
        yield f"{at}: a result has a content"
    yield from _openai_parts(at, message.get("content"))


def _openai_message(at: str, message: JsonObject) -> Iterator[str]:
    role, content = message.get("role"), message.get("content")
    if role not in ("system", "developer", "user", "assistant"):
        yield f"{at}: {role!r} is no role"
    if role != "assistant" and "tool_calls" in message:
        yield f"{at}: only an assistant calls tools"
    if not message.get("tool_calls"):
        if "tool_calls" in message:
            yield f"{at}: tool_calls is empty"
        if content is None or content == "":
            yield f"{at}: a message without calls has a content"
    yield from _openai_parts(at, content)
    calls = _objects(message.get("tool_calls"))
    for id, times in Counter(str(call.get("id")) for call in calls).items():
        if times > 1:
            yield f"{at}: {times} calls have the id {id!r}"
    for call in calls:
        yield from _openai_call(at, call)


def _openai_parts(at: str, content: Json) -> Iterator[str]:
    if isinstance(content, str) or content is None:
        return
    parts = _objects(content)
    if not parts:
        yield f"{at}: the content is neither text nor parts"
    for part in parts:
        if "type" not in part:
            yield f"{at}: a part has no type"
        if part.get("type") == "text" and not part.get("text"):
            yield f"{at}: a text part is empty"


def _openai_call(at: str, call: JsonObject) -> Iterator[str]:
    id, function = call.get("id"), call.get("function")
    if not isinstance(id, str) or not 0 < len(id) <= _OPENAI_ID_CHARS:
        yield f"{at}: {id!r} is no id of a call"
    if call.get("type") != "function" or not is_object(function):
        yield f"{at}: a call is of type function, and has one"
        return
    if not _NAME.fullmatch(str(function.get("name"))):
        yield f"{at}: {function.get('name')!r} is no name of a function"
    if not _is_object_text(function.get("arguments")):
        yield f"{at}: the arguments are no text of a JSON object"


def _is_object_text(value: Json) -> bool:
    if not isinstance(value, str):
        return False
    try:
        found: object = json.loads(value)
    except ValueError:
        return False
    return is_object(found)


# Anthropic


def _anthropic(body: JsonObject) -> Iterator[str]:
    messages = _objects(body.get("messages"))
    if not messages:
        yield "there are no messages"
    most = body.get("max_tokens")
    if not isinstance(most, int) or most < 1:
        yield "max_tokens is no positive number"
    for block in _blocks(body["system"]) if "system" in body else []:
        if block.get("type") != "text" or _is_blank(block.get("text")):
            yield "system: a block is no text, or a blank one"
    yield from _anthropic_roles([message.get("role") for message in messages])
    uses: Counter[str] = Counter()
    open_ids: list[Json] = []
    for number, message in enumerate(messages):
        at, blocks = f"messages[{number}]", _blocks(message.get("content"))
        if not blocks:
            yield f"{at}: there is no content"
        for block in blocks:
            yield from _anthropic_block(at, message.get("role"), block)
        yield from _anthropic_results(at, blocks, open_ids)
        open_ids = [block.get("id") for block in blocks if block.get("type") == "tool_use"]
        uses.update(str(id) for id in open_ids)
    if open_ids:
        yield f"the calls {open_ids} have no result"
    yield from (f"{times} calls have the id {id!r}" for id, times in uses.items() if times > 1)
    if uses and not body.get("tools"):
        yield "there are calls, and no tools"
    yield from _anthropic_marks(body)


def _anthropic_marks(body: JsonObject) -> Iterator[str]:
    """Judge the marks up to which the vendor is to keep what it reads."""
    blocks = [*_objects(body.get("tools")), *_blocks(body.get("system"))]
    for message in _objects(body.get("messages")):
        for block in _blocks(message.get("content")):
            blocks += [block, *_blocks(block.get("content"))]
    marked = [block for block in blocks if "cache_control" in block]
    if len(marked) > _ANTHROPIC_MARKS:
        yield f"{len(marked)} blocks have a cache_control"
    for block in marked:
        mark = block["cache_control"]
        if not is_object(mark) or mark.get("type") != "ephemeral":
            yield f"{mark!r} is no cache_control"
        if block.get("type") == "text" and _is_blank(block.get("text")):
            yield "a blank block has a cache_control"
        if block.get("type") == "thinking":
            yield "thinking has a cache_control"


def _blocks(content: Json) -> list[JsonObject]:
    """Return the content's blocks: a text is one of them."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return _objects(content)


def _anthropic_roles(roles: Sequence[Json]) -> Iterator[str]:
    if roles[:1] != ["user"]:
        yield "the first message is not the user's"
    if roles[-1:] != ["user"]:
        yield "the last message is not the user's"
    for number, role in enumerate(roles):
        if role not in ("user", "assistant"):
            yield f"messages[{number}]: {role!r} is no role"
        if number and role == roles[number - 1]:
            yield f"messages[{number}]: the roles don't alternate"


def _anthropic_block(at: str, role: Json, block: JsonObject) -> Iterator[str]:
    match block.get("type"):
        case "text":
            if _is_blank(block.get("text")):
                yield f"{at}: a text block is blank"
        case "tool_use":
            yield from _anthropic_use(at, role, block)
        case "tool_result":
            inner = [] if block.get("content") == "" else _blocks(block.get("content"))
            if role != "user":
                yield f"{at}: only a user's message has results"
            if any(item.get("type") == "text" and _is_blank(item.get("text")) for item in inner):
                yield f"{at}: a text block of a result is blank"
        case "thinking":
            if role != "assistant" or not block.get("signature"):
                yield f"{at}: thinking is an assistant's, and signed"
        case "redacted_thinking" | "image" | "document":
            pass
        case kind:
            yield f"{at}: {kind!r} is no type of a block"


def _anthropic_use(at: str, role: Json, block: JsonObject) -> Iterator[str]:
    if role != "assistant":
        yield f"{at}: only an assistant calls tools"
    if not _ANTHROPIC_ID.fullmatch(str(block.get("id", ""))):
        yield f"{at}: {block.get('id')!r} is no id of a call"
    if not _NAME.fullmatch(str(block.get("name", ""))):
        yield f"{at}: {block.get('name')!r} is no name of a tool"
    if not is_object(block.get("input")):
        yield f"{at}: the input is no object"


def _anthropic_results(
    at: str, blocks: Sequence[JsonObject], open_ids: Sequence[Json]
) -> Iterator[str]:
    """Judge what answers the calls of the message before: all of them, first of all, once each."""
    are_results = [block.get("type") == "tool_result" for block in blocks]
    ids = [block.get("tool_use_id") for block in blocks if block.get("type") == "tool_result"]
    if are_results != sorted(are_results, reverse=True):
        yield f"{at}: something stands before a result"
    for id in ids:
        if id not in open_ids:
            yield f"{at}: {id!r} is no call of the message before"
        elif ids.count(id) > 1:
            yield f"{at}: {id!r} has more than one result"
    missing = [id for id in open_ids if id not in ids]
    if missing:
        yield f"{at}: the calls {missing} before it have no result"


# Gemini

_PARTS = (
    ("text", "text"),
    ("functionCall", "function_call"),
    ("functionResponse", "function_response"),
    ("inlineData", "inline_data"),
    ("fileData", "file_data"),
)
"""The kinds of parts, in the two spellings that are read."""


def _gemini(body: JsonObject) -> Iterator[str]:
    contents = _objects(body.get("contents"))
    roles = [content.get("role", "user") for content in contents]
    if not contents:
        yield "there are no contents"
    if roles[:1] != ["user"]:
        yield "the first content is not the user's"
    if roles[-1:] == ["model"]:
        yield "the last content is the model's"
    system = body.get("systemInstruction", body.get("system_instruction"))
    if system is not None:
        yield from _gemini_parts(
            "system", _objects(system.get("parts") if is_object(system) else 0)
        )
    called: list[JsonObject] = []
    for number, (role, content) in enumerate(zip(roles, contents, strict=True)):
        at, parts = f"contents[{number}]", _objects(content.get("parts"))
        if role not in ("user", "model", "function"):
            yield f"{at}: {role!r} is no role"
        yield from _gemini_parts(at, parts)
        yield from _gemini_results(at, role, parts, called)
        called = _of_kind(parts, "functionCall")
        if called and role != "model":
            yield f"{at}: only a model calls functions"
        if called and roles[number - 1 : number] == ["model"]:
            yield f"{at}: calls come right behind a user's content"
    if called:
        yield f"the calls {_names(called)} have no response"


def _gemini_parts(at: str, parts: Sequence[JsonObject]) -> Iterator[str]:
    if not parts:
        yield f"{at}: there are no parts"
    for part in parts:
        kinds = [kind for kind, snake in _PARTS if kind in part or snake in part]
        if len(kinds) != 1:
            yield f"{at}: a part is one thing, not {kinds}"
        if part.get("text") == "":
            yield f"{at}: a text is empty"
    for call in _of_kind(parts, "functionCall"):
        if not _GEMINI_NAME.fullmatch(str(call.get("name", ""))):
            yield f"{at}: {call.get('name')!r} is no name of a function"
        if not is_object(call.get("args", {})):
            yield f"{at}: the args are no object"
    if not all(is_object(item.get("response")) for item in _of_kind(parts, "functionResponse")):
        yield f"{at}: a response is no object"


def _gemini_results(
    at: str, role: Json, parts: Sequence[JsonObject], called: Sequence[JsonObject]
) -> Iterator[str]:
    """Judge the responses: as many as the content before has calls, in their order."""
    responses = _of_kind(parts, "functionResponse")
    if responses and role == "model":
        yield f"{at}: a model doesn't respond"
    if len(responses) != len(called):
        yield f"{at}: {len(responses)} responses follow {len(called)} calls"
    elif _names(responses) != _names(called):
        yield f"{at}: {_names(responses)} respond to {_names(called)}"
    elif any("id" in c and c["id"] != r.get("id") for c, r in zip(called, responses, strict=True)):
        yield f"{at}: the responses have other ids than the calls"


def _of_kind(parts: Sequence[JsonObject], kind: str) -> list[JsonObject]:
    snake = dict(_PARTS)[kind]
    found = [part.get(kind, part.get(snake)) for part in parts if kind in part or snake in part]
    return [item if is_object(item) else {} for item in found]


def _names(items: Sequence[JsonObject]) -> list[Json]:
    return [item.get("name") for item in items]


# Ollama


def _ollama(body: JsonObject) -> Iterator[str]:
    messages = _objects(body.get("messages"))
    if not messages:
        yield "there are no messages"
    open_calls: list[JsonObject] = []
    for number, message in enumerate(messages):
        at = f"messages[{number}]"
        if not isinstance(message.get("content", ""), str):
            yield f"{at}: the content is no text"
        if message.get("role") == "tool":
            yield from _ollama_result(at, message, open_calls)
            continue
        if open_calls:
            yield f"{at}: {len(open_calls)} calls before it have no result"
        yield from _ollama_message(at, message)
        open_calls = _objects(message.get("tool_calls"))
    if open_calls:
        yield f"{len(open_calls)} calls have no result"


def _ollama_result(at: str, message: JsonObject, open_calls: list[JsonObject]) -> Iterator[str]:
    """Judge a result, and close its call: results come in the order of the calls."""
    if not open_calls:
        yield f"{at}: no call is open"
        return
    call = open_calls.pop(0)
    function = call.get("function")
    name = function.get("name") if is_object(function) else None
    if "id" in call and message.get("tool_call_id", call["id"]) != call["id"]:
        yield f"{at}: {message['tool_call_id']!r} is not the call's turn"
    if message.get("tool_name", name) != name:
        yield f"{at}: {message['tool_name']!r} is not the call's name"
    if "content" not in message:
        yield f"{at}: a result has a content"


def _ollama_message(at: str, message: JsonObject) -> Iterator[str]:
    role, calls = message.get("role"), _objects(message.get("tool_calls"))
    if role not in ("system", "user", "assistant"):
        yield f"{at}: {role!r} is no role"
    if calls and role != "assistant":
        yield f"{at}: only an assistant calls tools"
    if not (calls or message.get("content") or message.get("images")):
        yield f"{at}: there is nothing in it"
    for call in calls:
        function = call.get("function")
        if not is_object(function) or not function.get("name"):
            yield f"{at}: a call has no name"
        elif not is_object(function.get("arguments")):
            yield f"{at}: the arguments are no object"


def _all(rules: Callable[[JsonObject], Iterator[str]]) -> Callable[[JsonObject], list[str]]:
    return lambda body: [*rules(body)]


RULES: Mapping[Wire, Callable[[JsonObject], list[str]]] = {
    "openai": _all(_openai),
    "anthropic": _all(_anthropic),
    "gemini": _all(_gemini),
    "ollama": _all(_ollama),
}
"""What each vendor finds wrong in the body of a request."""
