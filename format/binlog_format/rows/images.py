"""Row images: `read_images` finds every value of the rows of a layout, `Images.column` makes Arrow arrays of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np

from binlog_format.errors import CorruptError, UnsupportedError
from binlog_format.events.table_map_layout import ColumnType
from binlog_format.rows import row_event_kernels as codes
from binlog_format.rows.column_types import column_name, size_prefix, value_widths
from binlog_format.rows.columns import column_array
from binlog_format.rows.declared.completion import may_be_computed
from binlog_format.rows.decoding import DEFAULT_DECODING, Decoding
from binlog_format.rows.image_kernels import fill_whole_images, pick_cells
from binlog_format.rows.json.json_diffs import PartialValueError, value_at, with_whole_values
from binlog_format.rows.partial_image_kernels import PARTIAL_FIELDS, count_images, fill_images
from binlog_format.rows.virtual_columns import with_absent_virtual_values

if TYPE_CHECKING:
    import pyarrow as pa

    from binlog_format.block import PlaceOf, Table
    from binlog_format.events.table_map import TableLayout
    from binlog_format.kernels import Bytes, Int32s, Int64s, Mask

NULL = codes.NULL
ABSENT = codes.ABSENT
CHANGES_ONLY = codes.CHANGES_ONLY

# Places of values are 32-bit numbers; a block is far smaller, even with the largest event that a server writes.
DATA_SIZE_MAX = (1 << 31) - 1
# A few bytes of row data can stand for many columns that are NULL or absent: an honest block of 2 MiB stays far below
# this, and no block can make this library use more than 1 GiB.
_CELLS_MAX = 1 << 28


class ImageKind(IntEnum):
    """Role of a row image."""

    INSERT = 0
    UPDATE_BEFORE = 1
    UPDATE_AFTER = 2
    DELETE = 3


IMAGE_DTYPE = np.dtype(
    [
        ("event", np.int64),  # row in the event table
        ("row_no", np.int32),  # number of the changed row in its event, 0-based; both images of an update share it
        ("kind", np.uint8),  # ImageKind
    ]
)


@dataclass(frozen=True, slots=True)
class Images:
    """Row images of one layout, in log order; both images of an update stand together, first the one before.

    Attributes:
        data: The bytes that the values are in: those of the events, then values that the events have only in part.
        table: `IMAGE_DTYPE`.
        cells: Shape (slot_count, image_count): the byte in `data` where a value starts, `NULL`, `ABSENT`, or
            `CHANGES_ONLY` less the place of changes to a JSON value, which counts as absent for who asks for values.
        slots: For each column its row of `cells`; columns that no image has share one.
        decoding: How `column` makes values of the bytes.
    """

    layout: TableLayout
    data: Bytes
    table: Table
    cells: Int32s
    slots: Int64s
    decoding: Decoding = DEFAULT_DECODING

    def __len__(self) -> int:
        return len(self.table)

    @property
    def offsets(self) -> Int32s:
        """A copy of all values' places, shape (column_count, image_count); `column_offsets` copies nothing."""
        return self.cells[self.slots]

    def column_offsets(self, column: int) -> Int32s:
        """Starts of a column's values, or `NULL` or `ABSENT`."""
        offsets: Int32s = self.cells[self.slots[column]]
        return offsets

    def select(self, chosen: Mask | Int64s) -> Images:
        """The images that a mask or row numbers choose, in that order."""
        indices = np.flatnonzero(chosen) if chosen.dtype == np.bool_ else chosen
        return replace(self, table=self.table[indices], cells=self.cells.take(indices, axis=1))

    def column(self, column: int) -> pa.Array:
        """The values of a column; null where the value is NULL or the image does not have the column."""
        return column_array(self.layout, column, self.data, self.column_offsets(column), decoding=self.decoding)

    def column_of(self, column: int, rows: Int64s, missing: Mask) -> pa.Array:
        """The values that a column has in some images, as `column` gives them.

        Args:
            rows: Numbers of images, in any order.
            missing: Where there is no image, whatever *rows* has: null.
        """
        offsets = np.empty(len(rows), dtype=np.int32)
        unknown = pick_cells(self.cells, int(self.slots[column]), rows, missing, offsets)
        assert unknown < 0, f"image {rows[unknown]} of {len(self)}"
        return column_array(self.layout, column, self.data, offsets, decoding=self.decoding)

    def has_absent(self) -> bool:
        """True if any image lacks any column."""
        return self.cells.size > 0 and bool(self.cells.min() <= ABSENT)

    def absent_mask(self, column: int) -> Mask:
        """Mask of the images that lack the column."""
        mask: Mask = self.column_offsets(column) <= ABSENT
        return mask

    def has_changes(self) -> bool:
        """True if any image has only changes to a JSON value."""
        return self.cells.size > 0 and bool(self.cells.min() <= CHANGES_ONLY)

    def json_changes(self, column: int) -> dict[int, bytes]:
        """The changes to values of a column that images have alone, as the event has them, by image."""
        offsets = self.column_offsets(column)
        rows = np.flatnonzero(offsets <= CHANGES_ONLY).tolist()
        if rows and self.layout.columns[column].type is not ColumnType.JSON:
            self.check_changes()
        prefix = size_prefix(self.layout.columns[column]) if rows else 0
        return {row: value_at(self.data, CHANGES_ONLY - int(offsets[row]), prefix) for row in rows}

    def check_changes(self) -> None:
        """See that no image has changes to a JSON value alone: for who takes what is absent for unchanged."""
        if not self.has_changes():
            return
        masks = [self.column_offsets(column) <= CHANGES_ONLY for column in range(len(self.layout.columns))]
        names = [column_name(self.layout, column) for column, mask in enumerate(masks) if mask.any()]
        if names:
            raise UnsupportedError(
                "ROW_IMAGE",
                f"{self.layout.full_name}: {', '.join(names)}: updates are logged as changes to a JSON value that the "
                "row image lacks",
                hint="Set binlog_row_value_options = '' or binlog_row_image = FULL on the server; snapshot brings a "
                "table whose updates are logged so already",
            )


