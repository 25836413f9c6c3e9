"""MySQL's binary JSON and the changes to it: type codes, literals, limits, `JsonOperation`.

`docs/formats/classic.md` describes documents (MySQL `sql-common/json_binary.h`). A change to one (`sql/json_diff.h`) is
its operation (1 byte), a path such as `$.a[2]."long name"`, and, but for a REMOVE, the new value, a document. The sizes
before both are those of the client protocol.
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
