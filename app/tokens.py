"""Bearer tokens: whether a JWT is to be believed, and how one is made.

A token is believed when a key we know has signed it in an allowed way, and its claims hold now. The
known keys are one shared secret, or those the issuer publishes at one address. What a token says of
keys itself (`jwk`, `jku`, `x5u`, `x5c`) is never looked at. Source: design.md 4 and 6.
"""

import asyncio
import logging
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Self, cast

import httpx
import orjson

from app.settings import Jwt
from schema.errors import ConfigurationError, TryAgain, Unauthorized
from schema.events import Actor, Json, JsonObject

if TYPE_CHECKING:
    from joserfc.jwk import Key, OctKey
    from joserfc.jwt import ClaimsOption

LEEWAY_S = 30
"""How far the issuer's clock and ours may differ."""
_MAX_TOKEN_CHARS = 8192
MAX_KEYS_BYTES = 262_144
FETCH_TIMEOUT_S = 5
_FRESH = timedelta(minutes=10)
"""So long, published keys are used without asking again."""
_COOLDOWN = timedelta(seconds=30)
"""The least time between two fetches, however many unknown keys are named meanwhile."""
_STALE = timedelta(hours=24)
"""So long, published keys stay in use while the issuer does not answer."""

_CURVES = (None, "P-256", "P-384", "P-521", "Ed25519")
_MIN_RSA_BITS = 2048  # RFC 7518 section 3.3
_NEVER = datetime.min.replace(tzinfo=UTC)
_LATEST = datetime.max.replace(tzinfo=UTC) - timedelta(seconds=LEEWAY_S)

_log = logging.getLogger(__name__)


class Tokens:
    """Believes bearer JWTs. One per application: open it (async with) for as long as that runs.

    Raises: ConfigurationError E002 when there is neither a secret nor an address of keys.
    """

    def __init__(self, jwt: Jwt, *, now: Callable[[], datetime]) -> None:
        from joserfc.jwt import JWTClaimsRegistry

        self._rules = JWTClaimsRegistry(
            lambda: int(now().timestamp()),
            LEEWAY_S,
            iss=_equal_to(jwt.issuer),
            aud=_equal_to(jwt.audience),
        )
        self._published = _PublishedKeys(jwt.jwks_url, now) if jwt.jwks_url else None
        self._shared = [] if self._published else [_secret_key(jwt)]
        # Never both kinds: what everybody can read, a published key, must not serve as a secret.
        self._algorithms = [
            name
            for name in jwt.allowed_algorithms
            if name.startswith("HS") is (self._published is None)
        ]

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        if self._published:
            await self._published.client.aclose()

    async def claims(self, token: str) -> JsonObject:
        """Return what a valid token claims.

        Raises: Unauthorized, which tells nobody why; TryAgain when the issuer's keys are not known.
        """
        from joserfc.errors import ClaimError
        from joserfc.jws import JWSRegistry

        header, payload, signed, signature = _take_apart(token)
        algorithm, kid = header.get("alg"), header.get("kid")
        if not isinstance(algorithm, str) or algorithm not in self._algorithms:
            raise _refused("alg")
        if "crit" in header:
            raise _refused("crit")
        keys = await self._published.fitting(algorithm, kid) if self._published else self._shared
        # The library's reader of whole tokens takes `crit` and no long header, and warns of EdDSA.
        verify = JWSRegistry.algorithms[algorithm].verify
        if not any(verify(signed, signature, key) for key in keys):
            raise _refused("signature" if keys else "kid")
        claims = _json_object(payload)
        try:
            self._rules.validate(claims)
        except ClaimError as error:
            raise _refused(error.claim) from None
        expires_at(claims)  # none without an end
        return claims


def actor_of(claims: JsonObject) -> Actor:
    """Tell who a token speaks for.

    Shape: {"sub": "anna", "kind": "service", "tenant": "acme", "scope": "read write"}; only `sub`
    has to be there; `scopes` or `scp` may hold scopes too, each claim as a text or as a list.
    Raises: Unauthorized when `sub` or `tenant` is no plain text.
    """
    tenant = claims.get("tenant")
    return Actor(
        "service" if claims.get("kind") == "service" else "user",
        _plain("sub", claims.get("sub")),
        None if tenant is None else _plain("tenant", tenant),
        frozenset(_scopes(claims)),
    )


