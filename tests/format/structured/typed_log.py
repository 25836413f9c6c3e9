"""A program's log with all kinds of types: `typed_log`; and all that can be read of it, as one number: `digest`."""

from __future__ import annotations

import functools
import hashlib
import io
import random
import struct
from typing import TYPE_CHECKING

import numpy as np

from binlog_format import open_log
from binlog_format.formats.opening import verify_log
from binlog_format.rows.json.json_rows import json_lines
from binlog_format.structured.arguments.source_decoder import SourceDecoder
from binlog_format.structured.metadata import ClockSync
from binlog_format.structured.text.event_format import DEFAULT_EVENT_FORMAT, EventFormat
from binlog_format.structured.text.lines import LineWriter
from binlog_format.structured.view import LogsView
from binlog_format.structured.writing import Session, SessionWriter

if TYPE_CHECKING:
    from pathlib import Path

    from binlog_format.structured.event_log import LogBlock

_DOUBLE, _FLOAT = struct.Struct("<d"), struct.Struct("<f")
_SOURCES: tuple[tuple[str, str, tuple[object, ...]], ...] = (
    ("{}", "i", (-5,)),
    ("{} {}", "lL", (-(1 << 63), (1 << 64) - 1)),
    ("name={} {}", "[cy", ("ann", True)),
    ("{} {} {}", "dfD", (0.1, 1e30, -2.5)),
    ("list {}", "[(i[c)", ([(1, "x"), (2, "")],)),
    ("{}", "<0{Point`x'i`y'<0d>}>", ({"x": 1, "y": None},)),
    ("{}", "/B`Color'0`red'A`green'\\", (10,)),
    (
        "at {} for {}",
        "{std::chrono::system_clock::time_point`ns'l}{std::chrono::duration<Rep,std::milli>`count'i}",
        (1_700_000_000 * 10**9, 7),
    ),
    ("{}", "{Node`v'i`n'<0{Node}>}", ({"v": 1, "n": {"v": 2, "n": None}},)),
    ("nothing", "", ()),
)
_SYNCS = (
    ClockSync(10**9, 10**9, 1_700_000_000 * 10**9, 3600, b"CET"),
    ClockSync(1 << 63, 3_000_000_000, 1_700_000_001 * 10**9, -3600, b"x"),
)


@functools.cache
def typed_log() -> dict[str, bytes]:
    """Two files of a program: their bytes by name."""
    session = Session(_SYNCS[0])
    sources = [session.add_source(text, tags, category="shop", file="a.cpp", line=7) for text, tags, _ in _SOURCES]
    writers = [SessionWriter(session, id=number, name=f"writer {number}") for number in (1, 2)]
    files: dict[str, bytes] = {}
    for turn, name in enumerate(("app.blog.1", "app.blog")):
        stream = io.BytesIO()
        if turn:
            session.reconsume_metadata(stream)
        for number, (source, (_, _, values)) in enumerate(zip(sources, _SOURCES, strict=True)):
            writers[number % 2].add_event(source, (turn + 1) * 10**9 + number, *values)
        session.consume(stream)
        files[name] = stream.getvalue()
    return files


def floats_log(count: int) -> bytes:
    """Events with floats of all sizes, doubles of any bits, and a clock that runs against the sync."""
    chance = random.Random(count)
    session = Session(_SYNCS[1])
    source, writer = session.add_source("{} {}", "df"), SessionWriter(session, id=1)
    for number in range(count):
        (double,) = _DOUBLE.unpack(chance.randbytes(8))
        one = chance.choice((double, chance.random(), float(number), 10.0 ** chance.randint(-320, 308), 0.0))
        writer.add_event(source, chance.getrandbits(64), one, _FLOAT.unpack(chance.randbytes(4))[0])
    stream = io.BytesIO()
    session.consume(stream)
    return stream.getvalue()


def digest(folder: Path) -> str:
    """Of all that readers make of a log: events, times, text, JSON, columns, findings."""
    found = hashlib.sha256()
    with open_log(str(folder)) as log:
        events = log.events
        assert events is not None
        found.update(repr((log.files(), log.span(log.start_position()), events.state_at(log.end_position()))).encode())
        for block in events.entries():
            _add_block(found, block)
    for finding in verify_log(str(folder)):
        found.update(finding.reason.encode())
    return found.hexdigest()


def _add_block(found: hashlib._Hash, block: LogBlock) -> None:
    found.update(block.events.tobytes())
    for lines in LineWriter(EventFormat(DEFAULT_EVENT_FORMAT)).lines(block):
        found.update(lines.text)
    view = LogsView()
    for batch in view.batches([block]):
        found.update(json_lines(batch, view.json_styles()))
    for number, source in enumerate(block.sources):
        rows = np.flatnonzero(block.events["source"] == number)
        found.update(repr(SourceDecoder(source).decode(block, rows).to_pylist()).encode())
