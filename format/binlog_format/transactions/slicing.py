"""Parts of blocks as blocks: `select_groups`, `without_events`, `extract`, `blocks_of_group`."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, cast

import numpy as np

from binlog_format.block import Block, copied
from binlog_format.errors import DataLossError
from binlog_format.extent_kernels import gather
from binlog_format.extents import clipped_extents
from binlog_format.kernels import empty_bytes
from binlog_format.position import Position

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from numpy.typing import NDArray

    from binlog_format.block import Table

    Int64s = NDArray[np.int64]


def group_position(groups: Table, row: int) -> Position:
    """Start of a group."""
    group = groups[row]
    return Position(int(group["file_no"]), int(group["page"]), int(group["chunk"]))


def select_groups(block: Block, first: int, stop: int) -> Block:
    """The groups [*first*, *stop*) of *block*, at least one; the bytes stay as they are."""
    groups = copied(block.groups[first:stop])
    event = int(groups["first_event"][0])
    event_stop = int(groups["first_event"][-1] + groups["event_count"][-1])
    events = copied(block.events[event:event_stop])
    events["group"] -= first
    groups["first_event"] -= event
    if stop == len(block.groups):
        next_position = block.next_position
    elif groups["ends"][-1]:
        next_position = group_position(block.groups, stop)
    else:
        next_position = group_position(groups, -1)
    origins = None if block.origins is None else block.origins[event:event_stop]
    return replace(block, groups=groups, events=events, origins=origins, next_position=next_position)


def without_events(block: Block, dropped: NDArray[np.bool_]) -> Block:
    """*block* without some events; what is left keeps its numbers, and every group its row."""
    kept = np.flatnonzero(~dropped)
    events = block.events.take(kept)
    origins = None if block.origins is None else block.origins.take(kept)
    return replace(block, groups=counted_groups(block.groups, events), events=events, origins=origins)


def counted_groups(groups: Table, events: Table) -> Table:
    """A copy of *groups* with the places, counts and sizes of *events*, which are in their order."""
    groups = copied(groups)
    counts = np.bincount(events["group"], minlength=len(groups))
    groups["event_count"] = counts
    groups["first_event"] = np.cumsum(counts) - counts
    running = np.concatenate([[0], np.cumsum(events["size"])])
    groups["size"] = running[groups["first_event"] + counts] - running[groups["first_event"]]
    first = groups["first_event"][counts > 0]
    groups["event_no"][counts > 0] = events["event_no"][first]
    return groups


def extract(block: Block, rows: Int64s) -> Block:
    """Copy events of *block*, ascending, into a block that has only their bytes; for events that are kept."""
    events = block.events.take(rows)
    origins = None if block.origins is None else block.origins.take(rows)
    starts, stops = [events["start"]], [events["start"] + events["size"]]
    if origins is not None:
        stored = origins[origins["start"] >= 0]
        starts.append(stored["start"])
        stops.append(stored["start"] + stored["size"])
    run_starts, run_stops = _joined(np.concatenate(starts), np.concatenate(stops))
    sizes = run_stops - run_starts
    targets = np.cumsum(sizes) - sizes
    data = empty_bytes(int(sizes.sum()))
    done = gather(block.data, run_starts, sizes, data, targets)
    assert done, "an event table points outside of its block"
    moved = copied(events)
    moved["start"] = _moved(events["start"], run_starts, targets)
    if origins is not None:
        origins = copied(origins)
        there = origins["start"] >= 0
        origins["start"][there] = _moved(origins["start"][there], run_starts, targets)
    extents = clipped_extents(block.extents, len(block.data), run_starts, run_stops, targets)
    return replace(block, data=data, events=moved, extents=extents, origins=origins)


def _joined(starts: Int64s, stops: Int64s) -> tuple[Int64s, Int64s]:
    """Runs of bytes, ascending, that cover all given ones; those that touch or overlap are one."""
    order = np.argsort(starts, kind="stable")
    starts, stops = starts[order], np.maximum.accumulate(stops[order])
    new = np.ones(len(starts), dtype=np.bool_)
    new[1:] = starts[1:] > stops[:-1]
    first = np.flatnonzero(new)
    last = np.append(first[1:], len(starts)) - 1
    return np.ascontiguousarray(starts[first]), np.ascontiguousarray(stops[last])


def _moved(places: Int64s, run_starts: Int64s, targets: Int64s) -> Int64s:
    run = np.searchsorted(run_starts, places, side="right") - 1
    return cast("Int64s", places - run_starts[run] + targets[run])


def blocks_of_group(blocks: Iterator[Block], position: Position) -> Generator[Block]:
    """The group at *position* alone, the first one in *blocks*; in pieces when it comes so.

    Raises:
        DataLossError: `TRUNCATED_TRANSACTION`: it is not there any more.
    """
    with closing(cast("Generator[Block]", blocks)):
        for block in blocks:
            if len(block.groups) == 0 or group_position(block.groups, 0) != position:
                break
            yield select_groups(block, 0, 1)
            if block.groups["ends"][0]:
                return
    raise DataLossError(
        "TRUNCATED_TRANSACTION", f"the event group at {position} was there before, and is not whole any more"
    )
