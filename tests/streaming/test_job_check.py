"""What `check` and `init` say about logs of real servers, and about the state of a job."""

from __future__ import annotations

import json
import shutil
from decimal import Decimal
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa
import pytest
from deltalake import write_deltalake

from binlog_connector.following.log_end import end_of_log, start_of_log
from binlog_connector.following.watched import WatchedLog
from binlog_format.errors import DataLossError, OptionError, StartError
from binlog_lab.event_encoding.table_encoding import ColumnSpec, TableSpec
from binlog_lab.simulator.structured.program import LoggingProgram
from binlog_streaming.job_state.checkpoint import StateFolder, place_errors, read_checkpoint, read_offset
from binlog_streaming.job_state.record_keeper import RecordKeeper
from binlog_streaming.jobs.check import check_job
from binlog_streaming.jobs.init import init_text
from binlog_streaming.jobs.log_tables import SCAN_SIZE, find_tables
from binlog_streaming.lake.commit_id import CommitId
from binlog_streaming.lake.delta.target import DeltaTarget
from binlog_streaming.settings import (
    Begin,
    Deletes,
    Job,
    Mode,
    OnCascade,
    OnError,
    Sink,
    Source,
    TableFormat,
    TableRule,
    load_job,
)
from tests.corpus import SERVER_CASES
from tests.program import run_program
from tests.streaming.tables.oltp import CHANGES, OLTP, TABLES
from tests.streaming.tables.shop import ShopLog
from tests.streaming.tables.snapshots.snapshot_log import begin_late

if TYPE_CHECKING:
    from pathlib import Path

    from binlog_connector.following.offsets import SourceOffset

QUERY_ID = "5a7a4d44-0e2c-4a52-9a3c-1f0b4a7c2f11"


def job_for(folder: Path, *rules: TableRule, log: Path = OLTP, **source: object) -> Job:
    return Job(
        source=msgspec.convert({"path": str(log), **source}, Source),
        sink=Sink(directory=str(folder / "tables")),
        checkpoint=str(folder / "checkpoint"),
        tables=rules or (TableRule(),),
    )


def write_checkpoint(folder: Path, offsets: list[SourceOffset], committed: int) -> None:
    """As Spark writes it: a file for each batch begun, and one for each finished."""
    root = folder / "checkpoint"
    (root / "offsets").mkdir(parents=True)
    (root / "commits").mkdir()
    (root / "metadata").write_text(json.dumps({"id": QUERY_ID}))
    for number, offset in enumerate(offsets):
        (root / "offsets" / str(number)).write_text(f'v1\n{{"conf":{{}}}}\n{json.dumps(offset.to_json())}')
        (root / "offsets" / f".{number}.crc").write_bytes(b"crc")
    for number in range(committed):
        (root / "commits" / str(number)).write_text('v1\n{"nextBatchWatermarkMs":0}')


@pytest.mark.parametrize(
    "case",
    [
        "mariadb-10.11/oltp_small",
        "mariadb-10.11/ops_minimal",
        "mariadb-10.11/rotation",
        "mariadb-10.11/types_minimal_nolog",
        "mariadb-11.8/rotation",
        "mysql-9/oltp_small",
        "mysql-9/ops",
        "mysql-9/types_full",
    ],
)
def test_job_file_that_init_writes_can_run(case: str, tmp_path: Path) -> None:
    file = tmp_path / "job.toml"
    file.write_text(init_text(str(SERVER_CASES / case), scan_size=SCAN_SIZE))
    job = load_job(file)
    report = check_job(job)
    assert all("STATEMENT_FORMAT" in problem for problem in report.problems)
    assert bool(report.problems) == ("ops" in case)
    assert report.tables
    found = find_tables(str(SERVER_CASES / case)).tables
    assert {table.name for table in report.tables} | set(report.left_out) == {table.name for table in found}
    modes = {table.name: table.targets[0].mode for table in report.tables}
    for table in found:
        is_whole = bool(table.layout.primary_key) and not table.unknown_columns
        if table.name in modes:
            assert modes[table.name] == ("mirror" if is_whole else "changelog")
    assert list(tmp_path.iterdir()) == [file]  # a look leaves nothing behind


