"""Check that a server logs rows so that a snapshot can be joined with them: `check_server`, `find_engine`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pymysql

from binlog_format.errors import ServerError
from binlog_streaming.server.session import DENIED, number_of
from binlog_streaming.snapshot.rights import may_install_plugins
from binlog_streaming.snapshot.shadow import ShadowEngine
from binlog_streaming.snapshot.sql_text import log_status

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from binlog_streaming.server.session import ServerSession

_MARIADB_FIRST = (10, 3, 0)  # NOWAIT
_MYSQL_FIRST = (8, 0, 22)  # FOR SHARE needs no other right than SELECT; CREATE TABLE ... SELECT with GTIDs
_INSTALL = "INSTALL SONAME 'ha_blackhole'"


@dataclass(frozen=True, slots=True)
class EngineChoice:
    """Engine of shadow tables.

    Attributes:
        is_installed: The server has it; else `install` brings it.
    """

    engine: ShadowEngine
    is_installed: bool

    def install(self, session: ServerSession) -> ShadowEngine:
        """See that the server has the engine; where it cannot be installed after all, the other one serves.

        Raises:
            ServerError: The connection was lost.
        """
        if not self.is_installed:
            try:
                session.execute(_INSTALL)
            except ServerError as error:
                if error.subclass == "UNREACHABLE":
                    raise
                return ShadowEngine.INNODB
        return self.engine


def check_server(session: ServerSession) -> None:
    """See that the server is one, and is set to, log rows, and lets a snapshot write.

    Raises:
        ServerError: `VERSION`, `SETTINGS`.
    """
    faults = [*log_faults(session), *_writing_faults(session)]
    if faults:
        raise faults[0]


def log_faults(session: ServerSession) -> Iterator[ServerError]:
    """Reasons why the log of the server lacks rows, or cannot be read: `VERSION`, `SETTINGS`; none: it is complete."""
    version = session.version
    first = _MARIADB_FIRST if version.is_mariadb else _MYSQL_FIRST
    if version.number < first:
        wanted = f"{'MariaDB' if version.is_mariadb else 'MySQL'} {'.'.join(map(str, first))} or later"
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
    """See that `binlog_do_db` and `binlog_ignore_db` leave none of *databases* out, where the account may see them.

    Raises:
        ServerError: `NOT_LOGGED`; or what the server answered otherwise.
    """
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
    try:
        rows = log_status(session)
    except pymysql.MySQLError as error:
        if number_of(error) in DENIED:
            return [], []
        with session.named_errors():
            raise
    taken, left_out = (str(value).split(",") if value else [] for value in (rows[0][2:4] if rows else ("", "")))
    return taken, left_out


def find_engine(session: ServerSession) -> EngineChoice:
    """Choose the engine of shadow tables: BLACKHOLE if the server has it, or the account may install it."""
    engines = {str(row["engine"]).upper(): str(row["support"]) for row in session.dict_rows("SHOW ENGINES")}
    if engines.get(ShadowEngine.BLACKHOLE.upper()) in ("YES", "DEFAULT"):
        return EngineChoice(ShadowEngine.BLACKHOLE, is_installed=True)
    if session.version.is_mariadb and may_install_plugins(session):
        plugins = session.dict_rows("SHOW PLUGINS SONAME 'ha_blackhole.so'")
        if any(str(plugin["name"]).upper() == "BLACKHOLE" for plugin in plugins):
            return EngineChoice(ShadowEngine.BLACKHOLE, is_installed=False)
    return EngineChoice(ShadowEngine.INNODB, is_installed=True)


def _fault(session: ServerSession, name: str, wanted: str, hint: str) -> Iterator[ServerError]:
    found = session.variable(name)
    if found != wanted:
        yield ServerError("SETTINGS", f"{name} is {found}, expected {wanted}", at=session.place, hint=hint)
