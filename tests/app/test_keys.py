"""Any text and any key can be stored, and keys that differ stay apart."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.keys import KEY_LENGTH, clean, fit, owner_key
from schema.events import Actor

SHORT = st.text(max_size=12)
ACTORS = st.builds(
    Actor,
    kind=st.sampled_from(["user", "session", "service"]),
    subject=st.one_of(SHORT, st.text(min_size=KEY_LENGTH)),
    tenant=st.one_of(st.none(), SHORT),
)


@given(ACTORS, ACTORS)
def test_owners_are_told_apart_and_fit_their_column(one: Actor, other: Actor) -> None:
    assert (owner_key(one) == owner_key(other)) == (one == other)
    assert len(owner_key(one)) <= KEY_LENGTH


@pytest.mark.parametrize(
    ("tenant", "subject", "others"), [("a", "b:c", ("a:b", "c")), (None, "b", ("", "b"))]
)
def test_owners_with_like_parts_are_told_apart(
    tenant: str | None, subject: str, others: tuple[str, str]
) -> None:
    assert owner_key(Actor("user", subject, tenant)) != owner_key(
        Actor("user", others[1], others[0])
    )


@pytest.mark.parametrize(
    ("given_text", "stored"),
    [
        ("plain", "plain"),
        ("\ud83d\ude00", "😀"),
        ("half \ud83d of one", "half � of one"),
        ("a\0b", "a␀b"),
    ],
)
def test_any_text_can_be_stored(given_text: str, stored: str) -> None:
    assert clean(given_text) == stored


@given(st.text(st.characters(codec=None)))
def test_storing_a_text_never_fails(text: str) -> None:
    clean(text).encode()


@given(st.text(st.characters(codec=None), max_size=2 * KEY_LENGTH))
def test_keys_fit_their_column_and_stay_apart(key: str) -> None:
    fitted = fit(key)
    assert len(fitted) <= KEY_LENGTH
    assert clean(fitted) == fitted
    assert (fitted == key) == (len(key) <= KEY_LENGTH and clean(key) == key)
