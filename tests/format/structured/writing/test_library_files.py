"""Files of the C++ library's own programs, written again: the same calls give the same bytes."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any

import pytest

from binlog_format.structured.metadata import ClockSync
from binlog_format.structured.writing import LogSource, Session, SessionWriter
from binlog_format.structured.writing.argument_encoding import compile_encoder
from tests.corpus import corpus
from tests.format.structured.plain_reader import events

if TYPE_CHECKING:
    from pathlib import Path


Line = dict[str, Any]

REPRODUCED = [
    *("types_" + name for name in ("text", "tuples", "concept", "chrono", "std")),
    *("libtest_Logging" + name for name in ("Containers", "CStrings", "Enums", "ErrorCode", "Filesystem", "Strings")),
    *("libtest_Logging" + name for name in ("TimePoint", "Tuples", "Variants")),
    *("libtest_" + name for name in ("Categories", "NamedWriters", "SeverityControl")),
    *("rotated.1", "rotated.2", "rotated.3", "example_rotate", "severity_category", "source_paths", "format_strings"),
    *("writers_out_of_order", "threads", "shared_callsite_a"),
]
ARGUMENTS_ONLY = ["types_arith", "types_optional", "types_struct", "hiperf_LoggingAdaptedStructs"]
"""With values that Python has not (long double), or does not tell (which of two options has the null); or odd ids."""


def lines_of(name: str) -> tuple[list[Line], Path]:
    folder = corpus("cppbinlog") / "cppbinlog"
    lines = [json.loads(line) for line in (folder / "entries" / f"{name}.jsonl").read_text().splitlines()]
    return lines[:-1], folder / "blog" / f"{name}.blog"


def value_of(value: Any) -> object:
    """A value as a program would give it; which option of a variant it is, is for the writer to find."""
    kind = value[0]
    if kind == "c":
        return bytes([value[1]])
    if kind in ("f", "d"):
        return float.fromhex(value[1])
    if kind == "[c":
        return text_of(value[1])
    if kind == "[" and value[2] and value[2][0][0] == "repeat":
        return [value_of(value[2][0][2])] * value[1]
    if kind == "[":
        return [value_of(one) for one in value[2]]
    if kind == "(":
        return tuple(value_of(one) for one in value[1])
    if kind == "<":
        return None if value[2] == [None] else value_of(value[2][0])
    if kind == "{":
        return tuple(value_of(member) for _, member in value[2])
    return int(value[4], 16) if kind == "/" else value[1]


def text_of(text: str | dict[str, str]) -> bytes:
    return bytes.fromhex(text["hex"]) if isinstance(text, dict) else text.encode()


class Program:
    """Does what a program must have done to write these entries."""

    def __init__(self) -> None:
        self.stream = io.BytesIO()
        self._session: Session | None = None
        self._sources: dict[int, LogSource] = {}
        self._writers: dict[tuple[int, bytes], SessionWriter] = {}

    def run(self, lines: list[Line]) -> bytes:
        last = ""
        for line in lines:
            entry = line["entry"]
            if entry == "writer" or (last == "event" and entry != "event"):
                self._consume()
            getattr(self, f"_{entry}")(line)
            last = entry
        self._consume()
        return self.stream.getvalue()

    def _consume(self) -> None:
        assert self._session is not None
        self._session.consume(self.stream)

    def _clock(self, line: Line) -> None:
        clock_sync = ClockSync(
            line["clock"], line["frequency"], line["ns"], line["tz_offset"], text_of(line["tz_name"])
        )
        if self._session is None:
            self._session = Session(clock_sync)
        else:
            self._session.set_clock_sync(clock_sync)

    def _source(self, line: Line) -> None:
        assert self._session is not None
        texts = {name: text_of(line[name]) for name in ("category", "function", "file")}
        source = self._session.add_source(
            text_of(line["format"]), line["tags"], severity=line["severity"], line=line["line"], **texts
        )
        assert source.definition.id == line["id"]
        self._sources[line["id"]] = source

    def _writer(self, line: Line) -> None:
        assert self._session is not None
        key = (line["id"], text_of(line["name"]))
        if key not in self._writers:
            self._writers[key] = SessionWriter(self._session, id=line["id"], name=key[1].decode())

    def _event(self, line: Line) -> None:
        writer = self._writers[line["writer"][0], text_of(line["writer"][1])]
        writer.add_event(self._sources[line["source"]], line["clock"], *(value_of(one) for one in line["args"]))


@pytest.mark.parametrize("name", REPRODUCED)
def test_file_is_written_as_the_library_does(name: str) -> None:
    lines, path = lines_of(name)
    assert Program().run(lines) == path.read_bytes()


@pytest.mark.parametrize("name", ARGUMENTS_ONLY)
def test_arguments_are_encoded_as_the_library_does(name: str) -> None:
    lines, path = lines_of(name)
    expected = [line["args"] for line in lines if line["entry"] == "event"]
    found = events(path.read_bytes())
    assert len(found) == len(expected) > 0
    compared = 0
    for event, args in zip(found, expected, strict=True):
        if b"D" not in event.source.argument_tags and b"<0<0" not in event.source.argument_tags:
            encode = compile_encoder(event.source.argument_tags)
            assert encode(tuple(value_of(value) for value in args)) == event.arguments, event.source.format
            compared += 1
    assert compared > len(found) // 2
