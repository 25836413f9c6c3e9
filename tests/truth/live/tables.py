"""Tables with a column of every type of MariaDB 10.11, values for them, and what SELECT returns: `EVERY_TYPE`."""

from __future__ import annotations

import random
import re
import struct
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pymysql.cursors import Cursor

    from binlog_lab.demo.mariadb.server import MariaDbServer

    ColumnInfo = dict[str, str | None]

_DOUBLE_STRUCT = struct.Struct("<d")
WORDS = ("", "a", "ümlaut", "漢字", "it's", '"quoted"\\', "line\nbreak", "tab\t", "nul\0byte", "x" * 300)
LATIN = ("", "plain", "ÄÖÜß", "€ and ƒ", "trailing ", "é" * 19)
JAPANESE = ("", "カタカナ", "漢字かな", "ascii", "ソース表示")
EMOJI = (*WORDS, "😀 four bytes", "\U0001f980" * 5)


@dataclass(frozen=True)
class Column:
    """A column of a test table.

    Attributes:
        declared: Its definition in CREATE TABLE.
        values: What is written into it; a callable makes one.
        sql: How a value is written in a statement.
    """

    name: str
    declared: str
    values: Sequence[Any] | Callable[[random.Random], Any]
    sql: str = "%s"

    def value(self, numbers: random.Random) -> Any:
        """A value for a row; now and then NULL."""
        if numbers.random() < 0.12:
            return None
        return self.values(numbers) if callable(self.values) else numbers.choice(self.values)


def _integers(bits: int) -> list[Column]:
    kind = {8: "TINYINT", 16: "SMALLINT", 24: "MEDIUMINT", 32: "INT", 64: "BIGINT"}[bits]
    half, whole = 1 << (bits - 1), 1 << bits
    return [
        Column(f"i{bits}", kind, (-half, -half + 1, -1, 0, 1, half - 1)),
        Column(f"u{bits}", f"{kind} UNSIGNED", (0, 1, half - 1, half, whole - 1)),
    ]


def _times(kind: str, values: Sequence[str]) -> list[Column]:
    suffix = " NULL" if kind == "TIMESTAMP" else ""
    return [Column(f"{kind.lower()}{digits}", f"{kind}({digits}){suffix}", values) for digits in (0, 1, 3, 4, 6)]


def _binary(size_max: int) -> Callable[[random.Random], bytes]:
    return lambda numbers: numbers.randbytes(numbers.choice((0, 1, 2, size_max))) + b"\0" * numbers.randrange(2)


def _uuid(numbers: random.Random) -> str:
    return str(uuid.UUID(bytes=numbers.randbytes(14) + numbers.choice((b"\0\0", b"\1\0", b"\0\1"))))


