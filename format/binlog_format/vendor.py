"""Whose server wrote a log: `Vendor`."""

from __future__ import annotations

from enum import StrEnum


class Vendor(StrEnum):
    """The family of servers; their logs differ in GTIDs, groups and a few column types."""

    MARIADB = "mariadb"
    MYSQL = "mysql"

    @property
    def label(self) -> str:
        """The name as it is written in messages."""
        return "MariaDB" if self is Vendor.MARIADB else "MySQL"
