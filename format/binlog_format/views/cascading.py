"""Row events after which foreign keys change other tables: `are_checked`, `checked_counts`, `first_cascading`.

MariaDB logs the DELETE of a row of a system-versioned table as an UPDATE that ends its version, and the DELETE of a
version that has ended as that; for foreign keys the first one is a DELETE, and the second one nothing: `removed_rows`.

The server marks row events of sessions with `foreign_key_checks=0`, in which nothing is carried on, and MySQL from 9.6
on those whose cascades the SQL layer does, which are in the log. All others may be the beginning of a cascade that no
log has. Each event states it: one file may have both kinds (a replica logs what an older source sent as it came).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from binlog_format.events.layout import EventType
from binlog_format.events.table_map_layout import (
    ROWS_FLAG_NO_FOREIGN_KEY_CHECKS,
    ROWS_FLAG_SQL_FOREIGN_KEYS,
    TABLE_FLAGS_OFFSET,
    ColumnType,
)
from binlog_format.gtids.gtid_history import gtid_text
from binlog_format.names import folded_name, folded_names
from binlog_format.rows.arrow_arrays import same_values
from binlog_format.rows.decoding import DEFAULT_DECODING, Decoding
from binlog_format.rows.images import ImageKind, read_images
from binlog_format.vendor import Vendor
from binlog_format.views.filters import ALL_GROUPS, GroupFilter, TableFilter
from binlog_format.views.selection import Selection

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Set

    from binlog_format.block import Block, Table
    from binlog_format.events.table_map import Column, TableLayout
    from binlog_format.kernels import Bytes, Indices, Int64s, Mask
    from binlog_format.position import Position
    from binlog_format.rows.images import Images

UPDATES = frozenset(
    [EventType.UPDATE_ROWS_V0, EventType.UPDATE_ROWS_V1, EventType.UPDATE_ROWS_V2, EventType.PARTIAL_UPDATE_ROWS]
)
DELETES = frozenset([EventType.DELETE_ROWS_V0, EventType.DELETE_ROWS_V1, EventType.DELETE_ROWS_V2])
_UPDATE, _DELETE = 1, 2
_KINDS = np.zeros(256, dtype=np.uint8)  # by type of event
_KINDS[sorted(UPDATES)], _KINDS[sorted(DELETES)] = _UPDATE, _DELETE
_LOGGED_FLAGS = {Vendor.MYSQL: ROWS_FLAG_SQL_FOREIGN_KEYS, Vendor.MARIADB: 0}
"""Flags of row events whose cascades are in the log; MariaDB gives that bit no meaning."""
_COMMIT = b"\0COMMIT"  # the end of a Query event: a name of a database, and a statement
_PERIOD_DIGITS = 6
# Seconds and microseconds: up to MariaDB 11.4, and since.
_LAST_TIMES = (b"\x7f\xff\xff\xff\x0f\x42\x3f", b"\xff\xff\xff\xff\x0f\x42\x3f")
_OPEN_ENDS = {
    ColumnType.TIMESTAMP2: _LAST_TIMES,
    ColumnType.TIMESTAMP: _LAST_TIMES,  # mysql56_temporal_format=OFF
    ColumnType.LONGLONG: (b"\xff" * 8,),
}
"""Ends of current rows, as bytes."""


class RowEnds(NamedTuple):
    """Columns that hold the end of a row's time in a system-versioned table.

    Attributes:
        columns: Their indices; empty: rows of the table have no versions.
        is_certain: A definition states it; else each of these columns may be the one, or none of them.
    """

    columns: tuple[int, ...]
    is_certain: bool


NO_ROW_ENDS = RowEnds((), True)
"""Ends of a table whose rows have no versions: none."""


class CascadingChange(NamedTuple):
    """A change that foreign keys may carry on.

    Attributes:
        position: Of its event group.
        gtid: Of the group; None: it has none.
        is_delete: A row was deleted; else it was updated.
    """

    position: Position
    event_no: int
    gtid: str | None
    is_delete: bool


def checked_events(block: Block, rows: Indices) -> tuple[Indices, Indices]:
    """The updates and the deletes among the row events *rows* to which foreign keys apply below the log."""
    kinds = _KINDS[block.events["type"][rows]]
    kinds[~are_checked(block.data, block.events, rows, block.vendor)] = 0
    return rows[kinds == _UPDATE], rows[kinds == _DELETE]


def are_checked(data: Bytes, events: Table, rows: Indices, vendor: Vendor) -> Mask:
    """Mask of the row events *rows* to which foreign keys apply in the engine: the log lacks their cascades."""
    flags = data[events["start"][rows] + TABLE_FLAGS_OFFSET]  # the low one of their two bytes
    mask: Mask = flags & (ROWS_FLAG_NO_FOREIGN_KEY_CHECKS | _LOGGED_FLAGS[vendor]) == 0
    return mask


def have_logged_cascades(block: Block, rows: Indices) -> bool:
    """True if the log contains the cascades of each of the row events *rows*."""
    flags = block.data[block.events["start"][rows] + TABLE_FLAGS_OFFSET]
    return bool((flags & _LOGGED_FLAGS[block.vendor] != 0).all())


def checked_counts(block: Block, rows: Indices, layout: TableLayout) -> Int64s:
    """Number of row events among *rows* to which foreign keys apply in the engine.

    Args:
        rows: Numbers of row events of one table.
        layout: Of the table; where its rows may have versions, an update may be a delete.

    Returns:
        Number of updates; of events that may delete rows; and of updates and deletes outside of transactions. Where a
        group goes on in the next block, its events count as events of a transaction.
    """
    updated, deleted = checked_events(block, rows)
    may_delete = len(deleted) + (len(updated) if possible_row_ends(layout).columns else 0)
    outside = _outside_transactions(block, np.concatenate([updated, deleted]))
    return np.array([len(updated), may_delete, outside], dtype=np.int64)


def _outside_transactions(block: Block, rows: Indices) -> int:
    # An engine with transactions ends its groups by an XID event, or by statements about XA.
    groups, of_rows = block.groups, block.events["group"][rows]
    last = groups["first_event"][of_rows] + groups["event_count"][of_rows] - 1
    ends = np.flatnonzero(groups["ends"][of_rows] & (block.events["type"][last] == EventType.QUERY))
    events = block.events[last[ends]]
    places = (events["start"] + events["size"])[:, None] + np.arange(-len(_COMMIT), 0)
    return int((block.data[places] == np.frombuffer(_COMMIT, np.uint8)).all(axis=1).sum())


def possible_row_ends(layout: TableLayout) -> RowEnds:
    """The columns that may hold the end of a row's time, by their types: MariaDB has two of one type, start and end."""
    columns = [] if layout.vendor is Vendor.MYSQL else list(map(_may_be_period, layout.columns))
    kinds = [column.type if may_be else None for column, may_be in zip(layout.columns, columns, strict=False)]
    return RowEnds(tuple(index for index, kind in enumerate(kinds) if kind and kinds.count(kind) > 1), False)


