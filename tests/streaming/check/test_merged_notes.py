"""What is true of several tables is told once, with their names."""

from __future__ import annotations

from binlog_connector.schema.definitions import TableName
from binlog_streaming.jobs.tables import merged_notes
from binlog_streaming.plan.snapshots import snapshot_command
from binlog_streaming.status.wording import NAMES_SHOWN_MAX


def waiting(name: str) -> tuple[str, str]:
    return name, f"{name}: it waits: {snapshot_command(TableName.parse(name))}"


def test_texts_of_one_wording_are_one() -> None:
    notes = [waiting("shop.a"), ("shop.a", "shop.a: it has no key"), waiting("shop.b"), ("shop.c", "[X.Y] shop.c: old")]
    assert merged_notes(notes) == [
        r"shop.a, shop.b: it waits: binlog-stream snapshot JOB.toml --server URL --tables 'shop\.a,shop\.b'",
        "shop.a: it has no key",
        "[X.Y] shop.c: old",
    ]


def test_of_many_tables_some_are_named_and_the_command_is_for_all() -> None:
    (text,) = merged_notes([waiting(f"shop.t{number}") for number in range(NAMES_SHOWN_MAX + 3)])
    assert text.endswith(" and 3 more: it waits: binlog-stream snapshot JOB.toml --server URL")


def test_texts_that_are_about_their_table_alone_stay() -> None:
    notes = [("shop.a", "shop.a: its target is /lake/shop.a"), ("shop.b", "shop.b: its target is /lake/shop.b")]
    notes += [("shop.c", "no name is here"), ("shop.d", "no name is here")]
    assert merged_notes(notes) == [notes[0][1], notes[1][1], "no name is here"]
