"""Data files of Delta tables: `DeltaDataFiles` writes them, `key_batches`, `rows_at` and `live_rows` read of them."""

from __future__ import annotations

import itertools
import uuid
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from binlog_format.errors import TableError
from binlog_format.rows.json.variant_shreds import ShredError, is_shredded, whole_of
from binlog_format.rows.json.variants import is_variant
from binlog_streaming.lake.delta.actions import (
    Add,
    file_statistics,
    milliseconds,
    partition_folder,
    partition_texts,
    partition_value,
    statistics_of,
    statistics_text,
)
from binlog_streaming.lake.delta.features import clustering_columns, required_columns
from binlog_streaming.lake.delta.generated import GeneratedColumn, generated_columns
from binlog_streaming.lake.delta.iceberg_compat import iceberg_versions
from binlog_streaming.lake.delta.mapping import FileColumns, file_columns
from binlog_streaming.lake.delta.row_checks import RowCheck, row_checks
from binlog_streaming.lake.delta.vectors import read_vector
from binlog_streaming.lake.evolution import (
    IDENTITY,
    NO_ID,
    cast_to_schema,
    check_values,
    dictionary_columns,
    has_identity,
    whole_variants,
    with_identity,
    with_values,
)
from binlog_streaming.lake.key_lookup import complement
from binlog_streaming.lake.row_values import row_ids
from binlog_streaming.lake.sized_files import SizedFiles, batches_at

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from binlog_format.kernels import Indices
    from binlog_streaming.lake.delta.actions import Metadata
    from binlog_streaming.lake.delta.log import TableLog
    from binlog_streaming.lake.storage.store import NewFile, Store

KEY_ROWS = 1 << 19
"""Rows whose keys are read at once."""

SAME_NAMES = FileColumns()
"""Files have the table's own names."""


@dataclass(frozen=True, slots=True)
class FileLayout:
    """Requirements of a table on its files, and on rows that come into them.

    Attributes:
        materialized: Files have these columns, too, behind all others; else they do not have them.
        columns: Names of columns in files.
        required: See `required_columns`.
        measured: Columns, as files call them, of which statistics are needed wherever they are.
        generated: Columns whose values are made of others, which rows have then.
    """

    partitions: tuple[str, ...] = ()
    materialized: bool = False
    columns: FileColumns = SAME_NAMES
    required: Mapping[str, str] = field(default_factory=dict)
    measured: frozenset[str] = frozenset()
    generated: tuple[GeneratedColumn, ...] = ()
    checks: tuple[RowCheck, ...] = ()


PLAIN_FILES = FileLayout()


def file_layout(log: TableLog, metadata: Metadata) -> FileLayout:
    """Layout of new files of a table. *metadata*: of the table after the commit."""
    measured = frozenset(path[0] for path in clustering_columns(log))
    (made, _), (checks, _) = generated_columns(metadata), row_checks(metadata)
    columns, required = file_columns(metadata), required_columns(metadata)
    materialized = bool(iceberg_versions(metadata))
    return FileLayout(metadata.partition_columns, materialized, columns, required, measured, tuple(made), tuple(checks))


