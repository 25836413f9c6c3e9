"""The loops of `addresses` and `geometry`: UUID and INET to text, and the parts of a geometry.

Arguments and results are as in `text_kernels`; *out* has room for the longest text, or the bytes, of each value. One
that is too long, or too short, cannot be read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from binlog_format.kernels import allocating_kernel, kernel
from binlog_format.memory_kernels import copy_bytes, load_u8, load_u32
from binlog_format.rows.values.text_kernels import text_size

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from binlog_format.kernels import Bytes, Int32s

UUID_SIZE = 16
INET6_SIZE = 16
INET4_SIZE = 4

UUID_TEXT_SIZE = 36
INET4_TEXT_MAX = len("255.255.255.255")
INET6_TEXT_MAX = len("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff")

SRID_SIZE = 4

_HEX = np.frombuffer(b"0123456789abcdef", dtype=np.uint8).copy()
_COLON = 0x3A
_POINT = 0x2E
_DASH = 0x2D


@kernel
def _padded_value(data: Bytes, offset: int, prefix: int, width: int, value: Bytes) -> bool:
    # A value of which the log has left out the zeros at the end; False where it is longer, or not in the data.
    size = text_size(data, offset, prefix)
    if size < 0 or size > width:
        return False
    copy_bytes(value, 0, data, offset + prefix, size)
    for k in range(size, width):
        value[k] = 0
    return True


@allocating_kernel
def write_uuids(data: Bytes, offsets: Int32s, prefix: int, out_offsets: Int32s, out: Bytes) -> int:
    """UUIDs, 16 bytes in the order of their text, as `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx`."""
    value = np.empty(UUID_SIZE, dtype=np.uint8)
    at = 0
    out_offsets[0] = 0
    for i in range(offsets.size):
        if offsets[i] >= 0:
            if not _padded_value(data, int(offsets[i]), prefix, UUID_SIZE, value):
                return i
            for k in range(UUID_SIZE):
                if k == 4 or k == 6 or k == 8 or k == 10:
                    out[at] = _DASH
                    at += 1
                out[at] = _HEX[value[k] >> 4]
                out[at + 1] = _HEX[value[k] & 15]
                at += 2
        out_offsets[i + 1] = at
    return -1


@kernel
def _put_inet4(out: Bytes, at: int, value: Bytes, place: int) -> int:
    for k in range(INET4_SIZE):
        number = load_u8(value, place + k)
        if k:
            out[at] = _POINT
            at += 1
        if number > 99:
            out[at] = 48 + number // 100
            at += 1
        if number > 9:
            out[at] = 48 + number // 10 % 10
            at += 1
        out[at] = 48 + number % 10
        at += 1
    return at


@allocating_kernel
def write_inet4(data: Bytes, offsets: Int32s, prefix: int, out_offsets: Int32s, out: Bytes) -> int:
    """IPv4 addresses as `1.2.3.4`."""
    value = np.empty(INET4_SIZE, dtype=np.uint8)
    at = 0
    out_offsets[0] = 0
    for i in range(offsets.size):
        if offsets[i] >= 0:
            if not _padded_value(data, int(offsets[i]), prefix, INET4_SIZE, value):
                return i
            at = _put_inet4(out, at, value, 0)
        out_offsets[i + 1] = at
    return -1


@kernel
def _word(value: Bytes, k: int) -> int:
    return load_u8(value, 2 * k) << 8 | load_u8(value, 2 * k + 1)


@kernel
def _longest_gap(value: Bytes) -> tuple[int, int]:
    # First word and number of words of the longest run of zeros; the first one of equals; (-1, 0) without.
    gap = -1
    size = 0
    k = 0
    while k < 8:
        start = k
        while k < 8 and _word(value, k) == 0:
            k += 1
        if k - start > size:
            gap = start
            size = k - start
        k += 1
    return gap, size


@kernel
def _put_inet6(out: Bytes, at: int, value: Bytes) -> int:
    # MariaDB sql/sql_type_inet.cc: as RFC 5952, but a single zero word is left out too.
    gap, size = _longest_gap(value)
    k = 0
    while k < 8:
        if k == gap:
            if k == 0:
                out[at] = _COLON
                at += 1
            out[at] = _COLON
            at += 1
            k += size
            continue
        if k == 6 and gap == 0 and (size == 6 or (size == 5 and _word(value, 5) == 0xFFFF)):
            return _put_inet4(out, at, value, 12)
        word = _word(value, k)
        shift = 12
        while shift > 0 and word >> shift == 0:
            shift -= 4
        while shift >= 0:
            out[at] = _HEX[word >> shift & 15]
            at += 1
            shift -= 4
        if k != 7:
            out[at] = _COLON
            at += 1
        k += 1
    return at


@allocating_kernel
def write_inet6(data: Bytes, offsets: Int32s, prefix: int, out_offsets: Int32s, out: Bytes) -> int:
    """IPv6 addresses as the server prints them, for example `::ffff:1.2.3.4`."""
    value = np.empty(INET6_SIZE, dtype=np.uint8)
    at = 0
    out_offsets[0] = 0
    for i in range(offsets.size):
        if offsets[i] >= 0:
            if not _padded_value(data, int(offsets[i]), prefix, INET6_SIZE, value):
                return i
            at = _put_inet6(out, at, value)
        out_offsets[i + 1] = at
    return -1


@kernel
def split_geometries(
    data: Bytes, offsets: Int32s, prefix: int, srids: NDArray[np.uint32], out_offsets: Int32s, out: Bytes
) -> int:
    """Put SRIDs of geometries into *srids*, and their well-known binary into *out*; of an empty one 0, and nothing."""
    at = 0
    out_offsets[0] = 0
    for i in range(offsets.size):
        srids[i] = 0
        place = int(offsets[i])
        if place >= 0:
            size = text_size(data, place, prefix)
            if size < 0 or 0 < size < SRID_SIZE or at + size - SRID_SIZE > out.size:
                return i
            if size:
                srids[i] = load_u32(data, place + prefix)
                copy_bytes(out, at, data, place + prefix + SRID_SIZE, size - SRID_SIZE)
                at += size - SRID_SIZE
        out_offsets[i + 1] = at
    return -1
