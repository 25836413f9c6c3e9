"""View `changes`, the default: one row for each changed row: `ChangesView`.

Without a table the images are JSON texts, and the rows of all tables come in one total order. With a table they are
typed structs.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from binlog_format.errors import UnsupportedError
from binlog_format.rows.arrow_arrays import joined_texts, numbers_array, repeated_text, strings_array, struct_array
from binlog_format.rows.columns import arrow_schema
from binlog_format.rows.decoding import DEFAULT_DECODING, Decoding
from binlog_format.rows.json.json_rows import JsonStyle
from binlog_format.views.change_extras import NO_EXTRAS, ChangeExtras, StatementRows
from binlog_format.views.columns import (
    COMMIT_TIME_TYPE,
    SURE_POSITION_TYPE,
    Pairs,
    PlaceColumns,
    bounded,
    pair_images,
    texts_of_rows,
)
from binlog_format.views.events import StatementTexts
from binlog_format.views.filters import ALL_GROUPS, GroupFilter, TableFilter
from binlog_format.views.row_images import (
    ABSENT_TYPE,
    TableTexts,
    TypedTable,
    absent_names,
    column_styles,
    image_rows,
    in_order,
    merged_texts,
    text_sizes,
)
from binlog_format.views.selection import Selection, event_place, touched_images

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from binlog_format.block import Block
    from binlog_format.events.table_map import TableLayout
    from binlog_format.kernels import Int32s, Int64s
    from binlog_format.rows.images import Images
    from binlog_format.rows.table_events import TableEvents

TEXT_SIZE_MAX = 1 << 30
"""Bytes of a batch's texts before (or after) the changes; more are given in several batches."""

_OPS = joined_texts(["insert", "update", "update", "delete"])  # by `ImageKind` of the first image


def changes_schema(image_type: pa.DataType, *, query: bool = False) -> pa.Schema:
    """Schema of the view with images of that type, and with the column `query` where it is asked for.

    Columns that are never null are marked so: Spark then does not look, value by value, which takes a fifth of the time
    that it needs for a row. (With *query* there may be rows of statements, which are about no table.)
    """
    return pa.schema(
        [
            pa.field("position", SURE_POSITION_TYPE, nullable=False),
            pa.field("event_no", pa.int32(), nullable=False),
            pa.field("row_no", pa.int32(), nullable=False),
            ("gtid", pa.string()),
            pa.field("commit_time", COMMIT_TIME_TYPE, nullable=False),
            pa.field("server_id", pa.int64(), nullable=False),
            pa.field("op", pa.string(), nullable=False),
            pa.field("database", pa.string(), nullable=query),
            pa.field("table", pa.string(), nullable=query),
            ("before", image_type),
            ("after", image_type),
            ("absent", ABSENT_TYPE),
            *([("query", pa.string())] if query else []),
        ]
    )


_TEXT_SCHEMA = changes_schema(pa.string())


class _TableChanges(NamedTuple):
    # The changes of one table in one block.
    images: Images
    pairs: Pairs


