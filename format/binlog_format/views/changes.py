"""View `changes`, the default: one row for each changed row: `ChangesView`.

Without a table the images are JSON texts, and the rows of all tables come in one total order. With a table they are
typed structs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from binlog_format.errors import UnsupportedError
from binlog_format.rows.arrow_schema import arrow_schema
from binlog_format.rows.images import read_images
from binlog_format.views.columns import COMMIT_TIME_TYPE, POSITION_TYPE, Pairs, PlaceColumns, pair_images
from binlog_format.views.group_filter import GroupFilter
from binlog_format.views.image_json import (
    TableTexts,
    column_names,
    column_styles,
    image_rows,
    merged_texts,
    text_sizes,
)
from binlog_format.views.json_rows import JsonStyle
from binlog_format.views.selection import Selection, event_place
from binlog_format.views.table_filter import TableFilter
from binlog_format.views.typed import TypedTable, in_order

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from binlog_format.block import Block, Table
    from binlog_format.events.table_map import TableLayout
    from binlog_format.gtid import GtidPosition
    from binlog_format.rows.images import Images
    from binlog_format.rows.table_events import TableEvents

    Int64s = NDArray[np.int64]

TEXT_SIZE_MAX = 1 << 30
"""Bytes of a batch's texts before (or after) the changes; more are given in several batches."""

_ABSENT_TYPE = pa.list_(pa.string())
_OPS = pa.array(["insert", "update", "update", "delete"])  # by ImageKind of the first image


def changes_schema(image_type: pa.DataType) -> pa.Schema:
    """Schema of the view with images of that type."""
    return pa.schema(
        [
            ("position", POSITION_TYPE),
            ("event_no", pa.int32()),
            ("row_no", pa.int32()),
            ("gtid", pa.string()),
            ("commit_time", COMMIT_TIME_TYPE),
            ("server_id", pa.int64()),
            ("op", pa.string()),
            ("database", pa.string()),
            ("table", pa.string()),
            ("before", image_type),
            ("after", image_type),
            ("absent", _ABSENT_TYPE),
        ]
    )


@dataclass(frozen=True, slots=True)
class _TableChanges:
    # The changes of one table in one block.
    images: Images
    pairs: Pairs

    @property
    def events(self) -> Int64s:
        return self.images.table["event"][self.pairs.first].astype(np.int64)


class ChangesView:
    """Changed rows in total order: (position, event_no, row_no).

    Args:
        table: `database.table`: images are typed structs of its columns; None: images are JSON texts.
        tables: Which tables are wanted; default: all.
        skip: Changes up to here have been taken.
        until: Only changes that this position covers are wanted.
        layout: What *table* is expected to look like; default: as it is first met.
    """

    def __init__(
        self,
        *,
        table: str | None = None,
        tables: TableFilter | None = None,
        skip: GtidPosition | None = None,
        until: GtidPosition | None = None,
        layout: TableLayout | None = None,
    ) -> None:
        self._table = table
        self._tables = tables or TableFilter()
        self._groups = GroupFilter(skip, until)
        self._typed = TypedTable(layout)

    def schema(self, layout: TableLayout | None) -> pa.Schema:
        """Schema of the batches; *layout* of the one table, where there is one."""
        if self._table is None:
            return changes_schema(pa.string())
        assert layout is not None, "the columns of typed changes are the table's"
        return changes_schema(pa.struct(list(arrow_schema(layout))))

    def json_styles(self) -> dict[str, JsonStyle]:
        """How `json_lines` writes batches of this view."""
        images = (
            JsonStyle(ready=True) if self._typed.layout is None else JsonStyle(fields=column_styles(self._typed.layout))
        )
        return {"before": images, "after": images, "commit_time": JsonStyle(digits=0)}

    def batches(self, blocks: Iterable[Block]) -> Iterator[pa.RecordBatch]:
        """The changes in *blocks*, one batch (rarely more) for a block that has any.

        Raises:
            SchemaError: `NO_COLUMN_METADATA`; `SCHEMA_CHANGED`: the one table's columns are not the expected ones.
            UnsupportedError: `COLUMN_TYPE`, `XA_TRANSACTION`, `SAVEPOINT_ROLLBACK`.
        """
        selection = Selection(self._tables, self._groups, table=self._table)
        for block in blocks:
            selected = selection.of(block)
            if self._table is not None:
                for touched in selected:
                    self._typed.check(touched.layout)
            parts = [part for part in (_read(block, touched) for touched in selected) if len(part.pairs.first)]
            if parts and self._table is None:
                yield from _text_batches(block, parts)
            elif parts:
                yield in_order([_typed_batch(block, part) for part in parts], [part.events for part in parts])


def _read(block: Block, touched: TableEvents) -> _TableChanges:
    images = read_images(block.data, block.events, touched.events, touched.layout, extents=block.extents)
    return _TableChanges(images, pair_images(images))


