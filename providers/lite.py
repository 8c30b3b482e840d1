"""The only door to LiteLLM: it is imported, asked and understood here.

It is imported when it is first needed (it takes seconds), fetches nothing by itself, and calls
nobody back. Source: design.md 7; stack.md 3.8.
"""

import asyncio
import importlib
import os
import re
import sys
import warnings
from collections.abc import Awaitable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from functools import cache
from types import ModuleType
from typing import Protocol

import httpx

from providers.deltas import Tokens
from providers.options import Options
from providers.retries import Unavailable, VendorError, retry_after
from providers.translation import wire_messages, wire_tools, with_cache_marks
from providers.upstream import Watch, WatchedClient, redacted, silence_libraries
from schema.errors import ConfigurationError, ContextOverflow, ProviderFailed
from schema.events import Message, ToolDefinition

_TEMPORARY = frozenset({408, 409, 425, 429, *range(500, 600)})
_OVERFLOW = re.compile(
    r"ContextWindowExceeded|context (length|size|window)|(prompt|input) is too long", re.I
)
_NOT_SENT = r"coroutine '\w+\.(acompletion|async_streaming)\w*' was never awaited"
_BY_HANDLER = frozenset(
    {
        "anthropic",
        "azure_ai",
        "databricks",
        "deepseek",
        "fireworks_ai",
        "gemini",
        "groq",
        "hosted_vllm",
        "huggingface",
        "minimax",
        "mistral",
        "ollama_chat",
        "openrouter",
        "together_ai",
        "xai",
    }
)
"""Vendors that LiteLLM asks by its own handler; most others it asks by OpenAI's library."""
_BY_SIGNING_IN = frozenset({"chatgpt", "github_copilot"})
"""Vendors that have no key: LiteLLM prints a code, and waits for a person to type it in."""
_ENVIRONMENT = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_OFFLINE_MODE": "true",
    "LITELLM_MODE": "PRODUCTION",  # else it loads .env by itself
}


class _Function(Protocol):
    name: str | None
    arguments: str | None


class _CallDelta(Protocol):
    index: int | None
    id: str | None
    function: _Function


class _Delta(Protocol):
    content: str | None
    tool_calls: Sequence[_CallDelta] | None

    def get(self, key: str, /) -> object: ...


class Choice(Protocol):
    """The answer's piece in a chunk; completions have one choice."""

    delta: _Delta
    finish_reason: str | None


class Counts(Protocol):
    """Tokens as LiteLLM counts them."""

    prompt_tokens: int | None
    completion_tokens: int | None


class Chunk(Protocol):
    """A piece of a stream, in OpenAI's form."""

    choices: Sequence[Choice]

    def get(self, key: str, /) -> object:
        """Return what the chunk has under another name; None if nothing."""
        ...


class Stream(Protocol):
    """What LiteLLM makes of a vendor's stream."""

    chunks: Sequence[Chunk]

    async def __anext__(self) -> Chunk: ...

    async def aclose(self) -> None:
        """Leave the stream."""
        ...


class LiteLLMImportError(ConfigurationError):
    """LiteLLM can't be imported."""

    def __init__(self, extra: str | None = None) -> None:
        """Name the extra of Frontdesk that brings it; None is LiteLLM alone."""
        package = "litellm" if extra is None else f"'frontdesk[{extra}]'"
        super().__init__(
            "E003", "LiteLLM can't be imported.", f"Install it: pip install {package}."
        )


@cache
def load_litellm() -> ModuleType:
    """Import LiteLLM, kept from the network, from guessing and from talking.

    Raises: LiteLLMImportError.
    """
    os.environ.update(_ENVIRONMENT)
    try:
        import litellm
    except ImportError as error:
        raise LiteLLMImportError from error
    litellm.suppress_debug_info = True
    litellm.disable_aiohttp_transport = True  # it keeps a connection that was closed
    litellm.disable_hf_tokenizer_download = True
    # A model may repeat itself: a table does.
    litellm.REPEATED_STREAMING_CHUNK_LIMIT = sys.maxsize  # pyright: ignore[reportPrivateImportUsage]
    # It prepares a request in a thread; what is stopped meanwhile is never sent.
    warnings.filterwarnings("ignore", _NOT_SENT, RuntimeWarning)
    silence_libraries()
    return litellm


