"""Facts about its tables that a job keeps from batch to batch: `JobState`; a batch's additions: `StateChange`.

Table selection of a job: `TableSelection(rules).find(name)`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

from binlog_connector.rules.rules_on_tables import UnfitRuleError
from binlog_connector.schema.definitions import TableName, ghost_of
from binlog_connector.schema.statement_scope import StatementScope
from binlog_format.errors import BinlogError, SchemaError, TableError, UnsupportedError
from binlog_format.views.filters import TableFilter
from binlog_streaming.lake.table_places import target_uri
from binlog_streaming.settings.choices import Begin, Deletes, Mode, OnPartitionDrop, OnStatement, PartitionRuleError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from binlog_connector.schema.log_ddl import DdlStatement
    from binlog_streaming.plan.batch_plan import LogPlace
    from binlog_streaming.plan.snapshots import PlannedSnapshot
    from binlog_streaming.settings import Job, TableRule


Written = Mapping[TableName, frozenset[Mode]]
"""Tables of batches before, and which of their targets exist since."""

_CONCERN_THE_JOB = frozenset({"WRITE_FAILED", "CHECKPOINT_BEHIND"})
"""Errors of `TableError` that concern the whole job: without this table it would meet them at the next one."""


class SetAside(msgspec.Struct, frozen=True, kw_only=True):
    """A table that cannot go on; its targets stay as they are.

    Attributes:
        position: Position of the event group that it stopped before, and number of the event in it.
        gtid: Of that group, where it is known.
        reason: Condition, reason and hint of the error.
    """

    database: str
    table: str
    position: str
    gtid: str | None
    reason: str

    @property
    def name(self) -> TableName:
        """Name of the table."""
        return TableName(self.database, self.table)

    @classmethod
    def at(cls, name: TableName, place: LogPlace, gtid: str | None, error: BinlogError) -> SetAside:
        """*name* stops at *place* because of *error*."""
        position, event_no = place
        return cls(
            database=name.database, table=name.table, position=f"{position}:{event_no}", gtid=gtid, reason=str(error)
        )


def can_set_aside(error: BinlogError) -> bool:
    """True if an error is about one table alone: the job can continue without it."""
    kinds = SchemaError | UnsupportedError | TableError | PartitionRuleError | UnfitRuleError
    return isinstance(error, kinds) and error.subclass not in _CONCERN_THE_JOB


@dataclass(frozen=True, slots=True)
class JobState:
    """Facts that a job has when a batch begins.

    Attributes:
        written: Tables of batches before, and which of their targets exist since; None: not known.
        from_first: The job reads the log from the server's first transaction on, so that whatever it does not create
            did not exist; None: not known, and completeness is not looked at.
        complete: Of tables that batches before have met: whether all their rows lie in what was read.
        scope: What statements of batches before mean for later ones.
        snapshots: The newest snapshot of each table that has one.
        earlier: Selections of tables that the job had before; a table outside of any of them is new to it.
    """

    written: Written | None = None
    from_first: bool | None = None
    complete: Mapping[TableName, bool] = field(default_factory=dict)
    set_aside: Mapping[TableName, SetAside] = field(default_factory=dict)
    scope: StatementScope = field(default_factory=StatementScope)
    snapshots: Mapping[TableName, PlannedSnapshot] = field(default_factory=dict)
    earlier: Sequence[TableFilter] = ()

    def waits(self, table: SelectedTable) -> bool:
        """True if a table is not applied before a snapshot of it begins, or it is created in the log."""
        if table.is_aside or table.name in self.complete:
            return False
        if not all(selected.accepts_name(*table.name) for selected in self.earlier):
            return True
        # The log's first transaction proves nothing here: a server that is older than its log has such a log, too.
        return table.rule.begin is Begin.SNAPSHOT and table.name not in (self.written or ())


@dataclass(frozen=True, slots=True)
class StateChange:
    """Facts that a batch adds to the state of its job.

    Attributes:
        gone: Tables that were dropped or renamed, and not created again: anyone may remove their targets.
        complete: Tables whose completeness is another one now.
        scope: After its statements.
        snapshots: The newest one of each table that has one.
        returned: Tables that were set aside, and go on.
        waiting: Tables whose changes are left out until a snapshot of them begins.
        sequences: Names that rules select, and that are those of sequences.
        definitions: Statements, and definitions of marks, that may have defined tables, in log order.
    """

    gone: frozenset[TableName] = frozenset()
    complete: Mapping[TableName, bool] = field(default_factory=dict)
    scope: StatementScope = field(default_factory=StatementScope)
    snapshots: Mapping[TableName, PlannedSnapshot] = field(default_factory=dict)
    returned: frozenset[TableName] = frozenset()
    waiting: frozenset[TableName] = frozenset()
    sequences: frozenset[TableName] = frozenset()
    definitions: Sequence[DdlStatement] = ()


ASIDE_DIRECTORY = ".binlog-stream/staging"
"""Folder in the sink's directory for tables that replace a selected one later."""
_ASIDE_TARGET = "{database}/{table}/{mode}"


