"""Sessions that a browser carries itself: a signed cookie, and the token that goes with it.

Nothing is stored: the signature is the proof. So a copied cookie lives as long as its session, and
a new ``session_secret`` ends all sessions at once. Source: design.md 4, session.
"""

import hashlib
import secrets
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache

from itsdangerous import BadData, Signer, URLSafeSerializer
from pydantic import TypeAdapter

from schema.events import Actor

SESSION_COOKIE = "frontdesk_session"
CSRF_COOKIE = "csrftoken"

MAX_COOKIE_CHARS = 3_900
"""Browsers keep 4,096 of a cookie, its name and attributes counted in."""
_KEPT = 1_024
"""So many cookies are remembered for what they say, which never changes."""
_SHA256 = {"digest_method": hashlib.sha256}


@dataclass(frozen=True, slots=True)
class Session:
    """One browser's session: that of a visitor, or of an actor who signed in, until it expires."""

    id: str
    actor: Actor
    expires_at: datetime | None = None


_SESSION = TypeAdapter(Session)


class Sessions:
    """Makes sessions and reads them back."""

    def __init__(self, secret: str) -> None:
        self._sessions = URLSafeSerializer(secret, salt=SESSION_COOKIE, signer_kwargs=_SHA256)
        self._tokens = Signer(secret, salt=CSRF_COOKIE, digest_method=hashlib.sha256)
        self._read = lru_cache(_KEPT)(self._decode)

    def start(self, actor: Actor | None = None, expires_at: datetime | None = None) -> Session:
        """Start a session of an actor; without one, of a visitor nobody knows."""
        id = secrets.token_urlsafe(24)
        return Session(id, actor or Actor("session", id), expires_at)

    def read(self, cookie: str) -> Session | None:
        """Return the session that a cookie of ours names, an expired one too; else None."""
        # What is remembered must not be as long as a stranger likes.
        return self._read(cookie) if len(cookie) <= MAX_COOKIE_CHARS else None

    def _decode(self, cookie: str) -> Session | None:
        try:
            return _SESSION.validate_python(self._sessions.loads(cookie))
        except (BadData, ValueError):
            return None

    def cookies(self, session: Session) -> dict[str, str]:
        """Write the cookies of a session."""
        value = self._sessions.dumps(_SESSION.dump_python(session, mode="json"))
        return {SESSION_COOKIE: value, CSRF_COOKIE: self.csrf_token(session.id)}

    def csrf_token(self, key: str) -> str:
        """Make the token that a page must show to act for ``key``; other sites can't know it."""
        return self._tokens.get_signature(key).decode()
