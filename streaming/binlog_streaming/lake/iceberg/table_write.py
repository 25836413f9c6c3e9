"""One commit on its way into an Iceberg table: `IcebergTableWrite` has the files written for it, and then makes it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pyarrow as pa
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.table import TableProperties
from pyiceberg.table.locations import load_location_provider
from pyiceberg.transforms import UnknownTransform
from pyiceberg.types import IntegerType, LongType

from binlog_streaming.lake.evolution import has_identity
from binlog_streaming.lake.iceberg.commit import IcebergCommit
from binlog_streaming.lake.iceberg.data_files import (
    IDENTITY_FROM,
    IcebergDataFiles,
    IcebergFileReader,
    remove_files,
)
from binlog_streaming.lake.iceberg.schema import IDENTITY_FIELDS, arrow_schema, integer_bounds, with_schema
from binlog_streaming.lake.iceberg.table_files import (
    IcebergVectorFile,
    LiveFile,
    key_delete_files,
    key_deleted_rows,
    live_files,
    refused,
    write_position_deletes,
)
from binlog_streaming.lake.key_lookup import files_that_may_hold
from binlog_streaming.lake.merge import WrittenFiles
from binlog_streaming.prefetch import prefetch

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Self

    from pyiceberg.manifest import DataFile
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table

    from binlog_format.kernels import Indices
    from binlog_streaming.lake.change import Contradictions
    from binlog_streaming.lake.merge import Superseded

POSITION_DELETES_FROM = 2
"""The format version from which on rows can be marked."""

VECTORS_FROM = 3
"""The format version from which on rows are marked in deletion vectors; before it, in position delete files."""

DELETES_AT_ONCE = 8
"""Delete files that are written at a time."""

_FALSE = b"\0"


class IcebergTableWrite:
    """One commit, within `with`: what is written for it goes again unless `commit` or `detach` was called.

    It is the `FilesWrite` of an Iceberg table.

    Attributes:
        schema: Columns of the table after the commit.

    Args:
        file_size: Of new files, in bytes.
        columns: After the commit; None: as they are.
    """

    has_change_feed = False  # readers compare snapshots
    generated = numbered = ()  # Iceberg has neither

    def __init__(self, table: Table, uri: str, *, file_size: int, columns: Schema | None = None) -> None:
        self._table = table
        self._uri = uri
        self._columns = columns
        self._metadata = table.metadata if columns is None else with_schema(table.metadata, columns)
        self._io = table.io
        self.reader = IcebergFileReader(self._metadata, self._io)
        self.schema: pa.Schema = arrow_schema(self._metadata.schema())
        self.keeps_identity = self._metadata.format_version >= IDENTITY_FROM
        self.defaulted = [field.name for field in self._metadata.schema().fields if field.write_default is not None]
        self._file_size = file_size
        self._new: dict[bool, IcebergDataFiles] = {}  # by whether their rows have identity
        self._live: list[LiveFile] | None = None
        self._removed: list[DataFile] = []
        self._marked: list[tuple[LiveFile, Indices]] = []
        self._attached: dict[str, DataFile] = {}
        self._dropped: list[str] = []
        self._deletes: list[DataFile] = []
        self._is_kept = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if not self._is_kept:
            for files in self._new.values():
                files.abandon()
            remove_files(self._io, [*(file.file_path for file in self._deletes), *self._attached, *self._dropped])

    @property
    def is_empty(self) -> bool:
        """True if nothing has been written or removed so far."""
        is_begun = any(files.is_begun for files in self._new.values())
        return not (self._removed or self._marked or self._attached or is_begun)

    @property
    def row_count(self) -> int:
        """Rows that were written."""
        return sum(files.row_count for files in self._new.values())

    @property
    def has_deletion_vectors(self) -> bool:
        """See `TableFiles`."""
        return any(live.is_marked for live in self.files())

    def files(self) -> list[LiveFile]:
        """Data files of the table before the commit, oldest first."""
        if self._live is None:
            self._live = live_files(self._table.metadata, self._io, self._uri)
        return self._live

    def files_with(
        self, keys: pa.Table, current: str | None = None, among: Sequence[LiveFile] | None = None
    ) -> list[LiveFile]:
        """See `TableFiles`."""
        fields = {field.name: field for field in self._metadata.schema().fields}
        numbers = {
            name: fields[name].field_id
            for name in keys.column_names
            if isinstance(fields[name].field_type, (IntegerType, LongType))
        }

        def bounds(live: LiveFile, names: Sequence[str]) -> dict[str, tuple[int, int]]:
            found = {name: integer_bounds(live.file, numbers[name]) for name in names if name in numbers}
            return {name: pair for name, pair in found.items() if pair is not None}

        files = self.files() if among is None else among
        if current is not None:
            number = fields[current].field_id
            files = [live for live in files if (live.file.upper_bounds or {}).get(number) != _FALSE]
        return files_that_may_hold(files, bounds, keys)

    def name_of(self, file: LiveFile) -> str:
        """See `TableFiles`."""
        return file.file.file_path

    def size_of(self, file: LiveFile) -> int:
        """See `TableFiles`."""
        return file.file.file_size_in_bytes

    def key_deleted(self, file: LiveFile) -> Indices:
        """Numbers of the rows that equality delete files take out of a file, in any order."""
        return key_deleted_rows(self._metadata, self._io, file)

    def drop_key_deletes(self) -> None:
        """Take all equality delete files out of the table: their rows are marked, or left out, in every data file."""
        self._removed += key_delete_files(self._table.metadata, self._io)

    def write(self, rows: Iterable[pa.RecordBatch]) -> None:
        """See `TableFiles`."""
        for batch in prefetch(rows):
            self._files(has_identity(batch.schema)).write(pa.Table.from_batches([batch]))

    def feed(self, rows: pa.Table) -> None:
        """See `TableFiles`: nobody is told."""
        raise NotImplementedError("an Iceberg table has no feed of changed rows")

    def remove(self, file: LiveFile) -> None:
        """Take a file out of the table, and the delete files that are about it alone.

        One that was on its way into the table does not come.
        """
        if self._attached.pop(file.file.file_path, None) is not None:
            self._dropped.append(file.file.file_path)
            return
        self._removed += [file.file, *file.own_deletes]

    def mark(self, file: LiveFile, rows: Indices) -> None:
        """See `TableFiles`; a file without other rows goes."""
        if len(rows) == file.file.record_count:
            self.remove(file)
            return
        self._removed += file.own_deletes
        self._marked.append((file, rows))

    def rewrite(self, file: LiveFile, gone: Indices | None = None) -> None:
        """See `TableFiles`; *gone* None: the rows that are marked."""
        self.remove(file)
        self.write(self.reader.live_rows(file, self.schema, gone, identified=self.keeps_identity))

    def detach(
        self, superseded: Sequence[Superseded[LiveFile]], row_count: int, contradicted: Contradictions | None = None
    ) -> WrittenFiles[LiveFile]:
        """End the files, for another one to commit them; they stay."""
        added = tuple(LiveFile(file) for file in self._closed())
        self._is_kept = True
        return WrittenFiles(version_of(self._table), added, (), tuple(superseded), row_count, contradicted)

    def attach(self, written: WrittenFiles[LiveFile]) -> None:
        """Add files that another process has written to the commit."""
        self._attached |= {live.file.file_path: live.file for live in written.added}

    def prepare(self) -> None:
        """End all files that the commit brings."""
        self._added = [*self._closed(), *self._attached.values()]
        locations = load_location_provider(self._metadata.location, self._metadata.properties)
        if self._metadata.format_version >= VECTORS_FROM:
            vectors = IcebergVectorFile()
            for live, rows in self._marked:
                vectors.add(live.file, rows)
            self._deletes += vectors.write(self._io, locations)
            return
        with ThreadPoolExecutor(DELETES_AT_ONCE) as pool:
            waiting = [
                pool.submit(write_position_deletes, self._io, locations, live.file, rows) for live, rows in self._marked
            ]
        self._deletes += [future.result() for future in waiting if future.exception() is None]
        for future in waiting:
            future.result()

    def _files(self, has_ids: bool) -> IcebergDataFiles:
        if has_ids not in self._new:
            self._new[has_ids] = IcebergDataFiles(
                self._metadata, self._io, file_size=self._file_size, keeps_identity=has_ids
            )
        return self._new[has_ids]

    def _closed(self) -> list[DataFile]:
        return [file for files in self._new.values() for file in files.close()]

    def commit(
        self,
        *,
        properties: Mapping[str, str] | None = None,
        cleared: tuple[str, ...] = (),
        summary: Mapping[str, str] | None = None,
        is_step: bool = False,
        is_blind: bool = False,
    ) -> Table:
        """Make it, after `prepare`.

        Args:
            cleared: Properties that go, where they are there.
            is_step: Whether it is a step; else the rows stay as they are.
            is_blind: Nothing was looked up for the rows that were written.

        Returns:
            The table after it.

        Raises:
            CommitFailedException: The table is not any more what it was; or nobody knows whether the commit was made.
        """
        self._is_kept = True  # from here on the commit knows what has to go
        table = IcebergCommit(
            properties=properties or {},
            cleared=cleared,
            schema=self._columns,
            removed=self._removed,
            added=[*self._added, *self._deletes],
            summary=summary or {},
            is_step=is_step,
            keeps_rows=not is_step,
            is_blind=is_blind,
        ).on(self._table)
        remove_files(self._io, self._dropped)
        return table


FORMAT_VERSION_MAX = 3
"""Written through REST catalogs alone."""


def version_of(table: Table) -> str | None:
    """The current snapshot; None: there is none."""
    snapshot = table.metadata.current_snapshot_id
    return None if snapshot is None else str(snapshot)


def checked_write(table: Table, uri: str, *, file_size: int, columns: Schema | None) -> IcebergTableWrite:
    """Begin a commit into *table*, which must have nothing that is not written correctly here.

    Args:
        file_size: Bytes of a data file.
        columns: New columns; None: as they are.
    """
    require_writable(table, uri)
    if columns is not None:
        require_kept_columns(table, columns, uri)
    return IcebergTableWrite(table, uri, file_size=file_size, columns=columns)


def require_writable(table: Table, uri: str) -> None:
    """See that rows can be added to the table."""
    for feature, way in _features(table):
        raise refused(uri, feature, way)


def require_upgradable(table: Table, uri: str) -> None:
    """See that the table can be one of version 3 (`TABLE_FEATURE`: it cannot)."""
    if table.metadata.format_version < POSITION_DELETES_FROM:
        way = "Upgrade it to version 2 (ALTER TABLE ... SET TBLPROPERTIES ('format-version' = '2'))"
        raise refused(uri, f"format version {table.metadata.format_version}", way)
    if (taken := _taken_names(table)) is not None:
        raise refused(uri, *taken)


def _taken_names(table: Table) -> tuple[str, str] | None:
    own = [field.name for field in IDENTITY_FIELDS if field.name in table.schema().column_names]
    way = "Rename them (ALTER TABLE ... RENAME COLUMN)"
    return (f"columns with Iceberg's own names: {', '.join(own)}", way) if own else None


def require_kept_columns(table: Table, schema: Schema, uri: str) -> None:
    """See that no column goes that the table's partitions or its sort order name."""
    kept = {field.field_id for field in schema.fields}
    for field in table.sort_order().fields:
        if field.source_id not in kept:
            name = table.schema().find_column_name(field.source_id)
            way = "Take the sort order away (ALTER TABLE ... WRITE UNORDERED)"
            raise refused(uri, f"a sort order by {name}, which changes", way)
    for partition in table.spec().fields:
        if partition.source_id not in kept:
            way = f"Drop the partition field (ALTER TABLE ... DROP PARTITION FIELD {partition.name})"
            name = table.schema().find_column_name(partition.source_id)
            raise refused(uri, f"partitions by {name}, which changes", way)


def _features(table: Table) -> Iterator[tuple[str, str]]:
    version = table.metadata.format_version
    if version > FORMAT_VERSION_MAX:
        yield f"format version {version}", "Let this job make the table anew"
    elif version == FORMAT_VERSION_MAX and not isinstance(table.catalog, RestCatalog):
        # Other catalogs leave it to pyiceberg to write the table's metadata, which it does up to version 2.
        yield f"format version {version}", "Keep it in a REST catalog, or let this job make the table anew"
    elif version == FORMAT_VERSION_MAX and (taken := _taken_names(table)) is not None:
        yield taken
    unknown = [field.name for field in table.spec().fields if isinstance(field.transform, UnknownTransform)]
    if unknown:
        yield f"partitions by {', '.join(unknown)}", "Drop the partition fields (ALTER TABLE ... DROP PARTITION FIELD)"
    kind = table.properties.get(TableProperties.WRITE_FILE_FORMAT, TableProperties.WRITE_FILE_FORMAT_DEFAULT)
    if kind != TableProperties.WRITE_FILE_FORMAT_DEFAULT:
        yield f"files in {kind}", f"Set the table property {TableProperties.WRITE_FILE_FORMAT} to parquet"
