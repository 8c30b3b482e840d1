"""A configuration is taken whole, or refused by the name of each wrong key."""

from collections.abc import Mapping
from datetime import UTC, datetime

import pytest

from providers import (
    AnthropicProvider,
    GeminiProvider,
    GoogleProvider,
    LiteLLMProvider,
    OllamaBaseUrlError,
    OllamaProvider,
    OpenAIProvider,
)
from providers.options import Options, read_options
from providers.retries import retry_after
from providers.upstream import redacted
from schema.errors import ConfigurationError

NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)

WRONG: list[tuple[Mapping[str, object], str]] = [
    ({"modle": "x"}, "modle is not a key, the closest one is model"),
    ({"timeout": 3}, "timeout is not a key, the closest one is timeout_seconds"),
    ({"model": 3}, "model must be a text that is not blank"),
    ({"model": " "}, "model must be a text"),
    ({"api_key": "SENTINEL-KEY-1 "}, "api_key must not begin or end with white space"),
    ({"timeout_seconds": True}, "timeout_seconds must be a number from 0.001"),
    ({"timeout_seconds": 0}, "timeout_seconds must be"),
    ({"timeout_seconds": float("nan")}, "timeout_seconds must be"),
    ({"timeout_seconds": "soon"}, "timeout_seconds must be"),
    ({"temperature": 3}, "temperature must be a number from 0 to 2"),
    ({"max_tokens": 1.5}, "max_tokens must be a whole number from 1"),
    ({"max_retries": -1}, "max_retries must be a whole number from 0 to 20"),
    ({"base_url": "localhost:1"}, "base_url must begin with http:// or https:// and a host"),
    ({"base_url": "http://h/?key=SENTINEL-KEY-1"}, "base_url must have no user name, no query"),
    ({"base_url": "http://SENTINEL-KEY-1@h/"}, "base_url must have no user name"),
    ({"base_url": "http://h:port/"}, "base_url is malformed"),
    ({}, "names no model"),
]


@pytest.mark.covers("H33")
@pytest.mark.parametrize(("config", "problem"), WRONG)
def test_a_wrong_key_is_refused_by_its_name(config: Mapping[str, object], problem: str) -> None:
    given = {"model": "openai/x", "api_key": "SENTINEL-KEY-1", **config} if config else {}
    with pytest.raises(ConfigurationError, match=r"^E002: provider_config") as caught:
        LiteLLMProvider.from_config(given)
    assert problem in str(caught.value)
    assert "SENTINEL" not in str(caught.value)


def test_all_problems_are_told_at_once() -> None:
    with pytest.raises(ConfigurationError, match=r"modle.*; max_tokens must"):
        LiteLLMProvider.from_config({"modle": "x", "max_tokens": 0})


def test_defaults_stand_for_what_is_left_out_or_none() -> None:
    assert read_options({"model": "a/b"}, {}) == Options(model="a/b")
    assert read_options({"model": None}, {"model": "a/b"}).model == "a/b"
    assert read_options({"model": "a/b", "max_tokens": "5"}, {"max_tokens": 7}).max_tokens == 5


def test_a_provider_shows_its_configuration_read_only_and_its_key_to_nobody() -> None:
    config: dict[str, object] = {"model": "a/b", "api_key": "SENTINEL-KEY-1"}
    provider = LiteLLMProvider.from_config(config)
    config["model"] = "c/d"
    assert dict(provider.provider_config) == {"model": "a/b", "api_key": "SENTINEL-KEY-1"}
    assert not hasattr(provider.provider_config, "__setitem__")
    assert "SENTINEL" not in repr(provider)
    assert "SENTINEL" not in repr(read_options(provider.provider_config, {}))


@pytest.mark.parametrize(
    ("kind", "model", "extra"),
    [
        (OpenAIProvider, "openai/gpt-4.1-mini", "chat-openai"),
        (AnthropicProvider, "anthropic/claude-3-5-haiku-latest", "chat-anthropic"),
        (GeminiProvider, "gemini/gemini-2.5-flash", "chat-google"),
        (OllamaProvider, "ollama_chat/gemma4:e4b", "chat-ollama"),
    ],
)
def test_the_seed_s_providers_have_its_defaults(
    kind: type[LiteLLMProvider], model: str, extra: str
) -> None:
    assert kind().model == model
    assert kind.from_config({}).provider_config == {}
    assert kind.required_extra == extra
    assert f"pip install 'frontdesk[{extra}]'" in str(kind.missing(extra))
    assert kind.from_config({"model": "m"}).model == f"{model.partition('/')[0]}/m"
    assert kind.from_config({"model": f"{kind.prefix}/m"}).model == f"{kind.prefix}/m"


