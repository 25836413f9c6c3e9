"""VIRTUAL columns whose logged values tell nothing: `with_absent_virtual_values` makes them absent."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from binlog_format.errors import UnsupportedError
from binlog_format.rows import row_event_kernels as codes
from binlog_format.rows.arrow_arrays import same_values
from binlog_format.rows.column_types import column_name
from binlog_format.rows.declared.completion import ColumnCompletion, LayoutCompletion
from binlog_format.rows.declared.declared_types import Generated
from binlog_format.vendor import Vendor

if TYPE_CHECKING:
    from binlog_format.kernels import Int64s, Mask
    from binlog_format.rows.images import Images


def with_absent_virtual_values(images: Images) -> Images:
    """*images*, just read; their cells are changed.

    Raises:
        UnsupportedError: `ROW_IMAGE`: it is not known of what a column is computed, on which it depends whether its
            values tell anything.
    """
    for column, declared in _columns(images.layout.completion, len(images.slots)).items():
        cells = images.cells[images.slots[column]]
        nulls = cells == codes.NULL
        if declared.generated is Generated.UNLOGGED:
            cells[nulls] = codes.ABSENT
        elif images.layout.vendor is Vendor.MYSQL:
            cells[_untold_by_mysql(images, column, nulls, declared.sources)] = codes.ABSENT
        else:
            cells[_untold_by_mariadb(images, column, nulls, declared.sources)] = codes.ABSENT
    return images


@lru_cache(256)
def _columns(completion: str, count: int) -> dict[int, ColumnCompletion]:
    if Generated.UNLOGGED not in completion and Generated.REPLICATED not in completion:
        return {}
    columns = LayoutCompletion.from_json(completion).columns[:count]
    special = (Generated.UNLOGGED, Generated.REPLICATED)
    return {index: one for index, one in enumerate(columns) if one.generated in special}


def _untold_by_mysql(images: Images, column: int, nulls: Mask, sources: tuple[str, ...] | None) -> Mask:
    """Those of the *nulls* that tell nothing: of updates and deletes.

    The replica computes the column for the image after an update that changes what it is computed of.
    """
    kinds = images.table["kind"]
    untold: Mask = nulls & ((kinds == codes.BEFORE_KIND) | (kinds == codes.DELETE_KIND))
    before = np.flatnonzero(nulls & (kinds == codes.BEFORE_KIND))
    before = before[nulls[before + 1]]
    if len(before):
        untold[before + 1] = _has_same_sources(images, column, before, sources)
    return untold


def _untold_by_mariadb(images: Images, column: int, nulls: Mask, sources: tuple[str, ...] | None) -> Mask:
    """Inserted NULLs, and NULLs and unchanged values after an update that changes what the column is computed of.

    NULL after an update that does not change that becomes the value from before.

    All values of an event tell something if one does: a statement logs a column for each of its rows, or for none.
    """
    kinds = images.table["kind"]
    untold: Mask = nulls & (kinds == codes.INSERT_KIND)
    before = np.flatnonzero((kinds == codes.BEFORE_KIND) & ~images.absent_mask(column))
    before = before[~images.absent_mask(column)[before + 1]]
    told = np.flatnonzero(~nulls & ~images.absent_mask(column) & (kinds == codes.INSERT_KIND))
    if len(before):
        old, new = images.select(before), images.select(before + 1)
        is_same = same_values(old.column(column), new.column(column))
        told = np.concatenate([told, before[~is_same & ~nulls[before + 1]]])
        may_be_old = before[is_same | nulls[before + 1]]
        may_be_old = may_be_old[~np.isin(images.table["event"][may_be_old], images.table["event"][told])]
        if len(may_be_old):
            is_kept = _has_same_sources(images, column, may_be_old, sources)
            untold[may_be_old + 1] = ~is_kept
            cells, kept = images.cells[images.slots[column]], may_be_old[is_kept]
            cells[kept + 1] = cells[kept]
    return untold & ~np.isin(images.table["event"], images.table["event"][told])


def _has_same_sources(images: Images, column: int, before: Int64s, sources: tuple[str, ...] | None) -> Mask:
    """Mask of the updates, by their images *before*, that change none of the *sources* of a column."""
    layout = images.layout
    by_name = {(one.name or "").casefold(): index for index, one in enumerate(layout.columns)}
    places = [None] if sources is None else [by_name.get(name.casefold()) for name in sources]
    old, new = images.select(before), images.select(before + 1)
    same = np.ones(len(before), dtype=np.bool_)
    for place in places:
        if place is None or (old.absent_mask(place) | new.absent_mask(place)).any():
            raise UnsupportedError(
                "ROW_IMAGE",
                f"{column_name(layout, column)}: a VIRTUAL column, NULL or unchanged in an update from a replica, "
                "which logs this for other values too, and it is not known what the column is computed of",
                hint="Set binlog_row_image = FULL on the source of that replica, or leave the column out",
            )
        same &= same_values(old.column(place), new.column(place))
    return same
