"""Checks groups of fragments, event after event: `FragmentWalk`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from binlog_format.errors import BinlogError, CorruptError, UnsupportedError
from binlog_format.events.layout import EventType
from binlog_format.fragments import fragment_kernels as kernels
from binlog_format.fragments.layout import FRAGMENT_FLAGS_OFFSET
from binlog_format.log_format import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from binlog_format.block import PlaceOf, Table
    from binlog_format.kernels import Bytes, Int64s

_REASONS = {
    kernels.TOO_SHORT: "it is too short for its fields",
    kernels.NO_ORIGINAL_SIZE: "it is the first one and does not contain the size of the original event",
    kernels.SECOND_ORIGINAL_SIZE: "it is not the first one and contains the size of the original event",
    kernels.BAD_ORIGINAL_SIZE: "no row event has the size that it claims for the original event",
    kernels.NO_CONTENT: "it contains no bytes of the original event",
}


class FragmentWalk:
    """Reads the events of a log; knows which fragments the present group still lacks."""

    def __init__(self) -> None:
        self._state = np.zeros(kernels.STATE_FIELDS, dtype=np.int64)
        self._is_lost = False  # in the rest of the group at hand

    @property
    def is_open(self) -> bool:
        """True if a group of fragments has begun and is not complete."""
        return bool(self._state[kernels.TOTAL])

    def forget(self) -> None:
        """Forget the state: the next events do not continue where the last events ended."""
        self._state[kernels.TOTAL] = 0
        self._is_lost = False

    def concerns(self, events: Table) -> bool:
        """True if these events need a check."""
        return self.is_open or self._is_lost or bool((events["type"] == EventType.PARTIAL_ROW_DATA).any())

    def take(self, data: Bytes, events: Table, groups: Table, place: PlaceOf | None) -> Int64s:
        """Check the fragments among *events*.

        Args:
            events: `EVENT_DTYPE`, at least one; they go on where those of the call before ended.
            place: `Block.place`; only lets errors name the place of the damage in the files.

        Returns:
            Shape (length of *events*, `FOUND_FIELDS`): what each event brings.
        """
        found = np.empty((len(events), kernels.FOUND_FIELDS), dtype=np.int64)
        code, row = self._walk(data, events, groups, found)
        if code != kernels.WALKED:
            raise self._error(data, events, code, row, place)
        return found

    def findings(self, data: Bytes, events: Table, groups: Table, place: PlaceOf) -> Iterator[Finding]:
        """Check the fragments among *events*, past those that are wrong: of each event group the first fault."""
        after = groups["first_event"] + groups["event_count"]
        first = int(after[0]) if self._is_lost and not groups["begins"][0] else 0
        self._is_lost = self._is_lost and first == len(events) and not groups["ends"][0]
        found = np.empty((len(events), kernels.FOUND_FIELDS), dtype=np.int64)
        while first < len(events):
            rest = events[first:]
            code, row = self._walk(data, rest, groups[int(rest["group"][0]) :], found)
            if code == kernels.WALKED:
                return
            yield Finding.of(self._error(data, rest, code, row, place))
            group = int(rest["group"][row])
            first += row
            if code == kernels.INTERRUPTED and first == groups["first_event"][group] and groups["begins"][group]:
                continue  # the group before has ended; this one may be right
            first = int(after[group])
            self._is_lost = not groups["ends"][group]

    def _walk(self, data: Bytes, events: Table, groups: Table, found: Int64s) -> tuple[int, int]:
        if self.is_open and groups["begins"][0]:
            return kernels.INTERRUPTED, 0
        code, row = kernels.walk_fragments(data, events, self._state, found)
        if code == kernels.WALKED and self.is_open and groups["ends"][-1]:
            return kernels.INTERRUPTED, len(events) - 1
        return code, row

    def _error(self, data: Bytes, events: Table, code: int, row: int, place: PlaceOf | None) -> BinlogError:
        state = self._state.tolist()
        self._state[kernels.TOTAL] = 0
        start = int(events["start"][row])
        at = place and place(start)
        if code == kernels.UNKNOWN_FLAGS:
            flags = int(data[start + FRAGMENT_FLAGS_OFFSET])
            reason = f"a fragment of a row event with flags {flags:#04x}, of which only 0x01 is known"
            return UnsupportedError("EVENT_TYPE", reason, at=at, hint="A later version of this program may know them")
        return CorruptError("BAD_EVENT", _reason(code, state, int(events["type"][row])), at=at)


def _reason(code: int, state: list[int], event_type: int) -> str:
    number, total = state[kernels.NUMBER], state[kernels.TOTAL]
    if code == kernels.INTERRUPTED:
        what = "the event group ends" if event_type == EventType.PARTIAL_ROW_DATA else f"an event of type {event_type}"
        return f"fragments of a row event: {number} of {total} are there, then {what}"
    if code == kernels.BAD_COUNTERS:
        counters = f"{state[kernels.FOUND_FIRST]} and {state[kernels.FOUND_SECOND]}"
        expected = "the first one of at least 2" if total == 0 else f"number {number + 1} of {total}"
        return f"fragment of a row event: expected {expected}, its two counters are {counters}"
    if code in (kernels.TOO_LARGE, kernels.TOO_SMALL):
        size, done = state[kernels.ORIGINAL_SIZE], state[kernels.DONE_SIZE]
        return f"fragment {number} of {total} of a row event: {size} bytes claimed for the original event, found {done}"
    return f"fragment of a row event: {_REASONS[code]}"
