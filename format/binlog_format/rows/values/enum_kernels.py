"""The loops of `enums`: texts of SET values."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from binlog_format.kernels import kernel
from binlog_format.memory_kernels import copy_bytes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from binlog_format.kernels import Bytes

    Int32s = NDArray[np.int32]

_ONE = np.uint64(1)
_OFFSET_MAX = (1 << 31) - 1
TOO_LARGE = -2


@kernel
def set_offsets(masks: NDArray[np.uint64], label_offsets: Int32s, out_offsets: Int32s) -> int:
    """Compute the place of each SET value's text: the labels of its bits, with commas between them.

    Args:
        masks: One bit for each label that is in the value, the lowest for the first.
        label_offsets: Where each label starts, and the end of the last.
        out_offsets: Gets the start of each text, and the end of the last.

    Returns:
        -1; or the index of a value with a bit that no label has; or `TOO_LARGE`.
    """
    count = label_offsets.size - 1
    end = 0
    out_offsets[0] = 0
    for i in range(masks.size):
        mask = masks[i]
        first = True
        label = 0
        while mask:
            if mask & _ONE:
                if label >= count:
                    return i
                end += int(label_offsets[label + 1]) - label_offsets[label] + (0 if first else 1)
                first = False
            mask = mask >> _ONE
            label += 1
        if end > _OFFSET_MAX:
            return TOO_LARGE
        out_offsets[i + 1] = end
    return -1


@kernel
def write_sets(masks: NDArray[np.uint64], label_offsets: Int32s, labels: Bytes, out: Bytes) -> None:
    """Write the texts that `set_offsets` has measured."""
    end = 0
    for i in range(masks.size):
        mask = masks[i]
        first = True
        label = 0
        while mask:
            if mask & _ONE:
                if not first:
                    out[end] = 44  # ","
                    end += 1
                first = False
                size = int(label_offsets[label + 1]) - label_offsets[label]
                copy_bytes(out, end, labels, label_offsets[label], size)
                end += size
            mask = mask >> _ONE
            label += 1
