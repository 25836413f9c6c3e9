"""Table map events on disk: `ColumnType`, `MetadataField`, places in the event, sizes of type metadata.

`docs/formats/classic.md` describes them (MariaDB `sql/log_event.h`: `Table_map_log_event`; MySQL the same).

Columns that MariaDB adds behind those of a table: hashes of unique keys that are too long for an index.

`UNIQUE` over a TEXT, over a long VARCHAR, or with `USING HASH` gets a column `DB_ROW_HASH_<n>`, a BIGINT UNSIGNED that
no statement can name (MariaDB sql/sql_table.cc: add_hash_field). Row events and table maps have it, after all others.
"""

from __future__ import annotations

import re
from enum import IntEnum
from typing import TYPE_CHECKING

from binlog_format.events.layout import EVENT_HEADER_SIZE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from binlog_format.events.table_map import Column


TABLE_ID_OFFSET = EVENT_HEADER_SIZE
TABLE_ID_SIZE = 6
TABLE_FLAGS_OFFSET = TABLE_ID_OFFSET + TABLE_ID_SIZE
TABLE_BODY_OFFSET = TABLE_FLAGS_OFFSET + 2
"""Start of the database name; from here on, equal tables have equal bytes."""

ROWS_FLAG_NO_FOREIGN_KEY_CHECKS = 1 << 1
"""Flag of a row event, in its low byte (MariaDB sql/log_event.h: NO_FOREIGN_KEY_CHECKS_F)."""

ROWS_FLAG_SQL_FOREIGN_KEYS = 1 << 4
"""Flag of a row event, in its low byte (MySQL from 9.6 on, sql/log_event.h: USE_SQL_FOREIGN_KEY_F).

The SQL layer does what foreign keys do, and logs it. Without the flag InnoDB does it, below the log: as with
`innodb_native_foreign_keys=ON`, and where a replica logs what an older source sent."""

# MariaDB sql/log_event.h: a row event of this table changes nothing, it only marks that the statement has ended.
DUMMY_TABLE_ID = 0x00FFFFFF

# MariaDB sql/sql_const.h: MAX_FIELDS.
COLUMN_COUNT_MAX = 4096

VARINT_1_BYTE_MAX = 0xFA
VARINT_SIZES = {0xFC: 2, 0xFD: 3, 0xFE: 8}


class ColumnType(IntEnum):
    """Type codes of columns (MariaDB `include/mysql.h.pp`: `enum_field_types`); the second line where MySQL alone."""

    DECIMAL = 0  # before MySQL 5.0
    TINY = 1
    SHORT = 2
    LONG = 3
    FLOAT = 4
    DOUBLE = 5
    NULL = 6
    TIMESTAMP = 7  # mysql56_temporal_format=OFF, as TIME and DATETIME
    LONGLONG = 8
    INT24 = 9
    DATE = 10
    TIME = 11
    DATETIME = 12
    YEAR = 13
    NEWDATE = 14
    VARCHAR = 15
    BIT = 16
    TIMESTAMP2 = 17
    DATETIME2 = 18
    TIME2 = 19
    BLOB_COMPRESSED = 140  # MariaDB
    VARCHAR_COMPRESSED = 141  # MariaDB
    VECTOR = 242  # MySQL
    TYPED_ARRAY = 243  # MySQL: what an index over the elements of a JSON array is made of
    JSON = 245  # MySQL
    NEWDECIMAL = 246
    ENUM = 247
    SET = 248
    TINY_BLOB = 249
    MEDIUM_BLOB = 250
    LONG_BLOB = 251
    BLOB = 252
    VAR_STRING = 253
    STRING = 254
    GEOMETRY = 255


