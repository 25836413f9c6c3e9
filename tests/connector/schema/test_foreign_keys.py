"""Foreign keys in statements, and which tables they change."""

from __future__ import annotations

from dataclasses import replace

import pytest

from binlog_connector.schema.catalog import Catalog, parse_dump
from binlog_connector.schema.definitions import TableName
from binlog_connector.schema.foreign_keys import CASCADE, SET_NULL, ForeignKey, ForeignKeys, take_inline_keys
from binlog_connector.schema.operations import CreateTable
from binlog_connector.schema.parsing.ddl import parse_ddl
from binlog_connector.schema.parsing.session import MODE_NO_ENGINE_SUBSTITUTION, StatementSession
from binlog_format.log_format import LogFile
from binlog_format.vendor import Vendor
from tests.connector.schema.test_ddl import after, columns

P, C = TableName("shop", "p"), TableName("shop", "c")
TABLES = (
    "CREATE TABLE p (id INT PRIMARY KEY, code INT UNIQUE)",
    (
        "CREATE TABLE c (id INT PRIMARY KEY, p INT, q INT, KEY (p), "
        "CONSTRAINT fk FOREIGN KEY (p) REFERENCES p (id) ON DELETE CASCADE ON UPDATE SET NULL)"
    ),
)


def keys(*statements: str, child: TableName = C) -> list[ForeignKey]:
    return list(after(*statements).foreign_keys.keys.get(child, ()))


def key_names(*statements: str, child: TableName = C) -> list[str]:
    return [key.name for key in keys(*statements, child=child)]


def children(catalog: Catalog, parent: TableName = P) -> list[str]:
    return sorted({str(cascade.child) for cascade in catalog.foreign_keys.reached_by_delete(parent)})


def updated(catalog: Catalog, column: str, parent: TableName = P) -> list[str]:
    return sorted({str(cascade.child) for cascade in catalog.foreign_keys.reached_by_update(parent, [column])})


@pytest.mark.parametrize(
    ("declaration", "expected"),
    [
        ("FOREIGN KEY (a) REFERENCES p (id) ON DELETE CASCADE",
         ForeignKey("c_ibfk_1", ("a",), P, ("id",), CASCADE)),
        ("CONSTRAINT x FOREIGN KEY i (a, b) REFERENCES other.p (i, j) MATCH FULL ON UPDATE CASCADE ON DELETE SET NULL",
         ForeignKey("x", ("a", "b"), TableName("other", "p"), ("i", "j"), SET_NULL, CASCADE)),
        ("FOREIGN KEY i (a) REFERENCES `p` (`id`) ON DELETE RESTRICT ON UPDATE NO ACTION",
         ForeignKey("i", ("a",), P, ("id",))),
        ("CONSTRAINT FOREIGN KEY IF NOT EXISTS (a) REFERENCES p (id) ON DELETE SET DEFAULT",
         ForeignKey("c_ibfk_1", ("a",), P, ("id",))),
    ],
)  # fmt: skip
def test_foreign_key_is_read_wherever_it_stands(declaration: str, expected: ForeignKey) -> None:
    assert keys(f"CREATE TABLE c (a INT, b INT, {declaration}, KEY (b))") == [expected]
    assert keys("CREATE TABLE c (a INT, b INT)", f"ALTER TABLE c ADD {declaration}, ADD KEY (b)") == [expected]
    assert keys("CREATE TABLE c (a INT, b INT)", f"ALTER TABLE c ADD (x INT, {declaration})") == [expected]


def test_key_in_the_words_of_a_column_is_told_as_such() -> None:
    expected = ForeignKey("c_ibfk_1", ("a",), P, ("id",), CASCADE, inline=True)
    create = "CREATE TABLE c (a INT NOT NULL REFERENCES p (id) MATCH SIMPLE ON DELETE CASCADE DEFAULT 5 UNIQUE, b INT)"
    assert keys(create) == [expected]
    assert columns(after(create), "c") == ["a int", "b int"]
    assert keys("CREATE TABLE c (b INT)", "ALTER TABLE c ADD a INT REFERENCES p (id) ON DELETE CASCADE FIRST") == [
        expected
    ]


