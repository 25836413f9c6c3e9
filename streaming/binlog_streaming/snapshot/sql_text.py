"""Names as SQL text: `quoted`, `table_sql`, `name_list`; values of answers: `text_of`.

Differences between MariaDB and MySQL in a snapshot: `prepare_session`, `locking_clause`, `logged_place`,
`log_status_statement`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlog_format.vendor import MYSQL_LOG_STATUS_SINCE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from binlog_streaming.server.session import ServerSession


LOCK_WAIT_SECONDS = 1
"""Seconds that a chunk of one row waits for its lock: the shortest time that the servers offer."""

TURN_SECONDS = 10
"""Seconds to wait for the session of a run that was killed: its server may still be in its last statement."""

# A value that would change on its way is an error. No mode that refuses values which rows already have (zero dates),
# none that turns an id 0 into the next one, and not
# NO_ENGINE_SUBSTITUTION: a replica without BLACKHOLE would stop, and makes an InnoDB table without it.
_SQL_MODE = "STRICT_ALL_TABLES,NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES"


def prepare_session(session: ServerSession) -> None:
    """Set up *session* to write chunks."""
    session.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
    session.execute("SET SESSION sql_mode = %s", _SQL_MODE)
    session.execute(f"SET SESSION innodb_lock_wait_timeout = {LOCK_WAIT_SECONDS}")
    if session.version.is_mariadb:
        # Replicas apply marked groups all the same, unless they are set to leave them out.
        session.execute("SET SESSION skip_replication = 1, max_statement_time = 0")


def locking_clause(session: ServerSession, *, is_waiting: bool) -> str:
    """The clause that takes shared locks on the rows of a chunk; without waiting it fails at once where one is held."""
    if session.version.is_mariadb:
        return f"LOCK IN SHARE MODE {f'WAIT {LOCK_WAIT_SECONDS}' if is_waiting else 'NOWAIT'}"
    return "FOR SHARE" if is_waiting else "FOR SHARE NOWAIT"


def logged_place(session: ServerSession) -> str | None:
    """A text that is another one after the session has written a group into the log; None: the server does not tell."""
    if session.version.is_mariadb:
        return str(session.value("SELECT @@SESSION.last_gtid"))
    return str(session.value("SELECT @@GLOBAL.gtid_executed")) if has_gtids(session) else None


def has_gtids(session: ServerSession) -> bool:
    """True if every transaction that the server logs has a GTID."""
    return session.version.is_mariadb or session.variable("gtid_mode") == "ON"


def log_status_statement(session: ServerSession) -> str:
    """Asks for the name of the newest binlog file, its end, `binlog_do_db` and `binlog_ignore_db`.

    The account needs a right for it; without a binlog there is no row.
    """
    is_new = not session.version.is_mariadb and session.version.number >= MYSQL_LOG_STATUS_SINCE
    return "SHOW BINARY LOG STATUS" if is_new else "SHOW MASTER STATUS"


def text_of(value: object) -> str:
    """A value of an answer as text: without a character set for results some texts come as bytes."""
    return value.decode() if isinstance(value, bytes) else str(value)


def quoted(name: str) -> str:
    """A name in backticks."""
    return "`" + name.replace("`", "``") + "`"


def table_sql(schema: str, table: str) -> str:
    """A table's full name."""
    return f"{quoted(schema)}.{quoted(table)}"


def name_list(names: Iterable[str]) -> str:
    """Names with commas between them."""
    return ", ".join(quoted(name) for name in names)
