"""Check that a server logs rows so that a snapshot can be joined with them: `check_server`, `find_engine`.

Missing rights: `check_mark_rights` and `rights_refusal`, found by statements that do nothing.

Servers check rights before they look for a table. A statement about a table that does not exist therefore tells whether
the right is there, whatever way it was granted: to the account, to a role, by a pattern.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pymysql

from binlog_format.errors import ServerError
from binlog_format.vendor import SNAPSHOTS_SINCE
from binlog_format.views.filters import SNAPSHOT_DATABASE
from binlog_streaming.server.session import DENIED, number_of
from binlog_streaming.snapshot.shadow import ShadowEngine
from binlog_streaming.snapshot.source_table import TableLock
from binlog_streaming.snapshot.sql_text import (
    has_gtids,
    locking_clause,
    log_status_statement,
    name_list,
    quoted,
    table_sql,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

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
        is_denied = _is_denied(session, f"{select} {lock}", "SELECT")
    except ServerError as error:
        if error.subclass != "LOCKED":
            raise
        return str(error)
    if is_denied:
        refusals.append((f"SELECT ON {table.full_name}", grant_statement(session, ["SELECT"], source)))
    elif not table.columns:
        return (
            "the server did not show its columns, as another session altered or dropped it at that moment; start again"
        )
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
    if not has_gtids(session) and session.allowed_rows(log_status_statement(session)) is None:
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


_INSTALL = "INSTALL SONAME 'ha_blackhole'"


@dataclass(frozen=True, slots=True)
class EngineChoice:
    """Engine of shadow tables. *is_installed*: the server has it; else `install` brings it."""

    engine: ShadowEngine
    is_installed: bool

    def install(self, session: ServerSession) -> ShadowEngine:
        """See that the server has the engine; where it cannot be installed after all, the other one serves."""
        if not self.is_installed:
            try:
                session.execute(_INSTALL)
            except ServerError as error:
                if error.subclass == "UNREACHABLE":
                    raise
                return ShadowEngine.INNODB
        return self.engine


def check_server(session: ServerSession) -> None:
    """See that the server is one, and is set to, log rows, and lets a snapshot write."""
    faults = [*log_faults(session), *_writing_faults(session)]
    if faults:
        raise faults[0]


def log_faults(session: ServerSession) -> Iterator[ServerError]:
    """Reasons why the log of the server lacks rows, or cannot be read: `VERSION`, `SETTINGS`; none: it is complete."""
    version = session.version
    first = SNAPSHOTS_SINCE[version.vendor]
    if version.number < first:
        wanted = f"{version.vendor.label} {'.'.join(map(str, first))} or later"
        yield ServerError("VERSION", f"expected {wanted}, got {version}", at=session.place)
    yield from _fault(session, "log_bin", "ON", "Without a binlog there is nothing to tail")
    hint = "SET GLOBAL binlog_format = 'ROW', and connect applications anew"
    yield from _fault(session, "binlog_format", "ROW", hint)
    for name, wanted in (("binlog_format", "ROW"), ("sql_log_bin", "1")):
        found = str(session.value(f"SELECT @@SESSION.{name}"))
        if found != wanted:
            reason = f"{name} of the account's sessions is {found}, expected {wanted}"
            yield ServerError("SETTINGS", reason, at=session.place)


def _writing_faults(session: ServerSession) -> Iterator[ServerError]:
    yield from _replica_faults(session)
    yield from _fault(session, "read_only", "OFF", "It is a replica: give the URL of its primary, which writes the log")
    if session.variable("sql_require_primary_key") is not None:
        yield from _fault(session, "sql_require_primary_key", "OFF", "Shadow tables have no primary key")


def _replica_faults(session: ServerSession) -> Iterator[ServerError]:
    source = _source_of(session)
    if source is not None:
        yield ServerError(
            "REPLICA",
            f"it is a replica of {source}: what is written here is missing there, and may stop its replication",
            at=session.place,
            hint="Give the URL of its primary, and let the job read the primary's log. "
            "Where each replicates the other, stop the replication to this one meanwhile",
        )


def _source_of(session: ServerSession) -> str | None:
    """The server that this one takes changes from; None: there is none, or the account may not see it."""
    try:
        rows = session.try_dict_rows("SHOW ALL SLAVES STATUS" if session.version.is_mariadb else "SHOW REPLICA STATUS")
    except pymysql.MySQLError as error:
        if number_of(error) not in DENIED:
            with session.named_errors():
                raise
        # How many connections there are everybody may see, of MariaDB.
        counts = session.rows("SHOW GLOBAL STATUS LIKE 'Slaves_running'")
        return "another server" if counts and int(counts[0][1]) else None
    for row in rows:
        # What replicas and sources are called now were slaves and masters.
        known = {name.replace("slave", "replica").replace("master", "source"): value for name, value in row.items()}
        if {known["replica_io_running"], known["replica_sql_running"]} != {"No"}:
            return f"{known['source_host']}:{known['source_port']}"
    return None


def check_databases(session: ServerSession, databases: Iterable[str]) -> None:
    """See that `binlog_do_db` and `binlog_ignore_db` leave none of *databases* out, where the account may see them."""
    for reason in unlogged_databases(session, databases).values():
        raise ServerError("NOT_LOGGED", reason, at=session.place)


def unlogged_databases(session: ServerSession, databases: Iterable[str]) -> dict[str, str]:
    """Reasons why the server does not log some of *databases*, by their names, if the account may see them."""
    taken, left_out = _log_filters(session)
    setting = f"binlog_do_db = {','.join(taken)}" if taken else f"binlog_ignore_db = {','.join(left_out)}"
    return {
        name: f"{setting} leaves out {name}"
        for name in databases
        if (taken and name not in taken) or (not taken and name in left_out)
    }


def _log_filters(session: ServerSession) -> tuple[list[str], list[str]]:
    """`binlog_do_db` and `binlog_ignore_db`."""
    rows = session.allowed_rows(log_status_statement(session))
    taken, left_out = (str(value).split(",") if value else [] for value in (rows[0][2:4] if rows else ("", "")))
    return taken, left_out


def find_engine(session: ServerSession) -> EngineChoice:
    """Choose the engine of shadow tables: BLACKHOLE if the server has it, or the account may install it."""
    engines = {str(row["engine"]).upper(): str(row["support"]) for row in session.dict_rows("SHOW ENGINES")}
    if engines.get(ShadowEngine.BLACKHOLE.upper()) in ("YES", "DEFAULT"):
        return EngineChoice(ShadowEngine.BLACKHOLE, is_installed=True)
    if session.version.is_mariadb and (
        not _is_denied(session, "EXPLAIN INSERT INTO mysql.plugin VALUES ('', '')", "INSERT")
    ):
        plugins = session.dict_rows("SHOW PLUGINS SONAME 'ha_blackhole.so'")
        if any(str(plugin["name"]).upper() == "BLACKHOLE" for plugin in plugins):
            return EngineChoice(ShadowEngine.BLACKHOLE, is_installed=False)
    return EngineChoice(ShadowEngine.INNODB, is_installed=True)


def _fault(session: ServerSession, name: str, wanted: str, hint: str) -> Iterator[ServerError]:
    found = session.variable(name)
    if found != wanted:
        yield ServerError("SETTINGS", f"{name} is {found}, expected {wanted}", at=session.place, hint=hint)
