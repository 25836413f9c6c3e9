"""Brings the rows of a prepared XA transaction into the group of its XA COMMIT: `rebuilt`, `xa_pieces`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from binlog_format.block import copied, plain_origins
from binlog_format.transactions.slicing import counted_groups, group_position, without_events

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from numpy.typing import NDArray

    from binlog_format.block import Block, Table


def rebuilt(block: Block, dropped: NDArray[np.bool_], insertions: Mapping[int, Block]) -> Block:
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
    """The group of an XA COMMIT in pieces.

    Args:
        block: That group alone.
        row: Of the event with XA COMMIT.
        pieces: The events that come before it.
    """
    own = block.groups[:1]
    position = group_position(block.groups, 0)
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
