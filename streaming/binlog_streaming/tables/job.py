"""The run of a job that keeps tables in step with a log: `TablesJob`.

The stream reads the view `tables` of the Spark source. Spark calls for each micro-batch, which is one Spark job
(`batch.write_batch`), and moves the offset in its checkpoint only after a batch that was written as a whole.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import shutil
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkContext

from binlog_connector.options.source_options import SourceOptions
from binlog_format import open_log
from binlog_format.errors import BinlogError, OptionError, storage_error
from binlog_format.messages import shows_values, visible
from binlog_streaming.job_state.checkpoint import read_checkpoint, read_offset, state_of
from binlog_streaming.job_state.job_run import JobRun
from binlog_streaming.job_state.progress import BatchProgress, Progress
from binlog_streaming.job_state.record import with_declared_types
from binlog_streaming.job_state.record_keeper import RecordKeeper
from binlog_streaming.lake.sinks import sink_type
from binlog_streaming.lake.table_places import path_part
from binlog_streaming.plan.failures import named_error
from binlog_streaming.spark_session import PLANNING_ONLY, bound_log, is_submitted, local_session
from binlog_streaming.tables.batch import BatchContext, plan_of, write_batch
from binlog_streaming.tables.batch_run import BatchVersions
from binlog_streaming.tables.evidence_watch import watched_after

if TYPE_CHECKING:
    from collections.abc import Iterable
    from contextlib import ExitStack

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from binlog_connector.following.offsets import SourceOffset
    from binlog_format.log.log import Log
    from binlog_format.position import Position
    from binlog_streaming.job_state.progress import BatchListener
    from binlog_streaming.job_state.record import JobRecord
    from binlog_streaming.settings import Job
    from binlog_streaming.tables.evidence_watch import Watched


logger = logging.getLogger(__name__)

SPARK_LOG = "binlog-stream-spark.log"
"""File of Spark's messages in the checkpoint's folder."""
SCRATCH_SUFFIX = ".tmp"
"""End of the name of Spark's folder for temporary files, beside its messages; each start of the job empties it."""

STOP_PATIENCE_S = 30.0
"""Seconds that a stop waits for the running batch; a batch that is cut off does no harm, it is repeated."""


class MicroBatch(NamedTuple):
    """Arguments of a call by Spark. *frame*: rows of the view `tables`."""

    frame: DataFrame
    batch_id: int


