"""What deltalake takes for the same data without a log, in the same run: `append_seconds`, `merge_seconds`."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pyarrow as pa
from deltalake import DeltaTable, WriterProperties, write_deltalake

from binlog_streaming.lake.commit_id import BATCH_KEY
from binlog_streaming.lake.evolution import cast_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

COMPRESSED = WriterProperties(compression="ZSTD", compression_level=1)
"""As our own files are."""

THREADS = 2
"""As many tables at a time as Spark has cores."""


def append_seconds(folders: Sequence[Path], work: Path) -> float:
    """Time to write all rows of the tables in *folders*, out of memory, into new tables in *work*, each at once."""
    tables = [_rows(DeltaTable(folder)) for folder in folders]

    def append(number: int) -> None:
        write_deltalake(work / f"append-{number}", tables[number], writer_properties=COMPRESSED)

    return _seconds(append, len(tables))


def merge_seconds(folders: Sequence[Path], work: Path, key: str) -> float:
    """Time to bring in what the last batch changed, with deltalake's MERGE, into copies as they were before it."""
    copies = []
    for number, folder in enumerate(folders):
        version = _last_batch(DeltaTable(folder))
        before = _rows(DeltaTable(folder, version=version - 1))
        after = _rows(DeltaTable(folder, version=version))
        copy = work / f"merge-{number}"
        write_deltalake(copy, before, writer_properties=COMPRESSED)
        copies.append((copy, changed_rows(before, after, key)))

    def merge(number: int) -> None:
        copy, changed = copies[number]
        merger = DeltaTable(copy).merge(
            changed,
            f"t.{key} = s.{key}",
            source_alias="s",
            target_alias="t",
            writer_properties=COMPRESSED,
        )
        merger.when_matched_update_all().when_not_matched_insert_all().execute()

    return _seconds(merge, len(copies))


def changed_rows(before: pa.Table, after: pa.Table, key: str) -> pa.Table:
    """Rows of *after* that are not so in *before*."""
    names = after.column_names
    there = before.append_column("there", pa.repeat(True, before.num_rows))
    joined = after.join(there, keys=names, join_type="left outer")
    return joined.filter(joined.column("there").is_null()).select(names).sort_by(key)


def _rows(table: DeltaTable) -> pa.Table:
    # As they come some have types that Arrow cannot join by.
    found = pa.RecordBatchReader.from_stream(table.scan())
    return cast_rows(found, pa.schema(table.schema())).read_all()


def _last_batch(table: DeltaTable) -> int:
    return next(int(commit["version"]) for commit in table.history() if BATCH_KEY in commit)


def _seconds(action: Callable[[int], None], count: int) -> float:
    started = time.perf_counter()
    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(action, range(count)))
    return time.perf_counter() - started
