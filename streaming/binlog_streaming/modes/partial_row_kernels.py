"""Kernel of partial row images: `fill_forward` tells where the value of each column of each row comes from."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from binlog_format.kernels import kernel
from binlog_format.rows.images import ImageKind
from binlog_streaming.modes.absent_columns import GENERATED, UNCHANGED_IF_ABSENT

if TYPE_CHECKING:
    from binlog_format.kernels import Bytes, Int64s, Mask

# In place of the number of the image that has the value:
UNCHANGED = -1  # as it is in the target, in the row with this key
MOVED = -2  # as it is in the target, in a row that had another key before the step
COMPUTED = -3  # the server computed it anew, and did not log it
UNKNOWN = -4  # unchanged or computed: it is not known whether the column is generated
DEFAULT = -5  # an INSERT left it out; less the number of the facts at its place

GONE = 1  # there is no row with the key at the end
TOUCHED = 2  # the key was inserted or updated

_INSERT = np.uint8(ImageKind.INSERT)
_UPDATE_AFTER = np.uint8(ImageKind.UPDATE_AFTER)
_DELETE = np.uint8(ImageKind.DELETE)


@kernel
def fill_forward(
    order: Int64s,
    kinds: Bytes,
    key_ids: Int64s,
    present: Mask,
    absent_kinds: Bytes,
    facts: Int64s,
    sources: Int64s,
    rows: Int64s,
) -> None:
    """Follow the rows through the images.

    Args:
        order: Images in log order; the two of an update are together, in their numbers too.
        kinds: `ImageKind` of each image.
        key_ids: Number of each image's key.
        present: Shape (images, columns): whether the image has the column.
        absent_kinds: Shape (images, columns): what it means that an image lacks the column, see `absent_columns`.
        facts: Number of the facts at each image.
        sources: Shape (keys, columns), filled with `UNCHANGED`: gets the image that has the value, or one of the above.
        rows: Shape (keys, 2), filled with 0 and the key's own number: gets `GONE` and `TOUCHED`; and the number of the
            key that the row had before the step.
    """
    columns = sources.shape[1]
    for step in range(len(order)):
        image = order[step]
        kind = kinds[image]
        key = key_ids[image]
        if kind == _DELETE:
            rows[key, 0] |= GONE
        elif kind == _INSERT:
            rows[key, 0] = TOUCHED
            for column in range(columns):
                if present[image, column]:
                    sources[key, column] = image
                elif absent_kinds[image, column] == GENERATED:
                    sources[key, column] = COMPUTED
                else:
                    sources[key, column] = DEFAULT - facts[image]
        elif kind == _UPDATE_AFTER and image > 0:
            before = key_ids[image - 1]
            for column in range(columns):
                source = sources[before, column]
                if present[image, column]:
                    source = image
                elif absent_kinds[image, column] != UNCHANGED_IF_ABSENT:
                    # Whatever the image before has: MariaDB's FULL_NODUP has generated columns there, too.
                    source = COMPUTED if absent_kinds[image, column] == GENERATED else UNKNOWN
                elif present[image - 1, column]:
                    source = image - 1
                elif before != key and source == UNCHANGED:
                    source = MOVED
                sources[key, column] = source
            if before != key:
                rows[before, 0] |= GONE
                rows[key, 1] = rows[before, 1]
            rows[key, 0] = TOUCHED
