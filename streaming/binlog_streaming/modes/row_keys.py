"""Keys of row images: `key_columns` finds these columns, `KeyTable` holds their values; `null_key` is the error.

Expected rows of a target before images: `expected_rows`; images that find no such row after an earlier one: `refuted`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from binlog_format.errors import SchemaError, TableError, UnsupportedError
from binlog_format.events.table_map_layout import ColumnType
from binlog_format.messages import row_value
from binlog_format.rows.arrow_arrays import numbers_array
from binlog_format.rows.images import ImageKind, Images
from binlog_format.rows.values.temporal import first_zero_date
from binlog_streaming.lake.change import Expected, needs_row
from binlog_streaming.lake.key_lookup import KeyRuns, integers
from binlog_streaming.lake.row_values import row_ids
from binlog_streaming.modes.absent_columns import NO_FACTS, UNCHANGED_IF_ABSENT, WHOLE_IMAGES_HINT, AbsentKinds
from binlog_streaming.modes.layout_cast import CastImages

if TYPE_CHECKING:
    from collections.abc import Sequence

    from binlog_format.events.table_map import TableLayout
    from binlog_format.kernels import Bytes, Indices, Mask
    from binlog_streaming.modes.row_batches import RowBatch, StepImages


_WITHOUT_ORDER = frozenset({ColumnType.GEOMETRY, ColumnType.VECTOR})


def key_columns(layout: TableLayout, keys: Sequence[str]) -> tuple[int, ...]:
    """Indices of the key columns: *keys* when given, else the primary key that the log knows.

    Raises:
        SchemaError: `NO_PRIMARY_KEY`: there is none, it has other columns than the table, or a geometry or vector.
    """
    found = _key_columns(layout, keys)
    for column in (layout.columns[index] for index in found):
        if column.type in _WITHOUT_ORDER:
            raise SchemaError(
                "NO_PRIMARY_KEY",
                f"{layout.full_name}: key column {column.name} is a {column.type.name.lower()}, by which targets tell "
                "no rows apart",
                hint="Name other columns that do (keys in [[tables]]), or use mode changelog for this table",
            )
    return found


def _key_columns(layout: TableLayout, keys: Sequence[str]) -> tuple[int, ...]:
    name = layout.full_name
    if not keys:
        if layout.primary_key:
            return layout.primary_key
        raise SchemaError(
            "NO_PRIMARY_KEY",
            f"{name}: the log names no primary key for it, and its mode in the job needs one",
            hint="Name columns that tell rows apart (keys in [[tables]]), or use mode mirror without marks, or "
            "changelog, for this table; the server writes primary keys into the log with binlog_row_metadata=FULL",
        )
    columns = [column.name for column in layout.columns]
    missing = [key for key in keys if key not in columns]
    if missing:
        raise SchemaError(
            "NO_PRIMARY_KEY",
            f"{name}: tables.keys names {', '.join(missing)}, which are not columns of it",
            hint=f"Its columns are {', '.join(str(column) for column in columns)}",
        )
    return tuple(columns.index(key) for key in keys)


@dataclass(frozen=True, slots=True)
class KeyTable:
    """The keys of all images of a step.

    Attributes:
        rows: One row for each image; the columns have the names k0, k1 ... as any others may collide with ours.
    """

    rows: pa.Table
    names: tuple[str, ...]

    @classmethod
    def of(cls, images: StepImages, schema: pa.Schema, keys: Sequence[int]) -> KeyTable:
        """Decode the key columns *keys*."""
        arrays = []
        for index in keys:
            array = _values(images, schema, index)
            if array.null_count:
                raise null_key(images, index, schema.field(index), array.null_count)
            arrays.append(array)
        names = [f"k{number}" for number in range(len(arrays))]
        return cls(pa.Table.from_arrays(arrays, names=names), tuple(schema.field(index).name for index in keys))

    def runs(self, images: StepImages) -> KeyRuns:
        """The images key by key, those of a key in log order."""
        values = integers(self.rows.column(0)) if self.rows.num_columns == 1 else None
        in_log = None if images.ranks is None else images.in_log_order()
        return KeyRuns.of(self.ids()[0] if values is None else values, in_log)

    def ids(self) -> tuple[Indices, int]:
        """A number for each image, from 0 on, the same for the same key; and how many there are."""
        return row_ids(self.rows)

    def taken(self, images: Indices) -> pa.Table:
        """The keys of some images, under their own names."""
        return self.rows.take(numbers_array(images)).rename_columns(list(self.names))


def _values(images: StepImages, schema: pa.Schema, index: int) -> pa.ChunkedArray:
    kind = schema.field(index).type
    if not images.has_absent:
        return images.values(index, kind)
    # An image after an update may leave the key out: then it is that of the image before, which is beside it.
    absent, name = images.absent_mask(index), schema.names[index]
    numbers = np.arange(len(images), dtype=np.int64)
    unchanged = AbsentKinds(images, schema).of(index) == UNCHANGED_IF_ABSENT
    numbers[absent & (images.kinds == ImageKind.UPDATE_AFTER) & unchanged] -= 1
    missing = absent[numbers]
    by_default = missing & (images.kinds == ImageKind.INSERT) & images.facts.has_default(name)
    unknown = missing & ~by_default
    if unknown.any():
        first = ImageKind(int(images.kinds[int(np.argmax(unknown))]))
        raise UnsupportedError(
            "ROW_IMAGE",
            f"{images.source_table}: key column {name} is missing from {int(unknown.sum())} row "
            f"images (the first is of kind {first.name}): the log does not identify the changed rows",
            hint=WHOLE_IMAGES_HINT,
        )
    return images.facts.with_defaults(
        name, images.values(index, kind, numbers), np.where(by_default, images.facts.numbers, NO_FACTS)
    )


_OTHER_KEYS = "Name other keys for it in [[tables]]: columns that are never null"
_OTHER_WAYS = (
    'Begin the job with zeroDates = "text" in [source] (dates are texts then, as the server prints them), name other '
    "keys for the table in [[tables]], keep it in mode changelog, which needs no key, or leave it out "
    "(option source.excludeTables)"
)


def null_key(images: StepImages, index: int, column: pa.Field, count: int) -> TableError:
    """The error `NULL_KEY`. *count*: how many of the images have null in it."""
    name = f"{images.source_table}: key column {column.name}"
    date = _no_date(images, index) if pa.types.is_temporal(column.type) else None
    if date is not None:
        reason = f"has zero dates, or such that no calendar has, in {count} row images (the first is {row_value(date)})"
        reason = f"{name} {reason}; they become null, and a key cannot be null"
        return TableError("NULL_KEY", reason, hint=_OTHER_WAYS)
    reason = f"{name} is null in {count} row images"
    if pa.types.is_temporal(column.type):
        return TableError("NULL_KEY", f"{reason}, or has zero dates there, which become null", hint=_OTHER_WAYS)
    return TableError("NULL_KEY", reason, hint=_OTHER_KEYS)


def _no_date(images: StepImages, index: int) -> str | None:
    """The first value that is null because no calendar has it; None: none is, or rows come without their bytes."""
    for row_batch in images.row_batches:
        found = _logged(row_batch.images, index)
        if found is None:
            continue
        date = first_zero_date(*found)
        if date is not None:
            return date
    return None


def _logged(images: object, index: int) -> tuple[Images, int] | None:
    """The images with the bytes of a column, and the column's index there; None: there are none."""
    if isinstance(images, CastImages):
        source = images.sources[index]
        return None if source is None else _logged(images.images, source)
    return (images, index) if isinstance(images, Images) else None


