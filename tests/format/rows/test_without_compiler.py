"""The kernels are Python too: the same results with `NUMBA_DISABLE_JIT=1`."""

from __future__ import annotations

import json

from tests.corpus import SERVER_CASES
from tests.without_compiler import printed_by

LOG = SERVER_CASES / "mariadb-10.11" / "oltp_small" / "mysql-bin.000001"

# Every value of a few groups of a real log, and of a made table with a column of each family.
PROGRAM = """
import json, sys, zlib
from dataclasses import replace
from pathlib import Path
from decimal import Decimal
import numpy as np
from binlog_format.events.table_map_layout import ColumnType as T
from binlog_format.rows.images import read_images
from binlog_format.rows.table_events import TableMaps
from tests.format.rows.plain_blocks import plain_block, plain_groups
from tests.format.rows.plain_json import Opaque, document
from tests.format.rows.plain_rows import *

columns = [
    PlainColumn(T.TINY, unsigned=False), PlainColumn(T.SHORT, unsigned=True), PlainColumn(T.INT24, unsigned=False),
    PlainColumn(T.LONG, unsigned=True), PlainColumn(T.LONGLONG, unsigned=True),
    PlainColumn(T.FLOAT, b"\\x04", unsigned=False),
    PlainColumn(T.NEWDECIMAL, b"\\x0a\\x02", unsigned=False), PlainColumn(T.NEWDECIMAL, b"\\x1e\\x05", unsigned=False),
    PlainColumn(T.NEWDECIMAL, b"\\x32\\x05", unsigned=False), PlainColumn(T.DATE), PlainColumn(T.DATETIME2, b"\\x03"),
    PlainColumn(T.TIMESTAMP2, b"\\x06"), PlainColumn(T.TIME2, b"\\x02"), PlainColumn(T.BIT, b"\\x01\\x01"),
    PlainColumn(T.YEAR),
    PlainColumn(T.VARCHAR, b"\\x00\\x10", collation=45), PlainColumn(T.BLOB, b"\\x03", collation=8),
    PlainColumn(T.STRING, b"\\xfe\\x04", collation=63), PlainColumn(T.VARCHAR, b"\\x40\\x00", collation=11),
    PlainColumn(T.ENUM, b"\\xf7\\x01", collation=45, labels=("a", "b")),
    PlainColumn(T.SET, b"\\xf8\\x01", collation=45, labels=("x", "y")),
    PlainColumn(T.STRING, b"\\xfe\\x10", collation=63), PlainColumn(T.STRING, b"\\xfe\\x10", collation=63),
    PlainColumn(T.STRING, b"\\xfe\\x04", collation=63), PlainColumn(T.VARCHAR, b"\\x08\\x00", collation=63),
    PlainColumn(T.BLOB, b"\\x01", collation=13), PlainColumn(T.BLOB, b"\\x01", collation=248),
    PlainColumn(T.BLOB, b"\\x01", collation=12), PlainColumn(T.BLOB, b"\\x01", collation=54),
    PlainColumn(T.BLOB, b"\\x01", collation=60), PlainColumn(T.BLOB_COMPRESSED, b"\\x01", collation=14),
    PlainColumn(T.TIME), PlainColumn(T.TIME), PlainColumn(T.DATETIME), PlainColumn(T.DATETIME),
    PlainColumn(T.TIMESTAMP), PlainColumn(T.TIMESTAMP), PlainColumn(T.BLOB, b"\\x01", collation=45),
    PlainColumn(T.JSON, b"\\x04"),
]
tree = [None, True, -7, 70000, 2**63, -2**40, 1.5, -0.0, 1e-20, "a\\x01é", {"k": [[], {}]},
    Opaque(246, bytes.fromhex("0804807b1194"), ""), Opaque(12, bytes(8), ""), Opaque(15, bytes(100), "")]
declared = dict(zip(range(21, 25), ("uuid", "inet6", "inet4", "vector(2)")))
declared |= dict(zip(range(31, 37), ("time", "time(3)", "datetime", "datetime(6)", "timestamp", "timestamp(2)")))
long_text = "plain ASCII of more than thirty-two bytes, " * 2 + "日本"
row = [
    b"\\x80", b"\\xff\\xff", b"\\xff\\xff\\xff", b"\\xff" * 4, b"\\xff" * 8, b"\\x00\\x00\\x80\\x3f",
    decimal_bytes(Decimal("-12345678.90"), 10, 2), decimal_bytes(Decimal("-1234567890123456789012345.00001"), 30, 5),
    decimal_bytes(Decimal("-123456789012345678901234567890123456789012345.00001"), 50, 5), date_bytes(2024, 2, 29),
    b"\\x99\\xb0\\x3f\\x7e\\xfb\\x00\\x0a", timestamp_bytes(2**31 + 7, 5, 6), time_bytes(-1, 838, 59, 59, 990000, 2),
    b"\\x01\\xff", b"\\x7c", sized("aé日😀".encode(), 2), sized(b"\\x80\\xe9", 3), sized(b"ab", 1), sized(b"xyz", 1),
    b"\\x02", b"\\x03",
    sized(b"\\x12\\x3e", 1), sized(bytes(10) + b"\\xff\\xff\\x01\\x02", 1), sized(b"\\x7f\\x00\\x01", 1),
    sized(b"\\x00\\x00\\x80\\x3f\\x00\\x00\\x00\\x80", 1), sized(long_text.encode("shift_jis"), 1),
    sized((long_text + "😀㐀").encode("gb18030"), 1), sized(long_text.encode("euc-jp") + b"\\x8f\\xb0\\xa1", 1),
    sized("aé日😀".encode("utf-16-be"), 1), sized("aé日😀".encode("utf-32-be"), 1),
    sized(b"\\x81\\x06" + zlib.compress("привет".encode("cp1251")), 1),
    (-123456).to_bytes(3, "little", signed=True), ((-5 + 3020400) * 1000 + 7).to_bytes(5, "big"),
    (20240229235959).to_bytes(8, "little"),
    (((((2024 * 13 + 2) * 32 + 29) * 24 + 23) * 3600 + 59) * 10**6 + 5).to_bytes(8, "big"),
    (2**32 - 1).to_bytes(4, "little"), (2**32 - 1).to_bytes(4, "big") + b"\\x63", sized((long_text + "é").encode(), 1),
    sized(document(tree), 4),
]
nulls = [None] * len(row)
some = [i % 2 == 0 for i in range(len(row))]
made = [[
    gtid_event(), table_map(columns), rows_event(WRITE, [row, nulls], len(row)),
    rows_event(UPDATE, [nulls, row], len(row)),
    table_map(columns, table="lean"), rows_event(UPDATE, [row, row], len(row), present=some),
]]
result = []
for groups in (made, plain_groups(Path(sys.argv[1]))[-3:]):
    block = plain_block(groups)
    for touched in TableMaps().resolve(block):
        layout = touched.layout
        if groups is made:
            layout = replace(layout, columns=tuple(
                replace(column, declared=declared.get(index)) for index, column in enumerate(layout.columns)
            ))
        images = read_images(block.data, block.events, touched.events, layout)
        result.append([touched.layout.table, images.table.tolist(), images.offsets.tolist()])
        for index in range(len(touched.layout.columns)):
            array = images.column(index)
            array.validate(full=True)
            result.append([str(array.type), repr(array.to_pylist())])
print(json.dumps(result))
"""


def test_kernels_give_the_same_without_the_compiler() -> None:
    compiled, plain = map(json.loads, printed_by(PROGRAM, LOG))
    assert len(compiled) > 75
    assert plain == compiled
