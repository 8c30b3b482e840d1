"""The voice: providers that complete a conversation, behind the port of ``providers.base``."""

from providers.base import BaseLLMProvider
from providers.lite import LiteLLMImportError
from providers.model import LiteLLMProvider
from providers.offline import OfflineProvider
from providers.retries import Unavailable
from providers.scripted import Script, ScriptedProvider
from providers.vendors import (
    AnthropicDependencyImportError,
    AnthropicProvider,
    GeminiProvider,
    GoogleDependencyImportError,
    GoogleProvider,
    OllamaBaseUrlError,
    OllamaDependencyImportError,
    OllamaProvider,
    OpenAIDependencyImportError,
    OpenAIProvider,
)

__all__ = [
    "AnthropicDependencyImportError",
    "AnthropicProvider",
    "BaseLLMProvider",
    "GeminiProvider",
    "GoogleDependencyImportError",
    "GoogleProvider",
    "LiteLLMImportError",
    "LiteLLMProvider",
    "OfflineProvider",
    "OllamaBaseUrlError",
    "OllamaDependencyImportError",
    "OllamaProvider",
    "OpenAIDependencyImportError",
    "OpenAIProvider",
    "Script",
    "ScriptedProvider",
    "Unavailable",
]
