"""`spark.read`: from the start to an end that is fixed when the query is planned, `BinlogBatchReader`."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader

from binlog_connector.following.offsets import PreparedHistory, taken_in
from binlog_connector.following.starts import advance, ending, initial_offset, initial_offset_or_gap
from binlog_connector.following.watched import file_start
from binlog_connector.options.query_views import open_watched
from binlog_connector.spark.partitions import RangePartition, plan_partitions, with_gap
from binlog_connector.spark.reading import RangeReader
from binlog_connector.spark.spark_api import readable, readable_errors
from binlog_connector.spark.wanted import wanted_by

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql.datasource import Filter, InputPartition
    from pyspark.sql.types import StructType

    from binlog_connector.definitions.log_definitions import SchemaFile
    from binlog_connector.following.offsets import SourceOffset
    from binlog_connector.following.watched import WatchedLog
    from binlog_connector.options.query_views import Wanted
    from binlog_connector.options.source_options import SourceOptions
    from binlog_format.position import Position

logger = logging.getLogger(__name__)


class BinlogBatchReader(DataSourceReader):
    """A batch read; the end is fixed once, when the query is planned."""

    def __init__(self, options: SourceOptions, schema: StructType, schema_file: SchemaFile | None = None) -> None:
        options.check_batch()
        self._options = options
        self._range_reader = RangeReader(options, schema, schema_file)

    @readable
    def partitions(self) -> Sequence[InputPartition]:
        """The log from the start to its present end, cut into partitions."""
        wanted = self._range_reader.wanted
        with open_watched(self._options) as watched:
            self._options.of_log(watched.log)
            start, gap = self._start(watched)
            stop = ending(watched, self._options.end, start.position)
            # Spark reads an empty list as "one partition of no value".
            nothing = RangePartition(start.position, start.position, gap=gap)
            last = _least(stop.position, None if wanted.last is None else file_start(wanted.last.file_no + 1))
            if wanted.nothing or (last is not None and last <= start.position):
                return [nothing]
            begin = _clipped(watched, start, wanted)
            if last is not None and last <= begin.position:
                return [nothing]
            end, steps = advance(watched, begin, end=last)
            parts = plan_partitions(
                watched.log,
                begin.position,
                end.position if last is None else min(end.position, last),
                skip=taken_in(watched.log, begin, end.position),
                count_min=self._options.partitions_min,
                prepared=PreparedHistory(begin.position, begin.prepared_xa, steps),
                state=begin.state,
            )
        parts = [replace(part, until=stop.wanted) for part in parts if _may_hold(part, wanted)]
        return with_gap(parts, gap, start.position) or [nothing]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of *partition*, on a worker."""
        assert isinstance(partition, RangePartition)
        if partition.start < partition.end or partition.gap is not None:
            with readable_errors():
                yield from self._range_reader.read(partition)

    def _start(self, watched: WatchedLog) -> tuple[SourceOffset, str | None]:
        if self._options.fail_on_data_loss:
            return initial_offset(watched, self._options.start), None
        start, loss = initial_offset_or_gap(watched, self._options.start)
        if loss is not None:
            logger.warning("going on at %s after data loss: %s", start.position, loss)
        return start, None if loss is None else str(loss)


class FilteringBatchReader(BinlogBatchReader):
    """A batch read that Spark hands its filters: see `spark_api.hands_over_filters`."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Note what *filters* leave over; Spark evaluates all of them itself too."""
        options = self._options
        if "view" not in options.given:
            with open_watched(options) as watched:
                options = options.of_log(watched.log)
        wanted = wanted_by(filters, options.view)
        self._range_reader = replace(self._range_reader, wanted=wanted)
        return filters


def _clipped(watched: WatchedLog, start: SourceOffset, wanted: Wanted) -> SourceOffset:
    """*start*, or the start of a later file before which nothing is wanted.

    Only there: a position that a user compares with need not be the start of anything.
    """
    first = wanted.first
    if first is None or first.file_no <= start.position.file_no or first.file_no > watched.last_number():
        return start
    return replace(start, position=file_start(first.file_no), prepared_xa=())


def _may_hold(part: RangePartition, wanted: Wanted) -> bool:
    return (wanted.first is None or part.end > wanted.first) and (wanted.last is None or part.start <= wanted.last)


def _least(*positions: Position | None) -> Position | None:
    return min((position for position in positions if position is not None), default=None)
