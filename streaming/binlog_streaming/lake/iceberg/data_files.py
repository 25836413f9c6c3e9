"""Data files of Iceberg tables: `IcebergFileReader` reads them, `IcebergDataFiles` writes them.

Rows of version 3 have ids, by their file and their place in it, and keep them in files of rows that are copied or
updated, as columns (specification of Iceberg, "Row Lineage").
"""

from __future__ import annotations

import uuid
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import compute_statistics_plan, parquet_path_to_id_mapping, schema_to_pyarrow
from pyiceberg.manifest import DataFileContent, FileFormat
from pyiceberg.schema import Schema
from pyiceberg.table import TableProperties
from pyiceberg.table.locations import load_location_provider

from binlog_streaming.lake.evolution import check_values, dictionary_columns
from binlog_streaming.lake.file_reader import FileReader
from binlog_streaming.lake.files_target import SizedFiles
from binlog_streaming.lake.iceberg.manifests import FIRST_ROW_ID, new_file
from binlog_streaming.lake.iceberg.partitions import file_facts, partitioned
from binlog_streaming.lake.iceberg.schema import IDENTITY_FIELDS, IcebergReadColumns, file_schema, opened_file
from binlog_streaming.lake.iceberg.table_files import LiveFile, marked_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from contextlib import AbstractContextManager

    from pyiceberg.io import FileIO
    from pyiceberg.manifest import DataFile
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.typedef import Record

    from binlog_format.kernels import Indices

IDENTITY_FROM = 3
"""The format version from which on rows have ids."""

BATCH_BYTES_MAX = 1 << 30
"""Plain strings of Arrow hold 2 GiB in one array; those of pyiceberg any number."""


@dataclass(frozen=True, slots=True)
class IcebergFileReader(FileReader[LiveFile]):
    """See `FileReader`; the columns are those that the table has now."""

    metadata: TableMetadata
    io: FileIO

    def opened(self, file: LiveFile) -> AbstractContextManager[pq.ParquetFile]:
        """See `FileReader`."""
        return opened_file(self.io, file.file)

    def read_columns(self, file: LiveFile, there: pa.Schema, wanted: pa.Schema) -> IcebergReadColumns:
        """See `FileReader`."""
        return IcebergReadColumns(self.metadata, file.file, there, wanted)

    def marked(self, file: LiveFile) -> Indices:
        """See `FileReader`; delete files name them."""
        return marked_rows(self.metadata, self.io, file)

    def row_count(self, file: LiveFile) -> int:
        """See `FileReader`."""
        return file.file.record_count

    def first_id(self, file: LiveFile) -> tuple[int, int | None] | None:
        """See `FileReader`; None: the file is not in the table yet, or is older than the version of the table."""
        first: int | None = file.file[FIRST_ROW_ID]
        return None if first is None else (first, file.sequence_number)

    def live_rows(
        self, file: LiveFile, schema: pa.Schema, gone: Indices | None = None, *, identified: bool = False
    ) -> Iterator[pa.RecordBatch]:
        """See `FileReader`."""
        for batch in FileReader.live_rows(self, file, schema, gone, identified=identified):
            yield from _parts(batch)


class IcebergDataFiles:
    """New files of a table, one after the other, each until it has its size; for each partition its own ones.

    Args:
        metadata: The table, with the columns that it has when they are in it.
        file_size: In bytes.
        keeps_identity: Whether the columns of `IDENTITY` follow those of the table in rows.
    """

    def __init__(self, metadata: TableMetadata, io: FileIO, *, file_size: int, keeps_identity: bool = False) -> None:
        self.row_count = 0
        self.metadata = metadata
        self.io = io
        self.file_size = file_size
        self.locations = load_location_provider(metadata.location, metadata.properties)
        own = file_schema(metadata.schema())
        self.file_schema = Schema(*own.fields, *IDENTITY_FIELDS) if keeps_identity else own
        self.arrow_schema = schema_to_pyarrow(self.file_schema, include_field_ids=True)
        self._required = {field.name: "NOT NULL" for field in metadata.schema().fields if field.required}
        self._partitions: dict[str, _PartitionFiles] = {}

    def write(self, rows: pa.Table) -> None:
        """Add rows, with the table's columns."""
        if not rows.num_rows:
            return
        check_values(self.metadata.location, rows, self._required)
        self.row_count += rows.num_rows
        typed = rows.rename_columns(self.arrow_schema.names).cast(self.arrow_schema)
        for partition, own in partitioned(self.metadata, rows, typed):
            key = repr(partition)
            if key not in self._partitions:
                self._partitions[key] = _PartitionFiles(self, partition)
            self._partitions[key].write(own)

    @property
    def is_begun(self) -> bool:
        """True if there are any rows."""
        return bool(self._partitions)

    def close(self) -> list[DataFile]:
        """End the last files; facts of all of them."""
        return [file for partition in self._partitions.values() for file in partition.close()]

    def abandon(self) -> None:
        """Remove what was written."""
        for partition in self._partitions.values():
            partition.abandon()


class _PartitionFiles(SizedFiles["DataFile"]):
    def __init__(self, files: IcebergDataFiles, partition: Record) -> None:
        super().__init__(files.file_size)
        self._files = files
        self._partition = partition
        self._paths: list[str] = []

    def abandon(self) -> None:
        if self._writer is not None:
            self.close_writer()
            with suppress(OSError, pa.ArrowException):
                self._stream.close()
        remove_files(self._files.io, self._paths)

    def _in_file(self, rows: pa.Table) -> pa.Table:
        return rows.combine_chunks()

    def _begin(self, rows: pa.Table) -> pq.ParquetWriter:
        files, properties = self._files, self._files.metadata.properties
        path = files.locations.new_data_location(f"00000-{len(self._paths)}-{uuid.uuid4()}.parquet")
        self._paths.append(path)
        self._stream = files.io.new_output(path).create(overwrite=True)
        return pq.ParquetWriter(
            self._stream,
            files.arrow_schema,
            use_dictionary=dictionary_columns(rows),
            compression=properties.get(TableProperties.PARQUET_COMPRESSION, "zstd"),
            compression_level=int(properties.get(TableProperties.PARQUET_COMPRESSION_LEVEL, 1)),
            store_decimal_as_integer=True,
            store_schema=False,
        )

    def _size(self) -> int:
        return self._stream.tell()

    def _end(self, writer: pq.ParquetWriter) -> DataFile:
        size = self._stream.tell()
        self._stream.close()
        facts = file_facts(
            writer.writer.metadata,
            compute_statistics_plan(self._files.file_schema, self._files.metadata.properties),
            parquet_path_to_id_mapping(self._files.file_schema),
        )
        return new_file(
            self._files.metadata.default_spec_id,
            content=DataFileContent.DATA,
            file_path=self._paths[-1],
            file_format=FileFormat.PARQUET,
            partition=self._partition,
            file_size_in_bytes=size,
            sort_order_id=None,  # whatever order the table asks for: the rows are in none
            **facts,
        )


def remove_files(io: FileIO, paths: Iterable[str]) -> None:
    """Remove files that no snapshot names."""
    for path in paths:
        with suppress(OSError):
            io.delete(path)


def _parts(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    if batch.nbytes <= BATCH_BYTES_MAX or batch.num_rows < 2:
        yield batch
        return
    middle = batch.num_rows // 2
    yield from _parts(batch.slice(0, middle))
    yield from _parts(batch.slice(middle))
