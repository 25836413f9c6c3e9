"""`check` ends as `run --once` does, whatever is wrong with whatever kind of job: the same status, the same words."""

from __future__ import annotations

import errno
import os
import re
import shutil
import socket
import subprocess
import sys
import uuid
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from binlog_format.structured.layout import SIZE_STRUCT
from binlog_lab.event_encoding.table_encoding import ColumnSpec, TableSpec
from binlog_lab.simulator.structured.program import LoggingProgram
from binlog_streaming.cli.status.observing import NO_PAGE, TOKEN_VARIABLE, observed
from binlog_streaming.jobs.mirror import any_job_at
from binlog_streaming.status.page.serving import TOKEN_LENGTH_MIN
from binlog_streaming.status.view import StatusFile
from tests.faults.small_disk import fill, small_disk
from tests.program import run_program
from tests.streaming.tables.shop import ShopLog

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

TABLES, TOPICS, EVENTS, FROM_TOPICS = "tables", "topics", "events", "from topics"
RUN = {TABLES: "run", TOPICS: "publish", EVENTS: "run", FROM_TOPICS: "run"}
MARKS = {TABLES: [pytest.mark.spark], TOPICS: [pytest.mark.server], EVENTS: [], FROM_TOPICS: [pytest.mark.server]}
IN_LAKE = (TABLES, EVENTS, FROM_TOPICS)
OF_DATABASE = (TABLES, TOPICS)
OF_LOG = (*OF_DATABASE, EVENTS)
ALL = (*IN_LAKE, TOPICS)
ELSEWHERE = "203.0.113.9"
"""An address of documentation, which no machine has."""
DENIED_PORT = 81
TABLE, OTHER = (TableSpec("shop", name, (ColumnSpec("id", "int"), ColumnSpec("n", "int")), ("id",)) for name in "tu")
WITHOUT = """
import sys
sys.modules.update(dict.fromkeys(sys.argv.pop(1).split(",")))
from binlog_streaming.cli import main
main()
"""
"""The program in a process that has not imported a package before it is missing."""
LOGGED = 4
"""Transactions in the log of each trial."""


