"""`spark.readStream`: `BinlogStreamReader`, which plans micro-batches on the driver and reads them on workers.

PySpark 4.2 gives `latestOffset` a start and a limit, and knows Trigger.AvailableNow. On 4.0 and 4.1 the same object
works without: the start is where the batch before ended, the limit is the option's.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceStreamReader

from binlog_connector.spark.edges import end_of_log
from binlog_connector.spark.failures import readable, readable_errors
from binlog_connector.spark.offsets import SourceOffset
from binlog_connector.spark.partitions import RangePartition, plan_partitions
from binlog_connector.spark.reading import RangeReader, open_watched
from binlog_connector.spark.resume import compare
from binlog_connector.spark.spark_api import ReadAllAvailable, ReadLimit, ReadMaxBytes, SupportsTriggerAvailableNow
from binlog_connector.spark.starts import advance, initial_offset, not_passed
from binlog_format.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql.datasource import InputPartition
    from pyspark.sql.types import StructType

    from binlog_connector.spark.options import SourceOptions
    from binlog_connector.spark.watched import WatchedLog

logger = logging.getLogger(__name__)


class BinlogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A streaming read.

    The log is opened anew for each call: a file that was replaced under its name must be seen.
    """

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._range_reader = RangeReader(options, schema)
        self._target: SourceOffset | None = None
        self._planned_end: SourceOffset | None = None

    @readable
    def initialOffset(self) -> dict[str, int | str]:
        """Where a new query begins; a restarted one takes its checkpoint's offset."""
        with open_watched(self._options) as watched:
            self._planned_end = initial_offset(watched, self._options.start)
        return self._planned_end.to_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        """The option `maxBytesPerTrigger`."""
        size_max = self._options.bytes_per_trigger_max
        return ReadAllAvailable() if size_max is None else ReadMaxBytes(size_max)

    @readable
    def latestOffset(
        self, start: Mapping[str, object] | None = None, limit: ReadLimit | None = None
    ) -> dict[str, int | str]:
        """Where the micro-batch that begins at *start* ends; *start* itself when nothing is new.

        Costs a look at the page before *start* and a scan of what is new.
        """
        with open_watched(self._options) as watched:
            begin = _offset(start) if start is not None else self._planned_end
            if begin is None:
                # PySpark before 4.2, restarted: where the checkpoint stands is not said, so no limit can be kept.
                return end_of_log(watched).to_json()
            accepted = self._accept(watched, begin)
            return self._end_of_batch(watched, accepted, self._size_max(limit)).to_json()

    @readable
    def prepareForTriggerAvailableNow(self) -> None:
        """Fix the end: what is committed later is for the next run."""
        with open_watched(self._options) as watched:
            self._target = end_of_log(watched)

    @readable
    def reportLatestOffset(self) -> dict[str, int | str] | None:
        """How far the data on disk reaches, for the query's progress; from sizes alone, nothing is scanned."""
        with open_watched(self._options) as watched:
            return SourceOffset(watched.end_of_bytes(), format=watched.log.format_name).to_json()

    @readable
    def partitions(self, start: Mapping[str, object], end: Mapping[str, object]) -> Sequence[InputPartition]:
        """The micro-batch from *start* to *end*, cut into partitions; also of a batch that is repeated."""
        with open_watched(self._options) as watched:
            begin, wanted = self._accept(watched, _offset(start)), _offset(end)
            self._planned_end = wanted
            finish = self._accept(watched, wanted)
            return plan_partitions(
                watched.log,
                begin.position,
                finish.position,
                skip_gtid=begin.skip_gtid,
                count_min=self._options.partitions_min,
            )

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of *partition*, on a worker."""
        assert isinstance(partition, RangePartition)
        with readable_errors():
            yield from self._range_reader.read(partition)

    def _accept(self, watched: WatchedLog, offset: SourceOffset) -> SourceOffset:
        decision = compare(watched, offset)
        if decision.loss is not None:
            if self._options.fail_on_data_loss:
                raise decision.loss
            logger.warning("going on at %s after data loss: %s", decision.offset.position, decision.loss)
        return decision.offset

    def _end_of_batch(self, watched: WatchedLog, begin: SourceOffset, size_max: int | None) -> SourceOffset:
        target = self._target
        if target is not None and begin.position >= target.position:
            return begin
        end = advance(watched, begin, size_max=size_max)
        if target is not None and end.position > target.position:
            gtid = begin.gtid.advanced_by(target.gtid)
            end = replace(target, gtid=gtid, skip_gtid=not_passed(begin.skip_gtid, gtid))
        return end

    def _size_max(self, limit: ReadLimit | None) -> int | None:
        if limit is None:
            return self._options.bytes_per_trigger_max
        return limit.max_bytes if isinstance(limit, ReadMaxBytes) else None


def _offset(fields: Mapping[str, object]) -> SourceOffset:
    try:
        return SourceOffset.from_json(fields)
    except ValueError as error:
        raise OptionError(
            "INVALID_VALUE", f"checkpoint: {error}", hint="Is this checkpoint of another source? Use a new one"
        ) from error
