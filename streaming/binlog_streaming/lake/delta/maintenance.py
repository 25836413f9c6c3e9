"""Small files and old files of Delta tables: `maintain`, called behind a commit, does something only now and then.

Both jobs leave the content of the table as it is, so they need no application transaction: a kill in between costs
nothing but the work.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from deltalake import ColumnProperties, WriterProperties

from binlog_streaming.lake.delta.vector_maintenance import keep_in_shape, vacuum_vectors

if TYPE_CHECKING:
    from deltalake import DeltaTable

    from binlog_streaming.settings import Sink

# deltalake keeps the statistics of a decimal as a 64-bit float or integer: above this precision they are wrong, and
# readers (and merges) that trust them skip files that hold the row.
DECIMAL_STATISTICS_PRECISION_MAX = 15

COMPACT_EVERY = 16
"""Commits between two looks at the sizes of files."""

SMALL_FILES_MIN = 16
"""Small files that are worth to be joined; so a row is rewritten about once for every factor of 16 in size."""

VACUUM_EVERY = 128
"""Commits between two removals of replaced files."""


def maintain(table: DeltaTable, sink: Sink, *, folder: str | None = None) -> None:
    """Join small files, and remove files that were replaced longer ago than the sink keeps them.

    Args:
        table: The table.
        sink: How files are kept.
        folder: Where the table is, when its rows are marked in deletion vectors here.
    """
    version = table.version()
    # Marked rows leave files whole, so each batch adds one.
    is_time = folder is not None or version % COMPACT_EVERY == COMPACT_EVERY - 1
    if is_time and _small_files(table, sink.target_file_size) >= SMALL_FILES_MIN:
        schema = pa.schema(table.schema())
        table.optimize.compact(target_size=sink.target_file_size, writer_properties=writer_properties(schema))
    if version % VACUUM_EVERY == VACUUM_EVERY - 1:
        hours = math.ceil(sink.retention_hours)
        table.vacuum(retention_hours=hours, dry_run=False, enforce_retention_duration=False)
        if folder is not None:
            vacuum_vectors(folder, table.version(), retention_hours=hours)
            table.cleanup_metadata()
    if folder is not None:
        keep_in_shape(table, folder, file_size=sink.target_file_size)


def writer_properties(schema: pa.Schema) -> WriterProperties:
    """How files are written: compression, and no statistics where deltalake's would be wrong."""
    inexact = {
        field.name: ColumnProperties(statistics_enabled="NONE")
        for field in schema
        if pa.types.is_decimal(field.type) and field.type.precision > DECIMAL_STATISTICS_PRECISION_MAX
    }
    return WriterProperties(compression="ZSTD", compression_level=1, column_properties=inexact or None)


def _small_files(table: DeltaTable, target_size: int) -> int:
    sizes = pa.table(table.get_add_actions(flatten=True)).column("size_bytes").to_numpy()
    return int(np.count_nonzero(sizes < target_size // 4))
