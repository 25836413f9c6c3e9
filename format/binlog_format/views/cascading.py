"""Row events after which foreign keys change other tables: `are_checked`, `checked_counts`, `first_cascading`.

The server marks row events of sessions with `foreign_key_checks=0`, in which nothing is carried on, and MySQL from 9.6
on those whose cascades the SQL layer does, which are in the log. All others may be the beginning of a cascade that no
log has. Each event states it: one file may have both kinds (a replica logs what an older source sent as it came).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow.compute as pc

from binlog_format.events.layout import EventType
from binlog_format.events.table_map_layout import (
    ROWS_FLAG_NO_FOREIGN_KEY_CHECKS,
    ROWS_FLAG_SQL_FOREIGN_KEYS,
    TABLE_FLAGS_OFFSET,
)
from binlog_format.gtids.gtid_history import gtid_of
from binlog_format.position import Position
from binlog_format.rows.decoding import DEFAULT_DECODING, Decoding
from binlog_format.rows.images import ImageKind, read_images
from binlog_format.vendor import Vendor
from binlog_format.views.filters import ALL_GROUPS, GroupFilter, TableFilter
from binlog_format.views.selection import Selection

if TYPE_CHECKING:
    from collections.abc import Iterable, Set

    from numpy.typing import NDArray

    from binlog_format.block import Block, Table
    from binlog_format.kernels import Bytes
    from binlog_format.rows.images import Images

    Rows = NDArray[np.int64]

UPDATES = frozenset(
    [
        EventType.UPDATE_ROWS_V0,
        EventType.UPDATE_ROWS_V1,
        EventType.UPDATE_ROWS_V2,
        EventType.PARTIAL_UPDATE_ROWS,
    ]
)
DELETES = frozenset([EventType.DELETE_ROWS_V0, EventType.DELETE_ROWS_V1, EventType.DELETE_ROWS_V2])
_UPDATE, _DELETE = 1, 2
_KINDS = np.zeros(256, dtype=np.uint8)  # by type of event
_KINDS[sorted(UPDATES)], _KINDS[sorted(DELETES)] = _UPDATE, _DELETE


class CascadingChange(NamedTuple):
    """A change that foreign keys may carry on.

    Attributes:
        position: Of its event group.
        event_no: Number of the event in the group.
        gtid: Of the group; None: it has none.
        is_delete: A row was deleted; else it was updated.
    """

    position: Position
    event_no: int
    gtid: str | None
    is_delete: bool


def checked_events(block: Block, rows: Rows) -> tuple[Rows, Rows]:
    """The updates and the deletes among the row events *rows* to which foreign keys apply below the log."""
    kinds = _KINDS[block.events["type"][rows]]
    kinds[~are_checked(block.data, block.events, rows, block.vendor)] = 0
    return rows[kinds == _UPDATE], rows[kinds == _DELETE]


def are_checked(data: Bytes, events: Table, rows: Rows, vendor: Vendor) -> NDArray[np.bool_]:
    """Mask of the row events *rows* to which foreign keys apply in the engine: the log lacks their cascades.

    Args:
        data: What the events point into.
        events: `EVENT_DTYPE`.
        rows: Numbers of row events.
        vendor: Whose server wrote them.
    """
    done_elsewhere = ROWS_FLAG_NO_FOREIGN_KEY_CHECKS | _logged_flag(vendor)
    mask: NDArray[np.bool_] = _flags(data, events, rows) & done_elsewhere == 0
    return mask


def have_logged_cascades(block: Block, rows: Rows) -> bool:
    """True if the log contains the cascades of each of the row events *rows*."""
    return bool((_flags(block.data, block.events, rows) & _logged_flag(block.vendor) != 0).all())


def _flags(data: Bytes, events: Table, rows: Rows) -> NDArray[np.uint8]:
    # The low one of their two bytes.
    flags: NDArray[np.uint8] = data[events["start"][rows] + TABLE_FLAGS_OFFSET]
    return flags


def _logged_flag(vendor: Vendor) -> int:
    # MariaDB gives that bit no meaning.
    return ROWS_FLAG_SQL_FOREIGN_KEYS if vendor is Vendor.MYSQL else 0


def checked_counts(block: Block, rows: Rows) -> NDArray[np.int64]:
    """Number of updates and of deletes in the row events *rows* to which foreign keys apply in the engine."""
    return np.array([len(some) for some in checked_events(block, rows)], dtype=np.int64)


def first_cascading(
    blocks: Iterable[Block],
    table: str,
    *,
    deletes: bool = False,
    columns: Set[str] = frozenset(),
    decoding: Decoding = DEFAULT_DECODING,
    groups: GroupFilter = ALL_GROUPS,
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

    Raises:
        BinlogError: As `read_images`, of the table's updates.
    """
    kinds = (DELETES if deletes else frozenset()) | (UPDATES if columns else frozenset())
    wanted = frozenset(column.casefold() for column in columns)
    selection = Selection(TableFilter(), groups, table=table, event_types=kinds, decoding=decoding)
    for block in blocks:
        found = []
        for touched in selection.of(block):
            updates, removals = checked_events(block, touched.events)  # of the kinds that are selected
            found += removals[:1].tolist()
            if len(updates):
                images = read_images(
                    block.data, block.events, updates, touched.layout, place=block.place, decoding=decoding
                )
                found += images.table["event"][_first_change(images, wanted)].tolist()
        if found:
            return _change(block, min(found))
    return None


def _first_change(images: Images, columns: Set[str]) -> NDArray[np.int64]:
    """The number of the first image of an update that changes one of *columns*; empty: none does."""
    before = np.flatnonzero(images.table["kind"] == ImageKind.UPDATE_BEFORE)
    changed = np.zeros(len(before), dtype=np.bool_)
    one, other = images.select(before), images.select(before + 1)
    for index, column in enumerate(images.layout.columns):
        if column.name is not None and column.name.casefold() not in columns:
            continue
        # A column that the image after has, and the one before has not, was set to something.
        set_to = ~other.absent_mask(index)
        if column.name is None:
            changed |= set_to
        elif set_to.any():
            old, new = one.column(index), other.column(index)
            same = pc.or_(pc.fill_null(pc.equal(old, new), False), pc.and_(pc.is_null(old), pc.is_null(new)))
            unknown = one.absent_mask(index)
            changed |= set_to & (unknown | ~same.to_numpy(zero_copy_only=False))
    return before[np.flatnonzero(changed)[:1]]


def _change(block: Block, row: int) -> CascadingChange:
    event = block.events[row]
    group = block.groups[int(event["group"])]
    gtid = gtid_of(group, block.gtid_sources)
    return CascadingChange(
        Position(int(group["file_no"]), int(group["page"]), int(group["chunk"])),
        int(event["event_no"]),
        None if gtid is None else str(gtid),
        int(event["type"]) in DELETES,
    )
