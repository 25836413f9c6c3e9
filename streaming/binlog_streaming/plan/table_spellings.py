"""Effects of a batch's statements, under the server's names: `named_changes`, `take_unclear_names`.

Most statements spell a table as its rows do. Where one does not, the server folds names (`lower_case_table_names`), or
the statement is about another table: see `NameRule`.
"""

from __future__ import annotations

import copy
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from binlog_connector.schema.statement_rows import shown
from binlog_connector.schema.table_changes import (
    DatabaseDropped,
    TableAltered,
    TableCreated,
    TableDropped,
    TableRenamed,
    TableTruncated,
    UnsupportedChange,
)
from binlog_connector.schema.table_names import NameRule
from binlog_format.errors import OptionError, SchemaError
from binlog_format.names import folded_name
from binlog_streaming.plan.batch_plan import names_of
from binlog_streaming.plan.cascade_links import Appliance, reached
from binlog_streaming.plan.cascades import cascades_in
from binlog_streaming.plan.snapshots import snapshot_command
from binlog_streaming.plan.table_checks import Refusal
from binlog_streaming.settings import OnCascade, OnStatement

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from binlog_connector.schema.definitions import TableName
    from binlog_connector.schema.foreign_keys import ForeignKeys
    from binlog_connector.schema.log_ddl import DdlStatement
    from binlog_connector.schema.snapshot_marks import SnapshotChange
    from binlog_connector.schema.statement_scope import StatementScope
    from binlog_connector.schema.table_changes import StatementChange
    from binlog_format.position import Position
    from binlog_streaming.plan.cascades import CascadeLog
    from binlog_streaming.plan.planning import Planning

    Changes = list[tuple[DdlStatement, list[StatementChange | SnapshotChange]]]

_OR_REPLACE = re.compile(r"\bOR\s+REPLACE\b", re.IGNORECASE)
_HEAD_SIZE = 400
HINT = (
    "Set lowerCaseTableNames in [source] to what SELECT @@lower_case_table_names gives on the server, and start the "
    "job again"
)


def named_changes(planning: Planning, walk: Callable[[StatementScope], Changes]) -> Changes:
    """Effects of statements; *walk* runs a second time if the log proves that the server folds names.

    Args:
        planning: Of the batch, with its rows; gets the scope after the statements.
        walk: Gives what all statements do, in order, in the scope that holds before them.
    """
    before, folds = planning.job_state.scope, planning.selection.folds_names
    was_known = before.names.folds is not None
    if folds is not None and before.names.folds is not folds:
        before.names = NameRule(folds)
        if folds:
            before.fold_names()
    capitals = next((part.table for part in planning.touched if part.table != part.table.lowered), None)
    if before.names.folds and capitals is not None:
        reason = f"rows of {capitals} are in the log: a server with 1 or 2 logs rows under small letters"
        raise OptionError("INVALID_VALUE", f"lowerCaseTableNames: {reason}", hint=HINT)
    if capitals is not None:
        before.names.take_rows([capitals])  # wherever in the batch they are
    # As it is, until the log proves something: what is noted under other names would have to be taken back.
    scope = before if before.names.folds is not None else copy.deepcopy(before)
    changes = walk(scope)
    drops = [statement for statement, some in changes if any(isinstance(change, DatabaseDropped) for change in some)]
    # Rows before were of other tables, or of a server with another setting.
    edges = [*(statement.position for statement in drops), *filter(None, [scope.names_unknown_since])]
    start = max(edges, default=None)
    with_rows = [part.table for part in planning.touched if start is None or part.start >= start]
    scope.names.take_rows(with_rows)
    if scope.names.folds and not before.names.folds:
        scope = before
        scope.fold_names()
        changes = walk(scope)
    scope.existing.take_rows(with_rows)
    planning.job_state = replace(planning.job_state, scope=scope)
    if scope.names.folds and not was_known:
        # Known from the rows or the statements of the batch: there is one at least.
        starts = (*(part.start for part in planning.touched), *(statement.position for statement, _ in changes))
        _take_other_spellings(planning, min(starts))
    return changes


