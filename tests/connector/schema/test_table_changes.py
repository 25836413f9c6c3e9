"""What statements do to tables, for who keeps copies of them."""

from __future__ import annotations

import datetime
import pickle
import string
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlog_connector.schema.definitions import TableName
from binlog_connector.schema.effects.column_facts import default_facts
from binlog_connector.schema.log_ddl import DdlStatement
from binlog_connector.schema.parsing.lexer import MODE_ANSI_QUOTES, MODE_MSSQL
from binlog_connector.schema.table_changes import (
    DatabaseDropped,
    PartitionsDropped,
    RowsMoved,
    TableAltered,
    TableCreated,
    TableDropped,
    TableRenamed,
    TableTruncated,
    UnsupportedChange,
    table_changes,
)
from binlog_format.events.table_map_layout import ColumnType
from binlog_format.position import Position
from binlog_format.rows.declared.declared_types import DeclaredDefault, DefaultKind, Generated
from binlog_format.rows.decoding import Decoding, TimeType, ZeroDates
from binlog_format.vendor import Vendor
from tests.connector.schema.test_ddl import after, table

if TYPE_CHECKING:
    from binlog_connector.schema.effects.column_facts import ColumnFacts
    from binlog_connector.schema.table_changes import TableChange

NOON = 1_700_049_600  # 2023-11-15 12:00:00 UTC
T = TableName("shop", "t")


def changes(text: str, decoding: Decoding | None = None, **session: Any) -> list[TableChange | RowsMoved]:
    statement = DdlStatement(Position(1, 0, 0), 1, text, "shop", commit_time=NOON, **session)
    return table_changes(statement, decoding or Decoding())


def altered(actions: str, **session: Any) -> TableAltered:
    (change,) = changes(f"ALTER TABLE t {actions}", **session)
    assert isinstance(change, TableAltered)
    return change


def added(declaration: str, decoding: Decoding | None = None, **session: Any) -> ColumnFacts:
    (change,) = changes(f"ALTER TABLE t ADD c {declaration}", decoding, **session)
    assert isinstance(change, TableAltered)
    (facts,) = change.added
    assert (facts.existing is None) == (facts.unknown is not None)
    return facts


def names(facts: tuple[ColumnFacts, ...]) -> list[str]:
    return [one.name for one in facts]


def test_alter_gives_all_its_actions_in_one_change() -> None:
    change = altered(
        "ADD x INT NOT NULL DEFAULT 5 FIRST, DROP COLUMN gone, CHANGE a b BIGINT UNSIGNED, MODIFY m VARCHAR(9), "
        "RENAME COLUMN old TO new, ADD (y DATE, z TEXT), DROP PRIMARY KEY, ADD PRIMARY KEY (x, b)"
    )
    assert (names(change.added), names(change.modified)) == (["x", "y", "z"], ["b", "m"])
    assert change.renamed == {"old": "new", "a": "b"}
    assert change.dropped == ("gone",)
    assert change.primary_key == ("x", "b")
    x, y, _ = change.added
    assert (x.existing, x.column.nullable, x.column.unsigned) == (pa.scalar(5, pa.int32()), False, False)
    assert (y.existing, y.column.nullable) == (pa.scalar(None, pa.date32()), True)
    b, m = change.modified
    assert (b.column.type, b.column.unsigned, b.column.nullable) == (ColumnType.LONGLONG, True, False)
    assert (m.existing, m.unknown) == (None, "what they held before, in its new type")


def test_rename_stands_after_the_columns() -> None:
    assert changes("ALTER TABLE t ADD x INT, RENAME TO other.u")[1:] == [TableRenamed(T, TableName("other", "u"))]
    (only,) = changes("ALTER TABLE t ENGINE=InnoDB, RENAME u")
    assert only == TableRenamed(T, TableName("shop", "u"))


def test_chain_of_renames_comes_as_it_stands() -> None:
    found = changes("RENAME TABLE a TO tmp, b TO a, tmp TO x.b")
    shop = {name: TableName("shop", name) for name in ("a", "b", "tmp")}
    assert found == [
        TableRenamed(shop["a"], shop["tmp"]),
        TableRenamed(shop["b"], shop["a"]),
        TableRenamed(shop["tmp"], TableName("x", "b")),
    ]


def test_columns_may_change_names_with_each_other() -> None:
    assert altered("CHANGE a b INT, CHANGE b a TEXT").renamed == {"a": "b", "b": "a"}
    assert altered("CHANGE `A` a INT").renamed == {"A": "a"}
    assert altered("CHANGE a a INT").renamed == {}


@pytest.mark.parametrize(
    ("actions", "key"),
    [
        ("ADD PRIMARY KEY (a)", ("a",)),
        ("ADD CONSTRAINT p PRIMARY KEY USING BTREE (a, b DESC)", ("a", "b")),
        ("ADD id INT AUTO_INCREMENT PRIMARY KEY FIRST", ("id",)),
        ("DROP PRIMARY KEY", ()),
        ("DROP COLUMN a", None),
    ],
)
def test_primary_key_is_told_where_it_changes(actions: str, key: tuple[str, ...] | None) -> None:
    assert altered(actions).primary_key == key


def test_index_on_its_own_can_be_the_primary_key() -> None:
    (change,) = changes("DROP INDEX `PRIMARY` ON t")
    assert change == TableAltered(T, primary_key=(), keys_open=True)


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("ALTER TABLE t ADD UNIQUE (a)", True),
        ("ALTER TABLE t ADD c INT UNIQUE", True),
        ("CREATE UNIQUE INDEX i ON t (a)", True),
        ("DROP INDEX i ON t", True),
        ("ALTER TABLE t ADD SYSTEM VERSIONING", True),
        ("ALTER TABLE t ADD c INT, ADD KEY (a)", False),
        ("ALTER TABLE t MODIFY a INT", False),
    ],
)
def test_other_keys_may_tell_rows_apart_after_it(statement: str, expected: bool) -> None:
    (change,) = changes(statement)
    assert isinstance(change, TableAltered)
    assert change.keys_open is expected


