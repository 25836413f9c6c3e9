"""Arrow types of a table's columns: `arrow_schema(layout)`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from binlog_format.errors import SchemaError
from binlog_format.rows.column_types import NO_METADATA_HINT
from binlog_format.rows.columns import arrow_type
from binlog_format.rows.decoding import DEFAULT_DECODING, Decoding

if TYPE_CHECKING:
    from binlog_format.events.table_map import TableLayout

__all__ = ["arrow_schema", "arrow_type"]


def arrow_schema(layout: TableLayout, decoding: Decoding = DEFAULT_DECODING) -> pa.Schema:
    """Names and types of all columns that are shown, as `Images.column` gives them.

    Every field can be null: a column may be absent from a row image, and zero dates are null.

    Raises:
        SchemaError: `NO_COLUMN_METADATA`: the log does not state what the columns are called, or how to understand one.
        UnsupportedError: `COLUMN_TYPE`: a column has a type, or a character set, that is not read.
        BinlogError: The layout's `problem`.
    """
    if layout.problem is not None:
        raise layout.problem
    layout = decoding.shown(layout)
    fields = []
    for index, column in enumerate(layout.columns):
        if column.name is None:
            raise SchemaError(
                "NO_COLUMN_METADATA",
                f"{layout.full_name}: the log does not record what the columns are called",
                hint=NO_METADATA_HINT,
            )
        fields.append(pa.field(column.name, arrow_type(layout, index, decoding)))
    return pa.schema(fields)
