"""Replays of logs of real servers, run as Spark runs them: tables are what the server had at a GTID."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from deltalake import DeltaTable

from binlog_connector.crash_points import watched
from binlog_connector.following.offsets import SourceOffset
from binlog_format.errors import BinlogError, DataLossError, OptionError, StartError, TableError, UnsupportedError
from binlog_format.gtids.gtid_set import parse_gtids
from binlog_format.position import Position
from binlog_lab.event_encoding.table_encoding import ColumnSpec, TableSpec
from binlog_streaming.job_state.checkpoint import read_checkpoint, read_offset, state_of
from binlog_streaming.jobs.replay_run import CHECKPOINT, ReplayRequest, plan_replay
from binlog_streaming.lake.sinks import sink_type
from binlog_streaming.lake.target import CrashPoint, Target
from binlog_streaming.settings import load_job
from binlog_streaming.settings.choices import Mode, OnCascade, OnPartitionDrop, OnRowStatement, TableFormat
from binlog_streaming.tables.job import gtid_position
from binlog_streaming.tables.open_targets import read_target_state
from tests.connector.shop import Shop
from tests.faults.processes import Killed
from tests.program import run_program
from tests.streaming.replay_runs import check, job_for, plan, replay, rows_of, run
from tests.streaming.tables.shop import ShopLog
from tests.streaming.tables.statements.statement_stories import ID, NAME, ORDERS, wanted
from tests.truth.truth_case import case, case_path

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

    from binlog_streaming.settings.model import Job
    from binlog_streaming.tables.open_targets import TargetState

MARIADB = "mariadb-10.11/ops"
MYSQL = "mysql-9/ops"
UUID = "88ee60ec-e4d9-11f1-baee-02fc00000001"
TABLES = ("t.a", "t.b", "t.nokey")


def up_to(name: str, number: int) -> str:
    return f"0-1011-{number}" if name == MARIADB else f"{UUID}:1-{number}"


def single(name: str, number: int) -> str:
    return f"0-1011-{number}" if name == MARIADB else f"{UUID}:{number}"


def state(job: Job, table: str, mode: Mode = Mode.MIRROR) -> TargetState | None:
    uri = f"{job.sink.directory}/{table.replace('.', '/')}"
    target = sink_type(job.sink.format).at(job.sink, uri)
    try:
        return read_target_state(target, table, mode)
    finally:
        target.close()


@pytest.mark.parametrize("name", [MARIADB, MYSQL])
def test_tables_are_what_the_server_had_at_each_gtid(tmp_path: Path, name: str) -> None:
    """Built at one, then brought to later ones, without and with a --from."""
    job = job_for(tmp_path, name)
    there = tmp_path / "then"
    steps: list[tuple[int | None, int]] = [(None, 9), (None, 13), (13, 19), (None, 30)]
    for start, end in steps:
        replay(job, None if start is None else up_to(name, start), up_to(name, end), there)
        for table in TABLES:
            check(case(name), there, table, single(name, end))
            found = state(
                msgspec.structs.replace(job, sink=msgspec.structs.replace(job.sink, directory=str(there))), table
            )
            assert found is not None
            if table == "t.a":
                assert str(found.gtid) == up_to(name, end)
        assert not (there / CHECKPOINT).exists()
    assert not (tmp_path / "tables").exists()


@pytest.mark.thorough_where("behind|iceberg")
@pytest.mark.parametrize("table_format", [TableFormat.DELTA, TableFormat.ICEBERG])
@pytest.mark.parametrize("stop", ["before", "behind"])
def test_replay_that_is_killed_goes_on(tmp_path: Path, table_format: TableFormat, stop: str) -> None:
    job = job_for(tmp_path, MARIADB, table_format=table_format, bytes_max="1k")
    there = tmp_path / "then"
    replay(job, None, up_to(MARIADB, 10), there)
    planned = plan(job, up_to(MARIADB, 10), up_to(MARIADB, 30), there)
    with pytest.raises(Killed):
        run(planned.job, held=planned.record.continued, from_first=planned.record.from_first, batches_max=2, stop=stop)
    with pytest.raises(OptionError, match="a replay --from 0-1011-10 --to 0-1011-30 was begun here"):
        plan(job, up_to(MARIADB, 10), up_to(MARIADB, 29), there)
    again = plan(job, up_to(MARIADB, 10), up_to(MARIADB, 30), there)
    assert again.is_resumed
    assert run(again.job, held=again.record.continued, from_first=again.record.from_first) > 0
    again.finish()
    for table in TABLES:
        check(case(MARIADB), there, table, single(MARIADB, 30))


def test_killed_before_the_tables_were_taken_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = job_for(tmp_path, MARIADB)
    there = tmp_path / "then"
    replay(job, None, up_to(MARIADB, 10), there)

    def killed(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(Target, "transfer_to", killed)
        with pytest.raises(Killed):
            plan(job, None, up_to(MARIADB, 30), there)
    replay(job, None, up_to(MARIADB, 30), there)
    for table in TABLES:
        check(case(MARIADB), there, table, single(MARIADB, 30))


def test_changelog_has_the_range_and_no_more(tmp_path: Path) -> None:
    job = job_for(tmp_path, MARIADB, mode="changelog")
    there = tmp_path / "then"
    replay(job, up_to(MARIADB, 8), up_to(MARIADB, 12), there)
    gtids = set(rows_of(there, "t.a")["_gtid"].to_pylist())
    assert gtids == {single(MARIADB, number) for number in (10, 11, 12)}
    replay(job, up_to(MARIADB, 12), up_to(MARIADB, 20), there)
    rows = rows_of(there, "t.a")
    places = list(
        zip(*(rows[name].to_pylist() for name in ("_position", "_event_no", "_row_no", "_change_type")), strict=True)
    )
    assert len({str(place) for place in places}) == len(places)
    assert {int(gtid.rpartition("-")[2]) for gtid in rows["_gtid"].to_pylist()} == {10, 11, 12, 17, 18, 19, 20}


def test_table_that_stands_elsewhere_is_named_and_nothing_is_written(tmp_path: Path) -> None:
    job = job_for(tmp_path, MARIADB)
    there = tmp_path / "then"
    replay(job, None, up_to(MARIADB, 12), there)
    before = {path: path.stat().st_mtime_ns for path in there.rglob("*")}
    with pytest.raises(TableError) as raised:
        plan(job, up_to(MARIADB, 10), up_to(MARIADB, 30), there)
    assert raised.value.condition == "BINLOG_TABLE.STANDS_ELSEWHERE"
    assert f"t.a: {there}/t/a is at 0-1011-12" in raised.value.reason
    assert "begins at 0-1011-10 and ends at 0-1011-30" in raised.value.reason
    assert {path: path.stat().st_mtime_ns for path in there.rglob("*")} == before


def test_table_that_nothing_changed_stands_at_several_places(tmp_path: Path) -> None:
    """t.nokey has no change between 14 and 100, so what says 14 stands at 30 too."""
    job = job_for(tmp_path, MARIADB, select=r"t\.nokey")
    there = tmp_path / "then"
    replay(job, None, up_to(MARIADB, 14), there)
    replay(job, up_to(MARIADB, 25), up_to(MARIADB, 30), there)
    check(case(MARIADB), there, "t.nokey", single(MARIADB, 30))


def test_lost_table_of_a_job_is_built_anew_and_the_job_goes_on(tmp_path: Path) -> None:
    """The way on that the documents tell: build it up to where the others stand, then take all of them over."""
    job = job_for(tmp_path, MARIADB, bytes_max="3k")
    with pytest.raises(Killed):
        run(job, batches_max=4)
    checkpoint = read_checkpoint(state_of(job))
    assert checkpoint is not None
    assert checkpoint.offset is not None
    stands = str(checkpoint.offset.gtid)
    owner = checkpoint.query_id
    tables = tmp_path / "tables"
    shutil.rmtree(tables / "t" / "a")
    with pytest.raises(TableError, match=r"TARGET_GONE\] t\.a: .*/t/a was written by this job \(mirror\)"):
        run(job)
    replay(job, None, stands)
    for table in TABLES:
        check(case(MARIADB), tables, table, stands)
    others = state(job, "t.b")
    assert others is not None
    assert others.owner == owner, "what stands at the end is left alone"
    with pytest.raises(TableError, match=r"OTHER_WRITER.*t/a"):
        run(job)

    with pytest.raises(OptionError, match="--hand-over: the job has a checkpoint"):
        plan(job, hand_over=True)
    shutil.rmtree(tmp_path / "checkpoint")
    further = up_to(MARIADB, int(stands.rpartition("-")[2]) + 4)
    replay(job, None, further, hand_over=True)
    for table in TABLES:
        check(case(MARIADB), tables, table, further)
    assert run(job) > 0
    last = case(MARIADB).gtids[-1]
    for table in TABLES:
        check(case(MARIADB), tables, table, last)
    assert not (tables / CHECKPOINT).exists()


@pytest.mark.parametrize("dropped", ["gone", "Gone"])
def test_database_that_is_dropped_takes_tables_along_that_the_range_does_not_name(tmp_path: Path, dropped: str) -> None:
    spec = TableSpec("gone", "t", (ColumnSpec("id", "int"),), ("id",))
    other = TableSpec("stays", "t", (ColumnSpec("id", "int"),), ("id",))
    with ShopLog(tmp_path / "log") as log:
        log.insert(spec, (1,), (2,))
        log.insert(other, (1,))
        log.insert(other, (2,))
        log.statement(f"DROP DATABASE {dropped}")
        log.insert(other, (3,))
    job = job_for(tmp_path, MARIADB, select=r"(gone|stays)\..*")
    source = msgspec.structs.replace(job.source, path=str(tmp_path / "log"), lower_case_table_names=1)
    job = msgspec.structs.replace(job, source=source)
    there = tmp_path / "then"
    replay(job, None, "0-1-2", there)
    assert rows_of(there, "gone.t").num_rows == 2
    replay(job, None, "0-1-5", there)
    assert rows_of(there, "gone.t").num_rows == 0
    assert rows_of(there, "stays.t").num_rows == 3


def test_tables_of_a_killed_job_without_checkpoint_go_on(tmp_path: Path) -> None:
    """Some of its tables have the last batch, and others have not."""
    job = job_for(tmp_path, MARIADB, bytes_max="3k")
    seen: list[CrashPoint] = []

    def kill(step: CrashPoint) -> None:
        seen.append(step)
        if seen.count(CrashPoint.COMMITTED) == 6:
            raise Killed

    with pytest.raises(Killed), watched(kill):
        run(job)
    shutil.rmtree(tmp_path / "checkpoint")
    with pytest.raises(TableError, match="they are not at one GTID position"):
        plan(job, hand_over=True)
    found = {str(one.gtid) for table in TABLES if (one := state(job, table)) is not None}
    behind, ahead = sorted(found, key=lambda gtid: int(gtid.rpartition("-")[2]))
    replay(job, behind, ahead)
    replay(job, hand_over=True)
    assert run(job) == 0
    for table in TABLES:
        check(case(MARIADB), tmp_path / "tables", table, case(MARIADB).gtids[-1])


def test_replay_to_the_end_is_what_the_job_makes(tmp_path: Path) -> None:
    """All tables, with all that statements do to them, cut in the middle of these."""
    job = job_for(
        tmp_path,
        MARIADB,
        select=r"t\..*",
        bytes_max="64k",
        on_statement=OnRowStatement.IGNORE,
        foreign_keys=OnCascade.IGNORE,
        on_partition_drop=OnPartitionDrop.KEEP,
    )
    run(job)
    there = tmp_path / "then"
    for end in (up_to(MARIADB, 40), up_to(MARIADB, 60), None):
        replay(job, None, end, there)
    found = sorted(path.parent.relative_to(tmp_path / "tables") for path in (tmp_path / "tables").rglob("_delta_log"))
    assert len(found) >= 20
    for path in found:
        table = ".".join(path.parts[-2:])
        one, other = (sorted(map(str, rows_of(root, table).to_pylist())) for root in (tmp_path / "tables", there))
        assert one == other, table


def test_cut_off_batch_of_the_job_is_to_be_finished_first(tmp_path: Path) -> None:
    job = job_for(tmp_path, MARIADB)
    with pytest.raises(Killed):
        run(job, batches_max=4, stop="before")
    with pytest.raises(TableError, match="its job was cut off within batch 3"):
        plan(job)


@pytest.mark.parametrize(
    ("name", "start", "end", "error", "told"),
    [
        (MARIADB, None, "0-1011-9999", StartError, "GTID_NOT_FOUND.*--to: 0-1011-9999 has not been logged"),
        (MARIADB, "0-1011-9999", None, StartError, "GTID_NOT_FOUND.*--from: 0-1011-9999"),
        (MARIADB, "0-1011-20", "0-1011-10", StartError, "START_AFTER_END.*, after its end, --to 0-1011-10"),
        (MARIADB, "0-1011-20,7-1-1", "0-1011-30", StartError, "START_AFTER_END.*7-1-1 is not in that"),
        (MARIADB, None, f"{UUID}:1-5", OptionError, "is a GTID set of MySQL"),
        (
            MYSQL,
            None,
            f"{UUID}:77",
            OptionError,
            f"leaves out {UUID}:1-76.*Give the set of all up to there: {UUID}:1-77",
        ),
        (MYSQL, f"{UUID}:1-4:6", f"{UUID}:1-9", OptionError, f"--from .* leaves out {UUID}:5"),
        (MYSQL, None, f"{UUID}:1-9999", StartError, "GTID_NOT_FOUND.*--to"),
    ],
)
def test_range_that_cannot_be_is_named(
    tmp_path: Path, name: str, start: str | None, end: str | None, error: type[BinlogError], told: str
) -> None:
    with pytest.raises(error, match=told):
        plan(job_for(tmp_path, name), start, end)
    assert list(tmp_path.iterdir()) == []


def test_purged_start_is_named(tmp_path: Path) -> None:
    log = tmp_path / "log"
    shutil.copytree(case_path("mariadb-10.11/rotation"), log)
    (log / "mysql-bin.000001").unlink()
    (log / "mysql-bin.000002").unlink()
    job = job_for(tmp_path, "mariadb-10.11/rotation")
    job = msgspec.structs.replace(job, source=msgspec.structs.replace(job.source, path=str(log)))
    for start, end in (("0-1011-2", None), (None, "0-1011-2")):
        with pytest.raises(DataLossError, match=r"GTID_PURGED.*--(from|to): the earliest file begins at GTID 0-1011-5"):
            plan(job, start, end, tmp_path / "then")


@pytest.fixture(scope="module")
def domains(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Domain 0 up to 60 and domain 5 up to 30, in turns."""
    directory = tmp_path_factory.mktemp("domains")
    with Shop(directory, files_of=8 * 16384) as shop:
        for domain, count in ((0, 30), (5, 20), (0, 20), (5, 10), (0, 10)):
            shop.domain = domain
            shop.sell(count)
    return directory


