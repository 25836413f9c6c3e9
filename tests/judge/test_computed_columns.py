"""Columns that a live server computes and leaves out of its log: tables and topics have them, or are named.

Columns that row images lack: a changelog names them; changes to a JSON value that no image has stop a job.
"""

from __future__ import annotations

import re
import shutil
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable

from tests.judge.rounds import replayed
from tests.judge.running import mirror_of, run_once
from tests.judge.servers import LiveServer
from tests.judge.test_reported import ARCHIVE
from tests.judge.verdicts import Kind
from tests.servers import ServerKind, fetched

if TYPE_CHECKING:
    from collections.abc import Iterator


COLUMNS = "id INT PRIMARY KEY, i INT, z INT(5) ZEROFILL, d DATE, v VARCHAR(40), j JSON, ts TIMESTAMP NULL"
ROWS = (
    "(1, 7, 3, '2024-02-29', 'Ann', '{\"k\": 5}'), (2, NULL, 4, NULL, NULL, NULL), (3, -7, 5, '1999-12-31', 'b', '{}')"
)
CHANGES = [
    f"INSERT INTO t (id, i, z, d, v, j) VALUES {ROWS}",
    "UPDATE t SET i = i + 1, v = CONCAT(v, '!')",
    "UPDATE t SET d = NULL, ts = '2024-02-29 12:00:00' WHERE id = 1",
    'UPDATE t SET j = \'{"k": 6, "x": [1]}\' WHERE id > 1',
    "UPDATE t SET id = id + 10 WHERE id = 3",
    "DELETE FROM t WHERE id = 2",
]
COMPUTED = {
    "numbers": ["i * 2 + 1", "i % 3", "IF(i > 0, 1, 0)", "COALESCE(i, 0)"],
    "texts": ["CONCAT(v, '-', i)", "LEFT(v, 2)", "MD5(v)"],
    "dates": ["YEAR(d)", "CONCAT(d)", "IF(d IS NULL, 1, NULL)"],
    "choices": ["IF(ts IS NULL, 1, NULL)", "v IN ('Ann', 'b') AND NOT i = 3", "GREATEST(i, 3)", "NULLIF(i, 7)"],
    "checksums": ["CRC32(v)", "HEX(CONCAT(v, i))", "HEX(i)"],
    "documents": ["JSON_VALUE(j, '$.k')", "JSON_EXTRACT(j, '$.k')"],
    "others": ["CONCAT(g0, v)", "LEFT(g1, 2)"],
}
NAMED = {"zeros": "CONCAT(z)", "another function": "i ^ 3", "time": "i + HOUR(NOW())"}


DEFAULTS = [
    "INT NOT NULL DEFAULT (60*60*24)",
    "INT DEFAULT (i + 1)",
    "VARCHAR(20) NOT NULL DEFAULT (IFNULL(v, 'none'))",
    "VARCHAR(40) DEFAULT (CONCAT(v, '-', id))",
    "DATE DEFAULT (CURRENT_DATE + INTERVAL 1 MONTH)",
    "DATETIME NOT NULL DEFAULT (DATE_ADD(NOW(), INTERVAL 30 DAY))",
    "DATETIME(6) DEFAULT (CURRENT_TIMESTAMP(6) - INTERVAL 1 HOUR)",
    "DATETIME DEFAULT (CURDATE())",
    "TIMESTAMP NOT NULL DEFAULT (NOW() + INTERVAL 1 YEAR)",
    "DATETIME DEFAULT (UTC_TIMESTAMP())",
    "INT DEFAULT (UNIX_TIMESTAMP())",
]


CHANGED = [
    "MODIFY g INT AS (i * 3) STORED",
    "MODIFY g BIGINT AS (i * 2) STORED",
    "MODIFY g VARCHAR(20) AS (i * 2) STORED",
    "CHANGE g h INT AS (i - 1) STORED, MODIFY z INT(5)",
    "MODIFY g VARCHAR(9) AS (IF(i > 0, 'more', 'less')) STORED, MODIFY w INT AS (LENGTH(g)) VIRTUAL",
    "MODIFY v VARCHAR(40) AS (CONCAT(i, '-', id)) STORED",
    "MODIFY i BIGINT, MODIFY w INT AS (i - 7) VIRTUAL",
    "MODIFY i DECIMAL(9,2), ADD n DECIMAL(12,2) AS (i * 2)",
    "ADD n DECIMAL(9,2) NOT NULL DEFAULT 2.5, ADD m DECIMAL(12,2) AS (n * id) STORED",
    "ADD gone TIMESTAMP NULL, ADD live INT AS (IF(gone IS NULL, 1, NULL)) STORED",
    "MODIFY g INT AS (i * 3) STORED, ADD n INT AS (g + 1) STORED, ADD m INT DEFAULT (id + 1)",
]


