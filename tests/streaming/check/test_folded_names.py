"""Expressions of tables for a server that folds names: they match in any case.

What is true of several tables is told once, with their names.
"""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from binlog_connector.options.source_options import SourceOptions
from binlog_connector.schema.definitions import TableName
from binlog_format.views.filters import TableFilter, as_folded
from binlog_lab.event_encoding.table_encoding import ColumnSpec, TableSpec
from binlog_streaming.jobs.tables import merged_notes
from binlog_streaming.plan.snapshots import snapshot_command
from binlog_streaming.settings import Job, PublishJob, parse_any_job
from binlog_streaming.status.wording import NAMES_SHOWN_MAX
from binlog_streaming.topics.record import PublishRecord, same_job_errors
from tests.program import run_program
from tests.streaming.tables.shop import ShopLog

RULES = """
[[tables]]
select = 'Shop\\.Secret'
mask = { email = "null" }
[[tables]]
select = 'shop\\..*'
"""
SINKS = {
    "tables": 'directory = "tables"',
    "kafka": 'kind = "kafka"\nbootstrap_servers = "127.0.0.1:1"\ntopic_prefix = "t"',
}


@pytest.mark.parametrize("sink", SINKS)
@pytest.mark.parametrize(("setting", "is_folded"), [("", False), ("0", False), ("1", True), ("2", True)])
def test_a_rule_with_capitals_is_for_the_table_of_the_server(sink: str, setting: str, *, is_folded: bool) -> None:
    """The server logs rows of `Secret` under `secret`; they are masked, and what is left out is not there."""
    source = f"path = 'log'\nexcludeTables = 'Shop[.]Plain'\n{setting and f'lowerCaseTableNames = {setting}'}"
    text = f"checkpoint = 'state'\n[source]\n{source}\n[sink]\n{SINKS[sink]}\n{RULES}"
    job = parse_any_job(text, file=Path("job.toml"))
    assert isinstance(job, (Job, PublishJob))
    filters = [TableFilter(rule.select, job.source.exclude_tables) for rule in job.tables]
    assert [one.accepts_name("shop", "secret") for one in filters] == [is_folded, True]
    assert [one.accepts_name("shop", "plain") for one in filters] == [False, not is_folded]


def test_topics_go_on_whose_rules_were_recorded_as_they_were_written() -> None:
    source = "path = 'log'\nlowerCaseTableNames = 1"
    text = f"checkpoint = 'state'\n[source]\n{source}\n[sink]\n{SINKS['kafka']}\n{RULES}"
    job = parse_any_job(text, file=Path("job.toml"))
    assert isinstance(job, PublishJob)
    record = PublishRecord.of(job)
    first, *others = record.rules
    written = (msgspec.structs.replace(first, select=r"Shop\.Secret"), *others)
    assert written != record.rules
    assert same_job_errors(msgspec.structs.replace(record, rules=written), job) == []
    other = (msgspec.structs.replace(first, select=r"Shop\.Other"), *others)
    assert len(same_job_errors(msgspec.structs.replace(record, rules=other), job)) == 1


@pytest.mark.parametrize(("setting", "is_folded"), [("", False), ("0", False), ("1", True), ("2", True)])
def test_options_and_rules_of_the_spark_source_match_likewise(setting: str, *, is_folded: bool) -> None:
    rules = json.dumps([{"select": r"Shop\.Secret", "mask": {"email": "null"}}, {"select": r"shop\..*"}])
    given = {"path": "log", "tables": "Shop[.].*", "excludeTables": "Shop[.]Plain", "rules": rules}
    options = SourceOptions.parse(given | ({"lowerCaseTableNames": setting} if setting else {}))
    wanted = TableFilter(options.tables, options.exclude_tables)
    names = [("shop", name) for name in ("secret", "plain")]
    assert [wanted.accepts_name(*name) for name in names] == [is_folded, False]
    assert options.rules is not None
    assert [options.rules.of(*name) is not None for name in names] == [is_folded, False]


@pytest.mark.parametrize("command", [("changes",), ("tail", "--from", "earliest", "--once")])
def test_commands_match_likewise(tmp_path: Path, command: tuple[str, ...]) -> None:
    secret = TableSpec("shop", "secret", (ColumnSpec("id", "int"), ColumnSpec("email", "varchar(60)")), ("id",))
    plain = TableSpec("shop", "plain", (ColumnSpec("id", "int"),), ("id",))
    with ShopLog(tmp_path / "log") as log:
        log.insert(secret, (1, "a@b"))
        log.insert(plain, (2,))
    rules = json.dumps([{"select": r"Shop\.Secret", "mask": {"email": "null"}}, {"select": r"shop\..*"}])
    name, *more = command
    asked = ("--rules", rules, "--exclude-tables", "Shop[.]Plain", "--output", "jsonl", "--lower-case-table-names", "1")
    done = run_program(name, tmp_path / "log", *more, *asked)
    (row,) = map(json.loads, done.stdout.splitlines())
    assert (row["table"], row["after"]["email"]) == ("secret", None)


@pytest.mark.parametrize(
    ("expressions", "expected"),
    [
        (r"shop\.\S+", r"shop\.\S+"),
        (r"shop\.a, Shop\.B", r"shop\.a,(?i:Shop\.B)"),
        (r"(?s)Shop\..*", r"(?is)Shop\..*"),
        (r"(?:Shop|x)\.y", r"(?i:(?:Shop|x)\.y)"),
        (r"(?i)shop\.a", r"(?i)shop\.a"),
    ],
)
def test_only_expressions_with_capitals_are_changed(expressions: str, expected: str) -> None:
    text = f"checkpoint = 'state'\n[source]\npath = 'log'\nlowerCaseTableNames = 1\n[sink]\n{SINKS['tables']}\n"
    job = parse_any_job(f"{text}[[tables]]\nselect = '{expressions}'\n", file=Path("job.toml"))
    assert isinstance(job, Job)
    assert job.tables[0].select == as_folded(expected, folds_names=True) == expected


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