def read_images(
    data: Bytes,
    events: Table,
    rows: Int64s,
    layout: TableLayout,
    *,
    place: PlaceOf | None = None,
    decoding: Decoding = DEFAULT_DECODING,
) -> Images:
    """Find every value in the row events of one layout.

    Args:
        data: What the events point into; smaller than 2 GiB.
        rows: Which of them; all are row events of *layout*.
        layout: Of the table maps before them, or as the rules of *decoding* show it.
        place: `Block.place`; only lets errors name the place of the damage in the files.

    Returns:
        The images as the rules of *decoding* show them: nobody after this sees more.
    """
    if data.size > DATA_SIZE_MAX:
        raise UnsupportedError("ROW_IMAGE", f"{data.size} bytes of events at once, at most {DATA_SIZE_MAX} are read")
    if layout.problem is not None:
        raise layout.problem
    shown = decoding.shown(layout)
    layout = layout.logged or layout  # what the events have
    images = _logged_images(data, events, rows, layout, place, tells_values=shown is layout)
    images = _declared_images(images) if layout.hidden else images
    images = with_absent_virtual_values(images) if layout.completion else images
    images = images if decoding is DEFAULT_DECODING else replace(images, decoding=decoding)
    if decoding.computes is not None and may_be_computed(layout):
        images = decoding.computes(images)
    return images if decoding.rules is None or shown is layout else decoding.rules.applied(images)


def _logged_images(
    data: Bytes, events: Table, rows: Int64s, layout: TableLayout, place: PlaceOf | None, *, tells_values: bool
) -> Images:
    widths = value_widths(layout)
    rows = np.ascontiguousarray(rows, dtype=np.int64)
    try:
        images = _whole_images(data, events, rows, layout, widths)
        return _partial_images(data, events, rows, layout, widths) if images is None else images
    except _EventError as error:
        event = events[error.row]
        reason = f"{layout.full_name}: event of {int(event['size'])} bytes, row {error.row_no}: "
        told = error.reason if tells_values or not error.reason else "changes of a JSON value that do not fit"
        reason += told or _reason(error.code, layout, error.detail)
        raise CorruptError("BAD_EVENT", reason, at=place and place(int(event["start"]))) from error


def _declared_images(images: Images) -> Images:
    # Without the hidden columns; these must not count as absent.
    slots = images.slots[: len(images.layout.columns)]
    images.cells[np.setdiff1d(images.slots, slots)] = NULL
    return replace(images, slots=slots)


class _EventError(Exception):
    """An error within an event."""

    def __init__(self, code: int, row: int, row_no: int, detail: int, *, reason: str = "") -> None:
        super().__init__(code, row, row_no, detail)
        self.code = code
        self.row = row
        self.row_no = row_no
        self.detail = detail
        self.reason = reason


