"""Files of an Iceberg table: `live_files` lists data files with their delete files; `marked_rows` reads these.

Rows that are taken out of data files: position delete files (version 2) and deletion vectors (3), read and written.

A vector is the same bytes as Delta's, in a Puffin file. Equality delete files of others are read (`KeyDeletes`).
"""

from __future__ import annotations

import struct
import uuid
import zlib
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.conversions import to_bytes
from pyiceberg.manifest import DataFileContent, FileFormat, ManifestContent
from pyiceberg.table.puffin import MAGIC_BYTES, Footer, PuffinBlobMetadata
from pyiceberg.transforms import VoidTransform
from pyiceberg.types import LongType, StringType

from binlog_format.errors import TableError
from binlog_streaming.lake.iceberg.key_deletes import KeyDeletes, key_field
from binlog_streaming.lake.iceberg.manifests import (
    CONTENT_OFFSET,
    CONTENT_SIZE,
    REFERENCED_FILE,
    live_entries,
    manifests_of,
    new_file,
)
from binlog_streaming.lake.key_lookup import union
from binlog_streaming.lake.roaring import DamagedError, decoded, encoded
from binlog_streaming.lake.target import RecordedFile

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyiceberg.io import FileIO
    from pyiceberg.manifest import DataFile, ManifestEntry
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.table.locations import LocationProvider
    from pyiceberg.table.metadata import TableMetadata

    from binlog_format.kernels import Indices

    _Partition = tuple[int, str]


PATH_FIELD, POSITION_FIELD = 2147483546, 2147483545
"""Numbers that the columns of position delete files have in every table."""
_ROW_POSITION = 2147483645
_VECTOR = "deletion-vector-v1"
_WORD = struct.Struct(">I")
"""Four bytes: before a vector its length, after it its CRC-32."""
_SIZE = struct.Struct("<I")
_NO_FLAGS = bytes(4)
_INHERITED = -1

_DELETE_SCHEMA = pa.schema(
    [
        pa.field("file_path", pa.string(), nullable=False, metadata={"PARQUET:field_id": str(PATH_FIELD)}),
        pa.field("pos", pa.int64(), nullable=False, metadata={"PARQUET:field_id": str(POSITION_FIELD)}),
    ]
)


def is_vector(file: DataFile) -> bool:
    """True if a delete file is a deletion vector."""
    return file.file_format == FileFormat.PUFFIN


def referenced_file(file: DataFile) -> str | None:
    """The one data file that a delete file is about; None: it may be about several."""
    if file[REFERENCED_FILE] is not None:
        return str(file[REFERENCED_FILE])
    low, high = ((bounds or {}).get(PATH_FIELD) for bounds in (file.lower_bounds, file.upper_bounds))
    return low.decode() if low is not None and low == high else None


def read_deletes(io: FileIO, file: DataFile, path: str) -> Indices:
    """Numbers of the rows that a delete file takes out of the data file at *path*, in any order.

    Raises:
        DamagedError: It is a vector, and is damaged.
    """
    with io.new_input(file.file_path).open() as opened:
        if is_vector(file):
            opened.seek(file[CONTENT_OFFSET])
            return _vector(opened.read(file[CONTENT_SIZE]), file)
        table = pq.read_table(opened, columns=["file_path", "pos"])
    rows: Indices = table.filter(pc.equal(table.column("file_path"), path)).column("pos").to_numpy().astype(np.int64)
    return rows


def write_position_deletes(io: FileIO, locations: LocationProvider, data_file: DataFile, rows: Indices) -> DataFile:
    """Write a delete file for one data file.

    Args:
        data_file: The file that stays.
        rows: Numbers of all rows that are not in the table any more, ascending, none twice, at least one.
    """
    path = data_file.file_path
    output = io.new_output(locations.new_data_location(f"00000-0-{uuid.uuid4()}-deletes.parquet"))
    paths = pa.DictionaryArray.from_arrays(pa.array(np.zeros(len(rows), np.int32)), pa.array([path])).cast(pa.string())
    table = pa.Table.from_arrays([paths, pa.array(rows)], schema=_DELETE_SCHEMA)
    with output.create(overwrite=True) as stream:
        pq.write_table(table, stream, compression="zstd", store_schema=False)
    bounds = [
        {PATH_FIELD: to_bytes(StringType(), path), POSITION_FIELD: to_bytes(LongType(), int(row))}
        for row in (rows[0], rows[-1])
    ]
    counts = {PATH_FIELD: len(rows), POSITION_FIELD: len(rows)}
    return new_file(
        data_file.spec_id,
        content=DataFileContent.POSITION_DELETES,
        file_path=output.location,
        file_format=FileFormat.PARQUET,
        partition=data_file.partition,
        record_count=len(rows),
        file_size_in_bytes=len(output),
        value_counts=counts,
        null_value_counts=dict.fromkeys(counts, 0),
        lower_bounds=bounds[0],
        upper_bounds=bounds[1],
        referenced_data_file=path,
    )


