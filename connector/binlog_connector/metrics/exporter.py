"""Metrics of followers of logs: `FollowerMetrics` has them, `MetricsExporter` shows them to Prometheus.

They are computed on request, in the thread of the answer: also of a follower that stands still.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, NamedTuple

from binlog_connector.installing import install_hint
from binlog_format.errors import BinlogError, OptionError, listening_error
from binlog_format.messages import visible

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from prometheus_client import CollectorRegistry
    from prometheus_client.core import Metric

    from binlog_connector.metrics.follower import Follower, LogProgress
    from binlog_connector.metrics.lag import Lag
    from binlog_format.gtids.gtid_set import GtidPoint

    _Sample = tuple[tuple[str, ...], float]

logger = logging.getLogger(__name__)

HOST = "127.0.0.1"
"""Default address: users decide who else may see the metrics, as there is no password."""

PREFIX = "binlog_stream_"


class FollowerMetrics:
    """Metrics of followers, made when somebody asks for them."""

    def __init__(self) -> None:
        try:
            from prometheus_client import CollectorRegistry
        except ImportError as error:
            hint = f"Install it: {install_hint('metrics')}"
            raise OptionError("MISSING", "metrics need the package prometheus-client", hint=hint) from error
        self._followers: dict[str, Follower] = {}
        # Its own: the process may export other things elsewhere.
        self.registry: CollectorRegistry = CollectorRegistry()
        self.registry.register(self)

    def text(self) -> bytes:
        """All metrics, in Prometheus' text format."""
        from prometheus_client import generate_latest

        return generate_latest(self.registry)

    def add(self, follower: Follower) -> None:
        """Export *follower* too; in place of one with the same name."""
        self._followers[follower.name] = follower

    def remove(self, follower: Follower) -> None:
        """Export *follower* no longer; one that has taken its name stays."""
        if self._followers.get(follower.name) is follower:
            del self._followers[follower.name]

    def describe(self) -> list[Metric]:
        """Describe no metrics: the registry would ask for the values right away, before there are any."""
        return []

    def collect(self) -> Iterator[Metric]:
        """All metrics of all followers, as they are now, with labels that a terminal shows."""
        for metric in self._collected():
            for number, sample in enumerate(metric.samples):
                labels = {name: visible(text) for name, text in sample.labels.items()}
                metric.samples[number] = sample._replace(labels=labels)
            yield metric

    def _collected(self) -> Iterator[Metric]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        followers = [(follower, lag_of(follower)) for follower in list(self._followers.values())]
        for metric in _METRICS:
            of = [each for each in followers if not metric.part or getattr(each[0].progress, metric.part) is not None]
            if metric.part and not of:
                continue
            kind = CounterMetricFamily if metric.is_counter else GaugeMetricFamily
            family = kind(PREFIX + metric.name, metric.help, labels=["name", *metric.labels])
            for follower, lag in of:
                for labels, number in metric.samples(follower.progress, lag):
                    family.add_metric([follower.name, *labels], number)
            yield family


class MetricsExporter(FollowerMetrics):
    """The same on a small HTTP server for Prometheus; a context manager. *port*: TCP port; 0: one that is free."""

    def __init__(self, port: int, host: str = HOST) -> None:
        super().__init__()
        from prometheus_client import start_http_server

        try:
            self._server, self._thread = start_http_server(port, addr=host, registry=self.registry)
        except OSError as error:
            raise listening_error("metrics", host, port, error) from error
        self.host = host
        self.port = int(self._server.server_port)

    def __enter__(self) -> MetricsExporter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def lag_of(follower: Follower) -> Lag | None:
    """Lag of the follower; None: unknown, a log line may give the reason."""
    progress, meter = follower.progress, follower.meter
    if meter is None or progress.consumed is None:
        return None
    first = progress.consumed
    try:
        return meter.lag(lambda: progress.consumed or first)
    except (BinlogError, OSError) as error:
        # The follower itself reports what is wrong; here the others' metrics must not go away with it.
        logger.warning("metrics of %s: %s", follower.name, error)
        return None


class _Metric(NamedTuple):
    """A metric of followers.

    Attributes:
        samples: Values of the labels after `name`, each with a number, by the progress and the lag of a follower.
        part: Attribute of `LogProgress`: followers in which it is None have no such metric; empty: all have it.
    """

    name: str
    help: str
    samples: Callable[[LogProgress, Lag | None], Iterable[_Sample]]
    labels: tuple[str, ...] = ()
    is_counter: bool = False
    part: str = ""


def _of_progress(
    name: str, text: str, value: Callable[[LogProgress], float], *, is_counter: bool = False, part: str = ""
) -> _Metric:
    return _Metric(name, text, lambda progress, _: [((), value(progress))], (), is_counter, part)


def _of_lag(name: str, text: str, value: Callable[[Lag], float]) -> _Metric:
    return _Metric(name, text, lambda _, lag: [] if lag is None else [((), value(lag))])


def _by_name(
    name: str,
    text: str,
    label: str,
    values: Callable[[LogProgress], Mapping[str, float]],
    *,
    is_counter: bool = False,
    part: str = "",
) -> _Metric:
    def samples(progress: LogProgress, _: Lag | None) -> list[_Sample]:
        return [((key,), number) for key, number in list(values(progress).items())]

    return _Metric(name, text, samples, (label,), is_counter, part)


def _file_numbers(progress: LogProgress, _: Lag | None) -> Iterator[_Sample]:
    if progress.consumed is not None:
        yield (), progress.consumed.offset.position.file_no


