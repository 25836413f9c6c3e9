"""One pass over the event groups of a file, in pieces of bounded size: `FileScan`."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

import numpy as np

from binlog_format.block import EVENT_DTYPE, GROUP_DTYPE
from binlog_format.classic.file import check_incomplete_event, checksum_error, encrypted
from binlog_format.classic.layout import MARIADB_CLASSES, EventClass
from binlog_format.classic.scan_kernels import Scan, ScanError, scan_groups
from binlog_format.errors import CorruptError, DataLossError, UnsupportedError
from binlog_format.events.layout import EVENT_HEADER_SIZE, EventType
from binlog_format.log import BLOCK_SIZE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from binlog_format.block import Table
    from binlog_format.classic.file import ClassicFile
    from binlog_format.errors import BinlogError
    from binlog_format.kernels import Bytes

NO_LIMIT = 1 << 62
"""A limit behind every byte of a file."""

_EVENT_ROWS = 1 << 17
_GROUP_ROWS = 1 << 16
"""Rows of the scratch tables: more than 2 MiB of the smallest events can fill."""


@dataclass
class GroupWalk:
    """How far a group that is not complete has been followed, so that the next look goes on there.

    Attributes:
        key: The file, its time, and the byte where the group starts.
        next_offset: Byte in the file of the first event not seen.
        open_group: Row of the group; None before its first event.
        standalone: The group is one statement.
    """

    key: tuple[int, int, int] | None = None
    next_offset: int = 0
    open_group: Table | None = None
    standalone: bool = False


class Scratch:
    """What scans of a log share: tables for the kernel to fill, used again and again by one scan at a time.

    Args:
        read_size: Bytes to read at a time.
    """

    def __init__(self, read_size: int = BLOCK_SIZE) -> None:
        self.read_size = read_size
        self.groups: Table = np.zeros(_GROUP_ROWS, dtype=GROUP_DTYPE)
        self.events: Table = np.zeros(_EVENT_ROWS, dtype=EVENT_DTYPE)
        self.walk = GroupWalk()


class Stop(Enum):
    """Why a scan ended."""

    END = "end of the file, and nothing is open"
    LIMIT = "the limit"
    INCOMPLETE = "an event or a group whose end is not in the file"


@dataclass(slots=True)
class Piece:
    """Whole groups, or a part of a large one; the tables are copies.

    Attributes:
        data: Bytes of the file from `file_offset` on, to the end of the last event in the tables.
        file_offset: Where that is.
        next_offset: Where the scan goes on.
        groups: `GROUP_DTYPE`.
        events: `EVENT_DTYPE`.
        checksum_size: Bytes behind each event, which its size does not count.
    """

    data: Bytes
    file_offset: int
    next_offset: int
    groups: Table
    events: Table
    checksum_size: int


@dataclass
class FileScan:
    """Reads groups that start in `[start, limit)` of a file.

    Attributes:
        file: Its Format_description event is there.
        start: An event starts there.
        limit: No group is begun there or behind it.
        scratch: Used by no other scan at the same time.
        verify: Compute checksums.
        stop: Why it ended, once `pieces` has ended.
        stopped_at: The next byte to read; a group that is not complete starts there.
        has_incomplete_event: With `INCOMPLETE`: an event, not just a group, is cut off by the end of the file.
    """

    file: ClassicFile
    start: int
    limit: int
    scratch: Scratch
    verify: bool
    stop: Stop = Stop.END
    stopped_at: int = field(init=False)
    has_incomplete_event: bool = False

    def __post_init__(self) -> None:
        assert self.file.description is not None, "a file without Format_description event has no groups"
        self._checksum_size = self.file.description.checksum_size
        self.stopped_at = self.start

    def pieces(self) -> Iterator[Piece]:
        """Read; ends with `stop` and `stopped_at` set.

        Raises:
            CorruptError: An event cannot be right.
            UnsupportedError: An event is of a kind that is not read.
        """
        offset = self.start
        size = self.scratch.read_size
        open_group: Table | None = None
        standalone = False
        while True:
            available = self.file.size() - offset
            data = self.file.read(offset, max(0, min(size, available)))
            scan = self._scan(data, offset, open_group, standalone, verify=self.verify)
            if scan.groups_done:
                yield self._piece(data[: scan.data_done], offset, scan.done, scan.groups_done, scan.events_done)
            if scan.error:
                raise self._error(scan, offset + scan.place_next)
            if scan.done:
                offset += scan.done
                self.stopped_at = offset
                open_group, size = None, self.scratch.read_size
                continue
            # Nothing has ended in the data: it is empty, or is the start or the middle of a group.
            stop = self._stop_reason(data, scan, offset, is_inside=open_group is not None)
            if stop is not None:
                self.stop = stop
                return
            if scan.place_next == 0:
                size = max(scan.size_next, EVENT_HEADER_SIZE)  # one event is larger than what was read
                continue
            piece = self._piece(data[: scan.place_next], offset, scan.place_next, 1, scan.events)
            # Looking for the end fills the scratch tables anew.
            if open_group is None and not self._ends_on_disk(offset):
                self.stop = Stop.INCOMPLETE
                return
            yield piece
            open_group = self._go_on(piece.groups, scan.events)
            standalone = scan.standalone
            offset += scan.place_next
            size = self.scratch.read_size

    def _scan(
        self, data: Bytes, offset: int, open_group: Table | None, standalone: bool, *, verify: bool, limit: int = -1
    ) -> Scan:
        if open_group is not None:
            self.scratch.groups[:1] = open_group
        return scan_groups(
            data,
            len(data),
            self.file.file_no,
            offset,
            self.limit if limit < 0 else limit,
            self._checksum_size,
            verify,
            MARIADB_CLASSES,
            open_group is not None,
            standalone,
            self.scratch.groups,
            self.scratch.events,
        )

    def _stop_reason(self, data: Bytes, scan: Scan, offset: int, *, is_inside: bool) -> Stop | None:
        if not is_inside and offset >= self.limit:
            return Stop.LIMIT
        if offset + len(data) < self.file.size():
            return None
        if len(data) == 0 and not is_inside:
            return Stop.END
        if is_inside:
            # The end of this group was seen before its first piece was given away.
            raise DataLossError(
                "TRUNCATED_TRANSACTION",
                "the file was cut while a large event group in it was being read",
                at=self.file.place(offset),
            )
        if scan.place_next < len(data):
            check_incomplete_event(data[scan.place_next :].tobytes(), self.file.place(offset + scan.place_next))
            self.has_incomplete_event = True
        return Stop.INCOMPLETE

    def _ends_on_disk(self, group_offset: int) -> bool:
        """Whether the end of the group that starts at *group_offset* is in the file; reads headers alone."""
        assert self.file.description is not None
        key = (self.file.file_no, self.file.description.timestamp, group_offset)
        walk = self.scratch.walk
        if walk.key != key:
            walk.key, walk.next_offset, walk.open_group, walk.standalone = key, group_offset, None, False
        size = self.scratch.read_size
        while True:
            data = self.file.read(walk.next_offset, size)
            # No second group is begun: the limit is behind the first event of this one.
            scan = self._scan(
                data, walk.next_offset, walk.open_group, walk.standalone, verify=False, limit=group_offset + 1
            )
            if scan.error:
                raise self._error(scan, walk.next_offset + scan.place_next)
            if scan.groups_done:
                walk.key = None
                return True
            if scan.place_next:
                walk.open_group = self._go_on(self.scratch.groups[:1], scan.events)
                walk.standalone = scan.standalone
                walk.next_offset += scan.place_next
                size = self.scratch.read_size
            elif walk.next_offset + len(data) >= self.file.size():
                return False
            else:
                size = max(scan.size_next, EVENT_HEADER_SIZE)

    @staticmethod
    def _go_on(open_group: Table, events: int) -> Table:
        """The row of a group whose first *events* events have been dealt with."""
        row = open_group.copy()
        row["event_no"] += events
        row["begins"] = False
        return row

    def _piece(self, data: Bytes, offset: int, size: int, groups: int, events: int) -> Piece:
        return Piece(
            data=data,
            file_offset=offset,
            next_offset=offset + size,
            groups=self.scratch.groups[:groups].copy(),
            events=self.scratch.events[:events].copy(),
            checksum_size=self._checksum_size,
        )

    def _error(self, scan: Scan, offset: int) -> BinlogError:
        at = self.file.place(offset)
        error = ScanError(scan.error)
        if error is ScanError.CHECKSUM:
            return checksum_error(scan.stored, scan.computed, at)
        if error is ScanError.EVENT_SIZE:
            return CorruptError("BAD_EVENT", f"an event claims a size of {scan.stored} bytes", at=at)
        name = _type_name(scan.stored)
        if error is ScanError.TOO_SHORT:
            return CorruptError("BAD_EVENT", f"an event of type {name} is too short for its fixed part", at=at)
        if error is ScanError.NESTED:
            return CorruptError("BAD_EVENT", f"an event of type {name} inside an event group that has not ended", at=at)
        if error is ScanError.OUTSIDE:
            return CorruptError("BAD_EVENT", f"an event of type {name} outside of an event group", at=at)
        return _unreadable(EventClass(MARIADB_CLASSES[scan.stored]), name, self.file, offset)


def _unreadable(event_class: EventClass, name: str, file: ClassicFile, offset: int) -> BinlogError:
    at = file.place(offset)
    if event_class is EventClass.ENCRYPTION:
        return encrypted(at)
    if event_class is EventClass.INCIDENT:
        return DataLossError(
            "TRUNCATED_TRANSACTION",
            "the server recorded an incident: changes were made that are not in the log",
            at=at,
            hint="Take the tables anew from the server and begin behind this event",
        )
    version = file.description.server_version if file.description is not None else "?"
    if event_class is EventClass.FORMAT:
        return UnsupportedError(
            "FORMAT",
            "a second Format_description event: this is a relay log, not a binlog",
            at=at,
            hint="Read the binlog of the primary, or of the replica with log_slave_updates=ON",
        )
    return UnsupportedError(
        "VERSION", f"an event of type {name}: files of MySQL are not read (server {version})", at=at
    )


def _type_name(event_type: int) -> str:
    try:
        return f"{event_type} ({EventType(event_type).name})"
    except ValueError:
        return str(event_type)