@pytest.mark.parametrize(
    ("actions", "keys", "expected"),
    [
        ("MODIFY a INT NOT NULL", (), True),
        ("MODIFY a INT", ("A",), True),
        ("CHANGE a b INT", ("a",), True),
        ("MODIFY b INT", ("a",), False),
        ("DROP a", ("a", "b"), True),
        ("DROP c", ("a", "b"), False),
        ("ADD c INT", (), False),
        ("DROP KEY u", ("a",), True),
    ],
)
def test_columns_that_change_may_make_another_key(actions: str, keys: tuple[str, ...], expected: bool) -> None:
    assert altered(actions).may_change_key(keys) is expected


@pytest.mark.parametrize(
    ("key", "columns"),
    [
        ("PRIMARY KEY (b, a)", ("b", "a")),
        ("UNIQUE (c), UNIQUE (a, b)", ("a", "b")),
        ("UNIQUE (c)", ()),
        ("KEY (a)", ()),
        ("UNIQUE (a(3))", ()),
    ],
)
def test_key_of_a_new_table_is_the_one_that_table_maps_have(key: str, columns: tuple[str, ...]) -> None:
    (change,) = changes(f"CREATE TABLE t (a VARCHAR(9) NOT NULL, b INT NOT NULL, c INT, {key})")
    assert isinstance(change, TableCreated)
    assert change.primary_key == columns


def test_new_table_comes_with_its_columns() -> None:
    (change,) = changes(
        "CREATE OR REPLACE TABLE x.t (id SERIAL, v INT AS (id) STORED, PRIMARY KEY (id)) CHARSET latin1"
    )
    assert isinstance(change, TableCreated)
    assert (change.name, change.if_not_exists, change.primary_key) == (TableName("x", "t"), False, ("id",))
    assert change.columns is not None
    number, computed = change.columns
    assert (number.column.type, number.column.unsigned, number.unknown) == (
        ColumnType.LONGLONG,
        True,
        "AUTO_INCREMENT",
    )
    assert (computed.generated, computed.unknown) == ("stored", "a generated column")


@pytest.mark.parametrize(
    ("text", "like"),
    [
        ("CREATE TABLE IF NOT EXISTS t LIKE other.u", TableName("other", "u")),
        ("CREATE TABLE IF NOT EXISTS t (LIKE u)", TableName("shop", "u")),
        ("CREATE TABLE IF NOT EXISTS t AS SELECT 1 AS a", None),
        ("CREATE TABLE IF NOT EXISTS t (a INT) SELECT 1 AS b", None),
        ("CREATE TABLE IF NOT EXISTS t (a PLUGIN_TYPE(3))", None),
        ("CREATE TABLE IF NOT EXISTS t (a TEXT CHARACTER SET klingon)", None),
        ("CREATE TABLE IF NOT EXISTS t (a DECIMAL(99,98))", None),
    ],
)
def test_columns_that_the_statement_alone_does_not_say(text: str, like: TableName | None) -> None:
    assert changes(text) == [TableCreated(T, None, (), True, like)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("TRUNCATE t", [TableTruncated(T)]),
        ("truncate table `shop`.`t` WAIT 3", [TableTruncated(T)]),
        ("DROP TABLE IF EXISTS t, x.u /* generated by server */", [TableDropped(T), TableDropped(TableName("x", "u"))]),
        ("DROP DATABASE IF EXISTS shop", [DatabaseDropped("shop")]),
        ("CREATE TEMPORARY TABLE t (a INT)", []),
        ("DROP /*!40005 TEMPORARY */ TABLE IF EXISTS t", []),
        ("CREATE VIEW t AS SELECT 1", []),
        ("DROP VIEW t", []),
        ("CREATE SEQUENCE t", []),
        ("CREATE INDEX i ON t (a)", []),
        ("ALTER TABLE t ADD KEY (a), COMMENT 'x', DEFAULT CHARACTER SET latin1", []),
        ("ALTER TABLE t ALTER a SET DEFAULT 5", [TableAltered(T, sets_defaults=True)]),
        ("ALTER TABLE t ALTER COLUMN a DROP DEFAULT", [TableAltered(T, sets_defaults=True)]),
        ("ALTER DATABASE shop CHARACTER SET latin1", []),
        ("CREATE USER t", []),
        ("", []),
    ],
)
def test_statements_about_whole_tables_or_none(text: str, expected: list[TableChange]) -> None:
    assert changes(text) == expected


@pytest.mark.parametrize(
    ("text", "tables"),
    [
        ("ALTER TABLE t ADD c PLUGIN_TYPE(3)", ["t"]),
        ("CREATE TABLE t (a INT", ["t"]),
        ("TRUNCATE TABLE `t", []),
        ("ALTER TABLE t CHANGE a", ["t"]),
    ],
)
def test_what_is_not_understood_is_told_with_its_tables(text: str, tables: list[str]) -> None:
    (change,) = changes(text)
    assert isinstance(change, UnsupportedChange)
    assert change.names == tuple(TableName("shop", name) for name in tables)
    assert change.reason


def test_tables_whose_engine_keeps_no_rows_are_told() -> None:
    created, moved = changes("CREATE TABLE t (a INT) ENGINE=MERGE UNION=(u, v)")
    assert isinstance(created, TableCreated)
    assert isinstance(moved, RowsMoved)
    assert moved.names == tuple(TableName("shop", name) for name in "tuv")
    assert "MERGE" in moved.reason
    assert len(changes("CREATE TABLE t (a INT) ENGINE=Aria")) == 1


