"""Small files, old snapshots and old files of Iceberg tables: `maintain`, behind a commit, works only now and then.

All of it leaves the rows as they are and counts as no step: a kill in between costs nothing but the work.
"""

from __future__ import annotations

import time
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlparse

from binlog_format.errors import TableError
from binlog_streaming.lake.iceberg.commit import SNAPSHOT_PROPERTY, Commit
from binlog_streaming.lake.iceberg.features import plain_files
from binlog_streaming.lake.iceberg.files import file_size_of, rows_of, write_files
from binlog_streaming.lake.small_files import to_be_joined

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

COMPACT_EVERY = 16
"""Snapshots between two looks at the sizes of files."""

EXPIRE_EVERY = 64
"""Snapshots between two removals of snapshots and files."""

SNAPSHOTS_MAX = 128
"""Snapshots that stay, at most: every commit writes all of them again, into the table's metadata."""

UNREFERENCED_S = 3600.0
"""How old a file is at least that nobody refers to and is removed; a younger one may be of a commit that is running."""


def maintain(table: Table, uri: str, *, since: int, file_size: int, retention_hours: float) -> Table:
    """Do what is due.

    Args:
        table: The table behind the last commit.
        uri: For messages.
        since: Its `sequence_number` when this was called the last time, or when it was looked at.
        file_size: Files far below it are joined, when there are many.
        retention_hours: How long readers of old versions have.

    Returns:
        The table behind it.

    Raises:
        CommitFailedException: Somebody else committed meanwhile.
    """
    now = sequence_number(table)
    if now // COMPACT_EVERY > since // COMPACT_EVERY:
        table = compact(table, uri, file_size=file_size)
    if now // EXPIRE_EVERY > since // EXPIRE_EVERY:
        expire(table, retention_hours=retention_hours)
    return table


def sequence_number(table: Table) -> int:
    """Number of the current snapshot; 0 while there is none."""
    snapshot = table.current_snapshot()
    return 0 if snapshot is None else snapshot.sequence_number or 0


def compact(table: Table, uri: str, *, file_size: int) -> Table:
    """Join small files, where there are many of about one size, and nothing of somebody else is in the way."""
    metadata, io = table.metadata, table.io
    try:
        small = to_be_joined(plain_files(table, uri), file_size_of, file_size=file_size)
    except TableError:
        return table
    if not small:
        return table
    rows = chain.from_iterable(rows_of(metadata, io, file) for file in small)
    joined = write_files(metadata, io, rows, file_size=file_size)
    return Commit(replaced=small, added=joined, keeps_rows=True).on(table)


def expire(table: Table, *, retention_hours: float) -> None:
    """Forget snapshots beyond the retention and beyond `SNAPSHOTS_MAX`, and remove files that no snapshot names.

    So a reader of an older version has the retention, or as long as `SNAPSHOTS_MAX` commits take, if that is less.
    """
    now = time.time()
    snapshots = sorted(table.metadata.snapshots, key=lambda snapshot: snapshot.sequence_number or 0, reverse=True)
    oldest_ms = (now - retention_hours * 3600) * 1000
    named = {ref.snapshot_id for ref in table.metadata.refs.values()}
    named.add(int(table.properties.get(SNAPSHOT_PROPERTY, 0)))  # it tells whether the table was set back
    old = [
        snapshot.snapshot_id
        for number, snapshot in enumerate(snapshots)
        if snapshot.snapshot_id not in named and (number >= SNAPSHOTS_MAX or snapshot.timestamp_ms < oldest_ms)
    ]
    if old:
        table.maintenance.expire_snapshots().by_ids(old).commit()
        table.refresh()
    _remove_files(table, before=now - UNREFERENCED_S)


def _remove_files(table: Table, *, before: float) -> None:
    folder = Path(urlparse(table.location()).path)
    named = [file for snapshot in table.metadata.snapshots for file in _files(table, snapshot)]
    named += [table.metadata_location, *(entry.metadata_file for entry in table.metadata.metadata_log)]
    # By name, which has a UUID in it: one path can be written in several ways, and what is kept must not hang on that.
    kept = {file.rpartition("/")[2] for file in named}
    for pattern in ("data/**/*.parquet", "metadata/*.avro", "metadata/*.metadata.json"):
        for path in folder.glob(pattern):
            if path.name not in kept and path.stat().st_mtime < before:
                path.unlink(missing_ok=True)


def _files(table: Table, snapshot: Snapshot) -> Iterator[str]:
    yield snapshot.manifest_list
    for manifest in snapshot.manifests(table.io):
        yield manifest.manifest_path
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True):
            yield entry.data_file.file_path
