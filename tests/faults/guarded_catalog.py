"""A REST catalog that asks who is there, for tests: `GuardedCatalog` stands before one that does not.

It gives tokens to who knows the secret (OAuth2, client credentials), wants one with each request, and gives access to
the files of a table to who loads it.
"""

from __future__ import annotations

import http.client
import json
import secrets
import threading
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import parse_qs

from tests.faults.http_receiver import HttpService

if TYPE_CHECKING:
    from tests.faults.object_store import RestCatalog

CLIENT, SECRET = "job", "Never-To-Be-Seen-1"
TOKENS = "/oauth/tokens"
_PER_HOP = frozenset(
    {"connection", "transfer-encoding", "content-length", "host", "content-encoding", "accept-encoding"}
)


class GuardedCatalog(HttpService):
    """The front, while it is entered.

    Attributes:
        files: What the reply to who loads a table says of access to its files.
        prefix: Where that holds; None: it is in the table's configuration, as servers did before there were prefixes.
        token_requests: How many requests a token is good for; None: any number.
        token_reply: What comes with a new token.
        token_status: Status of the reply to who asks for a token, instead of one.
    """

    def __init__(self, server: RestCatalog) -> None:
        given = server.settings()
        self._server_port = server.port
        self.files = {name: value for name, value in given.items() if name.endswith(("access-key-id", "access-key"))}
        self._shared = {name: value for name, value in given.items() if name in ("s3.endpoint", "s3.region")}
        self.prefix: str | None = None
        self.token_requests: int | None = None
        self.token_reply = {
            "token_type": "bearer",
            "issued_token_type": "urn:ietf:params:oauth:token-type:access_token",
        }
        self.token_status: int | None = None
        self.tokens: dict[str, int] = {}
        self._lock = threading.Lock()
        super().__init__(type("Handler", (_Handler,), {"front": self}))

    @property
    def secrets(self) -> set[str]:
        """What nobody may ever read in a message."""
        return {SECRET, self.files["s3.secret-access-key"], *self.tokens}

    def settings(self, **more: str) -> dict[str, str]:
        """`sink.catalog` for it: no access to files."""
        uri = self.url
        access = {"credential": f"{CLIENT}:{SECRET}", "oauth2-server-uri": f"{uri}{TOKENS}", "scope": "lake"}
        return {"type": "rest", "uri": uri, **access, **self._shared, **more}

    def expire_tokens(self) -> None:
        """None that was given is good any more."""
        with self._lock:
            self.tokens = dict.fromkeys(self.tokens, 0)

    def new_token(self, asked: dict[str, list[str]]) -> tuple[int, dict[str, Any]]:
        """The reply to who asks for a token."""
        wanted = {"grant_type": "client_credentials", "client_id": CLIENT, "client_secret": SECRET, "scope": "lake"}
        if self.token_status is not None:
            return self.token_status, {
                "error": {"message": "not now", "type": "Unavailable", "code": self.token_status}
            }
        if asked != {name: [value] for name, value in wanted.items()}:
            return 401, {"error": "invalid_client", "error_description": "no such client, or another secret"}
        token = secrets.token_urlsafe(24)
        with self._lock:
            self.tokens[token] = -1 if self.token_requests is None else self.token_requests
        return 200, {"access_token": token, "expires_in": 3600, **self.token_reply}

    def is_let_in(self, authorization: str) -> bool:
        """Whether a request comes with a token that is good still."""
        kind, _, token = authorization.partition(" ")
        with self._lock:
            left = self.tokens.get(token, 0)
            if kind != "Bearer" or left == 0:
                return False
            self.tokens[token] = left - 1
            return True

    def forwarded(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> tuple[int, bytes]:
        """What the server replies, with access to files where a table is loaded or made."""
        connection = http.client.HTTPConnection("127.0.0.1", self._server_port)
        try:
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            status, content = response.status, response.read()
        finally:
            connection.close()
        if status != 200 or b'"metadata-location"' not in content or "vended" not in headers.get(_DELEGATION, ""):
            return status, content
        reply = json.loads(content)
        if self.prefix is None:
            reply.setdefault("config", {}).update(self.files)
        else:
            reply["storage-credentials"] = [{"prefix": self.prefix, "config": self.files}]
        return status, json.dumps(reply).encode()


_DELEGATION = "x-iceberg-access-delegation"


class _Handler(BaseHTTPRequestHandler):
    front: ClassVar[GuardedCatalog]
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._handle()

    do_POST = do_DELETE = do_HEAD = do_GET

    def _handle(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        headers = {name.lower(): value for name, value in self.headers.items() if name.lower() not in _PER_HOP}
        if self.path == TOKENS:
            status, reply = self.front.new_token(parse_qs(body.decode()))
            self._reply(status, json.dumps(reply).encode())
        elif not self.front.is_let_in(headers.pop("authorization", "")):
            error = {"message": "no token, or one that has expired", "type": "NotAuthorizedException", "code": 401}
            self._reply(401, json.dumps({"error": error}).encode())
        else:
            self._reply(*self.front.forwarded(self.command, self.path, body, headers))

    def _reply(self, status: int, content: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, format: str, *arguments: object) -> None:
        """Nobody reads it."""