TYPE_METADATA_SIZES = {
    ColumnType.FLOAT: 1,  # bytes of the value
    ColumnType.DOUBLE: 1,
    ColumnType.VARCHAR: 2,  # longest value in bytes
    ColumnType.VARCHAR_COMPRESSED: 2,
    ColumnType.BIT: 2,  # bits beyond whole bytes, whole bytes
    ColumnType.TIMESTAMP2: 1,  # digits of the fraction of a second
    ColumnType.DATETIME2: 1,
    ColumnType.TIME2: 1,
    ColumnType.NEWDECIMAL: 2,  # precision, scale
    ColumnType.ENUM: 2,  # real type, bytes of the value
    ColumnType.SET: 2,
    ColumnType.VAR_STRING: 2,
    ColumnType.STRING: 2,  # real type and high bits of the longest value's size, its low byte
    ColumnType.BLOB: 1,  # bytes of the size before a value
    ColumnType.TINY_BLOB: 1,
    ColumnType.MEDIUM_BLOB: 1,
    ColumnType.LONG_BLOB: 1,
    ColumnType.BLOB_COMPRESSED: 1,
    ColumnType.JSON: 1,
    ColumnType.GEOMETRY: 1,
    ColumnType.VECTOR: 1,
}
"""Bytes of type metadata; 0 for the types that are not here.

Of a TYPED_ARRAY: the type of the elements, and its metadata.
"""

TYPED_VARCHAR_METADATA_SIZE = 3
"""The size if the elements of a TYPED_ARRAY are VARCHARs: an exception."""

TYPED_ARRAY_SIZE_BYTES = 4
"""Bytes of the size before a value; the metadata of a TYPED_ARRAY is in its parsed form, as for other types."""

# A STRING's longest value may need 10 bits: the upper two are stored, inverted, in bits 4 and 5 of the real type.
STRING_TYPE_BITS = 0x30

OLD_TEMPORAL_TYPES = frozenset({ColumnType.TIME, ColumnType.DATETIME, ColumnType.TIMESTAMP})
"""Types of MariaDB with `mysql56_temporal_format=OFF`: the log lacks their number of fractional digits."""

NUMERIC_TYPES = frozenset(
    {
        ColumnType.TINY,
        ColumnType.SHORT,
        ColumnType.INT24,
        ColumnType.LONG,
        ColumnType.LONGLONG,
        ColumnType.FLOAT,
        ColumnType.DOUBLE,
        ColumnType.NEWDECIMAL,
        ColumnType.YEAR,
    }
)
"""Types that have a bit in SIGNEDNESS."""

CHARACTER_TYPES = frozenset(
    {
        ColumnType.VARCHAR,
        ColumnType.VAR_STRING,
        ColumnType.STRING,
        ColumnType.BLOB,
        ColumnType.TINY_BLOB,
        ColumnType.MEDIUM_BLOB,
        ColumnType.LONG_BLOB,
        ColumnType.BLOB_COMPRESSED,
        ColumnType.VARCHAR_COMPRESSED,
        ColumnType.VECTOR,
    }
)
"""Types that DEFAULT_CHARSET and COLUMN_CHARSET speak of; binary strings are among them, with the charset `binary`.

MariaDB counts GEOMETRY too, as binary; MySQL does not.
"""


class MetadataField(IntEnum):
    """Types of optional metadata (MariaDB `sql/log_event.h`: `Optional_metadata_field_type`)."""

    SIGNEDNESS = 1  # one bit for each numeric column, highest bit first, 1 = unsigned
    DEFAULT_CHARSET = 2  # collation, then pairs of index among the character columns and collation
    COLUMN_CHARSET = 3  # collation of each character column
    COLUMN_NAME = 4
    SET_STR_VALUE = 5  # for each SET column: count, texts
    ENUM_STR_VALUE = 6
    GEOMETRY_TYPE = 7
    SIMPLE_PRIMARY_KEY = 8  # column indices
    PRIMARY_KEY_WITH_PREFIX = 9  # pairs of column index and prefix length, 0 = the whole column
    ENUM_AND_SET_DEFAULT_CHARSET = 10
    ENUM_AND_SET_COLUMN_CHARSET = 11
    COLUMN_VISIBILITY = 12  # MySQL
    VECTOR_DIMENSIONALITY = 13  # MySQL


_HASH_NAME = re.compile(r"DB_ROW_HASH_\d+")


def declared_count(columns: Sequence[Column]) -> int:
    """Number of *columns* before those that have the name and the type of a hash."""
    count = len(columns)
    while count and _HASH_NAME.fullmatch(columns[count - 1].name or "") and can_be_hash(columns[count - 1]):
        count -= 1
    return count


def can_be_hash(column: Column) -> bool:
    """True if a column has the type of a hash."""
    return column.type is ColumnType.LONGLONG and column.unsigned is not False
