"""Vendor and version of the server that wrote a log: `Vendor`, `vendor_of`, `server_version_of`."""

from __future__ import annotations

import re
from enum import StrEnum

Version = tuple[int, int, int]

_MARIADB_MARK = "MariaDB"
"""Part of the version of every MariaDB server, and of no MySQL server."""

_VERSION = re.compile(r"(?:5\.5\.5-(?=10\.))?(\d+)\.(\d+)\.(\d+)")
"""MariaDB before 11 may put `5.5.5-` before its version, for replicas that think that 10 comes before 5."""


class Vendor(StrEnum):
    """The family of servers; their logs differ in GTIDs, groups and a few column types."""

    MARIADB = "mariadb"
    MYSQL = "mysql"

    @property
    def label(self) -> str:
        """The name as it is written in messages."""
        return "MariaDB" if self is Vendor.MARIADB else "MySQL"


def vendor_of(server_version: str) -> Vendor:
    """Vendor of the server with this version."""
    return Vendor.MARIADB if _MARIADB_MARK in server_version else Vendor.MYSQL


def comment_version_of(server_version: str) -> int | None:
    """A server's version as comments of statements have it (`/*!100119 ... */`); None where it has no numbers."""
    major, minor, patch = server_version_of(server_version)
    return major * 10_000 + minor * 100 + patch or None


def server_version_of(text: str) -> Version:
    """The numbers of a server's version; zeros where it has none."""
    match = _VERSION.match(text)
    if match is None:
        return 0, 0, 0
    major, minor, patch = (int(number) for number in match.groups())
    return major, minor, patch
