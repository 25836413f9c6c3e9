"""MySQL's binary JSON and the changes to it: type codes, literals, limits, `JsonOperation`.

Layout of a document (MySQL `sql-common/json_binary.h`), little endian:

    Size     Type      Field
    1        uint8     type
    rest     bytes     value

Of an object, whose offsets count from its first byte; n is 2 for small, 4 for large objects and arrays:

    Size     Type      Field
    n        uint      number of members
    n        uint      size of the object, these two included
    n + 2    entry     for each key: its offset (n), its size (uint16)
    1 + n    entry     for each value: its type, its offset, or the value itself where that is no larger than n
    rest     bytes     keys, sorted by size, then by their bytes; values

An array is the same without keys. A string is its size in bytes, 7 bits to a byte, lowest first, the highest bit states
that more follow, then UTF-8. An opaque value is the type code of a column, a size as before a string, and bytes.

Layout of a list of changes to a document (MySQL `sql/json_diff.h`); sizes are those of the client protocol:

    Size     Type      Field
    1        uint8     operation
    1..9     varint    size of the path
    size     text      path, such as `$.a[2]."long name"`
    1..9     varint    size of the new value; not of a REMOVE, as what follows
    size     bytes     the new value, a document
"""

from __future__ import annotations

from enum import IntEnum


class JsonType(IntEnum):
    """Types of binary JSON values."""

    SMALL_OBJECT = 0x00
    LARGE_OBJECT = 0x01
    SMALL_ARRAY = 0x02
    LARGE_ARRAY = 0x03
    LITERAL = 0x04
    INT16 = 0x05
    UINT16 = 0x06
    INT32 = 0x07
    UINT32 = 0x08
    INT64 = 0x09
    UINT64 = 0x0A
    DOUBLE = 0x0B
    STRING = 0x0C
    OPAQUE = 0x0F


JSON_NULL = 0
JSON_TRUE = 1
JSON_FALSE = 2

JSON_NUMBER_SIZES = {
    JsonType.LITERAL: 1,
    JsonType.INT16: 2,
    JsonType.UINT16: 2,
    JsonType.INT32: 4,
    JsonType.UINT32: 4,
    JsonType.INT64: 8,
    JsonType.UINT64: 8,
    JsonType.DOUBLE: 8,
}
"""Bytes of the values that have always as many."""

JSON_DEPTH_MAX = 100
"""Containers in each other, the outermost counted (MySQL `sql-common/json_syntax_check.h`)."""

JSON_SMALL_SIZE_MAX = 0xFFFF
"""Largest size of an object or array in the small form."""

JSON_SIZE_BYTES_MAX = 5
"""Largest number of bytes of the size before a string or an opaque value."""

JSON_SIZE_MAX = 0xFFFFFFFF
"""Largest size that such a size field can store."""

JSON_DECIMAL_HEAD_SIZE = 2
"""Bytes of precision and scale, before the bytes of an opaque DECIMAL, which are those of a column."""

JSON_DECIMAL_DIGITS_MAX = 81
"""Most digits of such a DECIMAL: more than in a column (MySQL `strings/decimal.cc`:
`DECIMAL_MAX_POSSIBLE_PRECISION`)."""

JSON_TIME_SIZE = 8
"""Bytes of an opaque date or time: fields as in DATETIME2 or TIME2 columns, then 24 bits of microseconds, as one
int64."""


class JsonOperation(IntEnum):
    """Kind of a change to a document (MySQL `sql/json_diff.h`: `enum_json_diff_operation`)."""

    REPLACE = 0
    INSERT = 1
    REMOVE = 2
