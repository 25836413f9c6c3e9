"""Additions of the view `changes` to rows: statements, as a column and as rows of their own: `ChangeExtras`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from binlog_format.views.events import DELETE_TYPES, UPDATE_TYPES, WRITE_TYPES

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa

    from binlog_format.block import Block
    from binlog_format.kernels import Int64s
    from binlog_format.views.filters import GroupFilter, TableFilter

_EVENT_TYPES = {"insert": WRITE_TYPES, "update": UPDATE_TYPES, "delete": DELETE_TYPES}


class ChangeStatement(NamedTuple):
    """One table that a statement changes as a whole, or the statement itself, when it is about none.

    Attributes:
        event: Row of its event in the block.
        op: `ddl` or `truncate`.
        database: Of the table, else the session's; empty: none.
        table: None: it is about none, or about many that it does not name.
        text: Of the statement; None: it is not told.
    """

    event: int
    op: str
    database: str
    table: str | None
    text: str | None


class StatementFinder(Protocol):
    """Finds statements that change tables as a whole; who knows the language gives one."""

    def __call__(self, block: Block) -> Iterable[ChangeStatement]:
        """The statements of a block of plain events, in order."""


class StatementRows(NamedTuple):
    """The statements of a block, as columns; `row_nos` count the tables of one statement."""

    events: Int64s
    row_nos: list[int]
    ops: list[str]
    databases: list[str | None]
    tables: list[str | None]
    texts: list[str | None]


@dataclass(frozen=True, slots=True)
class ChangeExtras:
    """Options of the view beyond changed rows.

    Attributes:
        query: Give the column `query`: the text of the statement that made a row, where the log has it.
        find_statements: Give rows for statements that change tables as a whole; needs *query*, their text is there.
        ops: Only rows of these operations; None: of all.
        image_type: Of the one typed table, for blocks that hold statements about it and no rows.
        tells_texts: Whether texts of statements are given; else they are null: they hold values of rows.
    """

    query: bool = False
    find_statements: StatementFinder | None = None
    ops: frozenset[str] | None = None
    image_type: pa.DataType | None = None
    tells_texts: bool = True

    @property
    def event_types(self) -> frozenset[int] | None:
        """Types of the row events that are wanted; None: all."""
        if self.ops is None:
            return None
        return frozenset(int(kind) for op in self.ops for kind in _EVENT_TYPES.get(op, ()))

    def statements_in(
        self, block: Block, tables: TableFilter, groups: GroupFilter, table: str | None
    ) -> StatementRows | None:
        """The wanted statements of *block*; None without any.

        Args:
            block: Of plain events.
            tables: Which tables are wanted; a statement about none is wanted where all are.
            table: The one table that is wanted; None: all of *tables*.
        """
        if self.find_statements is None:
            return None
        keep = groups.keep(block)
        found: list[ChangeStatement] = []
        row_nos: list[int] = []
        event, row_no = -1, 0
        for statement in self.find_statements(block):
            event, row_no = statement.event, row_no + 1 if statement.event == event else 0
            if keep is not None and not keep[int(block.events["group"][statement.event])]:
                continue
            if self.ops is not None and statement.op not in self.ops:
                continue
            if _is_about(statement, tables, table):
                found.append(statement)
                row_nos.append(row_no)
        if not found:
            return None
        return StatementRows(
            np.array([statement.event for statement in found], dtype=np.int64),
            row_nos,
            [statement.op for statement in found],
            [statement.database or None for statement in found],
            [statement.table for statement in found],
            [statement.text if self.tells_texts else None for statement in found],
        )


def _is_about(statement: ChangeStatement, tables: TableFilter, table: str | None) -> bool:
    if statement.table is None:
        return table is None and tables.accepts_all and tables.may_accept_in(statement.database)
    name = (statement.database, statement.table)
    return table in (None, ".".join(name)) and tables.accepts_name(*name)


NO_EXTRAS = ChangeExtras()
