"""Rows that a rule's `where` chooses, and statements by which it would choose others: `check_chosen_rows`.

A target lacks the rows for which `where` is not true, so nobody can look there which of them a statement makes true.
That a column is masked or hidden, or is null from now on (`rewritten = "null"`), changes nothing about it: `where` uses
the values before masks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlog_connector.rules.predicate_parser import column_names, parse_predicate
from binlog_connector.schema.effects.conversion import Same
from binlog_format.errors import TableError
from binlog_format.names import folded_name
from binlog_streaming.plan.snapshots import past_statement

if TYPE_CHECKING:
    from collections.abc import Iterable

    from binlog_connector.schema.effects.column_effects import ColumnChanged
    from binlog_connector.schema.operations import AlterTable
    from binlog_streaming.tables.statements.work import StatementContext


def check_chosen_rows(context: StatementContext, alter: AlterTable, columns: Iterable[ColumnChanged]) -> None:
    """See that an ALTER TABLE leaves the values by which `where` chooses rows as they are.

    Args:
        columns: Columns that existing rows have before and after it, also those that targets do not show.

    Raises:
        TableError: `REWRITTEN_BY_SERVER`: other rows may be chosen after it.
    """
    where = None if context.shown_by is None else context.shown_by.rule.where
    if where is None:
        return
    asked = {folded_name(column.name) for column in column_names(parse_predicate(where))}
    found = _taken_name(alter, asked) or _other_values(columns, asked)
    if found is None:
        return
    raise TableError(
        "REWRITTEN_BY_SERVER",
        f"{context.table.name}: {found} by the statement at {context.step.statement.position}; the rows of the target "
        "are chosen by it (where), and the log does not show which ones are chosen from then on",
        hint=past_statement(context.table.name),
    )


def _taken_name(alter: AlterTable, asked: set[str]) -> str | None:
    """A column of *asked* whose name stands for nothing, or for another column, after the statement.

    A later statement may give the name to another column, and no values of rows come with that one.
    """
    for name, _ in alter.dropped:
        if folded_name(name) in asked:
            return f"column {name} is dropped"
    renamed = [*alter.column_renames, *((change.old_name, change.column.name) for change in alter.changes)]
    for old, new in renamed:
        if old is not None and folded_name(old) in asked and folded_name(old) != folded_name(new):
            return f"column {old} is called {new}"
    return None


def _other_values(columns: Iterable[ColumnChanged], asked: set[str]) -> str | None:
    for column in columns:
        if folded_name(column.old.name) in asked and not isinstance(column.effect, Same):
            return f"column {column.new.name} {column.in_words}"
    return None
