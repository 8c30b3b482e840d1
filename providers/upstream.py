"""The connection to a vendor, watched: how a request ended is told here and not by a library.

What goes wrong is said without addresses and headers, because those may hold keys. Redirects are
not followed: a key is for the configured address only. Source: bug-cases.md H06, H10 and H33.
"""

import base64
import logging
import re
from collections.abc import AsyncIterator, Generator, Iterable, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from urllib.parse import quote

import httpx

from providers.wire import WireReader

_WATCH: ContextVar["Watch | None"] = ContextVar("_WATCH", default=None)

_MOST_CHARS = 500
_MOST_ERROR_BYTES = 65_536
_URL_SAFE = str.maketrans("+/", "-_")
_KEY_HEADERS = ("api-key", "authorization", "x-api-key", "x-goog-api-key")
_TALKATIVE = (
    "LiteLLM",
    "LiteLLM Proxy",
    "LiteLLM Router",
    "httpcore.connection",
    "httpcore.http11",
    "httpcore.http2",
    "httpcore.proxy",
    "httpx",
    "openai._base_client",
    "openai._legacy_response",
    "openai._response",
)
"""Loggers of addresses, headers and whole requests."""


def redacted(text: str, secrets: Iterable[str]) -> str:
    """Take keys, in each form in which they travel, and the queries of addresses out of a text."""
    for secret in secrets:
        encoded = base64.b64encode(secret.encode()).decode().rstrip("=")
        for form in (secret, quote(secret, safe=""), encoded, encoded.translate(_URL_SAFE)):
            text = text.replace(form, "***")
    text = re.sub(r"(https?://[^\s?\"'<>]+)\?[^\s\"'<>]*", r"\1?***", text)
    return " ".join(text.split())[:_MOST_CHARS]


class Watch:
    """One request as seen at its connection; the last one, where a library makes several."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self.status: int | None = None
        self.headers: Mapping[str, str] = {}
        self.broke: str | None = None
        self.wire: WireReader | None = None
        """None where the bytes can't be read along."""
        self.error = bytearray()
        """The first bytes of what came instead of an answer."""
        self.secrets = frozenset(secrets)
        """The keys, those that were sent included; no text may repeat them."""
        self._response: httpx.Response | None = None
        self._body: _WatchedBody | None = None

    @property
    def is_answered(self) -> bool:
        """True when a stream has begun."""
        return self.status is not None and 200 <= self.status < 300

    @contextmanager
    def on(self) -> Generator[None]:
        """Watch the requests that are made inside."""
        token = _WATCH.set(self)
        try:
            yield
        finally:
            _WATCH.reset(token)

    def sends(self, request: httpx.Request) -> None:
        """Take note of a request's keys."""
        values = [request.headers.get(name, "") for name in _KEY_HEADERS]
        self.secrets |= {value.removeprefix("Bearer ") for value in values if value}

    def gets(self, response: httpx.Response) -> None:
        """Take note of a response whose body is still to come, and read it along."""
        body = response.stream
        assert isinstance(body, httpx.AsyncByteStream)
        self.status, self.headers, self._response = response.status_code, response.headers, response
        self.error.clear()
        if response.is_success and "content-encoding" not in response.headers:
            self.wire = WireReader()
        self._body = response.stream = _WatchedBody(body, self)

    def reads(self, data: bytes) -> bytes:
        """Take note of the next bytes of a response's body; return what a library is to see."""
        if self.wire is not None:
            return self.wire.feed(data)
        if not self.is_answered:
            self.error += data[: _MOST_ERROR_BYTES - len(self.error)]
        return data

    async def read_on(self) -> None:
        """Read what a library has left: the connection can be used again then."""
        if self._body is not None:
            with self.on():
                async for _ in self._body.rest():
                    pass

    async def close(self) -> None:
        """Close the connection unless the answer is over."""
        if self._response is not None:
            with self.on():
                await self._response.aclose()


class WatchedClient(httpx.AsyncClient):
    """Sends requests uncompressed, to their own address only, under the watch of whoever asks."""

    async def send(
        self,
        request: httpx.Request,
        *,
        stream: bool = False,
        auth: object = None,
        follow_redirects: object = False,
    ) -> httpx.Response:
        """Send a request; keys are in its headers, and nothing else authenticates it.

        Raises: httpx.NetworkError, whatever happened at the connection.
        """
        watch = _WATCH.get() or Watch()
        watch.sends(request)
        request.headers["accept-encoding"] = "identity"
        try:
            response = await super().send(request, stream=True, auth=None, follow_redirects=False)
        except httpx.TransportError as error:
            broke = type(error).__name__
        else:
            watch.gets(response)
            if not stream:
                await response.aread()
            return response
        watch.broke = broke
        raise httpx.NetworkError(broke)

    async def aclose(self) -> None:
        """Close all connections."""
        with Watch().on():
            await super().aclose()


class _WatchedBody(httpx.AsyncByteStream):
    def __init__(self, body: httpx.AsyncByteStream, watch: Watch) -> None:
        self._body, self._watch = body, watch
        self._data = aiter(body)

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self.rest()

    async def rest(self) -> AsyncIterator[bytes]:
        wire = self._watch.wire
        try:
            async for data in self._data:
                if shown := self._watch.reads(data):
                    yield shown
        except httpx.TransportError as error:
            broke = type(error).__name__
        else:
            if wire is not None and (last := wire.finish()):
                yield last
            return
        self._watch.broke = broke
        raise httpx.ReadError(broke)

    async def aclose(self) -> None:
        await self._body.aclose()


class _Discretion(logging.Filter):
    """Keeps what libraries log while a vendor is asked out of the log."""

    def filter(self, record: logging.LogRecord) -> bool:
        return _WATCH.get() is None


def silence_libraries() -> None:
    """Let libraries log nothing of our requests; what a host application asks stays as it is."""
    for name in _TALKATIVE:
        logging.getLogger(name).addFilter(_Discretion())
