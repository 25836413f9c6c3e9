"""Committed changes alone: `committed(log, start, end, prepared)`.

A block in which no statement takes rows back and no XA transaction is passes through as it is. Of a group that is
larger than a block the statements that follow are not known yet when its first rows are given: then the group
is read ahead (`outcome_at`), but only where it may take rows back:

* A group that ends in an XID event has been committed: its last bytes are looked at (`Log.ends_committed`). (The flag
  TRANSACTIONAL in the GTID event of MariaDB does not tell as much: groups with temporary tables have it, and end in
  ROLLBACK.) Another group is read ahead: of tables without transactions, or compressed by MySQL as a whole.
* From the first SAVEPOINT on, or after an XA START, every group is read ahead.

Brings the rows of a prepared XA transaction into the group of its XA COMMIT: `rebuilt`, `xa_pieces`.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from binlog_format.block import copied, plain_origins
from binlog_format.errors import CorruptError
from binlog_format.events.layout import EventType
from binlog_format.extents import counted_groups, select_groups, without_events
from binlog_format.position import Position
from binlog_format.transactions import control_statement_kernels as kernels
from binlog_format.transactions.control_statements import (
    GroupOutcome,
    StatementKind,
    is_kind,
    outcome_at,
    outcome_of,
    read_control_statements,
)
from binlog_format.transactions.expansion import expanded
from binlog_format.transactions.prepared import PreparedXaRows

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from binlog_format.block import Block, Table
    from binlog_format.kernels import Mask
    from binlog_format.log.log import Log
    from binlog_format.transactions.control_statements import ControlStatement, ControlStatements
    from binlog_format.transactions.xa import PreparedXa, XaId


def rebuilt(block: Block, dropped: Mask, insertions: Mapping[int, Block]) -> Block:
    """*block* without some events, and with others.

    Args:
        block: Whole groups.
        dropped: Of each event.
        insertions: Events that come before an event of the block, by its row, and belong to its group. Their bytes
            are put after those of the block.
    """
    if not insertions:
        return without_events(block, dropped) if dropped.any() else block
    inserted = [insertions[row] for row in sorted(insertions)]
    data_starts = np.cumsum([len(block.data), *(len(rows.data) for rows in inserted)])
    data = np.concatenate([block.data, *(rows.data for rows in inserted)])
    extents = [
        block.extents,
        *(_shifted(rows.extents, "data_start", data_starts[i]) for i, rows in enumerate(inserted)),
    ]
    has_origins = block.origins is not None or any(rows.origins is not None for rows in inserted)
    own_events, own_origins = copied(block.events), _origins(block)
    kept = np.flatnonzero(~dropped)
    events: list[Table] = []
    origins: list[Table] = []
    done = 0
    for number, (row, rows) in enumerate(sorted(insertions.items())):
        cut = int(np.searchsorted(kept, row))
        group = int(own_events["group"][row])
        _renumber(own_events, row, rows.events)
        added = _shifted(rows.events, "start", data_starts[number])
        added["group"] = group
        events += [own_events.take(kept[done:cut]), added]
        origins += [own_origins.take(kept[done:cut]), _shifted(_origins(rows), "start", data_starts[number])]
        done = cut
    joined = np.concatenate([*events, own_events.take(kept[done:])])
    return replace(
        block,
        data=data,
        groups=counted_groups(block.groups, joined),
        events=joined,
        extents=np.concatenate(extents),
        origins=np.concatenate([*origins, own_origins.take(kept[done:])]) if has_origins else None,
    )


def xa_pieces(block: Block, row: int, pieces: Iterable[Block]) -> Iterator[Block]:
    """The group of an XA COMMIT in pieces. *block*: that group alone. *row*: of the event with XA COMMIT."""
    own = block.groups[:1]
    position = Position.of(block.groups[0])
    tail = copied(block.events[row:])
    before = np.arange(len(block.events)) < row
    if row > 0:
        yield replace(without_events(block, ~before), groups=_piece_of(own, block.events[:row]), next_position=position)
    for piece in pieces:
        events = copied(piece.events)
        events["group"] = 0
        if len(events):
            tail["event_no"] = events["event_no"][-1] + 1 + np.arange(len(tail))
            groups = _piece_of(own, events, begins=row == 0 and bool(own["begins"][0]))
            yield replace(piece, events=events, groups=groups, next_position=position)
    groups = _piece_of(own, tail, begins=False)
    groups["ends"] = own["ends"]
    last = without_events(block, before)
    yield replace(last, events=tail, groups=groups)


def _piece_of(own: Table, events: Table, *, begins: bool | None = None) -> Table:
    groups = counted_groups(own, events)
    if begins is not None:
        groups["begins"] = begins
    groups["ends"] = False
    return groups


def _renumber(events: Table, row: int, inserted: Table) -> None:
    """Count on after *inserted* in the rest of the group of event *row*."""
    stop = int(np.searchsorted(events["group"], events["group"][row], side="right"))
    events["event_no"][row:stop] += inserted["event_no"][-1] + 1 - events["event_no"][row]


def _origins(block: Block) -> Table:
    return plain_origins(block.events) if block.origins is None else block.origins


def _shifted(table: Table, field: str, by: int) -> Table:
    table = copied(table)
    table[field][table[field] >= 0] += by  # less than 0: the stored bytes are not in the block
    return table


_UNDOING = (kernels.KIND_ROLLBACK, kernels.KIND_COMMENTED)
_DECIDING = (*_UNDOING, kernels.KIND_XA, kernels.KIND_XA_PREPARE)
_LOOKING_AHEAD = (StatementKind.SAVEPOINT, StatementKind.XA_START)


def committed(
    log: Log, start: Position | None, end: Position | None, prepared: Iterable[PreparedXa] = ()
) -> Iterator[Block]:
    """See `Log.committed_blocks`."""
    stage = _Stage(log, start, prepared)
    for block in expanded(log.blocks(start, end)):
        yield from stage.of(block)


@dataclass(slots=True)
class _Large:
    """A group that comes in pieces. *outcome*: what becomes of it; None while nothing speaks against its rows."""

    outcome: GroupOutcome | None = None


class _Stage:
    def __init__(self, log: Log, start: Position | None, prepared: Iterable[PreparedXa]) -> None:
        self._log = log
        # In an `innodb` log an XA transaction is an ordinary group that stands where its XA COMMIT is.
        self._prepared = PreparedXaRows(log, start, prepared) if log.traits.separates_xa else None
        self._kinds = _UNDOING if self._prepared is None else _DECIDING
        self._large: _Large | None = None

    def of(self, block: Block) -> Iterator[Block]:
        """*block*, or what comes in its place."""
        if len(block.groups) == 0:
            yield block
            return
        control_statements = read_control_statements(block)
        touched = set(control_statements.groups_with(*self._kinds)) if len(control_statements.table) else set()
        if self._large is not None:
            touched.add(0)
        if not block.groups["ends"][-1]:
            touched.add(len(block.groups) - 1)
        if touched:
            yield from self._changed(block, control_statements, sorted(touched))
        else:
            yield block

    def _changed(self, block: Block, control_statements: ControlStatements, touched: list[int]) -> Iterator[Block]:
        """The block, cut where rows of an XA transaction come that are larger than a block."""
        dropped = np.zeros(len(block.events), dtype=np.bool_)
        insertions: dict[int, Block] = {}
        first = 0
        for group in touched:
            commit = self._decide(block, control_statements, group, dropped)
            if commit is None:
                continue
            prepared, event, xid = commit
            rows = prepared.take(xid, Position.of(block.groups[group]))
            heads = list(itertools.islice(rows, 2))
            if len(heads) > 1:
                if group > first:
                    yield _part(block, first, group, dropped, insertions)
                insertions = {}
                alone = select_groups(block, group, group + 1)
                event -= int(block.groups["first_event"][group])
                yield from xa_pieces(alone, event, itertools.chain(heads, rows))
                first = group + 1
            elif heads and len(heads[0].events):
                insertions[event] = heads[0]
            prepared.end(xid)
        if first < len(block.groups):
            yield _part(block, first, len(block.groups), dropped, insertions)

    def _decide(
        self, block: Block, control_statements: ControlStatements, group: int, dropped: Mask
    ) -> tuple[PreparedXaRows, int, XaId] | None:
        """Note what a group loses; for a commit of a prepared transaction: all of these, its event, and its name."""
        row = block.groups[group]
        found = list(control_statements.of_group(group))
        is_whole = bool(row["begins"] and row["ends"])
        outcome = outcome_of(found, block) if is_whole else self._outcome_of_piece(block, group, found)
        first = int(row["first_event"])
        events = block.events[first : first + int(row["event_count"])]
        lost = dropped[first : first + len(events)]
        if outcome.undone:
            lost |= outcome.loses(events)
        prepared = self._prepared
        if prepared is None:
            return None
        if outcome.prepared is not None:
            lost |= (events["event_no"] > 0) & (events["type"] != EventType.XA_PREPARE)
            if is_whole:
                prepared.prepare(outcome.prepared, block, group, outcome)
            elif row["ends"]:
                prepared.prepare_at(outcome.prepared, Position.of(block.groups[group]))
        commit = None
        for control in found:
            if control.statement is None or control.statement.xid is None:
                continue
            if control.statement.kind is StatementKind.XA_ROLLBACK:
                prepared.end(control.statement.xid)
            elif control.statement.kind is StatementKind.XA_COMMIT:
                commit = prepared, control.event, control.statement.xid
        return commit

    def _outcome_of_piece(self, block: Block, group: int, found: list[ControlStatement]) -> GroupOutcome:
        row = block.groups[group]
        if row["begins"] or self._large is None:
            self._large = _Large()
        large = self._large
        if large.outcome is None and self._may_lose_rows(block, group, found):
            large.outcome = outcome_at(self._log, Position.of(block.groups[group]))
        if row["ends"]:
            self._large = None
        if large.outcome is not None:
            return large.outcome
        for control in found:
            if is_kind(control, StatementKind.ROLLBACK, StatementKind.ROLLBACK_TO):
                raise CorruptError(
                    "BAD_EVENT",
                    "an event group takes back rows, though it begins as one that does not",
                    at=block.place(int(block.events["start"][control.event])),
                )
        return GroupOutcome()

    def _may_lose_rows(self, block: Block, group: int, found: list[ControlStatement]) -> bool:
        """True if this part of a group must be read together with what follows it."""
        if any(control.statement is None or is_kind(control, *_LOOKING_AHEAD) for control in found):
            return True
        return bool(block.groups["begins"][group]) and not self._log.ends_committed(block.groups[group])


def _part(block: Block, first: int, stop: int, dropped: Mask, insertions: dict[int, Block]) -> Block:
    """The groups [*first*, *stop*) as they are to be given."""
    if first == 0 and stop == len(block.groups):
        return rebuilt(block, dropped, insertions)
    event = int(block.groups["first_event"][first])
    part = select_groups(block, first, stop)
    return rebuilt(
        part, dropped[event : event + len(part.events)], {row - event: rows for row, rows in insertions.items()}
    )
