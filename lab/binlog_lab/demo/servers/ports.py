"""Ports for servers on this machine: `free_ports`."""

from __future__ import annotations

import socket
from contextlib import ExitStack


def free_ports(count: int) -> list[int]:
    """TCP ports on 127.0.0.1 that nobody listens at, all different; whoever comes first may still take them."""
    with ExitStack() as stack:
        listening = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [int(one.getsockname()[1]) for one in listening]
