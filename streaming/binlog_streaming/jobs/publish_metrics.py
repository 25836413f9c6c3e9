"""Metrics of a job that publishes, for Prometheus, where its file asks for them: `exported(job)`."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from binlog_connector.metrics.exporter import TopicTotals
from binlog_connector.metrics.lag import Consumed
from binlog_streaming.jobs.metrics import exporting

if TYPE_CHECKING:
    from collections.abc import Iterator

    from binlog_connector.following.offsets import SourceOffset
    from binlog_connector.metrics.exporter import Follower
    from binlog_streaming.settings.publish_model import PublishJob
    from binlog_streaming.topics.progress import Published


class PublishMetrics:
    """What a job tells Prometheus.

    Args:
        follower: What is exported.
        address: Where the metrics are.
    """

    def __init__(self, follower: Follower, address: str) -> None:
        self._follower = follower
        self._totals = TopicTotals()
        follower.progress.topics = self._totals
        self.address = address

    def started(self, offset: SourceOffset) -> None:
        """The log is read from there."""
        self._follower.progress.consumed = Consumed(offset)

    def published(self, one: Published) -> None:
        """A transaction is in the topics."""
        progress, totals = self._follower.progress, self._totals
        progress.rows.add(one.records.counts.total())
        progress.size.add(one.size)
        progress.transactions += one.groups
        known = None if progress.consumed is None else progress.consumed.timestamp
        progress.consumed = Consumed(one.offset, known if one.last_timestamp is None else one.last_timestamp)
        totals.records.update(one.records.counts)
        totals.sizes.update(one.records.sizes)
        totals.committed += 1
        totals.aborted += one.attempts - 1


@contextmanager
def exported(job: PublishJob) -> Iterator[PublishMetrics | None]:
    """Metrics of *job*, while this lasts; None: its file asks for none.

    Raises:
        OptionError: `MISSING`: prometheus-client is not installed.
        AccessError: `DENIED`: the port is taken, or not allowed.
        StartError: The log is not there.
    """
    with exporting(job, lambda follower, _, address: PublishMetrics(follower, address)) as metrics:
        yield metrics
