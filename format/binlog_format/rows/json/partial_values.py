"""JSON values that the log has as changes only (`binlog_row_value_options=PARTIAL_JSON`): `with_whole_values`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from binlog_format.errors import UnsupportedError
from binlog_format.kernels import empty_bytes
from binlog_format.rows.column_types import size_prefix
from binlog_format.rows.json.json_diffs import changed_document
from binlog_format.rows.json.json_document import BadJsonError
from binlog_format.rows.row_event_kernels import ABSENT, CHANGES_ONLY, NULL, value_size

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from binlog_format.kernels import Bytes
    from binlog_format.rows.images import Images

_DATA_SIZE_MAX = (1 << 31) - 1  # as in `images`


class PartialValueError(Exception):
    """Changes that cannot be applied.

    Args:
        image: Row of the images.
        column: Index.
        reason: What is wrong.
    """

    def __init__(self, image: int, column: int, reason: str) -> None:
        super().__init__(image, column, reason)
        self.image = image
        self.column = column
        self.reason = reason


def with_whole_values(images: Images, partial: NDArray[np.int64]) -> Images:
    """*images* with every value whole: changes applied to the value in the image before.

    Whole values that the log does not have are put after a copy of the data. Where the image before lacks the column
    (`binlog_row_image` MINIMAL, or NOBLOB), the log does not tell what the value is: `CHANGES_ONLY`, less the place of
    the changes.

    Args:
        images: Their cells are changed.
        partial: Shape (count, 2): image and column of each value that is a list of changes.

    Raises:
        PartialValueError: Damaged changes, or changes to NULL.
        UnsupportedError: `ROW_IMAGE`: there is too much at once.
    """
    cells, data = images.cells, images.data
    made: list[bytes] = []
    end = len(data)
    for image, column in partial.tolist():
        slot = int(images.slots[column])
        prefix = size_prefix(images.layout.columns[column])
        before = int(cells[slot, image - 1])
        changes = value_at(data, int(cells[slot, image]), prefix)
        if before != NULL and not changes:
            cells[slot, image] = before
            continue
        if before == ABSENT:
            cells[slot, image] = CHANGES_ONLY - int(cells[slot, image])
            continue
        if before == NULL:
            raise PartialValueError(image, column, "changes to a value that was NULL")
        try:
            document = changed_document(value_at(data, before, prefix), changes)
        except BadJsonError as error:
            raise PartialValueError(image, column, error.reason) from error
        if len(document) >= 1 << 8 * prefix:
            raise PartialValueError(image, column, f"changes make a value of {len(document)} bytes")
        made.append(len(document).to_bytes(prefix, "little") + document)
        cells[slot, image] = end
        end += len(made[-1])
        if end > _DATA_SIZE_MAX:
            raise UnsupportedError("ROW_IMAGE", f"{end} bytes of events and changed values at once")
    if not made:
        return images
    whole = empty_bytes(end)
    whole[: len(data)] = data
    whole[len(data) :] = memoryview(b"".join(made))
    return replace(images, data=whole)


def value_at(data: Bytes, place: int, prefix: int) -> bytes:
    """The value, or the list of changes, whose size of *prefix* bytes starts at *place*."""
    start = place + prefix
    return data[start : start + value_size(data, place, prefix)].tobytes()
