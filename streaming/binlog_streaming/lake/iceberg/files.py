"""Data files of Iceberg tables: `live_files` lists them, `rows_of` and `write_files` read and write them bit by bit."""

from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING

import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io.fileformat import FileFormatFactory
from pyiceberg.io.pyarrow import ArrowScan, _to_requested_schema
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestContent
from pyiceberg.schema import Schema, sanitize_column_names
from pyiceberg.table import FileScanTask
from pyiceberg.table.locations import load_location_provider
from pyiceberg.typedef import Record

from binlog_streaming.lake.conforming import conformed
from binlog_streaming.lake.iceberg.schema import arrow_schema

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from concurrent.futures import Future

    from pyiceberg.io import FileIO, OutputFile
    from pyiceberg.io.fileformat import FileFormatWriter
    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table.metadata import TableMetadata

ROW_GROUP_BYTES = 32 << 20
"""Rows that are written at once, as they are in memory; two such parts are in memory while a file is written."""

BATCH_BYTES_MAX = 1 << 30
"""Plain strings of Arrow hold 2 GiB in one array; those of pyiceberg any number."""


def manifests(metadata: TableMetadata, io: FileIO) -> list[ManifestFile]:
    """Manifests of the current snapshot."""
    snapshot = metadata.current_snapshot()
    return [] if snapshot is None else snapshot.manifests(io)


def live_files(metadata: TableMetadata, io: FileIO) -> list[DataFile]:
    """Data files of the current snapshot, oldest first; the table has no delete files."""
    entries = [
        entry
        for manifest in manifests(metadata, io)
        if manifest.content == ManifestContent.DATA
        for entry in manifest.fetch_manifest_entry(io, discard_deleted=True)
    ]
    entries.sort(key=lambda entry: (entry.sequence_number or 0, entry.data_file.file_path))
    return [entry.data_file for entry in entries]


def file_size_of(file: DataFile) -> int:
    """Its size in bytes."""
    return file.file_size_in_bytes


def rows_of(
    metadata: TableMetadata, io: FileIO, file: DataFile, columns: Sequence[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """Rows of a file in their order, with the columns that the table has now.

    Args:
        metadata: The table.
        io: Its files.
        file: One of them.
        columns: Names of the columns that are wanted, which come in the table's order; None: all.
    """
    schema = metadata.schema()
    if columns is not None:
        schema = Schema(*(field for field in schema.fields if field.name in columns))
    # The public way reads all of a file before it gives the first row.
    scan = ArrowScan(metadata, io, schema, AlwaysTrue())
    wanted = arrow_schema(schema)
    for batch in scan._record_batches_from_scan_tasks_and_deletes([FileScanTask(file)], {}):
        for part in _parts(batch):
            yield conformed(part, wanted)


def write_files(
    metadata: TableMetadata, io: FileIO, rows: Iterable[pa.RecordBatch], *, file_size: int
) -> list[DataFile]:
    """Write *rows* (with the table's columns, as `arrow_schema` gives them) into files of about *file_size* bytes.

    What was written is removed when something fails, the reading of *rows* included.
    """
    files = _Files(metadata, io, file_size)
    try:
        with ThreadPoolExecutor(1) as pool:
            writing: Future[None] | None = None
            for part in _row_groups(rows, min(ROW_GROUP_BYTES, file_size // 2)):
                if writing is not None:
                    writing.result()
                writing = pool.submit(files.write, part)
            if writing is not None:
                writing.result()
        files.close()
    except BaseException:
        files.abandon()
        raise
    return files.written


def remove_files(io: FileIO, paths: Iterable[str]) -> None:
    """Remove files that no snapshot names."""
    for path in paths:
        with suppress(OSError):
            io.delete(path)


class _Files:
    # One file after the other, each until it has its size.

    def __init__(self, metadata: TableMetadata, io: FileIO, file_size: int) -> None:
        self.written: list[DataFile] = []
        self._metadata = metadata
        self._io = io
        self._file_size = file_size
        self._id = uuid.uuid4()
        self._paths: list[str] = []
        self._locations = load_location_provider(metadata.location, metadata.properties)
        self._format = FileFormatFactory.get(FileFormat.PARQUET)
        self._schema = metadata.schema()
        self._file_schema = sanitize_column_names(self._schema)
        self._open: tuple[OutputFile, FileFormatWriter] | None = None

    def write(self, part: pa.Table) -> None:
        batches = [
            _to_requested_schema(
                self._file_schema, self._schema, batch, include_field_ids=True, format_model=self._format
            )
            for batch in part.to_batches()
        ]
        if self._open is None:
            path = self._locations.new_data_location(f"00000-{len(self._paths)}-{self._id}.parquet")
            self._paths.append(path)
            output = self._io.new_output(path)
            self._open = output, self._format.create_writer(output, self._file_schema, self._metadata.properties)
        output, writer = self._open
        writer.write(pa.Table.from_batches(batches))
        if len(output) >= self._file_size:
            self.close()

    def close(self) -> None:
        if self._open is None:
            return
        output, writer = self._open
        statistics = writer.close()
        self._open = None
        self.written.append(
            DataFile.from_args(
                content=DataFileContent.DATA,
                file_path=output.location,
                file_format=FileFormat.PARQUET,
                partition=Record(),
                file_size_in_bytes=len(output),
                sort_order_id=None,  # whatever order the table asks for: the rows are in none
                spec_id=self._metadata.default_spec_id,
                equality_ids=None,
                key_metadata=None,
                **statistics.to_serialized_dict(),
            )
        )

    def abandon(self) -> None:
        if self._open is not None:
            # A writer that could not end before raises RuntimeError.
            with suppress(OSError, pa.ArrowException, RuntimeError):
                self._open[1].close()
        remove_files(self._io, self._paths)


def _parts(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    if batch.nbytes <= BATCH_BYTES_MAX or batch.num_rows < 2:
        yield batch
        return
    middle = batch.num_rows // 2
    yield from _parts(batch.slice(0, middle))
    yield from _parts(batch.slice(middle))


def _row_groups(rows: Iterable[pa.RecordBatch], size: int) -> Iterator[pa.Table]:
    collected: list[pa.RecordBatch] = []
    total = 0
    for batch in rows:
        # A batch may be larger than all that is wanted.
        step = max(1, batch.num_rows * size // (4 * max(batch.nbytes, 1)))
        for start in range(0, batch.num_rows, step):
            piece = batch.slice(start, step)
            collected.append(piece)
            total += piece.nbytes
            if total >= size:
                yield pa.Table.from_batches(collected).combine_chunks()
                collected, total = [], 0
    if collected:
        yield pa.Table.from_batches(collected).combine_chunks()
