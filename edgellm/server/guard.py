"""Who may ask: names of hosts and origins, API keys, sizes. Knows nothing of what is asked.

A web page can make a browser send requests to this machine. What gives it away is the Origin
header, or, when it has its own name point here (DNS rebinding), the Host header.
"""

import hmac
import re
from collections.abc import Iterable
from urllib.parse import urlsplit

from starlette.types import Scope

from edgellm.server.failures import Refusal
from edgellm.server.settings import Settings

_LOOPBACK = re.compile(r"localhost|127(\.\d{1,3}){3}|\[::1\]|::1|[\w-]+\.localhost")
_HOST = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^:\[\]]+)(?::\d+)?")


def check(scope: Scope, settings: Settings, public: bool) -> None:
    """Refusal unless the request may go on. public: the route needs no API key."""
    if sum(len(name) + len(value) for name, value in scope["headers"]) > settings.max_header:
        raise Refusal(
            431, "invalid_request_error", f"the headers are larger than {settings.max_header} bytes"
        )
    length = _header(scope, b"content-length")
    if length and (not length.isdecimal() or int(length[:20]) > settings.max_body):
        raise Refusal(
            413, "invalid_request_error", f"the body is larger than {settings.max_body} bytes"
        )
    encoding = _header(scope, b"content-encoding")
    if encoding is not None and encoding.lower() != "identity":
        raise Refusal(
            415,
            "invalid_request_error",
            f"the body's Content-Encoding is {encoding[:50]!r}: send it as it is, without one",
        )
    if not _is_unix(scope) and not _host_is_ours(scope, settings):
        raise Refusal(
            403,
            "permission_error",
            "the Host header names another machine: --allow-host lets a name in",
        )
    origin = _header(scope, b"origin")
    if origin is not None and not _origin_is_ours(origin, settings):
        raise Refusal(
            403,
            "permission_error",
            f"requests of web pages at {origin[:200]!r} are not taken: --allow-origin lets one in",
        )
    if settings.api_keys and not public and not _has_key(scope, settings.api_keys):
        raise Refusal(401, "authentication_error", "Invalid API Key")


def cors_headers(scope: Scope, settings: Settings) -> list[tuple[bytes, bytes]]:
    """What lets a page read the answer: nothing, unless its origin was allowed by name."""
    origin = _header(scope, b"origin")
    if origin is None or not _listed(origin, settings.origins):
        return []
    return [
        (b"access-control-allow-origin", origin.encode("latin-1")),
        (b"access-control-allow-methods", b"GET, POST, OPTIONS"),
        (b"access-control-allow-headers", b"authorization, content-type, x-api-key"),
        (b"vary", b"origin"),
    ]


def is_loopback(host: str) -> bool:
    """Whether the name or address is this machine's own."""
    return _LOOPBACK.fullmatch(host.lower()) is not None


def _is_unix(scope: Scope) -> bool:
    """A Unix socket has no port, and no browser reaches it."""
    server = scope.get("server")
    return server is None or server[1] is None


def _host_is_ours(scope: Scope, settings: Settings) -> bool:
    found = _HOST.fullmatch(_header(scope, b"host") or "")
    return found is not None and (is_loopback(found[1]) or _listed(found[1], settings.hosts))


def _origin_is_ours(origin: str, settings: Settings) -> bool:
    if _listed(origin, settings.origins):
        return True
    try:
        host = urlsplit(origin).hostname
    except ValueError:
        return False
    return host is not None and is_loopback(host)


def _listed(name: str, names: Iterable[str]) -> bool:
    return any(known in ("*", name.lower()) for known in map(str.lower, names))


def _has_key(scope: Scope, keys: tuple[str, ...]) -> bool:
    bearer = _header(scope, b"authorization") or ""
    scheme, _, token = bearer.partition(" ")
    given = token.strip() if scheme.lower() == "bearer" else _header(scope, b"x-api-key") or ""
    # Every key is compared, so that the time tells nothing.
    sent = given.encode("latin-1")  # the header's bytes, which clients write as UTF-8
    return sum([hmac.compare_digest(sent, key.encode()) for key in keys]) > 0


def _header(scope: Scope, name: bytes) -> str | None:
    """The value of a header; given twice it is both, which is nobody's name."""
    values = [value.decode("latin-1") for key, value in scope["headers"] if key == name]
    return ", ".join(values) if values else None
