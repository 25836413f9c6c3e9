"""Kinds of argument types, and the tables that describe types to kernels.

A type is a node; members (of tuples and structs, options of variants, the element of a sequence) and enumerators lie in
tables of their own, those of one node one after the other. Names and labels are slices of `TypeTable.pool`.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np


class TypeKind(IntEnum):
    """Kind of a type. From `BOOL` to `EXTENDED`: numbers of a fixed size."""

    EMPTY = 0
    """No bytes, nothing to show: an empty tag, and what a variant selects by an index beyond its options."""
    NULL = 1
    """No bytes: the null option of a variant."""
    BOOL = 2
    CHAR = 3
    INT8 = 4
    INT16 = 5
    INT32 = 6
    INT64 = 7
    UINT8 = 8
    UINT16 = 9
    UINT32 = 10
    UINT64 = 11
    FLOAT = 12
    DOUBLE = 13
    EXTENDED = 14
    """`long double`: 80 bits of the x87 in 16 bytes, as programs on x86-64 Linux and macOS write it."""
    TEXT = 15
    """A sequence of characters: u32 count, bytes."""
    SEQUENCE = 16
    """u32 count, elements. Its one member is the element."""
    TUPLE = 17
    VARIANT = 18
    """u8 index of the chosen option, its value."""
    STRUCT = 19
    ENUM = 20
    """Its integer, of the kind `integer`."""
    BAD_TAG = 21
    """A character that is no type: an error as soon as a value is read. Its name is that character."""
    BAD_ENUM = 22
    """An enum without an integer type: the same."""
    TOO_DEEP = 23
    """Nested in as many types as cannot be read: the same."""


class SpecialStruct(IntEnum):
    """Structs of the standard library that are shown in a way of their own."""

    NONE = 0
    ADDRESS = 1
    TIME_POINT = 2
    NANOSECONDS = 3
    MICROSECONDS = 4
    MILLISECONDS = 5
    SECONDS = 6
    MINUTES = 7
    HOURS = 8
    PATH = 9
    DIRECTORY_ENTRY = 10
    ERROR_CODE = 11


SCALAR_TAGS = {
    b"y": TypeKind.BOOL,
    b"c": TypeKind.CHAR,
    b"b": TypeKind.INT8,
    b"s": TypeKind.INT16,
    b"i": TypeKind.INT32,
    b"l": TypeKind.INT64,
    b"B": TypeKind.UINT8,
    b"S": TypeKind.UINT16,
    b"I": TypeKind.UINT32,
    b"L": TypeKind.UINT64,
    b"f": TypeKind.FLOAT,
    b"d": TypeKind.DOUBLE,
    b"D": TypeKind.EXTENDED,
}
SCALAR_SIZES = {
    TypeKind.BOOL: 1,
    TypeKind.CHAR: 1,
    TypeKind.INT8: 1,
    TypeKind.INT16: 2,
    TypeKind.INT32: 4,
    TypeKind.INT64: 8,
    TypeKind.UINT8: 1,
    TypeKind.UINT16: 2,
    TypeKind.UINT32: 4,
    TypeKind.UINT64: 8,
    TypeKind.FLOAT: 4,
    TypeKind.DOUBLE: 8,
    TypeKind.EXTENDED: 16,
}
ENUM_RANGES = {
    TypeKind.BOOL: (0, 1),
    TypeKind.CHAR: (-(1 << 7), (1 << 7) - 1),
    TypeKind.INT8: (-(1 << 7), (1 << 7) - 1),
    TypeKind.INT16: (-(1 << 15), (1 << 15) - 1),
    TypeKind.INT32: (-(1 << 31), (1 << 31) - 1),
    TypeKind.INT64: (-(1 << 63), (1 << 63) - 1),
    TypeKind.UINT8: (0, (1 << 8) - 1),
    TypeKind.UINT16: (0, (1 << 16) - 1),
    TypeKind.UINT32: (0, (1 << 32) - 1),
    TypeKind.UINT64: (0, (1 << 64) - 1),
}
"""Integer types of enums, and the values that each holds."""

COUNT_SIZE = 4
"""Size of the count before a text and the elements of a sequence."""
INDEX_SIZE = 1
"""Size of the index before the value of a variant."""
NULL_TAG = b"0"

EMPTY_NODE = 0
NULL_NODE = 1
"""The first two nodes of each table are the types without bytes that have no tag of their own."""

TYPE_NODE_DTYPE = np.dtype(
    [
        ("kind", np.int64),  # `TypeKind`
        ("integer", np.int64),  # of an enum: `TypeKind` of its integer
        ("special", np.int64),  # of a struct: `SpecialStruct`
        ("singular", np.uint8),  # 1: a sequence of more than `SINGULAR_MAX` such elements shows one of them
        ("no_bytes", np.uint8),  # 1: its values take no bytes; all singular types, and structs that refer to such
        ("first", np.int64),  # row of its first member; of an enum: of its first enumerator
        ("count", np.int64),  # how many it has
        ("size_min", np.int64),  # bytes that any value of it takes at least; 0 only where `no_bytes`
        ("name_start", np.int64),  # of a struct or an enum, in the pool
        ("name_size", np.int64),
        ("short_name_size", np.int64),  # of the name up to its first `<`
    ]
)
TYPE_MEMBER_DTYPE = np.dtype(
    [
        ("node", np.int64),
        ("label_start", np.int64),  # of a struct's field, in the pool
        ("label_size", np.int64),
    ]
)
# Those of one enum are sorted by value, and each value occurs once.
ENUMERATOR_DTYPE = np.dtype(
    [
        ("value", np.int64),  # of UINT64: its bits
        ("label_start", np.int64),  # in the pool
        ("label_size", np.int64),
    ]
)
ARGUMENT_DTYPE = np.dtype(
    [
        ("node", np.int64),
        ("tag_start", np.int64),  # the whole tag of the argument, in the pool
        ("tag_size", np.int64),
    ]
)
