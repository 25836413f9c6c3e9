"""Row images with all their columns: `WholeImages`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from binlog_format.errors import UnsupportedError
from binlog_format.rows.images import ImageKind
from binlog_streaming.modes.partial.absent_columns import WHOLE_IMAGES_HINT, with_default

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from binlog_streaming.modes.row_batches import StepImages

    Indices = NDArray[np.int64]
    Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class WholeImages:
    """The row images of a step, for modes that need all columns of them.

    A column that the image after an update leaves out is taken from the one before (`binlog_row_image=FULL_NODUP`), one
    that an insert leaves out is its default, where that is known.

    Attributes:
        images: Of the step.
        schema: Columns of the table.
    """

    images: StepImages
    schema: pa.Schema

    def rows(self, numbers: Indices) -> pa.Table:
        """Some of the images.

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
        sources, by_default, unknown = self._sources(column, numbers)
        if unknown.any():
            raise self._refusal(numbers)
        values = self.images.values(column, kind, sources)
        default = self.images.facts.defaults.get(self.schema.names[column])
        return values if default is None else with_default(values, by_default, default)

    def _sources(self, column: int, numbers: Indices) -> tuple[Indices, Mask, Mask]:
        # The images that have the column for some others; which of them leave it out for the default, which for good.
        name, kinds = self.schema.names[column], self.images.kinds
        absent = self.images.absent_mask(column)
        sources = numbers.copy()
        if name not in self.images.facts.computed:
            sources[absent[numbers] & (kinds[numbers] == ImageKind.UPDATE_AFTER)] -= 1
        lacking = absent[sources]
        has_default = name in self.images.facts.defaults
        by_default = lacking & (kinds[numbers] == ImageKind.INSERT) & has_default
        return sources, by_default, lacking & ~by_default

    def _refusal(self, numbers: Indices) -> UnsupportedError:
        masks = [self._sources(column, numbers)[2] for column in range(len(self.schema))]
        names = ", ".join(name for name, mask in zip(self.schema.names, masks, strict=True) if mask.any())
        count = int(np.count_nonzero(np.logical_or.reduce(masks)))
        return UnsupportedError(
            "ROW_IMAGE",
            f"{self.images.source_table}: {names}: missing from {count} row images; the log does not record what these "
            "columns hold, and this target needs whole rows",
            hint=WHOLE_IMAGES_HINT,
        )
