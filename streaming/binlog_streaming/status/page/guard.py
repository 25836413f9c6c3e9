"""Access to the page, and limits for browsers: `Guard`, around the application."""

from __future__ import annotations

import hashlib
import hmac
from typing import TYPE_CHECKING

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse

if TYPE_CHECKING:
    from starlette.responses import Response
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

_HEADERS = {
    # Nothing from elsewhere, no script but ours, no frame around us.
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
_OPEN = ("/healthz", "/login", "/style.css", "/icon.svg")
"""Paths that need no token: the job's health, and the login."""

_LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})


class Access:
    """Token of the page, and the cookie that a browser sends instead.

    Args:
        token: None: there is none.
        port: The page's; cookies of pages at other ports are others.
    """

    def __init__(self, token: str | None, port: int) -> None:
        self._token = None if token is None else token.encode()
        self.cookie_name = f"binlog_stream_status_{port}"

    @property
    def cookie(self) -> str:
        """Cookie of a browser: it shows that the token was known, and is not the token."""
        assert self._token is not None
        return hmac.new(self._token, b"binlog-stream status", hashlib.sha256).hexdigest()

    def is_token(self, given: str) -> bool:
        """True if *given* is the token; the time of the comparison shows nothing about it."""
        return self._token is not None and hmac.compare_digest(given.encode(), self._token)

    def allows(self, request: Request) -> bool:
        """True if a request comes from a client that knows the token."""
        if self._token is None:
            return True
        kind, _, given = request.headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer" and self.is_token(given.strip()):
            return True
        cookie = request.cookies.get(self.cookie_name, "")
        return hmac.compare_digest(cookie.encode(), self.cookie.encode())


class Guard:
    """Passes allowed requests to *app*, and adds headers to every answer.

    Args:
        login: What is shown to who may not, in place of the page.
        host: The address that is listened at; None: any name may be used for it, since the token protects it.
    """

    def __init__(self, app: ASGIApp, access: Access, login: Response, host: str | None) -> None:
        self._app = app
        self._access = access
        self._login = login
        # Else any web site could give its own name our address, and read the page through its visitors' browsers.
        self._names = None if host is None else _LOCAL_NAMES | {host}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request, as ASGI defines it."""
        if scope["type"] != "http":
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_HEADERS)
            await send(message)

        answer = self._refusal(Request(scope)) or self._app
        await answer(scope, receive, send_with_headers)

    def _refusal(self, request: Request) -> Response | None:
        if self._names is not None and _host_name(request.headers.get("host", "")) not in self._names:
            return PlainTextResponse("this is not the name of this page\n", status_code=421)
        if request.url.path in _OPEN or self._access.allows(request):
            return None
        if request.url.path == "/":
            return self._login
        return PlainTextResponse("a token is needed: Authorization: Bearer TOKEN\n", status_code=401)


def _host_name(host: str) -> str:
    """The name in a header `Host`, which may have a port."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0].lower()
