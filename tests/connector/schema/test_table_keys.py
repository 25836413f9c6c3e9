"""Keys of tables: which one tells rows apart, and which ones a server keeps hashes of."""

from __future__ import annotations

import pytest

from binlog_connector.schema.catalog import Catalog
from binlog_connector.schema.definitions import Period, TableDefinition, TableName
from binlog_connector.schema.history import SchemaHistory
from binlog_connector.schema.parsing.ddl import parse_ddl
from binlog_connector.schema.parsing.session import StatementSession
from binlog_format.events.table_map import Column, TableLayout
from binlog_format.events.table_map_layout import ColumnType
from binlog_format.rows.declared.declared_types import Generated
from binlog_format.vendor import Vendor
from tests.connector.schema.layouts import block_of, position, query

INT = Column(None, ColumnType.LONG, 0, False)
BIGINT = Column(None, ColumnType.LONGLONG, 0, False)


def table(*statements: str, vendor: Vendor = Vendor.MARIADB) -> TableDefinition:
    """What is known of `t` after *statements*."""
    catalog = Catalog()
    for statement in ("CREATE DATABASE shop CHARACTER SET utf8mb4", *statements):
        for operation in parse_ddl(statement, StatementSession("shop", vendor=vendor)):
            catalog.apply(operation, vendor)
    state = catalog.tables[TableName("shop", "t")]
    assert isinstance(state, TableDefinition), state
    return state


def key(*statements: str, vendor: Vendor = Vendor.MARIADB) -> list[str]:
    """The columns by which a server tells rows of `t` apart."""
    found = table(*statements, vendor=vendor)
    columns = found.columns or ()
    keys = ([columns[place] for place in places] for places in found.row_keys())
    return next(([one.name for one in places] for places in keys if not any(one.nullable for one in places)), [])


@pytest.mark.parametrize(
    ("expected", "statements"),
    [
        (["a"], ["CREATE TABLE t (a INT NOT NULL, b INT NOT NULL, UNIQUE (a), UNIQUE (b))"]),
        (["c"], ["CREATE TABLE t (a INT NOT NULL, b INT, c INT NOT NULL, UNIQUE x (a, b), UNIQUE y (c))"]),
        # The order that a statement leaves stays: `x` could be the key now, and comes after `y`.
        (["c"], ["CREATE TABLE t (a INT NOT NULL, b INT, c INT NOT NULL, UNIQUE x (a, b), UNIQUE y (c))",
                 "ALTER TABLE t MODIFY b INT NOT NULL"]),
        (["a", "b"], ["CREATE TABLE t (a INT NOT NULL, b INT, c INT NOT NULL, UNIQUE x (a, b), UNIQUE y (c))",
                      "ALTER TABLE t MODIFY b INT NOT NULL", "DROP INDEX y ON t"]),
        ([], ["CREATE TABLE t (a INT NOT NULL UNIQUE)", "ALTER TABLE t MODIFY a INT"]),
        (["a"], ["CREATE TABLE t (a INT NOT NULL, b INT)", "CREATE UNIQUE INDEX u ON t (a)"]),
        # Columns of a primary key stay NOT NULL without it.
        (["a"], ["CREATE TABLE t (a INT PRIMARY KEY)", "ALTER TABLE t DROP PRIMARY KEY, ADD UNIQUE (a)"]),
        (["b"], ["CREATE TABLE t (a INT PRIMARY KEY, b INT NOT NULL UNIQUE)", "ALTER TABLE t DROP PRIMARY KEY"]),
        (["a"], ["CREATE TABLE t (a VARCHAR(9) NOT NULL, b INT NOT NULL, UNIQUE (a(9)))"]),
        (["b"], ["CREATE TABLE t (a VARCHAR(9) NOT NULL, b INT NOT NULL, UNIQUE (a(8)), UNIQUE (b))"]),
        ([], ["CREATE TABLE t (a TEXT NOT NULL, UNIQUE (a(8)))"]),
    ],
)  # fmt: skip
@pytest.mark.parametrize("vendor", Vendor)
def test_key_of_unique_indexes(expected: list[str], statements: list[str], vendor: Vendor) -> None:
    assert key(*statements, vendor=vendor) == expected


