"""Tables with `generated = "drop"`: no target has a generated column, whatever statements make of its columns."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from binlog_connector.rules.row_rule import GeneratedColumns
from binlog_connector.rules.row_rules import TableRules
from binlog_connector.rules.rules_applied import apply_rules_to_changes
from binlog_connector.rules.rules_on_tables import BoundRule
from binlog_connector.schema.snapshot_marks import SnapshotBegun, mark_change
from binlog_format.rows.decoding import Decoding
from binlog_format.vendor import Vendor
from binlog_lab.event_encoding.table_encoding import ColumnSpec
from binlog_streaming.lake.commit_id import DROPPED_COLUMNS_PROPERTY, split_keys
from binlog_streaming.settings import TableRule
from tests.judge.running import mirror_of, run_once
from tests.judge.tables import read_targets
from tests.streaming.tables.shop import ShopLog
from tests.streaming.tables.statements.statement_stories import ID, wanted

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

A, B, G, H = (ColumnSpec(name, "int", nullable=True) for name in "abgh")
DROP = {"generated": "drop"}
CREATE = "CREATE TABLE t (id INT PRIMARY KEY, a INT, g INT AS (a + 1) STORED)"
TABLE = wanted("t", ID, A, G)


def ended(folder: Path, story: Callable[[ShopLog], None], **rule: object) -> str:
    """How the job on the log of *story* ended: the error; empty: none."""
    with ShopLog(folder / "log") as log:
        story(log)
    end = run_once(mirror_of(folder / "log", folder / "lake", rule={**DROP, **rule}))
    assert not end.crash, end.crash
    return end.error


def kept(folder: Path, story: Callable[[ShopLog], None], **rule: object) -> list[dict[str, object]]:
    """Rows of table `t` behind *story*, without columns that it does not have any more."""
    assert not ended(folder, story, **rule)
    target = read_targets(mirror_of(folder / "log", folder / "lake", rule=DROP).sink)["shop.t"]
    gone = split_keys(target.properties.get(DROPPED_COLUMNS_PROPERTY, ""))
    return [
        {name: value for name, value in row.items() if name not in gone}
        for row in sorted(target.content.to_pylist(), key=str)
    ]


def test_targets_are_made_without_them_and_columns_that_come_generated_add_nothing(tmp_path: Path) -> None:
    def story(log: ShopLog) -> None:
        log.statement(CREATE)
        log.insert(TABLE, (1, 5, 6))
        log.statement("ALTER TABLE t ADD COLUMN h INT AS (a * 2) VIRTUAL, ADD COLUMN b INT DEFAULT 7")
        log.insert(wanted("t", ID, A, G, H, B), (2, 6, 7, 12, 8))
        log.statement("ALTER TABLE t MODIFY g INT AS (a + 9) STORED, RENAME COLUMN h TO half")
        log.update(
            wanted("t", ID, A, G, ColumnSpec("half", "int", nullable=True), B), ((1, 5, 14, 10, 7), (1, 1, 10, 2, 7))
        )
        log.statement("ALTER TABLE t DROP COLUMN half")

    assert kept(tmp_path, story) == [{"id": 1, "a": 1, "b": 7}, {"id": 2, "a": 6, "b": 8}]


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE t MODIFY b INT AS (a + 1) STORED",
        "ALTER TABLE t DROP COLUMN b, ADD COLUMN b INT AS (a + 1) VIRTUAL",
        "ALTER TABLE t CHANGE B b INT AS (a + 1) STORED",
    ],
)
def test_plain_column_that_becomes_generated_goes(tmp_path: Path, statement: str) -> None:
    def story(log: ShopLog) -> None:
        table = wanted("t", ID, A, B)
        log.statement("CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT)")
        log.insert(table, (1, 5, 3))
        log.statement(statement)
        log.insert(table, (2, 6, 7))

    assert kept(tmp_path, story) == [{"id": 1, "a": 5}, {"id": 2, "a": 6}]


def made_plain(log: ShopLog) -> None:
    log.statement(CREATE)
    log.insert(TABLE, (1, 5, 6))
    log.statement("ALTER TABLE t MODIFY g INT")
    log.insert(TABLE, (2, 6, 70))


def test_generated_column_that_becomes_plain_is_new_and_its_values_are_unknown(tmp_path: Path) -> None:
    error = ended(tmp_path / "named", made_plain)
    assert re.search(r"SCHEMA_CHANGED\] shop\.t: column g is new, .*: it was generated until this statement", error)
    rows = kept(tmp_path / "null", made_plain, unknown_values="null")
    assert rows == [{"id": 1, "a": 5, "g": None}, {"id": 2, "a": 6, "g": 70}]


def test_names_that_plain_and_generated_columns_change_with_each_other(tmp_path: Path) -> None:
    def story(log: ShopLog) -> None:
        log.statement(CREATE)
        log.insert(TABLE, (1, 5, 6))
        log.statement("ALTER TABLE t RENAME COLUMN a TO g, RENAME COLUMN g TO a")
        log.insert(wanted("t", ID, G, A), (2, 6, 7))

    assert kept(tmp_path, story) == [{"id": 1, "g": 5}, {"id": 2, "g": 6}]


def test_column_of_which_it_is_not_known_is_named(tmp_path: Path) -> None:
    error = ended(tmp_path, lambda log: log.insert(TABLE, (1, 5, 6)), begin="empty")
    assert re.search(r"NO_COLUMN_METADATA\] shop\.t: it is not known whether column a is generated", error)
    assert "binlog-stream snapshot JOB.toml --definitions" in error


def test_key_cannot_be_generated(tmp_path: Path) -> None:
    def later(log: ShopLog) -> None:
        log.statement("CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT)")
        log.insert(wanted("t", ID, A, B), (1, 5, 3))
        log.statement("ALTER TABLE t MODIFY b INT AS (a + 1) STORED")

    named = r"INVALID_VALUE\] shop\.t: column {} is generated, which generated = \"drop\" leaves out, and rows are told"
    assert re.search(named.format("g"), ended(tmp_path / "made", lambda log: log.statement(CREATE), keys=["g"]))
    assert re.search(named.format("b"), ended(tmp_path / "altered", later, keys=["b"]))


def test_where_a_snapshot_begins_they_are_known_by_the_definition_in_its_mark() -> None:
    """A mark of an older version has none: then the columns come with the first rows."""
    rules = TableRules([BoundRule(TableRule(generated=GeneratedColumns.DROP))])
    decoding = Decoding(rules=rules)
    columns = [["id", "int(11)", None], ["a", "int(11)", None], ["g", "int(11)", None]]
    detail = {"purpose": "complete", "columns": columns, "key": ["id"]}
    place = {"position": {"file_no": 0, "page": 1, "chunk": 0}, "event_no": 1, "commit_time": 1, "gtid": None}
    mark = {"kind": "begin", "database": "shop", "table": "t", "snapshot": "s", "vendor": "mariadb", "server_id": 1}
    shown = []
    for more in ({}, {"create_table": CREATE}, {"create_table": CREATE.replace("g INT", "z INT")}):
        change = mark_change({**mark, **place, "detail": json.dumps({**detail, **more})}, decoding)
        assert isinstance(change, SnapshotBegun)
        (begun,) = apply_rules_to_changes([change], rules, decoding, Vendor.MARIADB)
        assert isinstance(begun, SnapshotBegun)
        facts = begun.created.columns
        shown.append(None if facts is None else [fact.name for fact in facts])
    assert shown == [None, ["id", "a"], None]


def test_versions_have_none_either(tmp_path: Path) -> None:
    def story(log: ShopLog) -> None:
        log.statement(CREATE)
        log.insert(TABLE, (1, 5, 6))
        log.update(TABLE, ((1, 5, 6), (1, 7, 8)))

    rows = kept(tmp_path, story, mode="scd2")
    assert sorted((row["id"], row["a"], "g" in row) for row in rows) == [(1, 5, False), (1, 7, False)]
