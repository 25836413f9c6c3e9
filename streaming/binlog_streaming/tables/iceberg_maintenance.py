"""Old snapshots and files of Iceberg tables: `expire`, called behind a commit, does something only now and then."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlparse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

EXPIRE_EVERY = 128
"""Commits between two removals of snapshots and files."""

SNAPSHOTS_MAX = 256
"""Snapshots that stay, at most: every commit writes all of them again, into the table's metadata."""

UNREFERENCED_S = 3600.0
"""How old a file is at least that nobody refers to and is removed; a younger one may be of a commit that is running."""


def expire(table: Table, *, retention_hours: float) -> None:
    """Forget snapshots beyond the retention and beyond `SNAPSHOTS_MAX`, and remove files that no snapshot names.

    So a reader of an older version has the retention, or as long as `SNAPSHOTS_MAX` commits take, if that is less.

    Raises:
        CommitFailedException: Somebody else committed meanwhile.
    """
    current = table.current_snapshot()
    if current is None or (current.sequence_number or 0) % EXPIRE_EVERY != EXPIRE_EVERY - 1:
        return
    now = time.time()
    snapshots = sorted(table.metadata.snapshots, key=lambda snapshot: snapshot.sequence_number or 0, reverse=True)
    oldest_ms = (now - retention_hours * 3600) * 1000
    named = {ref.snapshot_id for ref in table.metadata.refs.values()}
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
    # By name, which has a UUID in it: one path can be written in several ways, and what is kept must not hang on that.
    kept = {file.rpartition("/")[2] for file in named}
    for path in (*folder.glob("data/**/*.parquet"), *folder.glob("metadata/*.avro")):
        if path.name not in kept and path.stat().st_mtime < before:
            path.unlink(missing_ok=True)


def _files(table: Table, snapshot: Snapshot) -> Iterator[str]:
    yield snapshot.manifest_list
    for manifest in snapshot.manifests(table.io):
        yield manifest.manifest_path
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True):
            yield entry.data_file.file_path
