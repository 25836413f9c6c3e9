"""A network that fails: `TcpProxy` stands before a server and passes bytes on, or not."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

_RECEIVE_SIZE = 1 << 16


class TcpProxy:
    """The network, while it is entered; it works until it is told otherwise.

    Attributes:
        port: TCP port on 127.0.0.1.
    """

    server_port: int

    def __init__(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self._lock = threading.Lock()
        self._connected: set[socket.socket] = set()
        self._is_cut = False
        self._loses_replies = False

    def __enter__(self) -> Self:
        threading.Thread(target=self._serve, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.cut()
        self._listening.close()

    def lose_replies(self) -> None:
        """From now on servers get what is sent, and their answers come to nobody."""
        self._loses_replies = True

    def cut(self) -> None:
        """End all connections, and all new ones at once."""
        with self._lock:
            self._is_cut = True
            for one in self._connected:
                with suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)

    def mend(self) -> None:
        """Work again; connections that have lost bytes stay as they are."""
        with self._lock:
            self._is_cut = self._loses_replies = False

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(("127.0.0.1", self.server_port))
            except OSError:
                client.close()
                continue
            with self._lock:
                if self._is_cut:
                    client.close()
                    server.close()
                    continue
                self._connected |= {client, server}
            threading.Thread(target=self._pass_on, args=(client, server, False), daemon=True).start()
            threading.Thread(target=self._pass_on, args=(server, client, True), daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket, is_reply: bool) -> None:
        has_lost = False
        with suppress(OSError):
            while data := source.recv(_RECEIVE_SIZE):
                has_lost = has_lost or (is_reply and self._loses_replies)  # the rest of a reply is nothing
                if not has_lost:
                    target.sendall(data)
        for one in (source, target):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            with self._lock:
                self._connected.discard(one)
        source.close()
