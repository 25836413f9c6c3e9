"""Serves a job's page while the job runs, from a thread of its own: `serving`. Needs the extra `status`."""

from __future__ import annotations

import contextlib
import ipaddress
import logging
import socket
import threading
from typing import TYPE_CHECKING

from binlog_connector.installing import require
from binlog_connector.metrics.exporter import FollowerMetrics
from binlog_format.errors import OptionError, listening_error
from binlog_streaming.status.view import JobView

if TYPE_CHECKING:
    from collections.abc import Iterator

    from binlog_streaming.status.recorder import StatusRecorder

logger = logging.getLogger(__name__)

TOKEN_LENGTH_MIN = 16
PORT_MAX = 65_535
STOP_SECONDS = 5.0
"""Seconds that the end of the job waits for answers under way."""


@contextlib.contextmanager
def serving(address: str, token: str | None, recorder: StatusRecorder) -> Iterator[str]:
    """Serve the page of a job, while this lasts; gives its URL.

    Args:
        address: `host:port`; port 0: one that is free.
        token: What whoever looks has to give; None: nothing, which is for addresses of this machine alone.
    """
    listening = page_socket(address, token)
    from binlog_streaming.status.page.app import PageServer, make_app

    metrics = FollowerMetrics()
    metrics.add(recorder.follower)
    host, port = _host_and_port(address)[0], listening.getsockname()[1]
    view = JobView(recorder.state, recorder.measure)
    # With a token the page may have whatever name a proxy gives it.
    only_host = host if token is None else None
    server = PageServer(make_app(view, metrics.text, recorder.measure, token=token, host=only_host, port=port))
    thread = threading.Thread(target=server.run, args=([listening],), name="binlog-stream-page", daemon=True)
    thread.start()
    try:
        yield f"http://{f'[{host}]' if ':' in host else host}:{port}/"
    finally:
        server.should_exit = True
        thread.join(STOP_SECONDS)
        listening.close()


def page_socket(address: str, token: str | None) -> socket.socket:
    """Listen for those who look at a page; arguments as `serving` takes them.

    Raises:
        OptionError: `INVALID_VALUE`: *address* is none, or *token* is short; `MISSING`: a package, or the token.
        MachineError: `PORT_IN_USE`: the port is taken.
    """
    host, port = _host_and_port(address)
    _check_token(host, token)
    for module in ("starlette", "uvicorn"):
        require(module)
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        raise listening_error("status", host, port, error) from error


def is_loopback(host: str) -> bool:
    """True if only programs of this machine reach *host*."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _host_and_port(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isdecimal() or int(port) > PORT_MAX:
        reason = f"--status: expected HOST:PORT, such as 127.0.0.1:8765, got {address!r}"
        raise OptionError("INVALID_VALUE", reason)
    return host, int(port)


def _check_token(host: str, token: str | None) -> None:
    if token is None and not is_loopback(host):
        raise OptionError(
            "MISSING",
            f"--status: others than this machine reach {host}, and there is no token",
            hint="Set BINLOG_STREAM_STATUS_TOKEN, or give --status-token-file FILE; openssl rand -hex 16 makes a token",
        )
    if token is not None and len(token) < TOKEN_LENGTH_MIN:
        reason = f"--status: expected a token of at least {TOKEN_LENGTH_MIN} characters, got {len(token)}"
        raise OptionError("INVALID_VALUE", reason, hint="openssl rand -hex 16 makes one")
