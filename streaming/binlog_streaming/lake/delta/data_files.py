"""New data files of Delta tables: `DeltaDataFiles` writes them, as `FileLayout` asks."""

from __future__ import annotations

import itertools
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from binlog_streaming.lake.delta.actions import (
    Add,
    file_statistics,
    milliseconds,
    partition_folder,
    partition_texts,
    statistics_text,
)
from binlog_streaming.lake.delta.features import clustering_columns, required_columns
from binlog_streaming.lake.delta.generated import GeneratedColumn, generated_columns
from binlog_streaming.lake.delta.iceberg_compat import iceberg_versions
from binlog_streaming.lake.delta.mapping import SAME_NAMES, FileColumns, file_columns
from binlog_streaming.lake.delta.row_checks import RowCheck, row_checks
from binlog_streaming.lake.evolution import (
    check_values,
    dictionary_columns,
    has_identity,
    whole_variants,
    with_identity,
)
from binlog_streaming.lake.files_target import SizedFiles
from binlog_streaming.lake.row_values import row_ids

if TYPE_CHECKING:
    from collections.abc import Mapping

    from binlog_streaming.lake.delta.actions import Domain, Metadata
    from binlog_streaming.lake.store import NewFile, Store


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


def file_layout(metadata: Metadata, domains: Mapping[str, Domain]) -> FileLayout:
    """Layout of new files of a table, by what it is after the commit."""
    measured = frozenset(path[0] for path in clustering_columns(domains))
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
        """Add rows, with the table's columns."""
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
