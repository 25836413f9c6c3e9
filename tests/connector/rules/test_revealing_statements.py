"""Statements after which hidden values would be shown under another name."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from binlog_connector.rules.revealing_statements import RevealingStatements
from binlog_connector.rules.row_rules import read_rules
from binlog_connector.schema.log_ddl import ServerRuns, all_statements
from binlog_format import open_log
from binlog_format.errors import SchemaError
from binlog_format.views.filters import GroupFilter
from tests.connector.schema.blocks import block_of, query
from tests.corpus import SERVER_CASES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from binlog_connector.schema.log_ddl import DdlStatement
    from binlog_format.block import Block

MASKED = {
    "select": "shop.people",
    "mask": {"email?": "null", "mail?": "null", "card?": "last 4"},
    "drop_columns": ["pin?"],
}
PLAIN = {"select": "shop.(people_old|orders)"}
LOG = str(SERVER_CASES / "mariadb-10.11" / "ops")


def refused(*texts: str, before: tuple[str, ...] = (), folds: bool | None = None) -> list[Block]:
    """The blocks that come through, each of one statement; *before*: statements before the part that is read."""
    rules = read_rules(json.dumps([MASKED, PLAIN]))
    assert rules is not None
    blocks = [block_of(query(text), first=number) for number, text in enumerate(texts, 1)]
    with open_log(LOG) as log:
        server_runs = ServerRuns(log)

        def statements_before() -> Iterator[DdlStatement]:
            for text in before:
                yield from (statement for _, _, statement in all_statements(block_of(query(text)), server_runs))

        statements = RevealingStatements(rules, statements_before, folds_names=folds)
        return list(statements.refused(blocks, GroupFilter(), server_runs))


@pytest.mark.parametrize(
    "text",
    [
        "ALTER TABLE people CHANGE email address VARCHAR(20)",
        "ALTER TABLE people RENAME COLUMN card TO card_no",
        "ALTER TABLE people RENAME COLUMN card TO email",
        "ALTER TABLE people RENAME COLUMN pin TO pin_code",
        "ALTER TABLE people RENAME COLUMN pin TO mail",
        "ALTER TABLE people RENAME COLUMN id TO email, RENAME COLUMN email TO id",
    ],
)
def test_column_whose_hidden_values_get_another_name_is_refused(text: str) -> None:
    with pytest.raises(SchemaError, match=r"SCHEMA_CHANGED\] shop\.people: column \w+ is called \w+ now"):
        refused(text)


@pytest.mark.parametrize(
    "text",
    [
        "ALTER TABLE people CHANGE email mail VARCHAR(30)",
        "ALTER TABLE people RENAME COLUMN id TO pin",
        "ALTER TABLE people RENAME COLUMN id TO card",
        "ALTER TABLE people RENAME COLUMN email TO pin",
        "ALTER TABLE people RENAME COLUMN id TO number, MODIFY email TEXT, DROP COLUMN card",
        "ALTER TABLE orders RENAME COLUMN email TO address",
        "ALTER TABLE elsewhere RENAME COLUMN email TO address",
        "RENAME TABLE orders TO people",
        "RENAME TABLE people TO elsewhere",
        "RENAME TABLE people TO _people_old, _people_gho TO people",
        "RENAME TABLE orders TO passing, passing TO people_old",
        "RENAME TABLE people TO passing; DROP TABLE passing",
        "ALTER TABLE people no statement at all",
    ],
)
def test_what_shows_no_more_than_before_is_let_through(text: str) -> None:
    texts = text.split("; ")
    assert len(refused(*texts)) == len(texts)


@pytest.mark.parametrize(
    "texts",
    [
        ("RENAME TABLE people TO people_old",),
        ("ALTER TABLE people RENAME TO orders",),
        ("RENAME TABLE people TO passing, passing TO people_old",),
        ("RENAME TABLE people TO passing", "RENAME TABLE passing TO people_old"),
    ],
)
def test_table_whose_hidden_values_get_another_name_is_refused(texts: tuple[str, ...]) -> None:
    with pytest.raises(SchemaError, match=r"TABLE_RENAMED\] shop\.\w+ was shop\.people before"):
        refused(*texts)


def test_name_in_between_that_another_table_has_since_is_forgotten() -> None:
    gone = ("DROP TABLE passing", "CREATE TABLE passing (id INT)")
    assert len(refused("RENAME TABLE people TO passing", *gone, "RENAME TABLE passing TO people_old")) == 4


def test_temporary_table_from_before_the_part_is_not_the_table_of_its_name() -> None:
    made, renamed = "CREATE TEMPORARY TABLE people (email INT)", "ALTER TABLE people RENAME COLUMN email TO address"
    assert len(refused(renamed, before=(made,))) == 1
    assert len(refused(made, renamed)) == 2
    with pytest.raises(SchemaError, match="SCHEMA_CHANGED"):
        refused(renamed, "DROP TEMPORARY TABLE people", renamed, before=(made,))


def test_names_are_compared_as_the_server_compares_them() -> None:
    renamed = "ALTER TABLE People RENAME COLUMN email TO address"
    assert len(refused(renamed, folds=False)) == 1
    for folds in (True, None):  # where it is not known, the server may take both for one
        with pytest.raises(SchemaError, match=r"SCHEMA_CHANGED\] shop\.people"):
            refused(renamed, folds=folds)
        with pytest.raises(SchemaError, match=r"TABLE_RENAMED\] shop\.people_old was shop\.people before"):
            refused("RENAME TABLE PEOPLE TO passing", "RENAME TABLE Passing TO People_old", folds=folds)


def test_name_in_between_is_looked_for_before_the_part() -> None:
    with pytest.raises(SchemaError, match=r"TABLE_RENAMED\] shop\.people_old was shop\.people before"):
        refused("RENAME TABLE passing TO people_old", before=("RENAME TABLE people TO passing",))
    since = ("RENAME TABLE people TO passing", "DROP TABLE passing", "CREATE TABLE passing (id INT)")
    assert len(refused("RENAME TABLE passing TO people_old", before=since)) == 1
