"""The steps of XA transactions in blocks as they are stored: `xa_steps(block)`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import zstandard

from binlog_format.block import EXTENT_DTYPE
from binlog_format.events.compression.compression_layout import PAYLOAD_COMPRESSION_NONE
from binlog_format.events.compression.payload import find_payloads, payload_pieces
from binlog_format.log import BLOCK_SIZE
from binlog_format.transactions import mark_kernels as kernels
from binlog_format.transactions.fate import FateReader
from binlog_format.transactions.marks import read_marks
from binlog_format.transactions.slicing import group_position
from binlog_format.transactions.statements import StatementKind
from binlog_format.transactions.xa import XaKind, XaStep

if TYPE_CHECKING:
    from binlog_format.block import Block
    from binlog_format.events.compression.payload import Payload, PayloadPiece
    from binlog_format.transactions.fate import Fate
    from binlog_format.transactions.marks import Marks

_HEAD_SIZE = 1024
"""Bytes of a compressed transaction in which its first statement is."""
_XA_START = b"XA START "
"""As servers write it."""
_WINDOW_SIZE_MAX = 128 << 20
"""What Zstandard itself takes as the limit."""

_XA_MARKS = (kernels.MARK_XA, kernels.MARK_XA_PREPARE, kernels.MARK_COMMENTED)


def xa_steps(block: Block, group_count: int) -> tuple[XaStep, ...]:
    """What the first groups of *block* that end in it do to XA transactions; nothing is decoded but statements.

    The transactions that MySQL compresses are looked into only where they begin with XA START.

    Raises:
        CorruptError: `BAD_EVENT`.
    """
    marks = read_marks(block)
    if len(marks.table) == 0:
        return ()
    fates = {group: _fate(marks, group) for group in marks.groups_with(*_XA_MARKS)}
    fates |= _payload_fates(marks, group_count)
    steps: list[XaStep] = []
    for group in sorted(fates):
        if group < group_count and block.groups["ends"][group]:
            steps += steps_of(fates[group], block, group)
    return tuple(steps)


def steps_of(fate: Fate, block: Block, group: int) -> list[XaStep]:
    """The steps of one group."""
    position = group_position(block.groups, group)
    named = (
        (XaKind.PREPARED, fate.prepared),
        (XaKind.COMMITTED, fate.committed),
        (XaKind.ROLLED_BACK, fate.rolled_back),
    )
    return [XaStep(position, xid, kind) for kind, xid in named if xid is not None]


def _fate(marks: Marks, group: int) -> Fate:
    # Savepoints are left out: of a group that comes in pieces, the first ones are not here.
    reader = FateReader()
    savepoints = (StatementKind.SAVEPOINT, StatementKind.ROLLBACK_TO)
    for mark in marks.of_group(group):
        if mark.statement is None or mark.statement.kind not in savepoints:
            reader.take(mark, marks.block)
    return reader.fate()


def _payload_fates(marks: Marks, group_count: int) -> dict[int, Fate]:
    """Of the compressed XA transactions, by group."""
    block = marks.block
    rows = marks.table[marks.table[:, kernels.FIELD_KIND] == kernels.MARK_PAYLOAD, kernels.FIELD_EVENT]
    rows = rows[block.events["group"][rows] < group_count]
    if len(rows) == 0:
        return {}
    events = block.events[rows]
    payloads = find_payloads(block.data, events["start"], events["size"], place=block.place)
    decompressor = zstandard.ZstdDecompressor(max_window_size=_WINDOW_SIZE_MAX)
    fates = {}
    for payload, group in zip(payloads, events["group"].tolist(), strict=True):
        if _XA_START not in _head(payload, decompressor):
            continue
        reader = FateReader()
        for piece in payload_pieces(payload, BLOCK_SIZE):
            inner = _inner(block, group, piece)
            for mark in read_marks(inner).of_group(0):
                reader.take(mark, inner)
        fates[group] = reader.fate()
    return fates


def _head(payload: Payload, decompressor: zstandard.ZstdDecompressor) -> bytes:
    """The first bytes of a payload; what is damaged has none, and is found out when it is read."""
    if payload.compression == PAYLOAD_COMPRESSION_NONE:
        return bytes(payload.content[:_HEAD_SIZE])
    try:
        with decompressor.stream_reader(payload.content) as reader:
            return reader.read(_HEAD_SIZE)
    except zstandard.ZstdError:
        return b""


def _inner(block: Block, group: int, piece: PayloadPiece) -> Block:
    """The events of a payload as a block; numbers of events do not count here."""
    groups = block.groups[group : group + 1].copy()
    groups["first_event"], groups["event_count"] = 0, len(piece.events)
    extents = np.zeros(1, dtype=EXTENT_DTYPE)
    extents["file_no"], extents["file_offset"] = groups["file_no"], groups["file_offset"]
    return replace(block, data=piece.data, groups=groups, events=piece.events, extents=extents)
