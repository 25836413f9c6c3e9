"""Metrics of a Spark query."""

from __future__ import annotations

import json
import threading
import uuid
from typing import TYPE_CHECKING

import pytest
from pyspark.sql.streaming.listener import QueryProgressEvent, QueryTerminatedEvent, StreamingQueryProgress

from binlog_connector.following.starts import Edge
from binlog_connector.following.tailer import FollowOptions, Tailer
from binlog_connector.spark.listener import BinlogMetricsListener
from binlog_connector.spark.source import BinlogDataSource
from tests.connector.metrics.test_exporter import values
from tests.connector.shop import Shop

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from binlog_connector.following.offsets import SourceOffset

RUN = str(uuid.uuid4())
QUERY = str(uuid.uuid4())


def event(start: str, end: str, rows: int, *, name: str | None = "orders") -> QueryProgressEvent:
    """What Spark reports after a batch."""
    source = {
        "description": "a source",
        "startOffset": start,
        "endOffset": end,
        "latestOffset": end,
        "numInputRows": rows,
        "inputRowsPerSecond": 0.0,
        "processedRowsPerSecond": 0.0,
    }
    fields = {
        "id": QUERY,
        "runId": RUN,
        "name": name,
        "timestamp": "2026-01-01T00:00:00.000Z",
        "batchId": 0,
        "batchDuration": 1,
        "durationMs": {},
        "eventTime": {},
        "stateOperators": [],
        "sources": [source],
        "sink": {"description": "a sink", "numOutputRows": rows},
        "numInputRows": rows,
        "inputRowsPerSecond": 0.0,
        "processedRowsPerSecond": 0.0,
        "observedMetrics": {},
    }
    return QueryProgressEvent(StreamingQueryProgress.fromJson(fields))


def offsets(directory: Path, size: int) -> list[SourceOffset]:
    with Tailer(str(directory), Edge.EARLIEST, how=FollowOptions(step_size_max=size)) as tailer:
        found = [tailer.offset]
        found += [step.end for step in iter(lambda: tailer.step(0), None)]
    return found


def text(offset: SourceOffset) -> str:
    return json.dumps(offset.to_json())


@pytest.fixture
def listener(tmp_path: Path) -> Iterator[BinlogMetricsListener]:
    (tmp_path / "log").mkdir()
    with Shop(tmp_path / "log", files_of=4 * 16384) as shop:
        shop.sell(150)
    listener = BinlogMetricsListener(0, path=str(tmp_path / "log"))
    yield listener
    listener.close()


def test_offsets_of_the_progress_give_the_metrics(tmp_path: Path, listener: BinlogMetricsListener) -> None:
    start, middle, *_, end = offsets(tmp_path / "log", 50_000)
    listener.onQueryProgress(event(text(start), text(middle), 300))
    found = values(listener.port, "orders")
    taken = middle.gtid.last[0].seqno  # type: ignore[union-attr]
    assert found["lag_transactions"] == 150 - taken
    assert found["lag_bytes"] > 0
    assert found["rows_total"] == 300
    assert found["transactions_total"] == taken
    assert 40_000 < found["bytes_total"] <= 50_000 + 3 * 16384
    assert found["oldest_file_needed"] == middle.position.file_no
    listener.onQueryProgress(event(text(middle), text(end), 12))
    found = values(listener.port, "orders")
    assert (found["lag_transactions"], found["lag_bytes"], found["lag_seconds"]) == (0, 0, 0)
    assert (found["rows_total"], found["transactions_total"]) == (312, 150)


def test_query_without_a_log_of_its_own_has_no_lag(tmp_path: Path) -> None:
    with Shop(tmp_path) as shop:
        shop.sell(3)
    listener = BinlogMetricsListener(0, path={"another": str(tmp_path)})
    start, *_, end = offsets(tmp_path, 1000)
    listener.onQueryProgress(event(text(start), text(end), 9, name=None))
    found = values(listener.port, QUERY)
    assert (found["rows_total"], found["transactions_total"], found["lag_known"]) == (9, 3, 0)
    assert "lag_bytes" not in found
    listener.close()


@pytest.mark.parametrize("offset", ["null", "None", "", "5", '{"topic": {"0": 12}}', '{"file_no": "x"}'])
def test_sources_of_other_formats_are_left_alone(offset: str, listener: BinlogMetricsListener) -> None:
    listener.onQueryProgress(event(offset, offset, 9))
    assert values(listener.port, "orders") == {}


def test_ended_query_is_exported_no_longer(tmp_path: Path, listener: BinlogMetricsListener) -> None:
    start, *_, end = offsets(tmp_path / "log", 1 << 20)
    listener.onQueryProgress(event(text(start), text(end), 9))
    assert values(listener.port, "orders")
    fields = {"id": QUERY, "runId": RUN, "exception": None, "errorClassOnException": None}
    listener.onQueryTerminated(QueryTerminatedEvent.fromJson(fields))
    assert values(listener.port, "orders") == {}


class Told(BinlogMetricsListener):
    """Lets a test wait for what Spark reports in a thread of its own."""

    def __init__(self, path: str) -> None:
        super().__init__(0, path=path)
        self.rows = 0
        self.is_ended = False
        self.changed = threading.Condition()

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        super().onQueryProgress(event)
        with self.changed:
            self.rows += event.progress.numInputRows
            self.changed.notify_all()

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        super().onQueryTerminated(event)
        with self.changed:
            self.is_ended = True
            self.changed.notify_all()

    def wait(self, what: Callable[[], bool]) -> None:
        with self.changed:
            assert self.changed.wait_for(what, 60)


@pytest.mark.thorough
@pytest.mark.spark
def test_metrics_of_a_query(tmp_path: Path, spark: SparkSession) -> None:
    log = tmp_path / "log"
    log.mkdir()
    with Shop(log) as shop:
        shop.sell(20)
        listener = Told(str(log))
        spark.streams.addListener(listener)
        try:
            spark.dataSource.register(BinlogDataSource)
            written = spark.readStream.format("binlog-stream").load(str(log)).writeStream.format("noop")
            query = written.queryName("orders").option("checkpointLocation", str(tmp_path / "checkpoint")).start()
            # Of the first batch Spark does not report where it began.
            for total, transactions in ((60, 0), (75, 5)):
                query.processAllAvailable()
                listener.wait(lambda total=total: listener.rows >= total)  # type: ignore[misc]
                found = values(listener.port, "orders")
                assert (found["rows_total"], found["transactions_total"]) == (total, transactions)
                assert (found["lag_known"], found["lag_transactions"], found["lag_bytes"]) == (1, 0, 0)
                shop.sell(5)
            query.stop()
            listener.wait(lambda: listener.is_ended)
            assert values(listener.port, "orders") == {}
        finally:
            spark.streams.removeListener(listener)
            listener.close()
