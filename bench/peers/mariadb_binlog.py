"""What `mariadb-binlog -v` prints of a file: `found_in_text`."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

from bench.peers.found import Found, PeerError

if TYPE_CHECKING:
    from collections.abc import Iterable

_VALUE = b"###   @"


def found_in_text(command: list[str]) -> Found:
    """Counts and sums of the rows that the program prints as comments. Raises `PeerError`: it failed."""
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        found = _found(process.stdout)
    if process.returncode:
        raise PeerError(f"{command[0]} ended with status {process.returncode}")
    return found


def _found(lines: Iterable[bytes]) -> Found:
    found = Found()
    for line in lines:
        if line.startswith(_VALUE):
            value = line[line.index(b"=") + 1 :].rstrip(b"\n")
            if value.startswith(b"'"):
                text = value[1:-1]
                found.text_size += len(text)
                found.byte_sum += sum(text)
            else:
                found.int_sum += int(value)
        elif line.startswith(b"### INSERT INTO "):
            found.inserts += 1
        elif line.startswith(b"### UPDATE "):
            found.updates += 1
        elif line.startswith(b"### DELETE FROM "):
            found.deletes += 1
    return found
