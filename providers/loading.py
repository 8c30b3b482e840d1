"""From settings to what makes a provider for each run, or an error that says what is wrong."""

import inspect
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from types import FunctionType, MappingProxyType
from typing import Protocol, runtime_checkable

from providers.base import BaseLLMProvider
from providers.chain import Chain, Member
from providers.model import LiteLLMProvider
from providers.offline import OfflineProvider
from schema.errors import ConfigurationError

EMBEDDED = frozenset({"auto", "offline"})
"""Short names: what they mean needs no import."""
PROVIDER_FIX = (
    "Set provider to auto, offline, a class as package.module.Class, or one without arguments."
)

_PROFILES_FIX = "Correct FRONTDESK_PROVIDER_PROFILES."
_NO_CONFIG: Mapping[str, object] = MappingProxyType({})


@runtime_checkable
class _Configurable(Protocol):
    """A class whose instances are made of a mapping. Source: seed, provider adapters."""

    def from_config(self, config: Mapping[str, object], /) -> BaseLLMProvider: ...


@runtime_checkable
class _Checking(Protocol):
    """A class that can tell before it is used what it lacks. Source: seed, provider protocol."""

    def check_configuration(self, config: Mapping[str, object] | None = None, /) -> object: ...


@dataclass(frozen=True, slots=True)
class _Shared:
    """One provider for all runs: it keeps connections, and nothing of a run."""

    provider: LiteLLMProvider
    profile: str | None = None

    def __call__(self) -> BaseLLMProvider:
        return self.provider


def load_provider(
    setting: object, config: Mapping[str, object] = _NO_CONFIG
) -> Callable[[], BaseLLMProvider]:
    """Return what makes a provider for each run, from a setting and its configuration.

    ``setting`` is a name in ``EMBEDDED``, or the class, or any callable without arguments, itself;
    "auto" is the model that ``config`` names, or the offline provider. A class with ``from_config``
    is made of the configuration, which must be empty for all others. A callable that is not a class
    is tried once here.

    Raises: ConfigurationError E004 with the reason; E002 when the configuration is wrong.
    Source: design.md 6 and 7.
    """
    if setting == "auto" and config:
        setting = LiteLLMProvider
    if isinstance(setting, type) and isinstance(setting, _Configurable):
        return _configured(setting, config)
    if config:
        raise ConfigurationError(
            "E002",
            f"The provider {_shown(setting)} takes no model and no provider_config.",
            "Leave them out, or name a provider that has from_config(mapping).",
        )
    if isinstance(setting, str) and setting in EMBEDDED:
        return OfflineProvider
    if not callable(setting):
        raise _error(f"provider {_shown(setting)} is not callable.")
    _check_signature(setting)
    if isinstance(setting, type):
        if not issubclass(setting, BaseLLMProvider):
            raise _error(
                f"provider {setting.__qualname__} has no method complete(messages, tools)."
            )
        _check_itself(setting, None)
        return setting
    return _tried(setting, setting)


def load_profile(
    name: str, setting: object, config: Mapping[str, object]
) -> Callable[[], BaseLLMProvider]:
    """Return what makes a named provider: of its own configuration, and of nothing else.

    Raises: as ``load_provider``, naming the profile; E004 also for what has no ``from_config``.
    Source: seed, provider_profiles.
    """
    with _named(name):
        is_known = isinstance(setting, str) and setting in EMBEDDED
        if not is_known and not isinstance(setting, _Configurable):
            raise _error(f"provider {_shown(setting)} has no from_config(mapping).")
        made = load_provider(setting, config)
    return replace(made, profile=name) if isinstance(made, _Shared) else made


@contextmanager
def _named(profile: str | None) -> Generator[None]:
    """Tell whose error it is."""
    try:
        yield
    except ConfigurationError as error:
        if profile is None:
            raise
        fix = error.fix if error.id == "E003" else _PROFILES_FIX
        problem = f"provider_profiles {profile}: {error.problem}"
        raise ConfigurationError(error.id, problem, fix) from error


