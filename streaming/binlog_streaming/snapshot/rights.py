"""Missing rights for a snapshot: `missing_rights`, found by statements that do nothing.

Servers check rights before they look for a table. A statement about a table that does not exist therefore tells whether
the right is there, whatever way it was granted: to the account, to a role, by a pattern.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pymysql

from binlog_format.views.table_filter import SNAPSHOT_DATABASE
from binlog_streaming.server.failures import DENIED, number_of
from binlog_streaming.snapshot.dialect import locking_clause
from binlog_streaming.snapshot.sql_text import name_list, table_sql

if TYPE_CHECKING:
    from collections.abc import Iterable

    from binlog_streaming.server.session import ServerSession
    from binlog_streaming.snapshot.source_table import SourceTable

_NOTHING = table_sql(SNAPSHOT_DATABASE, "no_such_table")
_ON_MARKS = {
    "CREATE": f"CREATE TABLE {_NOTHING} LIKE {table_sql(SNAPSHOT_DATABASE, 'no_such_table_either')}",
    "DROP": f"DROP TABLE {_NOTHING}",
    "INSERT": f"INSERT INTO {_NOTHING} VALUES (1)",
    "SELECT": f"SELECT 1 FROM {_NOTHING}",
}


def missing_rights(session: ServerSession, tables: Iterable[SourceTable]) -> list[str]:
    """Rights that the account lacks, as GRANT takes them: `SELECT ON shop.orders`.

    Raises:
        ServerError: What the server answered otherwise.
    """
    missing = [
        f"{right} ON {SNAPSHOT_DATABASE}.*" for right, probe in _ON_MARKS.items() if _is_denied(session, probe, right)
    ]
    for table in tables:
        if not table.columns:
            missing.append(f"SELECT ON {table.full_name}")
            continue
        select = f"SELECT {name_list(table.column_names)} FROM {table_sql(table.schema, table.name)} LIMIT 0"
        if _is_denied(session, f"{select} {locking_clause(session, is_waiting=False)}", "SELECT"):
            missing.append(f"SELECT ON {table.full_name}")
    return missing


def may_install_plugins(session: ServerSession) -> bool:
    """True if the account may run INSTALL SONAME.

    Raises:
        ServerError: What the server answered otherwise.
    """
    return not _is_denied(session, "EXPLAIN INSERT INTO mysql.plugin VALUES ('', '')", "INSERT")


def _is_denied(session: ServerSession, probe: str, right: str) -> bool:
    try:
        session.try_execute(probe)
    except pymysql.MySQLError as error:
        number = number_of(error)
        if number in DENIED:
            # A table that is made like another needs SELECT there too: only the right in question counts.
            return number not in _COMMAND_DENIED or f"{right} command" in str(error)
        if number not in _NO_SUCH_TABLE:
            with session.named_errors():
                raise
    return False


_COMMAND_DENIED = frozenset({1142, 1143})
_NO_SUCH_TABLE = frozenset({1146, 1049, 1051})