def job_of_domains(folder: Path, log: Path, table_format: TableFormat = TableFormat.DELTA) -> Job:
    job = job_for(folder, MARIADB, select=r"shop\.orders", mode="changelog", table_format=table_format)
    return msgspec.structs.replace(job, source=msgspec.structs.replace(job.source, path=str(log)))


def gtids(directory: Path) -> list[str]:
    rows = rows_of(directory, "shop.orders")
    return sorted(
        gtid
        for gtid, kind in zip(rows["_gtid"].to_pylist(), rows["_change_type"].to_pylist(), strict=True)
        if kind == "insert"
    )


def test_several_domains_end_each_at_its_own_gtid(tmp_path: Path, domains: Path) -> None:
    """0-11-41 to 0-11-50 lie before 5-11-25 in the log, and are taken by the next replay."""
    job = job_of_domains(tmp_path, domains)
    there = tmp_path / "then"
    replay(job, None, "0-11-40,5-11-25", there)
    wanted = [f"0-11-{number}" for number in range(1, 41)] + [f"5-11-{number}" for number in range(1, 26)]
    assert gtids(there) == sorted(wanted)
    with pytest.raises(StartError, match="goes on after 0-11-40,5-11-25, but 0-11-50 lies before that"):
        plan(job, None, "0-11-40,5-11-25", hand_over=True)
    replay(job, None, "0-11-45,5-11-30", there)
    replay(job, None, None, there)
    wanted = [f"0-11-{number}" for number in range(1, 61)] + [f"5-11-{number}" for number in range(1, 31)]
    assert gtids(there) == sorted(wanted)


