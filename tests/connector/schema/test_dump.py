"""Schema files."""

from __future__ import annotations

import shutil
import subprocess
import time
from typing import TYPE_CHECKING

import pytest

from binlog_connector.schema.catalog import Catalog, Unclear, parse_dump, read_schema_file
from binlog_connector.schema.definitions import TableDefinition, TableName
from binlog_format.errors import OptionError, SchemaError

if TYPE_CHECKING:
    from pathlib import Path

    from binlog_lab.demo.mariadb.server import MariaDbServer

DUMP = r"""/*!999999\- enable the sandbox mode */
-- MariaDB dump 10.19  Distrib 10.11.19-MariaDB, for debian-linux-gnu (x86_64)
--
-- Host: localhost    Database: ignored
-- ------------------------------------------------------
/*!40101 SET @OLD_CHARACTER_SET_CLIENT=@@CHARACTER_SET_CLIENT */;
/*!40101 SET NAMES utf8mb4 */;

CREATE DATABASE /*!32312 IF NOT EXISTS*/ `shop` /*!40100 DEFAULT CHARACTER SET latin1 COLLATE latin1_swedish_ci */;

USE `shop`;
DROP TABLE IF EXISTS `orders`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
CREATE TABLE `orders` (
  `id` int(10) unsigned NOT NULL AUTO_INCREMENT,
  `note` text DEFAULT NULL COMMENT 'a; b -- c',
  PRIMARY KEY (`id`)
) ENGINE=InnoDB;
INSERT INTO `orders` VALUES (1,'CREATE TABLE `x` (a INT);'),(2,'it\'s; ''so'' /* '),(3,"\\");
CREATE TABLE `v` (
  `id` tinyint NOT NULL
) ENGINE=MyISAM;
/*!50001 DROP TABLE IF EXISTS `old`*/;
/*!50001 CREATE TABLE `old` (
  `a` tinyint NOT NULL
) ENGINE=MyISAM */;
DELIMITER ;;
/*!50003 CREATE*/ /*!50017 DEFINER=`root`@`localhost`*/ /*!50003 TRIGGER `tr` BEFORE INSERT ON `orders` FOR EACH ROW
BEGIN
  CREATE TEMPORARY TABLE tt (a INT);
  DROP TABLE orders;
END */;;
CREATE PROCEDURE `p`()
BEGIN
  DROP TABLE orders;
END ;;
DELIMITER ;
CREATE DATABASE `other`;
USE `other`;
CREATE TABLE `orders` (`x` uuid NOT NULL, `y` bit(3) DEFAULT b'101', `z` point /*!80003 SRID 4326 */)
  DEFAULT CHARSET=utf8mb4;
USE `shop`;
/*!50001 DROP TABLE IF EXISTS `v`*/;
/*!50001 CREATE ALGORITHM=UNDEFINED */
/*!50013 DEFINER=`root`@`localhost` SQL SECURITY DEFINER */
/*!50001 VIEW `v` AS select 1 AS `id` */;
-- Dump completed"""


def table(catalog: Catalog, database: str, name: str) -> TableDefinition:
    state = catalog.tables[TableName(database, name)]
    assert isinstance(state, TableDefinition), state
    return state


def test_dump_gives_its_tables_and_nothing_else() -> None:
    catalog = parse_dump(DUMP)
    assert set(catalog.tables) == {("shop", "orders"), ("shop", "old"), ("other", "orders")}
    orders = table(catalog, "shop", "orders")
    assert [(one.name, one.declared, one.charset) for one in orders.columns or ()] == [
        ("id", "int(10)", None),
        ("note", "text", "latin1"),
    ]
    assert [one.declared for one in table(catalog, "other", "orders").columns or ()] == ["uuid", "bit(3)", "point"]


def test_head_names_the_database_where_there_is_no_use() -> None:
    catalog = parse_dump("-- Host: db1.example    Database: shop\n-- ---\nCREATE TABLE t (a INT);")
    assert set(catalog.tables) == {("shop", "t")}


def test_table_without_a_database_is_an_error() -> None:
    with pytest.raises(SchemaError) as raised:
        parse_dump("-- by hand\n\nCREATE TABLE t (a INT);", source="schema.sql")
    assert str(raised.value).startswith(
        "[BINLOG_SCHEMA.DDL_NOT_PARSED] schema.sql: line 3: nothing names the database of the table t"
    )


