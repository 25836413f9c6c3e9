"""The documents' examples run as they are written, on the demo's live log and on that of a live MariaDB server.

Only places on a machine are put in: `/var/lib/mysql` becomes the log's directory, and what is written goes elsewhere.
"""

from __future__ import annotations

import contextlib
import io
import os
import queue
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING

import pytest

from tests.docs.live_logs import PATIENCE_S, LiveLog, demo_log, mariadb_log
from tests.docs.markdown import CodeBlock, code_blocks, command_lines
from tests.program import PROGRAM, calls_in, help_examples, run_program

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = [
    pytest.mark.slow,
    # PySpark 4.1 leaves the sockets of collected results to the garbage collector.
    pytest.mark.filterwarnings("ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning"),
]

LOG_DIRECTORY = "/var/lib/mysql"
INNODB_ONLY = {"map", "pages"}
CLASSIC_ONLY = {"repack"}
ELSEWHERE = {
    "replay", "versions", "run", "mirror", "publish", "init", "check", "demo", "simulate", "snapshot", "prove", "adopt",
    "bread", "brecovery", "archive", "demo-logs", "status", "doctor", "upgrade-table", "switch",
}  # fmt: skip
"""Commands that have whole-program tests of their own, and need more than a log."""
ENDLESS = {"tail", "--follow"}
MIN_COMMANDS = {"README.md": 7, "docs/reading.md": 12}


@pytest.fixture(scope="module", params=["demo", pytest.param("mariadb", marks=pytest.mark.server)])
def live_log(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveLog]:
    """Each of the two logs; without a server the second skips, but fails in CI."""
    make = demo_log if request.param == "demo" else mariadb_log
    with make(tmp_path_factory.mktemp(request.param)) as log:
        yield log


def placed(text: str, log: LiveLog, directory: Path) -> str:
    """*text* with places of this machine."""
    return text.replace(LOG_DIRECTORY, str(log.directory)).replace("/data/", f"{directory}/")


# --- README: ten lines to start ------------------------------------------------------------------------------------


def ten_lines() -> CodeBlock:
    (block,) = [block for block in code_blocks("README.md", "python") if "readStream" in block.text]
    return block


