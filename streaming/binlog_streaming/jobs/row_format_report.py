"""Check that all changed rows of a log are in row events: `read_row_format(path)`; for a job: `look_at_statements`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from binlog_connector.schema.log_ddl import ServerRuns
from binlog_connector.schema.row_format import RowFormat, Tally
from binlog_format import open_log
from binlog_format.errors import BinlogError
from binlog_format.messages import told_options, visible
from binlog_format.views.filters import TableFilter
from binlog_streaming.settings.choices import OnRowStatement
from binlog_streaming.settings.names import as_job_setting

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from binlog_connector.schema.row_format import Count
    from binlog_format.position import Position
    from binlog_streaming.settings.model import Job


@dataclass(frozen=True, slots=True)
class RowFormatReport:
    """Result of a look at a log.

    Attributes:
        tally: What is not told row by row.
        problem: Why not all of the log could be read; None: it could.
    """

    tally: Tally
    problem: BinlogError | None = None

    def to_json(self) -> dict[str, object]:
        """Convert to plain values; `complete` is null if it is not known."""
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
        """Lines for people."""
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


def read_row_format(path: str, start: Position | None, end: Position | None) -> RowFormatReport:
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


_LOST_EVENTS = "BINLOG_DATA_LOSS.LOST_EVENTS"


@dataclass(frozen=True, slots=True)
class StatementsReport:
    """Findings about the tables of a job.

    Attributes:
        problems: Why the job would stop, by `database.table`; empty: about any table.
    """

    problems: Mapping[str, Sequence[str]]
    warnings: tuple[str, ...]


def look_at_statements(job: Job, tally: Tally) -> StatementsReport:
    """See which statements, and which lost events, concern the tables that *job* selects."""
    filters = [(TableFilter(rule.select, job.source.exclude_tables), rule) for rule in job.tables]
    problems: dict[str, list[str]] = {}
    warnings: list[str] = []
    tells_text = not any(rule.hides for rule in job.tables)
    for (name, condition), count in tally.counts.items():
        rules = [
            rule
            for wanted, rule in filters
            if name is None or any(wanted.accepts_name(*spelling) for spelling in name.spellings)
        ]
        if not rules:
            continue
        about = "any table" if name is None else str(name)
        error = count.first.error(tells_text=tells_text)
        text = f"{about}: [{condition}] {_number(count)}: {error.reason}"
        asked = rules if name is None else rules[:1]
        if condition == _LOST_EVENTS and job.source.fail_on_data_loss is False:
            warnings.append(f"{text}. failOnDataLoss ignores it: the rows in the targets may be wrong")
        elif condition != _LOST_EVENTS and all(rule.on_statement is OnRowStatement.IGNORE for rule in asked):
            warnings.append(f"{text}. on_statement ignores it: the rows in the targets may be wrong")
        else:
            problem = told_options(f"{text}. {error.hint}", as_job_setting)
            problems.setdefault("" if name is None else about, []).append(problem)
    return StatementsReport(problems, tuple(warnings))


def _number(count: Count) -> str:
    return "once in the log" if count.number == 1 else f"{count.number:,} times in the log, first"
