from __future__ import annotations

import re
import urllib.request
from typing import TYPE_CHECKING

import msgspec
import pytest

from binlog_connector.following.log_end import end_of_log, start_of_log
from binlog_connector.following.watched import WatchedLog
from binlog_format.errors import MachineError
from binlog_streaming.cli.status.observing import exporting
from binlog_streaming.job_state.progress import BatchProgress
from binlog_streaming.job_state.record import JobRecord, Verified
from binlog_streaming.plan.job_state import SetAside
from binlog_streaming.settings import Metrics
from binlog_streaming.status.recorder import StatusRecorder
from tests.faults.http_receiver import HttpReceiver
from tests.streaming.status.states import table_progress
from tests.streaming.tables.oltp import OLTP
from tests.streaming.test_job_check import job_for

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("prometheus_client")


def values(address: str) -> dict[str, float]:
    with urllib.request.urlopen(address, timeout=300) as answer:
        text = answer.read().decode()
    return {name: float(value) for name, value in re.findall(r'^binlog_stream_(\w+)\{name="shop"\} (\S+)$', text, re.M)}


def test_no_port_no_metrics(tmp_path: Path) -> None:
    job = job_for(tmp_path)
    with exporting(job, StatusRecorder(job).follower) as address:
        assert address is None


def test_metrics_follow_the_batches(tmp_path: Path) -> None:
    with WatchedLog(str(OLTP)) as watched:
        first, last = start_of_log(watched), end_of_log(watched)
    job = msgspec.structs.replace(job_for(tmp_path), name="shop", metrics=Metrics(port=0))
    table = table_progress("sb.t", inserts=5, updates=2, rows_written=7, position=last.position)
    stopped = SetAside(database="shop", table="orders", position="0:1:2:3", gtid=None, reason="it cannot go on")
    proof = Verified(database="shop", table="t", mode="mirror", gtids="0-1-2", rows=1, commit_time=1_700_000_000)
    record = msgspec.structs.replace(JobRecord.of(job), set_aside=(stopped,), verified=(proof,))
    with StatusRecorder(job) as recorder, exporting(job, recorder.follower) as address:
        assert address is not None
        recorder.goes_on_at(first)
        recorder.started()
        before = values(address)
        assert before["lag_bytes"] > 800_000
        assert (before["rows_total"], before["transactions_total"]) == (0, 0)
        recorder.batch(BatchProgress(1, (table,), seconds=0.1, finished_at=0.0, bytes_behind=0, offset=last), record)
        after = values(address)
        assert (after["lag_bytes"], after["lag_transactions"], after["rows_total"]) == (0, 0, 7)
        assert after["bytes_total"] == before["lag_bytes"]
        assert after["transactions_total"] == before["lag_transactions"] > 0
        assert after["last_commit_timestamp_seconds"] == 1_700_000_000
        with urllib.request.urlopen(address, timeout=300) as answer:
            text = answer.read()
        assert b'binlog_stream_table_set_aside{name="shop",table="shop.orders"} 1.0' in text
        verified = b'binlog_stream_table_verified_timestamp_seconds{mode="mirror",name="shop",table="shop.t"} 1.7e+09'
        assert verified in text
        taken = int(address.rpartition(":")[2].partition("/")[0])
        with (
            pytest.raises(MachineError, match=f"cannot listen at 127.0.0.1:{taken}"),
            exporting(msgspec.structs.replace(job, metrics=Metrics(port=taken)), recorder.follower),
        ):
            pass


def test_opentelemetry_is_told_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One registry: names, labels and values; the last push comes when the job ends."""
    service = pytest.importorskip("opentelemetry.proto.collector.metrics.v1.metrics_service_pb2")
    with WatchedLog(str(OLTP)) as watched:
        offset = start_of_log(watched)
    job = msgspec.structs.replace(job_for(tmp_path), name="shop", metrics=Metrics(port=0, otlp=True))
    table = table_progress("sb.t", inserts=5, updates=2, rows_written=7, position=offset.position)
    with HttpReceiver() as receiver:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url)
        with StatusRecorder(job) as recorder, exporting(job, recorder.follower) as address:
            assert address is not None
            recorder.goes_on_at(offset)
            recorder.started()
            recorder.batch(BatchProgress(0, (table,), seconds=0.1, finished_at=0.0, bytes_behind=0, offset=offset))
            shown = values(address)
        request = service.ExportMetricsServiceRequest.FromString(receiver.bodies[-1])
    (resource,) = request.resource_metrics
    attributes = {one.key: one.value.string_value for one in resource.resource.attributes}
    assert attributes["service.name"] == "shop"
    pushed = {one.name.removeprefix("binlog_stream_"): one for one in resource.scope_metrics[0].metrics}
    assert set(shown) <= set(pushed)
    for name, value in shown.items():
        data = pushed[name].sum if pushed[name].HasField("sum") else pushed[name].gauge
        assert [label.value.string_value for point in data.data_points for label in point.attributes] == ["shop"]
        if not name.endswith("per_second"):
            assert [point.as_double or point.as_int for point in data.data_points] == [value]
    assert pushed["rows_total"].sum.is_monotonic


def test_receiver_that_is_away_is_told_once_and_stops_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with HttpReceiver() as receiver:
        receiver.status = 404
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url)
        monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", "1")
        job = msgspec.structs.replace(job_for(tmp_path), metrics=Metrics(otlp=True))
        with StatusRecorder(job) as recorder, exporting(job, recorder.follower) as address:
            assert address is None
            receiver.wait_until(lambda one: one.refused > 3)
    assert [one.levelname for one in caplog.records if "metrics" in one.name] == ["WARNING"]
