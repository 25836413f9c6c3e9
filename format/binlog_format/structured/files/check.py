"""Checks everything in a structured log that can be checked without its arguments: `StructuredCheck`."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from binlog_format.errors import CorruptError, StartError
from binlog_format.log_format import NOT_YET, NOTE, Finding, LogCheck
from binlog_format.position import BEFORE_ALL, Place, byte_of
from binlog_format.structured.file_scan import NO_LIMIT, FileEnd, StructuredFileScan
from binlog_format.structured.files.file_list import list_series
from binlog_format.structured.scan import EntryScanner

if TYPE_CHECKING:
    from collections.abc import Iterator

    from binlog_format.log_format import CheckScope
    from binlog_format.structured.files.file_list import SeriesFile

_REMARKS = {
    FileEnd.INCOMPLETE: ("an entry begins here that does not end on disk", "an entry was not finished by its program"),
    FileEnd.ZEROS: ("zeros up to the end of the file", "zeros up to the end of the file"),
}
"""Remarks on the end of the newest file, and of an older one."""


class StructuredCheck(LogCheck):
    """See `LogCheck`; at *start* an entry begins."""

    def __init__(self, scope: CheckScope) -> None:
        super().__init__(scope)
        self._series = list_series(scope.directory, scope.only)
        self._begin = BEFORE_ALL if scope.start is None else scope.start
        # What is in force before *start* is found on the way to it.
        self._scanner = EntryScanner(is_missing_ok=scope.start is not None)
        self._damage: list[Finding] = []

    def findings(self) -> Iterator[Finding]:
        """See `LogCheck`."""
        begun = self._series.begun
        if self._begin != BEFORE_ALL and self._begin.file_no not in begun:
            at = Place(self._series.path)
            raise StartError("POSITION_NOT_FOUND", f"there is no file with the number {self._begin.file_no}", at=at)
        self._total = sum(file.size for file in begun.values())
        for file in begun.values():
            if self._end is not None and file.file_no > self._end.file_no:
                break
            for byte, finding in self._check_file(file, is_newest=file.file_no == max(begun)):
                if finding is not None:
                    yield finding
                self._progress(self._done + byte)
            self._done += file.size
        for file in self._series.unwritten:
            at = Place(self._series.directory.path_of(file.name))
            yield Finding.remark(NOT_YET, at, "there is no event in the file yet")

    def _check_file(self, file: SeriesFile, *, is_newest: bool) -> Iterator[tuple[int, Finding | None]]:
        """Give each finding, or None after a block, with the byte of the file that has been reached."""
        start = byte_of(self._begin) if file.file_no == self._begin.file_no else 0
        limit = byte_of(self._end) if self._end is not None and file.file_no == self._end.file_no else NO_LIMIT
        with closing(self._series.open(file.file_no)) as source:
            if file.file_no < self._begin.file_no or start:
                before = StructuredFileScan(
                    source, file.file_no, self._scanner, limit=start or NO_LIMIT, on_damage=_pass_over
                )
                for block in before.blocks():
                    yield block.file_offset, None
            if file.file_no < self._begin.file_no:
                return
            self._scanner.is_missing_ok = False
            scan = StructuredFileScan(
                source, file.file_no, self._scanner, start=start, limit=limit, on_damage=self._note_damage
            )
            for block in scan.blocks():
                yield from ((scan.stopped_at, finding) for finding in self._taken_damage())
                yield block.file_offset + len(block.data), None
            yield from ((scan.stopped_at, finding) for finding in self._taken_damage())
            if scan.ended in _REMARKS:
                reason = _REMARKS[scan.ended][0 if is_newest else 1]
                at = Place(source.path, byte=scan.stopped_at)
                yield scan.stopped_at, Finding.remark(NOT_YET if is_newest else NOTE, at, reason)

    def _note_damage(self, error: CorruptError, until: int) -> None:
        self._damage.append(Finding.of(error))
        assert error.at is not None
        reason = f"from here on entries can be read again: {until - (error.at.byte or 0):,} bytes were passed over"
        self._damage.append(Finding.remark(NOTE, Place(error.at.file, byte=until), reason))

    def _taken_damage(self) -> list[Finding]:
        found, self._damage = self._damage, []
        return found


def _pass_over(_error: CorruptError, _until: int) -> None:
    """Ignore damage before the start of a check: it is no finding of it."""
