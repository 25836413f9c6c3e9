"""Bytes that lie apart in files, joined: `read_extents`; places of bytes that were joined: `clipped_extents`.

Parts of blocks as blocks: `select_groups`, `without_events`, `extract`, `blocks_of_group`.
"""

from __future__ import annotations

import itertools
from contextlib import ExitStack, closing
from dataclasses import replace
from typing import TYPE_CHECKING, cast

import numpy as np

from binlog_format.block import EXTENT_DTYPE, Block, copied
from binlog_format.errors import DataLossError
from binlog_format.kernels import empty_bytes
from binlog_format.memory_kernels import gather, gather_from_file
from binlog_format.position import Place, Position
from binlog_format.source_file import LocalFile

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator
    from contextlib import AbstractContextManager

    from binlog_format.block import Table
    from binlog_format.kernels import Bytes, Int64s, Mask
    from binlog_format.source_file import SourceFile

_GAP_MAX = 64 << 10
"""Bytes between two extents that are read and thrown away rather than read around."""
_RUN_SIZE_MAX = 4 << 20
"""Bytes read at a time, unless one extent is larger."""
_SPARSE_FROM = 4096
"""Bytes from one extent of a local file to the next from which on each is read by itself: about as many as are copied
in the time that a call takes. Of ten tables that change in turns each has its events so far apart."""


def read_extents(extents: Table, open_file: Callable[[int], AbstractContextManager[SourceFile]]) -> Bytes:
    """Join the bytes of *extents*, in their order, with few large reads; nothing is verified.

    Args:
        extents: `EXTENT_DTYPE`; `data_start` is not looked at.
    """
    sizes = np.ascontiguousarray(extents["size"])
    starts = np.ascontiguousarray(extents["file_offset"])
    files = np.ascontiguousarray(extents["file_no"])
    targets = np.cumsum(sizes) - sizes
    result = empty_bytes(int(sizes.sum()))
    with ExitStack() as opened:
        file_no = -1
        for first, end in _runs(files, starts, sizes):
            if files[first] != file_no:
                opened.close()
                file_no = int(files[first])
                source = opened.enter_context(open_file(file_no))
            run = slice(first, end)
            run_start = int(starts[first])
            run_size = int(starts[end - 1] + sizes[end - 1]) - run_start
            # What cannot be read so is read as a whole, which tells why.
            if (
                isinstance(source, LocalFile)
                and run_size > _SPARSE_FROM * (end - first)
                and gather_from_file(source.descriptor, starts[run], sizes[run], result, targets[run])
            ):
                continue
            buffer = empty_bytes(run_size)
            count = source.read_into(run_start, buffer)
            if count < run_size:
                raise DataLossError(
                    "TRUNCATED_TRANSACTION",
                    f"the file ends at byte {run_start + count:#x}, expected data up to {run_start + run_size:#x}",
                    at=Place(source.path, byte=run_start + count),
                )
            gather(buffer, starts[run] - run_start, sizes[run], result, targets[run])
    return result


def _runs(files: Int64s, starts: Int64s, sizes: Int64s) -> list[tuple[int, int]]:
    """Rows `[first, end)` that one read each can fetch: ascending in one file, close to each other."""
    if len(files) == 0:
        return []
    gaps = starts[1:] - (starts[:-1] + sizes[:-1])
    breaks = np.flatnonzero((files[1:] != files[:-1]) | (gaps < 0) | (gaps > _GAP_MAX)) + 1
    borders = [0, *breaks.tolist(), len(files)]
    ends = starts + sizes
    runs = []
    for border, end in itertools.pairwise(borders):
        first = border
        while first < end:
            # The rows ascend within a run, so a binary search finds where it gets too large.
            cut = first + int(np.searchsorted(ends[first:end], starts[first] + _RUN_SIZE_MAX, side="right"))
            cut = max(cut, first + 1)
            runs.append((first, cut))
            first = cut
    return runs


def clipped_extents(extents: Table, data_size: int, run_starts: Int64s, run_stops: Int64s, targets: Int64s) -> Table:
    """The extents of runs of a buffer's bytes.

    Args:
        extents: `EXTENT_DTYPE`, of the whole buffer; those of size 0 stand for bytes that are not in the files as such.
        data_size: Bytes in the buffer.
        run_starts: First byte of each run, and
        run_stops: the byte after it.
        targets: Where each run is put; `data_start` of the result counts from there.
    """
    starts = extents["data_start"]
    stops = np.append(starts[1:], data_size)
    first = np.searchsorted(starts, run_starts, side="right") - 1
    counts = np.searchsorted(starts, run_stops, side="left") - first
    run = np.repeat(np.arange(len(run_starts)), counts)
    row = first[run] + np.arange(len(run)) - np.repeat(np.cumsum(counts) - counts, counts)
    low = np.maximum(starts[row], run_starts[run])
    high = np.minimum(stops[row], run_stops[run])
    is_stored = extents["size"][row] > 0
    clipped: Table = np.zeros(len(row), dtype=EXTENT_DTYPE)
    clipped["data_start"] = low - run_starts[run] + targets[run]
    clipped["file_no"] = extents["file_no"][row]
    clipped["file_offset"] = extents["file_offset"][row] + np.where(is_stored, low - starts[row], 0)
    clipped["size"] = np.where(is_stored, high - low, 0)
    kept: Table = clipped[high > low]
    return kept


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
        next_position = Position.of(block.groups[stop])
    else:
        next_position = Position.of(groups[-1])
    origins = None if block.origins is None else block.origins[event:event_stop]
    return replace(block, groups=groups, events=events, origins=origins, next_position=next_position)


def without_events(block: Block, dropped: Mask) -> Block:
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
    """The group at *position* alone, the first one in *blocks*; in pieces when it comes so."""
    with closing(cast("Generator[Block]", blocks)):
        for block in blocks:
            if len(block.groups) == 0 or Position.of(block.groups[0]) != position:
                break
            yield select_groups(block, 0, 1)
            if block.groups["ends"][0]:
                return
    raise DataLossError(
        "TRUNCATED_TRANSACTION", f"the event group at {position} was there before, and is not whole any more"
    )
