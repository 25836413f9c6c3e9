"""Expected rows of a target before a step, by the first image of each key: `expected_rows`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from binlog_format.rows.images import ImageKind
from binlog_streaming.lake.evidence import Expected

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from binlog_streaming.modes.row_batches import RowBatch, StepImages

    Indices = NDArray[np.int64]
    Flags = NDArray[np.uint8]

_OF_KIND = np.empty(len(ImageKind), np.uint8)
_OF_KIND[[ImageKind.UPDATE_BEFORE, ImageKind.DELETE]] = Expected.THIS_ROW
_OF_KIND[[ImageKind.INSERT, ImageKind.UPDATE_AFTER]] = Expected.NO_ROW
"""An update that keeps its key begins with the image before it; so one after it comes first where the key is new."""


def expected_rows(images: StepImages, firsts: Indices) -> Flags:
    """`Expected` of keys.

    Args:
        images: Of the step.
        firsts: Of each key the number of its first image.
    """
    if all(row_batch.expected is None and not row_batch.snapshot for row_batch in images.row_batches):
        return _OF_KIND[images.kinds[firsts]]
    return np.concatenate([_expected(row_batch) for row_batch in images.row_batches])[firsts]


def _expected(row_batch: RowBatch) -> Flags:
    if row_batch.snapshot:  # the target may hold the row already, the same one or another
        return np.full(len(row_batch.images.table), Expected.ANYTHING, np.uint8)
    return _OF_KIND[row_batch.images.table["kind"]] if row_batch.expected is None else row_batch.expected
