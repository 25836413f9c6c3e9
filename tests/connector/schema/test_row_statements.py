"""Statements that change rows, as text: which tables they change."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlog_connector.schema.definitions import TableName
from binlog_connector.schema.operations import (
    ChangeRows,
    CreateFunction,
    CreateTemporaryTable,
    CreateTrigger,
    DropTables,
    DropTemporaryTables,
    DropTrigger,
    TruncateTable,
)
from binlog_connector.schema.parsing.lexer import MODE_ANSI_QUOTES
from binlog_connector.schema.parsing.row_statements import NO_ROWS_WORDS, parse_statement
from binlog_connector.schema.parsing.session import StatementSession
from binlog_format.vendor import Vendor

SHOP = StatementSession("shop", vendor=Vendor.MARIADB)


def changed(text: str, session: StatementSession = SHOP) -> list[str] | None:
    """Tables whose rows the statement changes; None: any."""
    names = [one.names for one in parse_statement(text, session) if isinstance(one, ChangeRows)]
    assert len(names) < 2
    return [] if not names else None if names[0] is None else [str(name) for name in names[0]]


@pytest.mark.parametrize(
    ("text", "tables"),
    [
        ("INSERT t VALUES (1)", ["shop.t"]),
        ("INSERT INTO t VALUES ('it''s', \"; DELETE FROM u\", x'00')", ["shop.t"]),
        ("INSERT DELAYED IGNORE INTO `a``b`.`c.d` (x) SELECT * FROM u", ["a`b.c.d"]),
        ("REPLACE LOW_PRIORITY INTO .t SET a = 1", ["shop.t"]),
        ("insert/**/into/*!50701 other.*/t values (1)", ["shop.t"]),
        ("insert/**/into/*M!100100 other.*/t values (1)", ["other.t"]),
        ("UPDATE t SET a = (SELECT b FROM u WHERE u.id = t.id) WHERE c IN (SELECT 1)", ["shop.t"]),
        ("UPDATE t AS x SET a = 1 ORDER BY b LIMIT 3", ["shop.t"]),
        ("UPDATE t, u SET t.a = u.b", ["shop.t"]),
        ("UPDATE t, u SET a = b", ["shop.t", "shop.u"]),
        ("UPDATE t JOIN (u, v) ON t.id = u.id SET v.a = 1, shop.t.b = 2 WHERE 1", ["shop.v", "shop.t"]),
        ("UPDATE t LEFT JOIN x.u USING (id) NATURAL JOIN v SET u.a = 1", ["x.u"]),
        ("UPDATE t USE INDEX (i) STRAIGHT_JOIN u FORCE KEY (j) ON (t.a = u.a) SET u.b = IF(1, 2, 3)", ["shop.u"]),
        ("UPDATE (SELECT 1 AS id) q JOIN t ON q.id = t.id SET t.a = 1", ["shop.t"]),
        ("UPDATE t PARTITION (p0), JSON_TABLE('[1]', '$[*]' COLUMNS (x INT PATH '$')) j SET t.a = j.x", ["shop.t"]),
        ("DELETE FROM t WHERE a = 1", ["shop.t"]),
        ("DELETE QUICK IGNORE FROM x.t AS y LIMIT 1", ["x.t"]),
        ("DELETE FROM t FOR PORTION OF p FROM 1 TO 2", ["shop.t"]),
        ("DELETE FROM t PARTITION (p)", ["shop.t"]),
        ("DELETE a, b.* FROM t AS a JOIN x.u b JOIN v", ["shop.t", "x.u"]),
        ("DELETE FROM a.*, x.u USING t a, x.u, v WHERE a.id = 1", ["shop.t", "x.u"]),
        ("DELETE u FROM x.u JOIN t", ["x.u"]),
        ("WITH c AS (SELECT 1), d (x) AS (SELECT 2) UPDATE t JOIN c SET t.a = 1", ["shop.t"]),
        ("WITH RECURSIVE c AS (SELECT 1) DELETE FROM t WHERE id IN (SELECT * FROM c)", ["shop.t"]),
        ("LOAD DATA LOCAL INFILE 'INTO TABLE x' REPLACE INTO TABLE `t` FIELDS TERMINATED BY ','", ["shop.t"]),
        ("LOAD XML INFILE 'a' INTO TABLE x.t ROWS IDENTIFIED BY '<r>'", ["x.t"]),
        ("SET STATEMENT max_statement_time = 1, sql_mode = '' FOR DELETE FROM t WHERE a", ["shop.t"]),
        ("SET STATEMENT a = (1 + f('for')), b = 'FOR' FOR INSERT INTO x.t VALUES (1)", ["x.t"]),
        ("SET STATEMENT sql_mode = '' FOR UPDATE t SET a = \"b\"", ["shop.t"]),
        ("SET STATEMENT sql_mode = '' FOR UPDATE \"t\" SET a = 1", None),
        ("SET STATEMENT a = 1 FOR CALL p()", None),
        ("SET STATEMENT a = 1", None),
        ("SET STATEMENT a = 1 FOR CREATE TABLE t SELECT 1", ["shop.t"]),
        ("ANALYZE FORMAT = JSON UPDATE t SET a = 1", ["shop.t"]),
        ("CREATE TABLE t SELECT 1", ["shop.t"]),
        ("CREATE OR REPLACE TABLE x.t (a INT) ENGINE = InnoDB AS SELECT 1", ["x.t"]),
        ("CREATE TABLE IF NOT EXISTS t (SELECT 1)", ["shop.t"]),
        ("ALTER SEQUENCE IF EXISTS s RESTART 5", []),
        ("CREATE SEQUENCE s", []),
        ("SELECT f(1)", None),
        ("(SELECT `x`.`f`(1))", None),
        ("DO f(1)", None),
        ("CALL p()", None),
        ("VALUES (f(1))", None),
        ("MERGE INTO t USING u ON 1 WHEN MATCHED THEN DELETE", None),
        ("UPDATE", None),
        ("DELETE t, u", None),
        ("INSERT INTO `t", None),
        ("'text'", None),
        ("LOAD DATA INFILE 'a' INTO t", None),
    ],
)
def test_tables_whose_rows_a_statement_changes(text: str, tables: list[str] | None) -> None:
    assert changed(text) == tables


@pytest.mark.parametrize(
    "text",
    [
        *("BEGIN", "COMMIT", "ROLLBACK TO a", "SAVEPOINT a", "XA PREPARE 'x'", "/* only */ # a comment", "", "-- x"),
        *("SET a = 1", "SET PASSWORD FOR u = 'x'", "GRANT ALL ON t TO u", "REVOKE ALL ON t FROM u", "FLUSH TABLES"),
        *("ANALYZE TABLE t", "ANALYZE LOCAL TABLE t", "OPTIMIZE TABLE t", "REPAIR TABLE t", "LOAD INDEX INTO CACHE t"),
        *("CREATE USER u", "DROP USER u", "ALTER USER u", "CREATE ROLE r", "INSTALL SONAME 'x'", "USE shop"),
        *("CREATE TABLE t (a INT)", "CREATE TABLE t LIKE u", "DROP TABLE t", "TRUNCATE t", "ALTER TABLE t ADD b INT"),
        *(
            "CREATE VIEW v AS SELECT 1",
            "CREATE EVENT e ON SCHEDULE EVERY 1 DAY DO DELETE FROM t",
            "RENAME TABLE t TO u",
        ),
        *("CREATE TRIGGER x AFTER INSERT ON t FOR EACH ROW DELETE FROM u", "CREATE TEMPORARY TABLE t SELECT 1"),
        *("SET STATEMENT a = 1 FOR ALTER TABLE t ADD b INT", "SET STATEMENT a = 1 FOR ANALYZE TABLE t"),
        *("SET STATEMENT a = 1 FOR COMMIT", "SET ROLE NONE"),
        *("CREATE PROCEDURE p() DELETE FROM t", "CREATE FUNCTION f() RETURNS INT RETURN 1"),
    ],
)
def test_other_statements_change_no_rows(text: str) -> None:
    assert changed(text) == []


def test_delete_without_a_condition_empties_the_table() -> None:
    for text in (
        "DELETE FROM `shop`.`t`",
        "delete quick from t;",
        "DELETE FROM t RETURNING id",
        "DELETE FROM t -- all",
    ):
        assert parse_statement(text, SHOP) == [TruncateTable(TableName("shop", "t"), deletes=True)], text
    assert parse_statement("TRUNCATE t", SHOP) == [TruncateTable(TableName("shop", "t"))]


def test_what_a_statement_may_call_is_listed() -> None:
    text = "INSERT INTO t (a) SELECT F(1) + `x` . `g` (2), 'no(', NOW() FROM u WHERE a IN (h (3))"
    (found,) = parse_statement(text, SHOP)
    assert isinstance(found, ChangeRows)
    assert {"f", "g", "h"} <= set(found.calls)
    (many,) = parse_statement("INSERT INTO t VALUES (" + ", ".join(f"f{n}(1)" for n in range(500)) + ")", SHOP)
    assert isinstance(many, ChangeRows)
    assert many.calls == ("*",)


@pytest.mark.parametrize(
    ("text", "adds"),
    [
        ("INSERT IGNORE INTO t VALUES (1)", True),
        ("SET STATEMENT sort_buffer_size=1 FOR INSERT INTO t SELECT * FROM u", True),
        ("INSERT INTO t SELECT * FROM u -- " + "x" * 2000, True),
        ("INSERT INTO t VALUES (" + "1), (" * 2000 + "2) ON DUPLICATE KEY UPDATE a = 1", False),
        ("REPLACE INTO t VALUES (1)", False),
        ("LOAD DATA INFILE 'x' INTO TABLE t", True),
        ("LOAD DATA INFILE 'x' IGNORE INTO TABLE t", True),
        ("LOAD DATA INFILE 'x' REPLACE INTO TABLE t", False),
        ("UPDATE t SET a = 1", False),
        ("DELETE FROM t WHERE a = 1", False),
    ],
)
def test_statements_that_add_rows_alone_are_known(text: str, adds: bool) -> None:
    (found,) = parse_statement(text, SHOP)
    assert isinstance(found, ChangeRows)
    assert found.adds is adds


def test_what_makes_names_mean_others_is_read() -> None:
    t, x = TableName("shop", "t"), TableName("shop", "x")
    assert parse_statement("CREATE OR REPLACE TEMPORARY TABLE IF NOT EXISTS t (a INT)", SHOP) == [
        CreateTemporaryTable(t)
    ]
    assert parse_statement("DROP TEMPORARY TABLE IF EXISTS t, x", SHOP) == [DropTemporaryTables((t, x))]
    assert parse_statement("DROP TABLE t /* generated by server */", SHOP) == [DropTables((t,))]
    trigger = "CREATE DEFINER = `u`@`%` TRIGGER IF NOT EXISTS x BEFORE INSERT ON t FOR EACH ROW PRECEDES y SET @a = 1"
    assert parse_statement(trigger, SHOP) == [CreateTrigger(x, t, if_not_exists=True)]
    assert parse_statement("DROP TRIGGER IF EXISTS shop.x", SHOP) == [DropTrigger(x)]
    assert parse_statement("CREATE AGGREGATE FUNCTION x (a INT) RETURNS INT RETURN 1", SHOP) == [CreateFunction(x)]
    assert parse_statement("CREATE FUNCTION x RETURNS STRING SONAME 'y.so'", SHOP) == []


def test_a_long_statement_costs_no_more_than_its_head() -> None:
    """The lexer is asked for what stands before the values alone: a quote without its end after them is not met."""
    assert changed("INSERT INTO t VALUES (1), (2), 'open") == ["shop.t"]


# --- generated statements ----------------------------------------------------------------------------------------

BARE = st.sampled_from(["t", "Orders", "x_1", "ärger", "t$1", "1a", "updates", "from_"])
QUOTED = st.text(string.printable, min_size=1, max_size=8).filter(lambda name: name.strip() == name)
SPACES = st.sampled_from([" ", "\n", "\t ", " /* ; DELETE FROM z */ ", " -- x\n", " # 'y\n", "/**/ "])


@st.composite
def names(draw: st.DrawFn, ansi: bool) -> tuple[str, str]:
    """A name, and how it is written."""
    if draw(st.booleans()):
        name = draw(BARE)
        return name, name
    name = draw(QUOTED)
    quote = '"' if ansi and draw(st.booleans()) else "`"
    return name, f"{quote}{name.replace(quote, quote * 2)}{quote}"


@st.composite
def tables(draw: st.DrawFn, ansi: bool) -> tuple[TableName, str]:
    table, said = draw(names(ansi))
    if draw(st.booleans()):
        return TableName("shop", table), said
    database, of = draw(names(ansi))
    dot = draw(st.sampled_from([".", " . "]))
    return TableName(database, table), f"{of}{dot}{said}"


@st.composite
def statements(draw: st.DrawFn) -> tuple[str, StatementSession, list[TableName]]:
    """A statement, its session, and the tables that it changes."""
    ansi = draw(st.booleans())
    found = draw(st.lists(tables(ansi), min_size=1, max_size=3, unique_by=lambda one: one[0]))
    space, tail = draw(SPACES), draw(st.sampled_from(["", " WHERE a = 'b'", " LIMIT 1", " ORDER BY x.y"]))
    (first, said), *_ = found
    refs = f",{space}".join(f"{text} AS a{number}" for number, (_, text) in enumerate(found))
    wanted = sorted(draw(st.sets(st.integers(0, len(found) - 1), min_size=1)))
    kind = draw(st.sampled_from(["insert", "replace", "update", "updates", "delete", "from", "using", "load", "with"]))
    modifiers = draw(st.sampled_from(["", "LOW_PRIORITY ", "IGNORE ", "LOW_PRIORITY IGNORE "]))
    targets = ", ".join(f"a{number}" for number in wanted)
    changes = ", ".join(f"a{number}.c = (1, 2)" for number in wanted)
    text, names_ = {
        "insert": (f"INSERT {modifiers}INTO {said} VALUES (1), ('x')", [first]),
        "replace": (f"REPLACE {said} SELECT * FROM z", [first]),
        "update": (f"UPDATE {modifiers}{said} SET `a b` = 1{tail}", [first]),
        "updates": (f"UPDATE {modifiers}{refs} SET {changes}", [found[number][0] for number in wanted]),
        "delete": (f"DELETE {modifiers}FROM {said} WHERE x IN (SELECT 1)", [first]),
        "from": (f"DELETE {modifiers}{targets} FROM {refs}", [found[number][0] for number in wanted]),
        "using": (f"DELETE FROM {targets} USING {refs}", [found[number][0] for number in wanted]),
        "load": (f"LOAD DATA LOCAL INFILE 'x' REPLACE INTO TABLE {said} (a)", [first]),
        "with": (f"WITH c AS (SELECT 1) UPDATE {said} SET a = 1", [first]),
    }[kind]
    text = text.replace(" ", space, 1)
    if draw(st.booleans()):
        text = f"/*!40101 {text} */"
    if draw(st.booleans()):
        text = f"{space}{text}"
    return text, StatementSession("shop", MODE_ANSI_QUOTES if ansi else 0, vendor=draw(st.sampled_from(Vendor))), names_


@given(statements())
def test_generated_statements_change_the_tables_that_they_were_made_of(
    made: tuple[str, StatementSession, list[TableName]],
) -> None:
    text, session, wanted = made
    (found,) = parse_statement(text, session)
    assert isinstance(found, ChangeRows)
    assert found.names is not None, text
    assert set(found.names) == set(wanted), text


@given(st.text(max_size=60), st.sampled_from(["", "INSERT INTO ", "UPDATE ", "DELETE ", "WITH ", "SET STATEMENT "]))
def test_any_text_gives_operations_and_no_error(text: str, start: str) -> None:
    for one in parse_statement(start + text, SHOP):
        assert one is not None


def test_words_of_statements_without_rows_are_no_words_of_statements_with_rows() -> None:
    rows = {
        "INSERT",
        "REPLACE",
        "UPDATE",
        "DELETE",
        "LOAD",
        "WITH",
        "SELECT",
        "DO",
        "CALL",
        "VALUES",
        "TABLE",
        "TRUNCATE",
    }
    assert not rows & NO_ROWS_WORDS
