"""A live MariaDB with tables older than its log: what only their definitions have is known after a snapshot."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from binlog_connector import log_definitions
from binlog_connector.following.watched import WatchedLog
from binlog_connector.rules.row_rule import GeneratedColumns
from binlog_connector.schema.definitions import TableName
from binlog_connector.schema.snapshot_marks import Purpose
from binlog_connector.schema.stated_definitions import definition_statement
from binlog_format import open_log
from binlog_format.errors import BinlogError, UnsupportedError
from binlog_format.rows.declared.declared_types import Generated
from binlog_format.views.snapshot_events import marks_in
from binlog_format.views.tables import TablesView
from binlog_streaming.jobs.check import check_job
from binlog_streaming.lake.sinks import sink_type
from binlog_streaming.settings import Begin, OnCascade, TableRule, load_job
from binlog_streaming.snapshot.definitions import bring_definitions
from binlog_streaming.snapshot.plan import make_plan
from binlog_streaming.snapshot.run import run_snapshot
from binlog_streaming.snapshot.shadow import ShadowEngine
from binlog_streaming.snapshot.source_table import read_table
from binlog_streaming.snapshot.table_snapshot import TableSnapshot
from binlog_streaming.tables.statements.log_facts import LogFacts
from tests.program import run_program
from tests.streaming.replay_runs import run
from tests.streaming.snapshot.live import job_file, run_sql, session_on, url_of, write_all
from tests.streaming.snapshot.reading.readings import job_in, left_out, read_tables, server_rows, target_rows
from tests.streaming.snapshot.reading.test_join import forget_earlier_logs

if TYPE_CHECKING:
    from pathlib import Path

    from binlog_lab.demo.mariadb.server import MariaDbServer

pytestmark = pytest.mark.server

CHILD = """CREATE TABLE shop.child (id INT PRIMARY KEY, p INT, c INT, note CHAR(8) DEFAULT 'x',
  FOREIGN KEY (p) REFERENCES parent (id) ON DELETE CASCADE,
  CONSTRAINT by_code FOREIGN KEY (c) REFERENCES parent (code) ON DELETE SET NULL ON UPDATE CASCADE)"""
KINDS = """CREATE TABLE shop.kinds (id INT PRIMARY KEY, u UUID, price INT DEFAULT 7,
  total INT AS (price * 2) STORED, v INT AS (price + 1) VIRTUAL)"""
TABLES = ("parent", "child", "kinds")
OLDER = (
    "RESET MASTER",
    "DROP DATABASE IF EXISTS binlog_stream",
    "CREATE OR REPLACE DATABASE shop CHARACTER SET latin1",
    "CREATE TABLE shop.parent (id INT PRIMARY KEY, code INT, UNIQUE KEY (code))",
    CHILD,
    KINDS,
    "INSERT INTO shop.parent VALUES (1, 10), (2, 20), (3, 30)",
    "INSERT INTO shop.child (id, p, c) VALUES (11, 1, 10), (12, 1, 20), (21, 2, 20), (22, 2, 30), (31, 3, 30)",
    "INSERT INTO shop.kinds (id, u) VALUES (1, UUID()), (2, NULL)",
    "FLUSH BINARY LOGS",
)
CASCADING = ("DELETE FROM shop.parent WHERE id = 1", "UPDATE shop.parent SET code = 33 WHERE id = 3")


@pytest.fixture(params=["FULL", "NO_LOG"])
def server(shared_server: MariaDbServer, request: pytest.FixtureRequest) -> MariaDbServer:
    run_sql(shared_server, [f"SET GLOBAL binlog_row_metadata = '{request.param}'", *OLDER])
    forget_earlier_logs(shared_server)
    return shared_server


def take_snapshot(server: MariaDbServer) -> None:
    with session_on(server) as session:
        for name in TABLES:
            table = read_table(session, "shop", name)
            write_all(TableSnapshot.start(session, table, Purpose.COMPLETE, ShadowEngine.BLACKHOLE), 2)


def test_foreign_keys_of_older_tables_are_followed_or_named(server: MariaDbServer, tmp_path: Path) -> None:
    take_snapshot(server)
    run_sql(server, CASCADING)
    applying, default = (
        job_in(folder, server.binlog_directory, TableRule(select=r"shop\..*", begin=Begin.SNAPSHOT, foreign_keys=way))
        for folder, way in ((tmp_path / "a", OnCascade.APPLY), (tmp_path / "f", OnCascade.FAIL))
    )
    run(applying)
    columns = ("id", "p", "c", "note")
    held = sorted(tuple(row[name] for name in columns) for row in target_rows(applying, "shop/child"))
    assert held == [tuple(row) for row in server_rows(server, f"(SELECT {', '.join(columns)} FROM shop.child) t")]
    assert len(held) == 3
    with pytest.raises(UnsupportedError, match=r"FOREIGN_KEY_CASCADE\] .*a DELETE from shop\.parent .* shop\.child"):
        run(default)


def test_all_that_a_definition_has_is_known_from_the_mark_on(server: MariaDbServer) -> None:
    take_snapshot(server)
    with WatchedLog(str(server.binlog_directory), None) as watched:
        log = watched.log
        facts, name = LogFacts(log), TableName("shop", "kinds")
        definition = facts.definition_at(name, log.end_position())
        assert facts.definition_at(name, log.start_position()) is None
        child = facts.definition_at(TableName("shop", "child"), log.end_position())
    assert definition is not None
    columns = {column.name: column for column in definition.columns or ()}
    assert columns["u"].declared == "uuid"
    assert (columns["total"].generated, columns["v"].generated) == (Generated.STORED, Generated.VIRTUAL)
    assert columns["price"].generated is None
    assert columns["price"].default is not None
    assert definition.primary_key == ("id",)
    assert child is not None
    assert child.columns is not None
    assert child.columns[-1].charset == "latin1"


def test_an_alter_of_an_older_table_is_understood(server: MariaDbServer, tmp_path: Path) -> None:
    """From the mark on statements change what is known, without a CREATE TABLE in the log."""
    take_snapshot(server)
    run_sql(
        server,
        [
            "ALTER TABLE shop.child ADD n VARCHAR(9) DEFAULT 'new', DROP FOREIGN KEY by_code",
            "UPDATE shop.parent SET code = 33 WHERE id = 3",
            "INSERT INTO shop.child (id, p) VALUES (41, 3)",
        ],
    )
    job = job_in(tmp_path, server.binlog_directory, TableRule(select=r"shop\..*", begin=Begin.SNAPSHOT))
    run(job)
    columns = ("id", "p", "c", "n")
    held = sorted(tuple(str(row[name]) for name in columns) for row in target_rows(job, "shop/child"))
    rows = server_rows(server, f"(SELECT {', '.join(columns)} FROM shop.child) t")
    assert held == sorted(tuple(map(str, row)) for row in rows)


def test_generated_columns_of_older_tables_are_left_out(server: MariaDbServer, tmp_path: Path) -> None:
    take_snapshot(server)
    run_sql(
        server,
        [
            "SET SESSION binlog_row_image = 'MINIMAL'",
            "UPDATE shop.kinds SET price = 9 WHERE id = 1",
            "ALTER TABLE shop.kinds ADD w INT AS (price) VIRTUAL, ADD n INT DEFAULT 3, MODIFY total INT AS (n) STORED",
            "INSERT INTO shop.kinds (id, price) VALUES (3, 1)",
        ],
    )
    rule = TableRule(select=r"shop\.kinds", begin=Begin.SNAPSHOT, generated=GeneratedColumns.DROP)
    job = job_in(tmp_path, server.binlog_directory, rule)
    run(job)
    columns = ("id", "u", "price", "n")
    rows = target_rows(job, "shop/kinds")
    assert {frozenset(row) for row in rows} == {frozenset(columns)}
    held = sorted(tuple(str(row[name]) for name in columns) for row in rows)
    expected = server_rows(server, f"(SELECT {', '.join(columns)} FROM shop.kinds) t")
    assert held == sorted(tuple(map(str, row)) for row in expected)
    assert len(held) == 3
    with session_on(server) as session:
        generated = [column.name for column in read_table(session, "shop", "kinds").columns if column.is_generated]
    assert generated == ["total", "v", "w"]


def test_reading_refuses_tables_whose_generated_columns_are_left_out(server: MariaDbServer, tmp_path: Path) -> None:
    rule = TableRule(select=r"shop\.kinds", begin=Begin.SNAPSHOT, generated=GeneratedColumns.DROP)
    (told,) = left_out(server, job_in(tmp_path, server.binlog_directory, rule))
    assert told.startswith('shop.kinds: generated = "drop" is set for it')


def test_marks_are_found_without_a_look_at_other_tables(server: MariaDbServer) -> None:
    take_snapshot(server)
    with open_log(str(server.binlog_directory)) as log:
        blocks = list(log.committed_blocks())
        rows = [row for batch in TablesView().batches(blocks) for row in batch.to_pylist()]
    expected = [mark for row in rows for mark in row["marks"] or ()]
    assert [mark for block in blocks for mark in marks_in(block)] == expected
    assert {mark["kind"] for mark in expected} == {"begin", "chunk", "end"}


def test_a_mark_without_a_definition_states_none() -> None:
    """As versions before wrote them."""
    mark = {"kind": "begin", "detail": '{"purpose": "complete", "columns": [], "key": []}'}
    assert definition_statement(mark) is None
    assert definition_statement(mark | {"detail": "torn"}) is None
    assert definition_statement({"kind": "chunk", "detail": "{}"}) is None


def bring(server: MariaDbServer, folder: Path, *more: str, rule: str = r"select = 'shop\..*'") -> str:
    """What `snapshot --definitions` prints."""
    job = job_file(folder, server.binlog_directory, rule)
    arguments = ("snapshot", job, "--server", url_of(server), "--definitions", "--yes", *more)
    done = run_program(*arguments, cwd=folder, environment={"BINLOG_STREAM_PASSWORD": server.password})
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_running_job_knows_definitions_that_are_brought_without_rows(server: MariaDbServer, tmp_path: Path) -> None:
    rule = TableRule(select=r"shop\.(parent|child)", begin=Begin.EMPTY)
    job = job_in(tmp_path / "job", server.binlog_directory, rule)
    if server_rows(server, "(SELECT @@GLOBAL.binlog_row_metadata) t") == [("FULL",)]:
        run_sql(server, ["INSERT INTO shop.parent VALUES (4, 40)", "DELETE FROM shop.parent WHERE id = 1"])
        run(job)  # nothing in the log states the foreign key
    assert "3 definitions are in the log" in bring(server, tmp_path)
    with open_log(str(server.binlog_directory)) as log:
        kinds = [mark["kind"] for block in log.committed_blocks() for mark in marks_in(block)]
    assert kinds == ["definition"] * 3
    run_sql(server, ["DELETE FROM shop.parent WHERE id = 2"])
    with pytest.raises(UnsupportedError, match=r"FOREIGN_KEY_CASCADE\] .*a DELETE from shop\.parent .* shop\.child"):
        run(job)


def test_rows_with_minimal_images_go_on_once_their_definition_is_brought(server: MariaDbServer, tmp_path: Path) -> None:
    """A NULLable column that an image lacks may be generated, until its definition states that it is not."""
    job = job_in(tmp_path / "job", server.binlog_directory, TableRule(select=r"shop\.parent", begin=Begin.EMPTY))
    minimal = "SET SESSION binlog_row_image = 'MINIMAL'"
    changes = ("DELETE FROM shop.parent", "INSERT INTO shop.parent VALUES (4, 40)")
    run_sql(server, [*changes, minimal, "UPDATE shop.parent SET id = 5 WHERE id = 4"])
    with pytest.raises(BinlogError, match=r"\[BINLOG_\w+\.(ROW_IMAGE|NO_COLUMN_METADATA)\] shop\.parent"):
        run(job)
    assert "3 definitions are in the log" in bring(server, tmp_path)
    run_sql(server, [minimal, "INSERT INTO shop.parent VALUES (6, 60)", "UPDATE shop.parent SET id = 7 WHERE id = 6"])
    log_definitions._known.clear()  # as in the process that goes on
    run(job)
    held = sorted((row["id"], row["code"]) for row in target_rows(job, "shop/parent"))
    assert held == server_rows(server, "(SELECT id, code FROM shop.parent) t") == [(5, 40), (7, 60)]
    with closing(sink_type(job.sink.format).at(job.sink, f"{job.sink.directory}/shop/parent")) as target:
        assert (target.properties() or {})["binlog-stream.definition"] == "known"


@pytest.mark.parametrize("between", ["ALTER TABLE shop.parent ADD n INT", "DROP DATABASE nothing"])
def test_a_definition_does_not_hold_before_a_statement_about_its_table(
    server: MariaDbServer, tmp_path: Path, between: str
) -> None:
    job = job_in(tmp_path / "job", server.binlog_directory, TableRule(select=r"shop\.parent", begin=Begin.EMPTY))
    run_sql(server, ["INSERT INTO shop.parent VALUES (4, 40)", "SET SESSION binlog_row_image = 'MINIMAL'"])
    run_sql(server, ["SET SESSION binlog_row_image = 'MINIMAL'", "UPDATE shop.parent SET id = 5 WHERE id = 4"])
    run_sql(server, ["CREATE DATABASE nothing", between, "DROP DATABASE IF EXISTS nothing"])
    bring(server, tmp_path)
    log_definitions._known.clear()  # as in the process that goes on
    if "parent" in between:
        with pytest.raises(BinlogError, match=r"\[BINLOG_\w+\.(ROW_IMAGE|NO_COLUMN_METADATA)\] shop\.parent"):
            run(job)
    else:
        run(job)


def test_definitions_of_tables_that_foreign_keys_lead_to_are_brought_too(server: MariaDbServer, tmp_path: Path) -> None:
    shown = bring(server, tmp_path, rule=r"select = 'shop\.child'")
    assert "2 definitions are in the log" in shown
    assert "shop.child, shop.parent" in shown


@pytest.mark.parametrize("more", [("--rate", "5"), ("--restart",), ("--method", "read")])
def test_definitions_have_no_options_of_rows(
    shared_server: MariaDbServer, tmp_path: Path, more: tuple[str, ...]
) -> None:
    job = job_file(tmp_path, shared_server.binlog_directory)
    done = run_program("snapshot", job, "--server", url_of(shared_server), "--definitions", *more, cwd=tmp_path)
    assert done.returncode == 2
    assert "has no effect with" in done.stderr


def test_init_brings_definitions(server: MariaDbServer, tmp_path: Path) -> None:
    run_sql(server, ["INSERT INTO shop.parent VALUES (4, 40)", "INSERT INTO shop.child (id, p) VALUES (44, 4)"])
    arguments = ("init", server.binlog_directory, "--server", url_of(server))
    run_sql(server, ["SET GLOBAL binlog_expire_logs_seconds = 259200"])
    done = run_program(*arguments, cwd=tmp_path, environment={"BINLOG_STREAM_PASSWORD": server.password})
    assert done.returncode == 0, done.stderr
    assert "2 definitions are in the log" in done.stderr
    assert "[source]" in done.stdout
    assert "\nlowerCaseTableNames = 0\n" in done.stdout
    assert '\npurge_after = "3d"\n' in done.stdout
    (tmp_path / "job.toml").write_text(done.stdout)
    assert load_job(tmp_path / "job.toml").status.purge_after_seconds == 259200
    run_sql(server, ["SET GLOBAL binlog_expire_logs_seconds = 3700"])
    is_utc = server_rows(server, "(SELECT @@system_time_zone) t") == [("UTC",)]
    assert ('\nsystemTimeZone = "UTC"\n' in done.stdout, "set systemTimeZone" in done.stderr) == (is_utc, not is_utc)
    done = run_program(
        *arguments, "--for", "kafka", cwd=tmp_path, environment={"BINLOG_STREAM_PASSWORD": server.password}
    )
    assert done.returncode == 0, done.stderr
    assert "\nlowerCaseTableNames = 0\n" in done.stdout
    assert '\npurge_after = "3700s"\n' in done.stdout
    run_sql(server, ["SET GLOBAL binlog_expire_logs_seconds = 0"])


def test_foreign_keys_are_known_after_reading_without_a_mark(server: MariaDbServer, tmp_path: Path) -> None:
    """`--method read` writes nothing on the server: the job's record keeps them, also once the log is purged."""
    run_sql(server, ["INSERT INTO shop.parent VALUES (4, 40)", "INSERT INTO shop.child (id, p) VALUES (44, 4)"])
    ways = {OnCascade.APPLY: tmp_path / "a", OnCascade.FAIL: tmp_path / "f"}
    jobs = {
        way: job_in(
            folder,
            server.binlog_directory,
            TableRule(select=r"shop\.(parent|child)", begin=Begin.SNAPSHOT, foreign_keys=way),
            schema_file=schema_file(tmp_path),
        )
        for way, folder in ways.items()
    }
    for job in jobs.values():
        read_tables(server, job)
    run_sql(server, [*CASCADING, "FLUSH BINARY LOGS"])
    run(jobs[OnCascade.APPLY])
    held = sorted((row["id"], row["p"], row["c"]) for row in target_rows(jobs[OnCascade.APPLY], "shop/child"))
    assert held == server_rows(server, "(SELECT id, p, c FROM shop.child) t")
    assert len(held) == 4
    with pytest.raises(UnsupportedError, match=r"FOREIGN_KEY_CASCADE\] .*a DELETE from shop\.parent .* shop\.child"):
        run(jobs[OnCascade.FAIL])


