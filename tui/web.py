"""The chat in a browser of this machine, through textual-serve: each page is a chat of its own.

Whoever reaches it can run models and read files that are attached, so that it is kept to one
person: it listens on the loopback address alone; a request must name that address as its host and,
from a page, as its origin, which stops other sites' pages and rebound names; the first page needs
the key of the printed address, which works once and leaves a cookie; and each page gets a ticket
for its websocket, which works once too.
"""

import secrets
import shlex
import socket
from collections.abc import Awaitable, Callable, Sequence
from http import HTTPStatus

from aiohttp import web
from textual_serve.server import Server

HOST = "127.0.0.1"
_COOKIE = "edgellm-chat"
_MAX_TICKETS = 64  # pages that were drawn but never opened their websocket

# Nothing is fetched from elsewhere; textual-serve's page names a font of another site.
_POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; frame-ancestors 'none'"
)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
    return port


class ChatServer(Server):
    """Runs `command` for each page that is opened at `address`."""

    def __init__(self, command: Sequence[str], port: int) -> None:
        super().__init__(shlex.join(command), host=HOST, port=port, title="edgellm chat")
        self._key: str | None = secrets.token_urlsafe()
        self._session = secrets.token_urlsafe()
        self._tickets: list[str] = []
        self.address = f"{self.public_url}/?key={self._key}"

    async def application(self) -> web.Application:
        """The pages and what guards them."""
        app = await super()._make_app()
        app.middlewares.append(self._guard)
        app.router.add_get("/ws/{ticket}", self.handle_websocket)
        return app

    async def _make_app(self) -> web.Application:
        return await self.application()

    def initialize_logging(self) -> None:
        """Requests are not logged."""

    async def on_startup(self, app: web.Application) -> None:
        print(f"The chat is at {self.address}")
        print("The address works once. Ctrl-C ends the chat.", flush=True)

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Refuses what does not come from the person who started this."""
        origin = request.headers.get("Origin")
        if request.host != f"{HOST}:{self.port}" or origin not in (None, self.public_url):
            return _refused("this is served to pages of its own address alone")
        if request.path.startswith("/static/"):
            return await handler(request)
        if request.path == "/":
            return await self._page(request, handler)
        if not self._is_known(request):
            return _refused("open the address that was printed first")
        if request.path.startswith("/ws"):
            ticket = request.match_info.get("ticket", "")
            if origin is None or ticket not in self._tickets:
                return _refused("this page's ticket has been used: load it again")
            self._tickets.remove(ticket)
        return await handler(request)

    async def _page(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """The page, with a fresh ticket; the first one takes the key and leaves the cookie."""
        key = request.query.get("key", "")
        if self._key is not None and secrets.compare_digest(key.encode(), self._key.encode()):
            self._key = None
            see_other = HTTPStatus.SEE_OTHER
            response: web.StreamResponse = web.Response(status=see_other, headers={"Location": "/"})
            response.set_cookie(_COOKIE, self._session, httponly=True, samesite="Strict")
        elif self._is_known(request):
            response = await handler(request)
            if isinstance(response, web.Response) and response.text is not None:
                self._tickets = [*self._tickets, secrets.token_urlsafe()][-_MAX_TICKETS:]
                end = f"{HOST}:{self.port}/ws"
                response.text = response.text.replace(end, f"{end}/{self._tickets[-1]}")
        else:
            return _refused("the address has been used, or is not the one that was printed")
        response.headers["Content-Security-Policy"] = _POLICY
        response.headers["Cache-Control"] = "no-store"
        response.headers["Referrer-Policy"] = "no-referrer"
        return response

    def _is_known(self, request: web.Request) -> bool:
        given = request.cookies.get(_COOKIE, "")
        return secrets.compare_digest(given.encode(), self._session.encode())


def _refused(why: str) -> web.Response:
    return web.Response(status=HTTPStatus.FORBIDDEN, text=f"edgellm chat: {why}\n")
