"""What names in statements mean, by what was logged before: temporary tables, triggers, functions, views."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlog_connector.schema.definitions import TableName
from binlog_connector.schema.foreign_keys import ForeignKeys
from binlog_connector.schema.log_ddl import DdlStatement
from binlog_connector.schema.operations import ChangeRows
from binlog_connector.schema.statement_rows import events_lost_error, statement_error
from binlog_connector.schema.statement_scope import StatementScope
from binlog_connector.schema.table_changes import (
    DatabaseDropped,
    EventsLost,
    RowsChanged,
    RowsMoved,
    TableAltered,
    TableCreated,
    TableDropped,
    TableRenamed,
    TableTruncated,
)
from binlog_format.events.layout import EventType
from binlog_format.position import Position

T, U = TableName("shop", "t"), TableName("shop", "u")


def statement(text: str, thread: int | None = 1, run: int = 1, **more: Any) -> DdlStatement:
    return DdlStatement(
        Position(1, 2, 3), 4, text, "shop", gtid="0-1-7", thread_id=thread, server_id=1, server_run=run, **more
    )


def observed(scope: StatementScope, *texts: str, thread: int = 1) -> list[RowsChanged | EventsLost | None]:
    return [scope.observe(statement(text, thread)) for text in texts]


def test_a_temporary_table_hides_the_other_one_in_its_session() -> None:
    scope = StatementScope()
    assert observed(scope, "CREATE TEMPORARY TABLE t (a INT)", "INSERT INTO t VALUES (1)") == [None, None]
    assert observed(scope, "INSERT INTO t VALUES (1)", thread=2) == [RowsChanged((T,))]
    assert scope.observe(statement("INSERT INTO t VALUES (1)", None)) == RowsChanged((T,))
    assert observed(scope, "UPDATE t, u SET t.a = 1, u.a = 2") == [RowsChanged((U,))]
    assert observed(scope, "DROP TEMPORARY TABLE t", "INSERT INTO t VALUES (1)") == [None, RowsChanged((T,))]


@pytest.mark.parametrize(
    ("names", "after"),
    [
        ({"folds": False, "proved": True}, None),
        ({"folds": False}, False),  # it is set, or the server stated it
        ({"folds": True, "proved": True}, True),
    ],
)
def test_a_new_start_of_the_server_may_bring_another_rule_for_names(
    names: dict[str, object], after: bool | None
) -> None:
    scope = StatementScope.from_json({"names": names, "server_run": 0})
    observed(scope, "TRUNCATE t")
    assert scope.names.folds is names["folds"], "the first start that is known is no new one"
    again = StatementScope.from_json(scope.to_json())
    again.observe(statement("TRUNCATE t", run=2))
    assert again.names.folds is after
    assert (again.names_unknown_since is None) is (after is not None)


def test_statements_about_a_temporary_table_do_nothing_to_the_other_one() -> None:
    scope = StatementScope()
    observed(scope, "CREATE TEMPORARY TABLE t (a INT)")
    for text in ("TRUNCATE t", "DELETE FROM t", "ALTER TABLE t ADD b INT", "CREATE INDEX i ON t (a)"):
        assert scope.changes(statement(text)) == [], text
    assert scope.changes(statement("RENAME TABLE t TO v, u TO w")) == [TableRenamed(U, TableName("shop", "w"))]
    assert scope.changes(statement("ALTER TABLE v RENAME t")) == []
    assert scope.changes(statement("DROP TABLE t, u")) == [TableDropped(U)]
    assert scope.changes(statement("DROP TABLE t")) == [TableDropped(T)]


@pytest.mark.parametrize(
    ("before", "rename", "after"),
    [
        # Nothing is called `no`, and `t` is in the way.
        (("CREATE TABLE t (a INT)",), "RENAME TABLE IF EXISTS no TO t", []),
        (("CREATE TABLE u (a INT)", "RENAME TABLE u TO t"), "RENAME TABLE IF EXISTS no TO t", []),
        (("ALTER TABLE t ADD b INT",), "RENAME TABLE IF EXISTS no TO t, u TO v", [("u", "v")]),
        (("CREATE TABLE t (a INT)", "DROP TABLE t"), "RENAME TABLE IF EXISTS no TO t", [("no", "t")]),
        (("CREATE TABLE t (a INT)", "DROP DATABASE shop"), "RENAME TABLE IF EXISTS no TO t", [("no", "t")]),
        (("ALTER TABLE IF EXISTS t ADD b INT",), "RENAME TABLE IF EXISTS no TO t", [("no", "t")]),
        # A temporary table had the name of one that was dropped.
        (("CREATE TABLE t (a INT)", "DROP TABLE t"), "RENAME TABLE t TO u", []),
        (("CREATE TABLE t (a INT)", "RENAME TABLE t TO u"), "RENAME TABLE t TO v", []),
        # It may have been one all the time.
        (("RENAME TABLE t TO u", "CREATE TABLE t (a INT)"), "RENAME TABLE t TO u", [("t", "u")]),
        (("RENAME TABLE t TO u",), "RENAME TABLE t TO u", []),
        # Names change places.
        (("CREATE TABLE t (a INT)", "CREATE TABLE u (a INT)"), "RENAME TABLE t TO v, u TO t", [("t", "v"), ("u", "t")]),
        (("CREATE TABLE t (a INT)",), "RENAME TABLE t TO t", [("t", "t")]),
    ],
)
def test_a_rename_changes_no_name_that_it_cannot_change(
    before: tuple[str, ...], rename: str, after: list[tuple[str, str]]
) -> None:
    scope = StatementScope()
    for text in before:
        scope.changes(statement(text))
        scope = StatementScope.from_json(json.loads(json.dumps(scope.to_json())))
    renamed = [TableRenamed(TableName("shop", old), TableName("shop", new)) for old, new in after]
    assert scope.changes(statement(rename)) == renamed


def test_tables_of_older_statements_are_in_the_way_of_a_rename() -> None:
    older, scope = StatementScope(), StatementScope()
    for text in ("CREATE TABLE t (a INT)", "CREATE TABLE u (a INT)"):
        older.changes(statement(text))
    scope.changes(statement("DROP TABLE u"))
    scope.take_older(older)
    assert scope.changes(statement("RENAME TABLE IF EXISTS no TO t")) == []
    assert scope.changes(statement("RENAME TABLE t TO u")) == [TableRenamed(T, U)]


def test_a_rename_of_a_temporary_table_and_of_the_one_that_it_hid_is_not_clear() -> None:
    (found,) = StatementScope().changes(statement("RENAME TABLE t TO v, t TO u"))
    assert isinstance(found, RowsMoved)
    assert found.names == (T, TableName("shop", "v"), T, U)


def test_a_rename_to_the_name_of_a_table_that_is_there_is_not_clear() -> None:
    scope = StatementScope()
    scope.existing.take_rows([U])  # it is older than the log
    found = scope.changes(statement("RENAME TABLE t TO u"))
    assert [change.names for change in found if isinstance(change, RowsMoved)] == [(T, U)]
    scope.changes(statement("DROP TABLE u"))
    assert scope.changes(statement("RENAME TABLE t TO u")) == [TableRenamed(T, U)]


def test_changes_without_a_temporary_table_are_those_of_the_statement() -> None:
    scope = StatementScope()
    assert scope.changes(statement("DELETE FROM t")) == [TableTruncated(T)]
    assert scope.changes(statement("DELETE FROM t", may_be_undone=True)) == [RowsChanged((T,))]
    assert scope.changes(statement("TRUNCATE t", may_be_undone=True)) == [TableTruncated(T)]
    assert scope.changes(statement("INSERT INTO t VALUES (1)")) == [RowsChanged((T,))]
    created, filled = scope.changes(statement("CREATE TABLE t SELECT 1"))
    assert (created, filled) == (TableCreated(T, None), RowsChanged((T,)))
    (altered,) = scope.changes(statement("ALTER TABLE t ADD b INT"))
    assert isinstance(altered, TableAltered)


def test_create_table_with_rows_fills_the_table_that_it_makes() -> None:
    scope = StatementScope()
    observed(scope, "CREATE TEMPORARY TABLE t (a INT)")
    assert scope.changes(statement("CREATE TABLE t SELECT 1"))[1:] == [RowsChanged((T,))]


def test_temporary_tables_end_with_the_run_of_the_server() -> None:
    scope = StatementScope()
    observed(scope, "CREATE TEMPORARY TABLE t (a INT)")
    assert scope.observe(statement("INSERT INTO t VALUES (1)", run=2)) == RowsChanged((T,))
    observed(scope, "CREATE TEMPORARY TABLE t (a INT)")
    scope.observe(statement("", event_type=EventType.FORMAT_DESCRIPTION))
    assert observed(scope, "INSERT INTO t VALUES (1)") == [RowsChanged((T,))]


def test_triggers_bring_any_table_in_as_long_as_they_are_there() -> None:
    scope = StatementScope()
    observed(scope, "CREATE TRIGGER x AFTER INSERT ON t FOR EACH ROW DELETE FROM u")
    (found,) = observed(scope, "INSERT INTO t VALUES (1)")
    assert found == RowsChanged(None, "the trigger shop.x is on shop.t")
    assert scope.changes(statement("DELETE FROM t")) == [found]
    assert scope.changes(statement("TRUNCATE t")) == [TableTruncated(T)]
    observed(scope, "RENAME TABLE t TO u")
    assert observed(scope, "INSERT INTO t VALUES (1)", "INSERT INTO u VALUES (1)") == [
        RowsChanged((T,)),
        RowsChanged(None, "the trigger shop.x is on shop.u"),
    ]
    observed(scope, "DROP TRIGGER x")
    assert observed(scope, "INSERT INTO u VALUES (1)") == [RowsChanged((U,))]


def test_triggers_of_the_server_belong_to_no_table() -> None:
    """`CREATE TRIGGER ... AFTER STARTUP` of MariaDB 13.1: an ON in its body is not followed by a table."""
    scope = StatementScope()
    for when in ("AFTER STARTUP", "BEFORE SHUTDOWN"):
        text = f"CREATE TRIGGER x {when} INSERT INTO t VALUES (1) ON DUPLICATE KEY UPDATE a = 1"
        assert observed(scope, text, "UPDATE t SET a = 1") == [None, RowsChanged((T,))]


def test_functions_and_views_bring_any_table_in() -> None:
    scope = StatementScope()
    call = "INSERT INTO t VALUES (`shop`.F (1))"
    assert observed(scope, call) == [RowsChanged((T,))]
    observed(scope, "CREATE FUNCTION f () RETURNS INT RETURN 1", "CREATE VIEW v AS SELECT 1")
    assert observed(scope, call) == [RowsChanged(None, "it calls the function shop.f")]
    assert observed(scope, "UPDATE v SET a = 1") == [RowsChanged(None, "shop.v is a view")]
    observed(scope, "DROP FUNCTION f", "DROP VIEW v")
    assert observed(scope, call, "UPDATE v SET a = 1") == [RowsChanged((T,)), RowsChanged((TableName("shop", "v"),))]


def test_if_not_exists_makes_no_view_of_a_table() -> None:
    scope = StatementScope()
    observed(scope, "CREATE VIEW IF NOT EXISTS t AS SELECT 1")
    assert observed(scope, "UPDATE t SET a = 1") == [RowsChanged(None, "shop.t may be a view")]
    scope = StatementScope.from_json(json.loads(json.dumps(scope.to_json())))
    reason = "shop.t is a table, or a view made with IF NOT EXISTS: rows move, or none"
    assert scope.changes(statement("RENAME TABLE t TO u")) == [RowsMoved((T, U), reason)]
    scope.observe(statement("ALTER TABLE u ADD b INT"))
    assert scope.changes(statement("RENAME TABLE u TO t")) == [TableRenamed(U, T)], "only a table is altered"


def test_if_not_exists_makes_no_table_of_a_view() -> None:
    scope = StatementScope()
    observed(scope, "CREATE VIEW t AS SELECT 1", "CREATE VIEW IF NOT EXISTS t AS SELECT 2")
    assert scope.changes(statement("CREATE TABLE IF NOT EXISTS t LIKE u")) == []
    assert observed(scope, "UPDATE t SET a = 1") == [RowsChanged(None, "shop.t is a view")]
    assert scope.changes(statement("RENAME TABLE t TO u")) == []


def test_a_table_gets_the_name_of_a_view_that_was_dropped_where_no_log_has_it() -> None:
    scope = StatementScope()
    observed(scope, "CREATE VIEW t AS SELECT 1", "RENAME TABLE u TO t")
    assert scope.changes(statement("RENAME TABLE t TO u")) == [TableRenamed(T, U)]


def test_if_not_exists_leaves_a_trigger_where_it_is() -> None:
    scope = StatementScope()
    observed(scope, "CREATE TRIGGER x AFTER INSERT ON t FOR EACH ROW DELETE FROM v")
    observed(scope, "CREATE TRIGGER IF NOT EXISTS x AFTER INSERT ON u FOR EACH ROW DELETE FROM v")
    assert observed(scope, "INSERT INTO t VALUES (1)") == [RowsChanged(None, "the trigger shop.x is on shop.t")]
    observed(scope, "CREATE OR REPLACE TABLE t (a INT)")
    assert observed(scope, "INSERT INTO t VALUES (1)") == [RowsChanged((T,))]


def test_drop_sequence_if_exists_leaves_tables_of_another_kind() -> None:
    scope = StatementScope()
    observed(scope, "CREATE TRIGGER x AFTER INSERT ON t FOR EACH ROW DELETE FROM v", "CREATE SEQUENCE u")
    scope = StatementScope.from_json(json.loads(json.dumps(scope.to_json())))
    assert scope.changes(statement("DROP SEQUENCE IF EXISTS t, u")) == [TableDropped(U)]
    assert observed(scope, "INSERT INTO t VALUES (1)") == [RowsChanged(None, "the trigger shop.x is on shop.t")]
    assert scope.changes(statement("DROP SEQUENCE t")) == [TableDropped(T)], "it was one"


def test_a_sequence_is_no_table_whatever_statement_makes_it() -> None:
    for text in ("CREATE SEQUENCE t", "CREATE TABLE t (a INT) SEQUENCE=1 ENGINE=InnoDB", "CREATE TABLE t LIKE s"):
        scope = StatementScope()
        for made in ("CREATE SEQUENCE s", text, "ALTER SEQUENCE t RESTART 5", "ALTER TABLE t ENGINE=Aria"):
            assert scope.changes(statement(made)) == [], (text, made)
        assert scope.changes(statement("CREATE OR REPLACE SEQUENCE t")) == [TableDropped(T)]
        (created,) = scope.changes(statement("CREATE OR REPLACE TABLE t (a INT) SEQUENCE=0"))
        assert isinstance(created, TableCreated), text


def test_a_table_that_becomes_a_sequence_has_other_rows_than_the_log() -> None:
    scope = StatementScope()
    scope.changes(statement("CREATE TABLE t (a INT)"))
    reason = "a sequence has one row, which the server creates and alters without row events"
    assert scope.changes(statement("ALTER TABLE t ENGINE=Aria SEQUENCE=1"))[-1] == RowsMoved((T,), reason)


def test_a_table_stays_one_where_a_sequence_may_not_have_been_made() -> None:
    """With IF NOT EXISTS: the log may begin after CREATE TABLE."""
    scope = StatementScope()
    assert scope.changes(statement("CREATE SEQUENCE IF NOT EXISTS t")) == []
    (altered,) = scope.changes(statement("ALTER TABLE t ADD b INT"))
    assert isinstance(altered, TableAltered)
    assert scope.changes(statement("RENAME TABLE t TO u")) == [TableRenamed(T, U)]


def test_sequences_and_tables_take_the_names_of_each_other() -> None:
    scope = StatementScope()
    for text in ("CREATE SEQUENCE t", "CREATE TABLE u (a INT)"):
        scope.changes(statement(text))
    assert scope.changes(statement("RENAME TABLE t TO x, u TO t, x TO u")) == [TableRenamed(U, T)]
    assert scope.changes(statement("ALTER TABLE u RENAME TO y, COMMENT='moved'")) == []
    assert scope.changes(statement("RENAME TABLE t TO u")) == [TableRenamed(T, U)]


def test_create_or_replace_database_drops_what_was_in_it() -> None:
    assert StatementScope().changes(statement("CREATE OR REPLACE DATABASE shop")) == [DatabaseDropped("shop")]


def test_function_counts_also_where_the_table_is_a_temporary_one() -> None:
    scope = StatementScope()
    observed(scope, "CREATE FUNCTION f () RETURNS INT RETURN 1", "CREATE TEMPORARY TABLE t (a INT)")
    assert observed(scope, "INSERT INTO t VALUES (f())") == [RowsChanged(None, "it calls the function shop.f")]


def test_a_statement_whose_rows_are_in_the_log_in_part_is_about_their_table_alone() -> None:
    scope = StatementScope()
    observed(scope, "CREATE TRIGGER tr AFTER INSERT ON t FOR EACH ROW INSERT INTO u VALUES (1)")
    told = statement("REPLACE INTO t VALUES (f())", event_type=EventType.ANNOTATE_ROWS)
    replacing = replace(told, rows=ChangeRows((T,)))
    assert scope.changes(replacing) == [RowsChanged((T,))]


def test_incident_is_lost_events() -> None:
    incident = statement("error writing", event_type=EventType.INCIDENT)
    assert StatementScope().observe(incident) == EventsLost("error writing")
    assert StatementScope().changes(incident) == [EventsLost("error writing")]
    assert events_lost_error(incident).condition == "BINLOG_DATA_LOSS.LOST_EVENTS"


def test_error_says_where_what_and_what_to_do() -> None:
    text = "INSERT INTO t\n VALUES ('" + "x" * 300 + "')"
    error = statement_error(statement(text), [T], RowsChanged((T,), "why"))
    assert error.condition == "BINLOG_UNSUPPORTED.STATEMENT_FORMAT"
    for part in ("0-1-7", "1:2:3", "shop.t", "INSERT INTO t VALUES (...", "why"):
        assert part in error.reason, part
    assert "xxx" not in error.reason  # values of rows are in no error
    assert error.hint is not None
    assert "binlog_format=ROW" in error.hint
    assert "any table" in statement_error(statement(text), None, RowsChanged(None)).reason


ACTIONS = st.sampled_from(
    [
        *("CREATE TEMPORARY TABLE t (a INT)", "DROP TEMPORARY TABLE t", "ALTER TABLE t RENAME u", "DROP TABLE u"),
        *("CREATE TRIGGER x AFTER INSERT ON t FOR EACH ROW SET @a = 1", "DROP TRIGGER x", "DROP DATABASE shop"),
        *(
            "CREATE FUNCTION f () RETURNS INT RETURN 1",
            "CREATE VIEW u AS SELECT 1",
            "DROP VIEW u",
            "RENAME TABLE u TO t",
        ),
        *("INSERT INTO t VALUES (f())", "UPDATE u SET a = 1", "DELETE FROM t", "INSERT INTO u VALUES (1)"),
    ]
)


@given(st.lists(st.tuples(ACTIONS, st.integers(1, 2), st.integers(1, 2)), max_size=20), st.integers(0, 20))
def test_what_is_known_survives_as_json(actions: list[tuple[str, int, int]], cut: int) -> None:
    whole, parted = StatementScope(), StatementScope()
    for number, (text, thread, run) in enumerate(actions):
        if number == cut:
            parted = StatementScope.from_json(json.loads(json.dumps(parted.to_json())))
        one = statement(text, thread, run)
        assert whole.changes(one) == parted.changes(one)


def test_views_keep_their_kind_under_another_name() -> None:
    scope = StatementScope()
    for text in ("CREATE TABLE u (a INT)", "CREATE VIEW v AS SELECT a FROM u", "CREATE VIEW t AS SELECT a FROM v"):
        scope.observe(statement(text))
    assert scope.changes(statement("RENAME TABLE v TO w")) == []
    # The view gives its name back to the table.
    assert scope.changes(statement("RENAME TABLE t TO old, u TO t")) == [TableRenamed(U, T)]
    assert observed(scope, "UPDATE w SET a = 1", "UPDATE old SET a = 1", "UPDATE t SET a = 1") == [
        RowsChanged(None, "shop.w is a view"),
        RowsChanged(None, "shop.old is a view"),
        RowsChanged((T,)),
    ]
    scope.observe(statement("DROP VIEW w"))
    assert scope.changes(statement("RENAME TABLE t TO w, w TO t")) != []


def test_table_like_one_whose_engine_keeps_no_rows_keeps_none() -> None:
    scope = StatementScope()
    made = "CREATE TABLE u LIKE t"

    def is_named() -> bool:
        later = StatementScope.from_json(json.loads(json.dumps(scope.to_json())))
        changed = [type(one).__name__ for one in later.changes(statement(made))]
        assert changed in (["TableCreated"], ["TableCreated", "RowsMoved"])
        return len(changed) > 1

    assert not is_named()
    for text, named in (
        ("CREATE TABLE t (a INT) ENGINE = BLACKHOLE", True),
        ("RENAME TABLE t TO v", False),
        ("CREATE TABLE t LIKE v", True),
        ("ALTER TABLE t ENGINE = InnoDB", False),
        ("ALTER TABLE v RENAME t", True),
        ("CREATE TEMPORARY TABLE t (a INT)", False),
        ("DROP TEMPORARY TABLE t", True),
        ("CREATE TABLE IF NOT EXISTS t (a INT)", True),
        ("DROP TABLE t", False),
        ("CREATE TABLE t (a INT)", False),
        ("ALTER TABLE t ENGINE = MERGE", True),
        ("DROP DATABASE shop", False),
    ):
        scope.observe(statement(text))
        assert is_named() is named, text
    scope.observe(statement("CREATE TABLE T (a INT) ENGINE = FEDERATED"))
    scope.fold_names()
    assert is_named()


def test_what_was_logged_before_tells_engines_and_foreign_keys() -> None:
    older, scope = StatementScope(), StatementScope()
    older.foreign_keys = ForeignKeys()
    child = "CREATE TABLE v (a INT REFERENCES u (a) ON DELETE CASCADE)"
    observed(older, "CREATE TABLE t (a INT) ENGINE = BLACKHOLE", child)
    scope.take_older(older)
    assert len(scope.changes(statement("CREATE TABLE w LIKE t"))) == 2
    (deleted,) = observed(scope, "DELETE FROM u WHERE a = 1")
    assert deleted == RowsChanged((U,), cascaded=(TableName("shop", "v"),))
    assert observed(scope, "INSERT INTO u VALUES (1)") == [RowsChanged((U,))]
    v, w = TableName("shop", "v"), TableName("shop", "w")
    observed(scope, "CREATE TABLE w (a INT REFERENCES V (a) ON DELETE CASCADE)")
    assert observed(scope, "DELETE FROM v WHERE a = 1") == [RowsChanged((v,), cascaded=(w,))], "names may be folded"
    scope.names.state(folds=False)
    assert observed(scope, "DELETE FROM v WHERE a = 1") == [RowsChanged((v,))]


@pytest.mark.parametrize(
    ("statements", "is_binary"),
    [
        (("CREATE TABLE t (a INT) CHARACTER SET binary",), True),
        (("CREATE TABLE t (a INT)",), False),
        (("CREATE TABLE t (a INT)", "ALTER TABLE t CHARACTER SET binary"), True),
        (("CREATE TABLE t (a INT) CHARACTER SET binary", "ALTER TABLE t COLLATE latin1_bin"), False),
        (("CREATE TABLE t (a INT) CHARACTER SET binary", "ALTER TABLE t CONVERT TO CHARACTER SET utf8mb4"), False),
        (("ALTER DATABASE shop CHARACTER SET binary", "CREATE TABLE t (a INT)"), True),
        (("CREATE TABLE t (a INT)", "ALTER DATABASE shop CHARACTER SET binary"), False),
        (
            (
                "CREATE TABLE t (a INT)",
                "ALTER DATABASE shop CHARACTER SET binary",
                "ALTER TABLE t CHARACTER SET DEFAULT",
            ),
            True,
        ),
        (("ALTER DATABASE shop CHARACTER SET binary", "DROP DATABASE shop", "CREATE TABLE t (a INT)"), False),
        (("CREATE TABLE u (a INT) CHARACTER SET binary", "CREATE TABLE t LIKE u"), True),
        (("CREATE TABLE u (a INT) CHARACTER SET binary", "RENAME TABLE u TO t"), True),
        (("CREATE TABLE u (a INT) CHARACTER SET binary", "ALTER TABLE u ADD b TEXT, RENAME t"), True),
        (("CREATE TABLE t (a INT) CHARACTER SET binary", "CREATE OR REPLACE TABLE t (a INT)"), False),
        (("CREATE TABLE t (a INT) CHARACTER SET binary", "CREATE TABLE IF NOT EXISTS t (a INT)"), True),
        (("CREATE TABLE t (a INT) CHARACTER SET binary", "DROP TABLE t", "CREATE TABLE t (a INT)"), False),
    ],
    ids=lambda statements: "; ".join(statements) if isinstance(statements, tuple) else None,
)
def test_new_texts_have_the_default_character_set_of_their_table(statements: tuple[str, ...], is_binary: bool) -> None:
    scope = StatementScope()
    for text in statements:
        scope.observe(statement(text))
    later = StatementScope.from_json(json.loads(json.dumps(scope.to_json())))
    for added in ("ALTER TABLE t ADD c VARCHAR(5)", "ALTER TABLE t MODIFY c VARCHAR(5)"):
        (change,) = later.changes(statement(added))
        assert isinstance(change, TableAltered)
        (fact,) = (*change.added, *change.modified)
        assert (fact.column.charset == "binary") is is_binary


def test_labels_are_those_of_the_tables_character_set_on_a_server_with_another_one() -> None:
    scope = StatementScope()
    scope.observe(statement("CREATE TABLE t (a INT) CHARACTER SET utf8mb4", server_charset="latin1"))
    added = "ALTER TABLE t ADD c ENUM('да', 'нет') NOT NULL"
    (change,) = scope.changes(statement(added, server_charset="latin1"))
    assert isinstance(change, TableAltered)
    assert change.added[0].existing == pa.scalar("да")
