"""Mode `mirror`: what a batch leaves of each key (`reduce_images`); a sink brings that into its target.

The last image of a key in the batch decides: after an insert or an update the row is there, after a delete it is not.
An update that changes the key is a delete of the old key (its before image) and an insert of the new one (its after
image), so nothing special is needed for it.

Images may lack columns (`binlog_row_image=MINIMAL`, `NOBLOB`) as long as the deciding ones of kept rows do not: what a
column that is left out holds is not in the log. It may be the value before, but not where the column is VIRTUAL, and
after an INSERT it is the column's default; the log names neither VIRTUAL columns nor defaults.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa

from binlog_format.errors import SchemaError, TableError, UnsupportedError
from binlog_format.rows.images import ImageKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from binlog_format.block import Table
    from binlog_format.events.table_map import TableLayout

    Indices = NDArray[np.int64]


class RowImages(Protocol):
    """What is needed of `binlog_format.rows.images.Images`: row images of one table in log order."""

    @property
    def table(self) -> Table:
        """`IMAGE_DTYPE`, one row for each image."""

    def column(self, index: int, /) -> pa.Array:
        """Values of a column."""

    def select(self, rows: Indices, /) -> RowImages:
        """Some of the images."""

    def has_absent(self) -> bool:
        """Whether a column is missing from a row image."""

    def absent_mask(self, column: int, /) -> NDArray[np.bool_]:
        """Which images lack a column."""


@dataclass(frozen=True, slots=True)
class Reduced:
    """What a batch leaves.

    Attributes:
        rows: Rows that are there after the batch, all columns under their own names; one for a key.
        deleted: Keys that are not there after the batch, key columns only; one row for a key.
    """

    rows: pa.Table
    deleted: pa.Table


def key_columns(layout: TableLayout, keys: Sequence[str]) -> tuple[int, ...]:
    """Indices of the key columns: *keys* when given, else the primary key that the log knows.

    Raises:
        SchemaError: `NO_PRIMARY_KEY`: neither is there, or *keys* names a column that is not.
    """
    name = f"{layout.database}.{layout.table}"
    if not keys:
        if layout.primary_key:
            return layout.primary_key
        raise SchemaError(
            "NO_PRIMARY_KEY",
            f"{name}: the log names no primary key for it, and mode mirror needs one",
            hint="Name columns that tell rows apart (keys in [[tables]]), or use mode changelog for this table; the "
            "server writes primary keys into the log with binlog_row_metadata=FULL",
        )
    columns = [column.name for column in layout.columns]
    missing = [key for key in keys if key not in columns]
    if missing:
        raise SchemaError(
            "NO_PRIMARY_KEY",
            f"{name}: tables.keys names {', '.join(missing)}, which it has not",
            hint=f"Its columns are {', '.join(str(column) for column in columns)}",
        )
    return tuple(columns.index(key) for key in keys)


def last_of_each_key(keys: pa.Table, ranks: Indices | None = None) -> Indices:
    """Rows of *keys*, ascending, behind which the same key does not come again.

    Args:
        keys: Key columns.
        ranks: A permutation: the place of each row in the order that counts; None: as the rows stand.
    """
    order = np.arange(keys.num_rows, dtype=np.int64) if ranks is None else ranks
    ranked = keys.append_column("rank", pa.array(order))
    last = ranked.group_by(keys.column_names).aggregate([("rank", "max")]).column("rank_max").to_numpy()
    if ranks is not None:
        rows = np.empty(len(ranks), dtype=np.int64)
        rows[ranks] = np.arange(len(ranks))
        last = rows[last]
    return np.sort(last)


def reduce_images(
    pieces: Sequence[RowImages],
    schema: pa.Schema,
    keys: Sequence[int],
    source_table: str,
    *,
    ranks: Indices | None = None,
) -> Reduced:
    """Keep of each key what the batch leaves of it; only surviving rows are decoded in full.

    Args:
        pieces: Images of the batch, all with the same columns.
        schema: Columns of the table.
        ranks: Place in the log of each image of all pieces; None when they are in log order.
        keys: Indices of the key columns.
        source_table: For messages.

    Raises:
        UnsupportedError: `ROW_IMAGE`: columns are missing from the images.
        TableError: `NULL_KEY`.
    """
    key_schema = pa.schema([pa.field(f"k{number}", schema.field(index).type) for number, index in enumerate(keys)])
    key_pieces = []
    for images in pieces:
        arrays = []
        for index in keys:
            array = _key_values(images, index, f"{source_table}: key column {schema.field(index).name}")
            if array.null_count:
                raise _null_key(source_table, schema.field(index).name, array.null_count)
            arrays.append(array)
        key_pieces.append(pa.Table.from_arrays(arrays, schema=key_schema))
    all_keys = pa.concat_tables(key_pieces) if key_pieces else key_schema.empty_table()
    last = last_of_each_key(all_keys, ranks)
    kinds = [images.table["kind"] for images in pieces]
    all_kinds = np.concatenate(kinds) if kinds else np.empty(0, np.uint8)
    stays = np.isin(all_kinds[last], (ImageKind.INSERT, ImageKind.UPDATE_AFTER))
    deleted = all_keys.take(pa.array(last[~stays])).rename_columns([schema.field(index).name for index in keys])
    return Reduced(_decode(pieces, kinds, last[stays], schema, source_table), deleted)


def _key_values(images: RowImages, index: int, what: str) -> pa.Array:
    # An image after an update may leave the key out: then it is that of the image before, which stands beside it.
    array = images.column(index)
    if not images.has_absent():
        return array
    absent = images.absent_mask(index)
    kinds = images.table["kind"]
    rows = np.arange(len(kinds), dtype=np.int64)
    rows[absent & (kinds == ImageKind.UPDATE_AFTER)] -= 1
    missing = absent[rows]
    if missing.any():
        raise UnsupportedError(
            "ROW_IMAGE",
            f"{what} is missing from {int(missing.sum())} row images (the first is of kind "
            f"{ImageKind(kinds[int(np.argmax(missing))]).name}): the log does not say which rows were changed",
            hint=_WHOLE_IMAGES_HINT,
        )
    return array.take(pa.array(rows))


def _decode(
    pieces: Sequence[RowImages], kinds: Sequence[Table], rows: Indices, schema: pa.Schema, source_table: str
) -> pa.Table:
    # *rows* count over all pieces.
    tables, start = [], 0
    for images, kind in zip(pieces, kinds, strict=True):
        low, high = np.searchsorted(rows, (start, start + len(kind)))
        chosen = images.select(rows[low:high] - start)
        if chosen.has_absent():
            raise _row_image(source_table, chosen, schema)
        arrays = [chosen.column(index) for index in range(len(schema))]
        tables.append(pa.Table.from_arrays(arrays, schema=schema))
        start += len(kind)
    return pa.concat_tables(tables) if tables else schema.empty_table()


_WHOLE_IMAGES_HINT = "Set binlog_row_image=FULL on the server, or use mode changelog for this table"


def _row_image(source_table: str, images: RowImages, schema: pa.Schema) -> UnsupportedError:
    masks = [images.absent_mask(index) for index in range(len(schema))]
    names = ", ".join(schema.names[index] for index, mask in enumerate(masks) if mask.any())
    lacking = np.logical_or.reduce(masks)
    inserts = int(np.count_nonzero(images.table["kind"][lacking] == ImageKind.INSERT))
    updates = int(np.count_nonzero(lacking)) - inserts
    return UnsupportedError(
        "ROW_IMAGE",
        f"{source_table}: {names}: missing from the row images of {inserts} inserts and {updates} updates; the log "
        "does not say what these columns hold now",
        hint=_WHOLE_IMAGES_HINT,
    )


def _null_key(source_table: str, column: str, count: int) -> TableError:
    return TableError(
        "NULL_KEY",
        f"{source_table}: key column {column} is null in {count} row images",
        hint="Name other keys for it in [[tables]]: columns that are never null",
    )
