"""Each vendor's rules let a right history through, and find what is wrong in a wrong one."""

import pytest
from vendor_rules import RULES
from wires.form import Wire

from schema.events import Json, JsonObject, is_object

LONG = "x" * 41

USER: JsonObject = {"role": "user", "content": "hi"}
SAYS: JsonObject = {"role": "assistant", "content": "Twelve."}


def faults(wire: Wire, body: JsonObject) -> list[str]:
    return RULES[wire](body)


# OpenAI


def oa_call(id: Json = "a", name: Json = "query", arguments: Json = "{}") -> Json:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def oa_calls(*calls: Json, content: Json = None) -> JsonObject:
    return {"role": "assistant", "content": content, "tool_calls": [*calls]}


def oa_result(id: str = "a", content: Json = "12") -> JsonObject:
    return {"role": "tool", "tool_call_id": id, "content": content}


OPENAI_RIGHT: list[list[JsonObject]] = [
    [USER],
    [{"role": "system", "content": "s"}, USER, SAYS, USER],
    [USER, oa_calls(oa_call("a"), oa_call("b")), oa_result("b"), oa_result("a"), SAYS, USER],
    [USER, oa_calls(oa_call(), content="Wait."), oa_result(), oa_calls(oa_call()), oa_result()],
    [USER, oa_calls(oa_call(), content=""), oa_result(content=""), USER],
    [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
]

OPENAI_WRONG: list[tuple[list[JsonObject], str]] = [
    ([], "there are no messages"),
    ([USER, oa_calls(oa_call())], "the calls ['a'] have no result"),
    ([USER, oa_calls(oa_call()), USER], "messages[2]: the calls ['a'] before it have no result"),
    (
        [USER, oa_calls(oa_call(), oa_call("b")), oa_result(), USER],
        "messages[3]: the calls ['b'] before it have no result",
    ),
    ([USER, oa_result()], "messages[1]: 'a' is no open call of the message before"),
    ([USER, SAYS, oa_result()], "messages[2]: 'a' is no open call of the message before"),
    (
        [USER, oa_calls(oa_call()), oa_result(), oa_result()],
        "messages[3]: 'a' is no open call of the message before",
    ),
    (
        [USER, oa_calls(oa_call()), oa_result(), SAYS, oa_result()],
        "messages[4]: 'a' is no open call of the message before",
    ),
    (
        [USER, oa_calls(oa_call(), oa_call()), oa_result(), oa_result()],
        "messages[1]: 2 calls have the id 'a'",
    ),
    ([USER, oa_calls(oa_call("")), oa_result("")], "messages[1]: '' is no id of a call"),
    ([USER, oa_calls(oa_call(LONG)), oa_result(LONG)], f"messages[1]: '{LONG}' is no id of a call"),
    (
        [USER, oa_calls(oa_call(name="list parts")), oa_result()],
        "messages[1]: 'list parts' is no name of a function",
    ),
    (
        [USER, oa_calls(oa_call(arguments="")), oa_result()],
        "messages[1]: the arguments are no text of a JSON object",
    ),
    (
        [USER, oa_calls(oa_call(arguments={})), oa_result()],
        "messages[1]: the arguments are no text of a JSON object",
    ),
    (
        [USER, {"role": "assistant", "content": None}],
        "messages[1]: a message without calls has a content",
    ),
    ([USER, oa_calls(content="x")], "messages[1]: tool_calls is empty"),
    (
        [{"role": "user", "content": ""}],
        "messages[0]: a message without calls has a content",
    ),
    ([{"role": "user", "content": []}], "messages[0]: the content is neither text nor parts"),
    (
        [{"role": "user", "content": [{"type": "text", "text": ""}]}],
        "messages[0]: a text part is empty",
    ),
    ([{"role": "user", "content": [{"text": "hi"}]}], "messages[0]: a part has no type"),
    ([{"role": "model", "content": "hi"}], "messages[0]: 'model' is no role"),
    ([USER, oa_calls(oa_call()), oa_result(content=None)], "messages[2]: a result has a content"),
    (
        [{**USER, "tool_calls": [oa_call()]}, oa_result()],
        "messages[0]: only an assistant calls tools",
    ),
    (
        [USER, oa_calls({"id": "a", "function": {"name": "q"}}), oa_result()],
        "messages[1]: a call is of type function, and has one",
    ),
]


@pytest.mark.parametrize("messages", OPENAI_RIGHT)
def test_openai_takes_what_is_right(messages: list[JsonObject]) -> None:
    assert faults("openai", {"messages": [*messages]}) == []


@pytest.mark.parametrize(("messages", "fault"), OPENAI_WRONG)
def test_openai_refuses_what_is_wrong(messages: list[JsonObject], fault: str) -> None:
    assert faults("openai", {"messages": [*messages]}) == [fault]


# Anthropic


def an_use(id: Json = "a", name: Json = "query", input: Json = None) -> Json:
    return {"type": "tool_use", "id": id, "name": name, "input": {} if input is None else input}


def an_result(id: str = "a", content: Json = "12") -> Json:
    return {"type": "tool_result", "tool_use_id": id, "content": content}


def an_text(text: str = "x") -> Json:
    return {"type": "text", "text": text}


def an_marked(block: Json, type: str = "ephemeral") -> Json:
    assert is_object(block)
    return {**block, "cache_control": {"type": type}}


def an_user(*blocks: Json) -> JsonObject:
    return {"role": "user", "content": [*blocks]}


def an_says(*blocks: Json) -> JsonObject:
    return {"role": "assistant", "content": [*blocks]}


def an_body(*messages: JsonObject, **more: Json) -> JsonObject:
    tools: list[Json] = [{"name": "query"}]
    return {"max_tokens": 9, "tools": tools, "messages": [*messages], **more}


SIGNED: JsonObject = {"type": "thinking", "thinking": "hm", "signature": "s"}
REFUSED_TEXT = "messages[1]: a text block is blank"

ANTHROPIC_RIGHT: list[JsonObject] = [
    an_body(USER),
    an_body(USER, SAYS, USER, system="s"),
    an_body(USER, an_says(SIGNED, an_text(), an_use()), an_user(an_result()), system=[an_text()]),
    an_body(USER, an_says(an_use(), an_use("b")), an_user(an_result("b"), an_result())),
    an_body(USER, an_says(an_use()), an_user(an_result(content=""), an_text("and?"))),
    an_body(USER, an_says(an_use()), an_user(an_result(content=[an_text()])), SAYS, USER),
    an_body(
        USER, an_says(an_use()), an_user(an_marked(an_result())), system=[an_marked(an_text())]
    ),
]

ANTHROPIC_WRONG: list[tuple[JsonObject, str]] = [
    (an_body(USER, max_tokens=None), "max_tokens is no positive number"),
    (an_body(USER, system=" "), "system: a block is no text, or a blank one"),
    (an_body(SAYS, USER), "the first message is not the user's"),
    (an_body(USER, SAYS), "the last message is not the user's"),
    (an_body(USER, USER), "messages[1]: the roles don't alternate"),
    (an_body(USER, {"role": "system", "content": "s"}, USER), "messages[1]: 'system' is no role"),
    (an_body(USER, an_says(), USER), "messages[1]: there is no content"),
    (an_body(USER, an_says(an_text("\n")), USER), REFUSED_TEXT),
    (an_body(USER, an_says(an_text(""), an_use()), an_user(an_result())), REFUSED_TEXT),
    (an_body({"role": "user", "content": " "}), "messages[0]: a text block is blank"),
    (
        an_body(USER, an_says(an_use()), an_user(an_result(content=[an_text("")]))),
        "messages[2]: a text block of a result is blank",
    ),
    (
        an_body(USER, an_says(an_use()), USER),
        "messages[2]: the calls ['a'] before it have no result",
    ),
    (
        an_body(USER, an_says(an_use(), an_use("b")), an_user(an_result())),
        "messages[2]: the calls ['b'] before it have no result",
    ),
    (
        an_body(USER, an_says(an_use()), an_user(an_text(), an_result())),
        "messages[2]: something stands before a result",
    ),
    (an_body(an_user(an_result())), "messages[0]: 'a' is no call of the message before"),
    (
        an_body(USER, an_says(an_use()), an_user(an_result()), SAYS, an_user(an_result())),
        "messages[4]: 'a' is no call of the message before",
    ),
    (
        an_body(USER, an_says(an_use("query:0")), an_user(an_result("query:0"))),
        "messages[1]: 'query:0' is no id of a call",
    ),
    (
        an_body(USER, an_says(an_use(name="a b")), an_user(an_result())),
        "messages[1]: 'a b' is no name of a tool",
    ),
    (
        an_body(USER, an_says(an_use(input="{}")), an_user(an_result())),
        "messages[1]: the input is no object",
    ),
    (
        an_body(
            *[USER, an_says(an_use()), an_user(an_result()), an_says(an_use())],
            an_user(an_result()),
        ),
        "2 calls have the id 'a'",
    ),
    (
        an_body(USER, an_says(an_use()), an_user(an_result()), tools=None),
        "there are calls, and no tools",
    ),
    (an_body(USER, an_says({"type": "text2"}), USER), "messages[1]: 'text2' is no type of a block"),
    (
        an_body(USER, an_says({"type": "thinking", "thinking": "hm"}, an_text()), USER),
        "messages[1]: thinking is an assistant's, and signed",
    ),
    (an_body(an_user(*5 * [an_marked(an_text())])), "5 blocks have a cache_control"),
    (an_body(an_user(an_marked(an_text(), "eternal"))), "{'type': 'eternal'} is no cache_control"),
    (an_body(USER, an_says(an_marked(SIGNED)), USER), "thinking has a cache_control"),
]


@pytest.mark.parametrize("body", ANTHROPIC_RIGHT)
def test_anthropic_takes_what_is_right(body: JsonObject) -> None:
    assert faults("anthropic", body) == []


@pytest.mark.parametrize(("body", "fault"), ANTHROPIC_WRONG)
def test_anthropic_refuses_what_is_wrong(body: JsonObject, fault: str) -> None:
    assert faults("anthropic", body) == [fault]


def test_anthropic_finds_a_blank_text_that_is_to_be_kept() -> None:
    assert faults("anthropic", an_body(an_user(an_text(), an_marked(an_text(" "))))) == [
        "messages[0]: a text block is blank",
        "a blank block has a cache_control",
    ]


def test_anthropic_finds_two_results_of_one_call() -> None:
    body = an_body(USER, an_says(an_use()), an_user(an_result(), an_result()))
    assert faults("anthropic", body) == 2 * ["messages[2]: 'a' has more than one result"]


def test_anthropic_finds_a_call_at_the_end() -> None:
    assert faults("anthropic", an_body(USER, an_says(an_use()))) == [
        "the last message is not the user's",
        "the calls ['a'] have no result",
    ]


# Gemini


def ge(role: str, *parts: Json) -> JsonObject:
    return {"role": role, "parts": [*parts]}


def ge_call(name: Json = "query", **more: Json) -> Json:
    return {"functionCall": {"name": name, "args": {}, **more}}


def ge_result(name: str = "query", **more: Json) -> Json:
    return {"functionResponse": {"name": name, "response": {}, **more}}


def ge_body(*contents: JsonObject, **more: Json) -> JsonObject:
    return {"contents": [*contents], **more}


GE_USER, GE_SAYS = ge("user", {"text": "hi"}), ge("model", {"text": "Twelve."})
SNAKE_CALL: Json = {"function_call": {"name": "query", "args": {}}, "thoughtSignature": "s"}
SNAKE_RESULT: Json = {"function_response": {"name": "query", "response": {}}}

GEMINI_RIGHT: list[JsonObject] = [
    ge_body({"parts": [{"text": "hi"}]}),
    ge_body(GE_USER, GE_SAYS, GE_USER, systemInstruction={"parts": [{"text": "s"}]}),
    ge_body(GE_USER, ge("model", {"text": "x"}, ge_call()), ge("user", ge_result()), GE_USER),
    ge_body(GE_USER, ge("model", SNAKE_CALL), ge("user", SNAKE_RESULT), GE_SAYS, GE_USER),
    ge_body(GE_USER, ge("model", ge_call(id="a")), ge("function", ge_result(id="a"))),
    ge_body(
        GE_USER, ge("model", ge_call(), ge_call("find")), ge("user", ge_result(), ge_result("find"))
    ),
]

GEMINI_WRONG: list[tuple[JsonObject, str]] = [
    (ge_body(GE_SAYS, GE_USER), "the first content is not the user's"),
    (ge_body(GE_USER, GE_SAYS), "the last content is the model's"),
    (
        ge_body(GE_USER, ge("assistant", {"text": "x"}), GE_USER),
        "contents[1]: 'assistant' is no role",
    ),
    (ge_body(ge("user")), "contents[0]: there are no parts"),
    (ge_body(ge("user", {"text": ""})), "contents[0]: a text is empty"),
    (ge_body(ge("user", {})), "contents[0]: a part is one thing, not []"),
    (
        ge_body(GE_USER, ge("model", {"text": ""}, ge_call()), ge("user", ge_result())),
        "contents[1]: a text is empty",
    ),
    (ge_body(GE_USER, system_instruction={"parts": []}), "system: there are no parts"),
    (
        ge_body(GE_USER, ge("model", ge_call()), GE_USER),
        "contents[2]: 0 responses follow 1 calls",
    ),
    (
        ge_body(GE_USER, ge("model", ge_call(), ge_call()), ge("user", ge_result())),
        "contents[2]: 1 responses follow 2 calls",
    ),
    (ge_body(GE_USER, ge("user", ge_result())), "contents[1]: 1 responses follow 0 calls"),
    (
        ge_body(
            GE_USER,
            ge("model", ge_call("find"), ge_call()),
            ge("user", ge_result(), ge_result("find")),
        ),
        "contents[2]: ['query', 'find'] respond to ['find', 'query']",
    ),
    (
        ge_body(GE_USER, ge("model", ge_call(id="a")), ge("user", ge_result(id="b"))),
        "contents[2]: the responses have other ids than the calls",
    ),
    (
        ge_body(GE_USER, GE_SAYS, ge("model", ge_call()), ge("user", ge_result())),
        "contents[2]: calls come right behind a user's content",
    ),
    (
        ge_body(GE_USER, ge("user", ge_call()), ge("user", ge_result())),
        "contents[1]: only a model calls functions",
    ),
    (
        ge_body(GE_USER, ge("model", ge_call("a b")), ge("user", ge_result("a b"))),
        "contents[1]: 'a b' is no name of a function",
    ),
    (
        ge_body(GE_USER, ge("model", ge_call(args="{}")), ge("user", ge_result())),
        "contents[1]: the args are no object",
    ),
    (
        ge_body(GE_USER, ge("model", ge_call()), ge("user", ge_result(response="12"))),
        "contents[2]: a response is no object",
    ),
]


@pytest.mark.parametrize("body", GEMINI_RIGHT)
def test_gemini_takes_what_is_right(body: JsonObject) -> None:
    assert faults("gemini", body) == []


@pytest.mark.parametrize(("body", "fault"), GEMINI_WRONG)
def test_gemini_refuses_what_is_wrong(body: JsonObject, fault: str) -> None:
    assert faults("gemini", body) == [fault]


# Ollama


def ol_call(id: str = "a", name: str = "query", arguments: Json = None) -> Json:
    given: Json = {} if arguments is None else arguments
    return {"id": id, "function": {"name": name, "arguments": given}}


def ol_calls(*calls: Json) -> JsonObject:
    return {"role": "assistant", "content": "", "tool_calls": [*calls]}


def ol_result(**fields: Json) -> JsonObject:
    return {"role": "tool", "content": "12", **fields}


OLLAMA_RIGHT: list[list[JsonObject]] = [
    [USER],
    [{"role": "system", "content": "s"}, USER, SAYS, USER],
    [USER, ol_calls(ol_call()), ol_result(tool_call_id="a", tool_name="query"), SAYS, USER],
    [USER, ol_calls(ol_call(), ol_call("b")), ol_result(), ol_result(tool_call_id="b")],
    [USER, ol_calls({"function": {"name": "query", "arguments": {}}}), ol_result(content="")],
]

OLLAMA_WRONG: list[tuple[list[JsonObject], str]] = [
    ([], "there are no messages"),
    (
        [{"role": "user", "content": [{"type": "text", "text": "x"}]}],
        "messages[0]: the content is no text",
    ),
    ([{"role": "user", "content": ""}], "messages[0]: there is nothing in it"),
    ([USER, {"role": "assistant", "content": ""}], "messages[1]: there is nothing in it"),
    ([{"role": "developer", "content": "x"}], "messages[0]: 'developer' is no role"),
    ([USER, ol_result()], "messages[1]: no call is open"),
    ([USER, ol_calls(ol_call())], "1 calls have no result"),
    ([USER, ol_calls(ol_call()), USER], "messages[2]: 1 calls before it have no result"),
    ([USER, ol_calls(ol_call()), ol_result(), ol_result()], "messages[3]: no call is open"),
    (
        [USER, ol_calls(ol_call()), ol_result(tool_call_id="b")],
        "messages[2]: 'b' is not the call's turn",
    ),
    (
        [USER, ol_calls(ol_call()), ol_result(tool_name="find")],
        "messages[2]: 'find' is not the call's name",
    ),
    ([USER, ol_calls(ol_call()), {"role": "tool"}], "messages[2]: a result has a content"),
    (
        [USER, ol_calls(ol_call(arguments="{}")), ol_result()],
        "messages[1]: the arguments are no object",
    ),
    ([USER, ol_calls(ol_call(name="")), ol_result()], "messages[1]: a call has no name"),
    (
        [{**USER, "tool_calls": [ol_call()]}, ol_result()],
        "messages[0]: only an assistant calls tools",
    ),
]


@pytest.mark.parametrize("messages", OLLAMA_RIGHT)
def test_ollama_takes_what_is_right(messages: list[JsonObject]) -> None:
    assert faults("ollama", {"messages": [*messages]}) == []


@pytest.mark.parametrize(("messages", "fault"), OLLAMA_WRONG)
def test_ollama_refuses_what_is_wrong(messages: list[JsonObject], fault: str) -> None:
    assert faults("ollama", {"messages": [*messages]}) == [fault]
