"""Whether all changed rows of a log are in row events: `read_row_format(path)` -> `RowFormatReport`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from binlog_connector.schema.row_format import RowFormat, Tally
from binlog_connector.schema.server_runs import ServerRuns
from binlog_format import open_log
from binlog_format.errors import BinlogError, visible
from binlog_format.views.table_filter import TableFilter

if TYPE_CHECKING:
    from binlog_connector.schema.row_format import Count
    from binlog_format.position import Position


@dataclass(frozen=True, slots=True)
class RowFormatReport:
    """What a look at a log found.

    Attributes:
        tally: What is not told row by row.
        problem: Why not all of the log could be read; None: it could.
    """

    tally: Tally
    problem: BinlogError | None = None

    def to_json(self) -> dict[str, object]:
        """As plain values; `complete` is null where that is not known."""
        return {
            "severity": "summary",
            "condition": "ROW_FORMAT",
            "complete": False if not self.tally.is_complete else None if self.problem is not None else True,
            "statements": self.tally.statements,
            "incidents": self.tally.incidents,
            "tables": [
                {
                    "table": None if name is None else str(name),
                    "condition": condition,
                    "count": count.number,
                    "first": _first(count),
                }
                for (name, condition), count in self.tally.counts.items()
            ],
            "problem": None if self.problem is None else str(self.problem),
        }

    def lines(self) -> list[str]:
        """For people."""
        if self.tally.is_complete and self.problem is None:
            return ["Complete in row format: yes; no statement changes rows without row events."]
        if self.tally.is_complete:
            return [f"Complete in row format: not known; the log cannot be read to its end: {self.problem}"]
        lines = ["Complete in row format: no; these changes are in no row event:"]
        for (name, _), count in self.tally.counts.items():
            about = "any table" if name is None else visible(str(name))
            lines.append(f"  {about}: {count.number:,}, the first one: {count.first.error().reason}")
        return lines


def _first(count: Count) -> dict[str, object]:
    statement = count.first.statement
    return {
        "position": str(statement.position),
        "event_no": statement.event_no,
        "gtid": statement.gtid,
        "reason": count.first.error().reason,
    }


def read_row_format(path: str, start: Position | None = None, end: Position | None = None) -> RowFormatReport:
    """Look at all statements in [*start*, *end*) of the log at *path*."""
    tally = Tally()
    row_format = RowFormat(TableFilter())
    try:
        with open_log(path) as log:
            server_runs = ServerRuns(log)
            for block in log.committed_blocks(start, end):
                for lacking in row_format.lacking(block, server_runs=server_runs):
                    tally.take(lacking)
    except BinlogError as error:
        return RowFormatReport(tally, error)
    return RowFormatReport(tally)
