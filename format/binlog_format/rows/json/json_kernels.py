"""Kernels of `json_rows`: bytes that values of a column take, and columns written at one cursor for each row.

State of a value in its row: `ABSENT` (left out), `NULL`, `VALUE`.

A row is written column by column: every kernel puts its column's `"name":value,` at the row's cursor and moves the
cursor on; `close_rows` turns the last comma into the closing brace. The sizes are computed beforehand from the same
input, so that every row can be written at its final place, in whatever order rows are to stand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from binlog_format.kernels import allocating_kernel, kernel
from binlog_format.writing_kernels import (
    COMMA,
    MINUS,
    POINT,
    QUOTE,
    SIGN_BIT,
    U0,
    decimal_digits,
    digit_count,
    escaped_size,
    magnitude,
    put_base64,
    put_bytes,
    put_date,
    put_escaped,
    put_fixed,
    put_hex,
    put_null,
    put_signed,
)

if TYPE_CHECKING:
    from binlog_format.kernels import Bytes, Int32s, Int64s, Uint64s

ABSENT = 0
NULL = 1
VALUE = 2

_DAY_US = 86_400_000_000


@kernel
def add_sizes(states: Bytes, value_sizes: Int64s, around: int, sizes: Int64s) -> None:
    """Add a column's bytes to each row's *sizes*; *around* are the bytes of the name, the colon and the comma."""
    for row in range(sizes.size):
        if states[row] == VALUE:
            sizes[row] += around + value_sizes[row]
        elif states[row] == NULL:
            sizes[row] += around + 4


@kernel
def text_sizes(data: Bytes, offsets: Int32s, sizes: Int64s) -> None:
    """Bytes of each text as a JSON string, quotes included."""
    for row in range(sizes.size):
        sizes[row] = escaped_size(data, offsets[row], offsets[row + 1])


@kernel
def integer_sizes(values: Int64s, sizes: Int64s) -> None:
    """Bytes of each number in decimal, the sign included."""
    for row in range(sizes.size):
        sizes[row] = (values[row] < 0) + digit_count(magnitude(values[row]))


@allocating_kernel
def decimal_sizes(words: Uint64s, scale: int, quotes: int, sizes: Int64s) -> None:
    """Bytes of each 128-bit decimal; words: low and high half of each value in turn."""
    digits = np.empty(45, dtype=np.uint8)
    for row in range(sizes.size):
        negative = (words[2 * row + 1] & SIGN_BIT) != U0
        count = decimal_digits(words[2 * row], words[2 * row + 1], digits)
        whole = max(count - scale, 1)
        sizes[row] = quotes + negative + whole + (scale + 1 if scale > 0 else 0)


@kernel
def list_sizes(list_offsets: Int32s, data: Bytes, offsets: Int32s, sizes: Int64s) -> None:
    """Bytes of each list of texts as a JSON array."""
    for row in range(sizes.size):
        first, last = list_offsets[row], list_offsets[row + 1]
        size = 2 + max(last - first - 1, 0)
        for item in range(first, last):
            size += escaped_size(data, offsets[item], offsets[item + 1])
        sizes[row] = size


@kernel
def _begin(out: Bytes, cursors: Int64s, row: int, name: Bytes, states: Bytes) -> int:
    """Place of a row's value, after its name; -1 if nothing is left to write: it is absent or null."""
    if states[row] == ABSENT:
        return -1
    at = put_bytes(out, cursors[row], name, 0, name.size)
    if states[row] != NULL:
        return at
    _end(out, cursors, row, put_null(out, at))
    return -1


@kernel
def _end(out: Bytes, cursors: Int64s, row: int, at: int) -> None:
    out[at] = COMMA
    cursors[row] = at + 1


@kernel
def write_plain(
    out: Bytes, cursors: Int64s, name: Bytes, states: Bytes, data: Bytes, offsets: Int32s, quoted: bool
) -> None:
    """Write texts in which nothing needs an escape, or (not *quoted*) ready JSON."""
    for row in range(cursors.size):
        at = _begin(out, cursors, row, name, states)
        if at < 0:
            continue
        if quoted:
            out[at] = QUOTE
            at = put_bytes(out, at + 1, data, offsets[row], offsets[row + 1])
            out[at] = QUOTE
            _end(out, cursors, row, at + 1)
        else:
            _end(out, cursors, row, put_bytes(out, at, data, offsets[row], offsets[row + 1]))


@kernel
def write_text(out: Bytes, cursors: Int64s, name: Bytes, states: Bytes, data: Bytes, offsets: Int32s) -> None:
    """Write texts, escaped."""
    for row in range(cursors.size):
        at = _begin(out, cursors, row, name, states)
        if at >= 0:
            _end(out, cursors, row, put_escaped(out, at, data, offsets[row], offsets[row + 1]))


@kernel
def write_base64(
    out: Bytes, cursors: Int64s, name: Bytes, states: Bytes, data: Bytes, offsets: Int32s, letters: Bytes
) -> None:
    """Write bytes as base64 in *letters*, padded."""
    for row in range(cursors.size):
        at = _begin(out, cursors, row, name, states)
        if at >= 0:
            out[at] = QUOTE
            at = put_base64(out, at + 1, data, offsets[row], offsets[row + 1], letters)
            out[at] = QUOTE
            _end(out, cursors, row, at + 1)


