"""Small files, old snapshots and old files of Iceberg tables: `maintain`, after a commit, works only now and then.

All of it leaves the rows as they are and counts as no step: a kill in between costs nothing but the work.
"""

from __future__ import annotations

import time
from collections import defaultdict
from contextlib import suppress
from typing import TYPE_CHECKING

from pyarrow.fs import FileSelector, FileType
from pyiceberg.io.pyarrow import PyArrowFileIO

from binlog_format.errors import TableError
from binlog_streaming.lake.iceberg.commit import SNAPSHOT_PROPERTY
from binlog_streaming.lake.iceberg.manifests import read_entries, read_list
from binlog_streaming.lake.iceberg.snapshots import sequence_number
from binlog_streaming.lake.iceberg.table_write import IcebergTableWrite
from binlog_streaming.lake.target import JOINED_MAX, to_be_joined

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

    from binlog_format.kernels import Indices
    from binlog_streaming.lake.iceberg.table_files import LiveFile

MARKED_SHARE_MAX = 1 / 3
"""Share of a file's rows that are marked before the file is rewritten without them; readers open and skip them until
then."""

COMPACT_EVERY = 16
"""Snapshots between two looks at the sizes of files."""

EXPIRE_EVERY = 64
"""Snapshots between two removals of snapshots and files."""

SNAPSHOTS_MAX = 128
"""Snapshots that stay, at most: every commit writes all of them again, into the table's metadata."""

UNREFERENCED_S = 3600.0
"""Lowest age of a removed file without references; a younger one may be of a commit that is running."""


_ENDINGS = {"data": (".parquet", ".puffin"), "metadata": (".avro", ".metadata.json")}
"""Endings of files that may be removed, in the folders of a table."""


def maintain(table: Table, uri: str, *, since: int, file_size: int, retention_hours: float) -> Table:
    """Do the maintenance that is due.

    Args:
        since: `sequence_number` of the table when this was called the last time, or when it was looked at.
        file_size: Files far below it are joined, when there are many.
        retention_hours: How long readers of old versions have.

    Returns:
        The table after it.

    Raises:
        CommitFailedException: Somebody else committed meanwhile.
    """
    now = sequence_number(table)
    if now // COMPACT_EVERY > since // COMPACT_EVERY:
        table = compact(table, uri, file_size=file_size)
    if now // EXPIRE_EVERY > since // EXPIRE_EVERY:
        expire(table, retention_hours=retention_hours)
    return table


def is_due(since: int, now: int) -> bool:
    """True if `maintain` has something to do at a sequence number."""
    return any(now // every > since // every for every in (COMPACT_EVERY, EXPIRE_EVERY))


def compact(table: Table, uri: str, *, file_size: int) -> Table:
    """Write those files anew that are small and many, or of which too many rows are marked, as many as go at once.

    Rows keep their numbers (version 3). Not those that something of somebody else is in the way of. Equality delete
    files of others go: the rows that they take out are marked, or left out.
    """
    with IcebergTableWrite(table, uri, file_size=file_size) as write:
        try:
            files = write.files()
        except TableError:
            return table
        by_key = {live.file.file_path: write.key_deleted(live) for live in files if live.key_deletes}
        chosen = _worth_rewriting(files, by_key, file_size)
        for live in chosen:
            write.rewrite(live)
        rewritten = {live.file.file_path for live in chosen}
        for live in files:
            if live.file.file_path not in rewritten and len(by_key.get(live.file.file_path, ())):
                write.mark(live, write.reader.marked(live))
        write.drop_key_deletes()
        if write.is_empty:
            return table
        write.prepare()
        return write.commit()


def _worth_rewriting(files: Sequence[LiveFile], by_key: Mapping[str, Indices], file_size: int) -> list[LiveFile]:
    def size(live: LiveFile) -> int:
        return live.file.file_size_in_bytes

    def marked_share(live: LiveFile) -> float:
        return live.marked_share + len(by_key.get(live.file.file_path, ())) / max(live.file.record_count, 1)

    left = JOINED_MAX * file_size
    chosen: list[LiveFile] = []
    for live in sorted(files, key=lambda live: -marked_share(live)):
        left -= size(live)
        if marked_share(live) <= MARKED_SHARE_MAX or (chosen and left < 0):
            break
        chosen.append(live)
    paths = {live.file.file_path for live in chosen}
    partitions: dict[str, list[LiveFile]] = defaultdict(list)
    for live in files:
        if live.file.file_path not in paths:
            partitions[f"{live.file.spec_id}{live.file.partition!r}"].append(live)
    for some in partitions.values():
        chosen += to_be_joined(some, size, file_size=file_size)
    return chosen


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
    io = table.io
    if not isinstance(io, PyArrowFileIO):
        return  # others do not list their files
    named = [file for snapshot in table.metadata.snapshots for file in _files(table, snapshot)]
    named += [table.metadata_location, *(entry.metadata_file for entry in table.metadata.metadata_log)]
    # By name, which has a UUID in it: one path can be written in several ways, and what is kept must not hang on that.
    kept = {file.rpartition("/")[2] for file in named}
    scheme, host, folder = io.parse_location(table.location(), io.properties)
    files = io.fs_by_scheme(scheme, host)
    for part, endings in _ENDINGS.items():
        for found in files.get_file_info(FileSelector(f"{folder}/{part}", allow_not_found=True, recursive=True)):
            is_ours = found.type == FileType.File and found.base_name.endswith(endings)
            if is_ours and found.base_name not in kept and found.mtime_ns / 1e9 < before:
                with suppress(FileNotFoundError):
                    files.delete_file(found.path)


def _files(table: Table, snapshot: Snapshot) -> Iterator[str]:
    yield snapshot.manifest_list
    for manifest in read_list(table.io, snapshot.manifest_list):
        yield manifest.manifest_path
        for entry in read_entries(table.io, manifest):
            yield entry.data_file.file_path
