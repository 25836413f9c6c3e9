"""Memory that is used again once nobody looks at it any more: `Recycler`.

A fresh buffer costs a page fault for every 4 KiB, more than what the kernels do with it.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

KEPT_MAX = 4
"""Arrays remembered: the one being filled, and those that the consumer has not let go yet."""

# In `take`: the list's reference, the variable's, and the argument's of getrefcount().
_REFERENCES_OF_FREE_ARRAY = 3


class Recycler:
    """Gives arrays of one type; views of an array (slices, Arrow buffers) keep it from being given again.

    Args:
        dtype: The arrays' type.
    """

    def __init__(self, dtype: np.dtype[np.void] | np.dtype[np.uint8]) -> None:
        self._dtype = dtype
        self._kept: list[NDArray[np.void]] = []

    def take(self, size: int) -> NDArray[np.void]:
        """An array with at least *size* elements; their content is undefined."""
        for index in range(len(self._kept)):
            kept = self._kept[index]
            if len(kept) >= size and sys.getrefcount(kept) == _REFERENCES_OF_FREE_ARRAY:
                return kept
        fresh: NDArray[np.void] = np.empty(size, dtype=self._dtype)
        if len(self._kept) >= KEPT_MAX:
            self._kept.pop(0)
        self._kept.append(fresh)
        return fresh