def vendor_of(model: str, options: Options) -> tuple[str, str | None, str | None]:
    """Return LiteLLM's name of a model's vendor, and the key and the address it is asked with.

    Raises: ConfigurationError E002 when the model's name does not tell it; E004 when the vendor
    wants a person to sign in.
    """
    declared = model.partition("/")[0]
    if declared in _BY_SIGNING_IN:
        raise ConfigurationError(
            "E004",
            f"provider_config: {declared} wants a person to sign in with a code; no server can.",
            "Choose a model of a vendor that gives keys.",
        )
    litellm = load_litellm()
    try:
        _, vendor, key, base_url = litellm.get_llm_provider(model, api_base=options.base_url)
    except litellm.exceptions.BadRequestError as error:
        raise ConfigurationError(
            "E002",
            f"provider_config: the vendor of the model {model!r} is not known.",
            'Name both, e.g. "mistral/mistral-large-latest", or openai/NAME with a base_url.',
        ) from error
    return vendor, options.api_key or key, options.base_url or base_url


def missing_key(model: str, options: Options) -> str | None:
    """Name the variables that a vendor's key may come from, when none of them is set.

    None when there is a key, when the server is one of the project's own (``base_url``), and where
    LiteLLM knows of no key that is needed, or of other ways in. Nobody is asked.
    Raises: as ``vendor_of``.
    """
    vendor, key, _ = vendor_of(model, options)
    litellm = load_litellm()
    own = ("OPENAI_BASE_URL", "OPENAI_API_BASE") if vendor == "openai" else ()
    if key is not None or options.base_url is not None or any(map(os.environ.get, own)):
        return None
    names: Sequence[str] = litellm.validate_environment(model)["missing_keys"]
    is_a_key = all(name.endswith("_API_KEY") for name in names)
    return " or ".join(names) if names and is_a_key else None


class Prices:
    """What the tokens of a model cost, by the price list that LiteLLM brings; nobody is asked."""

    def __init__(self, model: str, vendor: str) -> None:
        """Look the model up.

        ``model`` has the vendor as its prefix; a version with a date may have the price of its
        model.
        """
        litellm = load_litellm()
        self._name, self._vendor = model.removeprefix(f"{vendor}/"), vendor
        self._calculator = importlib.import_module("litellm.litellm_core_utils.llm_cost_calc.utils")
        listed: Mapping[str, object]
        try:
            with Watch().on():  # which keeps what it logs to itself
                listed = importlib.import_module("litellm.utils").get_model_info_helper(
                    self._name, vendor, catalog_only=True, preserve_unset_costs=True
                )
        except litellm.exceptions.ModelNotMappedError:
            listed = {}
        self._listed = {name: value for name, value in listed.items() if value is not None}

    def cost_usd(self, tokens: Tokens) -> Decimal | None:
        """Return what a completion costs; None if a price is not listed, or a count is missing."""
        is_listed = {"input_cost_per_token", "output_cost_per_token"} <= self._listed.keys()
        if not (is_listed or "tiered_pricing" in self._listed):
            return None
        if not (tokens.sent and tokens.received):
            return None
        rates = self._calculator.get_billed_token_rates(
            self._name,
            self._vendor,
            load_litellm().Usage(prompt_tokens=tokens.sent, completion_tokens=tokens.received),
            model_info=self._listed,
        )
        if rates.output_cost_per_reasoning_token != rates.output_cost_per_token:
            return None  # how much of the output is reasoning is not counted
        reads = min(tokens.cache_reads, tokens.sent)
        writes = min(tokens.cache_writes, tokens.sent - reads)
        parts = (
            (tokens.sent - reads - writes, rates.input_cost_per_token),
            (reads, rates.cache_read_input_token_cost),
            (writes, rates.cache_creation_input_token_cost),
            (tokens.received, rates.output_cost_per_token),
        )
        return sum((count * Decimal(str(rate)) for count, rate in parts), Decimal(0))


