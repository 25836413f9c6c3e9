"""One pass over the event groups of a file, in pieces of bounded size: `ClassicFileScan`."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from binlog_format.block import copied
from binlog_format.classic.file import check_incomplete_event, checksum_error, encrypted_by_mariadb
from binlog_format.classic.layout import EVENT_CLASSES, START_ENCRYPTION_SIZE, EventClass, GroupKind
from binlog_format.classic.scan_kernels import ClassicScan, ScanError, scan_groups
from binlog_format.errors import CorruptError, DataLossError, UnsupportedError
from binlog_format.events.layout import EVENT_HEADER_SIZE, EventType
from binlog_format.vendor import MYSQL_GTID_EVENTS_SINCE, Vendor, comment_version_of, server_version_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from binlog_format.block import Table
    from binlog_format.classic.file import ClassicFile
    from binlog_format.classic.format_description import FormatDescription
    from binlog_format.classic.scratch import Scratch
    from binlog_format.errors import BinlogError
    from binlog_format.gtids.gtid import GtidSource
    from binlog_format.kernels import Bytes
    from binlog_format.position import Place

NO_LIMIT = 1 << 62
"""A limit after every byte of a file."""


class ScanStop(Enum):
    """Reason why a scan ended."""

    END = "end of the file, and nothing is open"
    LIMIT = "the limit"
    INCOMPLETE = "an event or a group whose end is not in the file"


@dataclass(slots=True)
class Piece:
    """Whole groups, or a part of a large one; the tables are copies.

    Attributes:
        data: Bytes of the file from `file_offset` on, to the end of the last event in the tables.
        skipped: Bytes before `data` that belong to its first group, and are in no piece.
        next_offset: Where the scan goes on.
        checksum_size: Bytes after each event, which its size does not count.
        server_version, writer_id: See `Block`.
        gtid_sources: What `gtid_source` counts.
    """

    data: Bytes
    file_offset: int
    next_offset: int
    groups: Table
    events: Table
    checksum_size: int
    vendor: Vendor
    server_version: int | None
    writer_id: int
    gtid_sources: tuple[GtidSource, ...]
    path: str
    skipped: int = 0


@dataclass
class ClassicFileScan:
    """Reads groups that start in `[start, limit)` of a file.

    Attributes:
        file: Its Format_description event is there.
        start: An event starts there.
        limit: No group is begun there or after it.
        scratch: Used by no other scan at the same time.
        ends_only: Of a group that is larger than one read, only the part with its end is given.
        stop: Why it ended, once `pieces` has ended.
        stopped_at: The next byte to read; a group that is not complete starts there.
        has_incomplete_event: With `INCOMPLETE`: an event, not just a group, is cut off by the end of the file.
    """

    file: ClassicFile
    start: int
    limit: int
    scratch: Scratch
    verify: bool
    ends_only: bool = False
    stop: ScanStop = ScanStop.END
    stopped_at: int = field(init=False)
    has_incomplete_event: bool = False
    _before: tuple[Bytes, int] | None = None  # what was read last, and its place, if a group starts there

    def __post_init__(self) -> None:
        assert self.file.description is not None, "a file without Format_description event has no groups"
        self._checksum_size = self.file.description.checksum_size
        self._vendor = self.file.description.vendor
        self._classes = EVENT_CLASSES[self._vendor]
        self.stopped_at = self.start

    def pieces(self) -> Iterator[Piece]:
        """Read; ends with `stop` and `stopped_at` set."""
        offset = self.start
        size = self.scratch.read_size
        open_group: Table | None = None
        kind: int = GroupKind.TRANSACTION
        skipped = 0
        while True:
            available = self.file.size() - offset
            data = self.file.read(offset, max(0, min(size, available)))
            scan = self._scan(data, offset, open_group, kind, verify=self.verify)
            if scan.groups_done:
                piece = self._piece(data[: scan.data_done], offset, scan.done, scan.groups_done, scan.events_done)
                piece.skipped, skipped = skipped, 0
                yield piece
            if scan.error:
                # By headers alone a damaged size shows at what is taken for the next event.
                scan = self._scan(data, offset, open_group, kind, verify=True)
                raise self._error(scan, offset + scan.place_next)
            if scan.done:
                self._before = None if open_group is not None else (data, offset)
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
                self.stop = ScanStop.INCOMPLETE
                return
            if open_group is None and self.ends_only:
                walk = self.scratch.walk  # it has stopped before the read that has the end
                skipped, offset = walk.next_offset - offset, walk.next_offset
                open_group, kind, size = walk.open_group, walk.kind, self.scratch.read_size
                continue
            yield piece
            open_group = self._go_on(piece.groups, scan.events)
            kind = scan.kind
            offset += scan.place_next
            size = self.scratch.read_size

    def _scan(
        self, data: Bytes, offset: int, open_group: Table | None, kind: int, *, verify: bool, limit: int = -1
    ) -> ClassicScan:
        sources = self.scratch.sources
        while True:
            if open_group is not None:
                self.scratch.groups[:1] = open_group
            scan = scan_groups(
                data,
                len(data),
                self.file.file_no,
                offset,
                self.limit if limit < 0 else limit,
                self._checksum_size,
                verify,
                self._classes,
                open_group is not None,
                int(kind),
                self.scratch.groups,
                self.scratch.events,
                sources.keys,
                sources.slots,
                sources.counts,
            )
            if scan.error != ScanError.SOURCES_FULL:
                return scan
            sources.grow()

    def _stop_reason(self, data: Bytes, scan: ClassicScan, offset: int, *, is_inside: bool) -> ScanStop | None:
        if not is_inside and offset >= self.limit:
            return ScanStop.LIMIT
        if offset + len(data) < self.file.size():
            return None
        if len(data) == 0 and not is_inside:
            return ScanStop.END
        if is_inside:
            # The end of this group was seen before its first piece was given away.
            raise DataLossError(
                "TRUNCATED_TRANSACTION",
                "the file was cut while a large event group in it was being read",
                at=self.file.place(offset),
            )
        if not self.verify:  # what follows an event with a damaged size may look like the start of one
            parts = [(data, offset)] if self._before is None else [self._before, (data, offset)]
            for part, start in parts:
                verified = self._scan(part, start, None, GroupKind.TRANSACTION, verify=True)
                if verified.error:
                    raise self._error(verified, start + verified.place_next)
        if scan.place_next < len(data):
            check_incomplete_event(data[scan.place_next :].tobytes(), self.file.place(offset + scan.place_next))
            self.has_incomplete_event = True
        return ScanStop.INCOMPLETE

    def _ends_on_disk(self, group_offset: int) -> bool:
        """True if the group that starts at *group_offset* ends in the file; reads headers only."""
        assert self.file.description is not None
        key = (self.file.file_no, self.file.description.timestamp, group_offset)
        walk = self.scratch.walk
        if walk.key != key:
            walk.key, walk.next_offset, walk.open_group, walk.kind = key, group_offset, None, GroupKind.TRANSACTION
        size = self.scratch.read_size
        while True:
            data = self.file.read(walk.next_offset, size)
            # No second group is begun: the limit is after the first event of this one.
            scan = self._scan(data, walk.next_offset, walk.open_group, walk.kind, verify=False, limit=group_offset + 1)
            if scan.error:
                raise self._error(scan, walk.next_offset + scan.place_next)
            if scan.groups_done:
                walk.key = None
                return True
            if scan.place_next:
                walk.open_group = self._go_on(self.scratch.groups[:1], scan.events)
                walk.kind = scan.kind
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
            groups=copied(self.scratch.groups[:groups]),
            events=copied(self.scratch.events[:events]),
            checksum_size=self._checksum_size,
            vendor=self._vendor,
            server_version=comment_version_of(self._server_version),
            writer_id=self._description.server_id,
            gtid_sources=self.scratch.sources.known(),
            path=self.file.source.path,
        )

    def _error(self, scan: ClassicScan, offset: int) -> BinlogError:
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
        if error is ScanError.GTID:
            return CorruptError("BAD_EVENT", f"an event of type {name} without a GTID that can be read", at=at)
        if error is ScanError.UNKNOWN:
            return UnsupportedError(
                "EVENT_TYPE",
                f"an event of type {name}: it is not known in files of {self._vendor.label} (server "
                f"{self._server_version}), and is marked as one that may not be passed over",
                at=at,
                hint="A later version of this program may know it",
            )
        if error is ScanError.OUTSIDE:
            return self._outside(name, at)
        return self._unreadable(EventClass(self._classes[scan.stored]), offset)

    @property
    def _server_version(self) -> str:
        return self._description.server_version

    @property
    def _description(self) -> FormatDescription:
        assert self.file.description is not None
        return self.file.description

    def _outside(self, name: str, at: Place) -> BinlogError:
        if self._vendor is Vendor.MYSQL and server_version_of(self._server_version) < MYSQL_GTID_EVENTS_SINCE:
            return UnsupportedError(
                "VERSION",
                f"an event of type {name} without a GTID event before it, as MySQL {self._server_version} writes them "
                "while gtid_mode is OFF",
                at=at,
                hint="Files of MySQL 5.7 and later can be read, and of MySQL 5.6 with gtid_mode=ON",
            )
        return CorruptError("BAD_EVENT", f"an event of type {name} outside of an event group", at=at)

    def _unreadable(self, event_class: EventClass, offset: int) -> BinlogError:
        at = self.file.place(offset)
        if event_class is EventClass.ENCRYPTION:
            return encrypted_by_mariadb(self.file.read(offset, START_ENCRYPTION_SIZE).tobytes(), at)
        return UnsupportedError(
            "FORMAT",
            "a second Format_description event: this is a relay log, not a binlog",
            at=at,
            hint="Read the binlog of the primary, or of the replica with log_slave_updates=ON",
        )


def _type_name(event_type: int) -> str:
    try:
        return f"{event_type} ({EventType(event_type).name})"
    except ValueError:
        return str(event_type)
