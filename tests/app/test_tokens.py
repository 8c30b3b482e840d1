"""A bearer token is believed for what a known key signed, now and for us, and for nothing else."""

import asyncio
import base64
import json
import logging
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from joserfc.jwk import OctKey
from jwts import AUDIENCE, CLAIMS, ISSUER, NOW, encoded, is_refused, rsa, sign, sign_raw
from turns import Clock

from app.settings import Jwt
from app.tokens import LEEWAY_S, Tokens, actor_of, expires_at, make_token
from schema.errors import ConfigurationError, Unauthorized
from schema.events import Actor, Json, JsonObject

SECRET = "correct horse battery staple, then on until 64 letters are there"
OWN = OctKey.import_key(SECRET)
SHARED = Jwt(secret=SECRET, issuer=ISSUER, audience=AUDIENCE)


def own(header: Mapping[str, object] | None = None, **claims: object) -> str:
    """Sign by the shared secret, with a header or claims other than usual."""
    return sign_raw(OWN, "HS256", header or {"alg": "HS256"}, {**CLAIMS, **claims})


def without(claim: str) -> JsonObject:
    return {name: value for name, value in CLAIMS.items() if name != claim}


def believed(token: str, jwt: Jwt = SHARED) -> JsonObject:
    async def ask() -> JsonObject:
        async with Tokens(jwt, now=Clock()) as tokens:
            return await tokens.claims(token)

    return asyncio.run(ask())


# --- with a shared secret -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("actor", "jwt"),
    [
        (Actor("user", "anna"), SHARED),
        (Actor("user", "änna\N{ZERO WIDTH JOINER}", "acme"), Jwt(secret=SECRET)),
        (Actor("service", "ci", None, frozenset({"read", "write"})), SHARED),
        (Actor("service", "ci", "acme"), Jwt(secret=SECRET, algorithms=("HS512", "HS256"))),
    ],
)
def test_a_token_that_we_made_tells_who_asks(actor: Actor, jwt: Jwt) -> None:
    token = make_token(
        jwt,
        actor.subject,
        lifetime=timedelta(minutes=5),
        now=Clock().moment,
        tenant=actor.tenant,
        scopes=sorted(actor.scopes),
        is_service=actor.kind == "service",
    )
    claims = believed(token, jwt)
    assert actor_of(claims) == actor
    assert expires_at(claims) == Clock().moment + timedelta(minutes=5, seconds=LEEWAY_S)
    header = json.loads(base64.urlsafe_b64decode(token.partition(".")[0] + "=="))
    assert header == {"typ": "JWT", "alg": jwt.allowed_algorithms[0]}


@pytest.mark.parametrize("name", ["HS256", "HS384", "HS512"])
def test_a_secret_signs_by_each_allowed_algorithm(name: str) -> None:
    assert believed(sign(OWN, name), Jwt(secret=SECRET, algorithms=(name,))) == CLAIMS


@pytest.mark.parametrize(
    "token",
    [
        own(exp=NOW - 29),
        own(exp=NOW + 0.5),
        own(exp=253_402_300_799),
        own(nbf=NOW + 30, iat=NOW + 30),
        own(aud=["other", AUDIENCE]),
        own({"alg": "HS256", "kid": "whatever", "typ": "at+jwt", "org": {"id": 1}}),
        own({"alg": "HS256", "kid": 5, "jku": "http://127.0.0.1:1/", "x" * 2000: ""}),
        own(note="x" * 5000),
    ],
)
def test_what_is_unusual_but_allowed_is_believed(token: str) -> None:
    assert believed(token)["sub"] == "anna"


