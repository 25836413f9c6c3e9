"""A live server for tests of snapshots: sessions on it, and what its log has of a snapshot."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from binlog_format import open_log
from binlog_format.views.changes import ChangesView
from binlog_format.views.filters import TableFilter
from binlog_streaming.server.address import Credentials, ServerAddress
from binlog_streaming.server.session import ServerSession, connect
from binlog_streaming.snapshot.sql_text import prepare_session

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from binlog_lab.demo.mariadb.server import DatabaseServer
    from binlog_streaming.snapshot.table_snapshot import TableSnapshot

REPLACED = re.compile(r"CREATE OR REPLACE (DATABASE|TABLE|USER) ([\w.@'`]+)")
NUMBERS = re.compile(r"\b(?:\w+\.)?seq_1_to_(\d+)\b")
MYSQL_NUMBERS = (
    r"(WITH RECURSIVE numbers AS (SELECT 1 AS seq UNION ALL SELECT seq + 1 FROM numbers WHERE seq < \1)"
    r" SELECT seq FROM numbers) seq_1_to_\1"
)
BLACKHOLE = "INSTALL SONAME 'ha_blackhole'"


def url_of(server: DatabaseServer, user: str = "root") -> str:
    return f"mysql://{user}@127.0.0.1:{server.port}/"


def session_on(server: DatabaseServer) -> ServerSession:
    """A session as a snapshot has it."""
    session = connect(ServerAddress.parse(url_of(server)), Credentials("root", server.password))
    prepare_session(session)
    return session


def run_sql(server: DatabaseServer, statements: Iterable[str]) -> None:
    """Run statements as root, without checks of what values may be."""
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SET SESSION sql_mode = 'NO_UNSIGNED_SUBTRACTION'")
        if server.installed.is_mysql:
            cursor.execute("SET SESSION cte_max_recursion_depth = 100000000")
            statements = (own for statement in statements for own in of_mysql(statement))
        for statement in statements:
            cursor.execute(statement)


def of_mysql(statement: str) -> Iterator[str]:
    """What MySQL has in place of MariaDB's OR REPLACE, its tables of numbers, and MD5()."""
    replaced = REPLACED.match(statement)
    if replaced is not None:
        yield f"DROP {replaced[1]} IF EXISTS {replaced[2]}"
        statement = f"CREATE {replaced[1]} {replaced[2]}{statement[replaced.end() :]}"
    statement = statement.replace("RESET MASTER", "RESET BINARY LOGS AND GTIDS")
    yield NUMBERS.sub(MYSQL_NUMBERS, statement).replace("UNHEX(MD5(seq))", "LEFT(UNHEX(SHA2(seq, 256)), 16)")


def follow(primary: DatabaseServer, replica: DatabaseServer) -> None:
    """Let a server replicate another one, from the first GTID on."""
    run_sql(
        primary,
        [
            "CREATE OR REPLACE USER replica@'127.0.0.1' IDENTIFIED BY 'secret'",
            "GRANT REPLICATION SLAVE ON *.* TO replica@'127.0.0.1'",
        ],
    )
    source = (
        f"CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = {primary.port}, MASTER_USER = 'replica',"
        " MASTER_PASSWORD = 'secret', MASTER_USE_GTID = slave_pos"
    )
    run_sql(replica, [source, "START SLAVE"])
    wait_for(primary, replica)  # it is connected


def wait_for(primary: DatabaseServer, replica: DatabaseServer) -> None:
    """Until the replica has what the primary has, without an error."""
    run_sql(primary, ["CREATE OR REPLACE TABLE shop.last (n INT)"])  # groups that are skipped advance nothing
    with session_on(replica) as session:
        reached = session.value("SELECT MASTER_GTID_WAIT(%s, 30)", primary.gtid_position())
        errors = session.dict_rows("SHOW SLAVE STATUS")[0]["last_sql_error"]
        assert (errors, reached) == ("", 0), (errors, reached)


def write_all(snapshot: TableSnapshot, size: int) -> None:
    """All that is left of a snapshot, in chunks of *size* rows."""
    while not snapshot.is_complete:
        snapshot.write(snapshot.next_bounds(size), is_waiting=True)
    snapshot.end()


@dataclass(frozen=True)
class LoggedGroup:
    """An event group of the log: its mark, if it has one, and its changes.

    Attributes:
        mark: The row of `snapshot_marks`, with `detail` parsed; None: it has none.
        changes: Operation, table, and both images.
    """

    gtid: str
    mark: dict[str, Any] | None
    changes: tuple[tuple[str, str, dict[str, Any] | None, dict[str, Any] | None], ...]


class _AllTables(TableFilter):
    """Accepts tables of snapshots, too."""

    def accepts_name(self, database: str, table: str) -> bool:
        del database, table
        return True


def logged_groups(log_directory: Path) -> list[LoggedGroup]:
    """Event groups with changes of rows, in their order in the log."""
    found: dict[str, list[Any]] = {}
    with open_log(str(log_directory)) as log:
        view = ChangesView(tables=_AllTables())
        for batch in view.batches(log.committed_blocks()):
            for row in batch.to_pylist():
                images = [None if row[name] is None else json.loads(row[name]) for name in ("before", "after")]
                found.setdefault(row["gtid"], []).append((row["op"], f"{row['database']}.{row['table']}", *images))
    groups = []
    for gtid, changes in found.items():
        marks = [after for _, table, _, after in changes if table == "binlog_stream.snapshot_marks"]
        assert len(marks) <= 1
        mark = marks[0] | {"detail": json.loads(marks[0]["detail"])} if marks else None
        others = tuple(change for change in changes if change[1] != "binlog_stream.snapshot_marks")
        groups.append(LoggedGroup(gtid, mark, others))
    return groups


JOB = """
checkpoint = "checkpoint"
[source]
path = "{log}"
[sink]
directory = "tables"
[[tables]]
{rule}
"""


def job_file(directory: Path, log: Path, rule: str = r"select = 'shop\..*'") -> Path:
    """A job about the tables of `shop`, with its log at *log*."""
    path = directory / "job.toml"
    path.write_text(JOB.format(log=log, rule=rule))
    return path