def schema_file(folder: Path) -> str:
    """Columns without foreign keys, for a log whose table maps have no names."""
    path = folder / "schemas.sql"
    path.write_text(
        "USE shop;\nCREATE TABLE parent (id INT PRIMARY KEY, code INT, UNIQUE KEY (code));\n"
        "CREATE TABLE child (id INT PRIMARY KEY, p INT, c INT, note CHAR(8) CHARACTER SET latin1 DEFAULT 'x');\n"
    )
    return str(path)


def test_check_states_once_whose_definitions_are_partial(server: MariaDbServer, tmp_path: Path) -> None:
    run_sql(server, ["INSERT INTO shop.parent VALUES (4, 40)", "INSERT INTO shop.child (id, p) VALUES (44, 4)"])
    job = job_in(tmp_path, server.binlog_directory, TableRule(select=r"shop\..*", begin=Begin.EMPTY))
    before = check_job(job)
    assert {table.name: table.definition for table in before.tables} == dict.fromkeys(
        ("shop.child", "shop.parent"), "partial"
    )
    (told,) = (text for text in before.warnings if "definition = partial" in text)
    assert "shop.child, shop.parent" in told
    assert "--definitions" in told
    with session_on(server) as session:
        bring_definitions(session, job, [TableName("shop", "child"), TableName("shop", "parent")])
    after = check_job(job)
    assert {table.definition for table in after.tables} == {"known"}
    assert not any("definition = partial" in text for text in after.warnings)


