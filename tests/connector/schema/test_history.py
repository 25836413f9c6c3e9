"""Definitions by position."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlog_connector.schema.catalog import parse_dump
from binlog_connector.schema.definitions import SEQUENCE_COLUMNS
from binlog_connector.schema.history import SchemaHistory
from binlog_connector.schema.history_file import load_history, save_history
from binlog_connector.schema.layout_definitions import leaves_open
from binlog_connector.schema.log_ddl import DdlStatement, ddl_statements
from binlog_format.errors import CorruptError, OptionError, SchemaError
from binlog_format.events.table_map import Column, TableLayout
from binlog_format.events.table_map_layout import ColumnType
from tests.connector.schema.layouts import block_of, position, query

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from binlog_format.position import Position

MODE_STRICT_TRANS_TABLES = 1 << 21
INT = Column(None, ColumnType.LONG, 0, True)
TEXT = Column(None, ColumnType.BLOB, 2, True)


def layout(*columns: Column, table: str = "t") -> TableLayout:
    return TableLayout("shop", table, columns, (), "0" * 16, bytes(40))


def names(history: SchemaHistory, at: int, *columns: Column, table: str = "t") -> list[str | None]:
    """Names of the columns of a table map in group *at*."""
    return [one.name for one in history.completed(layout(*columns, table=table), position(at)).columns]


def history_of(*statements: str) -> SchemaHistory:
    history = SchemaHistory()
    history.observe(block_of(*map(query, statements)))
    return history


CHANGES = (
    "CREATE TABLE t (a INT)",  # 1
    "COMMIT",
    "ALTER TABLE t ADD b TEXT",  # 3
    "ALTER TABLE t COMMENT 'nothing new'",
    "RENAME TABLE t TO old, new TO t",  # 5: new was never seen
    "CREATE OR REPLACE TABLE t (c INT)",  # 6
    "DROP TABLE t",  # 7
)


def test_definition_holds_from_its_own_group_on() -> None:
    history = history_of(*CHANGES)
    assert history.edges("shop", "t") == [position(number) for number in (1, 3, 5, 6, 7)]
    assert names(history, 0, INT) == [None]
    assert names(history, 1, INT) == names(history, 2, INT) == ["a"]
    assert names(history, 3, INT, TEXT) == names(history, 4, INT, TEXT) == ["a", "b"]
    assert names(history, 5, INT) == [None]
    assert names(history, 5, INT, TEXT, table="old") == names(history, 99, INT, TEXT, table="old") == ["a", "b"]
    assert names(history, 6, INT) == ["c"]
    assert names(history, 7, INT) == [None]
    assert history.edges("shop", "other") == []


BIGINT = Column(None, ColumnType.LONGLONG, 0, False)
SEQUENCE = (*[BIGINT] * 6, Column(None, ColumnType.TINY, 0, False), BIGINT)
"""Columns of a sequence, without more metadata."""


def named(columns: Sequence[Column], names: Sequence[str]) -> list[Column]:
    signs = (False,) * 5 + (True, True, False)
    found = zip(columns, names, signs, strict=True)
    return [replace(column, name=name, unsigned=unsigned) for column, name, unsigned in found]


def test_rows_of_a_name_are_those_of_a_sequence_where_its_definition_and_its_columns_are() -> None:
    copied = "CREATE TABLE t (" + ", ".join(f"{name} BIGINT" for name in SEQUENCE_COLUMNS) + ")"
    history = history_of("CREATE SEQUENCE t", "RENAME TABLE t TO u", "CREATE TABLE v LIKE u", "DROP SEQUENCE u", copied)
    full = named(SEQUENCE, SEQUENCE_COLUMNS)

    def is_sequence(table: str, at: int, *columns: Column) -> bool:
        return history.completed(layout(*columns, table=table), position(at)).is_sequence

    assert [is_sequence("t", at, *full) for at in range(6)] == [False, True, False, False, False, False]
    assert [is_sequence("u", at, *SEQUENCE) for at in range(5)] == [False, False, True, True, False]
    assert is_sequence("v", 3, *SEQUENCE)
    assert leaves_open(layout(*full)), "so the definition is asked for"
    assert not is_sequence("v", 3, *named(SEQUENCE, [*SEQUENCE_COLUMNS[:-1], "other"])), "it was made elsewhere"
    with pytest.raises(SchemaError, match="COLUMN_COUNT_MISMATCH"):
        is_sequence("v", 3, INT)


def test_ddl_counts_once_in_whatever_order_it_is_seen() -> None:
    statements = list(ddl_statements(block_of(*map(query, CHANGES))))
    assert len(statements) == len(CHANGES) - 1
    expected = history_of(*CHANGES)
    for seed in range(10):
        shuffled = statements * 2
        random.Random(seed).shuffle(shuffled)
        history = SchemaHistory()
        for statement in shuffled:
            history.note(statement)
            history.edges("shop", "t")  # what was worked out so far is not kept where it is wrong
        assert history.statements == expected.statements
        assert history.edges("shop", "t") == expected.edges("shop", "t")
        assert names(history, 4, INT, TEXT) == ["a", "b"]


def test_blocks_pass_after_their_ddl_was_noted() -> None:
    history = SchemaHistory()
    blocks = [block_of(query("CREATE TABLE t (a INT)")), block_of(query("ALTER TABLE t ADD b TEXT"), first=2)]
    seen: list[tuple[bool, int, Position | None]] = []
    for block in history.observed(iter(blocks)):
        seen.append((block is blocks[len(seen)], len(history.statements), history.known_to))
    assert seen == [(True, 1, position(2)), (True, 2, position(3))]


def test_statements_about_a_temporary_table_do_not_define_the_other_one(tmp_path: Path) -> None:
    texts = (
        *((1, "CREATE TABLE t (a INT, b TEXT)"), (1, "CREATE TEMPORARY TABLE t (a INT, b TEXT)")),
        *((1, "ALTER TABLE t RENAME COLUMN a TO z"), (2, "ALTER TABLE t RENAME COLUMN b TO y")),
        *((1, "CREATE TEMPORARY TABLE u (k INT)"), (1, "ALTER TABLE t RENAME w"), (1, "DROP TABLE u, w")),
        *((1, "ALTER TABLE t ADD c INT"), (1, "CREATE TEMPORARY TABLE T (a INT)"), (1, "ALTER TABLE t ADD d INT")),
    )
    path = str(tmp_path / "schemas.json")
    for number in range(1, len(texts) + 1):
        history = SchemaHistory(folds_names=True)
        for event_no, (thread, text) in enumerate(texts, 1):
            history.note(DdlStatement(position(event_no), 1, text, "shop", thread_id=thread, server_id=1))
            if event_no == number:  # a restart
                history.compact(position(number))
                save_history(history, path)
                loaded = load_history(path)
                assert loaded is not None
                history = loaded
        assert names(history, len(texts), INT, TEXT, INT) == ["a", "y", "c"], number


def test_replay_after_a_crash_changes_nothing(tmp_path: Path) -> None:
    path = str(tmp_path / "schemas.json")
    save_history(history_of(*CHANGES[:3]), path)
    history = load_history(path)
    assert history is not None
    assert history.observe(block_of(*map(query, CHANGES))) == 4
    assert history.statements == history_of(*CHANGES).statements
    assert names(history, 4, INT, TEXT) == ["a", "b"]


def test_history_on_disk_is_the_same_history(tmp_path: Path) -> None:
    path = str(tmp_path / "schemas.json")
    assert load_history(path) is None
    base = parse_dump("CREATE DATABASE shop CHARSET latin1; USE shop; CREATE TABLE t (a INT, PRIMARY KEY (a)); "
                      "CREATE TABLE bad (x INT; "
                      "CREATE TABLE c (f INT, FOREIGN KEY (f) REFERENCES t (a) ON DELETE CASCADE); "
                      "CREATE TABLE p (d DATE) PARTITION BY RANGE (TO_DAYS(d)) (PARTITION x VALUES LESS THAN (5 + 1)); "
                      "CREATE TABLE e (v ENUM('é') NOT NULL DEFAULT 'é', w INT AS (1) STORED)")  # fmt: skip
    history = SchemaHistory(base, base_source="shop.sql")
    history.observe(block_of(query("ALTER TABLE t ADD b TEXT"), query("CREATE TABLE u (a INT) WITH SYSTEM VERSIONING")))
    for _ in range(2):
        save_history(history, path)
        loaded = load_history(path)
        assert loaded is not None
        assert (loaded.base, loaded.base_source, loaded.known_to) == (history.base, "shop.sql", history.known_to)
        assert (loaded.statements, loaded.altered) == (history.statements, history.altered)
        assert loaded.definition("shop", "t", position(9)) == history.definition("shop", "t", position(9))
        history.compact(position(2))
    assert [one.name for one in tmp_path.iterdir()] == ["schemas.json"]


def test_file_that_is_no_history_is_named(tmp_path: Path) -> None:
    path = tmp_path / "schemas.json"
    for text, reason in (("{", "not a schema history"), ('{"version":3}', "not a schema history"),
                         ('{"version":2}', "version 2, this one reads 3")):  # fmt: skip
        path.write_text(text)
        with pytest.raises(OptionError, match=reason):
            load_history(str(path))


def test_crash_while_saving_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "schemas.json"
    save_history(history_of(*CHANGES[:1]), str(path))
    before = path.read_bytes()

    def fails(_: int) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("os.fsync", fails)
    with pytest.raises(OSError, match="disk full"):
        save_history(history_of(*CHANGES), str(path))
    monkeypatch.undo()
    assert path.read_bytes() == before
    assert [one.name for one in tmp_path.iterdir()] == ["schemas.json"]


def test_compacted_history_says_the_same_from_there_on() -> None:
    history = history_of(*CHANGES)
    history.compact(position(5))
    assert [one.position for one in history.statements] == [position(5), position(6), position(7)]
    assert names(history, 4, INT, TEXT) == ["a", "b"]
    assert names(history, 6, INT) == ["c"]
    history.compact(position(99))
    assert names(history, 99, INT) == [None]
    assert names(history, 99, INT, TEXT, table="old") == ["a", "b"]


def test_schema_file_holds_until_ddl_changes_it(tmp_path: Path) -> None:
    path = tmp_path / "shop.sql"
    path.write_text("USE shop; CREATE TABLE t (a INT);")
    history = SchemaHistory.from_schema_file(str(path))
    history.observe(block_of(query("ALTER TABLE t ADD b TEXT"), first=5))
    assert names(history, 0, INT) == names(history, 4, INT) == ["a"]
    assert names(history, 5, INT, TEXT) == ["a", "b"]
    with pytest.raises(SchemaError) as raised:
        names(history, 4, INT, TEXT)
    assert f"shop.t: the log has 2 columns, {path} has 1: log: [LONG, BLOB(2)]; schema: [a int]" in str(raised.value)
    with pytest.raises(SchemaError, match="column 2: the log has LONG, the schema b text: the DDL at 1:0:500"):
        names(history, 5, INT, INT)


def test_names_in_the_log_are_right_whatever_ddl_was_seen() -> None:
    named = layout(replace(INT, name="a"), replace(TEXT, name="x"), replace(INT, name="b"))
    history = history_of("CREATE TABLE t (a INT, b DATE)")
    found = history.completed(named, position(1))
    assert [(one.name, one.declared) for one in found.columns] == [("a", "int"), ("x", None), ("b", None)]
    history = history_of("CREATE TABLE t (a INT")
    assert history.completed(named, position(1)) is named
    given_by_hand = SchemaHistory(parse_dump("USE shop; CREATE TABLE t (a INT, b DATE);"))
    with pytest.raises(SchemaError, match="COLUMN_COUNT_MISMATCH"):
        given_by_hand.completed(named, position(1))
    given_by_hand.observe(block_of(query("ALTER TABLE t ADD c INT"), first=3))
    assert given_by_hand.completed(named, position(3)).has_names
    given_by_hand.compact(position(9))
    assert given_by_hand.completed(named, position(9)).has_names


def test_statement_that_is_not_understood_is_an_error_for_its_table_alone() -> None:
    history = history_of("CREATE TABLE t (a INT)", "CREATE TABLE u (a INT)", "ALTER TABLE t ADD (b INT")
    assert names(history, 2, INT) == ["a"]
    assert names(history, 3, INT, table="u") == ["a"]
    with pytest.raises(SchemaError) as raised:
        names(history, 3, INT, INT)
    assert str(raised.value) == (
        "[BINLOG_SCHEMA.DDL_NOT_PARSED] shop.t: a statement about it is not understood, and the log has no column "
        "names: character 25: ',' expected, got the end: ALTER TABLE t ADD (b INT. Start after the statement with a "
        "schema file made then, or set binlog_row_metadata=FULL on the server"
    )
    with pytest.raises(SchemaError, match="DDL_NOT_PARSED"):
        history.definition("shop", "t", position(3))


def test_inet6_in_another_database_stops_nobody() -> None:
    """Statements about tables that nobody reads, understood or not, are of no consequence."""
    history = SchemaHistory()
    history.observe(
        block_of(
            query("CREATE TABLE net (a INET6 DEFAULT '::', b INET4, c UUID)", "elsewhere"),
            query("CREATE TABLE odd (a INT !!! ~~ ((", "elsewhere"),
            query("ALTER nonsense (", "elsewhere"),
            query("CREATE TABLE t (a INT)"),
        )
    )
    assert names(history, 4, INT) == ["a"]


def test_columns_of_a_query_stay_unknown() -> None:
    history = history_of("CREATE TABLE t (x INT) AS SELECT 1 AS y", "CREATE TABLE u LIKE t")
    assert names(history, 1, INT, INT) == [None, None]
    assert names(history, 2, INT, INT, table="u") == [None, None]


def test_damaged_query_event_is_named_with_its_place() -> None:
    good = query("CREATE TABLE t (a INT)")
    damaged = bytearray(good)
    damaged[30] = 0xFF  # size of the status variables
    with pytest.raises(CorruptError) as raised:
        SchemaHistory().observe(block_of(good, bytes(damaged)))
    assert raised.value.condition == "BINLOG_CORRUPT.BAD_EVENT"
    assert raised.value.at is not None
    with pytest.raises(CorruptError, match="BAD_EVENT"):
        SchemaHistory().observe(block_of(good[:25]))


WORDS = st.sampled_from(
    ["BEGIN", "COMMIT",
     "create table x (a int)", " ALTER TABLE x ADD b INT", "/* hi */ DROP TABLE x", "DR", "R", "", "--",
     "REPLACE INTO x VALUES (1)", "rename table x to y", "# c\nCREATE TABLE x (a INT)", "CRASH", "SAVEPOINT `a`",
     "/*!40000 ALTER TABLE x DISABLE KEYS */", "(SELECT 1)", "'CREATE'", "\tcReAtE SEQUENCE s", "DELETE FROM x",
     "SET ROLE NONE", "SET STATEMENT a = 1 FOR DO 1", "set statement a = 'for' for alter table x add c int"]
)  # fmt: skip


@given(st.lists(st.tuples(WORDS, st.text("abc", max_size=5)), max_size=12))
def test_ddl_is_found_by_its_first_keyword(statements: list[tuple[str, str]]) -> None:
    block = block_of(*(query(text, database) for text, database in statements))
    found = [(one.text, one.database) for one in ddl_statements(block)]
    wanted = ("create", "alter", "drop", "rename")
    assert found == [
        (text, database)
        for text, database in statements
        if text.lower()
        .replace("/* hi */", "")
        .replace("# c\n", "")
        .replace("/*!40000", "")
        .replace("set statement a = 'for' for", "")
        .strip()
        .startswith(wanted)
    ]


def test_statement_says_where_it_is_and_how_it_reads() -> None:
    (statement,) = ddl_statements(block_of(query("DROP TABLE t")))
    assert (statement.position, statement.event_no, statement.text) == (position(1), 1, "DROP TABLE t")
    assert (statement.database, statement.server_charset) == ("shop", "utf8mb4")
    assert statement.sql_mode & MODE_STRICT_TRANS_TABLES
