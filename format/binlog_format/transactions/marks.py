"""The statements of a block that take rows back or say XA, read: `read_marks(block)`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from binlog_format.errors import CorruptError
from binlog_format.events.gtids.gtid import parse_xa_prepare_event
from binlog_format.events.layout import EventType
from binlog_format.transactions import mark_kernels as kernels
from binlog_format.transactions.statements import Statement, StatementKind, parse_statement
from binlog_format.transactions.xa import XaId

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from binlog_format.block import Block

    Int64s = NDArray[np.int64]

_MAY_BE_MARK = np.zeros(256, dtype=np.bool_)
_MAY_BE_MARK[[EventType.QUERY, EventType.XA_PREPARE, EventType.TRANSACTION_PAYLOAD]] = True
_NO_MARKS = np.empty((0, kernels.MARK_FIELDS), dtype=np.int64)


class Mark(NamedTuple):
    """A statement, or an XA_prepare event.

    Attributes:
        event: Row of the event table.
        event_no: Its number in its group.
        statement: What it says; None for an XA_prepare event.
        prepared: The XA transaction that an XA_prepare event prepares.
        one_phase: That event commits it at once.
    """

    event: int
    event_no: int
    statement: Statement | None
    prepared: XaId | None = None
    one_phase: bool = False


@dataclass(frozen=True, slots=True)
class Marks:
    """The marks of one block, most of them unread.

    Attributes:
        block: The block.
        table: Shape (marks, `MARK_FIELDS`).
    """

    block: Block
    table: Int64s

    def groups_with(self, *kinds: int) -> list[int]:
        """Groups in which there are marks of these kinds, ascending."""
        wanted = np.isin(self.table[:, kernels.FIELD_KIND], kinds)
        if not wanted.any():
            return []
        found: list[int] = np.unique(self.block.events["group"][self.table[wanted, kernels.FIELD_EVENT]]).tolist()
        return found

    def of_group(self, group: int) -> Iterator[Mark]:
        """Read the marks of one group, in order.

        Raises:
            CorruptError: `BAD_EVENT`: an XA_prepare event is too short.
        """
        first = int(self.block.groups["first_event"][group])
        stop = first + int(self.block.groups["event_count"][group])
        low, high = np.searchsorted(self.table[:, kernels.FIELD_EVENT], (first, stop))
        for event, kind, text in self.table[low:high].tolist():
            mark = self._read(event, kind, text)
            if mark is not None:
                yield mark

    def _read(self, event: int, kind: int, text: int) -> Mark | None:
        row = self.block.events[event]
        start, event_no = int(row["start"]), int(row["event_no"])
        end = start + int(row["size"])
        if kind == kernels.MARK_XA_PREPARE:
            try:
                name, one_phase = parse_xa_prepare_event(self.block.data[start:end].tobytes())
            except CorruptError as error:
                raise CorruptError(error.subclass, error.reason, at=self.block.place(start)) from error
            return Mark(event, event_no, None, XaId(name.gtrid, name.bqual, name.format_id & 0xFFFFFFFF), one_phase)
        if kind == kernels.MARK_PAYLOAD:
            return None
        statement = parse_statement(self.block.data[text:end].tobytes())
        return None if statement is None else Mark(event, event_no, statement)


def read_marks(block: Block) -> Marks:
    """Find the marks of *block*; most blocks have none, and that costs one look at the types of its events.

    Raises:
        CorruptError: `BAD_EVENT`: a Query event is too short.
    """
    count = int(np.count_nonzero(_MAY_BE_MARK[block.events["type"]]))
    if count == 0:
        return Marks(block, _NO_MARKS)
    table = np.empty((count, kernels.MARK_FIELDS), dtype=np.int64)
    code, found = kernels.find_marks(block.data, block.events, table)
    if code != kernels.MARKS_DONE:
        size = int(block.events["size"][found])
        at = block.place(int(block.events["start"][found]))
        raise CorruptError("BAD_EVENT", f"Query event of {size} bytes: it is too short", at=at)
    return Marks(block, table[:found])


def is_kind(mark: Mark, *kinds: StatementKind) -> bool:
    """Whether *mark* is a statement of one of *kinds*."""
    return mark.statement is not None and mark.statement.kind in kinds