def chained(
    first: Callable[[], BaseLLMProvider],
    fallbacks: Mapping[str, Callable[[], BaseLLMProvider]],
) -> Callable[[], BaseLLMProvider]:
    """Let others answer, in their order, while the first one can't.

    Raises: ConfigurationError E002 for the offline provider, which always can.
    """
    if not fallbacks:
        return first
    if first is OfflineProvider:
        raise ConfigurationError(
            "E002",
            "FRONTDESK_PROVIDER_FALLBACKS is set, and the offline provider needs none.",
            "Set FRONTDESK_MODEL or FRONTDESK_PROVIDER, or leave it out.",
        )
    every = {"provider": first, **{f"profile {name}": make for name, make in fallbacks.items()}}
    members = [
        Member(name, make, make.provider.leave_retries() if isinstance(make, _Shared) else 0)
        for name, make in every.items()
    ]
    return partial(Chain, members)


def _check_itself(setting: object, config: Mapping[str, object] | None) -> None:
    if isinstance(setting, _Checking):
        given = [] if config is None else [config]
        _attempt(setting, lambda: setting.check_configuration(*given))


def _configured(
    setting: _Configurable, config: Mapping[str, object]
) -> Callable[[], BaseLLMProvider]:
    made_of = MappingProxyType(dict(config))
    if isinstance(setting, type) and issubclass(setting, LiteLLMProvider):
        made = setting.from_config(made_of)
        assert isinstance(made, LiteLLMProvider)
        return _Shared(made)
    _check_itself(setting, made_of)
    return _tried(setting, lambda: setting.from_config(made_of))


def _tried(setting: object, call: Callable[[], object]) -> Callable[[], BaseLLMProvider]:
    def make() -> BaseLLMProvider:
        made = call()
        if not isinstance(made, BaseLLMProvider):
            raise _error(
                f"provider {_shown(setting)} makes an object without a method "
                "complete(messages, tools)."
            )
        return made

    _attempt(setting, make)
    return make


def _attempt(setting: object, call: Callable[[], object]) -> None:
    """Call a project's code; what it raises tells why the provider can't be used."""
    try:
        call()
    except ConfigurationError:
        raise
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise _error(f"provider {_shown(setting)} failed when it was called: {reason}.") from error


@asynccontextmanager
async def opened(
    factories: Iterable[Callable[[], BaseLLMProvider]],
) -> AsyncGenerator[Sequence[str]]:
    """Be ready for runs inside: what takes long is loaded, and connections are closed at the end.

    ``factories`` are what ``load_provider`` and ``load_profile`` returned. Gives warnings: a
    sentence for each model that seems to have no key. Raises: ConfigurationError E002 when a
    model's vendor is not known, E003 when something is missing, E004 when a vendor can't be asked.
    """
    warnings: list[str] = []
    async with AsyncExitStack() as stack:
        for made in factories:
            if isinstance(made, _Shared):
                with _named(made.profile):
                    warning = await stack.enter_async_context(made.provider.opened())
                if warning is not None:
                    whose = "" if made.profile is None else f"provider_profiles {made.profile}: "
                    warnings.append(whose + warning)
        yield warnings


def _shown(setting: object) -> str:
    """Name a setting without showing what an object tells of itself, which may be a key."""
    if isinstance(setting, str):
        return setting
    named = setting if isinstance(setting, type | FunctionType) else type(setting)
    return named.__qualname__


def _check_signature(made: Callable[..., object]) -> None:
    try:
        inspect.signature(made).bind()
    except TypeError as error:
        problem = f"provider {_shown(made)} can't be made without arguments: {error}."
        raise _error(problem) from error
    except ValueError:
        # Callables written in C may not tell their signature; making one will tell.
        return


def _error(problem: str) -> ConfigurationError:
    return ConfigurationError("E004", problem, PROVIDER_FIX)
