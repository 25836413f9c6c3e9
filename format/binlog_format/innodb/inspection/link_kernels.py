"""Chunks to records without stopping at damage: `link_chunks`.

`scan_kernels.link_records` is for reading: it ends at the first chunk that cannot be right. This one goes on, says of
each chunk what is wrong with it, and which record it belongs to, whatever kind of record that is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from binlog_format.innodb.layout import (
    CHUNK_CONTINUATION,
    CHUNK_KIND_MASK,
    CHUNK_LAST,
    PAGE_CHECKSUM_SIZE,
    RecordKind,
)
from binlog_format.innodb.scan_kernels import KIND_BIAS, NO_RECORD
from binlog_format.kernels import kernel

if TYPE_CHECKING:
    from binlog_format.block import Table
    from binlog_format.kernels import Bytes, Int64s

# One row per chunk, beside the chunk table.
LINK_DTYPE = np.dtype(
    [
        ("file_no", np.int64),  # first chunk of the chunk's record; -1: the record begins where nothing was read
        ("page", np.int64),
        ("chunk", np.int32),
        ("problem", np.uint8),
    ]
)

PROBLEM_NONE = 0
PROBLEM_MISSING_END = 1
"""A record should go on here, but another one begins."""
PROBLEM_STRAY_CONTINUATION = 2
"""A record goes on here, but none has begun."""
PROBLEM_EMPTY = 3
"""The chunk holds no data, which no server writes."""
PROBLEM_EARLY_END = 4
"""The record goes on in the next page, though there is room after the chunk."""

# What is open where a page begins: of the outer record, then of the state or dummy that is inside it.
STATE_SKIPPING = 0
STATE_OUTER = 1
STATE_NESTED = 5
STATE_SIZE = 9
# Within these: biased kind, and file, page, chunk of the first chunk.
_KIND, _FILE, _PAGE, _CHUNK = range(4)

_KIND_GTID_STATE = int(RecordKind.GTID_STATE)
_KIND_DUMMY = int(RecordKind.DUMMY)


@kernel
def _begin(state: Int64s, slot: int, kind: int, file_no: int, page: int, chunk: int) -> None:
    state[slot + _KIND] = kind + KIND_BIAS
    state[slot + _FILE] = file_no
    state[slot + _PAGE] = page
    state[slot + _CHUNK] = chunk


@kernel
def _write_record(links: Table, row: int, state: Int64s, slot: int, is_unknown: bool) -> None:
    links["file_no"][row] = -1 if is_unknown else state[slot + _FILE]
    links["page"][row] = 0 if is_unknown else state[slot + _PAGE]
    links["chunk"][row] = 0 if is_unknown else state[slot + _CHUNK]


@kernel
def link_chunks(
    chunks: Table,
    chunk_count: int,
    file_no: int,
    first_page: int,
    page_size: int,
    is_lost: Bytes,
    state: Int64s,
    links: Table,
) -> None:
    """Fill a row of *links* for each chunk.

    Args:
        chunks: `CHUNK_DTYPE`; pages count from the start of the batch.
        chunk_count: Rows of it.
        file_no: File of the batch.
        first_page: Page of the batch's first page in the file.
        is_lost: For each page of the batch: what comes directly before it could not be read.
        state: `STATE_SIZE` numbers; what is open, brought up to date. All zero but `STATE_SKIPPING` = 1 to begin with.
    """
    column_page = chunks["page"]
    page_before = -1
    for row in range(chunk_count):
        page = int(column_page[row])
        if page != page_before:
            for passed in range(page_before + 1, page + 1):
                if is_lost[passed] != 0:
                    state[:] = 0
                    state[STATE_SKIPPING] = 1
            page_before = page
        chunk_type = int(chunks["type"][row])
        size = int(chunks["size"][row])
        kind = chunk_type & CHUNK_KIND_MASK
        begins = chunk_type & CHUNK_CONTINUATION == 0
        ends = chunk_type & CHUNK_LAST != 0
        slot = STATE_OUTER
        if state[STATE_OUTER] != NO_RECORD and state[STATE_OUTER] != kind + KIND_BIAS:
            if kind == _KIND_GTID_STATE or kind == _KIND_DUMMY:
                slot = STATE_NESTED
        open_kind = state[slot]
        problem = PROBLEM_NONE
        is_unknown = False
        if begins:
            if open_kind != NO_RECORD or (slot == STATE_OUTER and state[STATE_NESTED] != NO_RECORD):
                problem = PROBLEM_MISSING_END
            if slot == STATE_OUTER:
                state[STATE_NESTED] = NO_RECORD
            _begin(state, slot, kind, file_no, first_page + page, int(chunks["number"][row]))
            if kind != _KIND_GTID_STATE and kind != _KIND_DUMMY:
                state[STATE_SKIPPING] = 0
        elif open_kind == NO_RECORD:
            is_unknown = True
            if state[STATE_SKIPPING] == 0:
                problem = PROBLEM_STRAY_CONTINUATION
        elif open_kind != kind + KIND_BIAS:
            is_unknown = True
            problem = PROBLEM_MISSING_END
            state[slot] = NO_RECORD
            state[STATE_SKIPPING] = 1
        end_in_page = int(chunks["start"][row]) + size - page * page_size
        if problem == PROBLEM_NONE and size == 0:
            problem = PROBLEM_EMPTY
        elif problem == PROBLEM_NONE and not ends and end_in_page != page_size - PAGE_CHECKSUM_SIZE:
            problem = PROBLEM_EARLY_END
        links["problem"][row] = problem
        _write_record(links, row, state, slot, is_unknown)
        if ends and not is_unknown:
            state[slot] = NO_RECORD