class ChangesView:
    """Changed rows in total order: (position, event_no, row_no).

    Args:
        table: `database.table`: images are typed structs of its columns; None: images are JSON texts.
    """

    def __init__(
        self,
        *,
        table: str | None = None,
        tables: TableFilter | None = None,
        decoding: Decoding = DEFAULT_DECODING,
        groups: GroupFilter = ALL_GROUPS,
        extras: ChangeExtras = NO_EXTRAS,
    ) -> None:
        self._table = table
        self._decoding = decoding
        self._tables = tables or TableFilter()
        self._groups = groups
        self._extras = extras
        self._typed = TypedTable(None, decoding)

    def schema(self, layout: TableLayout | None) -> pa.Schema:
        """Schema of the batches; *layout* of the one table, where there is one."""
        if self._table is None:
            return changes_schema(pa.string(), query=self._extras.query)
        assert layout is not None, "the columns of typed changes are the table's"
        return changes_schema(pa.struct(list(arrow_schema(layout, self._decoding))), query=self._extras.query)

    def json_styles(self) -> dict[str, JsonStyle]:
        """JSON styles for `json_lines` of this view."""
        layout = self._typed.layout
        images = JsonStyle(ready=True) if layout is None else JsonStyle(fields=column_styles(layout, self._decoding))
        return {"before": images, "after": images, "commit_time": JsonStyle(digits=0)}

    def batches(self, blocks: Iterable[Block]) -> Iterator[pa.RecordBatch]:
        """The changes in *blocks*, one batch (rarely more) for a block that has any.

        Raises:
            SchemaError: `NO_COLUMN_METADATA`; `SCHEMA_CHANGED`: the one table's columns are not the expected ones.
        """
        selection = Selection(
            self._tables, self._groups, table=self._table, event_types=self._extras.event_types, decoding=self._decoding
        )
        texts = StatementTexts() if self._extras.query and self._extras.tells_texts else None
        for block in blocks:
            said = None
            if self._extras.query:
                said = _no_texts(block) if texts is None else texts.of_rows(block)
            row_batches = self._row_batches(block, selection.of(block))
            if said is not None:
                row_batches = ((_with_query(batch, events, said), events) for batch, events in row_batches)
            statements = self._extras.statements_in(block, self._tables, self._groups, self._table)
            if statements is not None:
                keyed = list(row_batches)
                image_type = keyed[0][0].schema.field("before").type if keyed else self._image_type()
                if image_type is not None:
                    keyed.append(_statement_batch(block, statements, image_type))
                batches, keys = [batch for batch, _ in keyed], [events for _, events in keyed]
                if batches:
                    yield in_order(batches, keys)
            else:
                yield from (batch for batch, _ in row_batches)

    def _row_batches(self, block: Block, selected: list[TableEvents]) -> Iterator[tuple[pa.RecordBatch, Int64s]]:
        if self._table is not None:
            for touched in selected:
                self._typed.check(touched.layout, block.position_at(touched.events[0]))
        for images in bounded([touched_images(block, touched, self._decoding) for touched in selected]):
            changes = [_TableChanges(part, pair_images(part)) for part in images]
            parts = [part for part in changes if len(part.pairs)]
            if parts and self._table is None:
                yield from _text_batches(block, parts)
            elif parts:
                keys = [part.pairs.events for part in parts]
                together = keys[0] if len(keys) == 1 else np.sort(np.concatenate(keys))
                batches = [_typed_batch(block, part, self._typed_schema) for part in parts]
                yield in_order(batches, keys), together

    def _image_type(self) -> pa.DataType | None:
        if self._table is None:
            return pa.string()
        layout = self._typed.layout
        if layout is None:
            return self._extras.image_type
        return pa.struct(list(arrow_schema(layout, self._decoding)))

    @functools.cached_property
    def _typed_schema(self) -> pa.Schema:
        # Of every batch; a table that has been checked has the columns of the first one.
        return changes_schema(self._image_type())


def _text_batches(block: Block, parts: list[_TableChanges]) -> Iterator[tuple[pa.RecordBatch, Int64s]]:
    events = np.concatenate([part.pairs.events for part in parts])
    order = np.argsort(events, kind="stable")
    ranks = np.empty_like(order)
    ranks[order] = np.arange(len(order))
    counts = [len(part.pairs) for part in parts]
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
    owners = numbers_array(np.repeat(np.arange(len(parts)), counts)[order])
    batch = _batch(
        block,
        events[order],
        np.concatenate([part.pairs.row_nos for part in parts])[order],
        _TEXT_SCHEMA,
        {
            "op": texts_of_rows(*_OPS, np.concatenate([part.pairs.kinds for part in parts])[order]),
            "database": strings_array([part.images.layout.database for part in parts]).take(owners),
            "table": strings_array([part.images.layout.table for part in parts]).take(owners),
            "before": before,
            "after": after,
            "absent": _absent_of_all(parts, order),
        },
    )
    yield batch, events[order]


