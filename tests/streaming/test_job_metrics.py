from __future__ import annotations

import re
import urllib.request
from typing import TYPE_CHECKING

import msgspec
import pytest

from binlog_connector.following.edges import end_of_log, start_of_log
from binlog_connector.following.watched import WatchedLog
from binlog_connector.schema.definitions import TableName
from binlog_format.errors import AccessError
from binlog_streaming.jobs.metrics import exported
from binlog_streaming.settings import Metrics
from binlog_streaming.tables.progress import BatchProgress, Outcome, TableProgress
from tests.streaming.tables.oltp import OLTP
from tests.streaming.test_job_check import job_for, write_checkpoint

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("prometheus_client")


def values(address: str) -> dict[str, float]:
    with urllib.request.urlopen(address, timeout=10) as answer:
        text = answer.read().decode()
    return {name: float(value) for name, value in re.findall(r'^binlog_stream_(\w+)\{name="shop"\} (\S+)$', text, re.M)}


def test_no_port_no_metrics(tmp_path: Path) -> None:
    with exported(job_for(tmp_path)) as metrics:
        assert metrics is None


def test_metrics_follow_the_batches(tmp_path: Path) -> None:
    with WatchedLog(str(OLTP)) as watched:
        first, last = start_of_log(watched), end_of_log(watched)
    write_checkpoint(tmp_path, [first, last], committed=1)
    job = msgspec.structs.replace(job_for(tmp_path), name="shop", metrics=Metrics(port=0))
    table = TableProgress("sb.t", "t", "mirror", Outcome.WRITTEN, 5, 2, 0, 7, 0.1, last.position, 1_700_000_000)
    with exported(job) as metrics:
        assert metrics is not None
        before = values(metrics.address)
        assert before["lag_bytes"] > 800_000
        assert before["rows_total"] == 0
        metrics.batch(BatchProgress(batch_id=1, tables=(table,), seconds=0.1, finished_at=0.0, bytes_behind=0))
        after = values(metrics.address)
        assert (after["lag_bytes"], after["lag_transactions"], after["rows_total"]) == (0, 0, 7)
        assert after["bytes_total"] == before["lag_bytes"]
        assert after["last_commit_timestamp_seconds"] == 1_700_000_000
        metrics.set_aside([TableName("shop", "orders")])
        with urllib.request.urlopen(metrics.address, timeout=10) as answer:
            assert b'binlog_stream_table_set_aside{name="shop",table="shop.orders"} 1.0' in answer.read()
        taken = int(metrics.address.rpartition(":")[2].partition("/")[0])
        with (
            pytest.raises(AccessError, match=f"cannot listen at 127.0.0.1:{taken}"),
            exported(msgspec.structs.replace(job, metrics=Metrics(port=taken))),
        ):
            pass
