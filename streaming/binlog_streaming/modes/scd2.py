"""Mode `scd2`: every version that a row ever had, and when it held: `scd2_change`.

Every change of a step makes a version, also one that the step itself supersedes. An insert and an update begin one;
what comes next with the same key ends it, at the commit time of that. An update that changes the key ends a version of
the old key and begins one of the new key. An update that changes nothing makes no version, nor does an
existing row that a snapshot brings again: a chunk's row is what the source table had at that place of the log.

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
from binlog_streaming.lake.evolution import cast_table
from binlog_streaming.lake.key_lookup import KeyRuns, Search
from binlog_streaming.lake.row_values import comparable_table, equal_rows, matching_rows
from binlog_streaming.modes.mode_columns import IS_CURRENT, VALID_TO, VERSION_FIELDS
from binlog_streaming.modes.reference_values import rows_matching
from binlog_streaming.modes.row_batches import NO_IMAGE
from binlog_streaming.modes.row_keys import KeyTable, expected_rows
from binlog_streaming.modes.whole_rows import WholeImages

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from binlog_format.kernels import Indices, Mask
    from binlog_streaming.lake.target import Target
    from binlog_streaming.modes.row_batches import StepImages

    CurrentRows = Callable[[pa.Table], pa.Table]
    """Function from keys to the current versions with these keys in the target (it may return others too), in any
    order."""


def scd2_change(
    images: StepImages,
    schema: pa.Schema,
    keys: Sequence[int],
    current: CurrentRows | None = None,
    *,
    computed_is_null: bool = False,
) -> Change:
    """Versions that come new (`appends`), and the current ones that end (`patches`).

    Args:
        schema: Columns of the table, without those of the mode.
        keys: Indices of the key columns.
        current: Finds versions that hold, for existing rows of a snapshot; None: the target has none.
        computed_is_null: Generated columns that the images lack are null.
    """
    key_table = KeyTable.of(images, schema, keys)
    whole = WholeImages(images, schema, computed_is_null)
    ids, _ = key_table.ids()
    runs = KeyRuns.of(ids, images.in_log_order())
    order = runs.order[_what_counts(whole, ids, keys)[runs.order]]
    if images.existing.any():
        order = order[~_repeats(whole, key_table, order, _is_first(ids[order]), current)]
    # Now what happens to a key is together, in log order; each event ends what the one before it began.
    is_first = _is_first(ids[order])
    same_key = ~is_first[1:]
    ends = np.full(len(order), NO_IMAGE, dtype=np.int64)
    ends[:-1][same_key] = order[1:][same_key]
    begins = np.isin(images.kinds[order], (ImageKind.INSERT, ImageKind.UPDATE_AFTER))
    firsts = runs.first[ids[order[is_first]]]
    return Change(
        upserts=pa.schema([*schema, *VERSION_FIELDS]).empty_table(),
        deletes=key_table.taken(order[:0]),
        patches=_closed(images, key_table, order[is_first]),
        appends=_versions(whole, order[begins], ends[begins]),
        current=IS_CURRENT,
        expected=expected_rows(images, firsts),
        firsts=firsts,
        runs=runs,
    )


def _repeats(whole: WholeImages, keys: KeyTable, order: Indices, first: Mask, current: CurrentRows | None) -> Mask:
    # Which images of *order* (those with the same key together, in log order; *first*: with which a key begins) are
    # existing rows whose version is there already: a change before it, or an earlier snapshot, gave the same values.
    same = np.zeros(len(order), dtype=np.bool_)
    existing = whole.images.existing[order]
    after = np.flatnonzero(existing & ~first)
    after = after[np.isin(whole.images.kinds[order[after - 1]], (ImageKind.INSERT, ImageKind.UPDATE_AFTER))]
    now, before = (comparable_table(whole.rows(order[places]).columns) for places in (after, after - 1))
    same[after] = equal_rows(now, before)
    first_existing = np.flatnonzero(existing & first)
    if current is not None and len(first_existing):
        wanted = keys.taken(order[first_existing])
        same[first_existing] = _are_there(whole.rows(order[first_existing]), wanted, current(wanted))
    return same


def _are_there(rows: pa.Table, keys: pa.Table, found: pa.Table) -> Mask:
    same = np.zeros(rows.num_rows, dtype=np.bool_)
    places = matching_rows(found.select(keys.column_names), keys)
    have = np.flatnonzero(places >= 0)
    held = found.select(rows.column_names).take(places[have])
    now = cast_table(rows.take(have), held.schema)
    same[have] = equal_rows(comparable_table(now.columns), comparable_table(held.columns))
    return same


def _is_first(ids: Indices) -> Mask:
    # Of keys that are together.
    return np.append(True, ids[1:] != ids[:-1])[: len(ids)]


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


def current_rows(target: Target, keys: pa.Table) -> pa.Table:
    """The versions that hold whose every key column has a value that is in that column of *keys*; all columns."""

    def matches(rows: pa.RecordBatch) -> Mask:
        mask: Mask = rows_matching(rows, keys) & rows.column(IS_CURRENT).to_numpy(zero_copy_only=False)
        return mask

    search = Search((*keys.column_names, IS_CURRENT), matches, (keys,), IS_CURRENT)
    return target.select(search, target.schema().names)
