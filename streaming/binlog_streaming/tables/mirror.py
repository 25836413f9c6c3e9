"""Mode `mirror`: what a batch leaves of each key (`reduce_images`), and how that goes into the target (`write_mirror`).

The last image of a key in the batch decides: after an insert or an update the row is there, after a delete it is not.
An update that changes the key is a delete of the old key (its before image) and an insert of the new one (its after
image), so nothing special is needed for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa

from binlog_format.errors import SchemaError, TableError, UnsupportedError
from binlog_format.rows.images import ImageKind
from binlog_streaming.tables.delta import DeltaTarget, Ticket, identifier

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from binlog_format.block import Table
    from binlog_format.events.table_map import TableLayout

    Indices = NDArray[np.int64]

RANGES_MAX = 16
"""Key ranges in a merge's condition: enough to tell hot rows from cold ones, few enough to cost nothing."""

DELETED = "deleted"


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
        if images.has_absent():
            raise _row_image(source_table)
        arrays = [images.column(index) for index in keys]
        for index, array in zip(keys, arrays, strict=True):
            if array.null_count:
                raise _null_key(source_table, schema.field(index).name, array.null_count)
        key_pieces.append(pa.Table.from_arrays(arrays, schema=key_schema))
    all_keys = pa.concat_tables(key_pieces) if key_pieces else key_schema.empty_table()
    last = last_of_each_key(all_keys, ranks)
    kinds = [images.table["kind"] for images in pieces]
    all_kinds = np.concatenate(kinds) if kinds else np.empty(0, np.uint8)
    stays = np.isin(all_kinds[last], (ImageKind.INSERT, ImageKind.UPDATE_AFTER))
    deleted = all_keys.take(pa.array(last[~stays])).rename_columns([schema.field(index).name for index in keys])
    return Reduced(_decode(pieces, kinds, last[stays], schema), deleted)


def _decode(pieces: Sequence[RowImages], kinds: Sequence[Table], rows: Indices, schema: pa.Schema) -> pa.Table:
    # *rows* count over all pieces.
    tables, start = [], 0
    for images, kind in zip(pieces, kinds, strict=True):
        low, high = np.searchsorted(rows, (start, start + len(kind)))
        chosen = images.select(rows[low:high] - start)
        arrays = [chosen.column(index) for index in range(len(schema))]
        tables.append(pa.Table.from_arrays(arrays, schema=schema))
        start += len(kind)
    return pa.concat_tables(tables) if tables else schema.empty_table()


def write_mirror(target: DeltaTarget, change: Reduced, keys: Sequence[str], ticket: Ticket) -> int:
    """Bring *change* into the target in one commit, or in none when there is nothing to change.

    Returns:
        Rows and keys brought to the target.
    """
    assert target.table is not None
    condition = merge_condition(target, change, keys)
    if condition is None:
        if change.rows.num_rows:
            target.append(change.rows.to_reader(), ticket)
        return int(change.rows.num_rows)
    rows, names = _merge_source(change)
    target.merge(rows, deleted=DELETED, on=_on(keys, names, condition), names=names, ticket=ticket)
    return int(rows.num_rows)


def merge_condition(target: DeltaTarget, change: Reduced, keys: Sequence[str]) -> str | None:
    """What a merge's condition says beside the equality of keys, so that files without a changed key stay untouched.

    Returns:
        Empty: any file may hold a changed key. None: none does, an append is enough.
    """
    condition = ""
    for key in keys:
        values = _integers(pa.concat_tables([change.rows.select([key]), change.deleted.select([key])]).column(key))
        if values is None:
            continue
        ranges = target.key_ranges(key)
        if ranges is None:
            continue
        least, greatest = (array.cast(pa.int64()).to_numpy(zero_copy_only=False) for array in ranges)
        starts, ends = cover(values, RANGES_MAX)
        # A range meets a file when the first range that ends at or behind the file's least value starts within it.
        first = np.searchsorted(ends, least)
        meets = (first < len(starts)) & (starts[np.minimum(first, len(starts) - 1)] <= greatest)
        if not meets.any():
            return None
        if not meets.all() and not condition:
            column = f"t.{identifier(key)}"
            parts = [f"{column} BETWEEN {low} AND {high}" for low, high in zip(starts, ends, strict=True)]
            condition = f" AND ({' OR '.join(parts)})"
    return condition


def cover(values: Indices, count_max: int) -> tuple[Indices, Indices]:
    """Up to *count_max* ranges that hold all *values* (ascending, not empty), cut where the gaps are widest.

    Returns:
        First and last value of each range, both inclusive, ascending.
    """
    # Unsigned, because a gap between two 64-bit integers does not fit into one.
    gaps = values[1:].view(np.uint64) - values[:-1].view(np.uint64)
    widest = np.sort(np.argsort(gaps, kind="stable")[::-1][: count_max - 1])
    widest = widest[gaps[widest] > 1]
    return values[np.concatenate([[0], widest + 1])], values[np.concatenate([widest, [len(values) - 1]])]


def _integers(column: pa.ChunkedArray) -> Indices | None:
    # Ascending; None for other types and for nothing at all.
    if not pa.types.is_integer(column.type) or len(column) == 0:
        return None
    return np.sort(column.cast(pa.int64()).to_numpy())


def _merge_source(change: Reduced) -> tuple[pa.Table, dict[str, str]]:
    # Columns get plain names, so that no name of the user's can collide or needs quoting on this side.
    schema = change.rows.schema
    names = {name: f"c{index}" for index, name in enumerate(schema.names)}
    gone = [
        change.deleted.column(field.name)
        if field.name in change.deleted.column_names
        else pa.nulls(change.deleted.num_rows, field.type)
        for field in schema
    ]
    tables = []
    for arrays, deleted in ((change.rows.columns, False), (gone, True)):
        table = pa.Table.from_arrays(list(arrays), names=list(names.values()))
        tables.append(table.append_column(DELETED, pa.array(np.full(table.num_rows, deleted))))
    return pa.concat_tables(tables), names


def _on(keys: Sequence[str], names: dict[str, str], condition: str) -> str:
    return " AND ".join(f"t.{identifier(key)} = s.{names[key]}" for key in keys) + condition


def _row_image(source_table: str) -> UnsupportedError:
    return UnsupportedError(
        "ROW_IMAGE",
        f"{source_table}: columns are missing from its row images; mode mirror needs whole rows",
        hint="Set binlog_row_image=FULL on the server, or use mode changelog for this table",
    )


def _null_key(source_table: str, column: str, count: int) -> TableError:
    return TableError(
        "NULL_KEY",
        f"{source_table}: key column {column} is null in {count} row images",
        hint="Name other keys for it in [[tables]]: columns that are never null",
    )