@pytest.fixture(scope="module")
def server() -> Iterator[LiveServer]:
    with LiveServer(fetched(ServerKind.NEW_MARIADB)) as live:
        yield live


def history(expressions: list[str], image: str, metadata: str, kind: str) -> list[str]:
    columns = [f"g{number} VARCHAR(99) AS ({expression}) {kind}" for number, expression in enumerate(expressions)]
    return [
        "CREATE DATABASE h1",
        "USE h1",
        f"SET SESSION binlog_row_image = {image}",
        f"SET GLOBAL binlog_row_metadata = {metadata}",
        f"CREATE TABLE t ({', '.join([COLUMNS, *columns])})",
        *CHANGES,
    ]


@pytest.mark.server
@pytest.mark.parametrize(("metadata", "kind"), [("FULL", "STORED"), ("NO_LOG", "VIRTUAL")])
@pytest.mark.parametrize("about", COMPUTED)
def test_values_are_those_of_the_server(
    server: LiveServer, tmp_path: Path, about: str, metadata: str, kind: str
) -> None:
    expressions = (["i + 0"] if about == "others" else []) + COMPUTED[about]
    judged = replayed(server, tmp_path, history(expressions, "FULL", metadata, kind))
    assert judged.verdicts
    assert {name: verdict.why for name, verdict in judged.verdicts.items() if verdict.kind is not Kind.EQUAL} == {}


@pytest.mark.server
def test_what_an_update_leaves_alone_stays(server: LiveServer, tmp_path: Path) -> None:
    statements = history(["CONCAT(v, '-', i)"], "MINIMAL", "NO_LOG", "VIRTUAL")
    changes = [text for text in statements if " SET i = " not in text]
    judged = replayed(server, tmp_path, changes, topics=False)
    assert [verdict.kind for verdict in judged.verdicts.values()] == [Kind.EQUAL]


@pytest.mark.server
@pytest.mark.parametrize("about", NAMED)
def test_others_are_named(server: LiveServer, tmp_path: Path, about: str) -> None:
    judged = replayed(server, tmp_path, history([NAMED[about]], "FULL", "NO_LOG", "VIRTUAL"), topics=False)
    assert [verdict.kind for verdict in judged.verdicts.values()] == [Kind.NAMED]
    assert "g0: generated columns" in "".join(verdict.why for verdict in judged.verdicts.values())


@pytest.mark.server
def test_existing_rows_have_defaults_that_are_expressions(server: LiveServer, tmp_path: Path) -> None:
    added = [f"ALTER TABLE t ADD n{number} {column}" for number, column in enumerate(DEFAULTS)]
    later = ["UPDATE t SET id = id + 20 WHERE id = 1", "INSERT INTO t (id, i) VALUES (9, 9)"]
    judged = replayed(server, tmp_path, [*history([], "FULL", "NO_LOG", "")[:6], *added, *later], topics=False)
    assert {name: verdict.why for name, verdict in judged.verdicts.items() if verdict.kind is not Kind.EQUAL} == {}


@pytest.mark.server
def test_existing_rows_have_what_is_computed_again(server: LiveServer, tmp_path: Path) -> None:
    statements = history([], "FULL", "NO_LOG", "")[:4]
    tables = [f"t{number}" for number in range(len(CHANGED))]
    for table, change in zip(tables, CHANGED, strict=True):
        columns = f"{COLUMNS}, g INT AS (i * 2) STORED, w INT AS (i + 1) VIRTUAL"
        statements += [f"CREATE TABLE {table} ({columns})", f"INSERT INTO {table} (id, i, z, d, v, j) VALUES {ROWS}"]
        statements += [f"ALTER TABLE {table} {change}", f"DELETE FROM {table} WHERE id = 2"]
    judged = replayed(server, tmp_path, statements, topics=False)
    assert len(judged.verdicts) == len(CHANGED)
    assert {name: verdict.why for name, verdict in judged.verdicts.items() if verdict.kind is not Kind.EQUAL} == {}


