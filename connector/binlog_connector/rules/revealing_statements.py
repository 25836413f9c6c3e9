"""Statements after which hidden values would be shown under another name: `not_revealing(blocks, ...)`.

Rules go by names. A column or a table that gets another name keeps its values, and what is hidden under the old name is
to be hidden under the new one. Names that a table had in between: `FormerNames`.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from binlog_connector.rules.rules_on_tables import column_renamed, table_renamed
from binlog_connector.schema.definitions import origin_of
from binlog_connector.schema.log_ddl import ServerRuns, all_statements, statements_between
from binlog_connector.schema.statement_scope import StatementScope
from binlog_connector.schema.table_changes import (
    DatabaseDropped,
    TableAltered,
    TableCreated,
    TableDropped,
    TableRenamed,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from binlog_connector.rules.row_rules import TableRules
    from binlog_connector.schema.definitions import TableName
    from binlog_connector.schema.log_ddl import DdlStatement
    from binlog_connector.schema.snapshot_marks import SnapshotChange
    from binlog_connector.schema.table_changes import StatementChange
    from binlog_format.block import Block
    from binlog_format.errors import SchemaError
    from binlog_format.log.log import Log
    from binlog_format.position import Position
    from binlog_format.views.filters import GroupFilter


def not_revealing(
    blocks: Iterable[Block],
    rules: TableRules,
    log: Log,
    start: Position,
    groups: GroupFilter,
    *,
    folds_names: bool | None,
) -> Iterator[Block]:
    """The same *blocks*, of plain events of *log* from *start* on, up to such a statement.

    Raises:
        SchemaError: See `RevealingStatements.refused`.
    """
    before = partial(statements_between, log, log.start_position(), start)
    return RevealingStatements(rules, before, folds_names=folds_names).refused(blocks, groups, ServerRuns(log))


class RevealingStatements:
    """Refuses them; takes all blocks of a part of a log, in their order.

    Args:
        statements_before: Gives all statements before the part; asked only when a statement is to be refused, as it may
            be about a temporary table, or when a table comes from a name that no rule is for. None: none is known.
        folds_names: Names of tables in upper and lower case are the same; None: as the log proves it.
    """

    def __init__(
        self,
        rules: TableRules,
        statements_before: Callable[[], Iterable[DdlStatement]] | None = None,
        *,
        folds_names: bool | None = None,
    ) -> None:
        self._rules = rules
        self._folds_names = folds_names
        self._statements_before = statements_before
        self._waiting: list[DdlStatement] = []  # for those before
        self._names = _Names(rules, StatementScope(folds_names=folds_names))

    def refused(self, blocks: Iterable[Block], groups: GroupFilter, server_runs: ServerRuns) -> Iterator[Block]:
        """The same *blocks*, of plain events, up to such a statement.

        Raises:
            SchemaError: `SCHEMA_CHANGED`: a column gets another name; `TABLE_RENAMED`: a table.
        """
        for block in blocks:
            keep = None
            for number, (event, _, statement) in enumerate(all_statements(block, server_runs)):
                keep = groups.keep(block) if number == 0 else keep
                error = self._taken(statement)
                if error is not None and (keep is None or keep[int(block.events["group"][event])]):
                    raise error
            yield block

    def _taken(self, statement: DdlStatement) -> SchemaError | None:
        error = self._names.take(statement)
        if self._statements_before is None:
            return error
        self._waiting.append(statement)
        if error is None and not self._names.lacks_former_name:
            return None
        # Only now what comes before the part has a bearing.
        self._names = _Names(self._rules, StatementScope(folds_names=self._folds_names))
        for earlier in itertools.chain(self._statements_before(), self._waiting):
            error = self._names.take(earlier)
        self._statements_before, self._waiting = None, []
        return error


@dataclass(slots=True)
class FormerNames:
    """Takes all changes, in their order.

    `RENAME TABLE plain TO passing, passing TO orders` brings the rows of `plain`, whoever knows of `passing`.

    Attributes:
        is_asked: True for tables whose rows are read.
    """

    is_asked: Callable[[TableName], bool]
    _names: dict[TableName, TableName] = field(default_factory=dict)  # by the name that they have now

    def take(self, change: StatementChange | SnapshotChange) -> TableName | None:
        """Take a change; of a RENAME the last name that was asked for, or else the name before the statement."""
        match change:
            case TableRenamed():
                former = self._names.pop(change.old, change.old)
                if not self.is_asked(change.new):
                    self._names[change.new] = former
                return former
            case TableCreated() | TableDropped():
                self._names.pop(change.name, None)
            case DatabaseDropped():
                for name in [name for name in self._names if name.database == change.database]:
                    del self._names[name]
        return None


class _Names:
    """Names of tables after some statements.

    Attributes:
        lacks_former_name: A table came from a name that no rule is for, and its name before that is not known.
    """

    def __init__(self, rules: TableRules, scope: StatementScope) -> None:
        self.lacks_former_name = False
        self._rules = rules
        self._scope = scope
        self._former = FormerNames(rules.is_for)

    def take(self, statement: DdlStatement) -> SchemaError | None:
        """Take a statement; the error if it shows what is hidden."""
        changes = self._scope.changes(statement)
        if self._scope.names.folds is None:
            changes = [spelled for change in changes for spelled in _spellings(change)]
        errors = list(map(self._error, changes))
        return next((error for error in errors if error is not None), None)

    def _error(self, change: StatementChange) -> SchemaError | None:
        former, rules = self._former.take(change), self._rules
        if isinstance(change, TableRenamed) and former is not None:
            self.lacks_former_name |= rules.is_for(change.new) and not rules.is_for(origin_of(former) or former)
            return table_renamed(former, change.new) if rules.reveals(former, change.new) else None
        if isinstance(change, TableAltered) and (rule := rules.of(*change.name)) is not None:
            shown = ((old, new) for old, new in change.renamed.items() if rule.reveals(old, new))
            return next((column_renamed(change.name, old, new) for old, new in shown), None)
        return None


def _spellings(change: StatementChange) -> list[StatementChange]:
    """*change* of a name as a statement has it, and as row events may."""
    lowered = change
    if isinstance(change, TableAltered):
        lowered = replace(change, name=change.name.lowered)
    elif isinstance(change, TableRenamed):
        lowered = replace(change, old=change.old.lowered, new=change.new.lowered)
    return [change] if lowered == change else [change, lowered]