def _may_be_period(column: Column) -> bool:
    if column.nullable:
        return False
    if column.type is ColumnType.TIMESTAMP2:
        return column.metadata == _PERIOD_DIGITS
    if column.type is ColumnType.TIMESTAMP:  # its digits are not in the log
        return True
    return column.type is ColumnType.LONGLONG and column.unsigned is not False


def removed_rows(images: Images, ends: RowEnds) -> Mask:
    """Mask of images of rows that go for foreign keys: deletes, and the image before of updates that end a version.

    Args:
        images: Of one table; both images of an update stand together.
        ends: Which columns tell. Where that is not certain, any of them does, and each delete counts.

    """
    kinds = images.table["kind"]
    mask: Mask = kinds == ImageKind.DELETE
    before = np.flatnonzero(kinds == ImageKind.UPDATE_BEFORE)
    for column in ends.columns:
        is_current = _is_open_end(images, column)
        if ends.is_certain:
            mask &= is_current
        # An image after an update that lacks the column did not change it: its row is current.
        mask[before] |= is_current[before] & ~is_current[before + 1]
    return mask


def _is_open_end(images: Images, column: int) -> Mask:
    # By their bytes, whatever values are made of them. Rows whose image lacks the column may be current ones.
    mask = images.absent_mask(column)
    offsets = images.column_offsets(column)
    for end in _OPEN_ENDS[images.layout.columns[column].type]:
        there = np.flatnonzero(offsets >= 0)
        # A TIMESTAMP without a fraction is shorter, and may be the last value there is.
        places = np.minimum(offsets[there, None].astype(np.int64) + np.arange(len(end)), len(images.data) - 1)
        found = images.data[places]
        mask[there] |= (found == np.frombuffer(end, np.uint8)).all(axis=1)
    return mask


