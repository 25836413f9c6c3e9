"""Columns added on a live MariaDB: what existing rows hold in them is what the statement alone tells."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pytest

from binlog_connector.schema.history import SchemaHistory
from binlog_connector.schema.log_ddl import DdlStatement, table_statements
from binlog_connector.schema.table_changes import TableAltered, table_changes
from binlog_format import open_log
from binlog_format.rows.columns import arrow_type
from binlog_format.rows.declared.default_values import layout_defaults
from binlog_format.rows.decoding import Decoding, TimeType
from binlog_format.rows.images import ImageKind, read_images
from binlog_format.rows.table_events import TableMaps

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    import pyarrow as pa

    from binlog_connector.schema.effects.column_facts import ColumnFacts
    from binlog_format.events.table_map import TableLayout
    from binlog_lab.demo.mariadb.server import MariaDbServer

pytestmark = pytest.mark.server

MICROS = Decoding(time_type=TimeType.MICROS)
INTEGERS = ("TINYINT", "SMALLINT UNSIGNED", "MEDIUMINT", "INT", "BIGINT", "BIGINT UNSIGNED", "YEAR", "BIT(9)", "BIT(1)")
NUMBERS = (*INTEGERS, "DECIMAL(10,2)", "DECIMAL(20)", "DECIMAL(65,30)", "FLOAT", "FLOAT(7,2)", "DOUBLE", "BIT(64)")
TEXTS = ("CHAR(5)", "VARCHAR(9)", "TEXT", "TINYTEXT", "LONGTEXT CHARACTER SET latin1", "VARCHAR(9) CHARACTER SET utf16")
BYTES = ("BINARY(5)", "VARBINARY(9)", "BLOB")
TIMES = ("DATE", "DATETIME", "DATETIME(3)", "TIMESTAMP", "TIMESTAMP(6)", "TIME", "TIME(3)")
LABELS = ("ENUM('one','two','ünf')", "SET('a','b','c')", "ENUM('A','a') COLLATE utf8mb4_bin")
OTHERS = ("UUID", "INET6", "INET4", "JSON", "POINT")
NUMBER_WORDS = ("5", "-1", "0", "-0", "+4", "00012", "-007", "70", "99", "2020", "18446744073709551616", "TRUE",
                "FALSE", "1.5", "-2.25", "2.5", "01.50", ".5", "-.5", "0.0", "-0.0", "1.005", "12345.6789", "1e1",
                "2.5e0", "-2.5e0", "3.5e0", "0.5e0", "1.005e0", "-0e0", "0x41", "0x0041", "b'101'", "x'41'", "(6)",
                "((-7))", "(007)", "'7'", "'3.999'", "'-0'", "'70'", "'0'", "'  8'", "'2.5'", "'1e1'",
                "'.5'")  # fmt: skip
TEXT_WORDS = ("'abc'", "''", "'é'", "'ab  '", "0x4142", "x'4142'", "b'1000001'", "_utf8mb4'a'", "_latin1 x'e9'", "N'n'",
              "'it''s'", "'a' 'b'", r"'\\'", "('abc')", "_binary 0x4100", "'one'", "'TWO'", "'ünf'", "'c,a'", "'two '",
              "'A'")  # fmt: skip
TIME_WORDS = ("'2024-02-29'", "'2024-02-29 12:34:56'", "'2024-02-29 12:34:56.789'", "'0000-00-00'", "20240229",
              "'2024-00-00'", "'20240229123456'", "'12:34:56'", "'-01:02:03.5'", "'838:59:59'", "DATE'2024-02-29'",
              "DATE '2024-2-9'", "TIMESTAMP'2024-02-29 01:02:03'", "TIMESTAMP'2024-2-9 1:2:3.40'", "TIME'10:11:12'",
              "TIME'-1:2:3.40'", "123456", "NOW()", "CURRENT_TIMESTAMP(3)", "LOCALTIME", "'2024-2-9'",
              "'2024-02-29T01:02:03'", "'2024-02-29 12:34'", "(NOW(6))", "(NOW())", "NOW(0)",
              "'1970-01-02 00:00:01.000001'", "'1999-12-31 23:59:59.999999'", "'-00:00:00.6'",
              "'23:59:59.9999'", "'12:34'", "'-1:2'", "'12'", "'1234567'", "80000", "8385959", "'1234'",
              "'1234.5'", "'1 02:03:04'")  # fmt: skip
OTHER_WORDS = ("'F3DBD1D4-0000-1000-8000-00AA00BBCC00'", "'::ffff:1.2.3.0'", "'2001:DB8::1'", "'10.0.0.1'",
               "'{\"b\": 1,  \"a\": [1]}'", "'[]'", "0x00", "'::'")  # fmt: skip
WORDS = (*NUMBER_WORDS, *TEXT_WORDS, *TIME_WORDS, *OTHER_WORDS)
"""Each is a default of each type: what a server makes of one depends on both."""
WITHOUT = ("", "NULL", "NOT NULL", "NULL DEFAULT NULL")
MORE = (
    "INT AS (id + 1)",
    "INT AS (id + 1) STORED",
    "INT NOT NULL DEFAULT (id * 2)",
    "VARCHAR(40) DEFAULT (CONCAT('a', id))",
    "VARCHAR(40) DEFAULT UUID()",
    "INT NOT NULL AUTO_INCREMENT UNIQUE",
    "VARCHAR(300) COMPRESSED DEFAULT 'pressed'",
    "INT INVISIBLE DEFAULT 3",
    "INT DEFAULT 7 COMMENT 'DEFAULT 8'",
    "INT DEFAULT 7 CHECK (c > 2)",
    "TIMESTAMP DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP",
    "DECIMAL DEFAULT 2.5",
    "NUMERIC(4,1) UNSIGNED ZEROFILL DEFAULT 2.55",
)
ALL = (*NUMBERS, *TEXTS, *BYTES, *TIMES, *LABELS, *OTHERS)


def _declarations(types: Sequence[str]) -> Iterator[str]:
    for kind in types:
        yield from (f"{kind} {word}" for word in WITHOUT)
        yield from (f"{kind} {'NOT NULL ' * (number % 4 == 0)}DEFAULT {word}" for number, word in enumerate(WORDS))
    yield from MORE


class Held(NamedTuple):
    """What the log has of a table: its layout, the row that was there, and one that came without the column."""

    layout: TableLayout
    before: pa.Scalar
    inserted: pa.Scalar


def _held(path: Path, history: SchemaHistory, decoding: Decoding) -> dict[str, Held]:
    found: dict[str, Held] = {}
    before: dict[str, pa.Scalar] = {}
    maps = TableMaps()
    with open_log(str(path)) as log:
        for block in history.observed(log.committed_blocks()):
            for touched in maps.resolve(block):
                if len(touched.layout.columns) < 2:
                    continue
                layout = history.completed(touched.layout, history.statements[-1].position)
                images = read_images(
                    block.data, block.events, touched.events, layout, place=block.place, decoding=decoding
                )
                kinds, values = images.table["kind"].tolist(), images.column(1)
                for kind, value in zip(kinds, values, strict=True):
                    if kind == ImageKind.UPDATE_BEFORE:
                        before[layout.table] = value
                    elif kind == ImageKind.INSERT:
                        found[layout.table] = Held(layout, before[layout.table], value)
    return found


def _statements(path: Path) -> dict[str, DdlStatement]:
    """The ALTER TABLEs, by table."""
    found = {}
    with open_log(str(path)) as log:
        for block in log.committed_blocks():
            for _, word, statement in table_statements(block):
                if word == "ALTER":
                    found[statement.text.split()[2]] = statement
    return found


def _added(statement: DdlStatement, decoding: Decoding) -> ColumnFacts:
    (change,) = table_changes(statement, decoding)
    assert isinstance(change, TableAltered), change
    (facts,) = change.added
    return facts


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("types", "settings"),
    [
        (ALL, {"time_zone": "+05:30", "sql_mode": ""}),
        (TIMES, {"time_zone": "SYSTEM", "sql_mode": "STRICT_ALL_TABLES"}),
        (TIMES, {"time_zone": "-03:30", "explicit_defaults_for_timestamp": 0, "binlog_alter_two_phase": 1}),
    ],
)
def test_rows_hold_in_a_new_column_what_the_statement_says(
    mariadb_server: MariaDbServer,
    types: Sequence[str],
    settings: dict[str, str | int],
) -> None:
    declarations = {}
    with mariadb_server.connect() as connection, connection.cursor() as cursor:
        cursor.execute(
            "SET GLOBAL binlog_row_metadata=FULL, GLOBAL innodb_flush_log_at_trx_commit=0, GLOBAL sync_binlog=0"
        )
        cursor.execute("CREATE DATABASE t CHARACTER SET utf8mb4")
        cursor.execute("USE t")
        for name, value in settings.items():
            cursor.execute(f"SET {name}=%s", [value])
        for number, declaration in enumerate(_declarations(types)):
            name = f"t{number}"
            cursor.execute(f"CREATE TABLE {name} (id INT PRIMARY KEY)")
            cursor.execute(f"INSERT INTO {name} VALUES (1)")
            try:
                cursor.execute(f"ALTER TABLE {name} ADD c {declaration}")
                declarations[name] = declaration
                cursor.execute(f"UPDATE {name} SET id = 2")
                cursor.execute(f"INSERT IGNORE INTO {name} (id) VALUES (3)")
            except Exception:
                continue  # a default that the server refuses for this type
    history = SchemaHistory()
    directory = mariadb_server.binlog_directory
    held, statements = _held(directory, history, MICROS), _statements(directory)
    wrong: list[tuple[object, ...]] = []
    known = 0
    for name, declaration in declarations.items():
        if name not in held:
            continue
        layout, before, inserted = held[name]
        facts = _added(statements[name], MICROS)
        kind = arrow_type(layout, 1, MICROS)
        if facts.existing is not None:
            known += 1
            if facts.existing != before or facts.existing.type != kind:
                wrong.append((declaration, "existing", facts.existing, before))
        (_, default) = layout_defaults(layout, MICROS)
        if default.value is not None and default.value != inserted:
            wrong.append((declaration, "default", default.value, inserted))
        logged = layout.columns[1]
        same = (facts.column.type, facts.column.metadata) == (logged.type, logged.metadata)
        if not same and "COMPRESSED" not in declaration:
            wrong.append((declaration, "column", facts.column, logged))
    assert wrong == []
    assert known > 0.4 * len(declarations) > 50