def test_domain_that_is_not_named_is_not_read(tmp_path: Path, domains: Path) -> None:
    job = job_of_domains(tmp_path, domains)
    there = tmp_path / "then"
    replay(job, None, "0-11-40", there)
    assert gtids(there) == sorted(f"0-11-{number}" for number in range(1, 41))
    replay(job, None, "0-11-40,5-11-7", there)
    assert len(gtids(there)) == 47


def test_one_target_at_the_end_and_another_not_is_named(tmp_path: Path, domains: Path) -> None:
    job = job_of_domains(tmp_path, domains)
    rule = msgspec.structs.replace(job.tables[0], mode=(Mode.MIRROR, Mode.CHANGELOG), target="{mode}/{table}")
    job = msgspec.structs.replace(job, tables=(rule,))
    there = tmp_path / "then"
    replay(job, None, "0-11-40,5-11-20", there)
    shutil.rmtree(there / "mirror")
    with pytest.raises(TableError, match=r"changelog/orders is at .* which is the end, but not all of"):
        plan(job, None, "0-11-40,5-11-20", there)
    with pytest.raises(TableError, match="STANDS_ELSEWHERE"):
        plan(job, "0-11-9", "0-11-60,5-11-20", there)


def test_plain_files_are_built_and_not_continued(tmp_path: Path, domains: Path) -> None:
    job = job_of_domains(tmp_path, domains, table_format=TableFormat.PARQUET)
    there = tmp_path / "then"
    replay(job, None, "0-11-40,5-11-20", there)
    assert list((there / "shop" / "orders").glob("batch-*.parquet"))
    with pytest.raises(UnsupportedError, match=r"FORMAT.*another one cannot go on there"):
        plan(job, None, "0-11-50,5-11-20", there)
    assert not (there / CHECKPOINT).exists()


