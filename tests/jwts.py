"""Tokens of any kind, well made or not, for tests of who believes them."""

import base64
import json
from functools import cache

from joserfc.jwk import ECKey, Key, RSAKey
from joserfc.jws import JWSRegistry
from turns import Clock

from app.tokens import Tokens
from schema.errors import Unauthorized
from schema.events import JsonObject

NOW = int(Clock().moment.timestamp())
ISSUER, AUDIENCE = "https://login.example", "frontdesk"
CLAIMS: JsonObject = {"sub": "anna", "iss": ISSUER, "aud": AUDIENCE, "exp": NOW + 60}


@cache
def rsa(kid: str = "rsa") -> RSAKey:
    return RSAKey.generate_key(2048, {"kid": kid})


@cache
def ec(kid: str = "ec", curve: str = "P-256") -> ECKey:
    return ECKey.generate_key(curve, {"kid": kid})


def encoded(value: object) -> str:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def sign(key: Key, algorithm: str, claims: object = CLAIMS, **header: object) -> str:
    """Sign anything as a token: the key's `kid` is in the header, unless the header is given."""
    named = {"kid": key.kid} if key.kid else dict[str, object]()
    return sign_raw(key, algorithm, {"alg": algorithm, **named, **header}, claims)


def sign_raw(key: Key, algorithm: str, header: object, claims: object = CLAIMS) -> str:
    signed = f"{encoded(header)}.{encoded(claims)}"
    signature = JWSRegistry.algorithms[algorithm].sign(signed.encode(), key)
    return f"{signed}.{encoded(signature)}"


async def is_refused(tokens: Tokens, token: str) -> bool:
    try:
        await tokens.claims(token)
    except Unauthorized:
        return True
    return False
