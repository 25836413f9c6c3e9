"""One column at a time: `make_column`, and `read`, the Python values of its bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from binlog_format.events.table_map import Column, TableLayout
from binlog_format.kernels import as_bytes
from binlog_format.rows.columns import arrow_type, column_array
from binlog_format.rows.decoding import DEFAULT_DECODING, Decoding

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from binlog_format.events.table_map_layout import ColumnType


def make_column(type_: ColumnType, metadata: bytes = b"", **details: Any) -> Column:
    return Column("c", type_, int.from_bytes(metadata, "little"), nullable=True, **details)


def read_array(column: Column, values: Sequence[bytes | None], decoding: Decoding = DEFAULT_DECODING) -> pa.Array:
    """The values of a column; the bytes lie apart, and the last one ends where the data end."""
    data, offsets = b"", []
    for value in values:
        if value is None:
            offsets.append(-1)
        else:
            data += b"\xa5"
            offsets.append(len(data))
            data += value
    layout = TableLayout("shop", "orders", (column,), (), "", b"")
    array = column_array(layout, 0, as_bytes(data), np.array(offsets, dtype=np.int32), decoding=decoding)
    array.validate(full=True)
    assert array.type == arrow_type(layout, 0, decoding)
    assert array.null_count == sum(value is None for value in array.to_pylist())
    return array


def read(column: Column, values: Sequence[bytes | None], decoding: Decoding = DEFAULT_DECODING) -> list[Any]:
    """The values of a column as Python has them."""
    result: list[Any] = read_array(column, values, decoding).to_pylist()
    return result
