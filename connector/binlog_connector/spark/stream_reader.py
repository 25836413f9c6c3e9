"""`spark.readStream`: `BinlogStreamReader`, which plans micro-batches on the driver and reads them on workers.

PySpark 4.2 gives `latestOffset` a start and a limit, and knows Trigger.AvailableNow. On 4.0 and 4.1 the same object
works without: the start is where the batch before ended, the limit is the option's.
"""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceStreamReader

from binlog_connector.following.log_end import end_of_log, end_position, offset_at, offset_over_damage
from binlog_connector.following.offsets import PreparedHistory, SourceOffset, taken_in
from binlog_connector.following.resume import compare, compare_range, first_batch_purged
from binlog_connector.following.starts import (
    Advance,
    Edge,
    advance,
    ending,
    initial_offset,
    initial_offset_or_gap,
    settled_damage,
)
from binlog_connector.options.query_views import open_watched
from binlog_connector.spark.partitions import RangePartition, plan_partitions, sound_partitions, with_gap
from binlog_connector.spark.spark_api import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxFiles,
    SupportsTriggerAvailableNow,
    readable,
    readable_errors,
)
from binlog_format.errors import BinlogError, CorruptError, OptionError
from binlog_format.kernels import interpreted_if_small

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from concurrent.futures import Future

    import pyarrow as pa
    from pyspark.sql.datasource import InputPartition
    from pyspark.sql.types import StructType

    from binlog_connector.following.decision import Decision
    from binlog_connector.following.starts import Ending
    from binlog_connector.following.watched import WatchedLog
    from binlog_connector.log_definitions import SchemaFile
    from binlog_connector.options.source_options import SourceOptions
    from binlog_connector.spark.spark_api import ReadLimit
    from binlog_format.position import Position
    from binlog_format.transactions.xa import XaStep


logger = logging.getLogger(__name__)


class BinlogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A streaming read. Each call opens the log again, to see a file that was replaced under its name."""

    def __init__(self, options: SourceOptions, schema: StructType, schema_file: SchemaFile | None) -> None:
        self._options = options
        self._schema = schema.json()  # see `RangeReader`
        self._schema_file = schema_file
        self._target: Position | None = None
        self._ending: Ending | None = None
        self._format: str | None = None
        self._start_gap: tuple[Position, str] | None = None  # what a new query leaves out at its start
        self._planned_end: SourceOffset | None = None
        self._limit: ReadLimit | None = None  # of the batch measured last
        self._ahead = NextOffsetPrefetch()
        self._steps: dict[tuple[Position, Position], tuple[XaStep, ...]] = {}  # of the batch measured last

    @readable
    def initialOffset(self) -> dict[str, int | str]:
        """Start of a new query; a restarted query uses its checkpoint's offset."""
        with self._open() as watched:
            if self._options.fail_on_data_loss:
                self._planned_end = initial_offset(watched, self._options.start)
            else:
                self._planned_end, loss = initial_offset_or_gap(watched, self._options.start)
                if loss is not None:
                    logger.warning("going on at %s after data loss: %s", self._planned_end.position, loss)
                    self._start_gap = self._planned_end.position, str(loss)
            if self._options.end is not Edge.LATEST:
                self._ending = ending(watched, self._options.end, self._planned_end.position)
        return self._planned_end.to_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        """The option `maxBytesPerTrigger`, else `maxFilesPerTrigger`; where both are given, both are kept."""
        if self._options.bytes_per_trigger_max is not None:
            return ReadMaxBytes(self._options.bytes_per_trigger_max)
        if self._options.files_per_trigger_max is not None:
            return ReadMaxFiles(self._options.files_per_trigger_max)
        return ReadAllAvailable()

    @readable
    def latestOffset(
        self, start: Mapping[str, object] | None = None, limit: ReadLimit | None = None
    ) -> dict[str, int | str]:
        """End of the micro-batch that begins at *start*; *start* itself if nothing is new.

        Costs a look at the page before *start* and a scan of what is new, which may have been done ahead.
        """
        self._limit = limit
        begin = _offset(start) if start is not None else self._planned_end
        with self._open(begin) as watched:
            if begin is None:
                # PySpark before 4.2, restarted: where the checkpoint stands is not given, so no limit can be kept.
                stop = self._stop(watched).position
                if stop is None:
                    return end_of_log(watched).to_json()
                last = offset_at(watched, stop, gtid=watched.log.gtid_position_at(stop))
                return self._taken(watched, SourceOffset(watched.log.start_position()), last).to_json()
            decision = self._decide(watched, begin)
            accepted = decision.offset
            # Where a program has begun its file anew, it has written nothing yet.
            if decision.is_waiting or (begin.ended_inode and not watched.has(accepted.position.file_no)):
                return begin.to_json()
            end = self._end_of_batch(watched, accepted, limit)
            is_in_next_file = end.position.file_no != accepted.position.file_no
            is_at_risk = is_in_next_file and watched.log.traits.has_changes
        if is_at_risk:
            # The search passes over files that were purged meanwhile, and does not see another log in their place.
            with self._open(begin) as watched:
                self._decide(watched, accepted)
        return end.to_json()

    @readable
    def prepareForTriggerAvailableNow(self) -> None:
        """Fix the end: what is committed later is for the next run."""
        with self._open() as watched:
            # A scan would end at the damage.
            self._target = watched.end_of_bytes() if self._options.events.skip_damaged else end_position(watched)

    @readable
    def reportLatestOffset(self) -> dict[str, int | str] | None:
        """End of the data on disk, for the query's progress; from sizes alone, nothing is scanned."""
        with self._open() as watched:
            return SourceOffset(watched.end_of_bytes(), format=watched.log.format_name).to_json()

    @readable
    def partitions(self, start: Mapping[str, object], end: Mapping[str, object]) -> Sequence[InputPartition]:
        """The micro-batch from *start* to *end*, cut into partitions; also of a batch that is repeated."""
        wanted = _offset(end)
        with self._open(wanted) as watched:
            self._see_begun_batch(_offset(start), wanted)
            begin, loss = self._accept(watched, _offset(start), wanted)
            if start != end:
                # An empty batch is how PySpark before 4.2 begins after a restart. To count a limit from there would
                # leave out what `availableNow`, one batch there, has to take.
                self._planned_end = wanted
            finish, _ = self._accept(watched, wanted)
            until = self._stop(watched).wanted
            parts = self._parts(watched, begin, finish)
            if start != end and _is_cut(watched, finish):
                self._ahead.begin(finish, self._limit, partial(self._end_ahead, finish, self._limit))
        if loss is None and self._start_gap is not None and self._start_gap[0] == begin.position:
            loss = self._start_gap[1]
        return with_gap([replace(part, until=until) for part in parts], loss, begin.position)

    def _see_begun_batch(self, start: SourceOffset, end: SourceOffset) -> None:
        """See that the first batch, which is begun again where the log begins now, still begins before its end."""
        if start.position <= end.position:
            return
        loss = first_batch_purged(self._options.path, start, end)
        if self._options.fail_on_data_loss:
            raise loss
        logger.warning("going on at %s after data loss: %s", end.position, loss)

    def _parts(self, watched: WatchedLog, begin: SourceOffset, finish: SourceOffset) -> list[RangePartition]:
        if self._options.events.skip_damaged:
            return sound_partitions(watched, begin, finish.position, self._options.partitions_min)
        return plan_partitions(
            watched.log,
            begin.position,
            finish.position,
            skip=taken_in(watched.log, begin, finish.position),
            count_min=self._options.partitions_min,
            prepared=PreparedHistory(
                begin.position,
                begin.prepared_xa,
                self._steps.get((begin.position, finish.position)),
                kept=tuple(xa for xa in begin.prepared_xa if xa in finish.prepared_xa),
            ),
            state=begin.state,
        )

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of *partition*, on a worker."""
        # Loaded here: the process that plans, a new one for each query, decodes nothing.
        from binlog_connector.spark.reading import RangeReader

        assert isinstance(partition, RangePartition)
        with readable_errors():
            yield from RangeReader(self._options, self._schema, self._schema_file).read(partition)

    @contextmanager
    def _open(self, offset: SourceOffset | None = None) -> Iterator[WatchedLog]:
        # Not when this is made: Spark shows nothing of an error there.
        self._options.check_streaming()
        with open_watched(self._options, self._format or (None if offset is None else offset.format)) as watched:
            self._options.of_log(watched.log)
            self._format = watched.log.format_name
            first = watched.log.start_position().file_no if offset is None else offset.position.file_no
            with interpreted_if_small(lambda: watched.files.written_size(first)):
                yield watched

    def _accept(
        self, watched: WatchedLog, offset: SourceOffset, end: SourceOffset | None = None
    ) -> tuple[SourceOffset, str | None]:
        """Position to continue at after *offset*, and the part before it, or up to *end*, that is lost."""
        decision = self._decide(watched, offset, end)
        return decision.offset, None if decision.loss is None else str(decision.loss)

    def _decide(self, watched: WatchedLog, offset: SourceOffset, end: SourceOffset | None = None) -> Decision:
        is_of_events = end is not None and end != offset and not watched.log.traits.has_changes
        decision = compare_range(watched, offset, end) if is_of_events and end else compare(watched, offset)
        if decision.doubt is not None:
            logger.warning("going on at %s: %s", decision.offset.position, decision.doubt.reason)
        if decision.loss is not None:
            if self._options.fail_on_data_loss:
                raise decision.loss
            logger.warning("going on at %s after data loss: %s", decision.offset.position, decision.loss)
        return decision

    def _end_of_batch(self, watched: WatchedLog, begin: SourceOffset, limit: ReadLimit | None) -> SourceOffset:
        stop = self._stop_position(watched)
        if stop is not None and begin.position >= stop:
            return begin
        found = self._ahead.take(begin, limit) or self._advance(watched, begin, limit)
        self._steps = {(begin.position, found.offset.position): found.xa}
        return self._taken(watched, begin, found.offset)

    def _end_ahead(self, begin: SourceOffset, limit: ReadLimit | None) -> Advance | None:
        """End of a batch from *begin* on that no later commit can change; None: a later commit may change it."""
        with self._open(begin) as watched:
            if compare(watched, begin).loss is not None:
                return None
            found = self._advance(watched, begin, limit)
            return found if _is_cut(watched, found.offset) else None

    def _advance(self, watched: WatchedLog, begin: SourceOffset, limit: ReadLimit | None) -> Advance:
        size_max, files_max = self._options.bytes_per_trigger_max, self._options.files_per_trigger_max
        if isinstance(limit, ReadMaxBytes):
            size_max = limit.max_bytes
        elif isinstance(limit, ReadMaxFiles):
            files_max = limit.max_files
        elif isinstance(limit, ReadAllAvailable):
            size_max = files_max = None
        try:
            return advance(watched, begin, size_max=size_max, files_max=files_max, end=self._stop_position(watched))
        except CorruptError:
            found = settled_damage(watched, begin) if self._options.events.skip_damaged else None
            if found is None:
                raise
            return Advance(offset_over_damage(watched, begin, found))

    def _stop_position(self, watched: WatchedLog) -> Position | None:
        stops = (self._target, self._stop(watched).position)
        return min((position for position in stops if position is not None), default=None)

    def _stop(self, watched: WatchedLog) -> Ending:
        """End of the query; also of a query that has reached it, and is started again."""
        if self._ending is None:
            self._ending = ending(watched, self._options.end, watched.log.start_position())
        return self._ending

    def _taken(self, watched: WatchedLog, start: SourceOffset, end: SourceOffset) -> SourceOffset:
        return replace(end, gtid=self._stop(watched).taken(start, end.gtid, end.position))


def _is_cut(watched: WatchedLog, end: SourceOffset) -> bool:
    """True if a batch that ends there ends because of its limit: the log continues in a later file.

    A server makes the next file before it needs it, so that one tells nothing.
    """
    return watched.last_number() > end.position.file_no + 1


def _offset(fields: Mapping[str, object]) -> SourceOffset:
    try:
        return SourceOffset.from_json(fields)
    except ValueError as error:
        raise OptionError(
            "INVALID_VALUE", f"checkpoint: {error}", hint="Is this checkpoint of another source? Use a new one"
        ) from error


class NextOffsetPrefetch:
    """Searches for the end in a thread; gives it once to a caller with the same start and limit.

    A backlog would be scanned for an end while nothing else is done, and cold files would be waited for. A copy by way
    of `pickle` looks for nothing.
    """

    def __init__(self) -> None:
        self._wanted: tuple[SourceOffset, ReadLimit | None] | None = None
        self._found: Future[Advance | None] | None = None

    def __reduce__(self) -> tuple[type[NextOffsetPrefetch], tuple[()]]:
        return NextOffsetPrefetch, ()

    def begin(self, start: SourceOffset, limit: ReadLimit | None, find: Callable[[], Advance | None]) -> None:
        """Call *find*, which gives None where the end may still move.

        What *find* raises of the log is not told: who asks then looks himself.
        """
        pool = ThreadPoolExecutor(1, thread_name_prefix="end-ahead")
        self._wanted, self._found = (start, limit), pool.submit(find)
        pool.shutdown(wait=False)  # the thread ends when it is done

    def take(self, start: SourceOffset, limit: ReadLimit | None) -> Advance | None:
        """Result of the search for *start* and *limit*; waits for it. None: there was none."""
        wanted, found = self._wanted, self._found
        self._wanted = self._found = None
        if found is None or wanted != (start, limit):
            return None
        try:
            return found.result()
        except BinlogError:
            return None