MOMENTS = ("1970-01-02 03:04:05.678901", "2000-02-29 00:00:00", "2037-12-31 23:59:59.999999", "0000-00-00 00:00:00")
COLUMNS = (
    *(column for bits in (8, 16, 24, 32, 64) for column in _integers(bits)),
    Column("f", "FLOAT", (0.0, 1.5, -0.1, 3.4e38, 1.17549435e-38, 16777217.0)),
    Column("d", "DOUBLE", (0.0, 0.1, -1e308, 5e-324, 1 / 3, 9007199254740993.0)),
    Column("dec10", "DECIMAL(10,2)", ("0", "-0.01", "99999999.99", "1.10")),
    Column("dec65", "DECIMAL(65,30)", ("-" + "9" * 35 + "." + "9" * 30, "0." + "0" * 29 + "1", "0")),
    Column("dec20", "DECIMAL(20,0) UNSIGNED", ("0", "9" * 20, "1000000000")),
    Column("bit1", "BIT(1)", (0, 1)),
    Column("bit9", "BIT(9)", (0, 1, 256, 511)),
    Column("bit64", "BIT(64)", (0, 1 << 63, (1 << 64) - 1)),
    Column("y", "YEAR", (0, 1901, 2024, 2155)),
    Column("da", "DATE", ("0000-00-00", "1000-01-01", "2024-02-29", "9999-12-31", "2024-00-00")),
    *_times("TIME", ("-838:59:59", "838:59:59", "-00:00:00.5", "-12:34:56.789012", "00:00:00", "101:00:00.000001")),
    *_times("DATETIME", (*MOMENTS, "0001-01-01 00:00:00", "9999-12-31 23:59:59.999999")),
    *_times("TIMESTAMP", MOMENTS),
    Column("c1", "CHAR(20) CHARACTER SET latin1", LATIN),
    Column("c4", "CHAR(70)", [word[:70] for word in EMOJI]),
    Column("v4", "VARCHAR(400)", EMOJI),
    Column("v16", "VARCHAR(50) CHARACTER SET utf16", ("", "a", "😀", "漢字", "ß")),
    Column("v32", "VARCHAR(50) CHARACTER SET utf32", ("", "a", "😀", "漢字", "ß")),
    Column("vu", "VARCHAR(50) CHARACTER SET ucs2", ("", "a", "漢字", "ß")),
    Column("vj", "VARCHAR(50) CHARACTER SET sjis", JAPANESE),
    Column("vg", "VARCHAR(50) CHARACTER SET gbk", ("", "汉字", "中文 text")),
    Column("vk", "VARCHAR(50) CHARACTER SET koi8r", ("", "Привет", "text")),
    Column("vc", "VARCHAR(50) CHARACTER SET cp1250", ("", "Žluťoučký", "text")),
    Column("vb", "VARBINARY(300)", _binary(290)),
    Column("bin", "BINARY(16)", _binary(15)),
    Column("tt", "TINYTEXT", [word[:50] for word in EMOJI]),
    Column("tx", "TEXT CHARACTER SET latin1", LATIN),
    Column("lt", "LONGTEXT", lambda numbers: numbers.choice(EMOJI) * numbers.choice((1, 10, 400))),
    Column("bl", "BLOB", _binary(3000)),
    Column("mb", "MEDIUMBLOB", _binary(40000)),
    Column("e", "ENUM('one','two','drei','é')", ("one", "two", "drei", "é")),
    Column("s", "SET('a','b','c','d','e','f','g','h','ü')", ("", "a", "a,h", "b,ü", "a,b,c,d,e,f,g,h,ü")),
    Column("js", "JSON", ('{"a": 1}', "[1, 2.5, null]", '"text"', '{"k": "ü😀"}')),
    Column(
        "g",
        "GEOMETRY",
        ("POINT(1 2)", "LINESTRING(0 0,1 1,2 -2)", "GEOMETRYCOLLECTION(POINT(1 1),LINESTRING(0 0,3 3))"),
        "ST_GeomFromText(%s, 4326)",
    ),
    Column("p", "POINT", ("POINT(1.5 -2.25)", "POINT(0 0)"), "ST_GeomFromText(%s)"),
    Column("uu", "UUID", _uuid),
    Column("i4", "INET4", ("0.0.0.0", "10.1.2.0", "255.255.255.255", "127.0.0.1")),
    Column("i6", "INET6", ("::", "2001:db8::", "::1", "fe80::1:0", "::ffff:1.2.3.0")),
    Column("cz", "VARCHAR(3000) COMPRESSED", lambda numbers: numbers.choice(EMOJI) * numbers.choice((1, 7))),
    Column("cb", "BLOB COMPRESSED", lambda numbers: numbers.randbytes(8) * numbers.choice((0, 1, 300))),
    Column("inv", "INT INVISIBLE", (1, -1, 0)),
)
GENERATED = "gv BIGINT AS (i32 * 2) VIRTUAL, gs VARCHAR(50) AS (CONCAT('g', i32)) STORED"
NOT_BLOBS = tuple(c for c in COLUMNS if not re.match(r"TINYTEXT|TEXT|LONGTEXT|BLOB|MEDIUM|GEOM|POINT|JSON", c.declared))
SOME = tuple(column for column in COLUMNS if column.name in ("u64", "v4", "dec10", "bl", "datetime3", "vj"))


@dataclass(frozen=True)
class LiveTable:
    """A table of the workload.

    Attributes:
        name: Without the database.
        columns: Those that statements write, beside `id`.
        key: What follows the columns in CREATE TABLE.
        options: What follows the parentheses.
    """

    name: str
    columns: tuple[Column, ...]
    key: str = "PRIMARY KEY (id)"
    options: str = "ENGINE=InnoDB"

    @property
    def create(self) -> str:
        """CREATE TABLE."""
        parts = ["id INT NOT NULL", *(f"{column.name} {column.declared}" for column in self.columns)]
        if self.columns is COLUMNS:
            parts.append(GENERATED)
        return f"CREATE TABLE {self.name} ({', '.join([*parts, self.key])}) {self.options} CHARSET=utf8mb4"