class IcebergVectorFile:
    """The deletion vectors of one commit, together in one Puffin file."""

    def __init__(self) -> None:
        self._content = bytearray(MAGIC_BYTES)
        self._vectors: list[tuple[DataFile, PuffinBlobMetadata, int]] = []

    def add(self, data_file: DataFile, rows: Indices) -> None:
        """Take in the vector of a data file; *rows* as `write_position_deletes` takes them."""
        data = encoded(rows)
        blob = _WORD.pack(len(data)) + data + _WORD.pack(zlib.crc32(data))
        described = PuffinBlobMetadata.model_validate(
            {
                "type": _VECTOR,
                "fields": [_ROW_POSITION],
                "snapshot-id": _INHERITED,
                "sequence-number": _INHERITED,
                "offset": len(self._content),
                "length": len(blob),
                "properties": {"referenced-data-file": data_file.file_path, "cardinality": str(len(rows))},
            }
        )
        self._vectors.append((data_file, described, len(rows)))
        self._content += blob

    def write(self, io: FileIO, locations: LocationProvider) -> list[DataFile]:
        """Write the file, if it has a vector; an entry for each."""
        if not self._vectors:
            return []
        output = io.new_output(locations.new_data_location(f"00000-0-{uuid.uuid4()}-deletes.puffin"))
        footer = Footer(blobs=[described for _, described, _ in self._vectors]).model_dump_json().encode()
        content = self._content + MAGIC_BYTES + footer + _SIZE.pack(len(footer)) + _NO_FLAGS + MAGIC_BYTES
        with output.create(overwrite=True) as stream:
            stream.write(bytes(content))
        return [
            new_file(
                data_file.spec_id,
                content=DataFileContent.POSITION_DELETES,
                file_path=output.location,
                file_format=FileFormat.PUFFIN,
                partition=data_file.partition,
                record_count=count,
                file_size_in_bytes=len(content),
                referenced_data_file=data_file.file_path,
                content_offset=described.offset,
                content_size_in_bytes=described.length,
            )
            for data_file, described, count in self._vectors
        ]


def _vector(blob: bytes, file: DataFile) -> Indices:
    (size,) = _WORD.unpack_from(blob)
    data = blob[_WORD.size : _WORD.size + size]
    (checksum,) = _WORD.unpack_from(blob, _WORD.size + len(data))
    if zlib.crc32(data) != checksum:
        raise DamagedError(f"deletion vector in {file.file_path}: its checksum is not {checksum:#010x}")
    rows = decoded(data)
    if len(rows) != file.record_count:
        raise DamagedError(f"deletion vector in {file.file_path}: {len(rows)} rows instead of {file.record_count}")
    return rows


@dataclass(frozen=True, slots=True)
class LiveFile:
    """A data file of a table.

    Attributes:
        own_deletes: Delete files about this file alone; they go with it.
        shared_deletes: Delete files that may be about others too.
        key_deletes: Equality deletes that may be about it.
        sequence_number: Of the commit that wrote its rows; 0: it is not in the table yet.
    """

    file: DataFile
    own_deletes: tuple[DataFile, ...] = ()
    shared_deletes: tuple[DataFile, ...] = ()
    key_deletes: tuple[KeyDeletes, ...] = ()
    sequence_number: int = 0

    @property
    def is_marked(self) -> bool:
        """True if some of its rows may not be in the table any more."""
        return bool(self.own_deletes or self.shared_deletes or self.key_deletes)

    @property
    def marked_share(self) -> float:
        """Rows of it that are not in the table any more, of all, as far as delete files about it alone name them."""
        return sum(own_delete.record_count for own_delete in self.own_deletes) / max(self.file.record_count, 1)


def live_files(metadata: TableMetadata, io: FileIO, uri: str) -> list[LiveFile]:
    """Data files of the current snapshot, oldest first."""
    data: list[ManifestEntry] = []
    deletes: list[ManifestEntry] = []
    for manifest in manifests_of(metadata, io):
        if manifest.has_added_files() or manifest.has_existing_files():
            (data if manifest.content == ManifestContent.DATA else deletes).extend(live_entries(io, manifest))
    _require_known(metadata, data, deletes, uri)
    data.sort(key=lambda entry: (entry.sequence_number or 0, entry.data_file.file_path))
    known = _Deletes(metadata, deletes)
    return [known.added_to(entry) for entry in data]


def recorded_files(metadata: TableMetadata, io: FileIO, uri: str) -> Iterator[RecordedFile]:
    """The data files of `live_files`, with what manifests record of them."""
    for live in live_files(metadata, io, uri):
        path = live.file.file_path
        yield RecordedFile(path, live.file.file_size_in_bytes, live.file.record_count, io.new_input(path).open)


