"""What a job would meet that its log does not tell row by row: `look_at_statements(job, tally)`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from binlog_format.views.table_filter import TableFilter
from binlog_streaming.settings.choices import OnRowStatement

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from binlog_connector.schema.row_format import Count, Tally
    from binlog_streaming.settings.model import Job

_LOST_EVENTS = "BINLOG_DATA_LOSS.LOST_EVENTS"


@dataclass(frozen=True, slots=True)
class StatementsReport:
    """What concerns the tables of a job.

    Attributes:
        problems: Why the job would stop, by `database.table`; empty: about any table.
        warnings: What it would pass over.
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
            rule for wanted, rule in filters if name is None or any(wanted.accepts_name(*one) for one in name.spellings)
        ]
        if not rules:
            continue
        about = "any table" if name is None else str(name)
        text = f"{about}: [{condition}] {_number(count)}: {count.first.error(tells_text=tells_text).reason}"
        asked = rules if name is None else rules[:1]
        if condition == _LOST_EVENTS and job.source.fail_on_data_loss is False:
            warnings.append(f"{text}. failOnDataLoss ignores it: the rows in the targets may be wrong")
        elif condition != _LOST_EVENTS and all(rule.on_statement is OnRowStatement.IGNORE for rule in asked):
            warnings.append(f"{text}. on_statement ignores it: the rows in the targets may be wrong")
        else:
            problems.setdefault("" if name is None else about, []).append(f"{text}. {count.first.error().hint}")
    return StatementsReport(problems, tuple(warnings))


def _number(count: Count) -> str:
    return "once in the log" if count.number == 1 else f"{count.number:,} times in the log, first"