_OF_KIND = np.empty(len(ImageKind), np.uint8)
_OF_KIND[[ImageKind.UPDATE_BEFORE, ImageKind.DELETE]] = Expected.THIS_ROW
_OF_KIND[[ImageKind.INSERT, ImageKind.UPDATE_AFTER]] = Expected.NO_ROW
"""An update that keeps its key begins with the image before it; so one after it comes first where the key is new."""

_LEAVES_ROW = _OF_KIND == Expected.NO_ROW


def leaves_row(images: StepImages, numbers: Indices) -> Mask:
    """Mask of the images after which there is a row."""
    left: Mask = _LEAVES_ROW[images.kinds[numbers]]
    return left


def expected_rows(images: StepImages, numbers: Indices) -> Bytes:
    """`Expected` before some images."""
    if all(row_batch.expected is None and not row_batch.snapshot for row_batch in images.row_batches):
        return _OF_KIND[images.kinds[numbers]]
    return np.concatenate([_expected(row_batch) for row_batch in images.row_batches])[numbers]


def refuted(images: StepImages, earlier: Indices, later: Indices, *, covers_inserts: bool) -> Mask:
    """Mask of the pairs whose later image needs a row that the earlier one does not leave, or must not find one.

    Args:
        earlier: Images.
        later: Of each the next one of the same key.
        covers_inserts: There is no row for a key that comes new.
    """
    expected, is_left = expected_rows(images, later), leaves_row(images, earlier)
    wrong: Mask = np.where(needs_row(expected), ~is_left, (expected == Expected.NO_ROW) & is_left & covers_inserts)
    return wrong


def _expected(row_batch: RowBatch) -> Bytes:
    if row_batch.snapshot:  # the target may hold the row already, the same one or another
        return np.full(len(row_batch.images.table), Expected.ANYTHING, np.uint8)
    return _OF_KIND[row_batch.images.table["kind"]] if row_batch.expected is None else row_batch.expected
