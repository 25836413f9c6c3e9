"""Thirty messy tables, older than their log, under four writers: complete and proved by both methods, equal by SELECT.

`BINLOG_STREAM_BIG_ROWS` sets the rows of the largest one: 2,000,000 take some minutes for each server and method.
"""

from __future__ import annotations

import contextlib
import logging
import os
import random
import threading
import time
from dataclasses import dataclass
from queue import Empty, Queue
from typing import TYPE_CHECKING

import pyarrow as pa
import pymysql
import pytest
from pymysql.cursors import SSCursor

from binlog_lab.demo.processes import JobProcess
from binlog_streaming.settings import load_job
from tests.judge.histories.history import tables_as_read
from tests.judge.tables import differences, read_targets
from tests.program import run_program
from tests.servers import ServerKind, as_installed
from tests.streaming.prove.proofs import held
from tests.streaming.snapshot.live import BLACKHOLE, run_sql, url_of
from tests.streaming.snapshot.storm import LOST_TO_OTHERS, working

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from binlog_lab.demo.mariadb.server import DatabaseServer
    from binlog_lab.demo.reports import DemoJobReport

pytestmark = [pytest.mark.server, pytest.mark.spark, pytest.mark.slow, pytest.mark.thorough]

LOGGER = logging.getLogger(__name__)
ROWS = 400
BIG_ROWS = int(os.environ.get("BINLOG_STREAM_BIG_ROWS", "100000"))
WRITERS = 4
PAUSE_S = 0.02
FETCHED = 50_000
NEAR = 1 << 20
"""Bytes of the log that a job may be behind when its tables are proved."""
PATIENCE_S = 300
WORD = "CONCAT(CHAR(65 + seq MOD 58 USING latin1), {0}, seq)"
JOB = """
checkpoint = "checkpoint"
[source]
path = "{log}"
[sink]
directory = "tables"
[[tables]]
select = 'shop\\.(parents|children)'
foreign_keys = "apply"
begin = "snapshot"
[[tables]]
select = 'shop\\..*'
begin = "snapshot"
"""


@dataclass(frozen=True)
class MessyTable:
    """A table with its own columns, and with `v`, the number of a row, and `n`, which writers change.

    Attributes:
        values: An expression of `seq` for each.
        more: Keys, and all that follows the columns; `v` is the primary key if it is empty.
        others: Columns without a value of their own.
        changes: What writers do beside changes of `n`: assignments.
    """

    columns: str
    values: tuple[str, ...]
    more: str = ""
    options: str = ""
    others: str = ""
    changes: tuple[str, ...] = ()

    @property
    def names(self) -> list[str]:
        """Names of the columns that get a value."""
        return [*(column.split()[0] for column in self.columns.split("; ") if column), "v", "n"]

    def create(self, name: str) -> str:
        """Statement that makes it."""
        parts = [*filter(None, self.columns.split("; ")), "v INT NOT NULL", "n INT"]
        parts += [*filter(None, [self.others, self.more or "PRIMARY KEY (v)"]), "KEY (v)"]
        return f"CREATE TABLE {name} ({', '.join(parts)}) {self.options}"

    def insert(self, name: str, numbers: str) -> str:
        """Statement that adds rows, whose numbers are those of *numbers*."""
        values = ", ".join([*self.values, "seq", "0"])
        return f"INSERT IGNORE INTO {name} ({', '.join(self.names)}) SELECT {values} FROM {numbers}"

    def move(self, name: str, row: int, to: int) -> str:
        """Statement that gives a row another number, and so another key."""
        pairs = zip(self.names, [*self.values, "seq", "n"], strict=True)
        changed = ", ".join(f"{column} = {value.replace('seq', str(to))}" for column, value in pairs)
        return f"UPDATE IGNORE {name} SET {changed} WHERE v = {row}"


