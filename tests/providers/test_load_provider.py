"""A provider setting becomes a factory, or an error that says what is wrong with it."""

import os
from collections.abc import AsyncIterator, Callable, Mapping
from functools import partial

import pytest
from models import LITELLM_WARNINGS

import providers
from providers import (
    AnthropicProvider,
    BaseLLMProvider,
    LiteLLMProvider,
    OfflineProvider,
    OpenAIProvider,
    Script,
)
from providers.base import ChatEvent, DoneEvent, Message, ToolDefinition
from providers.loading import load_profile, load_provider, opened
from schema.errors import ConfigurationError

pytestmark = LITELLM_WARNINGS


class Quiet:
    """A custom provider as a user writes it, with nothing to inherit."""

    async def complete(
        self, messages: list[Message], tools: list[ToolDefinition]
    ) -> AsyncIterator[ChatEvent]:
        yield DoneEvent()


class Needy(Quiet):
    def __init__(self, key: str) -> None:
        self.key = key


class Configured(Quiet):
    """As the seed's providers are: made of a mapping."""

    def __init__(self, config: Mapping[str, object]) -> None:
        self.config = config

    @classmethod
    def from_config(cls, config: Mapping[str, object]) -> "Configured":
        return cls(config)


class Checked(Quiet):
    @classmethod
    def check_configuration(cls) -> None:
        raise ImportError("No module named 'vendor_sdk'")


class CheckedConfig(Configured):
    @classmethod
    def check_configuration(cls, config: Mapping[str, object] | None = None) -> None:
        if "model" not in (config or {}):
            raise ValueError("model is missing")


class Mute:
    pass


def needs_key(key: str) -> Needy:
    return Needy(key)


@pytest.mark.parametrize("setting", ["auto", "offline"])
def test_the_short_names_mean_the_offline_provider(setting: str) -> None:
    assert load_provider(setting) is OfflineProvider


def test_classes_and_factories_are_taken_as_they_are() -> None:
    assert load_provider(Quiet) is Quiet
    assert isinstance(load_provider(lambda: Needy("k"))(), Needy)
    assert isinstance(load_provider(Script())(), BaseLLMProvider)


