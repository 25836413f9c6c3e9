"""A table of the workload while it runs: `ComparedTableState` has its rows by key, and knows who holds which row."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random

    from binlog_lab.demo.alterations import Alteration
    from binlog_lab.event_encoding.table_encoding import TableSpec
    from binlog_lab.event_encoding.value_encoding import Value

    Row = tuple[Value, ...]
    Key = tuple[Value, ...]

_TRIES_PER_ROW = 8


class ComparedTableState:
    """Rows as the sessions have made them, committed or not; a row that a session has changed is locked by it."""

    def __init__(self, spec: TableSpec) -> None:
        self.spec = spec
        self._key_indices = spec.key_indices
        self.rows: dict[Key, Row] = {}
        # The keys once more, to draw from in constant time.
        self._keys: list[Key] = []
        self._places: dict[Key, int] = {}
        self._locks: dict[Key, int] = {}

    def key_of(self, row: Row) -> Key:
        """The row's primary key."""
        return tuple(row[index] for index in self._key_indices)

    def apply(self, before: Row | None, after: Row | None) -> None:
        """Insert (no *before*), update or delete (no *after*) a row."""
        old = None if before is None else self.key_of(before)
        new = None if after is None else self.key_of(after)
        if old is not None:
            assert self.rows[old] == before
            if old != new:
                del self.rows[old]
                self._forget(old)
        if new is not None:
            assert after is not None
            if old != new:
                assert new not in self.rows
                self._places[new] = len(self._keys)
                self._keys.append(new)
            self.rows[new] = after

    def alter(self, alteration: Alteration) -> None:
        """ALTER TABLE; nobody may hold a row."""
        assert not self._locks
        self.spec = alteration.after
        self.rows = {key: alteration.row(row) for key, row in self.rows.items()}

    def lock(self, row: Row, session: int) -> Key:
        """Lock the row for a session."""
        key = self.key_of(row)
        assert self._locks.setdefault(key, session) == session
        return key

    def unlock(self, key: Key) -> None:
        """The end of the session's transaction."""
        self._locks.pop(key, None)

    def pick(self, numbers: random.Random, count: int) -> list[Row]:
        """Up to *count* different rows that nobody holds."""
        found: dict[Key, Row] = {}
        if not self._keys:
            return []
        for _ in range(_TRIES_PER_ROW * count):
            key = self._keys[int(numbers.random() * len(self._keys))]
            if key not in self._locks:
                found[key] = self.rows[key]
                if len(found) == count:
                    break
        return list(found.values())

    def _forget(self, key: Key) -> None:
        place, last = self._places.pop(key), self._keys.pop()
        if last != key:
            self._keys[place] = last
            self._places[last] = place
