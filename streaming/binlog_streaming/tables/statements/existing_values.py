"""Values that existing rows must have after a statement: in new columns, `check_new_columns`; in keys, `adopt_keys`.

Those by which rules choose rows must stay as they are: `check_chosen_rows`.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from binlog_connector.rules.predicate_parser import column_names, parse_predicate
from binlog_connector.schema.effects.conversion import Same
from binlog_connector.schema.parsing.defaults import SYSTEM_TIME
from binlog_format.errors import SchemaError, TableError
from binlog_format.names import folded_name, folded_names
from binlog_streaming.lake.commit_id import KEYS_OPEN_PROPERTY, KEYS_PROPERTY, QUERY_PROPERTY, joined_keys
from binlog_streaming.plan.snapshots import past_statement
from binlog_streaming.settings import Mode, UnknownValues
from binlog_streaming.tables.statements.row_retention import has_rows, live_rows
from binlog_streaming.tables.statements.target_alteration import dropped_before

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence, Set

    from binlog_connector.schema.definitions import TableName
    from binlog_connector.schema.effects.column_effects import ColumnChanged
    from binlog_connector.schema.effects.column_facts import ColumnFacts
    from binlog_connector.schema.operations import AlterTable
    from binlog_connector.schema.table_changes import TableAltered
    from binlog_streaming.lake.commit_id import CommitId
    from binlog_streaming.lake.target import Target
    from binlog_streaming.plan.job_state import SelectedTable
    from binlog_streaming.tables.rows_step import RowsContent
    from binlog_streaming.tables.statements.log_facts import LogFacts
    from binlog_streaming.tables.statements.work import StatementContext

_UNSETTLED = "a default whose bytes depend on the server"
_KEPT_IN_KEY = "it stays in its key, which may make it NOT NULL"


def check_new_columns(
    context: StatementContext,
    target: Target,
    change: TableAltered,
    keys: tuple[str, ...],
    *,
    computed: Set[str],
    reasons: Mapping[str, str],
) -> None:
    """Check that the values of new columns in existing rows are known, or may be null.

    Args:
        keys: Key columns after the statement.
        computed: New columns whose values are computed.
        reasons: Why those of others cannot be.

    Raises:
        SchemaError: `SCHEMA_CHANGED`.
    """
    gone = folded_names((*change.dropped, *dropped_before(target, change)))
    there = {name for name in target.schema().names if folded_name(name) not in gone}
    settled = {fact.name for fact in context.settled(change.added)}
    in_key = folded_names(keys)
    kept_in_key = in_key & {folded_name(name) for name in change.dropped if change.primary_key is None}
    # The end of a version is part of the key of a system-versioned table.
    identifying = in_key | {folded_name(fact.name) for fact in change.added if fact.unknown == SYSTEM_TIME.text}
    lacking = {
        fact.name: reason
        for fact in change.added
        if fact.name not in there
        and fact.name not in computed
        and (reason := _unknown(fact, is_settled=fact.name in settled, keys=kept_in_key))
        and (context.table.rule.unknown_values is not UnknownValues.NULL or folded_name(fact.name) in identifying)
    }
    if lacking and has_rows(target):
        name, reason = next(iter(lacking.items()))
        reason += f", and {reasons[name]}" if name in reasons else ""
        raise _lacks_values(context.table.name, name, reason, may_be_null=folded_name(name) not in identifying)


def check_of_added(
    table: SelectedTable, mode: Mode, content: RowsContent, facts: LogFacts
) -> Callable[[Sequence[str]], None] | None:
    """Check of columns that rows of a step have, and existing rows lack: statements must have added them.

    Of one that a statement adds, and whose type only rows show, the values were known to be null.

    Returns:
        It gets the names of these columns; None: they may be null.

    Raises:
        SchemaError: `SCHEMA_CHANGED`, the check too: no statement has added a column. `DDL_NOT_PARSED`, the check
            alone: a statement about the table is not understood.
    """
    if mode is Mode.CHANGELOG or table.rule.unknown_values is UnknownValues.NULL:
        return None
    names = content.column_names
    # A statement that adds a column begins a new step.
    _check_known(table.name, itertools.chain(*names[1:]), itertools.chain(*names[:1]))

    def check(added: Sequence[str]) -> None:
        definition = None if facts.log is None else facts.definition_at(table.name, content.last.position)
        stated = () if definition is None else definition.columns or ()
        _check_known(table.name, added, (column.name for column in stated))

    return check


def _check_known(table: TableName, columns: Iterable[str], known: Iterable[str]) -> None:
    there = folded_names(known)
    new = next((column for column in columns if folded_name(column) not in there), None)
    if new is not None:
        raise _lacks_values(table, new, "no statement in the log adds it", may_be_null=True)


def _lacks_values(table: TableName, column: str, reason: str, *, may_be_null: bool) -> SchemaError:
    null = 'set unknown_values = "null" to go on with null in them, or ' if may_be_null else ""
    return SchemaError(
        "SCHEMA_CHANGED",
        f"{table}: column {column} is new, and the log lacks its values in existing rows: {reason}",
        hint=f"{past_statement(table)}. Or {null}leave the table out (option source.excludeTables)",
    )


def _unknown(fact: ColumnFacts, *, is_settled: bool, keys: Set[str]) -> str | None:
    if fact.unknown is None and fact.existing is not None and fact.existing.is_valid:
        return None if is_settled else _UNSETTLED
    return fact.unknown or (_KEPT_IN_KEY if folded_name(fact.name) in keys else None)


def check_new_key(table: SelectedTable, mode: Mode, target: Target, keys: Iterable[str]) -> None:
    """Check that existing rows have values in a key that the table has from now on.

    Args:
        target: As it is; no changelog.
        keys: Key columns, by their names in *target*.

    Raises:
        SchemaError: `SCHEMA_CHANGED`: a value that the log lacked is null there.
    """
    if not table.rule.writes_unknown_as_null:
        return
    names = [name for name in target.schema().names if folded_name(name) in folded_names(keys)]
    for rows in live_rows(target, mode, table.rule.deletes) if names else ():
        name = next((name for name in names if rows.column(name).null_count), None)
        if name is not None:
            raise SchemaError(
                "SCHEMA_CHANGED",
                f"{table.name}: column {name} is part of the key now, and the log lacks its values in existing rows, "
                "which are null in the target",
                hint=f"{past_statement(table.name)}. Or leave the table out (option source.excludeTables)",
            )


def adopt_keys(table: SelectedTable, mode: Mode, target: Target, commit_id: CommitId) -> None:
    """Give *target* the key of the rows that come next, after a statement that may have changed it.

    Args:
        target: As it is; another query's stays so.

    Raises:
        SchemaError: As `check_new_key`.
    """
    properties = target.properties() or {}
    if properties.get(KEYS_OPEN_PROPERTY) and properties.get(QUERY_PROPERTY) == commit_id.query_id:
        if properties.get(KEYS_PROPERTY, "") != joined_keys(commit_id.keys):
            check_new_key(table, mode, target, commit_id.keys)
        target.set_properties(commit_id, recorded={KEYS_OPEN_PROPERTY: ""})


def check_chosen_rows(context: StatementContext, alter: AlterTable, columns: Iterable[ColumnChanged]) -> None:
    """See that an ALTER TABLE leaves the values by which `where` chooses rows as they are.

    A target lacks the rows for which `where` is not true, so nobody can look there which of them a statement makes
    true. That a column is masked or hidden, or is null from now on (`rewritten = "null"`), changes nothing about it:
    `where` uses the values before masks.

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
