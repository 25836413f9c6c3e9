"""Rows put into the columns of a table: `cast_to_schema`, `with_values`; `changed_rows`: after a `SchemaChange`.

Choice of a Parquet file's columns that get a dictionary: `dictionary_columns`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from binlog_streaming.lake.evolution import SchemaChange


SAMPLE_ROWS = 4096
"""Rows that are looked at, spread over all."""

DISTINCT_MAX = 0.8
"""Largest share of different values in the sample; with more, the whole has too many values."""


def dictionary_columns(rows: pa.Table) -> list[str]:
    """Names of columns whose values repeat, by a sample of *rows*.

    A dictionary that becomes too large is given up for plain values, but only when it has been built and written: a
    column of numbers that are all different takes ten times as long with one, more room, and longer to be read. So keys
    get none. Nor do columns of lists and structs.
    """
    sample = rows.take(pa.array(np.arange(0, rows.num_rows, max(1, -(-rows.num_rows // SAMPLE_ROWS)))))
    return [name for name, column in zip(sample.column_names, sample.columns, strict=True) if _repeats(column)]


def _repeats(column: pa.ChunkedArray) -> bool:
    if pa.types.is_nested(column.type) or isinstance(column.type, pa.BaseExtensionType):
        return False
    distinct = len(pc.unique(column)) - (column.null_count > 0)
    return bool(distinct <= DISTINCT_MAX * (len(column) - column.null_count))


def cast_to_schema(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """*rows* with the columns of *schema*: by name, null where they are missing, cast up where they are narrower.

    Upper and lower case of names are the same, as they are to a server.

    Raises:
        ArrowInvalid: A value does not fit into the type of its column.
    """
    if rows.schema.equals(schema):
        return rows
    places = {name.casefold(): index for index, name in enumerate(rows.schema.names)}
    found = [places.get(field.name.casefold()) for field in schema]
    arrays = [
        pa.nulls(rows.num_rows, field.type) if place is None else _cast(rows.column(place), field.type)
        for field, place in zip(schema, found, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def with_values(rows: pa.RecordBatch, values: Mapping[str, pa.Array | pa.Scalar]) -> pa.RecordBatch:
    """The same rows with other values in some of their columns, by exact name; others that *values* names are left."""
    arrays = []
    for field, column in zip(rows.schema, rows.columns, strict=True):
        value = values.get(field.name, column)
        if isinstance(value, pa.Scalar):
            value = pa.repeat(value, rows.num_rows)
        arrays.append(_cast(value, field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=rows.schema)


def cast_table(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """The same for a table."""
    if rows.schema.equals(schema):
        return rows
    return pa.Table.from_batches([cast_to_schema(batch, schema) for batch in rows.to_batches()], schema)


def cast_rows(rows: pa.RecordBatchReader, schema: pa.Schema) -> pa.RecordBatchReader:
    """The same for a stream, batch by batch."""
    return rows if rows.schema.equals(schema) else _mapped(rows, schema, lambda batch: cast_to_schema(batch, schema))


def changed_rows(rows: pa.RecordBatchReader, change: SchemaChange, schema: pa.Schema) -> pa.RecordBatchReader:
    """Apply *change* to the rows of a table, batch by batch.

    Args:
        rows: All rows, in the columns before the change.
        change: What becomes of the columns.
        schema: The columns after it, in the types that the table keeps.
    """
    fills = {name: value.cast(schema.field(name).type) for name, value in change.filled.items()}
    return _mapped(rows, schema, lambda batch: _changed(batch, change, fills, schema))


def _changed(
    batch: pa.RecordBatch, change: SchemaChange, fills: Mapping[str, pa.Scalar], schema: pa.Schema
) -> pa.RecordBatch:
    names = [change.renamed.get(name, name) for name in batch.schema.names]
    arrays = dict(zip(names, batch.columns, strict=True))
    arrays |= {name: convert(batch) for name, convert in change.converted.items()}
    arrays |= {name: pa.repeat(value, batch.num_rows) for name, value in fills.items()}
    return cast_to_schema(pa.RecordBatch.from_arrays(list(arrays.values()), names=list(arrays)), schema)


def _cast(array: pa.Array, kind: pa.DataType) -> pa.Array:
    return array if array.type.equals(kind) else array.cast(kind)


def _mapped(
    rows: pa.RecordBatchReader, schema: pa.Schema, function: Callable[[pa.RecordBatch], pa.RecordBatch]
) -> pa.RecordBatchReader:
    return pa.RecordBatchReader.from_batches(schema, (function(batch) for batch in rows))