def test_missing_table_does_not_begin_in_the_middle_by_itself(tmp_path: Path) -> None:
    job = job_for(tmp_path, MARIADB)
    there = tmp_path / "then"
    replay(job, None, up_to(MARIADB, 12), there)
    shutil.rmtree(there / "t" / "a")
    with pytest.raises(TableError, match=r"t.a: does not exist, while other tables are at 0-1011-1[12]"):
        plan(job, None, up_to(MARIADB, 30), there)
    replay(job, None, up_to(MARIADB, 12), there)
    replay(job, None, up_to(MARIADB, 30), there)
    for table in TABLES:
        check(case(MARIADB), there, table, single(MARIADB, 30))


def test_table_that_was_set_back_is_not_gone_on_with(tmp_path: Path) -> None:
    job = job_for(tmp_path, MARIADB)
    there = tmp_path / "then"
    replay(job, None, up_to(MARIADB, 12), there)
    DeltaTable(there / "t" / "a").restore(1)
    with pytest.raises(
        TableError, match=r"OTHER_WRITER\] t\.a: .*t/a had batch .* and was set back to an older version"
    ):
        plan(job, None, up_to(MARIADB, 30), there)


def test_job_is_handed_over_where_the_log_stands_still(tmp_path: Path, domains: Path) -> None:
    log = tmp_path / "log"
    shutil.copytree(domains, log)
    job = job_of_domains(tmp_path, log)
    replay(job)
    assert replay(job) == 0, "there is nothing to do"
    with pytest.raises(StartError, match=r"nothing follows 0-11-60,5-11-30 in the log yet"):
        plan(job, "0-11-60,5-11-30", hand_over=True)
    replay(job, hand_over=True)
    with Shop(log, domain=5) as shop:
        shop.sell(3)
    assert run(job) > 0
    wanted = [f"0-11-{number}" for number in range(1, 61)] + [f"5-11-{number}" for number in range(1, 34)]
    assert gtids(tmp_path / "tables") == sorted(wanted)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"hand_over": True, "directory": "then"}, "--hand-over does not go with --target, got then"),
    ],
)
def test_what_a_replay_cannot_do_is_named(tmp_path: Path, options: dict[str, object], told: str) -> None:
    job = job_for(tmp_path, MARIADB)
    with pytest.raises(OptionError, match=told):
        plan_replay(ReplayRequest(job, **options))  # type: ignore[arg-type]


