"""The voice: providers that complete a conversation, behind the port of ``providers.base``."""

import inspect
from collections.abc import Callable
from importlib import import_module

from providers.base import BaseLLMProvider
from providers.offline import OfflineProvider
from providers.scripted import Script, ScriptedProvider
from schema.errors import ConfigurationError

__all__ = ["BaseLLMProvider", "OfflineProvider", "Script", "ScriptedProvider", "load_provider"]

_FIX = "Set provider to auto, offline, a class as package.module.Class, or one without arguments."


def load_provider(setting: object) -> Callable[[], BaseLLMProvider]:
    """Return what makes a provider for each run, from a setting.

    ``setting`` is ``auto`` or ``offline``, a dotted path (``package.module.Class`` or
    ``package.module:Class``), or the class, or any callable without arguments, itself. A callable
    that is not a class is tried once here.

    Raises: ConfigurationError E004 with the reason. Source: design.md 6 and 7.
    """
    if isinstance(setting, str) and setting in {"auto", "offline"}:
        return OfflineProvider
    name = setting if isinstance(setting, str) else repr(setting)
    made = _import(setting) if isinstance(setting, str) else setting
    if not callable(made):
        raise _error(f"provider {name} is not callable.")
    if isinstance(made, type):
        if not issubclass(made, BaseLLMProvider):
            raise _error(f"provider {name} has no method complete(messages, tools).")
        _check_signature(made, name)
        return made
    _check_signature(made, name)
    if not isinstance(guarded(made, f"provider {name} failed when it was called"), BaseLLMProvider):
        raise _error(f"provider {name} makes an object without a method complete(messages, tools).")

    def make() -> BaseLLMProvider:
        provider: object = made()
        if not isinstance(provider, BaseLLMProvider):
            raise _error(
                f"provider {name} makes an object without a method complete(messages, tools)."
            )
        return provider

    return make


def _import(path: str) -> object:
    module, colon, attribute = path.partition(":")
    if not colon:
        module, _, attribute = path.rpartition(".")
    if not module or not attribute:
        raise _error(f'provider "{path}" is not a dotted path.')
    found: object = guarded(lambda: import_module(module), f'provider "{path}" does not import')
    for part in attribute.split("."):
        if not hasattr(found, part):
            raise _error(f'provider "{path}" does not import: {module} has no {attribute}.')
        found = getattr(found, part)
    return found


def _check_signature(made: Callable[..., object], name: str) -> None:
    try:
        inspect.signature(made).bind()
    except TypeError as error:
        raise _error(f"provider {name} can't be made without arguments: {error}.") from error
    except ValueError:
        # Callables written in C may not tell their signature; making one will tell.
        return


def guarded(run: Callable[[], object], problem: str) -> object:
    """Run the user's code; whatever it raises becomes the reason of a configuration error."""
    try:
        return run()
    except Exception as error:
        raise _error(f"{problem}: {type(error).__name__}: {error}.") from error


def _error(problem: str) -> ConfigurationError:
    return ConfigurationError("E004", problem, _FIX)
