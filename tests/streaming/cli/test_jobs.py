"""`binlog-stream init`, `check` and `mirror` as a user calls them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
import pytest
from deltalake import write_deltalake

from binlog_connector.following.offsets import SourceOffset
from binlog_connector.following.watch import DirectoryWatch
from binlog_connector.schema.definitions import TableName
from binlog_format import Position
from binlog_format.errors import OptionError, StorageError
from binlog_streaming.jobs.mirror import OWN_FOLDER, mirror_job, publish_job, remember
from binlog_streaming.settings import Mode, TableFormat, TableRule, load_job
from tests.faults.processes import files_up_to
from tests.program import PROGRAM, run_program
from tests.streaming import replay_runs
from tests.streaming.status.states import table_progress
from tests.streaming.tables.oltp import OLTP, TABLES, mirror, truth

if TYPE_CHECKING:
    from pathlib import Path

COMMANDS = ("init", "check", "run", "mirror")


def run(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return run_program(*arguments, cwd=cwd, environment={"COLUMNS": "100", "FORCE_COLOR": "", "CLICOLOR_FORCE": ""})


def test_init_check_and_mistakes_with_their_exit_statuses(tmp_path: Path) -> None:
    written = run("init", str(OLTP))
    assert (written.returncode, written.stderr) == (0, "")
    (tmp_path / "job.toml").write_text(written.stdout)
    checked = run("check", "job.toml", cwd=tmp_path)
    assert checked.returncode == 0, checked.stderr
    assert "It can run: 4 tables." in checked.stdout
    assert "0-1011-309" in checked.stdout
    assert "\x1b" not in written.stdout + checked.stdout
    rows = [json.loads(line) for line in run("check", "job.toml", "-o", "jsonl", cwd=tmp_path).stdout.splitlines()]
    assert [row["kind"] for row in rows] == ["job", "log", "start", *["table"] * 4, "result"]
    assert rows[1]["files"] == ["mysql-bin.000001"]
    assert rows[3]["columns"][0] == {"name": "id", "type": "int32"}
    assert rows[3]["targets"] == [
        {"mode": "mirror", "uri": str(tmp_path / "tables" / "sb" / "sbtest1"), "exists": False}
    ]
    assert rows[-1]["can_run"] is True

    keyless = written.stdout.replace('# keys = ["id"]', 'keys = ["no_key"]')
    (tmp_path / "job.toml").write_text(keyless)
    impossible = run("check", "job.toml", cwd=tmp_path)
    assert impossible.returncode == 1
    assert "It could not run: 1 problem." in impossible.stdout  # of all four tables

    (tmp_path / "job.toml").write_text(written.stdout.replace("# interval", "intervall"))
    line = 1 + (tmp_path / "job.toml").read_text().splitlines().index('intervall = "2s"')
    for command in ("check", "run"):
        mistaken = run(command, "job.toml", cwd=tmp_path)
        assert mistaken.returncode == 2
        assert mistaken.stderr == (
            f"error: [BINLOG_OPTION.UNKNOWN] job.toml:{line}: trigger.intervall: no such setting. "
            "Did you mean `interval`?\n"
        )


def test_absent_log_and_absent_file_are_named_errors(tmp_path: Path) -> None:
    for arguments in (("init", "nowhere"), ("check", "nowhere.toml"), ("mirror", "nowhere", "--to", "lake", "--once")):
        result = run(*arguments, cwd=tmp_path)
        assert result.returncode == 1
        assert "BINLOG_START.PATH_NOT_FOUND" in result.stderr
        assert result.stdout == ""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", COMMANDS)
def test_help_explains_and_has_no_colours_when_piped(command: str) -> None:
    result = run(command, "--help")
    assert result.returncode == 0
    assert "\x1b" not in result.stdout
    text = " ".join(result.stdout.split())
    told = {
        "init": "binlog-stream init /var/lib/mysql > job.toml",
        "check": "Exit status: that of `run`: 0 it can run (warnings do not count), 1 it could not, 2 a mistake in the",
        "run": "Started again it continues where it stopped, as its checkpoint records.",
        "mirror": r"binlog-stream mirror /var/lib/mysql --to lake --tables 'shop\..*' --once",
    }
    assert told[command] in text


def test_mirror_is_a_job_like_any_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    job = mirror_job(
        "log", "lake", rule=TableRule(select=r"shop\..*"), exclude_tables="shop.tmp", table_format=TableFormat.ICEBERG
    )
    lake = str(tmp_path / "lake")
    assert (job.source.path, job.sink.directory) == (str(tmp_path / "log"), lake)
    assert job.checkpoint == f"{lake}/{OWN_FOLDER}/checkpoint"
    remember(job)
    assert load_job(tmp_path / "lake" / OWN_FOLDER / "job.toml") == job
    remember(job)  # again the same


def test_mirror_and_publish_leave_out_the_servers_own_tables_unless_asked_for(tmp_path: Path) -> None:
    lake, own = str(tmp_path / "lake"), r"mysql\..*,sys\..*"
    assert mirror_job(str(OLTP), lake).source.exclude_tables == own
    assert mirror_job(str(OLTP), lake, exclude_tables="shop.tmp").source.exclude_tables == "shop.tmp"
    assert mirror_job(str(OLTP), lake, rule=TableRule(select=r"mysql\..*")).source.exclude_tables is None
    topics = "127.0.0.1:9092/shop"
    assert publish_job(str(OLTP), topics).source.exclude_tables == own
    assert publish_job(str(OLTP), topics, tables=".*").source.exclude_tables is None
    # A folder that was begun with them stays so.
    job = mirror_job(str(OLTP), lake)
    remember(msgspec.structs.replace(job, source=msgspec.structs.replace(job.source, exclude_tables=None)))
    assert mirror_job(str(OLTP), lake).source.exclude_tables is None


def test_what_a_folder_belongs_to_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    with files_up_to(10), pytest.raises(StorageError, match=r"NO_SPACE\] .*/job\.toml: cannot write it: .*large"):
        remember(mirror_job(str(OLTP), str(tmp_path)))
    remember(mirror_job(str(OLTP), str(tmp_path), rule=TableRule(mode=Mode.CHANGELOG)))  # nothing was remembered


def test_folder_stays_with_the_options_it_was_begun_with(tmp_path: Path) -> None:
    def job(**options: object) -> None:
        given: dict[str, Any] = {"select": r"sb\..*", "mode": Mode.MIRROR} | options
        rule = TableRule(select=given.pop("select"), mode=given.pop("mode"))
        remember(mirror_job(str(given.pop("path", OLTP)), str(tmp_path / "lake"), rule=rule, **given))

    job()
    (tmp_path / "lake" / "sb").mkdir()
    (tmp_path / "lake" / "sb" / "batch-0000000000-0002.parquet").touch()
    changed: dict[str, dict[str, object]] = {
        "PATH": {"path": tmp_path},
        "--tables": {"select": ".*"},
        "--exclude-tables": {"exclude_tables": "x"},
        "--mode": {"mode": Mode.CHANGELOG},
        "--format": {"table_format": TableFormat.ICEBERG},
    }
    for name, options in changed.items():
        with pytest.raises(OptionError, match=f"job.toml: {name}: this folder was begun with "):
            job(**options)
    job()


def test_try_that_wrote_no_table_leaves_its_folder_free(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    job_file = lake / OWN_FOLDER / "job.toml"
    remember(mirror_job(str(OLTP), str(lake)))
    (lake / OWN_FOLDER / "checkpoint" / "offsets").mkdir(parents=True)
    (lake / OWN_FOLDER / "checkpoint" / "offsets" / "0").write_text("a batch was begun")
    remember(mirror_job(str(OLTP), str(lake)))
    assert (lake / OWN_FOLDER / "checkpoint").exists()  # the same options go on
    remember(mirror_job(str(OLTP), str(lake), rule=TableRule(select=r"sb\..*")))
    assert not (lake / OWN_FOLDER / "checkpoint").exists()
    assert load_job(job_file).tables[0].select == r"sb\..*"
    (lake / OWN_FOLDER / "checkpoint" / "commits").mkdir(parents=True)
    (lake / OWN_FOLDER / "checkpoint" / "metadata").write_text('{"id": "x"}')
    for folder in ("offsets", "commits"):
        path = lake / OWN_FOLDER / "checkpoint" / folder / "0"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"v1\n{{}}\n{json.dumps(SourceOffset(Position(1, 0, 4)).to_json())}")
    with pytest.raises(OptionError, match="this folder was begun with"):  # a batch without changes was finished
        remember(mirror_job(str(OLTP), str(lake)))


def test_wrong_options_of_mirror_are_called_by_their_names(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"\] --tables: expected regular expressions"):
        mirror_job(str(OLTP), str(tmp_path), rule=TableRule(select="a("))
    with pytest.raises(OptionError, match=r"\] --exclude-tables: expected regular expressions"):
        mirror_job(str(OLTP), str(tmp_path), exclude_tables="a(")
    with pytest.raises(OptionError, match=r"\] --mode: expected changelog beside sink.format parquet"):
        mirror_job(str(OLTP), str(tmp_path), table_format=TableFormat.PARQUET)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.thorough
@pytest.mark.spark
@pytest.mark.parametrize(("once", "number", "status"), [(False, signal.SIGINT, 0), (True, signal.SIGTERM, 143)])
def test_stopped_is_not_ended(once: bool, number: signal.Signals, status: int, tmp_path: Path) -> None:
    command = [PROGRAM, "mirror", str(OLTP), "--to", "lake", "-o", "jsonl", *(["--once"] if once else [])]
    process = subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stdout is not None
    first = json.loads(process.stdout.readline())
    assert first["event"] == "started"
    if number == signal.SIGINT:
        os.killpg(process.pid, number)  # as a terminal does it: Java and the workers get it too
    else:
        process.send_signal(number)
    rest, errors = process.communicate(timeout=300)
    last = json.loads(rest.splitlines()[-1])
    assert (process.returncode, last["event"]) == (status, "stopped"), errors
    assert errors == ("terminated\n" if once else "")
    # It was a stop like any other: the next run takes what is left.
    replay_runs.run(load_job(tmp_path / "lake" / OWN_FOLDER / "job.toml"))
    for name in TABLES:
        assert mirror(tmp_path / "lake", name) == truth(name)


def test_lines_for_people_say_once_what_is_special_about_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    from binlog_streaming.cli.jobs.lines import BatchLines
    from binlog_streaming.job_state.progress import NOTE_TEXTS, BatchProgress, Note

    table = table_progress("shop.t", notes=frozenset({Note.WHOLE_ROWS}))
    printer = BatchLines()
    for number in range(2):
        printer.batch(
            BatchProgress(batch_id=number, tables=(table, table), seconds=0.1, finished_at=2.0, bytes_behind=None)
        )
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(" ")[0] for line in lines] == ["batch", "shop.t:", "batch"]
    assert lines[1] == f"shop.t: {NOTE_TEXTS[Note.WHOLE_ROWS]}"


@pytest.mark.parametrize(
    ("numbers", "counts", "waiting", "found_nothing"),
    [((0, 1), (0, 0), (), True), ((0, 1), (1, 0), (), False), ((7,), (0,), (), False), ((0,), (0,), ("a",), False)],
)
def test_new_job_that_met_no_table_of_its_own_is_told_at_its_end(
    numbers: tuple[int, ...],
    counts: tuple[int, ...],
    waiting: tuple[str, ...],
    capsys: pytest.CaptureFixture[str],
    *,
    found_nothing: bool,
) -> None:
    from binlog_streaming.cli.jobs.lines import BatchLines
    from binlog_streaming.job_state.progress import BatchProgress, Progress
    from binlog_streaming.plan.job_state import StateChange

    lines, progress = BatchLines(), Progress()
    change = StateChange(waiting=frozenset(TableName("shop", name) for name in waiting))
    for number, count in zip(numbers, counts, strict=True):
        batch = BatchProgress(number, (table_progress(),) * count, 0.1, 2.0, None, change)
        progress.add(batch)
        lines.batch(batch)
    lines.ended(progress, stopped=False)
    assert ("check JOB.toml" in capsys.readouterr().out) is found_nothing


def test_a_sequence_is_named_once(caplog: pytest.LogCaptureFixture) -> None:
    from binlog_streaming.job_state.progress import BatchProgress, Progress
    from binlog_streaming.plan.job_state import StateChange

    progress, change = Progress(), StateChange(sequences=frozenset({TableName("shop", "numbers")}))
    for number in range(2):
        progress.add(BatchProgress(number, (), 0.1, 2.0, None, change))
    assert caplog.messages == ["left out: shop.numbers is a sequence, and no table"]


def test_table_that_was_set_aside_is_not_counted_and_is_in_the_last_line(capsys: pytest.CaptureFixture[str]) -> None:
    from binlog_streaming.cli.jobs.lines import BatchJsonLines, BatchLines
    from binlog_streaming.job_state.progress import BatchProgress, Progress
    from binlog_streaming.plan.job_state import SetAside

    stopped = SetAside(database="shop", table="b", position="1:2:3:0", gtid="0-1-5", reason="[BINLOG_TABLE.X] no")
    tables = (table_progress("shop.a", inserts=3), table_progress("shop.b", inserts=100, set_aside=stopped))
    batch = BatchProgress(batch_id=0, tables=tables, seconds=0.1, finished_at=2.0, bytes_behind=None)
    progress, whole = Progress(), Progress()
    progress.add(batch)
    whole.add(replace(batch, tables=tables[:1]))
    for lines, of in ((BatchLines(), progress), (BatchJsonLines(), progress), (BatchLines(), whole)):
        lines.ended(of, stopped=False)
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "ended: 3 changes in 1 batch, 1 table set aside"
    assert json.loads(said[1]) == {"event": "ended", "batches": 1, "changes": 3, "set_aside": ["shop.b"]}
    assert said[2] == "ended: 3 changes in 1 batch"


def test_check_counts_tables_that_would_be_set_aside_apart(tmp_path: Path) -> None:
    (tmp_path / "job.toml").write_text(
        f'checkpoint = "checkpoint"\non_error = "set_aside"\n[source]\npath = "{OLTP}"\n[sink]\ndirectory = "tables"\n'
    )
    write_deltalake(str(tmp_path / "tables" / "sb" / "sbtest2"), pa.table({"id": [1]}))
    checked = run("check", "job.toml", cwd=tmp_path)
    assert checked.returncode == 0, checked.stderr
    assert checked.stdout.splitlines()[-1] == "It can run: 3 tables, 1 would be set aside."


@pytest.mark.spark
@pytest.mark.parametrize(("number", "said"), [(signal.SIGINT, "interrupted"), (signal.SIGTERM, "terminated")])
def test_signal_while_spark_starts_ends_at_once_in_one_line(number: signal.Signals, said: str, tmp_path: Path) -> None:
    # As a terminal does it: all processes of the group get the signal, Java too.
    process = subprocess.Popen(
        [PROGRAM, "mirror", str(OLTP), "--to", "lake"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    own = tmp_path / "lake" / OWN_FOLDER
    # Java has been started when its messages have a place.
    with DirectoryWatch(tmp_path, poll_interval=0.05) as watch:
        while not (own / "checkpoint" / "binlog-stream-spark.log").exists():
            assert process.poll() is None
            watch.wait(0.05)
    os.killpg(process.pid, number)
    output, errors = process.communicate(timeout=300)
    assert (process.returncode, output, errors) == (128 + number, "", f"{said}\n")
    # Nothing was begun: the folder is free for other options.
    remember(mirror_job(str(OLTP), str(tmp_path / "lake"), rule=TableRule(mode=Mode.CHANGELOG)))