def test_command_explains_itself_and_says_mistakes(tmp_path: Path) -> None:
    def call(*arguments: str) -> subprocess.CompletedProcess[str]:
        return run_program("replay", *arguments, environment={"COLUMNS": "100", "NO_COLOR": "1"})

    told = " ".join(call("--help").stdout.split())
    assert "binlog-stream replay job.toml --to 0-1-575 --target lake-then" in told
    assert "A replay that was stopped or killed continues when it is started again with the same options." in told
    job_file = tmp_path / "job.toml"
    job_file.write_text(
        f'checkpoint = "checkpoint"\n[source]\npath = "{case_path(MARIADB)}"\n[sink]\ndirectory = "tables"\n'
    )
    for arguments, status, message in (
        (("--to", "0-1"), 2, "expected domain-server-seqno"),
        (("--to", ""), 2, "expected GTIDs, got nothing"),
        (("--to", "0-1011-9999"), 1, "[BINLOG_START.GTID_NOT_FOUND]"),
        (("--from", "0-1011-5", "--to", "0-1011-4"), 1, "[BINLOG_START.START_AFTER_END]"),
    ):
        called = call(str(job_file), *arguments)
        assert (called.returncode, called.stdout) == (status, "")
        assert message in called.stderr
    assert list(tmp_path.iterdir()) == [job_file]


