"""Checks of a batch's tables before anything of it is written: `admit`.

One walk over the statements of the batch, in log order. It finds where a table of the job would become wrong without an
error: a statement that changed its rows without row events, or rows of a table whose earlier rows lie in no part of
the log that was read.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from binlog_connector.schema.snapshot_marks import (
    Purpose,
    RepairBegun,
    RepairEnded,
    SnapshotBegun,
    SnapshotCancelled,
    SnapshotChunk,
    SnapshotEnded,
    TableProved,
)
from binlog_connector.schema.statement_rows import MOVED_HINT, events_lost_error, statement_error
from binlog_connector.schema.table_changes import (
    DatabaseDropped,
    EventsLost,
    PartitionExchanged,
    PartitionsDropped,
    RowsChanged,
    TableCreated,
    TableDropped,
    TableRenamed,
    TableTruncated,
)
from binlog_format.errors import BinlogError, SchemaError, TableError
from binlog_streaming.plan.batch_plan import names_of
from binlog_streaming.plan.lost_cascades import RowGaps
from binlog_streaming.plan.snapshots import snapshot_command
from binlog_streaming.settings import Begin, Deletes, Mode, OnCascade, OnPartitionDrop, OnRowStatement, OnStatement

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from binlog_connector.schema.definitions import TableName
    from binlog_connector.schema.log_ddl import DdlStatement
    from binlog_connector.schema.snapshot_marks import SnapshotChange
    from binlog_connector.schema.table_changes import StatementChange, TableChange
    from binlog_format.position import Position
    from binlog_streaming.plan.batch_plan import LogPlace
    from binlog_streaming.plan.cascade_links import Link
    from binlog_streaming.plan.cascades import CascadedChange
    from binlog_streaming.plan.job_state import JobState, SelectedTable
    from binlog_streaming.plan.lost_cascades import LostCascade
    from binlog_streaming.plan.snapshots import Snapshots

_EXCHANGE_HINT = (
    'on_partition_drop = "apply" for both tables exchanges the rows of their targets where only one side has rows; see '
    f"docs/completeness.md, Partitions that are exchanged. {MOVED_HINT}"
)
_NAMED_MAX = 10
"""Tables that an error names."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A table that cannot go on.

    Attributes:
        place: From there on.
        gtid: Of the event group there, where a statement is the reason.
    """

    place: LogPlace
    gtid: str | None
    error: BinlogError


@dataclass(slots=True)
class TableChecks:
    """Walks over the statements of a batch: `take` each of them in log order, then `finish`.

    Attributes:
        find: The table of the job that has a name; None: there is none.
        known: Tables of the job that exist, or existed, as far as that is known by now.
        fail_on_data_loss: Stop where the server states that it did not log changes.
        tells_texts: Whether errors show the text of statements.
        refusals: The first refusal of each table that has one.
        assumed: Tables that count as complete because the log begins with the server's first transaction: nothing in it
            created or emptied them. A server that is older than its log has such a log, too.
        gaps: Where tables have not all their rows.
        exchanges: Places of statements that exchange rows of targets, as the server exchanged those of the tables.
    """

    job_state: JobState
    find: Callable[[TableName], SelectedTable | None]
    known: Callable[[], Sequence[TableName]]
    fail_on_data_loss: bool
    snapshots: Snapshots
    tells_texts: bool = True
    refusals: dict[TableName, Refusal] = field(default_factory=dict)
    assumed: set[TableName] = field(default_factory=set)
    gaps: RowGaps = field(init=False)
    exchanges: set[LogPlace] = field(default_factory=set)
    _states: dict[TableName, bool | None] = field(default_factory=dict)
    _renamed_in: dict[TableName, tuple[LogPlace, str | None]] = field(default_factory=dict)
    _ignoring: set[TableName] = field(default_factory=set)
    _of_others: set[TableName] = field(default_factory=set)  # names that tables have now which the job lacks rows of

    def __post_init__(self) -> None:
        self.gaps = RowGaps(self.snapshots, self.job_state.complete)

    @property
    def complete(self) -> dict[TableName, bool]:
        """Completeness of the batch's tables: True if all rows of a table are in the part that was read."""
        return {name: state for name, state in self._states.items() if state is not None}

    def take(self, statement: DdlStatement, changes: Sequence[StatementChange | SnapshotChange]) -> None:
        """The next statement, or mark of a snapshot, and what it does to tables."""
        for change in changes:
            if isinstance(change, PartitionExchanged) and self._can_exchange(change):
                self.exchanges.add(statement.place)
            elif isinstance(change, RowsChanged):
                self._take_rows_changed(statement, change)
            elif isinstance(change, EventsLost):
                if self.fail_on_data_loss:
                    raise events_lost_error(statement)
                self._let_lack(self.known())
            elif isinstance(change, SnapshotBegun | SnapshotChunk | SnapshotEnded | SnapshotCancelled):
                self._take_mark(statement, change)
            elif isinstance(change, RepairBegun | RepairEnded):
                self.snapshots.repair(statement, change)
            elif not isinstance(change, TableProved):
                self._take_change(statement, change)

    def take_cascade(self, carried: CascadedChange) -> None:
        """A change of a parent, before the next statement."""
        child = carried.cascade.child
        table = self.find(child)
        if table is None or not self.snapshots.is_live(child, carried.place):
            return
        # Whatever gets the rows of a table aside lacks these changes then, and is refused for it.
        self._let_lack([child])
        if table.rule.foreign_keys is not OnCascade.IGNORE and not table.is_aside:
            self.refusals.setdefault(child, Refusal(carried.place, carried.change.gtid, carried.error()))

    def take_lost(self, lost: LostCascade) -> None:
        """Changes of foreign keys that cannot be derived."""
        self.snapshots.lose(lost.table, lost.problem)
        self._let_lack([lost.table])

    def finish(self, first_rows: Mapping[TableName, Position]) -> None:
        """After the last statement: look at the tables that have rows, or another name now.

        Args:
            first_rows: Of each table with row events in the batch a place before them.
        """
        if self.job_state.from_first is None:
            return
        lacking = {}
        for name in dict.fromkeys((*first_rows, *self._renamed_in)):
            table, is_complete = self.find(name), self._is_complete(name)
            if table is None or is_complete is None or not self.snapshots.is_live(name):
                continue
            if is_complete and name not in self._states and name not in self.job_state.complete:
                self.assumed.add(name)
            self._states.setdefault(name, is_complete)
            # What was let in before goes on.
            is_known = name in self.job_state.complete and name not in self._of_others
            is_let_in = is_known or name in self._ignoring or name in self.snapshots.tables
            if not is_complete and not is_let_in and not _is_let_in(table):
                place, gtid = self._renamed_in.get(name) or ((first_rows[name], 0), None)
                lacking[name] = (place, gtid)
        for name, (place, gtid) in lacking.items():
            self.refusals.setdefault(name, Refusal(place, gtid, incomplete(name, lacking)))

    def refuse(self, name: TableName, refusal: Refusal) -> None:
        """A table that cannot be understood from a place on; its first place counts."""
        table, earlier = self.find(name), self.refusals.get(name)
        if table is not None and not table.is_aside and (earlier is None or refusal.place < earlier.place):
            self.refusals[name] = refusal

    def refuse_children(self, links: Sequence[Link]) -> None:
        """A table that cannot go on does not do what its foreign keys carry on to the children of it."""
        changed = {link.child for link in links}
        for _ in links:  # as many levels as there can be
            for link in links:
                refusal = self.refusals.get(link.key.parent)
                if refusal is not None and link.key.parent in changed:
                    self.refuse(link.child, refusal)

    def refuse_heirs(
        self, changes: Sequence[tuple[DdlStatement, Sequence[StatementChange | SnapshotChange]]], links: Sequence[Link]
    ) -> None:
        """After all refusals: who gets the rows of a table that cannot go on by a RENAME, and the children of these.

        Such a table has nothing of the batch, not even what came before the place where it is refused: its name may be
        another table's there.
        """
        moves = [(of, it) for of, some in changes for it in some if isinstance(it, TableRenamed | PartitionExchanged)]
        count = -1
        while count != len(self.refusals):
            count = len(self.refusals)
            for statement, change in moves:
                if isinstance(change, TableRenamed):
                    self._refuse_heir(statement, change)
                elif statement.place in self.exchanges and not self.refusals.keys().isdisjoint(change.names or ()):
                    self._take_rows_changed(statement, change)
            self.refuse_children(links)

    def _refuse_heir(self, statement: DdlStatement, change: TableRenamed) -> None:
        refused = self.refusals.get(change.old)
        if refused is not None and self.find(change.new) is not None:
            error = _renamed_after_stop(change, refused.place[0], str(refused.error))
            self.refusals.setdefault(change.new, Refusal(statement.place, statement.gtid, error))

    def _is_complete(self, name: TableName) -> bool | None:
        # None: a job of an earlier version wrote it.
        if name in self._states:
            return self._states[name]
        if name in self.job_state.complete or name not in (self.job_state.written or ()):
            return self.job_state.complete.get(name, self.job_state.from_first)
        return None

    def _take_mark(
        self, statement: DdlStatement, change: SnapshotBegun | SnapshotChunk | SnapshotEnded | SnapshotCancelled
    ) -> None:
        table = self.find(change.name)
        if table is None:
            return
        if isinstance(change, SnapshotBegun):
            self._take_begin(statement, change, table)
        elif isinstance(change, SnapshotChunk):
            key = table.rule.keys or self.snapshots.key_of(change.snapshot)
            self.snapshots.take_chunk(statement, change, has_key=bool(key))
        elif isinstance(change, SnapshotCancelled):
            self.snapshots.cancel(change)
        elif self.snapshots.end(statement, change):
            self._states[change.name] = True
            self.gaps.close(change.name, statement.place)

    def _take_begin(self, statement: DdlStatement, begun: SnapshotBegun, table: SelectedTable) -> None:
        name, place = begun.name, statement.place
        is_complete = self._is_complete(name)
        # What stopped it before is over; rows before a start that nobody saw would have stopped it, too.
        is_live = self.snapshots.is_live(name, place) and self.refusals.pop(name, None) is None
        is_let_in = name in self.job_state.complete or name in self._ignoring or _is_let_in(table)
        is_live = is_live and (is_complete is not False or is_let_in)
        lacks_changes = is_complete is not True and name in (self.job_state.written or ())
        empties = begun.purpose is Purpose.RESYNC or not is_live or lacks_changes
        self.snapshots.begin(statement, begun, is_live=is_live, empties=empties)
        if empties or is_complete is not True:
            self._states[name] = False
            self.gaps.open(name, place, empties=empties)

    def _take_change(self, statement: DdlStatement, change: TableChange) -> None:
        self._stop_snapshots(statement, change)
        if isinstance(change, TableRenamed):
            self._take_rename(statement, change)
        elif isinstance(change, DatabaseDropped):
            for name in names_of(change, self.known):
                self._begin_anew(name, statement)
        elif (
            (isinstance(change, TableCreated) and not change.if_not_exists)
            or isinstance(change, TableDropped)
            or (isinstance(change, TableTruncated) and self._empties(change.name))
        ) and self.find(change.name) is not None:
            self._begin_anew(change.name, statement)

    def _begin_anew(self, name: TableName, statement: DdlStatement) -> None:
        # All rows that it has from here on come after this place.
        self._states[name] = True
        self.snapshots.go_live(name, statement.place)
        self.gaps.close(name, statement.place, begins_anew=True)

    def _stop_snapshots(self, statement: DdlStatement, change: TableChange) -> None:
        if isinstance(change, TableTruncated | PartitionsDropped) or getattr(change, "if_not_exists", False):
            return  # the columns stay
        problem = f"the table was changed at {statement.position} before all chunks were read"
        for name in names_of(change, lambda: self.snapshots.tables):
            self.snapshots.stop(name, problem, statement.place)

    def _empties(self, name: TableName) -> bool:
        table = self.find(name)
        return table is not None and (table.is_aside or table.rule.on_truncate is OnStatement.APPLY)

    def _take_rename(self, statement: DdlStatement, change: TableRenamed) -> None:
        place = statement.place
        refused = self.refusals.get(change.old) or self._set_aside_before(change, place, statement.gtid)
        if refused is None and self._hands_on_all_rows(change, place):
            self.snapshots.go_live(change.new, place)
        self.gaps.move(change.old, change.new, place)
        is_live = self.snapshots.is_live(change.new, place)
        if is_live and self.find(change.new) is not None and self.job_state.from_first is not None:
            is_complete = self._is_complete(change.old) if self.find(change.old) is not None else False
            self._states[change.new] = is_complete
            if is_complete is False:
                self._renamed_in[change.new] = (place, statement.gtid)
                if self.find(change.old) is not None:
                    self._of_others.add(change.new)
        if self.find(change.new) is not None and refused is not None:
            self.refusals.setdefault(change.new, Refusal(place, statement.gtid, refused.error))
        if self.find(change.old) is not None:
            self._begin_anew(change.old, statement)  # nothing has this name any more

    def _hands_on_all_rows(self, change: TableRenamed, place: LogPlace) -> bool:
        # What waits under the new name waits for rows that the table has under its old one.
        is_whole = self.snapshots.is_live(change.old, place) and self._is_complete(change.old) is True
        is_new = self.find(change.new) is not None and change.new not in self.job_state.set_aside
        return is_whole and is_new and self.find(change.old) is not None

    def _set_aside_before(self, change: TableRenamed, place: LogPlace, gtid: str | None) -> Refusal | None:
        """Reason why a table cannot continue under its new name: it could not under the one before."""
        stopped = self.job_state.set_aside.get(change.old)
        if stopped is None or self.find(change.old) is not None:
            return None
        return Refusal(place, gtid, _renamed_after_stop(change, stopped.position, stopped.reason))

    def _can_exchange(self, change: PartitionExchanged) -> bool:
        """True if the targets of both tables hold the rows that the server's tables have, and no others."""
        tables = [self.find(name) for name in (change.table, change.other)]
        modes = {None if table is None else table.rule.modes for table in tables}
        return len(modes) == 1 and all(table is not None and self._equals_source(table) for table in tables)

    def _equals_source(self, table: SelectedTable) -> bool:
        name, rule = table.name, table.rule
        has_all = self._is_complete(name) is True and self.snapshots.is_live(name) and name not in self.snapshots.tables
        applies = (rule.on_truncate, rule.on_partition_drop) == (OnStatement.APPLY, OnPartitionDrop.APPLY)
        fails = rule.on_statement is OnRowStatement.FAIL and rule.deletes is Deletes.REMOVE
        is_own = not table.is_aside and name not in self.refusals
        return has_all and applies and fails and is_own and Mode.CHANGELOG not in rule.modes

    def _take_rows_changed(self, statement: DdlStatement, changed: RowsChanged) -> None:
        names = (
            self.known()
            if changed.names is None
            else [spelling for name in changed.names for spelling in name.spellings]
        )
        place = statement.place
        known = [table for name in dict.fromkeys(names) if (table := self.find(name)) is not None]
        children = [self.find(spelling) for name in changed.cascaded for spelling in name.spellings]
        known += [table for table in children if table is not None and _takes_cascades(table)]
        tables = [table for table in known if self.snapshots.is_live(table.name, place)]
        if changed.names is None and not known and not self.job_state.from_first:
            raise statement_error(statement, None, changed, tells_text=self.tells_texts)
        failing = tuple(
            table.name for table in tables if table.rule.on_statement is OnRowStatement.FAIL and not table.is_aside
        )
        # Whatever gets the rows of a table aside lacks these changes then, and is refused for it.
        self._let_lack([table.name for table in tables])
        for name in failing:
            about = None if changed.names is None else failing
            hint = _EXCHANGE_HINT if isinstance(changed, PartitionExchanged) else MOVED_HINT
            error = statement_error(statement, about, changed, tells_text=self.tells_texts, moved_hint=hint)
            self.refusals.setdefault(name, Refusal(place, statement.gtid, error))

    def _let_lack(self, names: Sequence[TableName]) -> None:
        # Those that lacked nothing before are let in.
        names = [name for name in names if self.snapshots.is_live(name)]
        for name in names:
            self.snapshots.stop(name, "changes of the table are missing in the log")
        self._ignoring.update(name for name in names if self._is_complete(name) is not False)
        self._states.update((name, False) for name in names)