def test_tables_of_a_log_that_is_younger_than_its_server_wait_for_their_snapshots(tmp_path: Path) -> None:
    file, younger = tmp_path / "job.toml", tmp_path / "log"
    younger.mkdir()
    shutil.copy(SERVER_CASES / "mariadb-10.11" / "ops" / "mysql-bin.000002", younger)
    for log, begin in ((younger, Begin.SNAPSHOT), (SERVER_CASES / "mariadb-10.11" / "ops", Begin.CREATED)):
        text = init_text(str(log), scan_size=SCAN_SIZE)
        file.write_text(text)
        assert load_job(file).tables[-1].begin is begin
        assert ("binlog-stream snapshot JOB.toml" in text) is (begin is Begin.SNAPSHOT)


def test_init_leaves_out_what_nobody_knows_and_says_why(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    log, file = tmp_path / "log", tmp_path / "job.toml"
    log.mkdir()
    # The table was created in the file before, and the table maps name no columns.
    shutil.copy(SERVER_CASES / "mariadb-10.11" / "ops_minimal" / "mysql-bin.000002", log)
    text = init_text(str(log), scan_size=SCAN_SIZE)
    file.write_text(text)
    job = load_job(file)
    assert job.source.exclude_tables == r"mysql\..*,sys\..*,t\.a"
    why = "t.a, as the log does not describe"
    assert f"Here: tables of the server's own. And {why}" in text.replace("\n# ", " ")
    assert [message.startswith(f"left out: {why}") for message in caplog.messages] == [True], "for who pipes the file"
    report = check_job(job)
    assert (report.problems, report.left_out) == ((), ("t.a",))
    with_it = check_job(job_for(tmp_path, TableRule(mode=Mode.CHANGELOG), log=log))
    (problem,) = with_it.problems
    assert "BINLOG_SCHEMA.NO_COLUMN_METADATA] t.a: " in problem
    schema = tmp_path / "schema.sql"
    schema.write_text(
        "CREATE DATABASE t; USE t; CREATE TABLE a (id INT PRIMARY KEY, k INT, v VARCHAR(50)) CHARSET=utf8mb4;"
    )
    known = init_text(str(log), schema_file=str(schema), scan_size=SCAN_SIZE)
    file.write_text(known)
    (table,) = check_job(load_job(file)).tables
    assert [name for name, _ in table.columns] == ["id", "k", "v"]


def test_statements_that_change_rows_are_problems_of_their_tables(tmp_path: Path) -> None:
    log = SERVER_CASES / "mariadb-10.11" / "ops"
    report = check_job(job_for(tmp_path, TableRule(select=r"t\.(audit|a)"), log=log))
    (problem,) = report.problems
    assert problem.startswith("t.audit: [BINLOG_UNSUPPORTED.STATEMENT_FORMAT] 2 times in the log, first: GTID 0-1011-")
    assert [table.name for table in report.tables if table.problems] == ["t.audit"]
    assert check_job(job_for(tmp_path, log=log, excludeTables=r"t\.(audit|many|sq|sv3)")).problems == ()
    begun_empty = TableRule(select=r"t\.audit", begin=Begin.EMPTY)
    later = check_job(job_for(tmp_path, begun_empty, log=log, startingOffsets="latest"))
    assert later.problems == ()
    text = init_text(str(log), scan_size=SCAN_SIZE)
    assert "WARNING: a job stops at changes of t.audit" in text.replace("\n# ", " ")


def test_tables_that_may_be_older_than_a_first_log_are_warned_of(tmp_path: Path) -> None:
    spec = TableSpec("shop", "t", (ColumnSpec("id", "int"),), ("id",))
    for created in (False, True):
        with ShopLog(tmp_path / str(created)) as shop:
            if created:
                shop.statement("CREATE TABLE shop.t (id INT PRIMARY KEY)")
            shop.insert(spec, (1,))
        (table,) = check_job(job_for(tmp_path, log=tmp_path / str(created))).tables
        assert table.complete is True
        assert any("has no CREATE TABLE of it" in warning for warning in table.warnings) is not created


def test_statements_before_a_snapshot_are_no_problems_of_its_table(tmp_path: Path) -> None:
    log = SERVER_CASES / "mariadb-10.11" / "ops"
    (problem,) = check_job(job_for(tmp_path, TableRule(select=r"t\.audit"), log=log)).problems
    first = int(problem.split("first: GTID 0-1011-")[1].split(",")[0])
    after = f"0-1011-{first - 1}"  # the table was created before, so a snapshot has to complete it
    created, waiting = (
        check_job(job_for(tmp_path, TableRule(select=r"t\.audit", begin=begin), log=log, startingGtid=after))
        for begin in (Begin.CREATED, Begin.SNAPSHOT)
    )
    assert any("STATEMENT_FORMAT" in problem for problem in created.problems)
    assert waiting.problems == ()
    (table,) = waiting.tables
    assert any("waits for its snapshot" in warning for warning in table.warnings)


@pytest.mark.parametrize("begins", ["", "CREATE TABLE shop.t (id INT PRIMARY KEY)"])
def test_statements_about_a_table_without_rows_in_the_log_stop_it_unless_it_waits(begins: str, tmp_path: Path) -> None:
    """As where a server logged statements alone until now: its table begins at the snapshot, or at the CREATE."""
    with ShopLog(tmp_path / "log") as shop:
        if begins:
            shop.statement(begins)
        shop.statement("INSERT INTO shop.t VALUES (1)")
    for begin in (Begin.CREATED, Begin.SNAPSHOT):
        report = check_job(job_for(tmp_path, TableRule(begin=begin), log=tmp_path / "log"))
        waits = begin is Begin.SNAPSHOT and not begins
        assert any("STATEMENT_FORMAT" in problem for problem in report.problems) is not waits
        assert any("shop.t: it waits for its snapshot" in warning for warning in report.warnings) is waits


def test_table_without_a_key_that_statements_changed_waits_in_a_job_that_init_writes(tmp_path: Path) -> None:
    with ShopLog(tmp_path / "log") as shop:
        begin_late(shop)
        shop.insert(TableSpec("shop", "t", (ColumnSpec("id", "int"),)), (1,))
        shop.insert(TableSpec("shop", "u", (ColumnSpec("id", "int"),), ("id",)), (1,))
        shop.statement("INSERT INTO shop.t VALUES (2)")
    job_file = tmp_path / "job.toml"
    job_file.write_text(init_text(str(tmp_path / "log"), scan_size=SCAN_SIZE))
    job = load_job(job_file)
    assert [(rule.select, rule.mode, rule.begin) for rule in job.tables] == [
        (r"shop\.t", Mode.CHANGELOG, Begin.SNAPSHOT),
        (".*", Mode.MIRROR, Begin.SNAPSHOT),
    ]
    assert check_job(job).problems == ()


@pytest.mark.parametrize("server", ["mariadb-10.11", "mysql-9"])
def test_foreign_keys_that_change_rows_are_warned_of_where_the_server_does_not_log_it(
    server: str, tmp_path: Path
) -> None:
    log = SERVER_CASES / server / "ops"
    jobs = (
        job_for(tmp_path, log=log),
        job_for(tmp_path, TableRule(foreign_keys=OnCascade.IGNORE), log=log),
        msgspec.structs.replace(job_for(tmp_path, log=log), on_error=OnError.SET_ASIDE),
    )
    stops, ignores, aside = (
        "\n".join(text for table in check_job(job).tables for text in table.warnings if "foreign key" in text)
        for job in jobs
    )
    if server == "mysql-9":
        assert not stops
        return
    assert stops.startswith(
        "t.chi: its foreign key chi_ibfk_1 changes rows of it when rows of t.par are deleted or change their key, "
        "and no log has these changes: the job stops at the first one"
    )
    assert "these changes: foreign_keys ignores it" in ignores
    assert "these changes: the table is set aside at the first one" in aside


def test_parquet_gets_changelogs(tmp_path: Path) -> None:
    file = tmp_path / "job.toml"
    file.write_text(init_text(str(OLTP), table_format=TableFormat.PARQUET, scan_size=SCAN_SIZE))
    report = check_job(load_job(file))
    assert report.problems == ()
    assert {target.mode for table in report.tables for target in table.targets} == {"changelog"}


def test_new_job_starts_where_its_file_says(tmp_path: Path) -> None:
    report = check_job(job_for(tmp_path))
    assert (report.log.format, report.log.files, report.log.gtid) == ("classic", ("mysql-bin.000001",), "0-1011-309")
    assert [table.name for table in report.tables] == [f"sb.{name}" for name in TABLES]
    assert sum(table.changes for table in report.tables) == CHANGES
    (first, *_) = report.tables
    assert first.keys == ("id",)
    assert first.columns == (("id", "int32"), ("k", "int32"), ("c", "string"), ("pad", "string"))
    assert (first.targets[0].uri, first.targets[0].exists) == (str(tmp_path / "tables" / "sb" / "sbtest1"), False)
    assert report.start.is_fresh
    assert report.start.size_behind == report.log.size - 4
    latest = check_job(job_for(tmp_path, startingOffsets="latest"))
    assert (latest.start.gtid, latest.start.size_behind, latest.start.said_by) == ("0-1011-309", 0, "startingOffsets")
    behind = check_job(job_for(tmp_path, startingGtid="0-1011-100"))
    assert 0 < behind.start.size_behind < report.start.size_behind
    with pytest.raises(StartError, match="GTID_NOT_FOUND"):
        check_job(job_for(tmp_path, startingGtid="0-1011-9999"))


def test_started_job_goes_on_at_its_checkpoint(tmp_path: Path) -> None:
    with WatchedLog(str(OLTP)) as watched:
        first, last = start_of_log(watched), end_of_log(watched)
    write_checkpoint(tmp_path, [last], committed=0)
    begun = read_checkpoint(StateFolder(str(tmp_path / "checkpoint"), {}))
    assert begun is not None
    assert (begun.query_id, begun.batch_id, begun.offset, begun.pending) == (QUERY_ID, None, None, last)
    start = check_job(job_for(tmp_path)).start
    assert (start.is_fresh, start.is_repeated, start.batch_id, start.position) == (False, True, 0, str(first.position))
    shutil.rmtree(tmp_path / "checkpoint")
    write_checkpoint(tmp_path, [first, last], committed=2)
    start = check_job(job_for(tmp_path, startingGtid="0-1011-1")).start
    assert (start.is_repeated, start.batch_id, start.position, start.size_behind) == (False, 2, str(last.position), 0)
    assert read_offset(StateFolder(str(tmp_path / "checkpoint"), {}), 0) == first
    assert read_offset(StateFolder(str(tmp_path / "checkpoint"), {}), 7) is None


def test_lost_data_is_said_as_the_job_would(tmp_path: Path) -> None:
    with WatchedLog(str(OLTP)) as watched:
        last = end_of_log(watched)
    write_checkpoint(tmp_path, [last], committed=1)
    other = SERVER_CASES / "mariadb-10.11" / "rotation"
    with pytest.raises(DataLossError):
        check_job(job_for(tmp_path, log=other))
    report = check_job(job_for(tmp_path, log=other, failOnDataLoss=False))
    assert any("failOnDataLoss is false" in warning for warning in report.warnings)


def test_folder_that_is_no_checkpoint_is_refused(tmp_path: Path) -> None:
    assert read_checkpoint(StateFolder(str(tmp_path / "checkpoint"), {})) is None
    (tmp_path / "checkpoint").mkdir()
    (tmp_path / "checkpoint" / "metadata").write_text("{}")
    with pytest.raises(OptionError, match="not the checkpoint of a stream from a log"):
        check_job(job_for(tmp_path))


def test_table_of_somebody_else_is_a_problem(tmp_path: Path) -> None:
    write_deltalake(str(tmp_path / "tables" / "sb" / "sbtest2"), pa.table({"id": [1]}))
    report = check_job(job_for(tmp_path))
    (problem,) = report.problems
    assert "BINLOG_TABLE.OTHER_WRITER] sb.sbtest2: " in problem
    assert [table.targets[0].exists for table in report.tables] == [False, True, False, False]


def test_table_with_a_problem_is_set_aside_where_the_job_goes_on_without_it(tmp_path: Path) -> None:
    write_deltalake(str(tmp_path / "tables" / "sb" / "sbtest2"), pa.table({"id": [1]}))
    report = check_job(msgspec.structs.replace(job_for(tmp_path), on_error=OnError.SET_ASIDE))
    assert report.problems == ()
    (problem,) = report.table_problems
    assert "BINLOG_TABLE.OTHER_WRITER] sb.sbtest2: " in problem


def test_places_that_cannot_be_written_are_problems(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tables").write_text("a file")
    (tmp_path / "checkpoint").mkdir()
    monkeypatch.setattr("os.access", lambda path, _mode, **_: str(path) != str(tmp_path / "checkpoint"))
    denied, file = map(str, place_errors(job_for(tmp_path)).values())
    assert denied.startswith("[BINLOG_PERMISSION.DENIED] checkpoint: user ")
    assert f"may not write to {tmp_path / 'checkpoint'}" in denied
    assert file.startswith(f"[BINLOG_STORAGE.FAILED] sink.directory: {tmp_path / 'tables'} is a file, and no folder")


def test_check_of_a_structured_log_names_places_too(tmp_path: Path) -> None:
    with LoggingProgram(tmp_path / "log") as program:
        program.log(5)
    (tmp_path / "tables").write_text("a file")
    text = 'checkpoint = "checkpoint"\n[source]\npath = "log"\n[[tables]]\n[sink]\ndirectory = "tables"\n'
    (tmp_path / "job.toml").write_text(text)
    checked = run_program("check", tmp_path / "job.toml")
    assert "It could not run" in checked.stdout
    ran = run_program("run", "--once", tmp_path / "job.toml")
    assert (checked.returncode, ran.returncode) == (1, 1)
    told = f"[BINLOG_STORAGE.FAILED] sink.directory: {tmp_path / 'tables'} is a file, and no folder"
    assert f"problem: {told}" in checked.stdout
    assert f"error: {told}" in ran.stderr


def test_tables_without_a_key_are_warned_of_where_the_whole_row_is_one(tmp_path: Path) -> None:
    log = SERVER_CASES / "mariadb-10.11" / "ops_minimal"
    nokey = r"t\.nokey"
    (table,) = check_job(job_for(tmp_path, TableRule(select=nokey), log=log)).tables
    assert (table.problems, table.keys, table.keys_said_by) == ((), (), None)
    assert "the log names no primary key for it: the whole row tells rows apart" in table.warnings[0]
    (table,) = check_job(job_for(tmp_path, TableRule(select=nokey, mode=Mode.CHANGELOG), log=log)).tables
    assert (table.problems, table.keys, table.keys_said_by) == ((), (), None)
    assert table.warnings == ("t.nokey: the log names no primary key for it",)
    for rule in (TableRule(select=nokey, mode=Mode.SCD2), TableRule(select=nokey, deletes=Deletes.MARK)):
        (problem,) = check_job(job_for(tmp_path, rule, log=log)).problems
        assert "BINLOG_SCHEMA.NO_PRIMARY_KEY" in problem


def test_columns_left_out_of_rows_are_warned_of_where_nobody_knows_them(tmp_path: Path) -> None:
    log = SERVER_CASES / "mariadb-10.11" / "types_minimal_nolog"
    report = check_job(job_for(tmp_path, TableRule(select=r"t\.t_(generated|int|timestamp)"), log=log))
    assert report.problems == ()
    told = {table.name: "".join(table.warnings) for table in report.tables}
    # Their defaults stand in the log; what is computed does not.
    assert "rows in the log came without the generated columns gt: a job stops there" in told.pop("t.t_generated")
    assert [text for text in told.values() if "came without" in text] == []
    changelog = check_job(job_for(tmp_path, TableRule(select=r"t\.t_generated", mode=Mode.CHANGELOG), log=log))
    assert "came without" not in "".join(changelog.tables[0].warnings)


def shop_log(folder: Path, *kinds: str) -> Path:
    """A log in which column `n` of one table has these types, one after the other, without a statement that says so."""
    log = folder / "log"
    with ShopLog(log) as shop:
        for kind in kinds:
            spec = TableSpec("shop", "t", (ColumnSpec("id", "int"), ColumnSpec("n", kind)), ("id",))
            shop.insert(spec, (len(kind), "1" if kind.startswith("varchar") else 1))
    return log


@pytest.mark.parametrize("kinds", [("int", "bigint"), ("bigint", "int", "smallint"), ("varchar(9)", "varchar(20)")])
def test_columns_that_change_to_what_holds_their_values_are_no_problem(kinds: tuple[str, ...], tmp_path: Path) -> None:
    report = check_job(job_for(tmp_path, log=shop_log(tmp_path, *kinds)))
    assert report.problems == ()
    said = "".join(report.tables[0].warnings)
    assert ("its targets change with them" in said) == (kinds[0] != "varchar(9)")


def test_columns_that_become_something_else_are_a_problem_where_the_job_meets_them(tmp_path: Path) -> None:
    log = shop_log(tmp_path, "int", "varchar(9)")
    (problem,) = check_job(job_for(tmp_path, log=log)).problems
    assert "BINLOG_SCHEMA.SCHEMA_CHANGED] shop.t: column n was int32 and is string now" in problem
    begun_empty = TableRule(begin=Begin.EMPTY)
    assert check_job(job_for(tmp_path, begun_empty, log=log, startingOffsets="latest")).problems == ()
    waiting = TableRule(begin=Begin.SNAPSHOT)  # all that the log has of it is left out
    assert check_job(job_for(tmp_path, waiting, log=log)).problems == ()


def test_table_that_would_begin_in_the_middle_is_a_problem_unless_it_may(tmp_path: Path) -> None:
    log = shop_log(tmp_path, "int")
    assert [table.complete for table in check_job(job_for(tmp_path, log=log)).tables] == [True]
    report = check_job(job_for(tmp_path, log=log, startingOffsets="latest"))
    assert [table.complete for table in report.tables] == [False]
    assert [problem[:24] for problem in report.problems] == ["[BINLOG_TABLE.INCOMPLETE"]
    report = check_job(job_for(tmp_path, TableRule(begin=Begin.EMPTY), log=log, startingOffsets="latest"))
    assert report.problems == ()
    assert "shop.t: it is not complete" in "".join(report.tables[0].warnings)


def test_columns_of_a_target_that_is_there_are_compared_with_the_newest_in_the_log(tmp_path: Path) -> None:
    log = shop_log(tmp_path, "int", "bigint")
    with WatchedLog(str(log)) as watched:
        write_checkpoint(tmp_path, [start_of_log(watched)], committed=1)
    job = job_for(tmp_path, log=log)
    commit_id = CommitId(QUERY_ID, 0, 0, "shop.t", Mode.MIRROR, ("id",), "", "", None)
    for kind, fits in ((pa.int16(), True), (pa.decimal128(20, 2), True), (pa.string(), False)):
        shutil.rmtree(tmp_path / "tables", ignore_errors=True)
        columns = pa.schema([("id", pa.int32()), ("n", kind), ("gone", pa.string())])
        DeltaTarget.at(job.sink, str(tmp_path / "tables" / "shop" / "t")).create(columns, commit_id)
        problems = check_job(job).problems
        assert [f"column n was {kind}" in problem for problem in problems] == ([] if fits else [True])


def test_column_called_like_one_of_the_mode_is_a_problem(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with ShopLog(log) as shop:
        spec = TableSpec("shop", "t", (ColumnSpec("id", "int"), ColumnSpec("_deleted", "int")), ("id",))
        shop.insert(spec, (1, 1))
    assert check_job(job_for(tmp_path, log=log)).problems == ()
    (problem,) = check_job(job_for(tmp_path, TableRule(deletes=Deletes.MARK), log=log)).problems
    assert "BINLOG_TABLE.COLUMN_NAME] shop.t: " in problem


def test_ghosts_that_are_left_out_are_warned_of(tmp_path: Path) -> None:
    job = job_for(tmp_path, TableRule(select=r"sb\.sbtest1"), excludeTables=r"sb\._.*_(gho|ghc|del)")
    assert any("leaves out _sbtest1_gho in sb" in warning for warning in check_job(job).warnings)
    assert not any("leaves out" in warning for warning in check_job(job_for(tmp_path)).warnings)


def test_statement_that_makes_a_table_anew_ends_what_its_columns_were(tmp_path: Path) -> None:
    found = {table.name: table for table in find_tables(str(SERVER_CASES / "mariadb-10.11" / "ops")).tables}
    # Renamed in the middle, and some columns dropped: what came before has no say in what its columns may be.
    assert found["t.ev"].definitions > 2
    assert found["t.ev"].is_made_there
    assert found["t.ev"].earlier == ()
    # A column was added behind its last rows, and nothing else.
    assert [len(layout.columns) for layout in found["t.many"].earlier] != []
    problems = check_job(job_for(tmp_path, log=SERVER_CASES / "mariadb-10.11" / "ops")).problems
    assert all("STATEMENT_FORMAT" in problem for problem in problems)


def test_table_that_was_written_and_is_gone_is_a_problem(tmp_path: Path) -> None:
    with WatchedLog(str(OLTP)) as watched:
        write_checkpoint(tmp_path, [start_of_log(watched)], committed=1)
    job = job_for(tmp_path)
    keeper = RecordKeeper(job)
    keeper.begin()
    tables = [("sb", "sbtest1"), ("sb", "sbtest2"), ("sb", "sbtest3")]
    # The third was dropped since, so who likes may remove its target.
    keeper.record_batch(tables, [(*name, Mode.MIRROR) for name in tables[:2]])
    target = DeltaTarget.at(job.sink, str(tmp_path / "tables" / "sb" / "sbtest1"))
    target.create(
        pa.schema([("id", pa.int32())]), CommitId(QUERY_ID, 0, 0, "sb.sbtest1", Mode.MIRROR, ("id",), "", "", None)
    )
    (problem,) = check_job(job).problems
    assert "sb.sbtest2: " in problem
    assert "BINLOG_TABLE.TARGET_GONE" in problem


def test_job_that_says_otherwise_than_its_checkpoint_has_a_problem(tmp_path: Path) -> None:
    with WatchedLog(str(OLTP)) as watched:
        write_checkpoint(tmp_path, [start_of_log(watched)], committed=1)
    RecordKeeper(job_for(tmp_path)).begin()
    assert check_job(job_for(tmp_path)).problems == ()
    changed = job_for(tmp_path, startingGtid="0-1011-1")
    report = check_job(changed)
    (problem,) = report.problems
    assert "source.startingGtid: this checkpoint was begun with nothing, now it is '0-1011-1'" in problem
    # The job itself ends with the same words.
    with pytest.raises(OptionError) as ended:
        RecordKeeper(changed).begin()
    assert str(ended.value) == problem
    # A place that cannot be written would end it before.
    (tmp_path / "tables").write_text("a file")
    assert "BINLOG_STORAGE.FAILED" in check_job(changed).problems[0]


def test_keys_of_the_job_file_count(tmp_path: Path) -> None:
    rule = TableRule(select=r"sb\.sbtest1", keys=("k",))
    (table,) = check_job(job_for(tmp_path, rule)).tables
    assert (table.keys, table.keys_said_by) == (("k",), "job file")
    wrong = TableRule(select=r"sb\.sbtest1", keys=("nokey",))
    (problem,) = check_job(job_for(tmp_path, wrong)).problems
    assert "nokey, which are not columns of it" in problem


def test_rules_that_match_nothing_and_tables_that_nobody_wants_are_said(tmp_path: Path) -> None:
    report = check_job(job_for(tmp_path, TableRule(select=r"sb\.sbtest1"), TableRule(select=r"sb\.sbtest1,shop\..*")))
    assert report.left_out == ("sb.sbtest2", "sb.sbtest3", "sb.sbtest4")
    assert [warning for warning in report.warnings if warning.startswith("tables[1]")]
    none = check_job(job_for(tmp_path, TableRule(select="nothing")))
    assert none.tables == ()
    assert any("no rule" in warning for warning in none.warnings)
    excluded = check_job(job_for(tmp_path, excludeTables=r"sb\.sbtest[1-3]"))
    assert [table.name for table in excluded.tables] == ["sb.sbtest4"]


def test_two_tables_in_one_place_are_a_problem(tmp_path: Path) -> None:
    report = check_job(job_for(tmp_path, TableRule(target="{database}/all")))
    assert len(report.problems) == 3
    assert "BINLOG_TABLE.SAME_TARGET" in report.problems[0]


def test_only_the_newest_files_are_looked_at(tmp_path: Path) -> None:
    log = SERVER_CASES / "mariadb-10.11" / "rotation"
    every = find_tables(str(log))
    newest = find_tables(str(log), scan_size=1)
    assert (every.size, newest.size_all) == (every.size_all, every.size_all)
    assert 0 < newest.size < every.size
    assert sum(table.changes for table in newest.tables) < sum(table.changes for table in every.tables)
    warnings = check_job(job_for(tmp_path, log=log), scan_size=1).warnings
    assert any("--scan looks at more" in warning for warning in warnings)


def test_a_look_at_iceberg_makes_no_catalog(tmp_path: Path) -> None:
    pytest.importorskip("pyiceberg")
    job = msgspec.structs.replace(
        job_for(tmp_path), sink=Sink(directory=str(tmp_path / "tables"), format=TableFormat.ICEBERG)
    )
    assert check_job(job).problems == ()
    assert list(tmp_path.iterdir()) == []


def test_tables_are_reported_as_their_rules_show_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHECK_SALT", "salt")
    columns = (ColumnSpec("id", "int"), ColumnSpec("name", "varchar(20)"), ColumnSpec("price", "decimal(8,2)"))
    spec = TableSpec("shop", "items", columns, ("id",))
    with ShopLog(tmp_path / "log") as log:
        log.statement(spec.create_statement())
        log.insert(spec, (1, "a", Decimal(5)))
        log.statement("UPDATE items SET name = 'a very secret text'")
    rule = TableRule(drop_columns=("name",), mask={"id": "sha256"}, salt_variable="CHECK_SALT")
    report = check_job(job_for(tmp_path, rule, log=tmp_path / "log"))
    (table,) = report.tables
    assert table.columns == (("id", "string"), ("price", "decimal128(8, 2)"))
    assert table.keys == ("id",)
    told = str(report)
    assert "its text is left out, as rules hide values of rows" in told
    assert "secret" not in told

    def problem(wrong: TableRule) -> str:
        (table,) = check_job(job_for(tmp_path, wrong, log=tmp_path / "log")).tables
        return table.problems[0]

    assert problem(TableRule(drop_columns=("nmae",))).startswith(
        "[BINLOG_OPTION.INVALID_VALUE] shop.items: drop_columns names column nmae, and its columns are id, name, price"
    )
    assert "shop.items: column id is not shown, and rows are told apart by it" in problem(TableRule(columns=("name",)))
    monkeypatch.delenv("CHECK_SALT")
    with pytest.raises(OptionError, match="environment variable CHECK_SALT is not set"):
        check_job(job_for(tmp_path, rule, log=tmp_path / "log"))
