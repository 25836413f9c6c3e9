"""Delta tables in shape, now and then: `maintain` joins small files, purges marked rows, and removes old files.

Features of new tables, for a table that is there: `table_upgrade` makes the actions of one commit.

It leaves the content of the table as it is, so it needs no application transaction: a kill in between costs nothing but
the work.
"""

from __future__ import annotations

import dataclasses
import re
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError
from msgspec.structs import replace

from binlog_format.errors import TableError
from binlog_streaming.lake.commit_id import MODE_PROPERTY
from binlog_streaming.lake.delta.actions import milliseconds, statistics_of, statistics_text
from binlog_streaming.lake.delta.checkpoints import (
    LAST_CHECKPOINT,
    LOG_FOLDER,
    checkpoint_version,
    commit_name,
    write_checkpoint,
)
from binlog_streaming.lake.delta.commit import DeltaTableWrite
from binlog_streaming.lake.delta.features import MANAGED, VECTORS, features, named_features, with_properties
from binlog_streaming.lake.delta.file_reader import DeltaFileReader
from binlog_streaming.lake.delta.iceberg_compat import forbids_vectors
from binlog_streaming.lake.delta.log import learn_checkpoint, newest_checkpoint
from binlog_streaming.lake.delta.managed_store import ManagedStore
from binlog_streaming.lake.delta.mapping import ROW_ID_FEATURES, row_id_properties, with_row_ids
from binlog_streaming.lake.delta.vectors import ENABLED, VECTOR_FILE, vector_file
from binlog_streaming.lake.target import JOINED_MAX, Upgrade, to_be_joined
from binlog_streaming.settings import Merge, Mode

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from binlog_streaming.lake.delta.actions import Add, Remove
    from binlog_streaming.lake.delta.log import Named, TableLog
    from binlog_streaming.lake.store import Store
    from binlog_streaming.settings import Sink


CHECKPOINT_EVERY = 16
"""Commits from one checkpoint to the next: who opens the table reads no more than these."""

CHECKPOINT_FILES = 2048
"""A checkpoint with more files, those that were replaced included, is worth a commit more for each of so many."""

MANAGED_CHECKPOINT_EVERY, MANAGED_CHECKPOINT_FILES = 128, 64
"""The same of tables that a catalog manages: the job must not remove older checkpoints there."""

CHECKPOINT_AGE_S = 60
"""A checkpoint that has a newer one stays for so long: readers may be about to read it."""

CHECKPOINT_READ_RATE = 100_000
"""Bytes of a checkpoint for which it stays a second longer."""

CHECKPOINT_BLOCK = 1024
"""One checkpoint stays for this many versions, for readers of older versions and for the removal of old commits."""

LOG_AGE_MIN_H = 24
"""A commit stays in the log for a day at least: who reads a table commit by commit may stop for a night."""

VACUUM_EVERY = 128
"""Commits between two removals of replaced files, which come with the first checkpoint after so many."""

MARKED_SHARE_MAX = 1 / 3
"""Share of a file's rows that are marked before the file is rewritten without them; readers open and skip them until
then.

Small files are taken together: they are written into one when that share of the rows of all of them is marked.
"""

CHURNED_SHARE_MAX = 2 / 3
"""The same of files that churn: most of the rows that were written would be marked by the next commits."""

CHURN_SHARE = 1 / 6
"""Share of a file's rows that one commit marks: then the file churns."""

CHURN_S = 60
"""Seconds for which a file churns after such a commit; then it counts as others do."""

ORPHAN_AGE_S = 86_400
"""A file that the log does not name may be of a commit that is being made; after that time it is of none."""

_DATA_FILE = re.compile(r"(?:.*/)?(?:part|cdc)-[0-9]{5}-[0-9a-f-]{36}[^/]*\.parquet")


def maintain(store: Store, log: TableLog, sink: Sink) -> None:
    """Do the maintenance that is due; *log* is the newest version then.

    Tables that a catalog manages it maintains itself; what others may do there are checkpoints of published versions.
    """
    if MANAGED in (log.protocol.writer_features or ()):
        if isinstance(store, ManagedStore) and store.is_published(log.version):
            checkpoint(store, log, sink)
        return
    # Whoever commits at the same time is welcome; the next look comes with the next commit.
    with suppress(CommitFailedError):
        rewrite(store, log, file_size=sink.target_file_size)
    before = checkpoint(store, log, sink)
    is_protected = "checkpointProtection" in (log.protocol.writer_features or ())
    is_due = max(before, 0) // VACUUM_EVERY < log.checkpoint // VACUUM_EVERY
    if before < log.checkpoint and not is_protected:
        remove_checkpoints(store, log, since=0 if is_due else log.checkpoint - CHECKPOINT_BLOCK)
    if is_due:
        vacuum(store, log, retention_hours=sink.retention_hours)
        if not is_protected:
            DeltaTable(store.uri, storage_options=dict(sink.storage)).cleanup_metadata()


