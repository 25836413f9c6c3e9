"""Manifests of Iceberg tables, in all format versions: read and written as the specification has them.

An entry is a data file or a delete file, and which commit brought it. Fields of version 3 are there in entries of every
version: the number of a file's first row, and where a deletion vector is.

Manifests that were read, kept between looks at a table: `live_entries`; what is written once is never changed.

A commit brings few new manifests, and each look needs all of them.
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Literal

from pyiceberg.avro.codecs import AVRO_CODEC_KEY
from pyiceberg.avro.file import AvroFile, AvroOutputFile
from pyiceberg.manifest import (
    DATA_FILE_TYPE,
    MANIFEST_ENTRY_SCHEMAS,
    MANIFEST_LIST_FILE_SCHEMAS,
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    PartitionFieldSummary,
    data_file_with_partition,
    manifest_entry_schema_with_data_file,
)
from pyiceberg.table import TableProperties
from pyiceberg.types import StructType

from binlog_streaming.lake.iceberg.partitions import partition_summaries

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyiceberg.io import FileIO, OutputFile
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.table.metadata import TableMetadata


NEWEST: Literal[3] = 3
"""The format version whose fields all entries have here."""

_PLACES = {field.name: place for place, field in enumerate(DATA_FILE_TYPE[NEWEST].fields)}
FIRST_ROW_ID = _PLACES["first_row_id"]
REFERENCED_FILE = _PLACES["referenced_data_file"]
CONTENT_OFFSET = _PLACES["content_offset"]
CONTENT_SIZE = _PLACES["content_size_in_bytes"]
"""Places of fields in a file's entry that the library does not name."""

_ONLY_IN_3 = {"first_row_id", "content_offset", "content_size_in_bytes"}
_ENTRY_FIRST_ROW_ID = 15
"""Place of the first row's number in the entry of a manifest in a list."""


def file_id(file: DataFile) -> tuple[str, int | None]:
    """Unique id of a file: vectors of several data files are in one file."""
    return file.file_path, file[CONTENT_OFFSET]


def new_file(spec_id: int, **fields: object) -> DataFile:
    """Facts of a file.

    Args:
        fields: As the specification names them; others are not known.
    """
    file = DataFile.from_args(_table_format_version=NEWEST, **fields)
    file.spec_id = spec_id
    return file


def manifests_of(metadata: TableMetadata, io: FileIO) -> list[ManifestFile]:
    """Manifests of the current snapshot."""
    snapshot = metadata.current_snapshot()
    return [] if snapshot is None else read_list(io, snapshot.manifest_list)


def read_list(io: FileIO, path: str) -> list[ManifestFile]:
    """Manifests of a snapshot."""
    with AvroFile[ManifestFile](
        io.new_input(path),
        MANIFEST_LIST_FILE_SCHEMAS[NEWEST],
        read_types={-1: ManifestFile, 508: PartitionFieldSummary},
        read_enums={517: ManifestContent},
    ) as reader:
        return list(reader)


def read_entries(io: FileIO, manifest: ManifestFile) -> list[ManifestEntry]:
    """Files of a manifest that are in the table, with what they inherit from it."""
    with AvroFile[ManifestEntry](
        io.new_input(manifest.manifest_path),
        MANIFEST_ENTRY_SCHEMAS[NEWEST],
        read_types={-1: ManifestEntry, 2: DataFile},
        read_enums={0: ManifestEntryStatus, 101: FileFormat, 134: DataFileContent},
    ) as reader:
        entries = [entry for entry in reader if entry.status != ManifestEntryStatus.DELETED]
    next_row = manifest[_ENTRY_FIRST_ROW_ID]
    for entry in entries:
        _inherit(entry, manifest)
        if next_row is not None and entry.data_file[FIRST_ROW_ID] is None:
            entry.data_file[FIRST_ROW_ID] = next_row
            next_row += entry.data_file.record_count
    return entries