@pytest.mark.parametrize(
    ("text", "tables", "reason"),
    [
        (
            "ALTER TABLE t EXCHANGE PARTITION p0 WITH TABLE u WITHOUT VALIDATION",
            ["t", "u"],
            "EXCHANGE PARTITION p0 WITH",
        ),
        ("ALTER TABLE t CONVERT PARTITION p0 TO TABLE u", ["t", "u"], "CONVERT PARTITION p0 TO TABLE shop.u"),
        ("ALTER TABLE t CONVERT TABLE u TO PARTITION p0 VALUES LESS THAN (3)", ["t", "u"], "CONVERT TABLE shop.u TO"),
        ("ALTER TABLE t DISCARD TABLESPACE", ["t"], "DISCARD TABLESPACE"),
        ("ALTER TABLE t ENGINE = 'BlackHole', ADD KEY (a)", ["t"], "a table of the engine BLACKHOLE has"),
        ("ALTER TABLE t IMPORT TABLESPACE", ["t"], "IMPORT TABLESPACE"),
        ("ALTER TABLE t DISCARD PARTITION p0, p1 TABLESPACE", ["t"], "DISCARD TABLESPACE"),
        ("ALTER TABLE t IMPORT PARTITION ALL TABLESPACE", ["t"], "IMPORT TABLESPACE"),
        ("ALTER IGNORE TABLE t ADD UNIQUE (a)", ["t"], "ALTER IGNORE TABLE"),
        ("ALTER TABLE t DROP SYSTEM VERSIONING", ["t"], "DROP SYSTEM VERSIONING"),
        ("ALTER TABLE t COMMENT 'x' ENGINE MERGE UNION=(u, v.w), ADD b INT", ["t", "u", "v.w"], "a table of"),
        ("ALTER TABLE t INSERT_METHOD = LAST UNION (u)", ["t", "u"], "a table of the engine MERGE has"),
    ],
)
def test_rows_that_no_log_has_are_told_with_both_tables(text: str, tables: list[str], reason: str) -> None:
    change = changes(text)[-1]  # ADD UNIQUE may change the key, too
    assert isinstance(change, RowsMoved)
    assert change.names == tuple(TableName.parse(name if "." in name else f"shop.{name}") for name in tables)
    assert change.reason.startswith(reason)


@pytest.mark.parametrize(
    ("actions", "partitions", "if_exists"),
    [
        ("DROP PARTITION p0", ("p0",), False),
        ("DROP PARTITION IF EXISTS p0, `p 1`", ("p0", "p 1"), True),
        ("TRUNCATE PARTITION p0, p1", ("p0", "p1"), False),
    ],
)
def test_partitions_that_lose_their_rows_are_named(actions: str, partitions: tuple[str, ...], if_exists: bool) -> None:
    (change,) = changes(f"ALTER TABLE t {actions}")
    assert isinstance(change, PartitionsDropped)
    assert (change.name, change.partitions, change.if_exists) == (T, partitions, if_exists)


def test_all_partitions_truncated_are_the_table_truncated() -> None:
    assert changes("ALTER TABLE t TRUNCATE PARTITION ALL") == [TableTruncated(T)]


@pytest.mark.parametrize(
    "text",
    [
        "ALTER TABLE t ADD PARTITION (PARTITION p1 VALUES LESS THAN (9))",
        "ALTER TABLE t REORGANIZE PARTITION p0 INTO (PARTITION a VALUES LESS THAN (3))",
        "ALTER TABLE t COALESCE PARTITION 2",
        "ALTER TABLE t REORGANIZE PARTITION",
        "ALTER TABLE t REBUILD PARTITION p0, p1",
        "ALTER TABLE t OPTIMIZE PARTITION ALL",
        "ALTER TABLE t ANALYZE PARTITION p0, p1",
        "ALTER TABLE t CHECK PARTITION p0 EXTENDED",
        "ALTER TABLE t REPAIR PARTITION p0, `drop`",
        "ALTER TABLE t ENGINE=InnoDB PARTITION BY HASH (a) PARTITIONS 4",
        "ALTER TABLE t ADD PARTITION (PARTITION p1 VALUES UNHEARD OF)",
        "ALTER TABLE t REMOVE PARTITIONING",
        "ALTER TABLE t DROP CHECK c",
        "ALTER TABLE t DROP FOREIGN KEY f",
        "ALTER IGNORE TABLE t ADD INDEX (a)",
    ],
)
def test_partitions_and_constraints_that_keep_all_rows_are_nothing(text: str) -> None:
    assert changes(text) == []


def test_if_not_exists_is_told_with_the_column() -> None:
    change = altered("ADD COLUMN IF NOT EXISTS a INT DEFAULT 1, ADD b INT, DROP IF EXISTS c, MODIFY IF EXISTS d INT")
    assert [(one.name, one.if_missing) for one in change.added] == [("a", True), ("b", False)]
    assert (change.dropped, names(change.modified)) == (("c",), ["d"])
    change = altered("ADD IF NOT EXISTS (a INT, b INT, A TEXT), CHANGE IF EXISTS x y INT, ADD IF NOT EXISTS y INT")
    assert [one.name for one in change.added] == ["a", "b"]


def test_system_versioning_adds_its_columns() -> None:
    change = altered("ADD SYSTEM VERSIONING")
    assert names(change.added) == ["row_start", "row_end"]
    assert {one.unknown for one in change.added} == {"a time of system versioning"}
    dropped, _ = changes("ALTER TABLE t DROP SYSTEM VERSIONING")
    assert isinstance(dropped, TableAltered)
    assert dropped.dropped == ("row_start", "row_end")
    own = altered(
        "ADD rs TIMESTAMP(6) GENERATED ALWAYS AS ROW START, ADD re TIMESTAMP(6) AS ROW END, "
        "ADD PERIOD FOR SYSTEM_TIME (rs, re), ADD SYSTEM VERSIONING"
    )
    assert names(own.added) == ["rs", "re"]


