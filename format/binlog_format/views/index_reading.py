"""Reading of events by a table's index, out of the log and plain: `read_events`; `table_index` makes the index."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from binlog_format.block import BLOCK_SIZE, EVENT_DTYPE, EXTENT_DTYPE, FROM_FRAGMENTS, GROUP_DTYPE, PART_FROM_FRAGMENTS
from binlog_format.errors import CorruptError, DataLossError, UnsupportedError
from binlog_format.events.compression.compressed_streams import expand_streams, find_streams
from binlog_format.events.compression.compression_layout import (
    FORM_COMPRESSED,
    FORM_FRAGMENT,
    FORM_PAYLOAD,
    STORED_FORMS,
)
from binlog_format.events.compression.payload import find_payloads, payload_pieces
from binlog_format.events.layout import EVENT_HEADER_SIZE, EVENT_SIZE_OFFSET, EVENT_TYPE_OFFSET
from binlog_format.fragments.layout import ORIGINAL_SIZE_MIN, ROWS_FLAG_STATEMENT_END, ROWS_FLAGS_OFFSET
from binlog_format.kernels import empty_bytes
from binlog_format.memory_kernels import gather

if TYPE_CHECKING:
    from collections.abc import Iterator

    from binlog_format.block import Table
    from binlog_format.events.compression.payload import Payload
    from binlog_format.events.table_map import TableLayout
    from binlog_format.gtids.gtid import GtidSource
    from binlog_format.kernels import Bytes, Int64s
    from binlog_format.log.log import Log

EXTENT_COLUMNS = ("extent_file_no", "extent_offset", "extent_size", "continues")
EVENT_COLUMNS = ("type", "flags", "event_no")
GROUP_COLUMNS = (
    "file_no",
    "page",
    "chunk",
    "timestamp",
    "domain",
    "server_id",
    "seqno",
    "gtid_flags",
    "gtid_source",
    "has_gtid",
)
DIFFERENCE_COLUMNS = ("timestamp", "server_id")
"""Columns of the event, stored as the difference from its group's: almost always 0."""


class TableData(NamedTuple):
    """Events of one table, out of the log: what `read_images(data, events, rows, layout)` takes.

    `groups` has position, GTID and times of the groups that the events belong to; `file_offset`, sizes and out-of-band
    counts in it are 0. `gtid_sources` is what `gtid_source` in it counts.
    """

    data: Bytes
    events: Table
    groups: Table
    layout: TableLayout
    gtid_sources: tuple[GtidSource, ...] = ()

    @property
    def rows(self) -> Int64s:
        """All rows of `events`."""
        return np.arange(len(self.events), dtype=np.int64)


class EventPart(NamedTuple):
    """The plain events [first, end) of an index, one after the other."""

    data: Bytes
    first: int
    end: int


