"""Numbers out of keys, the same in every process: `hash_texts`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlog_format.kernels import kernel

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from binlog_format.kernels import Bytes

_BASIS = 0x811C9DC5
_PRIME = 0x01000193
_LOW_32 = 0xFFFFFFFF


@kernel
def hash_texts(data: Bytes, offsets: NDArray[np.int64], hashes: NDArray[np.int64]) -> bool:
    """FNV-1a in 32 bits of each text, `data[offsets[i] : offsets[i + 1]]`.

    Returns:
        False, with nothing more done, when a text is not within *data*.
    """
    for i in range(len(hashes)):
        low, high = offsets[i], offsets[i + 1]
        if low < 0 or high < low or high > len(data):
            return False
        value = _BASIS
        for place in range(low, high):
            value = ((value ^ data[place]) * _PRIME) & _LOW_32
        hashes[i] = value
    return True
