"""Who asks, and whether they may: from a request to an ``Actor``.

A visitor without a session gets one: a random id in a signed cookie, so that the next message
continues the same conversation. A session that a browser sends by itself proves nothing about the
page that made it do so; therefore a session needs its token besides. Source: design.md 4, session.
"""

import hmac
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, TypedDict

from itsdangerous import BadSignature, Signer

from schema.errors import Denied, ToolError, guarded_answer
from schema.events import Actor

SESSION_COOKIE = "frontdesk_session"
CSRF_COOKIE = "csrftoken"
CSRF_HEADER = "X-CSRFToken"

_MAX_COOKIE_CHARS = 512
_OWN_SITES = ("same-origin", "same-site", "none")


class Scope(TypedDict):
    """What a permission is asked about, besides the actor."""

    user: str | None
    session: str | None
    client: tuple[str, int] | None
    transport: Literal["http", "sse"]


Permission = Callable[[Actor, Scope], object]
"""Says whether an actor may ask, sync or async; everything but a true answer denies."""


@dataclass(frozen=True, slots=True)
class Visit:
    """An actor; and where the session is new, the cookies to set."""

    actor: Actor
    new_cookies: Mapping[str, str] | None = None


class Sessions:
    """Makes and reads anonymous sessions. Nothing is stored: the signature is the proof."""

    def __init__(self, secret: str) -> None:
        self._signer = Signer(secret, salt=SESSION_COOKIE)
        self._csrf_signer = Signer(secret, salt=CSRF_COOKIE)

    def visit(self, cookies: Mapping[str, str]) -> Visit:
        """Return the session that the cookies name; a new one where they name none of ours."""
        subject = self._read(cookies.get(SESSION_COOKIE, ""))
        if subject is not None:
            return Visit(Actor("session", subject))
        subject = secrets.token_urlsafe(24)
        new_cookies = {
            SESSION_COOKIE: self._signer.sign(subject).decode(),
            CSRF_COOKIE: self._csrf_token(subject),
        }
        return Visit(Actor("session", subject), new_cookies)

    def check_origin(self, visit: Visit, headers: Mapping[str, str]) -> None:
        """Refuse what another site's page may have sent.

        Raises: Denied.
        """
        if _is_cross_site(headers):
            raise Denied
        sent, due = headers.get(CSRF_HEADER, ""), self._csrf_token(visit.actor.subject)
        if visit.new_cookies is None and not hmac.compare_digest(sent.encode(), due.encode()):
            raise Denied(f"Send the value of the cookie {CSRF_COOKIE} as header {CSRF_HEADER}.")

    def _read(self, cookie: str) -> str | None:
        if len(cookie) > _MAX_COOKIE_CHARS:
            return None
        try:
            return self._signer.unsign(cookie.encode()).decode()
        except BadSignature:
            return None

    def _csrf_token(self, subject: str) -> str:
        return self._csrf_signer.get_signature(subject).decode()


def _is_cross_site(headers: Mapping[str, str]) -> bool:
    site = headers.get("Sec-Fetch-Site")
    if site is not None:
        return site not in _OWN_SITES
    origin = headers.get("Origin")
    if origin is None:
        return False
    return origin.partition("://")[2].lower() != headers.get("Host", "").lower()


async def permit(permission: Permission | None, actor: Actor, scope: Scope) -> None:
    """Ask the configured permission; without one, everybody may ask.

    Raises: Denied when the answer is not true, or there is none because it failed.
    """
    if permission is None:
        return
    try:
        is_allowed = await guarded_answer("permission", lambda: permission(actor, scope))
    except ToolError as error:
        raise Denied from error
    if not is_allowed:
        raise Denied
