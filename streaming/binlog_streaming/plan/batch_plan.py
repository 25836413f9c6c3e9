"""Steps of a batch on its tables: `BatchPlan`; `plan.plan_batch` makes one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from binlog_connector.schema.table_changes import DatabaseDropped, RowsChanged, TableRenamed, UnsupportedChange

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from binlog_connector.schema.definitions import TableName
    from binlog_connector.schema.log_ddl import DdlStatement
    from binlog_connector.schema.snapshot_marks import SnapshotChange
    from binlog_connector.schema.table_changes import TableChange
    from binlog_format.position import Position
    from binlog_streaming.plan.cascade_links import LinkedRowsStep
    from binlog_streaming.plan.job_state import SelectedTable, StateChange

    LogPlace = tuple[Position, int]
    """Position of an event group, and number of an event in it."""

STEPS_PER_CHANGE = 3
COLUMNS_STEP = 1
"""Number of the step after a change that adapts columns to rows."""
ROWS_STEP = 2
"""Number of the step of rows after a change."""


def names_of(
    change: TableChange | RowsChanged | SnapshotChange, known: Callable[[], Iterable[TableName]] = tuple
) -> list[TableName]:
    """Names of the tables that a change is about, each once.

    Args:
        known: Gives the tables among which those of a dropped database are.
    """
    match change:
        case TableRenamed():
            return list(dict.fromkeys((change.old, change.new)))
        case UnsupportedChange() | RowsChanged():
            return list(dict.fromkeys(change.names or ()))
        case DatabaseDropped():
            return [name for name in known() if name.database == change.database]
    return [change.name]


COMPONENT_WEIGHT = 1 << 19
"""Fixed cost of a component, in bytes of row events."""


@dataclass(frozen=True, slots=True)
class IndexPart:
    """An index row of one table: its row events in one range of the log.

    Attributes:
        end: After it.
        index: Serialised `TableIndex`.
        inserts: Row changes by kind.
        updates: The same.
        deletes: The same.
        size: Bytes of the row events, expanded.
        snapshot: Of which these are chunks; empty: they are changes.
        is_repair: They are rows of a repair, which are applied as changes are.
    """

    start: Position
    end: Position
    index: bytes
    inserts: int
    updates: int
    deletes: int
    size: int
    snapshot: str = ""
    is_repair: bool = False


@dataclass(frozen=True, slots=True)
class RowsStep:
    """Rows of one table, between two statements about it.

    Attributes:
        number: `CommitId.step` of the rows; the one before it is that of columns which have to be made fit for them.
        parts: Where they are; parts at the edges may hold others beside them.
        after: Only rows after this place.
        before: Only rows before this place.
    """

    number: int
    table: TableName
    parts: tuple[IndexPart, ...]
    after: LogPlace | None = None
    before: LogPlace | None = None

    @property
    def is_repair(self) -> bool:
        """True if these are rows of a repair, which a changelog does not have."""
        return all(part.is_repair for part in self.parts)


@dataclass(frozen=True, slots=True)
class ChangeStep:
    """Step of a statement, or of a mark of a snapshot.

    Attributes:
        number: `CommitId.step`.
        tables: Tables of the component that it is about.
        overwritten: Tables that the same statement puts another content in later on: nobody has to empty them.
    """

    number: int
    change: TableChange | SnapshotChange
    statement: DdlStatement
    tables: tuple[TableName, ...]
    overwritten: frozenset[TableName] = frozenset()

    @property
    def place(self) -> LogPlace:
        """Place of the statement."""
        return self.statement.place


@dataclass(frozen=True, slots=True)
class Component:
    """Tables that depend on each other, and what becomes of them, step by step.

    Attributes:
        tables: By their names in the log.
    """

    tables: Mapping[TableName, SelectedTable]
    steps: tuple[RowsStep | LinkedRowsStep | ChangeStep, ...]

    @property
    def name(self) -> str:
        """Name of its first table."""
        return str(min(self.tables))

    @property
    def weight(self) -> int:
        """Approximate cost, to spread components evenly."""
        return COMPONENT_WEIGHT + sum(part.size for name in self.tables for part in self.parts(name))

    def parts(self, table: TableName) -> list[IndexPart]:
        """Parts of the batch for a table, each part once."""
        found = {id(part): part for step in self.rows_steps() if step.table == table for part in step.parts}
        return list(found.values())

    def rows_steps(self) -> Iterator[RowsStep]:
        """Rows steps of all tables, each by itself."""
        for step in self.steps:
            if isinstance(step, RowsStep):
                yield step
            elif not isinstance(step, ChangeStep):
                yield from step.rows


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """A batch.

    Attributes:
        components: They do not depend on each other; by their names.
        end: Where the log goes on after all that was touched; None: nothing was.
    """

    components: tuple[Component, ...]
    end: Position | None
    state_change: StateChange
