"""`spark.read`: from the start to an end that is fixed when the query is planned, `BinlogBatchReader`.

Filters that Spark hands over save reading (`wanted_by`; `events_wanted_by` for view `logs`). All filters stay with
Spark too: what is left out here, its own evaluation would leave out. So a filter that is not understood, or only
partly, costs nothing but time. `texts_of` and `range_of` give the texts, or the range, that a filter allows in its
column.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader

from binlog_connector.following.offsets import PreparedHistory, taken_in
from binlog_connector.following.starts import advance, ending, initial_offset, initial_offset_or_gap
from binlog_connector.following.watched import file_start
from binlog_connector.options.query_views import ALL_WANTED, Wanted, open_watched
from binlog_connector.options.source_options import View
from binlog_connector.spark.partitions import RangePartition, plan_partitions, sound_partitions, with_gap
from binlog_connector.spark.reading import RangeReader
from binlog_connector.spark.spark_api import (
    EqualNullSafe,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
    readable,
    readable_errors,
)
from binlog_format.position import Position
from binlog_format.structured.event_filter import ALL_EVENTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql.datasource import Filter, InputPartition
    from pyspark.sql.types import StructType

    from binlog_connector.following.offsets import SourceOffset
    from binlog_connector.following.watched import WatchedLog
    from binlog_connector.log_definitions import SchemaFile
    from binlog_connector.options.source_options import SourceOptions
    from binlog_format.structured.event_filter import EventFilter

    Range = tuple[int, int]


logger = logging.getLogger(__name__)


class BinlogBatchReader(DataSourceReader):
    """A batch read; the end is fixed once, when the query is planned."""

    def __init__(self, options: SourceOptions, schema: StructType, schema_file: SchemaFile | None = None) -> None:
        options.check_batch()
        self._options = options
        self._range_reader = RangeReader(options, schema.json(), schema_file)

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
            parts = self._parts(watched, begin, last)
        parts = [replace(part, until=stop.wanted) for part in parts if _may_hold(part, wanted)]
        return with_gap(parts, gap, start.position) or [nothing]

    def _parts(self, watched: WatchedLog, begin: SourceOffset, last: Position | None) -> list[RangePartition]:
        if self._options.events.skip_damaged:
            return sound_partitions(watched, begin, last, self._options.partitions_min)
        end, steps = advance(watched, begin, end=last)
        return plan_partitions(
            watched.log,
            begin.position,
            end.position if last is None else min(end.position, last),
            skip=taken_in(watched.log, begin, end.position),
            count_min=self._options.partitions_min,
            prepared=PreparedHistory(begin.position, begin.prepared_xa, steps),
            state=begin.state,
        )

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


INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
_EVERYTHING = INT64_MIN, INT64_MAX
_EPOCH = datetime.fromtimestamp(0, UTC)
_MICRO = timedelta(microseconds=1)


def texts_of(spark_filter: Filter) -> frozenset[str] | None:
    """The texts of which the column must have one; None: the filter does not tell."""
    # `a = NULL` is true of nothing; `a <=> NULL` is true of null, which is left to Spark.
    if isinstance(spark_filter, EqualNullSafe) and spark_filter.value is None:
        return None
    if isinstance(spark_filter, EqualTo | EqualNullSafe):
        values: tuple[object, ...] = (spark_filter.value,)
    elif isinstance(spark_filter, In):
        values = spark_filter.value
    else:
        return None
    return frozenset(value for value in values if isinstance(value, str))


def both(known: frozenset[str] | None, texts: frozenset[str]) -> frozenset[str]:
    """Values of a column that two filters allow; *known* is None before the first filter."""
    return texts if known is None else known & texts


def range_of(spark_filter: Filter, number: Callable[[object], int | None]) -> Range:
    """The least and the largest number that the filter lets through; all of 64 bits where it does not tell.

    Args:
        number: `integer` or `micros`: a value of the column as a number; None: it is none.
    """
    if isinstance(spark_filter, In):
        numbers = [number(value) for value in spark_filter.value]
        known = [value for value in numbers if value is not None]
        return (min(known), max(known)) if known and len(known) == len(numbers) else _EVERYTHING
    value = number(getattr(spark_filter, "value", None))
    if value is None:
        return _EVERYTHING
    if isinstance(spark_filter, EqualTo | EqualNullSafe):
        return value, value
    if isinstance(spark_filter, GreaterThan | GreaterThanOrEqual):
        return value + isinstance(spark_filter, GreaterThan), INT64_MAX
    if isinstance(spark_filter, LessThan | LessThanOrEqual):
        return INT64_MIN, value - isinstance(spark_filter, LessThan)
    return _EVERYTHING


def integer(value: object) -> int | None:
    """A whole number."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def micros(value: object) -> int | None:
    """A timestamp, in microseconds since 1970 UTC."""
    # Spark gives timestamps with a time zone; one without has none that is known here.
    return (value - _EPOCH) // _MICRO if isinstance(value, datetime) and value.tzinfo is not None else None


_TEXTS = {
    "severity": "severities",
    "category": "categories",
    "function": "functions",
    "file": "files",
    "format": "formats",
}
"""Columns of texts, and the fields of `EventFilter`."""

_NS_PER_MICRO = 1_000


