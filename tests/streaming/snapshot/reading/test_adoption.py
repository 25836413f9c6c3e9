"""`binlog-stream adopt`: a Delta table that somebody else wrote becomes a target at a GTID, or is refused by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from binlog_format.errors import OptionError, SchemaError, TableError
from binlog_format.gtids.gtid_set import parse_gtids
from binlog_streaming.job_state.record_keeper import RecordKeeper
from binlog_streaming.settings import Mode, TableRule
from binlog_streaming.snapshot.reading.adoption import adopt, plan_adoption
from tests.program import run_program
from tests.streaming.replay_runs import run
from tests.streaming.snapshot.live import job_file, run_sql, url_of
from tests.streaming.snapshot.reading.readings import job_in, server_rows, target_rows
from tests.streaming.snapshot.reading.test_join import forget_earlier_logs

if TYPE_CHECKING:
    from pathlib import Path

    from binlog_lab.demo.mariadb.server import MariaDbServer

pytestmark = pytest.mark.server

SCHEMA = pa.schema([("id", pa.int32()), ("v", pa.string()), ("n", pa.decimal128(10, 2))])
ROWS = 100


@pytest.fixture
def server(shared_server: MariaDbServer) -> MariaDbServer:
    """A table that is older than its log, and changes of it before and after the GTID of `at`."""
    statements = [
        "CREATE OR REPLACE DATABASE shop",
        "CREATE TABLE shop.t (id INT PRIMARY KEY, v VARCHAR(20), n DECIMAL(10,2))",
        f"INSERT INTO shop.t SELECT seq, CONCAT('v', seq), seq / 4 FROM shop.seq_1_to_{ROWS}",
        "FLUSH BINARY LOGS",
    ]
    run_sql(shared_server, statements)
    forget_earlier_logs(shared_server)
    run_sql(shared_server, ["UPDATE shop.t SET v = 'before' WHERE id = 1", "DELETE FROM shop.t WHERE id = 2"])
    return shared_server


def export(server: MariaDbServer, uri: str, schema: pa.Schema = SCHEMA) -> str:
    """Write the table as it is now, as somebody else would; the GTID."""
    rows = [dict(zip(SCHEMA.names, row, strict=True)) for row in server_rows(server, "shop.t")]
    write_deltalake(uri, pa.Table.from_pylist(rows, SCHEMA).select(schema.names).cast(schema), mode="append")
    return server.gtid_position()


def change(server: MariaDbServer) -> None:
    run_sql(server, ["INSERT INTO shop.t VALUES (1000, 'after', 1)", "UPDATE shop.t SET n = 7 WHERE id = 3"])


def test_a_job_begins_with_an_adopted_table(server: MariaDbServer, tmp_path: Path) -> None:
    at = export(server, str(tmp_path / "tables/shop/t"))
    change(server)
    job = job_file(tmp_path, server.binlog_directory)
    options = ("--table", "shop.t", "--at", at, "--yes", "--server", url_of(server))
    passwords = {"BINLOG_STREAM_PASSWORD": server.password}
    done = run_program("adopt", job, *options, cwd=tmp_path, environment=passwords)
    assert done.returncode == 0, done.stderr
    assert f"{ROWS - 1} rows, key: id" in done.stdout
    assert "1 definition is in the log" in done.stderr
    settings = job_in(tmp_path, server.binlog_directory)
    run(settings)
    assert sorted(tuple(row.values()) for row in target_rows(settings, "shop/t")) == server_rows(server, "shop.t")
    keeper = RecordKeeper(settings)
    keeper.changes()
    assert keeper.record.complete == (("shop", "t"),)
    done = run_program("adopt", job, "--table", "shop.t", "--at", at, "--yes", cwd=tmp_path)
    assert "[BINLOG_TABLE.OTHER_WRITER]" in done.stderr


def test_a_job_that_has_begun_reads_up_to_the_place(server: MariaDbServer, tmp_path: Path) -> None:
    job = job_in(tmp_path, server.binlog_directory, TableRule(select=r"shop\.(t|new)"))
    run_sql(server, ["CREATE TABLE shop.new (id INT PRIMARY KEY)"])
    at = export(server, f"{job.sink.directory}/shop/t")
    change(server)
    first = job_in(tmp_path, server.binlog_directory, TableRule(select=r"shop\.new"))
    run(first)
    run_sql(server, ["INSERT INTO shop.new VALUES (1)"])
    with pytest.raises(Exception, match="the job has read up to"):
        adopt(job, plan_adoption(job, "shop.t", parse_gtids(at)), run)
    run_sql(server, ["DELETE FROM shop.t WHERE id = 5"])
    later = tmp_path / "later"
    job = job_in(later, server.binlog_directory, TableRule(select=r"shop\.(t|new)"))
    run(job_in(later, server.binlog_directory, TableRule(select=r"shop\.new")))
    run_sql(server, ["INSERT INTO shop.new VALUES (2)"])
    at = export(server, f"{job.sink.directory}/shop/t")
    change_again = ["UPDATE shop.t SET v = 'again'", "INSERT INTO shop.new VALUES (3)"]
    run_sql(server, change_again)
    adopt(job, plan_adoption(job, "shop.t", parse_gtids(at)), run)
    run(job)
    for table in ("t", "new"):
        rows = sorted(tuple(row.values()) for row in target_rows(job, f"shop/{table}"))
        assert rows == server_rows(server, f"shop.{table}")


def test_other_columns_are_named(server: MariaDbServer, tmp_path: Path) -> None:
    job = job_in(tmp_path, server.binlog_directory)
    schema = pa.schema([("id", pa.int64()), ("n", pa.decimal128(10, 2))])
    at = export(server, f"{job.sink.directory}/shop/t", schema)
    with pytest.raises(SchemaError, match=r"id is int64, expected int32; v is missing \(string\)"):
        plan_adoption(job, "shop.t", parse_gtids(at))


def test_keys_that_are_there_twice_are_named(server: MariaDbServer, tmp_path: Path) -> None:
    job = job_in(tmp_path, server.binlog_directory)
    at = export(server, f"{job.sink.directory}/shop/t")
    extra = pa.Table.from_pylist([{"id": 7, "v": "twice", "n": None}], SCHEMA)
    write_deltalake(f"{job.sink.directory}/shop/t", extra, mode="append")
    with pytest.raises(TableError, match=r"1 keys \(id\) have several rows in .*: \(hidden\)"):
        plan_adoption(job, "shop.t", parse_gtids(at))


def test_what_cannot_be_adopted_is_refused(server: MariaDbServer, tmp_path: Path) -> None:
    at = parse_gtids(server.gtid_position())
    job = job_in(tmp_path, server.binlog_directory)
    with pytest.raises(TableError, match="there is no table at"):
        plan_adoption(job, "shop.t", at)
    with pytest.raises(OptionError, match=r"no \[\[tables\]\] of the job selects it"):
        plan_adoption(job, "other.t", at)
    versions = job_in(tmp_path, server.binlog_directory, TableRule(mode=Mode.SCD2))
    with pytest.raises(OptionError, match="only a mirror that hides nothing"):
        plan_adoption(versions, "shop.t", at)
