from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlog_streaming.settings.lines import KeyPath, key_lines, key_text

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