def test_table_that_was_set_aside_on_the_way_is_not_at_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its target does not record the end, so that no later replay begins there with it."""
    with ShopLog(tmp_path / "log") as log:
        log.insert(ORDERS, (1, "a"))
        log.insert(wanted("items", ID, NAME), (1, "x"))
        log.statement("UPDATE orders SET name = 'z'")
        log.insert(ORDERS, (2, "b"))
    job_file = tmp_path / "job.toml"
    job_file.write_text(
        'checkpoint = "checkpoint"\non_error = "set_aside"\n[source]\npath = "log"\nmaxBytesPerTrigger = 100\n'
        '[sink]\ndirectory = "tables"\n[[tables]]\nselect = \'shop[.].*\'\nbegin = "empty"\n'
    )

    def run_it(job: Job, *, held: Any, from_first: bool | None, **_: object) -> None:
        run(job, held=held, from_first=from_first)

    monkeypatch.setattr("binlog_streaming.cli.jobs.replay.run_job", run_it)
    called = run_program("replay", job_file, "--target", tmp_path / "then")
    assert called.returncode == 1
    last = called.stdout.splitlines()[-1]
    assert last == "1 target at 0-1-4; not there: shop.orders (set aside at 0-1-3)"
    there = load_job(job_file)
    there = msgspec.structs.replace(there, sink=msgspec.structs.replace(there.sink, directory=str(tmp_path / "then")))
    states = [state(there, f"shop.{name}") for name in ("items", "orders")]
    assert [str(found.gtid) for found in states if found is not None] == ["0-1-4", "0-1-1"]
    called = run_program("replay", job_file, "--target", tmp_path / "other", "--output", "jsonl")
    assert json.loads(called.stdout.splitlines()[-1])["set_aside"] == [{"table": "shop.orders", "at": "0-1-3"}]


@pytest.mark.parametrize(
    "statement", ["UPDATE orders SET name = 'z'", "UPDATE ORDERS SET name = 'z'", "CALL anything()"]
)
@pytest.mark.parametrize("on_statement", ["fail", "ignore"])
def test_statement_that_changes_rows_lies_between_two_places(on_statement: str, statement: str, tmp_path: Path) -> None:
    """A table from before it is not where the others are; so no replay passes it over."""
    with ShopLog(tmp_path / "log") as log:
        log.insert(ORDERS, (1, "a"))
        log.statement(statement)
        log.insert(ORDERS, (2, "b"))
    job_file = tmp_path / "job.toml"
    job_file.write_text(
        'checkpoint = "checkpoint"\n[source]\npath = "log"\n[sink]\ndirectory = "tables"\n'
        f'[[tables]]\nbegin = "empty"\non_statement = "{on_statement}"\n'
    )
    job = load_job(job_file)
    replay(job, None, "0-1-1", tmp_path / "then")
    if on_statement == "ignore":
        assert plan(job, "0-1-2", None, tmp_path / "then").record.continued == (("shop", "orders"),)
        return
    with pytest.raises(
        TableError, match=r"STANDS_ELSEWHERE\] shop\.orders: .* is at 0-1-1: the replay begins at 0-1-2"
    ):
        plan(job, "0-1-2", None, tmp_path / "then")


def test_position_of_a_batch_has_what_the_start_left_out_further_on(tmp_path: Path) -> None:
    job = job_for(tmp_path, MARIADB)
    offset = SourceOffset(Position(1, 2, 3), gtid=parse_gtids("0-1-5,1-2-7"), skip_gtid=parse_gtids("2-2-9"))
    (tmp_path / "checkpoint" / "offsets").mkdir(parents=True)
    (tmp_path / "checkpoint" / "offsets" / "0").write_text(f"v1\n{{}}\n{json.dumps(offset.to_json())}")
    assert gtid_position(read_offset(state_of(job), 0)) == "0-1-5,1-2-7,2-2-9"
    assert gtid_position(read_offset(state_of(job), 1)) is None
