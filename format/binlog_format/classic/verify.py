"""Checks everything in a classic log that can be checked: `ClassicCheck`."""

from __future__ import annotations

import zlib
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING

from binlog_format.classic.file import checksum_error, find_files
from binlog_format.classic.file_scan import NO_LIMIT, ClassicFileScan, ScanStop
from binlog_format.classic.layout import CHECKSUM_STRUCT, EVENT_CLASSES, EventClass
from binlog_format.classic.log_scan import open_file
from binlog_format.classic.scratch import Scratch
from binlog_format.errors import BinlogError, CorruptError, DataLossError, StartError
from binlog_format.events.layout import EVENT_HEADER_SIZE, EVENT_HEADER_STRUCT, EVENT_SIZE_MAX
from binlog_format.fragments.walk import FragmentWalk
from binlog_format.gtids.gtid_history import GtidHistory, SetHistory
from binlog_format.log_format import NOT_YET, NOTE, Finding, LogCheck
from binlog_format.position import Place, byte_of
from binlog_format.vendor import Vendor

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from binlog_format.classic.file import ClassicFile
    from binlog_format.classic.file_scan import Piece
    from binlog_format.log_format import CheckScope

_BETWEEN_GROUPS = frozenset({EventClass.GTID, EventClass.CONTROL})
"""Events that are at the start of a group or between groups: reading can begin there."""


