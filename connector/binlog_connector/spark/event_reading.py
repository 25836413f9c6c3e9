"""Events of a structured log for Spark: their columns (`events_schema`), and those of a partition (`event_batches`)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from binlog_connector.following.entry_marks import state_of
from binlog_connector.following.starts import StartMoment
from binlog_connector.following.steps import check_range_complete
from binlog_format.errors import OptionError, SchemaError
from binlog_format.structured.views.event_filter import ALL_EVENTS

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from binlog_connector.options.source_options import SourceOptions
    from binlog_connector.spark.partitions import RangePartition
    from binlog_format.log.log import Log
    from binlog_format.structured.event_log import EventSource, LogBlock
    from binlog_format.structured.views.event_filter import EventFilter
    from binlog_format.structured.views.view import LogsView

_NS_PER_SECOND = 1_000_000_000


def events_schema(log: Log, options: SourceOptions) -> pa.Schema:
    """The columns of view `logs`; with option `source` those of its arguments too, which the whole log is read for.

    Raises:
        OptionError: `INVALID_VALUE`: there is no such source.
        SchemaError: `COLUMN_MISMATCH`: there are several, whose arguments differ.
    """
    view = _view(options, ALL_EVENTS)
    if options.events.source is None:
        return view.schema()
    sources = _sources(log, _wanted(options, ALL_EVENTS))
    if not sources:
        raise OptionError(
            "INVALID_VALUE",
            f"option source: {log.path}: no source of the log is named by {options.events.source!r}",
            hint="Name an id, file:line or a format string; without the option, the columns source_id, file, line and "
            "format have what there is",
        )
    schemas = {source: view.schema(source) for source in sources}
    first = next(iter(schemas.items()))
    other = next((one for one in schemas.items() if not one[1].equals(first[1])), None)
    if other is not None:
        raise SchemaError(
            "COLUMN_MISMATCH",
            f"{log.path}: option source: {options.events.source!r} names sources with other arguments: "
            f"{_told(first[0])} and {_told(other[0])}",
            hint="Name one of them, or leave the option away: column args has the arguments of all, as JSON",
        )
    return first[1]


def event_batches(
    log: Log, options: SourceOptions, wanted: EventFilter, partition: RangePartition
) -> Iterator[pa.RecordBatch]:
    """The rows of *partition*.

    Raises:
        CorruptError: `BAD_ENTRY`.
        DataLossError: `TRUNCATED_TRANSACTION`: the log ends now before *partition* does.
    """
    batches = _view(options, wanted).batches(_planned_entries(log, partition))
    if options.events.sort_window_ns is None:
        return batches
    from binlog_format.structured.views.sorting import sorted_by_time

    return sorted_by_time(batches, options.events.sort_window_ns)


def _planned_entries(log: Log, partition: RangePartition) -> Iterator[LogBlock]:
    assert log.events is not None, "view logs is of logs of events"
    reached = partition.start
    if reached >= partition.end:
        return
    for block in log.events.entries(partition.start, partition.end, state_of(partition.state)):
        reached = block.next_position
        yield block
    check_range_complete(log, reached, partition.end)


def _view(options: SourceOptions, wanted: EventFilter) -> LogsView:
    from binlog_format.structured.views.view import LogsView  # compiled code takes a moment to load

    return LogsView(_wanted(options, wanted), typed=options.events.source is not None)


def _wanted(options: SourceOptions, wanted: EventFilter) -> EventFilter:
    """Events that the options and Spark's filters select."""
    wanted = replace(wanted, rules=options.events.rules, source=options.events.source)
    if not isinstance(options.end, StartMoment):
        return wanted
    last = options.end.seconds * _NS_PER_SECOND - 1
    return replace(wanted, last_ns=last if wanted.last_ns is None else min(last, wanted.last_ns))


def _sources(log: Log, wanted: EventFilter) -> list[EventSource]:
    assert log.events is not None, "view logs is of logs of events"
    found: dict[EventSource, None] = {}
    for block in log.events.entries():
        found |= dict.fromkeys(block.sources)
        found |= dict.fromkeys(block.state_after.sources.values())
    return [source for source in found if wanted.accepts(source)]


def _told(source: EventSource) -> str:
    texts = (text.decode("utf-8", "backslashreplace") for text in (source.file, source.format, source.argument_tags))
    file, format_string, tags = texts
    return f'source {source.id} ({file}:{source.line}, "{format_string}", argument tags {tags})'
