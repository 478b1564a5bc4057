"""Request targets that are whole addresses, as for a proxy (RFC 9112, section 3.2.2).

A server takes them as well. The host that they name goes before that of the Host header.
"""

import re
from urllib.parse import unquote

from starlette.types import ASGIApp, Receive, Scope, Send

_ABSOLUTE = re.compile(rb"https?://([^/?#]*)(/.*)?", re.IGNORECASE | re.DOTALL)


def takes_absolute(app: ASGIApp) -> ASGIApp:
    """The application, asked as if the target had been a path."""

    async def asked(scope: Scope, receive: Receive, send: Send) -> None:
        found = _ABSOLUTE.fullmatch(scope.get("raw_path") or b"")
        if found is not None:
            authority, path = found[1], found[2] or b"/"
            others = [header for header in scope["headers"] if header[0] != b"host"]
            scope = {
                **scope,
                "raw_path": path,
                "path": unquote(path.decode("ascii")),
                "headers": [(b"host", authority), *others],
            }
        await app(scope, receive, send)

    return asked
