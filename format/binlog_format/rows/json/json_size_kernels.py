"""Kernels of `json_rows` that compute how many bytes the values of a column take.

State of a value in its row: `ABSENT` (left out), `NULL`, `VALUE`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from binlog_format.kernels import allocating_kernel, kernel
from binlog_format.writing_kernels import SIGN_BIT, U0, decimal_digits, digit_count, escaped_size, magnitude

if TYPE_CHECKING:
    from binlog_format.kernels import Bytes, Int32s, Int64s, Uint64s

ABSENT = 0
NULL = 1
VALUE = 2


@kernel
def add_sizes(states: Bytes, value_sizes: Int64s, around: int, sizes: Int64s) -> None:
    """Add a column's bytes to each row's *sizes*; *around* are the bytes of the name, the colon and the comma."""
    for row in range(sizes.size):
        if states[row] == VALUE:
            sizes[row] += around + value_sizes[row]
        elif states[row] == NULL:
            sizes[row] += around + 4


@kernel
def text_sizes(data: Bytes, offsets: Int32s, sizes: Int64s) -> None:
    """Bytes of each text as a JSON string, quotes included."""
    for row in range(sizes.size):
        sizes[row] = escaped_size(data, offsets[row], offsets[row + 1])


@kernel
def integer_sizes(values: Int64s, sizes: Int64s) -> None:
    """Bytes of each number in decimal, the sign included."""
    for row in range(sizes.size):
        sizes[row] = (values[row] < 0) + digit_count(magnitude(values[row]))


@allocating_kernel
def decimal_sizes(words: Uint64s, scale: int, quotes: int, sizes: Int64s) -> None:
    """Bytes of each 128-bit decimal; words: low and high half of each value in turn."""
    digits = np.empty(45, dtype=np.uint8)
    for row in range(sizes.size):
        negative = (words[2 * row + 1] & SIGN_BIT) != U0
        count = decimal_digits(words[2 * row], words[2 * row + 1], digits)
        whole = max(count - scale, 1)
        sizes[row] = quotes + negative + whole + (scale + 1 if scale > 0 else 0)


@kernel
def list_sizes(list_offsets: Int32s, data: Bytes, offsets: Int32s, sizes: Int64s) -> None:
    """Bytes of each list of texts as a JSON array."""
    for row in range(sizes.size):
        first, last = list_offsets[row], list_offsets[row + 1]
        size = 2 + max(last - first - 1, 0)
        for item in range(first, last):
            size += escaped_size(data, offsets[item], offsets[item + 1])
        sizes[row] = size
