"""The steps of XA transactions in blocks as they are stored: `xa_steps(block)`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import zstandard

from binlog_format.block import BLOCK_SIZE, EXTENT_DTYPE
from binlog_format.events.compression.compression_layout import PAYLOAD_COMPRESSION_NONE
from binlog_format.events.compression.payload import find_payloads, payload_pieces
from binlog_format.transactions import control_statement_kernels as kernels
from binlog_format.transactions.control_statements import read_control_statements
from binlog_format.transactions.rollbacks import OutcomeReader
from binlog_format.transactions.slicing import group_position
from binlog_format.transactions.statements import StatementKind
from binlog_format.transactions.xa import XaKind, XaStep

if TYPE_CHECKING:
    from binlog_format.block import Block
    from binlog_format.events.compression.payload import Payload, PayloadPiece
    from binlog_format.transactions.control_statements import ControlStatements
    from binlog_format.transactions.rollbacks import GroupOutcome

_HEAD_SIZE = 1024
"""Bytes of a compressed transaction in which its first statement is."""
_XA_START = b"XA START "
"""Start of an XA START statement, as servers write it."""
_WINDOW_SIZE_MAX = 128 << 20
"""Zstandard's own limit."""

_XA_KINDS = (kernels.KIND_XA, kernels.KIND_XA_PREPARE, kernels.KIND_COMMENTED)


def xa_steps(block: Block, group_count: int) -> tuple[XaStep, ...]:
    """XA steps of the first groups of *block* that end in it; only statements are decoded.

    The transactions that MySQL compresses are looked into only where they begin with XA START.

    Raises:
        CorruptError: `BAD_EVENT`.
    """
    control_statements = read_control_statements(block)
    if len(control_statements.table) == 0:
        return ()
    outcomes = {group: _outcome(control_statements, group) for group in control_statements.groups_with(*_XA_KINDS)}
    outcomes |= _payload_outcomes(control_statements, group_count)
    steps: list[XaStep] = []
    for group in sorted(outcomes):
        if group < group_count and block.groups["ends"][group]:
            steps += steps_of(outcomes[group], block, group)
    return tuple(steps)


def steps_of(outcome: GroupOutcome, block: Block, group: int) -> list[XaStep]:
    """The steps of one group."""
    position = group_position(block.groups, group)
    named = (
        (XaKind.PREPARED, outcome.prepared),
        (XaKind.COMMITTED, outcome.committed),
        (XaKind.ROLLED_BACK, outcome.rolled_back),
    )
    return [XaStep(position, xid, kind) for kind, xid in named if xid is not None]


def _outcome(control_statements: ControlStatements, group: int) -> GroupOutcome:
    # Savepoints are left out: of a group that comes in pieces, the first ones are not here.
    reader = OutcomeReader()
    savepoints = (StatementKind.SAVEPOINT, StatementKind.ROLLBACK_TO)
    for control in control_statements.of_group(group):
        if control.statement is None or control.statement.kind not in savepoints:
            reader.take(control, control_statements.block)
    return reader.outcome()


def _payload_outcomes(control_statements: ControlStatements, group_count: int) -> dict[int, GroupOutcome]:
    """Outcomes of the compressed XA transactions, by group."""
    block = control_statements.block
    rows = control_statements.table[
        control_statements.table[:, kernels.FIELD_KIND] == kernels.KIND_PAYLOAD, kernels.FIELD_EVENT
    ]
    rows = rows[block.events["group"][rows] < group_count]
    if len(rows) == 0:
        return {}
    events = block.events[rows]
    payloads = find_payloads(block.data, events["start"], events["size"], place=block.place)
    decompressor = zstandard.ZstdDecompressor(max_window_size=_WINDOW_SIZE_MAX)
    outcomes = {}
    for payload, group in zip(payloads, events["group"].tolist(), strict=True):
        if _XA_START not in _head(payload, decompressor):
            continue
        reader = OutcomeReader()
        for piece in payload_pieces(payload, BLOCK_SIZE):
            inner = _inner(block, group, piece)
            for control in read_control_statements(inner).of_group(0):
                reader.take(control, inner)
        outcomes[group] = reader.outcome()
    return outcomes


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
