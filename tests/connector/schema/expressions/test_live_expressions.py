"""Expressions of generated columns that a live server computes: each value is the server's, or unknown.

`python -m tests.connector.schema.expressions.test_live_expressions SERVER SEED` asks another server
(`binlog_lab.demo.mariadb.installed.find_server`), or for other rows.
"""

from __future__ import annotations

import datetime
import json
import random
import sys
from collections import Counter
from decimal import Decimal
from typing import TYPE_CHECKING

import pyarrow as pa
import pymysql
import pytest

from binlog_connector.schema.expressions.generated_values import GeneratedValues
from binlog_connector.schema.expressions.operands import NotComputedError
from binlog_format.rows.declared.declared_types import Generated
from binlog_format.rows.decoding import DEFAULT_DECODING
from binlog_format.vendor import Vendor
from binlog_lab.demo.mariadb.installed import find_server
from tests.connector.schema.test_ddl import after, table
from tests.judge.servers import LiveServer
from tests.servers import mariadb_of_path

if TYPE_CHECKING:
    from pymysql.cursors import Cursor

ROWS = 120
EPOCH = datetime.datetime(1970, 1, 1)  # noqa: DTZ001 - a DATETIME has no time zone
TABLE = (
    "CREATE TABLE t (id INT PRIMARY KEY, i INT, u INT UNSIGNED, b BIGINT, s TINYINT, p DECIMAL(10,2), q DECIMAL(18,6),"
    " v VARCHAR(60), w VARCHAR(60) CHARACTER SET latin1, c CHAR(10), x TEXT, e ENUM('new','paid','Sent'), d DATE,"
    " m DATETIME, f DATETIME(3), j JSON, n BINARY(16), y VARBINARY(20), t TIMESTAMP NULL,"
    " r DOUBLE, k TIME) CHARACTER SET utf8mb4"
)
KINDS = {
    "id": pa.int32(),
    "i": pa.int32(),
    "u": pa.uint32(),
    "b": pa.int64(),
    "s": pa.int8(),
    "p": pa.decimal128(10, 2),
    "q": pa.decimal128(18, 6),
    "d": pa.date32(),
    "m": pa.timestamp("us"),
    "f": pa.timestamp("us"),
    "n": pa.binary(),
    "y": pa.binary(),
    "t": pa.timestamp("us"),
    "r": pa.float64(),
    "k": pa.duration("us"),
}
NAMES = ["id", *"iubspqvwcxedmfjnytrk"]
EXPRESSIONS = {
    "BIGINT": [
        "i + 1", "i - u", "i * s", "-i", "u - 1", "i % 7", "i DIV 3", "MOD(b, 10)", "ABS(i)", "s * s * s", "b + b",
        "YEAR(d)", "MONTH(m)", "DAYOFMONTH(d)", "QUARTER(d)", "HOUR(m)", "MINUTE(m)", "SECOND(f)", "WEEKDAY(d)",
        "DAYOFWEEK(d)", "DAYOFYEAR(d)", "YEAR(d) * 100 + MONTH(d)", "YEAR(d + INTERVAL 6 MONTH)",
        "LENGTH(v)", "LENGTH(w)", "CHAR_LENGTH(v)",
        "CHAR_LENGTH(CONCAT(v, c))", "IF(i > 0, i, NULL)", "IF(p >= 10.5, 1, 0)",
        "CASE WHEN i IS NULL THEN 0 ELSE i END",
        "CASE s WHEN 1 THEN 10 WHEN 2 THEN 20 END", "IF(e = 'paid', id, NULL)", "IF(v = 'abc', 1, 0)", "v <> 'ABC'",
        "COALESCE(i, s, 0)", "IFNULL(i, u)", "i = s", "i > 0 AND s > 0", "i IS NULL OR s < 5", "JSON_EXTRACT(j, '$.a')",
        "CAST(i AS SIGNED)", "CAST(JSON_EXTRACT(j, '$.a') AS UNSIGNED)", "JSON_VALUE(j, '$.a')", "ROUND(p)", "p", "q",
        "JSON_UNQUOTE(JSON_EXTRACT(j, '$.n.k'))", "IF(t IS NULL, 1, NULL)", "r IS NOT NULL", "ISNULL(k)",
        "s IN (1, 2, 127)", "i NOT IN (0, s)", "e IN ('new', 'paid')", "v IN ('abc', 'zz', '12')", "i BETWEEN -5 AND s",
        "p NOT BETWEEN 0 AND 10.5", "NOT s", "NOT i = 1 AND s > 0", "NULLIF(i, 0)", "NULLIF(p, 0)", "GREATEST(i, s)",
        "LEAST(p, q, 0)", "FLOOR(q)", "CEIL(p)", "CEILING(q)", "FLOOR(p / 1)", "FLOOR(i)", "CRC32(v)", "CRC32(w)",
        "CRC32(i)",
        "CRC32(n)", "CRC32(CONCAT(v, p))", "DATEDIFF(d, m)", "TO_DAYS(m)", "TO_DAYS(d)", "LENGTH(y)", "LENGTH(n)",
        "UNIX_TIMESTAMP(t)", "d < m", "d <= LAST_DAY(d)", "m > f", "s = 1 OR v = 'abc'", "e = 'new' AND s IN (1, 5)",
        "CASE WHEN e IN ('new', 'paid') THEN 1 WHEN t IS NULL THEN 2 ELSE NULL END",
    ],
    "INT": ["b", "q * 3", "JSON_EXTRACT(j, '$.l[1]')", "v"],
    "TINYINT(1)": ["i IS NOT NULL", "i = 1", "s", "TRUE"],
    "INT UNSIGNED": ["i", "u + 1"],
    "DECIMAL(12,2)": [
        "p * i", "p + q", "p - q", "q * 1.5", "-p", "ROUND(q, 1)", "CAST(q AS DECIMAL(6,1))", "i",
        "p * 0.19",
    ],
    "DECIMAL(30,10)": ["q * q", "p * p * p", "q - 0.000001", "IF(i > 0, p, q)", "COALESCE(p, i)"],
    "DOUBLE": ["p", "i * 2", "q"],
    "VARCHAR(200)": [
        "CONCAT(v, ' <', x, '>')", "CONCAT(i, '-', p)", "CONCAT(d, ' ', m, f)", "CONCAT_WS('/', i, v, c)", "LOWER(v)",
        "UPPER(w)", "LEFT(v, 3)", "RIGHT(v, 3)", "SUBSTRING(v, 2)", "SUBSTR(v, 2, 3)", "MID(x, 1, 5)", "TRIM(v)",
        "LTRIM(v)", "RTRIM(v)", "REVERSE(v)", "REPLACE(v, 'a', 'bb')", "SUBSTRING_INDEX(v, '@', -1)",
        "SUBSTRING_INDEX(x, ',', 2)", "LPAD(id, 8, '0')", "MD5(v)", "SHA1(CONCAT(i, v))", "SHA2(v, 256)", "MD5(w)",
        "DATE_FORMAT(m, '%Y-%m-%d %H:%i:%s')", "DATE_FORMAT(d, '%Y%m')",
        "CONCAT(d + INTERVAL 1 DAY, m + INTERVAL 1 HOUR)",
        "JSON_UNQUOTE(JSON_EXTRACT(j, '$.s'))",
        "JSON_VALUE(j, '$.s')", "JSON_VALUE(j, '$.l[0]')", "JSON_UNQUOTE(JSON_EXTRACT(j, '$.z'))", "IFNULL(v, 'none')",
        "IF(s > 0, v, x)", "CASE e WHEN 'new' THEN 'n' ELSE v END", "e", "i", "p", "q", "d", "c", "CAST(i AS CHAR)",
        "CONCAT(p * 2, q + 1)", "CONCAT(i DIV 2, s % 3)", "CONCAT(IF(i > 0, 1, 2.50))", "j",
        "HEX(y)", "LOWER(HEX(n))", "HEX(v)", "HEX(w)", "HEX(i)", "HEX(u)", "HEX(b)",
        "BIN_TO_UUID(n)", "MD5(y)", "SHA1(n)", "SHA2(y, 224)", "NULLIF(v, '')", "NULLIF(v, 'abc')",
        "CONCAT(GREATEST(i, s))",
        "CONCAT(FLOOR(q), CEIL(p))", "CONCAT(LEAST(p, i))",
    ],
    "VARCHAR(4)": ["v", "CONCAT(i)", "x"],
    "CHAR(12)": ["v", "CONCAT(c, ' ')", "MD5(v)"],
    "TEXT": ["CONCAT(v, w, x)", "x"],
    "VARCHAR(80) CHARACTER SET latin1": ["w", "v", "CONCAT(i, w)"],
    "BINARY(16)": ["UNHEX(MD5(v))", "UNHEX(MD5(CONCAT(i, '|', v)))"],
    "DATE": [
        "LAST_DAY(d)", "LAST_DAY(m)", "GREATEST(d, DATE(m))",
        "d", "DATE(m)", "DATE(f)", "CAST(m AS DATE)", "m", "d + INTERVAL 1 DAY", "DATE_ADD(d, INTERVAL 1 MONTH)",
        "d - INTERVAL 2 WEEK", "DATE_SUB(d, INTERVAL 1 QUARTER)", "d + INTERVAL s YEAR", "DATE(m) + INTERVAL i DAY",
    ],
    "DATETIME": [
        "m", "IF(i > 0, m, NULL)", "d", "m + INTERVAL 30 DAY", "m - INTERVAL i MINUTE", "d + INTERVAL 36 HOUR",
        "DATE_ADD(m, INTERVAL '3' MONTH)", "m + INTERVAL s MONTH", "m - INTERVAL u SECOND",
    ],
    "DATETIME(6)": ["f", "m", "f + INTERVAL 1 SECOND", "ADDDATE(f, INTERVAL -1 YEAR)", "SUBDATE(f, INTERVAL b DAY)"],
}  # fmt: skip
"""Expressions by the types of their columns."""
REFUSED = object()
COMPUTED_MIN = 0.6
"""Least part of all values that is known."""