@pytest.mark.thorough
@pytest.mark.spark
def test_readme_s_stream_runs_as_a_program_and_follows(live_log: LiveLog, tmp_path: Path) -> None:
    """A process of its own, as a user starts it; what is committed while it runs comes in a later batch."""
    program = tmp_path / "orders.py"
    program.write_text(placed(ten_lines().text, live_log, tmp_path))
    folders = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    # PYSPARK_PYTHON as README and docs/spark.md say; a host name that does not resolve is this machine's matter.
    environment = os.environ | {"PATH": folders, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    environment.pop("PYSPARK_DRIVER_PYTHON", None)
    with running([sys.executable, str(program)], tmp_path, environment) as output:
        output.read_until(r"\|\s*insert\|")
        output.read_until(r"^\+-+")  # the end of the first batch
        live_log.work()
        output.read_until(r"^Batch: [1-9]")
        output.read_until(r"\|\s*(insert|update|delete)\|")


def test_readme_s_first_program_has_ten_lines() -> None:
    lines = [line for line in ten_lines().text.splitlines() if line.strip()]
    assert len(lines) <= 10


@pytest.mark.thorough_where("mariadb")
def test_batches_without_spark(live_log: LiveLog, tmp_path: Path) -> None:
    blocks = [
        block
        for document in ("README.md", "docs/reading.md")
        for block in code_blocks(document, "python")
        if "open_log" in block.text
    ]
    assert {block.document for block in blocks} == {"README.md", "docs/reading.md"}
    for block in blocks:
        printed = io.StringIO()
        names: dict[str, object] = {}
        with contextlib.redirect_stdout(printed):
            execute(block, live_log, tmp_path, names)
        if "print" in block.text:
            assert sum(int(line) for line in printed.getvalue().splitlines()) > 0


# --- commands ------------------------------------------------------------------------------------------------------


@pytest.mark.thorough_where("mariadb")
@pytest.mark.parametrize("document", ["--help", *sorted(MIN_COMMANDS)])
def test_commands_run_as_written(
    live_log: LiveLog, document: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if document == "--help":
        lines = [call for lines in help_examples().values() for line in lines for call in calls_in(line)]
    else:
        lines = command_lines(document)
        assert len(lines) >= MIN_COMMANDS[document]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "schemas.sql").write_text("USE shop;\nCREATE TABLE t (a int PRIMARY KEY);\n")
    not_this = CLASSIC_ONLY if live_log.format == "innodb" else INNODB_ONLY
    for line in lines:
        if line[0] in ELSEWHERE | not_this:
            continue
        arguments = [placed(argument, live_log, tmp_path) for argument in line]
        if ENDLESS & set(line):
            run_until_it_has_done_something([PROGRAM, *arguments], live_log, tmp_path)
            continue
        done = run_program(*arguments)
        assert (done.returncode, done.stderr) == (0, ""), (line, done.stdout[-1000:], done.stderr[-1000:])
        assert done.stdout, line


def run_until_it_has_done_something(command: list[str], log: LiveLog, directory: Path) -> None:
    """Until it has printed a line, or written a log; then it is interrupted, and ends in order."""
    target = directory / command[command.index("--to") + 1] if "--to" in command else None
    with running(command, directory, dict(os.environ)) as output:
        deadline = time.monotonic() + PATIENCE_S
        # It begins with what is committed behind its start, and when that was it does not say.
        while target is None and not output.has_line():
            assert time.monotonic() < deadline, output.text()
            log.work()
        while target is not None and not any(target.glob("*.ibb")):
            assert time.monotonic() < deadline, output.text()
            time.sleep(0.05)


# --- docs/spark.md -------------------------------------------------------------------------------------------------


@pytest.mark.thorough
@pytest.mark.spark
def test_blocks_of_the_spark_guide_run_one_after_the_other(
    spark: SparkSession, live_log: LiveLog, tmp_path: Path
) -> None:
    """Each stream gives rows; each frame that a block leaves can be read."""
    from pyspark.sql import DataFrame

    (tmp_path / "schemas.sql").write_text("USE shop;\nCREATE TABLE t (a int PRIMARY KEY);\n")
    names: dict[str, object] = {"spark": spark}
    blocks = code_blocks("docs/spark.md", "python")
    assert len(blocks) >= 6
    streams = 0
    for block in blocks:
        before = dict(names)
        execute(block, live_log, tmp_path, names)
        left = [value for name, value in names.items() if before.get(name) is not value]
        for frame in left:
            if isinstance(frame, DataFrame) and not frame.isStreaming:
                assert frame.count() > 0, block
        for query in {query.id: query for query in (*spark.streams.active, *queries(left))}.values():
            assert rows_of(query) > 0, block
            streams += 1
    assert streams >= 3
    spark.conf.unset("spark.sql.python.filterPushdown.enabled")  # the session goes on to other tests


def queries(values: list[object]) -> list[StreamingQuery]:
    from pyspark.sql.streaming.query import StreamingQuery

    return [value for value in values if isinstance(value, StreamingQuery)]


def rows_of(query: StreamingQuery) -> int:
    """Rows that came when all that is there has been read; the query is stopped then."""
    try:
        if query.isActive:
            query.processAllAvailable()
        failure = query.exception()
        if failure is not None:
            raise failure
        return sum(progress.numInputRows for progress in query.recentProgress)
    finally:
        query.stop()


# --- how they are run ----------------------------------------------------------------------------------------------


def execute(block: CodeBlock, log: LiveLog, directory: Path, names: dict[str, object]) -> None:
    """Run *block* in *names*; an error says where it stands in the document."""
    # As many lines in front as the document has, so that tracebacks point into it.
    text = "\n" * (block.line - 1) + placed(block.text, log, directory)
    exec(compile(text, block.document, "exec"), names)


class Output:
    """What a process prints, line by line, with a limit on how long is waited for it."""

    def __init__(self, stream: IO[str]) -> None:
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._seen: list[str] = []
        self._thread = threading.Thread(target=self._read, args=(stream,), daemon=True)
        self._thread.start()

    def read_until(self, expression: str) -> str:
        """The next line in which *expression* is found."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                line = self._lines.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                line = None
            if line is None:
                raise AssertionError(f"no line with {expression} came:\n{self.text()}")
            self._seen.append(line)
            if re.search(expression, line):
                return line

    def has_line(self) -> bool:
        """Whether something was printed that has not been read."""
        return not self._lines.empty()

    def text(self) -> str:
        """The last of what was printed."""
        return "".join(self._seen[-60:])

    def join(self) -> None:
        """Wait for the end of the stream."""
        self._thread.join()

    def _read(self, stream: IO[str]) -> None:
        for line in stream:
            self._lines.put(line)
        self._lines.put(None)


@contextlib.contextmanager
def running(command: list[str], directory: Path, environment: dict[str, str]) -> Iterator[Output]:
    """A process and what it prints; it is interrupted at the end, and its children with it."""
    process = subprocess.Popen(
        command,
        cwd=directory,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    output = Output(process.stdout)
    try:
        yield output
        assert process.poll() is None, output.text()
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGINT)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # workers that it left
        output.join()
        process.stdout.close()


def test_every_document_s_folders_are_given_places(tmp_path: Path) -> None:
    """Nothing of an example is written into a folder that a machine has."""
    log = LiveLog(tmp_path / "log", "innodb", lambda: None)
    for document in ("README.md", "docs/spark.md"):
        for block in code_blocks(document, "python"):
            rest = placed(block.text, log, tmp_path).replace(str(tmp_path), "")
            assert re.findall(r'"(/(?!log|data)[a-z]+/[^"]*)"', rest) == [], block
