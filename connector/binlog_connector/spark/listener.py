"""Metrics of Spark queries that read binlogs, for Prometheus: `BinlogMetricsListener`.

Example:
    ::

        listener = BinlogMetricsListener(port=9187, path="/var/lib/mysql")
        spark.streams.addListener(listener)
"""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING

from pyspark.sql.streaming.listener import StreamingQueryListener

from binlog_connector.following.offsets import SourceOffset
from binlog_connector.metrics.exporter import HOST, MetricsExporter
from binlog_connector.metrics.follower import Follower
from binlog_connector.metrics.lag import Consumed, LagMeter, transactions_between
from binlog_format.errors import BinlogError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
        SourceProgress,
    )

logger = logging.getLogger(__name__)


class BinlogMetricsListener(StreamingQueryListener):
    """Exports how far behind its log each query is; runs on the driver, which has to reach the log for that.

    Queries are told apart by their names; without a name, by their ids. Sources of other formats are left alone.

    Args:
        port: TCP port for Prometheus; 0: one that is free.
        path: The log that all queries read, or the log of each query by its name. Of a query without one what it has
            done is exported, not what follows.
    """

    def __init__(self, port: int, host: str = HOST, path: str | Mapping[str, str] | None = None) -> None:
        self._exporter = MetricsExporter(port, host)
        self._path = path
        self._followers: dict[str, dict[int, Follower]] = {}  # by the query's run, and the number of the source in it
        self.port = self._exporter.port

    def close(self) -> None:
        """Stop exporting; `spark.streams.removeListener` comes first."""
        self._exporter.close()
        for run in list(self._followers):
            self._forget(run)

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Do nothing: no facts of a query are known before its first progress."""

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Do nothing: exported values still hold; the lag is measured when it is requested."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """Note what the batch has done."""
        progress = event.progress
        name = progress.name or str(progress.id)
        for number, source in enumerate(progress.sources):
            end = _offset(source.endOffset)
            if end is not None:
                self._note(str(progress.runId), number, name, source, end)

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Export the query no longer."""
        self._forget(str(event.runId))

    def _note(self, run: str, number: int, name: str, source: SourceProgress, end: SourceOffset) -> None:
        followers = self._followers.setdefault(run, {})
        follower = followers.get(number)
        if follower is None:
            follower = Follower(f"{name}/{number}" if number else name, self._meter(name, end))
            followers[number] = follower
            self._exporter.add(follower)
        progress = follower.progress
        start = _offset(source.startOffset)
        progress.rows.add(max(source.numInputRows, 0))
        if start is not None:
            progress.transactions += transactions_between(start.gtid, end.gtid)
            progress.size.add(_size_between(follower, start, end))
        progress.consumed = Consumed(end)

    def _meter(self, name: str, offset: SourceOffset) -> LagMeter | None:
        path = self._path if self._path is None or isinstance(self._path, str) else self._path.get(name)
        if path is None:
            return None
        try:
            return LagMeter(path, offset.format or None)
        except (BinlogError, OSError) as error:
            logger.warning("metrics of query %s: the log cannot be measured: %s", name, error)
            return None

    def _forget(self, run: str) -> None:
        for follower in self._followers.pop(run, {}).values():
            self._exporter.remove(follower)
            if follower.meter is not None:
                follower.meter.close()


def _size_between(follower: Follower, start: SourceOffset, end: SourceOffset) -> int:
    if follower.meter is None or start == end:
        return 0
    try:
        return follower.meter.size_between(start.position, end.position)
    except (BinlogError, OSError) as error:
        logger.warning("metrics of query %s: the size of a batch is not known: %s", follower.name, error)
        return 0


def _offset(text: str | None) -> SourceOffset | None:
    """An offset out of a query's progress; None: it is of another source, or there is none yet."""
    try:
        fields = json.loads(text or "null")
        return SourceOffset.from_json(fields) if isinstance(fields, dict) else None
    except (ValueError, BinlogError):
        return None
