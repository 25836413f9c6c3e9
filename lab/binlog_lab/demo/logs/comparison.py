"""Compares a table of events with what a program has logged: `compare_events`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from binlog_lab.demo.proof.comparison import Comparison, Difference, compare_mirror

if TYPE_CHECKING:
    import pyarrow as pa

    from binlog_lab.demo.proof.expected_rows import ExpectedTable


def compare_events(expected_table: ExpectedTable, target: pa.Table | None) -> Comparison:
    """Every event against what was logged, and the order of each writer's by their positions in the log."""
    comparison = replace(compare_mirror(expected_table, target), mode="events")
    if target is None or not comparison.is_equal:
        return comparison
    rows = target.flatten().sort_by([(name, "ascending") for name in _POSITION])
    unordered = [
        Difference(f"writer={writer.as_py()}", "position", "events in the order of their times", "another order")
        for writer in pc.unique(rows.column("writer"))
        if not _is_ascending(rows.filter(pc.equal(rows.column("writer"), writer)).column("ns").combine_chunks())
    ]
    return replace(comparison, differences=tuple(unordered), difference_count=len(unordered))


_POSITION = ("position.file_no", "position.page", "position.chunk")


def _is_ascending(numbers: pa.Array) -> bool:
    return len(numbers) < 2 or bool(pc.all(pc.less(numbers[:-1], numbers[1:])).as_py())