GOOD = own()
HEAD, BODY, SIGNATURE = GOOD.split(".")
NONES = ["none", "None", "NONE", "nOnE", "", " none", "HS256 ", "hs256"]
TIMES: list[Json] = ["", str(NOW + 60), True, None, [NOW + 60], {}, float("nan"), float("inf")]
HUGE: list[Json] = [1e300, 10**12, 10**18, 2**64, 10**400, 1.7e308]
PAST: list[Json] = [NOW - 30, 0, -1, -1e300]
CRITS: list[Json] = [["exp"], ["b64"], ["x"], ["alg"], [], 5, [{}], "b64", None]
ISSUERS: list[Json] = [f"{ISSUER}/", "", None, [ISSUER], 1, {}]
AUDIENCES: list[Json] = [
    *("frontdesk2", "front", "", None, 1, {AUDIENCE: 1}),
    *([], ["other"], [AUDIENCE, 1]),
]
HEADERS = (
    *(b"", b"{", b"\xff", b'{"alg":"HS256"', b"null", b"1", b'"alg"', b'["alg"]', b"{}"),
    *(b'{"alg":1}', b'{"alg":null}', b'{"alg":["HS256"]}', b'{"alg":{"HS256":1}}'),
)
PAYLOADS = (
    *(b"", b"{", b"\xff", b"null", b"[]", b'"sub"', b"1", b'{"sub":"\\ud800"}'),
    *(json.dumps(CLAIMS).encode("utf-16"), b'{"exp":' + b"9" * 5000 + b"}"),
    *(b"[" * 5000, b'{"a":' + b"[" * 2500 + b"]" * 2500 + b"}"),
)
REFUSED = {
    "empty": "",
    "a dot": ".",
    "two dots": "..",
    "many dots": "." * 8000,
    "garbage": "garbage",
    "two parts": f"{HEAD}.{BODY}",
    "four parts": f"{GOOD}.e30",
    "five parts": f"{HEAD}..{BODY}.{BODY}.{SIGNATURE}",
    "white space": f" {GOOD}",
    "a line end": f"{GOOD}\n",
    "padding": f"{GOOD}=",
    "other alphabet": f"{HEAD}.{BODY}.++//{SIGNATURE[4:]}",
    "unicode": "ä.ö.ü",
    "unicode in a good one": GOOD.replace("e", "е"),
    "surrogates": "\ud800.\udfff.\ud800",
    "control characters": "\0.\r\n.\x7f",
    "too long": own(note="x" * 8192),
    "no signature": f"{HEAD}.{BODY}.",
    "half a signature": f"{HEAD}.{BODY}.{SIGNATURE[:22]}",
    "signature of another": f"{HEAD}.{BODY}.{own(sub='eve').rpartition('.')[2]}",
    "payload changed": f"{HEAD}.{encoded(CLAIMS | {'sub': 'eve'})}.{SIGNATURE}",
    "header changed": f"{encoded({'alg': 'HS256', 'a': 1})}.{BODY}.{SIGNATURE}",
    "another secret": sign(OctKey.import_key("x" * 64), "HS256"),
    "algorithm not allowed": sign(OWN, "HS512"),
    "algorithm of published keys": sign_raw(OWN, "HS256", {"alg": "RS256"}),
    "not signed": sign(OWN, "none"),
    **{f"header {header}": sign_raw(OWN, "HS256", header) for header in HEADERS},
    **{f"alg {name!r}": sign_raw(OWN, "HS256", {"alg": name}) for name in NONES},
    **{f"alg {name!r} not signed": sign_raw(OWN, "none", {"alg": name}) for name in NONES},
    **{f"payload {payload[:9]}": sign(OWN, "HS256", payload) for payload in PAYLOADS},
    "nested header": sign_raw(OWN, "HS256", b'{"alg":' + b"[" * 4000),
    **{f"crit {crit}": own({"alg": "HS256", "crit": crit, "b64": True}) for crit in CRITS},
    "payload not encoded": f"{encoded({'alg': 'HS256', 'b64': False, 'crit': ['b64']})}.{{}}.",
    "exp missing": sign(OWN, "HS256", without("exp")),
    **{f"exp {time}": own(exp=time) for time in [*TIMES, *HUGE, *PAST]},
    **{f"nbf {time}": own(nbf=time) for time in [*TIMES, *HUGE, NOW + 31]},
    **{f"iat {time}": own(iat=time) for time in [*TIMES, *HUGE, NOW + 31]},
    "iss missing": sign(OWN, "HS256", without("iss")),
    **{f"iss {name}": own(iss=name) for name in ISSUERS},
    "aud missing": sign(OWN, "HS256", without("aud")),
    **{f"aud {name}": own(aud=name) for name in AUDIENCES},
    **{f"sub {name}": own(sub=name) for name in (7, True, None, ["anna"], {"anna": 1})},
}


@pytest.mark.parametrize("token", REFUSED.values(), ids=REFUSED)
def test_what_is_not_valid_is_refused_and_not_repeated(
    token: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "app")
    with pytest.raises(Unauthorized) as caught:
        believed(token)
    assert str(caught.value) == Unauthorized.public
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    [record] = [record for record in caplog.records if record.name == "app.tokens"]
    reason = record.getMessage().removeprefix("A bearer token was refused: ")
    assert reason in "alg crit format length signature aud exp iat iss nbf sub".split()
    assert record.exc_info is None


CHANGES = st.tuples(st.integers(0, len(GOOD)), st.integers(0, 3), st.text(max_size=3))


