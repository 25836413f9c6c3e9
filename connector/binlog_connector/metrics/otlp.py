"""The same metrics for OpenTelemetry, pushed now and then over OTLP/HTTP: `OtlpExporter`.

Where to, how often and with what is for OpenTelemetry's own variables: `OTEL_EXPORTER_OTLP_ENDPOINT`,
`OTEL_EXPORTER_OTLP_HEADERS`, `OTEL_METRIC_EXPORT_INTERVAL`, `OTEL_SERVICE_NAME`, `OTEL_RESOURCE_ATTRIBUTES` ...
"""

from __future__ import annotations

import logging
import os
import threading
import time
from importlib.metadata import version
from typing import TYPE_CHECKING

from binlog_connector.installing import missing_extra
from binlog_connector.metrics.exporter import FollowerMetrics
from binlog_format.errors import OptionError

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics.export import Metric as OtlpMetric
    from opentelemetry.sdk.metrics.export import MetricsData
    from prometheus_client.core import Metric

logger = logging.getLogger(__name__)

_INTERVAL_VARIABLE = "OTEL_METRIC_EXPORT_INTERVAL"
_INTERVAL_MS = 60_000
"""Milliseconds between two pushes, if the variable sets none; as OpenTelemetry's specification has it."""

_SCOPE = "binlog-stream"


class OtlpExporter(FollowerMetrics):
    """Pushes metrics in a thread of its own; a context manager, which ends with a last push.

    A receiver that is away costs nothing but one warning: the next push holds everything.

    Args:
        service: Name of the service, unless OTEL_SERVICE_NAME sets another one.
    """

    def __init__(self, service: str) -> None:
        super().__init__()
        try:
            from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
            from opentelemetry.sdk.resources import SERVICE_NAME, Resource
        except ImportError as error:
            raise missing_extra("opentelemetry") or error from error
        self._interval = _interval_seconds()
        try:
            self._exporter = OTLPMetricExporter()
        except ValueError as error:
            raise OptionError("INVALID_VALUE", f"metrics.otlp: an OTEL_ variable: {error}") from error
        named = {} if "OTEL_SERVICE_NAME" in os.environ else {SERVICE_NAME: service}
        self._resource = Resource.create(named)
        self._started_ns = time.time_ns()
        self._stopped = threading.Event()
        self._is_told = False
        # It repeats itself every minute; a receiver that is away is reported here, once.
        library = logging.getLogger("opentelemetry.exporter.otlp")
        if library.level == logging.NOTSET:
            library.setLevel(logging.CRITICAL)
        self._thread = threading.Thread(target=self._run, name="binlog-stream-otlp", daemon=True)

    def __enter__(self) -> OtlpExporter:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()
        self._exporter.shutdown()

    def _run(self) -> None:
        while not self._stopped.wait(self._interval):
            self._push()
        self._push()

    def _push(self) -> None:
        from opentelemetry.sdk.metrics.export import MetricExportResult

        if self._exporter.export(self._data()) is MetricExportResult.SUCCESS or self._is_told:
            return
        self._is_told = True
        logger.warning("metrics: OpenTelemetry's receiver does not take them; they are sent again and again")

    def _data(self) -> MetricsData:
        from opentelemetry.sdk.metrics.export import MetricsData, ResourceMetrics, ScopeMetrics
        from opentelemetry.sdk.util.instrumentation import InstrumentationScope

        now = time.time_ns()
        metrics = [made for family in self.registry.collect() if (made := self._metric(family, now)) is not None]
        scope = ScopeMetrics(InstrumentationScope(_SCOPE, version(_SCOPE)), metrics, "")
        return MetricsData([ResourceMetrics(self._resource, [scope], "")])

    def _metric(self, family: Metric, now: int) -> OtlpMetric | None:
        """A family of Prometheus under the name that its samples have there; None: it has none."""
        from opentelemetry.sdk.metrics.export import AggregationTemporality, Gauge, NumberDataPoint, Sum
        from opentelemetry.sdk.metrics.export import Metric as OtlpMetric

        if not family.samples:
            return None
        points = [NumberDataPoint(sample.labels, self._started_ns, now, sample.value) for sample in family.samples]
        data: Sum | Gauge = Gauge(points)
        if family.type == "counter":
            data = Sum(points, AggregationTemporality.CUMULATIVE, is_monotonic=True)
        return OtlpMetric(family.samples[0].name, family.documentation, "", data)


def _interval_seconds() -> float:
    text = os.environ.get(_INTERVAL_VARIABLE, str(_INTERVAL_MS))
    if not text.isdecimal() or int(text) == 0:
        raise OptionError("INVALID_VALUE", f"{_INTERVAL_VARIABLE}: expected milliseconds, got {text!r}")
    return int(text) / 1000
