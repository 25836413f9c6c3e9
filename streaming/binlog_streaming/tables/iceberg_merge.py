"""Mode `mirror` into Iceberg: `rewrite` finds the files that hold changed keys, and what is to stand in their place.

Only the key columns of files whose statistics admit a changed key are read; a file that holds none stays as it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyiceberg.conversions import from_bytes
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io.pyarrow import ArrowScan, schema_to_pyarrow
from pyiceberg.types import PrimitiveType

from binlog_streaming.tables.key_ranges import key_cover, meeting

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import FileScanTask, Table

    from binlog_streaming.tables.mirror import Reduced

    Mask = NDArray[np.bool_]

SMALL_FILES_MIN = 16
"""Small files that are worth to be joined; so a row is rewritten about once for every factor of 16 in size."""


def rewrite(
    table: Table, change: Reduced, keys: Sequence[str], *, file_size: int
) -> tuple[list[DataFile], pa.RecordBatchReader]:
    """What *change* makes of the table.

    Args:
        table: The table.
        change: What the batch leaves.
        keys: Key columns.
        file_size: Files far below it are joined, when there are many.

    Returns:
        Files to be replaced, and the rows to be added: those of these files that stay, then those of *change*. The
        rows are read while they are taken, a file at a time.
    """
    schema = write_schema(table)
    wanted = pa.concat_tables([change.rows.select(keys), change.deleted.select(keys)])
    wanted = wanted.cast(pa.schema([schema.field(key) for key in keys]))
    tasks = list(table.scan().plan_files())
    admits = _admitting(table, tasks, wanted)
    stays: list[tuple[FileScanTask, Mask | None]] = []
    untouched: list[FileScanTask] = []
    for task, may_hold in zip(tasks, admits, strict=True):
        hit = _hits(_read(table, task, tuple(keys)), wanted) if may_hold else None
        if hit is None:
            untouched.append(task)
        else:
            stays.append((task, ~hit))
    small = [task for task in untouched if task.file.file_size_in_bytes < file_size // 4]
    if len(small) >= SMALL_FILES_MIN:
        stays += [(task, None) for task in small]

    def rows() -> Iterator[pa.RecordBatch]:
        for task, mask in stays:
            if mask is None or mask.any():
                content = _read(table, task)
                content = content if mask is None else content.filter(pa.array(mask))
                yield from content.cast(schema).to_batches()
        yield from change.rows.select(schema.names).cast(schema).to_batches()

    return [task.file for task, _ in stays], pa.RecordBatchReader.from_batches(schema, rows())


def write_schema(table: Table) -> pa.Schema:
    """The columns as files of the table hold them."""
    return schema_to_pyarrow(table.schema(), include_field_ids=False)


def _read(table: Table, task: FileScanTask, columns: tuple[str, ...] | None = None) -> pa.Table:
    schema = table.schema() if columns is None else table.schema().select(*columns)
    scan = ArrowScan(table.metadata, table.io, schema, AlwaysTrue())
    content = scan.to_table([task])
    return content if columns is None else content.select(columns)


def _admitting(table: Table, tasks: Sequence[FileScanTask], wanted: pa.Table) -> Mask:
    # Which files may hold a wanted key, as far as their statistics say.
    admits = np.full(len(tasks), wanted.num_rows > 0)
    for key in wanted.column_names:
        ranges = key_cover(wanted.column(key))
        if ranges is None:
            continue
        field = table.schema().find_field(key)
        assert isinstance(field.field_type, PrimitiveType)
        for number, task in enumerate(tasks):
            least = (task.file.lower_bounds or {}).get(field.field_id)
            greatest = (task.file.upper_bounds or {}).get(field.field_id)
            if least is not None and greatest is not None:
                edges = [np.array([from_bytes(field.field_type, edge)], np.int64) for edge in (least, greatest)]
                admits[number] &= bool(meeting(ranges, edges[0], edges[1])[0])
    return admits


def _hits(there: pa.Table, wanted: pa.Table) -> Mask | None:
    # Which rows of *there* have one of the *wanted* keys; None where none has.
    there = there.cast(wanted.schema)
    if wanted.num_columns == 1 and pa.types.is_integer(wanted.schema.types[0]):
        hit = np.isin(there.column(0).to_numpy(), wanted.column(0).to_numpy())
        return hit if hit.any() else None
    names = [f"k{number}" for number in range(wanted.num_columns)]
    rows = pa.array(np.arange(there.num_rows))
    numbered = there.rename_columns(names).append_column("row", rows)
    found = numbered.join(wanted.rename_columns(names), names, join_type="left semi").column("row").to_numpy()
    if len(found) == 0:
        return None
    hit = np.zeros(there.num_rows, np.bool_)
    hit[found] = True
    return hit
