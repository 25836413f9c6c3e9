"""What a program calls its categories, functions and files cannot lead out of the sink's directory."""

from __future__ import annotations

from pathlib import PurePosixPath

import pytest

from binlog_format.structured.metadata import EventSource
from binlog_streaming.event_tables.writing import place_of
from binlog_streaming.settings.source_models import EventRule

TARGET = "{category}/{function}/{file}/{severity}/{line}_{source_id}"
HOSTILE = [
    b"..",
    b".",
    b"",
    b"/",
    b"../../etc",
    b"a/../../b",
    b"C:\\..\\..\\x",
    b"\x00",
    b"\xff\xfe",
    b"{line}",
    b"\x1b]0;x",
]


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_stay_in_the_directory(name: bytes) -> None:
    source = EventSource(7, 5, category=name, function=name, file=name, line=3, format=b"x", argument_tags=b"")
    place = place_of(EventRule(target=TARGET), source)
    parts = PurePosixPath(place).parts
    assert len(parts) == TARGET.count("/") + 1
    assert all(part.isascii() and part.isprintable() and not set(part) & set("./\\:") for part in parts), place