def test_damaged_definition_makes_its_table_unclear_alone() -> None:
    catalog = parse_dump("USE s; CREATE TABLE a (x INT; CREATE TABLE b (y INT);")
    assert isinstance(catalog.tables[TableName("s", "a")], Unclear)
    assert [one.name for one in table(catalog, "s", "b").columns or ()] == ["y"]


def test_file_that_is_none_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "schema.sql"
    with pytest.raises(OptionError, match="No such file"):
        read_schema_file(str(path))
    path.write_text("SELECT 1;")
    with pytest.raises(OptionError, match="there is no CREATE TABLE in it"):
        read_schema_file(str(path))
    path.write_bytes("USE s; CREATE TABLE t (a INT, `ü` INT);".encode("latin1"))
    with pytest.raises(OptionError, match="names of table 't' are not UTF-8"):
        read_schema_file(str(path))


def test_rows_that_are_no_text_are_passed_over_fast(tmp_path: Path) -> None:
    row = b"(1,'" + bytes(range(1, 256)).replace(b"'", b"").replace(b"\\", b"") + b"'),"
    insert = b"INSERT INTO t VALUES " + row * 40_000 + b"(0,'');\n"
    path = tmp_path / "full.sql"
    path.write_bytes(b"USE s;\nCREATE TABLE t (a INT, b BLOB);\n" + insert + b"CREATE TABLE u (a INT);\n")
    start = time.process_time()
    catalog = read_schema_file(str(path))
    assert time.process_time() - start < 5  # 10 MB; a second on a slow machine
    assert set(catalog.tables) == {("s", "t"), ("s", "u")}


def test_names_may_ignore_case() -> None:
    catalog = parse_dump("USE Shop; CREATE TABLE Orders (a INT); ALTER TABLE orders ADD b INT;", ignore_case=True)
    assert [one.name for one in table(catalog, "shop", "orders").columns or ()] == ["a", "b"]


@pytest.mark.server
def test_dump_of_a_live_server_is_read(mariadb_server: MariaDbServer) -> None:
    program = shutil.which("mariadb-dump")
    if program is None:
        pytest.skip("no mariadb-dump")
    with mariadb_server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE d CHARACTER SET cp1251")
        cursor.execute("CREATE TABLE d.t (id INT PRIMARY KEY, a TEXT, u UUID, c VARCHAR(9) COMPRESSED) CHARSET=utf8mb4")
        cursor.execute("CREATE TRIGGER d.tr AFTER INSERT ON d.t FOR EACH ROW BEGIN SET @x = ';'; SET @y = 1; END")
        cursor.execute("CREATE VIEW d.v AS SELECT id FROM d.t")
        cursor.execute("CREATE PROCEDURE d.p() BEGIN DROP TABLE d.t; END")
        cursor.execute("CREATE SEQUENCE d.s")
        cursor.execute("CREATE USER dumper@'127.0.0.1' IDENTIFIED BY 'a test of dumps'")
        cursor.execute("GRANT ALL ON *.* TO dumper@'127.0.0.1'")
    options = ["--no-data", "--routines", "--triggers", "--databases", "d"]
    dumped = subprocess.run(
        [program, "--no-defaults", "-h127.0.0.1", f"-P{mariadb_server.port}", "-udumper", *options],
        env={"MYSQL_PWD": "a test of dumps"},
        check=True,
        capture_output=True,
    )
    catalog = parse_dump(dumped.stdout.decode())
    assert [(one.name, one.declared) for one in table(catalog, "d", "t").columns or ()] == [
        ("id", "int(11)"),
        ("a", "text"),
        ("u", "uuid"),
        ("c", "varchar(9)"),
    ]
    assert len(table(catalog, "d", "s").columns or ()) == 8
    assert TableName("d", "v") not in catalog.tables
    assert catalog.databases["d"] == "cp1251"


@pytest.mark.parametrize("text", ["'" + "\\'" * 100_000, "`" + "``" * 100_000, '"' + '\\"' * 100_000 + "\\"])
def test_quote_without_its_end_is_looked_for_once(text: str) -> None:
    started = time.process_time()
    assert not parse_dump(f"CREATE TABLE d.t (a int); {text}").databases
    assert time.process_time() - started < 5
