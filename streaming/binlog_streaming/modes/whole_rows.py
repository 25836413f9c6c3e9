"""Tables without a key: the whole row tells rows apart, and equal rows are counted: `whole_row_change`.

A delete takes one of the rows that are equal to its image, an insert adds one, an update does both. The target's rows
go by once, a batch at a time; what the step asks for is held.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from binlog_format.rows.arrow_arrays import numbers_array
from binlog_format.rows.images import ImageKind
from binlog_streaming.lake.row_values import comparable_table, row_ids
from binlog_streaming.modes.whole_images import WholeImages

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from binlog_streaming.modes.row_batches import StepImages

    Indices = NDArray[np.int64]


_GENERATED_HINT = (
    "Without a key, rows are told apart by all their columns: leave generated ones out (drop_columns, or "
    'generated = "drop"), or name keys for the table'
)


class MissingRowsError(Exception):
    """A target lacks rows that a step takes from it; whoever knows the table names it.

    Args:
        image: Number of the first image that takes such a row.
        count: How many rows are missing.
    """

    def __init__(self, image: int, count: int) -> None:
        super().__init__(f"{count} rows")
        self.image = image
        self.count = count


def whole_row_change(
    there: pa.RecordBatchReader, images: StepImages, schema: pa.Schema, *, finds_all: bool = False
) -> pa.RecordBatchReader:
    """All rows of the target after the step.

    Args:
        there: Its rows now. Its columns are those of the result: rows that come new are cast to their types, and are
            null in those that *schema* has not; such columns tell no rows apart.
        images: Of the step.
        schema: Columns of the table in the log; all are in *there*.
        finds_all: The target has all rows that the step takes from it; if not, what is given raises
            `MissingRowsError` after the rows that stay.

    Raises:
        UnsupportedError: `ROW_IMAGE`: columns are missing from the images.
    """
    kinds = images.kinds
    whole = WholeImages(images, schema, hint=_GENERATED_HINT)
    rows = _cast(whole.rows(np.arange(len(images), dtype=np.int64)), there.schema)
    values = comparable_table(rows.columns)
    ids, count = row_ids(values)
    signs = np.where(np.isin(kinds, (ImageKind.INSERT, ImageKind.UPDATE_AFTER)), 1, -1)
    order = images.in_log_order()
    taken, added = _counts(ids[order], signs[order], count)
    example = np.empty(count, dtype=np.int64)
    example[ids] = np.arange(len(ids))
    gone = np.flatnonzero(taken)
    takers = order[signs[order] < 0][::-1]
    first = np.zeros(count, dtype=np.int64)
    first[ids[takers]] = takers  # of several, the last one stays
    removal = _Removal(values.take(numbers_array(example[gone])), taken[gone], first[gone], finds_all)
    new = rows.take(numbers_array(np.repeat(example, added)))
    return pa.RecordBatchReader.from_batches(there.schema, _rows(there, removal, new, schema))


def _counts(ids: Indices, signs: Indices, count: int) -> tuple[Indices, Indices]:
    # For each distinct row how many are taken from those that are there (or all, where there are fewer), and how many
    # come in the end. Where targets may lack rows, a delete that finds no row is none: so where the count would fall
    # below zero it stays at zero, and what the step does to a count c is max(c, taken) - taken + added, however steps
    # are cut.
    if not count:
        return ids, ids
    order = np.argsort(ids, kind="stable")
    ids, signs = ids[order], signs[order]
    sums = np.cumsum(signs)
    starts = np.searchsorted(ids, np.arange(count))
    base = sums[starts] - signs[starts]
    lowest = np.minimum.reduceat(sums, starts) - base
    ends = np.append(starts[1:], len(ids)) - 1
    taken = np.maximum(-lowest, 0)
    return taken, sums[ends] - base + taken


@dataclass(slots=True)
class _Removal:
    # Distinct rows, in comparable columns, how many of each are still to be taken, by which image first; and whether
    # all must be found.
    values: pa.Table
    left: Indices
    first: Indices
    finds_all: bool

    def check(self) -> None:
        """Check the result after all rows of the target."""
        if self.finds_all and self.left.any():
            raise MissingRowsError(int(self.first[self.left > 0].min()), int(self.left.sum()))

    def kept(self, values: pa.Table) -> Indices | None:
        """Rows of the target that stay; None: all of them."""
        candidates = np.arange(values.num_rows, dtype=np.int64)
        for number, column in enumerate(self.values.columns):
            if not len(candidates):
                return None
            # Cheap, and most rows fall out by their first columns; what is left is compared as a whole.
            found = pc.is_in(values.column(number).take(numbers_array(candidates)), value_set=column.combine_chunks())
            candidates = candidates[found.to_numpy()]
        if not len(candidates):
            return None
        mine = len(self.left)
        ids, count = row_ids(pa.concat_tables([self.values, values.take(numbers_array(candidates))]))
        owner = np.full(count, -1, dtype=np.int64)
        owner[ids[:mine]] = np.arange(mine)
        owners = owner[ids[mine:]]
        candidates, owners = candidates[owners >= 0], owners[owners >= 0]
        order = np.argsort(owners, kind="stable")
        sorted_owners = owners[order]
        nth = np.arange(len(order)) - np.searchsorted(sorted_owners, sorted_owners)
        goes = order[nth < self.left[sorted_owners]]
        np.subtract.at(self.left, owners[goes], 1)
        stays = np.ones(values.num_rows, dtype=np.bool_)
        stays[candidates[goes]] = False
        return np.flatnonzero(stays)


def _rows(there: pa.RecordBatchReader, removal: _Removal, new: pa.Table, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for batch in there:
        kept = (
            removal.kept(comparable_table(batch.column(name) for name in schema.names)) if removal.left.any() else None
        )
        yield batch if kept is None else batch.take(numbers_array(kept))
    removal.check()
    columns = [
        new.column(field.name) if field.name in new.column_names else pa.nulls(new.num_rows, field.type)
        for field in there.schema
    ]
    yield from pa.Table.from_arrays(columns, schema=there.schema).to_batches()


def _cast(rows: pa.Table, there: pa.Schema) -> pa.Table:
    return rows.cast(pa.schema([there.field(field.name) for field in rows.schema]))
