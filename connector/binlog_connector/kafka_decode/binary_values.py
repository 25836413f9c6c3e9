"""Bytes that are in messages as base64, and the numbers in them: `bytes_of`, `decimals_of`, `unsigned_of`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from binlog_connector.kafka_decode.binary_kernels import ALL_READ, read_base64, read_little_endian, read_unscaled
from binlog_connector.kafka_decode.message_error import MessageError
from binlog_format.rows.arrow_arrays import fixed_array, text_array

if TYPE_CHECKING:
    from numpy.typing import NDArray

DECIMAL_DIGITS_MAX = 38
"""Digits of a decimal128; decimals with more digits are texts, as everywhere here."""


def bytes_of(texts: pa.Array) -> pa.Array:
    """Binary from base64 with padding (string); a null stays one.

    Raises:
        MessageError: A text is not base64.
    """
    data, offsets, valid = _parts(texts)
    out_offsets, out = np.empty_like(offsets), np.empty(len(data) // 4 * 3, dtype=np.uint8)
    bad = read_base64(data, offsets, out_offsets, out)
    if bad != ALL_READ:
        raise MessageError(bad, "it is not base64")
    return text_array(pa.binary(), out_offsets, out[: out_offsets[-1]], valid)


def decimals_of(unscaled: pa.Array, precision: int, scale: int) -> pa.Array:
    """Decimals from their unscaled numbers: binary, two's complement, high byte first.

    Returns:
        decimal128(precision, scale), or string beyond `DECIMAL_DIGITS_MAX`.

    Raises:
        MessageError: One has more digits.
    """
    if precision > DECIMAL_DIGITS_MAX:
        # Arrow writes small ones with an exponent. Such columns are rare.
        numbers = (None if one is None else int.from_bytes(one, "big", signed=True) for one in unscaled.to_pylist())
        return pa.array([None if one is None else _plain_text(one, scale) for one in numbers], pa.string())
    data, offsets, valid = _parts(unscaled)
    words = np.empty((len(offsets) - 1, 16), dtype=np.uint8)
    bad = read_unscaled(data, offsets, words)
    if bad != ALL_READ:
        raise MessageError(bad, "a number of more than 16 bytes")
    made = fixed_array(pa.decimal128(precision, scale), words, valid)
    try:
        made.validate(full=True)
    except pa.ArrowInvalid as error:
        raise MessageError(0, str(error)) from error
    return made


def unsigned_of(values: pa.Array) -> pa.Array:
    """uint64 from numbers without sign: binary, low byte first.

    Raises:
        MessageError: One has more than 64 bits.
    """
    data, offsets, valid = _parts(values)
    words = np.empty((len(offsets) - 1, 8), dtype=np.uint8)
    bad = read_little_endian(data, offsets, words)
    if bad != ALL_READ:
        raise MessageError(bad, "a number of more than 64 bits")
    return fixed_array(pa.uint64(), words, valid)


def _plain_text(unscaled: int, scale: int) -> str:
    sign, digits = ("-" if unscaled < 0 else ""), f"{abs(unscaled):0{scale + 1}}"
    return f"{sign}{digits[:-scale]}.{digits[-scale:]}" if scale else f"{sign}{digits}"


def _parts(values: pa.Array) -> tuple[NDArray[np.uint8], NDArray[np.int32], NDArray[np.bool_]]:
    # The bytes, where each value begins in them (and the last one ends), and which are there.
    _, offsets_buffer, data_buffer = values.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int32)[values.offset : values.offset + len(values) + 1]
    data = np.frombuffer(data_buffer or b"", np.uint8)[offsets[0] : offsets[-1]].copy()  # kernels want to own it
    return data, offsets - offsets[0], values.is_valid().to_numpy(zero_copy_only=False)
