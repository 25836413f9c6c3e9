"""Scalars of MySQL's binary JSON as the server prints them: what `json_text_kernels` is made of.

Every writer takes where to write and gives the byte after what it has written, `NO_ROOM`, or `BAD_VALUE`. None reads
beyond the bytes that it is told to read; the bytes are checked by the caller to be in the data.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from binlog_format.events.table_map_layout import ColumnType
from binlog_format.kernels import kernel
from binlog_format.memory_kernels import load_u8, load_u32
from binlog_format.rows.column_types import DECIMAL_GROUP_DIGITS, DECIMAL_GROUP_SIZE
from binlog_format.rows.json.json_layout import (
    JSON_DECIMAL_DIGITS_MAX,
    JSON_DECIMAL_HEAD_SIZE,
    JSON_SIZE_BYTES_MAX,
    JSON_SIZE_MAX,
    JSON_TIME_SIZE,
)
from binlog_format.writing_kernels import (
    BACKSLASH,
    BASE64,
    MINUS,
    POINT,
    QUOTE,
    base64_size,
    escaped_size,
    put_base64,
    put_bytes,
    put_digits,
    put_escaped,
    put_fixed,
    put_signed,
)

if TYPE_CHECKING:
    from binlog_format.kernels import Bytes

NO_ROOM = -1
BAD_VALUE = -2

_DECIMAL = int(ColumnType.NEWDECIMAL)
_DATE = int(ColumnType.DATE)
_TIME = int(ColumnType.TIME)
_DATETIME = int(ColumnType.DATETIME)
_TIMESTAMP = int(ColumnType.TIMESTAMP)
_INTEGER_TEXT_MAX = 20
_DECIMAL_TEXT_MAX = JSON_DECIMAL_DIGITS_MAX + 3  # sign, point, a zero before the point
_TIME_TEXT_MAX = 40  # "-838:59:59.999999" and the like, with quotes, for any numbers that fit into the fields
_SECOND = 1_000_000

_GROUP_DIGITS = DECIMAL_GROUP_DIGITS
_GROUP_SIZE = DECIMAL_GROUP_SIZE
_SIGN = 0x80

_BASE64_HEAD = np.frombuffer(b'"base64:type', dtype=np.uint8).copy()
_BASE64_LINE = 57  # bytes in a line of 76 characters


@kernel
def json_size(data: Bytes, place: int, end: int) -> tuple[int, int]:
    """The size before a string or an opaque value, and the byte after it; -1 where it does not fit."""
    size = 0
    for k in range(JSON_SIZE_BYTES_MAX):
        if place + k >= end:
            return -1, place
        byte = load_u8(data, place + k)
        size |= (byte & 0x7F) << (7 * k)
        if byte < 0x80:
            return (size, place + k + 1) if size <= JSON_SIZE_MAX else (-1, place)
    return -1, place


@kernel
def load_i64(data: Bytes, place: int) -> int:
    """The signed number of 8 bytes."""
    high = load_u32(data, place + 4)
    return (high - ((high >> 31) << 32)) * (1 << 32) + load_u32(data, place)


@kernel
def write_string(data: Bytes, start: int, size: int, out: Bytes, at: int) -> int:
    """A text in quotes, with escapes."""
    if at + escaped_size(data, start, start + size) > out.size:
        return NO_ROOM
    return put_escaped(out, at, data, start, start + size)


@kernel
def write_unsigned(number: np.uint64, out: Bytes, at: int) -> int:
    """A number without sign, in decimal digits."""
    return put_digits(out, at, number) if at + _INTEGER_TEXT_MAX <= out.size else NO_ROOM


@kernel
def write_signed(number: int, out: Bytes, at: int) -> int:
    """A number with a sign."""
    return put_signed(out, at, number) if at + _INTEGER_TEXT_MAX + 1 <= out.size else NO_ROOM


@kernel
def _write_clock(packed: int, hour_digits: int, out: Bytes, at: int) -> int:
    # "23:24:25.000000"; from 36 bits of minute, second and microsecond below the hour. BAD_VALUE where there is none.
    micros = packed & 0xFFFFFF
    second, minute, hour = packed >> 24 & 63, packed >> 30 & 63, packed >> 36
    if micros >= _SECOND or second > 59 or minute > 59:
        return BAD_VALUE
    at = put_fixed(out, at, hour, hour_digits)
    out[at] = 58  # ":"
    at = put_fixed(out, at + 1, minute, 2)
    out[at] = 58
    at = put_fixed(out, at + 1, second, 2)
    out[at] = POINT
    return put_fixed(out, at + 1, micros, 6)


@kernel
def _write_time(packed: int, kind: int, out: Bytes, at: int) -> int:
    if at + _TIME_TEXT_MAX > out.size:
        return NO_ROOM
    out[at] = QUOTE
    at += 1
    if kind == _TIME:
        if packed < 0:
            packed = -packed
            out[at] = MINUS
            at += 1
        hour = packed >> 36
        if packed < 0 or hour > 838:
            return BAD_VALUE
        at = _write_clock(packed, 3 if hour > 99 else 2, out, at)
    else:
        days = packed >> 41
        year, month, day = days // (13 * 32), days // 32 % 13, days & 31
        hour = packed >> 36 & 31
        if packed < 0 or year > 9999 or hour > 23:
            return BAD_VALUE
        at = put_fixed(out, at, year, 4)
        out[at] = MINUS
        at = put_fixed(out, at + 1, month, 2)
        out[at] = MINUS
        at = put_fixed(out, at + 1, day, 2)
        if kind != _DATE:
            out[at] = 32
            at = _write_clock(packed & ((1 << 41) - 1), 2, out, at + 1)
    if at < 0:
        return at
    out[at] = QUOTE
    return at + 1


@kernel
def _group_size(digits: int) -> int:
    # Bytes of up to nine digits: (digits + 1) // 2, but 9 digits fit into 4.
    return _GROUP_SIZE if digits == _GROUP_DIGITS else (digits + 1) >> 1


@kernel
def _decimal_size(digits: int) -> int:
    return digits // _GROUP_DIGITS * _GROUP_SIZE + _group_size(digits % _GROUP_DIGITS)


@kernel
def _write_decimal(data: Bytes, start: int, size: int, out: Bytes, at: int) -> int:
    # The digits of a DECIMAL column, nine to four bytes from the point outwards, after precision and scale.
    if size < JSON_DECIMAL_HEAD_SIZE:
        return BAD_VALUE
    precision, scale = load_u8(data, start), load_u8(data, start + 1)
    whole = precision - scale
    if precision == 0 or precision > JSON_DECIMAL_DIGITS_MAX or whole < 0:
        return BAD_VALUE
    if size != JSON_DECIMAL_HEAD_SIZE + _decimal_size(whole) + _decimal_size(scale):
        return BAD_VALUE
    if at + _DECIMAL_TEXT_MAX > out.size:
        return NO_ROOM
    place = start + JSON_DECIMAL_HEAD_SIZE
    flip = 0 if load_u8(data, place) & _SIGN else 0xFF
    sign_at = at
    if flip:
        out[at] = MINUS
        at += 1
    is_zero = True
    leading = True
    invert = _SIGN
    done = 0
    while done < precision:
        if done < whole:
            digits = (whole - done) % _GROUP_DIGITS
            digits = digits if digits else _GROUP_DIGITS
        else:
            digits = min(_GROUP_DIGITS, precision - done)
        group = 0
        for _ in range(_group_size(digits)):
            group = group << 8 | (load_u8(data, place) ^ flip ^ invert)
            invert = 0
            place += 1
        scale_of_digit = 1
        for _ in range(digits):
            scale_of_digit *= 10
        if group >= scale_of_digit:
            return BAD_VALUE
        for _ in range(digits):
            if done == whole:
                if leading:
                    out[at] = 48  # no digit before the point
                    at += 1
                    leading = False
                out[at] = POINT
                at += 1
            scale_of_digit //= 10
            digit = group // scale_of_digit % 10
            is_zero = is_zero and digit == 0
            done += 1
            if leading and digit == 0 and done <= whole:
                continue
            leading = False
            out[at] = 48 + digit
            at += 1
    if leading:
        out[at] = 48
        at += 1
    if flip and is_zero:  # there is no -0
        for k in range(sign_at, at - 1):
            out[k] = out[k + 1]
        at -= 1
    return at


@kernel
def _write_base64(data: Bytes, kind: int, start: int, size: int, out: Bytes, at: int) -> int:
    # "base64:type15:..." with an escaped line feed after each line of 76 characters but the last.
    head = _BASE64_HEAD.size
    lines = (size + _BASE64_LINE - 1) // _BASE64_LINE
    if at + head + 6 + base64_size(size) + 2 * lines > out.size:
        return NO_ROOM
    at = put_bytes(out, at, _BASE64_HEAD, 0, head)
    at = put_digits(out, at, np.uint64(kind))
    out[at] = 58
    at += 1
    for line in range(0, size, _BASE64_LINE):
        if line:
            out[at] = BACKSLASH
            out[at + 1] = 110  # "n"
            at += 2
        at = put_base64(out, at, data, start + line, start + min(line + _BASE64_LINE, size), BASE64)
    out[at] = QUOTE
    return at + 1


@kernel
def write_opaque(data: Bytes, kind: int, start: int, size: int, out: Bytes, at: int) -> int:
    """A value of a column type that JSON does not have: a decimal, a date or time, or any bytes."""
    if kind == _DECIMAL:
        return _write_decimal(data, start, size, out, at)
    if kind == _DATE or kind == _TIME or kind == _DATETIME or kind == _TIMESTAMP:
        if size != JSON_TIME_SIZE:
            return BAD_VALUE
        return _write_time(load_i64(data, start), kind, out, at)
    return _write_base64(data, kind, start, size, out, at)
