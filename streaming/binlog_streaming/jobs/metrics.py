"""Metrics of a running job for Prometheus and OpenTelemetry: `exporting`."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from binlog_connector.metrics.exporter import MetricsExporter

if TYPE_CHECKING:
    from collections.abc import Iterator

    from binlog_connector.metrics.follower import Follower
    from binlog_streaming.settings.job_file import AnyJob


@contextmanager
def exporting(job: AnyJob, follower: Follower) -> Iterator[str | None]:
    """Metrics of *follower*, while this lasts: where Prometheus finds them; None: the file of *job* asks for none.

    Raises:
        OptionError: `MISSING`: prometheus-client, or OpenTelemetry, is not installed.
        AccessError: `DENIED`: the port is taken, or not allowed.
    """
    with ExitStack() as stack:
        address = None
        if job.metrics.port is not None:
            exporter = stack.enter_context(MetricsExporter(job.metrics.port, job.metrics.host))
            exporter.add(follower)
            address = f"http://{exporter.host}:{exporter.port}/metrics"
        if job.metrics.otlp:
            from binlog_connector.metrics.otlp import OtlpExporter

            stack.enter_context(OtlpExporter(job.name)).add(follower)
        yield address
