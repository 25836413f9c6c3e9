"""Targets of all formats and rules that are filled by reading: what comes by the log later fits to it."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from binlog_connector.following.log_end import log_end
from binlog_connector.following.watched import WatchedLog
from binlog_format.classic.reader import ClassicLog
from binlog_format.errors import ServerError
from binlog_format.gtids.gtid import GtidPosition
from binlog_streaming.lake.sinks import sink_type
from binlog_streaming.settings import Deletes, Job, Mode, Sink, TableFormat, TableRule
from binlog_streaming.snapshot.locked_point import LogPoint
from binlog_streaming.snapshot.reading.job_batch import offset_of, rows_place
from binlog_streaming.snapshot.reading.plan import plan_reading
from binlog_streaming.snapshot.reading.run import run_reading
from tests.streaming.replay_runs import run
from tests.streaming.snapshot.live import run_sql
from tests.streaming.snapshot.reading.readings import job_in, left_out, read_tables, server_rows, session_of
from tests.streaming.snapshot.reading.test_join import forget_earlier_logs

if TYPE_CHECKING:
    from pathlib import Path

    from binlog_lab.demo.mariadb.server import MariaDbServer
    from binlog_streaming.snapshot.run import SnapshotProgress

pytestmark = pytest.mark.server

ROWS = 50
CREATE = """CREATE TABLE shop.t (name VARCHAR(20) DEFAULT 'ä', part INT, secret VARCHAR(20) COMMENT '漢字', n INT,
    PRIMARY KEY (name, part)) COMMENT 'größer'"""


@pytest.fixture
def server(shared_server: MariaDbServer) -> MariaDbServer:
    """A table with a text key, and texts in its definition, that is older than its log."""
    statements = [
        "CREATE OR REPLACE DATABASE shop",
        CREATE,
        f"INSERT INTO shop.t SELECT CONCAT('ä', seq MOD 7), seq, CONCAT('s', seq), seq FROM shop.seq_1_to_{ROWS}",
        "FLUSH BINARY LOGS",
    ]
    run_sql(shared_server, statements)
    forget_earlier_logs(shared_server)
    return shared_server


def rows_of(job: Job, table: str) -> list[dict[str, Any]]:
    with closing(sink_type(job.sink.format).at(job.sink, f"{job.sink.directory}/{table}")) as target:
        rows: list[dict[str, Any]] = target.read().read_all().to_pylist()
        return rows


@pytest.mark.parametrize("kind", [TableFormat.DELTA, TableFormat.ICEBERG], ids=str)
def test_rows_of_a_mirror(server: MariaDbServer, tmp_path: Path, kind: TableFormat) -> None:
    sink = Sink(directory=str(tmp_path / "tables"), format=kind)
    job = job_in(tmp_path, server.binlog_directory, sink=sink)
    assert read_tables(server, job).rows == ROWS
    run_sql(server, ["UPDATE shop.t SET n = n + 1 WHERE part < 9", "DELETE FROM shop.t WHERE part = 20"])
    run(job)
    read_tables(server, job, r"shop\.t")
    run_sql(server, ["UPDATE shop.t SET n = n + 1 WHERE part < 3", "UPDATE shop.t SET part = 99 WHERE part = 30"])
    run(job)
    assert sorted(tuple(row.values()) for row in rows_of(job, "shop/t")) == server_rows(server, "shop.t")


def test_rows_of_plain_files(server: MariaDbServer, tmp_path: Path) -> None:
    sink = Sink(directory=str(tmp_path / "tables"), format=TableFormat.PARQUET)
    job = job_in(tmp_path, server.binlog_directory, TableRule(mode=Mode.CHANGELOG), sink=sink)
    assert read_tables(server, job).rows == ROWS
    run_sql(server, ["DELETE FROM shop.t WHERE part = 20"])
    run(job)
    kinds = [row["_change_type"] for row in rows_of(job, "shop/t")]
    assert (kinds.count("insert"), kinds.count("delete")) == (ROWS, 1)


def test_deleted_rows_that_stay(server: MariaDbServer, tmp_path: Path) -> None:
    job = job_in(tmp_path, server.binlog_directory, TableRule(deletes=Deletes.MARK))
    read_tables(server, job)
    run_sql(server, ["DELETE FROM shop.t WHERE part = 20"])
    run(job)
    rows = rows_of(job, "shop/t")
    assert [row["part"] for row in rows if row["_deleted"]] == [20]
    assert len(rows) == ROWS


def test_what_rules_hide_is_in_no_target(server: MariaDbServer, tmp_path: Path) -> None:
    rule = TableRule(drop_columns=("n",), mask={"secret": "last 1"}, where="part <= 40")
    job = job_in(tmp_path, server.binlog_directory, rule)
    read_tables(server, job)
    before = {row["part"]: row for row in rows_of(job, "shop/t")}
    assert sorted(before) == list(range(1, 41))
    assert list(before[1]) == ["name", "part", "secret"]
    # What the log brings of the same rows is the same.
    run_sql(server, ["UPDATE shop.t SET n = n + 1"])
    run(job)
    assert {row["part"]: row for row in rows_of(job, "shop/t")} == before
    assert {row["secret"] for row in before.values()}.isdisjoint({f"s{number}" for number in range(1, 41)})


def test_a_table_that_is_altered_meanwhile_is_refused(
    server: MariaDbServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = job_in(tmp_path, server.binlog_directory)

    def altering(*arguments: Any) -> Any:
        run_sql(server, ["ALTER TABLE shop.t ADD COLUMN later INT DEFAULT 5"])
        return rows_place(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr("binlog_streaming.snapshot.reading.run.rows_place", altering)
        (failed,) = read_tables(server, job).failed
    assert failed.name == "shop.t"
    assert "was altered while" in failed.reason or "definition has changed" in failed.reason
    read_tables(server, job)
    run(job)
    assert sorted(tuple(row.values()) for row in rows_of(job, "shop/t")) == server_rows(server, "shop.t")


def test_keys_that_are_not_unique_are_refused(server: MariaDbServer, tmp_path: Path) -> None:
    job = job_in(tmp_path, server.binlog_directory, TableRule(keys=("name",)))
    (told,) = left_out(server, job)
    assert told.startswith("shop.t: its keys in the job (name) are no unique key of the server")


def test_a_server_that_dies_is_named_and_read_anew(server: MariaDbServer, tmp_path: Path) -> None:
    job = job_in(tmp_path, server.binlog_directory)
    with session_of(server) as session:
        plan = plan_reading(session, job)

    def kill(progress: SnapshotProgress) -> None:
        if progress.row_count:
            server.kill()

    with pytest.raises(ServerError) as raised:
        run_reading(plan, job, lambda: session_of(server), on_progress=kill)
    server.start()
    assert raised.value.condition == "BINLOG_SERVER.UNREACHABLE"
    assert read_tables(server, job).rows == ROWS
    run(job)
    assert sorted(tuple(row.values()) for row in rows_of(job, "shop/t")) == server_rows(server, "shop.t")


def test_the_place_of_rows_by_what_the_plan_has_seen_is_that_of_a_walk(
    server: MariaDbServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_sql(server, ["UPDATE shop.t SET n = n + 1"])
    with WatchedLog(str(server.binlog_directory)) as watched:
        seen = log_end(watched)
    for statement in ("DO 0", "UPDATE shop.t SET n = n + 1 WHERE part < 9", "FLUSH BINARY LOGS"):
        run_sql(server, [statement])
        with WatchedLog(str(server.binlog_directory)) as watched, monkeypatch.context() as patched:
            end = log_end(watched).offset
            assert isinstance(end.gtid, GtidPosition)
            name, _, byte = str(watched.log.server_position(end.position)).rpartition(":")
            point = LogPoint(name, int(byte), end.gtid)
            offset = offset_of(watched, point)
            place = rows_place(watched, offset, None)
            assert offset_of(watched, point, seen) == offset
            if statement != "FLUSH BINARY LOGS":  # of the next file it has seen nothing
                patched.delattr(ClassicLog, "heads")
            assert rows_place(watched, offset, seen) == place
