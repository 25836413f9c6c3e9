"""Numbers against C's printf, which is what Python's `format` does; those of 80 bits against fractions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from binlog_format.kernels import empty_bytes
from binlog_format.structured.text.float_kernels import (
    FLOAT_TEXT_MAX,
    SCRATCH_WORDS,
    exact_digits,
    put_double,
    put_long_double,
)
from tests.chance import examples

_OUT = empty_bytes(FLOAT_TEXT_MAX)
_WORDS = np.full(SCRATCH_WORDS, 0xFFFF_FFFF_FFFF_FFFF, dtype=np.uint64)
"""What is left in it from other numbers must not matter."""


def _text(value: float) -> str:
    bits = np.float64(value).view(np.uint64)
    with np.errstate(over="ignore"):  # as callers do: without the compiler NumPy warns of what wraps around
        return bytes(_OUT[: put_double(_OUT, 0, bits, _WORDS)]).decode()


def _long_text(mantissa: int, sign_exponent: int) -> str:
    return bytes(_OUT[: put_long_double(_OUT, 0, np.uint64(mantissa), sign_exponent, _WORDS)]).decode()


@given(st.floats(allow_nan=False))
@settings(max_examples=examples(400))
@example(0.1 + 0.2)
@example(1e16)
@example(9999999999999998.0)
@example(99999999999999995.0)
@example(1e22)
@example(1e23)
@example(5e-324)
@example(2.2250738585072014e-308)
@example(1.7976931348623157e308)
@example(0.0001)
@example(9.9999999999999995e-05)
@example(2.0**-1000)
@example(4503599627370497.5)
@example(1234567890123456.5)
@example(1000000000000001.5)
@example(-0.0)
def test_put_double_writes_as_printf(value: float) -> None:
    assert _text(value) == format(value, ".16g")


@given(st.integers(10**15, 10**16), st.integers(-330, 292))
@settings(max_examples=examples(400))
def test_put_double_rounds_as_printf_near_ties(digits: int, exponent: int) -> None:
    value = float(f"{digits}5e{exponent}")
    assert _text(value) == format(value, ".16g")


@given(st.integers(10**15, 10**16 - 1).map(lambda digits: digits + 0.5), st.integers(-3, 3))
def test_put_double_rounds_ties_to_even(value: float, exponent: int) -> None:
    assert _text(value * 2.0**exponent) == format(value * 2.0**exponent, ".16g")


@pytest.mark.parametrize(
    ("bits", "text"),
    [
        (0x7FF0 << 48, "inf"),
        (0xFFF0 << 48, "-inf"),
        (0x7FF8 << 48, "nan"),
        (0xFFF8 << 48, "-nan"),
        (0x7FF0_0000_0000_0001, "nan"),
    ],
)
def test_put_double_writes_what_is_no_number(bits: int, text: str) -> None:
    assert bytes(_OUT[: put_double(_OUT, 0, np.uint64(bits), _WORDS)]).decode() == text


@given(st.integers(1, 2**64 - 1), st.integers(-120, 60) | st.integers(-16_445, 16_320))
@settings(max_examples=examples(200))
@example(1, -16_445)
@example(2**64 - 1, 16_320)
@example(1 << 63, -63)
@example(10000000000000005 << 10, -10)
@example(10000000000000015 << 10, -10)
@example(99999999999999995, 0)
def test_exact_digits_are_those_of_the_fraction(mantissa: int, exponent: int) -> None:
    digits, power = exact_digits(np.uint64(mantissa), exponent, _WORDS)
    assert (int(digits), power) == _rounded(Fraction(mantissa) * Fraction(2) ** exponent)


def _rounded(value: Fraction) -> tuple[int, int]:
    power = (value.numerator.bit_length() - value.denominator.bit_length()) * 30_103 // 100_000 - 2
    while value >= Fraction(10) ** (power + 1):
        power += 1
    digits = round(value / Fraction(10) ** (power - 15))
    return (digits // 10, power + 1) if digits == 10**16 else (digits, power)


@given(st.floats(allow_nan=False, allow_infinity=False, allow_subnormal=False))
@example(0.0)
def test_put_long_double_writes_a_double_as_printf(value: float) -> None:
    """A long double holds every double; their texts are the same."""
    bits = int(np.float64(value).view(np.uint64))
    biased, fraction = bits >> 52 & 0x7FF, bits & ((1 << 52) - 1)
    mantissa = (1 << 63 | fraction << 11) if biased else 0
    assert _long_text(mantissa, bits >> 63 << 15 | (biased + 15_360 if biased else 0)) == format(value, ".16g")


@pytest.mark.parametrize(
    ("mantissa", "sign_exponent", "text"),
    [
        (1 << 63, 0x7FFF, "inf"),
        (1 << 63, 0xFFFF, "-inf"),
        (3 << 62, 0x7FFF, "nan"),
        (3 << 62, 0xFFFF, "-nan"),
        (1 << 62, 0x3FFF, "nan"),  # no processor makes it
        (0, 0x8000, "-0"),
        (1, 0, "3.645199531882475e-4951"),
        (2**64 - 1, 0x7FFE, "1.189731495357232e+4932"),
        (0xC90F_DAA2_2168_C235, 0x4000, "3.141592653589793"),
    ],
)
def test_put_long_double_writes_as_printf(mantissa: int, sign_exponent: int, text: str) -> None:
    assert _long_text(mantissa, sign_exponent) == text
