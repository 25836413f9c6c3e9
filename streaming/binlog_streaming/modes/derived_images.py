"""Row images that no log has, at places in it: `derived_pieces`; `DerivedImages` take the place of `Images`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

import numpy as np
import pyarrow as pa

from binlog_format.rows.images import IMAGE_DTYPE, ImageKind
from binlog_streaming.lake.row_values import one_array
from binlog_streaming.modes.pieces import Piece

if TYPE_CHECKING:
    from collections.abc import Sequence, Set

    from numpy.typing import NDArray

    from binlog_format.block import Table
    from binlog_format.events.table_map import TableLayout
    from binlog_format.rows.images import Images
    from binlog_streaming.modes.cascades import RowChanges

    Indices = NDArray[np.int64]
    Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class DerivedImages:
    """What foreign keys did to rows, as images at the place of the change that they carried on.

    Attributes:
        table: `IMAGE_DTYPE`; event and row are those of that change.
        rows: The images, one row for each.
        unknown: Columns that images after updates lack: nobody knows what they hold.
    """

    table: Table
    rows: pa.Table
    unknown: Set[int] = frozenset()

    def column_of(self, column: int, rows: Indices, missing: Mask) -> pa.Array:
        """Values of a column in the images *rows*; null where *missing*."""
        return one_array(self.rows.column(column)).take(pa.array(rows, mask=missing | self.absent_mask(column)[rows]))

    def select(self, rows: Indices, /) -> DerivedImages:
        """Some of the images."""
        return replace(self, table=self.table[rows], rows=self.rows.take(pa.array(rows)))

    def has_absent(self) -> bool:
        """Whether a column is missing from a row image."""
        return bool(self.unknown) and bool((self.table["kind"] == ImageKind.UPDATE_AFTER).any())

    def absent_mask(self, column: int, /) -> Mask:
        """Which images lack a column."""
        if column not in self.unknown:
            return np.zeros(len(self.table), np.bool_)
        mask: Mask = self.table["kind"] == ImageKind.UPDATE_AFTER
        return mask


def derived_pieces(
    changes: RowChanges, sources: Sequence[Piece], layout: TableLayout, unknown: Set[int]
) -> list[tuple[int, Piece]]:
    """Images of *changes* at the places of the logged ones that they come from.

    Args:
        changes: By time; `origins` are numbers of images of all *sources*, taken one after the other.
        sources: What the log has.
        layout: Of the table that is changed.
        unknown: Columns of it that nobody knows after an update.

    Returns:
        Numbers of sources, and the images that come from there.
    """
    starts = np.cumsum([0, *(len(source.images.table) for source in sources)])
    owners = np.searchsorted(starts, changes.origins, side="right") - 1
    return [
        (number, _piece(changes.take(owners == number), int(starts[number]), sources[number], layout, unknown))
        for number in np.unique(owners).tolist()
    ]


def _piece(changes: RowChanges, start: int, source: Piece, layout: TableLayout, unknown: Set[int]) -> Piece:
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
    images = cast("Images", DerivedImages(table, rows, unknown))
    return Piece(images, source.events, source.groups, layout, source.gtid_sources, source.decoding)