@dataclass(frozen=True, slots=True)
class SelectedTable:
    """A source table that has targets.

    Attributes:
        name: In the log.
        is_aside: No rule selects it; it is kept aside, because it may take the place of a table that is selected.
        known: Targets of which a batch takes it that they are there, as batches before have written them.
        complete: Whether all of its rows lie in what was read; None: as its targets state already.
        lapses: It was complete before the batch, and is not after it: targets state it, also without any step.
        is_assumed: It counts as complete, and nothing in the log created or emptied it.
        complete_from: Of a table that is complete: number of the step from which on it is.
        completing: A snapshot of it began: rows may be missing that the server has.
        set_aside: Why it does not go on; its targets are told.
    """

    name: TableName
    rule: TableRule
    is_aside: bool = False
    known: frozenset[Mode] = frozenset()
    complete: bool | None = None
    lapses: bool = False
    is_assumed: bool = False
    complete_from: int = 0
    completing: bool = False
    set_aside: SetAside | None = None

    def uri(self, directory: str, mode: Mode) -> str:
        """Place of a target."""
        if self.is_aside:
            directory, template = f"{directory.rstrip('/')}/{ASIDE_DIRECTORY}", _ASIDE_TARGET
        else:
            template = self.rule.target
        return target_uri(directory, template, database=self.name.database, table=self.name.table, mode=mode)


class TableSelection:
    """The tables that a job's rules select, and the ghosts of these.

    Args:
        rules: The first one that matches a table counts.
        exclude: Expressions of tables that none of them selects; nor are these kept aside.
    """

    def __init__(self, rules: Sequence[TableRule], exclude: str | None = None, folds_names: bool | None = None) -> None:
        self.folds_names = folds_names
        self._filters = [(TableFilter(rule.select, exclude), rule) for rule in rules]
        self._not_excluded = TableFilter(None, exclude)

    @classmethod
    def of(cls, job: Job) -> TableSelection:
        """The tables of *job*."""
        return cls(job.tables, job.source.exclude_tables, job.source.folds_names)

    def find(self, name: TableName) -> SelectedTable | None:
        """The table, if it is selected, or the ghost of one that is."""
        rule = self.rule(name)
        if rule is not None:
            return SelectedTable(name, rule)
        table = ghost_of(name)
        rule = None if table is None or not self._not_excluded.accepts_name(*name) else self.rule(table)
        # A changelog gets no rows of another table.
        if rule is None or set(rule.modes) == {Mode.CHANGELOG}:
            return None
        return SelectedTable(name, _ghost_rule(rule), is_aside=True)

    def rule(self, name: TableName) -> TableRule | None:
        """The rule that selects a table."""
        return next((rule for wanted, rule in self._filters if wanted.accepts_name(*name)), None)

    def rules_about(self, database: str) -> list[TableRule]:
        """Rules that may select tables of a database, as far as their expressions show it."""
        return [rule for wanted, rule in self._filters if wanted.may_accept_in(database)]


def _ghost_rule(rule: TableRule) -> TableRule:
    # Whatever is kept of its table: when it takes the place of that, the rows that it has then are all that counts.
    applies = OnStatement.APPLY
    # Which rows go with a partition cannot be told of those that a rule has changed.
    as_its_table = rule.hides or rule.on_partition_drop is OnPartitionDrop.KEEP
    return msgspec.structs.replace(
        rule,
        mode=Mode.MIRROR,
        deletes=Deletes.REMOVE,
        on_truncate=applies,
        on_drop=applies,
        on_partition_drop=rule.on_partition_drop if as_its_table else OnPartitionDrop.APPLY,
    )
