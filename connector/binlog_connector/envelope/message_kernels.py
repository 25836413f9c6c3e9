"""Kernels that put keys, values and what is around them at their places in a batch of messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from binlog_format.events.layout import EVENT_HEADER_SIZE, EventType
from binlog_format.events.query_layout import QUERY_FIXED_SIZE
from binlog_format.kernels import kernel
from binlog_format.memory_kernels import copy_bytes, load_u32
from binlog_format.writing_kernels import COMMA, put_bytes, put_null

if TYPE_CHECKING:
    from binlog_format.block import Table
    from binlog_format.kernels import Bytes, Int32s, Int64s, Uint64s

NO_IMAGE = -1
UNKNOWN_THREAD = -1
_QUERY = int(EventType.QUERY)
CREATE, UPDATE, DELETE, TOMBSTONE = range(4)
_NULL_SIZE = 4
_U0 = np.uint64(0)
_SHIFTS = np.arange(0, 64, 8, dtype=np.uint64)
_BYTE = np.uint64(0xFF)


@kernel
def find_threads(data: Bytes, events: Table, threads: Int64s) -> None:
    """Find the sessions that the first query event of each group names.

    Args:
        threads: Of each group; gets the thread where it is `UNKNOWN_THREAD`.
    """
    types, starts, sizes, groups = events["type"], events["start"], events["size"], events["group"]
    for event in range(len(events)):
        if types[event] == _QUERY and sizes[event] >= QUERY_FIXED_SIZE and threads[groups[event]] == UNKNOWN_THREAD:
            threads[groups[event]] = load_u32(data, starts[event] + EVENT_HEADER_SIZE)


@kernel
def plan_messages(
    before: Int64s, after: Int64s, key_changed: Bytes, tombstones: bool, op: Bytes, numbers: Int64s, other_keys: Int64s
) -> int:
    """Find the messages of changes.

    Args:
        before: Of each change its image before, or `NO_IMAGE`.
        key_changed: Not 0 for an update that changes the key.
        tombstones: Whether a delete is followed by one.
        op: Gets `CREATE`, `UPDATE`, `DELETE` or `TOMBSTONE` of each message; room for three of each change.
        numbers: Shape (4, room); gets `MessagePlan.change`, `before`, `after` and `key`.
        other_keys: Shape (2, room), of `NO_IMAGE`; gets `old_key` and `new_key`. Not touched if no key changes.

    Returns:
        The number of messages.
    """
    count = 0
    for change in range(len(before)):
        old, new = before[change], after[change]
        moves = key_changed[change] != 0
        if old >= 0 and new >= 0 and not moves:
            op[count] = UPDATE
            count = _put_message(numbers, count, change, old, new, new)
            continue
        if old >= 0:
            op[count] = DELETE
            if moves:
                other_keys[1, count] = new
            count = _put_message(numbers, count, change, old, NO_IMAGE, old)
            if tombstones:
                op[count] = TOMBSTONE
                if moves:
                    other_keys[1, count] = new
                count = _put_message(numbers, count, change, NO_IMAGE, NO_IMAGE, old)
        if new >= 0:
            op[count] = CREATE
            if moves:
                other_keys[0, count] = old
            count = _put_message(numbers, count, change, NO_IMAGE, new, new)
    return count


@kernel
def _put_message(numbers: Int64s, at: int, change: int, before: int, after: int, key: int) -> int:
    numbers[0, at] = change
    numbers[1, at] = before
    numbers[2, at] = after
    numbers[3, at] = key
    return at + 1


@kernel
def image_pair_sizes(before: Int64s, after: Int64s, image_sizes: Int64s, around: int, sizes: Int64s) -> None:
    """Bytes that `write_image_pairs` writes for each message.

    Args:
        before: Of each message: its image before, or `NO_IMAGE`.
        image_sizes: Bytes of each image.
        around: Bytes of *head* and *between*, and of the comma after them.
        sizes: Gets the bytes.
    """
    for row in range(len(sizes)):
        size = around
        size += image_sizes[before[row]] if before[row] >= 0 else _NULL_SIZE
        size += image_sizes[after[row]] if after[row] >= 0 else _NULL_SIZE
        sizes[row] = size


@kernel
def write_image_pairs(
    out: Bytes,
    cursors: Int64s,
    head: Bytes,
    between: Bytes,
    before: Int64s,
    after: Int64s,
    image_sizes: Int64s,
    image_starts: Int64s,
) -> None:
    """Write what is around the images of each message, leave room for them, and tell where that is.

    Args:
        cursors: Where each message starts; moved on to the byte after the comma that ends the images.
        head: Comes before the first image.
        before: Of each message: its image before, or `NO_IMAGE`: null.
        image_sizes: Bytes of each image.
        image_starts: Gets the place of each image.
    """
    for row in range(len(cursors)):
        at = put_bytes(out, cursors[row], head, 0, head.size)
        image = before[row]
        if image >= 0:
            image_starts[image] = at
            at += image_sizes[image]
        else:
            at = put_null(out, at)
        at = put_bytes(out, at, between, 0, between.size)
        image = after[row]
        if image >= 0:
            image_starts[image] = at
            at += image_sizes[image]
        else:
            at = put_null(out, at)
        out[at] = COMMA
        cursors[row] = at + 1


@kernel
def copy_texts(out: Bytes, starts: Int64s, data: Bytes, offsets: Int64s, texts: Int64s) -> None:
    """Copy to each start one of some texts.

    Args:
        offsets: Where each begins, and the last one ends.
        texts: Of each row its text; below 0: none.
    """
    for row in range(len(starts)):
        text = texts[row]
        if text >= 0:
            copy_bytes(out, starts[row], data, offsets[text], offsets[text + 1] - offsets[text])


@kernel
def add_text_sizes(sizes: Int64s, rows: Int64s, offsets: Int64s, texts: Int64s) -> None:
    """Add to the size of each row that of its text.

    Args:
        sizes: Of all rows.
        rows: Some of them.
        offsets: Where each text begins, and the last one ends.
        texts: Of each of *rows* its text; below 0: none.
    """
    for k in range(len(rows)):
        text = texts[k]
        if text >= 0:
            sizes[rows[k]] += offsets[text + 1] - offsets[text]


class MessageNumbers(NamedTuple):
    """Numbers of messages: of each the row of its event, its row in the event, and its operation in `OPS`."""

    events: Int64s
    row_nos: Int32s
    ops: Int32s


@kernel
def arrange_messages(
    sorting: Int64s, run_ends: Int64s, of_runs: MessageNumbers, in_order: MessageNumbers, ranks: Int64s, owners: Int64s
) -> None:
    """Bring messages, one run after the other, into one order.

    Args:
        sorting: Of each message in order its place among those of the runs.
        run_ends: Where each run ends there.
        in_order: Gets the numbers of the messages in order.
        ranks: Gets of each message of the runs its place in order.
        owners: Gets of each message in order its run.
    """
    for rank in range(len(sorting)):
        place = sorting[rank]
        ranks[place] = rank
        in_order.events[rank] = of_runs.events[place]
        in_order.row_nos[rank] = of_runs.row_nos[place]
        in_order.ops[rank] = of_runs.ops[place]
    place = 0
    for run in range(len(run_ends)):
        while place < run_ends[run]:
            owners[ranks[place]] = run
            place += 1


@kernel
def different_texts(data: Bytes, offsets: Int64s, first: Int64s, second: Int64s, different: Bytes) -> None:
    """Find the pairs of texts that differ; a pair without one of them does not.

    Args:
        offsets: Where each begins, and the last one ends.
        first: Of each pair; below 0: none.
        second: Of each pair.
        different: Gets 1 where they differ, else 0.
    """
    for row in range(len(first)):
        different[row] = 0
        if first[row] < 0 or second[row] < 0:
            continue
        one, other = offsets[first[row]], offsets[second[row]]
        size = offsets[first[row] + 1] - one
        if size != offsets[second[row] + 1] - other:
            different[row] = 1
            continue
        for k in range(size):
            if data[one + k] != data[other + k]:
                different[row] = 1
                break


@kernel
def write_unscaled(words: Uint64s, present: Bytes, offsets: Int32s, out: Bytes) -> None:
    """Write numbers as the fewest bytes that hold them in two's complement, high byte first (Java's `BigInteger`).

    Args:
        words: Shape (count, words of a number): the lowest first.
        present: 0 for a null, which takes no bytes.
        offsets: Gets where each begins, and the last one ends; one longer than *present*.
        out: Room for all bytes of all words.
    """
    width = words.shape[1]
    at = 0
    offsets[0] = 0
    for row in range(len(present)):
        if present[row] != 0:
            filler = _BYTE if (words[row, width - 1] >> np.uint64(63)) != _U0 else _U0
            sign = filler >> np.uint64(7)
            leading = True
            for place in range(8 * width - 1, -1, -1):
                byte = (words[row, place // 8] >> _SHIFTS[place % 8]) & _BYTE
                if leading and byte == filler and place > 0:
                    below = (words[row, (place - 1) // 8] >> _SHIFTS[(place - 1) % 8]) & _BYTE
                    if (below >> np.uint64(7)) == sign:
                        continue
                leading = False
                out[at] = np.uint8(byte)
                at += 1
        offsets[row + 1] = at