@pytest.mark.server
def test_null_that_becomes_a_zero_date_changes_what_is_computed(server: LiveServer, tmp_path: Path) -> None:
    columns = f"{COLUMNS}, g INT AS (YEAR(d)) STORED"
    statements = [*history([], "FULL", "NO_LOG", "")[:4], "SET sql_mode = ''", f"CREATE TABLE t ({columns})"]
    statements += [f"INSERT INTO t (id, i, z, d, v, j) VALUES {ROWS}", "ALTER TABLE t MODIFY d DATE NOT NULL"]
    judged = replayed(server, tmp_path, statements, topics=False)
    assert [verdict.kind for verdict in judged.verdicts.values()] == [Kind.NAMED]


@pytest.mark.server
def test_existing_rows_have_no_default_that_only_the_server_knows(server: LiveServer, tmp_path: Path) -> None:
    statements = [*history([], "FULL", "NO_LOG", "")[:6], "ALTER TABLE t ADD n VARCHAR(36) DEFAULT (UUID())"]
    judged = replayed(server, tmp_path, statements, topics=False)
    assert [verdict.kind for verdict in judged.verdicts.values()] == [Kind.NAMED]
    assert "UUID is not computed here" in "".join(verdict.why for verdict in judged.verdicts.values())


INSERTS: list[tuple[str, list[str] | None]] = [("insert", None)] * 3
ABSENT: dict[str, list[tuple[str, list[str] | None]]] = {
    # Generated columns, with binlog_row_image=FULL.
    "m118_stored_full": [
        *INSERTS,
        *[(kind, ["total"]) for _ in range(3) for kind in ("update_preimage", "update_postimage")],
    ],
    # What the statement did not set, before it all but the key.
    "stored_minimal": [
        *[("insert", ["note"])] * 3,
        ("update_preimage", ["qty", "price", "total", "note"]),
        ("update_postimage", ["id", "qty", "note"]),
        ("update_preimage", ["qty", "price", "total", "note"]),
        ("update_postimage", ["id", "qty", "price"]),
        ("update_preimage", ["qty", "price", "total", "note"]),
        ("update_postimage", ["id", "price"]),
    ],
}


@pytest.mark.parametrize("name", ABSENT)
def test_changelog_names_the_columns_that_an_image_lacks(tmp_path: Path, name: str) -> None:
    with tarfile.open(ARCHIVE) as archive:
        wanted = [member for member in archive.getmembers() if member.name.startswith(f"reported/{name}/")]
        archive.extractall(tmp_path, members=wanted, filter="data")
    shutil.copytree(tmp_path / "reported" / name, tmp_path / "log")
    end = run_once(mirror_of(tmp_path / "log", tmp_path / "lake", rule={"mode": "changelog"}))
    assert (end.error, end.crash) == ("", "")
    rows = DeltaTable(str(tmp_path / "lake" / "w" / "l")).to_pyarrow_table().to_pylist()
    rows.sort(key=lambda row: (row["_commit_version"], row["_row_no"], row["_change_type"] == "update_postimage"))
    assert [(row["_change_type"], row["_absent"]) for row in rows] == ABSENT[name]
    assert {row[column] for row in rows for column in row["_absent"] or ()} == {None}


# CREATE TABLE j (id INT PRIMARY KEY, doc JSON, n INT) on MySQL 9.7; then, with binlog_row_image=MINIMAL and
# binlog_row_value_options=PARTIAL_JSON: UPDATE j SET doc = JSON_SET(doc, '$.a', 1001) WHERE id = 1.
PARTIAL_JSON = Path(__file__).parents[1] / "data" / "partial_json"


def test_changelog_names_changes_to_a_json_value_that_no_image_has(tmp_path: Path) -> None:
    shutil.copytree(PARTIAL_JSON, tmp_path / "log")
    end = run_once(mirror_of(tmp_path / "log", tmp_path / "lake", rule={"mode": "changelog"}))
    assert end.crash == ""
    assert re.search(r"\[BINLOG_UNSUPPORTED\.ROW_IMAGE\] w\.j: .*doc: .*changes to a JSON value", end.error), end.error
