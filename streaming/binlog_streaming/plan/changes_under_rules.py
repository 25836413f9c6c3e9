"""Effects of a batch's statements as rules show them; a table that a rule would show otherwise goes no further."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from binlog_connector.rules.revealing_statements import FormerNames
from binlog_connector.rules.rules_applied import apply_rules_to_changes
from binlog_connector.rules.rules_on_tables import UnfitRuleError
from binlog_connector.schema.table_changes import EventsLost, TableRenamed
from binlog_format.errors import SchemaError
from binlog_streaming.plan.batch_plan import names_of
from binlog_streaming.plan.table_checks import Refusal

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from binlog_connector.rules.row_rules import TableRules
    from binlog_connector.schema.log_ddl import DdlStatement
    from binlog_connector.schema.snapshot_marks import SnapshotChange
    from binlog_connector.schema.table_changes import RowsChanged, StatementChange, TableChange
    from binlog_format.rows.decoding import Decoding
    from binlog_streaming.plan.planning import Planning

    AnyChange = StatementChange | SnapshotChange
    NamedChange = TableChange | RowsChanged | SnapshotChange


def changes_under_rules(
    planning: Planning,
    changes: Sequence[tuple[DdlStatement, list[AnyChange]]],
    decoding: Decoding,
    rules: TableRules,
) -> Iterator[tuple[DdlStatement, list[AnyChange]]]:
    """Convert *changes* to those of the visible parts of tables.

    Args:
        planning: Of the batch; tables whose rule does not fit what a statement makes of them go to its `problems`.
        changes: Effects of each statement, in log order.

    Raises:
        SchemaError: `SCHEMA_CHANGED`, `TABLE_RENAMED`: the same of what a tool builds beside a table.
        UnfitRuleError: The same.
    """
    former_names = FormerNames(lambda name: planning.find(name) is not None)
    for statement, some in changes:
        shown: list[AnyChange] = []
        for change in some:
            if isinstance(change, EventsLost):
                shown.append(change)  # it names no table
                continue
            former = former_names.take(change)
            about = replace(change, old=former) if isinstance(change, TableRenamed) and former is not None else change
            try:
                (changed,) = apply_rules_to_changes([about], rules, decoding, statement.vendor)
            except (SchemaError, UnfitRuleError) as error:
                _refuse(planning, about, Refusal(statement.place, statement.gtid, error))
                changed = change
            # What it means for names counts whatever becomes of the tables.
            shown.append(change if isinstance(change, TableRenamed) else changed)
        yield statement, shown


def _refuse(planning: Planning, change: NamedChange, refusal: Refusal) -> None:
    tables = [table for name in names_of(change) if (table := planning.find(name)) is not None]
    # What is built beside a table is never refused itself: others get its rows.
    if any(table.is_aside for table in tables):
        raise refusal.error
    planning.problems += [(table.name, refusal) for table in tables]