EVERY_TYPE = LiveTable("every_type", COLUMNS)
TABLES = (
    EVERY_TYPE,
    LiveTable("not_blobs", NOT_BLOBS),
    LiveTable("some", SOME, "PRIMARY KEY (id), UNIQUE KEY (u64)"),
    LiveTable("no_key", SOME, "KEY (id)"),
    LiveTable("two_keys", SOME, "PRIMARY KEY (dec10, id)"),
    LiveTable("aria", SOME, options="ENGINE=Aria TRANSACTIONAL=0"),
    LiveTable("myisam", SOME, options="ENGINE=MyISAM"),
)


# --- what SELECT returns, in the form of the corpus ------------------


def column_infos(cursor: Cursor, table: str) -> list[ColumnInfo]:
    """The table's columns as `expected.json` has them."""
    cursor.execute(
        "SELECT COLUMN_NAME, DATA_TYPE, COLUMN_TYPE, CHARACTER_SET_NAME FROM information_schema.COLUMNS "
        "WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = %s ORDER BY ORDINAL_POSITION",
        (table,),
    )
    names = ("name", "type", "column_type", "charset")
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def true_rows(cursor: Cursor, table: str, columns: list[ColumnInfo], when: str = "") -> list[list[Any]]:
    """All rows of a table, in the form of `expected.json`; *when*: FOR SYSTEM_TIME ..., of a versioned one."""
    expressions = [expression for column in columns for expression in _expressions(column)]
    cursor.execute(f"SELECT {', '.join(expressions)} FROM {quoted(table)} {when}")
    rows = []
    for found in cursor.fetchall():
        values = iter(found)
        rows.append([_truth(column, [next(values) for _ in _expressions(column)]) for column in columns])
    return rows


def quoted(name: str) -> str:
    """A name, as statements have it."""
    doubled = name.replace("`", "``")
    return f"`{doubled}`"


def _expressions(column: ColumnInfo) -> list[str]:
    name, kind = quoted(str(column["name"])), column["type"]
    if kind in ("enum", "set"):
        return [f"CAST({name}+0 AS CHAR)", f"HEX({name})"]
    if kind == "bit":
        return [f"CAST({name}+0 AS CHAR)"]
    if kind == "float":
        return [f"CAST(CAST({name} AS DOUBLE) AS CHAR)"]
    if kind == "double":
        return [f"CAST({name} * 1e0 AS CHAR)"]  # also of a DOUBLE(m, d), whose text is rounded
    if kind == "uuid":
        return [f"CAST({name} AS CHAR)", f"REPLACE({name}, '-', '')"]
    if kind in ("inet4", "inet6"):
        return [f"CAST({name} AS CHAR)", f"HEX(INET6_ATON(CAST({name} AS CHAR)))"]
    if column["charset"] is not None or kind in _HEX_TYPES:
        return [f"HEX({name})"]
    return [f"CAST({name} AS CHAR)"]


_BYTES = ("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob")
_SHAPES = ("point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon", "geometrycollection")
_HEX_TYPES = (*_BYTES, "geometry", *_SHAPES)


def _truth(column: ColumnInfo, values: list[Any]) -> Any:
    kind, first = column["type"], values[0]
    if first is None:
        return None
    if kind in ("enum", "set"):
        return {"idx": first, "hex": values[1]}
    if kind in ("float", "double"):
        return {"num": first, "f64le": _DOUBLE_STRUCT.pack(float(first)).hex()}
    if kind in ("uuid", "inet4", "inet6"):
        return {"text": first, "hex": values[1]}
    if column["charset"] is not None or kind in _HEX_TYPES:
        return {"hex": first}
    return first


def fill_every_type(server: MariaDbServer, rows: int, *, seed: int) -> None:
    """Make `shop.every_type`, with so many rows."""
    numbers = random.Random(seed)
    names = ", ".join(column.name for column in COLUMNS)
    values = ", ".join(column.sql for column in COLUMNS)
    with server.connect(database="shop") as connection, connection.cursor() as cursor:
        cursor.execute("SET SESSION sql_mode = ''")
        cursor.execute(EVERY_TYPE.create)
        for number in range(rows):
            row = [column.value(numbers) for column in COLUMNS]
            cursor.execute(f"INSERT INTO every_type (id, {names}) VALUES ({number}, {values})", row)