GHOST_LOG = (
    "create /* gh-ost */ table `shop`.`_t_ghc` (id bigint unsigned auto_increment, last_update timestamp not null "
    "DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP, hint varchar(64) charset ascii not null, "
    "value varchar(4096) charset ascii not null, primary key(id), unique key hint_uidx(hint)) auto_increment=256"
)


def test_gh_ost_comes_as_it_runs() -> None:
    ghost, gone, log = (TableName("shop", name) for name in ("_t_gho", "_t_del", "_t_ghc"))
    statements = [
        GHOST_LOG,
        "create /* gh-ost */ table `shop`.`_t_gho` like `shop`.`t`",
        "alter /* gh-ost */ table `shop`.`_t_gho` ADD COLUMN extra DATETIME(3) AFTER id",
        "rename /* gh-ost */ table `shop`.`t` to `shop`.`_t_del`, `shop`.`_t_gho` to `shop`.`t`",
        "drop /* gh-ost */ table if exists `shop`.`_t_ghc`",
    ]
    found = [change for text in statements for change in changes(text)]
    created, *others = found
    assert isinstance(created, TableCreated)
    assert (created.name, created.primary_key) == (log, ("id",))
    like, extra, *last = others
    assert like == TableCreated(ghost, None, (), False, T)
    assert isinstance(extra, TableAltered)
    assert (extra.name, names(extra.added)) == (ghost, ["extra"])
    assert last == [TableRenamed(T, gone), TableRenamed(ghost, T), TableDropped(log)]


def test_pt_online_schema_change_comes_as_it_runs() -> None:
    new, old = TableName("shop", "_t_new"), TableName("shop", "_t_old")
    statements = [
        "CREATE TABLE `shop`.`_t_new` (\n  `id` int(11) NOT NULL,\n  PRIMARY KEY (`id`)\n) ENGINE=InnoDB",
        "ALTER TABLE `shop`.`_t_new` add column note text",
        "CREATE DEFINER=`root`@`localhost` TRIGGER `pt_osc_del` AFTER DELETE ON `shop`.`t` FOR EACH ROW BEGIN END",
        "ANALYZE TABLE `shop`.`_t_new` /* pt-online-schema-change */",
        "RENAME TABLE `shop`.`t` TO `shop`.`_t_old`, `shop`.`_t_new` TO `shop`.`t`",
        "DROP TABLE IF EXISTS `_t_old` /* generated by server */",
    ]
    found = [change for text in statements for change in changes(text)]
    assert [type(change) for change in found[:2]] == [TableCreated, TableAltered]
    assert found[2:] == [TableRenamed(T, old), TableRenamed(new, T), TableDropped(old)]


@pytest.mark.parametrize(
    ("name", "mode"),
    [('"a `b"', MODE_ANSI_QUOTES), ("[a `b]", MODE_MSSQL), ("`a ``b`", 0), ("/**/ shop . `a ``b`", 0)],
)
def test_table_of_a_statement_that_is_not_understood_is_read_in_its_quotes(name: str, mode: int) -> None:
    (change,) = changes(f"ALTER TABLE {name} ADD a NO_SUCH_TYPE", sql_mode=mode)
    assert isinstance(change, UnsupportedChange)
    assert change.names == (TableName("shop", "a `b"),)


def test_default_that_is_a_label_of_bytes_keeps_the_spaces_at_its_end() -> None:
    assert added("ENUM('x', 'x ') CHARACTER SET binary DEFAULT 'x '").existing == pa.scalar("x ")
    assert added("ENUM('x', 'y') CHARACTER SET latin1 DEFAULT 'x '").existing == pa.scalar("x")


def test_quotes_are_read_as_the_session_reads_them() -> None:
    (change,) = changes('ALTER TABLE "a ""b" ADD "c d" VARCHAR(3) DEFAULT \'"\'', sql_mode=MODE_ANSI_QUOTES)
    assert isinstance(change, TableAltered)
    assert (change.name, names(change.added)) == (TableName("shop", 'a "b'), ["c d"])
    assert change.added[0].existing == pa.scalar('"')
    (bracketed,) = changes("ALTER TABLE [a ]]b] ADD [c d] VARCHAR(3) DEFAULT '[e]'", sql_mode=MODE_MSSQL)
    assert isinstance(bracketed, TableAltered)
    assert (bracketed.name, names(bracketed.added)) == (TableName("shop", "a ]b"), ["c d"])
    assert bracketed.added[0].existing == pa.scalar("[e]")
    (plain,) = changes('alter table T add C varchar(3) default "a""b"')
    assert isinstance(plain, TableAltered)
    assert (plain.name, plain.added[0].name, plain.added[0].existing) == (TableName("shop", "T"), "C", pa.scalar('a"b'))