def test_parent_without_a_database_is_looked_for_beside_the_child() -> None:
    child = TableName("other", "c")
    (key,) = keys("CREATE TABLE other.c (a INT, FOREIGN KEY (a) REFERENCES p (id) ON DELETE CASCADE)", child=child)
    assert key.parent == TableName("other", "p")
    (key,) = keys("CREATE TABLE other.c (a INT)", "ALTER TABLE other.c ADD b INT REFERENCES p (id)", child=child)
    assert key.parent == TableName("other", "p")


def test_names_are_given_as_the_server_gives_them() -> None:
    create = (
        "CREATE TABLE c (a INT REFERENCES p (id), b INT, FOREIGN KEY f (b) REFERENCES p (id), "
        "FOREIGN KEY (b) REFERENCES p (id))"
    )
    assert key_names(create) == ["c_ibfk_1", "f", "c_ibfk_2"]
    more = "ALTER TABLE c DROP FOREIGN KEY c_ibfk_1, ADD FOREIGN KEY (a) REFERENCES p (id)"
    assert key_names(create, more) == ["f", "c_ibfk_2", "c_ibfk_3"]
    renamed = key_names(create, more, "RENAME TABLE c TO d", child=TableName("shop", "d"))
    assert renamed == ["f", "d_ibfk_2", "d_ibfk_3"]


@pytest.mark.parametrize(
    ("statement", "left"),
    [
        ("ALTER TABLE c DROP FOREIGN KEY FK", []),
        ("ALTER TABLE c DROP FOREIGN KEY IF EXISTS nothing", ["fk"]),
        ("ALTER TABLE c DROP CONSTRAINT fk", []),
        ("ALTER TABLE c DROP KEY fk", ["fk"]),
        ("ALTER TABLE c DROP FOREIGN KEY fk, ADD CONSTRAINT fk FOREIGN KEY (q) REFERENCES p (code)", ["fk"]),
        ("DROP TABLE c", []),
        ("DROP DATABASE shop", []),
        ("DROP TABLE p", ["fk"]),
        ("TRUNCATE c", ["fk"]),
        ("CREATE OR REPLACE TABLE c (id INT)", []),
        ("CREATE TABLE IF NOT EXISTS c (id INT)", ["fk"]),
        ("CREATE TABLE d LIKE c", ["fk"]),
        ("ALTER TABLE c ADD KEY (q), ENGINE=InnoDB", ["fk"]),
        ("ALTER TABLE c ENGINE MyISAM, ADD KEY (q)", []),
        ("ALTER TABLE c NONSENSE ((", ["fk"]),
    ],
)
def test_keys_are_known_through_every_statement(statement: str, left: list[str]) -> None:
    assert key_names(*TABLES, statement) == left
    assert key_names(*TABLES, statement, child=TableName("shop", "d")) == []


@pytest.mark.parametrize(
    ("option", "count"),
    [("ENGINE=Aria", 0), ("ROW_FORMAT=PAGE ENGINE 'MEMORY'", 0), ("ENGINE = `InnoDB`", 1), ("engine ndb", 1), ("", 1)],
)
def test_engine_without_foreign_keys_passes_over_them(option: str, count: int) -> None:
    assert len(keys(f"CREATE TABLE c (a INT, FOREIGN KEY (a) REFERENCES p (id)) {option}")) == count


UNSURE = StatementSession("shop", vendor=Vendor.MARIADB)
SURE = replace(UNSURE, sql_mode=MODE_NO_ENGINE_SUBSTITUTION)


@pytest.mark.parametrize(
    ("session", "engine", "stated_and_doubted"),
    [
        (SURE, "InnoDB", (True, False)),
        (UNSURE, "InnoDB", (False, False)),
        (UNSURE, "TokuDB", (False, True)),
        (SURE, "TokuDB", None),
    ],
)
def test_server_may_take_another_engine_unless_the_mode_forbids_it(
    session: StatementSession, engine: str, stated_and_doubted: tuple[bool, bool] | None
) -> None:
    create = f"CREATE TABLE c (a INT, FOREIGN KEY (a) REFERENCES p (id)) ENGINE={engine}"
    found = after(create, session=session).foreign_keys
    told = [(key.engine_stated, key.engine_doubted) for key in found.keys.get(C, ())]
    assert told == ([] if stated_and_doubted is None else [stated_and_doubted])
    assert ForeignKeys.from_json(found.to_json()) == found


