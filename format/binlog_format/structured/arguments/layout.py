"""Tables that kernels of arguments take and fill; Python numbers as the bytes of arguments: `extended_bytes` ..."""

from __future__ import annotations

import struct
from enum import IntEnum

import numpy as np

from binlog_format.structured.type_layout import TypeKind

# A ready piece of JSON in `JsonTypes.names`.
JSON_NAME_DTYPE = np.dtype([("start", np.int64), ("size", np.int64)])

# A float that a JSON text leaves out: Arrow writes them all at once.
OMITTED_FLOAT_DTYPE = np.dtype(
    [
        ("at", np.int64),  # byte of the text that it comes before
        ("place", np.int32),  # its first byte in the data
        ("kind", np.int64),  # `TypeKind`
    ]
)
FLOAT_SIZE_MIN = 4
"""Data of n bytes contain at most n / 4 floats."""

EXTENDED_FRACTION_SIZE = 8
EXTENDED_BIAS = 16383
EXTENDED_EXPONENT_MAX = 0x7FFF
EXTENDED_SIGN = 0x8000
"""Sign bit of `long double` (Intel 64 manual, volume 1, section 4.2.2): 8 bytes of fraction, 2 of sign and exponent."""

# A value that cannot be read.
FAILURE_DTYPE = np.dtype(
    [
        ("row", np.int64),  # of the event
        ("argument", np.int64),  # which one of its source
        ("node", np.int64),  # row of `TypeTable.nodes`
        ("place", np.int64),  # byte of the data
        ("needed", np.int64),  # bytes that it takes at least
        ("left", np.int64),  # bytes that are left
    ]
)


class Op(IntEnum):
    """Effect of a step of a `Program` on the bytes of an event."""

    FIXED = 0
    """Notes the place of a value of `size` bytes."""
    TEXT = 1
    """Notes the place of a text: u32 count, bytes, of `size` 1."""
    LIST = 2
    """Reads the count of a sequence of elements of at least `size` bytes, which the following steps read; without
    elements goes on at `target`. Notes how many elements its frame `inner` has then."""
    NEXT = 3
    """Goes on at `target` until the frame `inner` is complete."""
    VARIANT = 4
    """Reads the index of a variant, notes its place if it has a slot, and goes on at `targets[first + index]`, or at
    `target` where that is none of its `count` options."""
    JUMP = 5
    """Goes on at `target`."""
    PRESENT = 6
    """Notes that a struct or a value without bytes is there."""
    JSON = 7
    """Writes a value of type `node`, nested in `depth` others, as JSON, and notes the number of its text."""
    ARRAY = 8
    """Like `LIST`, of elements of exactly `size` bytes, whose places it notes as the next step would; goes on at
    `target`."""
    BAD = 9
    """A value of type `node`, which cannot be read."""


PROGRAM_DTYPE = np.dtype(
    [
        ("op", np.int64),  # `Op`
        ("argument", np.int64),  # which argument it belongs to
        ("slot", np.int64),  # where it notes what it has found; below 0: nowhere
        ("frame", np.int64),  # which one's current element the slot has it for
        ("inner", np.int64),
        ("size", np.int64),
        ("target", np.int64),  # a step
        ("first", np.int64),
        ("count", np.int64),
        ("node", np.int64),
        ("depth", np.int64),
    ]
)


NUMBER_STRUCTS = {
    TypeKind.BOOL: struct.Struct("<?"),
    TypeKind.CHAR: struct.Struct("<b"),
    TypeKind.INT8: struct.Struct("<b"),
    TypeKind.INT16: struct.Struct("<h"),
    TypeKind.INT32: struct.Struct("<i"),
    TypeKind.INT64: struct.Struct("<q"),
    TypeKind.UINT8: struct.Struct("<B"),
    TypeKind.UINT16: struct.Struct("<H"),
    TypeKind.UINT32: struct.Struct("<I"),
    TypeKind.UINT64: struct.Struct("<Q"),
    TypeKind.FLOAT: struct.Struct("<f"),
    TypeKind.DOUBLE: struct.Struct("<d"),
}
COUNT_STRUCT = struct.Struct("<I")
"""Count before a text and the elements of a sequence."""
INDEX_STRUCT = struct.Struct("<B")
"""Index before the value of a variant."""

EXTENDED_STRUCT = struct.Struct("<QH6x")
"""A number of 80 bits in 16 bytes: significand with its leading bit, sign and exponent."""
_DOUBLE_BITS_STRUCT = struct.Struct("<Q")
_DOUBLE_FRACTION_BITS = 52
_DOUBLE_BIAS = 1023
_DOUBLE_EXPONENT_MAX = 0x7FF
_EXTENDED_BIAS = 16383
_EXTENDED_EXPONENT_MAX = 0x7FFF
_SIGN_SHIFT = 15


def extended_bytes(number: float) -> bytes:
    """The number as the x87's 80 bits, in 16 bytes."""
    (bits,) = _DOUBLE_BITS_STRUCT.unpack(NUMBER_STRUCTS[TypeKind.DOUBLE].pack(number))
    sign, exponent = divmod(bits >> _DOUBLE_FRACTION_BITS, _DOUBLE_EXPONENT_MAX + 1)
    significand = bits & ((1 << _DOUBLE_FRACTION_BITS) - 1)
    if exponent:
        significand |= 1 << _DOUBLE_FRACTION_BITS
    shift = EXTENDED_SIGNIFICAND_BITS - significand.bit_length()
    if exponent == _DOUBLE_EXPONENT_MAX:
        exponent = _EXTENDED_EXPONENT_MAX
    elif significand:
        # Subnormal doubles have the exponent 1, and no leading bit.
        exponent = max(exponent, 1) - _DOUBLE_BIAS + _EXTENDED_BIAS + (_DOUBLE_LEADING_SHIFT - shift)
    return EXTENDED_STRUCT.pack(significand << shift if significand else 0, sign << _SIGN_SHIFT | exponent)


EXTENDED_SIGNIFICAND_BITS = 64
_DOUBLE_LEADING_SHIFT = EXTENDED_SIGNIFICAND_BITS - _DOUBLE_FRACTION_BITS - 1
