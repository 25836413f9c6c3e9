"""Real servers for tests of tables in S3: `ObjectStore`, `RestCatalog`; `FaultyProxy` fails in front of the store."""

from __future__ import annotations

import re
import socket
import threading
from contextlib import closing, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from binlog_lab.demo.failures import DemoError
from binlog_lab.demo.servers import lake_servers as demo

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType
    from typing import Self


_PATIENCE_S = 300.0


class ObjectStore(demo.ObjectStore):
    """The demo's server; a test without one is skipped."""

    def __init__(self, folder: Path) -> None:
        try:
            super().__init__(folder)
        except DemoError as error:
            pytest.skip(str(error))


@dataclass
class Fault:
    """What a request meets.

    Attributes:
        request: Of which the first line is so.
        count: How many of them meet it.
        loses_reply: The server does what is asked, and nobody learns it; else it is refused with the status 503.
    """

    request: re.Pattern[str]
    count: int = 1
    loses_reply: bool = False
    met: int = field(default=0, init=False)


class FaultyProxy:
    """Stands before a server, one request for each connection. *port*: TCP port on 127.0.0.1."""

    def __init__(self, server_port: int, fault: Fault) -> None:
        self._server_port = server_port
        self._fault = fault
        self._lock = threading.Lock()
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]

    def __enter__(self) -> Self:
        threading.Thread(target=self._serve, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listening.close()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(client,), daemon=True).start()

    def _answer(self, client: socket.socket) -> None:
        with closing(client), suppress(OSError):
            client.settimeout(_PATIENCE_S)
            head, body = _request(client)
            is_met = self._meets(head.split(b"\r\n", 1)[0].decode())
            if is_met and not self._fault.loses_reply:
                client.sendall(b"HTTP/1.1 503 Slow Down\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
                return
            with closing(socket.create_connection(("127.0.0.1", self._server_port), _PATIENCE_S)) as server:
                server.sendall(head.replace(b"\r\n", b"\r\nConnection: close\r\n", 1) + body)
                reply = b"".join(iter(lambda: server.recv(1 << 16), b""))
            if not is_met:
                client.sendall(reply)

    def _meets(self, line: str) -> bool:
        with self._lock:
            if self._fault.met == self._fault.count or not self._fault.request.match(line):
                return False
            self._fault.met += 1
            return True


def _request(client: socket.socket) -> tuple[bytes, bytes]:
    content = b""
    while b"\r\n\r\n" not in content:
        more = client.recv(1 << 16)
        if not more:
            raise OSError("the client has gone")
        content += more
    head, _, body = content.partition(b"\r\n\r\n")
    head = re.sub(rb"\r\n(?i:connection):[^\r]*", b"", head)
    match = re.search(rb"\r\n(?i:content-length): *(\d+)", head)
    while len(body) < (int(match[1]) if match else 0):
        body += client.recv(1 << 16)
    return head + b"\r\n\r\n", body


class RestCatalog(demo.RestCatalog):
    """The demo's server; a test without one is skipped."""

    def __init__(self, folder: Path, store: ObjectStore | None = None) -> None:
        try:
            super().__init__(folder, store)
        except DemoError as error:
            pytest.skip(str(error))
