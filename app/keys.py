"""Texts and keys that every database takes, whatever a client or a model has sent."""

import hashlib
import json

from schema.events import Actor

KEY_LENGTH = 200
"""Longest owner, origin and request key; what is longer is stored as its SHA-256."""


def clean(text: str) -> str:
    """Make a text storable: halves of surrogate pairs are joined or replaced, NUL is shown.

    A NUL that JSON has escaped is six characters, and stays.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text.replace("\0", "\N{SYMBOL FOR NULL}")


def fit(key: str) -> str:
    """Make a key fit its column without making two keys equal: as it is, or as its digest."""
    is_storable = len(key) <= KEY_LENGTH and clean(key) == key
    return key if is_storable else sha256(key)


def sha256(text: str) -> str:
    """Return the digest that stands for a text."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def owner_key(actor: Actor) -> str:
    """Name the owner of what an actor makes; two actors never have the same key."""
    return fit(json.dumps([actor.kind, actor.tenant, actor.subject]))
