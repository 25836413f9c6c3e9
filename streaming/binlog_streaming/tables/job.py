"""A job, running: `TablesJob(job).start()`, then `wait()`; `request_stop()` from anywhere.

The stream reads the view `tables` of the Spark source; each micro-batch is one Spark job (`batch.write_batch`). Spark
moves the offset in its checkpoint only after a batch that was written as a whole.
"""

from __future__ import annotations

import contextlib
import logging
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkContext

from binlog_connector.spark.options import SourceOptions
from binlog_format import open_log
from binlog_format.errors import BinlogError, OptionError
from binlog_streaming.job_state.checkpoint import read_offset
from binlog_streaming.job_state.declared_types import with_declared_types
from binlog_streaming.job_state.job_lock import JobLock
from binlog_streaming.job_state.progress import NOTE_TEXTS, BatchProgress, Progress
from binlog_streaming.job_state.record_keeper import RecordKeeper
from binlog_streaming.job_state.state_files import state_of
from binlog_streaming.lake.sinks import sink_type
from binlog_streaming.plan.failures import named_error
from binlog_streaming.plan.snapshots import snapshot_command
from binlog_streaming.spark_session import PLANNING_ONLY, is_submitted, local_session
from binlog_streaming.tables.batch import BatchContext, plan_of, write_batch
from binlog_streaming.tables.batch_versions import BatchVersions
from binlog_streaming.tables.evidence.watch import watched_after

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from binlog_connector.following.offsets import SourceOffset
    from binlog_connector.schema.definitions import TableName
    from binlog_format.log.log import Log
    from binlog_format.position import Position
    from binlog_streaming.job_state.progress import BatchListener, Note
    from binlog_streaming.plan.snapshots import PlannedSnapshot
    from binlog_streaming.settings import Job
    from binlog_streaming.tables.evidence.watch import Watched


logger = logging.getLogger(__name__)

STOP_PATIENCE_S = 30.0
"""Seconds that a stop waits for the running batch; a batch that is cut off does no harm, it is repeated."""