def _take_other_spellings(planning: Planning, start: Position) -> None:
    """Now it is known that the server folds names: what was met before under a name with capitals has another name.

    Rows are logged under small letters, so targets of such names are empty.

    Args:
        start: Of the batch's rows and statements.
    """
    job_state = planning.job_state
    names = {*(job_state.written or ()), *job_state.complete, *job_state.set_aside}
    for name in sorted(spelling for spelling in names if spelling != spelling.lowered):
        stopped = job_state.set_aside.get(name)
        if stopped is not None:
            reason = f"{name.lowered} is {name}, which was set aside at {stopped.position}: {stopped.reason}"
            hint = f"Take a new snapshot: {snapshot_command(name.lowered)}"
            error = SchemaError("TABLE_RENAMED", reason, hint=hint)
            planning.problems.append((name.lowered, Refusal((start, 0), None, error)))
        elif name in job_state.complete:
            job_state = replace(job_state, complete={name.lowered: job_state.complete[name]} | {**job_state.complete})
        table = planning.find(name)
        if table is not None and table.rule.on_drop is not OnStatement.FAIL:
            planning.respelled.append(name)
    planning.job_state = job_state


def take_unclear_names(planning: Planning, changes: Changes) -> None:
    """Note a problem for each table of the job that a statement may be about under another spelling.

    Where that is a RENAME, so is the table of the new name: it may have the rows.
    """
    if planning.job_state.scope.names.folds is not None:
        return
    names = {*planning.parts, *(planning.job_state.written or ())}
    since = planning.job_state.scope.names_unknown_since
    owners: dict[TableName, TableName] = {}  # of the rows that a table may have got by a RENAME
    renames: dict[TableName, DdlStatement] = {}
    for statement, some in changes:
        if since is not None and statement.position < since:
            continue  # the names were as they were written
        unclear = {
            written
            for change in some
            for written in _names(change, statement, names)
            if written != written.lowered and written.lowered in names and planning.find(written.lowered) is not None
        }
        for written in sorted(unclear):
            name = written.lowered
            planning.problems.append((name, Refusal(statement.place, statement.gtid, _error(name, written, statement))))
        for change in some:
            if isinstance(change, TableRenamed) and (change.old in unclear or change.old in owners):
                owners[change.new] = owners.pop(change.old, change.old.lowered)
                renames[change.new] = statement
    for name, owner in owners.items():
        if planning.find(name) is None:
            continue
        statement = renames[name]
        about = f"the log does not show whether it has got the rows of {owner}: {shown(statement)}"
        error = SchemaError("NAMES_UNCLEAR", f"{name}: {about}", hint=HINT)
        planning.problems.append((name, Refusal(statement.place, statement.gtid, error)))


def take_unclear_keys(planning: Planning, states: Sequence[tuple[Position, ForeignKeys]], log: CascadeLog) -> None:
    """Note a problem for each child of the job whose rows a foreign key changes if the server folds names, only then.

    Args:
        states: The foreign keys, each from a position on.
    """
    if planning.job_state.scope.names.folds is not None:
        return
    names = {*planning.parts, *(planning.job_state.written or ())}
    folded = [(since, keys.folded()) for since, keys in states]
    unclear: set[TableName] = set()
    for (_, keys), (_, other) in zip(states, folded, strict=True):
        for part in planning.touched if keys.keys != other.keys else ():
            unclear |= {cascade.child for cascade in {*reached(part, other)} - {*reached(part, keys)}}
    found = cascades_in(
        planning.touched if unclear else (),
        folded,
        log,
        lambda child: child in unclear & names and _follows(planning, child),
        Appliance(lambda _: False, None),
    )
    for change in found:
        about = (
            f"a foreign key of it changes its rows with those of {change.parent} if the server takes names for one "
            "that differ in letters of another case, and the log does not show whether it does"
        )
        error = SchemaError("NAMES_UNCLEAR", f"{change.cascade.child}: {about}", hint=HINT)
        planning.problems.append((change.cascade.child, Refusal(change.place, change.change.gtid, error)))


def _follows(planning: Planning, child: TableName) -> bool:
    table = planning.find(child)
    return table is not None and planning.holds_rows(child) and table.rule.foreign_keys is not OnCascade.IGNORE


def _names(
    change: StatementChange | SnapshotChange, statement: DdlStatement, known: Collection[TableName]
) -> Sequence[TableName]:
    """Tables that a change, under another spelling, would be wrong about."""
    match change:
        case TableCreated():
            # A table that is new was not there under another spelling either.
            return (change.name,) if _OR_REPLACE.search(statement.text[:_HEAD_SIZE]) else ()
        case TableAltered() | TableDropped() | TableTruncated() | TableRenamed() | UnsupportedChange():
            return names_of(change)
        case DatabaseDropped() if change.database != folded_name(change.database):
            return [name._replace(database=change.database) for name in known]
    return ()


def _error(name: TableName, written: TableName, statement: DdlStatement) -> SchemaError:
    about = f"a statement is about {written}, and the log does not show whether the server takes both for one table"
    return SchemaError("NAMES_UNCLEAR", f"{name}: {about}: {shown(statement)}", hint=HINT)
