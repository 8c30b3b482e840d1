"""Published keys are fetched as seldom as possible, and only theirs are the tokens believed."""

import asyncio
import gzip
import json
import logging
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager, closing, suppress

import pytest
from joserfc.jwk import Key, OctKey, OKPKey, RSAKey
from jwts import AUDIENCE, CLAIMS, ISSUER, NOW, ec, encoded, is_refused, rsa, sign, sign_raw
from turns import Clock

from app import tokens as module
from app.settings import Jwt
from app.tokens import Tokens
from schema.errors import TryAgain, Unauthorized
from schema.events import JsonObject

SECRET = "s" * 32
OWN = OctKey.import_key(SECRET)


def http(body: bytes, status: str = "200 OK", *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", "Connection: close"]
    return "\r\n".join([*lines, *headers, "", ""]).encode() + body


def key_set(*keys: Key | Mapping[str, object]) -> bytes:
    listed = [key.as_dict(private=False) if isinstance(key, Key) else key for key in keys]
    return json.dumps({"keys": listed}).encode()


async def drip(writer: asyncio.StreamWriter) -> None:
    """Answer with a byte now and then, for as long as somebody listens."""
    writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
    while not writer.is_closing():
        writer.write(b" ")
        await writer.drain()
        await asyncio.sleep(0.01)


class Issuer:
    """Publishes keys: counts how often it is asked, and answers as it is told."""

    def __init__(self) -> None:
        self.url, self.asked, self.request, self.answer = "", 0, b"", b""
        self.is_asked, self.may_answer = asyncio.Event(), asyncio.Event()
        self.may_answer.set()

    def publish(self, *keys: Key | Mapping[str, object]) -> None:
        self.answer = http(key_set(*keys))

    @asynccontextmanager
    async def serve(self) -> AsyncGenerator["Issuer"]:
        async with asyncio.TaskGroup() as group:

            def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                group.create_task(self._answer(reader, writer))

            async with await asyncio.start_server(connected, "127.0.0.1", 0) as server:
                self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/keys"
                yield self
            self.may_answer.set()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with closing(writer), suppress(OSError, EOFError):  # who asked may have gone
            self.request = await reader.readuntil(b"\r\n\r\n")
            self.asked += 1
            self.is_asked.set()
            if not self.answer:
                await drip(writer)
            await self.may_answer.wait()
            writer.write(self.answer)
            await writer.drain()


@pytest.fixture
async def issuer() -> AsyncGenerator[Issuer]:
    async with Issuer().serve() as issuer:
        issuer.publish(rsa(), ec())
        yield issuer


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def tokens(issuer: Issuer, clock: Clock) -> AsyncGenerator[Tokens]:
    async with Tokens(Jwt(jwks_url=issuer.url), now=clock) as tokens:
        yield tokens


LONG_LIVED: JsonObject = {"sub": "anna", "exp": NOW + 1_000_000}


@pytest.mark.parametrize(
    ("make_key", "algorithm"),
    [
        *((rsa, name) for name in ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")),
        (ec, "ES256"),
        (lambda: ec("ec384", "P-384"), "ES384"),
        (lambda: ec("ec521", "P-521"), "ES512"),
        (lambda: OKPKey.generate_key("Ed25519", {"kid": "ed"}), "EdDSA"),
    ],
)
async def test_a_published_key_signs_by_each_allowed_algorithm(
    issuer: Issuer, make_key: Callable[[], Key], algorithm: str
) -> None:
    key = make_key()
    issuer.publish(key)
    jwt = Jwt(jwks_url=issuer.url, algorithms=(algorithm,), issuer=ISSUER, audience=AUDIENCE)
    async with Tokens(jwt, now=Clock()) as tokens:
        assert await tokens.claims(sign(key, algorithm)) == CLAIMS
        assert await is_refused(tokens, sign(key, algorithm)[:-8])
    assert issuer.asked == 1


async def test_by_default_rs256_and_es256_are_allowed(tokens: Tokens) -> None:
    assert not await is_refused(tokens, sign(rsa(), "RS256"))
    assert not await is_refused(tokens, sign(ec(), "ES256"))
    assert await is_refused(tokens, sign(rsa(), "RS512"))
    assert await is_refused(tokens, sign(rsa(), "PS256"))


PUBLIC = rsa().as_dict(private=False)
PUBLIC_AS_SECRET = {
    "PEM": rsa().as_pem(),
    "PEM without its end": rsa().as_pem().strip(),
    "DER": rsa().as_der(),
    "JWK": json.dumps(PUBLIC).encode(),
    "modulus": str(PUBLIC["n"]).encode(),
    "nothing": b"\0",
}


@pytest.mark.parametrize("secret", PUBLIC_AS_SECRET.values(), ids=PUBLIC_AS_SECRET)
@pytest.mark.parametrize("named", ["HS256", "RS256", "hs256"])
async def test_a_public_key_is_no_secret(tokens: Tokens, secret: bytes, named: str) -> None:
    forged = sign_raw(OctKey(secret, secret), "HS256", {"alg": named, "kid": "rsa"})
    assert await is_refused(tokens, forged)


async def test_a_secret_that_is_published_signs_nothing(issuer: Issuer, tokens: Tokens) -> None:
    issuer.publish({"kty": "oct", "kid": "oct", "k": encoded(SECRET.encode())}, rsa())
    unchecked = Jwt.model_construct(jwks_url=issuer.url, algorithms=("HS256", "none", "RS256"))
    async with Tokens(unchecked, now=Clock()) as careless:
        for believer in (tokens, careless):
            for header in ({"alg": "HS256", "kid": "oct"}, {"alg": "HS256"}, {"alg": "none"}):
                assert await is_refused(believer, sign_raw(OWN, "HS256", header))
                assert await is_refused(believer, sign_raw(OWN, "none", header))


async def test_what_a_token_says_of_keys_is_neither_used_nor_fetched(
    issuer: Issuer, tokens: Tokens
) -> None:
    thief = rsa("thief")
    async with Issuer().serve() as den:
        den.publish(thief)
        told = {
            "jwk": thief.as_dict(private=False),
            "jku": den.url,
            "x5u": den.url,
            "x5c": [encoded(thief.as_der())],
        }
        for name, value in told.items():
            for kid in ("rsa", "thief", "../rsa", den.url):
                token = sign(thief, "RS256", **{"kid": kid, name: value})
                assert await is_refused(tokens, token)
            assert await tokens.claims(sign(rsa(), "RS256", **{name: value})) == CLAIMS
        assert (den.asked, issuer.asked) == (0, 1)


async def test_a_key_that_is_not_for_this_is_not_used(issuer: Issuer, clock: Clock) -> None:
    curve = ec("ec384", "P-384").as_dict(private=False)
    limited: list[tuple[Key, str, Mapping[str, object]]] = [
        (rsa(), "RS256", {**PUBLIC, "use": "enc"}),
        (rsa(), "RS256", {**PUBLIC, "alg": "RS512"}),
        (rsa(), "RS256", {**PUBLIC, "key_ops": ["encrypt"]}),
        (rsa(), "RS256", {**PUBLIC, "key_ops": []}),
        (rsa(), "RS256", {**PUBLIC, "kty": "EC"}),
        (rsa(), "RS256", {**PUBLIC, "kid": "other"}),
        (ec("ec384", "P-384"), "ES256", curve),
        (ec("ec384", "P-384"), "ES384", {**curve, "crv": "P-256"}),
    ]
    jwt = Jwt(jwks_url=issuer.url, algorithms=("RS256", "ES256", "ES384"))
    async with Tokens(jwt, now=clock) as tokens:
        for asked, (key, algorithm, published) in enumerate(limited, 1):
            issuer.publish(published)
            clock.move(601)
            assert await is_refused(tokens, sign(key, algorithm, LONG_LIVED)), published
            assert issuer.asked == asked


@pytest.mark.filterwarnings("ignore:Key size should be")
async def test_a_key_that_is_too_short_is_not_used(issuer: Issuer, tokens: Tokens) -> None:
    weak = RSAKey.generate_key(1024, {"kid": "weak"})
    issuer.publish(weak, rsa())
    assert await is_refused(tokens, sign(weak, "RS256"))
    assert not await is_refused(tokens, sign(rsa(), "RS256"))


async def test_what_is_no_key_does_not_spoil_the_set(issuer: Issuer, tokens: Tokens) -> None:
    x25519 = OKPKey.generate_key("X25519", {"kid": "x"}).as_dict(private=False)
    odd: list[Mapping[str, object]] = [
        {},
        {"kty": "AKP", "kid": "rsa"},
        {"kty": ["RSA"]},
        {"kty": "RSA", "n": "AQAB"},
        {"kty": "RSA", "n": "", "e": ""},
        {**PUBLIC, "use": ["sig"], "key_ops": ["verify"]},
        {**PUBLIC, "key_ops": 5},
        {**PUBLIC, "e": "AA"},
        {"kty": "EC", "crv": "P-256", "x": "AQAB", "y": "AQAB"},
        {"kty": "EC", "crv": "Ed25519", "x": "AQAB", "y": "AQAB"},
        {"kty": "EC", "crv": "secp256k1", "x": "AQAB", "y": "AQAB"},
        {"kty": "OKP", "crv": "Ed25519", "x": "AQAB"},
        x25519,
    ]
    issuer.publish(*odd, rsa())
    assert await tokens.claims(sign(rsa(), "RS256")) == CLAIMS
    assert issuer.asked == 1
    async with Tokens(Jwt(jwks_url=issuer.url, algorithms=("EdDSA",)), now=Clock()) as tokens:
        assert await is_refused(tokens, sign_raw(OWN, "HS256", {"alg": "EdDSA", "kid": "x"}))


async def test_without_a_kid_it_must_be_clear_which_key_signed(
    issuer: Issuer, tokens: Tokens, clock: Clock
) -> None:
    nameless = {"alg": "RS256"}
    assert await tokens.claims(sign_raw(rsa(), "RS256", nameless)) == CLAIMS
    issuer.publish(rsa(), rsa("second"), ec())
    clock.move(31)
    assert await is_refused(tokens, sign(rsa("third"), "RS256"))
    assert issuer.asked == 2
    assert await is_refused(tokens, sign_raw(rsa(), "RS256", nameless))
    assert await tokens.claims(sign(rsa("second"), "RS256")) == CLAIMS


async def test_two_keys_of_one_name_are_both_tried(issuer: Issuer, tokens: Tokens) -> None:
    issuer.publish({**rsa("second").as_dict(private=False), "kid": "rsa"}, rsa())
    assert await tokens.claims(sign(rsa(), "RS256")) == CLAIMS
    assert await tokens.claims(sign(rsa("second"), "RS256", kid="rsa")) == CLAIMS


# --- when keys are fetched ------------------------------------------------------------------------


async def test_a_new_key_is_found_and_a_withdrawn_one_forgotten(
    issuer: Issuer, tokens: Tokens, clock: Clock
) -> None:
    old, new = sign(rsa(), "RS256", LONG_LIVED), sign(rsa("second"), "RS256", LONG_LIVED)
    await tokens.claims(old)
    issuer.publish(rsa("second"))
    assert await is_refused(tokens, new)  # too soon to ask again
    assert issuer.asked == 1
    clock.move(30)
    await tokens.claims(new)
    assert await is_refused(tokens, old)
    assert issuer.asked == 2


async def test_keys_are_used_for_ten_minutes_without_asking(
    issuer: Issuer, tokens: Tokens, clock: Clock
) -> None:
    token = sign(rsa(), "RS256", LONG_LIVED)
    for seconds, asked in [(0, 1), (600, 1), (1, 2), (600, 2), (1, 3), (-7200, 4)]:
        clock.move(seconds)
        await tokens.claims(token)
        assert issuer.asked == asked


async def test_unknown_keys_make_the_issuer_be_asked_once_in_thirty_seconds(
    issuer: Issuer, tokens: Tokens, clock: Clock
) -> None:
    for second in range(61):
        assert await is_refused(tokens, sign(rsa(), "RS256", kid=f"guess {second}"))
        clock.move(1)
    assert issuer.asked == 3


@pytest.mark.parametrize("is_idle", [False, True])
@pytest.mark.parametrize("kid", ["rsa", "unknown"])
async def test_many_who_come_at_once_share_one_fetch(
    issuer: Issuer, tokens: Tokens, clock: Clock, kid: str, is_idle: bool
) -> None:
    if is_idle:  # for longer than keys may be used
        await tokens.claims(sign(rsa(), "RS256"))
        clock.move(2 * 86_400)
    issuer.asked = 0
    issuer.is_asked.clear()
    issuer.may_answer.clear()
    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        token = sign(rsa(), "RS256", LONG_LIVED, kid=kid)
        tasks = [group.create_task(is_refused(tokens, token)) for _ in range(20)]
        await issuer.is_asked.wait()
        issuer.may_answer.set()
    assert [task.result() for task in tasks] == [kid == "unknown"] * 20
    assert issuer.asked == 1


async def test_while_one_asks_anew_others_use_the_keys_at_hand(
    issuer: Issuer, tokens: Tokens, clock: Clock
) -> None:
    token = sign(rsa(), "RS256", LONG_LIVED)
    await tokens.claims(token)
    clock.move(601)
    issuer.may_answer.clear()
    issuer.is_asked.clear()
    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        first = group.create_task(tokens.claims(token))
        await issuer.is_asked.wait()
        await tokens.claims(token)
        assert not first.done()
        issuer.may_answer.set()
    assert issuer.asked == 2


async def test_who_waits_asks_itself_when_the_first_goes_away(
    issuer: Issuer, tokens: Tokens
) -> None:
    issuer.may_answer.clear()
    token = sign(rsa(), "RS256")
    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        first = group.create_task(tokens.claims(token))
        await issuer.is_asked.wait()
        second = group.create_task(tokens.claims(token))
        first.cancel()
        issuer.may_answer.set()
        assert await second == CLAIMS
    assert issuer.asked == 2


KEYS = key_set(rsa())
MANY_KEYS = KEYS[:-1] + b',"x":"' + b"x" * module.MAX_KEYS_BYTES + b'"}'
FAILURES = {
    "500": http(KEYS, "500 Internal Server Error"),
    "404": http(KEYS, "404 Not Found"),
    "201": http(KEYS, "201 Created"),
    "redirect": http(KEYS, "302 Found", "Location: /elsewhere"),
    "HTML": http(b"<html>Sign in</html>", "200 OK", "Content-Type: text/html"),
    "huge": http(MANY_KEYS),
    "compressed": http(gzip.compress(KEYS), "200 OK", "Content-Encoding: gzip"),
    "nested": http(b"[" * 100_000),
    "empty": http(b""),
    "no set": http(b'{"keys":{"rsa":1}}'),
    "a list": http(b"[]"),
    "cut": http(KEYS)[:-9],
    "no HTTP": b"SSH-2.0-OpenSSH_9.9\r\n",
    "drip": b"",
}


@pytest.mark.parametrize("failure", FAILURES.values(), ids=FAILURES)
async def test_while_no_keys_can_be_had_known_ones_stay_in_use_for_a_day(
    issuer: Issuer,
    tokens: Tokens,
    clock: Clock,
    failure: bytes,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    if not failure:
        monkeypatch.setattr(module, "FETCH_TIMEOUT_S", 0.1)
    token = sign(rsa(), "RS256", LONG_LIVED)
    issuer.answer = failure
    for _ in range(3):
        with pytest.raises(TryAgain) as caught:
            async with asyncio.timeout(5):
                await tokens.claims(token)
        assert caught.value.retry_after_seconds == 30
    assert issuer.asked == 1
    [record] = [record for record in caplog.records if record.name == "app.tokens"]
    assert (record.levelno, record.exc_info) == (logging.WARNING, None)
    assert issuer.url not in record.getMessage()

    issuer.publish(rsa())
    clock.move(30)
    assert await tokens.claims(token) == LONG_LIVED
    assert b"\r\naccept-encoding: identity\r\n" in issuer.request.lower()

    issuer.answer = failure
    clock.move(3600)
    for _ in range(3):
        assert await tokens.claims(token) == LONG_LIVED
        assert await is_refused(tokens, sign(rsa(), "RS256", LONG_LIVED, kid="unknown"))
    assert issuer.asked == 3
    clock.move(23 * 3600)
    assert await tokens.claims(token) == LONG_LIVED
    clock.move(31)
    with pytest.raises(TryAgain):
        await tokens.claims(token)


async def test_an_issuer_that_is_not_there_is_waited_for(clock: Clock) -> None:
    async with Issuer().serve() as issuer:
        url = issuer.url
    async with Tokens(Jwt(jwks_url=url), now=clock) as tokens:
        with pytest.raises(TryAgain):
            await tokens.claims(sign(rsa(), "RS256"))
        with pytest.raises(Unauthorized):  # that needs no keys
            await tokens.claims(sign(OWN, "HS256"))


async def test_an_issuer_that_withdraws_all_keys_is_obeyed(
    issuer: Issuer, tokens: Tokens, clock: Clock
) -> None:
    token = sign(rsa(), "RS256", LONG_LIVED)
    await tokens.claims(token)
    issuer.publish()
    clock.move(601)
    assert await is_refused(tokens, token)
