"""The classic binlog files of a server as one log: `ClassicLog`."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from binlog_format.block import BLOCK_SIZE, EXTENT_DTYPE, Block
from binlog_format.classic.file import find_files
from binlog_format.classic.file_scan import NO_LIMIT, ClassicFileScan, ScanStop
from binlog_format.classic.layout import FILE_NAME, MAGIC_SIZE
from binlog_format.classic.log_scan import LogScan, open_file
from binlog_format.classic.scratch import Scratch
from binlog_format.errors import DataLossError, UnsupportedError
from binlog_format.events.layout import EVENT_CHECKSUM_SIZE
from binlog_format.events.query import XID_SIZE, ends_in_xid
from binlog_format.extents import read_extents
from binlog_format.format_traits import CLASSIC, FORMAT_TRAITS
from binlog_format.gtids.gtid_history import gtid_of, gtids_of
from binlog_format.gtids.gtid_set import NO_GTIDS, GtidSet
from binlog_format.log.log import Log
from binlog_format.log_format import FileGtids, Heads, LogFile, Span
from binlog_format.position import Place, byte_of, position_of
from binlog_format.transactions.prepared import xa_steps
from binlog_format.vendor import Vendor

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from binlog_format.block import Table
    from binlog_format.classic.file import ClassicFile
    from binlog_format.classic.file_scan import Piece
    from binlog_format.gtids.gtid import Gtid
    from binlog_format.gtids.gtid_set import GtidPoint
    from binlog_format.kernels import Bytes, Int64s
    from binlog_format.position import Position
    from binlog_format.source_file import Directory, FileEntry, SourceFile


class ClassicLog(Log):
    """Version 4 binlog files of a MariaDB server (10.0 and later) or a MySQL server (5.7 and later).

    The state of the log is what its directory lists. In the newest file an event or a group whose end is not there is
    *not there yet*; in an older file it is what a killed server left, and never was a group.

    Args:
        only: Name of the one file to read; None: all files of the server.
        block_size: Bytes to read at a time; blocks are about so large.

    Attributes:
        directory_path: The directory, also when *only* one file of it is read.
    """

    format_name = CLASSIC
    traits = FORMAT_TRAITS[CLASSIC]

    def __init__(self, directory: Directory, only: str | None = None, *, block_size: int = BLOCK_SIZE) -> None:
        self.path = directory.path if only is None else f"{directory.path.rstrip('/')}/{only}"
        self.directory_path = directory.path
        self._directory = directory
        self._only = only
        self._scratch = Scratch(block_size)
        self._base_name: str | None = None
        find_files(directory, only)

    def files(self) -> list[LogFile]:
        """The files that are there now, by number; the newest one is followed to its end, headers alone."""
        listing = self._list()
        newest = max(listing)
        return [self._describe(file_no, entry, is_newest=file_no == newest) for file_no, entry in listing.items()]

    def file_gtids(self, files: Sequence[LogFile]) -> list[FileGtids]:
        """See `Log`: a file lists at its start what the files before it held."""
        lists = [_gtids(file) for file in files]
        after = [*lists[1:], None][: len(lists)]  # files may be gone by now, all of them
        return [FileGtids(before, last) for before, last in zip(lists, after, strict=True)]

    def file_sizes(self, first: int, stop: int) -> dict[int, int]:
        """See `Log`."""
        return {file_no: entry.size for file_no, entry in self._list().items() if first <= file_no < stop}

    def start_position(self) -> Position:
        """The first byte after the magic number of the oldest file."""
        return position_of(min(self._list()), MAGIC_SIZE)

    def file_starts(self) -> list[Position]:
        """See `Log`."""
        # Only the newest files can be empty, or without their GTIDs: a server makes one, or was killed when it did.
        listing = self._list()
        numbers = list(listing)
        while numbers:
            with closing(open_file(self._directory, numbers[-1], listing[numbers[-1]])) as file:
                if file.is_begun:
                    break
            numbers.pop()
        return [position_of(number, MAGIC_SIZE) for number in numbers]

    def end_position(self) -> Position:
        """See `Log`: walks the headers of the newest file."""
        starts = self.file_starts()
        return self.span(starts[-1]).end if starts else self.start_position()

    def can_start_at(self, position: Position) -> bool:
        """See `Log`: walks the headers of the file up to *position*."""
        place = byte_of(position)
        with closing(open_file(self._directory, position.file_no, self._list()[position.file_no])) as file:
            if place <= file.events_start:
                return True
            scan = ClassicFileScan(file, file.events_start, place + 1, self._scratch, verify=False)
            groups_end = file.events_start
            for piece in scan.pieces():
                if int(piece.groups["file_offset"][-1]) == place:
                    return True
                groups_end = piece.file_offset + len(piece.data)
            if place in (groups_end, scan.stopped_at):
                return True
            # After groups are events about the file; a group without an end may hold anything.
            is_in_group = place < groups_end or (scan.stop is ScanStop.INCOMPLETE and place > scan.stopped_at)
            return not is_in_group and (place == file.size() or file.is_about_itself(place))

    def position_at_byte(self, name: str, byte: int) -> Position | None:
        """See `Log`."""
        match = FILE_NAME.fullmatch(name)
        if match is None or match["base"] != self._base():
            return None
        return position_of(int(match["number"]), byte)

    def server_position(self, position: Position) -> str | None:
        """See `Log`; also of files that are not there."""
        return f"{self._base()}.{position.file_no:06}:{byte_of(position)}"

    def gtid_position_at(self, position: Position) -> GtidPoint:
        """GTIDs before *position*, from the list at the file's start and a scan from there.

        Of a MySQL log a `GtidSet`, of a MariaDB log a `GtidPosition`.
        """
        entry = self._list().get(position.file_no)
        if entry is None:
            return NO_GTIDS
        with closing(open_file(self._directory, position.file_no, entry)) as file:
            result = file.gtids_before()
            if file.description is None:
                return result
            if file.vendor is Vendor.MYSQL and not result:
                result = GtidSet({})
            start, end = file.events_start, byte_of(position)
            scan = ClassicFileScan(file, start, end, self._scratch, verify=False, ends_only=True)
            for piece in scan.pieces():
                result = result.advanced_by(gtids_of(piece.groups, piece.gtid_sources))
            return result

    def span(self, start: Position, *, end: Position | None = None, size_max: int | None = None) -> Span:
        """Measure from *start* on by headers alone; checksums are left to `blocks`."""
        scan = LogScan(self._directory, self._list(), start, end, self._scratch, verify=False, ends_only=True)
        span = Span(start, 0, 0, NO_GTIDS, None)
        passed = 0
        with closing(scan.pieces()) as pieces:
            for piece in pieces:
                passed += piece.skipped
                ended = piece.groups[piece.groups["ends"]]
                ends = _group_ends(piece, ended)
                sizes = passed + ends - piece.file_offset
                passed += len(piece.data)
                count = len(ended)
                if size_max is not None and passed > size_max:
                    fitting = int(np.searchsorted(sizes, size_max, side="right"))
                    count = min(count, max(fitting, 0 if span.groups else 1))
                if count > 0:
                    span = Span(
                        end=position_of(int(ended["file_no"][0]), int(ends[count - 1])),
                        groups=span.groups + count,
                        size=int(sizes[count - 1]),
                        gtids=span.gtids.advanced_by(gtids_of(ended[:count], piece.gtid_sources)),
                        last_timestamp=int(ended["timestamp"][count - 1]),
                        last_gtid=gtid_of(ended[count - 1], piece.gtid_sources),
                        xa=span.xa + xa_steps(_block(piece), count),
                    )
                if size_max is not None and passed > size_max and span.groups:
                    return span
        # What lies between groups, and files that hold none, are passed too.
        return replace(span, end=max(scan.end, span.end))

    def split(self, start: Position, end: Position, count: int) -> list[Position]:
        """Cut at the first group start after each equal share of the bytes; walks the headers once."""
        files: list[Int64s] = []
        offsets: list[Int64s] = []
        sizes: list[Int64s] = []
        passed = 0
        for piece in self._scan(start, end, verify=False).pieces():
            begun = piece.groups[piece.groups["begins"]]
            files.append(begun["file_no"])
            offsets.append(begun["file_offset"])
            sizes.append(begun["file_offset"] - piece.file_offset + passed)
            passed += len(piece.data)
        if passed == 0:
            return []
        shares = np.arange(1, count) * passed / count
        cuts = np.unique(np.searchsorted(np.concatenate(sizes), shares))
        file_nos, file_offsets = np.concatenate(files), np.concatenate(offsets)
        return [position_of(int(file_nos[i]), int(file_offsets[i])) for i in cuts if 0 < i < len(file_nos)]

    def blocks(
        self, start: Position | None = None, end: Position | None = None, *, skips_purged: bool = False
    ) -> Iterator[Block]:
        """Read the groups whose position is in [*start*, *end*); data is the bytes of the file, not copied."""
        del skips_purged  # a group is in one file
        for piece in self._scan(start or self.start_position(), end, verify=True).pieces():
            yield _block(piece)

    def begins_server_run(self, file_no: int) -> bool:
        """See `Log`."""
        return self.start_event(file_no) is not None

    def start_event(self, file_no: int) -> bytes | None:
        """The Format_description event of a file, checksum included, if a server start began the file; else None."""
        entry = self._list().get(file_no)
        if entry is None:
            return None
        with closing(open_file(self._directory, file_no, entry)) as file:
            return file.description_event if file.description is not None and file.description.created else None

    def listed_gtids(self, place: Position) -> tuple[Gtid, ...] | None:
        """See `Log`."""
        entry = self._list().get(place.file_no)
        if entry is None:
            return None
        with closing(open_file(self._directory, place.file_no, entry)) as file:
            if file.vendor is Vendor.MYSQL:
                raise UnsupportedError("FORMAT", "a log of a MySQL server has no list of GTIDs", at=file.place(0))
            return file.gtid_list

    def heads(self, start: Position, end: Position | None) -> Iterator[Heads]:
        """See `Log`; headers alone."""
        for piece in self._scan(start, end, verify=False).pieces():
            after = position_of(int(piece.groups["file_no"][-1]), piece.next_offset)
            yield Heads(piece.groups, after, piece.gtid_sources)

    def read_extents(self, extents: Table) -> Bytes:
        """Join the bytes of *extents*; checksums are not verified."""
        listing = self._list()

        def open_by_number(file_no: int) -> closing[SourceFile]:
            entry = listing.get(file_no)
            if entry is None:
                raise DataLossError("FILE_PURGED", f"file number {file_no} is not there any more", at=Place(self.path))
            return closing(self._directory.open(entry.name))

        return read_extents(extents, open_by_number)

    def ends_committed(self, group: np.void) -> bool:
        """See `Log`; walks the headers of the group, and looks at the bytes before its end."""
        start = position_of(int(group["file_no"]), int(group["file_offset"]))
        end = self.span(start, size_max=1).end
        size = min(byte_of(end), XID_SIZE + EVENT_CHECKSUM_SIZE)
        extents = np.zeros(1, dtype=EXTENT_DTYPE)
        extents["file_no"], extents["file_offset"], extents["size"] = end.file_no, byte_of(end) - size, size
        tail = self.read_extents(extents).tobytes()
        return ends_in_xid(tail) or ends_in_xid(tail, checksum_size=EVENT_CHECKSUM_SIZE)

    def close(self) -> None:
        """Free the scratch space; no file is kept open."""
        self._scratch = Scratch(self._scratch.read_size, self._scratch.sources)

    def _base(self) -> str:
        if self._base_name is None:
            match = FILE_NAME.fullmatch(next(iter(self._list().values())).name)
            assert match is not None
            self._base_name = match["base"]
        return self._base_name

    def _list(self) -> dict[int, FileEntry]:
        return find_files(self._directory, self._only)

    def _scan(self, start: Position, end: Position | None, *, verify: bool) -> LogScan:
        return LogScan(self._directory, self._list(), start, end, self._scratch, verify=verify)

    def _describe(self, file_no: int, entry: FileEntry, *, is_newest: bool) -> LogFile:
        with closing(open_file(self._directory, file_no, entry)) as file:
            size = file.size()
            description = file.description
            if description is None:
                return LogFile(file_no, entry.name, size, "empty", 0, {})
            used = size
            if is_newest:
                scan = ClassicFileScan(file, file.events_start, NO_LIMIT, self._scratch, verify=False, ends_only=True)
                for _ in scan.pieces():
                    continue
                used = size if scan.stop is ScanStop.END else scan.stopped_at
            header: dict[str, object] = {
                "vendor": str(description.vendor),
                "server_version": description.server_version,
                "server_id": description.server_id,
                "timestamp": description.timestamp,
                "created": description.created,
                "in_use": description.in_use,
                "checksum": description.algorithm.name,
                "gtid_list": _listed(file),
            }
            return LogFile(file_no, entry.name, size, "active" if is_newest else "full", used, header)


def _listed(file: ClassicFile) -> list[str] | None:
    """GTIDs before the file, as its start records them: a text for each source, or for each server's UUID."""
    if file.previous_gtids is not None:
        return str(file.previous_gtids).split(",") if file.previous_gtids else []
    return None if file.gtid_list is None else [str(gtid) for gtid in file.gtid_list]


def _group_ends(piece: Piece, ended: Table) -> Int64s:
    """Byte in the file after each group of *ended*, which are in *piece*."""
    last_events: Table = piece.events[ended["first_event"] + ended["event_count"] - 1]
    ends: Int64s = last_events["start"] + last_events["size"]
    return ends + (piece.checksum_size + piece.file_offset)


def _block(piece: Piece) -> Block:
    last, path = piece.groups[-1], piece.path
    extents = np.zeros(1, dtype=EXTENT_DTYPE)
    extents["file_no"] = last["file_no"]
    extents["file_offset"] = piece.file_offset
    extents["size"] = len(piece.data)
    next_offset = piece.next_offset if last["ends"] else int(last["file_offset"])
    return Block(
        data=piece.data,
        groups=piece.groups,
        events=piece.events,
        extents=extents,
        next_position=position_of(int(last["file_no"]), next_offset),
        vendor=piece.vendor,
        server_version=piece.server_version,
        writer_id=piece.writer_id,
        gtid_sources=piece.gtid_sources,
        path_of=lambda _: path,  # all of it is in one file
    )


def _gtids(file: LogFile) -> str | None:
    listed = file.header.get("gtid_list")
    return ",".join(map(str, listed)) if isinstance(listed, list) else None
