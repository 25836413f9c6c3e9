"""Names of the columns that row images lack: `absent_names`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from binlog_format.rows.arrow_arrays import mask_array, numbers_array, strings_array
from binlog_format.views.json.image_json import column_names

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from binlog_format.rows.images import Images

ABSENT_TYPE = pa.list_(pa.string())


def absent_names(images: Images, rows: NDArray[np.int64]) -> pa.Array:
    """Names of the columns that some images lack, and that a consumer must leave unchanged instead of setting to null.

    Args:
        images: Any.
        rows: Numbers of images.

    Returns:
        Lists of names, null where an image has all columns.
    """
    if not images.has_absent():
        return pa.nulls(len(rows), ABSENT_TYPE)
    masks = [images.absent_mask(index)[rows] for index in range(len(images.layout.columns))]
    lacking, columns = np.nonzero(np.stack(masks, axis=1))
    offsets = np.searchsorted(lacking, np.arange(len(rows) + 1)).astype(np.int32)
    names = strings_array(column_names(images.layout, images.decoding)).take(numbers_array(columns))
    none = mask_array(offsets[1:] == offsets[:-1])
    return pa.ListArray.from_arrays(numbers_array(offsets), names, mask=none)
