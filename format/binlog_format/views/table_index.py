"""Where one table's events lie in a log, in a few bytes an event: `TableIndexBuilder` -> `TableIndex` -> `load(log)`.

The files are the queue, an index is the message: whoever gets it reads the table's events out of the log, and nothing
else, and has the same bytes whenever and wherever that happens. A CRC-32C over them tells when the log is not what it
was.

An index travels as a Parquet file with one row for each extent of a row event (an event that is cut by pages has
several), delta-coded; columns that have one value throughout are in the file's metadata instead, beside a table map
event from which the layout is made again.
"""

from __future__ import annotations

import base64
import itertools
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import crc32c
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from binlog_format.block import EVENT_DTYPE, EXTENT_DTYPE, GROUP_DTYPE
from binlog_format.errors import DataLossError, UnsupportedError
from binlog_format.events.table_map import TableLayout, parse_table_map
from binlog_format.kernels import empty_bytes
from binlog_format.log import BLOCK_SIZE
from binlog_format.views.index_kernels import gather

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from binlog_format.block import Block, Table
    from binlog_format.kernels import Bytes
    from binlog_format.log import Log

    Int64s = NDArray[np.int64]

VERSION = 1
_METADATA_KEY = "binlog_index"

_EXTENT_COLUMNS = ("extent_file_no", "extent_offset", "extent_size", "continues")
_EVENT_COLUMNS = ("type", "flags", "event_no")
_GROUP_COLUMNS = (
    "file_no",
    "page",
    "chunk",
    "timestamp",
    "domain",
    "server_id",
    "seqno",
    "gtid_flags",
    "has_gtid",
)
# Of the event, as the difference from its group's: almost always 0.
_DIFFERENCE_COLUMNS = ("timestamp", "server_id")
COLUMNS = (*_EXTENT_COLUMNS, *_EVENT_COLUMNS, *_GROUP_COLUMNS, *(f"{name}_more" for name in _DIFFERENCE_COLUMNS))


class TableData(NamedTuple):
    """Events of one table, out of the log: what `read_images(data, events, rows, layout)` takes.

    `groups` has position, GTID and times of the groups that the events belong to; `file_offset`, sizes and out-of-band
    counts in it are 0.
    """

    data: Bytes
    events: Table
    groups: Table
    layout: TableLayout

    @property
    def rows(self) -> Int64s:
        """All rows of `events`."""
        return np.arange(len(self.events), dtype=np.int64)


class TableIndexBuilder:
    """Collects the row events of one table layout, block after block.

    Args:
        layout: The layout of all events.
    """

    def __init__(self, layout: TableLayout) -> None:
        self._layout = layout
        self._parts: list[dict[str, Int64s]] = []
        self._checksum = 0

    def add(self, block: Block, rows: Int64s) -> None:
        """Take the events *rows* of *block*, ascending; blocks come in log order."""
        events = block.events[rows]
        groups = block.groups[events["group"]]
        starts, ends = events["start"], events["start"] + events["size"]
        data_starts = block.extents["data_start"]
        first = np.searchsorted(data_starts, starts, side="right") - 1
        counts = np.searchsorted(data_starts, ends, side="left") - first
        event = np.repeat(np.arange(len(events)), counts)
        within = np.arange(len(event)) - np.repeat(np.cumsum(counts) - counts, counts)
        extents = block.extents[first[event] + within]
        piece_start = np.maximum(starts[event], extents["data_start"])
        piece_end = np.minimum(ends[event], extents["data_start"] + extents["size"])
        part = {
            "extent_file_no": extents["file_no"],
            "extent_offset": extents["file_offset"] + piece_start - extents["data_start"],
            "extent_size": piece_end - piece_start,
            "continues": (within > 0).astype(np.int64),
        }
        part |= {name: events[name].astype(np.int64)[event] for name in _EVENT_COLUMNS}
        part |= {name: groups[name].astype(np.int64)[event] for name in _GROUP_COLUMNS}
        for name in _DIFFERENCE_COLUMNS:
            part[f"{name}_more"] = events[name].astype(np.int64)[event] - part[name]
        self._parts.append(part)
        joined = empty_bytes(int(events["size"].sum()))
        done = gather(block.data, np.ascontiguousarray(starts), np.ascontiguousarray(events["size"]), joined)
        assert done == len(joined), "an event table points outside of its block"
        self._checksum = crc32c.crc32c(joined.data, self._checksum)

    def build(self) -> TableIndex:
        """The index of what was added."""
        columns = {name: np.concatenate([part[name] for part in self._parts]) for name in COLUMNS}
        return TableIndex(self._layout, columns, self._checksum)


