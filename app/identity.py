"""Who asks, and whether they may: from a request's credentials to an ``Actor``.

A bearer token decides alone. Without one, the project's ``identity`` is asked; who is not known to
it is the visitor of a signed session, and a new visitor gets a session, so that the next message
continues the same conversation. What a browser sends by itself proves nothing about the page that
made it do so; therefore a session needs its token besides. Source: design.md 4, session and CSRF.
"""

import hmac
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Literal, TypedDict

from app.addresses import host_of, is_among, is_loopback, is_origin_of
from app.keys import owner_key
from app.sessions import CSRF_COOKIE, MAX_COOKIE_CHARS, SESSION_COOKIE, Sessions
from app.tokens import Tokens, actor_of, expires_at
from schema.errors import Denied, ToolError, TryAgain, Unauthorized, guarded_answer
from schema.events import Actor, JsonObject

_log = logging.getLogger(__name__)

CSRF_HEADER = "X-CSRFToken"
SUBPROTOCOL = "frontdesk"
"""What a WebSocket speaks; beside it, ``bearer.<jwt>`` brings what a browser has no header for."""

_BEARER_SUBPROTOCOL = "bearer."
_OWN_SITES = ("same-origin", "same-site", "none")
_LONGEST = timedelta(hours=12)
"""How long a session lasts whose credentials do not say until when they are valid."""

Transport = Literal["http", "sse", "ws", "cli", "desk"]
"""The door: ``cli`` is `frontdesk chat`, ``desk`` is code that has opened a desk itself."""


class Scope(TypedDict):
    """What a permission is asked about, besides the actor."""

    user: str | None
    session: str | None
    client: tuple[str, int] | None
    transport: Transport


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a request says of who sends it; ``claims`` are those of a bearer token we believe.

    Header names are found in any case.
    """

    headers: Mapping[str, str]
    cookies: Mapping[str, str]
    client: tuple[str, int] | None
    transport: Transport
    claims: JsonObject | None = None

    @property
    def bearer(self) -> str | None:
        """The token that came along; empty when the header names none."""
        scheme, *token = self.headers.get("Authorization", "").split(None, 1) or [""]
        if scheme.lower() == "bearer":
            return "".join(token)
        if self.transport == "ws":
            for protocol in subprotocols(self.headers):
                if protocol.startswith(_BEARER_SUBPROTOCOL):
                    return protocol.removeprefix(_BEARER_SUBPROTOCOL)
        return None


Permission = Callable[[Actor, Scope], object]
"""Says whether an actor may ask, sync or async; everything but a true answer denies."""
Identify = Callable[[Credentials], object]
"""Gives the ``Actor`` of a request, sync or async; of a visitor nobody knows None.