CHAIN = (
    "CREATE TABLE shop.basket (id INT PRIMARY KEY, up INT, FOREIGN KEY (up) REFERENCES parent (id))",
    "CREATE TABLE shop.apple (id INT PRIMARY KEY, up INT, FOREIGN KEY (up) REFERENCES basket (id))",
    "CREATE TABLE shop.desk (id INT PRIMARY KEY, up INT)",
    "CREATE TABLE shop.room (id INT PRIMARY KEY, up INT, FOREIGN KEY (up) REFERENCES desk (id))",
    "ALTER TABLE shop.desk ADD FOREIGN KEY (up) REFERENCES room (id)",
)


def test_parents_come_before_their_children_and_definitions_of_a_circle_before_all(
    server: MariaDbServer, tmp_path: Path
) -> None:
    """A table whose rows are not all there yet cannot tell which rows of its children go with its own."""
    run_sql(server, CHAIN)
    job = job_in(tmp_path, server.binlog_directory, TableRule(select=r"shop\..*", begin=Begin.SNAPSHOT))
    with session_on(server) as session:
        plan = make_plan(session, job)
        names = [planned.table.name.table for planned in plan.tables]
        assert names == ["parent", "basket", "apple", "child", "room", "desk", "kinds"]
        run_snapshot(session, plan)
        kinds = "kind IN ('definition', 'begin')"
        marks = session.rows(f"SELECT kind, source_table FROM binlog_stream.snapshot_marks WHERE {kinds} ORDER BY id")
    assert marks == [("definition", "desk"), *(("begin", name) for name in names)]
    run_sql(server, ["SET foreign_key_checks = 0", "DROP TABLE shop.desk, shop.room"])  # none can be dropped first