def _halved(block: Block, parts: list[_TableChanges], ranks: Int64s) -> Iterator[tuple[pa.RecordBatch, Int64s]]:
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
        part_ranks = ranks[start : start + len(part.pairs)]
        start += len(part_ranks)
        owner = np.searchsorted(part.pairs.first, np.arange(len(part.images.table)), side="right") - 1
        late = (part_ranks >= len(ranks) // 2)[owner]
        for half, mask in zip(halves, (~late, late), strict=True):
            if mask.any():
                images = part.images.select(mask)
                half.append(_TableChanges(images, pair_images(images)))
    for half in halves:
        yield from _text_batches(block, half)


def _typed_batch(block: Block, part: _TableChanges, schema: pa.Schema) -> pa.RecordBatch:
    layout = part.images.layout
    image_type = schema.field("before").type
    count = len(part.pairs)
    return _batch(
        block,
        part.pairs.events,
        part.pairs.row_nos,
        schema,
        {
            "op": texts_of_rows(*_OPS, part.pairs.kinds),
            "database": repeated_text(layout.database, count),
            "table": repeated_text(layout.table, count),
            "before": _structs(part.images, image_type, part.pairs.before),
            "after": _structs(part.images, image_type, part.pairs.after),
            "absent": _absent(part),
        },
    )


def _structs(images: Images, kind: pa.StructType, rows: Int64s) -> pa.Array:
    # Each image is decoded once, right at its final place; null for the row -1.
    missing = rows < 0
    if missing.all():
        return pa.nulls(len(rows), kind)
    columns = [images.column_of(index, rows, missing) for index in range(kind.num_fields)]
    return struct_array(kind, columns, ~missing)


def _with_query(batch: pa.RecordBatch, events: Int64s, said: tuple[Int32s, pa.Array]) -> pa.RecordBatch:
    codes, texts = said
    of_rows = codes[events]
    query = texts.take(pa.array(of_rows, mask=of_rows < 0))
    schema = changes_schema(batch.schema.field("before").type, query=True)
    return pa.RecordBatch.from_arrays([*batch.columns, query], schema=schema)


def _no_texts(block: Block) -> tuple[Int32s, pa.Array]:
    return np.full(len(block.events), -1, dtype=np.int32), pa.array([], pa.string())


def _statement_batch(block: Block, statements: StatementRows, image_type: pa.DataType) -> tuple[pa.RecordBatch, Int64s]:
    count = len(statements.events)
    columns = {
        "op": pa.array(statements.ops, pa.string()),
        "database": pa.array(statements.databases, pa.string()),
        "table": pa.array(statements.tables, pa.string()),
        "before": pa.nulls(count, image_type),
        "after": pa.nulls(count, image_type),
        "absent": pa.nulls(count, ABSENT_TYPE),
        "query": pa.array(statements.texts, pa.string()),
    }
    row_nos, schema = np.array(statements.row_nos, dtype=np.int32), changes_schema(image_type, query=True)
    return _batch(block, statements.events, row_nos, schema, columns), statements.events


def _batch(
    block: Block,
    events: Int64s,
    row_nos: Int32s,
    schema: pa.Schema,
    columns: dict[str, pa.Array],
) -> pa.RecordBatch:
    places = PlaceColumns(block.events, block.groups, events, block.gtid_sources)
    columns |= {
        "position": places.position(SURE_POSITION_TYPE),
        "event_no": places.event_no(),
        "row_no": numbers_array(row_nos),
        "gtid": places.gtid(),
        "commit_time": places.commit_time(),
        "server_id": places.server_id(),
    }
    return pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)


def _absent_of_all(parts: list[_TableChanges], order: Int64s) -> pa.Array:
    if not any(part.images.has_absent() for part in parts):
        return pa.nulls(len(order), ABSENT_TYPE)
    return pa.concat_arrays([_absent(part) for part in parts]).take(numbers_array(order))


def _absent(part: _TableChanges) -> pa.Array:
    # Columns that the log does not carry in the image after the change (before a delete): what a consumer must leave
    # alone rather than set to null.
    return absent_names(part.images, np.where(part.pairs.after >= 0, part.pairs.after, part.pairs.before))