class DeltaDataFiles:
    """New files of a table, one after the other, each until it has its size; for each partition its own ones.

    Rows with the columns of `IDENTITY` go to files that have these, others to files without them.

    Attributes:
        names: Files that `abandon` removes; who writes other files for the same commit may add them.

    Args:
        file_size: In bytes.
        data_change: Whether the files bring other rows than the table had.
    """

    def __init__(
        self,
        store: Store,
        schema: pa.Schema,
        layout: FileLayout = PLAIN_FILES,
        *,
        file_size: int,
        data_change: bool = True,
        folder: str = "",
    ) -> None:
        self.names: list[str] = []
        self.row_count = 0
        self._store = store
        self._layout = layout
        self._partitions = list(layout.partitions)
        self._own_schema = pa.schema([field for field in schema if field.name not in layout.partitions])
        last = [schema.field(name) for name in layout.partitions if layout.materialized]
        self._schema = pa.schema([*self._own_schema, *last])
        self._file_size = file_size
        self._data_change = data_change
        self._folder = folder
        self._parts: dict[tuple[bool, tuple[str | None, ...]], _PartitionFiles] = {}

    def write(self, rows: pa.Table) -> None:
        """Add rows, with the table's columns.

        Raises:
            TableError: `TABLE_FEATURE`: the table does not take one; `PARTITION_VALUE`: one has no partition.
        """
        for column in self._layout.generated:
            rows = column.put(self._store.uri, rows)
        check_values(self._store.uri, rows, self._layout.required)
        for check in self._layout.checks:
            check.see(self._store.uri, rows)
        rows = whole_variants(rows)
        self.row_count += rows.num_rows
        schema = with_identity(self._schema, rows.schema)
        if not self._partitions:
            self._part((), schema).write(rows)
            return
        ids, count = row_ids(rows.select(self._partitions))
        order = np.argsort(ids, kind="stable")
        starts = np.searchsorted(ids[order], np.arange(count + 1))
        for low, high in itertools.pairwise(starts):
            own = rows.take(pa.array(order[low:high]))
            self._part(partition_texts(own, self._partitions), schema).write(own.select(schema.names))

    def close(self) -> list[Add]:
        """End the last files; facts of all of them."""
        return [add for part in self._parts.values() for add in part.close()]

    def abandon(self) -> None:
        """Remove what was written."""
        for part in self._parts.values():
            part.abandon()
        for name in self.names:
            self._store.remove(name)

    def _part(self, values: tuple[str | None, ...], schema: pa.Schema) -> _PartitionFiles:
        key = has_identity(schema), values
        if key not in self._parts:
            named = dict(zip(map(self._layout.columns.name, self._partitions), values, strict=True))
            self._parts[key] = _PartitionFiles(self, named, schema)
        return self._parts[key]


class _PartitionFiles(SizedFiles[Add]):
    def __init__(self, files: DeltaDataFiles, values: Mapping[str, str | None], schema: pa.Schema) -> None:
        super().__init__(files._file_size)
        self._files = files
        self._values = dict(values)
        self._schema = files._layout.columns.schema(schema)
        # Columns of the table, which come first: of others there are no statistics, nor of partitions.
        self._own_schema = files._layout.columns.schema(files._own_schema)

    def abandon(self) -> None:
        if self._writer is not None:
            self.close_writer()
            self._file.abandon()

    def _in_file(self, rows: pa.Table) -> pa.Table:
        return self._files._layout.columns.to_file(rows)

    def _begin(self, rows: pa.Table) -> pq.ParquetWriter:
        folders = filter(None, (self._files._folder, partition_folder(self._values)))
        self._name = "/".join([*folders, f"part-00000-{uuid.uuid4()}-c000.zstd.parquet"])
        self._files.names.append(self._name)
        self._file: NewFile = self._files._store.new_file(self._name)
        self._footers: list[pq.FileMetaData] = []
        # Compressed like deltalake's, and with the columns' types as other writers have them.
        return pq.ParquetWriter(
            self._file.sink,
            self._schema,
            use_dictionary=dictionary_columns(rows),
            compression="zstd",
            compression_level=1,
            store_decimal_as_integer=True,
            store_schema=False,
            metadata_collector=self._footers,
        )

    def _size(self) -> int:
        return int(self._file.sink.tell())

    def _end(self, writer: pq.ParquetWriter) -> Add:
        del writer  # its footer has been collected
        return Add(
            path=quote(self._name, safe="/="),
            partition_values=self._values,
            size=self._file.finish(),
            modification_time=milliseconds(),
            data_change=self._files._data_change,
            stats=statistics_text(file_statistics(self._footers[0], self._own_schema, self._files._layout.measured)),
        )