class Line:
    """The connections to one model's vendor, and how it is asked."""

    def __init__(self, loop: asyncio.AbstractEventLoop, options: Options, model: str) -> None:
        self.loop, self.options, self.model = loop, options, model
        self.vendor, key, base_url = vendor_of(model, options)
        if self.vendor == "ollama_chat":
            # LiteLLM asks Ollama for the prices of models that are not in its list.
            load_litellm().model_cost.setdefault(model, {"litellm_provider": self.vendor})
        self.prices = Prices(model, self.vendor)
        self.http = WatchedClient(
            timeout=None,  # the timers are ours
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=20),
        )
        self._client = self._made(key, base_url)

    def _made(self, key: str | None, base_url: str | None) -> object:
        """Make what LiteLLM sends by; None where it can't be told how."""
        if self.vendor in _BY_HANDLER:
            http_handler = importlib.import_module("litellm.llms.custom_httpx.http_handler")
            # The transport only keeps it from making connections of its own.
            unused = httpx.MockTransport(lambda _: httpx.Response(503))
            handler = http_handler.AsyncHTTPHandler(transport=unused)
            handler.client = self.http
            return handler
        if (
            self.vendor != "openai"
            and self.vendor not in load_litellm().openai_compatible_providers
        ):
            return None
        secrets = importlib.import_module("litellm.secret_managers.main")
        key = key or (secrets.get_secret_str("OPENAI_API_KEY") if self.vendor == "openai" else None)
        # LiteLLM sets retries of its own, for some vendors whatever it is told.
        never = property(lambda _: 0, lambda _client, _retries: None)
        base = importlib.import_module("openai").AsyncOpenAI
        return type("OneAttempt", (base,), {"max_retries": never})(
            api_key=key or "none",  # servers of one's own ask for no key
            base_url=base_url,
            http_client=self.http,
        )

    def ask(
        self, messages: Sequence[Message], tools: Sequence[ToolDefinition]
    ) -> Awaitable[Stream]:
        """Send one request."""
        options, effort = self.options, self._effort(messages)
        # With reasoning on, Anthropic takes no temperature.
        is_free = effort is None or self.vendor != "anthropic"
        wired = wire_messages(messages)
        request: dict[str, object] = {
            "model": self.model,
            "messages": with_cache_marks(wired) if self.vendor == "anthropic" else wired,
            "tools": wire_tools(tools) or None,
            "stream": True,
            "stream_options": {"include_usage": True},
            "api_key": options.api_key,
            "api_base": options.base_url,
            "temperature": options.temperature if is_free else None,
            "top_p": options.top_p,
            "max_tokens": options.max_tokens,
            "reasoning_effort": effort,
            "drop_params": True,
            "timeout": httpx.Timeout(None),
            "num_retries": 0,
            "max_retries": 0,
            "client": self._client,
        }
        given = {name: value for name, value in request.items() if value is not None}
        return load_litellm().acompletion(**given)

    def _effort(self, messages: Sequence[Message]) -> str | None:
        # Anthropic's models reason between calls only if they get their own earlier reasoning back.
        if self.vendor == "anthropic" and messages[-1].role == "tool":
            return None
        return self.options.reasoning_effort


def failure_of(error: Exception, watch: Watch, vendor: str, now: datetime) -> Exception:
    """Tell failures apart, by what was seen at the connection before what LiteLLM makes of it.

    A vendor whose stream breaks off, or has an error inside, is not available. Returns a
    ContextOverflow, an Unavailable or a ProviderFailed, caused by a VendorError.
    """
    exceptions = load_litellm().exceptions
    details = vars(error)
    if isinstance(error, exceptions.MidStreamFallbackError):
        details = vars(details.get("original_exception") or error)
    status = watch.status if watch.status is not None else details.get("status_code")
    failure: Exception
    # LiteLLM adds tracebacks to some texts.
    text, *_ = str(details.get("message") or error).partition("Traceback")
    said = watch.broke or redacted(text, watch.secrets)
    if status == 413 or (status == 400 and _OVERFLOW.search(said)):
        failure = ContextOverflow()
    elif watch.broke or status in _TEMPORARY or watch.is_answered:
        headers = watch.headers or _headers(details)
        failure = Unavailable(retry_after(headers, now, bytes(watch.error)))
    else:
        failure = ProviderFailed()
    told = f"{type(error).__name__}, status {status}: {said}"
    if watch.broke:
        told = f"the connection failed ({watch.broke})"
        told += "" if watch.is_answered else "; is base_url right?"
    failure.__cause__ = VendorError(f"{vendor}: {told}")
    return failure


def _headers(details: Mapping[str, object]) -> Mapping[str, str]:
    response = details.get("response")
    return response.headers if isinstance(response, httpx.Response) else {}