def value(random_: random.Random, name: str) -> object:
    if name != "id" and random_.random() < 0.06:
        return None
    if name == "id":
        raise AssertionError("each row has its own")
    match name:
        case "i" | "b":
            return random_.choice([0, 1, -1, 7, random_.randint(-(2**31), 2**31 - 1), random_.randint(-100, 100)])
        case "u":
            return random_.choice([0, 1, 2**32 - 1, random_.randint(0, 1000)])
        case "s":
            return random_.choice([0, 1, 2, 5, -128, 127])
        case "p":
            return Decimal(random_.choice([0, 1, -1, 999, 1050, 99_999_999, random_.randint(-(10**9), 10**9)])).scaleb(
                -2
            )
        case "q":
            return Decimal(random_.choice([0, 1, -1, 500_000, random_.randint(-(10**12), 10**12)])).scaleb(-6)
        case "v" | "x" | "w" | "c":
            texts = [
                "",
                "a",
                "abc",
                "ABC ",
                "abd",
                " x ",
                "ann@example.org",
                "a,b,c",
                "12",
                "-7.5",
                "grün",
                "x" * 10,
                "0012",
            ]
            return random_.choice(texts if name in "wc" else [*texts, "日本語", "😀 ok", "y" * 40]).rstrip(
                " " if name == "c" else ""
            )
        case "d":
            return datetime.date(1970, 1, 1) + datetime.timedelta(days=random_.randint(-100_000, 100_000))
        case "m" | "f":
            moment = EPOCH + datetime.timedelta(seconds=random_.randint(-(10**9), 3 * 10**9))
            return moment + datetime.timedelta(milliseconds=random_.randint(0, 999) if name == "f" else 0)
        case "j":
            return document(random_)
    return other(random_, name)


