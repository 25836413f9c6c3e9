"""Targets that read logs: pages, records, files, events."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import numpy as np
from hypothesis import strategies as st

from binlog_format import BinlogError, Position
from binlog_format.block import EVENT_DTYPE, GROUP_DTYPE
from binlog_format.classic.reader import ClassicLog
from binlog_format.events.event_table_kernels import cut_events, read_gtid
from binlog_format.formats.opening import verify_directory
from binlog_format.innodb.compressed_int_kernels import read_ints
from binlog_format.innodb.groups.commit_kernels import read_commit_integers
from binlog_format.innodb.header import read_header
from binlog_format.innodb.inspection.contents import HEAD_SIZE, describe
from binlog_format.innodb.inspection.link_kernels import LINK_DTYPE, STATE_SIZE, link_chunks
from binlog_format.innodb.inspection.page_rows import page_rows
from binlog_format.innodb.inspection.page_usage import measure_pages
from binlog_format.innodb.layout import COMMIT_HEADER_INTS_MAX, HEADER_SIZE, RecordKind
from binlog_format.innodb.reader import InnodbLog
from binlog_format.innodb.scan_kernels import link_records, scan_chunks
from binlog_format.innodb.tables import CHUNK_DTYPE, RECORD_DTYPE
from binlog_format.kernels import as_bytes
from tests.format.classic.logs import file_of
from tests.format.innodb.inspection.small_logs import LogInMemory
from tests.fuzz.declaring import NUMBERS, Target
from tests.fuzz.seeds import (
    EDITS,
    PAGE_SIZE,
    Edit,
    small_log,
    spoiled,
    with_right_checksums,
)
from tests.fuzz.server_seeds import BLOCK_SIZES, classic_parts

if TYPE_CHECKING:
    from collections.abc import Callable

    from binlog_format.log.log import Log

DATA_MAX = 1 << 20
"""Bytes of events that a log of a few KiB may give, wherever its references lead."""

_HEAD_MAX = 64  # bytes at the start of a record that state what it is
_NAMES = sorted(small_log())


def _read_everything(log: Log) -> None:
    """All that a log can be asked."""
    with log:
        with contextlib.suppress(BinlogError):
            log.files()
        with contextlib.suppress(BinlogError):
            log.span(log.start_position())
        with contextlib.suppress(BinlogError):
            log.gtid_position_at(Position(1, 3, 0))
        size = 0
        with contextlib.suppress(BinlogError):
            for block in log.blocks():
                size += len(block.data)
                assert int(block.events["size"].sum()) <= len(block.data)
                assert size <= DATA_MAX
                np.testing.assert_array_equal(block.events["group"] < len(block.groups), True)


def _chunks_of(kind: RecordKind) -> list[tuple[str, int, int]]:
    """File, byte and size of the first chunks of a kind in the small log."""
    rows = page_rows(LogInMemory(small_log()))
    return [
        (row.file, row.file_offset, row.length or 0)
        for row in rows
        if row.begins and row.type and row.type & 63 == kind
    ]


def _spoil_records(kind: RecordKind) -> Callable[[int, list[Edit]], None]:
    """A target that spoils the first bytes of a record of *kind*, checksums made right again."""
    places = _chunks_of(kind)

    def target(number: int, edits: list[Edit]) -> None:
        name, offset, size = places[number % len(places)]
        content = bytearray(small_log()[name])
        end = offset + 3 + min(size, _HEAD_MAX)
        content[offset:end] = spoiled(bytes(content[offset:end]), edits, keeps_size=True)
        _read_log({**small_log(), name: with_right_checksums(bytes(content))})

    return target


def _read_log(files: dict[str, bytes]) -> None:
    directory = LogInMemory(files)
    with contextlib.suppress(BinlogError):
        _read_everything(InnodbLog(directory))
    with contextlib.suppress(BinlogError):
        list(verify_directory(directory))


def page_scan(data: bytes) -> None:
    """Any bytes as pages."""
    pages = as_bytes(data[: len(data) // PAGE_SIZE * PAGE_SIZE])
    count = len(pages) // PAGE_SIZE
    chunks = np.zeros(count * (PAGE_SIZE // 3) + 1, dtype=CHUNK_DTYPE)
    _, rows, _, _, _ = scan_chunks(pages, count, PAGE_SIZE, 0, chunks)
    found = chunks[:rows]
    assert (found["start"] + found["size"] <= (found["page"] + 1) * PAGE_SIZE - 4).all()
    records = np.zeros(rows, dtype=RECORD_DTYPE)
    _, record_count, *_ = link_records(found, rows, 0, True, records)
    assert (records["end"][:record_count] <= rows).all()
    links = np.zeros(rows, dtype=LINK_DTYPE)
    link_chunks(found, rows, 0, 1, PAGE_SIZE, np.zeros(count, dtype=np.uint8), np.zeros(STATE_SIZE, np.int64), links)
    assert (links["page"] <= count).all()


def damaged_pages(name: int, edits: list[Edit], is_forged: bool) -> None:
    """A log with spoiled bytes anywhere, and with their checksums made right."""
    file = _NAMES[name % len(_NAMES)]
    content = spoiled(small_log()[file], edits, keeps_size=is_forged)
    files = {**small_log(), file: with_right_checksums(content) if is_forged else content}
    _read_log(files)
    with contextlib.suppress(BinlogError):
        list(page_rows(LogInMemory(files)))
    with contextlib.suppress(BinlogError):
        measure_pages(LogInMemory(files))


def integers(data: bytes) -> None:
    """Any bytes as compressed integers, as the header of a commit record, and as the start of any record."""
    head = as_bytes(data)
    values = np.zeros(COMMIT_HEADER_INTS_MAX, dtype=np.uint64)
    assert read_commit_integers(head, len(head), values) <= len(head)
    after, count = read_ints(head, 0, len(head), values)
    assert after <= len(head)
    assert count <= len(values)
    for kind in range(8):
        describe(kind, head[:HEAD_SIZE].copy())


def header_page(data: bytes) -> None:
    """Any bytes as the header of a file."""
    with contextlib.suppress(BinlogError):
        read_header(data.ljust(HEADER_SIZE, b"\1")[:HEADER_SIZE], "binlog-000000.ibb", 0)


def event_table(data: bytes) -> None:
    """Any bytes as events."""
    buffer = as_bytes(data)
    events = np.zeros(64, dtype=EVENT_DTYPE)
    groups = np.zeros(1, dtype=GROUP_DTYPE)
    _, rows, at = cut_events(buffer, 0, len(buffer), events, 0, 0, 0)
    assert at <= len(buffer)
    for row in events[:rows]:
        assert row["start"] + row["size"] <= len(buffer)
        read_gtid(buffer, int(row["start"]), int(row["size"]), groups, 0)


def classic_scan(number: int, event_number: int, edits: list[Edit], is_forged: bool) -> None:
    """A classic file of either vendor with spoiled bytes, and with checksums made right."""
    head, groups = classic_parts(number)
    events = [*head, *groups]
    if is_forged:
        events[event_number % len(events)] = spoiled(events[event_number % len(events)], edits, keeps_size=True)
        content = file_of(events)
    else:
        content = spoiled(file_of(events), edits)
    directory = LogInMemory({"mysql-bin.000001": content})
    with contextlib.suppress(BinlogError):
        _read_everything(ClassicLog(directory, block_size=BLOCK_SIZES[number % len(BLOCK_SIZES)]))
    with contextlib.suppress(BinlogError):
        list(verify_directory(directory))


_PAGES = st.lists(
    st.one_of(
        st.binary(min_size=PAGE_SIZE, max_size=PAGE_SIZE),
        st.lists(
            st.tuples(
                st.sampled_from([1, 2, 3, 4, 5, 6, 9]), st.sampled_from([0, 64, 128, 192]), st.binary(max_size=200)
            ),
            max_size=12,
        ).map(
            lambda parts: b"".join(
                bytes([kind | flags]) + len(data).to_bytes(2, "little") + data for kind, flags, data in parts
            ).ljust(PAGE_SIZE, b"\0")[:PAGE_SIZE]
        ),
    ),
    min_size=1,
    max_size=4,
).map(b"".join)

# Events with a right size, or nearly, among them GTID events that are too short.
_EVENTS = st.lists(
    st.tuples(st.sampled_from([2, 15, 16, 19, 23, 162]), st.integers(0, 30), st.sampled_from([0, 0, 0, 0, -1, 1, 4])),
    max_size=8,
).map(
    lambda parts: b"".join(
        bytes(4) + bytes([kind]) + bytes(4) + max(19 + size + lie, 0).to_bytes(4, "little") + bytes(6 + size)
        for kind, size, lie in parts
    )
)

TARGETS = {
    "page_scan": Target(page_scan, (_PAGES,)),
    "damaged_pages": Target(damaged_pages, (NUMBERS, EDITS, st.booleans())),
    "records": Target(_spoil_records(RecordKind.OOB), (NUMBERS, EDITS)),
    "commit_header": Target(_spoil_records(RecordKind.COMMIT), (NUMBERS, EDITS)),
    "xa": Target(_spoil_records(RecordKind.XA_PREPARE), (NUMBERS, EDITS)),
    "gtid_state": Target(_spoil_records(RecordKind.GTID_STATE), (NUMBERS, EDITS)),
    "integers": Target(integers, (st.binary(max_size=600),)),
    "header_page": Target(header_page, (st.binary(max_size=HEADER_SIZE),)),
    "event_table": Target(event_table, (st.one_of(_EVENTS, st.binary(max_size=400)),)),
    "classic_scan": Target(classic_scan, (NUMBERS, NUMBERS, EDITS, st.booleans())),
}
