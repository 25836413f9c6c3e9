"""The bytes of a classic file that the server will not write again: `ClassicFinalFile`.

Files only grow, group by group. A server that was killed cuts the end of its last file back to the last whole group.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlog_format.block import BLOCK_SIZE
from binlog_format.classic.event_check_kernels import check_events
from binlog_format.classic.file import checksum_error
from binlog_format.classic.file_scan import NO_LIMIT, ClassicFileScan, Scratch
from binlog_format.classic.layout import MAGIC_SIZE
from binlog_format.classic.log_scan import position_of
from binlog_format.errors import CorruptError
from binlog_format.events.layout import EVENT_FLAGS_OFFSET
from binlog_format.live_files import FinalBlock, FinalFile

if TYPE_CHECKING:
    from collections.abc import Iterator

    from binlog_format.classic.file import ClassicFile
    from binlog_format.kernels import Bytes
    from binlog_format.position import Position

IN_USE_BYTE = MAGIC_SIZE + EVENT_FLAGS_OFFSET
"""After the magic of a classic file stands its Format_description event. The flag LOG_EVENT_BINLOG_IN_USE_F in it is
cleared when the file is closed, so this byte does not tell who wrote the file."""


class ClassicFinalFile(FinalFile):
    """See `FinalFile`."""

    def __init__(self, file: ClassicFile, identity: str, *, is_complete: bool) -> None:
        self.file_no = file.file_no
        self.source = file.source
        self.identity = identity
        self.is_complete = self.is_sealed = is_complete
        self._file = file

    def blocks(self, start: int) -> Iterator[FinalBlock]:
        """See `FinalFile`: whole event groups; of a complete file also what a killed server left after them."""
        done = start
        if self._file.description is not None:
            if done < self._file.events_start:
                yield FinalBlock(self._file.read(done, self._file.events_start - done), may_end=True)
                done = self._file.events_start
            for block in self._groups(done):
                yield block
                done += len(block.data)
        while self.is_complete and len(data := self._file.read(done, BLOCK_SIZE)):
            yield FinalBlock(data, may_end=True)
            done += len(data)

    def position_at(self, size: int) -> Position:
        """See `FinalFile`."""
        return position_of(self.file_no, size)

    def _groups(self, start: int) -> Iterator[FinalBlock]:
        """Whole groups and the events between them.

        Headers show where groups end; the bytes that are given are read once, and their checksums computed.
        """
        scan = ClassicFileScan(self._file, start, NO_LIMIT, Scratch(), verify=False)
        done = start
        for piece in scan.pieces():
            yield FinalBlock(self._checked(done, piece.next_offset), may_end=bool(piece.groups["ends"][-1]))
            done = piece.next_offset
        if done < scan.stopped_at:
            yield FinalBlock(self._checked(done, scan.stopped_at), may_end=True)

    def _checked(self, start: int, end: int) -> Bytes:
        assert self._file.description is not None, "a file without Format_description event has no groups"
        data = self._file.read(start, end - start)
        check = check_events(data, len(data), self._file.description.checksum_size)
        if check.checked < end - start:
            at = self._file.place(start + check.checked)
            if check.stored != check.computed:
                raise checksum_error(check.stored, check.computed, at)
            raise CorruptError("BAD_EVENT", "an event has another size than it had a moment ago", at=at)
        return data