def retention_properties(hours: float) -> dict[str, str]:
    """Properties of a table of which older versions can be read for *hours*; its log is of no use after that time."""
    return {
        "delta.deletedFileRetentionDuration": f"interval {round(hours * 3600)} seconds",
        "delta.logRetentionDuration": f"interval {round(max(hours, LOG_AGE_MIN_H) * 3600)} seconds",
    }


def checkpoint(store: Store, log: TableLog, sink: Sink) -> int:
    """Make a checkpoint, if it is time for one; *log* is the newest version then.

    Returns:
        Version of the checkpoint before it, or of the newest one if none was made.
    """
    is_managed = isinstance(store, ManagedStore)
    every, files = CHECKPOINT_EVERY, CHECKPOINT_FILES
    if is_managed:
        every, files = MANAGED_CHECKPOINT_EVERY, MANAGED_CHECKPOINT_FILES
    every += (len(log.files) + len(log.removed)) // files
    if log.unreadable:
        store.remove(LAST_CHECKPOINT)  # first: readers do not look for another one than it names
    for name in log.unreadable:
        store.remove(name)
    if log.version - log.checkpoint < every and not log.unreadable:
        return log.checkpoint
    newest = newest_checkpoint(store, log)  # several processes write the table in turn, and each has its own look
    if log.version - newest < every and not log.unreadable:
        learn_checkpoint(store, log, newest)
        return newest
    if is_managed:
        write_checkpoint(store, log)
    else:
        DeltaTable(store.uri, storage_options=dict(sink.storage), version=log.version).create_checkpoint()
        store.sync(f"{commit_name(log.version).removesuffix('.json')}.checkpoint.parquet")
        store.sync(LAST_CHECKPOINT)
    learn_checkpoint(store, log, log.version)
    return newest


