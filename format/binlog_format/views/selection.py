"""Which row events of a block a view takes: `Selection.of(block)`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from binlog_format.errors import CorruptError, UnsupportedError
from binlog_format.events.layout import GTID_FLAG_PREPARED_XA
from binlog_format.rows.places import place_of
from binlog_format.rows.table_events import TableMaps
from binlog_format.views.undo_kernels import UNDO_BAD_EVENT, UNDO_FOUND, UNDO_NOTHING, mark_undone

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from binlog_format.block import Block
    from binlog_format.events.table_map import TableLayout
    from binlog_format.position import Place
    from binlog_format.rows.table_events import TableEvents
    from binlog_format.views.group_filter import GroupFilter
    from binlog_format.views.table_filter import TableFilter


class Selection:
    """The row events of wanted tables in wanted groups, without those that were rolled back.

    One object reads one run of blocks in order: it remembers table maps over the pieces of a large group.

    Args:
        tables: Which tables are wanted.
        groups: Which groups are wanted.
        table: The one table (`database.table`) that is wanted; None: all that *tables* accepts.
    """

    def __init__(self, tables: TableFilter, groups: GroupFilter, *, table: str | None = None) -> None:
        self._tables = tables
        self._groups = groups
        self._table = table
        self._maps = TableMaps()

    def of(self, block: Block) -> list[TableEvents]:
        """The wanted row events of each table layout; layouts without any are left out.

        Raises:
            CorruptError: `BAD_EVENT`.
            UnsupportedError: `XA_TRANSACTION`: rows of a transaction that is only prepared; `SAVEPOINT_ROLLBACK`: rows
                rolled back in a transaction which does not fit into one block.
        """
        resolved = [touched for touched in self._maps.resolve(block) if self._wants(touched.layout)]
        if not resolved:
            return []
        keep_groups = self._groups.keep(block.groups)
        keep = None if keep_groups is None else keep_groups[block.events["group"]]
        undone = undone_events(block)
        if undone is not None:
            keep = ~undone if keep is None else keep & ~undone
        if keep is not None:
            resolved = [replace(touched, events=touched.events[keep[touched.events]]) for touched in resolved]
        resolved = [touched for touched in resolved if len(touched.events)]
        _refuse_prepared(block, resolved)
        return resolved

    def _wants(self, layout: TableLayout) -> bool:
        named = self._table is None or self._table == f"{layout.database}.{layout.table}"
        return named and self._tables.accepts(layout)


def undone_events(block: Block) -> NDArray[np.bool_] | None:
    """True for each event of *block* that a rollback in the same group takes back; None when there is none."""
    undone = np.zeros(len(block.events), dtype=np.uint8)
    starts, sizes, types, groups = (np.ascontiguousarray(block.events[n]) for n in ("start", "size", "type", "group"))
    begins = block.groups["begins"].astype(np.uint8)
    code, event = mark_undone(block.data, starts, sizes, types, groups, undone, begins)
    if code == UNDO_NOTHING:
        return None
    if code == UNDO_FOUND:
        return undone.view(np.bool_)
    at = event_place(block, event)
    if code == UNDO_BAD_EVENT:
        raise CorruptError("BAD_EVENT", f"QUERY event of {block.events['size'][event]} bytes: it is too short", at=at)
    raise UnsupportedError(
        "SAVEPOINT_ROLLBACK",
        "a transaction larger than a block takes back some of its rows, and they may have been given already",
        at=at,
    )


def event_place(block: Block, event: int) -> Place | None:
    """Where an event of *block* begins, for messages."""
    return place_of(block.extents, int(block.events["start"][event]))


def _refuse_prepared(block: Block, resolved: list[TableEvents]) -> None:
    prepared = (block.groups["gtid_flags"] & GTID_FLAG_PREPARED_XA) != 0
    if not prepared.any():
        return
    for touched in resolved:
        hits = touched.events[prepared[block.events["group"][touched.events]]]
        if len(hits):
            raise UnsupportedError(
                "XA_TRANSACTION",
                f"rows of {touched.layout.database}.{touched.layout.table} belong to an XA transaction that is "
                "prepared here and ends elsewhere in the log",
                at=event_place(block, int(hits[0])),
                hint="Leave the table out (excludeTables), or start behind the end of the XA transaction",
            )
