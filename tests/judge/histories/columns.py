"""Types of columns, with values that are at their edges or mean something in another type: `TYPES`."""

from __future__ import annotations

from dataclasses import dataclass

BOTH = ("MariaDB", "MySQL")
INTEGERS = (
    *("0", "1", "-1", "5", "10", "70", "127", "-128", "255", "256", "1901", "2155", "32767", "65535", "20240102"),
    *("120000", "2147483647", "-2147483648", "4294967295", "9223372036854775807", "18446744073709551615"),
)
DECIMALS = ("0", "1", "-1.25", "2.5", "3.49", "-0.01", "99.99", "12345.6789", "0.005", "2.555", "99999999.99")
FLOATS = ("0", "1.5", "-0.1", "2.5", "0.3", "123456.789", "16777217", "1e10", "3.4e38", "1e-10", "1e300", "1999")
DATES = ("'2024-01-02'", "'1999-12-31'", "'2155-06-01'", "'1000-01-01'", "'1970-01-01'", "'0001-01-01'")
TIMES = (
    "'00:00:00'",
    "'12:34:56'",
    "'-01:02:03'",
    "'838:59:59'",
    "'12:34:56.789'",
    "'23:59:59.999999'",
    "'00:00:10.5'",
)
MOMENTS = (
    *("'2024-01-02 03:04:05'", "'2024-01-02 03:04:05.678901'", "'1999-12-31 23:59:59.999999'"),
    *("'2024-05-06 00:00:00'", "'2037-12-31 12:00:00.5'", "'1970-01-02 00:00:01.000001'"),
    *("'9999-12-31 23:59:59.999999'", "'2038-01-19 03:14:07.960000'"),
)
WORDS = (
    "''",
    "'a'",
    "'A'",
    "'abc'",
    "'b'",
    "'B'",
    "'c'",
    "'x,y'",
    "'z,x'",
    "'x'",
    "'a  '",
    "'  a'",
    "'open'",
    "'a\\0'",
)
ABROAD = ("'é'", "'ß'", "'漢字'", "'😀'")
LOOKS = (
    *("'5'", "'-1'", "'007'", "'1.5'", "'2.567'", "'1e3'", "'1901'", "'2024-01-02'", "'12:34:56'", "'{\"a\":1}'"),
    *("'2024-01-02 03:04:05'", "'2024-01-02 03:04:05.678'", "'20240102'", "'[1,2]'", "'10.0.0.1'", "'::1'"),
    *(
        "'123E4567-E89B-12D3-A456-426655440000'",
        "'2001:DB8::1'",
        "'::ffff:10.0.0.1'",
        "'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxx'",
    ),
)
TEXTS = (*WORDS, *ABROAD, *LOOKS)
BYTES = (
    "x''",
    "x'00'",
    "x'61'",
    "x'6120'",
    "x'0100'",
    "x'616263'",
    "x'31'",
    "x'32303234'",
    "x'ff'",
    "x'c3a9'",
    "x'0a000001'",
)
UUIDS = ("'123e4567-e89b-12d3-a456-426655440000'", "'ffffffff-ffff-ffff-ffff-ffffffffffff'")
LONG_BYTES = (*BYTES, "x'123e4567e89b12d3a456426655440000'", "x'00000000000000000000000000000001'")
DOCUMENTS = ("'{\"a\": 1}'", "'[1, 2]'", "'\"text\"'", "'5'", "'1.5'", "'null'", '\'{"b":2,"a":"é"}\'')
LATIN = (*WORDS, *ABROAD[:2], *LOOKS)


@dataclass(frozen=True)
class Kind:
    """A type of columns.

    Attributes:
        declared: As in CREATE TABLE.
        values: Literals; some a column of this type may refuse.
        can_be_key: Without a length.
        family: Types between which values mean the same.
    """

    declared: str
    values: tuple[str, ...]
    family: str
    vendors: tuple[str, ...] = BOTH
    can_be_key: bool = True


def _kinds(family: str, values: tuple[str, ...], *declared: str, can_be_key: bool = True) -> list[Kind]:
    return [Kind(one, values, family, can_be_key=can_be_key) for one in declared]


