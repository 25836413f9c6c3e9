"""Mode `mirror`: what a step leaves of each key (`mirror_change`); a sink brings that into its target.

The last image of a key decides: after an insert or an update the row is there, after a delete it is not. An update that
changes the key is a delete of the old key (its before image) and an insert of the new one (its after image), so nothing
special is needed for it. Images that lack columns are the business of `partial_rows`.

With deletes="mark" a deleted row stays as it was last, with `_deleted` and the commit time of the delete. How changes
are cut into batches makes no difference: marked is what was there, from this step or from an earlier one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from binlog_format.rows.arrow_arrays import mask_array
from binlog_format.rows.images import ImageKind
from binlog_streaming.lake.change import Change, Patches
from binlog_streaming.modes.mode_columns import DELETED, MARK_FIELDS
from binlog_streaming.modes.partial_rows import fill_rows
from binlog_streaming.modes.row_batches import NO_IMAGE
from binlog_streaming.modes.row_keys import KeyTable, expected_rows
from binlog_streaming.settings.choices import Deletes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from binlog_format.kernels import Indices, Mask
    from binlog_streaming.lake.key_lookup import KeyRuns
    from binlog_streaming.modes.partial_rows import Lookup
    from binlog_streaming.modes.row_batches import StepImages


def mirror_change(
    images: StepImages,
    schema: pa.Schema,
    keys: Sequence[int],
    *,
    deletes: Deletes = Deletes.REMOVE,
    computed_is_null: bool = False,
    there: Lookup | None = None,
) -> Change:
    """Compute the row of each key after the step; only these rows are decoded in full.

    Args:
        schema: Columns of the table, without those of the mode.
        keys: Indices of the key columns.
        computed_is_null: Generated columns that the images lack become null.
        there: Finds rows of the target as they are before the step. It is asked only when an update changes the key
            and the images lack columns, which then are nowhere else; None: such a step is refused.
    """
    if images.has_absent:
        return _partial_change(images, schema, keys, (deletes, computed_is_null), there)
    key_table = KeyTable.of(images, schema, keys)
    runs = key_table.runs(images)
    first, last = runs.ends()
    expected = expected_rows(images, first)
    stays = np.isin(images.kinds[last], (ImageKind.INSERT, ImageKind.UPDATE_AFTER))
    if deletes is Deletes.REMOVE:
        upserts, gone = _decoded(images, schema, last[stays]), key_table.taken(last[~stays])
        order = np.concatenate([np.flatnonzero(stays), np.flatnonzero(~stays)])
        return Change(upserts, gone, expected=expected[order], firsts=first[order], runs=runs)
    # The image of a delete is the row as it was last, so a row that the step itself brought is known as a whole.
    kept = stays | _is_touched(images, runs, last, stays)
    order = np.concatenate([np.flatnonzero(kept), np.flatnonzero(~kept)])
    return Change(
        _marked(images, _decoded(images, schema, last[kept]), last[kept], ~stays[kept]),
        key_table.taken(last[:0]),
        patches=_marks(images, key_table, last[~kept]),
        expected=expected[order],
        gone=DELETED,
        firsts=first[order],
        runs=runs,
    )


def _partial_change(
    images: StepImages, schema: pa.Schema, keys: Sequence[int], choices: tuple[Deletes, bool], there: Lookup | None
) -> Change:
    deletes, computed_is_null = choices
    key_table = KeyTable.of(images, schema, keys)
    rows = fill_rows(images, schema, keys, key_table)
    marks = deletes is Deletes.MARK
    kept = rows.touched if marks else ~rows.gone
    rows.check(np.flatnonzero(kept), computed_is_null=computed_is_null)
    whole, moved = rows.is_whole(), rows.has_moved()
    upserted, patched, gone = (np.flatnonzero(chosen) for chosen in (kept & whole & ~moved, kept & ~whole, ~kept))
    upserts, patches = rows.upserts(upserted), rows.patches(patched)
    if (kept & moved).any():
        out_of_others, found = rows.moved(np.flatnonzero(kept & moved), there)
        upserts, upserted = pa.concat_tables([upserts, out_of_others]), np.concatenate([upserted, found])
    expected = expected_rows(images, rows.first)
    if not marks:
        deleted = key_table.taken(rows.last[gone])
        order = np.concatenate([upserted, gone, patched])
        left = patches if len(patched) else None
        return Change(
            upserts, deleted, patches=left, expected=expected[order], firsts=rows.first[order], runs=rows.runs
        )
    patches = Patches(_marked(images, patches.rows, rows.last[patched], rows.gone[patched]), patches.present)
    order = np.concatenate([upserted, patched, gone])
    return Change(
        _marked(images, upserts, rows.last[upserted], rows.gone[upserted]),
        key_table.taken(rows.last[:0]),
        patches=_joined(patches, _marks(images, key_table, rows.last[gone])),
        expected=expected[order],
        gone=DELETED,
        firsts=rows.first[order],
        runs=rows.runs,
    )


def _decoded(images: StepImages, schema: pa.Schema, numbers: Indices) -> pa.Table:
    arrays = [images.values(index, field.type, numbers) for index, field in enumerate(schema)]
    return pa.Table.from_arrays(arrays, schema=schema)


def _is_touched(images: StepImages, runs: KeyRuns, last: Indices, stays: Mask) -> Mask:
    # Of the last images of keys those before which an insert or an update of the same key comes.
    if stays.all():
        return ~stays
    comes = np.isin(images.kinds[runs.order], (ImageKind.INSERT, ImageKind.UPDATE_AFTER))
    touched = np.zeros(len(images), dtype=np.bool_)
    touched[runs.last] = np.logical_or.reduceat(comes, np.flatnonzero(runs.begins))
    return touched[last] & ~stays


def _marked(images: StepImages, rows: pa.Table, numbers: Indices, gone: Mask) -> pa.Table:
    # *numbers* are the images that decide about the rows.
    arrays = (mask_array(gone), images.times(np.where(gone, numbers, NO_IMAGE)))
    for field, array in zip(MARK_FIELDS, arrays, strict=True):
        rows = rows.append_column(field, array)
    return rows


def _marks(images: StepImages, keys: KeyTable, numbers: Indices) -> Patches | None:
    if not len(numbers):
        return None
    return Patches(_marked(images, keys.taken(numbers), numbers, np.ones(len(numbers), np.bool_)), pa.table({}))


def _joined(patches: Patches, marks: Patches | None) -> Patches | None:
    # Marks change no column of the table itself.
    if marks is None or not patches.rows.num_rows:
        return patches if patches.rows.num_rows else marks
    rows = pa.concat_tables([patches.rows, marks.rows], promote_options="default")
    changed = np.arange(rows.num_rows) < patches.rows.num_rows
    present = {}
    for name in patches.rows.column_names:
        if name in marks.rows.column_names:
            continue
        mask = changed.copy()
        if name in patches.present.column_names:
            mask[: patches.rows.num_rows] = patches.present.column(name).to_numpy()
        present[name] = mask_array(mask)
    return Patches(rows, pa.table(present))
