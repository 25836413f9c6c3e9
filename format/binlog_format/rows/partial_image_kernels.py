"""The loops behind `read_images` where images lack columns (`binlog_row_image` MINIMAL or NOBLOB).

`count_images` finds out how many images there are and which columns they have; `fill_images` notes where values start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlog_format.kernels import kernel
from binlog_format.rows.row_event_kernels import (
    AFTER_KIND,
    BEFORE_KIND,
    DELETE_KIND,
    EMPTY_ROWS,
    INSERT_KIND,
    NULL,
    OK,
    UPDATE,
    VALUE_BEYOND_EVENT,
    WRITE,
    open_event,
    value_size,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from binlog_format.block import Table
    from binlog_format.kernels import Bytes

    Int32s = NDArray[np.int32]
    Int64s = NDArray[np.int64]


@kernel
def _present(data: Bytes, place: int, column_count: int, present: Int32s) -> int:
    # Column indices of the set bits; how many.
    count = 0
    for column in range(column_count):
        if data[place + (column >> 3)] >> (column & 7) & 1:
            present[count] = column
            count += 1
    return count


@kernel
def _image_end(data: Bytes, start: int, end: int, present: Int32s, count: int, widths: Int32s) -> tuple[int, int]:
    # The byte behind the row image, and OK; else the column that does not fit, and the error.
    place = start + ((count + 7) >> 3)
    if place > end:
        return -1, VALUE_BEYOND_EVENT
    for i in range(count):
        if data[start + (i >> 3)] >> (i & 7) & 1:
            continue
        width = int(widths[present[i]])
        if width < 0:
            prefix = -width
            if place + prefix > end:
                return int(present[i]), VALUE_BEYOND_EVENT
            width = prefix + value_size(data, place, prefix)
        place += width
        if place > end:
            return int(present[i]), VALUE_BEYOND_EVENT
    return place, OK


@kernel
def _open_partial(
    data: Bytes, start: int, size: int, kind: int, column_count: int, present: Int32s
) -> tuple[int, int, int, int]:
    # Code, byte of the first row, columns present in the (before) image and in the after image of an update.
    code, place = open_event(data, start, size, kind, column_count)
    if code != OK:
        return code, place, 0, 0
    bitmap = (column_count + 7) >> 3
    before = _present(data, place, column_count, present[0])
    place += bitmap
    after = 0
    if kind == UPDATE:
        after = _present(data, place, column_count, present[1])
        place += bitmap
    return OK, place, before, after


@kernel
def count_images(
    data: Bytes, events: Table, rows: Int64s, widths: Int32s, present: Int32s, seen: Int64s
) -> tuple[int, int, int, int]:
    """Count the row images of *rows* of *events*.

    Args:
        data: What the events point into.
        events: `EVENT_DTYPE`.
        rows: Which of them.
        widths: Of `value_widths`.
        present: Scratch, shape (2, column_count).
        seen: Gets, for each column, the number of images that it is present in.

    Returns:
        Image count, `OK`, 0, 0; or the row of *events* that is damaged, the error, the number of its row, and the
        column (or, for `WRONG_COLUMN_COUNT`, the number of columns found).
    """
    starts = events["start"]
    sizes = events["size"]
    types = events["type"]
    before_columns = present[0]
    after_columns = present[1]
    column_count = widths.size
    images = 0
    for row in rows:
        start = starts[row]
        kind = int(types[row])
        code, place, before, after = _open_partial(data, start, sizes[row], kind, column_count, present)
        if code != OK:
            return row, code, 0, place
        end = start + sizes[row]
        changed = 0
        while True:  # at least one row: one without any present column takes no bytes
            row_start = place
            place, code = _image_end(data, place, end, before_columns, before, widths)
            if code == OK and kind == UPDATE:
                place, code = _image_end(data, place, end, after_columns, after, widths)
            if code != OK:
                return row, code, changed, place
            changed += 1
            if place == end:
                break
            if place == row_start:
                return row, EMPTY_ROWS, changed, 0
        images += changed
        for i in range(before):
            seen[present[0, i]] += changed
        if kind == UPDATE:
            images += changed
            for i in range(after):
                seen[present[1, i]] += changed
    return images, OK, 0, 0


@kernel
def _fill_image(
    data: Bytes,
    start: int,
    end: int,
    present: Int32s,
    count: int,
    widths: Int32s,
    slots: Int64s,
    image: int,
    cells: Int32s,
) -> int:
    # Checks what `count_images` has checked: nothing promises that the bytes are still the same.
    place = start + ((count + 7) >> 3)
    if place > end:
        return -1
    for i in range(count):
        column = present[i]
        if data[start + (i >> 3)] >> (i & 7) & 1:
            cells[slots[column], image] = NULL
            continue
        cells[slots[column], image] = place
        width = int(widths[column])
        if width < 0:
            prefix = -width
            if place + prefix > end:
                return -1
            width = prefix + value_size(data, place, prefix)
        place += width
        if place > end:
            return -1
    return place


@kernel
def fill_images(
    data: Bytes,
    events: Table,
    rows: Int64s,
    widths: Int32s,
    present: Int32s,
    slots: Int64s,
    table: Table,
    cells: Int32s,
) -> int:
    """Note where every value starts, after `count_images` has found that all of them fit.

    Args:
        data: As for `count_images`.
        events: As for `count_images`.
        rows: As for `count_images`.
        widths: As for `count_images`.
        present: Scratch, as for `count_images`.
        slots: For each column its row of *cells*.
        table: `IMAGE_DTYPE`, as long as counted.
        cells: Filled with `ABSENT` where not every column is in every image.

    Returns:
        The number of images; another one than counted, or -1, means that *data* has changed meanwhile.
    """
    starts = events["start"]
    sizes = events["size"]
    types = events["type"]
    image_event = table["event"]
    image_row = table["row_no"]
    image_kind = table["kind"]
    before_columns = present[0]
    after_columns = present[1]
    images = 0
    for row in rows:
        kind = int(types[row])
        code, place, before, after = _open_partial(data, starts[row], sizes[row], kind, widths.size, present)
        if code != OK:
            return -1
        end = starts[row] + sizes[row]
        update = kind == UPDATE
        changed = 0
        while changed == 0 or place < end:
            if images + (2 if update else 1) > table.size:
                return -1
            image_event[images] = row
            image_row[images] = changed
            image_kind[images] = BEFORE_KIND if update else (INSERT_KIND if kind == WRITE else DELETE_KIND)
            place = _fill_image(data, place, end, before_columns, before, widths, slots, images, cells)
            images += 1
            if update and place >= 0:
                image_event[images] = row
                image_row[images] = changed
                image_kind[images] = AFTER_KIND
                place = _fill_image(data, place, end, after_columns, after, widths, slots, images, cells)
                images += 1
            if place < 0:
                return -1
            changed += 1
    return images
