"""Kernel of places as text: `write_places`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from binlog_format.kernels import kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

_ZERO = ord("0")
_COLON = np.uint8(ord(":"))


@kernel
def write_places(numbers: NDArray[np.int64], widths: NDArray[np.int64], texts: NDArray[np.uint8]) -> None:
    """Write the numbers of each row with as many digits as their column has, and colons between them.

    Args:
        numbers: Shape (columns, rows), not below 0.
        widths: Digits of each column; more digits than that are cut off in front.
        texts: Shape (rows, sum of the widths and of the colons).
    """
    for row in range(texts.shape[0]):
        end = 0
        for column in range(len(widths)):
            if column > 0:
                texts[row, end] = _COLON
                end += 1
            end += widths[column]
            value = numbers[column, row]
            for place in range(widths[column]):
                texts[row, end - 1 - place] = np.uint8(_ZERO + value % 10)
                value //= 10
