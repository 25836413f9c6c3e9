"""`publish`, `check` and `init --for kafka` as a user meets them, with a real broker."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import urllib.request
import uuid
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from binlog_connector.following.offsets import SourceOffset
from binlog_connector.kafka.connection import Connection
from binlog_connector.kafka.topics import Topics
from binlog_format.position import Position
from binlog_lab.demo.proof.topics import read_topic
from binlog_lab.demo.servers.kafka_broker import GUEST, USER
from binlog_streaming.cli.jobs.lines import PublishJsonLines
from binlog_streaming.settings.source_texts import publish_job_text
from binlog_streaming.topics.record import Published, Records
from tests.program import PROGRAM, run_program
from tests.streaming.topics.publishing import (
    LogWriting,
    Recording,
    assert_topics_hold,
    changes_in,
    publish_job,
    recorded,
)

if TYPE_CHECKING:
    from pathlib import Path

    from binlog_streaming.settings import PublishJob
    from tests.faults.kafka_broker import KafkaBroker

pytestmark = pytest.mark.server


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    return recorded(tmp_path_factory.mktemp("recorded") / "log", 1500)


@pytest.fixture
def job(kafka_broker: KafkaBroker, recording: Recording, tmp_path: Path) -> PublishJob:
    return publish_job(tmp_path, recording.directory, kafka_broker)


@pytest.fixture
def job_file(job: PublishJob, tmp_path: Path) -> Path:
    file = tmp_path / "job.toml"
    file.write_text(publish_job_text(job))
    return file


def json_lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_check_publish_and_check_again(job: PublishJob, job_file: Path, recording: Recording) -> None:
    before = run_program("check", job_file)
    assert before.returncode == 0, before.stdout + before.stderr
    assert "it has published nothing yet" in before.stdout
    assert "not there yet" in before.stdout
    published = run_program("publish", job_file, "--once")
    assert (published.returncode, published.stderr) == (0, "")
    assert re.search(r"^ended: [\d,]+ messages?, [\d,]+ transactions? of the log$", published.stdout, re.MULTILINE)
    assert_topics_hold(job, recording)
    after = json_lines(run_program("check", job_file, "-o", "jsonl").stdout)
    start = next(line for line in after if line["kind"] == "start")
    assert (start["is_new"], start["size_behind"]) == (False, 0)
    topics = {line["topic"]: line for line in after if line["kind"] == "topic"}
    lines = topics[f"{job.sink.topic_prefix}.shop.order_lines"]
    assert (lines["keys"], lines["partitions"]) == (["order_id", "line_no"], 3)


def test_lines_for_programs(job_file: Path) -> None:
    lines = json_lines(run_program("publish", job_file, "--once", "-o", "jsonl").stdout)
    assert [line["event"] for line in lines] == ["started", *["published"] * (len(lines) - 2), "ended"]
    counts = [count for line in lines if line["event"] == "published" for count in line["messages"].values()]
    assert sum(counts) == lines[-1]["messages"] > 0


def test_check_ends_as_publish_does_where_a_setting_changed(job_file: Path) -> None:
    assert run_program("publish", job_file, "--once").returncode == 0
    text = job_file.read_text()
    job_file.write_text(text.replace('topic_prefix = "', 'topic_prefix = "other-'))
    for command in (("check",), ("publish", "--once")):
        ended = run_program(*command, job_file)
        assert ended.returncode == 2, ended.stdout + ended.stderr
        told = " ".join((ended.stdout + ended.stderr).split())
        assert "[BINLOG_OPTION.INVALID_VALUE]" in told
        assert "sink.topic_prefix: this checkpoint was begun with" in told


def test_check_names_what_is_missing(job_file: Path) -> None:
    job_file.write_text(job_file.read_text().replace("partitions = 3", "# partitions = 3"))
    checked = run_program("check", job_file)
    assert checked.returncode == 1
    assert "there is no such topic. Create it, or bring it back, or let the job create it" in " ".join(
        checked.stdout.split()
    )


def test_a_job_of_init_publishes(kafka_broker: KafkaBroker, recording: Recording, tmp_path: Path) -> None:
    made = run_program("init", recording.directory, "--for", "kafka")
    assert (made.returncode, made.stderr) == (0, "")
    text = made.stdout.replace("127.0.0.1:9092", kafka_broker.servers)
    text = text.replace('topic_prefix = "binlog"', 'topic_prefix = "init"\npartitions = 1')
    text = text.replace('# unsigned_bigint_handling = "long"', 'unsigned_bigint_handling = "precise"')
    (tmp_path / "job.toml").write_text(text)
    assert run_program("check", tmp_path / "job.toml").returncode == 0
    assert run_program("publish", tmp_path / "job.toml", "--once").returncode == 0


def test_init_refuses_a_format_of_topics(recording: Recording) -> None:
    assert run_program("init", recording.directory, "--for", "kafka", "--format", "delta").returncode == 2


def test_a_log_is_published_without_a_job_file(kafka_broker: KafkaBroker, recording: Recording, tmp_path: Path) -> None:
    home = {"XDG_STATE_HOME": str(tmp_path)}
    prefix = f"try-{uuid.uuid4().hex[:8]}"
    command = ["publish", recording.directory, "--to", f"{kafka_broker.servers}/{prefix}", "--once"]
    done = run_program(*command, "--tables", r"shop\.orders", environment=home)
    assert (done.returncode, done.stderr) == (0, "")
    told = re.search(r"^job file: (\S+/job.toml)$", done.stdout, re.MULTILINE)
    assert told is not None
    (truth,) = (one for one in recording.expected_tables if one.name == "shop.orders")
    published = len(list(read_topic(kafka_broker.servers, f"{prefix}.shop.orders")))
    assert published == changes_in(truth) > 0
    with Topics(Connection(kafka_broker.servers)) as topics:
        assert topics.partition_count(f"{prefix}.shop.order_lines") is None
    again = run_program(*command, "--tables", r"shop\.orders", environment=home)
    assert "ended: 0 messages" in again.stdout
    other = run_program("publish", tmp_path, "--to", f"{kafka_broker.servers}/{prefix}", environment=home)
    assert other.returncode == 1
    # The file that it writes is the same job, to go on with.
    assert "ended: 0 messages" in run_program("publish", told[1], "--once").stdout
    assert run_program("check", told[1]).returncode == 0


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["LOG"], "Without a job file: binlog-stream publish LOG --to HOST:PORT/PREFIX"),
        (["LOG", "--to", "broker:9092"], "--to: expected HOST:PORT/PREFIX, got 'broker:9092'. For example"),
        (["LOG", "--to", "broker/shop"], "--to: expected host:port,host:port, got 'broker'"),
        (["LOG", "--to", "broker:9092/a b"], "--to: expected a name of letters, digits, dots, _ and -, got 'a b'"),
        (["LOG", "--to", "broker:9092/shop", "--tables", "("], "--tables: "),
        (["job.toml", "--tables", "x"], "--tables: it is for --to; a job file names the tables"),
        (["LOG/nowhere", "--to", "broker:9092/shop"], "there is no such directory or file"),
    ],
)
def test_mistakes_of_publishing_without_a_job_file(
    recording: Recording, tmp_path: Path, arguments: list[str], told: str
) -> None:
    log = str(recording.directory)
    given = [argument.replace("LOG", log) for argument in arguments]
    done = run_program("publish", *given, environment={"XDG_STATE_HOME": str(tmp_path)})
    assert done.returncode in {1, 2}
    assert told.replace("LOG", log) in " ".join(done.stderr.split())
    assert list(tmp_path.iterdir()) == []


def test_run_says_which_command_publishes(job_file: Path) -> None:
    done = run_program("run", job_file)
    assert done.returncode == 2
    assert "binlog-stream publish" in done.stderr


@pytest.mark.parametrize("command", ["publish", "check"])
@pytest.mark.parametrize("client", ["kafka-python", "confluent-kafka"])
def test_a_wrong_password_is_named_and_not_shown(
    kafka_broker: KafkaBroker, recording: Recording, tmp_path: Path, command: str, client: str
) -> None:
    security = f"[sink.security]\ntls = true\nca_file = '{kafka_broker.ca_file}'\nuser = '{USER}'\n"
    security += "password_variable = 'THE_PASSWORD'\n"
    job = publish_job(tmp_path, recording.directory, kafka_broker, client=client, more=security)
    text = publish_job_text(job).replace(kafka_broker.servers, kafka_broker.secure_servers)
    (tmp_path / "job.toml").write_text(text)
    wrong = run_program(command, tmp_path / "job.toml", environment={"THE_PASSWORD": "correct horse"})
    assert wrong.returncode == 1
    assert "BINLOG_KAFKA.AUTHENTICATION" in wrong.stderr
    assert "correct horse" not in wrong.stdout + wrong.stderr
    password = kafka_broker.passwords[USER]
    right = run_program(command, tmp_path / "job.toml", "--once", environment={"THE_PASSWORD": password})
    if command == "publish":
        assert right.returncode == 0, right.stderr
        assert password not in right.stdout + right.stderr


def test_who_may_not_write_is_told(kafka_broker: KafkaBroker, recording: Recording, tmp_path: Path) -> None:
    security = f"[sink.security]\ntls = true\nca_file = '{kafka_broker.ca_file}'\nuser = '{GUEST}'\n"
    security += "password_variable = 'THE_PASSWORD'\n"
    job = publish_job(tmp_path, recording.directory, kafka_broker, more=security)
    text = publish_job_text(job).replace(kafka_broker.servers, kafka_broker.secure_servers)
    (tmp_path / "job.toml").write_text(text)
    password = {"THE_PASSWORD": kafka_broker.passwords[GUEST]}
    done = run_program("publish", tmp_path / "job.toml", "--once", environment=password)
    assert (done.returncode, "BINLOG_KAFKA.DENIED" in done.stderr) == (1, True), done.stderr


def test_what_came_last_has_its_line_when_nothing_follows(capfd: pytest.CaptureFixture[str]) -> None:
    """However soon after another line it came; a fast machine publishes a whole log before a second is over."""
    lines = PublishJsonLines(clock=lambda: 0.0)
    offset = SourceOffset(Position(0, 1, 0), format="innodb")
    for groups in (3, 4):
        lines.batch(Published(offset, groups, 100, None, Records(Counter({"a": groups})), 0.1, 1))
    assert capfd.readouterr().out == ""
    lines.idle()
    (line,) = json_lines(capfd.readouterr().out)
    assert (line["event"], line["transactions"], line["messages"]) == ("published", 7, {"a": 7})
    lines.idle()
    assert capfd.readouterr().out == ""


def test_metrics_tell_of_topics_and_transactions(job: PublishJob, job_file: Path) -> None:
    job_file.write_text(job_file.read_text().replace("# port = 9187", "port = 0"))
    with subprocess.Popen(
        [PROGRAM, "publish", str(job_file), "-o", "jsonl"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        started = json.loads(process.stdout.readline())
        json.loads(process.stdout.readline())  # all of the log is published
        with urllib.request.urlopen(str(started["metrics"]), timeout=300) as answer:
            text = answer.read().decode()
        process.send_signal(signal.SIGTERM)
        rest, errors = process.communicate(timeout=300)
    assert (process.returncode, errors) == (0, "")
    assert json_lines(rest)[-1]["event"] == "stopped"
    prefix = job.sink.topic_prefix
    for line in (
        rf'topic_records_total\{{name="job",topic="{prefix}\.shop\.orders"\}} [1-9]',
        rf'topic_bytes_total\{{name="job",topic="{prefix}\.shop\.orders"\}} [1-9]',
        r'kafka_transactions_total\{name="job",outcome="committed"\} [1-9]',
        r'kafka_transactions_total\{name="job",outcome="aborted"\} 0',
        r'lag_bytes\{name="job"\} 0',
        r'lag_seconds\{name="job"\} 0',
    ):
        assert re.search(f"^binlog_stream_{line}", text, re.MULTILINE), line


@pytest.mark.parametrize("kills", [2, pytest.param(30, marks=pytest.mark.thorough)])
def test_the_program_is_killed_while_the_log_is_written(kafka_broker: KafkaBroker, tmp_path: Path, kills: int) -> None:
    with LogWriting(tmp_path / "log", 1500 * kills) as writing:
        writing.write(50)
        job = publish_job(tmp_path, writing.directory, kafka_broker)
        (tmp_path / "job.toml").write_text(publish_job_text(job))
        is_more, killed = True, 0
        while is_more or killed < kills:
            with subprocess.Popen(
                [PROGRAM, "publish", str(tmp_path / "job.toml"), "-o", "jsonl"], stdout=subprocess.PIPE
            ) as process:
                assert process.stdout is not None
                assert b"started" in process.stdout.readline()
                for _ in range(40):
                    is_more = writing.write(40)
                process.kill()
            killed += 1
        recording = writing.recording()
    assert run_program("publish", tmp_path / "job.toml", "--once").returncode == 0
    assert_topics_hold(job, recording)
