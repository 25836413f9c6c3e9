"""Manifests of Iceberg tables, in all format versions: read and written as the specification has them.

An entry is a data file or a delete file, and which commit brought it. Fields of version 3 are there in entries of every
version: the number of a file's first row, and where a deletion vector is.

Manifests that were read, kept between looks at a table: `live_entries`; what is written once is never changed.

A commit brings few new manifests, and each look needs all of them.
"""

from __future__ import annotations

import json
import os
import threading
from collections import OrderedDict
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

from pyiceberg.avro.codecs import AVRO_CODEC_KEY, CODEC_MAPPING_ICEBERG_TO_AVRO
from pyiceberg.avro.decoder import new_decoder
from pyiceberg.avro.file import MAGIC, META_SCHEMA, SYNC_SIZE, AvroFile, AvroFileHeader, AvroOutputFile
from pyiceberg.avro.resolver import construct_reader, construct_writer, resolve_reader, resolve_writer
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
from pyiceberg.types import IntegerType, ListType, NestedField, StructType
from pyiceberg.utils.schema_conversion import AvroSchemaConversion

from binlog_streaming.lake.iceberg.partitions import partition_summaries

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyiceberg.avro.reader import Reader
    from pyiceberg.avro.writer import Writer
    from pyiceberg.io import FileIO, InputFile, OutputFile
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


class _AvroInput(AvroFile[Any]):
    # A file whose way to be read is prepared once for all files with its schema: else that costs more than the reading.
    def __init__(self, file: InputFile, *, is_list: bool) -> None:
        super().__init__(file)
        self._is_list = is_list

    def __enter__(self) -> AvroFile[Any]:
        with self.input_file.open() as opened:
            self.decoder = new_decoder(opened.read())
        self.header = _HEADER_READER.read(self.decoder)
        schema = self.header.meta.get(_AVRO_SCHEMA)
        if schema is None:
            raise ValueError(f"{self.input_file.location}: there is no schema in its header")
        self.reader = _reader(schema, self._is_list)
        return self


class _AvroOutput(AvroOutputFile[Any]):
    # The same for a file that is written.
    def __init__(self, file: OutputFile, form: _Form, metadata: dict[str, str]) -> None:
        self.output_file = file
        self.sync_bytes = os.urandom(SYNC_SIZE)
        self.writer = form.writer
        self.metadata = metadata
        self._form = form

    def _write_header(self) -> None:
        codec = self.metadata[AVRO_CODEC_KEY]
        meta = {
            **self.metadata,
            _AVRO_SCHEMA: self._form.text,
            AVRO_CODEC_KEY: CODEC_MAPPING_ICEBERG_TO_AVRO.get(codec, codec),
        }
        _HEADER_WRITER.write(self.encoder, AvroFileHeader(MAGIC, meta, self.sync_bytes))


@dataclass(frozen=True, slots=True)
class _Form:
    # How records of the newest version become those of a file, and its schema in Avro.
    writer: Writer
    text: str


_AVRO_SCHEMA = "avro.schema"
_HEADER_READER = construct_reader(META_SCHEMA, {-1: AvroFileHeader})
_HEADER_WRITER = construct_writer(META_SCHEMA)
_FORMS_MAX = 64
"""Schemas of files that are kept prepared: tables with other partitions have others."""


_LIST = (
    MANIFEST_LIST_FILE_SCHEMAS[NEWEST],
    {-1: ManifestFile, 508: PartitionFieldSummary},
    {517: ManifestContent},
)
_ENTRIES = (
    MANIFEST_ENTRY_SCHEMAS[NEWEST],
    {-1: ManifestEntry, 2: DataFile},
    {0: ManifestEntryStatus, 101: FileFormat, 134: DataFileContent},
)


@lru_cache(_FORMS_MAX)
def _reader(text: str, is_list: bool) -> Reader:
    written = AvroSchemaConversion().avro_to_iceberg(json.loads(text))
    return resolve_reader(written, *(_LIST if is_list else _ENTRIES))


