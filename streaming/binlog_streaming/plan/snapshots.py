"""Snapshots in a batch, table by table, in log order: `Snapshots`; what a job remembers of one: `PlannedSnapshot`.

A table is *live* where the job applies what the log has of it. One that waits for its snapshot, or was set aside,
becomes live where a snapshot of it begins. `plan.admission` walks over the statements and the marks of a batch, and
notes here what they mean; steps and rows are then asked whether they count.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import msgspec

from binlog_connector.schema.definitions import TableName
from binlog_connector.schema.snapshot_marks import (
    RepairBegun,
    RepairEnded,
    SnapshotBegun,
    SnapshotChunk,
    SnapshotEnded,
    mark_change,
)
from binlog_format.messages import count_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from binlog_connector.schema.log_ddl import DdlStatement
    from binlog_connector.schema.snapshot_marks import SnapshotCancelled, SnapshotChange
    from binlog_connector.schema.table_changes import TableChange
    from binlog_format.rows.decoding import Decoding
    from binlog_streaming.plan.batch_plan import LogPlace

    StepChange = TableChange | SnapshotChange


class PlannedSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The newest snapshot of a table.

    Attributes:
        snapshot: Which one, a UUID.
        purpose: `Purpose`.
        key: Names of the columns that tell rows apart; empty: none do.
        begun: Position of the event group of its first mark.
        chunks: Event groups with rows, so far.
        rows: What they have, together.
        ended_gtid: Of the group of its last mark; None: it has not ended, or that has no GTID.
        problem: Why it does not complete the table; None: it does, or may still.
    """

    database: str
    table: str
    snapshot: str
    purpose: str
    key: tuple[str, ...] = ()
    begun: str = ""
    begun_gtid: str | None = None
    chunks: int = 0
    rows: int = 0
    ended_gtid: str | None = None
    is_ended: bool = False
    problem: str | None = None

    @property
    def name(self) -> TableName:
        """Name of the table."""
        return TableName(self.database, self.table)

    @property
    def is_open(self) -> bool:
        """True if chunks are still to come."""
        return not self.is_ended and self.problem is None