def other(random_: random.Random, name: str) -> object:
    if name in "ny":
        random_bytes = bytes(random_.randint(0, 255) for _ in range(random_.choice([0, 1, 15, 16])))
        return random_.choice([random_bytes, b"\0" * 3, b"ab \0\0", b"x" * 16])
    if name == "e":
        return random_.choice(["new", "paid", "Sent"])
    if name == "t":
        return EPOCH + datetime.timedelta(seconds=random_.randint(1, 2**31 - 1))
    return random_.choice([0.5, -1e30, 3.0] if name == "r" else ["00:00:00", "-12:30:00", "838:59:59"])


def document(random_: random.Random) -> str:
    leaf = random_.choice([1, -5, 0, 2.5, "x", "7", 'q"uote', "ä", True, None, [1], {"k": 1}, 2**40])
    return json.dumps(
        {"a": leaf, "s": random_.choice(["t", leaf]), "n": {"k": leaf}, "l": [leaf, 3]}, ensure_ascii=False
    )


def shown(array: pa.Array) -> list[object]:
    texts: list[object] = []
    for item in array.to_pylist():
        if isinstance(item, bytes):
            texts.append(item.hex())
        elif isinstance(item, datetime.datetime):
            texts.append(item.isoformat(" "))
        else:
            texts.append(item if item is None else str(int(item) if isinstance(item, bool) else item))
    return texts