@given(token=st.text() | st.from_regex(r"\A[\w.-]*\.[\w.-]*\.[\w-]*\Z"))
def test_no_text_is_a_token(token: str) -> None:
    assert asyncio.run(is_refused(Tokens(SHARED, now=Clock()), token))


@given(change=CHANGES)
def test_a_token_that_was_changed_anywhere_is_refused(change: tuple[int, int, str]) -> None:
    start, length, text = change
    token = GOOD[:start] + text + GOOD[start + length :]
    assert asyncio.run(is_refused(Tokens(SHARED, now=Clock()), token)) is (token != GOOD)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
NAMES = st.sampled_from(
    ["sub", "exp", "nbf", "iat", "iss", "aud", "jti", "kind", "tenant", "scope", "scp", "value"]
)


@given(claims=st.dictionaries(NAMES, VALUES), header=st.dictionaries(st.text(), VALUES))
def test_whatever_an_issuer_signs_is_an_actor_with_an_end_or_is_refused(
    claims: dict[str, object], header: dict[str, object]
) -> None:
    jwt = Jwt(secret=SECRET)
    token = sign_raw(OWN, "HS256", {**header, "alg": "HS256"}, {"exp": NOW + 60, **claims})
    with suppress(Unauthorized):
        found = believed(token, jwt)
        assert expires_at(found).tzinfo is UTC
        assert actor_of(found).subject == claims["sub"]


# --- what the claims tell -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("claims", "scopes"),
    [
        ({}, set[str]()),
        ({"scope": " read  write\n"}, {"read", "write"}),
        ({"scp": ["read", "write all"]}, {"read", "write all"}),
        ({"scp": "read"}, {"read"}),
        ({"scope": "read", "scopes": ["write"], "scp": None}, {"read", "write"}),
        ({"scope": {"admin": True}, "scopes": [1, None, ["admin"], "read"], "scp": 7}, {"read"}),
    ],
)
def test_scopes_are_taken_from_each_claim_that_holds_some(
    claims: JsonObject, scopes: set[str]
) -> None:
    assert actor_of({"sub": "anna", **claims}).scopes == scopes


@pytest.mark.parametrize("kind", ["user", "session", "Service", "", None, True, ["service"]])
def test_only_the_kind_service_makes_a_service(kind: Json) -> None:
    assert actor_of({"sub": "anna", "kind": kind}) == Actor("user", "anna")


@pytest.mark.parametrize(
    "claims",
    [
        {},
        {"tenant": "acme"},
        *({"sub": name} for name in ("", "  ", "\t", None, 7, True, ["anna"], {"anna": 1})),
        *({"sub": f"an{char}na"} for char in "\0\n\r\x1b\x7f\x85\ud800"),
        *({"sub": "anna", "tenant": name} for name in ("", " ", 7, False, ["acme"], "ac\0me")),
    ],
)
def test_who_is_not_named_in_plain_text_is_nobody(claims: JsonObject) -> None:
    with pytest.raises(Unauthorized):
        actor_of(claims)


@pytest.mark.parametrize("claims", [{}, *({"exp": time} for time in TIMES), {"exp": 1e300}])
def test_an_end_that_is_no_time_is_refused(claims: JsonObject) -> None:
    with pytest.raises(Unauthorized):
        expires_at(claims)


# --- set-up ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("jwt", "problem"),
    [
        (Jwt.model_construct(), "FRONTDESK_JWT__SECRET is not set"),
        (Jwt(secret=rsa().as_pem().decode().strip()), "FRONTDESK_JWT__SECRET is a public key"),
    ],
)
def test_a_key_that_can_not_sign_is_told_at_the_start(jwt: Jwt, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=f"E002: {problem}") as caught:
        Tokens(jwt, now=Clock())
    assert jwt.secret is None or jwt.secret not in str(caught.value)
    with pytest.raises(ConfigurationError, match=f"E002: {problem}"):
        make_token(jwt, "anna", lifetime=timedelta(minutes=1), now=Clock().moment)


def test_published_keys_make_no_tokens() -> None:
    jwt = Jwt(jwks_url="https://login.example/keys")
    with pytest.raises(ConfigurationError, match="FRONTDESK_JWT__SECRET"):
        make_token(jwt, "anna", lifetime=timedelta(minutes=1), now=Clock().moment)


@pytest.mark.parametrize("algorithms", [("none",), ("none", "HS256", "RS256")])
def test_settings_that_were_not_checked_open_no_door(algorithms: tuple[str, ...]) -> None:
    jwt = Jwt.model_construct(secret=SECRET, algorithms=algorithms)
    with pytest.raises(Unauthorized):
        believed(sign(OWN, "none"), jwt)