CASE = ("k = UPPER(k)", "k = LOWER(k)")
"""The same key for a collation that folds letters."""
K = "PRIMARY KEY (k)"
TABLES = {
    "ints": MessyTable("", ()),
    "bigs": MessyTable("k BIGINT UNSIGNED", ("18446744073709550000 + seq MOD 1500",), K),
    "zerofill": MessyTable("k INT(9) UNSIGNED ZEROFILL; m MEDIUMINT", ("seq * 11", "-seq"), K),
    "decimals": MessyTable("k DECIMAL(40,20); d DECIMAL(9,0)", ("(seq - 200) / 7", "seq"), K),
    "doubles": MessyTable("k DOUBLE; f FLOAT", ("(seq - 200) / 7 * 1e100", "seq / 3"), K),
    "bits": MessyTable("k BIT(60); y YEAR", ("seq * 123456789", "1901 + seq MOD 200"), K),
    "times": MessyTable("k TIME(3)", ("SEC_TO_TIME((seq - 200) * 33.333)",), K),
    "datetimes": MessyTable("k DATETIME(6)", ("'2024-02-28 23:59:59.5' + INTERVAL seq * 333333 MICROSECOND",), K),
    "dates": MessyTable("k DATE", ("DATE('1999-12-31') + INTERVAL seq DAY",), K),
    "stamps": MessyTable(
        "k TIMESTAMP(3) NOT NULL DEFAULT '2020-01-01'", ("FROM_UNIXTIME(1698541200 + seq * 33.5)",), K
    ),
    "general_ci": MessyTable("k VARCHAR(30) COLLATE utf8mb4_general_ci", (WORD.format("'ß😀é'"),), K, changes=CASE),
    "unicode_ci": MessyTable("k VARCHAR(30) COLLATE utf8mb4_unicode_ci", (WORD.format("'ü'"),), K, changes=CASE),
    "swedish": MessyTable(
        "k CHAR(30) CHARACTER SET latin1 COLLATE latin1_swedish_ci", (WORD.format("'åÄÖ '"),), K, changes=CASE
    ),
    "binary_text": MessyTable("k VARCHAR(30) COLLATE utf8mb4_bin", (WORD.format("'\\'\"\\\\%'"),), K, changes=CASE),
    "sjis": MessyTable("k VARCHAR(30) CHARACTER SET sjis", (WORD.format("_utf8mb4 'ソ表'"),), K),
    "utf16": MessyTable("k VARCHAR(30) CHARACTER SET utf16; t TEXT", (WORD.format("'漢'"), "REPEAT('ä', seq)"), K),
    "binaries": MessyTable("k BINARY(6); b BLOB", ("UNHEX(LPAD(HEX(seq * 65793), 10, '0'))", "UNHEX('00FF')"), K),
    "varbinaries": MessyTable("k VARBINARY(20)", ("LEFT(UNHEX(SHA2(seq, 256)), 16)",), K),
    "composite": MessyTable(
        "a INT; b VARCHAR(9) CHARACTER SET latin1; c DATE",
        ("seq MOD 3", "CHAR(65 + seq MOD 5)", "DATE('2024-01-01') + INTERVAL seq DAY"),
        "PRIMARY KEY (a, b, c)",
    ),
    "index_order": MessyTable("a INT; b INT", ("seq MOD 7", "seq DIV 7"), "PRIMARY KEY (b, a)"),
    "descending": MessyTable("a INT; b INT", ("seq MOD 7", "seq"), "PRIMARY KEY (a DESC, b DESC)"),
    "unique_only": MessyTable("a INT; b INT NOT NULL", ("NULL", "seq"), "UNIQUE KEY `odd``name` (b)"),
    "keyless": MessyTable("a INT; b VARCHAR(20)", ("seq MOD 50", "'b'"), "KEY (a)"),
    "doubled": MessyTable("t TEXT; x VARBINARY(9)", ("IF(seq MOD 3, 'same', NULL)", "''"), "KEY (n)"),
    "computed": MessyTable("", (), others="t DECIMAL(12,2) AS (n * 1.5) STORED, w BIGINT AS (n + 1) VIRTUAL"),
    "parents": MessyTable("name VARCHAR(20)", ("'p'",)),
    "children": MessyTable(
        "p INT; q INT",
        ("IF(seq MOD 5, 1 + seq MOD 97, NULL)", "1 + seq MOD 89"),
        "PRIMARY KEY (v), FOREIGN KEY (p) REFERENCES parents (v) ON DELETE SET NULL,"
        " FOREIGN KEY (q) REFERENCES parents (v) ON DELETE CASCADE",
    ),
    "ranges": MessyTable(
        "at DATE NOT NULL",
        ("DATE('2024-01-01') + INTERVAL seq DAY",),
        "PRIMARY KEY (v, at)",
        "PARTITION BY RANGE (TO_DAYS(at)) (PARTITION a VALUES LESS THAN (TO_DAYS('2024-06-01')),"
        " PARTITION b VALUES LESS THAN MAXVALUE)",
    ),
    "hashed": MessyTable(
        "k VARCHAR(30)", (WORD.format("'x'"),), "PRIMARY KEY (k)", "PARTITION BY KEY (k) PARTITIONS 3"
    ),
    "odd `name": MessyTable("`select` LONGTEXT CHARACTER SET latin1; `é` INT", ("REPEAT('x', 300)", "seq")),
    "documents": MessyTable(
        "j JSON; e ENUM('x','it''s',''); s SET('a','b')",
        ("CONCAT('{\"a\": [', seq, ', \"x\"]}')", "1 + seq MOD 3", "seq MOD 4"),
        changes=("j = JSON_SET(j, '$.a', n)", "e = 2"),
    ),
}
OF_MYSQL = {
    # SELECT gives the latitude first.
    "places": MessyTable("p POINT NOT NULL SRID 4326", ("ST_SRID(POINT(seq MOD 90, seq MOD 90), 4326)",)),
    "expressions": MessyTable("name VARCHAR(20)", ("'A'",), "PRIMARY KEY (v), KEY ((LOWER(name)))"),
}
OF_MARIADB = {
    "places": MessyTable("p POINT NOT NULL", ("POINT(seq, 2)",)),
    "hosts": MessyTable(
        "k INET6; u UUID", ("CONCAT('2001:db8::', HEX(seq))", "'123e4567-e89b-12d3-a456-426655440000'"), K
    ),
}
BIG = MessyTable("c VARCHAR(60)", ("CONCAT('row ', seq, REPEAT(' text', seq MOD 9))",))


