"""Row images with all their columns: `WholeImages`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from binlog_format.errors import UnsupportedError
from binlog_format.rows.images import ImageKind
from binlog_streaming.modes.partial.absent_columns import (
    GENERATED,
    GENERATED_HINT,
    UNCHANGED_IF_ABSENT,
    UNCLEAR,
    WHOLE_IMAGES_HINT,
)
from binlog_streaming.modes.partial.image_facts import NO_FACTS, AbsentKinds
from binlog_streaming.modes.partial.rows import generated_absent, kind_unknown
from binlog_streaming.modes.row_batches import NO_IMAGE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from binlog_streaming.modes.row_batches import StepImages

    Indices = NDArray[np.int64]
    Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class WholeImages:
    """The row images of a step, for modes that need all columns of them.

    A column that the image after an update leaves out is taken from the one before (`binlog_row_image=FULL_NODUP`),
    unless it is generated; one that an insert leaves out is its default, where that is known.

    Attributes:
        images: Of the step.
        schema: Columns of the table.
        computed_is_null: Generated columns that the images lack are null.
        hint: What the operator can do about generated columns that the images lack.
    """

    images: StepImages
    schema: pa.Schema
    computed_is_null: bool = False
    hint: str = GENERATED_HINT

    def rows(self, numbers: Indices) -> pa.Table:
        """Rows of the images *numbers*.

        Raises:
            UnsupportedError: `ROW_IMAGE`: one lacks a column.
        """
        arrays = [self.values(column, numbers) for column in range(len(self.schema))]
        return pa.Table.from_arrays(arrays, schema=self.schema)

    def values(self, column: int, numbers: Indices) -> pa.ChunkedArray:
        """A column of some of the images.

        Raises:
            UnsupportedError: `ROW_IMAGE`: one lacks the column.
        """
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
            hint=WHOLE_IMAGES_HINT,
        )

    def _told(self, masks: Mask) -> tuple[list[str], int]:
        names = [self.schema.names[column] for column in np.flatnonzero(masks.any(axis=0))]
        return names, int(np.count_nonzero(masks.any(axis=1)))
