"""Targets that read structured logs: entries, types and arguments, lines of text, memory images."""

from __future__ import annotations

import contextlib
import itertools
from dataclasses import replace
from typing import TYPE_CHECKING
from unittest.mock import patch

import numpy as np
from hypothesis import strategies as st

from binlog_format.errors import BinlogError
from binlog_format.formats.opening import verify_directory
from binlog_format.kernels import as_bytes
from binlog_format.rows.json.json_rows import json_lines
from binlog_format.structured.arguments.json_texts import arguments_json
from binlog_format.structured.arguments.source_decoder import SourceDecoder
from binlog_format.structured.files.page_usage import measure_pages
from binlog_format.structured.layout import DATA_MAGIC, DATA_STRUCT, METADATA_MAGIC, METADATA_STRUCT
from binlog_format.structured.metadata import ClockSync
from binlog_format.structured.reader import StructuredLog
from binlog_format.structured.recovery import recovered
from binlog_format.structured.scan import EntryScanner
from binlog_format.structured.text import lines as lines_module
from binlog_format.structured.text.event_format import DEFAULT_EVENT_FORMAT, EventFormat
from binlog_format.structured.text.lines import DEFAULT_DATE_FORMAT, LineWriter
from binlog_format.structured.view import LogsView
from tests.format.innodb.inspection.small_logs import LogInMemory
from tests.format.structured.arguments.blocks import all_rows, block_of_events, source
from tests.format.structured.arguments.model import Events, events
from tests.format.structured.logs import MemoryImage, defined, log_entries
from tests.format.structured.typed_log import typed_log
from tests.fuzz.declaring import NUMBERS, Target
from tests.fuzz.seeds import EDITS, Edit, spoiled

if TYPE_CHECKING:
    from collections.abc import Iterator

    from binlog_format.position import Position
    from binlog_format.structured.event_log import LogBlock

BLOCK_SIZES = (64, 300, 4096)
LINE_SIZE_MAX = 1 << 20
"""A few bytes can describe a line of any length; what happens then is the same at a gigabyte."""


def structured_log(number: int, edits: list[Edit], later: list[Edit]) -> None:
    """A log with spoiled bytes, and all that it can be asked; then some of its files are others."""
    files = typed_log()
    names = sorted(files)
    name = names[number % len(names)]
    directory = LogInMemory({**files, name: spoiled(files[name], edits)})
    with contextlib.suppress(BinlogError):
        list(verify_directory(directory))
    with contextlib.suppress(BinlogError):
        measure_pages(directory)
    with contextlib.suppress(BinlogError):
        log = StructuredLog(directory, block_size=BLOCK_SIZES[number % len(BLOCK_SIZES)])
        _read_everything(log, number)
        directory.files = {**directory.files, names[number % len(names)]: spoiled(files[name], later)}
        _read_everything(log, number)


def _read_everything(log: StructuredLog, number: int) -> None:
    with contextlib.suppress(BinlogError):
        log.files()
    ends: list[Position] = []
    with contextlib.suppress(BinlogError):
        ends = [log.span(log.start_position(), size_max=number).end, log.span(log.start_position()).end]
        log.split(log.start_position(), ends[-1], 3)
    for place in ends:
        with contextlib.suppress(BinlogError):
            log.state_at(place)
    passed_over: list[int] = []
    for on_damage in (None, lambda error, until: passed_over.append(until)):
        with contextlib.suppress(BinlogError):
            for block in log.entries(on_damage=on_damage):
                _check_block(block)


def _check_block(block: LogBlock) -> None:
    starts, sizes = block.events["start"], block.events["size"]
    assert (starts + 4 + sizes <= len(block.data)).all()
    for column, rows in (("source", block.sources), ("writer", block.writers), ("clock_sync", block.clock_syncs)):
        assert ((block.events[column] >= 0) & (block.events[column] < len(rows))).all()
    _write_lines(block, DEFAULT_EVENT_FORMAT, DEFAULT_DATE_FORMAT)
    view = LogsView()
    with contextlib.suppress(BinlogError), _short_lines():
        for batch in view.batches([block]):
            batch.validate(full=True)
            assert bytes(json_lines(batch, view.json_styles())).count(b"\n") == batch.num_rows
    with contextlib.suppress(BinlogError), _short_lines():
        for batch in LogsView(typed=True).batches([block]):
            batch.validate(full=True)


def _write_lines(block: LogBlock, event_format: bytes, date_format: bytes) -> None:
    writer = LineWriter(EventFormat(event_format), date_format)
    row = 0
    with contextlib.suppress(BinlogError), _short_lines():
        while row < len(block.events):
            for lines in writer.lines(block, first_row=row):
                assert (np.diff(lines.ends, prepend=0) >= 0).all()
                assert len(lines.ends) == 0 or lines.ends[-1] <= len(lines.text)
                row = lines.next_row + (lines.damage is not None)


