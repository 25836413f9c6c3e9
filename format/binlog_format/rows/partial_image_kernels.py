"""The loops of `read_images` where images lack columns (`binlog_row_image` MINIMAL or NOBLOB), or parts of values.

`count_images` finds out how many images there are and which columns they have; `fill_images` notes where values start.

In a PARTIAL_UPDATE_ROWS event (MySQL, `binlog_row_value_options=PARTIAL_JSON`) options come before each image after an
update: a number whose lowest bit states that a bitmap follows, one bit for each JSON column of the table whether or not
the image has it. Where the bit is set, the value is a list of changes to the value in the image before
(`json_diffs`), in the same place and with the same size before it as a value (MySQL sql/rpl_record.cc: `unpack_row`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlog_format.events.event_table_kernels import expect_row_event
from binlog_format.kernels import kernel
from binlog_format.memory_kernels import load_u8
from binlog_format.rows.row_event_kernels import (
    AFTER_KIND,
    BAD_JSON_DIFFS,
    BEFORE_KIND,
    DELETE_KIND,
    EMPTY_ROWS,
    INSERT_KIND,
    NULL,
    OK,
    PARTIAL_UPDATE,
    UPDATE,
    VALUE_BEYOND_EVENT,
    WRITE,
    open_event,
    packed_number,
    row_action,
    shares_bitmap,
    value_size,
)

if TYPE_CHECKING:
    from binlog_format.block import Table
    from binlog_format.kernels import Bytes, Int32s, Int64s

_PARTIAL_JSON = 1  # the only option that there is

# Columns of the table of partial values.
PARTIAL_IMAGE = 0
PARTIAL_COLUMN = 1
PARTIAL_FIELDS = 2


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
def image_end(data: Bytes, start: int, end: int, present: Int32s, count: int, widths: Int32s) -> tuple[int, int]:
    """The byte after a row image, and `OK`; else the column that does not fit, and the error.

    Args:
        data: The bytes that it is in.
        end: After the last byte that it may have.
        present: The columns that it has.
        widths: Of `value_widths`.
    """
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
def open_images(
    data: Bytes, start: int, size: int, kind: int, column_count: int, present: Int32s
) -> tuple[int, int, int, int]:
    """Check the head of a row event.

    Args:
        data: The bytes that it is in.
        column_count: Columns of the table map.
        present: Shape (2, *column_count*): gets the columns that the images before and after have.

    Returns:
        Code, byte of the first row, columns present in the (before) image and in the after image of an update.
    """
    code, place = open_event(data, start, size, kind, column_count)
    if code != OK:
        return code, place, 0, 0
    bitmap = (column_count + 7) >> 3
    before = _present(data, place, column_count, present[0])
    after = 0
    if row_action(kind) == UPDATE:
        if not shares_bitmap(kind):
            place += bitmap
        after = _present(data, place, column_count, present[1])
    place += bitmap
    return OK, place, before, after


@kernel
def _open_options(data: Bytes, place: int, end: int, json_count: int) -> tuple[int, int]:
    # Options before the image after a partial update: byte of the image, byte of the bitmap of partial values (-1: it
    # has none). -1 for the image: they do not fit; -2: there are options that are unknown.
    options, place = packed_number(data, place, end)
    if options < 0:
        return -1, -1
    if options & ~_PARTIAL_JSON:
        return -2, -1
    if options == 0:
        return place, -1
    bitmap = (json_count + 7) >> 3
    return (place + bitmap, place) if place + bitmap <= end else (-1, -1)


@kernel
def _partial_values(
    data: Bytes,
    bitmap: int,
    start: int,
    present: Int32s,
    count: int,
    is_json: Bytes,
    image: int,
    partial: Int64s,
    found: int,
) -> int:
    # Enters the columns of the image at `start` whose values are partial, as far as there is room; how many there are
    # then. NULLs are none.
    number = 0
    i = 0
    for column in range(is_json.size):
        there = i < count and present[i] == column
        if is_json[column]:
            bit = load_u8(data, bitmap + (number >> 3)) >> (number & 7) & 1
            number += 1
            if bit and there and not load_u8(data, start + (i >> 3)) >> (i & 7) & 1:
                if found < len(partial):
                    partial[found, PARTIAL_IMAGE] = image
                    partial[found, PARTIAL_COLUMN] = column
                found += 1
        if there:
            i += 1
    return found


@kernel
def _count_after(
    data: Bytes,
    place: int,
    end: int,
    kind: int,
    present: Int32s,
    count: int,
    widths: Int32s,
    is_json: Bytes,
    json_count: int,
    no_partial: Int64s,
    partial: int,
) -> tuple[int, int, int]:
    # The byte after the image after an update (or the column that does not fit), code, number of partial values.
    bitmap = -1
    if kind == PARTIAL_UPDATE:
        place, bitmap = _open_options(data, place, end, json_count)
        if place < 0:
            return -1, VALUE_BEYOND_EVENT if place == -1 else BAD_JSON_DIFFS, partial
    start = place
    place, code = image_end(data, place, end, present, count, widths)
    if code == OK and bitmap >= 0:
        partial = _partial_values(data, bitmap, start, present, count, is_json, 0, no_partial, partial)
    return place, code, partial


@kernel
def count_images(
    data: Bytes,
    events: Table,
    rows: Int64s,
    widths: Int32s,
    is_json: Bytes,
    json_count: int,
    present: Int32s,
    seen: Int64s,
    no_partial: Int64s,
) -> tuple[int, int, int, int, int]:
    """Count the row images of *rows* of *events*.

    Args:
        widths: Of `value_widths`.
        is_json: 1 for each column of the type JSON, else 0.
        json_count: How many of them are 1.
        present: Scratch, shape (2, column_count).
        seen: Gets, for each column, the number of images that it is present in.
        no_partial: Shape (0, `PARTIAL_FIELDS`).

    Returns:
        Image count, `OK`, 0, 0, count of partial values; or the row of *events* that is damaged, the error, the number
        of its row, and the column (or, for `WRONG_COLUMN_COUNT`, the number of columns found), 0.
    """
    starts = events["start"]
    sizes = events["size"]
    types = events["type"]
    before_columns = present[0]
    after_columns = present[1]
    column_count = widths.size
    images = 0
    partial = 0
    for index in range(rows.size):
        expect_row_event(data, starts, sizes, rows, index)
        row = rows[index]
        start = starts[row]
        kind = int(types[row])
        code, place, before, after = open_images(data, start, sizes[row], kind, column_count, present)
        if code != OK:
            return row, code, 0, place, 0
        end = start + sizes[row]
        update = row_action(kind) == UPDATE
        changed = 0
        while True:  # at least one row: one without any present column takes no bytes
            row_start = place
            place, code = image_end(data, place, end, before_columns, before, widths)
            if code == OK and update:
                place, code, partial = _count_after(
                    data, place, end, kind, after_columns, after, widths, is_json, json_count, no_partial, partial
                )
            if code != OK:
                return row, code, changed, place, 0
            changed += 1
            if place == end:
                break
            if place == row_start:
                return row, EMPTY_ROWS, changed, 0, 0
        images += changed
        for i in range(before):
            seen[present[0, i]] += changed
        if update:
            images += changed
            for i in range(after):
                seen[present[1, i]] += changed
    return images, OK, 0, 0, partial


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
def _name_image(table: Table, image: int, event: int, row_no: int, kind: int) -> None:
    table["event"][image] = event
    table["row_no"][image] = row_no
    table["kind"][image] = kind


@kernel
def fill_images(
    data: Bytes,
    events: Table,
    rows: Int64s,
    widths: Int32s,
    is_json: Bytes,
    json_count: int,
    present: Int32s,
    slots: Int64s,
    table: Table,
    cells: Int32s,
    partial: Int64s,
) -> int:
    """Note where every value starts, after `count_images` has found that all of them fit.

    Args:
        data: As for `count_images`, as the five that follow.
        present: Scratch, as there.
        slots: For each column its row of *cells*.
        table: `IMAGE_DTYPE`, as long as counted.
        cells: Filled with `ABSENT` where not every column is in every image.
        partial: Shape (count, `PARTIAL_FIELDS`), as long as counted: gets image and column of each partial value, which
            starts at its place in *cells*.

    Returns:
        The number of images; another one than counted, or -1, means that *data* has changed meanwhile.
    """
    starts, sizes, types = events["start"], events["size"], events["type"]
    before_columns, after_columns = present[0], present[1]
    images = found = 0
    for index in range(rows.size):
        expect_row_event(data, starts, sizes, rows, index)
        row = rows[index]
        kind = int(types[row])
        code, place, before, after = open_images(data, starts[row], sizes[row], kind, widths.size, present)
        if code != OK:
            return -1
        end = starts[row] + sizes[row]
        action = row_action(kind)
        update = action == UPDATE
        first_kind = BEFORE_KIND if update else (INSERT_KIND if action == WRITE else DELETE_KIND)
        changed = 0
        while changed == 0 or place < end:
            if images + (2 if update else 1) > len(table):
                return -1
            _name_image(table, images, row, changed, first_kind)
            place = _fill_image(data, place, end, before_columns, before, widths, slots, images, cells)
            images += 1
            if update and place >= 0:
                bitmap = -1
                if kind == PARTIAL_UPDATE:
                    place, bitmap = _open_options(data, place, end, json_count)
                    if place < 0:
                        return -1
                _name_image(table, images, row, changed, AFTER_KIND)
                start = place
                place = _fill_image(data, place, end, after_columns, after, widths, slots, images, cells)
                if place >= 0 and bitmap >= 0:
                    found = _partial_values(data, bitmap, start, after_columns, after, is_json, images, partial, found)
                images += 1
            if place < 0:
                return -1
            changed += 1
    return images if found == len(partial) else -1
