"""Files of an Iceberg table: `live_files` lists data files with their delete files; `marked_rows` reads these."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from pyiceberg.manifest import DataFileContent, FileFormat, ManifestContent

from binlog_format.errors import TableError
from binlog_streaming.lake.iceberg.deletes import is_vector, read_deletes, referenced_file
from binlog_streaming.lake.iceberg.manifest_cache import live_entries
from binlog_streaming.lake.iceberg.manifests import FIRST_ROW_ID, manifests_of
from binlog_streaming.lake.keys.key_lookup import union
from binlog_streaming.lake.target import RecordedFile

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray
    from pyiceberg.io import FileIO
    from pyiceberg.manifest import DataFile, ManifestEntry
    from pyiceberg.table.metadata import TableMetadata

    Rows = NDArray[np.int64]
    Partition = tuple[int, str]


@dataclass(frozen=True, slots=True)
class LiveFile:
    """A data file of a table.

    Attributes:
        file: Facts of it.
        own_deletes: Delete files about it alone; they go with it.
        shared_deletes: Delete files that may be about others too.
        sequence_number: Of the commit that wrote its rows; 0: it is not in the table yet.
    """

    file: DataFile
    own_deletes: tuple[DataFile, ...] = ()
    shared_deletes: tuple[DataFile, ...] = ()
    sequence_number: int = 0

    @property
    def is_numbered(self) -> bool:
        """True if its rows have numbers (version 3), which they keep when they are copied."""
        return self.file[FIRST_ROW_ID] is not None

    @property
    def is_marked(self) -> bool:
        """True if some of its rows may not be in the table any more."""
        return bool(self.own_deletes or self.shared_deletes)

    @property
    def marked_share(self) -> float:
        """Rows of it that are not in the table any more, of all, as far as delete files about it alone name them."""
        return sum(one.record_count for one in self.own_deletes) / max(self.file.record_count, 1)


def live_files(metadata: TableMetadata, io: FileIO, uri: str) -> list[LiveFile]:
    """Data files of the current snapshot, oldest first.

    Args:
        metadata: The table.
        io: Its files.
        uri: For messages.

    Raises:
        TableError: `TABLE_FEATURE`: there are files whose rows, or whose deletes, are not read here.
    """
    data: list[ManifestEntry] = []
    deletes: list[ManifestEntry] = []
    for manifest in manifests_of(metadata, io):
        if manifest.has_added_files() or manifest.has_existing_files():
            (data if manifest.content == ManifestContent.DATA else deletes).extend(live_entries(io, manifest))
    _require_known(data, deletes, uri)
    data.sort(key=lambda entry: (entry.sequence_number or 0, entry.data_file.file_path))
    own, shared = _by_reach(deletes)
    return [_with_deletes(entry, own, shared) for entry in data]


def recorded_files(metadata: TableMetadata, io: FileIO, uri: str) -> Iterator[RecordedFile]:
    """The data files of `live_files`, with what manifests record of them."""
    for live in live_files(metadata, io, uri):
        path = live.file.file_path
        yield RecordedFile(path, live.file.file_size_in_bytes, live.file.record_count, io.new_input(path).open)


def marked_rows(io: FileIO, live: LiveFile) -> Rows:
    """Numbers of the rows of a file that are not in the table any more, ascending.

    Raises:
        DamagedError: A deletion vector is damaged.
    """
    vectors = [one for one in live.own_deletes if is_vector(one)]
    # Where there is a vector, position deletes are in it already.
    deletes = vectors or [*live.own_deletes, *live.shared_deletes]
    parts = [read_deletes(io, one, live.file.file_path) for one in deletes]
    return union([np.empty(0, np.int64), *parts])


def _by_reach(
    deletes: Iterable[ManifestEntry],
) -> tuple[dict[str, list[ManifestEntry]], dict[Partition, list[ManifestEntry]]]:
    own: dict[str, list[ManifestEntry]] = defaultdict(list)
    shared: dict[Partition, list[ManifestEntry]] = defaultdict(list)
    for entry in deletes:
        path = referenced_file(entry.data_file)
        if path is not None:
            own[path].append(entry)
        else:
            shared[_partition(entry.data_file)].append(entry)
    return own, shared


def _with_deletes(
    entry: ManifestEntry, own: dict[str, list[ManifestEntry]], shared: dict[Partition, list[ManifestEntry]]
) -> LiveFile:
    # Deletes are about files that were there when they came, or came with them.
    def applying(found: list[ManifestEntry]) -> tuple[DataFile, ...]:
        return tuple(one.data_file for one in found if (one.sequence_number or 0) >= (entry.sequence_number or 0))

    file = entry.data_file
    own_deletes, shared_deletes = applying(own.get(file.file_path, [])), applying(shared.get(_partition(file), []))
    return LiveFile(file, own_deletes, shared_deletes, entry.sequence_number or 0)


def _partition(file: DataFile) -> Partition:
    return file.spec_id, repr(file.partition)


def _require_known(data: Iterable[ManifestEntry], deletes: Iterable[ManifestEntry], uri: str) -> None:
    foreign = {entry.data_file.file_format for entry in data} - {FileFormat.PARQUET}
    if foreign:
        names = ", ".join(sorted(str(kind.value) for kind in foreign))
        raise refused(uri, f"data files in {names}", "Rewrite them as Parquet with who wrote them")
    by_key = sum(entry.data_file.content == DataFileContent.EQUALITY_DELETES for entry in deletes)
    if by_key:
        raise refused(
            uri,
            f"{by_key} equality delete files",
            "Compact it with who wrote them (Spark: CALL system.rewrite_data_files with 'delete-file-threshold' 1), "
            "and let only this job write to it",
        )
    unread = {entry.data_file.file_format for entry in deletes} - {FileFormat.PARQUET, FileFormat.PUFFIN}
    if unread:
        names = ", ".join(sorted(str(kind.value) for kind in unread))
        raise refused(uri, f"delete files in {names}", "Compact it with who wrote them")


def refused(uri: str, feature: str, way: str) -> TableError:
    """The error for what a table has and this sink does not write.

    Args:
        uri: The table.
        feature: What it has.
        way: What to do about it.
    """
    return TableError("TABLE_FEATURE", f"{uri} has {feature}, which this sink does not write", hint=way)
