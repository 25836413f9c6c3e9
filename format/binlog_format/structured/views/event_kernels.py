"""Kernels of view `logs`: `rows_of_sources`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlog_format.kernels import kernel

if TYPE_CHECKING:
    from binlog_format.block import Table
    from binlog_format.kernels import Int64s, Mask

NO_SUCH_SOURCE = -1


@kernel
def rows_of_sources(events: Table, wanted: Mask, rows: Int64s) -> int:
    """Choose the events of some sources.

    Args:
        wanted: For each source whether its events are.
        rows: Gets their rows, ascending; as long as *events*.

    Returns:
        How many there are; or `NO_SUCH_SOURCE`.
    """
    sources = events["source"]
    count = 0
    for row in range(len(sources)):
        source = sources[row]
        if source < 0 or source >= len(wanted):
            return NO_SUCH_SOURCE
        rows[count] = row
        count += wanted[source]
    return count
