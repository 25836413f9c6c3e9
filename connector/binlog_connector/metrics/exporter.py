"""Metrics of followers of logs: `FollowerMetrics` has them, `MetricsExporter` shows them to Prometheus.

They are computed on request, in the thread of the answer: also of a follower that stands still.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from binlog_connector.installing import install_hint
from binlog_format.errors import BinlogError, OptionError, listening_error
from binlog_format.messages import visible

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from types import TracebackType

    from prometheus_client import CollectorRegistry
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

    from binlog_connector.metrics.follower import Follower, LogProgress, Rate
    from binlog_connector.metrics.lag import Lag
    from binlog_format.gtids.gtid_set import GtidPoint

logger = logging.getLogger(__name__)

HOST = "127.0.0.1"
"""Default address: users decide who else may see the metrics, as there is no password."""

PREFIX = "binlog_stream_"


@dataclass(frozen=True, slots=True)
class _Gauge:
    name: str
    help: str
    value: Callable[[Lag], float]


_LAG_GAUGES = (
    _Gauge(
        "lag_bytes", "Bytes up to the end of the last whole transaction in the log, not taken yet.", lambda x: x.size
    ),
    _Gauge("lag_pages", "Pages that these bytes lie in; of a classic log, stretches of 16 KiB.", lambda x: x.pages),
    _Gauge(
        "lag_transactions",
        "Transactions not taken yet, by the numbers in GTIDs; events, of a structured log.",
        lambda x: x.transactions,
    ),
    _Gauge(
        "lag_seconds",
        "Commit time of the newest transaction in the log minus that of the last one taken; 0 when all are.",
        lambda x: x.seconds,
    ),
    _Gauge(
        "oldest_file_needed",
        "Number of the oldest binlog file that is still needed: those before it may be purged.",
        lambda x: x.oldest_file_no,
    ),
)


class FollowerMetrics:
    """Metrics of followers, made when somebody asks for them.

    Raises:
        OptionError: `MISSING`: prometheus-client is not installed.
    """

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
        followers = list(self._followers.values())
        lags = {follower.name: lag_of(follower) for follower in followers}
        yield from _lag_metrics(lags)
        yield from _counters(followers)
        yield from _rates(followers)
        yield from _places(followers, lags)
        yield _set_aside(followers)
        yield _verified(followers)
        yield _proved(followers)
        yield _written_anew(followers)
        yield from _topics(followers)
        yield from _archives(followers)


class MetricsExporter(FollowerMetrics):
    """The same on a small HTTP server for Prometheus; a context manager.

    Args:
        port: TCP port; 0: one that is free.

    Raises:
        OptionError: `MISSING`: prometheus-client is not installed.
        MachineError: `PORT_IN_USE`: the port is taken.
    """

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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
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


def _lag_metrics(lags: dict[str, Lag | None]) -> Iterator[Metric]:
    from prometheus_client.core import GaugeMetricFamily

    readable = GaugeMetricFamily(
        f"{PREFIX}lag_known", "1: the lag could be measured; 0: it is missing here, see the log lines.", labels=["name"]
    )
    for name, lag in lags.items():
        readable.add_metric([name], 0 if lag is None else 1)
    yield readable
    for gauge in _LAG_GAUGES:
        family = GaugeMetricFamily(PREFIX + gauge.name, gauge.help, labels=["name"])
        for name, lag in lags.items():
            if lag is not None:
                family.add_metric([name], gauge.value(lag))
        yield family


def _counters(followers: list[Follower]) -> Iterator[Metric]:
    from prometheus_client.core import CounterMetricFamily

    values: tuple[tuple[str, str, Callable[[LogProgress], int]], ...] = (
        ("rows", "Row changes taken since the start of the process.", lambda progress: progress.rows.total),
        ("bytes", "Bytes of the log taken since the start of the process.", lambda progress: progress.size.total),
        ("transactions", "Transactions taken since the start of the process.", lambda progress: progress.transactions),
    )
    for name, text, value in values:
        family = CounterMetricFamily(PREFIX + name, text, labels=["name"])
        for follower in followers:
            family.add_metric([follower.name], value(follower.progress))
        yield family


def _rates(followers: list[Follower]) -> Iterator[Metric]:
    from prometheus_client.core import GaugeMetricFamily

    values: tuple[tuple[str, str, Callable[[LogProgress], Rate]], ...] = (
        ("rows_per_second", "Row changes taken per second, the mean of the last 10 s.", lambda progress: progress.rows),
        ("bytes_per_second", "Bytes of the log taken per second, the same mean.", lambda progress: progress.size),
    )
    for name, text, value in values:
        family = GaugeMetricFamily(PREFIX + name, text, labels=["name"])
        for follower in followers:
            family.add_metric([follower.name], value(follower.progress).per_second())
        yield family


def _places(followers: list[Follower], lags: dict[str, Lag | None]) -> Iterator[Metric]:
    from prometheus_client.core import GaugeMetricFamily

    file_no = GaugeMetricFamily(
        f"{PREFIX}position_file", "Number of the binlog file that is read next.", labels=["name"]
    )
    time = GaugeMetricFamily(
        f"{PREFIX}last_commit_timestamp_seconds", "Commit time of the last transaction taken.", labels=["name"]
    )
    gtids = GaugeMetricFamily(
        f"{PREFIX}gtid_sequence_number",
        "Last GTID of each domain (MariaDB) or source (MySQL): its number. "
        "state: consumed, or log: the newest one there is.",
        labels=["name", "state", "domain"],
    )
    for follower in followers:
        consumed = follower.progress.consumed
        if consumed is None:
            continue
        file_no.add_metric([follower.name], consumed.offset.position.file_no)
        if consumed.timestamp is not None:
            time.add_metric([follower.name], consumed.timestamp)
        states = {"consumed": consumed.offset.gtid}
        lag = lags[follower.name]
        if lag is not None:
            states["log"] = lag.gtid
        for state, point in states.items():
            for domain, number in _sequence_numbers(point):
                gtids.add_metric([follower.name, state, domain], number)
    yield from (file_no, time, gtids)


def _set_aside(followers: list[Follower]) -> Metric:
    from prometheus_client.core import GaugeMetricFamily

    family = GaugeMetricFamily(
        f"{PREFIX}table_set_aside", "1: the table cannot go on, and was set aside.", labels=["name", "table"]
    )
    for follower in followers:
        for table in follower.progress.set_aside:
            family.add_metric([follower.name, table], 1)
    return family


def _verified(followers: list[Follower]) -> Metric:
    from prometheus_client.core import GaugeMetricFamily

    family = GaugeMetricFamily(
        f"{PREFIX}table_verified_timestamp_seconds",
        "When the table was last proved to be the same as on the server.",
        labels=["name", "table", "mode"],
    )
    for follower in followers:
        for labels, second in follower.progress.verified.items():
            family.add_metric([follower.name, *labels], second)
    return family


def _proved(followers: list[Follower]) -> Metric:
    from prometheus_client.core import CounterMetricFamily

    family = CounterMetricFamily(
        f"{PREFIX}table_proved_rows",
        "Rows of the table's targets that changes proved, since the job began to record its state.",
        labels=["name", "table"],
    )
    return _by_table(family, [(follower.name, follower.progress.proved) for follower in followers])


def _written_anew(followers: list[Follower]) -> Metric:
    from prometheus_client.core import GaugeMetricFamily

    family = GaugeMetricFamily(
        f"{PREFIX}table_bytes_per_changed_row",
        "Bytes of files that the job wrote anew for each changed row, over about a day.",
        labels=["name", "table"],
    )
    return _by_table(family, [(follower.name, follower.progress.bytes_per_row) for follower in followers])


def _by_table(
    family: CounterMetricFamily | GaugeMetricFamily, numbers: Iterable[tuple[str, Mapping[str, float]]]
) -> Metric:
    """*family* with the numbers of tables, by the name of the job that writes them."""
    for name, of_tables in numbers:
        for table, number in of_tables.items():
            family.add_metric([name, table], number)
    return family


def _topics(followers: list[Follower]) -> Iterator[Metric]:
    from prometheus_client.core import CounterMetricFamily

    records = CounterMetricFamily(
        f"{PREFIX}topic_records", "Messages published since the start of the process.", labels=["name", "topic"]
    )
    sizes = CounterMetricFamily(
        f"{PREFIX}topic_bytes", "Bytes of the keys and values of these messages.", labels=["name", "topic"]
    )
    transactions = CounterMetricFamily(
        f"{PREFIX}kafka_transactions",
        "Transactions of Kafka since the start of the process. outcome: committed, or aborted: they were done again.",
        labels=["name", "outcome"],
    )
    publishing = [
        (follower.name, follower.progress.topics) for follower in followers if follower.progress.topics is not None
    ]
    for name, totals in publishing:
        for family, counts in ((records, totals.records), (sizes, totals.sizes)):
            for topic, count in list(counts.items()):
                family.add_metric([name, topic], count)
        transactions.add_metric([name, "committed"], totals.committed)
        transactions.add_metric([name, "aborted"], totals.aborted)
    if publishing:
        yield from (records, sizes, transactions)


def _archives(followers: list[Follower]) -> Iterator[Metric]:
    from prometheus_client.core import GaugeMetricFamily

    files = GaugeMetricFamily(f"{PREFIX}archive_files", "Files in the archive.", labels=["name"])
    sizes = GaugeMetricFamily(f"{PREFIX}archive_bytes", "Their bytes.", labels=["name"])
    ages = GaugeMetricFamily(
        f"{PREFIX}archive_waiting_seconds",
        "Age of the oldest file that the server may purge and that is not archived whole; 0: there is none. The server "
        "purges it when this comes to binlog_expire_logs_seconds.",
        labels=["name"],
    )
    archiving = [
        (follower.name, follower.progress.archive) for follower in followers if follower.progress.archive is not None
    ]
    for name, totals in archiving:
        files.add_metric([name], totals.file_count)
        sizes.add_metric([name], totals.size)
        since = totals.waiting_since
        ages.add_metric([name], 0 if since is None else max(time.time() - since, 0))
    if archiving:
        yield from (files, sizes, ages)


def _sequence_numbers(point: GtidPoint) -> Iterator[tuple[str, int]]:
    from binlog_format.gtids.gtid_set import GtidSet

    if isinstance(point, GtidSet):
        for source, intervals in sorted(point.intervals.items()):
            yield str(source), intervals[-1][1]
    else:
        for domain, gtid in sorted(point.last.items()):
            yield str(domain), gtid.seqno