def marked_rows(metadata: TableMetadata, io: FileIO, live: LiveFile) -> Indices:
    """Numbers of the rows of a file that are not in the table any more, ascending."""
    vectors = [own_delete for own_delete in live.own_deletes if is_vector(own_delete)]
    # Where there is a vector, position deletes are in it already.
    deletes = vectors or [*live.own_deletes, *live.shared_deletes]
    parts = [read_deletes(io, delete, live.file.file_path) for delete in deletes]
    return union([key_deleted_rows(metadata, io, live), *parts])


def key_deleted_rows(metadata: TableMetadata, io: FileIO, live: LiveFile) -> Indices:
    """Numbers of the rows that equality delete files take out of a file, in any order."""
    parts = [deletes.rows(metadata, io, live.file, live.sequence_number) for deletes in live.key_deletes]
    return np.concatenate([np.empty(0, np.int64), *parts])


class _Deletes:
    # Delete files by the data files that they may be about: one, those of a partition, or (equality deletes) all.

    def __init__(self, metadata: TableMetadata, deletes: Iterable[ManifestEntry]) -> None:
        self._own: dict[str, list[ManifestEntry]] = defaultdict(list)
        self._shared: dict[_Partition, list[ManifestEntry]] = defaultdict(list)
        by_key: dict[tuple[_Partition | None, tuple[int, ...]], list[tuple[DataFile, int]]] = defaultdict(list)
        global_specs = {number for number, spec in metadata.specs().items() if _is_global(spec)}
        for entry in deletes:
            file = entry.data_file
            if file.content == DataFileContent.EQUALITY_DELETES:
                partition = None if file.spec_id in global_specs else _partition(file)
                by_key[partition, tuple(sorted(file.equality_ids or ()))].append((file, entry.sequence_number or 0))
            elif (path := referenced_file(file)) is not None:
                self._own[path].append(entry)
            else:
                self._shared[_partition(file)].append(entry)
        self._by_key: dict[_Partition | None, list[KeyDeletes]] = defaultdict(list)
        for (partition, _), some in by_key.items():
            self._by_key[partition].append(KeyDeletes(some))

    def added_to(self, entry: ManifestEntry) -> LiveFile:
        """A data file with its deletes."""
        file, number = entry.data_file, entry.sequence_number or 0
        partition = _partition(file)

        # Deletes by position are about files that were there when they came, or came with them.
        def applying(found: list[ManifestEntry]) -> tuple[DataFile, ...]:
            return tuple(delete.data_file for delete in found if (delete.sequence_number or 0) >= number)

        by_key = [*self._by_key.get(None, []), *self._by_key.get(partition, [])]
        return LiveFile(
            file,
            applying(self._own.get(file.file_path, [])),
            applying(self._shared.get(partition, [])),
            tuple(deletes for deletes in by_key if deletes.newest > number),
            number,
        )


def _is_global(spec: PartitionSpec) -> bool:
    # Version 1 leaves a field that was dropped in its place, as null in all files from then on.
    return all(isinstance(field.transform, VoidTransform) for field in spec.fields)


def key_delete_files(metadata: TableMetadata, io: FileIO) -> list[DataFile]:
    """Equality delete files of the current snapshot."""
    return [
        entry.data_file
        for manifest in manifests_of(metadata, io)
        if manifest.content == ManifestContent.DELETES
        for entry in live_entries(io, manifest)
        if entry.data_file.content == DataFileContent.EQUALITY_DELETES
    ]


def _partition(file: DataFile) -> _Partition:
    return file.spec_id, repr(file.partition)


def _require_known(
    metadata: TableMetadata, data: Iterable[ManifestEntry], deletes: Iterable[ManifestEntry], uri: str
) -> None:
    foreign = {entry.data_file.file_format for entry in data} - {FileFormat.PARQUET}
    if foreign:
        names = ", ".join(sorted(str(kind.value) for kind in foreign))
        raise refused(uri, f"data files in {names}", "Rewrite them as Parquet with who wrote them")
    numbers = {number for entry in deletes for number in entry.data_file.equality_ids or ()}
    nested = sorted(number for number in numbers if key_field(metadata, number) is None)
    if nested:
        names = ", ".join(map(str, nested))
        way = "Compact it with who wrote them, and let them delete by columns that are not within others"
        raise refused(uri, f"equality delete files by columns within others (ids {names})", way)
    unread = {entry.data_file.file_format for entry in deletes} - {FileFormat.PARQUET, FileFormat.PUFFIN}
    if unread:
        names = ", ".join(sorted(str(kind.value) for kind in unread))
        raise refused(uri, f"delete files in {names}", "Compact it with who wrote them")


def refused(uri: str, feature: str, way: str) -> TableError:
    """The error for what a table has and this sink does not write."""
    return TableError("TABLE_FEATURE", f"{uri} has {feature}, which this sink does not write", hint=way)
