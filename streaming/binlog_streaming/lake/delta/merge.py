"""A `Change` into a Delta table in one commit: `merge_change`.

Of files that may hold a changed key the key's columns are read, and no others. The rows that are superseded are marked
in deletion vectors, or their files are written anew without them; new images come in new files. Only rows that keep
values of some columns are read as a whole.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from binlog_streaming.lake.conforming import conformed_table
from binlog_streaming.lake.delta.actions import statistics_of
from binlog_streaming.lake.delta.commit import ENABLED, FEED
from binlog_streaming.lake.delta.data_files import key_batches, rows_at
from binlog_streaming.lake.delta.vectors import read_vector
from binlog_streaming.lake.key_lookup import KeyLookup
from binlog_streaming.lake.key_ranges import key_cover, meeting
from binlog_streaming.lake.row_values import one_array
from binlog_streaming.settings_model import Merge

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from binlog_streaming.lake.change import Change
    from binlog_streaming.lake.delta.actions import Add
    from binlog_streaming.lake.delta.commit import TableWrite
    from binlog_streaming.lake.delta.log import TableLog

    Indices = NDArray[np.int64]

THREADS = 2
"""Files of a table whose keys are looked at at a time."""

REWRITTEN_MAX = 32 << 20
"""Bytes of files that are written anew by one step, before `Merge.AUTO` marks rows instead, from then on."""


def merge_change(write: TableWrite, change: Change, keys: Sequence[str], kind: Merge) -> None:
    """Put into *write* what brings *change* into the table; nothing where there is nothing to change.

    Args:
        write: The commit.
        change: What becomes of rows.
        keys: Names of the key columns.
        kind: How superseded rows go.
    """
    merging = _Merging(write, change, keys)
    found = merging.found()
    is_marked = kind is Merge.MARK or (kind is Merge.AUTO and _is_worth_marking(write.log, [one.add for one in found]))
    for one in found:
        merging.supersede(one, is_marked=is_marked)
    merging.write_new()


def _is_worth_marking(log: TableLog, files: Sequence[Add]) -> bool:
    is_marked = log.metadata.configuration.get(ENABLED) == "true"
    return is_marked or sum(add.size for add in files) > REWRITTEN_MAX


@dataclass(frozen=True, slots=True)
class _Found:
    # Rows of a file that hold changed keys, those that its vector takes out left out.
    add: Add
    rows: Indices
    numbers: Indices  # of their keys, among all changed ones
    marked: Indices  # by its vector


@dataclass(frozen=True, slots=True)
class _Overlay:
    # Rows that take the place of others, or of some of their columns.
    first: int  # among all keys
    rows: pa.Table
    present: pa.Table
    kept: pa.Schema  # columns of the old rows that are looked at: at least one

    @property
    def after(self) -> int:
        return self.first + int(self.rows.num_rows)

    def over(self, old: pa.RecordBatch, numbers: Indices, schema: pa.Schema) -> pa.Table:
        # *numbers*: for each old row, that of its new one.
        at = pa.array(numbers - self.first)
        columns = []
        for field in schema:
            if field.name not in self.rows.column_names:
                columns.append(old.column(field.name))
                continue
            value = one_array(self.rows.column(field.name).take(at))
            if field.name in self.present.column_names:
                flags = one_array(self.present.column(field.name).take(at))
                value = pc.if_else(flags, value, old.column(field.name))
            columns.append(value)
        return pa.table(columns, schema=schema)


class _Merging:
    # Keys are numbered: upserts, deletes, patches.

    def __init__(self, write: TableWrite, change: Change, keys: Sequence[str]) -> None:
        self._write = write
        self._schema = write.schema
        self._change = change
        self._key_schema = pa.schema([self._schema.field(name) for name in keys])
        self._upserts = self._typed(change.upserts)
        self._is_partial = set(self._upserts.column_names) < set(self._schema.names)
        patches = self._typed(change.patches.rows) if change.patches is not None else None
        tables = [self._upserts, change.deletes, *([] if patches is None else [patches])]
        self._changed = pa.concat_tables(conformed_table(table.select(keys), self._key_schema) for table in tables)
        self._overlays = [self._overlay(0, self._upserts, pa.table({}))]
        if patches is not None and change.patches is not None:
            first = self._changed.num_rows - patches.num_rows
            self._overlays.append(self._overlay(first, patches, change.patches.present))
        self._feeds = write.log.metadata.configuration.get(FEED) == "true"
        # Upserts that are written with the file of the row that they supersede.
        self._is_written = np.zeros(self._upserts.num_rows, np.bool_)
        self._is_there = np.zeros(self._upserts.num_rows, np.bool_)

    def found(self) -> list[_Found]:
        """Where changed keys are."""
        lookup = KeyLookup(self._changed) if self._changed.num_rows else None
        if lookup is None:
            return []
        files = list(files_that_may_hold(self._write.log, self._changed))
        if len(files) < 2:
            every = [self._found_in(add, lookup) for add in files]
        else:  # reading and comparing keys is done outside of Python's lock
            with ThreadPoolExecutor(THREADS) as pool:
                every = list(pool.map(lambda add: self._found_in(add, lookup), files))
        return [one for one in every if len(one.rows)]

    def supersede(self, found: _Found, *, is_marked: bool) -> None:
        """Take the found rows of a file out of it, and write what stands in the place of those that keep values."""
        store = self._write.store
        upserted = found.numbers[found.numbers < self._upserts.num_rows]
        self._is_there[upserted] = True
        if self._feeds:
            self._feed(found)
        gone = np.sort(np.concatenate([found.rows, found.marked]), kind="stable")
        if is_marked:
            self._write.mark(found.add, gone)
        else:
            self._write.rewrite(found.add, gone)
        if self._is_partial:
            self._is_written[upserted] = True
        elif not is_marked:
            # What is written anew stays together by its keys, as far as it was.
            self._is_written[upserted] = True
            self._write_rows(self._upserts.take(pa.array(np.sort(upserted))))
        for overlay in self._overlays if self._is_partial else self._overlays[1:]:
            own = np.flatnonzero((found.numbers >= overlay.first) & (found.numbers < overlay.after))
            for places, old in rows_at(store, found.add, found.rows[own], overlay.kept):
                self._write.files.write(overlay.over(old, found.numbers[own[places]], self._schema))

    def write_new(self) -> None:
        """Write the other upserts, and what comes new in any case."""
        new = [self._upserts.filter(pa.array(~self._is_written))]
        if self._feeds:
            fresh = [self._upserts.filter(pa.array(~self._is_there))]
            self._feed_rows("insert", *fresh, *self._appends())
        for rows in (*new, *self._appends()):
            self._write_rows(rows)

    def _write_rows(self, rows: pa.Table) -> None:
        if rows.num_rows:
            self._write.files.write(conformed_table(rows, self._schema))

    def _appends(self) -> list[pa.Table]:
        return [] if self._change.appends is None else [self._change.appends]

    def _typed(self, rows: pa.Table) -> pa.Table:
        return conformed_table(rows, pa.schema([self._schema.field(name) for name in rows.column_names]))

    def _overlay(self, first: int, rows: pa.Table, present: pa.Table) -> _Overlay:
        written = set(rows.column_names) - set(present.column_names)
        kept = [field for field in self._schema if field.name not in written]
        return _Overlay(first, rows, present, pa.schema(kept or [self._schema.field(0)]))

    def _found_in(self, add: Add, lookup: KeyLookup) -> _Found:
        store, current = self._write.store, self._change.current
        wanted = self._key_schema if current is None else self._key_schema.append(self._schema.field(current))
        found: list[tuple[Indices, Indices]] = [(np.empty(0, np.int64), np.empty(0, np.int64))]
        for first, batch in key_batches(store, add, wanted):
            columns = batch.columns if current is None else batch.columns[:-1]
            rows, numbers = lookup.find(columns)
            if current is not None:
                holds = pc.fill_null(batch.column(batch.num_columns - 1), False).to_numpy(zero_copy_only=False)[rows]
                rows, numbers = rows[holds], numbers[holds]
            found.append((rows + first, numbers))
        rows, numbers = (np.concatenate(part) for part in zip(*found, strict=True))
        marked = read_vector(store, add.deletion_vector) if len(rows) else rows
        left = ~np.isin(rows, marked, assume_unique=True)
        return _Found(add, rows[left], numbers[left], marked)

    def _feed(self, found: _Found) -> None:
        deleted = self._upserts.num_rows, self._upserts.num_rows + self._change.deletes.num_rows
        for places, old in rows_at(self._write.store, found.add, found.rows, self._schema):
            numbers = found.numbers[places]
            is_deleted = (numbers >= deleted[0]) & (numbers < deleted[1])
            self._feed_rows("delete", pa.Table.from_batches([old.filter(pa.array(is_deleted))]))
            for overlay in self._overlays:
                own = (numbers >= overlay.first) & (numbers < overlay.after)
                before = old.filter(pa.array(own))
                self._feed_rows("update_preimage", pa.Table.from_batches([before]))
                self._feed_rows("update_postimage", overlay.over(before, numbers[own], self._schema))

    def _feed_rows(self, kind: str, *tables: pa.Table) -> None:
        for rows in tables:
            if rows.num_rows:
                typed = conformed_table(rows, self._schema)
                self._write.feed(typed.append_column("_change_type", pa.repeat(kind, rows.num_rows)))


def files_that_may_hold(log: TableLog, keys: pa.Table) -> Iterator[Add]:
    """Files that, by their statistics, may hold one of *keys*, by their least key where that is a number."""
    ranges = {name: key_cover(keys.column(name)) for name in keys.column_names}
    admitted = []
    for add in log.files.values():
        edges = _edges(add, keys.column_names)
        for name, cover in ranges.items():
            if cover is None or name not in edges:
                continue
            low, high = edges[name]
            if not meeting(cover, np.array([low]), np.array([high]))[0]:
                break
        else:
            admitted.append((edges.get(keys.column_names[0], (0, 0))[0], add))
    admitted.sort(key=lambda pair: pair[0])
    yield from (add for _, add in admitted)


def _edges(add: Add, names: Sequence[str]) -> dict[str, tuple[int, int]]:
    # Least and greatest values of columns of integers.
    statistics = statistics_of(add)
    least, greatest = statistics.get("minValues"), statistics.get("maxValues")
    assert isinstance(least, dict | None)
    assert isinstance(greatest, dict | None)
    edges = {name: ((least or {}).get(name), (greatest or {}).get(name)) for name in names}
    return {name: (low, high) for name, (low, high) in edges.items() if isinstance(low, int) and isinstance(high, int)}