class IndexedEvents:
    """The columns of an index, event by event.

    Attributes:
        columns: One row for each extent of each event.
        first: Row of each event's first extent.
        extent_counts: Extents of each event.
        stored_sizes: Bytes of each event as it is stored; of a payload that it is in, all of that.
        plain_sizes: Bytes of each plain event.
        inner_nos: Number in its payload; less than 0: not out of a payload (`ORIGIN_DTYPE`).
        is_expanded: The plain event is not what is stored.
    """

    def __init__(self, columns: dict[str, Int64s]) -> None:
        self.columns = columns
        self.first = np.flatnonzero(columns["continues"] == 0)
        self.extent_counts = np.diff(np.append(self.first, len(columns["continues"])))
        self.stored_sizes: Int64s = np.add.reduceat(columns["extent_size"], self.first)
        expanded_sizes = columns["plain_size"][self.first]
        self.is_expanded = expanded_sizes > 0
        self.plain_sizes: Int64s = np.where(self.is_expanded, expanded_sizes, self.stored_sizes)
        self.inner_nos = columns["inner_no"][self.first]

    def __len__(self) -> int:
        return len(self.first)

    def new_stored(self) -> Int64s:
        """The events that are stored apart from the event before; the others are in the same payload as that."""
        new = np.ones(len(self), dtype=np.bool_)
        new[1:] = (self.inner_nos[1:] < 0) | (self.inner_nos[:-1] < 0)
        for name in ("extent_file_no", "extent_offset"):
            values = self.columns[name][self.first]
            new[1:] |= values[1:] != values[:-1]
        return np.flatnonzero(new)

    def stored_forms(self, chosen: Int64s) -> Int64s:
        """Stored forms of *chosen* events (`FORM_...`); of fragments the form of what they contain."""
        inner_nos = self.inner_nos[chosen]
        forms = np.where(inner_nos < 0, FORM_COMPRESSED, FORM_PAYLOAD)
        forms = np.where(inner_nos <= FROM_FRAGMENTS, FORM_FRAGMENT, forms)
        found: Int64s = np.where(self.is_expanded[chosen], forms, 0)
        return found

    def extents(self, chosen: Int64s) -> Table:
        """Places of *chosen* events in the files (`EXTENT_DTYPE`); extents that touch in the file are one."""
        counts = self.extent_counts[chosen]
        rows = np.arange(int(counts.sum())) + np.repeat(self.first[chosen] - (np.cumsum(counts) - counts), counts)
        file_no, offset, size = (self.columns[name][rows] for name in EXTENT_COLUMNS[:3])
        new = np.ones(len(size), dtype=np.bool_)
        new[1:] = (file_no[1:] != file_no[:-1]) | (offset[1:] != offset[:-1] + size[:-1])
        first = np.flatnonzero(new)
        extents = np.zeros(len(first), dtype=EXTENT_DTYPE)
        extents["file_no"], extents["file_offset"] = file_no[first], offset[first]
        sizes: Int64s = np.add.reduceat(size, first)
        extents["data_start"], extents["size"] = np.cumsum(sizes) - sizes, sizes
        return extents

    def tables(self, first: int, end: int) -> tuple[Table, Table]:
        """Event table and group table of the events [first, end), whose plain bytes stand one after the other."""
        rows, sizes = self.first[first:end], self.plain_sizes[first:end]
        columns = {name: self.columns[name][rows] for name in (*EVENT_COLUMNS, *GROUP_COLUMNS)}
        position = np.stack([columns["file_no"], columns["page"], columns["chunk"]])
        new_group = np.ones(len(rows), dtype=np.bool_)
        new_group[1:] = (position[:, 1:] != position[:, :-1]).any(axis=0)
        group_firsts = np.flatnonzero(new_group)
        events = np.zeros(len(rows), dtype=EVENT_DTYPE)
        events["start"] = np.cumsum(sizes) - sizes
        events["size"] = sizes
        events["group"] = np.cumsum(new_group) - 1
        for name in EVENT_COLUMNS:
            events[name] = columns[name]
        for name in DIFFERENCE_COLUMNS:
            events[name] = columns[name] + self.columns[f"{name}_more"][rows]
        groups = np.zeros(len(group_firsts), dtype=GROUP_DTYPE)
        for name in GROUP_COLUMNS:
            groups[name] = columns[name][group_firsts]
        groups["first_event"] = group_firsts
        groups["event_count"] = np.diff(np.append(group_firsts, len(rows)))
        groups["event_no"] = events["event_no"][group_firsts]
        groups["begins"] = groups["ends"] = True
        return events, groups


def read_events(log: Log, events: IndexedEvents, size_max: int, layout: TableLayout) -> Iterator[EventPart]:
    """The events out of *log*, plain and in order, about *size_max* bytes at a time.

    What is stored once is read once, and expanded once, whatever the number of its events; no more of it is in memory
    at a time than *size_max* and a stored event take, and `BLOCK_SIZE` of plain bytes that are not wanted.

    Args:
        size_max: Bytes of a part; an event may be larger.
    """
    stored = events.new_stored()
    edges = np.append(stored, len(events))
    for first, end in _runs(events.stored_sizes[stored], np.add.reduceat(events.plain_sizes, stored), size_max):
        part = slice(int(edges[first]), int(edges[end]))
        data = log.read_extents(events.extents(stored[first:end]))
        if not events.is_expanded[part].any():
            yield EventPart(data, part.start, part.stop)
            continue
        try:
            if end - first == 1 and events.inner_nos[part.start] >= 0:
                yield from _read_payload(data, events, part, size_max)
            else:
                yield EventPart(_plain(data, events, stored[first:end], part), part.start, part.stop)
        except (CorruptError, UnsupportedError) as error:
            raise rewritten(layout, events, error.reason) from error


def _runs(stored_sizes: Int64s, plain_sizes: Int64s, size_max: int) -> Iterator[tuple[int, int]]:
    # What is read at a time: neither the stored bytes nor the plain ones are more than *size_max*.
    stored, plain = np.cumsum(stored_sizes), np.cumsum(plain_sizes)
    first = 0
    while first < len(stored):
        passed = (int(stored[first - 1]), int(plain[first - 1])) if first else (0, 0)
        end = min(
            int(np.searchsorted(ends, before + size_max, side="right"))
            for ends, before in zip((stored, plain), passed, strict=True)
        )
        end = max(end, first + 1)
        yield first, end
        first = end


