"""Tables with deletion vectors, now and then: `keep_in_shape` writes checkpoints, purges files, and removes vectors.

deltalake joins small files, vectors and all, and removes data files that were replaced; files of vectors it leaves.
"""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from deltalake.exceptions import CommitFailedError

from binlog_streaming.lake.delta.data_files import DataFiles, recorded_count, row_count, rows_at
from binlog_streaming.lake.delta.log import milliseconds, read_log
from binlog_streaming.lake.delta.merge_on_read import information, make_commit, markable_log
from binlog_streaming.lake.delta.vectors import VECTOR_FILE, read_vector, vector_path

if TYPE_CHECKING:
    from collections.abc import Iterable

    from deltalake import DeltaTable

    from binlog_streaming.lake.delta.log import Add, TableLog

CHECKPOINT_EVERY = 16
"""Commits from one checkpoint to the next: each names every file that it marked rows of."""

MARKED_SHARE_MAX = 1 / 3
"""Of a file's rows, before it is written anew without them; readers open and skip them until then.

Small files are not: where there are many of them, deltalake joins them, and leaves the marked rows out.
"""

PURGED_FILES_MAX = 4
"""Files written anew at once, in sizes of a whole one, so that no batch has to wait for a whole table."""

ORPHAN_AGE_S = 86_400
"""A file that the log does not name may be of a commit that is being made; after that time it is of none."""


def keep_in_shape(table: DeltaTable, folder: str, *, file_size: int) -> None:
    """Write a checkpoint, and write files anew of which too many rows are marked."""
    log = markable_log(folder, table.version())
    if log is None:
        return
    # Whoever commits at the same time is welcome; the next look comes with the next commit.
    with suppress(CommitFailedError):
        purge(table, folder, log, file_size=file_size)
    if table.version() - log.checkpoint >= CHECKPOINT_EVERY:
        table.create_checkpoint()


def purge(table: DeltaTable, folder: str, log: TableLog, *, file_size: int) -> None:
    """Write those files anew of which too many rows are marked, worst first, as many as go at once.

    It is no step: the rows stay as they are.

    Raises:
        CommitFailedError: Somebody else committed in the meantime.
    """
    large = [add for add in log.files.values() if add.size >= file_size // 4]
    chosen = worth_purging(folder, large, size_max=PURGED_FILES_MAX * file_size)
    if not chosen:
        return
    schema = pa.schema(table.schema())
    files = DataFiles(folder, schema, file_size=file_size, data_change=False)
    try:
        for add in chosen:
            left = np.setdiff1d(np.arange(row_count(folder, add)), read_vector(folder, add.deletion_vector))
            for _, batch in rows_at(folder, add, left, schema):
                files.write(pa.Table.from_batches([batch]))
        added = files.close()
    except BaseException:
        files.abandon()
        raise
    actions = [information("OPTIMIZE")]
    actions += [("remove", add.removed(data_change=False)) for add in chosen]
    actions += [("add", add) for add in added]
    make_commit(folder, log.version + 1, actions, files)
    table.load_as_version(log.version + 1)


def worth_purging(folder: str, files: Iterable[Add], *, size_max: int) -> list[Add]:
    """Files of which too many rows are marked, worst first, up to *size_max* bytes together, one at least."""
    shares = []
    for add in files:
        if add.deletion_vector is not None:
            shares.append((add.deletion_vector.cardinality / max(recorded_count(folder, add), 1), add))
    chosen: list[Add] = []
    for share, add in sorted(shares, key=lambda pair: -pair[0]):
        size_max -= add.size
        if share <= MARKED_SHARE_MAX or (chosen and size_max < 0):
            break
        chosen.append(add)
    return chosen


def vacuum_vectors(folder: str, version: int, *, retention_hours: float) -> list[Path]:
    """Remove files of vectors that no file of the table has, nor had within the retention.

    Returns:
        What was removed.
    """
    log = read_log(folder, version)
    if log is None:
        return []
    since = milliseconds() - retention_hours * 3_600_000
    live = {add.deletion_vector for add in log.files.values()}
    recent = {old.deletion_vector for old in log.removed.values() if (old.deletion_timestamp or 0) > since}
    replaced = {old.deletion_vector for old in log.removed.values()}
    needed, known = (
        {vector_path(folder, vector) for vector in vectors if vector is not None}
        for vectors in (live | recent, replaced)
    )
    removed = []
    for path in sorted(Path(folder).iterdir()):
        if VECTOR_FILE.fullmatch(path.name) is None or path in needed:
            continue
        age_s = time.time() - path.stat().st_mtime
        if path in known or age_s > max(retention_hours * 3600, ORPHAN_AGE_S):
            path.unlink(missing_ok=True)
            removed.append(path)
    return removed