def test_altered_engine_leaves_a_key_in_doubt_until_its_table_is_made_anew() -> None:
    moved = after(*TABLES, "ALTER TABLE c ENGINE=TokuDB", "ALTER TABLE c ENGINE=InnoDB", session=UNSURE)
    assert [key.engine_doubted for key in moved.foreign_keys.keys[C]] == [True]
    again = after(*TABLES, "ALTER TABLE c ENGINE=TokuDB", "DROP TABLE c", *TABLES, session=UNSURE)
    assert [key.engine_doubted for key in again.foreign_keys.keys[C]] == [False]


ADD_KEY = "ALTER TABLE c ADD FOREIGN KEY (p) REFERENCES p (id) ON DELETE CASCADE"
LEAN = "TABLE c (id INT PRIMARY KEY, p INT, KEY (p)) ENGINE=MyISAM"


@pytest.mark.parametrize(
    ("statements", "doubts"),
    [
        ((f"CREATE {LEAN}",), []),
        (("CREATE TABLE l (id INT PRIMARY KEY, p INT) ENGINE=MEMORY", "CREATE TABLE c LIKE l"), []),
        (("CREATE TABLE l (id INT PRIMARY KEY, p INT) ENGINE=Aria", "RENAME TABLE l TO c"), []),
        ((f"CREATE {LEAN}", "ALTER TABLE c ENGINE=MEMORY"), []),
        ((f"CREATE {LEAN}", "ALTER TABLE c ENGINE=InnoDB"), [False]),
        ((f"CREATE {LEAN}", "DROP TABLE c", "CREATE TABLE c (id INT PRIMARY KEY, p INT)"), [False]),
        ((f"CREATE {LEAN}", "DROP DATABASE shop", "CREATE TABLE c (id INT PRIMARY KEY, p INT)"), [False]),
        (("CREATE TABLE c (id INT, p INT)", "ALTER TABLE c RENAME d", f"CREATE {LEAN}"), []),
        ((f"CREATE TABLE IF NOT EXISTS {LEAN[6:]}",), [True]),
        ((f"CREATE {LEAN}", "CREATE TABLE IF NOT EXISTS c (id INT PRIMARY KEY, p INT)"), []),
    ],
)
def test_key_of_a_table_whose_engine_has_none_is_passed_over_by_later_statements_too(
    statements: tuple[str, ...], doubts: list[bool]
) -> None:
    found = after(*statements).foreign_keys
    again = ForeignKeys.from_json(found.to_json())
    assert again == found
    for known in (found, again):
        for operation in parse_ddl(ADD_KEY, StatementSession("shop")):
            known.apply(operation)
        assert [key.engine_doubted for key in known.keys.get(C, ())] == doubts


def test_key_is_in_doubt_where_a_parent_without_keys_takes_the_name_of_a_dropped_one() -> None:
    """Servers refuse a rename whose table does not go with the keys, unless its engine has no foreign keys."""
    for engine, is_doubted in (("MyISAM", True), ("InnoDB", False)):
        new = f"CREATE TABLE new (id INT PRIMARY KEY) ENGINE={engine}"
        found = keys(*TABLES, new, "DROP TABLE p", "RENAME TABLE new TO p")
        assert [key.parent_doubted for key in found] == [is_doubted]


def test_keys_that_were_stored_without_doubts_are_read() -> None:
    key = '{"name":"fk","columns":["p"],"parent":["shop","p"],"parent_columns":["id"],"engine_stated":true}'
    (known,) = ForeignKeys.from_json(f'[{{"child":["shop","c"],"keys":[{key}]}}]').keys[C]
    assert known == ForeignKey("fk", ("p",), P, ("id",), engine_stated=True)


