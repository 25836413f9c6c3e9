"""MariaDB's UUID, INET4 and INET6 to Arrow: `UUIDS`, `INET4S`, `INET6S`; `address_texts` for bytes out of a log.

In the log they are BINARY(16) and BINARY(4), without the zeros at their end: only a schema states what they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from binlog_format.kernels import empty_bytes
from binlog_format.rows.arrow_arrays import array_mask, text_array, validity
from binlog_format.rows.column_types import BadValueError, Family, check_text_size, size_prefix
from binlog_format.rows.values import binary_kernels as kernels

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from binlog_format.events.table_map import Column
    from binlog_format.kernels import Bytes
    from binlog_format.rows.decoding import Decoding

    Int32s = NDArray[np.int32]


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
