"""Data files of Iceberg tables: `key_batches`, `rows_at` and `live_rows` read of them, `IcebergDataFiles` writes them.

Columns are found by their numbers, so a file from before a column was renamed or widened is read rightly. Rows of
version 3 have ids, by their file and their place in it, and keep them in files of rows that are copied or updated, as
columns (specification of Iceberg, "Row Lineage").
"""

from __future__ import annotations

import uuid
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import (
    ArrowAccessor,
    ArrowProjectionVisitor,
    compute_statistics_plan,
    parquet_path_to_id_mapping,
    pyarrow_to_schema,
    schema_to_pyarrow,
)
from pyiceberg.manifest import DataFileContent, FileFormat
from pyiceberg.schema import Schema, prune_columns, visit_with_partner
from pyiceberg.table import TableProperties
from pyiceberg.table.locations import load_location_provider
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import ListType, LongType, MapType, NestedField

from binlog_streaming.lake.evolution import NO_ID, cast_to_schema, check_values, dictionary_columns, with_identity
from binlog_streaming.lake.iceberg.manifests import FIRST_ROW_ID, new_file
from binlog_streaming.lake.iceberg.partitions import file_facts, partitioned
from binlog_streaming.lake.iceberg.schema import arrow_schema, file_schema
from binlog_streaming.lake.iceberg.table_files import LiveFile, marked_rows
from binlog_streaming.lake.key_lookup import complement
from binlog_streaming.lake.sized_files import SizedFiles, batches_at

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyiceberg.io import FileIO
    from pyiceberg.manifest import DataFile
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.typedef import Record

    from binlog_format.kernels import Indices

KEY_ROWS = 1 << 19
"""Rows whose keys are read at once."""

IDENTITY_FIELDS = (
    NestedField(2147483540, "_row_id", LongType(), required=False),
    NestedField(2147483539, "_last_updated_sequence_number", LongType(), required=False),
)
"""Id of a version 3 row, and the number of the commit that changed it last; null: both follow from file and place."""

IDENTITY_FROM = 3
"""The format version from which on rows have ids."""

_IDS = pa.schema([(IDENTITY_FIELDS[0].name, pa.int64())])

BATCH_BYTES_MAX = 1 << 30
"""Plain strings of Arrow hold 2 GiB in one array; those of pyiceberg any number."""


