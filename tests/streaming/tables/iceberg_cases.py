"""What the tests of Iceberg tables share: a table looked at with a catalog of its own, and delete files in it."""

from __future__ import annotations

from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestWriterV2,
)
from pyiceberg.table import Transaction
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.update.snapshot import _FastAppendFiles
from pyiceberg.typedef import Record

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

    from tests.streaming.tables.sink_cases import Place


@contextmanager
def reader(place: Place) -> Iterator[Table]:
    """The table as any other program finds it."""
    uri = f"sqlite:///{place.directory}/iceberg-catalog.db"
    with closing(SqlCatalog("binlog_stream", uri=uri, warehouse=str(place.directory))) as catalog:
        yield catalog.load_table(tuple(place.name.split("/")))


def files_of(place: Place) -> set[str]:
    """Data files of the table."""
    with reader(place) as table:
        return {task.file.file_path for task in table.scan().plan_files()}


def snapshots_of(place: Place) -> list[Snapshot]:
    """Its snapshots, oldest first."""
    with reader(place) as table:
        return list(table.metadata.snapshots)


def said_by(snapshot: Snapshot) -> dict[str, str]:
    """Summary of a snapshot."""
    assert snapshot.summary is not None
    return dict(snapshot.summary.additional_properties)


def delete_row(place: Place, row: int) -> None:
    """Delete a row of the table's only file with a position delete file, as merge-on-read does."""
    with reader(place) as table:
        (task,) = table.scan().plan_files()
        path = f"{place.uri}/data/deletes.parquet"
        # The fields have these numbers in every table.
        fields = [("file_path", pa.string(), "2147483546"), ("pos", pa.int64(), "2147483545")]
        schema = pa.schema([pa.field(name, kind, False, {"PARQUET:field_id": field}) for name, kind, field in fields])
        pq.write_table(pa.Table.from_arrays([[task.file.file_path], [row]], schema=schema), path)
        transaction = Transaction(table)
        producer = _DeletesToo(Operation.APPEND, transaction, table.io)
        producer.delete_file = DataFile.from_args(
            content=DataFileContent.POSITION_DELETES,
            file_path=path,
            file_format=FileFormat.PARQUET,
            partition=Record(),
            record_count=1,
            file_size_in_bytes=len(table.io.new_input(path)),
            spec_id=table.spec().spec_id,
        )
        producer.commit()
        transaction.commit_transaction()


class _DeleteWriter(ManifestWriterV2):
    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}


class _DeletesToo(_FastAppendFiles):
    delete_file: DataFile

    def _manifests(self) -> list[ManifestFile]:
        spec = self._transaction.table_metadata.spec()
        output = self.new_manifest_output()
        with _DeleteWriter(spec, self.schema(), output, self.snapshot_id, self._compression) as writer:
            entry = ManifestEntry.from_args(
                status=ManifestEntryStatus.ADDED, snapshot_id=self.snapshot_id, data_file=self.delete_file
            )
            writer.add(entry)
        return [*self._existing_manifests(), writer.to_manifest_file()]
