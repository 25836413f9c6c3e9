"""Data files of a table, read: `FileReader`; a format says how the columns of a file become those of the table.

A row's id is the first one of its file plus its place in the file, unless the file has a column with ids. So does the
version in which the row changed last: that of its file, or a column's value.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from binlog_streaming.lake.evolution import IDENTITY, NO_ID, with_identity
from binlog_streaming.lake.key_lookup import complement

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from contextlib import AbstractContextManager

    import pyarrow.parquet as pq

    from binlog_format.kernels import Indices

KEY_ROWS = 1 << 19
"""Rows whose keys are read at once."""

BATCH_ROWS = 1 << 16
"""Rows that are read at once."""

_IDS = pa.schema([IDENTITY.field(0)])
_VIEWS = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}

File = TypeVar("File")
Rows = TypeVar("Rows", pa.RecordBatch, pa.Table)


class ReadColumns(Protocol):
    """Columns of a file that are read for some of the table's."""

    @property
    def names(self) -> Sequence[str]:
        """Those in the file, at least one."""

    @property
    def are_there(self) -> bool:
        """True if the file has any of those that are wanted."""

    def of(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The wanted columns, of a batch with the columns `names`."""


class FileReader(ABC, Generic[File]):
    """Reads rows of data files; wanted columns are in the types that the table has, and null where a file lacks one."""

    @abstractmethod
    def opened(self, file: File) -> AbstractContextManager[pq.ParquetFile]:
        """The file, open."""

    @abstractmethod
    def read_columns(self, file: File, there: pa.Schema, wanted: pa.Schema) -> ReadColumns:
        """Columns to be read. *there*: all columns of the file."""

    @abstractmethod
    def marked(self, file: File) -> Indices:
        """Numbers of rows of a file that are marked as deleted, ascending."""

    @abstractmethod
    def row_count(self, file: File) -> int:
        """Rows of a file, marked ones included."""

    @abstractmethod
    def first_id(self, file: File) -> tuple[int, int | None] | None:
        """Id of a file's first row, and the version of the file; None: the next commit gives it ids."""

    def key_batches(self, file: File, schema: pa.Schema) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Read some columns of all rows: the number of a batch's first row, and the batch."""
        with self.opened(file) as opened:
            columns = self.read_columns(file, opened.schema_arrow, schema)
            first = 0
            for batch in opened.iter_batches(KEY_ROWS, columns=list(columns.names)):
                yield first, columns.of(batch)
                first += batch.num_rows

    def rows_at(self, file: File, rows: Indices, schema: pa.Schema) -> Iterator[tuple[Indices, pa.RecordBatch]]:
        """Read *rows* (numbers, ascending, none twice): places in *rows*, ascending, and the rows there."""
        with self.opened(file) as opened:
            columns = self.read_columns(file, opened.schema_arrow, schema)
            for places, batch in _batches_at(opened, rows, columns.names):
                yield places, columns.of(batch)

    def live_rows(
        self, file: File, schema: pa.Schema, gone: Indices | None = None, *, identified: bool = False
    ) -> Iterator[pa.RecordBatch]:
        """Rows of a file in their order.

        Args:
            gone: Numbers of all rows that are not in the table; None: those that are marked.
            identified: The columns of `IDENTITY` follow those of *schema*, of a table that keeps ids of rows. They are
                null where the next commit gives the row its id.
        """
        gone = self.marked(file) if gone is None else gone
        left, first = complement(self.row_count(file), gone), self.first_id(file)
        wanted = with_identity(schema) if identified else schema
        for places, batch in self.rows_at(file, left, wanted):
            if identified and first is not None:
                *values, ids, versions = batch.columns
                ids = pc.coalesce(ids, pa.array(first[0] + left[places]))
                versions = pc.coalesce(versions, pa.scalar(first[1], pa.int64()))
                yield pa.RecordBatch.from_arrays([*values, ids, versions], schema=wanted)
            else:
                yield batch

    def row_ids(self, file: File, rows: Indices) -> Indices:
        """Ids of *rows* (numbers, ascending, none twice), of a table that keeps them.

        Returns:
            `NO_ID`: the next commit gives the row its id.
        """
        first = self.first_id(file)
        ids = np.full(len(rows), NO_ID, np.int64) if first is None else first[0] + rows
        with self.opened(file) as opened:
            columns = self.read_columns(file, opened.schema_arrow, _IDS)
            for places, batch in _batches_at(opened, rows, columns.names) if columns.are_there else ():
                ids[places] = pc.coalesce(columns.of(batch).column(0), pa.array(ids[places])).to_numpy()
        return ids


def _batches_at(
    file: pq.ParquetFile, rows: Indices, columns: Sequence[str]
) -> Iterator[tuple[Indices, pa.RecordBatch]]:
    # Only groups with such rows are read.
    first = 0
    for group in range(file.num_row_groups):
        after = first + file.metadata.row_group(group).num_rows
        if np.searchsorted(rows, first) < np.searchsorted(rows, after):
            for batch in file.iter_batches(BATCH_ROWS, row_groups=[group], columns=list(columns)):
                low, high = np.searchsorted(rows, [first, first + batch.num_rows])
                if low < high:
                    plain = without_views(batch)
                    yield (
                        np.arange(low, high),
                        plain if high - low == batch.num_rows else plain.take(pa.array(rows[low:high] - first)),
                    )
                first += batch.num_rows
        first = after


def without_views(rows: Rows) -> Rows:
    """The same with plain texts and bytes where *rows* have views, also within columns with parts.

    Files of other writers may say so of texts and bytes; Arrow takes no rows out of such columns.
    """
    plain = pa.schema([field.with_type(_plain_type(field.type)) for field in rows.schema])
    return rows if plain.equals(rows.schema) else rows.cast(plain)


def _plain_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct([part.with_type(_plain_type(part.type)) for part in kind])
    if pa.types.is_map(kind):
        return pa.map_(*(part.with_type(_plain_type(part.type)) for part in (kind.key_field, kind.item_field)))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        make = pa.list_ if pa.types.is_list(kind) else pa.large_list
        return make(kind.value_field.with_type(_plain_type(kind.value_type)))
    return _VIEWS.get(kind, kind)
