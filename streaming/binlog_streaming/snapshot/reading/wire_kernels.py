"""The loop of `wire_columns`: values of rows that a server sends, as a row image of the log has them.

Rows come as the answer to a prepared statement (the binary protocol): a byte 0x00, a bit for each column that is NULL,
then the values. Numbers are those of a row image already; dates, decimals and sizes before texts are written anew, so
that one decoder makes the values of a table, wherever its rows come from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlog_format.kernels import kernel
from binlog_format.memory_kernels import copy_bytes, load_u8, load_u16, load_u32
from binlog_format.rows.row_event_kernels import NULL
from binlog_format.rows.values.temporal_kernels import days_since_1970

if TYPE_CHECKING:
    from binlog_format.kernels import Bytes, Int32s, Int64s


# What a value is on the wire, and what becomes of it.
NUMBER = 0  # some bytes, of which the first ones are taken
YEAR = 1
TEXT = 2  # with its size before it
BITS = 3  # the same, without in the image
DATE = 4
DATETIME = 5
TIMESTAMP = 6
TIME = 7
DECIMAL = 8  # text

_DAY_SECONDS = 86_400
# MariaDB sql/compat56.cc: added to the packed values so that they are not negative.
_DATETIME_BIAS = 1 << 39
_TIME_BIAS = 1 << 23


@kernel
def write_images(
    data: Bytes,
    starts: Int64s,
    ends: Int64s,
    kinds: Int32s,
    wire: Int32s,
    image: Int32s,
    out: Bytes,
    cells: Int32s,
) -> tuple[int, int]:
    """Write the values of rows one after the other.

    Args:
        starts: Where each row begins.
        ends: Where it ends.
        kinds: What the values of each column are.
        wire: Bytes of a value there (`NUMBER`); precision (`DECIMAL`).
        image: Bytes of it in an image (`NUMBER`, `BITS`), of the size before it (`TEXT`), of its fraction of a second;
            scale (`DECIMAL`).
        out: Room for all of it.
        cells: Shape (columns, rows); gets where in *out* each value begins, or `NULL`.

    Returns:
        Row and column of a value that no server sends, or -1 and 0.
    """
    columns = kinds.size
    nulls = (columns + 9) >> 3
    at = 0
    for row in range(starts.size):
        bits = starts[row] + 1
        place, end = bits + nulls, ends[row]
        if place > end:
            return row, 0
        for column in range(columns):
            if load_u8(data, bits + ((column + 2) >> 3)) >> ((column + 2) & 7) & 1:
                cells[column, row] = NULL
                continue
            cells[column, row] = at
            kind = kinds[column]
            if kind == NUMBER:
                width = wire[column]
                if place + width > end:
                    return row, column
                copy_bytes(out, at, data, place, image[column])
                at += image[column]
                place += width
            elif kind == TEXT:
                size, content = _size(data, place, end)
                if size < 0:
                    return row, column
                for k in range(image[column]):
                    out[at + k] = size >> (8 * k) & 0xFF
                at += image[column]
                copy_bytes(out, at, data, content, size)
                at += size
                place = content + size
            else:
                place, at = _put(data, place, end, kind, wire[column], image[column], out, at)
                if place < 0:
                    return row, column
        if place != end:
            return row, columns - 1
    return -1, 0


@kernel
def _put(data: Bytes, place: int, end: int, kind: int, wire: int, image: int, out: Bytes, at: int) -> tuple[int, int]:
    # One value that is neither a number nor a text; the places after it on the wire (-1: it is none) and in the image.
    if kind == YEAR:
        if place + 2 > end:
            return -1, at
        year = load_u16(data, place)
        if year and not 1900 < year < 2156:
            return -1, at  # two digits, of a YEAR(2)
        out[at] = year - 1900 if year else 0
        return place + 2, at + 1
    if kind == BITS:
        size, content = _size(data, place, end)
        if size < 0 or size > image:
            return -1, at
        for k in range(image - size):
            out[at + k] = 0
        copy_bytes(out, at + image - size, data, content, size)
        return content + size, at + image
    if kind == DECIMAL:
        size, content = _size(data, place, end)
        if size < 0:
            return -1, at
        at = _put_decimal(data, content, content + size, wire, image, out, at)
        return (content + size if at >= 0 else -1), at
    if place >= end:
        return -1, at
    size = load_u8(data, place)
    place += 1
    if place + size > end:
        return -1, at
    if kind == TIME:
        at = _put_time(data, place, size, image, out, at)
    else:
        at = _put_date(data, place, size, kind, image, out, at)
    return (place + size if at >= 0 else -1), at


@kernel
def _size(data: Bytes, place: int, end: int) -> tuple[int, int]:
    # A size and where what it is of begins; -1 where that is not there.
    if place >= end:
        return -1, place
    size = load_u8(data, place)
    place += 1
    if size >= 0xFB:
        if size == 0xFC and place + 2 <= end:
            size = load_u16(data, place)
            place += 2
        elif size == 0xFD and place + 3 <= end:
            size = load_u16(data, place) | load_u8(data, place + 2) << 16
            place += 3
        elif size == 0xFE and place + 8 <= end and load_u32(data, place + 4) == 0:
            size = load_u32(data, place)
            place += 8
        else:
            return -1, place
    return (size if place + size <= end else -1), place


@kernel
def _put_big_endian(out: Bytes, at: int, number: int, size: int) -> int:
    for k in range(size):
        out[at + k] = number >> (8 * (size - 1 - k)) & 0xFF
    return at + size


@kernel
def _fraction(micros: int, size: int) -> int:
    # Each byte has two digits.
    if size == 1:
        return micros // 10_000
    if size == 2:
        return micros // 100
    return micros


@kernel
def _put_date(data: Bytes, place: int, size: int, kind: int, image: int, out: Bytes, at: int) -> int:
    # The inverse of `gather_dates`, `gather_datetimes` and `gather_timestamps`.
    if size != 0 and size != 4 and size != 7 and size != 11:
        return -1
    year = month = day = hour = minute = second = micros = 0
    if size >= 4:
        year, month, day = load_u16(data, place), load_u8(data, place + 2), load_u8(data, place + 3)
    if size >= 7:
        hour, minute, second = load_u8(data, place + 4), load_u8(data, place + 5), load_u8(data, place + 6)
    if size == 11:
        micros = load_u32(data, place + 7)
    if kind == DATE:
        packed = day | month << 5 | year << 9
        for k in range(3):
            out[at + k] = packed >> (8 * k) & 0xFF
        return at + 3
    if kind == DATETIME:
        packed = (year * 13 + month) << 22 | day << 17 | hour << 12 | minute << 6 | second
        at = _put_big_endian(out, at, packed + _DATETIME_BIAS, 5)
    else:
        seconds = 0
        if year:
            seconds = days_since_1970(year, month, day) * _DAY_SECONDS + hour * 3600 + minute * 60 + second
        at = _put_big_endian(out, at, seconds, 4)
    return _put_big_endian(out, at, _fraction(micros, image), image)


@kernel
def _put_time(data: Bytes, place: int, size: int, image: int, out: Bytes, at: int) -> int:
    # The inverse of `gather_times`.
    if size != 0 and size != 8 and size != 12:
        return -1
    negative, packed, micros = 0, 0, 0
    if size:
        negative = load_u8(data, place)
        hours = load_u32(data, place + 1) * 24 + load_u8(data, place + 5)
        packed = hours << 12 | load_u8(data, place + 6) << 6 | load_u8(data, place + 7)
    if size == 12:
        micros = load_u32(data, place + 8)
    packed = packed << (8 * image) | _fraction(micros, image)
    if negative:
        packed = -packed
    return _put_big_endian(out, at, packed + (_TIME_BIAS << (8 * image)), 3 + image)


@kernel
def _put_decimal(data: Bytes, place: int, end: int, precision: int, scale: int, out: Bytes, at: int) -> int:
    # Digits in groups of nine, from the point to both sides (MariaDB strings/decimal.c: decimal2bin).
    negative = place < end and load_u8(data, place) == 45  # "-"
    if negative:
        place += 1
    while place < end and load_u8(data, place) == 48:
        place += 1
    point = place
    while point < end and load_u8(data, point) != 46:  # "."
        point += 1
    whole = precision - scale
    missing = whole - (point - place)
    if missing < 0 or end - point - 1 > scale:
        return -1
    flip = 0xFF if negative else 0
    start = at
    digit = 0
    while digit < precision:
        left = whole - digit if digit < whole else precision - digit
        count = 9
        if digit < whole:
            count = left % 9 or 9
        elif left < 9:
            count = left
        number = 0
        for k in range(digit, digit + count):
            source = place + k - missing if k < whole else point + 1 + k - whole
            value = 48
            if (k >= missing and k < whole) or (k >= whole and source < end):
                value = load_u8(data, source)
            if value < 48 or value > 57:
                return -1
            number = number * 10 + value - 48
        size = 4 if count == 9 else (count + 1) >> 1
        for k in range(size):
            out[at + k] = (number >> (8 * (size - 1 - k)) & 0xFF) ^ flip
        at += size
        digit += count
    out[start] = load_u8(out, start) ^ 0x80
    return at
