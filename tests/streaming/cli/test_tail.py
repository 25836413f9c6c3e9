"""`binlog-stream tail`: what it prints, where it goes on, how it ends."""

from __future__ import annotations

import io
import json
import random
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

from binlog_connector.following.offsets import OffsetFile
from binlog_connector.following.starts import Edge
from binlog_connector.following.tailer import FollowOptions, Tailer
from binlog_connector.metrics.follower import Follower
from binlog_connector.metrics.lag import Consumed, LagMeter
from binlog_format.errors import BinlogError, DataLossError, OptionError, StartError
from binlog_format.views.changes import ChangesView
from binlog_lab.simulator.structured.program import FIRST_NS, LoggingProgram
from binlog_streaming.cli.logs import changes, tail
from binlog_streaming.cli.logs.tail_view import EventLines, Saving, TailView
from tests.connector.shop import Shop
from tests.corpus import SERVER_CASES, corpus

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from binlog_connector.following.offsets import SourceOffset
    from binlog_lab.demo.mariadb.server import MariaDbServer

    JsonObject = dict[str, object]

OLTP = SERVER_CASES / "mariadb-10.11" / "oltp_small"
PATIENCE = 300.0


def run(*arguments: object) -> str:
    """The output of a command in this process."""
    app = typer.Typer()
    app.callback()(lambda: None)
    app.command()(tail.tail)
    app.command()(changes.changes)
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if result.exception is not None:
        raise result.exception
    return result.stdout


def gtids(text: str) -> list[str]:
    """GTIDs of the lines, each once."""
    return list(dict.fromkeys(json.loads(line)["gtid"] for line in text.splitlines()))


