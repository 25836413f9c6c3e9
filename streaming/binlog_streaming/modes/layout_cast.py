"""Rows whose layouts differ without a statement that explains it, brought to the same columns: `cast_layouts`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

import numpy as np
import pyarrow as pa

from binlog_format.names import folded_name
from binlog_format.rows.columns import arrow_schema
from binlog_streaming.lake.evolution import common_schema

if TYPE_CHECKING:
    from collections.abc import Sequence

    from binlog_format.block import Table
    from binlog_format.kernels import Indices, Mask
    from binlog_format.rows.decoding import Decoding
    from binlog_format.rows.images import Images
    from binlog_streaming.modes.row_batches import RowBatch


@dataclass(frozen=True, slots=True)
class CastImages:
    """Images under the columns of another schema: those that they never had are null in them, not absent.

    Attributes:
        sources: Of each column its index in *images*; None: they do not have it.
    """

    images: Images
    schema: pa.Schema
    sources: tuple[int | None, ...]

    @property
    def table(self) -> Table:
        """`IMAGE_DTYPE`, one row for each image."""
        return self.images.table

    def column_of(self, column: int, rows: Indices, missing: Mask) -> pa.Array:
        """Values of a column in the images *rows*; null where *missing*."""
        kind, source = self.schema.field(column).type, self.sources[column]
        if source is None:
            return pa.nulls(len(rows), kind)
        values = self.images.column_of(source, rows, missing)
        return values if values.type.equals(kind) else values.cast(kind)

    def select(self, rows: Indices, /) -> CastImages:
        """The selected images."""
        return replace(self, images=self.images.select(rows))

    def has_absent(self) -> bool:
        """True if a column is missing from a row image."""
        return self.images.has_absent()

    def has_changes(self) -> bool:
        """See `Images.has_changes`."""
        return self.images.has_changes()

    def json_changes(self, column: int) -> dict[int, bytes]:
        """See `Images.json_changes`."""
        source = self.sources[column]
        return {} if source is None else self.images.json_changes(source)

    def check_changes(self) -> None:
        """See `Images.check_changes`."""
        self.images.check_changes()

    def absent_mask(self, column: int, /) -> Mask:
        """Mask of the images that lack a column."""
        source = self.sources[column]
        return np.zeros(len(self.table), np.bool_) if source is None else self.images.absent_mask(source)


def has_column(images: Images, column: int) -> Mask:
    """Mask of the *images* that have a column: they do not lack it, and are not older than it."""
    if isinstance(images, CastImages) and images.sources[column] is None:
        return np.zeros(len(images.table), np.bool_)
    return ~images.absent_mask(column)


def has_columns(images: Images) -> bool:
    """True if *images* are not older than any of their columns."""
    return not (isinstance(images, CastImages) and None in images.sources)


def cast_layouts(
    source_table: str, row_batches: Sequence[RowBatch], decoding: Decoding, columns: pa.Schema | None = None
) -> tuple[pa.Schema, list[RowBatch]]:
    """The columns of all *row_batches*, and the row batches with these columns.

    Args:
        source_table: `database.table`.
        row_batches: At least one.
        columns: Those that *row_batches* have together with others; None: there are no others.
    """
    schemas = {_look(row_batch): arrow_schema(row_batch.layout, decoding) for row_batch in row_batches}
    common = common_schema(list(schemas.values()), source_table) if columns is None else columns
    return common, [_cast_layout(row_batch, schemas[_look(row_batch)], common) for row_batch in row_batches]


def _cast_layout(row_batch: RowBatch, schema: pa.Schema, common: pa.Schema) -> RowBatch:
    if schema.equals(common):
        return row_batch
    places = {folded_name(name): index for index, name in enumerate(schema.names)}
    images = CastImages(row_batch.images, common, tuple(places.get(folded_name(name)) for name in common.names))
    return replace(row_batch, images=cast("Images", images))


def _look(row_batch: RowBatch) -> tuple[str, str]:
    return row_batch.layout.digest, row_batch.layout.completion