@kernel
def write_hex(out: Bytes, cursors: Int64s, name: Bytes, states: Bytes, data: Bytes, offsets: Int32s) -> None:
    """Write bytes as hexadecimal digits."""
    for row in range(cursors.size):
        at = _begin(out, cursors, row, name, states)
        if at >= 0:
            out[at] = QUOTE
            at = put_hex(out, at + 1, data, offsets[row], offsets[row + 1])
            out[at] = QUOTE
            _end(out, cursors, row, at + 1)


@kernel
def write_integers(out: Bytes, cursors: Int64s, name: Bytes, states: Bytes, values: Int64s) -> None:
    """Write whole numbers."""
    for row in range(cursors.size):
        at = _begin(out, cursors, row, name, states)
        if at >= 0:
            _end(out, cursors, row, put_signed(out, at, values[row]))


@allocating_kernel
def write_decimals(
    out: Bytes, cursors: Int64s, name: Bytes, states: Bytes, words: Uint64s, scale: int, quoted: bool
) -> None:
    """Write 128-bit decimals in plain digits with *scale* of them after the point, as text when *quoted*."""
    digits = np.empty(45, dtype=np.uint8)
    for row in range(cursors.size):
        at = _begin(out, cursors, row, name, states)
        if at >= 0:
            if quoted:
                out[at] = QUOTE
                at += 1
            if (words[2 * row + 1] & SIGN_BIT) != U0:
                out[at] = MINUS
                at += 1
            count = decimal_digits(words[2 * row], words[2 * row + 1], digits)
            for place in range(max(count, scale + 1) - 1, -1, -1):
                out[at] = digits[place] if place < count else 0x30
                at += 1
                if place == scale and scale > 0:
                    out[at] = POINT
                    at += 1
            if quoted:
                out[at] = QUOTE
                at += 1
            _end(out, cursors, row, at)


@kernel
def write_dates(out: Bytes, cursors: Int64s, name: Bytes, states: Bytes, days: Int64s) -> None:
    """Write days since 1970-01-01 as `YYYY-MM-DD`."""
    for row in range(cursors.size):
        at = _begin(out, cursors, row, name, states)
        if at >= 0:
            out[at] = QUOTE
            at = put_date(out, at + 1, days[row])
            out[at] = QUOTE
            _end(out, cursors, row, at + 1)


@kernel
def write_timestamps(
    out: Bytes, cursors: Int64s, name: Bytes, states: Bytes, micros: Int64s, digits: int, utc: bool
) -> None:
    """Write microseconds since 1970 as `YYYY-MM-DDTHH:MM:SS[.fraction][Z]`, *digits* of the fraction."""
    unit = 1
    for _ in range(digits, 6):
        unit *= 10
    for row in range(cursors.size):
        at = _begin(out, cursors, row, name, states)
        if at >= 0:
            out[at] = QUOTE
            days = micros[row] // _DAY_US
            of_day = micros[row] - days * _DAY_US
            at = put_date(out, at + 1, days)
            seconds = of_day // 1_000_000
            out[at] = 0x54
            at = put_fixed(out, at + 1, seconds // 3600, 2)
            out[at] = 0x3A
            at = put_fixed(out, at + 1, seconds // 60 % 60, 2)
            out[at] = 0x3A
            at = put_fixed(out, at + 1, seconds % 60, 2)
            if digits > 0:
                out[at] = POINT
                at = put_fixed(out, at + 1, of_day % 1_000_000 // unit, digits)
            if utc:
                out[at] = 0x5A
                at += 1
            out[at] = QUOTE
            _end(out, cursors, row, at + 1)


@kernel
def write_lists(
    out: Bytes, cursors: Int64s, name: Bytes, states: Bytes, list_offsets: Int32s, data: Bytes, offsets: Int32s
) -> None:
    """Write lists of texts as JSON arrays."""
    for row in range(cursors.size):
        at = _begin(out, cursors, row, name, states)
        if at >= 0:
            out[at] = 0x5B
            at += 1
            for item in range(list_offsets[row], list_offsets[row + 1]):
                if item > list_offsets[row]:
                    out[at] = COMMA
                    at += 1
                at = put_escaped(out, at, data, offsets[item], offsets[item + 1])
            out[at] = 0x5D
            _end(out, cursors, row, at + 1)


@kernel
def write_same(out: Bytes, cursors: Int64s, text: Bytes) -> None:
    """Write the same text at each cursor and move it on."""
    for row in range(cursors.size):
        cursors[row] = put_bytes(out, cursors[row], text, 0, text.size)


@kernel
def open_rows(out: Bytes, starts: Int64s, cursors: Int64s) -> None:
    """Write the opening brace of each row; *cursors* get the place after it."""
    for row in range(cursors.size):
        out[starts[row]] = 0x7B
        cursors[row] = starts[row] + 1


@kernel
def close_rows(out: Bytes, starts: Int64s, cursors: Int64s) -> None:
    """Turn each row's last comma into the closing brace; a row without values becomes `{}`."""
    for row in range(cursors.size):
        if cursors[row] == starts[row] + 1:
            cursors[row] += 1
        out[cursors[row] - 1] = 0x7D


@kernel
def have_sizes(starts: Int64s, cursors: Int64s, sizes: Int64s) -> bool:
    """True if each row ends, at its cursor, where its size says."""
    for row in range(cursors.size):
        if cursors[row] != starts[row] + sizes[row]:
            return False
    return True
