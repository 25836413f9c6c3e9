"""What the tests of Iceberg tables share: a table looked at with a catalog of its own, and delete files in it."""

from __future__ import annotations

import uuid
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.manifest import DataFileContent, FileFormat
from pyiceberg.table.locations import load_location_provider
from pyiceberg.typedef import Record

from binlog_streaming.lake.iceberg.commit import IcebergCommit
from binlog_streaming.lake.iceberg.data_files import IcebergDataFiles
from binlog_streaming.lake.iceberg.manifests import REFERENCED_FILE, new_file
from binlog_streaming.lake.iceberg.table_files import live_files, write_position_deletes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

    from tests.streaming.tables.lake.sink_cases import Place


EMPTY = Record()
"""Partition of all files of a table without partitions."""


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


def delete_row(place: Place, row: int, *, is_for_all: bool = False) -> None:
    """Delete a row of the table's oldest file, as other writers may do it.

    Args:
        is_for_all: With a position delete file that says nowhere which data file it is about.
    """
    with reader(place) as table:
        file = live_files(table.metadata, table.io, place.uri)[0].file
        deletes = write_position_deletes(
            table.io, load_location_provider(table.location(), table.properties), file, np.array([row])
        )
        if is_for_all:
            deletes[REFERENCED_FILE] = None
            deletes.lower_bounds.clear()
            deletes.upper_bounds.clear()
        IcebergCommit(added=[deletes]).on(table)


def upsert(place: Place, rows: pa.Table, *keys: pa.Table, partition: Record = EMPTY) -> None:
    """Rows and equality deletes by one commit, as Flink writes them: the deletes are about rows from before it.

    Args:
        keys: For each a delete file, by its columns.
    """
    with reader(place) as table:
        files = IcebergDataFiles(table.metadata, table.io, file_size=1 << 20)
        files.write(rows)
        deletes = [key_delete_file(table, some, partition) for some in keys]
        IcebergCommit(added=[*files.close(), *deletes]).on(table)


def key_delete_file(table: Table, keys: pa.Table, partition: Record = EMPTY) -> DataFile:
    """An equality delete file by the columns of *keys*, written to the specification."""
    fields = [table.schema().find_field(name) for name in keys.column_names]
    kind = pa.schema(
        pa.field(field.name, column.type, metadata={"PARQUET:field_id": str(field.field_id)})
        for field, column in zip(fields, keys.columns, strict=True)
    )
    path = f"{table.location()}/data/{uuid.uuid4()}-deletes.parquet"
    with table.io.new_output(path).create() as stream:
        pq.write_table(keys.cast(kind), stream, store_schema=False)
    return new_file(
        table.metadata.default_spec_id,
        content=DataFileContent.EQUALITY_DELETES,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=partition,
        record_count=len(keys),
        file_size_in_bytes=len(table.io.new_input(path)),
        equality_ids=[field.field_id for field in fields],
    )
