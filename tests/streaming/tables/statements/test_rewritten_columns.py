"""What an ALTER TABLE does to values of existing rows is done in targets, or named."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal as D
from hashlib import sha256
from typing import TYPE_CHECKING

import msgspec
import pytest
from deltalake import DeltaTable

from binlog_connector.rules.row_rules import TableRules
from binlog_connector.rules.rules_on_tables import BoundRule
from binlog_connector.schema.effects.column_effects import PAD_CHAR
from binlog_format import open_log
from binlog_format.errors import SchemaError, TableError
from binlog_format.rows.decoding import Decoding
from binlog_lab.event_encoding.table_encoding import ColumnSpec
from binlog_streaming.settings import Deletes, Mode, OnStatement, Rewritten, TableRule, UnknownValues
from tests.streaming.tables.batches import cut, write
from tests.streaming.tables.shop import ShopLog
from tests.streaming.tables.statements.statement_stories import ID, kept, wanted

if TYPE_CHECKING:
    from pathlib import Path

    from binlog_lab.event_encoding.value_encoding import Value

PRICE = ColumnSpec("price", "decimal(10,4)", nullable=True)
STATE = ColumnSpec("state", "varchar(20)", nullable=True)
CREATE = "CREATE TABLE orders (id INT PRIMARY KEY, price DECIMAL(10,4), state VARCHAR(20)) CHARACTER SET utf8mb4"


def rounded(log: ShopLog) -> None:
    log.statement(CREATE)
    log.insert(wanted("orders", ID, PRICE, STATE), (1, D("1.2550"), "a "), (2, D("-7.0049"), None))
    log.statement("ALTER TABLE orders MODIFY price DECIMAL(10,2), CHANGE state word CHAR(10)")


def computed(log: ShopLog) -> None:
    log.statement(
        "CREATE TABLE orders (id INT PRIMARY KEY, price DECIMAL(10,4), state VARCHAR(20) AS (SOUNDEX(price)))"
    )
    log.insert(wanted("orders", ID, PRICE, STATE), (1, D("1.2550"), "1.2550"))
    log.statement("ALTER TABLE orders MODIFY price DECIMAL(10,2)")


def test_versions_that_have_ended_keep_what_was_computed_then(tmp_path: Path) -> None:
    def story(log: ShopLog) -> None:
        price, double = (ColumnSpec(name, "int", nullable=True) for name in ("price", "double"))
        table = wanted("orders", ID, price, double)
        log.statement("CREATE TABLE orders (id INT PRIMARY KEY, price INT, `double` INT AS (price * 2) STORED)")
        log.insert(table, (1, 10, 20))
        log.update(table, ((1, 10, 20), (1, 11, 22)))
        log.statement("ALTER TABLE orders MODIFY `double` INT AS (price * 3) STORED")

    rows = kept(tmp_path, story, TableRule(mode=Mode.SCD2))["orders"]
    assert sorted(row[1:3] for row in rows) == [(10, 20), (11, 33)]


def test_new_column_is_not_computed_of_one_that_is_null_for_want_of_values(tmp_path: Path) -> None:
    def story(log: ShopLog) -> None:
        price, double = (ColumnSpec(name, "int", nullable=True) for name in ("price", "double"))
        log.statement("CREATE TABLE orders (id INT PRIMARY KEY, price INT, `double` INT AS (price * 2) STORED)")
        log.insert(wanted("orders", ID, price, double), (1, 10, 20))
        log.statement("ALTER TABLE orders MODIFY `double` INT AS (price ^ 2) STORED, ADD n INT AS (`double` IS NULL)")

    with pytest.raises(SchemaError, match=r"SCHEMA_CHANGED\].*column n is new.*column double changes"):
        kept(tmp_path, story, TableRule(rewritten=Rewritten.NULL))


def test_values_computed_of_padded_texts_are_named(tmp_path: Path) -> None:
    def story(log: ShopLog) -> None:
        log.statement("CREATE TABLE orders (id INT PRIMARY KEY, code CHAR(5)) CHARSET latin1")
        log.insert(wanted("orders", ID, ColumnSpec("code", "char(5)", nullable=True)), (1, "ab"))
        log.statement("ALTER TABLE orders ADD g VARCHAR(9) AS (CONCAT(code, '|')) STORED", sql_mode=PAD_CHAR)

    with pytest.raises(SchemaError, match=r"SCHEMA_CHANGED\].*column g is new.*PAD_CHAR_TO_FULL_LENGTH adds spaces"):
        kept(tmp_path, story)


def test_values_computed_of_a_default_are_named_where_the_default_changes(tmp_path: Path) -> None:
    def story(log: ShopLog) -> None:
        log.statement("CREATE TABLE orders (id INT PRIMARY KEY, a INT DEFAULT 5, v INT AS (a + DEFAULT(a)))")
        a, v = (ColumnSpec(name, "int", nullable=True) for name in "av")
        log.insert(wanted("orders", ID, a, v), (1, 1, 6))
        log.statement("ALTER TABLE orders ALTER a SET DEFAULT 6")

    with pytest.raises(TableError, match=r"REWRITTEN_BY_SERVER\].*shop\.orders: column v .*generated from a"):
        kept(tmp_path, story)


def texts_of(rows: list[tuple[object, ...]]) -> list[tuple[str, ...]]:
    return [tuple(map(str, row)) for row in rows]


def test_values_are_converted_in_one_step_with_new_names(tmp_path: Path) -> None:
    rows = kept(tmp_path, rounded)["orders"]
    assert texts_of(rows) == [("1", "1.26", "a"), ("2", "-7.00", "None")]


def test_rows_that_are_gone_keep_their_values_where_the_new_ones_are_not_known(tmp_path: Path) -> None:
    def story(log: ShopLog) -> None:
        table = wanted("orders", ID, PRICE, STATE)
        log.statement(CREATE)
        log.insert(table, (1, D("1.0000"), "2024-01-02"), (2, D("2.0000"), "no date"))
        log.delete(table, (2, D("2.0000"), "no date"))
        log.statement("ALTER TABLE orders MODIFY state DATE")

    rows = kept(tmp_path, story, TableRule(deletes=Deletes.MARK))["orders"]
    assert [(str(row[0]), str(row[2]), row[3]) for row in rows] == [("1", "2024-01-02", False), ("2", "None", True)]


def test_versions_that_ended_are_converted_too(tmp_path: Path) -> None:
    def story(log: ShopLog) -> None:
        table = wanted("orders", ID, PRICE, STATE)
        log.statement(CREATE)
        log.insert(table, (1, D("1.2550"), "a"))
        log.update(table, ((1, D("1.2550"), "a"), (1, D("2.0050"), "b")))
        log.statement("ALTER TABLE orders MODIFY price DECIMAL(10,2)")

    rows = kept(tmp_path, story, TableRule(mode=Mode.SCD2))["orders"]
    assert sorted(float(str(row[1])) for row in rows) == [1.26, 2.01]


def test_what_cannot_be_computed_is_named_or_null(tmp_path: Path) -> None:
    with pytest.raises(
        TableError, match=r"REWRITTEN_BY_SERVER\] shop\.orders: column state .* generated from price.*SOUNDEX is not"
    ):
        kept(tmp_path, computed)
    rows = kept(tmp_path, computed, TableRule(rewritten=Rewritten.NULL))["orders"]
    assert texts_of(rows) == [("1", "1.26", "None")]


def masked(tmp_path: Path, mask: str, before: str, value: Value, after: str) -> object:
    """What stands for a value of the column `c` when it has another type, and a row with NULL was inserted."""
    rule = TableRule(mask={"c": mask}, salt_variable="SALT" if mask == "sha256" else None)
    decoding = Decoding(rules=TableRules([BoundRule(rule, needs_key=True, salt=b"salt")]))
    with ShopLog(tmp_path / "log") as log:
        log.statement(f"CREATE TABLE orders (id INT PRIMARY KEY, c {before}) CHARACTER SET utf8mb4")
        log.insert(wanted("orders", ID, ColumnSpec("c", before, nullable=True)), (1, value))
        log.statement(f"ALTER TABLE orders MODIFY c {after}")
        log.insert(wanted("orders", ID, ColumnSpec("c", after, nullable=True)), (2, None))
    with open_log(str(tmp_path / "log")) as opened:
        (batch,) = cut(opened, 1)
        write(opened, batch, tmp_path / "tables", rules=(rule,), decoding=decoding)
    (target,) = (path.parent for path in (tmp_path / "tables").rglob("_delta_log"))
    found = {row["id"]: row["c"] for row in DeltaTable(target).to_pyarrow_table().to_pylist()}
    assert found.keys() == {1, 2}
    assert found[2] is None
    return found[1]


@pytest.mark.parametrize(
    ("mask", "before", "value", "after"),
    [
        ("sha256", "decimal(10,4)", D("1.2550"), "decimal(10,2)"),
        ("sha256", "decimal(10,2)", D("1.25"), "decimal(12,4)"),
        ("sha256", "int", 12, "decimal(12,2)"),
        ("sha256", "float", 0.1, "double"),
        ("last 2", "varchar(20)", "abcdef", "varchar(5)"),
    ],
)
def test_masked_values_that_would_get_another_text_are_named(
    tmp_path: Path, mask: str, before: str, value: Value, after: str
) -> None:
    with pytest.raises(TableError, match=r"REWRITTEN_BY_SERVER\] shop\.orders: column c .*values are masked"):
        masked(tmp_path, mask, before, value, after)


@pytest.mark.parametrize(
    ("mask", "before", "value", "after", "shown"),
    [
        ("sha256", "decimal(10,2)", D("1.25"), "decimal(12,2)", sha256(b"salt1.25").hexdigest()),
        ("sha256", "int", 12, "bigint", sha256(b"salt12").hexdigest()),
        ("sha256", "int", 12, "decimal(12,0)", sha256(b"salt12").hexdigest()),
        ("last 2", "varchar(20)", "abcdef", "varchar(50)", "****ef"),
        ("text -", "varchar(20)", "abcdef", "varchar(5)", "-"),
        ("null", "varchar(20)", "abcdef", "varchar(5)", None),
        ("null", "decimal(10,4)", D("1.2550"), "decimal(10,2)", None),
        ("null", "varchar(20)", "12", "int", None),
        ("null", "int", 12, "varchar(20)", None),
    ],
)
def test_masked_values_stay_where_their_text_does(
    tmp_path: Path, mask: str, before: str, value: Value, after: str, shown: object
) -> None:
    assert masked(tmp_path, mask, before, value, after) == shown


def chosen(tmp_path: Path, *statements: str, **rule: object) -> list[object]:
    """Ids in a target of rows with `c > 10`, after statements about `c` and another column, `d`."""
    made = msgspec.convert({"where": "c > 10", **rule}, TableRule)
    decoding = Decoding(rules=TableRules([BoundRule(made, needs_key=True)]))
    c, d = ColumnSpec("c", "int", nullable=True), ColumnSpec("d", "int", nullable=True)
    with ShopLog(tmp_path / "log") as log:
        log.statement("CREATE TABLE orders (id INT PRIMARY KEY, c INT, d INT, g INT AS (d) STORED)")
        log.insert(wanted("orders", ID, c, d, ColumnSpec("g", "int", nullable=True)), (1, 300, 1, 1), (2, 5, 400, 400))
        for statement in statements:
            log.statement(statement)
    with open_log(str(tmp_path / "log")) as opened:
        (batch,) = cut(opened, 1)
        write(opened, batch, tmp_path / "tables", rules=(made,), decoding=decoding)
    (target,) = (path.parent for path in (tmp_path / "tables").rglob("_delta_log"))
    return list(DeltaTable(target).to_pyarrow_table()["id"].to_pylist())


@pytest.mark.parametrize(
    "shown",
    [
        {},
        {"columns": ["id"]},
        {"drop_columns": ["c", "d", "old?"]},
        {"mask": dict.fromkeys(["c", "d", "old?"], "null")},
    ],
)
@pytest.mark.parametrize(
    ("statement", "named"),
    [
        ("MODIFY c VARCHAR(20)", "column c was int and is varchar"),
        ("MODIFY c DECIMAL(10,2)", "column c was int"),
        ("DROP c", "column c is dropped"),
        ("DROP c, ADD c INT DEFAULT 500", "column c is dropped"),
        ("CHANGE c d INT, CHANGE d c INT", "column c is called d"),
        ("RENAME COLUMN c TO old", "column c is called old"),
    ],
)
def test_statement_by_which_where_would_choose_other_rows_is_named(
    tmp_path: Path, statement: str, named: str, shown: dict[str, object]
) -> None:
    with pytest.raises(TableError, match=rf"REWRITTEN_BY_SERVER\] shop\.orders: {named}.*chosen by it \(where\)"):
        chosen(tmp_path, f"ALTER TABLE orders {statement}", **shown, rewritten="null")


def test_where_by_a_generated_column_that_is_computed_anew_is_named(tmp_path: Path) -> None:
    altered = "ALTER TABLE orders MODIFY g INT AS (d + 10) STORED"
    with pytest.raises(TableError, match=r"REWRITTEN_BY_SERVER\] .*column g is int, and is computed .*by it \(where\)"):
        chosen(tmp_path, altered, where="g > 10", drop_columns=["g"])


def test_statements_that_leave_the_values_of_where_let_the_job_go_on(tmp_path: Path) -> None:
    statements = ("MODIFY c BIGINT, DROP d", "CHANGE C c BIGINT NULL", "ADD e INT DEFAULT 5", "RENAME COLUMN e TO f")
    changes = [f"ALTER TABLE orders {statement}" for statement in statements]
    assert chosen(tmp_path, *changes, drop_columns=["g"]) == [1]
    assert chosen(tmp_path / "text", "ALTER TABLE orders RENAME COLUMN d TO c2", where="c > 10 AND c <> 400") == [1]


def test_definition_that_is_not_known_is_named_with_the_way_to_bring_it(tmp_path: Path) -> None:
    def story(log: ShopLog) -> None:
        log.insert(wanted("orders", ID, PRICE, STATE), (1, D("1.2550"), "a"))
        log.statement("ALTER TABLE orders ADD COLUMN count INT DEFAULT 1")
        log.statement("ALTER TABLE orders MODIFY price DECIMAL(10,2)")

    with pytest.raises(TableError, match=r"REWRITTEN_BY_SERVER\].*snapshot JOB.toml --definitions"):
        kept(tmp_path, story)


VALUES: dict[str, Value] = {
    "int": 5,
    "decimal(10,2)": D("1.25"),
    "decimal(40,2)": D("2.25"),
    "double": 1.5,
    "varchar(20)": "no number",
    "varbinary(20)": b"\xff",
    "date": dt.date(2026, 1, 31),
    "datetime(6)": dt.datetime.fromisoformat("2026-01-31T12:00:00.000005"),
    "timestamp(6)": dt.datetime(2026, 1, 31, 12, 0, 0, 5, dt.UTC),
    "time(6)": dt.timedelta(hours=-8, microseconds=5),
}


@pytest.mark.parametrize("deletes", [Deletes.REMOVE, Deletes.MARK])
def test_column_of_any_type_can_get_any_other_without_values(tmp_path: Path, deletes: Deletes) -> None:
    pairs = [(old, new) for old in VALUES for new in VALUES if new != old]
    olds, news = (
        wanted("orders", ID, *(ColumnSpec(f"c{n}", pair[side], nullable=True) for n, pair in enumerate(pairs)))
        for side in (0, 1)
    )

    def story(log: ShopLog) -> None:
        before = [VALUES[old] for old, _ in pairs]
        columns = ", ".join(f"c{n} {old} AS (f(id))" for n, (old, _) in enumerate(pairs))
        log.statement(f"CREATE TABLE orders (id INT PRIMARY KEY, {columns})")
        log.insert(olds, (1, *before), (2, *before))
        log.delete(olds, (2, *before))
        log.statement(
            "ALTER TABLE orders " + ", ".join(f"MODIFY c{n} {new} AS (g(id))" for n, (_, new) in enumerate(pairs))
        )
        log.insert(news, (3, *(VALUES[new] for _, new in pairs)))

    rule = TableRule(rewritten=Rewritten.NULL, deletes=deletes)
    rows = {row[0]: row[1 : len(pairs) + 1] for row in kept(tmp_path, story, rule)["orders"]}
    assert rows.keys() == ({1, 3} if deletes is Deletes.REMOVE else {1, 2, 3})
    assert set(rows[1]) == {None}
    assert None not in rows[3]


def test_key_is_converted_and_never_null(tmp_path: Path) -> None:
    key = ColumnSpec("id", "varbinary(4)")

    def story(log: ShopLog) -> None:
        log.statement("CREATE TABLE orders (id VARBINARY(4) PRIMARY KEY)")
        log.insert(wanted("orders", key), (b"ab",), (b"c",))
        log.statement("ALTER TABLE orders MODIFY id BINARY(4)")
        log.delete(wanted("orders", ColumnSpec("id", "binary(4)")), (b"ab\0\0",))

    assert kept(tmp_path, story)["orders"] == [(b"c\0\0\0",)]

    def unknown(log: ShopLog) -> None:
        log.statement("CREATE TABLE orders (id INT PRIMARY KEY)")
        log.insert(wanted("orders", ID), (5,))
        log.statement("ALTER TABLE orders MODIFY id UUID")

    with pytest.raises(TableError, match=r"REWRITTEN_BY_SERVER\].*column id"):
        kept(tmp_path / "unknown", unknown, TableRule(rewritten=Rewritten.NULL))


@pytest.mark.parametrize("rule", [TableRule(mode=Mode.SCD2), TableRule(deletes=Deletes.MARK)])
def test_texts_of_rows_that_are_gone_are_no_numbers_of_a_later_column(tmp_path: Path, rule: TableRule) -> None:
    def story(log: ShopLog) -> None:
        log.statement("CREATE TABLE orders (id INT PRIMARY KEY, price LONGTEXT)")
        log.insert(wanted("orders", ID, ColumnSpec("price", "longtext", nullable=True)), (1, "abc"))
        log.statement("DROP TABLE orders")
        log.statement("CREATE TABLE orders (id INT PRIMARY KEY, price DECIMAL(40,2))")
        price = ColumnSpec("price", "decimal(40,2)", nullable=True)
        log.insert(wanted("orders", ID, price), (2, D("12345.68")), (3, None))
        log.statement("ALTER TABLE orders MODIFY price DECIMAL(41,3)")

    rows = kept(tmp_path, story, msgspec.structs.replace(rule, on_drop=OnStatement.APPLY))["orders"]
    assert sorted(tuple(map(str, row[:2])) for row in rows) == [("1", "abc"), ("2", "12345.680"), ("3", "None")]


def test_null_that_stands_for_a_value_that_the_log_lacked_becomes_nothing_else(tmp_path: Path) -> None:
    def story(log: ShopLog) -> None:
        log.statement("CREATE TABLE orders (id INT PRIMARY KEY)")
        log.insert(wanted("orders", ID), (1,))
        log.statement("ALTER TABLE orders ADD state VARCHAR(20) DEFAULT (UUID())")
        log.statement("ALTER TABLE orders MODIFY state TIMESTAMP NOT NULL")

    with pytest.raises(TableError, match=r"REWRITTEN_BY_SERVER\] .*column state .*a null in the target may be a val"):
        kept(tmp_path, story, TableRule(unknown_values=UnknownValues.NULL))
    rule = TableRule(unknown_values=UnknownValues.NULL, rewritten=Rewritten.NULL)
    assert kept(tmp_path / "null", story, rule)["orders"] == [(1, None)]
