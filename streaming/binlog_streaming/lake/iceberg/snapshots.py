"""Snapshots of an Iceberg table, ours and those of others: `has_snapshot`, and `follows` for a commit behind them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.table.snapshots import Operation

from binlog_streaming.lake.iceberg.manifests import file_id, live_entries, manifests_of
from binlog_streaming.lake.iceberg.table_files import referenced_file

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata


def has_snapshot(metadata: TableMetadata, named: str | None) -> bool:
    """True if a snapshot is the current one or before it, as far as snapshots reach back."""
    parents = {snapshot.snapshot_id: snapshot.parent_snapshot_id for snapshot in metadata.snapshots}
    if named is None or int(named) not in parents:
        return True
    number = metadata.current_snapshot_id
    while number is not None and number != int(named):
        number = parents.get(number)
    return number is not None


def sequence_number(table: Table) -> int:
    """Number of the current snapshot; 0 while there is none."""
    snapshot = table.current_snapshot()
    return 0 if snapshot is None else snapshot.sequence_number or 0


def follows(
    before: TableMetadata, now: Table, removed: Iterable[DataFile], added: Iterable[DataFile], *, is_append: bool
) -> bool:
    """True if a commit that was made for a table as it was *before* means the same behind what others did since.

    They may have put rows into other files, but not those of files that the commit removes or marks.

    Args:
        is_append: The commit only adds rows, for which nothing was looked up: others may have changed rows, too.
    """
    if not _has_same_columns(before, now.metadata):
        return False
    number = now.metadata.current_snapshot_id
    while number != before.current_snapshot_id:
        snapshot = None if number is None else now.snapshot_by_id(number)
        if snapshot is None or snapshot.summary is None:
            return False
        if not is_append and snapshot.summary.operation is not Operation.REPLACE:
            return False
        number = snapshot.parent_snapshot_id
    return is_append or _has_files(now, {file_id(file) for file in removed}, set(map(referenced_file, added)) - {None})


def _has_same_columns(before: TableMetadata, now: TableMetadata) -> bool:
    # And the same properties, which name our last step.
    return all(
        getattr(before, name) == getattr(now, name)
        for name in ("table_uuid", "format_version", "current_schema_id", "default_spec_id", "properties")
    )


def _has_files(table: Table, removed: set[tuple[str, int | None]], marked: set[str | None]) -> bool:
    # A file that is marked may have no delete file of others: there may be only one vector of it.
    there = {
        file_id(entry.data_file): referenced_file(entry.data_file)
        for manifest in manifests_of(table.metadata, table.io)
        for entry in live_entries(table.io, manifest)
    }
    others = {path for file, path in there.items() if file not in removed}
    return removed <= there.keys() and {(path, None) for path in marked} <= there.keys() and marked.isdisjoint(others)