@pytest.mark.parametrize(
    ("declaration", "value"),
    [
        ("INT UNSIGNED NOT NULL", 0),
        ("TINYINT DEFAULT -3", -3),
        ("BOOLEAN DEFAULT TRUE", 1),
        ("INT DEFAULT '1.5'", 2),
        ("BIGINT UNSIGNED DEFAULT 18446744073709551615", Decimal(18446744073709551615)),
        ("DECIMAL(5,2) DEFAULT 1.005", Decimal("1.01")),
        ("DECIMAL(50,2) DEFAULT -0.001", "0.00"),
        ("DECIMAL(50,2) DEFAULT -1", "-1.00"),
        ("FLOAT DEFAULT 0.1", 0.10000000149011612),
        ("DOUBLE DEFAULT 1e3", 1000.0),
        # As MariaDB 10.11 and MySQL 9.7 hold them.
        ("DOUBLE(8,2) DEFAULT 1.005", 1.0),
        ("DOUBLE(8,2) DEFAULT -1.005", -1.0),
        ("DOUBLE(8,2) DEFAULT '1.115'", 1.12),
        ("DOUBLE(8,2) DEFAULT 1.125", 1.12),
        ("DOUBLE(8,2) DEFAULT 1.135", 1.1400000000000001),
        ("DOUBLE(10,3) DEFAULT -0.005", -0.0050000000000000044),
        ("DOUBLE(5,0) DEFAULT 2.5", 2.0),
        ("FLOAT(6,1) DEFAULT 0.25", 0.20000000298023224),
        ("DOUBLE DEFAULT -0.0", 0.0),
        (r"VARCHAR(9) DEFAULT 'a\%\_\x\\'", r"a\%\_x" + "\\"),
        (r"ENUM('a\%') NOT NULL", r"a\%"),
        ("BIT DEFAULT b'1'", True),
        # As MariaDB 10.11 and 11.8, and MySQL 5.7 and 9.7 hold them.
        ("DECIMAL(30,0) DEFAULT 18446744073709551615e0", Decimal(18446744073709552000)),
        ("BIGINT UNSIGNED DEFAULT 12345678901234567890.5e0", Decimal(12345678901234567168)),
        ("VARBINARY(9) DEFAULT b'0000000001'", b"\0\x01"),
        ("BIT(9) NOT NULL DEFAULT 0x101", 257),
        ("YEAR DEFAULT '70'", 1970),
        ("CHAR(5) DEFAULT 'ab  '", "ab"),
        ("TEXT NOT NULL", ""),
        ("BINARY(3) DEFAULT 'a'", b"a\0\0"),
        ("BLOB DEFAULT x'00ff'", b"\0\xff"),
        ("ENUM('a','b') NOT NULL", "a"),
        ("ENUM('a','b') DEFAULT 'B'", "b"),
        ("SET('a','b','c') DEFAULT 'c,a'", "a,c"),
        ("DATE DEFAULT '2024-2-9'", datetime.date(2024, 2, 9)),
        ("DATETIME(3) DEFAULT '2024-02-29 01:02:03.5'", datetime.datetime(2024, 2, 29, 1, 2, 3, 500000)),  # noqa: DTZ001
        ("DATETIME NOT NULL", None),
        ("TIMESTAMP DEFAULT 0", None),
        ("TIME(2) DEFAULT '-1:02:03'", "-01:02:03.00"),
        ("JSON DEFAULT '{}'", "{}"),
        ("UUID DEFAULT 'F3DBD1D4-0000-1000-8000-00AA00BBCC00'", "f3dbd1d4-0000-1000-8000-00aa00bbcc00"),
        ("INET6 NOT NULL", "::"),
        ("POINT", None),
        ("VARCHAR(9) DEFAULT ('a')", "a"),
        # Numbers are numbers first: asked on ten servers.
        ("VARCHAR(9) DEFAULT 007", "7"),
        ("VARCHAR(9) DEFAULT -0", "0"),
        ("VARCHAR(9) DEFAULT -.50", "-0.50"),
        ("VARBINARY(9) DEFAULT (007)", b"7"),
        ("VARCHAR(9) DEFAULT '007'", "007"),
        ("VARCHAR(20) DEFAULT DATE '2024-2-9'", "2024-02-09"),
        ("VARCHAR(30) DEFAULT TIMESTAMP'2024-2-9 1:2:3.40'", "2024-02-09 01:02:03.40"),
        ("VARCHAR(20) DEFAULT TIME'-1:2:3'", "-01:02:03"),
        ("INT DEFAULT 2e1", 20),
        ("TIME DEFAULT '8:30'", "08:30:00"),
        ("TIME DEFAULT 80000", "08:00:00"),
        ("TIME DEFAULT '-123'", "-00:01:23"),
        ("TIME DEFAULT '7'", "00:00:07"),
        ("TIME DEFAULT 0", "00:00:00"),
        ("VARCHAR(9) DEFAULT NULL", None),
    ],
)
def test_rows_that_are_there_hold_the_default(declaration: str, value: object) -> None:
    facts = added(declaration)
    assert facts.unknown is None
    assert facts.existing is not None
    assert facts.existing.as_py() == value
    assert str(facts.existing.as_py()) == str(value), "-0.0 is not 0.0"


@pytest.mark.parametrize(
    ("declaration", "mariadb", "mysql"),
    [
        ("DATETIME DEFAULT '1970-01-02 00:00:01.000001'", "1970-01-02 00:00:01", "1970-01-02 00:00:01"),
        ("DATETIME DEFAULT '1999-12-31 23:59:59.999999'", "1999-12-31 23:59:59", "2000-01-01 00:00:00"),
        ("TIME DEFAULT '-00:00:00.6'", "00:00:00", "-00:00:01"),
        ("TIME(3) DEFAULT '23:59:59.999999'", "23:59:59.999", "24:00:00.000"),
        ("DATE DEFAULT '1999-12-31 23:59:59.9'", "1999-12-31", "2000-01-01"),
    ],
)
def test_digits_of_a_second_that_a_column_lacks_are_cut_or_rounded(declaration: str, mariadb: str, mysql: str) -> None:
    # The other way round with TIME_ROUND_FRACTIONAL and TIME_TRUNCATE_FRACTIONAL.
    for vendor, sql_mode, value in (
        (Vendor.MARIADB, 0, mariadb),
        (Vendor.MYSQL, 0, mysql),
        (Vendor.MARIADB, 1 << 34, mysql),
        (Vendor.MYSQL, 1 << 32, mariadb),
    ):
        facts = added(declaration, vendor=vendor, sql_mode=sql_mode)
        assert facts.existing is not None
        assert str(facts.existing.as_py()) == value


