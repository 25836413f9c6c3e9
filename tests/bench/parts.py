"""What tests of benchmarks share: a part of their data, `part_of_data`; the rows that a log leaves, `rows_left`."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pyarrow as pa

from bench.registry import set_share
from binlog_format.views.changefeed import ChangefeedView

if TYPE_CHECKING:
    from collections.abc import Iterator

    from binlog_format.log.log import Log


@contextmanager
def part_of_data(share: float) -> Iterator[None]:
    """Let benchmarks take a part of their data within this context."""
    set_share(share)
    try:
        yield
    finally:
        set_share(1.0)


def rows_left(log: Log, table: str) -> tuple[dict[int, tuple[object, ...]], Counter[str]]:
    """Rows of a table of sysbench by key, and changes by type; each image before is what the changes before left."""
    rows: dict[int, tuple[object, ...]] = {}
    kinds: Counter[str] = Counter()
    for row in pa.Table.from_batches(list(ChangefeedView(table=table).batches(log.committed_blocks()))).to_pylist():
        values = (row["k"], row["c"], row["pad"])
        kinds[row["_change_type"]] += 1
        if row["_change_type"] in ("delete", "update_preimage"):
            assert rows.pop(row["id"]) == values
        else:
            assert row["id"] not in rows
            assert [len(str(text)) for text in values[1:]] == [119, 59]
            rows[row["id"]] = values
    return rows, kinds
