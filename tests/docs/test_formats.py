"""`docs/formats/` states what the layout modules state: offsets, sizes and types of structs, and lists of codes."""

from __future__ import annotations

import re
import struct
from enum import IntEnum
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

import pytest

from binlog_format.events.query_layout import STATUS_FORMS, Form
from binlog_format.events.table_map_layout import TYPE_METADATA_SIZES, ColumnType
from binlog_format.rows.json.json_layout import JSON_NUMBER_SIZES
from binlog_format.structured import layout as structured_layout
from binlog_format.structured.type_layout import SCALAR_SIZES, SCALAR_TAGS
from tests.docs.markdown import REPO, table_rows

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

FORMAT = REPO / "format" / "binlog_format"
PAGES = sorted((REPO / "docs" / "formats").glob("*.md"))
NAMED = re.compile(r"`(?P<module>[\w/]+layout\.py): (?P<name>\w+)`")
FIELD = re.compile(r"(\d*)([a-zA-Z?])")
TYPES = {"b": "int8", "B": "uint8", "H": "uint16", "i": "int32", "I": "uint32", "q": "int64", "Q": "uint64"}


class Table(NamedTuple):
    """The first table after a line that names a struct or a list of codes."""

    page: str
    module: str
    name: str
    rows: list[list[str]]

    def value(self) -> object:
        """What the code has under the name."""
        return getattr(_module(self.module), self.name)


class Field(NamedTuple):
    """A field of a struct: where it is, how many bytes it has, and what pages call its type."""

    byte: int
    size: int
    type: str


def _module(path: str) -> ModuleType:
    return import_module("binlog_format." + path.removesuffix(".py").replace("/", "."))


def _tables() -> Iterator[Table]:
    for page in PAGES:
        lines = page.read_text().splitlines()
        for number, line in enumerate(lines):
            for named in NAMED.finditer(line):
                first = next(i for i in range(number + 1, len(lines)) if lines[i].startswith("|"))
                assert not any(text.startswith("#") for text in lines[number:first]), (page.name, line)
                last = next((i for i in range(first, len(lines)) if not lines[i].startswith("|")), len(lines))
                rows = [[cell.strip() for cell in text.split("|")[1:-1]] for text in lines[first + 2 : last]]
                yield Table(page.name, named["module"], named["name"], rows)


TABLES = list(_tables())
STRUCTS = [table for table in TABLES if isinstance(table.value(), struct.Struct)]
CODES = [table for table in TABLES if table not in STRUCTS]


def fields_of(form: str) -> list[Field]:
    """The fields of a struct's format; repeated ones are fields of their own."""
    fields = []
    byte = 0
    for count, kind in FIELD.findall(form.removeprefix("<")):
        sizes = [int(count)] if kind in "sx" else [struct.calcsize(f"<{kind}")] * int(count or 1)
        for size in sizes:
            fields.append(Field(byte, size, TYPES.get(kind, "")))
            byte += size
    assert byte == struct.calcsize(form)
    return fields


@pytest.mark.parametrize("table", STRUCTS, ids=lambda table: f"{table.page}-{table.name}")
def test_table_has_the_fields_of_the_struct(table: Table) -> None:
    layout = table.value()
    assert isinstance(layout, struct.Struct)
    fields = fields_of(layout.format)
    shown = [
        Field(int(byte), int(size), kind.replace("text", "")) for byte, size, kind, *_ in table.rows[: len(fields)]
    ]
    assert shown == fields


@pytest.mark.parametrize("table", STRUCTS, ids=lambda table: f"{table.page}-{table.name}")
def test_what_follows_the_struct_starts_after_it(table: Table) -> None:
    layout = table.value()
    assert isinstance(layout, struct.Struct)
    rest = table.rows[len(fields_of(layout.format)) :]
    if rest:
        assert rest[0][0].startswith(str(layout.size)), rest[0]


@pytest.mark.parametrize("table", CODES, ids=lambda table: f"{table.page}-{table.name}")
def test_table_has_the_codes_of_the_list(table: Table) -> None:
    codes = table.value()
    assert isinstance(codes, type)
    assert issubclass(codes, IntEnum)
    assert [(int(code), name) for code, name, *_ in table.rows] == [(code.value, code.name) for code in codes]


def test_every_struct_of_several_fields_is_on_a_page() -> None:
    """One of a single number needs no table."""
    shown = {(table.module, table.name) for table in STRUCTS}
    missing = []
    for path in sorted(FORMAT.rglob("*layout.py")):
        module = path.relative_to(FORMAT).as_posix()
        for name, value in vars(_module(module)).items():
            is_here = re.search(rf"^{name} = ", path.read_text(), re.MULTILINE)
            if isinstance(value, struct.Struct) and is_here and len(fields_of(value.format)) > 1:
                missing += [] if (module, name) in shown else [(module, name)]
    assert len(shown) >= 15
    assert missing == []


def test_sizes_of_type_metadata() -> None:
    rows = table_rows("docs/formats/classic.md", "### Column types")
    of_elements = "1 to 4"
    stated = {row[1]: row[2] for row in rows if row[2] != of_elements}
    assert stated == {
        kind.name: str(TYPE_METADATA_SIZES.get(kind, 0)) for kind in ColumnType if kind is not ColumnType.TYPED_ARRAY
    }


def test_sizes_of_status_variables() -> None:
    (table,) = [table for table in CODES if table.name == "StatusVariable"]
    forms = [str(size) if size > 0 else Form(size).name for size in STATUS_FORMS.values()]
    assert [row[2] for row in table.rows] == forms


def test_sizes_of_json_numbers() -> None:
    (table,) = [table for table in CODES if table.name == "JsonType"]
    sizes = {name: int(text[0]) for _, name, text in table.rows if re.match(r"\d byte", text)}
    assert sizes == {kind.name: size for kind, size in JSON_NUMBER_SIZES.items()}


def test_type_tags_of_numbers() -> None:
    stated: dict[str, int] = {}
    for tags, _, sizes in table_rows("docs/formats/structured.md", "## Arguments"):
        names = re.findall(r"`(\w)`", tags)
        if names:
            bytes_of = sizes.split(", ") * (len(names) if ", " not in sizes else 1)
            stated |= dict(zip(names, map(int, bytes_of), strict=True))
    assert stated == {tag.decode(): SCALAR_SIZES[kind] for tag, kind in SCALAR_TAGS.items()}


def test_least_sizes_of_entries() -> None:
    text = (REPO / "docs/formats/structured.md").read_text()
    rows = re.findall(r"^\| (EventSource|WriterProp|ClockSync|event) \| (\d+) \|$", text, re.MULTILINE)
    assert {name: int(size) for name, size in rows} == {
        "EventSource": structured_layout.SOURCE_SIZE_MIN,
        "WriterProp": structured_layout.WRITER_SIZE_MIN,
        "ClockSync": structured_layout.CLOCK_SIZE_MIN,
        "event": structured_layout.EVENT_SIZE_MIN,
    }
