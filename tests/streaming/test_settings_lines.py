"""Job files whose source is a structured log."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlog_format.errors import OptionError
from binlog_format.views.filters import TableFilter
from binlog_streaming.jobs.replay_tables import without_tables
from binlog_streaming.settings import Arguments, EventRule, EventTablesJob, Job, parse_any_job
from binlog_streaming.settings.lines import KeyPath, key_lines, key_text
from binlog_streaming.settings.model import Sink
from binlog_streaming.settings.source_models import EventLogSource
from binlog_streaming.settings.source_texts import EVENT_SECTIONS, event_job_text
from tests.docs.markdown import REPO

CONF = Path(__file__).resolve().parents[2] / "conf"
ALL_KINDS = '''\
# comment = 1
top = "a # no comment" # [no.header]
"quoted \\" key" = 'x'
a.b . c = 1

[source]
text = """
[no.header]
key = 1 \\""" still
"""
raw = \'\'\'
also = "not"\'\'\'
list = [ # comment
  1,
  "]",
  [2,
   3],
]
inline = { x = 1, "y.z" = { deep = [1, 2] } }
last = 1979-05-27T07:32:00Z

[[tables]]
select = 'a'
[[tables]]

select = 'b'
  [tables.inner]
  value = true
  [[tables.more]]
  n = 1
  [[tables.more]]
  n = 2
[ spark . settings ]
"spark.x" = 1'''


def paths(value: object, path: KeyPath = ()) -> list[KeyPath]:
    found = [path] if path else []
    if isinstance(value, dict):
        for name, item in value.items():
            found += paths(item, (*path, name))
    elif isinstance(value, list):
        for number, item in enumerate(value):
            found += paths(item, (*path, number))
    return found


def test_every_key_of_every_kind_has_its_line() -> None:
    lines = key_lines(ALL_KINDS)
    assert set(lines) == set(paths(tomllib.loads(ALL_KINDS)))
    rows = ALL_KINDS.splitlines()
    told: dict[KeyPath, str] = {
        ("top",): "top =",
        ('quoted " key',): '"quoted',
        ("a", "b", "c"): "a.b . c",
        ("source",): "[source]",
        ("source", "raw"): "raw =",
        ("source", "list", 1): '  "]",',
        ("source", "list", 2, 1): "   3],",
        ("source", "inline", "y.z", "deep", 1): "inline",
        ("source", "last"): "last",
        ("tables", 0, "select"): "select = 'a'",
        ("tables", 1, "select"): "select = 'b'",
        ("tables", 1, "inner", "value"): "  value",
        ("tables", 1, "more", 1, "n"): "  n = 2",
        ("spark", "settings", "spark.x"): '"spark.x"',
    }
    for path, row in told.items():
        assert rows[lines[path] - 1].startswith(row), path
    assert rows[lines["tables", 1] - 1] == "[[tables]]"
    assert lines["tables", 0] < lines["tables", 1]


@pytest.mark.parametrize("file", sorted(CONF.glob("*.toml")), ids=lambda file: file.name)
def test_shipped_files_are_understood(file: Path) -> None:
    text = file.read_text()
    assert set(key_lines(text)) == set(paths(tomllib.loads(text)))


HEADERS: dict[str, KeyPath] = {"": (), "[t]": ("t",), "[[t]]": ("t", 0)}
BARE = st.text("abcXYZ019_-", min_size=1, max_size=4)
TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=["C"]), max_size=8)


def basic(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


VALUES = st.recursive(
    st.one_of(
        st.integers(-5, 5).map(str),
        st.booleans().map(lambda value: str(value).lower()),
        TEXTS.map(basic),
        TEXTS.map(lambda text: f'"""\n{text}\n"""' if '"' not in text and "\\" not in text else '""'),
        TEXTS.map(lambda text: f"'''\n{text}'''" if "'" not in text else "''"),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda items: "[ # [x]\n" + ",\n".join(items) + "\n]"),
        st.lists(inner, max_size=3).map(
            lambda items: "{" + ", ".join(f"k{number} = {item}" for number, item in enumerate(items)) + "}"
        ),
    ),
    max_leaves=6,
)


@given(st.lists(st.tuples(st.one_of(BARE, TEXTS.map(basic)), VALUES), max_size=6), st.sampled_from(list(HEADERS)))
def test_whatever_tomllib_reads_is_understood(pairs: list[tuple[str, str]], header: str) -> None:
    text, expected = f"{header}\n", {}
    for name, value in pairs:
        line = f"{name} = {value} # {name}\n"
        try:
            tomllib.loads(text + line)
        except tomllib.TOMLDecodeError:  # a key that is there already, or a line break in an inline table
            continue
        expected[str(next(iter(tomllib.loads(f"{name} = 1"))))] = text.count("\n") + 1
        text += line
    content = tomllib.loads(text)
    lines = key_lines(text)
    assert set(lines) == set(paths(content))
    first = HEADERS[header]
    for name, number in expected.items():
        assert lines[*first, name] == number


def test_paths_read_as_people_write_them() -> None:
    assert key_text(("tables", 0, "mode")) == "tables[0].mode"


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


@pytest.mark.parametrize(
    ("select", "names", "matching", "others"),
    [
        (".*", (), ("a.b",), ()),
        (".*", ("a.b", "a.bc"), ("a.x", "xa.b", "a.bx"), ("a.b", "a.bc")),
        (r"a\.b|c\.d,e\..{1,2}", ("c.d", "e.f"), ("a.b", "e.ff"), ("c.d", "e.f", "e.fff", "a.bc.d")),
        (r"(?i)SHOP\.x|shop\.y", ("shop.y",), ("shop.x",), ("shop.y",)),
        (r"a\..*", ("a.b,c", "a.(", "a.{1"), ("a.b", "a.c"), ("a.b,c", "a.(", "a.{1")),
    ],
)
def test_tables_are_taken_out(
    select: str, names: tuple[str, ...], matching: tuple[str, ...], others: tuple[str, ...]
) -> None:
    wanted = TableFilter(without_tables(select, names))
    assert [name for name in (*matching, *others) if wanted.accepts_name(*name.split(".", 1))] == list(matching)
