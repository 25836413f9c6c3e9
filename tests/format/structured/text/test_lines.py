"""Lines against a plain model: random types and values, cut anywhere; times against Python's calendar."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from binlog_format.errors import CorruptError
from binlog_format.kernels import as_bytes
from binlog_format.structured.event_log import event_times, ns_of
from binlog_format.structured.metadata import ClockSync, EventSource, WriterProp
from binlog_format.structured.scan import EntryScanner
from binlog_format.structured.text import lines as lines_module
from binlog_format.structured.text.event_format import MESSAGE_FORMAT, EventFormat
from binlog_format.structured.text.lines import LineWriter, messages
from tests.chance import examples
from tests.format.structured.logs import U64, event
from tests.format.structured.text.text_model import Value, read, typed_values, wall_time

if TYPE_CHECKING:
    from binlog_format.structured.event_log import LogBlock

TIME_POINT = b"{std::chrono::system_clock::time_point`ns'l}"
I64 = st.integers(-(1 << 63), (1 << 63) - 1)


def _block(*entries: bytes) -> LogBlock:
    block = EntryScanner().cut(as_bytes(b"".join(entries)), file_no=1, file_offset=0, path="app.blog").block
    assert block is not None
    return block


def _source(text: bytes, tags: bytes) -> bytes:
    return EventSource(1, 128, b"main", b"run", b"app.cpp", 7, text, tags).entry()


def _printed(block: LogBlock, text: bytes = MESSAGE_FORMAT, date_format: bytes | None = None) -> tuple[str, str | None]:
    writer = LineWriter(EventFormat(text)) if date_format is None else LineWriter(EventFormat(text), date_format)
    printed, reason = "", None
    for lines in writer.lines(block):
        printed += bytes(lines.text).decode("latin-1")
        reason = None if lines.damage is None else lines.damage.reason
    return printed, reason


@given(st.lists(typed_values(), max_size=3), st.data())
@settings(max_examples=examples(400))
def test_values_print_as_the_model_prints_them_wherever_they_are_cut(
    arguments: list[tuple[bytes, Value]], data: st.DataObject
) -> None:
    source = _source(b"<{}" * len(arguments), b"".join(tags for tags, _ in arguments))
    whole = b"".join(value.data for _, value in arguments)
    left = whole[: data.draw(st.integers(0, len(whole)))] if data.draw(st.booleans()) else whole
    expected, reason = "", None
    cut = left
    for _, value in arguments:
        expected += "<"
        text, reason, left = read(value, left)
        expected += text
        if reason is not None:
            break
    assert _printed(_block(source, event(1, 0, cut))) == (expected, reason)


@given(U64, U64, U64, st.integers(1, (1 << 64) - 1) | st.sampled_from([10**6, 10**9, 3 * 10**9]))
def test_times_are_those_of_the_model(clock: int, sync_clock: int, sync_ns: int, frequency: int) -> None:
    sync = ClockSync(sync_clock, frequency, sync_ns, 0, b"")
    block = _block(sync.entry(), _source(b"", b""), event(1, clock))
    ns = wall_time(clock, sync)
    assert ns_of(clock, sync) == ns
    times, has_time = event_times(block)
    assert (times.tolist(), has_time.tolist()) == ([ns or 0], [ns is not None])
    argument = _block(_source(b"{}", TIME_POINT), event(1, 0, struct.pack("<q", ns or 0)))
    expected = "no_clock_sync?" if ns is None else _printed(argument)[0]
    assert _printed(block, b"%u") == (expected, None)


@given(I64, st.integers(-(1 << 31) + 1, (1 << 31) - 1))
def test_a_date_is_that_of_the_calendar(ns: int, offset: int) -> None:
    local = (ns + offset * 10**9 + (1 << 63)) % (1 << 64) - (1 << 63)
    seconds = abs(local) // 10**9 * (-1 if local < 0 else 1)
    moment = np.datetime64(seconds, "s")
    year = int(str(moment)[:4])
    rest = abs(year - 1900) % 100 * (-1 if year < 1900 else 1)
    tens = abs(rest) // 10 * (-1 if rest < 0 else 1)
    minutes = abs(offset) // 60
    zone = f"{'-' if offset < 0 else '+'}{minutes // 60 if minutes < 6000 else 0:02}{minutes % 60:02}"
    fraction = f"{local - seconds * 10**9:010}"[:9] if local < seconds * 10**9 else f"{local - seconds * 10**9:09}"
    expected = f"{str(moment).replace('T', ' ')}.{fraction} {chr(48 + tens)}{chr(48 + rest - 10 * tens)} {zone} CET"
    sync = ClockSync(0, 10**9, 0, offset, b"CET\0x")
    block = _block(sync.entry(), _source(b"", b""), event(1, ns % (1 << 64)))
    assert _printed(block, b"%d", b"%Y-%m-%d %H:%M:%S.%N %y %z %Z")[0] == expected


def test_the_second_of_the_event_before_is_not_taken_for_another_one() -> None:
    clocks = (1, 2, 10**9, 10**9 + 1)
    entries = [_source(b"{}", TIME_POINT)]
    expected = ""
    for name, hours in (("A", 1), ("B", 2)) * 2:
        entries.append(ClockSync(0, 10**9, 0, hours * 3600, name.encode()).entry())
        for clock in clocks:
            entries.append(event(1, clock, struct.pack("<q", 5 * 10**9)))
            seconds, ns = divmod(clock, 10**9)
            expected += f"0{hours}:0{seconds}.{ns:09}{name} 00:0{seconds}.{ns:09}UTC 0{hours}:05.{0:09}{name}\n"
    assert _printed(_block(*entries), b"%d %u %m\n", b"%H:%S.%N%Z") == (expected, None)


def test_lines_are_the_same_however_little_room_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    source = _source(b"{} {}", b"[c[i")
    entries = [ClockSync(0, 1, 0, 0, b"").entry(), source, WriterProp(1, b"writer").entry()]
    for size in (0, 3, 500, 40):
        entries.append(event(1, size, struct.pack("<I", size) + b"x" * size + struct.pack("<3I", 2, 1, 2)))
    block = _block(*entries)
    text = b"%S %d %n %m (%G:%L)\n"
    expected = _printed(block, text)
    monkeypatch.setattr(lines_module, "ROOM", 1)
    assert _printed(block, text) == expected
    assert expected[0].count("\n") == 4


def test_messages_are_a_column_and_damage_is_an_error_with_its_place() -> None:
    good = [_source(b"n {}", b"i"), event(1, 0, b"\1\0\0\0"), event(1, 0, b"\2\0\0\0")]
    writer = LineWriter(EventFormat(MESSAGE_FORMAT))
    assert messages(_block(*good), writer).to_pylist() == [b"n 1", b"n 2"]
    with pytest.raises(CorruptError, match=rf"byte {sum(map(len, good)):#x}.*'n {{}}'.*Range overflow 4 > 1"):
        messages(_block(*good, event(1, 0, b"\1")), writer)


def test_a_line_that_a_few_bytes_make_endless_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines_module, "LINE_SIZE_MAX", 1 << 20)
    # A struct that refers to fields without bytes is no singular type: all elements are printed.
    source = _source(b"{}", b"({A`x'()}[{A})")
    writer = LineWriter(EventFormat(MESSAGE_FORMAT))
    with pytest.raises(CorruptError, match="BAD_ENTRY"):
        list(writer.lines(_block(source, event(1, 0, b"\xff\xff\xff\xff"))))
