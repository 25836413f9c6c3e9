"""Mode `scd2`: every version that a row ever had, and when it held: `scd2_change`.

Every change of a step makes a version, also one that the step itself supersedes. An insert and an update begin one;
what comes next with the same key ends it, at the commit time of that. An update that changes the key ends a version of
the old key and begins one of the new key. An update that changes nothing makes no version.

Versions that begin and end in the same second are told apart by `_position`: the places of the changes that began them,
as text that sorts as the log does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from binlog_format.rows.arrow_arrays import mask_array
from binlog_format.rows.images import ImageKind
from binlog_streaming.lake.change import Change, Patches
from binlog_streaming.lake.row_values import comparable_table, equal_rows
from binlog_streaming.modes.mode_columns import IS_CURRENT, VALID_TO, VERSION_FIELDS
from binlog_streaming.modes.pieces import NO_IMAGE
from binlog_streaming.modes.row_keys import KeyTable
from binlog_streaming.modes.whole_images import WholeImages

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from binlog_streaming.modes.pieces import StepImages

    Indices = NDArray[np.int64]
    Mask = NDArray[np.bool_]


def scd2_change(images: StepImages, schema: pa.Schema, keys: Sequence[int]) -> Change:
    """Versions that come new (`appends`), and the current ones that end (`patches`).

    Args:
        images: Of the step.
        schema: Columns of the table, without those of the mode.
        keys: Indices of the key columns.

    Raises:
        UnsupportedError: `ROW_IMAGE`: columns are missing from the images.
        TableError: `NULL_KEY`.
    """
    key_table = KeyTable.of(images, schema, keys)
    whole = WholeImages(images, schema)
    ids, _ = key_table.ids()
    counts = _what_counts(whole, ids, keys)
    order = images.in_log_order()
    order = order[counts[order]]
    order = order[np.argsort(ids[order], kind="stable")]
    # Now what happens to a key stands together, in log order; each event ends what the one before it began.
    same_key = ids[order[1:]] == ids[order[:-1]]
    ends = np.full(len(order), NO_IMAGE, dtype=np.int64)
    ends[:-1][same_key] = order[1:][same_key]
    begins = np.isin(images.kinds[order], (ImageKind.INSERT, ImageKind.UPDATE_AFTER))
    is_first = np.ones(len(order), dtype=np.bool_)
    is_first[1:] = ~same_key
    return Change(
        upserts=pa.schema([*schema, *VERSION_FIELDS]).empty_table(),
        deletes=key_table.taken(order[:0]),
        patches=_closed(images, key_table, order[is_first]),
        appends=_versions(whole, order[begins], ends[begins]),
        current=IS_CURRENT,
    )


def _versions(whole: WholeImages, begins: Indices, ends: Indices) -> pa.Table:
    in_order = np.argsort(begins if whole.images.ranks is None else whole.images.ranks[begins])
    begins, ends = begins[in_order], ends[in_order]
    images = whole.images
    own = [images.times(begins), images.times(ends), mask_array(ends == NO_IMAGE), images.place_texts(begins)]
    schema = pa.schema([*whole.schema, *VERSION_FIELDS])
    return pa.Table.from_arrays([*whole.rows(begins).columns, *own], schema=schema)


def _closed(images: StepImages, keys: KeyTable, firsts: Indices) -> Patches | None:
    # Also of keys that are inserted: should the target have a current version, it must not have two.
    if not len(firsts):
        return None
    rows = keys.taken(firsts).append_column(VALID_TO, images.times(firsts))
    return Patches(rows.append_column(IS_CURRENT, mask_array(np.zeros(len(firsts), np.bool_))), pa.table({}))


def _what_counts(whole: WholeImages, ids: Indices, keys: Sequence[int]) -> Mask:
    # All images but those before updates that keep the key, and those after updates that change nothing.
    kinds = whole.images.kinds
    counts = np.ones(len(kinds), dtype=np.bool_)
    after = np.flatnonzero(kinds == ImageKind.UPDATE_AFTER)
    after = after[ids[after] == ids[after - 1]]
    counts[after - 1] = False
    counts[_unchanged(whole, after, keys)] = False
    return counts


def _unchanged(whole: WholeImages, after: Indices, keys: Sequence[int]) -> Indices:
    # Column by column, with fewer and fewer updates: most are seen to change something by their first columns.
    for column in range(len(whole.schema)):
        if column in keys:
            continue
        if whole.images.has_absent:  # what was before is not known then, and not the same: else nothing were logged
            after = after[~whole.images.absent_mask(column)[after - 1]]
        if not len(after):
            break
        now, before = (comparable_table([whole.values(column, numbers)]) for numbers in (after, after - 1))
        after = after[equal_rows(now, before)]
    return after
