"""Rows found by values of any of their columns: `Search` tells which ones, `found_rows` reads them of a table's files.

Of files that may hold such rows the columns that tell are read; of those that do hold some, what is wanted of the rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import pyarrow as pa

from binlog_format.rows.arrow_arrays import mask_array

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from binlog_streaming.lake.merge import TableFiles

    Mask = NDArray[np.bool_]

File = TypeVar("File")


@dataclass(frozen=True, slots=True)
class Search:
    """Search for rows of a table.

    Attributes:
        columns: Names of the columns that tell, as the table has them; at least one.
        matches: Which of some rows are wanted, given these columns of them.
        values: A wanted row has in each column of one of these tables a value that is there; numbers alone need be as
            they are in the table. None: any values.
        current: A column that is true in each wanted row; None: there is none.
    """

    columns: tuple[str, ...]
    matches: Callable[[pa.RecordBatch], Mask]
    values: tuple[pa.Table, ...] | None = None
    current: str | None = None


def filtered(rows: pa.RecordBatchReader, search: Search, names: Sequence[str]) -> pa.Table:
    """The columns *names* of the rows among *rows* that are wanted."""
    found = [batch.filter(mask_array(search.matches(batch))).select(list(names)) for batch in rows]
    return pa.Table.from_batches(found, pa.schema([rows.schema.field(name) for name in names]))


def found_rows(files: TableFiles[File], search: Search, names: Sequence[str]) -> pa.Table:
    """The columns *names* of the rows of a table that are wanted, in no order."""
    schema = pa.schema([files.schema.field(name) for name in names])
    return pa.Table.from_batches(
        [batch for file in _files_with(files, search) for batch in _found_in(files, file, search, schema)], schema
    )


def _files_with(files: TableFiles[File], search: Search) -> list[File]:
    found: dict[str, File] = {}
    for values in _parts(files, search):
        found |= {files.name_of(file): file for file in files.files_with(values, search.current)}
    return list(found.values())


def _parts(files: TableFiles[File], search: Search) -> Iterator[pa.Table]:
    if search.values is None:
        yield pa.schema([files.schema.field(search.columns[0])]).empty_table()
        return
    for values in search.values:
        schema = pa.schema([files.schema.field(name) for name in values.column_names])
        whole = values.drop_null().cast(schema)  # null is equal to nothing
        if len(whole):
            yield whole


def _found_in(files: TableFiles[File], file: File, search: Search, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    telling = pa.schema([files.schema.field(name) for name in search.columns])
    found = [first + np.flatnonzero(search.matches(batch)) for first, batch in files.key_batches(file, telling)]
    rows = np.setdiff1d(np.concatenate([np.empty(0, np.int64), *found]), files.marked(file), assume_unique=True)
    for _, batch in files.rows_at(file, rows, schema) if len(rows) else ():
        yield batch
