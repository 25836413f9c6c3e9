"""VIRTUAL columns whose logged values tell nothing: `with_absent_virtual_values` makes them absent.

`as_logged` states which ones that are, by the server; `without_mislogged` makes those absent of which only a definition
outside of the layout shows it.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from binlog_format.errors import UnsupportedError
from binlog_format.events.table_map_layout import ColumnType
from binlog_format.names import folded_name
from binlog_format.rows import row_event_kernels as codes
from binlog_format.rows.arrow_arrays import same_values
from binlog_format.rows.column_types import column_name
from binlog_format.rows.declared.completion import ColumnCompletion, LayoutCompletion
from binlog_format.rows.declared.declared_types import Generated
from binlog_format.vendor import Vendor

if TYPE_CHECKING:
    from binlog_format.block import Block
    from binlog_format.events.table_map import TableLayout
    from binlog_format.kernels import Int64s, Mask
    from binlog_format.rows.images import Images

BLOBS = frozenset(
    {
        ColumnType.BLOB,
        ColumnType.TINY_BLOB,
        ColumnType.MEDIUM_BLOB,
        ColumnType.LONG_BLOB,
        ColumnType.BLOB_COMPRESSED,
        ColumnType.GEOMETRY,
        ColumnType.JSON,
    }
)
"""Types of columns that a server keeps as BLOBs."""


_VIRTUAL: tuple[Generated, ...] = (
    *(Generated.VIRTUAL, Generated.VIRTUAL_OUTSIDE_INNODB),
    *(Generated.VIRTUAL_NUMBERED, Generated.VIRTUAL_INDEXED),
)


def mislogged_kind(vendor: Vendor) -> Generated:
    """Kind of VIRTUAL columns that servers of a vendor log with other values than the rows have."""
    return Generated.VIRTUAL_INDEXED if vendor is Vendor.MYSQL else Generated.VIRTUAL_NUMBERED


def as_logged(layout: TableLayout, block: Block, *, is_replicated: bool) -> TableLayout:
    """*layout*, with its VIRTUAL columns as the server that wrote *block* logs them."""
    if Generated.VIRTUAL not in layout.completion:  # also where it is outside of InnoDB
        return layout
    kinds, mislogged = _VIRTUAL, mislogged_kind(block.vendor)
    if not block.logs_virtual_values:
        kinds = (Generated.UNLOGGED, Generated.STALE, Generated.UNLOGGED, Generated.WITHOUT_VALUES)
    elif is_replicated:
        kinds = (Generated.REPLICATED,) * len(_VIRTUAL)
    elif mislogged not in layout.completion:
        return layout
    known = dict(zip(_VIRTUAL, kinds, strict=True))
    if block.logs_virtual_values:
        known[mislogged] = Generated.WITHOUT_VALUES if is_replicated else Generated.MISLOGGED
    return replace(layout, completion=_with_virtual_as(layout.completion, tuple(known.values())))


@lru_cache(256)
def _with_virtual_as(text: str, kinds: tuple[Generated, ...]) -> str:
    completion, known = LayoutCompletion.from_json(text), dict(zip(_VIRTUAL, kinds, strict=True))
    columns = [
        replace(column, generated=known.get(column.generated, column.generated)) if column.generated else column
        for column in completion.columns
    ]
    return replace(completion, columns=tuple(columns)).to_json()


def with_absent_virtual_values(images: Images) -> Images:
    """*images*, just read; their cells are changed."""
    for column, declared in _columns(images.layout.completion, len(images.slots)).items():
        cells = images.cells[images.slots[column]]
        nulls = cells == codes.NULL
        if declared.generated is Generated.UNLOGGED:
            cells[nulls] = codes.ABSENT
        elif declared.generated is Generated.STALE:
            cells[nulls | (images.table["kind"] != codes.INSERT_KIND)] = codes.ABSENT
        elif declared.generated is Generated.WITHOUT_VALUES:
            cells[:] = codes.ABSENT
        elif declared.generated is Generated.MISLOGGED:
            cells[images.table["kind"] == codes.INSERT_KIND] = codes.ABSENT
        else:
            left_out = _left_out_of_mysql if images.layout.vendor is Vendor.MYSQL else _left_out_of_mariadb
            cells[left_out(images, column, nulls, declared.sources)] = codes.ABSENT
    return images


def may_be_mislogged(layout: TableLayout) -> bool:
    """True if the server may log values that tell nothing in a column, by the table map."""
    if layout.vendor is Vendor.MYSQL:
        return any(column.type in BLOBS for column in layout.columns)
    return any(column.nullable for column in layout.columns) and not all(column.nullable for column in layout.columns)


def without_mislogged(images: Images, completion: str) -> Images:
    """*images* without what a server has logged with inserts in such columns. *completion*: of their table."""
    kind = mislogged_kind(images.layout.vendor)
    if kind not in completion:
        return images
    columns = LayoutCompletion.from_json(completion).columns
    names = {folded_name(column.name) for column in columns if column.generated is kind}
    cells, inserted = images.cells.copy(), images.table["kind"] == codes.INSERT_KIND
    for index, column in enumerate(images.layout.columns):
        if folded_name(column.name or "") in names:
            cells[images.slots[index], inserted] = codes.ABSENT
    return replace(images, cells=cells)


@lru_cache(256)
def _columns(completion: str, count: int) -> dict[int, ColumnCompletion]:
    kinds = (
        *(Generated.UNLOGGED, Generated.STALE, Generated.REPLICATED),
        *(Generated.MISLOGGED, Generated.WITHOUT_VALUES),
    )
    if not any(kind in completion for kind in kinds):
        return {}
    columns = LayoutCompletion.from_json(completion).columns[:count]
    return {index: column for index, column in enumerate(columns) if column.generated in kinds}


def _left_out_of_mysql(images: Images, column: int, nulls: Mask, sources: tuple[str, ...] | None) -> Mask:
    """Mask of the *nulls* that tell nothing: those of updates and deletes.

    The replica computes the column for the image after an update that changes what it is computed of.
    """
    kinds = images.table["kind"]
    left_out: Mask = nulls & ((kinds == codes.BEFORE_KIND) | (kinds == codes.DELETE_KIND))
    before = np.flatnonzero(nulls & (kinds == codes.BEFORE_KIND))
    before = before[nulls[before + 1]]
    if len(before):
        left_out[before + 1] = _has_same_sources(images, column, before, sources)
    return left_out


def _left_out_of_mariadb(images: Images, column: int, nulls: Mask, sources: tuple[str, ...] | None) -> Mask:
    """Mask of inserted NULLs, and of NULLs and unchanged values after an update that changes the *sources*.

    NULL after an update that does not change them becomes the value from before.

    All values of an event count if a value in it must come from the source: a statement logs a column for each of its
    rows, or for none.
    """
    kinds, events = images.table["kind"], images.table["event"]
    is_there = ~images.absent_mask(column)
    inserted = is_there & (kinds == codes.INSERT_KIND)
    before = np.flatnonzero(is_there & (kinds == codes.BEFORE_KIND))
    before = before[is_there[before + 1]]
    is_changed = ~_has_same_values(images, column, before) & ~nulls[before + 1]
    proved = np.isin(events, np.concatenate([events[inserted & ~nulls], events[before[is_changed]]]))
    left_out: Mask = inserted & nulls & ~proved
    doubtful = before[~is_changed & ~proved[before]]
    if len(doubtful):
        is_kept = _has_same_sources(images, column, doubtful, sources)
        left_out[doubtful + 1] = ~is_kept
        cells, kept = images.cells[images.slots[column]], doubtful[is_kept]
        cells[kept + 1] = cells[kept]
    return left_out


def _has_same_sources(images: Images, column: int, before: Int64s, sources: tuple[str, ...] | None) -> Mask:
    """Mask of the updates, by their images *before*, that change none of the *sources* of a column."""
    layout = images.layout
    by_name = {folded_name(column.name or ""): index for index, column in enumerate(layout.columns)}
    places = [None] if sources is None else [by_name.get(folded_name(name)) for name in sources]
    same = np.ones(len(before), dtype=np.bool_)
    for place in places:
        if place is None or images.absent_mask(place)[np.concatenate([before, before + 1])].any():
            raise UnsupportedError(
                "ROW_IMAGE",
                f"{column_name(layout, column)}: a VIRTUAL column, NULL or unchanged in an update from a replica, "
                "which logs this for other values too, and it is not known what the column is computed of",
                hint="Set binlog_row_image = FULL on the source of that replica, or leave the column out",
            )
        same &= _has_same_values(images, place, before)
    return same


def _has_same_values(images: Images, column: int, before: Int64s) -> Mask:
    """Mask of the updates, by their images *before*, that leave a column as it is."""
    is_missing = np.zeros(len(before), dtype=np.bool_)
    old, new = (images.column_of(column, rows, is_missing) for rows in (before, before + 1))
    return same_values(old, new)
