"""Each exception of LiteLLM is one of ours: nothing of the library gets past its door."""

import inspect
from datetime import UTC, datetime

import httpx
import pytest
from models import LITELLM_WARNINGS

from providers.lite import failure_of, load_litellm
from providers.retries import Unavailable, VendorError
from providers.upstream import Watch
from schema.errors import ContextOverflow, ProviderFailed

pytestmark = LITELLM_WARNINGS

_REQUEST = httpx.Request("POST", "http://127.0.0.1/")
_GIVEN: dict[str, object] = {
    "message": "m",
    "model": "x",
    "llm_provider": "p",
    "status_code": 500,
    "request": _REQUEST,
    "response": httpx.Response(400, request=_REQUEST),
    "raw_response": "r",
    "schema": "s",
}
_KINDS: dict[str, type[Exception]] = {
    "AuthenticationError": ProviderFailed,
    "BadGatewayError": Unavailable,
    "BadRequestError": ProviderFailed,
    "ContentPolicyViolationError": ProviderFailed,
    "ContextWindowExceededError": ContextOverflow,
    "InternalServerError": Unavailable,
    "NotFoundError": ProviderFailed,
    "PaymentRequiredError": ProviderFailed,
    "PermissionDeniedError": ProviderFailed,
    "RateLimitError": Unavailable,
    "ServiceUnavailableError": Unavailable,
    "Timeout": Unavailable,
    "UnsupportedParamsError": ProviderFailed,
}


def _made(kind: type[Exception]) -> Exception:
    """Make an exception, with a value for each parameter that it can't do without."""
    known = inspect.signature(kind).parameters.values()
    plain = {inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY}
    needed = [p.name for p in known if p.default is p.empty and p.kind in plain]
    return kind(**{name: _GIVEN.get(name, {}) for name in needed})


@pytest.mark.covers("H10")
def test_each_exception_of_the_library_is_one_of_ours() -> None:
    kinds: list[type[Exception]] = load_litellm().exceptions.LITELLM_EXCEPTION_TYPES
    assert {kind.__name__ for kind in kinds} >= _KINDS.keys()
    for kind in kinds:
        failure = failure_of(_made(kind), Watch(), "vendor", datetime.now(UTC))
        allowed = (
            {_KINDS[kind.__name__]} if kind.__name__ in _KINDS else {ProviderFailed, Unavailable}
        )
        assert type(failure) in allowed, kind
        assert isinstance(failure.__cause__, VendorError)
        assert "m" not in str(failure).split(), kind
