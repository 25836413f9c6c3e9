"""Row images whose values are Arrow columns: `DecodedImages`; `derived_row_batches` makes some that no log has."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, cast

import numpy as np
import pyarrow as pa

from binlog_format.rows.arrow_arrays import numbers_array
from binlog_format.rows.images import IMAGE_DTYPE, ImageKind
from binlog_streaming.lake.row_values import one_array
from binlog_streaming.modes.row_batches import RowBatch

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence, Set

    from binlog_format.block import Table
    from binlog_format.events.table_map import TableLayout
    from binlog_format.kernels import Indices, Mask
    from binlog_format.rows.images import Images
    from binlog_streaming.modes.cascades import RowChanges


@dataclass(frozen=True, slots=True)
class DecodedImages:
    """Images as `RowBatch.images`, whose values are not in the bytes of events any more, or never did.

    Attributes:
        table: `IMAGE_DTYPE`, one row for each image.
        rows: The same, with all columns.
        absent: Of columns that some images lack, which do.
    """

    table: Table
    rows: pa.Table
    absent: Mapping[int, Mask] = field(default_factory=dict)

    def column_of(self, column: int, rows: Indices, missing: Mask) -> pa.Array:
        """Values of a column in the images *rows*; null where *missing*."""
        if column in self.absent:
            missing = missing | self.absent[column][rows]
        wanted = pa.array(rows, pa.int64(), mask=missing) if missing.any() else numbers_array(rows)
        return one_array(self.rows.column(column)).take(wanted)

    def select(self, rows: Indices, /) -> DecodedImages:
        """The selected images."""
        absent = {column: mask[rows] for column, mask in self.absent.items()}
        return replace(self, table=self.table[rows], rows=self.rows.take(numbers_array(rows)), absent=absent)

    def has_absent(self) -> bool:
        """True if a column is missing from a row image."""
        return any(mask.any() for mask in self.absent.values())

    def has_changes(self) -> bool:
        """Values are whole, or absent."""
        return False

    def check_changes(self) -> None:
        """See `has_changes`."""

    def absent_mask(self, column: int, /) -> Mask:
        """Mask of the images that lack a column."""
        return self.absent.get(column, np.zeros(len(self.table), np.bool_))


def derived_row_batches(
    changes: RowChanges, sources: Sequence[RowBatch], layout: TableLayout, unknown: Set[int]
) -> list[tuple[int, RowBatch]]:
    """Images of *changes* at the places of the logged ones that they come from.

    Args:
        changes: By time; `origins` are numbers of images of all *sources*, taken one after the other.
        unknown: Columns of it that nobody knows after an update.

    Returns:
        Numbers of sources, and the images that come from there.
    """
    starts = np.cumsum([0, *(len(source.images.table) for source in sources)])
    owners = np.searchsorted(starts, changes.origins, side="right") - 1
    return [
        (number, _row_batch(changes.take(owners == number), int(starts[number]), sources[number], layout, unknown))
        for number in np.unique(owners).tolist()
    ]


def _row_batch(changes: RowChanges, start: int, source: RowBatch, layout: TableLayout, unknown: Set[int]) -> RowBatch:
    # Of a delete one image, of an update two.
    counts = np.where(changes.deletes, 1, 2)
    change = np.repeat(np.arange(len(changes)), counts)
    is_after = np.ones(len(change), dtype=np.bool_)
    is_after[np.cumsum(counts) - counts] = False
    origins = source.images.table[changes.origins - start][change]
    table = np.empty(len(change), dtype=IMAGE_DTYPE)
    table["event"], table["row_no"] = origins["event"], origins["row_no"]
    before = np.where(changes.deletes[change], ImageKind.DELETE, ImageKind.UPDATE_BEFORE)
    table["kind"] = np.where(is_after, ImageKind.UPDATE_AFTER, before)
    rows = pa.concat_tables([changes.before, changes.after]).take(pa.array(change + is_after * len(changes)))
    images = cast("Images", DecodedImages(table, rows, dict.fromkeys(unknown, is_after)))
    sources = source.gtid_sources
    return RowBatch(images, source.events, source.groups, layout, sources, source.decoding, is_derived=True)
