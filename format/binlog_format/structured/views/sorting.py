"""Rows of view `logs` in the order of time, as far as they are not too far from it: `sorted_by_time`.

Writers of a program log side by side, and the log has their events by writer: time jumps back and forth by as much
as lies between two flushes. Whoever waits so long before a row is given can put them in order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from binlog_format.rows.arrow_arrays import array_mask, numbers_array

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    Int64s = NDArray[np.int64]

HELD_SIZE_MAX = 256 << 20
"""Bytes of rows that wait. When there are more, the older half of them is given, whatever the window."""

_BEFORE_ALL = np.iinfo(np.int64).min


def sorted_by_time(batches: Iterable[pa.RecordBatch], window_ns: int) -> Iterator[pa.RecordBatch]:
    """The rows of *batches*, each after all that are earlier and came before a row *window_ns* later than itself.

    Rows of equal time stay in their order. One without a time stays after the row before it.

    Args:
        batches: With a column `ns`.
        window_ns: More than 0.
    """
    held = _Held(window_ns)
    for batch in batches:
        held.add(batch)
        # Sorted again only when there is as much new as has been sorted: each row a few times.
        if held.new_count >= held.sorted_count:
            yield from held.due()
    yield from held.all()


class _Held:
    """Rows that wait for earlier ones."""

    def __init__(self, window_ns: int) -> None:
        self._window_ns = window_ns
        self._batches: list[pa.RecordBatch] = []
        self._keys: list[Int64s] = []
        self._last_key: int = _BEFORE_ALL
        self.sorted_count = 0
        self.new_count = 0

    def add(self, batch: pa.RecordBatch) -> None:
        if batch.num_rows == 0:
            return
        keys = _keys(batch.column("ns"), self._last_key)
        self._last_key = int(keys[-1])
        self._batches.append(batch)
        self._keys.append(keys)
        self.new_count += batch.num_rows

    def due(self) -> Iterator[pa.RecordBatch]:
        """Give the rows that no later row can precede; in part, if too many wait."""
        if not self._batches:
            return
        rows, keys = self._sorted()
        count = int(np.searchsorted(keys, int(keys[-1]) - self._window_ns, side="right"))
        if rows.nbytes > HELD_SIZE_MAX:
            count = max(count, len(keys) // 2)
        # Joined: a slice would keep all that it was cut from.
        left = pa.concat_batches([rows.slice(count)]) if count else rows
        self._batches, self._keys = [left], [keys[count:]]
        self.sorted_count, self.new_count = left.num_rows, 0
        if count:
            yield rows.slice(0, count)

    def all(self) -> Iterator[pa.RecordBatch]:
        """The rest."""
        if self._batches:
            yield self._sorted()[0]
            self._batches, self._keys = [], []

    def _sorted(self) -> tuple[pa.RecordBatch, Int64s]:
        keys = np.concatenate(self._keys)
        order = np.argsort(keys, kind="stable")
        return pa.concat_batches(self._batches).take(numbers_array(order)), keys[order]


def _keys(ns: pa.Array, before: int) -> Int64s:
    """Sort keys of rows: the time, or that of the last row before that has one."""
    valid = array_mask(ns.is_valid())
    times: Int64s = ns.fill_null(0).to_numpy()
    if valid.all():
        return times
    last = np.maximum.accumulate(np.where(valid, np.arange(len(times)), -1))
    return np.where(last >= 0, times[last], before)