@pytest.mark.parametrize(
    ("parent", "is_doubted"),
    [
        ("CREATE TABLE p (id INTEGER(9), code INT, PRIMARY KEY (id)) ENGINE=InnoDB", False),
        ("CREATE TABLE p (id INT, code INT, KEY (ID, code))", False),
        ("CREATE TABLE p (id INT, FOREIGN KEY (id) REFERENCES n (id))", False),
        ("CREATE TABLE IF NOT EXISTS p (id INT PRIMARY KEY)", False),
        ("CREATE OR REPLACE TABLE p (id INT PRIMARY KEY) ENGINE=MyISAM", True),
        ("CREATE TABLE p (id BIGINT PRIMARY KEY)", True),
        ("CREATE TABLE p (id INT UNSIGNED PRIMARY KEY)", True),
        ("CREATE TABLE p (id INT, code INT, KEY (code, id))", True),
        ("CREATE TABLE p LIKE n", True),
        ("ALTER TABLE p ENGINE=MyISAM", True),
        ("ALTER TABLE p MODIFY id BIGINT", True),
        ("ALTER TABLE p MODIFY id INT NOT NULL, MODIFY code BIGINT", False),
        ("ALTER TABLE c CHANGE p parent BIGINT", True),
        ("ALTER TABLE c CHANGE p parent INT(11), MODIFY q BIGINT", False),
    ],
)
def test_key_is_in_doubt_where_its_parent_does_not_go_with_it(parent: str, is_doubted: bool) -> None:
    changed = after(*TABLES, *(("DROP TABLE p",) if parent.startswith("CREATE") else ()), parent).foreign_keys
    assert [key.parent_doubted for key in changed.keys[C]] == [is_doubted]
    assert ForeignKeys.from_json(changed.to_json()) == changed
    again = after(*TABLES, parent, "DROP TABLE c", TABLES[1]).foreign_keys
    assert [key.parent_doubted for key in again.keys[C]] == [False]


@pytest.mark.parametrize("order", [1, -1])
def test_keys_of_a_restored_dump_are_in_no_doubt(order: int) -> None:
    restored = [text for table in TABLES for text in (f"DROP TABLE IF EXISTS {table.split()[2]}", table)]
    dump = restored if order == 1 else restored[2:] + restored[:2]
    assert [key.parent_doubted for key in keys(*TABLES, *dump)] == [False]


def test_parent_of_a_key_of_unknown_types_is_in_doubt_if_it_is_made_anew() -> None:
    added = ("CREATE TABLE c (p INT)", "ALTER TABLE c ADD FOREIGN KEY (p) REFERENCES p (id) ON DELETE CASCADE")
    assert [key.parent_doubted for key in keys(*added, TABLES[0])] == [True]
    known = after(*added)
    for operation in parse_ddl(TABLES[0], StatementSession("shop")):
        assert isinstance(operation, CreateTable)
        known.apply(replace(operation, is_stated=True))
    assert [key.parent_doubted for key in known.foreign_keys.keys[C]] == [False]


@pytest.mark.parametrize(
    ("versions", "taken"),
    [
        (["10.5.0-MariaDB-log"], True),
        (["10.4.33-MariaDB"], False),
        (["8.4.0"], False),
        (["9.0.1"], True),
        (["10.4.33-MariaDB", "10.11.2-MariaDB"], None),
        ([""], None),
    ],
)
def test_servers_differ_in_what_they_make_of_keys_in_the_words_of_a_column(
    versions: list[str], taken: bool | None
) -> None:
    files = [LogFile(number, "", 0, "full", 0, {"server_version": text}) for number, text in enumerate(versions)]
    assert take_inline_keys(files) is taken


def test_generated_name_of_newer_servers_is_dropped_too() -> None:
    create = "CREATE TABLE c (a INT, FOREIGN KEY (a) REFERENCES p (id))"
    assert key_names(create, "ALTER TABLE c DROP FOREIGN KEY `1`") == []


def test_children_follow_a_parent_that_is_renamed() -> None:
    """What MariaDB 10.11 does, whether or not foreign keys are checked."""
    swapped = after(*TABLES, "CREATE TABLE p2 (id INT)", "RENAME TABLE p TO old, p2 TO p")
    assert (children(swapped), children(swapped, TableName("shop", "old"))) == ([], ["shop.c"])
    dropped = after(*TABLES, "CREATE TABLE p2 (id INT)", "DROP TABLE p", "ALTER TABLE p2 RENAME p")
    assert children(dropped) == ["shop.c"]
    moved = after(*TABLES, "RENAME TABLE c TO other.c")
    assert children(moved) == ["other.c"]