@pytest.mark.parametrize(
    ("setting", "reason"),
    [
        ("offlin", "is not callable"),
        (3, "provider int is not callable"),
        (None, "provider NoneType is not callable"),
        (Mute, "has no method complete"),
        (Mute(), "is not callable"),
        (Needy, "can't be made without arguments: missing a required argument: 'key'"),
        (lambda: Mute(), "makes an object without a method complete"),
        (needs_key, "provider needs_key can't be made without arguments"),
        (Checked, "failed when it was called: ImportError: No module named 'vendor_sdk'"),
        (CheckedConfig, "failed when it was called: ValueError: model is missing"),
        (lambda: 1 // 0, "failed when it was called: ZeroDivisionError"),
    ],
)
def test_anything_else_is_a_configuration_error_with_the_reason(
    setting: object, reason: str
) -> None:
    with pytest.raises(ConfigurationError, match=r"^E004: ") as caught:
        load_provider(setting)
    assert reason in str(caught.value)


def fails(_: Mapping[str, str]) -> Quiet:
    raise ValueError("no")


def is_mute(_: Mapping[str, str]) -> Mute:
    return Mute()


def needs_more(_: Mapping[str, str], more: str) -> Quiet:
    return Needy(more)


@pytest.mark.covers("H33")
@pytest.mark.parametrize("made_by", [fails, is_mute, needs_more])
def test_an_error_shows_nothing_of_what_a_provider_is_made_of(
    made_by: Callable[..., object],
) -> None:
    with pytest.raises(ConfigurationError, match=r"^E004: provider partial ") as caught:
        load_provider(partial(made_by, {"api_key": "SENTINEL-KEY-1"}))
    assert "SENTINEL" not in str(caught.value)


def test_a_model_makes_auto_a_provider_of_it() -> None:
    made = load_provider("auto", {"model": "mistral/mistral-large-latest"})()
    assert type(made) is LiteLLMProvider
    assert made.model == "mistral/mistral-large-latest"


def test_a_class_with_from_config_is_made_of_the_configuration() -> None:
    config: dict[str, object] = {"model": "m", "depth": 3}
    factory = load_provider(Configured, config)
    config["model"] = "changed"
    first, second = factory(), factory()
    assert isinstance(first, Configured)
    assert first is not second
    assert dict(first.config) == {"model": "m", "depth": 3}
    assert isinstance(load_provider(Configured)(), Configured)
    assert isinstance(load_provider(CheckedConfig, {"model": "m"})(), Configured)


def test_a_vendor_s_provider_is_one_for_all_runs() -> None:
    factory = load_provider(AnthropicProvider, {"max_tokens": 9})
    assert factory() is factory()
    assert isinstance(factory(), AnthropicProvider)
    made = load_provider(OpenAIProvider)()
    assert isinstance(made, OpenAIProvider)
    assert made.model == "openai/gpt-4.1-mini"


@pytest.mark.parametrize(
    ("setting", "name"),
    [("offline", "offline"), (Quiet, "Quiet"), (lambda: Quiet(), "<lambda>"), (Script(), "Script")],
)
def test_what_can_t_take_a_configuration_refuses_one(setting: object, name: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^E002: The provider {name} takes no model"):
        load_provider(setting, {"model": "m", "api_key": "SENTINEL-KEY-1"})


def test_a_wrong_configuration_is_told_by_its_keys() -> None:
    with pytest.raises(ConfigurationError, match=r"^E002: .* the closest one is max_tokens"):
        load_provider("auto", {"model": "m", "max_token": 3})


@pytest.mark.covers("C7-53")
@pytest.mark.parametrize(
    ("setting", "config", "told"),
    [
        (Quiet, {}, "E004: provider_profiles fast: provider Quiet has no from_config(mapping)."),
        ("nonsense", {}, "E004: provider_profiles fast: provider nonsense has no from_config"),
        (CheckedConfig, {}, "E004: provider_profiles fast: provider"),
        ("auto", {"modle": "m"}, "E002: provider_profiles fast: provider_config: modle is not"),
        ("offline", {"model": "m"}, "E002: provider_profiles fast: The provider offline takes"),
    ],
)
def test_a_wrong_profile_is_told_by_its_name(
    setting: object, config: dict[str, object], told: str
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        load_profile("fast", setting, config)
    assert str(caught.value).startswith(told)
    assert str(caught.value).endswith("Correct FRONTDESK_PROVIDER_PROFILES.")


def test_a_profile_is_made_of_its_own_configuration() -> None:
    made = load_profile("fast", Configured, {})()
    assert isinstance(made, Configured)
    assert made.config == {}
    assert isinstance(load_profile("fast", OpenAIProvider, {"model": "x"})(), OpenAIProvider)
    assert isinstance(load_profile("last", "offline", {})(), OfflineProvider)


async def test_what_is_wrong_with_a_profile_s_vendor_is_told_by_its_name() -> None:
    make = load_profile("fast", "auto", {"model": "no-such-model"})
    with pytest.raises(ConfigurationError, match=r"^E002: provider_profiles fast: .* the vendor"):
        async with opened([make]):
            pass


@pytest.mark.parametrize(
    ("config", "environment", "missing"),
    [
        ({"model": "openai/gpt-4o"}, {}, "OPENAI_API_KEY"),
        ({"model": "gpt-4o"}, {}, "OPENAI_API_KEY"),
        ({"model": "openai/no-such-model"}, {}, "OPENAI_API_KEY"),
        ({"model": "anthropic/m"}, {}, "ANTHROPIC_API_KEY"),
        ({"model": "gemini/m"}, {}, "GOOGLE_API_KEY or GEMINI_API_KEY"),
        ({"model": "mistral/m"}, {}, "MISTRAL_API_KEY"),
        ({"model": "openai/gpt-4o", "api_key": "k"}, {}, None),
        ({"model": "openai/m", "base_url": "http://127.0.0.1:1/v1"}, {}, None),
        ({"model": "openai/m"}, {"OPENAI_API_KEY": "k"}, None),
        ({"model": "openai/m"}, {"OPENAI_BASE_URL": "http://127.0.0.1:1/v1"}, None),
        ({"model": "gemini/m"}, {"GEMINI_API_KEY": "k"}, None),
        ({"model": "together_ai/m"}, {"TOGETHER_API_KEY": "k"}, None),
        ({"model": "ollama_chat/m"}, {}, None),
        ({"model": "hosted_vllm/m"}, {}, None),
        ({"model": "bedrock/m"}, {}, None),
        ({"model": "vertex_ai/m"}, {}, None),
        ({"model": "azure/m"}, {}, None),
    ],
)
async def test_a_key_that_seems_to_be_missing_is_a_warning(
    config: dict[str, object],
    environment: dict[str, str],
    missing: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in [name for name in os.environ if name.endswith(("_API_KEY", "_BASE_URL"))]:
        monkeypatch.delenv(name)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    told = f"{config['model']} has no key: set {missing}, or api_key in provider_config. "
    told += "Without one its vendor refuses every question."
    async with opened([load_provider("auto", config), OfflineProvider]) as warnings:
        assert warnings == ([] if missing is None else [told])
    async with opened([load_profile("fast", "auto", config)]) as warnings:
        assert warnings == ([] if missing is None else [f"provider_profiles fast: {told}"])


@pytest.mark.parametrize("vendor", ["github_copilot", "chatgpt"])
async def test_a_vendor_that_wants_a_person_is_not_asked_to_sign_one_in(
    vendor: str, capfd: pytest.CaptureFixture[str]
) -> None:
    make = load_profile("fast", "auto", {"model": f"{vendor}/m", "api_key": "SENTINEL-KEY-1"})
    with pytest.raises(ConfigurationError, match=f"^E004: provider_profiles fast: .*{vendor} want"):
        async with opened([make]):
            pass
    with pytest.raises(ConfigurationError, match=r"^E004: "):
        LiteLLMProvider.check_configuration({"model": f"{vendor}/m"})
    assert capfd.readouterr() == ("", "")


def test_the_exports_are_sorted_and_there() -> None:
    names = providers.__all__
    assert names == sorted(names)
    assert all(hasattr(providers, name) for name in names)