def _plain(data: Bytes, events: IndexedEvents, stored: Int64s, part: slice) -> Bytes:
    # The plain bytes of the events of *part*; *data* holds the stored ones that *stored* names.
    sizes = events.plain_sizes[part]
    target_starts = np.cumsum(sizes) - sizes
    target = empty_bytes(int(sizes.sum()))
    stored_sizes = events.stored_sizes[stored]
    starts = np.cumsum(stored_sizes) - stored_sizes
    counts = np.diff(np.append(stored, part.stop))
    targets = target_starts[stored - part.start]
    forms = events.stored_forms(stored)
    found = STORED_FORMS[data[np.minimum(starts + EVENT_TYPE_OFFSET, len(data) - 1)]]
    is_whole = (forms == 0) | (forms == FORM_FRAGMENT)
    if (~is_whole & (found != forms)).any() or (stored_sizes < EVENT_HEADER_SIZE).any():
        raise CorruptError("BAD_EVENT", "the stored events are of other types")
    rows = np.flatnonzero(is_whole)
    done = gather(data, starts[rows], stored_sizes[rows], target, targets[rows])
    assert done, "an index counts other bytes than it names"
    rows = np.flatnonzero(forms == FORM_FRAGMENT)
    _finish_headers(target, targets[rows], events, stored[rows])
    rows = np.flatnonzero(forms == FORM_COMPRESSED)
    table = np.zeros(len(rows), dtype=EVENT_DTYPE)
    table["start"], table["size"] = starts[rows], stored_sizes[rows]
    table["type"] = data[starts[rows] + EVENT_TYPE_OFFSET]
    compressed = find_streams(data, table)
    if (compressed.plain_sizes != sizes[stored[rows] - part.start]).any():
        raise CorruptError("BAD_EVENT", "the stored events have other sizes")
    expand_streams(data, compressed, target, targets[rows])
    rows = np.flatnonzero(forms == FORM_PAYLOAD)
    for row, payload in zip(rows.tolist(), find_payloads(data, starts[rows], stored_sizes[rows]), strict=True):
        at = int(targets[row])
        wanted = slice(int(stored[row]), int(stored[row] + counts[row]))
        for piece in _wanted_pieces(payload, events, wanted, BLOCK_SIZE):
            target[at : at + len(piece.data)] = piece.data
            at += len(piece.data)
    return target


def _finish_headers(data: Bytes, starts: Int64s, events: IndexedEvents, chosen: Int64s) -> None:
    # As in the events that were joined from fragments: the header of a whole event of its own.
    sizes = events.plain_sizes[chosen]
    if (sizes < ORIGINAL_SIZE_MIN).any():
        raise CorruptError("BAD_EVENT", "the stored events have other sizes")
    data[starts + EVENT_TYPE_OFFSET] = events.columns["type"][events.first[chosen]]
    for byte in range(4):
        data[starts + EVENT_SIZE_OFFSET + byte] = sizes >> 8 * byte & 0xFF
    goes_on = starts[events.inner_nos[chosen] == PART_FROM_FRAGMENTS]
    data[goes_on + ROWS_FLAGS_OFFSET] &= 0xFF ^ ROWS_FLAG_STATEMENT_END


def _read_payload(data: Bytes, events: IndexedEvents, part: slice, size_max: int) -> Iterator[EventPart]:
    # The events of *part*, which are all out of the payload that *data* is.
    if len(data) < EVENT_HEADER_SIZE or STORED_FORMS[data[EVENT_TYPE_OFFSET]] != FORM_PAYLOAD:
        raise CorruptError("BAD_EVENT", "the stored events are of other types")
    (payload,) = find_payloads(data, np.zeros(1, dtype=np.int64), np.full(1, len(data), dtype=np.int64))
    yield from _wanted_pieces(payload, events, part, size_max)


def _wanted_pieces(payload: Payload, events: IndexedEvents, part: slice, size_max: int) -> Iterator[EventPart]:
    inner_nos, sizes = events.inner_nos[part], events.plain_sizes[part]
    held: list[Bytes] = []
    held_first = next_event = 0
    for piece in payload_pieces(payload, BLOCK_SIZE):
        end = int(np.searchsorted(inner_nos, piece.first_no + len(piece.events)))
        if end > next_event:
            chosen = piece.events[inner_nos[next_event:end] - piece.first_no]
            if (chosen["size"] != sizes[next_event:end]).any():
                raise CorruptError("BAD_EVENT", "the stored events have other sizes")
            held.append(_gathered(piece.data, chosen))
            next_event = end
        if held and (sum(map(len, held)) >= size_max or next_event == len(inner_nos)):
            content = held[0] if len(held) == 1 else np.concatenate(held)
            yield EventPart(content, part.start + held_first, part.start + next_event)
            held.clear()
            held_first = next_event
    if next_event < len(inner_nos):
        raise CorruptError("BAD_EVENT", "the stored events are fewer")


def _gathered(data: Bytes, events: Table) -> Bytes:
    sizes = np.ascontiguousarray(events["size"])
    target = empty_bytes(int(sizes.sum()))
    done = gather(data, np.ascontiguousarray(events["start"]), sizes, target, np.cumsum(sizes) - sizes)
    assert done, "an event table points outside of its data"
    return target


def rewritten(layout: TableLayout, events: IndexedEvents, reason: str) -> DataLossError:
    """The error for a log that does not hold any more what was indexed."""
    files = events.columns["extent_file_no"]
    return DataLossError(
        "PAGE_REWRITTEN",
        f"table {layout.database}.{layout.table}: {len(events)} row events in binlog files {int(files.min())} to "
        f"{int(files.max())}: {reason}",
        hint="The log was changed after it had been scanned: a server was restored, or its files were replaced",
    )