@pytest.mark.parametrize(
    ("declaration", "reason"),
    [
        ("INT DEFAULT (1 + 1)", "an expression"),
        ("VARCHAR(36) DEFAULT UUID()", "an expression"),
        ("INT DEFAULT NEXTVAL(s)", "an expression"),
        ("INT AUTO_INCREMENT UNIQUE", "AUTO_INCREMENT"),
        ("SERIAL DEFAULT NULL", "AUTO_INCREMENT"),
        ("INT AS (a * 2)", "a generated column"),
        ("TIMESTAMP", "a TIMESTAMP without a default, and explicit_defaults_for_timestamp is not ON"),
        ("TINYINT DEFAULT 400", "a number that the column does not hold"),
        ("INT DEFAULT 'x'", "no number"),
        ("FLOAT(5,9999999) DEFAULT 1", "a value that the column does not hold"),
        ("POINT NOT NULL", "NOT NULL, without a default that its type would have"),
        ("DATE DEFAULT 'tomorrow'", "a date in an unusual spelling"),
        ("DATETIME DEFAULT '2024-02-30'", "no date of the calendar"),
        ("VARCHAR(2) DEFAULT 'abc'", "a text that the column does not hold"),
        ("TEXT DEFAULT '\ufffd'", "an expression"),
        ("ENUM('a') DEFAULT 'z'", "no label"),
        ("VARCHAR(9) DEFAULT 1e1", "a number for a text"),
        ("INT DEFAULT 2.5e0", "a double that is rounded"),
        ("DECIMAL(4,1) DEFAULT 0.25e0", "a double that is rounded"),
        ("DOUBLE DEFAULT '-0'", "a zero with a sign, which newer servers leave out"),
        ("VARCHAR(9) DEFAULT DATE'24-2-9'", "an expression"),
        ("TIME DEFAULT '1 02:03:04'", "a time in an unusual spelling"),
    ],
)
def test_what_the_statement_does_not_say_is_unknown(declaration: str, reason: str) -> None:
    assert added(declaration).unknown == reason


@pytest.mark.parametrize(
    ("declaration", "session", "text"),
    [
        ("TIMESTAMP NULL DEFAULT NOW()", {}, "2023-11-15 12:00:00+00:00"),
        ("DATETIME DEFAULT CURRENT_TIMESTAMP", {"time_zone": "+05:30"}, "2023-11-15 17:30:00"),
        ("DATETIME DEFAULT LOCALTIMESTAMP()", {"time_zone": "-1:00"}, "2023-11-15 11:00:00"),
        ("DATETIME(3) DEFAULT NOW(3)", {"time_zone": "UTC", "microseconds": 123456}, "2023-11-15 12:00:00.123000"),
        ("DATETIME(3) DEFAULT NOW()", {"time_zone": "UTC", "microseconds": 123456}, "2023-11-15 12:00:00.123000"),
        ("TIMESTAMP NULL DEFAULT '2024-01-01 00:30:00'", {"time_zone": "+01:00"}, "2023-12-31 23:30:00+00:00"),
        ("DATE DEFAULT (CURRENT_DATE)", {"time_zone": "+12:00"}, "2023-11-16"),
        ("DATE DEFAULT CURDATE()", {"time_zone": "-12:30"}, "2023-11-14"),
        ("DATE DEFAULT NOW()", {"time_zone": "UTC"}, "2023-11-15"),
        ("TIMESTAMP", {"explicit_timestamps": True}, "None"),
        ("TIMESTAMP NULL", {}, "None"),
    ],
)
def test_times_are_those_of_the_statement(declaration: str, session: dict[str, Any], text: str) -> None:
    assert str(added(declaration, **session).existing) == text


@pytest.mark.parametrize(
    ("declaration", "session", "reason"),
    [
        ("DATETIME DEFAULT NOW()", {}, "a time in a time zone that the log does not record"),
        (
            "DATETIME DEFAULT NOW()",
            {"time_zone": "SYSTEM"},
            "a time in the time zone SYSTEM (option systemTimeZone states which it is)",
        ),
        (
            "TIMESTAMP DEFAULT '2024-10-27 02:30:00'",
            {"time_zone": "Europe/Rome"},
            "a time that the time zone Europe/Rome has twice, or not at all",
        ),
        (
            "TIMESTAMP DEFAULT '2024-01-01'",
            {"time_zone": "Europe/Nowhere"},
            "a time in the time zone Europe/Nowhere, which is not known here",
        ),
        ("TIMESTAMP(6) DEFAULT NOW(6)", {}, "CURRENT_TIMESTAMP, of which the log has no microseconds"),
        ("DATE DEFAULT (CURRENT_DATE)", {}, "a time in a time zone that the log does not record"),
        ("DATETIME DEFAULT (CURRENT_DATE())", {"time_zone": "UTC"}, "CURRENT_DATE for another type"),
        ("DATE DEFAULT (CURDATE() + 1)", {"time_zone": "UTC"}, "an expression"),
        ("VARCHAR(30) DEFAULT NOW()", {"time_zone": "UTC"}, "CURRENT_TIMESTAMP for another type"),
    ],
)
def test_time_that_the_log_does_not_say_is_unknown(declaration: str, session: dict[str, Any], reason: str) -> None:
    assert added(declaration, **session).unknown == reason


@pytest.mark.parametrize(
    ("zone", "moment", "local"),
    [
        ("UTC", "2024-01-01 00:00:00+00:00", "2023-11-15 12:00:00"),
        ("-03:30", "2024-01-01 03:30:00+00:00", "2023-11-15 08:30:00"),
        ("Europe/Rome", "2023-12-31 23:00:00+00:00", "2023-11-15 13:00:00"),
    ],
)
def test_times_in_the_time_zone_of_the_server_are_known_where_the_job_states_it(
    zone: str, moment: str, local: str
) -> None:
    stated = Decoding(system_time_zone=zone)
    for decoding, session in ((stated, "SYSTEM"), (Decoding(), zone)):
        assert str(added("TIMESTAMP DEFAULT '2024-01-01'", decoding, time_zone=session).existing) == moment
        assert str(added("DATETIME DEFAULT NOW()", decoding, time_zone=session).existing) == local


