"""Equality delete files, as Flink writes them: `KeyDeletes` finds the rows that they take out of data files.

A row goes that came by an earlier commit, and has in the columns of a delete file the values of one of its rows; null
is equal to null. Columns are found by their numbers, also those that the table has no more.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.types import IntegerType, LongType, NestedField

from binlog_streaming.lake.file_reader import KEY_ROWS
from binlog_streaming.lake.iceberg.schema import (
    IcebergReadColumns,
    arrow_schema,
    integer_bounds,
    opened_file,
    with_schema,
)
from binlog_streaming.lake.key_lookup import KeyLookup, key_cover, meeting
from binlog_streaming.lake.row_values import comparable_table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyiceberg.io import FileIO
    from pyiceberg.manifest import DataFile
    from pyiceberg.table.metadata import TableMetadata

    from binlog_format.kernels import Indices, Mask

_LOADING = threading.Lock()


def key_field(metadata: TableMetadata, number: int) -> NestedField | None:
    """The column of a table with a number, as it was last if it has gone; None: it is none, or within another."""
    schemas = sorted(metadata.schemas, key=lambda schema: schema.schema_id, reverse=True)
    fields = (field for schema in (metadata.schema(), *schemas) for field in schema.fields)
    return next((field for field in fields if field.field_id == number and field.field_type.is_primitive), None)


class KeyDeletes:
    """Equality deletes by the same columns, about the same data files.

    Args:
        deletes: Delete files, and the number of the commit that each came by.
    """

    def __init__(self, deletes: Sequence[tuple[DataFile, int]]) -> None:
        self._deletes = sorted(deletes, key=lambda delete: delete[1])
        self._keys: _Keys | None = None

    def __reduce__(self) -> tuple[type[KeyDeletes], tuple[object]]:
        # Another process reads the keys itself.
        return KeyDeletes, (self._deletes,)

    @property
    def newest(self) -> int:
        """Number of the last commit that brought some."""
        return self._deletes[-1][1]

    def rows(self, metadata: TableMetadata, io: FileIO, file: DataFile, sequence_number: int) -> Indices:
        """Numbers of the rows that go of a data file, in any order. *sequence_number*: of the commit it came by."""
        with _LOADING:
            if self._keys is None:
                self._keys = _Keys(metadata, io, self._deletes)
        return self._keys.rows(io, file, sequence_number)


@dataclass(frozen=True, slots=True)
class _Pattern:
    # Keys that have nulls in the same columns.
    #
    # Attributes: *lookup*: of the values of the other columns, None where there are none; *numbers*: for each key the
    # number of the last commit that deletes it.
    is_null: tuple[bool, ...]
    lookup: KeyLookup | None
    numbers: Indices

    @classmethod
    def of(cls, keys: pa.Table, numbers: Indices) -> _Pattern:
        is_null = tuple(column.null_count > 0 for column in keys.columns)
        values = [column for column, null in zip(keys.columns, is_null, strict=True) if not null]
        return cls(is_null, KeyLookup(comparable_table(values)) if values else None, numbers)

    def deleted(self, columns: pa.Table, sequence_number: int) -> Mask:
        mask = np.ones(len(columns), np.bool_)
        for column, null in zip(columns.columns, self.is_null, strict=True):
            if null:
                mask &= column.is_null().to_numpy()
        if self.lookup is None:
            return mask & bool(self.numbers[-1] > sequence_number)
        values = [column for column, null in zip(columns.columns, self.is_null, strict=True) if not null]
        rows, keys = self.lookup.find([one.chunk(0) for one in comparable_table(values).columns])
        found = np.zeros(len(columns), np.bool_)
        found[rows[self.numbers[keys] > sequence_number]] = True
        return mask & found


class _Keys:
    # The keys of some delete files, in memory.

    def __init__(self, metadata: TableMetadata, io: FileIO, deletes: Sequence[tuple[DataFile, int]]) -> None:
        # The columns have names of their own, as a column may have the name of one that was there before it.
        columns = [key_field(metadata, number) for number in sorted(deletes[0][0].equality_ids or ())]
        fields = [
            field.model_copy(update={"name": f"key{field.field_id}", "required": False})
            for field in columns
            if field is not None
        ]
        schema_id = max(schema.schema_id for schema in metadata.schemas) + 1
        self._metadata = with_schema(metadata, Schema(*fields, schema_id=schema_id))
        self._schema = arrow_schema(self._metadata.schema())
        read = [(batch, number) for file, number in deletes for batch in self._read(io, file)]
        keys = pa.Table.from_batches([batch for batch, _ in read], self._schema)
        numbers = np.concatenate([np.empty(0, np.int64), *(np.full(len(batch), number) for batch, number in read)])
        self._patterns = list(_patterns(keys, numbers))
        covers = {
            field.field_id: key_cover(keys.column(field.name))
            for field in fields
            if isinstance(field.field_type, (IntegerType, LongType)) and not keys.column(field.name).null_count
        }
        self._covers = {number: cover for number, cover in covers.items() if cover is not None}

    def _read(self, io: FileIO, file: DataFile) -> Iterator[pa.RecordBatch]:
        with opened_file(io, file) as opened:
            columns = IcebergReadColumns(self._metadata, file, opened.schema_arrow, self._schema)
            yield from map(columns.of, opened.iter_batches(KEY_ROWS, columns=columns.names))

    def rows(self, io: FileIO, file: DataFile, sequence_number: int) -> Indices:
        deleted = [np.empty(0, np.bool_)]
        for batch in self._read(io, file) if self._may_be_in(file) else ():
            columns = pa.Table.from_batches([batch])
            masks = [pattern.deleted(columns, sequence_number) for pattern in self._patterns]
            deleted.append(np.logical_or.reduce([np.zeros(len(batch), np.bool_), *masks]))
        return np.flatnonzero(np.concatenate(deleted))

    def _may_be_in(self, file: DataFile) -> bool:
        for number, ranges in self._covers.items():
            bounds = integer_bounds(file, number)
            if bounds is not None and not meeting(ranges, *(np.array([bound], np.int64) for bound in bounds)).any():
                return False
        return True


def _patterns(keys: pa.Table, numbers: Indices) -> Iterator[_Pattern]:
    nulls = np.zeros(len(keys), np.int64)
    for place, column in enumerate(keys.columns):
        nulls |= column.is_null().to_numpy().astype(np.int64) << place
    for kind in np.unique(nulls):
        own = np.flatnonzero(nulls == kind)
        yield _Pattern.of(keys.take(pa.array(own)), numbers[own])