class Trial:
    """A job file of one kind that can run, in a folder of its own, and what gets in its way."""

    def __init__(self, kind: str, folder: Path, patch: pytest.MonkeyPatch, servers: str) -> None:
        self.kind, self.folder, self.patch, self.arguments = kind, folder, patch, list[str]()
        self.file, self.log = folder / "job.toml", folder / "log"
        self.source = self.kafka = f'bootstrap_servers = "{servers}"\n'
        if kind == EVENTS:
            self.source = f'path = "{self.log}"\nformat = "structured"\n'
        elif kind in OF_DATABASE:
            self.source = f'path = "{self.log}"\n'
        self.sink = f'directory = "{folder / "tables"}"\n'
        if kind == TOPICS:
            self.sink = f'kind = "kafka"\n{self.kafka}topic_prefix = "c{uuid.uuid4().hex[:9]}"\n'
            self.sink += "partitions = 1\nschemas_enable = true\n"
        self.rule, self.rest, self.resources = "", "", ExitStack()
        self.checkpoint = folder / "checkpoint"
        self.missing = ""

    def write(self) -> None:
        """Write the log, if there is none, and the job file."""
        self.file.write_text(
            f'checkpoint = "{self.checkpoint}"\n{self.rest}[source]\n{self.source}[sink]\n{self.sink}'
            f"[[tables]]\n{self.rule}"
        )

    def ended(self, command: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        self.write()
        if self.missing:
            given = map(str, (command, self.file, *arguments, *self.arguments))
            words = [sys.executable, "-c", WITHOUT, self.missing, *given]
            return subprocess.run(words, capture_output=True, text=True, check=False, timeout=300)
        return run_program(command, self.file, *arguments, *self.arguments)

    def ran(self) -> Trial:
        """Let it run before, without what gets in its way."""
        done = self.ended(RUN[self.kind], "--once")
        assert done.returncode == 0, done.stderr
        return self

    def set(self, part: str, line: str) -> Trial:
        """Add a line to a part of the job file."""
        setattr(self, part, f"{getattr(self, part)}{line}\n")
        return self

    def cut(self, part: str, text: str) -> Trial:
        """Remove *text* from a part of the job file."""
        setattr(self, part, getattr(self, part).replace(text, ""))
        return self

    def put(self, name: str) -> Trial:
        """Put a file where the job would have something else."""
        (self.folder / name).parent.mkdir(exist_ok=True)
        (self.folder / name).write_text("{}")
        return self

    def other_table(self) -> Trial:
        """Somebody else's table is where the job would make one."""
        write_deltalake(str(self.folder / "tables" / "shop" / "t"), pa.table({"id": [1]}))
        return self

    def no_topic(self) -> Trial:
        """Nobody has created the topic of the one table that is published."""
        return self.cut("sink", "partitions = 1\n").set("rule", 'select = "shop[.]t"')

    def gone(self) -> Trial:
        """The tables are gone."""
        shutil.rmtree(self.folder / "tables")
        return self

    def other_log(self) -> Trial:
        """Another log is in the place of the one that was read."""
        shutil.rmtree(self.log)
        with ShopLog(self.log) as shop:
            shop.insert(TABLE, (1, 1))
        return self

    def logs_more(self) -> Trial:
        """One more row, or event, is in the log."""
        if self.kind == EVENTS:
            with LoggingProgram(self.log) as program:
                program.log(1)
            return self
        with ShopLog(self.log, LOGGED) as shop:
            shop.insert(TABLE, (2, 2))
        return self

    def damaged(self) -> Trial:
        """The log has a place that cannot be read."""
        file = min(self.log.iterdir())
        content, at = bytearray(file.read_bytes()), 64
        if self.kind == EVENTS:
            at = 0
            while at < len(content) // 2:
                at += SIZE_STRUCT.size + SIZE_STRUCT.unpack_from(content, at)[0]
        SIZE_STRUCT.pack_into(content, at, 1)  # smaller than any entry; pages have checksums
        file.write_bytes(content)
        return self

    def away(self, what: str) -> Trial:
        """A server that the job needs does not answer."""
        port = closed_port()
        if what == "broker":
            self.kafka = self.kafka and f'bootstrap_servers = "127.0.0.1:{port}"\n'
            for part in ("source", "sink"):
                text = getattr(self, part)
                setattr(self, part, re.sub('bootstrap_servers = ".*"', f'bootstrap_servers = "127.0.0.1:{port}"', text))
        elif what == "catalog":
            self.sink += f'format = "iceberg"\ncatalog = {{type = "rest", uri = "http://127.0.0.1:{port}"}}\n'
        else:
            options = f'AWS_ENDPOINT_URL = "http://127.0.0.1:{port}", AWS_ALLOW_HTTP = "true", AWS_REGION = "x"'
            keys = 'AWS_ACCESS_KEY_ID = "k", AWS_SECRET_ACCESS_KEY = "s"'
            self.sink = f'directory = "s3://bucket/tables"\nstorage = {{{options}, {keys}}}\n'
        return self

    def without(self, *modules: str) -> Trial:
        """A package is not installed."""
        for module in modules:
            self.patch.setitem(sys.modules, module, None)
        return self

    def without_format(self, table_format: str, library: str) -> Trial:
        """What writes the tables is not installed."""
        self.missing = library
        return self.set("sink", f'format = "{table_format}"')

    def full(self, name: str) -> Trial:
        """The disk of a folder has no room."""
        if not self.resources.enter_context(small_disk(self.folder / name, 1)):
            pytest.skip("no disk may be mounted here")
        fill(self.folder / name)
        return self

    def logs(self, statement: str) -> Trial:
        """A statement that changes rows is in the log, and no row events of it."""
        with ShopLog(self.log, LOGGED) as shop:
            shop.statement(statement)
        return self

    def taken_port(self) -> int:
        return int(self.resources.enter_context(socket.create_server(("127.0.0.1", 0))).getsockname()[1])

    def denied_port(self) -> int:
        bind = socket.socket.bind

        def refusing(listening: socket.socket, address: tuple[str, int]) -> None:
            if address[1] == DENIED_PORT:
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
            bind(listening, address)

        self.patch.setattr(socket.socket, "bind", refusing)
        return DENIED_PORT

    def metrics(self, port: int, host: str = "127.0.0.1") -> Trial:
        return self.set("rest", f'metrics.port = {port}\nmetrics.host = "{host}"')

    def page(self, address: str, token: str = "t" * TOKEN_LENGTH_MIN) -> Trial:
        self.arguments = ["--status", address]
        self.patch.setenv(TOKEN_VARIABLE, token)
        return self


def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


@dataclass(frozen=True, slots=True)
class Problem:
    """What gets in a job's way.

    Attributes:
        status: Exit status of `run`; like *condition* it keeps a case from being one of another problem than it says.
        kinds: Kinds of jobs that can have it.
    """

    name: str
    make: Callable[[Trial], object]
    status: int
    condition: str = ""
    kinds: tuple[str, ...] = ALL


def rule(text: str) -> Callable[[Trial], object]:
    return lambda trial: trial.set("rule", text)


def source(text: str) -> Callable[[Trial], object]:
    return lambda trial: trial.set("source", text)


def without_format(table_format: str, library: str) -> Callable[[Trial], object]:
    return lambda trial: trial.without_format(table_format, library)


OPTION = "BINLOG_OPTION.INVALID_VALUE"
IN_USE, DENIED = "BINLOG_MACHINE.PORT_IN_USE", "BINLOG_PERMISSION.DENIED"
STATEMENT = "BINLOG_UNSUPPORTED.STATEMENT_FORMAT"
NO_TOPIC = "BINLOG_KAFKA.TOPIC_NOT_FOUND"
PROBLEMS = (
    Problem("nothing", lambda t: None, 0),
    Problem("nothing waits", Trial.ran, 0),
    Problem("metrics: taken", lambda t: t.metrics(t.taken_port()), 1, IN_USE),
    Problem("metrics: no right", lambda t: t.metrics(t.denied_port()), 1, DENIED),
    Problem("metrics: elsewhere", lambda t: t.metrics(0, ELSEWHERE), 2, OPTION),
    Problem("metrics: no such host", lambda t: t.metrics(0, "no-such-host.invalid"), 2, OPTION),
    Problem("metrics: no port", lambda t: t.metrics(99_999), 2, OPTION),
    Problem("page: taken", lambda t: t.page(f"127.0.0.1:{t.taken_port()}"), 1, IN_USE),
    Problem("page: no right", lambda t: t.page(f"127.0.0.1:{t.denied_port()}"), 1, DENIED),
    Problem("page: elsewhere", lambda t: t.page(f"{ELSEWHERE}:0"), 2, OPTION),
    Problem("page: no address", lambda t: t.page("here"), 2, OPTION),
    Problem("page: short token", lambda t: t.page("0.0.0.0:0", "short"), 2, OPTION),
    Problem("unknown setting", rule("kyes = []"), 2, "BINLOG_OPTION.UNKNOWN"),
    Problem("checkpoint: a file", lambda t: t.put("checkpoint"), 1, "BINLOG_STORAGE.FAILED"),
    Problem("checkpoint: of what", lambda t: t.put("checkpoint/metadata"), 2, OPTION, (TABLES,)),
    Problem("checkpoint: of another kind", lambda t: t.put("checkpoint/topics.json"), 2, OPTION, (EVENTS, TABLES)),
    Problem("checkpoint: of another kind", lambda t: t.put("checkpoint/events.json"), 2, OPTION, (TOPICS, FROM_TOPICS)),
    Problem("directory: a file", lambda t: t.put("tables"), 1, "BINLOG_STORAGE.FAILED", IN_LAKE),
    Problem("two of them", lambda t: t.put("checkpoint").page("here"), 2, OPTION),
    Problem("no log", lambda t: t.log.rename(t.folder / "gone"), 1, "BINLOG_START.PATH_NOT_FOUND", OF_LOG),
    Problem("other log", lambda t: t.ran().other_log(), 1, "BINLOG_DATA_LOSS", OF_DATABASE),
    Problem("changed rule", lambda t: t.ran().set("rule", 'target = "x/{table}"'), 2, OPTION, (TABLES, FROM_TOPICS)),
    Problem("changed rule", lambda t: t.ran().set("rule", 'target = "x"'), 2, OPTION, (EVENTS,)),
    Problem("unknown GTID", source('startingGtid = "0-1-9999"'), 1, "BINLOG_START.GTID_NOT_FOUND", OF_DATABASE),
    Problem("wrong option", source('startingOffsets = "soon"'), 2, OPTION, OF_LOG),
    Problem("no schema file", source('schemaFile = "none.sql"'), 2, OPTION, OF_DATABASE),
    Problem("key: no column", rule('keys = ["nokey"]'), 1, "BINLOG_SCHEMA.NO_PRIMARY_KEY", (TABLES,)),
    Problem("key: no column", rule('keys = ["nokey"]'), 2, OPTION, (TOPICS,)),
    Problem("key: hidden", rule('columns = ["n"]'), 2, OPTION, (TABLES,)),
    Problem("drop: no column", rule('drop_columns = ["nmae"]'), 2, OPTION, OF_DATABASE),
    Problem("mask: no column", rule('mask = {nmae = "null"}'), 2, OPTION, OF_DATABASE),
    Problem("no salt", rule('mask = {n = "sha256"}\nsalt_variable = "NO"'), 2, "BINLOG_OPTION.MISSING", OF_DATABASE),
    Problem("one place", rule('target = "all"'), 1, "BINLOG_TABLE.SAME_TARGET", (TABLES,)),
    Problem("other writer", Trial.other_table, 1, "BINLOG_TABLE.OTHER_WRITER", (TABLES,)),
    Problem("set aside", lambda t: t.other_table().set("rest", 'on_error = "set_aside"'), 0, "", (TABLES,)),
    Problem("target gone", lambda t: t.ran().gone().logs_more(), 1, "BINLOG_TABLE.TARGET_GONE", (TABLES, EVENTS)),
    Problem("target gone, nothing waits", lambda t: t.ran().gone(), 0, "", IN_LAKE),
    Problem("damaged log", Trial.damaged, 1, "BINLOG_CORRUPT", OF_LOG),
    Problem("damaged log, skipped", lambda t: t.set("source", "skipDamaged = true").damaged(), 0, "", (EVENTS,)),
    Problem("store away", lambda t: t.away("store"), 1, "BINLOG", (EVENTS, FROM_TOPICS)),
    Problem("catalog away", lambda t: t.away("catalog"), 1, "BINLOG", (EVENTS, FROM_TOPICS)),
    Problem("broker away", lambda t: t.away("broker"), 1, "BINLOG_KAFKA", (TOPICS, FROM_TOPICS)),
    Problem("no package: prometheus", lambda t: t.metrics(0).without("prometheus_client"), 2, "BINLOG_OPTION.MISSING"),
    Problem(
        "no package: client",
        lambda t: t.set("sink", 'client = "confluent-kafka"').without("confluent_kafka"),
        2,
        "BINLOG_OPTION.MISSING",
        (TOPICS,),
    ),
    Problem(
        "no package: otel",
        lambda t: t.set("rest", "metrics.otlp = true").without(
            "opentelemetry", "opentelemetry.exporter.otlp.proto.http.metric_exporter"
        ),
        2,
        "BINLOG_OPTION.MISSING",
    ),
    *(
        Problem(
            f"no package: {library}", without_format(of, library), 2, "BINLOG_OPTION.MISSING", (EVENTS, FROM_TOPICS)
        )
        for of, library in (("delta", "deltalake"), ("iceberg", "pyiceberg"), ("iceberg", "sqlalchemy"))
    ),
    Problem("checkpoint: full disk", lambda t: t.full("checkpoint"), 1, "BINLOG_STORAGE"),
    Problem("directory: full disk", lambda t: t.full("tables"), 1, "BINLOG", IN_LAKE),
    Problem("incomplete", source('startingGtid = "0-1-1"'), 1, "BINLOG_TABLE.INCOMPLETE", (TABLES,)),
    Problem("statement", lambda t: t.logs("UPDATE shop.t SET n = 2"), 1, STATEMENT, OF_DATABASE),
    Problem("no topic", Trial.no_topic, 1, NO_TOPIC, (TOPICS,)),
    Problem("no topic", lambda t: t.cut("source", "shop"), 1, NO_TOPIC, (FROM_TOPICS,)),
)


@pytest.fixture
def trial(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Trial:
    servers = request.getfixturevalue("kafka_broker").servers if kind in (TOPICS, FROM_TOPICS) else ""
    if kind == EVENTS:
        with LoggingProgram(tmp_path / "log") as program:
            program.log(50)
    else:
        with ShopLog(tmp_path / "log") as shop:
            for spec in (TABLE, OTHER):
                shop.statement(spec.create_statement())
                shop.insert(spec, (1, 1))
    made = Trial(kind, tmp_path, monkeypatch, servers)
    if kind == FROM_TOPICS:
        first = Trial(TOPICS, tmp_path, monkeypatch, servers)
        first.checkpoint = tmp_path / "publishing"
        first.ran()
        prefix = re.search('topic_prefix = "(.*)"', first.sink)
        assert prefix is not None
        made.source = f'kind = "kafka"\n{made.kafka}topics = "{prefix[1]}[.]shop[.].*"\n'
    return made


def first_error(done: subprocess.CompletedProcess[str]) -> str:
    """What a program ended with, or says that a job would end with; empty: nothing."""
    told = re.search(r"^(?:problem|error): (.*)", f"{done.stdout}\n{done.stderr}", re.MULTILINE)
    if told is None:
        return ""
    words = re.sub(r"of query ([\w-]+|\(none yet\))", "of query ...", told[1])
    words = re.sub(r"\bin [\d.]+m?s\b|follow at byte 0x\w+", "...", words)
    # Which of two tables comes to their place first is chance.
    return re.sub(r"shop\.[tu]\b", "shop.?", words) if "SAME_TARGET" in words else words


def each_problem(*kinds: str) -> pytest.MarkDecorator:
    """Of these kinds of jobs."""
    cases = [
        pytest.param(kind, problem, id=f"{kind}: {problem.name}", marks=MARKS[kind])
        for problem in PROBLEMS
        for kind in problem.kinds
        if kind in kinds
    ]
    return pytest.mark.parametrize(("kind", "problem"), cases)


@each_problem(TABLES)
def test_check_ends_as_the_job_of_tables_does(spark: SparkSession, kind: str, problem: Problem, trial: Trial) -> None:
    compare_check(kind, problem, trial)


# Jobs of events ask for these in the same place.
@pytest.mark.thorough_where("from topics: no package: (pyiceberg|sqlalchemy)")
@each_problem(EVENTS, TOPICS, FROM_TOPICS)
def test_check_ends_as_the_job_does(kind: str, problem: Problem, trial: Trial) -> None:
    compare_check(kind, problem, trial)


def compare_check(kind: str, problem: Problem, trial: Trial) -> None:
    with trial.resources:
        problem.make(trial)
        checked, ran = trial.ended("check"), trial.ended(RUN[kind], "--once")
    assert (ran.returncode, problem.condition in first_error(ran)) == (problem.status, True), ran
    said, ended = first_error(checked), first_error(ran)
    condition, _, words = ended.partition(" ")
    words = words.removeprefix("shop.t: ")  # check names all tables of a problem
    assert (checked.returncode, condition in said, words in said) == (ran.returncode, True, True), (said, ended)
    assert bool(said) == bool(ended)


@pytest.mark.parametrize("kind", [EVENTS])
def test_a_port_is_excused_where_the_running_job_listens_and_nowhere_else(trial: Trial) -> None:
    trial.metrics(closed_port()).write()
    job = any_job_at(str(trial.file))
    with trial.resources, observed(job, NO_PAGE) as recorder:
        StatusFile(job).write(recorder.state())
        assert trial.ended("check").returncode == 0
        trial.rest = ""
        checked = trial.metrics(trial.taken_port()).ended("check")
    assert (checked.returncode, IN_USE in first_error(checked)) == (1, True)


@pytest.mark.parametrize(("kind", "missing"), [(TABLES, "BINLOG_MACHINE.NO_JAVA"), (TABLES, "BINLOG_OPTION.MISSING")])
def test_what_spark_needs_is_a_warning_as_the_job_may_run_elsewhere(
    missing: str, trial: Trial, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if missing == "BINLOG_MACHINE.NO_JAVA":
        monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    else:
        trial.without("pyspark")
    with trial.resources:
        checked = trial.ended("check")
    assert (checked.returncode, first_error(checked)) == (0, "")
    assert f"warning: [{missing}]" in checked.stderr