@pytest.mark.parametrize("word", ["LOCALTIME", "LOCALTIMESTAMP()"])
def test_newer_mariadb_has_no_fraction_in_localtime(word: str) -> None:
    session: dict[str, Any] = {"time_zone": "UTC", "microseconds": 123456}
    assert str(added(f"DATETIME(3) DEFAULT {word}", server_version=110405, **session).existing)[-7:] == ".123000"
    newer = added(f"DATETIME(3) DEFAULT {word}", server_version=110809, **session)
    assert newer.unknown == "CURRENT_TIMESTAMP without the fraction that the column has"
    assert str(added(f"DATETIME DEFAULT {word}", server_version=110809, **session).existing) == "2023-11-15 12:00:00"


@pytest.mark.parametrize(
    "declaration",
    [
        "BIT(64) DEFAULT 1e19",
        "BIGINT DEFAULT x'000000000000000001'",
        "DECIMAL(9,2) UNSIGNED DEFAULT (-3)",
        "FLOAT UNSIGNED DEFAULT (-3)",
    ],
)
def test_numbers_that_servers_cut_each_in_its_way_are_unknown(declaration: str) -> None:
    assert added(declaration, vendor=Vendor.MYSQL).unknown


def test_bytes_are_text_of_wide_characters_on_mysql() -> None:
    for vendor, text in ((Vendor.MARIADB, "ab"), (Vendor.MYSQL, "\u6162")):
        facts = added("VARCHAR(9) CHARACTER SET utf16 DEFAULT _binary'ab'", vendor=vendor)
        assert facts.existing == pa.scalar(text)


def test_values_are_as_the_reader_wants_them() -> None:
    assert added("TIME NOT NULL DEFAULT '-00:00:01'", Decoding(time_type=TimeType.MICROS)).existing == pa.scalar(
        -1000000
    )
    strict = Decoding(zero_dates=ZeroDates.ERROR)
    assert added("DATE NOT NULL", strict).unknown == "a zero date, which option zeroDates=error refuses"
    assert added("DATE", strict).existing == pa.scalar(None, pa.date32())


@pytest.mark.parametrize("literal", ["''", "_latin1 ''", "('')"])
def test_empty_literal_is_null_in_sessions_of_mariadb_that_say_so(literal: str) -> None:
    for vendor, value in ((Vendor.MARIADB, None), (Vendor.MYSQL, "")):
        facts = added(f"VARCHAR(5) DEFAULT {literal}", vendor=vendor, sql_mode=1 << 32)
        assert facts.existing is not None
        assert facts.existing.as_py() == value
    facts = added("VARBINARY(5) DEFAULT x''", vendor=Vendor.MARIADB, sql_mode=1 << 32)
    assert facts.existing is not None
    assert facts.existing.as_py() == b""


@pytest.mark.parametrize(
    ("declaration", "text"),
    [
        ("DATE NOT NULL", "0000-00-00"),
        ("DATE NOT NULL DEFAULT '2024-00-00'", "2024-00-00"),
        ("DATE DEFAULT '2024-2-9'", "2024-02-09"),
        ("DATE", None),
        ("DATETIME(3) NOT NULL", "0000-00-00 00:00:00.000"),
        ("DATETIME(2) DEFAULT '2024-01-02 03:04:05.67'", "2024-01-02 03:04:05.67"),
        ("DATETIME DEFAULT '2024-01-02'", "2024-01-02 00:00:00"),
        ("DATETIME(1) DEFAULT '2024-00-02 03:04:05.6'", "2024-00-02 03:04:05.6"),
    ],
)
def test_dates_of_defaults_are_texts_where_dates_are(declaration: str, text: str | None) -> None:
    assert added(declaration, Decoding(zero_dates=ZeroDates.TEXT)).existing == pa.scalar(text, pa.string())


@pytest.mark.parametrize(
    ("declaration", "mysql", "mariadb"),
    [
        ("JSON DEFAULT ('{ }')", "{}", "{ }"),
        ("JSON NOT NULL", "null", ""),
        ("JSON", None, None),
        ("JSON DEFAULT (JSON_OBJECT())", "{}", "{}"),
        ("JSON DEFAULT (JSON_ARRAY())", "[]", "[]"),
        ("JSON DEFAULT (JSON_OBJECT('bb', 1, 'a', NULL))", '{"a": null, "bb": 1}', '{"bb": 1, "a": null}'),
        ("TEXT DEFAULT (JSON_OBJECT('bb', 1, 'a', NULL))", '{"a": null, "bb": 1}', '{"bb": 1, "a": null}'),
        ("JSON DEFAULT (JSON_ARRAY('x', TRUE, -7, JSON_ARRAY()))", '["x", true, -7, []]', '["x", 1, -7, []]'),
    ],
)
def test_json_is_written_as_the_server_does(declaration: str, mysql: str | None, mariadb: str | None) -> None:
    # Asked on MySQL 5.7 (NOT NULL), 8.0 and 9.7, and MariaDB 10.2, 10.11 and 11.8.
    assert added(declaration, vendor=Vendor.MYSQL).existing == pa.scalar(mysql, pa.string())
    assert added(declaration, vendor=Vendor.MARIADB).existing == pa.scalar(mariadb, pa.string())


