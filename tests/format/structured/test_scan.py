"""Bytes of a structured log to tables: against a model in plain Python, at every cut, in blocks of any size.

Kernels give the same without the compiler, and NumPy has nothing to warn of.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from binlog_format.errors import CorruptError
from binlog_format.kernels import as_bytes
from binlog_format.source_file import LocalFile
from binlog_format.structured.file_scan import FileEnd, StructuredFileScan
from binlog_format.structured.metadata import ClockSync, LogState, WriterProp
from binlog_format.structured.scan import EntryScanner
from binlog_format.structured.scan_kernels import EntryStop
from tests.chance import examples
from tests.format.structured.logs import defined, entry, event, log_entries, source
from tests.format.structured.model import Model, events_of
from tests.format.structured.typed_log import floats_log, typed_log
from tests.without_compiler import printed_by

if TYPE_CHECKING:
    from pathlib import Path


_STOPS = {
    EntryStop.END: "end",
    EntryStop.INCOMPLETE: "incomplete",
    EntryStop.INCOMPLETE_SIZE: "incomplete",
    EntryStop.ZERO: "zero",
    EntryStop.SHORT: "short",
    EntryStop.UNKNOWN_SOURCE: "unknown",
}


def _state(model: Model) -> LogState:
    return LogState(model.sources, model.writer, model.clock_sync)


@given(entries=log_entries(), cut=st.integers(0, 10_000), change=st.tuples(st.integers(0, 10_000), st.integers(0, 255)))
@example(entries=[entry(b"abcd")], cut=6, change=(0, 4))
def test_what_is_cut_is_what_the_rules_give(entries: list[bytes], cut: int, change: tuple[int, int]) -> None:
    log = bytearray(b"".join(entries))
    if log:
        log[change[0] % len(log)] = change[1]
    data = bytes(log[: cut % (len(log) + 1)])
    for start in (b"", b"".join(defined())):
        model = Model(start + data).read()
        scanner = EntryScanner()
        found = scanner.cut(as_bytes(model.data), file_no=0, file_offset=0, path="log")
        assert (_STOPS[found.stop], found.at) == (model.stop, model.at)
        assert (found.block is None) == (model.at == 0)
        assert events_of([] if found.block is None else [found.block]) == model.events
        assert scanner.state == _state(model)
        assert found.block is None or found.block.state_after == _state(model)


@given(entries=log_entries(), block_size=st.integers(1, 200))
def test_block_sizes_do_not_matter(
    tmp_path_factory: pytest.TempPathFactory, entries: list[bytes], block_size: int
) -> None:
    data = b"".join(defined() + entries)
    path = tmp_path_factory.mktemp("log") / "log"
    path.write_bytes(data)
    model = Model(data).read()
    scanner = EntryScanner()
    scan = StructuredFileScan(LocalFile(path), 7, scanner, block_size=block_size)
    at = 0
    events = []
    for block in scan.blocks():
        assert block.file_offset == at
        at += len(block.data)
        assert block.data.tobytes() == data[block.file_offset : at]
        assert (block.next_position.file_no, block.next_position.page * 16384 + block.next_position.chunk) == (7, at)
        events += events_of([block])
    assert events == model.events
    assert (scan.ended, scan.stopped_at, scanner.state) == (FileEnd.END, len(data), _state(model))


@given(entries=log_entries(), places=st.tuples(st.integers(0, 100), st.integers(0, 100)))
def test_a_part_reads_as_in_the_whole(
    tmp_path_factory: pytest.TempPathFactory, entries: list[bytes], places: tuple[int, int]
) -> None:
    parts = defined() + entries
    path = tmp_path_factory.mktemp("log") / "log"
    path.write_bytes(b"".join(parts))
    first, last = sorted(place % (len(parts) + 1) for place in places)
    start, end = len(b"".join(parts[:first])), len(b"".join(parts[:last]))
    before = Model(b"".join(parts[:first])).read()
    whole = Model(b"".join(parts)).read()
    # Through the form that offsets and partitions carry.
    scanner = EntryScanner(LogState.of_entries(_state(before).entries()))
    # An end inside an entry takes that entry too: it begins before.
    limit = end + 3 if last < len(parts) else end
    scan = StructuredFileScan(LocalFile(path), 0, scanner, start=start, limit=limit, block_size=50)
    expected = [one for one in whole.events if start <= one.offset < limit]
    assert events_of(scan.blocks()) == expected


@pytest.mark.parametrize("cut", range(1, 24))
def test_the_last_entry_is_waited_for(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "log"
    whole = source(1).entry() + event(1, 5) + event(1, 6, b"1234")
    path.write_bytes(whole[:-cut])
    scan = StructuredFileScan(LocalFile(path), 0, EntryScanner())
    assert [one.clock for one in events_of(scan.blocks())] == [5]
    assert (scan.ended, scan.stopped_at) == (FileEnd.INCOMPLETE, len(whole) - 24)


def test_zeros_to_the_end_are_not_written_yet(tmp_path: Path) -> None:
    path = tmp_path / "log"
    log = source(1).entry() + event(1, 5)
    path.write_bytes(log + bytes(5_000_000))
    scan = StructuredFileScan(LocalFile(path), 0, EntryScanner())
    assert len(events_of(scan.blocks())) == 1
    assert (scan.ended, scan.stopped_at) == (FileEnd.ZEROS, len(log))


_GOOD = source(1).entry() + event(1, 5)
_AFTER = b"".join(event(1, clock, b"abc") for clock in range(6, 12))


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (bytes(16), "claims a size of 0"),
        (entry(b"1234567"), "its next field takes 8 bytes, 7 are left"),
        (entry(struct.pack("<QI", 1, 5)), "its next field takes 8 bytes, 4 are left"),
        (event(77, 5), "source 77, which has not been defined"),
        (entry(source(2).entry()[4:-3]), "its next field takes"),
        (entry(WriterProp(1, b"name").entry()[4:-1]), "its next field takes 8 bytes, 7 are left"),
        (entry(ClockSync(tz_name=b"CET").entry()[4:-1]), "its next field takes 3 bytes, 2 are left"),
        (struct.pack("<IQQ", 1 << 31, 1, 5), "claims 2,147,483,648 bytes"),
        (struct.pack("<IQQ", 1 << 31, 78, 5), "source 78, which has not been defined"),
        (struct.pack("<I", 5), "its next field takes 8 bytes, 5 are left"),
    ],
)
def test_damage_is_named_and_can_be_passed_over(tmp_path: Path, damage: bytes, reason: str) -> None:
    path = tmp_path / "log"
    path.write_bytes(_GOOD + damage + _AFTER)
    scan = StructuredFileScan(LocalFile(path), 0, EntryScanner(), limit=len(_GOOD))
    assert [one.clock for one in events_of(scan.blocks())] == [5]
    with pytest.raises(CorruptError, match=reason) as raised:
        list(StructuredFileScan(LocalFile(path), 0, EntryScanner()).blocks())
    error = raised.value
    assert (error.condition, error.at and error.at.byte) == ("BINLOG_CORRUPT.BAD_ENTRY", len(_GOOD))
    skipped: list[tuple[CorruptError, int]] = []
    scan = StructuredFileScan(
        LocalFile(path), 0, EntryScanner(), on_damage=lambda error, until: skipped.append((error, until))
    )
    assert [one.clock for one in events_of(scan.blocks())] == [5, *range(6, 12)]
    assert [(one.at and one.at.byte, until) for one, until in skipped] == [(len(_GOOD), len(_GOOD + damage))]
    assert scan.ended is FileEnd.END


def test_a_claimed_size_costs_nothing(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(_GOOD + struct.pack("<IQQ", (1 << 32) - 1, 1, 5))
    scan = StructuredFileScan(LocalFile(path), 0, EntryScanner(), block_size=64)
    sizes = [len(block.data) for block in scan.blocks()]
    assert (scan.ended, sum(sizes)) == (FileEnd.INCOMPLETE, len(_GOOD))


def test_many_writers_and_sources(tmp_path: Path) -> None:
    """More than the tables have room for at first; ids as addresses give them."""
    parts = []
    for number in range(1000):
        parts += [source(number * 0x1000, b"%d" % number).entry(), WriterProp(number, b"w%d" % number).entry()]
        parts.append(event(number * 0x1000, number))
    path = tmp_path / "log"
    path.write_bytes(b"".join(parts) * 2)
    events = events_of(StructuredFileScan(LocalFile(path), 0, EntryScanner(), block_size=10_000).blocks())
    assert events == Model(b"".join(parts) * 2).read().events


def test_source_with_a_number_that_no_event_has_room_for_is_passed_over(tmp_path: Path) -> None:
    entries = source(1).entry() + source((1 << 63) + 1, b"never").entry() + event(1, 5)
    path = tmp_path / "log"
    path.write_bytes(entries)
    (block,) = StructuredFileScan(LocalFile(path), 0, EntryScanner()).blocks()
    assert [one.clock for one in events_of([block])] == [5]
    assert LogState.of_entries(block.state_after.entries()).sources == {1: source(1)}


SCRIPT = """
import sys
from pathlib import Path
from tests.format.structured.typed_log import digest
print(*map(digest, map(Path, sys.argv[1:])))
"""


def test_all_that_is_read_is_the_same_without_the_compiler(tmp_path: Path) -> None:
    folders = [tmp_path / "typed", tmp_path / "floats"]
    for folder, files in zip(folders, (typed_log(), {"app.blog": floats_log(examples(200))}), strict=True):
        folder.mkdir()
        for name, content in files.items():
            (folder / name).write_bytes(content)
    compiled, plain = printed_by(SCRIPT, *folders)
    assert plain == compiled
    assert len(plain.split()) == len(folders)
