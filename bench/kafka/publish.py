"""A log into Kafka, as `binlog-stream publish` does it, and out of it: `kafka.confluent.rows_per_s`, `kafka.back...`.

Exactly-once, acks=all, Debezium's envelope without schemas, tombstones after deletes; one process, one broker.
The split between decoding, envelope, producer and broker goes to standard error, in processor time.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np
from kafka import KafkaConsumer, TopicPartition

from bench.logs.sysbench_log import TRANSACTIONS, sysbench_log
from bench.logs.tick_log import COMMITS_PER_S, TICKS, TickWriter
from bench.processes import Role, cpu_seconds
from bench.registry import benchmark, share
from binlog_connector.envelope.messages import MessagesView
from binlog_connector.envelope.options import EnvelopeOptions
from binlog_connector.kafka.topics import Topics
from binlog_format import open_log
from binlog_lab.demo.servers.kafka_broker import AS_SHIPPED, KafkaBroker
from binlog_streaming.settings.model import Sink
from binlog_streaming.settings.publish_model import Client, FollowedSource, KafkaSink, PublishJob
from binlog_streaming.settings.source_models import TopicSource, TopicTablesJob
from binlog_streaming.settings.source_texts import publish_job_text
from binlog_streaming.topic_tables.run import TopicTablesRun
from binlog_streaming.topics.job import TopicsJob

if TYPE_CHECKING:
    from collections.abc import Iterator

    from binlog_streaming.job_state.progress import BatchProgress
    from binlog_streaming.topics.record import Published

ROWS_PER_COMMIT = 40
"""2,000 row changes a second."""
WARM_UP_RUNS = 8
WARM_UP_S = 30
"""The Java of a broker compiles in that time what it runs often; a job publishes for months."""
MEASURED_S = 15
PREFIX = "bench"


@benchmark("kafka.confluent.rows_per_s", unit="rows/s")
def confluent() -> float:
    """Row changes of a log in sysbench's shape into four topics, exactly once, with confluent-kafka."""
    return _rows_per_s(Client.CONFLUENT_KAFKA)


@benchmark("kafka.python.rows_per_s", unit="rows/s")
def python() -> float:
    """The same with kafka-python."""
    return _rows_per_s(Client.KAFKA_PYTHON)


@benchmark("kafka.back.rows_per_s", unit="rows/s")
def back() -> float:
    """Row changes out of four topics, with schemas, into mirrors in Delta, exactly once; without the first batch."""
    log = sysbench_log(transactions=max(5_000, round(share() * TRANSACTIONS)))
    batches: list[tuple[BatchProgress, float, float]] = []  # and the time, of the clock and of processors

    def note(batch: BatchProgress) -> None:
        batches.append((batch, time.perf_counter(), time.process_time()))

    with _broker() as (work, broker):
        job = _job(work, log.path, broker, Client.AUTO)
        TopicsJob(
            msgspec.structs.replace(job, sink=msgspec.structs.replace(job.sink, schemas_enable=True)), once=True
        ).run()
        source = TopicSource(kind="kafka", bootstrap_servers=broker.servers, topics=rf"{PREFIX}\..*\.sbtest\d+")
        tables = TopicTablesJob(source=source, sink=Sink(directory=f"{work}/tables"), checkpoint=f"{work}/back")
        TopicTablesRun(tables, once=True, listener=note, batch_messages_max=50_000).run()
    changes = sum(batch.changes for batch, *_ in batches[1:])
    (_, begun, begun_cpu), (_, ended, ended_cpu) = batches[0], batches[-1]
    print(f"back: {changes / (ended_cpu - begun_cpu):,.0f} row changes a second of processor time", file=sys.stderr)
    return changes / (ended - begun)


@benchmark("kafka.latency_p95_ms", unit="ms")
def latency() -> float:
    """From a page on disk to a consumer of committed messages, 2,000 row changes/s, confluent-kafka: 95th perc.."""
    return _latency_ms(Client.CONFLUENT_KAFKA)


@benchmark("kafka.python.latency_p95_ms", unit="ms")
def python_latency() -> float:
    """The same with kafka-python."""
    return _latency_ms(Client.KAFKA_PYTHON)