def inherited_values(manifest: ManifestFile) -> tuple[object, ...]:
    """Values that entries take from the list that names their manifest; another list may have another first row."""
    numbers = (manifest.sequence_number, manifest.added_snapshot_id, manifest.partition_spec_id)
    return (*numbers, manifest[_ENTRY_FIRST_ROW_ID])


def _inherit(entry: ManifestEntry, manifest: ManifestFile) -> None:
    if entry.snapshot_id is None and manifest.added_snapshot_id is not None:
        entry.snapshot_id = manifest.added_snapshot_id
    if entry.sequence_number is None:
        entry.sequence_number = manifest.sequence_number
    if entry.file_sequence_number is None:
        entry.file_sequence_number = manifest.sequence_number
    entry.data_file.spec_id = manifest.partition_spec_id


def entry_of(file: DataFile, status: ManifestEntryStatus, snapshot_id: int, old: ManifestEntry | None) -> ManifestEntry:
    """An entry to be written.

    Args:
        old: Entry of the file before; None: it is new.
    """
    return ManifestEntry.from_args(
        _table_format_version=NEWEST,
        status=status,
        snapshot_id=old.snapshot_id if old is not None and status == ManifestEntryStatus.EXISTING else snapshot_id,
        sequence_number=None if old is None else old.sequence_number,
        file_sequence_number=None if old is None else old.file_sequence_number,
        data_file=file,
    )


class ManifestWriter:
    """Writes the manifests of one commit.

    Args:
        metadata: The table, with the columns that it has after the commit.
    """

    def __init__(self, metadata: TableMetadata, snapshot_id: int) -> None:
        self._metadata = metadata
        self._snapshot_id = snapshot_id
        self._version = metadata.format_version
        self._sequence_number = metadata.next_sequence_number()
        self._codec = metadata.properties.get(
            TableProperties.WRITE_AVRO_COMPRESSION, TableProperties.WRITE_AVRO_COMPRESSION_DEFAULT
        )

    def write(
        self, output: OutputFile, content: ManifestContent, spec_id: int, entries: Sequence[ManifestEntry]
    ) -> ManifestFile:
        """Write a manifest.

        Args:
            spec_id: How the files are partitioned, all in one way.
            entries: At least one.
        """
        spec, schema = self._metadata.specs()[spec_id], self._metadata.schema()
        described = {
            "schema": schema.model_dump_json(),
            "partition-spec": json.dumps([json.loads(field.model_dump_json()) for field in spec.fields]),
            "partition-spec-id": str(spec_id),
            "format-version": str(self._version),
            "content": "data" if content == ManifestContent.DATA else "deletes",
            AVRO_CODEC_KEY: self._codec,
        }
        with AvroOutputFile[ManifestEntry](
            output_file=output,
            file_schema=_entry_schema(spec, schema, self._version),
            record_schema=_entry_schema(spec, schema, NEWEST),
            schema_name="manifest_entry",
            metadata=described,
        ) as writer:
            writer.write_block(list(entries))
        counts = {status: _counts(entries, status) for status in ManifestEntryStatus}
        live = [entry for entry in entries if entry.status != ManifestEntryStatus.DELETED]
        numbers = [self._sequence_number if (own := entry.sequence_number) is None else own for entry in live]
        return ManifestFile.from_args(
            _table_format_version=NEWEST,
            manifest_path=output.location,
            manifest_length=len(output),
            partition_spec_id=spec_id,
            content=content,
            sequence_number=self._sequence_number,
            min_sequence_number=min(numbers, default=self._sequence_number),
            added_snapshot_id=self._snapshot_id,
            added_files_count=counts[ManifestEntryStatus.ADDED][0],
            existing_files_count=counts[ManifestEntryStatus.EXISTING][0],
            deleted_files_count=counts[ManifestEntryStatus.DELETED][0],
            added_rows_count=counts[ManifestEntryStatus.ADDED][1],
            existing_rows_count=counts[ManifestEntryStatus.EXISTING][1],
            deleted_rows_count=counts[ManifestEntryStatus.DELETED][1],
            partitions=partition_summaries(spec, schema, [entry.data_file.partition for entry in entries]),
        )

    def write_list(self, output: OutputFile, manifests: Iterable[ManifestFile]) -> int | None:
        """Write the list of a snapshot's manifests.

        Returns:
            How many numbers of rows it gives away; None: the table does not number rows.
        """
        listed = list(manifests)
        first = getattr(self._metadata, "next_row_id", None) if self._version >= NEWEST else None
        next_row = first
        if next_row is not None:
            for manifest in listed:
                if manifest.content == ManifestContent.DATA and manifest[_ENTRY_FIRST_ROW_ID] is None:
                    manifest[_ENTRY_FIRST_ROW_ID] = next_row
                    next_row += (manifest.added_rows_count or 0) + (manifest.existing_rows_count or 0)
        parent = self._metadata.current_snapshot_id
        described = {
            "snapshot-id": str(self._snapshot_id),
            "parent-snapshot-id": "null" if parent is None else str(parent),
            "sequence-number": str(self._sequence_number),
            "format-version": str(self._version),
            AVRO_CODEC_KEY: self._codec,
        }
        if first is not None:
            described["first-row-id"] = str(first)
        with AvroOutputFile[ManifestFile](
            output_file=output,
            file_schema=MANIFEST_LIST_FILE_SCHEMAS[self._version],
            record_schema=MANIFEST_LIST_FILE_SCHEMAS[NEWEST],
            schema_name="manifest_file",
            metadata=described,
        ) as writer:
            if listed:
                writer.write_block(listed)
        return None if first is None or next_row is None else next_row - first


