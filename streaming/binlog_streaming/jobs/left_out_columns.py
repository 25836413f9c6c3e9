"""Columns that row images leave out: `left_out_columns(images, layout, definition)`."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from binlog_connector.schema.expressions.computed_images import completed_images, plain_sources
from binlog_format.names import folded_name, folded_names
from binlog_format.rows.declared.declared_types import DefaultKind
from binlog_format.rows.images import ImageKind
from binlog_format.vendor import Vendor

if TYPE_CHECKING:
    from collections.abc import Set

    from binlog_connector.schema.definitions import ColumnDefinition, TableDefinition
    from binlog_format.events.table_map import TableLayout
    from binlog_format.kernels import Mask
    from binlog_format.rows.images import Images


class LeftOutColumns(NamedTuple):
    """Columns that images leave out.

    Attributes:
        unknown: Names of those whose values are not known, see `modes.absent_columns`.
        generated: Those among them that are known to be generated.
        any: Whether images leave any column out.
    """

    unknown: tuple[str, ...]
    generated: tuple[str, ...]
    any: bool


def left_out_columns(images: Images, layout: TableLayout, definition: TableDefinition | None) -> LeftOutColumns:
    """Find the columns that *images* leave out.

    Args:
        layout: Of their table map.
        definition: Of the table, with as many columns; None: not known.
    """
    columns = None if definition is None else definition.columns
    completion = "" if definition is None or columns is None else definition.completion().to_json()
    images = completed_images(images, completion) if completion else images
    sources = plain_sources(completion, layout.vendor)
    found: dict[int, None] = {}
    is_partial = False
    for is_inserted in (True, False):
        chosen = images.table["kind"] == (ImageKind.INSERT if is_inserted else ImageKind.UPDATE_AFTER)
        for index in range(len(images.layout.columns)):
            lacking = images.absent_mask(index) & chosen
            if not lacking.any():
                continue
            is_partial = True
            column = None if columns is None else columns[index]
            if not is_inserted and column is not None and column.name in sources:
                lacking &= ~_lacking_all(images, folded_names(sources[column.name]))
            if lacking.any() and not _is_known(layout, column, index, is_inserted=is_inserted):
                found[index] = None
    names = {index: str(images.layout.columns[index].name) for index in found}
    generated = (names[index] for index in found if columns is not None and columns[index].generated is not None)
    return LeftOutColumns(tuple(names.values()), tuple(generated), is_partial)


def _lacking_all(images: Images, names: Set[str]) -> Mask:
    """Mask of the images that lack all columns of *names*, in small letters."""
    lacking = np.full(len(images), bool(names))
    for index, column in enumerate(images.layout.columns):
        if folded_name(str(column.name)) in names:
            lacking &= images.absent_mask(index)
    return lacking


def _is_known(layout: TableLayout, column: ColumnDefinition | None, index: int, *, is_inserted: bool) -> bool:
    # A row holds in a column that it leaves out its default after an INSERT, after an UPDATE what was there.
    if not is_inserted and layout.vendor is Vendor.MYSQL:
        return True
    if column is None:
        return not is_inserted and not layout.columns[index].nullable
    if column.generated is not None:
        return False
    return not is_inserted or column.default is None or column.default.kind is not DefaultKind.UNKNOWN