CASCADING = {"shop.parents", "shop.children"}
"""Tables that are not compared while rows change by foreign keys, where the log does not have these changes."""


def quoted(name: str) -> str:
    return f"shop.`{name.replace('`', '``')}`"


def tables_of(server: DatabaseServer) -> dict[str, MessyTable]:
    """The tables that a server can have, without the largest one."""
    tables = TABLES | (OF_MYSQL if server.installed.is_mysql else OF_MARIADB)
    assert len(tables) > 30
    return tables


def fill(server: DatabaseServer) -> None:
    """Tables with rows, and a log that has forgotten them."""
    statements = ["DROP DATABASE IF EXISTS binlog_stream", "CREATE OR REPLACE DATABASE shop CHARACTER SET utf8mb4"]
    for name, table in tables_of(server).items():
        statements += [table.create(quoted(name)), table.insert(quoted(name), f"shop.seq_1_to_{ROWS}")]
    statements += [BIG.create("shop.big"), BIG.insert("shop.big", f"shop.seq_1_to_{BIG_ROWS}")]
    run_sql(server, [*statements, "RESET MASTER"])


@contextlib.contextmanager
def writing(server: DatabaseServer) -> Iterator[list[int]]:
    """Four writers on all tables; gives how many transactions each has ended."""
    stop, counts = threading.Event(), [0] * WRITERS
    # Updates of such a table on a newer MariaDB have no generated columns in the log, and the job stops by that name.
    has_images = server.installed.is_mysql or server.installed.root is None
    tables = [(quoted(name), table) for name, table in tables_of(server).items() if has_images or not table.others]

    def write(number: int) -> None:
        chance = random.Random(number)
        with server.connect(autocommit=False) as connection, connection.cursor() as cursor:
            cursor.execute("SET sql_mode = '', innodb_lock_wait_timeout = 1")
            while not stop.wait(PAUSE_S):
                try:
                    for _ in range(chance.choice((1, 1, 3))):
                        cursor.execute(_statement(chance, *chance.choice(tables)))
                        cursor.execute(_big_statement(chance))
                    cursor.execute(chance.choice(("COMMIT", "COMMIT", "COMMIT", "ROLLBACK")))
                except pymysql.MySQLError as error:
                    if error.args[0] not in LOST_TO_OTHERS:
                        raise
                    cursor.execute("ROLLBACK")
                counts[number] += 1

    with working(write, WRITERS, stop):
        yield counts


def _statement(chance: random.Random, name: str, table: MessyTable) -> str:
    row = 1 + chance.randrange(ROWS)
    kind = chance.randrange(6)
    if kind == 0:
        return f"DELETE FROM {name} WHERE v = {row}"
    if kind == 1:
        return table.insert(name, f"(SELECT {row} AS seq) one")
    if kind == 2:
        return table.move(name, row, ROWS + 1 + chance.randrange(ROWS))
    change = chance.choice(table.changes or ("n = n + 1",))
    return f"UPDATE IGNORE {name} SET n = n + 1, {change} WHERE v = {row}"


