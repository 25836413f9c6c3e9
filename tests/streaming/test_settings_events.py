"""Job files whose source is a structured log."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec
import pytest

from binlog_format.errors import OptionError
from binlog_streaming.settings import Arguments, EventRule, EventTablesJob, Job, parse_any_job
from binlog_streaming.settings.model import Sink
from binlog_streaming.settings.source_models import EventLogSource
from binlog_streaming.settings.source_texts import EVENT_SECTIONS, event_job_text
from tests.docs.markdown import REPO

if TYPE_CHECKING:
    from pathlib import Path

HEAD = 'checkpoint = "c"\n[source]\npath = "log"\nformat = "structured"\n[sink]\ndirectory = "t"\n'


@pytest.mark.parametrize("section", EVENT_SECTIONS, ids=lambda section: section.__name__)
def test_every_setting_is_explained(section: type[msgspec.Struct]) -> None:
    fields = {field.encode_name for field in msgspec.structs.fields(section)}
    explained = {setting.name for setting in EVENT_SECTIONS[section]}
    assert explained == fields - {"source", "sink", "tables", "metrics"}


def test_job_file_that_was_written_is_read_back(tmp_path: Path) -> None:
    rules = (EventRule(min_severity="warning", target="bad"), EventRule(arguments=Arguments.COLUMNS, formats="a{2,3}'"))
    source = EventLogSource(
        path="/log", format="structured", starting_timestamp="2026-01-01", max_bytes_per_trigger="1m"
    )
    job = EventTablesJob(name="job", source=source, sink=Sink(directory="/t"), checkpoint="/c", tables=rules)
    assert parse_any_job(event_job_text(job, rule_comments={0: ["Two rules."]}), file=tmp_path / "job.toml") == job


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ('[[tables]]\nmin_severity = "loud"', 'tables[0].min_severity: "loud": expected trace'),
        ('[[tables]]\ncategories = "("', 'tables[0].categories: "(": missing )'),
        ('[[tables]]\ntarget = "{table}"', "tables[0].target: expected only {category}, {severity}"),
        ('[[tables]]\npartition_by = ["f(x)"]', "tables[0].partition_by[0]: expected a column"),
        (
            '[[tables]]\nmode = "mirror"',
            "tables[0].mode: no such setting. Leave it out: it is a setting of jobs that keep tables of a server's log",
        ),
        ('[[tables]]\narguments = "typed"', "tables[0].arguments: expected json or columns, got 'typed'"),
        ("tables = []", "tables: expected at least one rule"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, lines: str, message: str) -> None:
    text = f"{lines}\n{HEAD}" if lines.startswith("tables") else f"{HEAD}{lines}\n"
    with pytest.raises(OptionError, match=re.escape(message)):
        parse_any_job(text, file=tmp_path / "job.toml")


def test_settings_of_such_jobs_elsewhere_say_what_is_missing(tmp_path: Path) -> None:
    """Where there is no log yet, it counts as a database's."""
    text = HEAD.replace('format = "structured"\n', "")
    assert isinstance(parse_any_job(text, file=tmp_path / "job.toml"), Job)
    with pytest.raises(OptionError, match=r'tables\[0\].arguments.*set source.format = "structured"'):
        parse_any_job(f'{text}[[tables]]\narguments = "columns"\n', file=tmp_path / "job.toml")


@pytest.mark.parametrize(("heading", "section"), [("source", EventLogSource), ("tables", EventRule)])
def test_settings_are_documented(heading: str, section: type[msgspec.Struct]) -> None:
    text = (REPO / "docs/structured-tables.md").read_text()
    title = "setting of `[source]`" if heading == "source" else "setting of `[[tables]]`"
    lines = text[text.index(f"| {title} |") :].split("\n\n")[0].splitlines()[2:]
    documented = [line.split("|")[1].strip().strip("`") for line in lines]
    assert documented == [field.encode_name for field in msgspec.structs.fields(section)]