@lru_cache(_FORMS_MAX)
def _entries_form(partition: StructType, version: int) -> _Form:
    return _form(_entry_schema(partition, version), _entry_schema(partition, NEWEST), "manifest_entry")


@lru_cache(_FORMS_MAX)
def _list_form(version: int) -> _Form:
    schemas = MANIFEST_LIST_FILE_SCHEMAS
    return _form(schemas[version], schemas[NEWEST], "manifest_file")


def _form(schema: Schema, record_schema: Schema, name: str) -> _Form:
    text = json.dumps(AvroSchemaConversion().iceberg_to_avro(schema, schema_name=name))
    return _Form(resolve_writer(record_schema=record_schema, file_schema=schema), text)


def file_id(file: DataFile) -> tuple[str, int | None]:
    """Unique id of a file: vectors of several data files are in one file."""
    return file.file_path, file[CONTENT_OFFSET]


def new_file(spec_id: int, **fields: object) -> DataFile:
    """Facts of a file. *fields*: as the specification names them; others are not known."""
    file = DataFile.from_args(_table_format_version=NEWEST, **fields)
    file.spec_id = spec_id
    return file


def manifests_of(metadata: TableMetadata, io: FileIO) -> list[ManifestFile]:
    """Manifests of the current snapshot."""
    snapshot = metadata.current_snapshot()
    return [] if snapshot is None else read_list(io, snapshot.manifest_list)


def read_list(io: FileIO, path: str) -> list[ManifestFile]:
    """Manifests of a snapshot."""
    with _AvroInput(io.new_input(path), is_list=True) as reader:
        return list(reader)


def read_entries(io: FileIO, manifest: ManifestFile) -> list[ManifestEntry]:
    """Files of a manifest that are in the table, with what they inherit from it."""
    with _AvroInput(io.new_input(manifest.manifest_path), is_list=False) as reader:
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
    """An entry to be written. *old*: entry of the file before; None: it is new."""
    return ManifestEntry.from_args(
        _table_format_version=NEWEST,
        status=status,
        snapshot_id=old.snapshot_id if old is not None and status == ManifestEntryStatus.EXISTING else snapshot_id,
        sequence_number=None if old is None else old.sequence_number,
        file_sequence_number=None if old is None else old.file_sequence_number,
        data_file=file,
    )


class ManifestWriter:
    """Writes the manifests of one commit. *metadata*: the table, with the columns that it has after the commit."""

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
        """Write a manifest. *spec_id*: how the files are partitioned, all in one way. *entries*: at least one."""
        spec, schema = self._metadata.specs()[spec_id], self._metadata.schema()
        described = {
            "schema": schema.model_dump_json(),
            "partition-spec": json.dumps([json.loads(field.model_dump_json()) for field in spec.fields]),
            "partition-spec-id": str(spec_id),
            "format-version": str(self._version),
            "content": "data" if content == ManifestContent.DATA else "deletes",
            AVRO_CODEC_KEY: self._codec,
        }
        with _AvroOutput(output, _entries_form(spec.partition_type(schema), self._version), described) as writer:
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
        with _AvroOutput(output, _list_form(self._version), described) as writer:
            if listed:
                writer.write_block(listed)
        return None if first is None or next_row is None else next_row - first


def _counts(entries: Sequence[ManifestEntry], status: ManifestEntryStatus) -> tuple[int, int]:
    rows = [entry.data_file.record_count for entry in entries if entry.status == status]
    return len(rows), sum(rows)


# Other readers insist on 32 bits, which the specification sets; the library writes 64.
_EQUALITY_IDS = NestedField(135, "equality_ids", ListType(136, IntegerType(), element_required=True), required=False)


def _entry_schema(partition: StructType, version: int) -> Schema:
    if version == 1:
        return manifest_entry_schema_with_data_file(1, data_file_with_partition(partition, 1))
    fields = data_file_with_partition(partition, NEWEST).fields
    file = StructType(*(_EQUALITY_IDS if field.field_id == _EQUALITY_IDS.field_id else field for field in fields))
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
    """The manifests that were asked for last. *columns_max*: columns of files that are kept, at most."""

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