class ClassicCheck(LogCheck):
    """See `LogCheck`; at *start* an event begins."""

    def __init__(self, scope: CheckScope) -> None:
        super().__init__(scope)
        self._scratch = Scratch()
        self._history = GtidHistory()
        self._set_history = SetHistory()
        self._fragments = FragmentWalk()

    def findings(self) -> Iterator[Finding]:
        """See `LogCheck`."""
        listing = find_files(self._directory, self._only)
        newest = max(listing)
        numbers = [
            number
            for number in listing
            if (self._start is None or number >= self._start.file_no)
            and (self._end is None or number <= self._end.file_no)
        ]
        if not numbers:
            raise StartError("POSITION_NOT_FOUND", f"{self._directory.path}: no file holds a part of the range")
        self._total = sum(listing[number].size for number in numbers)
        expected = numbers[0]
        for number in numbers:
            if number != expected:
                missing = str(expected) if number == expected + 1 else f"{expected} to {number - 1}"
                reason = f"files with the numbers {missing} are not there, but those before and after are"
                at = Place(self._directory.path_of(listing[number].name))
                yield Finding.of(DataLossError("FILE_PURGED", reason, at=at))
                self._forget()
            expected = number + 1
            try:
                file = open_file(self._directory, number, listing[number])
            except BinlogError as error:
                yield Finding.of(error)
                self._forget()
                continue
            with closing(file):
                yield from self._check_file(file, is_newest=number == newest)
            self._done += listing[number].size
            self._progress(self._done)

    def _check_file(self, file: ClassicFile, *, is_newest: bool) -> Iterator[Finding]:
        if file.description is None:
            reason = "the file holds no event yet" if is_newest else "the file holds no event: its server was killed"
            yield Finding.remark(NOT_YET if is_newest else NOTE, file.place(0), reason)
            return
        yield from self._check_gtid_list(file)
        start, limit = file.events_start, NO_LIMIT
        if self._start is not None and self._start.file_no == file.file_no:
            start = max(start, byte_of(self._start))
            self._forget()
        if self._end is not None and self._end.file_no == file.file_no:
            limit = byte_of(self._end)
        if start > file.size():
            raise StartError("POSITION_NOT_FOUND", f"the file has {file.size()} bytes", at=file.place(start))
        position: int | None = start
        while position is not None:
            scan = ClassicFileScan(file, position, limit, self._scratch, verify=True)
            self._fragments.forget()
            try:
                for piece in scan.pieces():
                    yield from self._take_groups(file, piece)
                    yield from self._take_fragments(file, piece)
                    self._progress(self._done + piece.next_offset)
            except BinlogError as error:
                yield Finding.of(error)
                self._forget()
                if error.at is None or error.at.byte is None:
                    return
                position = yield from self._next_group(file, error.at.byte)
                continue
            yield from self._check_end(file, scan, is_newest=is_newest)
            position = None

    def _check_end(self, file: ClassicFile, scan: ClassicFileScan, *, is_newest: bool) -> Iterator[Finding]:
        assert file.description is not None
        if scan.stop is not ScanStop.INCOMPLETE:
            return
        what = "an event" if scan.has_incomplete_event else "an event group"
        at = file.place(scan.stopped_at)
        if not file.description.in_use:
            reason = f"{what} is cut off by the end of a file that its server closed"
            yield Finding.of(CorruptError("BAD_EVENT", reason, at=at))
        elif is_newest:
            yield Finding.remark(NOT_YET, at, f"{what} begins here that does not end on disk")
        else:
            yield Finding.remark(NOTE, at, f"{what} was not finished: its server was killed")

    def _next_group(self, file: ClassicFile, offset: int) -> Generator[Finding, None, int | None]:
        """Walk from the damaged event at *offset* to where reading can begin again; None: nowhere.

        The checksums of the events on the way are verified.
        """
        assert file.description is not None
        checksum_size = file.description.checksum_size
        size_max = file.size()
        is_first = True
        while offset < size_max:
            header = file.read(offset, EVENT_HEADER_SIZE).tobytes()
            if len(header) < EVENT_HEADER_SIZE:
                break
            _, event_type, _, size, _, _ = EVENT_HEADER_STRUCT.unpack(header)
            if not EVENT_HEADER_SIZE + checksum_size <= size <= min(EVENT_SIZE_MAX, size_max - offset):
                break
            if not is_first:
                if EVENT_CLASSES[file.description.vendor][event_type] in _BETWEEN_GROUPS:
                    return offset
                event = file.read(offset, size)
                stored = CHECKSUM_STRUCT.unpack_from(event.data, size - checksum_size)[0] if checksum_size else 0
                computed = zlib.crc32(event[: size - checksum_size].data) if checksum_size else 0
                if stored != computed:
                    yield Finding.of(checksum_error(stored, computed, file.place(offset)))
            is_first = False
            offset += size
        if offset < size_max:
            yield Finding.remark(NOTE, file.place(offset), "from here on nothing in this file can be checked")
        return None

    def _check_gtid_list(self, file: ClassicFile) -> Iterator[Finding]:
        """Check that the GTIDs at a file's start equal those of the groups before it."""
        at = file.place(file.events_start)
        if file.previous_gtids is not None:
            if lacking := self._set_history.lacking(file.previous_gtids):
                yield Finding.of(CorruptError("GTID_STATE", f"PREVIOUS_GTIDS: it lacks {lacking}", at=at))
            if beyond := self._set_history.beyond(file.previous_gtids):
                # SET gtid_purged makes a server record transactions that it never logged.
                yield Finding.remark(NOTE, at, f"PREVIOUS_GTIDS: {beyond} is in none of the files before")
            self._set_history.begin(file.previous_gtids)
            return
        if file.gtid_list is None:
            self._forget()
            return
        if self._history.is_known:
            for reason in (*self._history.differences(file.gtid_list), *self._history.lacking(file.gtid_list)):
                yield Finding.of(CorruptError("GTID_STATE", f"GTID list: {reason}", at=at))
        self._history.begin(file.gtid_list)

    def _take_groups(self, file: ClassicFile, piece: Piece) -> Iterator[Finding]:
        groups = piece.groups[piece.groups["ends"]]
        if piece.vendor is Vendor.MYSQL:
            for offset, gtid in self._set_history.take(groups, piece.gtid_sources):
                yield Finding.remark(NOTE, file.place(offset), f"{gtid} is there a second time")
            return
        for offset, gtid, before in self._history.take(groups):
            yield Finding.remark(NOTE, file.place(offset), f"{gtid} comes after {before}")

    def _take_fragments(self, file: ClassicFile, piece: Piece) -> Iterator[Finding]:
        if self._fragments.concerns(piece.events):
            place = partial(_place, file, piece.file_offset)
            yield from self._fragments.findings(piece.data, piece.events, piece.groups, place)

    def _forget(self) -> None:
        """Forget the GTIDs: a part could not be read, so they prove nothing until the start of the next file."""
        self._history.forget()
        self._set_history.forget()


def _place(file: ClassicFile, file_offset: int, byte: int) -> Place:
    return file.place(file_offset + byte)
