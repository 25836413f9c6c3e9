"""Committed changes of a workload's table, change by change and version by version: `ServerTableHistory`.

`ComparedTableState` is the table while the workload runs: rows by key, and who holds which row.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from binlog_lab.demo.proof.expected_rows import CHANGE_TYPE, GTID, IS_CURRENT, VALID_FROM, VALID_TO, to_arrow

if TYPE_CHECKING:
    import random
    from collections.abc import Mapping

    from binlog_lab.demo.shop import Alteration
    from binlog_lab.event_encoding.table_encoding import TableSpec
    from binlog_lab.event_encoding.value_encoding import Value

    Row = tuple[Value, ...]
    Key = tuple[Value, ...]


_TIME_TYPE = pa.timestamp("us", "UTC")


class ServerTableHistory:
    """The committed changes of one table, in commit order. *changes*: rows inserted, updated and deleted so far."""

    def __init__(self, spec: TableSpec) -> None:
        self.changes = 0
        self._spec = spec
        self._images = [_Images(spec)]
        self._versions: list[_Version] = []
        self._current: dict[Row, _Version] = {}

    def add(self, before: Row | None, after: Row | None, gtid: str) -> None:
        """One row inserted (no *before*), updated or deleted (no *after*)."""
        self.changes += 1
        self._images[-1].add(before, after, gtid)
        if before == after:
            return
        if before is not None:
            self._current.pop(self._key_of(before)).end = gtid
        if after is not None:
            version = _Version(after, gtid)
            self._versions.append(version)
            self._current[self._key_of(after)] = version

    def alter(self, alteration: Alteration) -> None:
        """ALTER TABLE: images that come later have other columns; versions that are there get what is added."""
        self._spec = alteration.after
        self._images.append(_Images(alteration.after))
        for version in self._versions:
            version.row = alteration.row(version.row)

    def changes_table(self) -> pa.Table:
        """Every row image: the columns that the table has had, then `_change_type` and `_gtid`.

        A column that a row did not have then is null; one that was widened has its last type.
        """
        return pa.concat_tables([images.to_arrow() for images in self._images], promote_options="permissive")

    def versions_table(self, committed_at: Mapping[str, int]) -> pa.Table:
        """Every version of every row, in the order in which they began, with the times between which they held.

        Args:
            committed_at: When each transaction was committed, by GTID, in seconds since 1970 UTC.
        """
        table = to_arrow(self._spec, [version.row for version in self._versions])
        begins = [committed_at[version.begin] * 1_000_000 for version in self._versions]
        ends = [None if version.end is None else committed_at[version.end] * 1_000_000 for version in self._versions]
        table = table.append_column(VALID_FROM, pa.array(begins, _TIME_TYPE))
        table = table.append_column(VALID_TO, pa.array(ends, _TIME_TYPE))
        return table.append_column(IS_CURRENT, pa.array([end is None for end in ends], pa.bool_()))

    def _key_of(self, row: Row) -> Row:
        return tuple(row[index] for index in self._spec.key_indices)


@dataclass(slots=True)
class _Version:
    # A row as it was from one transaction to another.
    row: Row
    begin: str
    end: str | None = None


@dataclass(slots=True)
class _Images:
    # Row images of a table as long as its columns stay the same.
    spec: TableSpec
    rows: list[Row] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)
    gtids: list[str] = field(default_factory=list)

    def add(self, before: Row | None, after: Row | None, gtid: str) -> None:
        if before is not None:
            self._append(before, "delete" if after is None else "update_preimage", gtid)
        if after is not None:
            self._append(after, "insert" if before is None else "update_postimage", gtid)

    def to_arrow(self) -> pa.Table:
        table = to_arrow(self.spec, self.rows)
        table = table.append_column(CHANGE_TYPE, pa.array(self.kinds, pa.string()))
        return table.append_column(GTID, pa.array(self.gtids, pa.string()))

    def _append(self, row: Row, kind: str, gtid: str) -> None:
        self.rows.append(row)
        self.kinds.append(kind)
        self.gtids.append(gtid)


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
