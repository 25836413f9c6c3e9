"""Missing rights: `check_mark_rights` and `rights_refusal`, found by statements that do nothing.

Servers check rights before they look for a table. A statement about a table that does not exist therefore tells whether
the right is there, whatever way it was granted: to the account, to a role, by a pattern.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pymysql

from binlog_format.errors import ServerError
from binlog_format.views.filters import SNAPSHOT_DATABASE
from binlog_streaming.server.session import DENIED, number_of
from binlog_streaming.snapshot.source_table import TableLock
from binlog_streaming.snapshot.sql_text import has_gtids, locking_clause, log_status, name_list, quoted, table_sql

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from binlog_streaming.server.session import ServerSession
    from binlog_streaming.snapshot.source_table import SourceTable

_NOTHING = table_sql(SNAPSHOT_DATABASE, "no_such_table")
_ON_MARKS = {
    "CREATE": f"CREATE TABLE {_NOTHING} LIKE {table_sql(SNAPSHOT_DATABASE, 'no_such_table_either')}",
    "DROP": f"DROP TABLE {_NOTHING}",
    "INSERT": f"INSERT INTO {_NOTHING} VALUES (1)",
    "SELECT": f"SELECT 1 FROM {_NOTHING}",
}
_ON_REPAIRS = {"DELETE": f"DELETE FROM {_NOTHING}"}


def check_mark_rights(session: ServerSession, *, repairs: bool = False) -> None:
    """See that the account may write marks and shadows.

    Args:
        repairs: Rows are brought back, which are deleted from a shadow first.

    Raises:
        ServerError: `DENIED`, with the GRANT; or what the server answered otherwise.
    """
    probes = _ON_MARKS | (_ON_REPAIRS if repairs else {})
    missing = [right for right, probe in probes.items() if _is_denied(session, probe, right)]
    if missing:
        reason = f"missing rights: {', '.join(f'{right} ON {SNAPSHOT_DATABASE}.*' for right in missing)}"
        hint = grant_statement(session, missing, f"{quoted(SNAPSHOT_DATABASE)}.*")
        raise ServerError("DENIED", reason, at=session.place, hint=hint)


def rights_refusal(session: ServerSession, table: SourceTable, *, locks_rows: bool = True) -> str | None:
    """Reason why the account may not read a table, with the GRANT; None: it may.

    Args:
        locks_rows: Its rows are locked as chunks lock them, too; or the whole table, where its engine locks no rows.
    """
    source = table_sql(table.schema, table.name)
    select = f"SELECT {name_list(table.column_names) or '1'} FROM {source} LIMIT 0"
    lock = "" if not locks_rows or table.lock is not TableLock.ROWS else locking_clause(session, is_waiting=False)
    refusals = []
    try:
        is_denied = not table.columns or _is_denied(session, f"{select} {lock}", "SELECT")
    except ServerError as error:
        if error.subclass != "LOCKED":
            raise
        return str(error)
    if is_denied:
        refusals.append((f"SELECT ON {table.full_name}", grant_statement(session, ["SELECT"], source)))
    if locks_rows and table.lock is TableLock.TABLE:
        nothing = table_sql(table.schema, "no_such_table")
        for schema, probe in ((table.schema, nothing), (SNAPSHOT_DATABASE, _NOTHING)):
            if _is_denied(session, f"LOCK TABLES {probe} READ", "LOCK TABLES"):
                on = f"{quoted(schema)}.*"
                refusals.append((f"LOCK TABLES ON {schema}.*", grant_statement(session, ["LOCK TABLES"], on)))
    return _missing(refusals)


def _missing(refusals: Sequence[tuple[str, str]]) -> str | None:
    """Rights that are missing, and the statements that give them; None: none are."""
    if not refusals:
        return None
    return f"missing rights: {', '.join(right for right, _ in refusals)} ({'; '.join(grant for _, grant in refusals)})"


def lock_refusal(session: ServerSession, table: SourceTable) -> str | None:
    """Reason why the account may not lock a table for the moment in which its rows are tied to a place; None: it may.

    MariaDB tells that place, and needs no lock, but of tables whose engine has no snapshots. MySQL tells it by GTIDs;
    where it has none, with another right.
    """
    if session.version.is_mariadb and table.lock is not TableLock.TABLE:
        return None
    refusals = []
    if _is_denied(session, f"LOCK TABLES {table_sql(table.schema, 'no_such_table')} READ", "LOCK TABLES"):
        grant = grant_statement(session, ["LOCK TABLES"], f"{quoted(table.schema)}.*")
        refusals.append((f"LOCK TABLES ON {table.schema}.*", grant))
    if not has_gtids(session) and not _may_see_log_status(session):
        refusals.append(("REPLICATION CLIENT ON *.*", grant_statement(session, ["REPLICATION CLIENT"], "*.*")))
    return _missing(refusals)


def grant_statement(session: ServerSession, rights: Iterable[str], on: str) -> str:
    """The statement that gives the session's account some rights.

    Args:
        rights: `SELECT`, for example.
        on: What they are on, as SQL.
    """
    user, _, host = str(session.value("SELECT CURRENT_USER()")).rpartition("@")
    return f"GRANT {', '.join(rights)} ON {on} TO {session.filled('%s@%s', user, host)}"


def may_install_plugins(session: ServerSession) -> bool:
    """True if the account may run INSTALL SONAME."""
    return not _is_denied(session, "EXPLAIN INSERT INTO mysql.plugin VALUES ('', '')", "INSERT")


def _may_see_log_status(session: ServerSession) -> bool:
    try:
        log_status(session)
    except pymysql.MySQLError as error:
        if number_of(error) in DENIED:
            return False
        with session.named_errors():
            raise
    return True


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
