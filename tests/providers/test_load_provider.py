"""A provider setting becomes a factory, or an error that says what is wrong with it."""

import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

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


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A module of a user's: one good provider, and one of everything else."""
    (tmp_path / "shop_of_providers.py").write_text(
        "from providers import OfflineProvider, Script\n"
        "class Own(OfflineProvider): pass\n"
        "class Outer:\n    class Inner(OfflineProvider): pass\n"
        "script = Script()\n"
        "number = 3\n"
    )
    (tmp_path / "broken_shop.py").write_text("1 / 0\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    yield "shop_of_providers"
    for name in ("shop_of_providers", "broken_shop"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize("setting", ["auto", "offline"])
def test_the_short_names_mean_the_offline_provider(setting: str) -> None:
    assert load_provider(setting) is OfflineProvider


@pytest.mark.parametrize("path", ["Own", "Outer.Inner"])
def test_a_dotted_path_is_imported_with_a_dot_or_a_colon(shop: str, path: str) -> None:
    found = load_provider(f"{shop}:{path}")
    assert issubclass(type(found()), OfflineProvider)
    if "." not in path:
        assert load_provider(f"{shop}.{path}") is found


def test_classes_and_factories_are_taken_as_they_are(shop: str) -> None:
    assert load_provider(Quiet) is Quiet
    assert isinstance(load_provider(lambda: Needy("k"))(), Needy)
    assert isinstance(load_provider(Script())(), BaseLLMProvider)
    assert isinstance(load_provider(f"{shop}:script")(), BaseLLMProvider)


@pytest.mark.parametrize(
    ("setting", "reason"),
    [
        ("", "is not a dotted path"),
        ("offlin", "is not a dotted path"),
        ("pkg:", "is not a dotted path"),
        (".Own", "is not a dotted path"),
        (
            "no_such_shop.Own",
            "does not import: ModuleNotFoundError: No module named 'no_such_shop'",
        ),
        ("broken_shop:Own", "does not import: ZeroDivisionError: division by zero"),
        ("shop_of_providers:Other", "does not import: shop_of_providers has no Other"),
        ("shop_of_providers:number", "is not callable"),
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
    shop: str, setting: object, reason: str
) -> None:
    with pytest.raises(ConfigurationError, match=r"^E004: ") as caught:
        load_provider(setting)
    assert reason in str(caught.value)


def test_the_exports_are_sorted_and_there() -> None:
    names = providers.__all__
    assert names == sorted(names)
    assert all(hasattr(providers, name) for name in names)