def key_batches(
    store: Store, add: Add, schema: pa.Schema, columns: FileColumns = SAME_NAMES
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Read some columns of a file.

    Args:
        schema: The columns, in the types that the table has; one that the file lacks is null.

    Yields:
        The number of a batch's first row, and the batch.
    """
    with _opened(store, add) as file:
        there = _names_there(store, add, file, schema, columns)
        if not there and not add.partition_values:
            return  # no row has a value
        first = 0
        for batch in file.iter_batches(KEY_ROWS, columns=there or file.schema_arrow.names[:1]):
            yield first, _shaped(batch, add, schema, columns)
            first += batch.num_rows


def rows_at(
    store: Store, add: Add, rows: Indices, schema: pa.Schema, columns: FileColumns = SAME_NAMES
) -> Iterator[tuple[Indices, pa.RecordBatch]]:
    """Read some rows of a file.

    Args:
        rows: Numbers of the rows, ascending.
        schema: Columns that are wanted, in the types that the table has; one that the file lacks is null.

    Yields:
        Places in *rows*, ascending, and the rows there.
    """
    with _opened(store, add) as file:
        there = _names_there(store, add, file, schema, columns) or file.schema_arrow.names[:1]
        for places, batch in batches_at(file, rows, there):
            yield places, _shaped(batch, add, schema, columns)


def live_rows(
    store: Store,
    add: Add,
    schema: pa.Schema,
    gone: Indices | None = None,
    columns: FileColumns = SAME_NAMES,
    *,
    identified: bool = False,
) -> Iterator[pa.RecordBatch]:
    """Rows of a file in their order.

    Args:
        schema: As in `rows_at`.
        gone: Numbers of all rows that are not in the table; None: those of its deletion vector.
        identified: The columns of `IDENTITY` follow those of *schema*, of a table that keeps ids of rows. They are null
            where the next commit gives the file its ids.
    """
    gone = read_vector(store, add.deletion_vector) if gone is None else gone
    left = complement(recorded_count(store, add), gone)
    wanted = with_identity(schema) if identified else schema
    for places, batch in rows_at(store, add, left, wanted, columns):
        if identified and add.base_row_id is not None:
            *values, ids, versions = batch.columns
            ids = pc.coalesce(ids, pa.array(add.base_row_id + left[places]))
            versions = pc.coalesce(versions, pa.scalar(add.default_row_commit_version, pa.int64()))
            yield pa.RecordBatch.from_arrays([*values, ids, versions], schema=wanted)
        else:
            yield batch


def row_ids_of(store: Store, add: Add, rows: Indices, columns: FileColumns) -> Indices:
    """Ids of rows of a file, of a table that keeps them.

    Args:
        rows: Numbers of the rows, ascending.

    Returns:
        `NO_ID`: the file gets its ids from the next commit.
    """
    ids = np.full(len(rows), NO_ID, np.int64) if add.base_row_id is None else add.base_row_id + rows
    schema = pa.schema([IDENTITY.field(0)])
    with _opened(store, add) as file:
        there = _names_there(store, add, file, schema, columns)
        for places, batch in batches_at(file, rows, there) if there else ():
            ids[places] = pc.coalesce(batch.column(0), pa.array(ids[places])).to_numpy()
    return ids


def recorded_count(store: Store, add: Add) -> int:
    """Rows of a file, those that its deletion vector takes out included; it is read where the log does not tell."""
    count = statistics_of(add).get("numRecords")
    if isinstance(count, int):
        return count
    with _opened(store, add) as file:
        return int(file.metadata.num_rows)


def _names_there(store: Store, add: Add, file: pq.ParquetFile, schema: pa.Schema, columns: FileColumns) -> list[str]:
    # Those of the columns that a file has, as they are called there.
    names = columns.names_in(file.schema_arrow, schema)
    if names is None:
        raise TableError(
            "TABLE_FEATURE",
            f"{store.uri}/{add.place}: the table has columnMapping by id, and no column of this file has an id",
            hint="Let the program that wrote the file write it anew with ids, or name another target and let this job "
            "build the table anew from the log",
        )
    return names


def _shaped(batch: pa.RecordBatch, add: Add, schema: pa.Schema, columns: FileColumns) -> pa.RecordBatch:
    # A file does not have the columns by which the table is partitioned.
    rows = cast_to_schema(_unshredded(columns.from_file(batch), add, schema), schema)
    if not add.partition_values:
        return rows
    values = {
        field.name: partition_value(add.partition_values[columns.name(field.name)], field.type)
        for field in schema
        if columns.name(field.name) in add.partition_values
    }
    return with_values(rows, values) if values else rows


def _unshredded(rows: pa.RecordBatch, add: Add, schema: pa.Schema) -> pa.RecordBatch:
    # Other writers may give parts of variants columns of their own.
    variants = {field.name for field in schema if is_variant(field.type)}
    for number, column in enumerate(rows.columns):
        name = rows.schema.names[number]
        if name not in variants or not is_shredded(column.type):
            continue
        try:
            rows = rows.set_column(number, name, whole_of(column))
        except ShredError as error:
            raise TableError(
                "TABLE_FEATURE",
                f"{add.place}: column {name}: a shredded variant cannot be put together: {error}",
                hint="Let the program that wrote the file write it anew, or name another target",
            ) from error
    return rows


@contextmanager
def _opened(store: Store, add: Add) -> Iterator[pq.ParquetFile]:
    # Spark may keep times in 96 bits; in nanoseconds most years would not be there.
    with store.opened(add.place) as opened:
        yield pq.ParquetFile(opened, coerce_int96_timestamp_unit="us", pre_buffer=False)
