"""OpenLineage events of one run of a job, sent by a thread of its own: `reporting(job)`.

A server that is away never holds the job up: what could not be told is told with the next event.
"""

from __future__ import annotations

import logging
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

from binlog_connector.installing import require
from binlog_format.errors import BinlogError, OptionError
from binlog_streaming.job_state.progress import Outcome
from binlog_streaming.lake.sinks import sink_type

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from openlineage.client import OpenLineageClient
    from openlineage.client.event_v2 import RunEvent, RunState

    from binlog_streaming.job_state.progress import BatchProgress
    from binlog_streaming.lineage.events import RunEvents, WrittenTable
    from binlog_streaming.settings import Job, Sink

logger = logging.getLogger(__name__)

INTERVAL_SECONDS = 60.0
"""Seconds between two events about tables that are written all the time."""

_END_SECONDS = 10.0
"""Seconds that the end of a job waits for a server that does not answer."""


class LineageReporter:
    """Sends the events of a run; `batch` after every batch.

    Args:
        sink: Of the job, to look at columns of its targets.
        events: Makes the events.
        client: Sends them.
        interval: Seconds between two events while the job runs; the first follows the first batch at once.
    """

    def __init__(
        self, sink: Sink, events: RunEvents, client: OpenLineageClient, *, interval: float = INTERVAL_SECONDS
    ) -> None:
        self._sink = sink
        self._events = events
        self._client = client
        self._interval = interval
        self._lock = threading.Lock()
        self._tables: dict[str, WrittenTable] = {}
        self._changed: set[str] = set()
        self._first_write = threading.Event()
        self._ended = threading.Event()
        self._last: tuple[RunState, BaseException | None] | None = None
        self._is_told = False
        self._thread = threading.Thread(target=self._run, name="binlog-stream-lineage", daemon=True)

    def start(self) -> None:
        """The run has begun."""
        self._thread.start()

    def batch(self, batch: BatchProgress) -> None:
        """A batch is in the tables."""
        from binlog_streaming.lineage.events import WrittenTable

        with self._lock:
            for one in batch.tables:
                if one.outcome is Outcome.SET_ASIDE:
                    continue
                known = self._tables.get(one.target)
                # Columns change with statements; who has changed any is asked for its columns again.
                columns = None if known is None or one.statements else known.columns
                self._tables[one.target] = WrittenTable(
                    source_table=one.source_table,
                    uri=one.target,
                    version=one.version or (None if known is None else known.version),
                    columns=columns,
                    rows=one.rows_written + (0 if known is None else known.rows),
                )
                self._changed.add(one.target)
        if batch.tables:
            self._first_write.set()

    def end(self, state: RunState, failure: BaseException | None = None) -> None:
        """The run is over; returns when that was told, or could not be."""
        self._last = (state, failure)
        self._ended.set()
        self._first_write.set()
        self._thread.join(_END_SECONDS)

    def _run(self) -> None:
        from openlineage.client.event_v2 import RunState

        is_started = self._send(self._events.event(RunState.START))
        self._first_write.wait()
        while not self._ended.is_set():
            is_started = is_started or self._send(self._events.event(RunState.START))
            self._tell_changed()
            self._ended.wait(self._interval)
        if not is_started:
            self._send(self._events.event(RunState.START))
        assert self._last is not None
        state, failure = self._last
        with self._lock:
            uris = list(self._tables)
        self._send(self._events.event(state, self._written(uris), failure=failure))

    def _tell_changed(self) -> None:
        from openlineage.client.event_v2 import RunState

        with self._lock:
            changed, self._changed = self._changed, set()
        if changed and not self._send(self._events.event(RunState.RUNNING, self._written(sorted(changed)))):
            with self._lock:
                self._changed |= changed

    def _written(self, uris: list[str]) -> list[WrittenTable]:
        """Targets as they are now, with their columns as far as these can be read."""
        found = []
        for uri in uris:
            with self._lock:
                table = self._tables[uri]
            if table.columns is None:
                table.columns = _columns(self._sink, uri)
            found.append(table)
        return found

    def _send(self, event: RunEvent) -> bool:
        try:
            self._client.emit(event)
        except Exception as error:  # whatever a transport raises; the job goes on
            if not self._is_told:
                self._is_told = True
                logger.warning("lineage: it cannot be told, and is tried again: %s", error)
            return False
        return True


@contextmanager
def reporting(job: Job, *, once: bool) -> Iterator[LineageReporter | None]:
    """Send the events of a run of *job* within this context; None: its file has no `[lineage]`.

    Raises:
        OptionError: `MISSING`: openlineage-python is not installed, or not configured; `INVALID_VALUE`: the latter is
            wrong.
    """
    if job.lineage.namespace is None:
        yield None
        return
    require("openlineage")
    from openlineage.client.event_v2 import RunState

    from binlog_streaming.lineage.events import RunEvents

    reporter = LineageReporter(job.sink, RunEvents(job, once=once), _client())
    reporter.start()
    try:
        yield reporter
    except (typer.Exit, KeyboardInterrupt):
        reporter.end(RunState.ABORT)
        raise
    except BaseException as error:
        reporter.end(RunState.FAIL, error)
        raise
    reporter.end(RunState.COMPLETE)


def _client() -> OpenLineageClient:
    from openlineage.client import OpenLineageClient

    try:
        client = OpenLineageClient()
    except Exception as error:  # whatever the library makes of its configuration
        raise OptionError("INVALID_VALUE", f"lineage: OpenLineage's configuration: {error}") from error
    if client.transport.kind == "console" and not client.config.transport:
        hint = "Set OPENLINEAGE_URL, or what else its documentation has; it is not set in the job file"
        raise OptionError("MISSING", "lineage: OpenLineage's client is not configured", hint=hint)
    return client


def _columns(sink: Sink, uri: str) -> pa.Schema | None:
    try:
        target = sink_type(sink.format).at(sink, uri)
        try:
            return target.schema()
        finally:
            target.close()
    except (BinlogError, OSError) as error:
        logger.debug("lineage: columns of %s: %s", uri, error)
        return None
