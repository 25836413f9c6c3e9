"""Data files of Delta tables in a folder: `DataFiles` writes them, `key_batches` and `rows_at` read bits of them."""

from __future__ import annotations

import math
import os
import uuid
from contextlib import suppress
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from binlog_streaming.lake.conforming import conformed
from binlog_streaming.lake.delta.log import Add, milliseconds, statistics_of, statistics_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    Rows = NDArray[np.int64]

ROW_GROUP_BYTES = 32 << 20
"""Rows that are written at once, as they are in memory."""

BATCH_ROWS = 1 << 16
"""Rows that are read at once."""

KEY_ROWS = 1 << 19
"""Rows whose keys are read at once."""

STATISTICS_COLUMNS = 32
"""Columns that a file has statistics of, the first ones: as many as Delta itself takes."""

TEXT_LENGTH_MAX = 32
"""Characters that statistics have of a text; of a longer one they give no greatest value."""

DECIMAL_DIGITS_MAX = 15
"""What a 64-bit float holds exactly: readers take a decimal in statistics for one."""

_EPOCH_DAY = date(1970, 1, 1).toordinal()


class DataFiles:
    """New files of a table, one after the other, each until it has its size.

    Attributes:
        paths: What `abandon` removes; who writes other files for the same commit may add them.

    Args:
        folder: The table.
        schema: Its columns.
        file_size: In bytes.
        data_change: Whether the files bring other rows than the table had.
    """

    def __init__(self, folder: str, schema: pa.Schema, *, file_size: int, data_change: bool = True) -> None:
        self.paths: list[Path] = []
        self._folder = folder
        self._path = Path(folder)  # of the file that is being written
        self._written: list[Add] = []
        self._schema = schema
        self._file_size = file_size
        self._group_bytes = min(ROW_GROUP_BYTES, max(1, file_size // 2))
        self._data_change = data_change
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_bytes = 0
        self._writer: pq.ParquetWriter | None = None

    def write(self, rows: pa.Table) -> None:
        """Add rows, with the table's columns."""
        for batch in rows.to_batches():
            # A batch may be larger than all that is wanted.
            step = max(1, batch.num_rows * self._group_bytes // (4 * max(batch.nbytes, 1)))
            for start in range(0, batch.num_rows, step):
                self._take(batch.slice(start, step))

    def close(self) -> list[Add]:
        """End the last file; what there is to say of all of them."""
        self._flush()
        self._end()
        return self._written

    def abandon(self) -> None:
        """Remove what was written."""
        if self._writer is not None:
            with suppress(OSError, pa.ArrowException):
                self._writer.close()
        for path in self.paths:
            with suppress(OSError):
                path.unlink()

    def _take(self, piece: pa.RecordBatch) -> None:
        self._waiting.append(piece)
        self._waiting_bytes += piece.nbytes
        if self._waiting_bytes >= self._group_bytes:
            self._flush()
            if self._path.stat().st_size >= self._file_size:
                self._end()

    def _flush(self) -> None:
        if not self._waiting:
            return
        if self._writer is None:
            # Compressed like deltalake's, and with the columns' types as other writers have them.
            self._path = Path(self._folder, f"part-00000-{uuid.uuid4()}-c000.zstd.parquet")
            self.paths.append(self._path)
            self._writer = pq.ParquetWriter(
                self._path,
                self._schema,
                compression="zstd",
                compression_level=1,
                store_decimal_as_integer=True,
                store_schema=False,
            )
        rows = pa.Table.from_batches(self._waiting, self._schema)
        self._writer.write_table(rows, row_group_size=max(1, rows.num_rows))
        self._waiting, self._waiting_bytes = [], 0

    def _end(self) -> None:
        if self._writer is None:
            return
        self._writer.close()
        self._writer = None
        path = self._path
        with path.open("rb") as file:
            os.fsync(file.fileno())
        add = Add(
            path=path.name,
            partition_values={},
            size=path.stat().st_size,
            modification_time=milliseconds(),
            data_change=self._data_change,
            stats=statistics_text(file_statistics(pq.read_metadata(path), self._schema)),
        )
        self._written.append(add)


def key_batches(folder: str, add: Add, schema: pa.Schema) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Some columns of a file.

    Args:
        folder: The table.
        add: The file.
        schema: The columns, in the types that the table has; one that the file lacks is null.

    Yields:
        The number of a batch's first row, and the batch.
    """
    with _opened(folder, add) as file:
        there = [name for name in schema.names if name in file.schema_arrow.names]
        first = 0
        # Without any of them no row has a value.
        for batch in file.iter_batches(KEY_ROWS, columns=there) if there else ():
            yield first, conformed(batch, schema)
            first += batch.num_rows


def rows_at(folder: str, add: Add, rows: Rows, schema: pa.Schema) -> Iterator[tuple[Rows, pa.RecordBatch]]:
    """Some rows of a file.

    Args:
        folder: The table.
        add: The file.
        rows: Numbers of the rows, ascending.
        schema: Columns that are wanted, in the types that the table has; one that the file lacks is null.

    Yields:
        Places in *rows*, ascending, and the rows there.
    """
    with _opened(folder, add) as file:
        there = [name for name in schema.names if name in file.schema_arrow.names]
        counts = [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]
        first = 0
        for group, count in enumerate(counts):
            if np.searchsorted(rows, first) < np.searchsorted(rows, first + count):
                for start, batch in _group_batches(file, group, there):
                    low, high = np.searchsorted(rows, [first + start, first + start + batch.num_rows])
                    if low < high:
                        wanted = batch.take(pa.array(rows[low:high] - first - start))
                        yield np.arange(low, high), conformed(wanted, schema)
            first += count


def row_count(folder: str, add: Add) -> int:
    """Rows of a file, those that its deletion vector takes out included."""
    with _opened(folder, add) as file:
        return int(file.metadata.num_rows)


def recorded_count(folder: str, add: Add) -> int:
    """The same as the log says; the file is looked at only where it does not."""
    count = statistics_of(add).get("numRecords")
    return count if isinstance(count, int) else row_count(folder, add)


def file_statistics(metadata: pq.FileMetaData, schema: pa.Schema) -> dict[str, object]:
    """Least and greatest values and counts of nulls, as Delta has them, from those of Parquet."""
    least: dict[str, object] = {}
    greatest: dict[str, object] = {}
    nulls: dict[str, int] = {}
    leaf = 0
    for field in list(schema)[:STATISTICS_COLUMNS]:
        parts = [metadata.row_group(group).column(leaf).statistics for group in range(metadata.num_row_groups)]
        leaf += _leaves(field.type)
        if pa.types.is_nested(field.type) or any(part is None or not part.has_null_count for part in parts):
            continue
        nulls[field.name] = sum(part.null_count for part in parts)
        ranges = [part for part in parts if part.has_min_max]
        # A part without values has no range, and one with values too long for statistics has none either.
        if not ranges or any(part.num_values for part in parts if not part.has_min_max):
            continue
        low = _bound(min(part.min_raw for part in ranges), field.type, is_greatest=False)
        high = _bound(max(part.max_raw for part in ranges), field.type, is_greatest=True)
        least |= {} if low is None else {field.name: low}
        greatest |= {} if high is None else {field.name: high}
    return {"numRecords": metadata.num_rows, "minValues": least, "maxValues": greatest, "nullCount": nulls}


def _bound(raw: object, kind: pa.DataType, *, is_greatest: bool) -> object | None:
    # *raw*: as Parquet keeps it. None: Delta's statistics would be wrong, or not understood by all.
    if isinstance(raw, int):
        if pa.types.is_integer(kind):
            return raw
        if pa.types.is_decimal(kind):
            return raw / 10**kind.scale if kind.precision <= DECIMAL_DIGITS_MAX else None
        if pa.types.is_date(kind):
            return date.fromordinal(raw + _EPOCH_DAY).isoformat()
        if pa.types.is_timestamp(kind):
            return _moment(raw, is_utc=kind.tz is not None, is_greatest=is_greatest)
    if isinstance(raw, float):
        return raw if math.isfinite(raw) else None
    if isinstance(raw, bytes) and (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        text = raw.decode()
        return None if is_greatest and len(text) > TEXT_LENGTH_MAX else text[:TEXT_LENGTH_MAX]
    return None


_MOMENT_MAX = np.datetime64("9999-12-31T23:59:59.999", "ms").astype(np.int64)


def _moment(microseconds: int, *, is_utc: bool, is_greatest: bool) -> str | None:
    # Readers take milliseconds; a range may be wider than its values.
    whole = -(-microseconds // 1000) if is_greatest else microseconds // 1000
    if whole > _MOMENT_MAX:
        return None
    return f"{np.datetime64(whole, 'ms')}{'Z' if is_utc else ''}"


def _leaves(kind: pa.DataType) -> int:
    # Columns of Parquet that a column is.
    if pa.types.is_struct(kind):
        return sum(_leaves(field.type) for field in kind)
    return _leaves(kind.value_type) if pa.types.is_list(kind) or pa.types.is_large_list(kind) else 1


def _opened(folder: str, add: Add) -> pq.ParquetFile:
    # Spark may keep times in 96 bits; in nanoseconds most years would not be there.
    return pq.ParquetFile(Path(folder, add.place), coerce_int96_timestamp_unit="us", pre_buffer=False)


def _group_batches(file: pq.ParquetFile, group: int, names: Sequence[str]) -> Iterator[tuple[int, pa.RecordBatch]]:
    start = 0
    for batch in file.iter_batches(BATCH_ROWS, row_groups=[group], columns=list(names)):
        yield start, batch
        start += batch.num_rows