def remove_checkpoints(store: Store, log: TableLog, *, since: int = 0) -> None:
    """Remove checkpoints that have newer ones: each has all files that were replaced within the retention.

    Args:
        since: Version; those in blocks before it are left.
    """
    kept: dict[int, int] = {}
    first = max(since, 0) // CHECKPOINT_BLOCK * CHECKPOINT_BLOCK
    for file in store.files(LOG_FOLDER, after=commit_name(first).removesuffix(".json")):
        version = checkpoint_version(file.name)
        if version is None or version >= log.checkpoint:
            continue
        is_first = kept.setdefault(version // CHECKPOINT_BLOCK, version) == version
        if not is_first and time.time() - file.modified > CHECKPOINT_AGE_S + file.size / CHECKPOINT_READ_RATE:
            store.remove(file.name)


def rewrite(store: Store, log: TableLog, *, file_size: int) -> None:
    """Write those files anew that are small and many, or of which too many rows are marked, as many as go at once.

    Raises:
        CommitFailedError: Somebody else committed in the meantime.
    """
    large = [add for add in log.files.values() if add.size >= file_size // 4]
    small = [add for add in log.files.values() if add.size < file_size // 4]
    marks = Marks(store, log)
    chosen = worth_purging(large, marks, size_max=JOINED_MAX * file_size)
    is_much_marked = len(small) > 1 and marks.are_too_many(small)
    chosen += small if is_much_marked else worth_joining(small, file_size=file_size)
    if not chosen:
        return
    with DeltaTableWrite(store, log, file_size=file_size, data_change=False) as write:
        for add in chosen:
            write.rewrite(add)
        write.commit("OPTIMIZE")


def worth_joining(files: Iterable[Add], *, file_size: int) -> list[Add]:
    """Small files that are joined, with others of their partition."""
    partitions: dict[tuple[str | None, ...], list[Add]] = {}
    for add in files:
        partitions.setdefault(tuple(add.partition_values.values()), []).append(add)
    return [
        add for part in partitions.values() for add in to_be_joined(part, lambda add: add.size, file_size=file_size)
    ]


def worth_purging(files: Iterable[Add], marks: Marks, *, size_max: int) -> list[Add]:
    """Files of which too many rows are marked, worst first, up to *size_max* bytes together, one at least."""
    ripe = [add for add in files if marks.are_too_many([add])]
    chosen: list[Add] = []
    for add in sorted(ripe, key=marks.share, reverse=True):
        size_max -= add.size
        if chosen and size_max < 0:
            break
        chosen.append(add)
    return chosen


class Marks:
    """Number of marked rows in the files of a table."""

    def __init__(self, store: Store, log: TableLog) -> None:
        self._reader = DeltaFileReader(store)
        self._log = log
        self._last: dict[str, tuple[int, int]] | None = None

    def share(self, add: Add) -> float:
        """Marked share of a file's rows."""
        return _marked(add) / max(self._reader.row_count(add), 1)

    def are_too_many(self, files: Sequence[Add]) -> bool:
        """True if *files* are to be rewritten."""
        marked = sum(map(_marked, files))
        if marked == 0:
            return False  # without a look at each file's facts
        count = sum(self._reader.row_count(add) for add in files)
        if not MARKED_SHARE_MAX * count < marked <= CHURNED_SHARE_MAX * count:
            return marked > MARKED_SHARE_MAX * count
        return sum(map(self._last_marked, files)) < CHURN_SHARE * count

    def _last_marked(self, add: Add) -> int:
        """Rows that were marked when the file was marked last; 0 where that is longer ago than `CHURN_S`."""
        if self._last is None:
            self._last = {}
            for old in self._log.removed.values():
                self._last[old.path] = max(
                    self._last.get(old.path, (0, 0)), (old.deletion_timestamp or 0, _marked(old))
                )
        replaced_at, before = self._last.get(add.path, (0, 0))
        return _marked(add) - before if milliseconds() - replaced_at < CHURN_S * 1000 else 0


def _marked(action: Add | Remove) -> int:
    return 0 if action.deletion_vector is None else action.deletion_vector.cardinality


def vacuum(store: Store, log: TableLog, *, retention_hours: float) -> list[str]:
    """Remove files of rows and of vectors that the table does not have, nor had within the retention.

    Files that nothing in the log names may be of a commit that is being made, or of another writer's; they go later.

    Returns:
        What was removed.
    """
    since = milliseconds() - retention_hours * 3_600_000
    recent = [old for old in log.removed.values() if (old.deletion_timestamp or 0) > since]
    needed = {name for add in log.files.values() for name in _files_of(store, add)}
    needed.update(name for old in recent for name in _files_of(store, old))
    known = {name for old in log.removed.values() for name in _files_of(store, old)}
    removed = []
    files = list(store.files())
    # Another table may lie within this one's place.
    others = {name.rpartition(f"/{LOG_FOLDER}/")[0] for file in files if f"/{LOG_FOLDER}/" in (name := file.name)}
    for file in files:
        if any(file.name.startswith(f"{other}/") for other in others):
            continue
        is_ours = VECTOR_FILE.fullmatch(file.name.rpartition("/")[2]) or _DATA_FILE.fullmatch(file.name)
        if not is_ours or file.name in needed:
            continue
        if file.name in known or time.time() - file.modified > max(retention_hours * 3600, ORPHAN_AGE_S):
            store.remove(file.name)
            removed.append(file.name)
    return removed


def _files_of(store: Store, action: Add | Remove) -> Iterator[str]:
    yield action.place
    if action.deletion_vector is not None:
        name = vector_file(store, action.deletion_vector)
        if name is not None:
            yield name


_NOBODY = "nobody; programs that write the table have to know the feature"
_WITHOUT_VECTORS = (
    "readers without deletion vectors: deltalake's to_pyarrow_table and to_pandas; its count counts all rows"
)


def table_upgrade(uri: str, store: Store, log: TableLog, sink: Sink) -> tuple[list[Upgrade], list[Named]]:
    """Features that a table gets, and the actions of the commit that turns them on."""
    configuration = log.metadata.configuration
    upgrades: list[Upgrade] = []
    readers, writers = features(log.protocol)
    retention = {} if MANAGED in writers else retention_properties(sink.retention_hours)  # it is the catalog's
    properties = {name: value for name, value in retention.items() if name not in configuration}
    upgrades += [Upgrade(f"{name} = {value}", "nobody") for name, value in properties.items()]
    if sink.row_ids and not log.metadata.keeps_row_ids:
        upgrades.append(Upgrade("rowTracking", _NOBODY))
        properties |= {name: configuration.get(name, value) for name, value in row_id_properties().items()}
        properties["delta.enableRowTracking"] = "true"
        writers.update(ROW_ID_FEATURES)
    is_changelog = configuration.get(MODE_PROPERTY) == Mode.CHANGELOG
    if sink.merge is Merge.MARK and not is_changelog and configuration.get(ENABLED) != "true":
        if forbids_vectors(log.metadata):
            raise TableError(
                "TABLE_FEATURE",
                f"{uri}: the table has Iceberg compatibility, which forbids {VECTORS}",
                hint='Leave merge = "mark" out of [sink]: the job rewrites files of this table',
            )
        upgrades.append(Upgrade(VECTORS, _WITHOUT_VECTORS))
        properties[ENABLED] = "true"
        readers.add(VECTORS)
        writers.add(VECTORS)
    if not upgrades:
        return [], []
    metadata = with_properties(log.metadata, properties)
    known = features(log.protocol)
    protocol = log.protocol if (readers, writers) == known else named_features(readers, writers)
    if not readers:
        protocol = replace(protocol, min_reader_version=log.protocol.min_reader_version, reader_features=None)
    actions: list[Named] = [("protocol", protocol)] if protocol != log.protocol else []
    actions.append(("metaData", metadata))
    if metadata.keeps_row_ids and not log.metadata.keeps_row_ids:
        actions += with_row_ids(
            dataclasses.replace(log, protocol=protocol, metadata=metadata), _without_ids(store, log)
        )
    return upgrades, actions


def _without_ids(store: Store, log: TableLog) -> list[Named]:
    # Files whose rows have no ids yet, as they are named again with them; ids need their counts.
    reader = DeltaFileReader(store)
    files = [add for add in log.files.values() if add.base_row_id is None]
    counted = [(add, {**statistics_of(add), "numRecords": reader.row_count(add)}) for add in files]
    return [("add", replace(add, stats=statistics_text(known), data_change=False)) for add, known in counted]
