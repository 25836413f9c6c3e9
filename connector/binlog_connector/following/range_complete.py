"""Check that a planned range still exists when it is read: `check_range_complete`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlog_format.errors import DataLossError

if TYPE_CHECKING:
    from binlog_format.log.log import Log
    from binlog_format.position import Position


def check_range_complete(log: Log, reached: Position, end: Position) -> None:
    """See that a read which came to *reached* has read everything before *end*.

    What was planned was on disk, so a log that ends earlier is an error.

    Raises:
        DataLossError: `TRUNCATED_TRANSACTION`: the log ends before *end* now.
    """
    # After the last group there may be records that are no groups: only a look tells whether they are there.
    if reached < end and log.span(reached).end < end:
        raise DataLossError(
            "TRUNCATED_TRANSACTION",
            f"{log.path}: the log ends at {reached} now, but reached {end} when this was planned",
            hint="The server crashed and took transactions back, or the files were cut; see docs/operations.md",
        )
