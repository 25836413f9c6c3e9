"""A small HTTP server that keeps what is posted to it, or refuses it: `HttpReceiver`.

An HTTP server of a test: `HttpService`.
"""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Callable


PATIENCE_S = 300


class HttpService:
    """Answers on 127.0.0.1 while it is entered. *url*: of the server."""

    def __init__(self, handler: type[BaseHTTPRequestHandler]) -> None:
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._thread = threading.Thread(target=self._http.serve_forever, daemon=True)
        self.url = f"http://127.0.0.1:{self._http.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()


class HttpReceiver(HttpService):
    """Listens while it is entered.

    Attributes:
        status: What it answers; what is answered with an error is counted, and not kept.
        bodies: What was posted, in order.
        refused: How many requests were refused.
    """

    def __init__(self) -> None:
        self.status = 200
        self.bodies: list[bytes] = []
        self.refused = 0
        self._changed = threading.Condition()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                status = receiver._take(body)
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                """Say nothing."""

        super().__init__(Handler)

    def wait_until(self, condition: Callable[[HttpReceiver], bool]) -> None:
        """Return when it is true, after some request or at once."""
        with self._changed:
            assert self._changed.wait_for(lambda: condition(self), PATIENCE_S)

    def _take(self, body: bytes) -> int:
        with self._changed:
            if self.status < 300:
                self.bodies.append(body)
            else:
                self.refused += 1
            self._changed.notify_all()
            return self.status
