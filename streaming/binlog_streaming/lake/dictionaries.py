"""Choice of a Parquet file's columns that get a dictionary: `dictionary_columns`."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

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