class TablesJob(JobRun[MicroBatch, BatchProgress, Progress]):
    """One run of a job; `stop` ends it at once when it is called twice.

    Args:
        once: Take what is there now, in batches, then end.
        session: A Spark session to use; default: that of this process, or one of its own, which ends with the job.
        listener: Called after every batch, on a thread of Spark's; what it raises ends the job.
        held: Tables (database and name) that exist without having been written by this checkpoint.
        from_first: See `RecordKeeper.record_batch`.

    Attributes:
        record: What the job remembers, in its checkpoint.
    """

    def __init__(
        self,
        job: Job,
        *,
        once: bool = False,
        session: SparkSession | None = None,
        listener: BatchListener | None = None,
        held: Iterable[tuple[str, str]] = (),
        from_first: bool | None = None,
    ) -> None:
        self.job = job = with_declared_types(job)
        super().__init__(job, Progress(), once=once or job.trigger.available_now, listener=listener)
        self.record = RecordKeeper(job)
        self._versions = BatchVersions(job)
        self._session = session
        self._owns_session = False
        self._held = tuple(held)
        self._from_first = from_first
        self._query: StreamingQuery | None = None
        self._log: Log | None = None
        self._failure: BinlogError | None = None
        self._ending: Exception | None = None
        self._watched: dict[str, Watched] = {}
        self._wake = threading.Event()
        self._idle_now = threading.Event()
        self._idle_now.set()

    @property
    def offset(self) -> SourceOffset | None:
        """See `JobRun`."""
        checkpoint = read_checkpoint(state_of(self.job))
        return None if checkpoint is None else checkpoint.offset

    @property
    def recorded(self) -> JobRecord:
        """See `JobRun`."""
        return self.record.record

    @property
    def start_facts(self) -> dict[str, object]:
        """See `JobRun`."""
        return {"spark_log": None if self.spark_log is None else str(self.spark_log)}

    def stop(self) -> None:
        """See `JobRun`; called again, it does not wait for the batch."""
        if self.is_stopped:
            self._idle_now.set()
        super().stop()

    def _check(self, resources: ExitStack) -> None:
        # What is wrong with the log or the options is reported at once, not when Java has started.
        SourceOptions.parse({"path": self.job.source.path, **self.job.source_options()})
        self._log = resources.enter_context(open_log(self.job.source.path))

    def _begin(self, resources: ExitStack) -> None:
        self.record.begin()
        self.record.record_batch(self._held, from_first=self._from_first)
        self.progress.know(self.record.record.snapshots)
        if self._session is None:
            self._owns_session = SparkContext._active_spark_context is None
            self._session = local_session(
                self.job.name,
                master=self.job.spark.master,
                settings=PLANNING_ONLY
                | self._scratch()
                | {key: _spark_value(value) for key, value in self.job.spark.settings.items()},
                log_file=self.spark_log,
            )
            resources.callback(self._stop_session)
            load_workers(self._session.sparkContext, self.job.sink.format)

    def _launch(self) -> None:
        assert self._session is not None, "it has begun"
        try:
            reader = self._session.readStream.format("binlog-stream").options(**self.job.source_options())
            frame = reader.load(self.job.source.path)
            writer = frame.writeStream.foreachBatch(self._write_batch).queryName(visible(self.job.name))
            writer = writer.option("checkpointLocation", self.job.checkpoint)
            if self.once:
                writer = writer.trigger(availableNow=True)
            else:
                writer = writer.trigger(processingTime=f"{self.job.trigger.interval_ms} milliseconds")
            self._query = writer.start()
        except BinlogError:
            raise
        except Py4JJavaError as error:
            raise named_error(str(error)) or _not_started(error, self.job.checkpoint, self.spark_log) from error
        except Exception as error:
            raise named_error(str(error)) or error from error
        self._resources.callback(self._stop_query, self._query)
        threading.Thread(target=self._watch, args=(self._query,), name="binlog-stream-watch", daemon=True).start()

    def _next(self) -> None:
        """Wait for the end, or for `stop`: Spark calls with batches."""
        self._wake.wait()
        if self.is_stopped:
            self._idle_now.wait(STOP_PATIENCE_S)
        if self._failure is not None:
            raise self._failure
        if self._ending is not None and not self.is_stopped:
            said = str(self._ending)
            # Its first line is what ended the query; the others are about the query.
            refused = _refused(said.partition("\n")[0], f"checkpoint {self.job.checkpoint}")
            raise named_error(said) or refused or self._ending from self._ending

    def _is_ended(self) -> bool:
        return self._wake.is_set()

    def _interrupt(self) -> None:
        self._wake.set()

    @property
    def query_id(self) -> str:
        """Id of the streaming query; it stays the same as long as the checkpoint is there."""
        assert self._query is not None
        return str(self._query.id)

    @property
    def spark_log(self) -> Path | None:
        """File of Spark's messages for a session of the job's own; None: the same as of `spark-submit`."""
        if is_submitted():
            return None
        if "://" in self.job.checkpoint:
            return (
                Path(tempfile.gettempdir()) / f"binlog-stream-{os.getuid()}" / f"{path_part(self.job.name)}-spark.log"
            )
        return Path(self.job.checkpoint) / SPARK_LOG

    def _scratch(self) -> dict[str, str]:
        """Spark's setting for temporary files, beside its messages; empty: the user's, or a cluster's, place stays."""
        if self.spark_log is None or not self._owns_session or not self.job.spark.master.startswith("local"):
            return {}
        folder = self.spark_log.with_suffix(SCRATCH_SUFFIX)
        shutil.rmtree(folder, ignore_errors=True)  # of a process that was killed: this one has the checkpoint's lock
        return {"spark.local.dir": str(folder)}

    def _watch(self, query: StreamingQuery) -> None:
        try:
            query.awaitTermination()
        except Exception as error:  # handed to wait()
            self._ending = error
        self._wake.set()

    def _write_batch(self, frame: DataFrame, batch_id: int) -> None:
        self._idle_now.clear()
        try:
            self._take(MicroBatch(frame, batch_id))
        except BinlogError as error:
            self._failure = error
            raise error from (error.__cause__ if shows_values() else None)  # Spark logs the texts of causes
        except (OSError, Py4JJavaError) as error:
            # What targets and records cannot write has a name: these are files in which Spark gives tasks their work.
            said, place = str(error), frame.sparkSession.conf.get("spark.local.dir", tempfile.gettempdir())
            refused = None if named_error(said) else _refused(said, f"temporary files of Spark in {place}")
            if refused is None:
                raise
            self._failure = refused
            raise refused from (error if shows_values() else None)
        finally:
            self._idle_now.set()

    def _apply(self, batch: MicroBatch) -> BatchProgress:
        frame, batch_id = batch
        started = time.monotonic()
        query_id = frame.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
        assert query_id is not None
        # Spark has written down where the batch ends before it begins, but a loss of power may take that back: tables
        # would have a batch then of which nobody knows.
        state = state_of(self.job)
        state.sync(f"offsets/{batch_id}")
        offset = read_offset(state, batch_id)
        context = BatchContext(
            query_id=query_id,
            batch_id=batch_id,
            job=self.job,
            gtid_position=gtid_position(offset),
            job_state=self.record.state_before(batch_id),
            watched=self._watched,
        )
        plan = plan_of(frame, context)
        read_seconds = time.monotonic() - started
        defined = self.record.keep_definitions(batch_id, plan.state_change.definitions, offset)
        tables = write_batch(frame, replace(context, defined=defined), plan)
        self._watched = watched_after(self._watched, tables)
        bound_log(self.spark_log)
        if plan.end is not None:
            # A batch that is done again may see more of the log behind its last group.
            end = plan.end if offset is None else offset.position
            self._versions.record(query_id, batch_id, end, context.gtid_position, tables)
        progress = BatchProgress(
            batch_id=batch_id,
            tables=tuple(tables),
            seconds=time.monotonic() - started,
            finished_at=time.time(),
            bytes_behind=self._bytes_behind(max((table.position for table in tables), default=None)),
            state_change=plan.state_change,
            read_seconds=read_seconds,
            offset=offset,
            defined=defined,
        )
        self.record.saw_batch(progress)
        return progress

    def _bytes_behind(self, position: Position | None) -> int | None:
        assert self._log is not None
        if position is None:
            return None
        total = 0
        for file in self._log.files():
            if file.file_no > position.file_no:
                total += file.used_size
            elif file.file_no == position.file_no:
                total += max(0, file.used_size - self._log.size_before(position))
        return total

    def _stop_query(self, query: StreamingQuery) -> None:
        # Java may have got the same signal and be gone: then there is nothing left to stop.
        with contextlib.suppress(Py4JError, OSError):
            query.stop()

    def _stop_session(self) -> None:
        if self._owns_session and self._session is not None:
            with contextlib.suppress(Py4JError, OSError):
                self._session.stop()