@dataclass(slots=True)
class Snapshots:
    """Snapshots of tables in a batch.

    Attributes:
        tables: The newest one of each table, as far as the walk has come.
        faulty: Snapshots whose chunks cannot be used, and why.
        emptied: Tables whose rows go at the start of a snapshot, or of its only chunk, and where.
        ended: Tables that are complete from the end of a snapshot on, and where.
    """

    tables: dict[TableName, PlannedSnapshot]
    faulty: Mapping[str, str] = field(default_factory=dict)
    emptied: set[tuple[TableName, LogPlace]] = field(default_factory=set)
    ended: set[tuple[TableName, LogPlace]] = field(default_factory=set)
    _live_from: dict[TableName, LogPlace | None] = field(default_factory=dict)  # None: not in this batch
    _used: dict[TableName, list[tuple[LogPlace, str]]] = field(default_factory=dict)
    _at_start: dict[TableName, str] = field(default_factory=dict)
    _keys: dict[str, tuple[str, ...]] = field(default_factory=dict)
    _before_repair: dict[str, str] = field(default_factory=dict)  # which snapshot's rows counted before

    def __post_init__(self) -> None:
        for name, snapshot in self.tables.items():
            self._keys[snapshot.snapshot] = snapshot.key
            if snapshot.is_open:
                self._at_start[name] = snapshot.snapshot

    def wait(self, name: TableName) -> None:
        """The table is not live when the batch begins."""
        self._live_from[name] = None

    def go_live(self, name: TableName, place: LogPlace) -> None:
        """The table is live from a place on; only the first one of a batch counts, unless it begins anew there."""
        if name in self._live_from and self._live_from[name] is None:
            self._live_from[name] = place

    def waited(self, name: TableName) -> bool:
        """True if a table was not live when the batch began."""
        return name in self._live_from

    def live_from(self, name: TableName) -> LogPlace | None:
        """Place from which a table that waited is live; None: there is none in the batch, or it did not wait."""
        return self._live_from.get(name)

    def is_open_at_start(self, name: TableName) -> bool:
        """True if a snapshot of a table was under way when the batch began."""
        return name in self._at_start

    def is_live(self, name: TableName, place: LogPlace | None = None) -> bool:
        """True if the log applies to a table from *place* on; None: at the end of the batch."""
        if name not in self._live_from:
            return True
        first = self._live_from[name]
        return first is not None and (place is None or first <= place)

    def begin(self, statement: DdlStatement, begun: SnapshotBegun, *, is_live: bool, empties: bool) -> None:
        """A snapshot begins.

        Args:
            is_live: What the log has of the table before it counts.
            empties: Rows that targets have go there.
        """
        name, place = begun.name, statement.place
        self._keys[begun.snapshot] = begun.created.primary_key
        self._used.setdefault(name, []).append((place, begun.snapshot))
        if not is_live:
            self._live_from[name] = place
        if empties:
            self.emptied.add((name, place))
        self.tables[name] = PlannedSnapshot(
            database=name.database,
            table=name.table,
            snapshot=begun.snapshot,
            purpose=begun.purpose,
            key=begun.created.primary_key,
            begun=str(statement.position),
            begun_gtid=statement.gtid,
        )

    def take_chunk(self, statement: DdlStatement, chunk: SnapshotChunk, *, has_key: bool) -> None:
        """An event group with rows; those of a table without a key take the place of all that it has."""
        snapshot = self._open(chunk.name, chunk.snapshot)
        if snapshot is None:
            return
        if chunk.snapshot in self.faulty:
            self.stop(chunk.name, self.faulty[chunk.snapshot])
            return
        if chunk.number and not has_key:
            self.stop(chunk.name, f"chunk {chunk.number} at {statement.position}: a table without a key has only one")
            return
        self.tables[chunk.name] = msgspec.structs.replace(
            snapshot, chunks=snapshot.chunks + 1, rows=snapshot.rows + chunk.row_count
        )
        if not has_key:
            self.emptied.add((chunk.name, statement.place))

    def repair(self, statement: DdlStatement, change: RepairBegun | RepairEnded) -> None:
        """Rows of a repair begin, or end; a snapshot that is under way goes on after it."""
        used = self._used.setdefault(change.name, [])
        if isinstance(change, RepairBegun):
            self._keys[change.snapshot] = change.key
            self._before_repair[change.snapshot] = used[-1][1] if used else self._at_start.get(change.name, "")
            used.append((statement.place, change.snapshot))
        elif change.snapshot in self._before_repair:
            used.append((statement.place, self._before_repair[change.snapshot]))

    def is_repair(self, snapshot: str) -> bool:
        """True if these are rows of a repair."""
        return snapshot in self._before_repair

    def end(self, statement: DdlStatement, ended: SnapshotEnded) -> bool:
        """A snapshot ends; whether the table is complete by it."""
        snapshot = self._open(ended.name, ended.snapshot)
        if snapshot is None:
            return False
        if (snapshot.chunks, snapshot.rows) != (ended.chunks, ended.rows):
            self.stop(
                ended.name,
                f"it ends at {statement.position} with {count_text(ended.chunks, 'chunk')} of "
                f"{count_text(ended.rows, 'row')}, and in the log are {count_text(snapshot.chunks, 'chunk')} of "
                f"{count_text(snapshot.rows, 'row')}",
            )
            return False
        self.tables[ended.name] = msgspec.structs.replace(snapshot, is_ended=True, ended_gtid=statement.gtid)
        self.ended.add((ended.name, statement.place))
        return True

    def cancel(self, cancelled: SnapshotCancelled) -> None:
        """A snapshot does not go on."""
        if self._open(cancelled.name, cancelled.snapshot) is not None:
            self.stop(cancelled.name, cancelled.reason)

    def stop(self, name: TableName, problem: str, place: LogPlace | None = None) -> None:
        """The open snapshot of a table, if there is one, does not complete it.

        Args:
            place: Rows of chunks after it are no rows of the table as it is then; None: they are.
        """
        snapshot = self.tables.get(name)
        if snapshot is None or not snapshot.is_open:
            return
        self.tables[name] = msgspec.structs.replace(snapshot, problem=problem)
        if place is not None:
            self._used.setdefault(name, []).append((place, ""))

    def lose(self, name: TableName, problem: str) -> None:
        """A snapshot that the batch has a part of does not complete its table, also if it has ended."""
        snapshot = self.tables.get(name)
        if snapshot is None or snapshot.problem is not None:
            return
        is_of_batch = any(used == snapshot.snapshot for _, used in self._used.get(name, ()))
        if snapshot.is_open or is_of_batch or self._at_start.get(name) == snapshot.snapshot:
            self.tables[name] = msgspec.structs.replace(snapshot, problem=problem)
            self.ended = {(of, place) for of, place in self.ended if of != name}

    def key_of(self, snapshot: str) -> tuple[str, ...] | None:
        """Key columns of the table of a snapshot; None: its start lies before the log that was read."""
        return self._keys.get(snapshot)

    def counts(self, name: TableName, snapshot: str, after: LogPlace | None) -> bool:
        """True if rows of a table between two statements about it are applied.

        Args:
            snapshot: Which one they are chunks of; empty: they are changes.
            after: The first statement; None: the batch begins there.
        """
        if after is None:
            is_live, used = name not in self._live_from, self._at_start.get(name, "")
        else:
            starts = self._used.get(name, [])
            number = bisect_right([place for place, _ in starts], after)
            used = starts[number - 1][1] if number else self._at_start.get(name, "")
            is_live = self.is_live(name, after)
        return is_live and (not snapshot or (snapshot == used and snapshot not in self.faulty))

    def step_of(self, change: StepChange, place: LogPlace) -> StepChange | None:
        """Step of a statement or a mark at a place; None: it has no effect on targets."""
        if isinstance(change, SnapshotBegun):
            is_newest = any(at == place for at, _ in self._used.get(change.name, ()))
            return replace(change, empties=(change.name, place) in self.emptied) if is_newest else None
        if isinstance(change, SnapshotChunk):
            return change if (change.name, place) in self.emptied else None
        if isinstance(change, SnapshotEnded):
            return change if (change.name, place) in self.ended else None
        return change

    def _open(self, name: TableName, snapshot: str) -> PlannedSnapshot | None:
        known = self.tables.get(name)
        return known if known is not None and known.is_open and known.snapshot == snapshot else None


