"""OpenLineage events of one run of a job, sent by a thread of its own: `reporting(job)`.

A server that is away never holds the job up: what could not be told is told with the next event.
"""

from __future__ import annotations

import logging
import threading
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.metadata import version
from typing import TYPE_CHECKING

import msgspec
import typer
from openlineage.client import OpenLineageClient
from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent, RunState
from openlineage.client.facet_v2 import (
    dataset_version_dataset,
    error_message_run,
    job_type_job,
    output_statistics_output_dataset,
    processing_engine_run,
    schema_dataset,
)
from openlineage.client.uuid import generate_new_uuid

from binlog_format.errors import BinlogError, OptionError
from binlog_format.source_file import without_archive
from binlog_streaming.job_state.progress import Outcome
from binlog_streaming.lake.sinks import sink_type

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from binlog_streaming.job_state.progress import BatchProgress
    from binlog_streaming.settings import Job as TablesJob
    from binlog_streaming.settings import Sink


_NAME = "binlog-stream"
_VERSION = version(_NAME)
_PRODUCER = f"pkg:pypi/{_NAME}@{_VERSION}"


class WrittenTable(msgspec.Struct, kw_only=True):
    """A target, as a run has left it so far.

    Attributes:
        source_table: `database.table` in the log.
        version: What a reader names to get it as it is; None: its format has no versions.
        columns: Its columns; None: they are not known.
        rows: Rows and keys that the run brought to it.
    """

    source_table: str
    uri: str
    version: str | None
    columns: pa.Schema | None
    rows: int


class RunEvents:
    """Makes the events of one run.

    Args:
        job: The settings; `lineage.namespace` is set.
        once: The run takes what is there, and ends.
    """

    def __init__(self, job: TablesJob, *, once: bool) -> None:
        assert job.lineage.namespace is not None
        self._source = job.lineage.source or "://".join(_place(without_archive(job.source.path)))
        self._run_id = str(generate_new_uuid())
        kind = job_type_job.JobTypeJobFacet(
            processingType="BATCH" if once else "STREAMING", integration="BINLOG_STREAM", jobType="JOB"
        )
        self._job = Job(namespace=job.lineage.namespace, name=job.name, facets={"jobType": kind})

    def event(
        self, state: RunState, tables: Sequence[WrittenTable] = (), *, failure: BaseException | None = None
    ) -> RunEvent:
        """The next events; *failure* ended the run."""
        engine = processing_engine_run.ProcessingEngineRunFacet(
            version=_VERSION, name=_NAME, openlineageAdapterVersion=_VERSION
        )
        run = Run(runId=self._run_id, facets={"processing_engine": engine})
        if failure is not None:
            assert run.facets is not None
            run.facets["errorMessage"] = error_message_run.ErrorMessageRunFacet(
                message=str(failure), programmingLanguage="PYTHON"
            )
        sources = sorted({table.source_table for table in tables})
        return RunEvent(
            eventType=state,
            eventTime=datetime.now(UTC).isoformat(),
            run=run,
            job=self._job,
            producer=_PRODUCER,
            inputs=[InputDataset(namespace=self._source, name=name) for name in sources],
            outputs=[_output(table) for table in tables],
        )


def _output(table: WrittenTable) -> OutputDataset:
    namespace, name = _place(table.uri)
    output = OutputDataset(namespace=namespace, name=name)
    assert output.facets is not None
    assert output.outputFacets is not None
    if table.columns is not None:
        fields = [
            schema_dataset.SchemaDatasetFacetFields(name=field.name, type=str(field.type), ordinal_position=number)
            for number, field in enumerate(table.columns, 1)
        ]
        output.facets["schema"] = schema_dataset.SchemaDatasetFacet(fields=fields)
    if table.version is not None:
        output.facets["version"] = dataset_version_dataset.DatasetVersionDatasetFacet(datasetVersion=table.version)
    output.outputFacets["outputStatistics"] = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(
        rowCount=table.rows
    )
    return output


def _place(uri: str) -> tuple[str, str]:
    """Namespace and name of files, as OpenLineage's naming has them: `file` and a path, `s3://bucket` and a key."""
    scheme, is_url, rest = uri.partition("://")
    if not is_url:
        return "file", uri
    bucket, _, key = rest.partition("/")
    return f"{scheme}://{bucket}", key


logger = logging.getLogger(__name__)

INTERVAL_SECONDS = 60.0
"""Seconds between two events about tables that are written all the time."""

_END_SECONDS = 10.0
"""Seconds that the end of a job waits for a server that does not answer."""


class LineageReporter:
    """Sends the events of a run; `batch` after every batch.

    Args:
        sink: Of the job, to look at columns of its targets.
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
        self._is_warned = False
        self._thread = threading.Thread(target=self._run, name="binlog-stream-lineage", daemon=True)

    def start(self) -> None:
        """The run has begun."""
        self._thread.start()

    def batch(self, batch: BatchProgress) -> None:
        """A batch is in the tables."""
        with self._lock:
            for table in batch.tables:
                if table.outcome is Outcome.SET_ASIDE:
                    continue
                known = self._tables.get(table.target)
                # Columns change with statements; a target that had any is asked for its columns again.
                columns = None if known is None or table.statements else known.columns
                self._tables[table.target] = WrittenTable(
                    source_table=table.source_table,
                    uri=table.target,
                    version=table.version or (None if known is None else known.version),
                    columns=columns,
                    rows=table.rows_written + (0 if known is None else known.rows),
                )
                self._changed.add(table.target)
        if batch.tables:
            self._first_write.set()

    def end(self, state: RunState, failure: BaseException | None = None) -> None:
        """The run is over; returns when that was told, or could not be."""
        self._last = (state, failure)
        self._ended.set()
        self._first_write.set()
        self._thread.join(_END_SECONDS)

    def _run(self) -> None:
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
            if not self._is_warned:
                self._is_warned = True
                logger.warning("lineage: it cannot be told, and is tried again: %s", error)
            return False
        return True


@contextmanager
def reporting(job: TablesJob, *, once: bool) -> Iterator[LineageReporter]:
    """Send the events of a run of *job*, whose file has `[lineage]`, within this context.

    Raises:
        OptionError: `MISSING`: OpenLineage's client is not configured; `INVALID_VALUE`: it is configured wrong.
    """
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
