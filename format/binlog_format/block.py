"""`Block`: a run of event groups as one byte buffer and the tables that point into it.

Every container (`innodb`, `classic`) gives blocks of this shape; everything above works on blocks alone.

A table is named by its rows wherever it is an argument or a field: *groups* has rows of `GROUP_DTYPE`, *events* of
`EVENT_DTYPE`, *extents* of `EXTENT_DTYPE`, and likewise *chunks*, *records* and *pieces* in `innodb`. They point into
the *data* beside them.

Memory that is used again once nobody looks at it any more: `Recycler`.

A fresh buffer costs a page fault for every 4 KiB, more than what the kernels do with it.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, overload

import numpy as np

from binlog_format.position import Place, Position
from binlog_format.vendor import MARIADB_VIRTUAL_LEFT_OUT_SINCE, MARIADB_VIRTUAL_LOGGED_SINCE, Vendor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from binlog_format.gtids.gtid import GtidSource
    from binlog_format.kernels import Bytes, Int64s, Mask

    PlaceOf = Callable[[int], Place | None]


BLOCK_SIZE = 2 << 20
"""Bytes read for a block: blocks of 2 MiB and what is made of them stay in the processor's cache."""

# One row per event group (transaction or standalone statement), in commit order.
GROUP_DTYPE = np.dtype(
    [
        ("file_no", np.int64),  # position of the group: its commit record (innodb) or GTID event
        ("page", np.int64),
        ("chunk", np.int32),
        ("file_offset", np.int64),  # byte in the file where that starts
        ("first_event", np.int64),  # row in the event table
        ("event_count", np.int64),  # events of this group in this block
        ("event_no", np.int64),  # number, in the group, of the first of them; 0 when `begins`
        ("size", np.int64),  # bytes of those events, checksums not counted
        ("oob_records", np.int64),  # out-of-band records of the first set (innodb; else 0)
        ("oob_records_second_set", np.int64),
        ("timestamp", np.uint32),  # seconds since 1970 UTC, of the group's first event
        ("domain", np.uint32),  # GTID; meaningless unless `has_gtid`
        ("server_id", np.uint32),
        ("seqno", np.uint64),
        ("gtid_flags", np.uint8),  # flags2 of the GTID event; MySQL: always 0
        ("gtid_source", np.int32),  # MySQL: row in `Block.gtid_sources`, and `seqno` counts within it; MariaDB: -1
        ("has_gtid", np.bool_),
        ("begins", np.bool_),  # a large group comes in pieces: this is its first
        ("ends", np.bool_),  # and this its last one; most groups have both
    ]
)

# One row per replication event, in consumer order.
EVENT_DTYPE = np.dtype(
    [
        ("start", np.int64),  # byte of the event's 19-byte header in `Block.data`
        ("size", np.int64),  # header included, checksum not
        ("type", np.uint8),
        ("flags", np.uint16),
        ("timestamp", np.uint32),
        ("server_id", np.uint32),
        ("group", np.int64),  # row in the group table
        ("event_no", np.int64),  # number in its group, 0-based
    ]
)

# Where the bytes of `Block.data` lie in the files: ascending, gapless, covering all of it.
EXTENT_DTYPE = np.dtype(
    [
        ("data_start", np.int64),  # byte in `Block.data`
        ("file_no", np.int64),
        ("file_offset", np.int64),
        ("size", np.int64),
    ]
)

# Where an event comes from that is not in the files as it is here.
ORIGIN_DTYPE = np.dtype(
    [
        # Byte in `Block.data` of the event as it is stored: compressed, or the payload it is in. -1: that payload is
        # larger than a block; it lies in one piece in its file, from the place on that `extents` give for this event.
        ("start", np.int64),
        ("size", np.int64),  # of the stored event, checksum not counted
        ("inner_no", np.int64),  # number of the event in a TRANSACTION_PAYLOAD, 0-based; or `NOT_INNER`, ...
    ]
)
NOT_INNER = -1
"""The event is not inside a compressed transaction."""
FROM_FRAGMENTS = -2
"""Joined from fragments: its bytes are those stored, but for the type and the size in its header."""
PART_FROM_FRAGMENTS = -3
"""The same, and rows of the original event follow in another one: the end of a statement is not marked in it."""


class Table(Protocol):
    """A structured array, and what is done with one.

    Every structured array of NumPy is a `Table` to mypy. NumPy declares so many ways to index an array that
    `table["start"]` costs mypy a hundred times as much with its own type: all of them together, half of its time.
    """

    # In the order in which `np.ndarray` has them: in another one, mypy does not find that an array is a table.
    @overload
    def __getitem__(self, rows: Int64s | Mask, /) -> Table: ...
    @overload
    def __getitem__(self, row: int | np.integer, /) -> np.void: ...
    @overload
    def __getitem__(self, rows: slice, /) -> Table: ...
    @overload
    def __getitem__(self, column: str, /) -> NDArray[Any]: ...
    @overload
    def __getitem__(self, columns: list[str], /) -> Table: ...

    def __setitem__(self, key: str | list[str] | slice | int | np.integer, value: object, /) -> None: ...

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[np.void]: ...

    def __array__(self) -> NDArray[np.void]: ...

    @property
    def dtype(self) -> np.dtype[np.void]:
        """Names and types of the columns."""

    def take(self, rows: Int64s, /) -> Table:
        """The same as `table[rows]`, which takes longer."""

    def view(self, dtype: np.dtype[np.void], /) -> Table:
        """The same bytes, as rows of another type."""

    def copy(self) -> Table:
        """A copy."""

    def tolist(self) -> list[Any]:
        """A tuple for each row."""

    def tobytes(self) -> bytes:
        """The bytes of all rows."""