def _counts(entries: Sequence[ManifestEntry], status: ManifestEntryStatus) -> tuple[int, int]:
    rows = [entry.data_file.record_count for entry in entries if entry.status == status]
    return len(rows), sum(rows)


def _entry_schema(spec: PartitionSpec, schema: Schema, version: int) -> Schema:
    partition = spec.partition_type(schema)
    if version == 1:
        return manifest_entry_schema_with_data_file(1, data_file_with_partition(partition, 1))
    file = data_file_with_partition(partition, NEWEST)
    if version == NEWEST:
        return manifest_entry_schema_with_data_file(NEWEST, file)
    return manifest_entry_schema_with_data_file(
        2, StructType(*(field for field in file.fields if field.name not in _ONLY_IN_3))
    )


COLUMNS_MAX = 300_000
"""Columns of files whose statistics are kept in a process: 80 MB, 15,000 files with 20 columns."""

_FIXED_COLUMNS = 4
"""Cost of an entry without statistics, in columns."""

Entries = tuple["ManifestEntry", ...]


class ManifestCache:
    """The manifests that were asked for last.

    Args:
        columns_max: Columns of files that are kept, at most.
    """

    def __init__(self, columns_max: int) -> None:
        self._columns_max = columns_max
        self._columns = 0
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[object, ...], Entries] = OrderedDict()

    def live_entries(self, io: FileIO, manifest: ManifestFile) -> Sequence[ManifestEntry]:
        """Files of a manifest that are in the table; not to be changed."""
        key = (manifest.manifest_path, *inherited_values(manifest))
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        entries = tuple(read_entries(io, manifest))
        with self._lock:
            self._keep(key, entries)
        return entries

    def _keep(self, key: tuple[object, ...], entries: Entries) -> None:
        columns = _columns(entries)
        if key in self._kept or columns > self._columns_max:
            return
        self._kept[key] = entries
        self._columns += columns
        while self._columns > self._columns_max:
            _, oldest = self._kept.popitem(last=False)
            self._columns -= _columns(oldest)


def _columns(entries: Entries) -> int:
    return sum(_FIXED_COLUMNS + len(entry.data_file.value_counts or ()) for entry in entries)


_KEPT = ManifestCache(COLUMNS_MAX)
live_entries = _KEPT.live_entries