def _big_statement(chance: random.Random) -> str:
    row = 1 + chance.randrange(BIG_ROWS)
    return chance.choice(
        (
            f"UPDATE shop.big SET n = n + 1, c = 'changed' WHERE v BETWEEN {row} AND {row + 20}",
            f"DELETE FROM shop.big WHERE v = {row}",
            f"UPDATE IGNORE shop.big SET v = {BIG_ROWS} + {row} WHERE v = {row}",
            BIG.insert("shop.big", f"(SELECT {row} AS seq) one"),
        )
    )


@pytest.fixture(scope="module", params=list(ServerKind))
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DatabaseServer]:
    kind: ServerKind = request.param
    rows = () if kind is ServerKind.MYSQL else ("--binlog-format=ROW", "--binlog-row-image=FULL")
    size = "--innodb-buffer-pool-size=512M"
    with as_installed(kind, tmp_path_factory.mktemp("server"), options=[*rows, size]) as server:
        if server.installed.root is None:
            run_sql(server, [BLACKHOLE])
        yield server


@pytest.mark.parametrize("method", ["log", "read"])
def test_messy_tables_under_writers_are_complete_and_proved(
    server: DatabaseServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    fill(server)
    monkeypatch.setenv("BINLOG_STREAM_PASSWORD", server.password)
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "job.toml"
    path.write_text(JOB.format(log=server.binlog_directory))
    job = load_job(path)
    count = len(tables_of(server)) + 1

    def program(*words: str, may_fail: bool = False) -> str:
        started = time.monotonic()
        done = run_program(*words, "--server", url_of(server))
        LOGGER.info("%s: %s\n%.0f s", words, done.stdout, time.monotonic() - started)
        assert may_fail or done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    with writing(server) as counts:
        if method == "read":
            program("snapshot", "job.toml", "--yes", "--method", method)
        reports: Queue[DemoJobReport] = Queue()
        with JobProcess(path, log_file=tmp_path / "job.log", listener=reports.put) as running:
            running.wait_for_first_report()
            if method == "log":
                program("snapshot", "job.toml", "--yes")
            taken = time.time()
            while not _is_near(_next(reports, running), taken):
                pass
            # The job runs, and the writers write.
            proved = program("prove", "job.toml", "--rows", may_fail=True)
            unequal = {line.split()[0] for line in proved.splitlines() if "(mirror): " in line and "equal" not in line}
            assert unequal <= (set() if server.installed.is_mysql else CASCADING), proved
            running.check()
    LOGGER.info("%s transactions", sum(counts))
    assert run_program("run", "job.toml", "--once").returncode == 0
    assert f"{count} of {count} targets equal" in program("prove", "job.toml")
    # By SELECT, which no code of the job takes part in.
    with server.connect() as connection, connection.cursor() as cursor:
        wanted = dict(tables_as_read(cursor, "shop", without=["big"]))
    targets = {name: target for name, target in read_targets(job.sink).items() if name.startswith("shop.")}
    del targets["shop.big"]
    assert differences(wanted, targets) == {}
    expected = _big_rows(server)
    assert held(job, "shop.big").select(expected.column_names).sort_by("v").equals(expected)


def _next(reports: Queue[DemoJobReport], running: JobProcess) -> DemoJobReport:
    try:
        return reports.get(timeout=PATIENCE_S)
    except Empty:
        running.check()  # an error of the job tells more
        raise


def _is_near(report: DemoJobReport, since: float) -> bool:
    return report.finished_at > since and report.bytes_behind is not None and report.bytes_behind < NEAR


def _big_rows(server: DatabaseServer) -> pa.Table:
    schema = pa.schema({"c": pa.string(), "v": pa.int32(), "n": pa.int32()})
    with server.connect() as connection, connection.cursor(SSCursor) as cursor:
        cursor.execute("SELECT c, v, n FROM shop.big ORDER BY v")
        batches = []
        while rows := cursor.fetchmany(FETCHED):
            arrays = [
                pa.array(column, field.type) for column, field in zip(zip(*rows, strict=True), schema, strict=True)
            ]
            batches.append(pa.RecordBatch.from_arrays(arrays, schema=schema))
    return pa.Table.from_batches(batches, schema)