def first_cascading(
    blocks: Iterable[Block],
    table: str,
    *,
    deletes: bool,
    columns: Set[str] = frozenset(),
    decoding: Decoding = DEFAULT_DECODING,
    groups: GroupFilter = ALL_GROUPS,
    ends_of: Callable[[TableLayout, Position], RowEnds] | None = None,
) -> CascadingChange | None:
    """The first change of a table that foreign keys may carry on to others; None: there is none.

    Args:
        blocks: Of the range, committed ones, in order.
        table: `database.table`.
        deletes: Whether deletes are.
        columns: Updates are that change one of these, upper and lower case are the same; where nobody states what the
            columns are called, all updates.
        decoding: Its schemas state what columns are called where table maps do not.
        groups: Which event groups are looked at; default: all.
        ends_of: The columns that tell if a version of a row ends, at a position; default: `possible_row_ends`.
    """
    kinds = (DELETES | UPDATES if deletes else frozenset()) | (UPDATES if columns else frozenset())
    wanted = folded_names(columns)
    selection = Selection(TableFilter(), groups, table=table, event_types=kinds, decoding=decoding)
    for block in blocks:
        found: list[tuple[int, bool]] = []
        for touched in selection.of(block):
            updates, removals = checked_events(block, touched.events)  # of the kinds that are selected
            ends = possible_row_ends(touched.layout) if deletes else NO_ROW_ENDS
            if ends.columns and ends_of is not None:
                ends = ends_of(touched.layout, block.position_at(touched.events[0]))
            if not ends.columns:
                found += [(event, True) for event in removals[:1].tolist()]
                removals = removals[:0]
                updates = updates if columns else updates[:0]
            events = np.sort(np.concatenate([updates, removals]))
            if len(events):
                images = read_images(
                    block.data, block.events, events, touched.layout, place=block.place, decoding=decoding
                )
                numbers = images.table["event"]
                gone = removed_rows(images, ends)
                found += [(event, True) for event in numbers[gone][:1].tolist()]
                found += [(event, False) for event in numbers[_first_change(images, wanted)].tolist()]
        if found:
            event, is_update = min((event, not is_delete) for event, is_delete in found)
            return _change(block, event, is_delete=not is_update)
    return None


def _first_change(images: Images, columns: Set[str]) -> Int64s:
    """The number of the first image of an update that changes one of *columns*; empty: none does."""
    before = np.flatnonzero(images.table["kind"] == ImageKind.UPDATE_BEFORE)
    changed = np.zeros(len(before), dtype=np.bool_)
    one, other = images.select(before), images.select(before + 1)
    for index, column in enumerate(images.layout.columns):
        if column.name is not None and folded_name(column.name) not in columns:
            continue
        # A column that the image after has, and the one before has not, was set to something.
        set_to = ~other.absent_mask(index)
        if column.name is None:
            changed |= set_to
        elif set_to.any():
            old, new = one.column(index), other.column(index)
            unknown = one.absent_mask(index)
            changed |= set_to & (unknown | ~same_values(old, new))
    return before[np.flatnonzero(changed)[:1]]


def _change(block: Block, row: int, *, is_delete: bool) -> CascadingChange:
    event = block.events[row]
    gtid = gtid_text(block.groups[int(event["group"])], block.gtid_sources)
    return CascadingChange(block.position_at(row), int(event["event_no"]), gtid, is_delete)
