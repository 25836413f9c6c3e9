"""MD5 of many messages (RFC 1321), as the SQL function computes it: `md5_of_each`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from binlog_format.kernels import kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from binlog_format.kernels import Bytes

_U = np.uint64
_ONES = _U(0xFFFFFFFF)
_BLOCK = 64
_SIZE_AT = 56
_SINES = np.array([int(abs(math.sin(number + 1)) * (1 << 32)) for number in range(64)], dtype=np.uint64)
_SHIFTS = np.array([7, 12, 17, 22] * 4 + [5, 9, 14, 20] * 4 + [4, 11, 16, 23] * 4 + [6, 10, 15, 21] * 4, np.uint64)
_WORDS = np.array(
    [*range(16), *((5 * n + 1) % 16 for n in range(16)), *((3 * n + 5) % 16 for n in range(16))]
    + [7 * n % 16 for n in range(16)],
    dtype=np.int64,
)


@kernel
def _take_block(data: Bytes, start: int, state: NDArray[np.uint64], words: NDArray[np.uint64]) -> None:
    for number in range(16):
        at = start + 4 * number
        words[number] = (
            _U(data[at]) | (_U(data[at + 1]) << _U(8)) | (_U(data[at + 2]) << _U(16)) | (_U(data[at + 3]) << _U(24))
        )
    a, b, c, d = state[0], state[1], state[2], state[3]
    for step in range(64):
        if step < 16:
            mixed = (b & c) | ((b ^ _ONES) & d)
        elif step < 32:
            mixed = (d & b) | ((d ^ _ONES) & c)
        elif step < 48:
            mixed = b ^ c ^ d
        else:
            mixed = c ^ (b | (d ^ _ONES))
        total = (a + mixed + _SINES[step] + words[_WORDS[step]]) & _ONES
        shift = _SHIFTS[step]
        turned = ((total << shift) | (total >> (_U(32) - shift))) & _ONES
        a, d, c, b = d, c, b, (b + turned) & _ONES
    state[0] = (state[0] + a) & _ONES
    state[1] = (state[1] + b) & _ONES
    state[2] = (state[2] + c) & _ONES
    state[3] = (state[3] + d) & _ONES


@kernel
def md5_of_each(
    data: Bytes,
    offsets: NDArray[np.int64],
    digests: Bytes,
    state: NDArray[np.uint64],
    words: NDArray[np.uint64],
    tail: Bytes,
) -> None:
    """Digest messages that lie one after the other.

    Args:
        data: The messages.
        offsets: Where each begins, and the last one ends.
        digests: 16 bytes for each.
        state: Scratch space, 4 numbers.
        words: The same, 16 numbers.
        tail: The same, 128 bytes.
    """
    for message in range(len(offsets) - 1):
        start, end = offsets[message], offsets[message + 1]
        state[0], state[1], state[2], state[3] = _U(0x67452301), _U(0xEFCDAB89), _U(0x98BADCFE), _U(0x10325476)
        at = start
        while at + _BLOCK <= end:
            _take_block(data, at, state, words)
            at += _BLOCK
        size = end - at
        for place in range(2 * _BLOCK):
            tail[place] = 0
        for place in range(size):
            tail[place] = data[at + place]
        tail[size] = 0x80
        blocks = 1 if size < _SIZE_AT else 2
        bits = _U(8) * _U(end - start)
        for place in range(8):
            tail[(blocks - 1) * _BLOCK + _SIZE_AT + place] = np.uint8((bits >> _U(8 * place)) & _U(0xFF))
        for block in range(blocks):
            _take_block(tail, block * _BLOCK, state, words)
        for number in range(4):
            for place in range(4):
                byte = (state[number] >> _U(8 * place)) & _U(0xFF)
                digests[16 * message + 4 * number + place] = np.uint8(byte)
