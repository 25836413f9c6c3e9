"""Data that all messages of a block share: `BlockContext`; `logged_statements` selects the statements for messages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from binlog_connector.schema.log_ddl import table_statements
from binlog_connector.schema.server.failed_statements import ddl_operations
from binlog_connector.schema.server.table_names import folded
from binlog_format.kernels import empty_bytes
from binlog_format.rows.json.json_rows import text_buffers

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from binlog_connector.envelope.options import EnvelopeOptions
    from binlog_connector.schema.log_ddl import DdlStatement
    from binlog_connector.schema.operations import Operation
    from binlog_format.block import Block
    from binlog_format.kernels import Bytes
    from binlog_format.views.group_filter import GroupFilter

    Int32s = NDArray[np.int32]
    EventQueries = tuple[Int32s, pa.Array]


@dataclass(frozen=True, slots=True)
class BlockContext:
    """Data that all messages of a block share.

    Attributes:
        block: Where the changes are.
        options: What messages look like.
        threads: `GroupThreads.of_groups`.
        queries: `StatementTexts.of_rows`: of each event its statement (or -1), and the statements; None: not wanted.
        now_ns: When the messages are made, nanoseconds since 1970 UTC.
    """

    block: Block
    options: EnvelopeOptions
    threads: NDArray[np.int64]
    queries: EventQueries | None
    now_ns: int

    def query_texts(self) -> tuple[Int32s, Bytes, Int32s]:
        """Statement of each event (or -1); the texts of the statements, and where each begins and the last one ends."""
        if self.queries is None:
            none = np.full(len(self.block.events), -1, dtype=np.int32)
            return none, empty_bytes(0), np.zeros(1, dtype=np.int32)
        return self.queries[0], *text_buffers(self.queries[1], pa.string())


class LoggedStatement(NamedTuple):
    """A statement about tables.

    Attributes:
        event: Row of its event.
        statement: Its text, and what it is to be read with.
        operations: What it does to tables, in order.
    """

    event: int
    statement: DdlStatement
    operations: list[Operation]


def logged_statements(block: Block, groups: GroupFilter, *, folds_names: bool = False) -> list[LoggedStatement]:
    """DDL and TRUNCATE in the wanted event groups of a block, in order.

    Args:
        block: Of plain events.
        groups: Which event groups are wanted.
        folds_names: Operations have names in small letters, as those of rows.

    Raises:
        CorruptError: `BAD_EVENT`.
    """
    keep = groups.keep(block)
    as_rows: Callable[[Operation], Operation] = folded if folds_names else lambda operation: operation
    return [
        LoggedStatement(event, statement, [as_rows(operation) for operation in ddl_operations(statement)])
        for event, _, statement in table_statements(block)
        if keep is None or keep[int(block.events["group"][event])]
    ]