@pytest.mark.parametrize(
    "call",
    [
        "JSON_OBJECT('a', 1, 'a', 2)",
        "JSON_OBJECT('a')",
        "JSON_OBJECT(1, 2)",
        "JSON_ARRAY(1.50)",
        "JSON_ARRAY('')",
        "JSON_ARRAY('\"')",
        "JSON_ARRAY(1 + 1)",
        "JSON_ARRAY(-TRUE)",
        "JSON_ARRAY(NOW())",
        "JSON_ARRAY(1 2)",
        "JSON_ARRAY('é' - 5)",
        "JSON_ARRAY(JSON_ARRAY)",
    ],
)
def test_json_of_other_expressions_is_not_guessed(call: str) -> None:
    for vendor in Vendor:
        assert added(f"JSON DEFAULT ({call})", vendor=vendor).unknown == "an expression"
    assert added("JSON DEFAULT ('[0.12345678901234567]')", vendor=Vendor.MYSQL).existing is None


def test_texts_of_expressions_whose_backslashes_mysql_doubles_are_not_guessed() -> None:
    plain, mode = r"TEXT DEFAULT ('a\b')", 1 << 20
    assert added(plain, vendor=Vendor.MYSQL, sql_mode=mode).unknown == "an expression"
    assert added(plain, vendor=Vendor.MARIADB, sql_mode=mode).existing == pa.scalar(r"a\b")
    assert added(r"TEXT DEFAULT ('a\\b')", vendor=Vendor.MYSQL).existing == pa.scalar(r"a\b")


def test_changes_can_be_sent_to_other_processes() -> None:
    (change,) = changes("ALTER TABLE t ADD a DECIMAL(9,2) DEFAULT 1, ADD b TIMESTAMP NULL DEFAULT NOW()")
    assert pickle.loads(pickle.dumps(change)) == change


def test_definitions_keep_defaults() -> None:
    catalog = after(
        "CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, a INT DEFAULT 5, b INT DEFAULT 6, v INT AS (a) PERSISTENT)",
        "ALTER TABLE t ALTER a SET DEFAULT (7), ALTER COLUMN b DROP DEFAULT, CHANGE v w INT AS (a), "
        "ADD ts TIMESTAMP DEFAULT '2024-01-01'",
    )
    found = {column.name: column for column in table(catalog).columns or ()}
    assert found["a"].default == DeclaredDefault(DefaultKind.NUMBER, "7")
    assert (found["b"].default, found["w"].generated) == (None, Generated.VIRTUAL)
    assert default_facts(found["a"], Vendor.MARIADB).existing == pa.scalar(7, pa.int32())
    assert default_facts(found["b"], Vendor.MARIADB).existing == pa.scalar(None, pa.int32())
    assert default_facts(replace(found["b"], nullable=False), Vendor.MARIADB).existing == pa.scalar(0, pa.int32())
    assert default_facts(found["id"], Vendor.MARIADB).unknown == "AUTO_INCREMENT"
    assert default_facts(found["w"], Vendor.MARIADB).generated == "virtual"
    assert default_facts(found["ts"], Vendor.MARIADB).unknown == "a time in a time zone that the log does not record"


SOME_WORDS = """
ALTER TABLE t ADD COLUMN c INT DEFAULT ( ) , NOT NULL NOW() CURRENT_TIMESTAMP(9) RENAME TO u DROP CHANGE MODIFY PRIMARY
KEY UNIQUE ENUM('a') DECIMAL(5,2) DECIMAL(0) DECIMAL(99,9) BIT(70) YEAR DATE TIMESTAMP(6) VARCHAR(0) CHAR(3) TIME(9)
JSON UUID -1 1e999 0x b'1' x'f' '' 'x' _latin1 AS (1) STORED TRUNCATE PARTITION p IF EXISTS SYSTEM VERSIONING CREATE
LIKE SELECT INET6 BINARY(3) FLOAT(99,99) SET ALTER EXCHANGE CONVERT WITH
"""
SOME_TYPES = """
TINYINT INT BIGINT YEAR BIT(64) BIT(3) DECIMAL(9,2) DECIMAL(60,30) FLOAT DOUBLE(7,2) CHAR(3) TEXT BLOB BINARY(4) DATE
DATETIME(3) TIMESTAMP TIME(1) ENUM('1') SET('x') JSON UUID INET4 INET6 POINT VECTOR(3)
"""
WORDS = st.lists(st.sampled_from(SOME_WORDS.split()), max_size=14).map(" ".join)
TYPES = st.sampled_from(SOME_TYPES.split())
LITERALS = st.one_of(
    st.text(alphabet=string.printable, max_size=12).map(lambda text: "'" + text.replace("'", "''") + "'"),
    st.decimals(allow_nan=False, allow_infinity=False).map(str),
    st.integers().map(str),
    st.integers(0, 1 << 70).map(hex),
    st.dates().map(lambda day: f"'{day}'"),
    st.from_regex(r"\((\(|\)|1| |'a'){0,8}", fullmatch=True),
)


@given(st.one_of(st.text(max_size=60), WORDS, WORDS.map("ALTER TABLE t {}".format)))
def test_any_text_is_read_or_not_understood(text: str) -> None:
    for change in changes(text) + changes(f"CREATE TABLE t ({text}"):
        assert isinstance(change.__repr__(), str)


@given(TYPES, LITERALS, st.booleans())
def test_any_default_is_known_or_not(kind: str, literal: str, mysql: bool) -> None:
    vendor = Vendor.MYSQL if mysql else Vendor.MARIADB
    for change in changes(f"ALTER TABLE t ADD c {kind} DEFAULT {literal}", vendor=vendor, time_zone="+00:00"):
        if isinstance(change, TableAltered):
            for facts in change.added:
                assert (facts.existing is None) == (facts.unknown is not None)


def test_deep_parentheses_are_no_trouble() -> None:
    assert added("INT DEFAULT " + "(" * 5000 + "3" + ")" * 5000).existing == pa.scalar(3, pa.int32())