def test_events_of_a_structured_log_are_measured(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    with LoggingProgram(tmp_path) as program:
        program.log(30)
    for is_readable in (False, True):
        follower = Follower("tail", None)
        with Tailer(str(tmp_path), Edge.EARLIEST, how=FollowOptions(ends=True, step_size_max=1)) as tailer:
            Saving(tailer, None, follower).run(EventLines(is_readable), None)
            end = tailer.offset
        progress = follower.progress
        assert (progress.rows.total, progress.transactions) == (30, 30)
        assert progress.size.total == sum(file.stat().st_size for file in tmp_path.iterdir())
        assert progress.consumed is not None
        assert progress.consumed.offset == end
        assert progress.consumed.timestamp == FIRST_NS // 10**9
    assert len(capfdbinary.readouterr().out.splitlines()) == 60


class Process:
    """`binlog-stream tail` in a process of its own, whose lines are read as they come.

    Attributes:
        lines: Whole lines of its output.
        grown: Set whenever there are more.
    """

    def __init__(self, *arguments: object) -> None:
        program = "from binlog_streaming.cli import main; main()"
        command = [sys.executable, "-c", program, "tail", *map(str, arguments), "--metrics-port", "0"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.lines: list[bytes] = []
        self.is_over = False
        self.grown = threading.Condition()
        assert self.process.stderr is not None
        first = self.process.stderr.readline().decode()
        found = re.search(r":(\d+)/metrics", first)
        # It is said when the start has been decided: what is committed from now on is new.
        self.port = int(found[1]) if found else 0
        self.errors = "" if found else first
        self._threads = [threading.Thread(target=target) for target in (self._read, self._read_errors)]
        for thread in self._threads:
            thread.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.endswith(b"\n"):
                with self.grown:
                    self.lines.append(line)
                    self.grown.notify_all()
        with self.grown:
            self.is_over = True
            self.grown.notify_all()

    def _read_errors(self) -> None:
        assert self.process.stderr is not None
        self.errors += self.process.stderr.read().decode()

    def wait_for(self, count: int, also: Callable[[], bool] = lambda: True) -> None:
        """Until so many lines have come, and something else is so when one comes."""

        def is_so() -> bool:
            return self.is_over or (len(self.lines) >= count and also())

        with self.grown:
            assert self.grown.wait_for(is_so, PATIENCE)
        assert len(self.lines) >= count, self.errors

    def metrics(self) -> dict[str, float]:
        """Values of the metrics without labels other than the name."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=PATIENCE) as answer:
            text = answer.read().decode()
        return {
            name: float(value) for name, value in re.findall(r'^binlog_stream_(\w+){name="tail"} (\S+)$', text, re.M)
        }

    def end(self, number: int | None = None) -> int:
        """Its exit status, after a signal."""
        if number is not None:
            self.process.send_signal(number)
        status = self.process.wait(PATIENCE)
        for thread in self._threads:
            thread.join()
        for stream in (self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()
        return status


@contextmanager
def tailing(*arguments: object) -> Iterator[Process]:
    process = Process(*arguments)
    try:
        yield process
    finally:
        process.process.kill()
        process.end()


@pytest.mark.parametrize("options", [[], ["--tables", "sb.sbtest1,sb.*3"], ["--exclude-tables", "sb.*"]])
def test_lines_are_those_of_changes(options: list[str]) -> None:
    lines = run("tail", OLTP, "--from", "earliest", "--once", *options)
    assert lines == run("changes", OLTP, "--output", "jsonl", *options)
    assert bool(lines) == ("--exclude-tables" not in options)


def test_starts(tmp_path: Path) -> None:
    with Shop(tmp_path) as shop:
        shop.sell(6)
    assert run("tail", tmp_path, "--once") == ""
    assert len(gtids(run("tail", tmp_path, "--once", "--from", "earliest"))) == 6
    assert gtids(run("tail", tmp_path, "--once", "--start", "0-11-4")) == ["0-11-5", "0-11-6"]
    assert gtids(run("tail", tmp_path, "--once", "--timestamp", "2026-01-01T00:00:05")) == ["0-11-5", "0-11-6"]
    assert gtids(run("tail", tmp_path, "--once", "--timestamp", "2026-01-01T02:00:06+02:00")) == ["0-11-6"]
    position = json.loads(run("tail", tmp_path, "--once", "--start", "0-11-4").splitlines()[0])["position"]
    start = "{file_no}:{page}:{chunk}".format(**position)
    assert gtids(run("tail", tmp_path, "--once", "--start", start)) == ["0-11-5", "0-11-6"]


def test_wrong_use_is_named(tmp_path: Path) -> None:
    with Shop(tmp_path) as shop:
        shop.sell()
    with pytest.raises(StartError, match=r"CONFLICTING_OPTIONS.*--start and --timestamp"):
        run("tail", tmp_path, "--start", "0-1-2", "--timestamp", "2026-01-01")
    with pytest.raises(OptionError, match=r'INVALID_VALUE.*expected a time.*"yesterday"'):
        run("tail", tmp_path, "--timestamp", "yesterday")
    with pytest.raises(OptionError, match=r"INVALID_VALUE.*needs a terminal"):
        run("tail", tmp_path, "--output", "live")
    (tmp_path / "notes.json").write_text("{}")
    with pytest.raises(OptionError, match=r"INVALID_VALUE.*notes\.json: it is no offset"):
        run("tail", tmp_path, "--once", "--resume", tmp_path / "notes.json")


def test_resume_goes_on_where_it_ended(tmp_path: Path) -> None:
    log, resume = tmp_path / "log", tmp_path / "offset.json"
    log.mkdir()
    with Shop(log) as shop:
        shop.sell(3)
        assert run("tail", log, "--once", "--resume", resume) == "", "a new one begins with what comes now"
        shop.sell(2)
        # The start counts for a new file only.
        assert gtids(run("tail", log, "--once", "--resume", resume, "--from", "latest")) == ["0-11-4", "0-11-5"]
        assert run("tail", log, "--once", "--resume", resume, "--from", "earliest") == ""
        shop.sell(1)
        assert gtids(run("tail", log, "--until-idle", "0.1", "--resume", resume)) == ["0-11-6"]
        shop.writer.reset_master()
        shop.seqnos.clear()
        shop.sell(2)
        with pytest.raises(DataLossError, match="LOG_RESET"):
            run("tail", log, "--once", "--resume", resume)
        assert gtids(run("tail", log, "--once", "--resume", resume, "--skip-data-loss")) == ["0-11-1", "0-11-2"]


def test_definitions_before_the_start_are_found() -> None:
    """A log without column names, read from its middle: the DDL stands before."""
    case = corpus("servers") / "mariadb-10.11" / "types_minimal_nolog"
    whole = run("changes", case, "--output", "jsonl").splitlines()
    position = "{file_no}:{page}:{chunk}".format(**json.loads(whole[-1])["position"])
    expected = [line for line in whole if json.loads(line)["position"] == json.loads(whole[-1])["position"]]
    for command in (["tail", case, "--once"], ["changes", case, "--output", "jsonl"]):
        assert run(*command, "--start", position).splitlines()[: len(expected)] == expected


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_end_cleanly_with_the_offset_saved(tmp_path: Path, number: int) -> None:
    log, resume = tmp_path / "log", tmp_path / "offset.json"
    log.mkdir()
    with Shop(log) as shop:
        shop.sell(3)
        with tailing(log, "--output", "jsonl", "--resume", resume) as process:
            shop.sell(2)
            process.wait_for(6)
            assert process.end(number) == 0
            assert process.errors == ""
        offset = OffsetFile(resume).load()
        assert offset is not None
        assert str(offset.gtid) == "0-11-5"


def test_reader_that_goes_away_is_no_error(tmp_path: Path) -> None:
    with Shop(tmp_path) as shop:
        shop.sell(2000)
    program = "from binlog_streaming.cli import main; main()"
    command = [sys.executable, "-c", program, "tail", str(tmp_path), "--from", "earliest"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith(b'{"position"')
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(PATIENCE) == 0


def test_metrics_are_the_truth(tmp_path: Path) -> None:
    with Shop(tmp_path) as shop:
        shop.sell(30)
        with tailing(tmp_path, "--from", "earliest") as process:
            process.wait_for(90)
            process.process.send_signal(signal.SIGSTOP)
            shop.sell(7)
            process.process.send_signal(signal.SIGCONT)
            process.wait_for(111)
            # The lines are out before the metrics say so, and the step is done a moment later still.
            deadline = time.monotonic() + PATIENCE
            while (found := process.metrics())["rows_total"] < 111 or found["lag_transactions"]:
                assert time.monotonic() < deadline
            assert found["rows_total"] == 111
            assert found["transactions_total"] == 38
            assert (found["lag_transactions"], found["lag_bytes"], found["lag_seconds"]) == (0, 0, 0)
            assert process.end(signal.SIGTERM) == 0


class Pace(threading.Thread):
    """Commits until it is told to stop."""

    def __init__(self, shop: Shop, pause: float) -> None:
        super().__init__()
        self.shop = shop
        self.pause = pause
        self.over = threading.Event()

    def run(self) -> None:
        while not self.over.wait(self.pause):
            self.shop.sell()


def keys(lines: list[bytes]) -> list[tuple[object, ...]]:
    """What tells changes from each other, in their order."""
    rows = [json.loads(line) for line in lines]
    return [(*row["position"].values(), row["event_no"], row["row_no"]) for row in rows]


def has_moved(resume: Path, before: SourceOffset | None) -> bool:
    return OffsetFile(resume).load() not in (before, None)


@pytest.mark.thorough
@pytest.mark.slow
def test_nothing_is_lost_when_it_is_killed_again_and_again(tmp_path: Path) -> None:
    log, resume = tmp_path / "log", tmp_path / "offset.json"
    log.mkdir()
    random_source = random.Random(4)
    runs: list[list[tuple[object, ...]]] = []
    with Shop(log, files_of=16 * 16384) as shop:
        shop.sell(5)
        pace = Pace(shop, 0.01)
        pace.start()
        try:
            for _ in range(5):
                before, more = OffsetFile(resume).load(), random_source.randint(1, 200)
                with tailing(log, "--from", "earliest", "--resume", resume) as process:
                    # What lay behind is one step; its lines alone would never bring it further.
                    process.wait_for(1, partial(has_moved, resume, before))
                    process.wait_for(len(process.lines) + more)
                    process.end(signal.SIGKILL)
                runs.append(keys(process.lines))
        finally:
            pace.over.set()
            pace.join()
    with tailing(log, "--resume", resume, "--once") as process:
        assert process.end() == 0
    runs.append(keys(process.lines))
    every = keys(run("changes", log, "--output", "jsonl").encode().splitlines())
    place = {key: number for number, key in enumerate(every)}
    reached = 0
    for found in runs:
        numbers = [place[key] for key in found]
        assert not numbers or numbers[0] <= reached, "a gap"
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers))) if numbers else True
        reached = max([reached, *(number + 1 for number in numbers)])
    assert reached == len(every)
    assert len(runs[-1]) < len(every), "it did not begin anew"


def test_line_comes_before_anything_else_is_written(tmp_path: Path) -> None:
    with Shop(tmp_path) as shop:
        shop.sell()
        with tailing(tmp_path) as process:
            for transactions in range(1, 50):
                shop.sell()
                process.wait_for(3 * transactions)
            assert process.end(signal.SIGTERM) == 0


@pytest.mark.server
@pytest.mark.slow
def test_live_server(tmp_path: Path, mariadb_server: MariaDbServer) -> None:
    """Rows of a live MariaDB, over rotation, a restart and a kill of the reader; what SELECT says is what comes out."""
    resume = tmp_path / "offset.json"
    log = mariadb_server.binlog_directory
    with mariadb_server.connect(autocommit=False) as connection, connection.cursor() as cursor:
        cursor.execute("SET SESSION sql_log_bin = 1")
        cursor.execute("CREATE DATABASE shop")
        cursor.execute("CREATE TABLE shop.t (id INT PRIMARY KEY AUTO_INCREMENT, name VARCHAR(50), n INT)")
        seen: list[JsonObject] = []
        with tailing(log, "--from", "earliest", "--tables", "shop.*", "--resume", resume) as process:
            for number in range(50):
                cursor.execute("INSERT INTO shop.t (name, n) VALUES (%s, %s)", (f"näme {number}", number))
                connection.commit()
            process.wait_for(50)
            cursor.execute("FLUSH BINARY LOGS")
            cursor.execute("UPDATE shop.t SET n = n + 1000 WHERE id <= 10")
            connection.commit()
            process.wait_for(60)
            process.end(signal.SIGKILL)
            seen += [json.loads(line) for line in process.lines]
        cursor.execute("DELETE FROM shop.t WHERE id > 45")
        connection.commit()
    mariadb_server.stop()
    mariadb_server.start()
    with mariadb_server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("INSERT INTO shop.t (name, n) VALUES ('after the restart', 7)")
        with tailing(log, "--tables", "shop.*", "--resume", resume) as process:
            process.wait_for(1)
            while b"after the restart" not in process.lines[-1]:
                process.wait_for(len(process.lines) + 1)
            assert process.end(signal.SIGTERM) == 0
            seen += [json.loads(line) for line in process.lines]
        cursor.execute("SELECT id, name, n FROM shop.t")
        expected = {row[0]: {"id": row[0], "name": row[1], "n": row[2]} for row in cursor.fetchall()}
    assert replayed(seen) == expected


def replayed(rows: list[JsonObject]) -> dict[int, JsonObject]:
    """The rows that changes leave."""
    left: dict[int, JsonObject] = {}
    for row in rows:
        before, after = row["before"], row["after"]
        if isinstance(before, dict):
            left.pop(int(before["id"]), None)
        if isinstance(after, dict):
            left[int(after["id"])] = after
    return left


def shown(view: TailView, width: int = 110, height: int = 24) -> str:
    console = Console(width=width, height=height, file=io.StringIO(), record=True, highlight=False)
    view._console = console
    console.print(view.render())
    return console.export_text()


def test_people_see_changes_rates_and_lag(tmp_path: Path) -> None:
    with Shop(tmp_path) as shop:
        shop.sell(40)
        meter = LagMeter(str(tmp_path))
        follower = Follower("tail", meter)
        with Tailer(str(tmp_path), Edge.EARLIEST) as tailer:
            view = TailView(str(tmp_path), "innodb", follower, Console(file=io.StringIO(), force_terminal=True))
            assert "Waiting for changes ..." in shown(view)
            step = tailer.step(0)
            assert step is not None
            changes_view = ChangesView()
            for batch in changes_view.batches(step.blocks()):
                view.take(batch, changes_view)
                follower.progress.rows.add(batch.num_rows)
            follower.progress.consumed = Consumed(step.end, step.last_timestamp)
            with view:
                text = shown(view)
            assert "● live" in text
            assert "changes 120" in text
            assert "behind 0 transactions" in text
            assert "GTID 0-11-40" in text
            assert "2026-01-01 00:00:40 UTC" in text
            assert re.search(r"00:00:40 +0-11-40 +shop\.items +insert +id=40 name=item 40", text)
            assert re.search(r"shop\.orders +update +id=40 amount: 0\.40 -> 0\.01 note: null -> changed", text)
            assert len(text.splitlines()) <= 24
            shop.sell(3)
            view._measured_at = float("-inf")
            with view:
                text = shown(view)
            assert "● catching up" in text
            assert "behind 3 transactions" in text
        meter.close()


def test_errors_come_as_one_line(tmp_path: Path) -> None:
    with pytest.raises(BinlogError) as raised:
        run("tail", tmp_path / "nowhere")
    assert "\n" not in str(raised.value)