def expires_at(claims: JsonObject) -> datetime:
    """Tell until when a token is believed, leeway counted in.

    Raises: Unauthorized when `exp` is missing or no time.
    """
    exp = claims.get("exp")
    try:
        if isinstance(exp, int | float) and not isinstance(exp, bool):
            return min(datetime.fromtimestamp(exp, UTC), _LATEST) + timedelta(seconds=LEEWAY_S)
    except (ValueError, OverflowError, OSError):
        pass
    raise _refused("exp")


def make_token(
    jwt: Jwt,
    subject: str,
    *,
    lifetime: timedelta,
    now: datetime,
    tenant: str | None = None,
    scopes: Sequence[str] = (),
    is_service: bool = False,
) -> str:
    """Sign a token that ``Tokens`` with the same settings believes.

    Raises: ConfigurationError E002 when there is no shared secret.
    """
    from joserfc.jwt import encode

    key, algorithm = _secret_key(jwt), jwt.allowed_algorithms[0]
    claims: JsonObject = {
        "iss": jwt.issuer,
        "aud": jwt.audience,
        "sub": subject,
        "iat": int(now.timestamp()),
        "exp": int((now + lifetime).timestamp()),
        "tenant": tenant,
        "scope": " ".join(scopes) or None,
        "kind": "service" if is_service else None,
    }
    given = {name: value for name, value in claims.items() if value is not None}
    return encode({"alg": algorithm}, given, key, algorithms=[algorithm])


class _PublishedKeys:
    """The keys an issuer publishes, fetched when they are needed and kept while they are good."""

    def __init__(self, url: str, now: Callable[[], datetime]) -> None:
        self.client = httpx.AsyncClient(timeout=FETCH_TIMEOUT_S, follow_redirects=False)
        self._url = url
        self._now = now
        self._lock = asyncio.Lock()
        self._keys: list[Key] = []
        self._fetched_at = self._tried_at = _NEVER

    async def fitting(self, algorithm: str, kid: Json) -> list["Key"]:
        """Return the keys that may have signed; where there are none, the issuer is asked again.

        Without a `kid` it has to be clear which one: just one.
        Raises: TryAgain when no keys are known.
        """
        keys = self._known(algorithm, kid)
        # While one request asks for newer keys, the others go on with those at hand.
        if not keys or (self._age(self._fetched_at) > _FRESH and not self._lock.locked()):
            await self._refresh()
            keys = self._known(algorithm, kid)
        if self._age(self._fetched_at) > _STALE:
            wait_s = int(_COOLDOWN.total_seconds())
            raise TryAgain("The credentials can't be checked now.", retry_after_seconds=wait_s)
        return keys if kid is not None or len(keys) == 1 else []

    def _known(self, algorithm: str, kid: Json) -> list["Key"]:
        if self._age(self._fetched_at) > _STALE:
            return []
        return [key for key in self._keys if kid in (None, key.kid) and _fits(key, algorithm)]

    def _age(self, since: datetime) -> timedelta:
        """Tell how long ago it was; a clock that was set back does not make it last longer."""
        return abs(self._now() - since)

    async def _refresh(self) -> None:
        """Fetch the keys, unless that was done or tried just now: what came of it holds."""
        async with self._lock:
            if self._age(self._tried_at) < _COOLDOWN:
                return
            try:
                self._keys = await self._fetch()
                self._fetched_at = self._now()
            except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
                reason = f"{type(error).__name__} {error}".strip()
                _log.warning("The keys at FRONTDESK_JWT__JWKS_URL can't be fetched: %s", reason)
            self._tried_at = self._now()

    async def _fetch(self) -> list["Key"]:
        headers = {"Accept-Encoding": "identity"}  # compressed, a short answer could be a huge one
        body = bytearray()
        async with (
            asyncio.timeout(FETCH_TIMEOUT_S),
            self.client.stream("GET", self._url, headers=headers) as response,
        ):
            if response.status_code != 200:
                raise ValueError(f"status {response.status_code}")
            async for chunk in response.aiter_raw():
                body += chunk
                if len(body) > MAX_KEYS_BYTES:
                    raise ValueError(f"more than {MAX_KEYS_BYTES} bytes")
        return list(_public_keys(orjson.loads(body)))


