"""The demo of topics: `run_publish_demo` publishes a live log to a Kafka broker, killed on the way, and compares."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

from binlog_connector.envelope.options import DecimalHandling, TimePrecision, UnsignedBigintHandling
from binlog_lab.demo.processes import PublishProcess
from binlog_lab.demo.proof.topics import compare_topics
from binlog_lab.demo.run import DemoSource, compile_kernels, log_source, prepare_directory, remove_all_but_the_picture
from binlog_lab.demo.servers.fetch import KAFKA, fetch
from binlog_lab.demo.servers.kafka_broker import KafkaBroker
from binlog_lab.demo.state import DemoState
from binlog_lab.demo.view import DemoView
from binlog_streaming.settings.publish_model import FollowedSource, KafkaSink, PublishJob
from binlog_streaming.settings.source_texts import publish_job_text

if TYPE_CHECKING:
    from pathlib import Path

    from binlog_lab.demo.reports import DemoPublishReport
    from binlog_lab.demo.sources import DemoLogSource

PREFIX = "demo"
PARTITIONS = 3
KILLS = 5
KILLED_AFTER = 2
"""Reports, about a second each, that a process makes before it is killed."""
LOOK_SECONDS = 0.1


def run_publish_demo(
    source: DemoSource, directory: Path, *, rows: int, seconds: float, keep: bool, view: DemoView | None = None
) -> bool:
    """Publish a live log, kill the publisher again and again, and compare; whether every topic gives the same rows.

    Args:
        directory: Where log, broker and checkpoint go.
        rows: Row changes of the workload, about.
        seconds: Time in which they are written, or for which a server is under load.
        keep: Leave the files there in the end.
        view: Where it tells what it does.
    """
    view = view or DemoView()
    directory = directory.resolve()
    prepare_directory(directory)
    writer = log_source(source, directory, rows=rows, seconds=seconds)
    view.title(writer.title, "topics of Kafka", by="publish")
    with view.step("Compiling kernels, once", "Kernels are compiled"):
        compile_kernels()
    fetch(KAFKA, view)
    with contextlib.ExitStack() as stack:
        with view.step("Starting a Kafka broker", "A Kafka broker runs on this machine"):
            broker = stack.enter_context(KafkaBroker(directory / "kafka"))
        job = demo_job(directory, broker.servers)
        state = DemoState()
        stack.enter_context(writer)
        writer.start(directory / "log", state, view)
        published, kills = _publish(directory, writer, state, view)
        with view.step("Rebuilding every table from its topic", "Every table is rebuilt, and every row compared"):
            comparisons = list(compare_topics(broker.servers, job.sink.topic_prefix, writer.expected_tables()))
    view.result(comparisons)
    view.verdict(comparisons)
    equal = all(comparison.is_equal for comparison in comparisons)
    view.facts([("messages", f"{published:,} told of, by {kills + 2} processes, {kills} of them killed (kill -9)")])
    if equal and not keep:
        remove_all_but_the_picture(directory)
    return equal


def demo_job(directory: Path, servers: str) -> PublishJob:
    """The job, also as the file `job.toml` in *directory*; `read_topic` decodes what it writes."""
    job = PublishJob(
        name="demo",
        source=FollowedSource(path=str(directory / "log")),
        sink=KafkaSink(
            kind="kafka",
            bootstrap_servers=servers,
            topic_prefix=PREFIX,
            partitions=PARTITIONS,
            decimal_handling=DecimalHandling.STRING,
            unsigned_bigint_handling=UnsignedBigintHandling.PRECISE,
            time_precision=TimePrecision.MICROSECONDS,
            transaction_metadata=True,
            schema_changes=True,
        ),
        checkpoint=str(directory / "checkpoint"),
    )
    (directory / "job.toml").write_text(publish_job_text(job))
    return job


def _publish(directory: Path, writer: DemoLogSource, state: DemoState, view: DemoView) -> tuple[int, int]:
    """Publish until all that *writer* writes is in the topics; messages that processes told of, and kills."""
    reports: list[DemoPublishReport] = []

    def start(*, once: bool = False) -> PublishProcess:
        log_file = directory / "publish.log"
        return PublishProcess(directory / "job.toml", log_file=log_file, listener=reports.append, once=once)

    kills = 0
    process = start()
    try:
        process.wait_for_first_report()
        writer.go_on()
        with view.step("PublisherOptions the log while it is written", "The log is published as it was written") as say:
            since = 0
            while not state.snapshot().is_written:
                writer.check()
                process.check()
                if len(reports) - since >= KILLED_AFTER and kills < KILLS:
                    process.kill()
                    kills += 1
                    say(f"{_messages(reports):,} messages; kill -9, the {kills}. time")
                    process, since = start(), len(reports)
                time.sleep(LOOK_SECONDS)
    finally:
        process.stop()
    with view.step("PublisherOptions what is left", "All of the log is in the topics"), start(once=True) as last:
        last.wait()
    return _messages(reports), kills


def _messages(reports: list[DemoPublishReport]) -> int:
    return sum(sum(report.messages.values()) for report in reports if isinstance(report.messages, dict))