def gtid_position(offset: SourceOffset | None) -> str | None:
    """GTIDs in the tables after a batch that ends at *offset*; None: unknown."""
    # What `startingGtid` covers is in the tables too, also where it follows in the log.
    gtid = None if offset is None else offset.gtid.advanced_by(offset.skip_gtid)
    return str(gtid) if gtid else None


_JAVA_ANSWERS = {"No space left on device": errno.ENOSPC, "Disk quota exceeded": errno.EDQUOT}
_JAVA_ANSWERS |= {"Permission denied": errno.EACCES, "Read-only file system": errno.EROFS}
"""Answers of the system, in Java's words."""


def _refused(said: str, place: str) -> BinlogError | None:
    """The named error for what the system answered when Spark wrote somewhere; None: Spark *said* something else."""
    number = next((number for words, number in _JAVA_ANSWERS.items() if words in said), None)
    if number is None:
        return None
    return storage_error(place, "write", OSError(number, os.strerror(number)))


def _not_started(error: Py4JJavaError, checkpoint: str, log_file: Path | None) -> BinlogError:
    refused = _refused(str(error), f"checkpoint {checkpoint}")
    if refused is not None:
        return refused
    message = str(error.java_exception.toString()).partition("\n")[0]
    where = f"; its messages are in {log_file}" if log_file is not None else ""
    return OptionError(
        "INVALID_VALUE",
        f"Spark does not start the query with the checkpoint {checkpoint}: {message}{where}",
        hint="The checkpoint is written by Spark: in a folder, or where its jars know their way to (spark.settings); "
        "tables can be in an object store without them, so a job file can name a folder for the checkpoint alone",
    )


def _spark_value(value: str | float | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


_MODULES = (
    "binlog_streaming.tables.batch",
    "binlog_connector.spark.stream_reader",
    "binlog_connector.schema.statement_rows",
    "pandas",  # Spark hands rows over with it
)


def load_workers(spark_context: SparkContext, table_format: str) -> None:
    """Load the reader of the log and the writer of a table format in as many workers as run at once.

    Returns at once. What goes wrong is left to the first batch, which reports it.
    """
    count = spark_context.defaultParallelism
    tasks = spark_context.parallelize(range(count), count)

    def run() -> None:
        with suppress(Exception):
            tasks.foreachPartition(partial(_load, table_format))

    threading.Thread(target=run, name="binlog-stream-load", daemon=True).start()


def _load(table_format: str, _: Iterable[int]) -> None:
    for module in _MODULES:
        import_module(module)
    sink_type(table_format)
