"""View `changefeed`: one row for each image of one table's rows, typed: `ChangefeedView`, `changefeed_batch`.

The columns are the table's own, then those that Delta's change data feed and Spark's changelog contract know
(`_change_type`, `_commit_version`, `_commit_timestamp`), then where the change lies in the log; and, if wanted, which
columns the image lacks (`_absent`), and that place as one text (`_seq`). Without `_absent`, an image that lacks a
column is an error: null would be a value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from binlog_format.errors import UnsupportedError
from binlog_format.rows.arrow_arrays import numbers_array, strings_array
from binlog_format.rows.columns import arrow_schema
from binlog_format.rows.decoding import DEFAULT_DECODING, Decoding
from binlog_format.rows.json.json_rows import JsonStyle
from binlog_format.views.columns import COMMIT_TIME_TYPE, POSITION_TYPE, PlaceColumns, bounded
from binlog_format.views.filters import ALL_GROUPS, GroupFilter, TableFilter
from binlog_format.views.row_images import ABSENT_TYPE, TypedTable, absent_names, column_styles, in_order
from binlog_format.views.selection import Selection, touched_images

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from binlog_format.block import Block, Table
    from binlog_format.events.table_map import TableLayout
    from binlog_format.gtids.gtid import GtidSource
    from binlog_format.kernels import Int64s
    from binlog_format.rows.images import Images

CHANGE_FIELDS = (
    pa.field("_change_type", pa.string()),
    pa.field("_commit_version", pa.int64()),
    pa.field("_commit_timestamp", COMMIT_TIME_TYPE),
    pa.field("_position", POSITION_TYPE),
    pa.field("_event_no", pa.int32()),
    pa.field("_row_no", pa.int32()),
    pa.field("_gtid", pa.string()),
)
ABSENT_FIELD = pa.field("_absent", ABSENT_TYPE)
"""Names of columns that the image lacks, which are null in the row; null: it has all."""
SEQUENCE_FIELD = pa.field("_seq", pa.string())
"""Place of the image as one text, whose order is that of the log: commit version, event, row and image, in hex."""

_CHANGE_TYPES = strings_array(["insert", "update_preimage", "update_postimage", "delete"])  # by ImageKind

# A position in 63 bits, ordered as positions are. A page has at most 2**14 chunks (innodb: 64 KiB at 4 bytes or more a
# chunk; classic: 16 KiB virtual pages), a file at most 2**24 pages.
_CHUNK_BITS = 14
_PAGE_BITS = 24
_FILE_BITS = 63 - _PAGE_BITS - _CHUNK_BITS

_SEQUENCE = np.dtype([("commit_version", ">u8"), ("event_no", ">u4"), ("row_no", ">u4"), ("image", "u1")])
_HEX = np.array([list(f"{byte:02x}".encode()) for byte in range(256)], dtype=np.uint8)  # by byte


def changefeed_schema(layout: TableLayout, decoding: Decoding = DEFAULT_DECODING, *extra: pa.Field) -> pa.Schema:
    """Schema of the view for a table of this layout.

    Args:
        extra: `ABSENT_FIELD`, `SEQUENCE_FIELD`, where they are wanted.
    """
    return pa.schema([*arrow_schema(layout, decoding), *CHANGE_FIELDS, *extra])


def changefeed_batch(
    images: Images, events: Table, groups: Table, sources: tuple[GtidSource, ...] = (), extra: Sequence[pa.Field] = ()
) -> pa.RecordBatch:
    """One row for each image; a column that the image lacks is null.

    Args:
        images: Read from *events* (its `event` numbers are rows there), in any selection.
        events: `EVENT_DTYPE`; of a block or of a loaded `TableIndex`.
        groups: `GROUP_DTYPE`, what `events["group"]` counts.
        sources: What `gtid_source` in *groups* counts; a log of MariaDB has none.
        extra: See `changefeed_schema`.
    """
    columns = [images.column(index) for index in range(len(images.layout.columns))]
    columns += change_columns(images.table, events, groups, sources)
    if ABSENT_FIELD in extra:
        columns.append(absent_names(images, np.arange(len(images), dtype=np.int64)))
    if SEQUENCE_FIELD in extra:
        columns.append(_sequences(images.table, events, groups))
    schema = changefeed_schema(images.layout, images.decoding, *extra)
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def change_columns(table: Table, events: Table, groups: Table, sources: tuple[GtidSource, ...]) -> list[pa.Array]:
    """`CHANGE_FIELDS` of some images. *table*: `IMAGE_DTYPE`. *events*: see `changefeed_batch`."""
    rows = table["event"].astype(np.int64)
    places = PlaceColumns(events, groups, rows, sources)
    return [
        _CHANGE_TYPES.take(numbers_array(table["kind"])),
        numbers_array(commit_versions(groups)[events["group"][rows]]),
        places.commit_time(),
        places.position(),
        places.event_no(),
        numbers_array(table["row_no"]),
        places.gtid(),
    ]


def commit_versions(groups: Table) -> Int64s:
    """One number for each group that grows in log order: its position in 63 bits."""
    versions = np.zeros(len(groups), dtype=np.int64)
    for name, bits in (("file_no", _FILE_BITS), ("page", _PAGE_BITS), ("chunk", _CHUNK_BITS)):
        numbers = groups[name].astype(np.int64)
        if (numbers >> bits).any():
            raise UnsupportedError("FORMAT", f"{name} {int(numbers.max())}: _commit_version has {bits} bits for it")
        versions = versions << bits | numbers
    return versions


def _sequences(table: Table, events: Table, groups: Table) -> pa.Array:
    """`SEQUENCE_FIELD` of some images."""
    rows = table["event"].astype(np.int64)
    places = np.empty(len(table), dtype=_SEQUENCE)
    places["commit_version"] = commit_versions(groups)[events["group"][rows]]
    places["event_no"], places["row_no"] = events["event_no"][rows], table["row_no"]
    places["image"] = table["kind"]
    digits = _HEX[places.view(np.uint8).reshape(len(places), _SEQUENCE.itemsize)]
    ends = np.arange(len(places) + 1, dtype=np.int32) * np.int32(2 * _SEQUENCE.itemsize)
    return pa.StringArray.from_buffers(len(places), pa.py_buffer(ends), pa.py_buffer(digits))


class ChangefeedView:
    """Typed images of one table, in total order.

    Args:
        table: `database.table`.
        tables: Further restriction; default: none.
        layout: What the table is expected to look like; default: as it is first met.
        include_absent: With `ABSENT_FIELD`; without it, an image that lacks columns is an error.
        include_sequence: With `SEQUENCE_FIELD`.
    """

    def __init__(
        self,
        *,
        table: str,
        tables: TableFilter | None = None,
        layout: TableLayout | None = None,
        decoding: Decoding = DEFAULT_DECODING,
        groups: GroupFilter = ALL_GROUPS,
        include_absent: bool = False,
        include_sequence: bool = False,
    ) -> None:
        self._table = table
        self._extra = [ABSENT_FIELD] * include_absent + [SEQUENCE_FIELD] * include_sequence
        self._decoding = decoding
        self._tables = tables or TableFilter()
        self._groups = groups
        self._typed = TypedTable(layout, decoding)

    @property
    def layout(self) -> TableLayout | None:
        """Layout of the table; None before it is known."""
        return self._typed.layout

    def schema(self, layout: TableLayout | None) -> pa.Schema:
        """Schema of the batches for a table of this layout."""
        assert layout is not None, "the columns of this view are the table's"
        return changefeed_schema(layout, self._decoding, *self._extra)

    def json_styles(self) -> dict[str, JsonStyle]:
        """JSON styles for `json_lines` of this view."""
        assert self._typed.layout is not None, "no batch has been read"
        return column_styles(self._typed.layout, self._decoding) | {"_commit_timestamp": JsonStyle(digits=0)}

    def batches(self, blocks: Iterable[Block]) -> Iterator[pa.RecordBatch]:
        """The rows of *blocks*, one batch (rarely more) for a block that has any.

        Raises:
            SchemaError: `SCHEMA_CHANGED`: the table's columns are not the expected ones.
        """
        selection = Selection(self._tables, self._groups, table=self._table, decoding=self._decoding)
        for block in blocks:
            read: list[Images] = []
            for touched in selection.of(block):
                self._typed.check(touched.layout, block.position_at(touched.events[0]))
                images = touched_images(block, touched, self._decoding)
                images.check_changes()
                if ABSENT_FIELD not in self._extra and images.has_absent():
                    raise _lacking(images)
                read.append(images)
            for parts in bounded(read) if read else ():
                batches = [
                    changefeed_batch(part, block.events, block.groups, block.gtid_sources, self._extra)
                    for part in parts
                ]
                yield in_order(batches, [part.table["event"] for part in parts])


def _lacking(images: Images) -> UnsupportedError:
    names = [str(column.name) for index, column in enumerate(images.layout.columns) if images.absent_mask(index).any()]
    return UnsupportedError(
        "ROW_IMAGE",
        f"{images.layout.full_name}: row images without {', '.join(names)}: null would stand there for values that "
        "the log lacks",
        hint="Ask for the column _absent, which names what an image lacks (option includeAbsent; changes "
        "--include-absent), or set binlog_row_image=FULL on the server; generated columns, which MariaDB leaves out "
        'all the same, can be null or left out by rules (generated = "null", "drop")',
    )
