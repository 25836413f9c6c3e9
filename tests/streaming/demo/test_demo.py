"""The demo as people run it: small, but whole; it must not be able to say that all is well when it is not."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING

import pytest
import typer
from deltalake import DeltaTable
from rich.console import Console
from typer.testing import CliRunner

from binlog_lab.cli.demo import register
from binlog_lab.demo import run
from binlog_lab.demo.failures import DemoError
from binlog_lab.demo.processes import ReportingProcess
from binlog_lab.demo.proof.comparison import Comparison, TableDifference
from binlog_lab.demo.proof.expected_rows import load
from binlog_lab.demo.run import DemoOptions, DemoSource, compare_all, demo_job, look_at, prepare_directory, run_demo
from binlog_lab.demo.servers.lake_servers import LakeServers
from binlog_lab.demo.shop import ALTERATIONS
from binlog_lab.demo.state import DemoMark, DemoMarkKind, Snapshot
from binlog_lab.demo.view import DemoView, progress_line
from binlog_streaming.settings import TableFormat, load_job
from tests.faults.object_store import ObjectStore, RestCatalog

if TYPE_CHECKING:
    from pathlib import Path

    from binlog_lab.demo.reports import WriterReport

ROWS = 4000
SECONDS = 8
TABLES = 8
MODES = 3


def options_for(directory: Path) -> DemoOptions:
    return DemoOptions(
        source=DemoSource.WORKLOAD, sink=TableFormat.DELTA, rows=ROWS, seconds=1.0, directory=directory, keep=True
    )


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    # The demo sets these for the job file.
    for name in (run.DIRECTORY_VARIABLE, run.FORMAT_VARIABLE):
        monkeypatch.setenv(name, "")


@pytest.mark.thorough
@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize(
    ("sink", "store"),
    [
        ("delta", "folder"),
        ("iceberg", "folder"),
        pytest.param("delta", "s3", marks=pytest.mark.thorough),
        pytest.param("iceberg", "s3", marks=pytest.mark.thorough),
    ],
)
def test_demo_ends_well_and_a_damaged_table_does_not(tmp_path: Path, sink: str, store: str) -> None:
    """As a process of its own: altered, killed, restarted, and equal; then rows are damaged, and it says which."""
    directory = tmp_path / "demo"
    if store == "s3":
        # Skip where there is none.
        RestCatalog(tmp_path / "rest", ObjectStore(tmp_path / "s3"))
    command = [sys.executable, "-c", "from binlog_streaming.cli import main; main()", "demo", "--sink", sink]
    arguments = ["--store", store, "--rows", str(ROWS), "--seconds", str(SECONDS), "--directory", str(directory)]
    result = subprocess.run([*command, *arguments], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    said = result.stdout
    assert f"All {MODES * TABLES} tables are equal" in said
    assert "\x1b" not in said
    in_order = [
        said.index(text) for text in ("ADD COLUMN", "MODIFY COLUMN", "kill -9 of the job", "up again", "again:")
    ]
    assert in_order == sorted(in_order)
    assert (directory / run.PICTURE).stat().st_size > 10_000

    code = said.splitlines()
    script = textwrap.dedent("\n".join(code[code.index("Look at the tables:") + 1 :]))
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert shown.returncode == 0, shown.stderr
    assert "total_sum" in shown.stdout

    if (sink, store) != ("delta", "folder"):
        return
    expected_tables = load(directory / "truth")
    (customers,) = (truth for truth in expected_tables if truth.name == "shop.customers")
    changed, removed = customers.rows.column("id").to_pylist()[:2]
    for mode in ("mirror", "scd2"):
        target = DeltaTable(str(directory / "tables" / mode / "shop" / "customers"))
        target.update(updates={"country": "'XX'"}, predicate=f"id = {changed}")
        target.delete(f"id = {removed}")
    comparisons = {(one.table, one.mode): one for one in compare_all(demo_job(directory)[0], expected_tables)}
    for mode in ("mirror", "scd2"):
        damaged = comparisons.pop(("shop.customers", mode))
        told = {(one.key.partition(",")[0], one.column) for one in damaged.differences}
        assert told == {(f"id={removed}", None), (f"id={changed}", "country")}
    assert all(one.is_equal for one in comparisons.values())


@pytest.mark.server
@pytest.mark.spark
@pytest.mark.thorough
def test_demo_of_a_server_completes_older_tables_and_ends_with_a_proof(tmp_path: Path) -> None:
    """With Spark and kills; `test_mariadb_source` has the same without."""
    command = [sys.executable, "-c", "from binlog_streaming.cli import main; main()", "demo", "--source", "mariadb"]
    result = subprocess.run(
        [*command, "--seconds", str(SECONDS), "--directory", str(tmp_path / "demo")],
        capture_output=True,
        text=True,
        check=False,
    )
    if "BINLOG_SERVER.NOT_FOUND" in result.stderr and os.environ.get("CI") != "true":
        pytest.skip("no MariaDB server is installed")
    assert result.returncode == 0, result.stdout + result.stderr
    texts = ("older than its log", "rows are in the log", "ADD COLUMN", "kill -9 of the job", "again:", "equal through")
    places = [result.stdout.index(text) for text in texts]
    assert places == sorted(places)
    assert result.stdout.count(": equal through ") == 8
    assert "All 12 tables are equal" in result.stdout


def test_exit_status_is_1_when_a_table_differs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app = typer.Typer()
    register(app)
    found: list[DemoOptions] = []

    def differing(options: DemoOptions) -> bool:
        found.append(options)
        return False

    monkeypatch.setattr(run, "run_demo", differing)
    assert CliRunner().invoke(app, ["--directory", str(tmp_path), "--rows", "5000"]).exit_code == 1
    assert (found[0].rows, found[0].source, found[0].keep) == (5000, DemoSource.WORKLOAD, True)
    assert found[0].sink is TableFormat.DELTA
    assert CliRunner().invoke(app, ["--source", "oracle"]).exit_code == 2
    assert CliRunner().invoke(app, ["--sink", "parquet"]).exit_code == 2


def test_directory_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("do not lose me")
    with pytest.raises(DemoError, match="DIRECTORY_IN_USE"):
        prepare_directory(tmp_path)
    assert (tmp_path / "thesis.txt").exists()


def test_directory_of_an_earlier_demo_is_made_anew(tmp_path: Path) -> None:
    prepare_directory(tmp_path / "demo")
    (tmp_path / "demo" / "log").mkdir()
    prepare_directory(tmp_path / "demo")
    assert [path.name for path in (tmp_path / "demo").iterdir()] == [run.MARK]


def test_without_a_checkout_one_line_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "find_real_log", lambda: None)
    with pytest.raises(DemoError, match=r"NO_CHECKOUT\] .*the demo runs from a checkout") as caught:
        run_demo(options_for(tmp_path / "demo"))
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "demo").exists()


@pytest.mark.parametrize(
    ("sink", "name"), [(TableFormat.DELTA, "tables/mirror/shop/orders"), (TableFormat.ICEBERG, "mirror.shop.orders")]
)
def test_lines_to_look_at_the_tables_name_the_first_mode(tmp_path: Path, sink: TableFormat, name: str) -> None:
    job, place = demo_job(tmp_path, sink)
    assert job.sink.format is sink
    assert (place.job_file, place.tables) == (run.JOB_FILE, tmp_path / "tables")
    assert name in "\n".join(look_at(job))


@pytest.mark.server
def test_job_of_an_object_store_has_a_file_of_its_own(tmp_path: Path) -> None:
    ObjectStore(tmp_path / "s3")  # skips where there is none
    servers = LakeServers(tmp_path, TableFormat.DELTA)
    job, place = demo_job(tmp_path, servers=servers)
    assert load_job(place.job_file) == job
    assert job.sink.directory == "s3://lake/tables"
    assert "AWS_ENDPOINT_URL" in job.sink.storage
    assert place.tables == servers.tables


def test_picture_stays_when_all_else_is_removed(tmp_path: Path) -> None:
    prepare_directory(tmp_path / "demo")
    for name in ("demo.png", "job.log", "log/binlog-000000.ibb"):
        (tmp_path / "demo" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "demo" / name).touch()
    run.remove_all_but_the_picture(tmp_path / "demo")
    assert {path.name for path in (tmp_path / "demo").iterdir()} == {run.MARK, "demo.png"}
    prepare_directory(tmp_path / "demo")


def test_writer_process_waits_and_then_writes_the_workload(tmp_path: Path) -> None:
    reports: list[WriterReport] = []
    paths = ["--directory", str(tmp_path / "log"), "--expected", str(tmp_path / "truth")]
    with ReportingProcess(
        "binlog_lab.demo.live_writer",
        [*paths, "--rows", "1000", "--seconds", "0.1", "--wait", "--alter"],
        log_file=tmp_path / "errors",
        listener=reports.append,
    ) as process:
        process.wait_for_first_report()
        assert not (tmp_path / "log").exists()
        process.go_on()
        process.wait()
    assert reports[-1].is_done
    assert sum(reports[-1].changes.values()) >= 1000
    assert [one.statement for one in reports[-1].alterations] == [one.statement for one in ALTERATIONS]
    expected_tables = {truth.name: truth for truth in load(tmp_path / "truth")}
    assert set(expected_tables) == {"shop.customers", "shop.orders", "shop.order_lines", "shop.events"}
    for truth in expected_tables.values():
        assert truth.changes is not None
        assert truth.versions is not None
        assert truth.versions.num_rows > truth.rows.num_rows


# --- what people see ----------------------------------------------------------------------------------------------

SNAPSHOT = Snapshot(
    seconds=12.34,
    in_log={"shop.orders": 2000},
    applied={"shop.orders": 1500},
    rate=812.4,
    lag_seconds=1.26,
    bytes_behind=1_234_567,
    last_gtid="0-1-77",
    batches=3,
    is_written=False,
)


def printed(*, is_terminal: bool) -> tuple[DemoView, io.StringIO]:
    output = io.StringIO()
    return DemoView(Console(file=output, force_terminal=is_terminal, width=100, highlight=False)), output


def test_piped_output_is_plain_lines() -> None:
    view, output = printed(is_terminal=False)
    rounds = iter([False, True])
    view.progress(lambda: SNAPSHOT, lambda: next(rounds))
    lines = output.getvalue().splitlines()
    assert lines
    assert set(lines) == {progress_line(SNAPSHOT)}
    assert "\x1b" not in output.getvalue()
    assert "lag 1.3 s" in lines[0]
    assert "1.2 MB" in lines[0]


def test_terminal_shows_the_tables_and_their_numbers() -> None:
    view, output = printed(is_terminal=True)
    view.progress(lambda: SNAPSHOT, lambda: True)
    for text in ("shop.orders", "2,000", "1,500", "0-1-77", "812"):
        assert text in output.getvalue()


def test_what_happens_is_told_between_the_lines() -> None:
    view, output = printed(is_terminal=False)
    view.mark(DemoMark(1_790_000_012.0, DemoMarkKind.KILLED, "kill -9 of [the] job"), 12.0)
    assert output.getvalue() == " 12.0 s  kill -9 of [the] job\n"


def test_result_shows_differences_and_does_not_say_equal() -> None:
    view, output = printed(is_terminal=False)
    difference = TableDifference("id=7", "country", "'DE'", "'XX'")
    comparisons = [
        Comparison("shop.customers", "mirror", 10, 10, (difference,), 1),
        Comparison("shop.orders", "mirror", 5, 5, (), 0),
    ]
    view.result(comparisons)
    view.verdict(comparisons)
    text = output.getvalue()
    assert "1 of 2 tables differ" in text
    assert "equal" not in text
    for part in ("id=7", "country", "'DE'", "'XX'"):
        assert part in text
