"""Chunks by keys of all types: each row once, and never more rows read than a chunk has."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from binlog_connector.schema.snapshot_marks import Purpose
from binlog_streaming.snapshot.shadow import ShadowEngine
from binlog_streaming.snapshot.source_table import read_table
from binlog_streaming.snapshot.table_snapshot import TableSnapshot
from tests.streaming.snapshot.live import run_sql, session_on

if TYPE_CHECKING:
    from binlog_lab.demo.mariadb.server import MariaDbServer
    from binlog_streaming.server.session import ServerSession
    from binlog_streaming.snapshot.marks import Bounds
    from binlog_streaming.snapshot.source_table import SourceTable

pytestmark = pytest.mark.server

ROWS = 400
SIZE = 37
READ_MAX = SIZE + 3
"""Rows that a chunk may read: its own, and one at each end of each range of the index."""
WORD = "CONCAT(CHAR(65 + seq MOD 58 USING latin1), {0}, seq)"

KEYS = {
    "int": ("k INT", "PRIMARY KEY (k)", "seq - 200"),
    "bigint unsigned": ("k BIGINT UNSIGNED", "PRIMARY KEY (k)", "18446744073709550000 + seq * 4"),
    "zerofill": ("k INT(9) UNSIGNED ZEROFILL", "PRIMARY KEY (k)", "seq * 11"),
    "decimal": ("k DECIMAL(40,20)", "PRIMARY KEY (k)", "(seq - 200) / 7"),
    "float": ("k FLOAT", "PRIMARY KEY (k)", "(seq - 200) / 7"),
    "double": ("k DOUBLE", "PRIMARY KEY (k)", "(seq - 200) / 7 * 1e100"),
    "year": ("k YEAR, n INT", "PRIMARY KEY (k, n)", "IF(seq MOD 9, 1901 + seq MOD 200, 0), seq"),
    "date": ("k DATE", "PRIMARY KEY (k)", "IF(seq = 1, '0000-00-00', '1999-12-31' + INTERVAL seq DAY)"),
    "datetime": ("k DATETIME(6)", "PRIMARY KEY (k)", "'2024-02-28 23:59:59.5' + INTERVAL seq * 333333 MICROSECOND"),
    "timestamp": (
        "k TIMESTAMP(3) NOT NULL DEFAULT 0",
        "PRIMARY KEY (k)",
        "FROM_UNIXTIME(1698541200 + seq * 33.333)",  # over the end of summer time
    ),
    "time": ("k TIME(2)", "PRIMARY KEY (k)", "SEC_TO_TIME((seq - 200) * 333.33)"),
    "general ci": (
        "k VARCHAR(30) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci",
        "PRIMARY KEY (k)",
        WORD.format("'ß😀é'"),
    ),
    "unicode ci": ("k VARCHAR(30) COLLATE utf8mb4_unicode_ci", "PRIMARY KEY (k)", WORD.format("'ü'")),
    "uca1400": ("k VARCHAR(30) COLLATE uca1400_as_ci", "PRIMARY KEY (k)", WORD.format("'à'")),
    "swedish": (
        "k CHAR(30) CHARACTER SET latin1 COLLATE latin1_swedish_ci",
        "PRIMARY KEY (k)",
        WORD.format("'åÄÖ '"),
    ),
    "german": ("k CHAR(30) CHARACTER SET latin1 COLLATE latin1_german2_ci", "PRIMARY KEY (k)", WORD.format("'ßÄ'")),
    "binary collation": ("k VARCHAR(30) COLLATE utf8mb4_bin", "PRIMARY KEY (k)", WORD.format("'\\'\"\\\\%'")),
    "no pad": (
        "k VARCHAR(30) COLLATE utf8mb4_nopad_bin",
        "PRIMARY KEY (k)",
        "CONCAT(seq DIV 2, IF(seq MOD 2, ' ', ''))",
    ),
    "sjis": ("k VARCHAR(30) CHARACTER SET sjis", "PRIMARY KEY (k)", WORD.format("_utf8mb4 'ソ表'")),
    "utf16": ("k VARCHAR(30) CHARACTER SET utf16", "PRIMARY KEY (k)", WORD.format("'漢'")),
    "binary": ("k BINARY(6)", "PRIMARY KEY (k)", "UNHEX(LPAD(HEX(seq * 65793), 10, '0'))"),
    "varbinary": ("k VARBINARY(20)", "PRIMARY KEY (k)", "IF(seq = 1, '', UNHEX(MD5(seq)))"),
    "bit": ("k BIT(60)", "PRIMARY KEY (k)", "seq * 123456789"),
    "uuid": ("k UUID", "PRIMARY KEY (k)", "UUID()"),
    "inet6": ("k INET6", "PRIMARY KEY (k)", "CONCAT(HEX(seq MOD 7), '::', HEX(seq))"),
    "inet4": ("k INET4", "PRIMARY KEY (k)", "INET_NTOA(seq * 9999999)"),
    "composite": (
        "a INT, b VARCHAR(9) CHARACTER SET latin1, c DATE",
        "PRIMARY KEY (a, b, c)",
        "seq MOD 3, CHAR(65 + seq MOD 5), '2024-01-01' + INTERVAL seq DAY",
    ),
    "order of the index": ("a INT, b INT", "PRIMARY KEY (b, a)", "seq MOD 7, seq DIV 7"),
    "descending": ("a INT, b INT", "PRIMARY KEY (a DESC, b DESC)", "seq MOD 7, seq"),
    "unique": ("a INT, b INT NOT NULL", "UNIQUE KEY `odd``name` (b)", "NULL, seq"),
}


def table_of(server: MariaDbServer, case: str) -> str:
    """Make the table of a case; its name."""
    columns, key, values = KEYS[case]
    table = f"t{list(KEYS).index(case)}"
    run_sql(
        server,
        [
            f"CREATE TABLE shop.{table} ({columns}, v INT, {key})",
            f"INSERT INTO shop.{table} SELECT {values}, seq FROM shop.seq_1_to_{ROWS} ORDER BY seq * 7919 MOD {ROWS}",
        ],
    )
    return table


def reads(session: ServerSession) -> int:
    counts: dict[str, str] = dict(session.rows("SHOW SESSION STATUS LIKE 'Handler_read%'"))
    return sum(int(counts[name]) for name in ("Handler_read_next", "Handler_read_prev"))


def chunk_rows(session: ServerSession, table: SourceTable, bounds: Bounds) -> list[int]:
    """Numbers of the rows that a chunk has, by a statement like that of the chunk."""
    from binlog_streaming.snapshot.sql_text import rows_statement

    statement = rows_statement(table, "shadow", bounds, "")
    source = statement[statement.index(" FROM ") :]
    return [row[0] for row in session.rows(f"SELECT v{source}")]


@pytest.mark.parametrize("case", KEYS)
def test_chunks_by_a_key_cut_the_table_without_scans(shared_server: MariaDbServer, case: str) -> None:
    name = table_of(shared_server, case)
    with session_on(shared_server) as session:
        table = read_table(session, "shop", name)
        assert table.key is not None
        snapshot = TableSnapshot.start(session, table, Purpose.COMPLETE, ShadowEngine.BLACKHOLE)
        seen: Counter[int] = Counter()
        while not snapshot.is_complete:
            before = reads(session)
            bounds = snapshot.next_bounds(SIZE)
            assert reads(session) - before <= READ_MAX, "the end of the chunk was looked for by a scan"
            seen.update(chunk_rows(session, table, bounds))
            before = reads(session)
            chunk = snapshot.write(bounds)
            assert reads(session) - before <= READ_MAX, "its rows were looked for by a scan"
            assert chunk.row_count == (SIZE if bounds.through is not None else ROWS % SIZE)
        snapshot.end()
    assert seen == dict.fromkeys(range(1, ROWS + 1), 1)


@pytest.mark.parametrize(
    ("columns", "values"),
    [
        ("a INT, v INT", "seq, seq"),
        ("a INT, v INT, UNIQUE KEY (a)", "NULL, seq"),
        ("a TEXT, v INT, PRIMARY KEY (a(5))", "seq, seq"),
        ("a TEXT NOT NULL, v INT, UNIQUE KEY (a)", "seq, seq"),
        ("a INT, b INT, v INT, PRIMARY KEY (a, b DESC)", "seq, seq, seq"),
        ("a ENUM('z','b'), b INT, v INT, PRIMARY KEY (a, b), UNIQUE KEY (b) IGNORED", "1 + seq MOD 2, seq, seq"),
    ],
)
def test_a_table_without_a_key_of_use_is_one_chunk(shared_server: MariaDbServer, columns: str, values: str) -> None:
    insert = f"INSERT INTO shop.keyless SELECT {values} FROM shop.seq_1_to_100"
    run_sql(shared_server, ["DROP TABLE IF EXISTS shop.keyless", f"CREATE TABLE shop.keyless ({columns})", insert])
    with session_on(shared_server) as session:
        table = read_table(session, "shop", "keyless")
        snapshot = TableSnapshot.start(session, table, Purpose.COMPLETE, ShadowEngine.BLACKHOLE)
        assert table.key is None
        chunk = snapshot.write(snapshot.next_bounds(SIZE))
        assert (chunk.row_count, snapshot.is_complete) == (100, True)
        snapshot.end()
        details: list[Any] = session.rows("SELECT detail FROM binlog_stream.snapshot_marks ORDER BY id DESC LIMIT 2")
    assert details[1] == ('{"from": null, "through": null}',)