def events_wanted_by(filters: Iterable[Filter]) -> EventFilter:
    """Events that all of *filters* together allow; Spark alone applies filters that are not understood."""
    wanted = ALL_EVENTS
    for spark_filter in filters:
        path: tuple[str, ...] = getattr(spark_filter, "attribute", ())
        if len(path) == 1:
            wanted = _narrowed(wanted, spark_filter, path[0])
    return wanted


def _narrowed(wanted: EventFilter, spark_filter: Filter, column: str) -> EventFilter:
    if column in _TEXTS:
        texts = texts_of(spark_filter)
        name = _TEXTS[column]
        return wanted if texts is None else replace(wanted, **{name: both(getattr(wanted, name), texts)})  # type: ignore[arg-type]
    if column == "severity_no":
        least, most = range_of(spark_filter, integer)
        return replace(
            wanted, severity_least=max(wanted.severity_least, least), severity_most=min(wanted.severity_most, most)
        )
    if column == "ns":
        return _in_time(wanted, *range_of(spark_filter, integer))
    if column == "time":
        # A time is cut to microseconds: all nanoseconds of the last one count.
        least, most = range_of(spark_filter, micros)
        return _in_time(wanted, least * _NS_PER_MICRO, most * _NS_PER_MICRO + _NS_PER_MICRO - 1)
    return wanted


def _in_time(wanted: EventFilter, least: int, most: int) -> EventFilter:
    least = max(least, INT64_MIN if wanted.first_ns is None else wanted.first_ns)
    most = min(most, INT64_MAX if wanted.last_ns is None else wanted.last_ns)
    if (least, most) == (INT64_MIN, INT64_MAX):
        return wanted
    return replace(wanted, first_ns=least, last_ns=most)


_MICROS_PER_SECOND = 1_000_000
_POSITION_PARTS = ("file_no", "page", "chunk")

# Where a view has what; views that are not here, or columns, are Spark's alone. `events` has rows without a table, and
# rows of `tables` are no groups.
_TABLE_VIEWS = (View.CHANGES, View.CHANGEFEED, View.TABLES)
_TIME_COLUMNS = {View.CHANGES: "commit_time", View.CHANGEFEED: "_commit_timestamp", View.TRANSACTIONS: "commit_time"}
_POSITION_COLUMNS = {
    View.CHANGES: "position",
    View.CHANGEFEED: "_position",
    View.EVENTS: "position",
    View.TRANSACTIONS: "position",
}


def wanted_by(filters: Iterable[Filter], view: View) -> Wanted:
    """The part that all of *filters* together allow."""
    if view is View.LOGS:
        return Wanted(events=events_wanted_by(filters))
    wanted = ALL_WANTED
    ranges: dict[str, tuple[int, int]] = dict.fromkeys(_POSITION_PARTS, (0, INT64_MAX))
    for spark_filter in filters:
        path: tuple[str, ...] = getattr(spark_filter, "attribute", ())
        if len(path) == 1:
            wanted = _by_column(wanted, spark_filter, path[0], view)
        elif len(path) == 2 and path[0] == _POSITION_COLUMNS.get(view) and path[1] in ranges:
            least, most = range_of(spark_filter, integer)
            known = ranges[path[1]]
            ranges[path[1]] = max(known[0], least), min(known[1], most)
    return _by_position(wanted, ranges)


def _by_column(wanted: Wanted, spark_filter: Filter, column: str, view: View) -> Wanted:
    if column == _TIME_COLUMNS.get(view):
        return _by_time(wanted, spark_filter)
    values = texts_of(spark_filter)
    # The typed views' own columns may have any name: those of changes and tables are theirs alone.
    if values is None or view not in (View.CHANGES, View.TABLES):
        return wanted
    if column == "database":
        return replace(wanted, databases=both(wanted.databases, values))
    if column == "table":
        return replace(wanted, tables=both(wanted.tables, values))
    if column == "op" and view is View.CHANGES:
        return replace(wanted, ops=both(wanted.ops, values))
    return wanted


def _by_time(wanted: Wanted, spark_filter: Filter) -> Wanted:
    least, most = range_of(spark_filter, micros)
    firsts, lasts = [wanted.first_second], [wanted.last_second]
    if least != INT64_MIN:
        firsts.append(least // _MICROS_PER_SECOND)
    if most != INT64_MAX:
        lasts.append(-(-most // _MICROS_PER_SECOND))
    return replace(
        wanted,
        first_second=max((second for second in firsts if second is not None), default=None),
        last_second=min((second for second in lasts if second is not None), default=None),
    )


def _by_position(wanted: Wanted, ranges: dict[str, tuple[int, int]]) -> Wanted:
    if any(least > most for least, most in ranges.values()):
        return replace(wanted, nothing=True)
    # A part counts only where all parts before it have one value; else its whole range is possible.
    least, most = [0, 0, 0], [INT64_MAX] * 3
    fixed = True
    for index, part in enumerate(_POSITION_PARTS):
        low, high = ranges[part]
        if fixed:
            least[index], most[index] = low, high
        fixed = fixed and low == high
    first = Position(*least) if any(least) else None
    last = Position(*most) if most != [INT64_MAX] * 3 else None
    return replace(wanted, first=first, last=last)