def test_google_is_gemini() -> None:
    assert GoogleProvider is GeminiProvider


@pytest.mark.parametrize("url", ["ftp://h", "http://", "http://h/?x=1", "nonsense", "http://[::1"])
def test_ollama_s_address_must_be_one(url: str) -> None:
    with pytest.raises(OllamaBaseUrlError, match=r"^E002: provider_config: base_url"):
        OllamaProvider.from_config({"base_url": url})


@pytest.mark.covers("H10")
@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("2", 2.0),
        ("0.5", 0.5),
        (" 7 ", 7.0),
        ("Mon, 04 May 2026 12:00:30 GMT", 30.0),
        ("Mon, 04 May 2026 11:00:00 GMT", 0.0),
        ("Mon, 04 May 2026 12:00:30 -0000", 30.0),
        ("-1", None),
        ("soon", None),
        ("inf", None),
        ("nan", None),
        ("", None),
        ("1e999", None),
        ("31536000", 31_536_000.0),
        ("1767225600", None),
        ("1e300", None),
        ("Mon, 99 May 2026 12:00:30 GMT", None),
    ],
)
def test_retry_after_is_a_number_or_a_date_or_says_nothing(
    value: str, seconds: float | None
) -> None:
    assert retry_after({"retry-after": value}, NOON) == seconds


def test_without_the_header_nothing_is_said() -> None:
    assert retry_after({}, NOON) is None


RETRY_INFO = '"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay"'


@pytest.mark.covers("H10", "P40")
@pytest.mark.parametrize(
    ("headers", "details", "seconds"),
    [
        ({"retry-after-ms": "1500"}, "", 1.5),
        ({"retry-after-ms": "1500", "retry-after": "1"}, "", 1.5),
        ({"retry-after-ms": "1500", "retry-after": "2"}, "", 2.0),
        ({"retry-after-ms": "soon"}, "", None),
        ({"retry-after-ms": "-1"}, "", None),
        ({"retry-after-ms": "nan", "retry-after": "2"}, "", 2.0),
        ({}, f'{{{RETRY_INFO}: "12s"}}', 12.0),
        ({}, f'null, {{"@type": "x"}}, {{{RETRY_INFO}: "3.5s"}}', 3.5),
        ({"retry-after": "2"}, f'{{{RETRY_INFO}: "12s"}}', 12.0),
        ({"retry-after": "20"}, f'{{{RETRY_INFO}: "12s"}}', 20.0),
        *(({}, f"{{{RETRY_INFO}: {bad}}}", None) for bad in ('"soon"', '"12"', '"-1s"', '"1e3s"')),
        *(
            ({}, f"{{{RETRY_INFO}: {bad}}}", None)
            for bad in ('"infs"', "12", "null", '"', "[" * 999)
        ),
        ({}, '{"@type": "google.rpc.Help", "retryDelay": "12s"}', None),
    ],
)
def test_the_longest_wait_that_is_told_is_waited_for(
    headers: dict[str, str], details: str, seconds: float | None
) -> None:
    body = f'{{"error": {{"code": 429, "details": [{details}]}}}}'
    for told in (body, f"[{body}]"):
        assert retry_after(headers, NOON, told.encode()) == seconds


@pytest.mark.covers("H33")
@pytest.mark.parametrize(
    "text",
    [
        "key s3cr+t/k.y is wrong",
        "at http://h/x?key=s3cr%2Bt%2Fk.y failed",
        "header czNjcit0L2sueQ== was refused",
        "GET https://h/x?other=1&token=abc 'y'",
    ],
)
def test_keys_and_queries_are_taken_out_of_texts(text: str) -> None:
    shown = redacted(text, ["s3cr+t/k.y"])
    assert "***" in shown
    for part in ("s3cr", "czNj", "token", "abc"):
        assert part not in shown
