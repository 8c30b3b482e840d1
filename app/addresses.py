"""Host names, origins and URLs of others, each in the one form in which they are compared.

A host is in lower case and without a port; an IPv6 address is short and has no brackets: ``::1``.
An origin is as browsers send it: in lower case, without a default port, and with brackets around an
IPv6 address. The errors are ValueErrors that end a sentence and never repeat the value.
"""

import re
from collections.abc import Iterable
from ipaddress import IPv6Address, ip_address

_LABEL = "[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?"
_NAME = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_SITE = r"(https?)://(\[[^]]+\]|[^][:/?#@\\\s]+)(?::([0-9]{1,5}))?"
_ORIGIN = re.compile(f"{_SITE}/?")
_URL = re.compile(rf"{_SITE}([/?][^\s#]*)?")
_HOST = re.compile(r"(?:\[([0-9a-f:.]+)\]|([^:\[\]]+))(?::[0-9]*)?")
_DEFAULT_PORTS = {"http": 80, "https": 443}


def is_loopback(host: str) -> bool:
    """Whether a host name or an address always means this machine itself."""
    try:
        return ip_address(host.removeprefix("[").removesuffix("]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def host_of(header: str) -> str:
    """Take the host out of a ``Host`` header; "" when it names none."""
    found = _HOST.fullmatch(header.lower())
    return (found[1] or found[2]).removesuffix(".") if found else ""


def is_among(host: str, patterns: Iterable[str]) -> bool:
    """Look a host up in patterns as ``host_pattern`` gives them."""
    return any(
        pattern in ("*", host) or (pattern.startswith("*.") and host.endswith(pattern[1:]))
        for pattern in patterns
    )


def is_origin_of(origin: str, header: str) -> bool:
    """Whether a page of an origin is one of the host that a ``Host`` header names."""
    scheme, _, place = origin.lower().partition("://")
    if scheme not in _DEFAULT_PORTS or not place:
        return False
    default = f":{_DEFAULT_PORTS[scheme]}"
    return place.removesuffix(default) == header.lower().removesuffix(default)


def host_pattern(text: str) -> str:
    """Normalise a host; ``*.`` before a name stands for all names below it, ``*`` for any host."""
    pattern = text.strip().lower()
    if pattern == "*" or _NAME.fullmatch(pattern.removeprefix("*.")):
        return pattern
    if (address := _ipv6(pattern)) is not None:
        return address
    raise ValueError(
        "must be a host name such as desk.example, *.desk.example or ::1, "
        "without scheme, port and path"
    )


def origin(text: str) -> str:
    """Normalise the origin of a site; a lone slash behind it is dropped."""
    given = text.strip().lower()
    if given == "null" or "*" in given:
        raise ValueError(
            "must name one site: * and null would let the pages of any site "
            "ask with the cookies of your users"
        )
    found = _ORIGIN.fullmatch(given)
    host = _host_of(found)
    if found is None or host is None:
        raise ValueError("must be an origin such as https://app.example, without a path")
    scheme, port = found[1], int(found[3] or 0)
    host = f"[{host}]" if ":" in host else host
    return f"{scheme}://{host}" + (f":{port}" if port and port != _DEFAULT_PORTS[scheme] else "")


def private_url(text: str) -> str:
    """Let through a URL whose answer nobody can change on its way."""
    found = _URL.fullmatch(text)
    host = _host_of(found)
    if found is None or host is None or not (found[1] == "https" or is_loopback(host)):
        raise ValueError("must be an https:// address; http:// is for this machine only")
    return text


def _host_of(site: re.Match[str] | None) -> str | None:
    """Return the host of a ``_SITE``, if its host and its port can be such."""
    if site is None or not 0 < int(site[3] or 1) < 65_536:
        return None
    host = site[2].lower()
    return host if _NAME.fullmatch(host) else _ipv6(host)


def _ipv6(text: str) -> str | None:
    has_brackets = text.startswith("[") and text.endswith("]")
    try:
        address = IPv6Address(text[1:-1] if has_brackets else text)
    except ValueError:
        return None
    return None if address.scope_id else address.compressed
