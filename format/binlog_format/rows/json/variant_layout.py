"""Parquet's Variant, version 1: types of values, sizes and limits; the Arrow type `VARIANT`."""

from __future__ import annotations

from enum import IntEnum

import pyarrow as pa

VARIANT = pa.struct([pa.field("metadata", pa.binary(), nullable=False), pa.field("value", pa.binary(), nullable=False)])
"""The Arrow type of variants: a dictionary of keys, and a value that names them by numbers."""

JSON_FIELD = {b"binlog-stream.json": b""}
"""Metadata of fields whose texts are JSON: they may become variants."""

VARIANT_SIZE_MAX = 16 << 20
"""Bytes of a value or of its metadata: readers refuse larger ones."""

VARIANT_DEPTH_MAX = 1000
"""Objects and arrays within each other: what Spark reads of a JSON text."""

DECIMAL_DIGITS_MAX = 38
"""Digits of the largest decimal, before and after its point."""

METADATA_VERSION = 1

BASIC_BITS = 2
"""Lowest bits of a value's first byte, which have its `BasicType`; the others depend on it."""


class BasicType(IntEnum):
    """Kinds of values."""

    PRIMITIVE = 0
    SHORT_STRING = 1
    OBJECT = 2
    ARRAY = 3


class PrimitiveType(IntEnum):
    """Types of primitives; JSON has those up to `DECIMAL16`, and `STRING`. `NTZ`: without a time zone."""

    NULL = 0
    TRUE = 1
    FALSE = 2
    INT8 = 3
    INT16 = 4
    INT32 = 5
    INT64 = 6
    DOUBLE = 7
    DECIMAL4 = 8
    DECIMAL8 = 9
    DECIMAL16 = 10
    DATE = 11
    TIMESTAMP = 12
    TIMESTAMP_NTZ = 13
    FLOAT = 14
    BINARY = 15
    STRING = 16
    TIME_NTZ = 17
    TIMESTAMP_NS = 18
    TIMESTAMP_NTZ_NS = 19
    UUID = 20


SHORT_STRING_MAX = 63
"""Bytes of the longest short string."""

SMALL_COUNT_MAX = 255
"""Most members of an object or array whose number is in one byte."""
