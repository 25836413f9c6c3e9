"""Observation of a running job: its state, metrics and page, for all commands that run one: `observed`."""

from __future__ import annotations

import contextlib
import os
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from binlog_connector.metrics.exporter import MetricsExporter
from binlog_format.errors import BinlogError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from contextlib import AbstractContextManager

    from binlog_connector.metrics.follower import Follower
    from binlog_streaming.settings.job_file import AnyJob
    from binlog_streaming.status.recorder import StatusRecorder


TOKEN_VARIABLE = "BINLOG_STREAM_STATUS_TOKEN"

StatusOption = Annotated[
    str | None,
    typer.Option(
        "--status",
        metavar="HOST:PORT",
        envvar="BINLOG_STREAM_STATUS",
        help="Show the state of the job on a page, for example at 127.0.0.1:8765 (port 0: a free one). An address that "
        f"others reach needs a token: --status-token-file, or the variable {TOKEN_VARIABLE}.",
    ),
]
StatusTokenOption = Annotated[
    Path | None, typer.Option("--status-token-file", metavar="FILE", help="A file with the token of the page.")
]


@dataclass(frozen=True, slots=True)
class PageOptions:
    """Options of a command for the page.

    Attributes:
        address: `host:port`; None: there is no page.
        token_file: Path; None: the token is in the environment, or there is none.
    """

    address: str | None
    token_file: Path | None


NO_PAGE = PageOptions(None, None)


@contextlib.contextmanager
def observed(job: AnyJob, page: PageOptions) -> Iterator[StatusRecorder]:
    """Watch *job*, which runs in here."""
    from binlog_streaming.status.recorder import StatusRecorder

    with contextlib.ExitStack() as stack:
        recorder = stack.enter_context(StatusRecorder(job))
        metrics = stack.enter_context(exporting(job, recorder.follower))
        if metrics is not None:
            recorder.addresses["metrics"] = metrics
        if page.address is not None:
            # Only here: without a page nothing of it is loaded.
            from binlog_streaming.status.page.serving import serving

            recorder.addresses["status"] = stack.enter_context(serving(page.address, _token(page), recorder))
        yield recorder


def address_error(job: AnyJob, page: PageOptions) -> BinlogError | None:
    """The error with which `observed` would end, found by listening for a moment; None: it would not.

    A port that the job has itself, because it runs, is no error.
    """
    parts: list[tuple[str, Callable[[], AbstractContextManager[object]]]] = []
    if job.metrics.port is not None:
        port, host = job.metrics.port, job.metrics.host
        parts.append((_metrics_url(host, port), lambda: MetricsExporter(port, host)))
    if job.metrics.otlp:
        from binlog_connector.metrics.otlp import OtlpExporter

        parts.append(("", lambda: contextlib.nullcontext(OtlpExporter(job.name))))
    if page.address is not None:
        from binlog_streaming.status.page.serving import page_socket

        address = page.address
        parts.append((f"http://{address}/", lambda: page_socket(address, _token(page))))
    with contextlib.ExitStack() as stack:
        for url, listen in parts:
            try:
                stack.enter_context(listen())
            except BinlogError as error:
                if error.condition != "BINLOG_MACHINE.PORT_IN_USE" or url not in _own_addresses(job):
                    return error
    return None


def _own_addresses(job: AnyJob) -> Collection[str]:
    """Addresses at which a running process of *job* listens."""
    from binlog_streaming.status.view import ALIVE, StatusFile, phase_of

    state = StatusFile(job).read()
    return state.addresses.values() if state is not None and phase_of(state, time.time()) in ALIVE else ()


def _token(page: PageOptions) -> str | None:
    from binlog_connector.kafka.connection import Secret

    if page.token_file is not None:
        return Secret(file=str(page.token_file)).reveal()
    return Secret(environment=TOKEN_VARIABLE).reveal() if TOKEN_VARIABLE in os.environ else None


def _metrics_url(host: str, port: int) -> str:
    return f"http://{host}:{port}/metrics"


@contextmanager
def exporting(job: AnyJob, follower: Follower) -> Iterator[str | None]:
    """Metrics of *follower*, while this lasts: where Prometheus finds them; None: the file of *job* asks for none."""
    with ExitStack() as stack:
        address = None
        if job.metrics.port is not None:
            exporter = stack.enter_context(MetricsExporter(job.metrics.port, job.metrics.host))
            exporter.add(follower)
            address = _metrics_url(exporter.host, exporter.port)
        if job.metrics.otlp:
            from binlog_connector.metrics.otlp import OtlpExporter

            stack.enter_context(OtlpExporter(job.name)).add(follower)
        yield address
