"""Metrics of a running job for Prometheus, where its file asks for them: `exported(job)`; `exporting` for any job."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from binlog_connector.metrics.exporter import Follower, MetricsExporter
from binlog_connector.metrics.lag import Consumed, LagMeter
from binlog_streaming.jobs.checkpoint import read_checkpoint, read_offset
from binlog_streaming.jobs.state_files import state_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from binlog_connector.schema.definitions import TableName
    from binlog_streaming.jobs.state_files import StateFolder
    from binlog_streaming.settings.model import Job
    from binlog_streaming.settings.publish_model import PublishJob
    from binlog_streaming.tables.progress import BatchProgress

Metrics = TypeVar("Metrics")


class JobMetrics:
    """What a job tells Prometheus: `batch` behind every batch.

    Args:
        state: The job's; its checkpoint says where batches end.
        follower: What is exported.
        meter: Measures the log.
        address: Where the metrics are.
    """

    def __init__(self, state: StateFolder, follower: Follower, meter: LagMeter, address: str) -> None:
        self._state = state
        self._follower = follower
        self._meter = meter
        self.address = address
        before = read_checkpoint(state)
        if before is not None and before.offset is not None:
            follower.progress.consumed = Consumed(before.offset)

    def set_aside(self, tables: Iterable[TableName]) -> None:
        """These tables do not go on."""
        self._follower.progress.set_aside = tuple(sorted(map(str, tables)))

    def batch(self, batch: BatchProgress) -> None:
        """A batch is in the tables."""
        progress = self._follower.progress
        offset = read_offset(self._state, batch.batch_id)
        progress.rows.add(batch.changes)
        if offset is None:
            return
        known = progress.consumed
        if known is not None:
            progress.size.add(self._meter.size_between(known.offset.position, offset.position))
        timestamp = batch.commit_time if known is None or batch.commit_time is not None else known.timestamp
        progress.consumed = Consumed(offset, timestamp)


@contextmanager
def exported(job: Job) -> Iterator[JobMetrics | None]:
    """Metrics of *job*, while this lasts; None: its file asks for none.

    Raises:
        OptionError: `MISSING`: prometheus-client is not installed.
        AccessError: `DENIED`: the port is taken, or not allowed.
        StartError: The log is not there.
    """
    with exporting(
        job, lambda follower, meter, address: JobMetrics(state_of(job), follower, meter, address)
    ) as metrics:
        yield metrics


@contextmanager
def exporting(
    job: Job | PublishJob, metrics_of: Callable[[Follower, LagMeter, str], Metrics]
) -> Iterator[Metrics | None]:
    """What *metrics_of* makes of what is exported, the meter of the log, and the address, while this lasts.

    None: the job's file asks for no metrics.

    Raises:
        OptionError: `MISSING`: prometheus-client is not installed.
        AccessError: `DENIED`: the port is taken, or not allowed.
        StartError: The log is not there.
    """
    if job.metrics.port is None:
        yield None
        return
    meter = LagMeter(job.source.path, job.source.format)
    try:
        with MetricsExporter(job.metrics.port, job.metrics.host) as exporter:
            follower = Follower(job.name, meter)
            metrics = metrics_of(follower, meter, f"http://{job.metrics.host}:{exporter.port}/metrics")
            exporter.add(follower)
            yield metrics
    finally:
        meter.close()