It is asked about believed tokens as well, and None refuses those: ``app.tokens.actor_of`` reads the
usual claims.
"""


@dataclass(frozen=True, slots=True)
class Visit:
    """An actor who came in, and the cookies that the client does not have yet.

    ``csrf_token`` is what a page has to send; None where none is needed, or could be had before.
    """

    actor: Actor
    expires_at: datetime | None = None
    csrf_token: str | None = None
    new_cookies: Mapping[str, str] = field(default_factory=dict[str, str])


class Authenticator:
    """Finds out who asks. The order of the checks is that of its methods."""

    def __init__(
        self,
        sessions: Sessions,
        *,
        tokens: Tokens | None,
        identify: Identify | None,
        permission: Permission | None,
        allowed_hosts: Sequence[str],
        allowed_origins: Sequence[str],
        now: Callable[[], datetime],
    ) -> None:
        self._sessions, self._tokens, self._identify = sessions, tokens, identify
        self._permission, self._now = permission, now
        self._hosts, self._origins = allowed_hosts, frozenset(allowed_origins)
        self._has_warned = False

    async def authenticate(self, credentials: Credentials) -> Visit:
        """Find the actor of a request.

        Raises: Denied for a host name that is not served; Unauthorized for credentials that are not
        valid, or not any more; TryAgain when they can't be checked now.
        """
        self._check_host(credentials.headers.get("Host", ""))
        if (bearer := credentials.bearer) is not None:
            return await self._by_bearer(credentials, bearer)
        actor = await self._identified(credentials)
        if actor is not None:
            return (
                self._visit_by_cookie(actor, credentials) if credentials.cookies else Visit(actor)
            )
        session = self._sessions.read(credentials.cookies.get(SESSION_COOKIE, ""))
        if session is None:
            session = self._sessions.start()
            return Visit(session.actor, new_cookies=self._sessions.cookies(session))
        visit = Visit(session.actor, session.expires_at, self._sessions.csrf_token(session.id))
        self.check_expiry(visit)
        return visit

    def check_expiry(self, visit: Visit) -> None:
        """See whether a visit may still go on.

        Raises: Unauthorized.
        """
        if visit.expires_at is not None and visit.expires_at <= self._now():
            raise Unauthorized("Your credentials have expired. Sign in again.")

    def check_origin(self, visit: Visit, credentials: Credentials) -> None:
        """Refuse what another site's page may have sent.

        A bearer that decides alone is nothing that it could send. But ``identity`` may look at
        cookies as well, and a page can give a WebSocket any subprotocol.
        Raises: Denied.
        """
        if credentials.bearer is not None and self._identify is None:
            return
        self._check_site(credentials)
        # A page can give a WebSocket no header; there, the origin alone decides.
        if visit.csrf_token is not None and credentials.transport != "ws":
            _check_token(visit.csrf_token, credentials.headers)

    async def permit(self, visit: Visit, credentials: Credentials) -> None:
        """Ask the configured permission; without one, everybody may ask.

        Raises: Denied when the answer is not true, or there is none because it failed.
        """
        ask = self._permission
        if ask is None:
            return
        actor = visit.actor
        scope = Scope(
            user=actor.subject if actor.is_signed_in else None,
            session=None if actor.is_signed_in else actor.subject,
            client=credentials.client,
            transport=credentials.transport,
        )
        try:
            is_allowed = await guarded_answer("permission", lambda: ask(actor, scope))
        except ToolError as error:
            raise Denied from error
        if not is_allowed:
            raise Denied

    # --- sessions ---------------------------------------------------------------------------------

    async def sign_in(self, credentials: Credentials) -> Visit:
        """Start a session for the bearer of a token, to last as long as the token.

        Raises: as ``authenticate``; Unauthorized without a bearer; Denied for a page of another
        site, whose browser would not keep the cookies, and for a token with more in it than one can
        hold.
        """
        if credentials.bearer is None:
            raise Unauthorized("Send a bearer token.")
        visit = await self.authenticate(credentials)
        self._check_site(credentials)
        if credentials.headers.get("Sec-Fetch-Site") == "cross-site":
            raise Denied("A page of another site has no session: send the token each time.")
        until = visit.expires_at or self._now() + _LONGEST
        session = self._sessions.start(visit.actor, until)
        cookies = self._sessions.cookies(session)
        if len(cookies[SESSION_COOKIE]) > MAX_COOKIE_CHARS:
            raise Denied("The token says more than a cookie can hold.")
        return Visit(visit.actor, until, new_cookies=cookies)

    def sign_out(self, credentials: Credentials) -> None:
        """See whether a session may be ended; one that has expired may be, and one that is none.

        Raises: Denied.
        """
        self._check_host(credentials.headers.get("Host", ""))
        self._check_site(credentials)
        session = self._sessions.read(credentials.cookies.get(SESSION_COOKIE, ""))
        if session is not None:
            _check_token(self._sessions.csrf_token(session.id), credentials.headers)

    def visitor(self, credentials: Credentials) -> Actor | None:
        """Return the visitor nobody knows whose session came along beside other credentials."""
        session = self._sessions.read(credentials.cookies.get(SESSION_COOKIE, ""))
        return None if session is None or session.actor.is_signed_in else session.actor

    # --- the checks -------------------------------------------------------------------------------

    def _visit_by_cookie(self, actor: Actor, credentials: Credentials) -> Visit:
        """A cookie of the project's own may have told who it is, and any page makes it be sent."""
        token = self._sessions.csrf_token(owner_key(actor))
        has_token = credentials.cookies.get(CSRF_COOKIE) == token
        return Visit(actor, csrf_token=token, new_cookies={} if has_token else {CSRF_COOKIE: token})

    async def _by_bearer(self, credentials: Credentials, bearer: str) -> Visit:
        """A token is checked here if we know how; else it is for ``identity`` to know it."""
        if self._tokens is None:
            actor = await self._identified(credentials)
            if actor is None:
                raise Unauthorized
            return Visit(actor)
        claims = await self._tokens.claims(bearer)
        if self._identify is None:
            actor = actor_of(claims)
        else:
            actor = await self._identified(replace(credentials, claims=claims))
        if actor is None:
            _log.info("FRONTDESK_IDENTITY gave no actor for a believed token.")
            raise Unauthorized
        return Visit(actor, expires_at(claims))

    async def _identified(self, credentials: Credentials) -> Actor | None:
        identify = self._identify
        if identify is None:
            return None
        try:
            found = await guarded_answer("identity", lambda: identify(credentials))
        except ToolError as error:
            raise TryAgain("Who asks can't be found out now. Try again.") from error
        if found is None or isinstance(found, Actor):
            return found
        _log.error("FRONTDESK_IDENTITY gave a %s instead of an Actor.", type(found).__name__)
        raise TryAgain("Who asks can't be found out now. Try again.")

    def _check_host(self, header: str) -> None:
        name = host_of(header)
        if is_loopback(name) if not self._hosts else is_among(name, self._hosts):
            return
        if not self._has_warned:
            self._has_warned = True
            _log.warning(
                "A request for host %.100r was refused: it is not in FRONTDESK_ALLOWED_HOSTS.", name
            )
        raise Denied("This host name is not served here: FRONTDESK_ALLOWED_HOSTS does not hold it.")

    def _check_site(self, credentials: Credentials) -> None:
        """Refuse what a browser says comes from another site's page.

        A sibling's page, such as one of another port, is of the same site, but gets no token to
        send. Where none is asked for, over a WebSocket, the page has to be of this very origin.
        Raises: Denied.
        """
        headers = credentials.headers
        origin, site = headers.get("Origin"), headers.get("Sec-Fetch-Site")
        if origin is not None and origin.lower() in self._origins:
            return
        if site is not None and not (site == "same-site" and credentials.transport == "ws"):
            is_own = site in _OWN_SITES
        else:
            is_own = origin is None or is_origin_of(origin, headers.get("Host", ""))
        if not is_own:
            _log.info("A request of a page of %.100r was refused.", origin or site)
            raise Denied("Pages of this origin may not ask: FRONTDESK_ALLOWED_ORIGINS has others.")


def _check_token(due: str, headers: Mapping[str, str]) -> None:
    if not hmac.compare_digest(headers.get(CSRF_HEADER, "").encode(), due.encode()):
        raise Denied(f"Send the value of the cookie {CSRF_COOKIE} as header {CSRF_HEADER}.")


def subprotocols(headers: Mapping[str, str]) -> list[str]:
    """List what a WebSocket's client offers to speak."""
    return [part.strip() for part in headers.get("Sec-WebSocket-Protocol", "").split(",")]
