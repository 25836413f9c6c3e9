"""CREATE TABLE that a server wrote anew: its texts are UTF-8, and the table's character set is left out."""

from __future__ import annotations

import pytest

from binlog_connector.schema.log_ddl import ddl_statements
from binlog_connector.schema.operations import AlterTable, NotParsed
from binlog_connector.schema.parsing.lexer import MODE_ANSI_QUOTES
from binlog_connector.schema.parsing.row_statements import ddl_operations
from binlog_connector.schema.parsing.server_texts import is_server_text
from binlog_connector.schema.parsing.session import StatementSession
from binlog_format.vendor import Vendor
from binlog_lab.event_encoding.event_encoding import Origin, QueryContext, encode_query
from tests.connector.schema.layouts import block_of
from tests.connector.schema.test_ddl import after, table

# As MariaDB 10.11.19, MySQL 5.7.22 and MySQL 5.6.24 log CREATE TABLE t LIKE a temporary table.
MARIADB = (
    "CREATE TABLE `t` (\n  `id` int(11) NOT NULL AUTO_INCREMENT,\n  `a` varchar(9) DEFAULT 'it''s',\n"
    "  `b` text DEFAULT NULL,\n  `e` enum('a','b') CHARACTER SET latin1 COLLATE latin1_swedish_ci DEFAULT NULL,\n"
    "  PRIMARY KEY (`id`),\n  KEY `k` (`a`)\n) ENGINE=InnoDB COMMENT='hello'"
)
MYSQL = "CREATE TABLE `t` (\n  `id` int(11) DEFAULT NULL,\n  `b` text\n) ENGINE=MyISAM ROW_FORMAT=DYNAMIC"
OLD_MYSQL = "CREATE TABLE IF NOT EXISTS `t` (\n  `id` int(11) DEFAULT NULL,\n  `b` text\n)"
ANSI = 'CREATE TABLE "t" (\n  "id" int(11) DEFAULT NULL,\n  "b" text DEFAULT NULL\n) ENGINE=MyISAM'
BARE = "CREATE TABLE t (\n  `id` int(11) DEFAULT NULL,\n  b text DEFAULT NULL\n) ENGINE=InnoDB"
IN_MARIADB = StatementSession("shop", vendor=Vendor.MARIADB, server_version=10_11_19)
IN_MYSQL = StatementSession("shop", vendor=Vendor.MYSQL, server_version=5_07_22)
IN_OLD_MYSQL = StatementSession("shop", vendor=Vendor.MYSQL, server_version=5_06_24)
IN_ANSI = StatementSession("shop", MODE_ANSI_QUOTES, vendor=Vendor.MARIADB, server_version=10_11_19)


def charsets(text: str, session: StatementSession) -> list[str | None]:
    catalog = after("ALTER DATABASE CHARACTER SET latin2", text, "ALTER TABLE t ADD z TEXT", session=session)
    return [column.charset for column in table(catalog).columns or () if column.name in ("b", "e", "z")]


@pytest.mark.parametrize(
    ("text", "session", "expected"),
    [
        (MARIADB, IN_MARIADB, [None, "latin1", None]),
        (MYSQL, IN_MYSQL, [None, None]),
        (OLD_MYSQL, IN_OLD_MYSQL, [None, None]),
        (ANSI, IN_ANSI, [None, None]),
        (BARE, IN_MARIADB, [None, None]),
    ],
)
def test_table_like_a_temporary_one_may_have_any_charset(
    text: str, session: StatementSession, expected: list[str | None]
) -> None:
    assert charsets(text, session) == expected


@pytest.mark.parametrize(
    ("text", "session"),
    [
        (OLD_MYSQL, IN_MYSQL),  # CREATE TABLE ... SELECT
        (MYSQL, StatementSession("shop", vendor=Vendor.MARIADB, server_version=10_11_19, fills_table=True)),
        (MYSQL, StatementSession("shop")),  # of a dump
        ("CREATE TABLE `t` (\n  `id` int NOT NULL,\n  `b` text\n) ENGINE=InnoDB", IN_MYSQL),
        ("CREATE TABLE `t` (\n  `id` int(11),\n  `b` text\n) ENGINE=InnoDB", IN_MARIADB),
        ("CREATE TABLE `t` (\n  `id` int(11) NOT NULL PRIMARY KEY,\n  `b` text\n) ENGINE=InnoDB", IN_MARIADB),
        ("CREATE TABLE t (\n\tid int(11) NOT NULL,\n\tb text\n) ENGINE=InnoDB", IN_MARIADB),
        ("CREATE TABLE t (id INT(11) NOT NULL, b TEXT) ENGINE=InnoDB", IN_MARIADB),
        ("CREATE TABLE t (\n  id int(11) NOT NULL,\n  b text\n) ENGINE=INNODB", IN_MARIADB),
        ("CREATE TABLE t (\n  id int(11) default NULL,\n  b text NOT NULL\n) ENGINE=MyISAM", IN_MARIADB),
        ("CREATE TABLE t (\n  id int(11) NOT NULL,\n  b text default ''\n) ENGINE=MyISAM", IN_MARIADB),
    ],
)
def test_other_tables_have_that_of_their_database(text: str, session: StatementSession) -> None:
    assert charsets(text, session) == ["latin2", "latin2"]


