"""Facts about its tables that a job keeps from batch to batch: `JobState`; a batch's additions: `StateChange`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

from binlog_connector.schema.definitions import TableName
from binlog_connector.schema.statement_scope import StatementScope
from binlog_format.errors import BinlogError, SchemaError, TableError, UnsupportedError
from binlog_streaming.settings.choices import Begin, Mode
from binlog_streaming.settings.partition_rules import PartitionRuleError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from binlog_connector.schema.log_ddl import DdlStatement
    from binlog_format.views.table_filter import TableFilter
    from binlog_streaming.plan.batch_plan import LogPlace
    from binlog_streaming.plan.snapshots import PlannedSnapshot
    from binlog_streaming.plan.table_selection import SelectedTable

Written = Mapping[TableName, frozenset[Mode]]
"""Tables of batches before, and which of their targets exist since."""

_CONCERN_THE_JOB = frozenset({"WRITE_FAILED", "CHECKPOINT_BEHIND"})
"""Errors of `TableError` that concern the whole job: without this table it would meet them at the next one."""


class SetAside(msgspec.Struct, frozen=True, kw_only=True):
    """A table that cannot go on; its targets stay as they are.

    Attributes:
        database: Of the table.
        table: Its name there.
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
    kinds = SchemaError | UnsupportedError | TableError | PartitionRuleError
    return isinstance(error, kinds) and error.subclass not in _CONCERN_THE_JOB


@dataclass(frozen=True, slots=True)
class JobState:
    """Facts that a job has when a batch begins.

    Attributes:
        written: Tables of batches before, and which of their targets exist since; None: not known.
        from_first: The job reads the log from the server's first transaction on, so that whatever it does not create
            did not exist; None: not known, and completeness is not looked at.
        complete: Of tables that batches before have met: whether all their rows lie in what was read.
        set_aside: Tables that do not go on.
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
        waiting: Tables that wait for their snapshots.
        definitions: Statements, and definitions of marks, that may have defined tables, in log order.
    """

    gone: frozenset[TableName] = frozenset()
    complete: Mapping[TableName, bool] = field(default_factory=dict)
    scope: StatementScope = field(default_factory=StatementScope)
    snapshots: Mapping[TableName, PlannedSnapshot] = field(default_factory=dict)
    returned: frozenset[TableName] = frozenset()
    waiting: frozenset[TableName] = frozenset()
    definitions: Sequence[DdlStatement] = ()
