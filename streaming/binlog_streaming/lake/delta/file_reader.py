"""Data files of a Delta table, read: `DeltaFileReader`."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from binlog_format.errors import TableError
from binlog_format.rows.json.variant_shreds import ShredError, is_shredded, whole_of
from binlog_format.rows.json.variants import is_variant
from binlog_streaming.lake.delta.actions import Add, partition_value, statistics_of
from binlog_streaming.lake.delta.mapping import SAME_NAMES, FileColumns
from binlog_streaming.lake.delta.vectors import read_vector
from binlog_streaming.lake.evolution import cast_to_schema, with_values
from binlog_streaming.lake.file_reader import FileReader

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from binlog_format.kernels import Indices
    from binlog_streaming.lake.store import Store


@dataclass(frozen=True, slots=True)
class DeltaFileReader(FileReader[Add]):
    """See `FileReader`. *columns*: names that columns have in files."""

    store: Store
    columns: FileColumns = SAME_NAMES

    @contextmanager
    def opened(self, file: Add) -> Iterator[pq.ParquetFile]:
        """See `FileReader`."""
        # Spark may keep times in 96 bits; in nanoseconds most years would not be there.
        with self.store.opened(file.place) as opened:
            yield pq.ParquetFile(opened, coerce_int96_timestamp_unit="us", pre_buffer=False)

    def read_columns(self, file: Add, there: pa.Schema, wanted: pa.Schema) -> DeltaReadColumns:
        """See `FileReader`."""
        names = self.columns.names_in(there, wanted)
        if names is None:
            raise TableError(
                "TABLE_FEATURE",
                f"{self.store.uri}/{file.place}: the table has columnMapping by id, and no column of this file has an "
                "id",
                hint="Let the program that wrote the file write it anew with ids, or name another target and let this "
                "job build the table anew from the log",
            )
        return DeltaReadColumns(file, self.columns, wanted, names or there.names[:1], bool(names))

    def marked(self, file: Add) -> Indices:
        """See `FileReader`."""
        return read_vector(self.store, file.deletion_vector)

    def row_count(self, file: Add) -> int:
        """See `FileReader`; the file is read where the log does not tell."""
        count = statistics_of(file).get("numRecords")
        if isinstance(count, int):
            return count
        with self.opened(file) as opened:
            return int(opened.metadata.num_rows)

    def first_id(self, file: Add) -> tuple[int, int | None] | None:
        """See `FileReader`."""
        return None if file.base_row_id is None else (file.base_row_id, file.default_row_commit_version)


@dataclass(frozen=True, slots=True)
class DeltaReadColumns:
    """See `ReadColumns`."""

    _file: Add
    _columns: FileColumns
    _wanted: pa.Schema
    names: Sequence[str]
    are_there: bool

    def of(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """See `ReadColumns`; a file does not have the columns by which the table is partitioned."""
        rows = cast_to_schema(self._unshredded(self._columns.from_file(batch)), self._wanted)
        values = {
            field.name: partition_value(self._file.partition_values[name], field.type)
            for field in self._wanted
            if (name := self._columns.name(field.name)) in self._file.partition_values
        }
        return with_values(rows, values) if values else rows

    def _unshredded(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        # Other writers may give parts of variants columns of their own.
        variants = {field.name for field in self._wanted if is_variant(field.type)}
        for number, column in enumerate(rows.columns):
            name = rows.schema.names[number]
            if name not in variants or not is_shredded(column.type):
                continue
            try:
                rows = rows.set_column(number, name, whole_of(column))
            except ShredError as error:
                raise TableError(
                    "TABLE_FEATURE",
                    f"{self._file.place}: column {name}: a shredded variant cannot be put together: {error}",
                    hint="Let the program that wrote the file write it anew, or name another target",
                ) from error
        return rows