def key_batches(
    metadata: TableMetadata, io: FileIO, file: DataFile, schema: pa.Schema
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Read some columns of a file.

    Args:
        schema: The columns, in the types that the table has; one that the file lacks is null.

    Yields:
        The number of a batch's first row, and the batch.
    """
    with _opened(io, file) as opened:
        columns = _Columns(metadata, file, opened.schema_arrow, schema)
        first = 0
        for batch in opened.iter_batches(KEY_ROWS, columns=columns.names):
            yield first, columns.of(batch)
            first += batch.num_rows


def rows_at(
    metadata: TableMetadata, io: FileIO, file: DataFile, rows: Indices, schema: pa.Schema
) -> Iterator[tuple[Indices, pa.RecordBatch]]:
    """Read some rows of a file.

    Args:
        rows: Numbers of rows, ascending, none twice.
        schema: The columns that are wanted, in the types that the table has.

    Yields:
        Places in *rows*, and the rows there.
    """
    with _opened(io, file) as opened:
        columns = _Columns(metadata, file, opened.schema_arrow, schema)
        for places, batch in batches_at(opened, rows, columns.names):
            yield places, columns.of(batch)


def live_rows(
    metadata: TableMetadata, io: FileIO, live: LiveFile, gone: Indices | None = None, *, identified: bool = False
) -> Iterator[pa.RecordBatch]:
    """Rows of a file in their order, with the columns that the table has now.

    Args:
        gone: Numbers of all rows that are not in the table; None: those that its delete files name.
        identified: The columns of `IDENTITY` follow those of the table, which is of version 3. They are null where the
            row gets its id from the next commit: its file is not in the table yet, or is older than the version of the
            table.
    """
    gone = marked_rows(io, live) if gone is None else gone
    left = complement(live.file.record_count, gone)
    schema, first = arrow_schema(metadata.schema()), live.file[FIRST_ROW_ID]
    wanted = with_identity(schema) if identified else schema
    own = arrow_schema(Schema(*metadata.schema().fields, *IDENTITY_FIELDS)) if identified else schema
    for places, batch in rows_at(metadata, io, live.file, left, own):
        columns = batch.columns
        if identified and first is not None:
            *columns, ids, versions = columns
            columns.append(pc.coalesce(ids, pa.array(first + left[places])))
            columns.append(pc.coalesce(versions, pa.scalar(live.sequence_number, pa.int64())))
        yield from _parts(pa.RecordBatch.from_arrays(columns, schema=wanted))


def row_ids(metadata: TableMetadata, io: FileIO, live: LiveFile, rows: Indices) -> Indices:
    """Ids of rows of a file of version 3; `NO_ID`: a commit of that version has yet to give one.

    Args:
        rows: Numbers of rows, ascending, none twice.
    """
    first = live.file[FIRST_ROW_ID]
    ids = np.full(len(rows), NO_ID, np.int64) if first is None else first + rows
    with _opened(io, live.file) as opened:
        columns = _Columns(metadata, live.file, opened.schema_arrow, _IDS)
        for places, batch in batches_at(opened, rows, columns.names) if columns.are_there else ():
            ids[places] = pc.coalesce(columns.of(batch).column(0), pa.array(ids[places])).to_numpy()
    return ids


class _Columns:
    # Columns of a file, and how they become those of the table.
    #
    # Attributes: *names* are those in the file that are read, at least one; *are_there*: whether it has any of those
    # that are wanted.

    def __init__(self, metadata: TableMetadata, file: DataFile, there: pa.Schema, wanted: pa.Schema) -> None:
        self._wanted = wanted
        fields = {field.name: field for field in (*IDENTITY_FIELDS, *metadata.schema().fields)}
        self._schema = Schema(*(fields[name] for name in wanted.names))
        version = metadata.format_version
        in_file = pyarrow_to_schema(
            there, metadata.name_mapping(), downcast_ns_timestamp_to_us=version < 3, format_version=version
        )
        numbers = {
            number
            for number in self._schema.field_ids
            if not isinstance(self._schema.find_type(number), (MapType, ListType))
        }
        read = prune_columns(in_file, numbers, select_full_types=False)
        self.are_there = bool(read.fields)
        self.names = [column.name for column in read.fields] or there.names[:1]
        # The values of these are the partition's, in files that came from elsewhere.
        partitions = {
            field.source_id: file.partition[place]
            for place, field in enumerate(metadata.specs()[file.spec_id].fields)
            if isinstance(field.transform, IdentityTransform) and field.source_id not in in_file.field_ids
        }
        self._visitor = ArrowProjectionVisitor(
            read, version < 3, projected_missing_fields=partitions, allow_timestamp_tz_mismatch=True
        )
        self._accessor = ArrowAccessor(read)

    def of(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        shaped = visit_with_partner(self._schema, batch, self._visitor, self._accessor)
        assert isinstance(shaped, pa.StructArray)
        return cast_to_schema(pa.RecordBatch.from_struct_array(shaped), self._wanted)


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
        """Add rows, with the table's columns.

        Raises:
            TableError: `TABLE_FEATURE`: one has no value where the table needs one.
        """
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


@contextmanager
def _opened(io: FileIO, file: DataFile) -> Iterator[pq.ParquetFile]:
    # Spark may keep times in 96 bits; in nanoseconds most years would not be there.
    with io.new_input(file.file_path).open() as opened:
        yield pq.ParquetFile(opened, coerce_int96_timestamp_unit="us", pre_buffer=False)


def _parts(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    if batch.nbytes <= BATCH_BYTES_MAX or batch.num_rows < 2:
        yield batch
        return
    middle = batch.num_rows // 2
    yield from _parts(batch.slice(0, middle))
    yield from _parts(batch.slice(middle))