@pytest.mark.parametrize(
    ("hashes", "columns"),
    [
        (1, "a TEXT NOT NULL UNIQUE"),
        (1, "a VARCHAR(769) NOT NULL UNIQUE"),
        (0, "a VARCHAR(768) NOT NULL UNIQUE"),
        (0, "a VARBINARY(3072) NOT NULL UNIQUE"),
        (1, "a VARBINARY(3073) NOT NULL UNIQUE"),
        (1, "a VARCHAR(400) NOT NULL, b VARCHAR(400) NOT NULL, UNIQUE (a, b)"),
        (0, "a VARCHAR(400) NOT NULL, b TEXT NOT NULL, UNIQUE (a(200), b(200))"),
        (1, "a INT NOT NULL, UNIQUE (a) USING HASH"),
        (1, "a INT NOT NULL, UNIQUE USING HASH (a)"),
        (0, "a INT NOT NULL, UNIQUE (a) USING BTREE"),
        (0, "a INT NOT NULL, PRIMARY KEY (a) USING HASH"),
        (0, "a TEXT NOT NULL, KEY (a)"),
        (2, "a INT NOT NULL, b TEXT UNIQUE, c TEXT UNIQUE, UNIQUE (a)"),
    ],
)
def test_long_unique_keys_have_hashes_and_tell_no_rows_apart(hashes: int, columns: str) -> None:
    found = table(f"CREATE TABLE t ({columns}) ENGINE=InnoDB")
    assert found.completion().hashes == hashes
    told_apart = [one for one in found.keys if one.unique and not found.is_hashed(one) and not one.parts[0].prefix]
    assert len(list(found.row_keys())) == len(told_apart)


def test_length_of_keys_depends_on_the_engine() -> None:
    columns = "a VARCHAR(1500) CHARACTER SET latin1 NOT NULL UNIQUE"
    made = {engine: f"CREATE TABLE t ({columns}) ENGINE={engine}" for engine in ("InnoDB", "MyISAM", "Aria", "MEMORY")}
    assert {engine: key(text) for engine, text in made.items()} == {
        "InnoDB": ["a"], "MyISAM": [], "Aria": ["a"], "MEMORY": ["a"],
    }  # fmt: skip
    assert key(made["InnoDB"], "ALTER TABLE t ENGINE=MyISAM") == []
    assert key("CREATE TABLE t (a INT NOT NULL, UNIQUE (a) USING HASH) ENGINE=MEMORY") == ["a"]


def test_virtual_columns_are_outside_of_innodb_where_a_statement_names_another_engine() -> None:
    made = "CREATE TABLE t (a INT, v INT AS (a) VIRTUAL, s INT AS (a) STORED)"

    def generated(*texts: str) -> tuple[Generated | None, ...]:
        return tuple(column.generated for column in table(*texts).completion().columns)

    inside = (None, Generated.VIRTUAL, Generated.STORED)
    outside = (None, Generated.VIRTUAL_OUTSIDE_INNODB, Generated.STORED)
    assert generated(made) == generated(made + " ENGINE=InnoDB") == inside
    assert generated(made + " ENGINE=Aria") == generated(made, "ALTER TABLE t ENGINE=MyISAM") == outside
    assert generated(made + " ENGINE=Aria", "ALTER TABLE t ENGINE=InnoDB") == inside


def test_virtual_columns_are_computed_of_a_number_directly_or_through_others() -> None:
    made = "CREATE TABLE t (i INT AUTO_INCREMENT PRIMARY KEY, a INT, v INT AS (A + I), w INT AS (v), x INT AS (a))"
    generated = [column.generated for column in table(made).completion().columns]
    numbered = Generated.VIRTUAL_NUMBERED
    assert generated == [None, None, numbered, numbered, Generated.VIRTUAL]
    altered = table(made, "ALTER TABLE t MODIFY i INT").completion()
    assert [column.generated for column in altered.columns[2:]] == [Generated.VIRTUAL] * 3


@pytest.mark.parametrize(
    ("more", "is_indexed"),
    [
        ("KEY (c(9))", True),
        ("v INT AS (c->'$.a'), KEY (v)", True),
        ("KEY ((LEFT(x, 9)))", True),
        ("v INT AS (x), KEY (v)", False),
        ("KEY (c(9))) ENGINE=MyISAM /*", False),
    ],
)
def test_virtual_blobs_are_indexed_directly_or_through_others(more: str, *, is_indexed: bool) -> None:
    text = f"CREATE TABLE t (i INT PRIMARY KEY, x INT, c JSON AS (json_object('a', x)), {more}) /* */"
    (kind,) = [column.generated for column in table(text).completion().columns if column.name == "c"]
    assert (kind is Generated.VIRTUAL_INDEXED) is is_indexed


def test_long_key_may_have_a_hash_where_no_statement_names_the_engine() -> None:
    made = "CREATE TABLE t (a VARBINARY(1500) NOT NULL UNIQUE, b VARBINARY(700) NOT NULL UNIQUE)"
    hashes = {engine: table(made + engine).completion().hashes for engine in ("", " ENGINE=InnoDB", " ENGINE=MyISAM")}
    assert hashes == {"": 1, " ENGINE=InnoDB": 0, " ENGINE=MyISAM": 1}
    history = SchemaHistory()
    history.observe(block_of(query(made)))
    columns = (Column(None, ColumnType.VARCHAR, 1500, False), Column(None, ColumnType.VARCHAR, 700, False), BIGINT)
    layout = TableLayout("shop", "t", columns, (), "0" * 16, bytes(40))
    assert [column.name for column in history.completed(layout, position(2)).columns] == ["a", "b"]