def test_stated_charset_is_that_of_the_table() -> None:
    assert charsets(f"{MYSQL} DEFAULT CHARSET=cp1251", IN_MYSQL) == ["cp1251", "cp1251"]


LATIN1, SWE7, UTF8 = 8, 10, 33
"""latin1_swedish_ci, swe7_swedish_ci, utf8mb3_general_ci."""


@pytest.mark.parametrize(
    ("text", "expected"),
    [(MARIADB.replace("'a'", "'é'"), "'é'"), ("CREATE TABLE `t` (e ENUM('é'))", "'Ã©'")],
)
def test_text_of_the_server_is_utf8_whatever_the_client_has(text: str, expected: str) -> None:
    event = encode_query(text, Origin(17, 3), QueryContext(database="shop", collation_id=LATIN1))
    (statement,) = ddl_statements(block_of(event))
    assert expected in statement.text


def test_text_that_is_not_utf8_is_not_of_the_server() -> None:
    assert is_server_text(MARIADB.replace("'a'", "'é'").encode())
    assert not is_server_text(MARIADB.replace("'a'", "'é'").encode("latin-1"))


@pytest.mark.parametrize(
    ("text", "is_clear"),
    [
        ("ALTER TABLE t ADD f VARCHAR(9) DEFAULT 'é'", False),
        ("ALTER TABLE t ADD e ENUM('é')", False),
        ("ALTER TABLE t ADD `é` INT", False),
        ("ALTER TABLE t ADD f INT COMMENT 'é'", True),
        ("ALTER TABLE t ADD f INT /* é */", True),
    ],
)
def test_letters_that_can_be_read_two_ways_are_named_where_they_matter(text: str, is_clear: bool) -> None:
    event = encode_query(text, Origin(17, 3), QueryContext(database="shop", collation_id=LATIN1))
    (statement,) = ddl_statements(block_of(event))
    assert statement.other_text == text
    (operation,) = ddl_operations(statement)
    assert isinstance(operation, AlterTable if is_clear else NotParsed)
    assert str(operation.name if isinstance(operation, AlterTable) else operation.names[0]) == "shop.t"


@pytest.mark.parametrize(
    ("literal", "connection_id", "is_clear"),
    [("ы", LATIN1, False), ("é", LATIN1, True), ("😀", UTF8, False), ("ы", UTF8, True)],
)
def test_literals_that_the_server_converts_are_named_where_letters_get_lost(
    literal: str, connection_id: int, is_clear: bool
) -> None:
    """Live on both vendors: after `SET collation_connection = latin1_swedish_ci`, the default is a question mark."""
    text = f"ALTER TABLE t ADD f VARCHAR(9) DEFAULT '{literal}'"
    event = encode_query(text, Origin(17, 3), QueryContext(database="shop", connection_id=connection_id))
    (statement,) = ddl_statements(block_of(event))
    (operation,) = ddl_operations(statement)
    assert isinstance(operation, AlterTable if is_clear else NotParsed)
    if isinstance(operation, NotParsed):
        assert "letters that a character set of its session lacks (client or collation_connection)" in operation.reason


def names_not_parsed(event: bytes) -> list[str]:
    """Names of the tables of a statement, which is not understood."""
    (statement,) = ddl_statements(block_of(event))
    (operation,) = ddl_operations(statement)
    assert isinstance(operation, NotParsed)
    return list(map(str, operation.names))


def test_bytes_that_are_no_text_are_named_where_they_matter() -> None:
    """Live on MySQL 5.7: `PREPARE s FROM CONCAT('CREATE TABLE `', CHAR(131), '` ...')` makes the table `?`."""
    event = encode_query("CREATE TABLE `@` (a INT)", Origin(17, 3), QueryContext(database="shop")).replace(
        b"@", b"\x83"
    )
    assert "shop.?" in names_not_parsed(event)


def test_quotes_of_names_are_letters_in_swe7() -> None:
    """A server reads the byte as a quote, and writes it as one: `DROP TABLE` of a session of that character set."""
    event = encode_query("DROP TABLE `t`", Origin(17, 3), QueryContext(database="shop", collation_id=SWE7))
    assert "shop.t" in names_not_parsed(event)


def test_name_that_can_be_read_two_ways_is_of_two_tables() -> None:
    event = encode_query("DROP TABLE `é`", Origin(17, 3), QueryContext(database="shop", collation_id=LATIN1))
    assert sorted(names_not_parsed(event)) == ["shop.Ã©", "shop.é"]