class TablesJob:
    """Keeps the tables of a job in step with its log.

    Args:
        job: The settings.
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
        session: SparkSession | None = None,
        listener: BatchListener | None = None,
        held: Iterable[tuple[str, str]] = (),
        from_first: bool | None = None,
    ) -> None:
        self.job = job = with_declared_types(job)
        self.progress = Progress()
        self.record = RecordKeeper(job)
        self._versions = BatchVersions(job)
        self._session = session
        self._owns_session = False
        self._listener = listener
        self._held = tuple(held)
        self._from_first = from_first
        self._query: StreamingQuery | None = None
        self._log: Log | None = None
        self._lock = JobLock(job)
        self._failure: BinlogError | None = None
        self._ending: Exception | None = None
        self._noted: set[tuple[str, Note]] = set()
        self._waiting: frozenset[TableName] = frozenset()
        self._told: set[str] = set()
        self._watched: dict[str, Watched] = {}
        self._wake = threading.Event()
        self._stop_requested = False
        self._idle = threading.Event()
        self._idle.set()

    def start(self, *, once: bool = False) -> None:
        """Start the stream; returns when it runs.

        Args:
            once: Take what is there now, in batches, then end.

        Raises:
            StorageError: `IN_USE`: another process runs the job, or writes its tables.
            BinlogError: The log, an option, the job's record or Spark's start.
        """
        options = self.job.source_options()
        # What is wrong with the log or the options is reported at once, not when Java has started.
        SourceOptions.parse({"path": self.job.source.path, **options})
        try:
            self._start(options, once=once)
        except BaseException:
            self._close()
            raise

    def _start(self, options: dict[str, str], *, once: bool) -> None:
        self._log = open_log(self.job.source.path)
        self._lock.take()
        self.record.begin()
        self.record.record_batch(self._held, from_first=self._from_first)
        self._told |= {one.snapshot for one in self.record.record.snapshots if not one.is_open}
        if self._session is None:
            self._owns_session = SparkContext._active_spark_context is None
            self._session = local_session(
                self.job.name,
                master=self.job.spark.master,
                settings=PLANNING_ONLY | {key: _spark_value(value) for key, value in self.job.spark.settings.items()},
                log_file=self.spark_log,
            )
            load_workers(self._session.sparkContext, self.job.sink.format)
        try:
            frame = self._session.readStream.format("binlog-stream").options(**options).load(self.job.source.path)
            writer = frame.writeStream.foreachBatch(self._write_batch).queryName(self.job.name)
            writer = writer.option("checkpointLocation", self.job.checkpoint)
            if once or self.job.trigger.available_now:
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
        threading.Thread(target=self._watch, args=(self._query,), name="binlog-stream-watch", daemon=True).start()

    def wait(self) -> None:
        """Return when the job has ended, or has stopped as was asked; then the job is over and its session closed.

        Raises:
            BinlogError: What ended it.
        """
        assert self._query is not None
        self._wake.wait()
        try:
            if self._stop_requested:
                self._stop_query(self._query)
            elif self._failure is not None:
                raise self._failure
            elif self._ending is not None:
                raise named_error(str(self._ending)) or self._ending from self._ending
        finally:
            self._close()

    def request_stop(self) -> None:
        """Finish the batch, then end `wait()`; end at once on a second call. Fit for signal handlers."""
        if self._stop_requested:
            self._idle.set()
        self._stop_requested = True
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
            return Path(tempfile.gettempdir()) / f"{self.job.name}-spark.log"
        checkpoint = Path(self.job.checkpoint)
        return checkpoint.with_name(f"{checkpoint.name}-spark.log")

    def _watch(self, query: StreamingQuery) -> None:
        try:
            query.awaitTermination()
        except Exception as error:  # handed to wait()
            self._ending = error
        self._wake.set()

    def _write_batch(self, frame: DataFrame, batch_id: int) -> None:
        self._idle.clear()
        started = time.monotonic()
        try:
            query_id = frame.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
            assert query_id is not None
            # Spark has written down where the batch ends before it begins.
            offset = read_offset(state_of(self.job), batch_id)
            context = BatchContext(
                query_id=query_id,
                batch_id=batch_id,
                job=self.job,
                gtid_position=gtid_position(offset),
                memory=self.record.memory(batch_id),
                watched=self._watched,
            )
            plan = plan_of(frame, context)
            read_seconds = time.monotonic() - started
            defined = self.record.keep_definitions(batch_id, plan.learned.definitions, offset)
            tables = write_batch(frame, replace(context, defined=defined), plan)
            self._watched = watched_after(self._watched, tables)
            if plan.end is not None:
                self._versions.record(query_id, batch_id, plan.end, context.gtid_position, tables)
            batch = BatchProgress(
                batch_id=batch_id,
                tables=tuple(tables),
                seconds=time.monotonic() - started,
                finished_at=time.time(),
                bytes_behind=self._bytes_behind(max((table.position for table in tables), default=None)),
                learned=plan.learned,
                read_seconds=read_seconds,
                offset=offset,
                defined=defined,
            )
            self.record.saw_batch(batch)
            self._say_notes(batch)
            self.progress.add(batch)
            if self._listener is not None:
                self._listener(batch)
        except BinlogError as error:
            self._failure = error
            raise
        finally:
            self._idle.set()

    def _say_notes(self, batch: BatchProgress) -> None:
        for stopped in batch.set_aside:
            logger.error(
                "set aside: %s at=%s gtid=%s: %s", stopped.name, stopped.position, stopped.gtid, stopped.reason
            )
        for one in batch.learned.snapshots.values():
            self._say_snapshot(one)
        for name in sorted(batch.learned.waiting - self._waiting):
            logger.warning("waits for its snapshot: table=%s (%s)", name, snapshot_command(name))
        self._waiting |= batch.learned.waiting
        for table in batch.tables:
            for note in sorted(table.notes):
                if (table.source_table, note) not in self._noted:
                    self._noted.add((table.source_table, note))
                    logger.warning(
                        "%s: %s table=%s target=%s", note, NOTE_TEXTS[note], table.source_table, table.target
                    )

    def _say_snapshot(self, one: PlannedSnapshot) -> None:
        if one.is_open or one.snapshot in self._told:
            return
        self._told.add(one.snapshot)
        if one.problem is None:
            logger.info(
                "complete: table=%s rows=%d gtid=%s snapshot=%s", one.name, one.rows, one.ended_gtid, one.snapshot
            )
        else:
            logger.error(
                "not complete: table=%s snapshot=%s: %s; take it again (%s)",
                one.name,
                one.snapshot,
                one.problem,
                snapshot_command(one.name),
            )

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
        self._idle.wait(STOP_PATIENCE_S)
        # Java may have got the same signal and be gone: then there is nothing left to stop.
        with contextlib.suppress(Py4JError, OSError):
            query.stop()

    def _close(self) -> None:
        self._lock.give_back()
        if self._log is not None:
            self._log.close()
        if self._owns_session and self._session is not None:
            with contextlib.suppress(Py4JError, OSError):
                self._session.stop()


def gtid_position(offset: SourceOffset | None) -> str | None:
    """GTIDs in the tables after a batch that ends at *offset*; None: unknown."""
    # What `startingGtid` covers is in the tables too, also where it follows in the log.
    gtid = None if offset is None else offset.gtid.advanced_by(offset.skip_gtid)
    return str(gtid) if gtid else None


def _not_started(error: Py4JJavaError, checkpoint: str, log_file: Path | None) -> OptionError:
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