def test_mysql_has_no_hashes() -> None:
    assert key("CREATE TABLE t (a INT NOT NULL, UNIQUE (a) USING HASH)", vendor=Vendor.MYSQL) == ["a"]


def test_key_of_a_period_has_its_columns() -> None:
    made = "CREATE TABLE t (id INT, s DATE, e DATE, PERIOD FOR d (s, e), PRIMARY KEY (id, d WITHOUT OVERLAPS))"
    assert key(made) == ["id", "e", "s"]
    found = table(made, "ALTER TABLE t CHANGE s since DATE NOT NULL")
    assert found.period == Period("d", "since", "e")
    assert found.primary_key == ("id", "e", "since")
    assert table(made, "ALTER TABLE t DROP PRIMARY KEY, DROP PERIOD FOR d").period is None
    later = "ALTER TABLE t ADD PERIOD FOR d (s, e), ADD UNIQUE (id, d WITHOUT OVERLAPS)"
    assert key("CREATE TABLE t (id INT NOT NULL, s DATE, e DATE)", later) == ["id", "e", "s"]
    missing = "ALTER TABLE t ADD PERIOD IF NOT EXISTS FOR d (e, s)"
    assert table(made, missing).period == Period("d", "s", "e")
    assert table("CREATE TABLE t (id INT, s DATE, e DATE)", missing).period == Period("d", "e", "s")
    versioned = "CREATE TABLE t (id INT PRIMARY KEY, rs TIMESTAMP(6) AS ROW START, re TIMESTAMP(6) AS ROW END, "
    assert table(versioned + "PERIOD FOR SYSTEM_TIME (rs, re)) WITH SYSTEM VERSIONING").period is None


def test_nothing_goes_before_the_key_that_mysql_makes() -> None:
    made = (
        "CREATE TABLE t (my_row_id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT INVISIBLE, a INT, PRIMARY KEY (my_row_id))"
    )
    added = "ALTER TABLE t ADD b INT FIRST, MODIFY a INT FIRST"

    def names(create: str, vendor: Vendor) -> list[str]:
        return [column.name for column in table(create, added, vendor=vendor).columns or ()]

    assert names(made, Vendor.MYSQL) == ["my_row_id", "a", "b"]
    assert names(made, Vendor.MARIADB) == ["a", "b", "my_row_id"]
    assert names(made.replace("INVISIBLE", ""), Vendor.MYSQL) == ["a", "b", "my_row_id"]
    elsewhere = "CREATE TABLE t (x INT, my_row_id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT INVISIBLE PRIMARY KEY, a INT)"
    assert names(elsewhere, Vendor.MYSQL) == ["a", "b", "x", "my_row_id"]


def test_hash_is_known_from_statements_alone() -> None:
    history = SchemaHistory()
    history.observe(block_of(query("CREATE TABLE t (id INT PRIMARY KEY, u INT NOT NULL, UNIQUE (u) USING HASH)")))
    layout = TableLayout("shop", "t", (INT, INT, BIGINT), (), "0" * 16, bytes(40))
    completed = history.completed(layout, position(2))
    assert [column.name for column in completed.columns] == ["id", "u"]
    assert (completed.primary_key, len(completed.hidden)) == ((0,), 1)


def test_declared_column_with_the_name_of_a_hash_is_shown() -> None:
    history = SchemaHistory()
    history.observe(block_of(query("CREATE TABLE t (id INT PRIMARY KEY, DB_ROW_HASH_1 BIGINT UNSIGNED)")))
    number = Column("id", ColumnType.LONG, 0, False, unsigned=False)
    taken = Column("DB_ROW_HASH_1", ColumnType.LONGLONG, 0, True, unsigned=True)
    layout = TableLayout("shop", "t", (number,), (0,), "0" * 16, bytes(40), hidden=(taken,))
    assert [column.name for column in history.completed(layout, position(2)).columns] == ["id", "DB_ROW_HASH_1"]
    assert SchemaHistory().completed(layout, position(2)) == layout


@pytest.mark.parametrize(
    ("column", "is_open"), [("TIMESTAMP", True), ("TIMESTAMP NULL", False), ("TIMESTAMP NOT NULL", False)]
)
def test_key_of_a_timestamp_is_open_where_no_log_states_whether_it_takes_null(column: str, *, is_open: bool) -> None:
    assert table(f"CREATE TABLE t (a INT NOT NULL UNIQUE, b {column}, UNIQUE (b))").is_key_open is is_open
