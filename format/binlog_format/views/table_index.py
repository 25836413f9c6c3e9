"""Places of one table's events in a log, in a few bytes per event: `TouchedTable` -> `TableIndex` -> `load(log)`.

The files are the queue, an index is the message: whoever gets it reads the table's events out of the log, and nothing
else, and has the same bytes whenever and wherever that happens. CRC-32Cs over them tell when the log is not what it
was, one for each few megabytes, so that an index can be cut. They are of the plain events, also where these stand
compressed in the files: so they cover what expanding them gives, too, and rows of a table do not depend on what else is
in a compressed transaction. Expanding checks all that it is given, and is bounded by sizes that the index knows; when
it fails, the log is not what it was either.

An index travels as a Parquet file with one row for each extent of a row event as it is stored (an event that is cut by
pages has several; of a compressed transaction each of its row events names all extents), delta-coded; columns that have
one value throughout are in the file's metadata instead, beside a table map event from which the layout is made again.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import crc32c
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from binlog_format.block import BLOCK_SIZE, ORIGIN_DTYPE
from binlog_format.errors import UnsupportedError
from binlog_format.events.table_map import TableLayout, parse_table_map
from binlog_format.events.table_map_edits import keyed_table_map
from binlog_format.gtids.gtid import GtidSource
from binlog_format.kernels import empty_bytes
from binlog_format.memory_kernels import gather
from binlog_format.names import folded_name
from binlog_format.rows.images import ImageKind, read_images
from binlog_format.vendor import Vendor
from binlog_format.views.cascading import checked_counts
from binlog_format.views.index_kernels import index_events
from binlog_format.views.index_reading import (
    DIFFERENCE_COLUMNS,
    EVENT_COLUMNS,
    EXTENT_COLUMNS,
    GROUP_COLUMNS,
    IndexedEvents,
    TableData,
    read_events,
    rewritten,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from binlog_format.block import Block
    from binlog_format.kernels import Int64s
    from binlog_format.log.log import Log
    from binlog_format.rows.decoding import Decoding
    from binlog_format.rows.table_events import TableEvents
    from binlog_format.views.index_reading import EventPart

VERSION = 4
CHECKED_BYTES = 4 << 20
"""Events that one CRC-32C covers, at least, as blocks come: an index can be cut after each."""

_METADATA_KEY = "binlog_index"
_NO_LIMIT = 1 << 62
_NO_ORIGINS = np.empty(0, dtype=ORIGIN_DTYPE)

STORED_COLUMNS = ("plain_size", "inner_no")
COLUMNS = (
    *EXTENT_COLUMNS,
    *STORED_COLUMNS,
    *EVENT_COLUMNS,
    *GROUP_COLUMNS,
    *(f"{name}_more" for name in DIFFERENCE_COLUMNS),
)


class Check(NamedTuple):
    """CRC-32C of the plain bytes of some events, one after the other."""

    events: int
    crc: int


def _columns_of(block: Block, rows: Int64s) -> Int64s:
    """The columns of an index (`COLUMNS`) for events of a block, one row for each extent."""
    origins = _NO_ORIGINS if block.origins is None else block.origins
    room = len(rows) + len(rows) // 8 + 1  # pages are larger than most events, so few events are cut
    while True:
        columns = np.empty((len(COLUMNS), room), dtype=np.int64)
        unsigned = columns.view(np.uint64)
        count = index_events(block.events, block.groups, rows, origins, block.extents, columns, unsigned)
        assert count >= 0, "the tables of a block do not fit each other"
        if count <= room:
            return columns[:, :count]
        room = count


@dataclass(frozen=True, slots=True)
class TableIndex:
    """The row events of one table layout in a range of a log.

    Attributes:
        columns: `COLUMNS`, int64, one row for each extent of each event, in log order.
        checks: CRC-32Cs of all plain events, in their order.
        gtid_sources: What the column `gtid_source` counts.
        snapshot: Of which all events are chunks; empty: they are changes of the table.
    """

    layout: TableLayout
    columns: dict[str, Int64s]
    checks: tuple[Check, ...]
    gtid_sources: tuple[GtidSource, ...] = ()
    snapshot: str = ""

    @property
    def size(self) -> int:
        """Bytes of the events, plain."""
        return int(IndexedEvents(self.columns).plain_sizes.sum())

    def to_bytes(self) -> bytes:
        """The form that travels."""
        constant = {
            name: int(values[0])
            for name, values in self.columns.items()
            if name not in ("extent_offset", "extent_size") and (values == values[0]).all()
        }
        described = {
            "version": VERSION,
            "table_map": base64.b64encode(self.layout.table_map).decode(),
            "vendor": self.layout.vendor.value,
            "completion": self.layout.completion,
            "gtid_sources": [[source.uuid, source.tag] for source in self.gtid_sources],
            "checks": self.checks,
            "snapshot": self.snapshot,
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
        """The index that `to_bytes` wrote."""
        file = pq.ParquetFile(pa.BufferReader(data))
        described = json.loads(file.metadata.metadata[_METADATA_KEY.encode()])
        if described["version"] != VERSION:
            raise UnsupportedError("VERSION", f"table index: expected version {VERSION}, got {described['version']}")
        table = file.read(use_threads=False)
        columns = {
            name: np.broadcast_to(np.int64(described["constant"][name]), table.num_rows)
            if name in described["constant"]
            else table.column(name).to_numpy()
            for name in COLUMNS
        }
        layout = parse_table_map(base64.b64decode(described["table_map"]), Vendor(described["vendor"]))
        layout = _completed(layout, described["completion"])
        sources = tuple(GtidSource(uuid, tag) for uuid, tag in described["gtid_sources"])
        checks = tuple(Check(*check) for check in described["checks"])
        return cls(layout, columns, checks, sources, described["snapshot"])

    def with_key(self, names: Sequence[str]) -> TableIndex:
        """The same, with a primary key where the layout has none.

        Args:
            names: Of the key's columns, in key order; where the layout does not have them all, nothing changes.
        """
        columns = {folded_name(str(column.name)): index for index, column in enumerate(self.layout.columns)}
        key = [columns[folded_name(name)] for name in names if folded_name(name) in columns]
        if self.layout.primary_key or not names or len(key) < len(names):
            return self
        layout = parse_table_map(keyed_table_map(self.layout.table_map, key), self.layout.vendor)
        return replace(self, layout=_completed(layout, self.layout.completion))

    def load(self, log: Log) -> TableData:
        """All events, out of *log*.

        Raises:
            DataLossError: `PAGE_REWRITTEN`: the log has other bytes there now; or files have gone.
        """
        (loaded,) = self.pieces(log, size_max=_NO_LIMIT)
        return loaded

    def pieces(self, log: Log, *, size_max: int = BLOCK_SIZE) -> Iterator[TableData]:
        """The events out of *log*, in order, about *size_max* bytes at a time (decoding is faster within the cache).

        Whether the bytes are the right ones is known after the last piece: keep nothing for good before that.
        """
        events = IndexedEvents(self.columns)
        for part in _checked(read_events(log, events, size_max, self.layout), self, events):
            yield TableData(part.data, *events.tables(part.first, part.end), self.layout, self.gtid_sources)

    def outline(self) -> TableData:
        """All events as `load` gives them, but without their bytes, and without a look at the log."""
        events = IndexedEvents(self.columns)
        return TableData(empty_bytes(0), *events.tables(0, len(events)), self.layout, self.gtid_sources)

    def cut(self, size: int) -> Iterator[TableIndex]:
        """The same as several indexes, in order, each of about *size* bytes of plain events."""
        events = IndexedEvents(self.columns)
        edges = np.append(events.first, len(self.columns["continues"]))
        sizes = np.cumsum(events.plain_sizes)
        first = end = 0
        checks: list[Check] = []
        for check in self.checks:
            checks.append(check)
            end += check.events
            if end < len(events) and sizes[end - 1] - (sizes[first - 1] if first else 0) < size:
                continue
            rows = slice(int(edges[first]), int(edges[end]))
            columns = {name: values[rows] for name, values in self.columns.items()}
            yield TableIndex(self.layout, columns, tuple(checks), self.gtid_sources, self.snapshot)
            first, checks = end, []


def _completed(layout: TableLayout, completion: str) -> TableLayout:
    if not completion:
        return layout
    from binlog_format.rows.declared.completion import apply_completion  # few logs need a schema

    return apply_completion(layout, completion)


def _checked(parts: Iterable[EventPart], index: TableIndex, events: IndexedEvents) -> Iterator[EventPart]:
    starts = np.append(0, np.cumsum(events.plain_sizes))
    ends = np.cumsum([check.events for check in index.checks])
    number = crc = 0
    for part in parts:
        at = part.first
        while at < part.end:
            end = min(part.end, int(ends[number]))
            low, high = (int(starts[event] - starts[part.first]) for event in (at, end))
            crc = crc32c.crc32c(part.data[low:high].data, crc)
            at = end
            if at == ends[number]:
                if crc != index.checks[number].crc:
                    expected = index.checks[number].crc
                    raise rewritten(index.layout, events, f"CRC-32C: expected {expected:#010x}, computed {crc:#010x}")
                number, crc = number + 1, 0
        yield part


INDEX_EVENTS = 1 << 18
"""Row events of an index, before another one is begun: 50 MB while it is built, whatever a transaction weighs."""


class TouchedTable:
    """Collects the row events of one layout, block after block; `rows` gives them, without the bounds of the range."""

    def __init__(self, layout: TableLayout) -> None:
        self.layout = layout
        self._rows: list[dict[str, object]] = []
        self._begin()

    def _begin(self) -> None:
        self._parts: list[Int64s] = []
        self._events = self._bytes = 0
        self._checks: list[Check] = []
        self._unchecked = Check(0, 0)
        self._unchecked_bytes = 0
        self._gtid_sources: tuple[GtidSource, ...] = ()
        self._counts = np.zeros(len(ImageKind), dtype=np.int64)
        self._checked = np.zeros(3, dtype=np.int64)

    def add(self, block: Block, touched: TableEvents, decoding: Decoding) -> None:
        """Take the events of the next block, in log order."""
        rows = touched.events
        images = read_images(block.data, block.events, rows, touched.layout, place=block.place, decoding=decoding)
        self._counts += np.bincount(images.table["kind"], minlength=len(ImageKind))
        self._checked += checked_counts(block, rows, touched.layout)
        self._parts.append(_columns_of(block, rows))
        self._gtid_sources = block.gtid_sources
        self._events += len(rows)
        self._check(block, rows)
        if self._events >= INDEX_EVENTS:
            self._end_index()

    def _check(self, block: Block, rows: Int64s) -> None:
        starts, sizes = block.events["start"][rows], block.events["size"][rows]
        joined = empty_bytes(int(sizes.sum()))
        done = gather(block.data, starts, sizes, joined, np.cumsum(sizes) - sizes)
        assert done, "an event table points outside of its block"
        crc = crc32c.crc32c(joined.data, self._unchecked.crc)
        self._unchecked = Check(self._unchecked.events + len(rows), crc)
        self._bytes += len(joined)
        self._unchecked_bytes += len(joined)
        if self._unchecked_bytes >= CHECKED_BYTES:
            self._checks.append(self._unchecked)
            self._unchecked, self._unchecked_bytes = Check(0, 0), 0

    def rows(self) -> list[dict[str, object]]:
        """One row for each index, in log order."""
        if self._events:
            self._end_index()
        return self._rows

    def _end_index(self) -> None:
        checks = tuple(check for check in (*self._checks, self._unchecked) if check.events)
        columns = dict(zip(COLUMNS, np.concatenate(self._parts, axis=1), strict=True))
        sources: tuple[GtidSource, ...] = ()
        if self._gtid_sources:
            # Of the sources that the log has seen, those that are needed.
            used, numbers = np.unique(columns["gtid_source"], return_inverse=True)
            columns["gtid_source"] = numbers - int((used < 0).sum())
            sources = tuple(self._gtid_sources[number] for number in used.tolist() if number >= 0)
        self._rows.append(
            {
                "database": self.layout.database,
                "table": self.layout.table,
                "layout": self.layout.digest,
                "inserts": int(self._counts[ImageKind.INSERT]),
                "updates": int(self._counts[ImageKind.UPDATE_BEFORE]),
                "deletes": int(self._counts[ImageKind.DELETE]),
                "bytes": self._bytes,
                **checked_columns(self._checked),
                "index": TableIndex(self.layout, columns, checks, sources).to_bytes(),
            }
        )
        self._begin()


def rows_of_source(shadow: TouchedTable, layout: TableLayout, snapshot: str) -> list[dict[str, object]]:
    """The rows of a shadow as rows of its source table. *layout*: the shadow's, as one of the source table."""
    rows = []
    for row in shadow.rows():
        content = row["index"]
        assert isinstance(content, bytes)
        index = replace(TableIndex.from_bytes(content), layout=layout, snapshot=snapshot)
        named = {"database": layout.database, "table": layout.table, "layout": layout.digest, "snapshot": snapshot}
        rows.append({**row, **named, "index": index.to_bytes()})
    return rows


def checked_columns(counts: Int64s) -> dict[str, int]:
    """Values of `checked_counts`, by the names of the view's columns."""
    updates, deletes, outside = counts.tolist()
    return {"checked_updates": updates, "checked_deletes": deletes, "checked_outside": outside}
