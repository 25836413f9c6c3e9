"""Conversion of Python numbers to the bytes of arguments."""

from __future__ import annotations

import struct

from binlog_format.structured.type_layout import TypeKind

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