_LATIN = "CHARACTER SET latin1"
TYPES: tuple[Kind, ...] = (
    *_kinds("integer", INTEGERS, "TINYINT", "TINYINT UNSIGNED", "SMALLINT", "SMALLINT UNSIGNED", "MEDIUMINT"),
    *_kinds("integer", INTEGERS, "INT", "INT UNSIGNED", "INT(8) UNSIGNED ZEROFILL", "BIGINT", "BIGINT UNSIGNED"),
    *_kinds("bit", ("b'0'", "b'1'", "5", "255", "97", "1099511627775"), "BIT(1)", "BIT(8)", "BIT(40)"),
    *_kinds("decimal", DECIMALS, "DECIMAL(5,2)", "DECIMAL(10,0)", "DECIMAL(12,4)", "DECIMAL(40,2)", "DECIMAL(40,10)"),
    *_kinds("decimal", DECIMALS, "DECIMAL(10,2) UNSIGNED", "DECIMAL(38,5)"),
    *_kinds("float", FLOATS, "FLOAT", "DOUBLE", "DOUBLE(10,2)", "FLOAT(7,3)"),
    *_kinds("year", ("0", "1901", "2024", "2155", "1970"), "YEAR"),
    *_kinds("date", DATES, "DATE"),
    *_kinds("time", TIMES, "TIME", "TIME(3)", "TIME(6)"),
    *_kinds("datetime", MOMENTS, "DATETIME", "DATETIME(3)", "DATETIME(6)"),
    *_kinds("timestamp", MOMENTS, "TIMESTAMP NULL", "TIMESTAMP(3) NULL", "TIMESTAMP(6) NULL"),
    *_kinds("text", TEXTS, "CHAR(5)", "CHAR(40)", "VARCHAR(3)", "VARCHAR(40)", "VARCHAR(300)"),
    *_kinds("text", TEXTS, "VARCHAR(40) COLLATE utf8mb4_bin", "VARCHAR(40) CHARACTER SET utf16"),
    *_kinds("text", TEXTS, "VARCHAR(40) CHARACTER SET utf8mb3"),
    *_kinds("text", LATIN, f"CHAR(10) {_LATIN}", f"VARCHAR(40) {_LATIN}"),
    *_kinds("text", TEXTS, "TINYTEXT", "TEXT", "LONGTEXT", f"TEXT {_LATIN}", can_be_key=False),
    *_kinds("bytes", LONG_BYTES, "BINARY(3)", "BINARY(16)", "VARBINARY(4)", "VARBINARY(40)"),
    *_kinds("bytes", LONG_BYTES, "TINYBLOB", "BLOB", can_be_key=False),
    *_kinds("enum", ("'a'", "'b'", "'c'", "2"), "ENUM('a','b','c')", "ENUM('A','b','d','c')", "ENUM('c','b','a')"),
    *_kinds("enum", ("'1'", "'2'", "'10'"), "ENUM('10','1','2')"),
    *_kinds("enum", ("'é'", "'ß'", "'x'"), "ENUM('é','ß','x')", f"ENUM('x','é') {_LATIN}"),
    *_kinds(
        "set", ("''", "'x'", "'x,z'", "'x,y,z'"), "SET('x','y','z')", "SET('z','w','x','y')", "SET('X','y','z','a')"
    ),
    Kind("JSON", DOCUMENTS, "json", can_be_key=False),
    Kind("UUID", UUIDS, "uuid", ("MariaDB",)),
    Kind("INET4", ("'10.0.0.1'", "'255.255.255.255'", "'0.0.0.0'"), "inet", ("MariaDB",)),
    Kind("INET6", ("'::1'", "'2001:db8::1'", "'::ffff:10.0.0.1'", "'::'"), "inet", ("MariaDB",)),
    Kind("VARCHAR(40) COMPRESSED", TEXTS, "text", ("MariaDB",), can_be_key=False),
    Kind("POINT", ("ST_GeomFromText('POINT(1 2)')",), "geometry", can_be_key=False),
)


def kinds_of(vendor: str) -> tuple[Kind, ...]:
    """The types that a vendor's servers have."""
    return tuple(kind for kind in TYPES if vendor in kind.vendors)
