"""Rows by key into Iceberg: `Rewriting` finds the files that hold changed keys, and what is to stand in their place.

Only the key columns of files whose statistics admit a changed key are read; a file that holds none stays as it is. One
file is in memory at a time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.types import IntegerType, LongType

from binlog_streaming.lake.conforming import conformed, conformed_table
from binlog_streaming.lake.iceberg.files import file_size_of, rows_of
from binlog_streaming.lake.iceberg.schema import arrow_schema
from binlog_streaming.lake.key_lookup import KeyLookup
from binlog_streaming.lake.key_ranges import key_cover, meeting
from binlog_streaming.lake.row_values import one_array
from binlog_streaming.lake.small_files import to_be_joined

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray
    from pyiceberg.io import FileIO
    from pyiceberg.manifest import DataFile
    from pyiceberg.table.metadata import TableMetadata

    from binlog_streaming.lake.change import Change

    Mask = NDArray[np.bool_]
    Indices = NDArray[np.int64]


class Rewriting:
    """What a change makes of a table.

    Attributes:
        replaced: Files that go; known when all of `rows` was taken.
        is_change: Whether anything changes; known then.
    """

    def __init__(
        self,
        metadata: TableMetadata,
        io: FileIO,
        files: Sequence[DataFile],
        change: Change,
        keys: Sequence[str],
        *,
        file_size: int,
    ) -> None:
        self.replaced: list[DataFile] = []
        self.is_change = bool(change.upserts.num_rows or (change.appends is not None and change.appends.num_rows))
        self._metadata = metadata
        self._io = io
        self._files = _by_least_key(files, metadata, keys)
        self._change = change
        self._file_size = file_size
        self._schema = arrow_schema(metadata.schema())
        self._wanted = _wanted_keys(change, keys, self._schema)
        self._overlays = [_Overlay(change.upserts, keys, self._schema, first=0)]
        if change.patches is not None:
            first = change.upserts.num_rows + change.deletes.num_rows
            self._overlays.append(_Overlay(change.patches.rows, keys, self._schema, first, change.patches.present))
        self._is_there = np.zeros(change.upserts.num_rows, np.bool_)

    def rows(self) -> Iterator[pa.RecordBatch]:
        """Rows of the files that go, as they are behind the change, and then those that come new.

        A row that changes keeps its place, and files are taken by their least key: so files that were made of some
        part of the keys stay so, and the next change has fewer to look into.
        """
        untouched = []
        columns = [*self._wanted.column_names, *([self._change.current] if self._change.current else [])]
        lookup = KeyLookup(self._wanted)
        for file, may_hold in zip(self._files, self._admitting(), strict=True):
            found = self._found(file, lookup, columns) if may_hold else None
            if found is None:
                untouched.append(file)
                continue
            self.is_change = True
            self.replaced.append(file)
            yield from self._changed(file, found)
        if self.is_change:
            for file in to_be_joined(untouched, file_size_of, file_size=self._file_size):
                self.replaced.append(file)
                yield from rows_of(self._metadata, self._io, file)
        new = self._change.upserts.filter(pa.array(~self._is_there))
        for rows in (new, self._change.appends):
            if rows is not None:
                yield from (conformed(batch, self._schema) for batch in rows.to_batches())

    def _found(self, file: DataFile, lookup: KeyLookup, columns: Sequence[str]) -> Indices | None:
        # For every row of the file, the number of the wanted key that it has, or -1; None where none has any.
        batches = list(rows_of(self._metadata, self._io, file, columns))
        if not batches:
            return None
        there = pa.Table.from_batches(batches)
        rows, numbers = lookup.find([one_array(there.column(name)) for name in self._wanted.column_names])
        found = np.full(there.num_rows, -1, np.int64)
        found[rows] = numbers
        if self._change.current:
            counts = pc.fill_null(there.column(self._change.current), False)
            found[~counts.to_numpy()] = -1
        return found if (found >= 0).any() else None

    def _changed(self, file: DataFile, found: Indices) -> Iterator[pa.RecordBatch]:
        first, last = len(self._is_there), len(self._is_there) + self._change.deletes.num_rows
        self._is_there[found[(found >= 0) & (found < first)]] = True
        start = 0
        for batch in rows_of(self._metadata, self._io, file):
            numbers = found[start : start + batch.num_rows]
            start += batch.num_rows
            stays = (numbers < first) | (numbers >= last)
            if not stays.all():
                batch, numbers = batch.filter(pa.array(stays)), numbers[stays]
            for overlay in self._overlays:
                batch = overlay.on(batch, numbers)
            yield batch

    def _admitting(self) -> Mask:
        # Which files may hold a wanted key, as far as their statistics say.
        admits = np.full(len(self._files), self._wanted.num_rows > 0)
        if self._change.current:
            number = self._metadata.schema().find_field(self._change.current).field_id
            is_current = [(file.upper_bounds or {}).get(number) != b"\0" for file in self._files]
            admits &= np.array(is_current, dtype=np.bool_)
        for key in self._wanted.column_names:
            ranges = key_cover(self._wanted.column(key))
            if ranges is None:
                continue
            number = self._metadata.schema().find_field(key).field_id
            for index, file in enumerate(self._files):
                edges = _edges(file, number)
                if edges is not None:
                    least, greatest = (np.array([edge], np.int64) for edge in edges)
                    admits[index] &= bool(meeting(ranges, least, greatest)[0])
        return admits


class _Overlay:
    # Values that take the place of others, in the types of the table's columns.
    #
    # Args: *first* is the number of the first of *rows* among the wanted keys; *present* is `Patches.present`.

    def __init__(
        self, rows: pa.Table, keys: Sequence[str], schema: pa.Schema, first: int, present: pa.Table | None = None
    ) -> None:
        self._first = first
        self._count = rows.num_rows
        self._values = {
            name: one_array(rows.column(name).cast(schema.field(name).type))
            for name in rows.column_names
            if name not in keys and name in schema.names
        }
        self._present = (
            {} if present is None else {name: present.column(name).to_numpy() for name in present.column_names}
        )

    def on(self, batch: pa.RecordBatch, found: Indices) -> pa.RecordBatch:
        """Rows with their new values; *found* has the number of a wanted key for each, or -1."""
        numbers = found - self._first
        is_hit = (numbers >= 0) & (numbers < self._count)
        if not is_hit.any():
            return batch
        columns = list(batch.columns)
        for name, values in self._values.items():
            changes = is_hit & self._present[name][np.where(is_hit, numbers, 0)] if name in self._present else is_hit
            index = batch.schema.get_field_index(name)
            taken = values.take(pa.array(numbers, mask=~changes))
            columns[index] = pc.if_else(pa.array(changes), taken, columns[index])
        return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def _by_least_key(files: Sequence[DataFile], metadata: TableMetadata, keys: Sequence[str]) -> list[DataFile]:
    # Files in the order of their least keys, as far as these are integers.
    field = metadata.schema().find_field(keys[0])
    if not isinstance(field.field_type, (IntegerType, LongType)):
        return list(files)
    return sorted(files, key=lambda file: (_edges(file, field.field_id) or (0, 0))[0])


def _edges(file: DataFile, field_id: int) -> tuple[int, int] | None:
    # Least and greatest value of a column of integers.
    edges = [(bounds or {}).get(field_id) for bounds in (file.lower_bounds, file.upper_bounds)]
    # A column that was widened has shorter ones in its old files.
    least, greatest = (None if edge is None else int.from_bytes(edge, "little", signed=True) for edge in edges)
    return None if least is None or greatest is None else (least, greatest)


def _wanted_keys(change: Change, keys: Sequence[str], schema: pa.Schema) -> pa.Table:
    parts = [change.upserts, change.deletes, *([] if change.patches is None else [change.patches.rows])]
    key_schema = pa.schema([schema.field(key) for key in keys])
    return pa.concat_tables([conformed_table(part, key_schema) for part in parts])
