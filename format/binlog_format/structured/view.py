"""View `logs`: `LogsView`. What does not depend on arguments is decided first, so that a filter spares all the rest.

Rows of view `logs` in the order of time, as far as they are not too far from it: `sorted_by_time`.

Writers of a program log side by side, and the log has their events by writer: time jumps back and forth by as much
as lies between two flushes. Whoever waits so long before a row is given can put them in order.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from binlog_format.block import copied
from binlog_format.errors import CorruptError
from binlog_format.position import VIRTUAL_PAGE_SIZE
from binlog_format.rows.arrow_arrays import (
    array_mask,
    fixed_array,
    joined_texts,
    numbers_array,
    struct_array,
    unsigned_64_array,
)
from binlog_format.rows.json.json_rows import JsonStyle
from binlog_format.structured.arguments.json_texts import arguments_json
from binlog_format.structured.arguments.source_decoder import SourceDecoder
from binlog_format.structured.event_filter import ALL_EVENTS, severity_name, shown_text, shown_texts
from binlog_format.structured.event_log import carried_times, event_times
from binlog_format.structured.layout import NS_PER_MICRO
from binlog_format.structured.scan_kernels import NO_SUCH_SOURCE, rows_of_sources
from binlog_format.structured.text.event_format import MESSAGE_FORMAT, EventFormat
from binlog_format.structured.text.lines import LineWriter, messages
from binlog_format.structured.type_tags import unique_names
from binlog_format.views.columns import POSITION_TYPE, texts_of_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from binlog_format.kernels import Int32s, Int64s
    from binlog_format.structured.event_filter import EventFilter
    from binlog_format.structured.event_log import LogBlock
    from binlog_format.structured.metadata import EventSource

TIME_TYPE = pa.timestamp("us", "UTC")
_INT64_MAX = (1 << 63) - 1

EVENT_FIELDS = (
    pa.field("position", POSITION_TYPE),  # of the entry: a total order
    pa.field("time", TIME_TYPE),  # null without a clock sync
    pa.field("ns", pa.int64()),  # the same, nanoseconds since 1970 UTC
    pa.field("severity", pa.string()),  # `Severity`, lower case; its number, where it has no name
    pa.field("severity_no", pa.int32()),
    pa.field("category", pa.string()),
    pa.field("function", pa.string()),
    pa.field("file", pa.string()),
    pa.field("line", pa.int64()),  # null where 63 bits do not hold it
    pa.field("writer_id", pa.decimal128(20, 0)),
    pa.field("writer", pa.string()),
    pa.field("source_id", pa.int64()),  # an event has no place for more than 63 bits
    pa.field("format", pa.string()),
)
"""Columns that do not depend on arguments."""

LOGS_SCHEMA = pa.schema(
    [
        *EVENT_FIELDS,
        pa.field("message", pa.string()),  # as the library's reader prints it
        pa.field("args", pa.string()),  # JSON: an array of all arguments
    ]
)


def chosen(block: LogBlock, wanted: EventFilter = ALL_EVENTS) -> LogBlock:
    """*block* with the events that are wanted alone, and their sources by id; their arguments are not looked at."""
    accepted = wanted.wanted(block.sources)
    rows = np.empty(len(block.events), dtype=np.int64)
    count = rows_of_sources(block.events, accepted, rows)
    assert count != NO_SUCH_SOURCE, "an event refers to a source that is not given"
    found = block if count == len(rows) else with_events(block, rows[:count])
    if wanted.limits_time:
        found = with_events(found, np.flatnonzero(wanted.in_time(*event_times(found))))
    return _by_id(found, np.flatnonzero(accepted).tolist())


def _by_id(block: LogBlock, accepted: list[int]) -> LogBlock:
    """*block* with some of its sources, all that its events refer to, in one order whichever comes first in it.

    What is made of the types of all sources together is kept from block to block, as long as these are the same.
    """
    order = sorted(accepted, key=lambda number: (block.sources[number].id, number))
    if order == list(range(len(block.sources))):
        return block
    numbers = np.zeros(len(block.sources), dtype=np.int32)
    numbers[order] = np.arange(len(order))
    events = copied(block.events)
    events["source"] = numbers[block.events["source"]]
    return replace(block, events=events, sources=tuple(block.sources[number] for number in order))


def with_events(block: LogBlock, rows: Int64s) -> LogBlock:
    """*block* with some of its events alone."""
    # As bytes: NumPy's own way goes field by field.
    whole = np.ascontiguousarray(block.events).view(np.dtype((np.void, block.events.dtype.itemsize)))
    return replace(block, events=whole[rows].view(block.events.dtype))


def event_columns(block: LogBlock) -> list[pa.Array]:
    """`EVENT_FIELDS` of all events of *block*."""
    events, sources = block.events, block.sources
    source, writer = (np.ascontiguousarray(events[name]) for name in ("source", "writer"))
    ns, has_time = event_times(block)
    lines = np.array([log_source.line for log_source in sources], dtype=np.uint64)
    severities = np.array([log_source.severity for log_source in sources], dtype=np.int32)
    writer_ids = np.array([log_writer.id for log_writer in block.writers], dtype=np.uint64)
    source_ids = np.array([log_source.id for log_source in sources], dtype=np.uint64)
    return [
        _positions(block),
        fixed_array(TIME_TYPE, ns // NS_PER_MICRO, has_time),
        fixed_array(pa.int64(), ns, has_time),
        _texts((severity_name(log_source.severity) for log_source in sources), source),
        numbers_array(severities[source]),
        _texts((shown_text(log_source.category) for log_source in sources), source),
        _texts((shown_text(log_source.function) for log_source in sources), source),
        _texts((shown_text(log_source.file) for log_source in sources), source),
        fixed_array(pa.int64(), lines[source], (lines <= _INT64_MAX)[source]),
        unsigned_64_array(writer_ids[writer], np.ones(len(writer), dtype=np.bool_)),
        _texts((shown_text(log_writer.name) for log_writer in block.writers), writer),
        numbers_array(source_ids[source], pa.int64()),
        _texts((shown_text(log_source.format) for log_source in sources), source),
    ]


def _positions(block: LogBlock) -> pa.Array:
    pages, chunks = np.divmod(block.file_offset + block.events["start"], VIRTUAL_PAGE_SIZE)
    file_nos = np.full(len(pages), block.file_no, dtype=np.int64)
    return struct_array(POSITION_TYPE, [numbers_array(column) for column in (file_nos, pages, chunks.astype(np.int32))])


def _texts(texts: Iterable[str], rows: Int32s) -> pa.Array:
    return texts_of_rows(*joined_texts(list(texts)), rows)


class LogsView:
    """The events of a structured log, in the order of files and bytes.

    Args:
        wanted: Which events; nothing else of others is looked at.
        typed: Arguments become columns of their own too. All events that are wanted then have the same ones.
    """

    def __init__(self, wanted: EventFilter = ALL_EVENTS, *, typed: bool = False) -> None:
        self._wanted = wanted
        self._typed = typed
        self._messages = LineWriter(EventFormat(MESSAGE_FORMAT))
        self._decoders: dict[tuple[bytes, bytes], SourceDecoder] = {}

    def schema(self, source: EventSource | None = None) -> pa.Schema:
        """Schema of the batches; of typed ones for events of *source*."""
        if not self._typed:
            return LOGS_SCHEMA
        assert source is not None, "only a source has arguments"
        return pa.schema([*LOGS_SCHEMA, *_beside(self._decoder(source).schema)])

    def json_styles(self) -> dict[str, JsonStyle]:
        """JSON styles for `json_lines` of this view."""
        return {"args": JsonStyle(ready=True), "writer_id": JsonStyle(whole=True)}

    def batches(
        self, blocks: Iterable[LogBlock], on_damage: Callable[[CorruptError, int], None] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """One batch for each of *blocks*, but for those without an event that is wanted.

        Args:
            on_damage: As of `sound`; None: the first one is raised.
        """
        for block in blocks:
            found = chosen(block, self._wanted)
            for part in _by_arguments(found) if self._typed else [found]:
                if len(part.events):
                    yield from self._sound_batch(part, on_damage)

    def _sound_batch(
        self, block: LogBlock, on_damage: Callable[[CorruptError, int], None] | None
    ) -> Iterator[pa.RecordBatch]:
        try:
            batch = self.batch(block)
        except CorruptError:
            if on_damage is None:
                raise
            sound = self.sound(block, on_damage)
            if len(sound.events):
                yield self.batch(sound)
        else:
            yield batch

    def batch(self, block: LogBlock) -> pa.RecordBatch:
        """All events of *block*, at least one; where they are typed, all have the same arguments."""
        rows = np.arange(len(block.events))
        columns = event_columns(block)
        columns.append(shown_texts(messages(block, self._messages)))
        columns.append(arguments_json(block, rows))
        source = block.sources[block.events["source"][0]]
        if self._typed:
            columns += self._decoder(source).decode(block, rows).flatten()
        return pa.RecordBatch.from_arrays(columns, schema=self.schema(source))

    def sound(self, block: LogBlock, on_damage: Callable[[CorruptError, int], None]) -> LogBlock:
        """*block* without the events whose arguments do not fit their source.

        Args:
            block: All of whose events have the same arguments, where they are typed.
            on_damage: Told of each event that is left out, and its byte in the file.
        """
        kept = []
        for row in range(len(block.events)):
            try:
                self.batch(replace(block, events=block.events[row : row + 1]))
            except CorruptError as error:
                on_damage(error, block.file_offset + int(block.events["start"][row]))
            else:
                kept.append(row)
        return with_events(block, np.array(kept, dtype=np.int64))

    def _decoder(self, source: EventSource) -> SourceDecoder:
        key = source.argument_tags, source.format
        if key not in self._decoders:
            self._decoders[key] = SourceDecoder(source)
        return self._decoders[key]


def _beside(arguments: pa.Schema) -> list[pa.Field]:
    """Columns of arguments, none of which is called like a column of the view."""
    names = unique_names([*LOGS_SCHEMA.names, *arguments.names])[len(LOGS_SCHEMA) :]
    return [field.with_name(name) for field, name in zip(arguments, names, strict=True)]


def _by_arguments(block: LogBlock) -> Iterator[LogBlock]:
    """Runs of events whose arguments have the same types and names."""
    kinds: dict[tuple[bytes, bytes], int] = {}
    of_source = [kinds.setdefault((source.argument_tags, source.format), len(kinds)) for source in block.sources]
    of_event = np.array(of_source, dtype=np.int64)[block.events["source"]]
    edges = np.flatnonzero(np.diff(of_event)) + 1
    bounds = [0, *edges.tolist(), len(of_event)]
    for start, end in itertools.pairwise(bounds):
        yield block if (start, end) == (0, len(of_event)) else replace(block, events=block.events[start:end])


HELD_SIZE_MAX = 256 << 20
"""Bytes of rows that wait. When there are more, the older half of them is given, whatever the window."""

_BEFORE_ALL = np.iinfo(np.int64).min


def sorted_by_time(batches: Iterable[pa.RecordBatch], window_ns: int) -> Iterator[pa.RecordBatch]:
    """The rows of *batches*, each after all that are earlier and came before a row *window_ns* later than itself.

    Rows of equal time stay in their order. One without a time stays after the row before it.

    Args:
        batches: With a column `ns`.
        window_ns: More than 0.
    """
    held = _Held(window_ns)
    for batch in batches:
        held.add(batch)
        # Sorted again only when there is as much new as has been sorted: each row a few times.
        if held.new_count >= held.sorted_count:
            yield from held.due()
    yield from held.all()


class _Held:
    """Rows that wait for earlier ones."""

    def __init__(self, window_ns: int) -> None:
        self._window_ns = window_ns
        self._batches: list[pa.RecordBatch] = []
        self._keys: list[Int64s] = []
        self._last_key: int = _BEFORE_ALL
        self.sorted_count = 0
        self.new_count = 0

    def add(self, batch: pa.RecordBatch) -> None:
        if batch.num_rows == 0:
            return
        keys = _keys(batch.column("ns"), self._last_key)
        self._last_key = int(keys[-1])
        self._batches.append(batch)
        self._keys.append(keys)
        self.new_count += batch.num_rows

    def due(self) -> Iterator[pa.RecordBatch]:
        """Give the rows that no later row can precede; in part, if too many wait."""
        if not self._batches:
            return
        rows, keys = self._sorted()
        count = int(np.searchsorted(keys, int(keys[-1]) - self._window_ns, side="right"))
        if rows.nbytes > HELD_SIZE_MAX:
            count = max(count, len(keys) // 2)
        # Joined: a slice would keep all that it was cut from.
        left = pa.concat_batches([rows.slice(count)]) if count else rows
        self._batches, self._keys = [left], [keys[count:]]
        self.sorted_count, self.new_count = left.num_rows, 0
        if count:
            yield rows.slice(0, count)

    def all(self) -> Iterator[pa.RecordBatch]:
        """The rest."""
        if self._batches:
            yield self._sorted()[0]
            self._batches, self._keys = [], []

    def _sorted(self) -> tuple[pa.RecordBatch, Int64s]:
        keys = np.concatenate(self._keys)
        order = np.argsort(keys, kind="stable")
        return pa.concat_batches(self._batches).take(numbers_array(order)), keys[order]


def _keys(ns: pa.Array, before: int) -> Int64s:
    """Sort keys of rows: the time, or that of the last row before that has one."""
    return carried_times(ns.fill_null(0).to_numpy(), array_mask(ns.is_valid()), before)