def _renamed_after_stop(change: TableRenamed, position: object, why: str) -> SchemaError:
    reason = f"{change.new} was {change.old} before, which was set aside at {position}: {why}"
    return SchemaError("TABLE_RENAMED", reason, hint=f"Take a new snapshot: {snapshot_command(change.new)}")


def _takes_cascades(table: SelectedTable) -> bool:
    return table.rule.foreign_keys is not OnCascade.IGNORE and set(table.rule.modes) != {Mode.CHANGELOG}


def _is_let_in(table: SelectedTable) -> bool:
    rule = table.rule
    return table.is_aside or rule.begin is Begin.EMPTY or set(rule.modes) == {Mode.CHANGELOG}


def incomplete(name: TableName, lacking: Iterable[TableName] = ()) -> TableError:
    """The error for a table whose rows begin before what is read; *lacking*: others of which the same is true."""
    others = [str(other) for other in sorted(lacking) if other != name]
    more = f", and {len(others) - _NAMED_MAX} more" if len(others) > _NAMED_MAX else ""
    told = f"; so do {', '.join(others[:_NAMED_MAX])}{more}" if others else ""
    return TableError(
        "INCOMPLETE",
        f"{name}: its rows begin before the part of the log that is read: there is no CREATE TABLE or TRUNCATE of it "
        f"in that part, and the log does not begin with the server's first transaction{told}",
        hint='A target would lack all earlier rows. Set begin = "snapshot" for this table, and take its rows with '
        'binlog-stream snapshot JOB.toml --server URL; or begin = "empty" if it was empty then, or if gaps are wanted; '
        "or keep it with mode changelog; or leave it out (option source.excludeTables)",
    )
