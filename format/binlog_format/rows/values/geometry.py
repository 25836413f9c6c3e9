"""GEOMETRY and its kinds to Arrow: `GEOMETRIES`, structs of SRID and well-known binary."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from binlog_format.kernels import empty_bytes
from binlog_format.rows.arrow_arrays import fixed_array, struct_array, text_array, validity
from binlog_format.rows.column_types import BadValueError, Family, size_prefix
from binlog_format.rows.values.binary_kernels import SRID_SIZE, split_geometries
from binlog_format.rows.values.text import Values, text_offsets

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from binlog_format.events.table_map import Column
    from binlog_format.kernels import Bytes
    from binlog_format.rows.decoding import Decoding

    Int32s = NDArray[np.int32]

GEOMETRY_TYPE = pa.struct([pa.field("srid", pa.int32()), pa.field("wkb", pa.binary())])
"""SRIDs above 2**31 - 1, which no reference system has, come out negative: the same 32 bits."""


def _geometries(column: Column, data: Bytes, offsets: Int32s, decoding: Decoding) -> pa.Array:
    values = Values(data, offsets, size_prefix(column))
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


GEOMETRIES = Family(lambda layout, index, decoding: GEOMETRY_TYPE, _geometries)
