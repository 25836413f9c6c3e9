"""Plain events in place of compressed ones, and of fragments: `expanded(blocks)`.

MariaDB compresses single events, and cuts large ones into fragments (`binlog_format.fragments`); MySQL compresses whole
transactions. Whoever reads rows or statements sees none of that. What a few bytes expand to may be large, so a block
can become several: memory is bounded by the block size and the largest event.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from binlog_format.block import BLOCK_SIZE, EXTENT_DTYPE, NOT_INNER, ORIGIN_DTYPE
from binlog_format.errors import CorruptError
from binlog_format.events.compression.compressed_streams import CompressedEvents, expand_streams, find_streams
from binlog_format.events.compression.compression_kernels import stored_form
from binlog_format.events.compression.compression_layout import (
    FORM_COMPRESSED,
    FORM_FRAGMENT,
    FORM_PAYLOAD,
    PLAIN_TYPES,
    STORED_FORMS,
)
from binlog_format.events.compression.payload import Payload, find_payloads, payload_pieces, read_payloads
from binlog_format.events.compression.renumbering import EventNumbers, next_position
from binlog_format.fragments.joining import FragmentJoiner
from binlog_format.kernels import empty_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from binlog_format.block import Block, Table
    from binlog_format.events.compression.payload import PayloadPiece
    from binlog_format.kernels import Int64s


# Columns that an inner event has of its own.
_INNER_COLUMNS = ("start", "size", "type", "flags", "timestamp", "server_id")


def expanded(blocks: Iterable[Block]) -> Iterator[Block]:
    """Blocks with the same groups, in which every event is plain.

    A block in which nothing is compressed or cut passes as it is.

    Args:
        blocks: Of one log, in its order.
    """
    joiner: FragmentJoiner | None = None
    expander = _Expander()
    for block in blocks:
        form, groups = stored_form(block.events["type"], STORED_FORMS), block.groups
        is_whole = len(groups) and groups["begins"][0] and groups["ends"][-1]
        if not form and is_whole and (joiner is None or not joiner.is_open):
            yield block  # of what was before and what comes after nothing depends on it
            continue
        joiner = joiner or FragmentJoiner()
        is_cut = joiner.is_open or form == FORM_FRAGMENT
        for part in joiner.join(block) if is_cut else (joiner.passed(block),):
            yield from expander.expand(part)


class _Stored(NamedTuple):
    """Compressed parts of a block.

    Attributes:
        plain_sizes: Of every event of the block, what it claims to become.
        compressed_rows: Rows of the events that MariaDB has compressed.
        payload_rows: Rows of compressed transactions.
    """

    plain_sizes: Int64s
    compressed_rows: Int64s
    compressed: CompressedEvents
    payload_rows: Int64s
    payloads: list[Payload]

    def large_payload(self, first: int, end: int) -> Payload | None:
        """The payload that the events [first, end) are, if it is larger than a block."""
        if end - first > 1 or self.plain_sizes[first] <= BLOCK_SIZE:
            return None
        rows, _ = _between(self.payload_rows, first, end)
        return next(iter(self.payloads[rows]), None)


@dataclass(slots=True)
class _Expander:
    """Goes through the blocks of a log."""

    _numbers: EventNumbers = field(default_factory=EventNumbers)

    def expand(self, block: Block) -> Iterator[Block]:
        """The plain events of a block, in blocks of about `BLOCK_SIZE`."""
        if not stored_form(block.events["type"], STORED_FORMS):
            yield self._numbers.passed(block)  # its first group may have been expanded before
            return
        stored = _look(block)
        for first, end in _parts(block, stored.plain_sizes):
            payload = stored.large_payload(first, end)
            if payload is None:
                yield self._block(block, stored, first, end)
                continue
            for piece in payload_pieces(payload, BLOCK_SIZE):
                yield self._payload_block(block, first, piece)

    def _block(self, block: Block, stored: _Stored, first: int, end: int) -> Block:
        # The events [first, end) of *block*: their stored bytes, and after them the plain bytes of the expanded ones.
        events = block.events[first:end]
        low = int(events["start"].min())
        stored_size = int((events["start"] + events["size"]).max()) - low
        is_expanded = STORED_FORMS[events["type"]] != 0
        sizes = stored.plain_sizes[first:end]
        ends = stored_size + np.cumsum(np.where(is_expanded, sizes, 0))
        starts = np.where(is_expanded, ends - sizes, events["start"] - low)
        data = empty_bytes(int(ends[-1]))
        data[:stored_size] = block.data[low : low + stored_size]
        rows, chosen = _between(stored.compressed_rows, first, end)
        expand_streams(block.data, stored.compressed[rows], data, starts[chosen], place=block.place)
        rows, chosen = _between(stored.payload_rows, first, end)
        inner, inner_counts = read_payloads(stored.payloads[rows], data, starts[chosen], ends[chosen])
        counts = np.ones(len(events), dtype=np.int64)
        counts[chosen] = inner_counts
        source = np.repeat(np.arange(len(events)), counts)
        plain = events[source]
        plain["start"], plain["size"] = starts[source], sizes[source]
        plain["type"] = np.where(is_expanded, PLAIN_TYPES[events["type"]], events["type"])[source]
        origins = np.zeros(len(plain), dtype=ORIGIN_DTYPE)
        origins["start"], origins["size"] = (events["start"] - low)[source], events["size"][source]
        origins["inner_no"] = NOT_INNER if block.origins is None else block.origins["inner_no"][first:end][source]
        if len(inner):
            is_inner = (STORED_FORMS[events["type"]] == FORM_PAYLOAD)[source]
            for name in _INNER_COLUMNS:
                plain[name][is_inner] = inner[name]
            origins["inner_no"][is_inner] = (np.arange(len(plain)) - (np.cumsum(counts) - counts)[source])[is_inner]
        groups = self._numbers.number(block, first, end, plain)
        extents = _extents(block.extents, low, stored_size, events["start"][is_expanded], starts[is_expanded])
        return replace(
            block,
            data=data,
            groups=groups,
            events=plain,
            extents=extents,
            next_position=next_position(block, end),
            origins=origins,
        )

    def _payload_block(self, block: Block, row: int, piece: PayloadPiece) -> Block:
        # A part of a payload that is larger than a block: plain bytes alone.
        event = block.events[row]
        _require_one_extent(block, event)
        plain = piece.events
        plain["group"] = event["group"]
        origins = np.zeros(len(plain), dtype=ORIGIN_DTYPE)
        origins["start"], origins["size"] = -1, event["size"]
        origins["inner_no"] = piece.first_no + np.arange(len(plain))
        groups = self._numbers.number(block, row, row + 1, plain, is_first=piece.first_no == 0, is_last=piece.is_last)
        extents = _extents(block.extents, 0, 0, block.events["start"][row : row + 1], np.zeros(1, dtype=np.int64))
        return replace(
            block,
            data=piece.data,
            groups=groups,
            events=plain,
            extents=extents,
            next_position=next_position(block, row + 1 if piece.is_last else row),
            origins=origins,
        )


def _look(block: Block) -> _Stored:
    # Nothing is decompressed here: sizes are what the events claim, so far as they are possible.
    events = block.events
    forms = STORED_FORMS[events["type"]]
    rows = np.flatnonzero(forms == FORM_COMPRESSED)
    compressed = find_streams(block.data, events[rows], place=block.place)
    plain_sizes: Int64s = events["size"].copy()
    plain_sizes[rows] = compressed.plain_sizes
    payload_rows = np.flatnonzero(forms == FORM_PAYLOAD)
    stored = events[payload_rows]
    payloads = find_payloads(block.data, stored["start"], stored["size"], place=block.place)
    plain_sizes[payload_rows] = [payload.plain_size for payload in payloads]
    return _Stored(plain_sizes, rows, compressed, payload_rows, payloads)


def _between(rows: Int64s, first: int, end: int) -> tuple[slice, Int64s]:
    """Slice of *rows*, ascending, within [first, end), and these rows, counted from *first*."""
    chosen = slice(*np.searchsorted(rows, [first, end]).tolist())
    return chosen, rows[chosen] - first


def _parts(block: Block, plain_sizes: Int64s) -> Iterator[tuple[int, int]]:
    """Ranges of events that become a block each: whole groups where they fit, at least one event."""
    ends = np.cumsum(plain_sizes)
    group_ends: Int64s = block.groups["first_event"] + block.groups["event_count"]
    count = len(plain_sizes)
    first = 0
    while first < count:
        passed = int(ends[first - 1]) if first else 0
        end = int(np.searchsorted(ends, passed + BLOCK_SIZE, side="right"))
        whole = int(np.searchsorted(group_ends, end, side="right"))
        if whole and group_ends[whole - 1] > first:
            end = int(group_ends[whole - 1])
        end = max(end, first + 1)
        yield first, end
        first = end


def _extents(stored: Table, low: int, size: int, expanded_starts: Int64s, plain_starts: Int64s) -> Table:
    """Extents of `[low, low + size)` of a block's data, then an empty one for each expanded event."""
    data_starts = stored["data_start"]
    rows = slice(
        int(np.searchsorted(data_starts, low, side="right")) - 1, int(np.searchsorted(data_starts, low + size))
    )
    kept = stored[rows].copy() if size else stored[:0].copy()
    if len(kept):
        cut = low - int(kept["data_start"][0])
        kept["file_offset"][0] += cut
        kept["size"][0] -= cut
        kept["data_start"] -= low
        kept["data_start"][0] = 0
        kept["size"][-1] = size - kept["data_start"][-1]
    of_events = stored[np.searchsorted(data_starts, expanded_starts, side="right") - 1]
    empty = np.zeros(len(expanded_starts), dtype=EXTENT_DTYPE)
    empty["data_start"] = plain_starts
    empty["file_no"] = of_events["file_no"]
    empty["file_offset"] = of_events["file_offset"] + expanded_starts - of_events["data_start"]
    return np.concatenate([kept, empty])


def _require_one_extent(block: Block, event: np.void) -> None:
    """Require one extent: an event outside of a block's data can only be found by one place and a size."""
    start, end = int(event["start"]), int(event["start"]) + int(event["size"])
    data_starts = block.extents["data_start"]
    if np.searchsorted(data_starts, start, side="right") < np.searchsorted(data_starts, end):
        reason = "TRANSACTION_PAYLOAD event: it does not lie in one piece in its file, as MySQL writes it"
        raise CorruptError("BAD_EVENT", reason, at=block.place(start))
