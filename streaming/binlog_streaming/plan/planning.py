"""Collection of a batch's facts before they are put in order: `Planning`.

Its statements have the effects that rules show; a table that a rule would show otherwise goes no further.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from binlog_connector.rules.revealing_statements import FormerNames
from binlog_connector.rules.rules_applied import apply_rules_to_changes
from binlog_connector.rules.rules_on_tables import UnfitRuleError
from binlog_connector.schema.definitions import TableName
from binlog_connector.schema.log_ddl import DdlStatement, is_ddl
from binlog_connector.schema.snapshot_marks import mark_statement
from binlog_connector.schema.stated_definitions import definition_statement, is_stated
from binlog_connector.schema.table_changes import EventsLost, TableRenamed
from binlog_format.errors import SchemaError
from binlog_format.position import Position
from binlog_format.views.table_index import TableIndex
from binlog_streaming.plan.batch_plan import IndexPart, names_of
from binlog_streaming.plan.cascades import Touched
from binlog_streaming.plan.failures import named_error
from binlog_streaming.plan.job_state import StateChange
from binlog_streaming.plan.table_checks import Refusal
from binlog_streaming.settings import Mode, OnCascade

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence, Set

    from binlog_connector.rules.row_rules import TableRules
    from binlog_connector.schema.snapshot_marks import SnapshotChange
    from binlog_connector.schema.table_changes import RowsChanged, StatementChange, TableChange
    from binlog_format.rows.decoding import Decoding
    from binlog_streaming.plan.batch_plan import ChangeStep, LogPlace
    from binlog_streaming.plan.cascade_links import Link
    from binlog_streaming.plan.job_state import JobState, SelectedTable, TableSelection
    from binlog_streaming.plan.snapshots import Snapshots

    Row = Mapping[str, Any]
    """Row of the view `tables`."""
    Statements = list[tuple[DdlStatement, Row | None]]
    """Statements, and marks of snapshots with what they contain."""
    AnyChange = StatementChange | SnapshotChange
    NamedChange = TableChange | RowsChanged | SnapshotChange


@dataclass(slots=True)
class Planning:
    """Facts of a batch, as far as it was read.

    Attributes:
        returning: Tables that were set aside, and of which a snapshot begins.
        complete: Whether all rows of a table lie in what was read, of tables that the batch meets.
        assumed: Those of them that nothing in the log created or emptied.
        gone: Tables that were dropped or renamed, and not created again.
        tables: Those of the job that were asked for.
        parts: Where rows of tables are, chunks of snapshots among them.
        changes: Steps that statements are.
        links: A pair of names for each RENAME between tables of the job.
        touched: Ranges in which rows of tables changed.
        cascades: Foreign keys that carry these changes on.
        respelled: Tables of batches before whose names the server folds, as is known since: they are none of its own.
    """

    selection: TableSelection
    job_state: JobState
    snapshots: Snapshots
    returning: Set[TableName] = frozenset()
    refusals: Mapping[TableName, Refusal] = field(default_factory=dict)
    complete: Mapping[TableName, bool] = field(default_factory=dict)
    assumed: Set[TableName] = frozenset()
    gone: set[TableName] = field(default_factory=set)
    tables: dict[TableName, SelectedTable] = field(default_factory=dict)
    parts: dict[TableName, list[IndexPart]] = field(default_factory=dict)
    problems: list[tuple[TableName, Refusal]] = field(default_factory=list)
    changes: list[ChangeStep] = field(default_factory=list)
    links: list[tuple[TableName, TableName]] = field(default_factory=list)
    touched: list[Touched] = field(default_factory=list)
    cascades: list[Link] = field(default_factory=list)
    respelled: list[TableName] = field(default_factory=list)

    def take_rows(self, row: Row) -> None:
        """A row of the view `tables`: what a range has of one table."""
        name = TableName(str(row["database"]), str(row["table"]))
        start, end = Position.of(row["start"]), Position.of(row["end"])
        counts = (row[f"checked_{kind}"] or 0 for kind in ("updates", "deletes", "outside"))
        self.touched.append(Touched(name, start, end, *counts))
        problem = row.get("problem")
        if problem is not None and not row["snapshot"] and self.find(name) is not None:
            self.problems.append((name, _refusal(problem)))
        if row["index"] is not None and self.find(name) is not None:
            self.parts.setdefault(name, []).append(_part(row, end))

    def find(self, name: TableName) -> SelectedTable | None:
        """The table of the job that has a name; None: there is none, or it was set aside."""
        if name in self.job_state.set_aside and name not in self.returning:
            return None
        if name not in self.tables:
            table = self.selection.find(name)
            if table is None:
                return None
            self.tables[name] = table
            if name in self.returning or self.job_state.waits(table):
                self.snapshots.wait(name)
        return self.tables[name]

    def holds_rows(self, name: TableName) -> bool:
        """True if a table is one of the job's that has targets with its rows."""
        table = self.find(name)
        return table is not None and set(table.rule.modes) != {Mode.CHANGELOG}

    def applies_cascades(self, name: TableName) -> bool:
        """True if cascades to a table are applied to its targets."""
        table = self.find(name)
        return table is not None and table.rule.foreign_keys is OnCascade.APPLY

    def takes_part(self, name: TableName, place: LogPlace) -> bool:
        """True if a change at a place of the log is applied to a table."""
        return name not in self.refusals and self.snapshots.is_live(name, place)

    def take_keys(self) -> None:
        """After the walk: tables of chunks give their keys, which shadows do not have."""
        for name, parts in self.parts.items():
            known = [part for part in parts if not part.snapshot or self.snapshots.key_of(part.snapshot) is not None]
            self.parts[name] = [self._keyed(part) if part.snapshot else part for part in known]

    def _keyed(self, part: IndexPart) -> IndexPart:
        index = TableIndex.from_bytes(part.index).with_key(self.snapshots.key_of(part.snapshot) or ())
        is_repair = self.snapshots.is_repair(part.snapshot)
        if is_repair:
            index = replace(index, snapshot="")
        return replace(part, index=index.to_bytes(), is_repair=is_repair)

    def state_change(self) -> StateChange:
        """Facts for later batches."""
        for name in self.refusals:
            self.snapshots.lose(name, "the table was set aside")
        returned = frozenset(name for name in self.returning if name not in self.refusals)
        waiting = frozenset(name for name in self.tables if not self.snapshots.is_live(name))
        scope = self.job_state.scope
        sequences = frozenset(name for name in scope.sequences if self.selection.rule(name) is not None)
        return StateChange(
            frozenset(self.gone), self.complete, scope, self.snapshots.tables, returned, waiting, sequences
        )

    def known(self) -> list[TableName]:
        """Tables of the job that exist, or existed, as far as that is known by now."""
        names = dict.fromkeys((*self.parts, *self.tables, *(self.job_state.written or ())))
        return [name for name in names if self.find(name) is not None]