def test_columns_are_renamed_on_both_sides() -> None:
    catalog = after(*TABLES, "ALTER TABLE p CHANGE id number INT", "ALTER TABLE c RENAME COLUMN p TO parent")
    (key,) = catalog.foreign_keys.keys[C]
    assert (key.columns, key.parent_columns) == (("parent",), ("number",))
    assert catalog.foreign_keys.updating_columns(P) == {"number"}


LEVELS = (
    *TABLES,
    "CREATE TABLE g (c INT, x INT, FOREIGN KEY (c) REFERENCES c (id) ON DELETE CASCADE ON UPDATE CASCADE)",
    "CREATE TABLE n (c INT, q INT UNIQUE, FOREIGN KEY (c) REFERENCES c (p) ON UPDATE CASCADE)",
    "CREATE TABLE s (q INT, FOREIGN KEY (q) REFERENCES n (c) ON DELETE SET NULL ON UPDATE SET NULL)",
    "CREATE TABLE self (id INT PRIMARY KEY, up INT, FOREIGN KEY (up) REFERENCES self (id) ON DELETE CASCADE)",
    "CREATE TABLE still (p INT REFERENCES p (id))",
)


def test_delete_reaches_children_of_children() -> None:
    catalog = after(*LEVELS)
    assert children(catalog) == ["shop.c", "shop.g"]
    assert children(catalog, TableName("shop", "self")) == ["shop.self"]
    assert children(catalog, TableName("shop", "g")) == []
    nulling = "ALTER TABLE c DROP FOREIGN KEY fk, ADD FOREIGN KEY (p) REFERENCES p (id) ON DELETE SET NULL"
    nulled = after(*TABLES, nulling, *LEVELS[2:])
    # The column of the child becomes null: that is an update of it, which goes on where it is referred to.
    assert children(nulled) == ["shop.c", "shop.n", "shop.s"]


def test_update_reaches_what_refers_to_the_columns_that_change() -> None:
    catalog = after(*LEVELS)
    assert updated(catalog, "ID") == ["shop.c", "shop.n", "shop.s"]
    assert updated(catalog, "code") == []
    assert catalog.foreign_keys.updating_columns(P) == {"id"}
    assert catalog.foreign_keys.updating_columns(TableName("shop", "self")) == frozenset()
    assert {str(parent) for parent in catalog.foreign_keys.parents()} == {"shop.p", "shop.c", "shop.n", "shop.self"}


def test_keys_come_from_a_schema_file_and_go_on_with_the_log() -> None:
    dump = "USE shop; " + ";\n".join(LEVELS)
    known = parse_dump(dump).foreign_keys
    again = ForeignKeys.from_json(known.to_json())
    assert again == known
    for statement in ("DROP TABLE g", "ALTER TABLE c DROP FOREIGN KEY fk"):
        for operation in parse_ddl(statement, StatementSession("shop")):
            again.apply(operation)
    assert again.reached_by_delete(P) == []
    assert again.reached_by_delete(TableName("shop", "n"))
    assert ForeignKeys.from_json(ForeignKeys().to_json()) == ForeignKeys()


def test_key_whose_column_was_dropped_was_never_there() -> None:
    """As on servers of 2013 to 2026: where the key holds, they refuse to drop its column."""
    create = "CREATE TABLE c (id INT, Pid INT, FOREIGN KEY (Pid) REFERENCES p (id) ON DELETE CASCADE)"
    assert children(after(create, "ALTER TABLE c DROP COLUMN id")) == ["shop.c"]
    assert children(after(create, "ALTER TABLE c DROP COLUMN pid")) == []
    assert children(after(create, "ALTER TABLE c DROP pid, DROP FOREIGN KEY c_ibfk_1")) == []


def test_names_of_tables_are_compared_as_the_server_does() -> None:
    statements = ("CREATE TABLE C (a INT, FOREIGN KEY (a) REFERENCES P (id) ON DELETE CASCADE)",)
    found = Catalog(ignore_case=True)
    for statement in statements:
        for operation in parse_ddl(statement, StatementSession("Shop")):
            found.apply(operation)
    assert children(found.copy(), TableName("SHOP", "p")) == ["shop.c"]
    assert children(after(*statements)) == []