def _commit_times(progress: LogProgress, _: Lag | None) -> Iterator[_Sample]:
    if progress.consumed is not None and progress.consumed.timestamp is not None:
        yield (), progress.consumed.timestamp


def _gtids(progress: LogProgress, lag: Lag | None) -> Iterator[_Sample]:
    if progress.consumed is None:
        return
    states = {"consumed": progress.consumed.offset.gtid} | ({} if lag is None else {"log": lag.gtid})
    for state, point in states.items():
        for domain, number in _sequence_numbers(point):
            yield (state, domain), number


def _kafka_transactions(progress: LogProgress, _: Lag | None) -> Iterator[_Sample]:
    assert progress.topics is not None
    yield ("committed",), progress.topics.committed
    yield ("aborted",), progress.topics.aborted


def _waiting_seconds(progress: LogProgress) -> float:
    since = progress.archive.waiting_since if progress.archive is not None else None
    return 0 if since is None else max(time.time() - since, 0)


_METRICS = (
    _Metric(
        "lag_known",
        "1: the lag could be measured; 0: it is missing here, see the log lines.",
        lambda _, lag: [((), 0 if lag is None else 1)],
    ),
    _of_lag(
        "lag_bytes", "Bytes up to the end of the last whole transaction in the log, not taken yet.", lambda x: x.size
    ),
    _of_lag("lag_pages", "Pages that these bytes lie in; of a classic log, stretches of 16 KiB.", lambda x: x.pages),
    _of_lag(
        "lag_transactions",
        "Transactions not taken yet, by the numbers in GTIDs; events, of a structured log.",
        lambda x: x.transactions,
    ),
    _of_lag(
        "lag_seconds",
        "Commit time of the newest transaction in the log minus that of the last one taken; 0 when all are.",
        lambda x: x.seconds,
    ),
    _of_lag(
        "oldest_file_needed",
        "Number of the oldest binlog file that is still needed: those before it may be purged.",
        lambda x: x.oldest_file_no,
    ),
    _of_progress("rows", "Row changes taken since the start of the process.", lambda x: x.rows.total, is_counter=True),
    _of_progress(
        "bytes", "Bytes of the log taken since the start of the process.", lambda x: x.size.total, is_counter=True
    ),
    _of_progress(
        "transactions", "Transactions taken since the start of the process.", lambda x: x.transactions, is_counter=True
    ),
    _of_progress(
        "rows_per_second", "Row changes taken per second, the mean of the last 10 s.", lambda x: x.rows.per_second()
    ),
    _of_progress(
        "bytes_per_second", "Bytes of the log taken per second, the same mean.", lambda x: x.size.per_second()
    ),
    _Metric("position_file", "Number of the binlog file that is read next.", _file_numbers),
    _Metric("last_commit_timestamp_seconds", "Commit time of the last transaction taken.", _commit_times),
    _Metric(
        "gtid_sequence_number",
        "Last GTID of each domain (MariaDB) or source (MySQL): its number. "
        "state: consumed, or log: the newest one there is.",
        _gtids,
        ("state", "domain"),
    ),
    _by_name(
        "table_set_aside",
        "1: the table cannot go on, and was set aside.",
        "table",
        lambda x: dict.fromkeys(x.set_aside, 1),
    ),
    _Metric(
        "table_verified_timestamp_seconds",
        "When the table was last proved to be the same as on the server.",
        lambda progress, _: progress.verified.items(),
        ("table", "mode"),
    ),
    _by_name(
        "table_proved_rows",
        "Rows of the table's targets that changes proved, since the job began to record its state.",
        "table",
        lambda x: x.proved,
        is_counter=True,
    ),
    _by_name(
        "table_bytes_per_changed_row",
        "Bytes of files that the job wrote anew for each changed row, over about a day.",
        "table",
        lambda x: x.bytes_per_row,
    ),
    _by_name(
        "topic_records",
        "Messages published since the start of the process.",
        "topic",
        lambda x: {} if x.topics is None else x.topics.records,
        is_counter=True,
        part="topics",
    ),
    _by_name(
        "topic_bytes",
        "Bytes of the keys and values of these messages.",
        "topic",
        lambda x: {} if x.topics is None else x.topics.sizes,
        is_counter=True,
        part="topics",
    ),
    _Metric(
        "kafka_transactions",
        "Transactions of Kafka since the start of the process. outcome: committed, or aborted: they were done again.",
        _kafka_transactions,
        ("outcome",),
        is_counter=True,
        part="topics",
    ),
    _of_progress(
        "archive_files",
        "Files in the archive.",
        lambda x: 0 if x.archive is None else x.archive.file_count,
        part="archive",
    ),
    _of_progress("archive_bytes", "Their bytes.", lambda x: 0 if x.archive is None else x.archive.size, part="archive"),
    _of_progress(
        "archive_waiting_seconds",
        "Age of the oldest file that the server may purge and that is not archived whole; 0: there is none. The server "
        "purges it when this comes to binlog_expire_logs_seconds.",
        _waiting_seconds,
        part="archive",
    ),
)


def _sequence_numbers(point: GtidPoint) -> Iterator[tuple[str, int]]:
    from binlog_format.gtids.gtid_set import GtidSet

    if isinstance(point, GtidSet):
        for source, intervals in sorted(point.intervals.items()):
            yield str(source), intervals[-1][1]
    else:
        for domain, gtid in sorted(point.last.items()):
            yield str(domain), gtid.seqno