@dataclass(frozen=True, slots=True, repr=False)
class Block:
    """Whole event groups, or one piece of a group that is larger than a block.

    Attributes:
        data: Event bytes, all groups one after the other in commit order.
        events: `EVENT_DTYPE`; events are always whole.
        next_position: Where reading goes on when everything in this block has been used. When the last group does not
            end here, this is still that group's own position: a group is never taken in part.
        vendor: Whose server wrote it: some numbers in events mean different things.
        server_version: Of that server, as `comment_version_of` gives it; None: not known.
        writer_id: `server_id` of that server; events of others came to it by replication. None: not known.
        gtid_sources: What `gtid_source` in the group table counts.
        origins: `ORIGIN_DTYPE`, one row for each event, in blocks in which events have been expanded
            (`binlog_format.transactions.expansion`): the bytes of those stand in `data` after all that is in the
            files, and `extents` give them the place of the stored event. The bytes of events that have been joined from
            fragments have the extents of these. None: every event is as it is stored.
        path_of: Path of a file, by its number, for messages.
    """

    data: Bytes
    groups: Table
    events: Table
    extents: Table
    next_position: Position
    vendor: Vendor = Vendor.MARIADB
    server_version: int | None = None
    writer_id: int | None = None
    gtid_sources: tuple[GtidSource, ...] = ()
    origins: Table | None = None
    path_of: Callable[[int], str] = "binlog file {}".format

    @property
    def logs_virtual_values(self) -> bool:
        """False if the server logs NULL for each VIRTUAL column that is in no key."""
        # Not known is a log of pages, which later servers write.
        is_old = self.server_version is not None and self.server_version < MARIADB_VIRTUAL_LOGGED_SINCE
        return self.vendor is Vendor.MYSQL or not is_old

    def is_replicated(self, rows: Int64s) -> bool:
        """True if values of VIRTUAL columns may tell nothing: some of the row events *rows* came from a source.

        What the source has left out of its log (`binlog_row_image = MINIMAL`; MariaDB before 10.5), the replica logs as
        NULL, or as it was before the update.
        """
        if self.writer_id is None or (self.vendor is Vendor.MARIADB and self._leaves_virtual_values_out):
            return False
        return bool((self.events["server_id"][rows] != self.writer_id).any())

    @property
    def _leaves_virtual_values_out(self) -> bool:
        return self.server_version is None or self.server_version >= MARIADB_VIRTUAL_LEFT_OUT_SINCE

    def __repr__(self) -> str:
        first = ":".join(str(self.groups[0][name]) for name in ("file_no", "page", "chunk")) if len(self.groups) else ""
        return (
            f"<Block of a {self.vendor.name.lower()} log: {first or 'empty'} to {self.next_position}, "
            f"{len(self.groups):,} event groups, {len(self.events):,} events, {len(self.data):,} bytes>"
        )

    def position_at(self, event: int) -> Position:
        """Position of the group of an event, by its row in `events`."""
        return Position.of(self.groups[int(self.events["group"][event])])

    def place(self, byte: int) -> Place | None:
        """Place of *byte* of `data` in the files, for messages; None if `extents` do not cover it."""
        row = int(np.searchsorted(self.extents["data_start"], byte, side="right")) - 1
        if row < 0:
            return None
        extent = self.extents[row]
        # An empty extent comes before the bytes of an expanded event: they are nowhere in the files, but it is.
        within = byte - int(extent["data_start"]) if extent["size"] else 0
        return Place(self.path_of(int(extent["file_no"])), byte=int(extent["file_offset"]) + within)


def copied(table: Table) -> Table:
    """A copy of a table's rows, as bytes: NumPy's own copy goes field by field and takes fifty times as long."""
    rows = table.view(np.dtype((np.void, table.dtype.itemsize))).copy()
    made: Table = rows.view(table.dtype)
    return made


def plain_origins(events: Table) -> Table:
    """Origins of events that are as they are stored."""
    origins = np.zeros(len(events), dtype=ORIGIN_DTYPE)
    origins["start"], origins["size"], origins["inner_no"] = events["start"], events["size"], NOT_INNER
    return origins


KEPT_MAX = 4
"""Arrays remembered: the one being filled, and those that the consumer has not let go yet."""

# In `take`: the list's reference, the variable's, and the argument's of getrefcount().
_REFERENCES_OF_FREE_ARRAY = 3


class Recycler:
    """Gives arrays of one type; views of an array (slices, Arrow buffers) keep it from being given again."""

    def __init__(self, dtype: np.dtype[np.void] | np.dtype[np.uint8]) -> None:
        self._dtype = dtype
        self._kept: list[NDArray[np.void]] = []

    def take(self, size: int) -> NDArray[np.void]:
        """An array with at least *size* elements; their content is undefined."""
        for index in range(len(self._kept)):
            kept = self._kept[index]
            if len(kept) >= size and sys.getrefcount(kept) == _REFERENCES_OF_FREE_ARRAY:
                return kept
        fresh: NDArray[np.void] = np.empty(size, dtype=self._dtype)
        if len(self._kept) >= KEPT_MAX:
            self._kept.pop(0)
        self._kept.append(fresh)
        return fresh