def compare(cursor: Cursor, vendor: Vendor, seed: str) -> tuple[list[str], Counter[str]]:
    random_ = random.Random(seed)
    cursor.execute("SET SESSION sql_mode = '', time_zone = '+00:00'")
    cursor.execute("CREATE DATABASE IF NOT EXISTS shop")
    cursor.execute("USE shop")
    cursor.execute("DROP TABLE IF EXISTS t")
    cursor.execute(TABLE)
    rows = [[number, *(value(random_, name) for name in NAMES[1:])] for number in range(ROWS)]
    cursor.executemany(f"INSERT INTO t VALUES ({', '.join(['%s'] * len(NAMES))})", rows)
    cursor.execute("SELECT * FROM t ORDER BY id")
    held = dict(zip(NAMES, zip(*cursor.fetchall(), strict=True), strict=True))
    wrong: list[str] = []
    counts: Counter[str] = Counter()
    for declared, expressions in EXPRESSIONS.items():
        for expression in expressions:
            counts.update(compare_one(cursor, vendor, held, (declared, expression), wrong))
    return wrong, counts


def read(cursor: Cursor, column: str) -> list[object]:
    """A column of the rows; `REFUSED` where the server cannot compute it."""
    try:
        cursor.execute(f"SELECT {column} FROM t ORDER BY id")
        return [row[0] for row in cursor.fetchall()]
    except pymysql.Error:
        found: list[object] = []
    for number in range(ROWS):
        try:
            cursor.execute(f"SELECT {column} FROM t WHERE id = {number}")
            found += [row[0] for row in cursor.fetchall()]
        except pymysql.Error:
            found.append(REFUSED)
    return found


def compare_one(
    cursor: Cursor, vendor: Vendor, held: dict[str, tuple[object, ...]], column: tuple[str, str], wrong: list[str]
) -> dict[str, int]:
    declared, expression = column
    statement = f"ALTER TABLE t ADD g {declared} AS ({expression}) VIRTUAL"
    try:
        cursor.execute(statement)
    except pymysql.Error:
        return {"refused": 1}
    is_bytes = declared.startswith("BINARY")
    theirs = read(cursor, "LOWER(HEX(g))" if is_bytes else "g")
    cursor.execute("ALTER TABLE t DROP g")
    made = table(after(TABLE, statement))
    definition = next(column for column in made.columns or () if column.name == "g")
    assert definition.generated is Generated.VIRTUAL
    generated = GeneratedValues(definition, made, vendor, DEFAULT_DECODING)
    try:
        arrays = {name: pa.array(held[name], KINDS.get(name, pa.string())) for name in generated.sources}
        found = generated.values(arrays, ROWS)
    except NotComputedError:
        return {"not computed": 1}
    unknown = [False] * ROWS if found.unknown is None else found.unknown.tolist()
    ours = shown(found.array)
    for number, (our, their) in enumerate(zip(ours, theirs, strict=True)):
        if their is REFUSED:
            continue
        expected = shown(pa.array([their]))[0] if isinstance(their, datetime.datetime | bool) else their
        if not unknown[number] and our != (expected if expected is None else str(expected)):
            if definition.declared == "double" and our is not None and float(str(our)) == expected:
                continue
            values = {name: held[name][number] for name in generated.sources}
            wrong.append(f"{declared} AS ({expression}) of {values}: {expected!r}, computed {our!r}")
    return {"known": unknown.count(False), "unknown": unknown.count(True)}


@pytest.mark.server
def test_values_are_those_of_the_server() -> None:
    mariadb_of_path()
    with LiveServer(find_server("mariadb")) as server, server.connect() as connection, connection.cursor() as cursor:
        wrong, counts = compare(cursor, Vendor.MARIADB, "expressions")
    assert not wrong, "\n".join(wrong[:20])
    assert counts["known"] > COMPUTED_MIN * (counts["known"] + counts["unknown"])


if __name__ == "__main__":
    with LiveServer(find_server(sys.argv[1])) as live, live.connect() as made, made.cursor() as asked:
        of = Vendor.MYSQL if live.is_mysql else Vendor.MARIADB
        differences, numbers = compare(asked, of, sys.argv[2])
        sys.stdout.write("\n".join([*differences[:60], live.version, str(dict(numbers)), f"{len(differences)}\n"]))