def statements_of(rows: Sequence[Row]) -> Statements:
    """The statements and the marks of snapshots in a batch, in log order. *rows*: of the view `tables`."""
    found: Statements = []
    for row in rows:
        if row["database"] is None:
            found += [(DdlStatement.from_row(statement), None) for statement in row["ddl"] or ()]
            found += [(mark_statement(mark), mark) for mark in row["marks"] or ()]
    return sorted(found, key=lambda pair: pair[0].place)


def definitions_of(statements: Statements) -> tuple[DdlStatement, ...]:
    """Statements of a batch that may define tables, and what marks of snapshots define, in log order."""
    found = (definition_statement(mark) if mark else statement for statement, mark in statements)
    return tuple(
        statement for statement in found if statement is not None and (is_stated(statement) or is_ddl(statement))
    )


def _part(row: Row, end: Position) -> IndexPart:
    inserts, updates, deletes, size = (row[name] for name in ("inserts", "updates", "deletes", "bytes"))
    index, snapshot = bytes(row["index"]), row["snapshot"] or ""
    return IndexPart(Position.of(row["start"]), end, index, inserts, updates, deletes, size, snapshot)


def _refusal(problem: Row) -> Refusal:
    error = named_error(problem["error"])
    assert error is not None, "the view gives errors with their names"
    return Refusal((Position.of(problem["position"]), problem["event_no"]), problem["gtid"], error)


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