def _latency_ms(client: Client) -> float:
    late: list[tuple[int, int]] = []
    with _broker() as (work, broker):
        writer = TickWriter(work / "log", ROWS_PER_COMMIT)
        job = _job(work, work / "log", broker, client)
        topic = f"{PREFIX}.{TICKS.full_name}"
        with Topics(TopicsJob(job).connection) as topics:
            topics.create(topic, partitions=1, settings={})
        (work / "job.toml").write_text(publish_job_text(job))
        is_over = threading.Event()
        consumer = threading.Thread(target=_consume, args=(broker.servers, topic, late, is_over))
        program = "from binlog_streaming.cli import main; main()"
        command = [sys.executable, "-c", program, "publish", f"{work}/job.toml"]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as publisher:
            consumer.start()
            writer.start()
            while not late and publisher.poll() is None:
                time.sleep(0.1)
            time.sleep(share() * WARM_UP_S)
            begin = time.time_ns()
            time.sleep(share() * MEASURED_S)
            end = time.time_ns()
            time.sleep(1)  # what was written last must count, however late it comes
            is_over.set()
            consumer.join()
            writer.stop()
            publisher.terminate()
    taken = [(there - written) / 1e6 for written, there in late if begin <= written < end]
    assert len(taken) > share() * MEASURED_S * COMMITS_PER_S * ROWS_PER_COMMIT / 2, f"only {len(taken)} rows arrived"
    return float(np.percentile(taken, 95))


@contextlib.contextmanager
def _broker() -> Iterator[tuple[Path, KafkaBroker]]:
    with contextlib.ExitStack() as stack:
        work = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="binlog-stream-bench-")))
        yield work, stack.enter_context(KafkaBroker(work / "kafka", java_options=AS_SHIPPED))


def _rows_per_s(client: Client) -> float:
    log = sysbench_log(transactions=max(5_000, round(share() * TRANSACTIONS)))
    with _broker() as (work, broker):
        for run in range(WARM_UP_RUNS):  # Java compiles what it runs often
            _publish(_job(work, log.path, broker, client, f"{PREFIX}-{run}"))
        before = cpu_seconds()
        published = _publish(_job(work, log.path, broker, client))
        after = cpu_seconds()
    spent = {role: after[role] - before[role] for role in after}
    decode, envelope = _making_seconds(log.path)
    parts = {
        "decode": decode,
        "envelope": envelope,
        "producer": spent[Role.DRIVER] - decode - envelope,
        "broker": spent[Role.JVM],
    }
    told = ", ".join(f"{name} {1e6 * seconds / log.changes:.2f} us" for name, seconds in parts.items())
    print(f"{client}: processor time for a row change: {told}", file=sys.stderr)
    # The first transaction creates topics.
    (first, begin), (_, end) = published[0], published[-1]
    messages = sum(one.records.counts.total() for one, _ in published)
    return log.changes * (1 - first.records.counts.total() / messages) / (end - begin)


def _publish(job: PublishJob) -> list[tuple[Published, float]]:
    """The transactions, and when each was done."""
    published: list[tuple[Published, float]] = []
    job_run = TopicsJob(
        job, once=True, listener=lambda one: published.append((one, time.perf_counter())), step_size_max=8 << 20
    )
    job_run.run()
    return published


def _making_seconds(path: Path) -> tuple[float, float]:
    # Of the whole log: pages to blocks of events, and these to messages.
    with open_log(str(path)) as log:
        for _ in range(2):  # the first time kernels are loaded
            started = time.process_time()
            blocks = list(log.committed_blocks())
            decoded = time.process_time()
            for batch in MessagesView(EnvelopeOptions(PREFIX)).batches(iter(blocks)):
                assert batch.num_rows
            done = time.process_time()
    return decoded - started, done - decoded


def _job(folder: Path, log: Path, broker: KafkaBroker, client: Client, prefix: str = PREFIX) -> PublishJob:
    sink = KafkaSink(kind="kafka", bootstrap_servers=broker.servers, topic_prefix=prefix, partitions=1, client=client)
    return PublishJob(source=FollowedSource(path=str(log)), sink=sink, checkpoint=str(folder / f"state-{prefix}"))


def _consume(servers: str, topic: str, late: list[tuple[int, int]], is_over: threading.Event) -> None:
    with contextlib.closing(_reader(servers, topic)) as consumer:
        for value in _values(consumer, is_over):
            late.append((msgspec.json.decode(value)["after"]["written_ns"], time.time_ns()))


def _reader(servers: str, topic: str) -> KafkaConsumer:
    consumer = KafkaConsumer(
        bootstrap_servers=servers, group_id=None, isolation_level="read_committed", auto_offset_reset="earliest"
    )
    consumer.assign([TopicPartition(topic, 0)])
    return consumer


def _values(consumer: KafkaConsumer, is_over: threading.Event) -> Iterator[bytes]:
    while not is_over.is_set():
        for records in consumer.poll(timeout_ms=20).values():
            yield from (record.value for record in records)