def snapshot_command(name: TableName) -> str:
    """Command that takes a snapshot of a table."""
    return f"binlog-stream snapshot JOB.toml --server URL --tables '{re.escape(str(name))}'"


def past_statement(name: TableName) -> str:
    """Advice where a job cannot follow a statement for one table: a snapshot alone would come after it in the log."""
    return (
        'Set on_error = "set_aside" in the job file and start the job: it goes on without this table. Then '
        f"{snapshot_command(name)} copies the table's rows again"
    )


def changes_of_mark(mark: Mapping[str, object], decoding: Decoding) -> list[SnapshotChange]:
    """Changes of its table that a mark contains. *mark*: A value of the view's column `marks`."""
    change = mark_change(mark, decoding)
    return [] if change is None else [change]


def faults_in(rows: Sequence[Mapping[str, Any]], marks: Sequence[SnapshotChange]) -> dict[str, str]:
    """Snapshots with chunks in a batch that cannot be used, and why. *rows*: of the view `tables`."""
    faults: dict[str, str] = {}
    expected, found = Counter[str](), Counter[str]()
    repaired = {mark.snapshot: mark.keys for mark in marks if isinstance(mark, RepairEnded)}
    for mark in marks:
        if isinstance(mark, SnapshotChunk):
            expected[mark.snapshot] += mark.row_count
        elif isinstance(mark, RepairEnded):
            expected[mark.snapshot] += mark.keys + mark.rows  # its keys are inserted once more, before its mark
    for row in rows:
        snapshot = row["snapshot"]
        if not snapshot:
            continue
        if row["problem"] is not None:
            faults.setdefault(snapshot, row["problem"]["error"])
            continue
        found[snapshot] += row["inserts"]
        if row["updates"] or row["deletes"] != repaired.get(snapshot, 0):
            faults.setdefault(snapshot, "rows of its shadow were updated or deleted")
    for snapshot in {*expected, *found} - faults.keys():
        if expected[snapshot] != found[snapshot]:
            counts = f"{expected[snapshot]} rows are in its marks and {found[snapshot]} in its shadow"
            faults[snapshot] = f"chunks are not whole: {counts}"
    return faults
