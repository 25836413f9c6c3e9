"""Vendor and version of the server that wrote a log: `Vendor`, `vendor_of`, `server_version_of`.

What servers do from a version on is listed at the end, each with where it was seen.
"""

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


# Versions as tuples, or as `comment_version_of` gives them: 100500 is 10.5.0, 80022 is 8.0.22.

CHECKSUMS_SINCE: dict[Vendor, Version] = {Vendor.MARIADB: (5, 3, 0), Vendor.MYSQL: (5, 6, 1)}
"""Format_description events have a checksum."""
MYSQL_GTID_EVENTS_SINCE: Version = (5, 7, 5)
"""Every group begins with a GTID event, anonymous while gtid_mode is OFF."""
MYSQL_WITHOUT_YEAR_BITS_UNTIL = 8_00_20
"""MySQL 8.0.12 has no bit for YEAR in SIGNEDNESS (seen on it), nor has the source until here (sql/field.h)."""
MYSQL_YEAR_BITS_SINCE = 8_00_29
"""Known to have it (`has_signedess_information_type` in sql/field_common_properties.h, a file of 2020)."""
MARIADB_VIRTUAL_LOGGED_SINCE = 10_05_00
"""Row images have virtual columns. Seen on 10.5.23, and not on 10.2.11."""
MARIADB_VIRTUAL_LEFT_OUT_SINCE = 11_08_00
"""Images of updates lack virtual columns, those of inserts have them, on replicas too. Seen on 11.8.9. A replica with
10.11.19 logs what its source left out as NULL, or as it was before the update."""
MARIADB_PARTIAL_REPLACES_SINCE = 10_02_00
"""The new image of a REPLACE lacks columns that got their defaults, if `binlog_row_image` lets it. Seen on 10.2.11; on
10.1.8 it is whole."""
MARIADB_KEYED_REPLACES_SINCE = 10_05_00
"""The old image of a REPLACE has the columns that one of an UPDATE has. Seen on 10.5.23; on 10.2.11 it is whole."""
MARIADB_UTF8_BY_MODE_SINCE = 10_06_01
"""`utf8` is utf8mb4 in sessions without UTF8_IS_UTF8MB3 in `old_mode`. Seen on 10.11.19 and 11.8.9; no log has it."""
MARIADB_TEXT_DEFAULTS_SINCE = 10_02_01
"""TEXT and BLOB may have defaults (manual). Seen on 10.2.11; on 10.1.8 an empty one is none, as MySQL 9.7.4 has it."""
MARIADB_ORACLE_TYPES_SINCE = 10_03_00
"""DATE is DATETIME with `sql_mode=ORACLE`. Seen on 10.11.19; not on 10.1.8, 10.2.11, MySQL 5.7.22."""
MARIADB_WHOLE_LOCALTIME_SINCE = 11_05_00
"""LOCALTIME has no fraction of a second, whatever its column has, as NOW() does. Seen on 11.8.9; not on 11.4.5."""
CONVERSIONS_DONE_SINCE: dict[Vendor, int] = {Vendor.MARIADB: 10_02_00, Vendor.MYSQL: 5_07_00}
"""CONVERT TO CHARACTER SET sets the default of a table. Seen on MariaDB 10.2.11 and MySQL 5.7.22; 10.1.8 and 5.6.24 do
nothing where no column changes, if nothing else is in the statement."""
LIKE_NAMES_ENGINE_SINCE: dict[Vendor, int] = {Vendor.MARIADB: 10_02_11, Vendor.MYSQL: 5_07_22}
"""CREATE TABLE ... LIKE a temporary table is logged with the engine. Seen on these; not on MariaDB 10.1.8 and MySQL
5.6.24."""
MARIADB_COLLATE_DEFAULT_SINCE = 10_09_00
"""COLLATE DEFAULT of a table is a collation of the character set that it has. Seen on 10.11.5; 10.2.11, as MySQL up to
5.7, takes the database's character set."""
MARIADB_REVERSED_COMMENTS_SINCE = 13_00_00
"""Text in `/*!!version ... */` is executed before that version."""
MYSQL_EMPTY_TEXTS_WHOLE_UNTIL = 8_00_12
"""TEXT(0) is TEXT, and BLOB(0) is BLOB, as they are for MariaDB. Seen on this and on 5.7.22."""
MYSQL_EMPTY_TEXTS_SINCE = 9_07_00
"""TEXT(0) is TINYTEXT, and BLOB(0) is TINYBLOB. Seen on 9.7.4; since when is not known."""
MYSQL_WHOLE_DOUBLES_SINCE = 8_00_00
"""5.7 writes the double 1.0 of a document as `1`, as it writes the integer 1."""
MYSQL_LAST_MEMBER_SINCE = 8_00_03
"""The last one of members with the same key counts in a JSON text; in 5.7 the first one. Seen on 8.0.12 and 5.7.22."""
INLINE_KEYS_SINCE: dict[Vendor, Version] = {Vendor.MARIADB: (10, 5, 0), Vendor.MYSQL: (9, 0, 0)}
"""REFERENCES in a column's own definition makes a foreign key."""
SNAPSHOTS_SINCE: dict[Vendor, Version] = {Vendor.MARIADB: (10, 3, 0), Vendor.MYSQL: (8, 0, 22)}
"""MariaDB has NOWAIT; MySQL's FOR SHARE needs no right but SELECT, and CREATE TABLE ... SELECT goes with GTIDs."""
REPLICA_WORDS_SINCE: dict[Vendor, Version] = {Vendor.MARIADB: (10, 5, 1), Vendor.MYSQL: (8, 0, 22)}
"""SHOW REPLICA HOSTS, and MySQL's SHOW REPLICAS, in place of SHOW SLAVE HOSTS."""
MYSQL_LOG_STATUS_SINCE: Version = (8, 2, 0)
"""SHOW BINARY LOG STATUS in place of SHOW MASTER STATUS."""
