"""Changes by foreign keys that nobody can derive, as they go through tables that lack rows: `lost_cascades`.

Where a table gets its existing rows by a snapshot, it has only some of them for a while: `RowGaps`. A foreign key may
change one of those that are still to come, and with it rows of other tables, whose snapshots have brought them before.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from binlog_streaming.plan.cascade_links import reached
from binlog_streaming.plan.cascades import change_text

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from binlog_connector.schema.definitions import TableName
    from binlog_connector.schema.foreign_keys import Cascade, ForeignKeys
    from binlog_connector.schema.table_changes import TableRenamed
    from binlog_format.position import Position
    from binlog_streaming.plan.batch_plan import LogPlace
    from binlog_streaming.plan.cascade_links import Appliance
    from binlog_streaming.plan.cascades import CascadeLog, Touched
    from binlog_streaming.plan.snapshots import Snapshots

    Span = tuple[Position, Position]


class LostCascade(NamedTuple):
    """A table that lacks what foreign keys do to it.

    Attributes:
        position: Of the event group where it begins to.
        problem: Why it does.
    """

    table: TableName
    position: Position
    problem: str


@dataclass(slots=True)
class RowGaps:
    """Parts of a batch in which tables have not all their rows, and starts of the rows that they have in the end.

    Attributes:
        complete: Tables that had all their rows when the batch began.
    """

    snapshots: Snapshots
    complete: Mapping[TableName, bool]
    _turns: dict[TableName, list[tuple[Position, bool]]] = field(default_factory=dict)
    _fresh: dict[TableName, Position] = field(default_factory=dict)

    def open(self, name: TableName, place: LogPlace, *, empties: bool) -> None:
        """A snapshot begins; *empties*: rows that targets have go there."""
        self._turns.setdefault(name, []).append((place[0], False))
        if empties:
            self._fresh[name] = place[0]

    def close(self, name: TableName, place: LogPlace, *, begins_anew: bool = False) -> None:
        """A table has all its rows from here on; *begins_anew*: none of them are from before."""
        self._turns.setdefault(name, []).append((place[0], True))
        if begins_anew:
            self._fresh[name] = place[0]

    def move(self, old: TableName, new: TableName, place: LogPlace) -> None:
        """A table gets the name *new*, with its rows."""
        turns = self._turns.get(old)
        self._turns.setdefault(new, []).append((place[0], turns[-1][1] if turns else self._starts_whole(old)))
        if old in self._fresh:
            self._fresh[new] = self._fresh[old]

    def of(self, name: TableName, whole: Span) -> list[Span]:
        """Parts of a range of the batch in which a table has not all its rows."""
        turns = [(whole[0], self._starts_whole(name)), *self._turns.get(name, ()), (whole[1], True)]
        found = [_overlap((start, end), whole) for (start, is_whole), (end, _) in pairwise(turns) if not is_whole]
        return [span for span in found if span is not None]

    def rows_in(self, name: TableName, whole: Span) -> Span | None:
        """The part of a range of the batch in which changes of a table count for the rows that it has in the end."""
        if not self.snapshots.is_live(name):
            return None
        live = self.snapshots.live_from(name)
        starts = [*(() if live is None else (live[0],)), *((self._fresh[name],) if name in self._fresh else ())]
        return _overlap((max(starts, default=whole[0]), whole[1]), whole)

    def _starts_whole(self, name: TableName) -> bool:
        if self.snapshots.waited(name):
            return False
        return self.complete.get(name) is True or not self.snapshots.is_open_at_start(name)


def lost_cascades(
    touched: Sequence[Touched],
    states: Sequence[tuple[Position, ForeignKeys]],
    log: CascadeLog,
    appliance: Appliance,
    gaps: RowGaps,
    renames: Sequence[tuple[Position, TableRenamed]],
) -> list[LostCascade]:
    """Find tables that lack such changes.

    Args:
        touched: The row events of the batch to which foreign keys apply.
        states: The foreign keys, each from a position on.
        renames: In log order.
    """
    found: dict[TableName, LostCascade] = {}
    for part in touched:
        ends = [since for since, _ in states[1:]] + [part.end]
        for (since, keys), until in zip(states, ends, strict=True):
            span = _overlap((part.start, part.end), (since, until))
            for lost in () if span is None else _lost_in(span, part, keys, log, appliance, gaps):
                earlier = found.get(lost.table)
                if earlier is None or lost.position < earlier.position:
                    found[lost.table] = lost
    for position, rename in renames:
        lost_before = found.get(rename.old)
        if lost_before is not None and lost_before.position < position:
            found.setdefault(rename.new, lost_before._replace(table=rename.new))
    return list(found.values())


def _lost_in(
    span: Span, part: Touched, keys: ForeignKeys, log: CascadeLog, appliance: Appliance, gaps: RowGaps
) -> Iterator[LostCascade]:
    cascades = [
        cascade
        for cascade in reached(part, keys)
        if appliance.is_real(cascade.key) and appliance.is_applied(cascade.child)
    ]
    changed = {cascade.child for cascade in cascades}
    columns = keys.updating_columns(part.table) if part.updates else frozenset()
    lost: dict[TableName, LostCascade] = {}
    for cascade in cascades:
        if cascade.key.parent not in changed or cascade.child in lost:
            continue
        for start, end in _unknown(span, cascade, gaps):
            change = log.first(part.table, start, end, deletes=bool(part.deletes), columns=columns)
            if change is not None:
                problem = (
                    f"{change_text(part.table, change)} may change rows of {cascade.child} through "
                    f"{cascade.key.parent}, which did not have all its rows yet"
                )
                lost[cascade.child] = LostCascade(cascade.child, change.position, problem)
                break
    yield from _carried_on(lost, cascades, span, gaps)


def _unknown(span: Span, cascade: Cascade, gaps: RowGaps) -> Iterator[Span]:
    rows = gaps.rows_in(cascade.child, span)
    if rows is not None:
        overlaps = (_overlap(gap, rows) for gap in gaps.of(cascade.key.parent, span))
        yield from (overlap for overlap in overlaps if overlap is not None)


def _carried_on(
    lost: Mapping[TableName, LostCascade], cascades: Collection[Cascade], span: Span, gaps: RowGaps
) -> Iterator[LostCascade]:
    """Pass on what a table lacks: its children lack it too."""
    ahead, found = list(lost.values()), dict(lost)
    while ahead:
        above = ahead.pop()
        children = (cascade.child for cascade in cascades if cascade.key.parent == above.table)
        for child in children:
            rows = None if child in found else gaps.rows_in(child, span)
            if rows is not None and above.position < rows[1]:
                found[child] = above._replace(table=child)
                ahead.append(found[child])
    yield from found.values()


def _overlap(one: Span, other: Span) -> Span | None:
    start, end = max(one[0], other[0]), min(one[1], other[1])
    return (start, end) if start < end else None
