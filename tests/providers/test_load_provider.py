"""A provider setting becomes a factory, or an error that says what is wrong with it."""

from collections.abc import AsyncIterator

import pytest

import providers
from providers import BaseLLMProvider, OfflineProvider, Script, load_provider
from providers.base import ChatEvent, DoneEvent, Message, ToolDefinition
from schema.errors import ConfigurationError


class Quiet:
    """A custom provider as a user writes it, with nothing to inherit."""

    async def complete(
        self, messages: list[Message], tools: list[ToolDefinition]
    ) -> AsyncIterator[ChatEvent]:
        yield DoneEvent()


class Needy(Quiet):
    def __init__(self, key: str) -> None:
        self.key = key


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
        (3, "provider 3 is not callable"),
        (None, "provider None is not callable"),
        (Mute, "has no method complete"),
        (Mute(), "is not callable"),
        (Needy, "can't be made without arguments: missing a required argument: 'key'"),
        (lambda: Mute(), "makes an object without a method complete"),
        (needs_key, "can't be made without arguments"),
        (lambda: 1 // 0, "failed when it was called: ZeroDivisionError"),
    ],
)
def test_anything_else_is_a_configuration_error_with_the_reason(
    setting: object, reason: str
) -> None:
    with pytest.raises(ConfigurationError, match=r"^E004: ") as caught:
        load_provider(setting)
    assert reason in str(caught.value)


def test_the_exports_are_sorted_and_there() -> None:
    names = providers.__all__
    assert names == sorted(names, key=lambda name: (not name.isupper(), name))
    assert all(hasattr(providers, name) for name in names)
