"""What the bytes of a structured log's virtual pages are: every byte counts once, whatever is in the file."""

from __future__ import annotations

import struct
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlog_format import StartError
from binlog_format.formats.directories import open_directory
from binlog_format.position import VIRTUAL_PAGE_SIZE, Position
from binlog_format.structured.files.page_usage import StructuredFileUsage, StructuredUse, measure_pages
from binlog_format.structured.layout import Severity
from binlog_format.structured.metadata import ClockSync
from tests.format.structured.logs import entry, event, log_entries, source

NS = 1_710_072_000_000_000_000
HEAD = ClockSync(NS, 10**9, NS, 0, b"UTC").entry() + source(1).entry() + event(1, NS)
SEVERITIES = dict(zip(Severity, range(StructuredUse.TRACE, StructuredUse.OTHER_SEVERITY), strict=False))


def measured(path: Path, start: Position | None = None, end: Position | None = None) -> list[StructuredFileUsage]:
    directory, only = open_directory(str(path))
    return measure_pages(directory, only, start=start, end=end)


def use_by_byte(data: bytes, uses: dict[int, StructuredUse]) -> list[StructuredUse]:
    """Of whole entries and what follows them, told one by one; *uses* has those of the sources."""
    found: list[StructuredUse] = []
    while len(found) + 4 <= len(data):
        (size,) = struct.unpack_from("<I", data, len(found))
        if not size or len(found) + 4 + size > len(data):
            break
        (tag,) = struct.unpack_from("<Q", data, len(found) + 4)
        if tag == (1 << 64) - 1:
            number, severity = struct.unpack_from("<QH", data, len(found) + 12)
            uses[number] = StructuredUse(SEVERITIES.get(severity, StructuredUse.OTHER_SEVERITY))
        is_known = tag >= (1 << 64) - 3
        found += [StructuredUse.METADATA if is_known else uses.get(tag, StructuredUse.UNKNOWN)] * (4 + size)
    return found + [StructuredUse.INCOMPLETE] * (len(data) - len(found))


SOURCES = st.builds(
    lambda number, severity: source(number, severity=severity).entry(),
    st.integers(0, 3),
    st.sampled_from([*Severity, 0, 77]),
)
LARGE = st.builds(lambda size: event(1, NS, b"x" * size), st.integers(0, 3 * VIRTUAL_PAGE_SIZE))
TAILS = st.sampled_from([b"", bytes(40), event(1, NS, b"cut")[:-1], b"\x07"])


@given(st.lists(st.one_of(SOURCES, LARGE, log_entries().map(b"".join)), max_size=8), TAILS)
def test_each_byte_counts_where_it_is_and_as_what_it_is(entries: list[bytes], tail: bytes) -> None:
    data = HEAD + b"".join(entries) + tail
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "app.blog")
        path.write_bytes(data)
        (usage,) = measured(path)
    expected = Counter((byte // VIRTUAL_PAGE_SIZE, use) for byte, use in enumerate(use_by_byte(data, {})))
    found = {
        (page, StructuredUse(use)): int(usage.bytes[page, use])
        for page, use in zip(*usage.bytes.nonzero(), strict=True)
    }
    assert found == expected


@given(st.lists(st.one_of(SOURCES, LARGE), min_size=1, max_size=8), st.data())
def test_damage_and_cuts_lose_no_byte(entries: list[bytes], data: st.DataObject) -> None:
    content = bytearray(HEAD + b"".join(entries))
    for _ in range(data.draw(st.integers(0, 3))):
        content[data.draw(st.integers(len(HEAD), len(content) - 1))] ^= data.draw(st.integers(1, 255))
    del content[data.draw(st.integers(len(HEAD), len(content))) :]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "app.blog")
        path.write_bytes(content)
        (usage,) = measured(path)
    assert (usage.bytes >= 0).all()
    pages = usage.bytes.sum(axis=1).tolist()
    assert sum(pages) == len(content)
    assert pages[:-1] == [VIRTUAL_PAGE_SIZE] * (len(pages) - 1)


@pytest.mark.parametrize("number", [1, 2], ids=["defined", "undefined"])
def test_an_event_that_is_too_short_is_damage_whatever_its_source(tmp_path: Path, number: int) -> None:
    short = entry(number.to_bytes(8, "little") + bytes(4))
    path = tmp_path / "app.blog"
    path.write_bytes(HEAD + short + event(1, NS))
    (usage,) = measured(path)
    assert usage.bytes[0, StructuredUse.DAMAGED] == len(short)
    assert usage.bytes.sum() == path.stat().st_size


def test_files_share_what_the_older_ones_define_and_damage_is_shown(tmp_path: Path) -> None:
    pattern = tmp_path / "app.blog*"
    warning = source(2, severity=Severity.WARNING).entry()
    (tmp_path / "app.blog.1").write_bytes(HEAD + warning)
    later = ClockSync(NS + 10**9, 10**9, NS + 10**9, 0, b"UTC").entry()
    bad = entry(b"1234567")
    (tmp_path / "app.blog").write_bytes(later + event(2, NS + 10**9) + bad + event(2, NS + 10**9) * 9)
    (tmp_path / "app.blog.new").write_bytes(later + warning)
    old, new, unwritten = measured(pattern)
    assert [old.name, new.name, unwritten.name] == ["app.blog.1", "app.blog", "app.blog.new"]
    assert new.bytes[0, StructuredUse.WARNING] == 10 * len(event(2, 0))
    assert new.bytes[0, StructuredUse.DAMAGED] == len(bad)
    assert unwritten.bytes[0, StructuredUse.METADATA] == len(later + warning)
    second = Position(NS + 10**9, 0, 0)
    assert [usage.name for usage in measured(pattern, end=second)] == ["app.blog.1"]
    alone, _ = measured(pattern, start=second)
    assert alone.bytes.tolist() == new.bytes.tolist()
    with pytest.raises(StartError, match="POSITION_NOT_FOUND"):
        measured(pattern, end=Position(0, 0, 0))
