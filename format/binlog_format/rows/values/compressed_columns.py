"""MariaDB's COMPRESSED columns to Arrow: `COMPRESSED`.

A stored value is empty; or 0x00 and the plain bytes; or a byte 0x80 | 8 for raw deflate | count of length bytes, the
plain length in that many bytes, big-endian, and the data as zlib or raw deflate writes them (MariaDB `sql/field.cc`:
`Field_longstr::compress`, `Field_longstr::uncompress`).
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

import numpy as np

from binlog_format.errors import UnsupportedError
from binlog_format.events.table_map_layout import ColumnType
from binlog_format.kernels import as_bytes
from binlog_format.rows.column_types import BadValueError, Family, size_prefix
from binlog_format.rows.values.text import RowValues, text_offsets, text_type, text_values

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from binlog_format.events.table_map import Column
    from binlog_format.kernels import Bytes
    from binlog_format.rows.decoding import Decoding

    Int32s = NDArray[np.int32]

_METHOD_BITS = 0xF0
_ZLIB_METHOD = 0x80
_RAW_BIT = 0x08
_LENGTH_BITS = 0x07
_LENGTH_BYTES_MAX = 4
_PLAIN_PREFIX = 4

_PLAIN_SIZE_MAX = 1 << 30
"""Plain bytes of a column at once; a few bytes can claim to be many."""

_RATIO_MAX = 1032
"""Best compression ratio of deflate (zlib's technical notes)."""


def _compressed(column: Column, data: Bytes, offsets: Int32s, decoding: Decoding) -> pa.Array:
    assert column.charset is not None, "text_type has refused such columns"
    prefix = size_prefix(column)
    sizes = np.diff(text_offsets(RowValues(data, offsets, prefix)))  # checks that every value is in the data
    content = data.data
    plain_max = column.metadata - 1 if column.type is ColumnType.VARCHAR_COMPRESSED else (1 << 8 * prefix) - 1
    parts: list[bytes | memoryview] = []
    plain_offsets = np.full(len(offsets), -1, dtype=np.int32)
    total = 0
    for index, (offset, size) in enumerate(zip(offsets.tolist(), sizes.tolist(), strict=True)):
        if offset < 0:
            continue
        stored = content[offset + prefix : offset + prefix + size]
        total += _PLAIN_PREFIX + _plain_size(index, stored, plain_max)
        if total > _PLAIN_SIZE_MAX:
            raise UnsupportedError(
                "ROW_IMAGE",
                f"a COMPRESSED column with more than {_PLAIN_SIZE_MAX} plain bytes at once",
                hint="Read fewer events at once",
            )
        plain = _plain(index, stored)
        plain_offsets[index] = total - _PLAIN_PREFIX - len(plain)
        parts += [len(plain).to_bytes(_PLAIN_PREFIX, "little"), plain]
    return text_values(column.charset, RowValues(as_bytes(b"".join(parts)), plain_offsets, _PLAIN_PREFIX), decoding)


def _plain_size(index: int, stored: memoryview, plain_max: int) -> int:
    """Bytes of the plain value, checked against what can be."""
    if len(stored) == 0:
        return 0
    method = stored[0] & _METHOD_BITS
    length_size = stored[0] & _LENGTH_BITS
    if stored[0] == 0:
        return len(stored) - 1
    if method != _ZLIB_METHOD or not 0 < length_size <= _LENGTH_BYTES_MAX or len(stored) <= length_size:
        raise BadValueError(index, f"a compressed value does not begin with {stored[0]:#x}")
    size = int.from_bytes(stored[1 : 1 + length_size], "big")
    if size > min(plain_max, _RATIO_MAX * len(stored)):
        raise BadValueError(index, f"{len(stored)} bytes cannot be {size} bytes of plain text")
    return size


def _plain(index: int, stored: memoryview) -> bytes | memoryview:
    if len(stored) == 0 or stored[0] == 0:
        return stored[1:]
    size = int.from_bytes(stored[1 : 1 + (stored[0] & _LENGTH_BITS)], "big")
    inflating = zlib.decompressobj(-zlib.MAX_WBITS if stored[0] & _RAW_BIT else zlib.MAX_WBITS)
    try:
        plain = inflating.decompress(stored[1 + (stored[0] & _LENGTH_BITS) :], size + 1)
    except zlib.error as error:
        raise BadValueError(index, f"its compressed bytes are damaged: {error}") from error
    if len(plain) != size or not inflating.eof:
        raise BadValueError(index, f"its compressed bytes are not {size} plain bytes")
    return plain


COMPRESSED = Family(text_type, _compressed)