def _whole_images(data: Bytes, events: Table, rows: Int64s, layout: TableLayout, widths: Int32s) -> Images | None:
    # In one pass; None where an image does not have all columns.
    column_count = len(widths)
    # A guess that leaves `cells` in proportion to the events: no common row takes less than a byte for each column.
    room = 2 * len(rows) + int(events["size"][rows].sum()) // max(32, column_count)
    table, cells = _image_arrays(layout, column_count, room)
    first = images = 0
    while True:
        images, code, first, row_no, detail = fill_whole_images(data, events, rows, first, images, widths, table, cells)
        if code == codes.OK:
            slots = np.arange(column_count, dtype=np.int64)
            return Images(layout, data, table[:images], cells[:, :images], slots)
        if code == codes.NOT_WHOLE:
            return None
        if code != codes.NO_ROOM:
            raise _EventError(code, int(rows[first]), row_no, detail)
        room = 2 * room + 2
        grown_table, grown_cells = _image_arrays(layout, column_count, room)
        grown_table[:images], grown_cells[:, :images] = table[:images], cells[:, :images]
        table, cells = grown_table, grown_cells


def _partial_images(data: Bytes, events: Table, rows: Int64s, layout: TableLayout, widths: Int32s) -> Images:
    # In two passes; columns that no image has take no room.
    present = np.empty((2, len(widths)), dtype=np.int32)
    seen = np.zeros(len(widths), dtype=np.int64)
    logged = (*layout.columns, *layout.hidden)
    is_json = np.array([column.type is ColumnType.JSON for column in logged], dtype=np.uint8)
    json_count = int(is_json.sum())
    none = np.empty((0, PARTIAL_FIELDS), dtype=np.int64)
    count, code, row_no, detail, partial_count = count_images(
        data, events, rows, widths, is_json, json_count, present, seen, none
    )
    if code != codes.OK:
        raise _EventError(code, count, row_no, detail)
    slots, slot_count = _slots(seen)
    table, cells = _image_arrays(layout, slot_count, count)
    if (seen < count).any():
        cells.fill(ABSENT)
    partial = np.empty((partial_count, PARTIAL_FIELDS), dtype=np.int64)
    filled = fill_images(data, events, rows, widths, is_json, json_count, present, slots, table, cells, partial)
    assert filled == count, "the bytes of a block changed while they were read"
    images = Images(layout, data, table, cells, slots)
    try:
        return with_whole_values(images, partial) if partial_count else images
    except PartialValueError as error:
        place = table[error.image]
        reason = f"the value of {column_name(layout, error.column)}: {error.reason}"
        raise _EventError(codes.BAD_JSON_DIFFS, int(place["event"]), int(place["row_no"]), 0, reason=reason) from error


def _image_arrays(layout: TableLayout, slot_count: int, image_count: int) -> tuple[Table, Int32s]:
    if slot_count * image_count > _CELLS_MAX:
        reason = f"{layout.full_name}: room for {image_count} row images of {slot_count} columns at once"
        raise UnsupportedError("ROW_IMAGE", reason, hint="Read fewer events at once")
    return np.empty(image_count, dtype=IMAGE_DTYPE), np.empty((slot_count, image_count), dtype=np.int32)


def _slots(seen: Int64s) -> tuple[Int64s, int]:
    # The row of `cells` for each column; the columns that no image has share the last one.
    is_seen = seen > 0
    slots = np.cumsum(is_seen) - 1
    count = int(is_seen.sum())
    slots[~is_seen] = count
    return slots.astype(np.int64), count + int(not is_seen.all())


def _reason(code: int, layout: TableLayout, detail: int) -> str:
    if code == codes.WRONG_COLUMN_COUNT:
        return f"{detail} columns, the table map has {len(layout.columns) + len(layout.hidden)}"
    if code == codes.VALUE_BEYOND_EVENT:
        where = "the null bitmap" if detail < 0 else f"the value of {column_name(layout, detail)}"
        return f"{where} ends beyond the event"
    return {
        codes.SHORT_HEADER: "it ends before its first row",
        codes.EMPTY_ROWS: "rows take no bytes, and bytes are left",
        codes.NOT_A_ROW_EVENT: "it is not a row event of a kind that is read",
        codes.EVENT_BEYOND_DATA: "it is longer than what was read",
        codes.BAD_JSON_DIFFS: "options for its values that no server writes",
    }[code]
