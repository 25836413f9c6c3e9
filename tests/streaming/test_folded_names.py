"""Expressions of tables for a server that folds names: they match in any case."""

from __future__ import annotations

from pathlib import Path

import pytest

from binlog_format.views.filters import TableFilter
from binlog_streaming.settings import Job, PublishJob, parse_any_job

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
    assert job.tables[0].select == expected