@contextlib.contextmanager
def _short_lines() -> Iterator[None]:
    with patch.object(lines_module, "LINE_SIZE_MAX", LINE_SIZE_MAX):
        yield


def entries(parts: list[bytes], edits: list[Edit], cut: int) -> None:
    """Entries of all kinds, spoiled, in one piece and in two: what is whole comes from both."""
    data = spoiled(b"".join([*defined(), *parts]), edits)
    found = []
    for places in ([len(data)], [cut % (len(data) + 1), len(data)]):
        scanner, at, count = EntryScanner(is_missing_ok=True), 0, 0
        for place in places:
            made = scanner.cut(as_bytes(data[at:place]), file_no=1, file_offset=at, path="app.blog")
            if made.block is not None:
                _check_block(made.block)
                count += len(made.block.events)
            at += made.at
        found.append((at, count, scanner.state.entries()))
    assert found[0] == found[1]


def arguments(made: Events, text: bytes, tag_edits: list[Edit], edits: list[Edit], is_forged: bool) -> None:
    """Arguments of any types, spoiled, and their types: as columns, as JSON, and as text."""
    tags = spoiled(made.tags.encode(), tag_edits) if is_forged else made.tags.encode()
    one = source(tags, text)
    block = block_of_events(one, [spoiled(content, edits) for _, content in made.events])
    readers = [arguments_json]
    with contextlib.suppress(BinlogError):
        readers.append(SourceDecoder(one).decode)
    for read in readers:
        with contextlib.suppress(BinlogError):
            found = read(block, all_rows(block))
            found.validate(full=True)
            assert len(found) == len(made.events)
    _write_lines(block, b"%m\n", DEFAULT_DATE_FORMAT)


def line_formats(event_format: bytes, date_format: bytes, sync: ClockSync, number: int) -> None:
    """Any event format, date format and clock."""
    log = StructuredLog(LogInMemory(typed_log()), block_size=BLOCK_SIZES[number % len(BLOCK_SIZES)])
    for block in log.entries():
        _write_lines(replace(block, clock_syncs=(sync,) * len(block.clock_syncs)), event_format, date_format)


def memory_image(parts: list[tuple[bool, list[bytes], list[int]]], edits: list[Edit]) -> None:
    """Sessions and queues in memory, spoiled: what is recovered are whole entries of the image, none of them twice."""
    image = b""
    for is_metadata, some, numbers in parts:
        content = b"".join(some)
        if is_metadata:
            image += METADATA_MAGIC + METADATA_STRUCT.pack(1, len(content)) + content
        else:
            indexes = (1, len(content), *(number % (len(content) + 1) for number in numbers))
            image += DATA_MAGIC + DATA_STRUCT.pack(*indexes) + content
    data = spoiled(image, edits)
    source_image = MemoryImage(data)
    ranges = []
    for block in recovered(source_image, lambda _, line: None):
        ranges += [one for one in block.ranges if one[0] < one[1]]
        content = b"".join(block.pieces(source_image))
        assert len(content) == block.size
        at = 0
        while at < len(content):
            at += 4 + int.from_bytes(content[at : at + 4], "little")
        assert at == len(content)
    ranges.sort()
    assert all(before[1] <= after[0] for before, after in itertools.pairwise(ranges))
    assert all(end <= len(data) for _, end in ranges)


_U64 = st.integers(0, (1 << 64) - 1)
_SYNCS = st.builds(
    ClockSync, _U64, _U64 | st.sampled_from([1, 10**9]), _U64, st.integers(-(1 << 31) + 1, (1 << 31) - 1), st.binary()
)
_LETTERS = st.sampled_from(b"%SCMFGLPTnmdutrYyHIMNzZ {}")
_FORMATS = st.lists(_LETTERS, max_size=12).map(bytes) | st.binary(max_size=8)
_IMAGE_PARTS = st.lists(
    st.tuples(st.booleans(), log_entries(), st.lists(NUMBERS, min_size=4, max_size=4)), min_size=1, max_size=3
)

TARGETS = {
    "structured_log": Target(structured_log, (NUMBERS, EDITS, EDITS)),
    "entries": Target(entries, (log_entries(), EDITS, NUMBERS)),
    "arguments": Target(arguments, (events(), _FORMATS, EDITS, EDITS, st.booleans())),
    "line_formats": Target(line_formats, (_FORMATS, _FORMATS, _SYNCS, NUMBERS)),
    "memory_image": Target(memory_image, (_IMAGE_PARTS, EDITS)),
}
