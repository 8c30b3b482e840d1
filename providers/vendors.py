"""The vendors that the seed has providers for, with its keys and defaults.

Source: seed, provider adapters.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Self

from providers.lite import LiteLLMImportError
from providers.model import LiteLLMProvider
from providers.options import CONFIG_FIX, url_problem
from schema.errors import ConfigurationError


class OpenAIDependencyImportError(LiteLLMImportError):
    """What ``OpenAIProvider`` needs is not installed."""


class AnthropicDependencyImportError(LiteLLMImportError):
    """What ``AnthropicProvider`` needs is not installed."""


class GoogleDependencyImportError(LiteLLMImportError):
    """What ``GoogleProvider`` needs is not installed."""


class OllamaDependencyImportError(LiteLLMImportError):
    """What ``OllamaProvider`` needs is not installed."""


class OllamaBaseUrlError(ConfigurationError):
    """The address of the Ollama server is not one."""

    def __init__(self, problem: str) -> None:
        super().__init__("E002", f"provider_config: base_url {problem}.", CONFIG_FIX)


class OpenAIProvider(LiteLLMProvider):
    """Models of OpenAI, and of all servers that speak like it, by ``base_url``."""

    prefix = "openai"
    defaults = MappingProxyType({"model": "gpt-4.1-mini"})
    required_extra = "chat-openai"
    missing = OpenAIDependencyImportError


class AnthropicProvider(LiteLLMProvider):
    """Models of Anthropic."""

    prefix = "anthropic"
    defaults = MappingProxyType({"model": "claude-3-5-haiku-latest", "max_tokens": 1024})
    required_extra = "chat-anthropic"
    missing = AnthropicDependencyImportError

    @classmethod
    def defaults_for(cls, config: Mapping[str, object]) -> Mapping[str, object]:
        """Leave the limit to the model if it reasons: its reasoning counts into it."""
        reasons = config.get("reasoning_effort") is not None
        return {"model": cls.defaults["model"]} if reasons else cls.defaults


class GeminiProvider(LiteLLMProvider):
    """Models of Google."""

    prefix = "gemini"
    defaults = MappingProxyType({"model": "gemini-2.5-flash"})
    required_extra = "chat-google"
    missing = GoogleDependencyImportError


GoogleProvider = GeminiProvider


class OllamaProvider(LiteLLMProvider):
    """Models of an Ollama server, by default on this machine."""

    prefix = "ollama_chat"
    defaults = MappingProxyType({"model": "gemma4:e4b", "base_url": "http://127.0.0.1:11434"})
    required_extra = "chat-ollama"
    missing = OllamaDependencyImportError

    @classmethod
    def from_config(cls, config: Mapping[str, object]) -> Self:
        """Make a provider. Raises: OllamaBaseUrlError, and ConfigurationError for other keys."""
        url = config.get("base_url")
        if isinstance(url, str) and (problem := url_problem(url)):
            raise OllamaBaseUrlError(problem)
        return super().from_config(config)