@dataclass(frozen=True, slots=True)
class TableIndex:
    """The row events of one table layout in a range of a log.

    Attributes:
        layout: Of the table.
        columns: `COLUMNS`, int64, one row for each extent of each event, in log order.
        checksum: CRC-32C of the events' bytes.
    """

    layout: TableLayout
    columns: dict[str, Int64s]
    checksum: int

    @property
    def size(self) -> int:
        """Bytes of the events."""
        return int(self.columns["extent_size"].sum())

    def to_bytes(self) -> bytes:
        """The form that travels."""
        constant = {
            name: int(values[0])
            for name, values in self.columns.items()
            if name not in _EXTENT_COLUMNS[1:3] and (values == values[0]).all()
        }
        described = {
            "version": VERSION,
            "table_map": base64.b64encode(self.layout.table_map).decode(),
            "crc32c": self.checksum,
            "constant": constant,
        }
        table = pa.table({name: values for name, values in self.columns.items() if name not in constant})
        sink = pa.BufferOutputStream()
        with pq.ParquetWriter(
            sink,
            table.schema,
            compression="zstd",
            use_dictionary=False,
            column_encoding=dict.fromkeys(table.column_names, "DELTA_BINARY_PACKED"),
            write_statistics=False,
            store_schema=False,
        ) as writer:
            writer.write_table(table)
            writer.add_key_value_metadata({_METADATA_KEY: json.dumps(described)})
        return bytes(sink.getvalue())

    @classmethod
    def from_bytes(cls, data: bytes) -> TableIndex:
        """The index that `to_bytes` wrote.

        Raises:
            UnsupportedError: `VERSION`: a newer release wrote it.
        """
        file = pq.ParquetFile(pa.BufferReader(data))
        described = json.loads(file.metadata.metadata[_METADATA_KEY.encode()])
        if described["version"] != VERSION:
            raise UnsupportedError("VERSION", f"table index: expected version {VERSION}, got {described['version']}")
        table = file.read(use_threads=False)
        columns = {
            name: np.full(table.num_rows, described["constant"][name], dtype=np.int64)
            if name in described["constant"]
            else table.column(name).to_numpy()
            for name in COLUMNS
        }
        return cls(parse_table_map(base64.b64decode(described["table_map"])), columns, described["crc32c"])

    def load(self, log: Log) -> TableData:
        """All events, out of *log*.

        Raises:
            DataLossError: `PAGE_REWRITTEN`: the log has other bytes there now; or files have gone.
        """
        (loaded,) = self.pieces(log, size_max=self.size)
        return loaded

    def pieces(self, log: Log, *, size_max: int = BLOCK_SIZE) -> Iterator[TableData]:
        """The events out of *log*, in order, about *size_max* bytes at a time (decoding is faster within the cache).

        Whether the bytes are the right ones is known behind the last piece: keep nothing for good before that.

        Raises:
            DataLossError: As `load`.
        """
        first = np.flatnonzero(self.columns["continues"] == 0)
        sizes = np.add.reduceat(self.columns["extent_size"], first)
        numbers = (np.cumsum(sizes) - 1) // max(size_max, 1)
        cuts = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(first)]
        edges = np.append(first, len(self.columns["continues"]))
        checksum = 0
        for start, end in itertools.pairwise(cuts):
            rows = slice(int(edges[start]), int(edges[end]))
            data = log.read_extents(self._extents(rows))
            checksum = crc32c.crc32c(data.data, checksum)
            events, groups = self._tables(first[start:end], sizes[start:end])
            last = end == len(first)
            if last and checksum != self.checksum:
                break
            yield TableData(data, events, groups, self.layout)
        if checksum != self.checksum:
            raise DataLossError(
                "PAGE_REWRITTEN",
                f"table {self.layout.database}.{self.layout.table}: {len(first)} row events in binlog files "
                f"{int(self.columns['extent_file_no'].min())} to {int(self.columns['extent_file_no'].max())}: "
                f"CRC-32C: expected {self.checksum:#010x}, computed {checksum:#010x}",
                hint="The log was changed after it had been scanned: a server was restored, or its files were replaced",
            )

    def _extents(self, rows: slice) -> Table:
        # Extents that touch in the file are read as one.
        file_no, offset, size = (self.columns[name][rows] for name in _EXTENT_COLUMNS[:3])
        new = np.ones(len(size), dtype=np.bool_)
        new[1:] = (file_no[1:] != file_no[:-1]) | (offset[1:] != offset[:-1] + size[:-1])
        first = np.flatnonzero(new)
        extents = np.zeros(len(first), dtype=EXTENT_DTYPE)
        extents["file_no"], extents["file_offset"] = file_no[first], offset[first]
        extents["size"] = np.add.reduceat(size, first)
        extents["data_start"] = np.cumsum(extents["size"]) - extents["size"]
        return extents

    def _tables(self, rows: Int64s, sizes: Int64s) -> tuple[Table, Table]:
        columns = {name: self.columns[name][rows] for name in (*_EVENT_COLUMNS, *_GROUP_COLUMNS)}
        position = np.stack([columns["file_no"], columns["page"], columns["chunk"]])
        new_group = np.ones(len(rows), dtype=np.bool_)
        new_group[1:] = (position[:, 1:] != position[:, :-1]).any(axis=0)
        first = np.flatnonzero(new_group)
        events = np.zeros(len(rows), dtype=EVENT_DTYPE)
        events["start"] = np.cumsum(sizes) - sizes
        events["size"] = sizes
        events["group"] = np.cumsum(new_group) - 1
        for name in _EVENT_COLUMNS:
            events[name] = columns[name]
        for name in _DIFFERENCE_COLUMNS:
            events[name] = columns[name] + self.columns[f"{name}_more"][rows]
        groups = np.zeros(len(first), dtype=GROUP_DTYPE)
        for name in _GROUP_COLUMNS:
            groups[name] = columns[name][first]
        groups["first_event"] = first
        groups["event_count"] = np.diff(np.append(first, len(rows)))
        groups["event_no"] = events["event_no"][first]
        groups["begins"] = groups["ends"] = True
        return events, groups
