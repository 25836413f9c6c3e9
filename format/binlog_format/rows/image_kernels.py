"""The loops of `Images`: `fill_whole_images`, in one pass where every image has all columns; `pick_cells`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlog_format.events.event_table_kernels import expect_row_event
from binlog_format.kernels import kernel
from binlog_format.memory_kernels import load_u8
from binlog_format.rows.row_event_kernels import (
    AFTER_KIND,
    BEFORE_KIND,
    DELETE_KIND,
    EMPTY_ROWS,
    INSERT_KIND,
    NO_ROOM,
    NOT_WHOLE,
    NULL,
    OK,
    PARTIAL_UPDATE,
    UPDATE,
    VALUE_BEYOND_EVENT,
    WRITE,
    open_event,
    row_action,
    shares_bitmap,
    value_size,
)

if TYPE_CHECKING:
    from binlog_format.block import Table
    from binlog_format.kernels import Bytes, Int32s, Int64s, Mask


@kernel
def _has_all(data: Bytes, place: int, column_count: int) -> bool:
    for k in range(column_count >> 3):
        if data[place + k] != 0xFF:
            return False
    rest = (1 << (column_count & 7)) - 1
    return rest == 0 or load_u8(data, place + (column_count >> 3)) & rest == rest


@kernel
def _fill_whole_image(data: Bytes, start: int, end: int, widths: Int32s, image: int, cells: Int32s) -> tuple[int, int]:
    # The byte after the image, and OK; else the column that does not fit, and the error.
    count = widths.size
    place = start + ((count + 7) >> 3)
    if place > end:
        return -1, VALUE_BEYOND_EVENT
    nulls = 0
    for column in range(count):
        if column & 7 == 0:
            nulls = load_u8(data, start + (column >> 3))
        is_null = nulls & 1
        nulls >>= 1
        if is_null:
            cells[column, image] = NULL
            continue
        cells[column, image] = place
        width = int(widths[column])
        if width < 0:
            prefix = -width
            if place + prefix > end:
                return column, VALUE_BEYOND_EVENT
            width = prefix + value_size(data, place, prefix)
        place += width
        if place > end:
            return column, VALUE_BEYOND_EVENT
    return place, OK


@kernel
def _fill_whole_event(
    data: Bytes, place: int, end: int, row: int, action: int, widths: Int32s, images: int, table: Table, cells: Int32s
) -> tuple[int, int, int, int]:
    # Images after the event, code, number of the row, column.
    image_event = table["event"]
    image_row = table["row_no"]
    image_kind = table["kind"]
    update = action == UPDATE
    changed = 0
    first_kind = BEFORE_KIND if update else (INSERT_KIND if action == WRITE else DELETE_KIND)
    while True:
        if images + 2 > cells.shape[1]:
            return images, NO_ROOM, changed, 0
        row_start = place
        for side in range(2 if update else 1):
            image_event[images] = row
            image_row[images] = changed
            image_kind[images] = AFTER_KIND if side else first_kind
            place, code = _fill_whole_image(data, place, end, widths, images, cells)
            if code != OK:
                return images, code, changed, place
            images += 1
        changed += 1
        if place == end:
            return images, OK, changed, 0
        if place == row_start:
            return images, EMPTY_ROWS, changed, 0


@kernel
def fill_whole_images(
    data: Bytes, events: Table, rows: Int64s, first: int, images: int, widths: Int32s, table: Table, cells: Int32s
) -> tuple[int, int, int, int, int]:
    """Note where every value starts, as long as every image has all columns and all of each value.

    Args:
        images: How many images there are already.
        widths: Of `value_widths`.
        table: `IMAGE_DTYPE`; its length is the room for images.
        cells: Shape (column_count, room).

    Returns:
        Number of images; `OK`, or why it stopped; the index in *rows* where; the number of the event's row and the
        column (or the number of columns found) for errors. After `NO_ROOM` call again from there with more room.
    """
    starts = events["start"]
    sizes = events["size"]
    types = events["type"]
    count = widths.size
    bitmap = (count + 7) >> 3
    for i in range(first, rows.size):
        expect_row_event(data, starts, sizes, rows, i)
        row = rows[i]
        start = starts[row]
        kind = int(types[row])
        code, place = open_event(data, start, sizes[row], kind, count)
        if code != OK:
            return images, code, i, 0, place
        action = row_action(kind)
        whole = kind != PARTIAL_UPDATE and _has_all(data, place, count)
        place += bitmap
        if action == UPDATE and not shares_bitmap(kind):
            whole = whole and _has_all(data, place, count)
            place += bitmap
        if not whole:
            return images, NOT_WHOLE, i, 0, 0
        after, code, changed, column = _fill_whole_event(
            data, place, start + sizes[row], row, action, widths, images, table, cells
        )
        if code != OK:
            return images, code, i, changed, column
        images = after
    return images, OK, rows.size, 0, 0


@kernel
def pick_cells(cells: Int32s, slot: int, images: Int64s, missing: Mask, out: Int32s) -> int:
    """Gather the starts of a column's values in some images.

    Args:
        cells: Shape (slot_count, image_count).
        slot: The row of *cells*.
        images: Numbers of images.
        missing: Where there is none, whatever its number: `NULL`.
        out: Gets the places.

    Returns:
        The first index of an image that is not there; -1 when all are.
    """
    for i in range(images.size):
        image = images[i]
        if missing[i]:
            out[i] = NULL
        elif image < 0 or image >= cells.shape[1]:
            return i
        else:
            out[i] = cells[slot, image]
    return -1
