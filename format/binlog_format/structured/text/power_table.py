"""Powers of ten for kernels, as floating-point numbers of 128 bits: `POWERS`."""

from __future__ import annotations

import numpy as np

POWER_MIN = -300
POWER_MAX = 345
"""10**p for every p that brings a double, also the smallest, to 16 digits before the point."""


def _power(exponent: int) -> tuple[int, int]:
    # The highest 128 bits of 10**exponent, cut off, in two words.
    number = 10**exponent if exponent >= 0 else (1 << (-4 * exponent + 128)) // 10**-exponent
    shift = number.bit_length() - 128
    bits = number >> shift if shift >= 0 else number << -shift
    return bits >> 64, bits & ((1 << 64) - 1)


POWERS = np.array([_power(exponent) for exponent in range(POWER_MIN, POWER_MAX + 1)], dtype=np.uint64)
"""Shape (powers, 2): high word, low word of each; the highest bit is set, what is cut off is less than the lowest."""
