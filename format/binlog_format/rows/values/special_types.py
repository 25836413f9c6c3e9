"""VECTOR to Arrow: `VECTORS`, lists of floats. GEOMETRY: `GEOMETRIES`, structs of SRID and well-known binary.

MySQL has a type for VECTOR; MariaDB's VECTOR(n) is VARBINARY(4n) in the log, and only a schema states what it is.

MariaDB's UUID, INET4 and INET6 to Arrow: `UUIDS`, `INET4S`, `INET6S`; `address_texts` for bytes out of a log.

In the log they are BINARY(16) and BINARY(4), without the zeros at their end: only a schema states what they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from binlog_format.kernels import empty_bytes
from binlog_format.rows.arrow_arrays import array_mask, fixed_array, struct_array, text_array, validity
from binlog_format.rows.column_types import BadValueError, Family, check_gathered, check_text_size, size_prefix
from binlog_format.rows.values import binary_kernels as kernels
from binlog_format.rows.values.binary_kernels import SRID_SIZE, split_geometries
from binlog_format.rows.values.text import RowValues, text_offsets
from binlog_format.rows.values.text_kernels import copy_texts

if TYPE_CHECKING:
    from collections.abc import Callable

    from binlog_format.events.table_map import Column
    from binlog_format.kernels import Bytes, Int32s
    from binlog_format.rows.decoding import Decoding

VECTOR_TYPE = pa.list_(pa.float32())
_FLOAT_SIZE = 4


def _vectors(column: Column, data: Bytes, offsets: Int32s, _decoding: Decoding) -> pa.Array:
    values = RowValues(data, offsets, size_prefix(column))
    byte_offsets = text_offsets(values)
    odd = np.flatnonzero(byte_offsets % _FLOAT_SIZE)
    if len(odd):
        raise BadValueError(int(odd[0]) - 1, f"its size is not a multiple of the {_FLOAT_SIZE} bytes of a float")
    out = empty_bytes(int(byte_offsets[-1]))
    check_gathered(copy_texts(data, offsets, values.prefix, byte_offsets, out))
    floats = pa.Array.from_buffers(pa.float32(), out.size // _FLOAT_SIZE, [None, pa.py_buffer(out)])
    valid = validity(offsets)
    bitmap = None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))
    lists = [bitmap, pa.py_buffer(byte_offsets // np.int32(_FLOAT_SIZE))]
    return pa.Array.from_buffers(VECTOR_TYPE, len(offsets), lists, children=[floats])


VECTORS = Family(lambda _layout, _index, _decoding: VECTOR_TYPE, _vectors)


GEOMETRY_TYPE = pa.struct([pa.field("srid", pa.int32()), pa.field("wkb", pa.binary())])
"""SRIDs above 2**31 - 1, which no reference system has, come out negative: the same 32 bits."""


def _geometries(column: Column, data: Bytes, offsets: Int32s, _decoding: Decoding) -> pa.Array:
    values = RowValues(data, offsets, size_prefix(column))
    out = empty_bytes(int(text_offsets(values)[-1]))
    srids = np.empty(len(offsets), dtype=np.uint32)
    out_offsets = np.empty(len(offsets) + 1, dtype=np.int32)
    bad_index = split_geometries(data, offsets, values.prefix, srids, out_offsets, out)
    if bad_index >= 0:
        raise BadValueError(bad_index, f"it is shorter than the {SRID_SIZE} bytes of its SRID")
    valid = validity(offsets)
    wkb = text_array(pa.binary(), out_offsets, out[: out_offsets[-1]], valid)
    fields = [fixed_array(pa.int32(), srids, valid), wkb]
    return struct_array(GEOMETRY_TYPE, fields, valid)


GEOMETRIES = Family(lambda _layout, _index, _decoding: GEOMETRY_TYPE, _geometries)


def _family(write: Callable[[Bytes, Int32s, int, Int32s, Bytes], int], width: int, text_max: int) -> Family:
    def decode(column: Column, data: Bytes, offsets: Int32s, _decoding: Decoding) -> pa.Array:
        size_max = len(offsets) * text_max
        check_text_size(size_max)
        out = empty_bytes(size_max)
        out_offsets = np.empty(len(offsets) + 1, dtype=np.int32)
        bad_index = write(data, offsets, size_prefix(column), out_offsets, out)
        if bad_index >= 0:
            raise BadValueError(bad_index, f"it is longer than {width} bytes")
        return text_array(pa.string(), out_offsets, out[: out_offsets[-1]], validity(offsets))

    return Family(lambda _layout, _index, _decoding: pa.string(), decode)


UUIDS = _family(kernels.write_uuids, kernels.UUID_SIZE, kernels.UUID_TEXT_SIZE)
INET4S = _family(kernels.write_inet4, kernels.INET4_SIZE, kernels.INET4_TEXT_MAX)
INET6S = _family(kernels.write_inet6, kernels.INET6_SIZE, kernels.INET6_TEXT_MAX)

_WRITERS = {
    "uuid": (kernels.write_uuids, kernels.UUID_SIZE, kernels.UUID_TEXT_SIZE),
    "inet4": (kernels.write_inet4, kernels.INET4_SIZE, kernels.INET4_TEXT_MAX),
    "inet6": (kernels.write_inet6, kernels.INET6_SIZE, kernels.INET6_TEXT_MAX),
}


def address_texts(name: str, packed: pa.Array) -> pa.Array:
    """Addresses as the server shows them.

    Args:
        name: `uuid`, `inet4` or `inet6`.
        packed: Binary strings of 16 bytes, 4 for `inet4`, or null.
    """
    write, width, text_max = _WRITERS[name]
    check_text_size(len(packed) * text_max)
    valid = array_mask(packed.is_valid())
    rows = np.zeros((len(packed), 1 + width), dtype=np.uint8)
    rows[:, 0] = width
    content = b"".join(packed.drop_null().to_pylist())
    rows[valid, 1:] = np.frombuffer(content, dtype=np.uint8).reshape(-1, width)
    offsets = np.where(valid, np.arange(len(packed)) * (1 + width), -1).astype(np.int32)
    out, out_offsets = empty_bytes(len(packed) * text_max), np.empty(len(packed) + 1, dtype=np.int32)
    write(rows.reshape(-1), offsets, 1, out_offsets, out)
    return text_array(pa.string(), out_offsets, out[: out_offsets[-1]], valid)
