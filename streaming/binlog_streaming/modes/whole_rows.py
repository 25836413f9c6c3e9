"""Tables without a key: the whole row tells rows apart, and equal rows are counted: `whole_row_change`.

A delete takes one of the rows that are equal to its image, an insert adds one, an update does both. The target's rows
go by once, a batch at a time; what the step asks for is held.

Row images with all their columns: `WholeImages`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from binlog_format.errors import UnsupportedError
from binlog_format.rows.arrow_arrays import numbers_array
from binlog_format.rows.images import ImageKind
from binlog_streaming.lake.evolution import cast_table
from binlog_streaming.lake.row_values import comparable_table, row_ids
from binlog_streaming.modes.absent_columns import (
    GENERATED,
    GENERATED_HINT,
    NO_FACTS,
    UNCHANGED_IF_ABSENT,
    UNCLEAR,
    WHOLE_IMAGES_HINT,
    AbsentKinds,
)
from binlog_streaming.modes.partial_rows import generated_absent, kind_unknown
from binlog_streaming.modes.row_batches import NO_IMAGE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from binlog_format.kernels import Indices, Mask
    from binlog_streaming.modes.row_batches import StepImages


@dataclass(frozen=True)
class WholeImages:
    """The row images of a step, for modes that need all columns of them.

    A column that the image after an update leaves out is taken from the one before (`binlog_row_image=FULL_NODUP`),
    unless it is generated; one that an insert leaves out is its default, where that is known.

    Attributes:
        computed_is_null: Generated columns that the images lack are null.
        hint: What the operator can do about generated columns that the images lack.
    """

    images: StepImages
    schema: pa.Schema
    computed_is_null: bool = False
    hint: str = GENERATED_HINT

    def rows(self, numbers: Indices) -> pa.Table:
        """Rows of the images *numbers*."""
        arrays = [self.values(column, numbers) for column in range(len(self.schema))]
        return pa.Table.from_arrays(arrays, schema=self.schema)

    def values(self, column: int, numbers: Indices) -> pa.ChunkedArray:
        """A column of some of the images."""
        kind = self.schema.field(column).type
        if not self.images.has_absent:
            return self.images.values(column, kind, numbers)
        sources, facts, unknown = self._sources(column, numbers)
        if unknown.any():
            raise self._refusal(numbers)
        values = self.images.values(column, kind, sources)
        return self.images.facts.with_defaults(self.schema.names[column], values, facts)

    def _sources(self, column: int, numbers: Indices) -> tuple[Indices, Indices, Mask]:
        # The images that have the column for some others; the facts that have the default of those that leave it out
        # for that; and which leave it out for good.
        name, kinds = self.schema.names[column], self.images.kinds[numbers]
        absent, absent_kinds = self.images.absent_mask(column), self._absent_kinds.of(column)[numbers]
        sources = numbers.copy()
        is_after = kinds == ImageKind.UPDATE_AFTER
        sources[absent[numbers] & is_after & (absent_kinds == UNCHANGED_IF_ABSENT)] -= 1
        lacking = absent[sources]
        if self.computed_is_null:
            is_computed = lacking & (absent_kinds == GENERATED)
            sources[is_computed] = NO_IMAGE
            lacking &= ~is_computed
        by_default = lacking & (kinds == ImageKind.INSERT) & self.images.facts.has_default(name)[numbers]
        return sources, np.where(by_default, self.images.facts.numbers[numbers], NO_FACTS), lacking & ~by_default

    @cached_property
    def _absent_kinds(self) -> AbsentKinds:
        return AbsentKinds(self.images, self.schema)

    def _refusal(self, numbers: Indices) -> UnsupportedError:
        columns = range(len(self.schema))
        masks = np.stack([self._sources(column, numbers)[2] for column in columns], axis=1)
        kinds = np.stack([self._absent_kinds.of(column)[numbers] for column in columns], axis=1)
        # Where the image before has the column, its kind alone is not known.
        is_after = self.images.kinds[numbers] == ImageKind.UPDATE_AFTER
        before = np.stack([self.images.absent_mask(column)[numbers - is_after] for column in columns], axis=1)
        computed, unclear = masks & (kinds == GENERATED), masks & (kinds == UNCLEAR) & ~before
        source_table = self.images.source_table
        if (masks == computed).all():
            return generated_absent(source_table, *self._told(computed), hint=self.hint)
        if (masks == (computed | unclear)).all():
            return kind_unknown(source_table, *self._told(unclear))
        names, count = self._told(masks)
        return UnsupportedError(
            "ROW_IMAGE",
            f"{source_table}: {', '.join(names)}: missing from {count} row images; the log does not record what these "
            "columns hold, and this target needs whole rows",
            hint=f"{WHOLE_IMAGES_HINT}, or mode mirror if it has a key",
        )

    def _told(self, masks: Mask) -> tuple[list[str], int]:
        names = [self.schema.names[column] for column in np.flatnonzero(masks.any(axis=0))]
        return names, int(np.count_nonzero(masks.any(axis=1)))


_GENERATED_HINT = (
    "Without a key, rows are told apart by all their columns: leave generated ones out (drop_columns, or "
    'generated = "drop"), or name keys for the table'
)


class MissingRowsError(Exception):
    """A target lacks rows that a step takes from it; whoever knows the table names it.

    Args:
        image: Number of the first image that takes such a row.
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
        schema: Columns of the table in the log; all are in *there*.
        finds_all: The target has all rows that the step takes from it; if not, what is given raises
            `MissingRowsError` after the rows that stay.
    """
    kinds = images.kinds
    whole = WholeImages(images, schema, hint=_GENERATED_HINT)
    columns = pa.schema([there.schema.field(name) for name in schema.names])
    rows = cast_table(whole.rows(np.arange(len(images), dtype=np.int64)), columns)
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