def _text_batches(block: Block, parts: list[_TableChanges]) -> Iterator[pa.RecordBatch]:
    events = np.concatenate([part.events for part in parts])
    order = np.argsort(events, kind="stable")
    ranks = np.empty_like(order)
    ranks[order] = np.arange(len(order))
    counts = [len(part.pairs.first) for part in parts]
    tables = [
        TableTexts(image_rows(part.images), part.pairs, part_ranks)
        for part, part_ranks in zip(parts, np.split(ranks, np.cumsum(counts)[:-1]), strict=True)
    ]
    before_sizes, after_sizes = text_sizes(tables, len(order))
    if max(int(before_sizes.sum()), int(after_sizes.sum())) > TEXT_SIZE_MAX:
        del tables
        yield from _halved(block, parts, ranks)
        return
    before, after = merged_texts(tables, before_sizes, after_sizes)
    owners = pa.array(np.repeat(np.arange(len(parts)), counts)[order])
    yield _batch(
        block,
        events[order],
        np.concatenate([part.images.table[part.pairs.first] for part in parts])[order],
        {
            "database": pa.array([part.images.layout.database for part in parts]).take(owners),
            "table": pa.array([part.images.layout.table for part in parts]).take(owners),
            "before": before,
            "after": after,
            "absent": pa.concat_arrays([_absent(part) for part in parts]).take(pa.array(order)),
        },
    )


def _halved(block: Block, parts: list[_TableChanges], ranks: Int64s) -> Iterator[pa.RecordBatch]:
    # Huge values: an Arrow text column holds 2 GiB. The first half of the changes, then the second, and so on.
    if len(ranks) == 1:
        images = parts[0].images
        raise UnsupportedError(
            "ROW_IMAGE",
            f"table {images.layout.database}.{images.layout.table}: a row of more than {TEXT_SIZE_MAX} bytes as JSON",
            at=event_place(block, int(images.table["event"][0])),
            hint="Name the table (option table): its columns are then typed",
        )
    halves: tuple[list[_TableChanges], list[_TableChanges]] = ([], [])
    start = 0
    for part in parts:
        part_ranks = ranks[start : start + len(part.pairs.first)]
        start += len(part_ranks)
        owner = np.searchsorted(part.pairs.first, np.arange(len(part.images.table)), side="right") - 1
        late = (part_ranks >= len(ranks) // 2)[owner]
        for half, mask in zip(halves, (~late, late), strict=True):
            if mask.any():
                images = part.images.select(mask)
                half.append(_TableChanges(images, pair_images(images)))
    for half in halves:
        yield from _text_batches(block, half)


def _typed_batch(block: Block, part: _TableChanges) -> pa.RecordBatch:
    layout = part.images.layout
    count = len(part.pairs.first)
    columns = [part.images.column(index) for index in range(len(layout.columns))]
    fields = list(arrow_schema(layout))
    return _batch(
        block,
        part.events,
        part.images.table[part.pairs.first],
        {
            "database": pa.repeat(layout.database, count),
            "table": pa.repeat(layout.table, count),
            "before": _structs(columns, fields, part.pairs.before),
            "after": _structs(columns, fields, part.pairs.after),
            "absent": _absent(part),
        },
    )


def _structs(columns: list[pa.Array], fields: list[pa.Field], rows: Int64s) -> pa.Array:
    missing = rows < 0
    if missing.all():
        return pa.nulls(len(rows), pa.struct(fields))
    indices = pa.array(rows, mask=missing)
    taken = [column.take(indices) for column in columns]
    return pa.StructArray.from_arrays(taken, fields=fields, mask=pa.array(missing))


def _batch(block: Block, events: Int64s, first: Table, columns: dict[str, pa.Array]) -> pa.RecordBatch:
    # first: the first image of each change (`IMAGE_DTYPE`).
    places = PlaceColumns(block.events, block.groups, events)
    columns |= {
        "position": places.position(),
        "event_no": places.event_no(),
        "row_no": pa.array(first["row_no"]),
        "gtid": places.gtid(),
        "commit_time": places.commit_time(),
        "server_id": places.server_id(),
        "op": _OPS.take(pa.array(first["kind"])),
    }
    schema = changes_schema(columns["before"].type)
    return pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)


def _absent(part: _TableChanges) -> pa.Array:
    # Columns that the log does not carry in the image after the change (before a delete): what a consumer must leave
    # alone rather than set to null.
    count = len(part.pairs.first)
    if not part.images.has_absent():
        return pa.nulls(count, _ABSENT_TYPE)
    image = np.where(part.pairs.after >= 0, part.pairs.after, part.pairs.before)
    masks = [part.images.absent_mask(index)[image] for index in range(len(part.images.layout.columns))]
    changes, columns = np.nonzero(np.stack(masks, axis=1))
    offsets = np.searchsorted(changes, np.arange(count + 1)).astype(np.int32)
    names = pa.array(column_names(part.images.layout)).take(pa.array(columns))
    none = pa.array(offsets[1:] == offsets[:-1])
    return pa.ListArray.from_arrays(pa.array(offsets), names, mask=none)
