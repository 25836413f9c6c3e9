"""What the tests of Iceberg tables share: a table looked at with a catalog of its own, and delete files in it."""

from __future__ import annotations

from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

import numpy as np
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.manifest import DataFileContent, FileFormat
from pyiceberg.table.locations import load_location_provider

from binlog_streaming.lake.iceberg.commit import IcebergCommit
from binlog_streaming.lake.iceberg.manifests import REFERENCED_FILE, new_file
from binlog_streaming.lake.iceberg.table_files import live_files, write_position_deletes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

    from tests.streaming.tables.lake.sink_cases import Place


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


def delete_row(place: Place, row: int, *, by_key: bool = False, is_for_all: bool = False) -> None:
    """Delete a row of the table's oldest file, as other writers may do it.

    Args:
        place: The table.
        row: Its number.
        by_key: With an equality delete file.
        is_for_all: With a position delete file that says nowhere which data file it is about.
    """
    with reader(place) as table:
        file = live_files(table.metadata, table.io, place.uri)[0].file
        deletes = write_position_deletes(
            table.io, load_location_provider(table.location(), table.properties), file, np.array([row])
        )
        if by_key:
            fields = {name: getattr(deletes, name) for name in ("file_path", "record_count", "file_size_in_bytes")}
            content = DataFileContent.EQUALITY_DELETES
            deletes = new_file(
                file.spec_id,
                **fields,
                content=content,
                file_format=FileFormat.PARQUET,
                partition=file.partition,
                equality_ids=[1],
            )
        if is_for_all:
            deletes[REFERENCED_FILE] = None
            deletes.lower_bounds.clear()
            deletes.upper_bounds.clear()
        IcebergCommit(added=[deletes]).on(table)