def _public_keys(found: Json) -> Iterator["Key"]:
    """Read a JWK set, and leave out what is no public key that we can use."""
    from joserfc.errors import JoseError
    from joserfc.jwk import RSAKey, import_key

    listed = found.get("keys") if isinstance(found, dict) else None
    if not isinstance(listed, list):
        raise ValueError("not a set of keys")
    for item in listed:
        # A symmetric key that is published would let everybody sign.
        if not isinstance(item, dict) or item.get("kty") not in ("RSA", "EC", "OKP"):
            continue
        if item.get("crv") not in _CURVES:
            continue
        try:
            # Values are checked in there, or fail as one of these errors.
            key = import_key(cast("dict[str, str | list[str]]", item))
        except (JoseError, ValueError, KeyError, TypeError):
            continue
        if not isinstance(key, RSAKey) or key.raw_value.key_size >= _MIN_RSA_BITS:
            yield key


def _fits(key: "Key", algorithm: str) -> bool:
    """Tell whether kind, curve, `use`, `alg` and `key_ops` of a key allow it to verify."""
    from joserfc.errors import JoseError
    from joserfc.jws import JWSRegistry

    try:
        JWSRegistry.algorithms[algorithm].check_key(key)
        key.check_key_op("verify")
    except JoseError:
        return False
    return True


def _take_apart(token: str) -> tuple[JsonObject, bytes, bytes, bytes]:
    """Return the header, the payload (still encoded), all that is signed, and the signature."""
    from joserfc.util import urlsafe_b64decode

    if len(token) > _MAX_TOKEN_CHARS:
        raise _refused("length")
    try:
        signed, _, signature = token.encode("ascii").rpartition(b".")
        header, payload = signed.split(b".")
        return _json_object(header), payload, signed, urlsafe_b64decode(signature)
    except ValueError:
        raise _refused("format") from None


def _json_object(segment: bytes) -> JsonObject:
    from joserfc.util import urlsafe_b64decode

    try:
        found: Json = orjson.loads(urlsafe_b64decode(segment))
    except ValueError:
        raise _refused("format") from None
    if not isinstance(found, dict):
        raise _refused("format")
    return found


def _secret_key(jwt: Jwt) -> "OctKey":
    from joserfc.jwk import OctKey

    fix = "Set it to 32 random characters or more."
    if jwt.secret is None:
        raise ConfigurationError("E002", "FRONTDESK_JWT__SECRET is not set.", fix)
    try:
        return OctKey.import_key(jwt.secret)
    except ValueError as error:
        problem = "FRONTDESK_JWT__SECRET is a public key, which is no secret."
        raise ConfigurationError("E002", problem, fix) from error


def _equal_to(value: str | None) -> "ClaimsOption":
    return {} if value is None else {"essential": True, "value": value}


def _plain(claim: str, value: Json) -> str:
    if isinstance(value, str) and value.strip():
        if not any(unicodedata.category(char) in ("Cc", "Cs") for char in value):
            return value
    raise _refused(claim)


def _scopes(claims: JsonObject) -> Iterator[str]:
    for claim in ("scope", "scopes", "scp"):
        match claims.get(claim):
            case str(text):
                yield from text.split()
            case list(items):
                yield from (item for item in items if isinstance(item, str))
            case _:
                pass


def _refused(reason: str) -> Unauthorized:
    """Log the reason, a word of ours: whoever sent the token is not told, nor is it repeated."""
    _log.info("A bearer token was refused: %s", reason)
    return Unauthorized()
