"""The voice: providers that complete a conversation, behind the port of ``providers.base``."""

import inspect
from collections.abc import Callable

from providers.base import BaseLLMProvider
from providers.offline import OfflineProvider
from providers.scripted import Script, ScriptedProvider
from schema.errors import ConfigurationError

__all__ = [
    "EMBEDDED",
    "PROVIDER_FIX",
    "BaseLLMProvider",
    "OfflineProvider",
    "Script",
    "ScriptedProvider",
    "load_provider",
]

EMBEDDED = frozenset({"auto", "offline"})
"""Short names: what they mean needs no import."""
PROVIDER_FIX = (
    "Set provider to auto, offline, a class as package.module.Class, or one without arguments."
)


def load_provider(setting: object) -> Callable[[], BaseLLMProvider]:
    """Return what makes a provider for each run, from a setting.

    ``setting`` is a name in ``EMBEDDED``, or the class, or any callable without arguments, itself.
    A callable that is not a class is tried once here.

    Raises: ConfigurationError E004 with the reason. Source: design.md 6 and 7.
    """
    if isinstance(setting, str) and setting in EMBEDDED:
        return OfflineProvider
    if not callable(setting):
        raise _error(f"provider {setting!r} is not callable.")
    _check_signature(setting)
    if isinstance(setting, type):
        if not issubclass(setting, BaseLLMProvider):
            raise _error(f"provider {setting!r} has no method complete(messages, tools).")
        return setting

    def make() -> BaseLLMProvider:
        made: object = setting()
        if not isinstance(made, BaseLLMProvider):
            raise _error(
                f"provider {setting!r} makes an object without a method complete(messages, tools)."
            )
        return made

    try:
        make()
    except ConfigurationError:
        raise
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise _error(f"provider {setting!r} failed when it was called: {reason}.") from error
    return make


def _check_signature(made: Callable[..., object]) -> None:
    try:
        inspect.signature(made).bind()
    except TypeError as error:
        raise _error(f"provider {made!r} can't be made without arguments: {error}.") from error
    except ValueError:
        # Callables written in C may not tell their signature; making one will tell.
        return


def _error(problem: str) -> ConfigurationError:
    return ConfigurationError("E004", problem, PROVIDER_FIX)
